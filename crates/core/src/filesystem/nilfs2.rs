//! NILFS2, a log-structured filesystem.

use super::{Descriptor, Identifier, ThreadName, Tool, axis};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "nilfs2",
    kernel_type: "nilfs2",
    module: "nilfs2",
    debian_kernel: "6.1",
    tools: &[
        Tool { program: "mkfs.nilfs2", package: "nilfs-tools", version_argument: "-V" },
        Tool { program: "nilfs-tune", package: "nilfs-tools", version_argument: "-h" },
    ],
    axes: &[axis("block_size", "4k"), axis("barrier", "1")],
    has_journal: false,
    is_exportable: true,
    barrier_off: &["nobarrier"],
    threads: &[ThreadName::anonymous(TaskKind::Journal, "segctord")],
    identifier: Identifier::Uuid,
}];
