//! ReiserFS (version 3), which was part of Linux until 6.12.

use super::{
    DATA_MODES, Expectation, Filesystem, Kernel, Shown, Targets, clean_by_status, expect,
    journal_inside_only, no_such_blocks, none_of, raw_mkfs, size_of,
};
use crate::words::{MAKES_NOTHING, NAMES_DEVICE, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{Commits, Flushes, Harmless, Unknown};
use fsdyno_core::hazard::NO_JOURNAL;
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Grant, Output};
use std::path::Path;

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Reiserfs];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reiserfs;

/// mkfs.reiserfs 3.6.27 supports no blocks below 4k ("not supported"); it supports 8k, but the kernel mounts
/// no blocks larger than a page (fs/reiserfs/super.c).
const BLOCKS: std::ops::RangeInclusive<u64> = 4096..=4096;
/// Journal size in blocks: the minimum, the default of mkfs.reiserfs, and the maximum (mkreiserfs(8)).
const JOURNAL_BLOCKS_MIN: u64 = 513;
const JOURNAL_BLOCKS_DEFAULT: u64 = 8193;
const JOURNAL_BLOCKS_MAX: u64 = 32_749;

/// Not shown when in force (include/linux/reiserfs.h, JOURNAL_MAX_COMMIT_AGE).
const COMMIT_DEFAULT: &str = "30";
const MODES: [&str; 3] = ["data=journal", "data=ordered", "data=writeback"];

/// mkreiserfs(8) of reiserfsprogs 3.6.27.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-d", "-f", "-q", "--quiet"]),
    (
        Takes::Value, Harmless,
        &[
            "-b",
            "--block-size",
            "-h",
            "--hash",
            "-l",
            "--label",
            "-o",
            "--journal-offset",
            "-s",
            "--journal-size",
            "-t",
            "--transaction-max-size",
        ],
    ),
    // The older format has no UUID.
    (Takes::OneOf(&["3.6"]), Harmless, &["--format"]),
    (NAMES_DEVICE, Unknown, &["-B", "--badblocks", "-j", "--journal-device"]),
    (OURS, Unknown, &["-u", "--uuid"]),
    (MAKES_NOTHING, Unknown, &["-V"]),
];
/// fs/reiserfs/super.c, `reiserfs_parse_options`.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "acl", "attrs", "conv", "expose_privroot", "grpquota", "hashed_relocation", "noacl", "noattrs",
            "noquota", "nosecurity", "notail", "nouser_xattr", "no_unhashed_relocation", "quota",
            "user_xattr", "usrquota",
        ],
    ),
    (
        Takes::Perhaps,
        Harmless,
        &["alloc", "block-allocator", "hash", "jqfmt", "nolargeio", "tails"],
    ),
    (Takes::Value, Flushes(&["barrier=flush"]), &["barrier"]),
    (Takes::Value, Commits, &["commit"]),
    (Takes::Value, DATA_MODES, &["data"]),
    (Takes::Nothing, NO_JOURNAL, &["nolog"]),
    (Takes::Perhaps, Unknown, &["replayonly", "resize"]),
    (Takes::OneOf(&["continue", "ro-remount"]), Harmless, &["errors"]),
    (NAMES_DEVICE, Harmless, &["grpjquota", "jdev", "usrjquota"]),
];

impl Filesystem for Reiserfs {
    fn name(&self) -> &'static str {
        "reiserfs"
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let journal = journal_blocks(configuration).unwrap_or(JOURNAL_BLOCKS_DEFAULT);
        Bytes(journal * block_size(configuration) + Bytes::MIB)
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(no_such_blocks("reiserfs", "blocks", BLOCKS, configuration));
        if configuration.level("journal") == Some("none") {
            let reason = "reiserfs always has a journal, so journal = none is not possible; nearest: mount = \
                          \"nolog\"";
            found.push(reason.to_string());
        }
        if let (Some(size), Some(blocks)) =
            (size_of(configuration, "journal_size"), journal_blocks(configuration))
            && !(JOURNAL_BLOCKS_MIN..=JOURNAL_BLOCKS_MAX).contains(&blocks)
        {
            let of = |blocks: u64| Bytes((blocks * block_size(configuration)).next_multiple_of(Bytes::KIB));
            found.push(format!(
                "journal_size = {} is out of range ({} to {} with this block size)",
                Bytes(size),
                of(JOURNAL_BLOCKS_MIN),
                of(JOURNAL_BLOCKS_MAX)
            ));
        }
        found
    }

    fn unmet(&self, configuration: &Configuration, _kernel: &Kernel, _size: Option<Bytes>) -> Vec<String> {
        journal_inside_only("reiserfs", "journal", configuration).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        let mut mkfs = Command::new("mkfs.reiserfs");
        if let Some(seed) = seed {
            // Given twice, -f asks no questions.
            mkfs = mkfs.args(["-f", "-f", "-u"]).args([self.identifier(seed, &data.planned)]);
        }
        if let Some(bytes) = size_of(configuration, "block_size") {
            mkfs = mkfs.args(["-b".to_string(), bytes.to_string()]);
        }
        if let Some(blocks) = journal_blocks(configuration) {
            mkfs = mkfs.args(["-s".to_string(), blocks.to_string()]);
        }
        vec![mkfs.args(raw_mkfs(configuration)).device("", data.handle, &data.node)]
    }

    fn mount_options(&self, configuration: &Configuration, _journal: Option<&Path>) -> Vec<String> {
        let mut options = Vec::new();
        if let Some(level) = configuration.level("barrier") {
            options.push(format!("barrier={}", if level == "1" { "flush" } else { "none" }));
        }
        for axis in ["data", "commit"] {
            options.extend(configuration.level(axis).map(|level| format!("{axis}={level}")));
        }
        options
    }

    /// It shows options that differ from the default (fs/reiserfs/super.c, `reiserfs_show_options`).
    fn expectations(&self, configuration: &Configuration) -> Vec<Expectation> {
        let mut expectations = Vec::new();
        if let Some(level) = configuration.level("barrier") {
            let off = "barrier=none";
            let shown = if level == "1" { none_of([off]) } else { Shown::Word(off.to_string()) };
            expectations.push(expect("barrier", level, shown));
        }
        if let Some(mode) = configuration.level("data") {
            let shown = if mode == "ordered" { none_of(MODES) } else { Shown::Word(format!("data={mode}")) };
            expectations.push(expect("data", mode, shown));
        }
        if let Some(seconds) = configuration.level("commit") {
            let default = [COMMIT_DEFAULT, "0"].contains(&seconds);
            let shown = if default { none_of(["commit="]) } else { Shown::Word(format!("commit={seconds}")) };
            expectations.push(expect("commit", seconds, shown));
        }
        expectations
    }

    fn mkfs_words(&self) -> Words {
        MKFS_WORDS
    }

    fn mount_words(&self) -> Words {
        MOUNT_WORDS
    }

    /// It would replay a journal; after an unmount the journal is empty.
    fn check(&self, targets: &Targets) -> Option<Command> {
        let data = &targets.data;
        let check = Command::new("reiserfsck").args(["--check", "-q", "-y"]);
        // Even with --check, it opens the journal for writing, and aborts if it may not.
        let check = check.may_change([Grant::File(data.node.clone())]);
        Some(check.device("", data.handle, &data.node))
    }

    /// 4 and 6: errors that `--rebuild-tree` or `--fix-fixable` would mend (reiserfsck(8)).
    fn clean(&self, output: &Output) -> Option<bool> {
        clean_by_status(output, &[4, 6])
    }
}

fn block_size(configuration: &Configuration) -> u64 {
    size_of(configuration, "block_size").unwrap_or(4096)
}

/// The requested journal size in blocks.
fn journal_blocks(configuration: &Configuration) -> Option<u64> {
    size_of(configuration, "journal_size").map(|bytes| bytes / block_size(configuration).max(1))
}
