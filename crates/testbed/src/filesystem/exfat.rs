//! exFAT. It has no journal, no owners, and no flushes but those that a program asks for.

use super::{Filesystem, Targets, clean_by_status, no_such_blocks, raw_mkfs, size_of};
use crate::words::{MAKES_NOTHING, ON_ERRORS, Takes, Words};
use fsdyno_core::hazard::Hazard::{self, Harmless, Unknown, Weakens};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Output};

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Exfat];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exfat;

/// A cluster is one sector of 512 bytes to 32 MiB (Microsoft, "exFAT file system specification", 3.1.15).
const CLUSTER_SIZES: std::ops::RangeInclusive<u64> = 512..=32 * Bytes::MIB;
/// mkfs.exfat 1.2 aligns to MiB, and needs clusters for the bitmap, the upcase table and the root directory.
/// On a smaller device it makes a filesystem that fsck.exfat cannot read.
const SIZE_MIN: u64 = 4 * Bytes::MIB;
const OWN_CLUSTERS: u64 = 4;

/// mkfs.exfat(8) of exfatprogs 1.2. Long options must be written out: the tool also accepts unique prefixes.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-f", "--full-format", "--pack-bitmap", "-v", "--verbose"]),
    (
        Takes::Value, Harmless,
        &["-b", "--boundary-align", "-c", "--cluster-size", "-L", "--volume-label", "-s", "--sector-size"],
    ),
    (MAKES_NOTHING, Unknown, &["-h", "--help", "-V", "--version"]),
];
/// fs/exfat/super.c, `exfat_parameters`.
const MOUNT_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["discard", "keep_last_dots", "sys_tz", "zero_size_dir"]),
    (
        Takes::Value,
        Harmless,
        &["allow_utime", "dmask", "fmask", "gid", "iocharset", "time_offset", "uid", "umask"],
    ),
    (ON_ERRORS, Harmless, &["errors"]),
];

impl Filesystem for Exfat {
    fn name(&self) -> &'static str {
        "exfat"
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let cluster = size_of(configuration, "block_size").unwrap_or(4096);
        Bytes(SIZE_MIN + OWN_CLUSTERS * cluster)
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        no_such_blocks("exfat", "clusters", CLUSTER_SIZES, configuration).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        let mut mkfs = Command::new("mkfs.exfat");
        if let Some(bytes) = size_of(configuration, "block_size") {
            mkfs = mkfs.args(["-c".to_string(), bytes.to_string()]);
        }
        mkfs = mkfs.args(raw_mkfs(configuration)).device("", data.handle, &data.node);
        let serial = seed.map(|seed| {
            let serial = format!("0x{}", self.identifier(seed, &data.planned));
            Command::new("tune.exfat").args(["-I".to_string(), serial]).device("", data.handle, &data.node)
        });
        std::iter::once(mkfs).chain(serial).collect()
    }

    fn mkfs_words(&self) -> Words {
        MKFS_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    fn own_hazard(&self) -> Hazard {
        Weakens("exfat has no journal: a power cut may leave it inconsistent")
    }

    fn check(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("fsck.exfat").args(["-n"]).device("", data.handle, &data.node))
    }

    /// fsck.exfat(8): 4 is what it would have to correct.
    fn clean(&self, output: &Output) -> Option<bool> {
        clean_by_status(output, &[1, 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_clusters_and_its_size_are_those_of_mkfs() {
        let with = |block_size: &str| Configuration {
            name: String::new(),
            filesystem: "exfat".to_string(),
            settings: [("block_size".to_string(), block_size.to_string())].into(),
        };
        assert_eq!(Exfat.minimum_size(&with("1M")), Bytes(8 * Bytes::MIB));
        assert_eq!(Exfat.contradictions(&with("32M")), [""; 0]);
        let reason = "exfat does not support clusters of 64M; supported: a power of two from 512 to 32M";
        assert_eq!(Exfat.contradictions(&with("64M")), [reason]);
    }
}
