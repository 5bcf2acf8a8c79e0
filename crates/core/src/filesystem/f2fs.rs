//! F2FS, a log-structured filesystem.

use crate::Tool;
use super::{Descriptor, Identifier, ThreadName, axis};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "f2fs",
    kernel_type: "f2fs",
    module: "f2fs",
    debian_kernel: "6.1",
    tools: &Tool::of_package("f2fs-tools", "-V", ["mkfs.f2fs", "fsck.f2fs"]),
    axes: &[axis("block_size", "4k"), axis("barrier", "1")],
    has_journal: false,
    is_exportable: true,
    barrier_off: &["nobarrier"],
    threads: &[
        ThreadName::anonymous(TaskKind::Journal, "f2fs_ckpt"),
        ThreadName::of_device(TaskKind::Filesystem, "f2fs"),
    ],
    identifier: Identifier::Uuid,
}];
