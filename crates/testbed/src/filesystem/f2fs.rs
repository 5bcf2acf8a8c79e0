//! F2FS, a log-structured filesystem for flash. It is a log itself, so there is no journal to place.

use super::{Expectation, Filesystem, NO_RECOVERY, Targets, no_such_blocks, nobarrier_in_force, raw_mkfs};
use crate::words::{MAKES_NOTHING, NAMES_DEVICE, ON_ERRORS, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{By, Flushes, Harmless, Unknown, Weakens};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Output};
use std::path::Path;

pub(super) const FAMILY: &[&dyn Filesystem] = &[&F2fs];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct F2fs;

/// The smallest device that mkfs.f2fs 1.15 accepts.
const SIZE_MIN: Bytes = Bytes(52 * Bytes::MIB);
const BLOCK: u64 = 4096;

/// mkfs.f2fs(8) of f2fs-tools 1.15.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-f", "-i", "-m", "-q", "-r", "-S"]),
    (Takes::Value, Harmless, &["-a", "-C", "-d", "-e", "-E", "-g", "-l", "-o", "-R", "-s", "-t", "-T", "-w", "-z"]),
    (Takes::Features(FEATURES), Harmless, &["-O"]),
    (NAMES_DEVICE, Unknown, &["-c"]),
    (OURS, Unknown, &["-U"]),
    (MAKES_NOTHING, Unknown, &["-h", "--help", "-V"]),
];
const FEATURES: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "casefold",
            "compression",
            "encrypt",
            "extra_attr",
            "flexible_inline_xattr",
            "inode_checksum",
            "inode_crtime",
            "lost_found",
            "project_quota",
            "quota",
            "sb_checksum",
            "verity",
        ],
    ),
    (Takes::Nothing, Unknown, &["ro"]),
];
/// fs/f2fs/super.c, `f2fs_param_specs`; what they do, by Documentation/filesystems/f2fs.rst.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "acl", "age_extent_cache", "atgc", "checkpoint_merge", "compress_cache", "compress_chksum",
            "data_flush", "disable_ext_identify", "discard", "extent_cache", "fastboot", "flush_merge",
            "gc_merge", "grpquota", "heap", "inline_data", "inline_dentry", "inline_xattr", "inlinecrypt",
            "nat_bits", "no_heap", "noacl", "nocheckpoint_merge", "nodiscard", "noextent_cache",
            "noflush_merge", "nogc_merge", "noinline_data", "noinline_dentry", "noinline_xattr", "noquota",
            "nouser_xattr", "prjquota", "quota", "user_xattr", "usrquota",
        ],
    ),
    (
        Takes::Value,
        Harmless,
        &[
            "active_logs",
            "alloc_mode",
            "background_gc",
            "compress_algorithm",
            "compress_extension",
            "compress_log_size",
            "compress_mode",
            "discard_unit",
            "inline_xattr_size",
            "io_bits",
            "jqfmt",
            "lookup_mode",
            "memory",
            "nocompress_extension",
            "reserve_node",
            "reserve_root",
            "resgid",
            "resuid",
            "whint_mode",
        ],
    ),
    (Takes::Value, By(&[(&["mode=adaptive", "mode=lfs"], Harmless)]), &["mode"]),
    (Takes::Nothing, Flushes(&["barrier"]), &["barrier", "nobarrier"]),
    (
        Takes::Value,
        By(&[
            (&["fsync_mode=posix", "fsync_mode=strict"], Harmless),
            (
                &["fsync_mode=nobarrier"],
                Weakens("fsync_mode = nobarrier: fsync does not flush, and a power cut may lose what it \
                         acknowledged"),
            ),
        ]),
        &["fsync_mode"],
    ),
    (
        Takes::Value,
        By(&[
            (&["checkpoint=enable"], Harmless),
            (
                &["checkpoint=disable"],
                Weakens("checkpoint = disable: a power cut loses everything since the mount"),
            ),
        ]),
        &["checkpoint"],
    ),
    (Takes::Nothing, NO_RECOVERY, &["disable_roll_forward", "norecovery"]),
    (Takes::Perhaps, Unknown, &["fault_injection", "fault_type", "test_dummy_encryption"]),
    (ON_ERRORS, Harmless, &["errors"]),
    (NAMES_DEVICE, Harmless, &["grpjquota", "prjjquota", "usrjquota"]),
];

impl Filesystem for F2fs {
    fn name(&self) -> &'static str {
        "f2fs"
    }

    fn minimum_size(&self, _configuration: &Configuration) -> Bytes {
        SIZE_MIN
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        no_such_blocks("f2fs", "blocks", BLOCK..=BLOCK, configuration).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        let mut mkfs = Command::new("mkfs.f2fs");
        if let Some(seed) = seed {
            mkfs = mkfs.args(["-f", "-U"]).args([self.identifier(seed, &data.planned)]);
        }
        if targets.keeps_blocks {
            mkfs = mkfs.args(["-t", "0"]);
        }
        vec![mkfs.args(raw_mkfs(configuration)).device("", data.handle, &data.node)]
    }

    fn mount_options(&self, configuration: &Configuration, _journal: Option<&Path>) -> Vec<String> {
        // Only kernels from 6.5 on accept an option for the default.
        let off = configuration.level("barrier") == Some("0");
        off.then(|| "nobarrier".to_string()).into_iter().collect()
    }

    fn expectations(&self, configuration: &Configuration) -> Vec<Expectation> {
        nobarrier_in_force(configuration).into_iter().collect()
    }

    fn mkfs_words(&self) -> Words {
        MKFS_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    fn check(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        Some(Command::new("fsck.f2fs").args(["--dry-run"]).device("", data.handle, &data.node))
    }

    /// The status is also 0 for errors that it would repair (f2fs-tools 1.15), so its output counts.
    fn clean(&self, output: &Output) -> Option<bool> {
        (output.status == 0).then(|| !output.stdout.contains("[Fail]"))
    }
}
