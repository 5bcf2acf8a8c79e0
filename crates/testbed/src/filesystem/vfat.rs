//! FAT32 with long names. It has no journal and no owners, and flushes only when a program asks for it; files
//! end at 4 GiB.

use super::{Filesystem, Kernel, Targets, clean_by_status, no_such_blocks, raw_mkfs, size_of};
use crate::words::{ELSEWHERE, MAKES_NOTHING, NAMES_DEVICE, ON_ERRORS, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{self, Harmless, Unknown, Weakens};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Output};

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Vfat];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Vfat;

/// FAT32 has at least 65,525 clusters and slightly fewer than 2^28 at most (Microsoft's specification of
/// 2000).
const CLUSTERS_MIN: u64 = 65_525;
const CLUSTERS_MAX: u64 = (1 << 28) - 11;
/// A cluster is 1 to 128 sectors of 512 bytes.
const SECTOR: u64 = 512;
const CLUSTER_SIZES: std::ops::RangeInclusive<u64> = SECTOR..=128 * SECTOR;

/// mkfs.fat(8) of dosfstools 4.2.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-a", "-A", "-c", "-I", "-v"]),
    (
        Takes::Value, Harmless,
        &["-b", "--codepage", "-D", "-f", "-F", "-g", "-h", "-M", "-n", "-r", "-R", "-s", "-S", "--variant"],
    ),
    (Takes::Perhaps, Harmless, &["--mbr"]),
    (NAMES_DEVICE, Unknown, &["-C", "-l", "-m"]),
    (OURS, Unknown, &["-i", "--invariant"]),
    (ELSEWHERE, Unknown, &["--offset"]),
    (MAKES_NOTHING, Unknown, &["--help"]),
];
/// fs/fat/inode.c.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "discard", "dos1xfloppy", "flush", "nocase", "nonumtail", "numtail", "quiet", "rodir",
            "showexec", "sys_immutable", "uni_xlate", "usefree",
        ],
    ),
    (
        Takes::Perhaps, Harmless,
        &[
            "allow_utime",
            "check",
            "codepage",
            "dmask",
            "fmask",
            "gid",
            "iocharset",
            "nfs",
            "shortname",
            "time_offset",
            "tz",
            "uid",
            "umask",
            "utf8",
        ],
    ),
    (ON_ERRORS, Harmless, &["errors"]),
];

impl Filesystem for Vfat {
    fn name(&self) -> &'static str {
        "vfat"
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let cluster = size_of(configuration, "block_size").unwrap_or(SECTOR);
        Bytes(CLUSTERS_MIN * cluster + Bytes::MIB)
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        no_such_blocks("vfat", "clusters", CLUSTER_SIZES, configuration).into_iter().collect()
    }

    fn unmet(&self, configuration: &Configuration, _kernel: &Kernel, size: Option<Bytes>) -> Vec<String> {
        let cluster = size_of(configuration, "block_size");
        let Some((cluster, size)) = cluster.zip(size) else { return Vec::new() };
        let many = size.0 / cluster > CLUSTERS_MAX;
        let reason = || {
            format!("vfat does not support as many as {} clusters of {}", size.0 / cluster, Bytes(cluster))
        };
        many.then(reason).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        // By default it would create FAT16 on small devices.
        let mut mkfs = Command::new("mkfs.vfat").args(["-v", "-F32"]);
        if let Some(seed) = seed {
            // On a whole disk, too.
            mkfs = mkfs.args(["-I", "-i"]).args([self.identifier(seed, &data.planned)]);
        }
        if let Some(bytes) = size_of(configuration, "block_size") {
            mkfs = mkfs.args(["-s".to_string(), (bytes / SECTOR).to_string()]);
        }
        vec![mkfs.args(raw_mkfs(configuration)).device("", data.handle, &data.node)]
    }

    fn mkfs_words(&self) -> Words {
        MKFS_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    fn own_hazard(&self) -> Hazard {
        Weakens("vfat has no journal: a power cut may leave it inconsistent")
    }

    fn check(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("fsck.vfat").args(["-n"]).device("", data.handle, &data.node))
    }

    fn clean(&self, output: &Output) -> Option<bool> {
        clean_by_status(output, &[1])
    }
}
