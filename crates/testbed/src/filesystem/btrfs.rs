//! Btrfs. It has no journal apart from its trees, so the only level of `journal` is `internal`, which changes
//! nothing.

use super::{
    Expectation, Filesystem, Kernel, NO_RECOVERY, Shown, Targets, clean_by_status, expect, no_such_blocks,
    none_of, raw_mkfs, size_of,
};
use crate::words::{MAKES_NOTHING, NAMES_DEVICE, OURS, Takes, Words};
use fsdyno_core::hazard::Hazard::{By, Commits, Flushes, Harmless, Unknown, Weakens};
use fsdyno_core::profile::{self, RaidProfile};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, Grant, Output};
use std::path::Path;

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Btrfs];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Btrfs;

/// The smallest devices that mkfs.btrfs 6.2 accepts, in bytes, with metadata twice, and once.
const SIZE_MIN_DUP: u64 = 109 * Bytes::MIB;
const SIZE_MIN_SINGLE: u64 = 47 * Bytes::MIB;

/// Not shown when in force (fs/btrfs/super.c, BTRFS_DEFAULT_COMMIT_INTERVAL).
const COMMIT_DEFAULT: &str = "30";

/// mkfs.btrfs(8) of btrfs-progs 6.2. A long option must be spelled out, although the tool accepts any unique
/// prefix.
const MKFS_WORDS: Words = &[
    (
        Takes::Nothing, Harmless,
        &["-f", "--force", "-K", "--nodiscard", "-M", "--mixed", "-q", "--quiet", "-v", "--verbose"],
    ),
    (
        Takes::Value, Harmless,
        &[
            "-b",
            "--byte-count",
            "--checksum",
            "--csum",
            "-L",
            "--label",
            "-n",
            "--nodesize",
            "-s",
            "--sectorsize",
        ],
    ),
    (Takes::Value, profile::HAZARD, &["-d", "--data"]),
    (Takes::Value, profile::HAZARD, &["-m", "--metadata"]),
    (Takes::Features(FEATURES), Harmless, &["-O", "--features", "-R", "--runtime-features"]),
    (NAMES_DEVICE, Unknown, &["-r", "--rootdir", "--shrink"]),
    (OURS, Unknown, &["--device-uuid", "-U", "--uuid"]),
    (MAKES_NOTHING, Unknown, &["--help", "-V", "--version"]),
];
/// All but `list-all`, which makes nothing.
const FEATURES: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "bgt",
            "block-group-tree",
            "extref",
            "free-space-tree",
            "fst",
            "mixed-bg",
            "no-holes",
            "quota",
            "raid56",
            "skinny-metadata",
            "squota",
        ],
    ),
    // Experimental in 6.2.
    (Takes::Nothing, Unknown, &["extent-tree-v2", "raid-stripe-tree", "zoned"]),
];
/// fs/btrfs/super.c, `btrfs_fs_parameters`; what they do, by btrfs(5). `subvol` is looked up in the
/// filesystem itself.
const MOUNT_WORDS: Words = &[
    (
        Takes::Nothing,
        Harmless,
        &[
            "acl", "autodefrag", "clear_cache", "datacow", "datasum", "enospc_debug", "flushoncommit",
            "noacl", "noautodefrag", "nodiscard", "noenospc_debug", "noflushoncommit", "nospace_cache",
            "nossd", "nossd_spread",
            // fsync then commits everything (btrfs(5)).
            "notreelog",
            "rescan_uuid_tree", "skip_balance", "ssd", "ssd_spread", "treelog", "user_subvol_rm_allowed",
        ],
    ),
    (
        Takes::Perhaps,
        Harmless,
        &[
            "compress",
            "compress-force",
            "discard",
            "max_inline",
            "metadata_ratio",
            "space_cache",
            "subvol",
            "subvolid",
            "thread_pool",
        ],
    ),
    (Takes::Nothing, Flushes(&["barrier"]), &["barrier", "nobarrier"]),
    (Takes::Value, Commits, &["commit"]),
    // `datacow` takes back only one of the two that `nodatacow` sets.
    (
        Takes::Nothing,
        By(&[
            (
                &["nodatacow"],
                Weakens("datacow = 0: file data has no checksums, and a power cut may tear writes"),
            ),
            (
                &["nodatasum"],
                Weakens("nodatasum: file data has no checksums, so torn writes go undetected"),
            ),
        ]),
        &["nodatacow", "nodatasum"],
    ),
    (Takes::Nothing, NO_RECOVERY, &["nologreplay", "norecovery"]),
    (Takes::Value, By(&[(&["rescue=nologreplay"], NO_RECOVERY)]), &["rescue"]),
    (Takes::Perhaps, Unknown, &["degraded", "fragment", "usebackuproot"]),
    (Takes::OneOf(&["bug"]), Harmless, &["fatal_errors"]),
    (NAMES_DEVICE, Harmless, &["device"]),
];

/// The profiles that a configuration sets, each with its axis.
fn profiles(configuration: &Configuration) -> impl Iterator<Item = (&'static str, &'static RaidProfile)> {
    ["profile", "data_profile"].into_iter().filter_map(|axis| {
        let level = configuration.level(axis)?;
        Some((axis, profile::find(level)?))
    })
}

impl Filesystem for Btrfs {
    fn name(&self) -> &'static str {
        "btrfs"
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let single = configuration.level("profile") == Some("single");
        Bytes(if single { SIZE_MIN_SINGLE } else { SIZE_MIN_DUP })
    }

    fn least_members(&self, configuration: &Configuration) -> Option<usize> {
        Some(profiles(configuration).map(|(_, profile)| profile.least_disks).max().unwrap_or(1))
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        let mut found = Vec::new();
        let compressed = configuration.level("compress").is_some_and(|level| level != "no");
        if configuration.level("datacow") == Some("0") && compressed {
            found.push(
                "datacow = 0 excludes compression: at mount, the last of the two would win".to_string(),
            );
        }
        found.extend(no_such_blocks("btrfs", "sectors", 4096..=65536, configuration));
        found
    }

    fn unmet(&self, configuration: &Configuration, kernel: &Kernel, _size: Option<Bytes>) -> Vec<String> {
        let mut missing = Vec::new();
        match configuration.level("journal") {
            None | Some("internal") => {}
            Some("none") => {
                missing.push("btrfs has no journal to disable; nearest: mount = \"notreelog\"".to_string())
            }
            Some(_) => {
                missing.push("btrfs has no journal that could be placed on another device".to_string())
            }
        }
        let sizes = &kernel.btrfs_sector_sizes;
        if let Some(bytes) = size_of(configuration, "block_size")
            && !(sizes.contains(&bytes) || sizes.is_empty() && bytes == kernel.page_size)
        {
            let known: Vec<String> = sizes.iter().map(|size| Bytes(*size).to_string()).collect();
            let known = if known.is_empty() { Bytes(kernel.page_size).to_string() } else { known.join(", ") };
            missing
                .push(format!("this kernel mounts btrfs only with sectors of {known}, not {}", Bytes(bytes)));
        }
        missing
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        // It makes the kernel scan what it created.
        let registry = Grant::File("/dev/btrfs-control".into());
        let mut mkfs = Command::new("mkfs.btrfs").may_change([registry]).args(targets.keeps_blocks.then_some("-K"));
        if let Some(seed) = seed {
            mkfs = mkfs.args(["-f", "-U"]).args([self.identifier(seed, &targets.data.planned)]);
        }
        if let Some(bytes) = size_of(configuration, "block_size") {
            mkfs = mkfs.args(["--sectorsize".to_string(), bytes.to_string()]);
        }
        if let Some(profile) = configuration.level("profile") {
            mkfs = mkfs.args(["--metadata", profile]);
        }
        if let Some(profile) = configuration.level("data_profile") {
            mkfs = mkfs.args(["--data", profile]);
        }
        mkfs = mkfs.args(raw_mkfs(configuration));
        let members = std::iter::once(&targets.data).chain(&targets.others);
        vec![members.fold(mkfs, |mkfs, member| mkfs.device("", member.handle, &member.node))]
    }

    fn mount_options(&self, configuration: &Configuration, _journal: Option<&Path>) -> Vec<String> {
        let mut options = Vec::new();
        for (axis, on, off) in [
            ("barrier", "barrier", "nobarrier"),
            ("datacow", "datacow", "nodatacow"),
            ("flushoncommit", "flushoncommit", "noflushoncommit"),
        ] {
            if let Some(level) = configuration.level(axis) {
                options.push(if level == "1" { on } else { off }.to_string());
            }
        }
        if let Some(seconds) = configuration.level("commit") {
            options.push(format!("commit={seconds}"));
        }
        if let Some(method) = configuration.level("compress") {
            options.push(format!("compress={method}"));
        }
        options
    }

    /// The kernel knows only members that were scanned, or that the mount names.
    fn member_option(&self, node: &Path) -> Option<String> {
        Some(format!("device={}", node.display()))
    }

    fn expectations(&self, configuration: &Configuration) -> Vec<Expectation> {
        let mut expectations = Vec::new();
        for (axis, off) in [("barrier", "nobarrier"), ("datacow", "nodatacow")] {
            if let Some(level) = configuration.level(axis) {
                let shown = if level == "1" { none_of([off]) } else { Shown::Word(off.to_string()) };
                expectations.push(expect(axis, level, shown));
            }
        }
        if let Some(level) = configuration.level("flushoncommit") {
            let word = "flushoncommit";
            let shown = if level == "1" { Shown::Word(word.to_string()) } else { none_of([word]) };
            expectations.push(expect(word, level, shown));
        }
        if let Some(seconds) = configuration.level("commit") {
            let default = [COMMIT_DEFAULT, "0"].contains(&seconds);
            let shown = if default { none_of(["commit="]) } else { Shown::Word(format!("commit={seconds}")) };
            expectations.push(expect("commit", seconds, shown));
        }
        if let Some(method) = configuration.level("compress") {
            let shown = match method {
                "no" => none_of(["compress=zlib", "compress=lzo", "compress=zstd"]),
                method => Shown::Word(format!("compress={method}")),
            };
            expectations.push(expect("compress", method, shown));
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
        // It finds the other members itself: it looks at every btrfs of the machine, and asks each for its
        // zones, which is an ioctl.
        let looks = (!targets.others.is_empty()).then(|| Grant::Nodes("/dev".into()));
        let check = Command::new("btrfs").args(["check", "--readonly"]).may_change(looks);
        Some(check.device("", targets.data.handle, &targets.data.node))
    }

    /// The status is 0 or 1, whatever went wrong; a filesystem that cannot be opened is not clean either, and
    /// one that lacks a member is not, whatever the status. What another device refuses says nothing about
    /// this one.
    fn clean(&self, output: &Output) -> Option<bool> {
        let said = |words: &str| output.stdout.contains(words) || output.stderr.contains(words);
        match said("is missing") {
            true => Some(false),
            false if said("Permission denied") => None,
            false => clean_by_status(output, &[1]),
        }
    }

    /// The kernel remembers the members of every filesystem that it has seen, by its UUID and by the names
    /// that they had. Trials of one block have the same UUID, on loop devices that may have moved.
    fn forget(&self, targets: &Targets) -> Option<Command> {
        let nodes = std::iter::once(&targets.data).chain(&targets.others);
        let nodes: Vec<String> = nodes.map(|target| target.node.to_string_lossy().into_owned()).collect();
        let forget = Command::new("btrfs").args(["device", "scan", "--forget"]).args(nodes);
        (!targets.others.is_empty())
            .then(|| forget.may_change([Grant::File("/dev/btrfs-control".into())]))
    }
}
