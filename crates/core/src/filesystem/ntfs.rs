//! NTFS with ntfs3, the kernel's own driver since Linux 5.15, which Debian builds since 6.12. ntfs3 does not
//! write to the journal.

use crate::Tool;
use super::{Descriptor, Identifier, axis};

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "ntfs",
    kernel_type: "ntfs3",
    module: "ntfs3",
    debian_kernel: "6.12",
    tools: &Tool::of_package("ntfs-3g", "--version", ["mkfs.ntfs", "ntfslabel", "ntfsfix"]),
    axes: &[axis("block_size", "4k")],
    has_journal: false,
    is_exportable: true,
    barrier_off: &[],
    threads: &[],
    identifier: Identifier::Serial64,
}];
