//! FAT32 with long names. It has no journal, and flushes only when a program asks for it.

use crate::Tool;
use super::{Descriptor, Identifier, sized};

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "vfat",
    kernel_type: "vfat",
    module: "vfat",
    debian_kernel: "6.1",
    tools: &[
        Tool::new("mkfs.vfat", "dosfstools", "--help"),
        // There is no such argument. Whatever it is given to check, its output begins with the version.
        Tool::new("fsck.vfat", "dosfstools", "/dev/null"),
    ],
    // mkfs.vfat chooses a size that suits the device.
    axes: &[sized("block_size")],
    has_journal: false,
    is_exportable: false,
    barrier_off: &[],
    threads: &[],
    identifier: Identifier::Serial32,
}];
