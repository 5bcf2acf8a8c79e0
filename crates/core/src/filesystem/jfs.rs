//! JFS.

use crate::Tool;
use super::{Descriptor, Identifier, ThreadName, axis, sized};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "jfs",
    kernel_type: "jfs",
    module: "jfs",
    debian_kernel: "6.1",
    tools: &Tool::of_package("jfsutils", "-V", ["mkfs.jfs", "jfs_tune", "fsck.jfs"]),
    axes: &[axis("block_size", "4k"), axis("journal", "internal"), sized("journal_size")],
    has_journal: true,
    is_exportable: true,
    // It flushes whenever it commits.
    barrier_off: &[],
    threads: &[
        ThreadName::anonymous(TaskKind::Journal, "jfsCommit"),
        ThreadName::anonymous(TaskKind::Journal, "jfsIO"),
        ThreadName::anonymous(TaskKind::Journal, "jfsSync"),
    ],
    identifier: Identifier::Uuid,
}];
