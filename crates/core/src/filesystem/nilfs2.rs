//! NILFS2, a log-structured filesystem.

use crate::Tool;
use super::{Descriptor, Identifier, ThreadName, axis};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "nilfs2",
    kernel_type: "nilfs2",
    module: "nilfs2",
    debian_kernel: "6.1",
    tools: &[
        Tool::new("mkfs.nilfs2", "nilfs-tools", "-V"),
        Tool::new("nilfs-tune", "nilfs-tools", "-h"),
    ],
    axes: &[axis("block_size", "4k"), axis("barrier", "1")],
    has_journal: false,
    is_exportable: true,
    barrier_off: &["nobarrier"],
    threads: &[ThreadName::anonymous(TaskKind::Journal, "segctord")],
    identifier: Identifier::Uuid,
}];
