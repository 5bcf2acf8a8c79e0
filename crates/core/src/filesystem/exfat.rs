//! exFAT, in the kernel since Linux 5.7. It has no journal, and flushes only when a program asks for it.

use crate::Tool;
use super::{Descriptor, Identifier, sized};

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "exfat",
    kernel_type: "exfat",
    module: "exfat",
    debian_kernel: "6.1",
    tools: &Tool::of_package("exfatprogs", "-V", ["mkfs.exfat", "tune.exfat", "fsck.exfat"]),
    // mkfs.exfat chooses a size that suits the device.
    axes: &[sized("block_size")],
    has_journal: false,
    is_exportable: false,
    barrier_off: &[],
    threads: &[],
    identifier: Identifier::Serial32,
}];
