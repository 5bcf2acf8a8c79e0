//! JFS. Its blocks are 4 KiB and it flushes at every commit: its only own setting is the size of its log.

use super::{
    Filesystem, Kernel, Targets, clean_by_status, journal_inside_only, no_such_blocks, raw_mkfs, size_of,
};
use crate::words::{MAKES_NOTHING, NAMES_DEVICE, ON_ERRORS, Takes, Words};
use fsdyno_core::hazard::Hazard::{self, Harmless, Unknown, Weakens};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Output};

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Jfs];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Jfs;

/// The smallest device that mkfs.jfs 1.1.15 accepts.
const SIZE_MIN: Bytes = Bytes(16 * Bytes::MIB);
const BLOCK: u64 = 4096;
/// The log may take a tenth of the device.
const LOG_SHARE: u64 = 10;

/// jfs_mkfs(8) of jfsutils 1.1.15.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-c", "-O", "-q"]),
    (Takes::Value, Harmless, &["-L", "-s"]),
    (NAMES_DEVICE, Unknown, &["-j", "-J"]),
    (MAKES_NOTHING, Unknown, &["-V"]),
];
/// fs/jfs/super.c; what they do, by Documentation/admin-guide/jfs.rst.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &["grpquota", "integrity", "nodiscard", "noquota", "quota", "usrquota"],
    ),
    (Takes::Perhaps, Harmless, &["discard", "gid", "iocharset", "uid", "umask"]),
    (
        Takes::Nothing,
        Weakens("nointegrity: the journal is not written, and a power cut may corrupt the filesystem"),
        &["nointegrity"],
    ),
    (Takes::Perhaps, Unknown, &["resize"]),
    (ON_ERRORS, Harmless, &["errors"]),
];

impl Filesystem for Jfs {
    fn name(&self) -> &'static str {
        "jfs"
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let log = size_of(configuration, "journal_size").unwrap_or(0);
        SIZE_MIN.max(Bytes(log.saturating_mul(LOG_SHARE)))
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(no_such_blocks("jfs", "blocks", BLOCK..=BLOCK, configuration));
        if configuration.level("journal") == Some("none") {
            found.push("jfs always has a log, so journal = none is not possible".to_string());
        }
        if let Some(bytes) = size_of(configuration, "journal_size")
            && (bytes == 0 || bytes % Bytes::MIB != 0)
        {
            found.push(format!(
                "journal_size = {} is invalid: it must be a multiple of 1 MiB, at least 1M",
                Bytes(bytes)
            ));
        }
        found
    }

    fn unmet(&self, configuration: &Configuration, _kernel: &Kernel, _size: Option<Bytes>) -> Vec<String> {
        journal_inside_only("jfs", "log", configuration).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        let mut mkfs = Command::new("mkfs.jfs").args(seed.map(|_| "-q"));
        if let Some(bytes) = size_of(configuration, "journal_size") {
            mkfs = mkfs.args(["-s".to_string(), (bytes / Bytes::MIB).to_string()]);
        }
        mkfs = mkfs.args(raw_mkfs(configuration)).device("", data.handle, &data.node);
        let tune = seed.map(|seed| {
            let identity = self.identifier(seed, &data.planned);
            Command::new("jfs_tune").args(["-U"]).args([identity]).device("", data.handle, &data.node)
        });
        std::iter::once(mkfs).chain(tune).collect()
    }

    fn mkfs_words(&self) -> Words {
        MKFS_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    /// Neither the writes to the log (`lbmStartIO` in fs/jfs/jfs_logmgr.c) nor fsync (`jfs_fsync` in
    /// fs/jfs/file.c) flush the device.
    fn own_hazard(&self) -> Hazard {
        Weakens(
            "jfs never flushes the device's cache when it syncs: a power cut may lose what it acknowledged",
        )
    }

    /// The kernel refuses to mount what was not unmounted. `-a` replays the log, and checks the rest only if
    /// that is not enough (jfs_fsck(8)).
    fn replay(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("fsck.jfs").args(["-a"]).device("", data.handle, &data.node))
    }

    fn check(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("fsck.jfs").args(["-n", "-f"]).device("", data.handle, &data.node))
    }

    /// The status is that of fsck(8): 4 if it left errors.
    fn clean(&self, output: &Output) -> Option<bool> {
        clean_by_status(output, &[4])
    }

    fn geometry(&self, targets: &Targets) -> Option<Command> {
        Some(Command::new("jfs_tune").args(["-l"]).device("", targets.data.handle, &targets.data.node))
    }
}
