//! bcachefs. Its only tool is a program of the same name.
//!
//! It asks the running kernel for the version that it creates and checks. One that is older or newer than the
//! kernel cannot check what it has created. Version 1.25 fits Linux 6.16 (docs/guide/guests.md).

use super::{Filesystem, Targets, clean_by_status, no_such_blocks, raw_mkfs, size_of};
use crate::words::{ELSEWHERE, MAKES_NOTHING, NAMES_DEVICE, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{self, By, Harmless, Unknown, Weakens};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Output};

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Bcachefs];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bcachefs;

/// The block sizes that `bcachefs format` accepts and the kernel mounts: no more than a page.
const BLOCK: u64 = 4096;
const BLOCKS: std::ops::RangeInclusive<u64> = 512..=BLOCK;
/// The smallest image that was formatted, mounted by Linux 6.16, and found clean.
const SIZE_MIN: Bytes = Bytes(64 * Bytes::MIB);

/// `bcachefs format --help` of bcachefs-tools 1.25.
const FORMAT_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-f", "--force", "-q", "--quiet", "-v", "--verbose"]),
    (
        Takes::Perhaps, Harmless,
        &[
            "--acl",
            "--casefold",
            "--discard",
            "--grpquota",
            "--inodes_32bit",
            "--inodes_use_key_cache",
            "--journal_transaction_names",
            "--prjquota",
            "--promote_whole_extents",
            "--usrquota",
            "--wide_macs",
        ],
    ),
    (
        Takes::Value, Harmless,
        &[
            "--background_compression",
            "--block_size",
            "--btree_node_size",
            "--bucket_size",
            "--compression",
            "--encoded_extent_max",
            "--gc_reserve_bytes",
            "--gc_reserve_percent",
            "--journal_reclaim_delay",
            "-L",
            "--fs_label",
            "--root_reserve_percent",
            "--str_hash",
            "--superblock_size",
        ],
    ),
    (Takes::Value, DELAY, &["--journal_flush_delay"]),
    (Takes::Perhaps, FLUSHES, &["--journal_flush_disabled"]),
    (Takes::Perhaps, IN_PLACE, &["--nocow"]),
    (Takes::Value, CHECKSUMS, &["--data_checksum"]),
    (Takes::Value, CHECKSUMS, &["--metadata_checksum"]),
    (Takes::OneOf(&["continue", "fix_safe", "ro"]), Harmless, &["--errors"]),
    (NAMES_DEVICE, Unknown, &["--passphrase_file", "--source"]),
    (ELSEWHERE, Unknown, &["--fs_size"]),
    (OURS, Unknown, &["-U", "--uuid"]),
    (MAKES_NOTHING, Unknown, &["-h", "--help"]),
];
/// fs/bcachefs/opts.h of Linux 6.16; what they do, by "bcachefs: Principles of Operation".
const MOUNT_WORDS: Words = &[
    (
        Takes::Perhaps,
        Harmless,
        &[
            "acl", "background_compression", "casefold", "compression", "discard", "fix_errors", "fsck",
            "gc_reserve_bytes", "gc_reserve_percent", "grpquota", "inline_data", "inodes_32bit",
            "inodes_use_key_cache", "journal_reclaim_delay", "journal_transaction_names", "noacl",
            "nodiscard", "nonocow", "prjquota", "promote_whole_extents", "shard_inode_numbers", "str_hash",
            "usrquota", "verbose", "wide_macs",
        ],
    ),
    (Takes::Value, DELAY, &["journal_flush_delay"]),
    (Takes::Perhaps, FLUSHES, &["journal_flush_disabled", "nojournal_flush_disabled"]),
    (Takes::Perhaps, IN_PLACE, &["nocow"]),
    (Takes::Value, CHECKSUMS, &["data_checksum"]),
    (Takes::Value, CHECKSUMS, &["metadata_checksum"]),
    (Takes::OneOf(&["continue", "fix_safe", "ro"]), Harmless, &["errors"]),
    (NAMES_DEVICE, Harmless, &["background_target", "foreground_target", "metadata_target", "promote_target"]),
    (
        Takes::Never("does not write what is measured"),
        Unknown,
        &["nochanges", "no_data_io", "norecovery", "read_only"],
    ),
];
/// With it, fsync(2) returns before anything is on the disk.
const FLUSHES: Hazard = By(&[
    (&["journal_flush_disabled=0", "nojournal_flush_disabled", "0"], Harmless),
    (
        &["journal_flush_disabled", "journal_flush_disabled=1", "--journal_flush_disabled", "1"],
        Weakens("journal_flush_disabled: a power cut loses what was synced"),
    ),
]);
const IN_PLACE: Hazard = By(&[
    (&["nocow=0", "0"], Harmless),
    (
        &["nocow", "nocow=1", "--nocow", "1"],
        Weakens("nocow: file data has no checksums, and a power cut may tear writes"),
    ),
]);
const CHECKSUMS: Hazard = By(&[
    (
        &[
            "crc32c", "crc64", "xxhash", "data_checksum=crc32c", "data_checksum=crc64", "data_checksum=xxhash",
            "metadata_checksum=crc32c", "metadata_checksum=crc64", "metadata_checksum=xxhash",
        ],
        Harmless,
    ),
    (
        &["none", "data_checksum=none", "metadata_checksum=none"],
        Weakens("no checksums: torn writes go undetected"),
    ),
]);
/// Milliseconds, of which 1000 is the default.
const DELAY: Hazard = Hazard::AtMost(1000);
impl Filesystem for Bcachefs {
    fn name(&self) -> &'static str {
        "bcachefs"
    }

    fn minimum_size(&self, _configuration: &Configuration) -> Bytes {
        SIZE_MIN
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        no_such_blocks("bcachefs", "blocks", BLOCKS, configuration).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        let mut format = Command::new("bcachefs").args(["format"]);
        if let Some(seed) = seed {
            format = format.args(["--force", "--quiet", "-U"]).args([self.identifier(seed, &data.planned)]);
        }
        if let Some(bytes) = size_of(configuration, "block_size") {
            format = format.args([format!("--block_size={bytes}")]);
        }
        vec![format.args(raw_mkfs(configuration)).device("", data.handle, &data.node)]
    }

    fn shows_identifier(&self, targets: &Targets) -> Option<Command> {
        self.geometry(targets)
    }

    fn mkfs_words(&self) -> Words {
        FORMAT_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    fn check(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("bcachefs").args(["fsck", "-n"]).device("", data.handle, &data.node))
    }

    /// With `-n`, 1 is what it would have repaired, 4 what it could not, and 8 a filesystem that it could not
    /// even start. The status is also 1 if it asks the kernel to check what another version has created,
    /// which confined commands may not.
    fn clean(&self, output: &Output) -> Option<bool> {
        let asked_kernel = output.stderr.contains("Error opening /dev/bcachefs-ctl");
        clean_by_status(output, if asked_kernel { &[] } else { &[1, 4, 5, 8] })
    }

    fn geometry(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("bcachefs").args(["show-super"]).device("", data.handle, &data.node))
    }
}

#[cfg(test)]
mod tests {
    use super::super::grammar;
    use super::*;
    use crate::words::contradictions;

    fn with(axis: &str, level: &str) -> Configuration {
        let settings = [(axis.to_string(), level.to_string())].into();
        Configuration { name: String::new(), filesystem: "bcachefs".to_string(), settings }
    }

    #[test]
    fn a_check_that_has_not_begun_says_nothing() {
        let clean = |status, said: &str| {
            let (stdout, stderr, duration) = (String::new(), said.to_string(), fsdyno_core::Nanos(0));
            Bcachefs.clean(&Output { status, stdout, stderr, duration })
        };
        assert_eq!(clean(0, "modprobe: FATAL: Module bcachefs not found"), Some(true));
        assert_eq!(clean(1, ""), Some(false));
        assert_eq!(clean(8, "Not a bcachefs superblock layout"), Some(false));
        assert_eq!(clean(1, "Error opening /dev/bcachefs-ctl: Permission denied"), None);
    }

    #[test]
    fn words_name_no_device_and_nothing_that_fsdyno_sets() {
        let wrong = |axis: &str, level: &str| {
            contradictions(grammar(&Bcachefs), &with(axis, level)).len()
        };
        let refused = "-U x|--uuid=x|--source=/root|--source /root|--fs_size=1M|--foreground_target=sdb|\
            --errors=panic|--encrypted|-f sdb|--quiet sdb|--nocow sdb|--passphrase_file=x|--help|--block_size";
        for words in refused.split('|') {
            assert_ne!(wrong("mkfs", words), 0, "{words}");
        }
        for words in "--compression=zstd:3 --nocow|-L x --discard|--acl=0|--data_checksum xxhash".split('|') {
            assert_eq!(wrong("mkfs", words), 0, "{words}");
        }
        for words in ["errors=panic", "promote_target=sdb", "x=y", "degraded=very", "no_data_io"] {
            assert_ne!(wrong("mount", words), 0, "{words}");
        }
        assert_eq!(wrong("mount", "compression=lz4,journal_flush_delay=100,nocow"), 0);
    }
}
