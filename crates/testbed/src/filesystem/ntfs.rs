//! NTFS with the kernel's own driver, ntfs3 (since Linux 5.15).
//!
//! The driver replays the journal that another system has left but writes none itself ("full journaling
//! support" is on its to-do list, Documentation/filesystems/ntfs3.rst), so there is no journal to configure
//! and nothing that flushes.

use super::{Filesystem, Targets, clean_by_status, no_such_blocks, raw_mkfs, size_of};
use crate::words::{MAKES_NOTHING, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{self, Harmless, Unknown, Weakens};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Output};

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Ntfs];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ntfs;

/// The smallest device that mkfs.ntfs 2022.10 accepts, with sectors of 512 bytes.
const SIZE_MIN: Bytes = Bytes(2 * Bytes::MIB);
const CLUSTERS: std::ops::RangeInclusive<u64> = 512..=2 * Bytes::MIB;
/// In addition to the data a volume has a dozen files of its own, at least one cluster each.
const OWN_CLUSTERS: u64 = 64;

/// mkntfs(8) of ntfs-3g 2022.10. A long option must be spelled out, although the tool accepts any unique
/// prefix.
const MKFS_WORDS: Words = &[
    (
        Takes::Nothing, Harmless,
        &[
            "-C",
            "--debug",
            "--enable-compression",
            "-f",
            "-F",
            "--fast",
            "--force",
            "-I",
            "--no-indexing",
            "-q",
            "-Q",
            "--quick",
            "--quiet",
            "-T",
            "-v",
            "--verbose",
            "--zero-time",
        ],
    ),
    (
        Takes::Value, Harmless,
        &[
            "-c",
            "--cluster-size",
            "-H",
            "--heads",
            "-L",
            "--label",
            "-p",
            "--partition-start",
            "-s",
            "--sector-size",
            "-S",
            "--sectors-per-track",
            "-z",
            "--mft-zone-multiplier",
        ],
    ),
    (OURS, Unknown, &["-U", "--with-uuid"]),
    (MAKES_NOTHING, Unknown, &["-h", "--help", "-l", "--license", "-n", "--no-action", "-V", "--version"]),
];
/// fs/ntfs3/super.c.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "acl", "delalloc", "discard", "hidden", "hide_dot_files", "nocase", "nodelalloc", "nohidden",
            "prealloc", "showmeta", "sparse", "sys_immutable", "windows_names",
        ],
    ),
    (Takes::Value, Harmless, &["dmask", "fmask", "gid", "iocharset", "nls", "uid", "umask"]),
    // It mounts a volume that is marked dirty.
    (Takes::Nothing, Unknown, &["force"]),
];

impl Filesystem for Ntfs {
    fn name(&self) -> &'static str {
        "ntfs"
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let cluster = size_of(configuration, "block_size").unwrap_or(4096);
        SIZE_MIN.max(Bytes(OWN_CLUSTERS * cluster))
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        no_such_blocks("ntfs", "clusters", CLUSTERS, configuration).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        // Quick format: otherwise it writes the whole device first.
        let mut mkfs = Command::new("mkfs.ntfs").args(["-Q"]).args(seed.map(|_| "-F"));
        if let Some(bytes) = size_of(configuration, "block_size") {
            mkfs = mkfs.args(["-c".to_string(), bytes.to_string()]);
        }
        mkfs = mkfs.args(raw_mkfs(configuration)).device("", data.handle, &data.node);
        let label = seed.map(|seed| {
            let serial = format!("--new-serial={}", self.identifier(seed, &data.planned));
            Command::new("ntfslabel").args([serial]).device("", data.handle, &data.node)
        });
        std::iter::once(mkfs).chain(label).collect()
    }

    fn mkfs_words(&self) -> Words {
        MKFS_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    fn own_hazard(&self) -> Hazard {
        Weakens("ntfs3 writes no journal: a power cut may leave the filesystem inconsistent")
    }

    /// It checks only the fundamentals: there is no chkdsk for Linux (ntfsfix(8)).
    fn check(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("ntfsfix").args(["-n"]).device("", data.handle, &data.node))
    }

    fn clean(&self, output: &Output) -> Option<bool> {
        clean_by_status(output, &[1])
    }
}
