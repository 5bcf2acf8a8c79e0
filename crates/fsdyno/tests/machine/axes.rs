//! Every level of every axis on every filesystem is built, mounted, read back and checked, or reported as
//! unsupported by this kernel. A test compares the rows with the axes, so that no level is forgotten.
//!
//! ext2, ext3, ext4, xfs and btrfs are required. The others are built if this kernel and its tools support
//! them, and otherwise in guests (`guests_filesystems`). Rows that must be rejected are tried everywhere.

use crate::support::{MAKING_FILESYSTEMS, Test};
use fsdyno_core::axis::{AXES, Levels};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, WarningKind};
use fsdyno_host::local::LocalHost;
use fsdyno_testbed::capability::{KernelSupport, absent_tools, kernel_support};
use fsdyno_testbed::words::Takes;
use fsdyno_testbed::{Confirmation, Testbed, UndoJournal, build, contradictions, filesystem, unmet};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn tests() -> Vec<Test> {
    let test = |name, body| Test { name, requires: MAKING_FILESYSTEMS, body };
    vec![
        test("axes::levels_of_all_filesystems_are_in_force", || {
            fsdyno_core::filesystem::names().for_each(|name| run(&common(name)))
        }),
        test("axes::levels_of_ext_are_in_force", || run(&ext())),
        test("axes::levels_of_xfs_are_in_force", || run(&xfs())),
        test("axes::levels_of_btrfs_are_in_force", || run(&btrfs())),
        test("axes::levels_of_other_filesystems_are_in_force_if_supported", || run(&others())),
        test("axes::no_level_is_forgotten", no_level_is_forgotten),
        test("axes::block_devices_serve_trial_after_trial", block_devices_serve_trial_after_trial),
    ]
}

/// How to verify, from outside the testbed, that a row is in force.
#[derive(Debug, Clone, Copy)]
enum Evidence {
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

use Evidence::{
    BlockSize, Contradiction, Geometry, NoGeometry, NoOption, Option as Shows, Queue, Sysctl, Unmet,
};
use std::sync::atomic::AtomicBool;

/// One filesystem to create: settings, and how to verify them.
struct Row {
    filesystem: &'static str,
    settings: Vec<(&'static str, &'static str)>,
    evidence: Vec<Evidence>,
}

fn row(filesystem: &'static str, settings: &[(&'static str, &'static str)], evidence: &[Evidence]) -> Row {
    Row { filesystem, settings: settings.to_vec(), evidence: evidence.to_vec() }
}

fn common(name: &'static str) -> Vec<Row> {
    let words = filesystem::find(name).expect("a filesystem").mkfs_words().iter();
    let mut flags = words.filter(|(takes, _)| matches!(takes, Takes::Nothing)).flat_map(|(_, names)| *names);
    // The verbosity of mkfs changes nothing else.
    let verbosity = flags.find(|flag| ["-q", "-v"].contains(*flag)).expect("a flag");
    vec![
        row(name, &[("block_size", "4k"), ("mkfs", verbosity)], &[BlockSize(4096)]),
        row(
            name,
            &[("atime", "strictatime"), ("scheduler", "none"), ("readahead", "256k")],
            &[
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
            ],
            &[
                Shows("relatime"),
                Queue("scheduler", "[mq-deadline]"),
                Queue("nr_requests", "64"),
                Queue("max_sectors_kb", "256"),
            ],
        ),
        row(
            name,
            &[("atime", "noatime"), ("scheduler", "kyber"), ("sysctl.vm.dirty_bytes", "67108864")],
            &[Shows("noatime"), Queue("scheduler", "[kyber]"), Sysctl("vm/dirty_bytes", "67108864")],
        ),
        row(
            name,
            &[("atime", "nodiratime"), ("scheduler", "bfq"), ("sysctl.vm.dirty_ratio", "11")],
            &[Shows("nodiratime"), Queue("scheduler", "[bfq]"), Sysctl("vm/dirty_ratio", "11")],
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

fn ext() -> Vec<Row> {
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

fn xfs() -> Vec<Row> {
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

fn btrfs() -> Vec<Row> {
    vec![
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
        row("btrfs", &[("datacow", "0")], &[Shows("nodatacow")]),
        row("btrfs", &[("datacow", "1")], &[NoOption("nodatacow")]),
        row("btrfs", &[("datacow", "0"), ("compress", "lzo")], &[Contradiction("excludes compression")]),
        row("btrfs", &[("profile", "single")], &[Geometry("Metadata: single")]),
        row("btrfs", &[("profile", "dup")], &[Geometry("Metadata: DUP")]),
        row("btrfs", &[("block_size", "2k")], &[Contradiction("power of two")]),
        row("btrfs", &[("mkfs", "--nodesize 32768")], &[Geometry("Node size: 32768")]),
    ]
}

/// The filesystems that not every kernel supports.
fn others() -> Vec<Row> {
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
    ]
}

/// Every row of every filesystem.
fn all() -> impl Iterator<Item = Row> {
    let common = fsdyno_core::filesystem::names().flat_map(common);
    common.chain(ext()).chain(xfs()).chain(btrfs()).chain(others())
}

/// Every word and switch of every axis, and at least one level of each other axis, on every filesystem that
/// supports it.
fn no_level_is_forgotten() {
    let of_row = |row: Row| row.settings.into_iter().map(move |(axis, level)| (row.filesystem, axis, level));
    let tried: BTreeSet<(&str, &str, &str)> = all().flat_map(of_row).collect();
    let mut forgotten = Vec::new();
    // What the engine does before the load is tested with the engine (`lifecycle`), other kernels with
    // guests.
    let elsewhere = ["filesystem", "kernel", "fill", "age"];
    for axis in AXES.iter().filter(|axis| !elsewhere.contains(&axis.name)) {
        let levels: &[&str] = match axis.levels {
            Levels::Words(words) => words,
            Levels::Switch => &["0", "1"],
            Levels::Journal => &["internal", "external", "none"],
            Levels::Size
            | Levels::Percent
            | Levels::Count
            | Levels::Seconds
            | Levels::Kernel
            | Levels::Sysctl
            | Levels::Text
            | Levels::Filesystem => &[],
        };
        for filesystem in axis.filesystems() {
            let any = tried.iter().any(|(name, tried, _)| *name == filesystem && *tried == axis.name);
            let missing = levels.iter().filter(|level| !tried.contains(&(filesystem, axis.name, **level)));
            forgotten.extend(missing.map(|level| format!("{filesystem} {} = {level}", axis.name)));
            if !any {
                forgotten.push(format!("{filesystem} {}", axis.name));
            }
        }
    }
    assert_eq!(forgotten, [""; 0]);
}

fn run(rows: &[Row]) {
    let mut failures = Vec::new();
    for row in rows {
        let wanted = format!("{} {:?}", row.filesystem, row.settings);
        failures.extend(try_row(row).into_iter().map(|failure| format!("{wanted}: {failure}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What is not as requested, one line each.
fn try_row(row: &Row) -> Vec<String> {
    // In memory if there is room, because hundreds of filesystems are created.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let image = |name: &str, mib: u64| DeviceSpec::Image {
        path: directory.path().join(name),
        size: Bytes(mib * Bytes::MIB),
        direct_io: false,
    };
    let devices = Devices {
        data: image("data", 512),
        journals: BTreeMap::from([("side".to_string(), image("side", 128))]),
    };
    let configuration = Configuration {
        name: "row".to_string(),
        filesystem: row.filesystem.to_string(),
        settings: row.settings.iter().map(|(axis, level)| (axis.to_string(), level.to_string())).collect(),
    };
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());

    let contradictions = contradictions(&configuration, &devices);
    if let [Contradiction(word)] = row.evidence[..] {
        let found = contradictions.iter().any(|line| line.contains(word));
        return if found {
            Vec::new()
        } else {
            vec![format!("expected '{word}' in the contradictions {contradictions:?}")]
        };
    }
    if !contradictions.is_empty() {
        return contradictions;
    }
    let unmet = unmet(&mut host, &configuration, &devices);
    if let [Unmet(word)] = row.evidence[..] {
        let found = unmet.iter().any(|line| line.contains(word));
        return if found {
            Vec::new()
        } else {
            vec![format!("expected '{word}' in the unmet requirements {unmet:?}")]
        };
    }
    if !unmet.is_empty() && !REQUIRED.contains(&row.filesystem) && !is_here(&mut host, row.filesystem) {
        return Vec::new();
    }
    if !unmet.is_empty() {
        return unmet;
    }
    let mut journal = UndoJournal::create(&mut host, &directory.path().join("undo")).expect("a journal");
    let result = trial(&mut host, &mut journal, &devices, &configuration, &row.evidence);
    let mut failures = result.unwrap_or_else(|error| vec![format!("{:?}", error.failure())]);
    failures.extend(journal.undo_all(&mut host).left);
    failures
}

/// Filesystems that the machine must have for any of these tests to run.
const REQUIRED: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Whether the kernel and the tools of this machine support a filesystem.
fn is_here(host: &mut LocalHost, name: &str) -> bool {
    let filesystem = filesystem::find(name).expect("a filesystem");
    kernel_support(host, filesystem) != KernelSupport::Absent
        && absent_tools(host, filesystem.descriptor().tools).is_empty()
}

fn trial(
    host: &mut LocalHost,
    journal: &mut UndoJournal,
    devices: &Devices,
    configuration: &Configuration,
    evidence: &[Evidence],
) -> fsdyno_testbed::Result<Vec<String>> {
    let configurations = std::slice::from_ref(configuration);
    let testbed = Testbed::verify(host, devices, configurations, Bytes(0), &Confirmation::default())?;
    let stack = build(host, journal, &testbed, configuration, 7, &AtomicBool::default())?;
    let mounted = stack.format(host)?.mount(host, journal)?;
    let environment = mounted.environment(host);
    let options = mounted.built().mount_options_in_force.clone();
    let geometry = environment.geometry.split_whitespace().collect::<Vec<_>>().join(" ");
    let queue = &environment.devices[0].queue;
    let mut failures: Vec<String> = mounted
        .warnings()
        .iter()
        .filter(|warning| warning.kind == WarningKind::OptionNotInForce)
        .map(|warning| warning.text.clone())
        .collect();
    for one in evidence {
        let shows = |word: &str| {
            options.split(',').any(|shown| shown == word || (word.ends_with('/') && shown.starts_with(word)))
        };
        let seen = match one {
            Shows(word) => shows(word),
            NoOption(word) => !shows(word),
            Geometry(words) => geometry.contains(words),
            NoGeometry(words) => !geometry.contains(words),
            BlockSize(bytes) => block_size(mounted.directory()) == *bytes,
            Queue(file, word) => {
                queue.get(*file).is_some_and(|text| text.split(' ').any(|shown| shown == *word))
            }
            Sysctl(path, value) => sysctl(path) == *value,
            Unmet(_) | Contradiction(_) => false,
        };
        if !seen {
            failures.push(format!(
                "{one:?} is not in force; options {options}; geometry {geometry}; queue {queue:?}"
            ));
        }
    }
    let unmounted = mounted.unmount(host, journal)?;
    let no_check = configuration.filesystem == "nilfs2";
    match unmounted.check(host, journal)? {
        Some(check) if check.clean => {}
        None if no_check => {}
        check => failures.push(format!("check: {check:?}")),
    }
    Ok(failures)
}

fn block_size(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).expect("statvfs").f_bsize
}

fn sysctl(path: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(path)).expect("a sysctl").trim().to_string()
}

/// Named block devices, one for the filesystem and one for its journal: the sweep recognises signatures of
/// its earlier trials, settings are restored, and a third device is never touched.
fn block_devices_serve_trial_after_trial() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let attached = Attached(
        [("data", 512), ("journal", 128)].map(|(name, mib)| attach(&directory.path().join(name), mib)),
    );
    let [data, log] = attached.0.clone().map(|path| DeviceSpec::Block { path, identity: None });
    let devices = Devices { data, journals: BTreeMap::from([("side".to_string(), log)]) };
    let configurations: Vec<Configuration> =
        [("ext4", "external"), ("xfs", "external"), ("btrfs", "internal"), ("ext3", "external")]
            .map(|(filesystem, journal)| Configuration {
                name: filesystem.to_string(),
                filesystem: filesystem.to_string(),
                settings: [("journal", journal), ("scheduler", "kyber"), ("readahead", "512k")]
                    .map(|(axis, level)| (axis.to_string(), level.to_string()))
                    .into(),
            })
            .into();
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());
    let confirmation = Confirmation { destroy: attached.0.to_vec(), ..Confirmation::default() };
    let testbed =
        Testbed::verify(&mut host, &devices, &configurations, Bytes(0), &confirmation).expect("verified");
    let mut journal = UndoJournal::create(&mut host, &directory.path().join("undo")).expect("a journal");
    for (seed, configuration) in configurations.iter().enumerate() {
        let stack =
            build(&mut host, &mut journal, &testbed, configuration, seed as u64, &AtomicBool::default())
                .expect("build");
        let formatted = stack.format(&mut host).expect("format");
        let mounted = formatted.mount(&mut host, &mut journal).expect("mount");
        assert_eq!(mounted.built().scheduler_in_force, "kyber");
        fs::write(mounted.directory().join("file"), "content").expect("write");
        let unmounted = mounted.unmount(&mut host, &mut journal).expect("unmount");
        let check = unmounted.check(&mut host, &mut journal).expect("check").expect("a filesystem");
        assert!(check.clean, "{check:?}");
        assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
    }
    journal.close().expect("close the journal");
    let again = Testbed::verify(&mut host, &devices, &configurations, Bytes(0), &confirmation);
    assert!(again.is_ok(), "another sweep recognises what this one left");
}

/// Loop devices that last as long as their test.
struct Attached([PathBuf; 2]);

impl Drop for Attached {
    fn drop(&mut self) {
        for node in &self.0 {
            let _ = Command::new("losetup").arg("-d").arg(node).status();
        }
    }
}

fn attach(image: &Path, mib: u64) -> PathBuf {
    fs::File::create(image).and_then(|file| file.set_len(mib * Bytes::MIB)).expect("an image");
    let output = Command::new("losetup").args(["-f", "--show"]).arg(image).output().expect("losetup");
    String::from_utf8_lossy(&output.stdout).trim().into()
}
