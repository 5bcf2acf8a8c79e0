//! ReiserFS (version 3), which was part of Linux until 6.12.

use crate::Tool;
use super::{Descriptor, Identifier, ThreadName, axis, sized};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "reiserfs",
    kernel_type: "reiserfs",
    module: "reiserfs",
    debian_kernel: "6.1",
    tools: &Tool::of_package("reiserfsprogs", "-V", ["mkfs.reiserfs", "reiserfsck"]),
    axes: &[
        axis("block_size", "4k"),
        axis("barrier", "1"),
        axis("journal", "internal"),
        axis("data", "ordered"),
        axis("commit", "30"),
        sized("journal_size"),
    ],
    has_journal: true,
    is_exportable: true,
    barrier_off: &["barrier=none"],
    threads: &[ThreadName::anonymous(TaskKind::Journal, "reiserfs/")],
    identifier: Identifier::Uuid,
}];
