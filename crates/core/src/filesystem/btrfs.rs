//! Btrfs. Its trees are never overwritten in place, so it needs no journal.

use crate::Tool;
use super::{Descriptor, Identifier, ThreadName, axis, sized};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "btrfs",
    kernel_type: "btrfs",
    module: "btrfs",
    debian_kernel: "6.1",
    tools: &Tool::of_package("btrfs-progs", "--version", ["mkfs.btrfs", "btrfs"]),
    axes: &[
        axis("block_size", "4k"),
        axis("barrier", "1"),
        axis("journal", "internal"),
        axis("commit", "30"),
        axis("compress", "no"),
        axis("datacow", "1"),
        axis("flushoncommit", "0"),
        // mkfs.btrfs chooses dup on one disk, and raid1 on several.
        sized("profile"),
        axis("data_profile", "single"),
    ],
    has_journal: false,
    is_exportable: true,
    barrier_off: &["nobarrier"],
    threads: &[
        // Kernels before 5.17 truncate the name of `btrfs-transaction`.
        ThreadName::anonymous(TaskKind::Journal, "btrfs-transacti"),
        ThreadName::of_device(TaskKind::Filesystem, "btrfs-"),
    ],
    identifier: Identifier::Uuid,
}];
