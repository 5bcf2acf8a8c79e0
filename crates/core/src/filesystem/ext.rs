//! ext2, ext3 and ext4: one family of tools and, since Linux 4.3, one driver (CONFIG_EXT4_USE_FOR_EXT2).

use crate::Tool;
use super::{Descriptor, Identifier, OwnAxis, ThreadName, axis, sized};
use crate::telemetry::TaskKind;

pub(super) const FAMILY: &[Descriptor] = &[
    Descriptor {
        name: "ext2",
        kernel_type: "ext2",
        tools: &Tool::of_package(PACKAGE, VERSION, ["mkfs.ext2", "e2fsck", "dumpe2fs"]),
        axes: &[BLOCK_SIZE, BARRIER, axis("journal", "none"), INODE_SIZE],
        has_journal: false,
        is_exportable: true,
        ..EXT
    },
    Descriptor {
        name: "ext3",
        kernel_type: "ext3",
        tools: &Tool::of_package(PACKAGE, VERSION, ["mkfs.ext3", "mke2fs", "e2fsck", "dumpe2fs"]),
        axes: &[BLOCK_SIZE, BARRIER, JOURNAL, DATA, COMMIT, JOURNAL_SIZE, INODE_SIZE],
        ..EXT
    },
    Descriptor {
        name: "ext4",
        kernel_type: "ext4",
        tools: &Tool::of_package(PACKAGE, VERSION, ["mkfs.ext4", "mke2fs", "e2fsck", "dumpe2fs"]),
        axes: &[
            BLOCK_SIZE,
            BARRIER,
            JOURNAL,
            DATA,
            COMMIT,
            axis("delalloc", "1"),
            axis("journal_async_commit", "0"),
            JOURNAL_SIZE,
            INODE_SIZE,
        ],
        ..EXT
    },
];

const EXT: Descriptor = Descriptor {
    name: "",
    kernel_type: "",
    module: "ext4",
    debian_kernel: "6.1",
    tools: &[],
    axes: &[],
    has_journal: true,
    is_exportable: true,
    barrier_off: &["nobarrier", "barrier=0"],
    threads: &[
        ThreadName::of_device(TaskKind::Journal, "jbd2/"),
        ThreadName::of_device(TaskKind::Filesystem, "ext4-"),
        ThreadName::anonymous(TaskKind::LazyInit, "ext4lazyinit"),
    ],
    identifier: Identifier::Uuid,
};

const PACKAGE: &str = "e2fsprogs";
const VERSION: &str = "-V";

/// On devices of 512 MiB and more.
const BLOCK_SIZE: OwnAxis = axis("block_size", "4k");
const BARRIER: OwnAxis = axis("barrier", "1");
const JOURNAL: OwnAxis = axis("journal", "internal");
const DATA: OwnAxis = axis("data", "ordered");
const COMMIT: OwnAxis = axis("commit", "5");
const JOURNAL_SIZE: OwnAxis = sized("journal_size");
const INODE_SIZE: OwnAxis = axis("inode_size", "256");
