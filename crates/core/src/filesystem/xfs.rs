//! XFS.

use crate::Tool;
use super::{Descriptor, Identifier, ThreadName, axis, sized};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "xfs",
    kernel_type: "xfs",
    module: "xfs",
    debian_kernel: "6.1",
    tools: &Tool::of_package("xfsprogs", "-V", ["mkfs.xfs", "xfs_repair"]),
    axes: &[
        axis("block_size", "4k"),
        axis("barrier", "1"),
        axis("journal", "internal"),
        sized("agcount"),
        sized("log_size"),
        axis("logbufs", "8"),
        axis("logbsize", "32k"),
        axis("lazy_count", "1"),
    ],
    has_journal: true,
    is_exportable: true,
    // Until Linux 4.19.
    barrier_off: &["nobarrier"],
    threads: &[
        ThreadName::of_device(TaskKind::Journal, "xfsaild/"),
        ThreadName::of_device(TaskKind::Journal, "xfs-cil/"),
        ThreadName::of_device(TaskKind::Journal, "xfs-log/"),
        ThreadName::of_device(TaskKind::Filesystem, "xfs-"),
        ThreadName::of_device(TaskKind::Filesystem, "xfs_"),
        ThreadName::of_device(TaskKind::Filesystem, "xfsalloc"),
    ],
    identifier: Identifier::Uuid,
}];
