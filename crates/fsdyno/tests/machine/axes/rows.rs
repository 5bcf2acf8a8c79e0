//! Settings of every axis, and what must be seen of them.

use fsdyno_testbed::filesystem;
use fsdyno_testbed::words::Takes;

/// The evidence, from outside the testbed, that a row is in force.
#[derive(Debug, Clone, Copy)]
pub enum Evidence {
    /// The mount shows this option.
    Option(&'static str),
    /// The mount does not show it.
    NoOption(&'static str),
    /// The tools' description of the filesystem contains this, with any run of white space counted as one
    /// space.
    Geometry(&'static str),
    /// It does not contain this.
    NoGeometry(&'static str),
    /// statfs(2).
    BlockSize(u64),
    /// A file below the queue directory of the device contains this.
    Queue(&'static str, &'static str),
    /// A sysctl has this value.
    Sysctl(&'static str, &'static str),
    /// It is skipped, for a reason that contains this.
    Unmet(&'static str),
    /// The plan is rejected, for a reason that contains this.
    Contradiction(&'static str),
}

pub use Evidence::{
    BlockSize, Contradiction, Geometry, NoGeometry, NoOption, Option as Shows, Queue, Sysctl, Unmet,
};
/// One filesystem to create: settings, and how to verify them.
pub struct Row {
    pub filesystem: &'static str,
    pub settings: Vec<(&'static str, &'static str)>,
    pub evidence: Vec<Evidence>,
}

pub fn row(
    filesystem: &'static str,
    settings: &[(&'static str, &'static str)],
    evidence: &[Evidence],
) -> Row {
    Row { filesystem, settings: settings.to_vec(), evidence: evidence.to_vec() }
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub fn common(name: &'static str) -> Vec<Row> {
    let words = filesystem::find(name).expect("a filesystem").mkfs_words().iter();
    let mut flags =
        words.filter(|(takes, _, _)| matches!(takes, Takes::Nothing)).flat_map(|(_, _, names)| *names);
    // The verbosity of mkfs changes nothing else.
    let verbosity = flags.find(|flag| ["-q", "-v"].contains(*flag)).expect("a flag");
    vec![
        row(name, &[("block_size", "4k"), ("mkfs", verbosity)], &[BlockSize(4096)]),
        row(
            name,
            &[
                ("atime", "strictatime"),
                ("scheduler", "none"),
                ("readahead", "256k"),
                ("rq_affinity", "0"),
                ("merges", "all"),
            ],
            &[
                Queue("rq_affinity", "0"),
                Queue("nomerges", "0"),
                NoOption("relatime"),
                NoOption("noatime"),
                Queue("scheduler", "[none]"),
                Queue("read_ahead_kb", "256"),
            ],
        ),
        row(
            name,
            &[
                ("atime", "relatime"),
                ("scheduler", "mq-deadline"),
                ("nr_requests", "64"),
                ("max_request", "256k"),
                ("rq_affinity", "1"),
                ("merges", "simple"),
            ],
            &[
                Queue("rq_affinity", "1"),
                Queue("nomerges", "1"),
                Shows("relatime"),
                Queue("scheduler", "[mq-deadline]"),
                Queue("nr_requests", "64"),
                Queue("max_sectors_kb", "256"),
            ],
        ),
        row(
            name,
            &[
                ("atime", "noatime"),
                ("scheduler", "kyber"),
                ("write_cache", "write-through"),
                ("rq_affinity", "2"),
                ("merges", "none"),
                ("sysctl.vm.dirty_bytes", "67108864"),
            ],
            &[
                Queue("write_cache", "write through"),
                Queue("rq_affinity", "2"),
                Queue("nomerges", "2"),
                Shows("noatime"),
                Queue("scheduler", "[kyber]"),
                Sysctl("vm/dirty_bytes", "67108864"),
            ],
        ),
        row(
            name,
            &[
                ("atime", "nodiratime"),
                ("scheduler", "bfq"),
                ("write_cache", "write-back"),
                ("sysctl.vm.dirty_ratio", "11"),
            ],
            &[
                Queue("write_cache", "write back"),
                Shows("nodiratime"),
                Queue("scheduler", "[bfq]"),
                Sysctl("vm/dirty_ratio", "11"),
            ],
        ),
        row(name, &[("mount", "noatime,nodev")], &[Shows("noatime"), Shows("nodev")]),
        row(
            name,
            &[("mount", "noatime"), ("atime", "relatime")],
            &[Contradiction("'noatime' contradicts 'relatime'")],
        ),
        row(name, &[("nr_requests", "1")], &[Contradiction("the minimum is 4")]),
        row(name, &[("max_request", "512")], &[Contradiction("it must be a multiple of 1 KiB")]),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub fn ext() -> Vec<Row> {
    let mut rows = vec![
        row("ext2", &[("journal", "none")], &[NoGeometry("has_journal")]),
        row("ext2", &[("journal", "internal")], &[Contradiction("ext2 has no journal")]),
        row("ext2", &[("journal", "external")], &[Contradiction("ext2 has no journal")]),
        row("ext3", &[("journal", "none")], &[Contradiction("ext3 without a journal is ext2")]),
        row("ext4", &[("journal", "none")], &[NoGeometry("has_journal")]),
        row("ext4", &[("journal", "none"), ("commit", "9")], &[Contradiction("commit")]),
        row("ext4", &[("delalloc", "0")], &[Shows("nodelalloc")]),
        row("ext4", &[("delalloc", "1")], &[NoOption("nodelalloc")]),
        row("ext4", &[("delalloc", "1"), ("data", "journal")], &[Contradiction("delayed allocation")]),
        row(
            "ext4",
            &[("journal_async_commit", "1"), ("data", "writeback")],
            &[Shows("journal_async_commit")],
        ),
        row("ext4", &[("journal_async_commit", "0")], &[NoOption("journal_async_commit")]),
        row("ext4", &[("journal_async_commit", "1")], &[Contradiction("data = ordered")]),
        row("ext4", &[("journal", "external"), ("journal_size", "8M")], &[Contradiction("whole device")]),
        row(
            "ext4",
            &[("mkfs", "-O ^metadata_csum -E stride=4 -m 0")],
            &[NoGeometry("metadata_csum"), Geometry("RAID stride: 4"), Geometry("Reserved block count: 0")],
        ),
    ];
    for name in ["ext3", "ext4"] {
        rows.extend([
            row(name, &[("journal", "internal")], &[Geometry("Journal inode: 8")]),
            row(name, &[("journal", "external")], &[Geometry("Journal UUID"), NoGeometry("Journal inode")]),
            row(
                name,
                &[("journal", "external"), ("block_size", "1k"), ("data", "journal"), ("barrier", "0")],
                &[Geometry("Journal UUID"), BlockSize(1024), Shows("data=journal"), Shows("nobarrier")],
            ),
            row(
                name,
                &[("journal", "external"), ("mkfs", "-b 2048 -m 0")],
                &[Geometry("Journal UUID"), BlockSize(2048)],
            ),
            row(name, &[("data", "journal")], &[Shows("data=journal")]),
            row(name, &[("data", "ordered")], &[NoOption("data=journal"), NoOption("data=writeback")]),
            row(name, &[("data", "writeback")], &[Shows("data=writeback")]),
            row(
                name,
                &[("commit", "30"), ("journal_size", "16M")],
                &[Shows("commit=30"), Geometry("journal size: 16M")],
            ),
            row(name, &[("commit", "5")], &[NoOption("commit=30")]),
            row(name, &[("journal_size", "1M")], &[Contradiction("a multiple of 1 MiB from 4M")]),
            row(name, &[("journal_size", "400M")], &[Unmet("half of it")]),
        ]);
    }
    for name in ["ext2", "ext3", "ext4"] {
        rows.extend([
            row(name, &[("barrier", "0")], &[Shows("nobarrier")]),
            row(name, &[("barrier", "1")], &[NoOption("nobarrier")]),
            row(
                name,
                &[("block_size", "1k"), ("inode_size", "128")],
                &[BlockSize(1024), Geometry("Inode size: 128")],
            ),
            row(
                name,
                &[("block_size", "2k"), ("inode_size", "512")],
                &[BlockSize(2048), Geometry("Inode size: 512")],
            ),
            row(name, &[("block_size", "16k")], &[Unmet("memory pages of that size")]),
            row(name, &[("block_size", "3k")], &[Contradiction("power of two")]),
            row(name, &[("mkfs", "-m 1")], &[Geometry("Reserved block count:")]),
        ]);
    }
    rows
}

pub fn xfs() -> Vec<Row> {
    vec![
        row("xfs", &[("barrier", "1")], &[NoOption("nobarrier")]),
        row("xfs", &[("barrier", "0")], &[Unmet("since Linux 4.19")]),
        row("xfs", &[("mount", "nobarrier")], &[Unmet("since Linux 4.19")]),
        row("xfs", &[("journal", "internal")], &[Geometry("log =internal log")]),
        row("xfs", &[("journal", "none")], &[Contradiction("always has a log")]),
        row("xfs", &[("journal", "external")], &[Shows("logdev=/dev/"), NoGeometry("log =internal log")]),
        row(
            "xfs",
            &[
                ("journal", "external"),
                ("log_size", "64M"),
                ("logbufs", "2"),
                ("logbsize", "256k"),
                ("agcount", "8"),
            ],
            &[
                Shows("logbufs=2"),
                Shows("logbsize=256k"),
                Geometry("agcount=8"),
                Geometry("blocks=16384, version=2"),
            ],
        ),
        row("xfs", &[("logbufs", "8"), ("logbsize", "16k")], &[Shows("logbufs=8"), Shows("logbsize=16k")]),
        row("xfs", &[("logbufs", "9")], &[Contradiction("(2-8)")]),
        row("xfs", &[("logbsize", "48k")], &[Contradiction("128k or 256k")]),
        row("xfs", &[("log_size", "80M")], &[Geometry("blocks=20480, version=2")]),
        row("xfs", &[("log_size", "16M")], &[Unmet("nearest: log_size = 64M")]),
        row("xfs", &[("log_size", "300M")], &[Unmet("does not fit")]),
        row("xfs", &[("agcount", "1")], &[Unmet("nearest: agcount = 2")]),
        row("xfs", &[("agcount", "64")], &[Unmet("less than 16M each; nearest: agcount = 32")]),
        row("xfs", &[("agcount", "32"), ("journal", "external")], &[Geometry("agcount=32")]),
        row("xfs", &[("lazy_count", "1")], &[Geometry("lazy-count=1")]),
        row("xfs", &[("lazy_count", "0")], &[Unmet("lazy_count = 1")]),
        row("xfs", &[("block_size", "1k")], &[BlockSize(1024)]),
        row("xfs", &[("block_size", "512")], &[Unmet("block_size = 1k")]),
        row(
            "xfs",
            &[("mkfs", "-i size=1024 -n size=8192")],
            &[Geometry("isize=1024"), Geometry("bsize=8192")],
        ),
    ]
}

pub fn btrfs() -> Vec<Row> {
    let spread = ["raid0", "raid1", "raid10", "raid5"].into_iter().flat_map(|profile| {
        let needs = [Contradiction("at least 2 disks")];
        [row("btrfs", &[("profile", profile)], &needs), row("btrfs", &[("data_profile", profile)], &needs)]
    });
    let own = vec![
        row("btrfs", &[("barrier", "1")], &[NoOption("nobarrier")]),
        row("btrfs", &[("barrier", "0")], &[Shows("nobarrier")]),
        row("btrfs", &[("journal", "internal")], &[Shows("rw")]),
        row("btrfs", &[("journal", "none")], &[Unmet("notreelog")]),
        row("btrfs", &[("journal", "external")], &[Unmet("another device")]),
        row("btrfs", &[("commit", "7")], &[Shows("commit=7")]),
        row("btrfs", &[("commit", "30")], &[NoOption("commit=5")]),
        row("btrfs", &[("compress", "no")], &[NoOption("compress=zstd:3")]),
        row("btrfs", &[("compress", "zlib")], &[Shows("compress=zlib:3")]),
        row("btrfs", &[("compress", "lzo")], &[Shows("compress=lzo")]),
        row("btrfs", &[("compress", "zstd")], &[Shows("compress=zstd:3")]),
        row("btrfs", &[("compress", "zstd:9")], &[Shows("compress=zstd:9")]),
        row("btrfs", &[("datacow", "0")], &[Shows("nodatacow")]),
        row("btrfs", &[("datacow", "1")], &[NoOption("nodatacow")]),
        row("btrfs", &[("flushoncommit", "0")], &[NoOption("flushoncommit")]),
        row("btrfs", &[("flushoncommit", "1")], &[Shows("flushoncommit")]),
        row("btrfs", &[("datacow", "0"), ("compress", "lzo")], &[Contradiction("excludes compression")]),
        row("btrfs", &[("profile", "single")], &[Geometry("Metadata: single")]),
        row("btrfs", &[("profile", "dup")], &[Geometry("Metadata: DUP")]),
        row("btrfs", &[("data_profile", "single")], &[Geometry("Data: single")]),
        row("btrfs", &[("data_profile", "dup")], &[Geometry("Data: DUP")]),
        row("btrfs", &[("block_size", "2k")], &[Contradiction("power of two")]),
        // On several disks: `pools`.
        row("btrfs", &[("profile", "raid6")], &[Contradiction("at least 3 disks")]),
        row("btrfs", &[("data_profile", "raid6")], &[Contradiction("at least 3 disks")]),
        row("btrfs", &[("mkfs", "--nodesize 32768")], &[Geometry("Node size: 32768")]),
    ];
    own.into_iter().chain(spread).collect()
}

/// The filesystems that not every kernel supports.
pub fn others() -> Vec<Row> {
    vec![
        row("f2fs", &[("barrier", "0")], &[Shows("nobarrier")]),
        row("f2fs", &[("barrier", "1")], &[NoOption("nobarrier")]),
        row(
            "f2fs",
            &[("block_size", "1k")],
            &[Contradiction("f2fs does not support blocks of 1k; supported: 4k")],
        ),
        row("f2fs", &[("mkfs", "-o 10")], &[Geometry("Overprovision ratio = 10")]),
        row("nilfs2", &[("barrier", "0")], &[Shows("nobarrier")]),
        row("nilfs2", &[("barrier", "1")], &[NoOption("nobarrier")]),
        row("nilfs2", &[("block_size", "1k")], &[BlockSize(1024), Geometry("Block size: 1024")]),
        row("nilfs2", &[("block_size", "512")], &[Contradiction("a power of two from 1k to 64k")]),
        row("nilfs2", &[("block_size", "64k")], &[Unmet("memory pages of that size")]),
        row("nilfs2", &[("mkfs", "-m 10")], &[Geometry("Reserved segments %: 10")]),
        row("jfs", &[("journal", "internal")], &[Geometry("JFS_INLINELOG")]),
        row("jfs", &[("journal", "external")], &[Unmet("nearest: journal = internal")]),
        row("jfs", &[("journal", "none")], &[Contradiction("always has a log")]),
        row("jfs", &[("journal_size", "8M")], &[Geometry("JFS_INLINELOG")]),
        row("jfs", &[("journal_size", "64M")], &[Unmet("jfs needs at least 640M")]),
        row("jfs", &[("journal_size", "100k")], &[Contradiction("a multiple of 1 MiB")]),
        row(
            "jfs",
            &[("block_size", "1k")],
            &[Contradiction("jfs does not support blocks of 1k; supported: 4k")],
        ),
        row("jfs", &[("mkfs", "-L fsdyno")], &[Geometry("'fsdyno'")]),
        row("reiserfs", &[("barrier", "0")], &[Shows("barrier=none")]),
        row("reiserfs", &[("barrier", "1")], &[NoOption("barrier=none")]),
        row("reiserfs", &[("journal", "internal")], &[Geometry("standard journal")]),
        row("reiserfs", &[("journal", "external")], &[Unmet("nearest: journal = internal")]),
        row("reiserfs", &[("journal", "none")], &[Contradiction("always has a journal")]),
        row("reiserfs", &[("data", "journal"), ("commit", "7")], &[Shows("data=journal"), Shows("commit=7")]),
        row("reiserfs", &[("data", "ordered"), ("commit", "30")], &[NoOption("data=writeback")]),
        row("reiserfs", &[("data", "writeback")], &[Shows("data=writeback")]),
        row(
            "reiserfs",
            &[("block_size", "4k"), ("journal_size", "4M")],
            &[BlockSize(4096), Geometry("Journal Size 1024 blocks")],
        ),
        row("reiserfs", &[("journal_size", "1M")], &[Contradiction("2052k to")]),
        row(
            "reiserfs",
            &[("block_size", "8k")],
            &[Contradiction("reiserfs does not support blocks of 8k; supported: 4k")],
        ),
        row("reiserfs", &[("mkfs", "--hash tea")], &[Geometry("\"tea\"")]),
        row("vfat", &[("block_size", "1k")], &[BlockSize(1024), Geometry("2 sectors per cluster")]),
        row("vfat", &[("block_size", "128k")], &[Contradiction("a power of two from 512 to 64k")]),
        row("vfat", &[("block_size", "64k")], &[Unmet("vfat needs at least")]),
        row("vfat", &[("mkfs", "-f 1")], &[Geometry("1 32-bit FAT")]),
        row("ntfs", &[("block_size", "8k")], &[BlockSize(8192)]),
        row("ntfs", &[("block_size", "4M")], &[Contradiction("a power of two from 512 to 2M")]),
        row("ntfs", &[("mkfs", "-L fsdyno")], &[Shows("rw")]),
        row("bcachefs", &[("block_size", "1k")], &[BlockSize(1024)]),
        row("bcachefs", &[("block_size", "8k")], &[Contradiction("a power of two from 512 to 4k")]),
        row("bcachefs", &[("mkfs", "--compression=zstd")], &[Geometry("compression: zstd")]),
    ]
}
