//! XFS. Its log can be on another device, but cannot be omitted.

use super::{
    Expectation, Filesystem, Kernel, NO_RECOVERY, Shown, Targets, expect, no_such_blocks, raw_mkfs,
    raw_mount, size_of,
};
use crate::words::{ELSEWHERE, MAKES_NOTHING, NAMES_DEVICE, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{By, Flushes, Harmless, Unknown};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Output};
use std::path::Path;

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Xfs];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Xfs;

/// mkfs.xfs refuses smaller filesystems and logs since xfsprogs 5.19.
const SIZE_MIN: u64 = 300 * Bytes::MIB;
const LOG_MIN: u64 = 64 * Bytes::MIB;
/// XFS_AG_MIN_BYTES in xfsprogs.
const GROUP_MIN: u64 = 16 * Bytes::MIB;
/// Default of mkfs.xfs on a single disk below 4 TiB.
const GROUPS_DEFAULT: u64 = 4;
/// xfs_super.c: what `logbsize` may be.
const LOG_BUFFER_SIZES: [u64; 5] = [16, 32, 64, 128, 256];
/// The sector size that mkfs.xfs 6.1 uses for a log on its own device, whatever that device has; it reads and
/// writes both devices in sectors of the data device. So a larger sector size is passed explicitly, for both.
const SECTOR: Bytes = Bytes(512);

const NO_BARRIER: &str =
    "xfs always flushes and has no nobarrier option since Linux 4.19; nearest: barrier = 1";

/// mkfs.xfs(8) of xfsprogs 6.1, and what later releases added.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-f", "-K", "-q"]),
    (Takes::Value, Harmless, &["-L"]),
    (Takes::List(&[(Takes::Value, Harmless, &["size"])]), Harmless, &["-b", "-s"]),
    (Takes::List(DATA), Harmless, &["-d"]),
    (Takes::List(INODES), Harmless, &["-i"]),
    (Takes::List(LOG), Harmless, &["-l"]),
    (Takes::List(METADATA), Harmless, &["-m"]),
    (Takes::List(&[(Takes::Value, Harmless, &["ftype", "parent", "size", "version"])]), Harmless, &["-n"]),
    (
        Takes::List(&[
            (Takes::Value, Harmless, &["extsize"]),
            (Takes::Nothing, Harmless, &["noalign"]),
            (NAMES_DEVICE, Unknown, &["file", "name", "rtdev", "size"]),
        ]),
        Harmless,
        &["-r"],
    ),
    (NAMES_DEVICE, Unknown, &["-c", "-p"]),
    (MAKES_NOTHING, Unknown, &["-N", "-V"]),
];
const DATA: Words = &[
    (
        Takes::Value, Harmless,
        &[
            "agcount",
            "agsize",
            "concurrency",
            "cowextsize",
            "daxinherit",
            "extszinherit",
            "projinherit",
            "rtinherit",
            "sectsize",
            "size",
            "su",
            "sunit",
            "sw",
            "swidth",
        ],
    ),
    (Takes::Nothing, Harmless, &["noalign"]),
    (NAMES_DEVICE, Unknown, &["name"]),
    (ELSEWHERE, Unknown, &["file"]),
];
const INODES: Words = &[
    (Takes::Value, Harmless, &["attr", "exchange", "maxpct", "perblock", "size"]),
    (Takes::Perhaps, Harmless, &["align", "nrext64", "projid32bit", "sparse"]),
];
const LOG: Words = &[
    (Takes::Value, Harmless, &["agnum", "concurrency", "lazy-count", "sectsize", "size", "su", "sunit"]),
    (Takes::Value, By(&[(&["version=2"], Harmless)]), &["version"]),
    (Takes::Perhaps, Harmless, &["internal"]),
    (NAMES_DEVICE, Unknown, &["file", "logdev", "name"]),
];
const METADATA: Words = &[
    (Takes::Value, Harmless, &["autofsck", "bigtime", "finobt", "inobtcount", "metadir", "reflink", "rmapbt"]),
    (Takes::Value, By(&[(&["crc=1"], Harmless)]), &["crc"]),
    (OURS, Unknown, &["uuid"]),
];
/// fs/xfs/xfs_super.c, `xfs_fs_parameters`; what they do, by Documentation/admin-guide/xfs.rst.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "attr2", "bsdgroups", "delaylog", "discard", "filestreams", "gqnoenforce", "gquota", "grpid",
            "grpquota", "ikeep", "inode32", "inode64", "largeio", "noalign", "noattr2", "nodelaylog",
            "nodiscard", "nogrpid", "noikeep", "nolargeio", "nolifetime", "noquota", "nouuid", "pqnoenforce",
            "pquota", "prjquota", "qnoenforce", "quota", "swalloc", "sysvgroups", "uqnoenforce", "uquota",
            "usrquota", "wsync",
        ],
    ),
    (
        Takes::Value,
        Harmless,
        &[
            "allocsize",
            "lifetime",
            "logbsize",
            "logbufs",
            "max_atomic_write",
            "max_open_zones",
            "sunit",
            "swidth",
        ],
    ),
    // Kernels before 4.19 support mounting without barriers.
    (Takes::Nothing, Flushes(&["barrier"]), &["barrier", "nobarrier"]),
    (Takes::Nothing, NO_RECOVERY, &["norecovery"]),
    (Takes::Perhaps, Unknown, &["dax"]),
    (NAMES_DEVICE, Harmless, &["logdev", "rtdev"]),
];

impl Filesystem for Xfs {
    fn name(&self) -> &'static str {
        "xfs"
    }

    fn minimum_size(&self, _configuration: &Configuration) -> Bytes {
        Bytes(SIZE_MIN)
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        let mut found = Vec::new();
        if configuration.level("journal") == Some("none") {
            found.push("xfs always has a log, so journal = none is not possible".to_string());
        }
        found.extend(no_such_blocks("xfs", "blocks", 512..=65536, configuration));
        if let Some(count) = configuration.level("logbufs").and_then(|level| level.parse::<u32>().ok())
            && !(2..=8).contains(&count)
        {
            found.push(format!("logbufs = {count} is out of range (2-8)"));
        }
        if let Some(bytes) = size_of(configuration, "logbsize")
            && !LOG_BUFFER_SIZES.contains(&(bytes / Bytes::KIB))
        {
            found.push(format!(
                "logbsize = {} is invalid: it must be 16k, 32k, 64k, 128k or 256k",
                Bytes(bytes)
            ));
        }
        found
    }

    fn unmet(&self, configuration: &Configuration, kernel: &Kernel, size: Option<Bytes>) -> Vec<String> {
        let mut missing = Vec::new();
        let raw_barrier = raw_mount(configuration).any(|word| ["nobarrier", "barrier"].contains(&word));
        if (configuration.level("barrier") == Some("0") || raw_barrier) && kernel.release >= (4, 19) {
            missing.push(NO_BARRIER.to_string());
        }
        let version_4 = raw_mkfs(configuration).any(|word| word.split(',').any(|part| part == "crc=0"));
        if configuration.level("lazy_count") == Some("0") && !version_4 {
            missing.push(
                "xfs with checksums (the format since 2014) always has lazy counters; nearest: lazy_count = 1"
                    .to_string(),
            );
        }
        match size_of(configuration, "block_size") {
            Some(bytes) if bytes > kernel.page_size && kernel.release < (6, 12) => missing.push(format!(
                "xfs with blocks of {} needs Linux 6.12 or memory pages of that size; nearest: block_size = \
                 {}",
                Bytes(bytes),
                Bytes(kernel.page_size)
            )),
            Some(bytes) if bytes < 1024 && !version_4 => missing.push(
                "xfs with checksums (the format since 2014) does not support blocks smaller than 1k; \
                 nearest: block_size = 1k".to_string(),
            ),
            _ => {}
        }
        missing.extend(self.unmet_geometry(configuration, size));
        missing
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let mut mkfs = Command::new("mkfs.xfs").args(targets.keeps_blocks.then_some("-K"));
        if let Some(seed) = seed {
            mkfs = mkfs.args(["-f", "-m"]);
            mkfs = mkfs.args([format!("uuid={}", self.identifier(seed, &targets.data.planned))]);
        }
        if let Some(bytes) = size_of(configuration, "block_size") {
            mkfs = mkfs.args(["-b".to_string(), format!("size={bytes}")]);
        }
        if let Some(count) = configuration.level("agcount") {
            mkfs = mkfs.args(["-d".to_string(), format!("agcount={count}")]);
        }
        if let Some(bytes) = size_of(configuration, "log_size") {
            mkfs = mkfs.args(["-l".to_string(), format!("size={bytes}")]);
        }
        if let Some(level) = configuration.level("lazy_count") {
            mkfs = mkfs.args(["-l".to_string(), format!("lazy-count={level}")]);
        }
        if let Some(journal) = &targets.journal {
            // mkfs.xfs rejects an option that is given twice.
            let raw =
                raw_mkfs(configuration).any(|word| word.starts_with("-s") || word.contains("sectsize="));
            let sector = targets.sector.filter(|sector| !raw && *sector > SECTOR);
            let words = sector.map(|sector| ["-s".to_string(), format!("size={}", sector.0)]);
            mkfs = mkfs.args(words.into_iter().flatten());
            mkfs = mkfs.args(["-l"]).device("logdev=", journal.handle, &journal.node);
        }
        mkfs = mkfs.args(raw_mkfs(configuration));
        vec![mkfs.device("", targets.data.handle, &targets.data.node)]
    }

    /// The log reports the UUID of its filesystem.
    fn journal_identifier(&self, seed: u64, data: &Path, _journal: &Path) -> Option<String> {
        Some(self.identifier(seed, data))
    }

    fn mount_options(&self, configuration: &Configuration, journal: Option<&Path>) -> Vec<String> {
        let mut options = Vec::new();
        if let Some(count) = configuration.level("logbufs") {
            options.push(format!("logbufs={count}"));
        }
        if let Some(bytes) = size_of(configuration, "logbsize") {
            options.push(format!("logbsize={}k", bytes / Bytes::KIB));
        }
        if let Some(journal) = journal {
            options.push(format!("logdev={}", journal.display()));
        }
        options
    }

    /// The kernel refuses a second filesystem of the same UUID unless it is told not to look.
    fn beside_a_copy(&self) -> Option<&'static [&'static str]> {
        Some(&["nouuid"])
    }

    fn expectations(&self, configuration: &Configuration) -> Vec<Expectation> {
        let mut expectations = Vec::new();
        if let Some(count) = configuration.level("logbufs") {
            expectations.push(expect("logbufs", count, Shown::Word(format!("logbufs={count}"))));
        }
        if let Some(bytes) = size_of(configuration, "logbsize") {
            let word = format!("logbsize={}k", bytes / Bytes::KIB);
            expectations.push(expect("logbsize", Bytes(bytes).to_string(), Shown::Word(word)));
        }
        expectations
    }

    fn mkfs_words(&self) -> Words {
        MKFS_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    fn check(&self, targets: &Targets) -> Option<Command> {
        Some(repair(targets, &[]))
    }

    /// Without its 140 threads that read ahead, and with a small cache in place of most of the memory: making
    /// both takes half of its time.
    fn check_small(&self, targets: &Targets) -> Option<Command> {
        Some(repair(targets, &["-P", "-o", "bhash=1024"]))
    }

    /// With -n the status is 1 for corruption and 0 for none (xfs_repair(8)); a check that fails says `fatal
    /// error`.
    fn clean(&self, output: &Output) -> Option<bool> {
        match output.status {
            0 => Some(true),
            1 if !output.stderr.contains("fatal error") => Some(false),
            _ => None,
        }
    }
}

/// xfs_repair(8), which only looks.
fn repair(targets: &Targets, words: &[&str]) -> Command {
    let mut command = Command::new("xfs_repair").args(["-n"]).args(words.iter().copied());
    if let Some(journal) = &targets.journal {
        command = command.args(["-l"]).device("", journal.handle, &journal.node);
    }
    command.device("", targets.data.handle, &targets.data.node)
}

impl Xfs {
    fn unmet_geometry(self, configuration: &Configuration, size: Option<Bytes>) -> Vec<String> {
        let mut missing = Vec::new();
        let groups = configuration.level("agcount").and_then(|level| level.parse::<u64>().ok());
        let log = size_of(configuration, "log_size");
        if groups.is_some_and(|groups| groups < 2) {
            missing.push("mkfs.xfs creates at least 2 allocation groups; nearest: agcount = 2".to_string());
        }
        if let Some(log) = log.filter(|log| *log < LOG_MIN) {
            missing.push(format!(
                "a log of {} is too small for mkfs.xfs (the minimum is 64M); nearest: log_size = 64M",
                Bytes(log)
            ));
        }
        let Some(size) = size else { return missing };
        let group = size.0 / groups.unwrap_or(GROUPS_DEFAULT).max(1);
        if let Some(groups) = groups.filter(|_| group < GROUP_MIN) {
            let most = size.0 / GROUP_MIN;
            missing.push(format!(
                "{groups} allocation groups on {size} would be less than 16M each; nearest: agcount = {most}"
            ));
        }
        let internal = configuration.external_journal().is_none();
        if let Some(log) = log.filter(|log| internal && *log >= group) {
            missing.push(format!(
                "a log of {} does not fit into an allocation group of {} MiB on {size}; nearest: a larger \
                 device",
                Bytes(log),
                group / Bytes::MIB
            ));
        }
        missing
    }
}
