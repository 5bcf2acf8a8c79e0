//! ext2, ext3 and ext4: one family of tools, one driver in today's kernel, one table of differences.

use super::{
    Capacity, Expectation, Filesystem, Kernel, Purpose, Shown, Targets, DATA_MODES, expect, no_such_blocks,
    none_of, raw_mkfs, size_of, uuid,
};
use crate::words::{self, ELSEWHERE, Given, MAKES_NOTHING, NAMES_DEVICE, ON_ERRORS, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{self, By, Commits, Flushes, Harmless, Unknown, Weakens};
use fsdyno_core::hazard::NO_JOURNAL;
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Grant, Output};
use std::path::Path;

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Ext::Two, &Ext::Three, &Ext::Four];

/// A member of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ext {
    Two,
    Three,
    Four,
}

/// mke2fs refuses a smaller journal, and a larger one (mke2fs(8), `-J size=`).
const JOURNAL_BLOCKS_MIN: u64 = 1024;
const JOURNAL_BLOCKS_MAX: u64 = 10_240_000;

/// Filesystems below this are `small` to mke2fs.
const SMALL: u64 = 512 * Bytes::MIB;

const MODES: [&str; 3] = ["data=journal", "data=ordered", "data=writeback"];

/// The types in mke2fs.conf(5) of e2fsprogs 1.47 that all have the journal of the filesystem.
const USAGE_TYPES: &[&str] =
    &["big", "default", "floppy", "huge", "largefile", "largefile4", "news", "small"];

/// mke2fs(8) of e2fsprogs 1.47.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-c", "-D", "-j", "-K", "-q", "-v"]),
    (Takes::Value, Harmless, &["-b", "-C", "-g", "-G", "-i", "-I", "-L", "-m", "-M", "-N"]),
    (Takes::Value, By(&[(&["linux"], Harmless)]), &["-o"]),
    (Takes::Value, By(&[(&["1"], Harmless)]), &["-r"]),
    // mke2fs.conf(5) can have types without a journal.
    (Takes::Value, By(&[(USAGE_TYPES, Harmless)]), &["-T"]),
    (ON_ERRORS, Harmless, &["-e"]),
    (Takes::List(EXTENDED), Harmless, &["-E"]),
    (Takes::List(JOURNAL), Harmless, &["-J"]),
    (Takes::Features(FEATURES), Harmless, &["-O"]),
    (NAMES_DEVICE, Unknown, &["-d", "-l", "-z"]),
    (MAKES_NOTHING, Unknown, &["-n", "-V"]),
    (OURS, Unknown, &["-t", "-U"]),
    (ELSEWHERE, Unknown, &["-S"]),
    (Takes::Never("is already passed by fsdyno; given twice, it overwrites mounted filesystems"), Unknown, &["-F"]),
    (Takes::Never("is the old name of -E; use -E"), Unknown, &["-R"]),
];
const EXTENDED: Words = &[
    (
        Takes::Value, Harmless,
        &[
            "desc_size",
            "encoding",
            "encoding_flags",
            "hash_seed",
            "mmp_update_interval",
            "num_backup_sb",
            "orphan_file_size",
            "quotatype",
            "resize",
            "stride",
            "stripe-width",
            "stripe_width",
        ],
    ),
    (
        Takes::Perhaps, Harmless,
        &[
            "lazy_itable_init",
            "packed_meta_blocks",
            "root_owner",
        ],
    ),
    (Takes::Perhaps, Unknown, &["assume_storage_prezeroed"]),
    (
        Takes::Perhaps,
        By(&[
            (&["lazy_journal_init=0"], Harmless),
            (
                &["lazy_journal_init", "lazy_journal_init=1"],
                Weakens(
                    "lazy_journal_init: until the journal has been written once, a power cut may replay what \
                     was on the device before",
                ),
            ),
        ]),
        &["lazy_journal_init"],
    ),
    (Takes::Nothing, Harmless, &["discard", "no_copy_xattrs", "nodiscard", "test_fs"]),
    (ELSEWHERE, Unknown, &["offset"]),
];
const JOURNAL: Words =
    &[(Takes::Value, Harmless, &["fast_commit_size", "location", "size"]), (NAMES_DEVICE, Unknown, &["device"])];
/// lib/e2p/feature.c, except `journal_dev`, which creates no filesystem, and features that only the kernel
/// sets.
const FEATURES: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "64bit",
            "64bits",
            "bigalloc",
            "casefold",
            "dir_index",
            "dir_nlink",
            "ea_inode",
            "encrypt",
            "ext_attr",
            "extent",
            "extents",
            "extra_isize",
            "fast_commit",
            "filetype",
            "flex_bg",
            "huge_file",
            "inline_data",
            "large_dir",
            "large_file",
            "meta_bg",
            "metadata_csum",
            "metadata_csum_seed",
            "mmp",
            "orphan_file",
            "project",
            "quota",
            "resize_inode",
            "sparse_super",
            "sparse_super2",
            "stable_inodes",
            "uninit_bg",
            "uninit_groups",
            "verity",
        ],
    ),
    (
        Takes::Nothing,
        By(&[
            (&["has_journal", "+has_journal"], Harmless),
            // `none` clears all of them.
            (&["^has_journal", "-has_journal", "none"], NO_JOURNAL),
        ]),
        &["has_journal", "none"],
    ),
];
/// fs/ext4/super.c, `ext4_param_specs`; what they do, by Documentation/admin-guide/ext4.rst.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "acl", "block_validity", "bsddf", "bsdgroups", "debug", "delalloc", "dioread_lock",
            "dioread_nolock", "discard", "grpid", "grpquota", "i_version", "inlinecrypt", "journal_checksum",
            "mblk_io_submit", "minixdf", "no_mbcache", "no_prefetch_block_bitmaps", "noacl",
            "noblock_validity", "nodelalloc", "nodioread_nolock", "nodiscard", "nogrpid", "noinit_itable",
            "nomblk_io_submit", "nombcache", "noquota", "noreservation", "nouid32", "nouser_xattr",
            "nowarn_on_error", "oldalloc", "orlov", "prefetch_block_bitmaps", "prjquota", "quota",
            "reservation", "sysvgroups", "user_xattr", "usrquota", "warn_on_error",
        ],
    ),
    (
        Takes::Value,
        Harmless,
        &[
            "data_err",
            "init_itable",
            "inode_readahead_blks",
            "journal_ioprio",
            "jqfmt",
            "max_batch_time",
            "max_dir_size_kb",
            "mb_optimize_scan",
            "min_batch_time",
            "resgid",
            "resuid",
            "sb",
            "stripe",
        ],
    ),
    (Takes::Perhaps, Flushes(&["barrier", "barrier=1"]), &["barrier", "nobarrier"]),
    (Takes::Value, Commits, &["commit"]),
    (Takes::Value, DATA_MODES, &["data"]),
    (
        Takes::Perhaps,
        By(&[
            (&["auto_da_alloc", "auto_da_alloc=1"], Harmless),
            (
                &["noauto_da_alloc", "auto_da_alloc=0"],
                Weakens("noauto_da_alloc: a power cut may leave recently replaced files empty"),
            ),
        ]),
        &["auto_da_alloc", "noauto_da_alloc"],
    ),
    (
        Takes::Nothing,
        Weakens("journal_async_commit = 1: a power cut may lose commits or replay torn ones"),
        &["journal_async_commit"],
    ),
    // Mounted for writing, it then works without the journal (`ext4_load_and_init_journal`).
    (Takes::Nothing, NO_JOURNAL, &["noload", "norecovery"]),
    (Takes::Perhaps, Unknown, &["dax", "test_dummy_encryption"]),
    (ON_ERRORS, Harmless, &["errors"]),
    (NAMES_DEVICE, Harmless, &["grpjquota", "journal_dev", "journal_path", "usrjquota"]),
];

impl Filesystem for Ext {
    fn name(&self) -> &'static str {
        match self {
            Ext::Two => "ext2",
            Ext::Three => "ext3",
            Ext::Four => "ext4",
        }
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let journal = if self.has_internal_journal(configuration) {
            // A journal may take half of the filesystem ("Total journal size too big" beyond it).
            2 * size_of(configuration, "journal_size")
                .unwrap_or(JOURNAL_BLOCKS_MIN * size_of(configuration, "block_size").unwrap_or(4096))
        } else {
            0
        };
        Bytes(Bytes::MIB + journal)
    }

    /// Tables of inodes and the journal are no blocks for files. Of these, mke2fs(8) reserves 5 % for root
    /// (`-m`), and the kernel keeps 2 % or 4096 clusters for extents to grow (`ext4_set_resv_clusters` in
    /// fs/ext4/super.c). With options of a user's own for mkfs, only the device's size is certain.
    fn capacity(&self, configuration: &Configuration, size: Bytes) -> Capacity {
        if raw_mkfs(configuration).next().is_some() {
            return Capacity { whole: size, kept_back: Bytes(0) };
        }
        let usual = if size.0 < SMALL { 1024 } else { 4096 };
        let block = size_of(configuration, "block_size").unwrap_or(usual);
        let inodes = size.0 / inode_ratio(size) * size_of(configuration, "inode_size").unwrap_or(256);
        let journal = match self.has_internal_journal(configuration) {
            true => size_of(configuration, "journal_size").unwrap_or(journal_blocks(size.0 / block) * block),
            false => 0,
        };
        let whole = size.0.saturating_sub(inodes).saturating_sub(journal);
        let kept_back = size.0 / block / 20 + (whole / block / 50).min(4096);
        Capacity { whole: Bytes(whole), kept_back: Bytes(kept_back * block) }
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        let mut found = Vec::new();
        let journal = configuration.level("journal");
        match (self, journal) {
            (Ext::Two, Some(level)) if level != "none" => {
                found.push(format!(
                    "ext2 has no journal, so journal = {level} is not possible; ext3 is ext2 with a journal"
                ));
            }
            (Ext::Three, Some("none")) => found.push("ext3 without a journal is ext2".to_string()),
            _ => {}
        }
        if journal == Some("none") {
            for axis in ["data", "commit", "journal_size", "journal_async_commit"] {
                if configuration.level(axis).is_some_and(|level| level != "0") {
                    found.push(format!("{axis} is a journal setting and does not apply to journal = none"));
                }
            }
        }
        if configuration.external_journal().is_some() && configuration.level("journal_size").is_some() {
            found
                .push("an external journal uses its whole device, so journal_size cannot be set".to_string());
        }
        if configuration.external_journal().is_some()
            && given(configuration).any(|option| option.name == "-J")
        {
            found.push(
                "journal = external and the mkfs word '-J' both set the location of the journal".to_string(),
            );
        }
        let data = configuration.level("data");
        if configuration.level("journal_async_commit") == Some("1") && matches!(data, None | Some("ordered"))
        {
            found.push(
                "journal_async_commit = 1 does not work with data = ordered, the default; set data to \
                 writeback or journal"
                    .to_string(),
            );
        }
        if configuration.level("delalloc") == Some("1") && data == Some("journal") {
            found.push(
                "data = journal disables delayed allocation, so delalloc = 1 is not possible".to_string(),
            );
        }
        found.extend(self.size_contradictions(configuration));
        found
    }

    fn unmet(&self, configuration: &Configuration, kernel: &Kernel, size: Option<Bytes>) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(block_size) =
            size_of(configuration, "block_size").filter(|bytes| *bytes > kernel.page_size)
        {
            missing.push(format!(
                "{} with blocks of {} needs memory pages of that size; nearest: block_size = {}",
                self.name(),
                Bytes(block_size),
                Bytes(kernel.page_size)
            ));
        }
        let journal = size_of(configuration, "journal_size");
        if let (Some(size), Some(journal)) =
            (size, journal.filter(|_| self.has_internal_journal(configuration)))
            && journal * 2 > size.0
        {
            missing.push(format!(
                "a journal of {} is too large for a device of {size}; it may use at most half of it",
                Bytes(journal)
            ));
        }
        missing
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let mut commands = Vec::new();
        let mut words = Joined::default();
        words.extended.push("lazy_itable_init=0".to_string());
        words.extended.push("lazy_journal_init=0".to_string());
        if targets.keeps_blocks {
            words.extended.push("nodiscard".to_string());
        }
        words.extended.extend(seed.map(|seed| format!("hash_seed={}", uuid(seed, Purpose::HashSeed))));
        if configuration.level("journal") == Some("none") && *self != Ext::Two {
            words.features.push("^has_journal".to_string());
        }
        if let Some(size) = size_of(configuration, "journal_size") {
            words.journal.push(format!("size={}", size / Bytes::MIB));
        }
        let mut mkfs = Command::new(format!("mkfs.{}", self.name()));
        if let Some(seed) = seed {
            mkfs = mkfs.args(["-F", "-U"]).args([self.identifier(seed, &targets.data.planned)]);
        }
        let block_size = block_size(configuration, targets);
        if let Some(size) = &block_size {
            mkfs = mkfs.args(["-b", size]);
        }
        if let Some(size) = size_of(configuration, "inode_size") {
            mkfs = mkfs.args(["-I".to_string(), size.to_string()]);
        }
        if let Some(journal) = &targets.journal {
            let make = Command::new("mke2fs").args(seed.map(|_| "-F")).args(["-O", "journal_dev"]);
            let identifier = |seed| self.journal_identifier(seed, &targets.data.planned, &journal.planned);
            let make = make.args(targets.keeps_blocks.then_some(["-E", "nodiscard"]).into_iter().flatten());
            let own = seed.and_then(identifier).map(|identifier| ["-U".to_string(), identifier]);
            let make = make.args(own.into_iter().flatten());
            let make = make.args(block_size.iter().flat_map(|size| ["-b", size]));
            commands.push(make.device("", journal.handle, &journal.node));
            mkfs = mkfs.args(["-J"]).device("device=", journal.handle, &journal.node);
        }
        words.add_raw(configuration);
        let mkfs = words.append_to(mkfs);
        commands.push(mkfs.device("", targets.data.handle, &targets.data.node));
        commands
    }

    fn journal_identifier(&self, seed: u64, _data: &Path, journal: &Path) -> Option<String> {
        Some(uuid(seed, Purpose::Journal { filesystem: self.name(), on: journal }))
    }

    fn mount_options(&self, configuration: &Configuration, journal: Option<&Path>) -> Vec<String> {
        let mut options = Vec::new();
        // The superblock has the number that the device had when mkfs ran. A copy may be on another one.
        if let Some(journal) = journal {
            options.push(format!("journal_path={}", journal.display()));
        }
        if let Some(level) = configuration.level("barrier") {
            options.push(format!("barrier={level}"));
        }
        if let Some(mode) = configuration.level("data") {
            options.push(format!("data={mode}"));
        }
        if let Some(seconds) = configuration.level("commit") {
            options.push(format!("commit={seconds}"));
        }
        match configuration.level("delalloc") {
            Some("1") => options.push("delalloc".to_string()),
            Some(_) => options.push("nodelalloc".to_string()),
            None => {}
        }
        if configuration.level("journal_async_commit") == Some("1") {
            options.push("journal_async_commit".to_string());
        }
        options
    }

    fn expectations(&self, configuration: &Configuration) -> Vec<Expectation> {
        let mut expectations = Vec::new();
        for (axis, on, off) in [
            ("barrier", none_of(["nobarrier"]), Shown::Word("nobarrier".into())),
            ("delalloc", none_of(["nodelalloc"]), Shown::Word("nodelalloc".into())),
            (
                "journal_async_commit",
                Shown::Word("journal_async_commit".into()),
                none_of(["journal_async_commit"]),
            ),
        ] {
            if let Some(level) = configuration.level(axis) {
                expectations.push(expect(axis, level, if level == "1" { on } else { off }));
            }
        }
        if let Some(mode) = configuration.level("data") {
            let word = format!("data={mode}");
            let others = MODES.iter().filter(|other| **other != word).map(|other| (*other).to_string());
            let shown = if mode == "ordered" { Shown::NoneOf(others.collect()) } else { Shown::Word(word) };
            expectations.push(expect("data", mode, shown));
        }
        if let Some(seconds) = configuration.level("commit") {
            // The default of 5 s is not shown.
            let default = ["5", "0"].contains(&seconds);
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

    fn own_hazard(&self) -> Hazard {
        if *self == Ext::Two { NO_JOURNAL } else { Harmless }
    }

    fn check(&self, targets: &Targets) -> Option<Command> {
        let mut command = Command::new("e2fsck").args(["-f", "-n"]);
        if let Some(journal) = &targets.journal {
            command = command.args(["-j"]).device("", journal.handle, &journal.node);
            // Even with -n, it opens the journal for writing.
            command = command.may_change([Grant::File(journal.node.clone())]);
        }
        Some(command.device("", targets.data.handle, &targets.data.node))
    }

    fn beside_a_copy(&self) -> Option<&'static [&'static str]> {
        Some(&[])
    }

    /// After the root filesystem.
    fn check_order(&self) -> u32 {
        2
    }

    /// The status is a sum of bits (e2fsck(8)): 1 to 4 are about the filesystem, 8 and up about the check.
    fn clean(&self, output: &Output) -> Option<bool> {
        (output.status < 8).then_some(output.status == 0)
    }

    fn geometry(&self, targets: &Targets) -> Option<Command> {
        Some(Command::new("dumpe2fs").args(["-h"]).device("", targets.data.handle, &targets.data.node))
    }
}

impl Ext {
    fn has_internal_journal(self, configuration: &Configuration) -> bool {
        self != Ext::Two && matches!(configuration.level("journal"), None | Some("internal"))
    }

    fn size_contradictions(self, configuration: &Configuration) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(no_such_blocks(self.name(), "blocks", 1024..=65536, configuration));
        let block_size = size_of(configuration, "block_size").unwrap_or(4096);
        if let Some(bytes) = size_of(configuration, "inode_size")
            && (!bytes.is_power_of_two() || !(128..=block_size).contains(&bytes))
        {
            found.push(format!(
                "{} does not support inodes of {}; supported: a power of two from 128 to the block size",
                self.name(),
                Bytes(bytes)
            ));
        }
        if let Some(bytes) = size_of(configuration, "journal_size") {
            let (least, most) = (JOURNAL_BLOCKS_MIN * block_size, JOURNAL_BLOCKS_MAX * block_size);
            if !(least..=most).contains(&bytes) || bytes % Bytes::MIB != 0 {
                found.push(format!(
                    "journal_size = {} is invalid: it must be a multiple of 1 MiB from {} to {}",
                    Bytes(bytes),
                    Bytes(least.next_multiple_of(Bytes::MIB)),
                    Bytes(most)
                ));
            }
        }
        found
    }
}

/// The block size to pass. A filesystem and its external journal must have the same one, so then it is passed
/// even if it is left to mkfs, with mkfs's own default (mke2fs.conf(5): 1024 below 512 MiB, 4096 from there
/// on; never less than a sector).
fn block_size(configuration: &Configuration, targets: &Targets) -> Option<String> {
    let raw = given(configuration).filter(|option| option.name == "-b").last();
    let raw = raw.and_then(|option| option.value).map(str::to_string);
    let asked = raw.or(size_of(configuration, "block_size").map(|bytes| bytes.to_string()));
    let small = targets.size.is_some_and(|size| size.0 < SMALL);
    let usual = if small { 1024 } else { 4096 };
    let least = targets.sector.map_or(usual, |sector| sector.0.max(usual));
    asked.or(targets.journal.is_some().then(|| least.to_string()))
}

/// The plan's own words for mke2fs.
fn given(configuration: &Configuration) -> impl Iterator<Item = Given<'_>> {
    words::given(MKFS_WORDS, configuration).into_iter()
}

/// Options of mke2fs of which only the last one counts, so fsdyno's and the plan's have to be joined.
#[derive(Default)]
struct Joined {
    extended: Vec<String>,
    features: Vec<String>,
    journal: Vec<String>,
    others: Vec<String>,
}

impl Joined {
    /// Adds the plan's own words last, so that they take precedence.
    fn add_raw(&mut self, configuration: &Configuration) {
        for Given { name, value } in given(configuration) {
            let value = value.map(str::to_string);
            match name {
                "-E" => self.extended.extend(value),
                "-O" => self.features.extend(value),
                "-J" => self.journal.extend(value),
                name => self.others.extend(std::iter::once(name.to_string()).chain(value)),
            }
        }
    }

    fn append_to(self, mut command: Command) -> Command {
        for (option, list) in [("-E", self.extended), ("-O", self.features), ("-J", self.journal)] {
            if !list.is_empty() {
                command = command.args([option.to_string(), list.join(",")]);
            }
        }
        command.args(self.others)
    }
}

/// Bytes of a device for each inode (`inode_ratio` in mke2fs.conf(5), as it is distributed).
fn inode_ratio(size: Bytes) -> u64 {
    match size.0 / Bytes::MIB {
        0..3 => 8192,
        3..512 => 4096,
        mib if mib < 4 << 20 => 16384,
        mib if mib < 16 << 20 => 32768,
        _ => 65536,
    }
}

/// Blocks of the journal that mke2fs chooses (`ext2fs_default_journal_size` in lib/ext2fs/mkjournal.c).
fn journal_blocks(blocks: u64) -> u64 {
    const MOST_BLOCKS: [(u64, u64); 7] = [
        (32_768, 1024),
        (262_144, 4096),
        (524_288, 8192),
        (4_194_304, 16_384),
        (8_388_608, 32_768),
        (16_777_216, 65_536),
        (33_554_432, 131_072),
    ];
    MOST_BLOCKS.iter().find(|(below, _)| blocks < *below).map_or(262_144, |(_, journal)| *journal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The capacity agrees with statfs(2) of new filesystems (e2fsprogs 1.47.0, Linux 6.18): block size,
    /// blocks, and those of the free ones that files cannot have.
    #[test]
    fn files_have_what_the_kernel_says() {
        for (device, block, blocks, kept_back) in [
            (300 * Bytes::MIB, 1024, 277_623, 277_609 - 258_153),
            (Bytes::GIB, 4096, 249_195, 249_189 - 231_986),
            (3 * Bytes::GIB, 4096, 755_402, 755_396 - 711_979),
        ] {
            let settings = std::collections::BTreeMap::new();
            let configuration = Configuration { name: String::new(), filesystem: "ext4".into(), settings };
            let capacity = Ext::Four.capacity(&configuration, Bytes(device));
            let real: u64 = blocks * block;
            assert!((real..real + real / 100).contains(&capacity.whole.0), "{capacity:?}, not {real}");
            assert_eq!(capacity.kept_back, Bytes(kept_back * block), "of {device}");
        }
    }
}
