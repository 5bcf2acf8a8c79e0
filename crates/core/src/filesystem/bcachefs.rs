//! bcachefs, which was in the kernel from Linux 6.7 to 6.17. Its trees are never overwritten in place; its
//! journal is a part of each device.

use crate::Tool;
use super::{Descriptor, Identifier, ThreadName, sized};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[Descriptor {
    name: "bcachefs",
    kernel_type: "bcachefs",
    module: "bcachefs",
    debian_kernel: "6.12",
    tools: &[Tool::new("bcachefs", "", "version")],
    // That of the device.
    axes: &[sized("block_size")],
    has_journal: false,
    is_exportable: true,
    barrier_off: &[],
    threads: &[
        ThreadName::of_device(TaskKind::Journal, "bch-reclaim"),
        ThreadName::of_device(TaskKind::Filesystem, "bch-"),
        ThreadName::anonymous(TaskKind::Journal, "bcachefs_journal"),
        ThreadName::anonymous(TaskKind::Filesystem, "bcachefs"),
    ],
    identifier: Identifier::HiddenUuid,
}];
