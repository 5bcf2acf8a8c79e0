//! NILFS2, a log-structured filesystem that keeps its past: overwritten data stays until a user-space
//! program, the cleaner, releases it.
//!
//! mount(8) starts the cleaner through a helper, umount(8) stops it. fsdyno mounts by system call and does
//! not start it. In a trial of less than an hour it would find nothing to do: it keeps everything younger
//! than its protection period, 3600 s (nilfs_cleanerd.conf(5)). A longer trial also runs without it, and what
//! it costs on a filesystem that has been in use for days cannot be seen on a new one; every result says so.

use super::{
    Expectation, Filesystem, Kernel, NO_RECOVERY, Targets, no_such_blocks, nobarrier_in_force, raw_mkfs,
    size_of,
};
use crate::words::{MAKES_NOTHING, ON_ERRORS, Takes, Words};
use fsdyno_core::hazard::Hazard::{By, Flushes, Harmless, Unknown};
use fsdyno_core::{Bytes, Configuration, Warning, WarningKind};
use fsdyno_host::{Command, Output};
use std::path::Path;

pub(super) const FAMILY: &[&dyn Filesystem] = &[&Nilfs2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nilfs2;

/// The block sizes that mkfs.nilfs2 2.2.9 supports; the kernel mounts no blocks larger than a page
/// (mkfs.nilfs2(8)).
const BLOCKS: std::ops::RangeInclusive<u64> = 1024..=65536;
/// mkfs.nilfs2 2.2.9 creates at least this many segments of this many blocks.
const SEGMENTS_MIN: u64 = 16;
const SEGMENT_BLOCKS: u64 = 2048;

const UNCLEANED: &str = "nilfs_cleanerd did not run: the space of overwritten and deleted data was not \
                         reclaimed (where it runs, it waits an hour before it does so)";

/// mkfs.nilfs2(8) of nilfs-utils 2.2.
const MKFS_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["-c", "-f", "-K", "-q", "-v"]),
    (Takes::Value, Harmless, &["-b", "-B", "-L", "-m"]),
    (Takes::Features(&[(Takes::Nothing, Harmless, &["block_count", "none"])]), Harmless, &["-O"]),
    (MAKES_NOTHING, Unknown, &["-h", "-n", "-V"]),
];
/// fs/nilfs2/super.c; what they do, by Documentation/filesystems/nilfs2.rst.
const MOUNT_WORDS: Words = &[
    (Takes::Nothing, Harmless, &["discard", "nodiscard"]),
    (Takes::Value, By(&[(&["order=relaxed", "order=strict"], Harmless)]), &["order"]),
    (Takes::Nothing, Flushes(&["barrier"]), &["barrier", "nobarrier"]),
    (Takes::Nothing, NO_RECOVERY, &["norecovery"]),
    (Takes::Value, Unknown, &["cp"]),
    (ON_ERRORS, Harmless, &["errors"]),
];

impl Filesystem for Nilfs2 {
    fn name(&self) -> &'static str {
        "nilfs2"
    }

    fn minimum_size(&self, configuration: &Configuration) -> Bytes {
        let block = size_of(configuration, "block_size").unwrap_or(4096);
        Bytes(SEGMENTS_MIN * SEGMENT_BLOCKS * block + 2 * Bytes::MIB)
    }

    fn contradictions(&self, configuration: &Configuration) -> Vec<String> {
        no_such_blocks("nilfs2", "blocks", BLOCKS, configuration).into_iter().collect()
    }

    fn unmet(&self, configuration: &Configuration, kernel: &Kernel, _size: Option<Bytes>) -> Vec<String> {
        let large = size_of(configuration, "block_size").filter(|bytes| *bytes > kernel.page_size);
        let reason = |bytes| {
            format!(
                "nilfs2 with blocks of {} needs memory pages of that size; nearest: block_size = {}",
                Bytes(bytes),
                Bytes(kernel.page_size)
            )
        };
        large.map(reason).into_iter().collect()
    }

    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command> {
        let data = &targets.data;
        let mut mkfs = Command::new("mkfs.nilfs2").args(seed.map(|_| "-f")).args(targets.keeps_blocks.then_some("-K"));
        if let Some(bytes) = size_of(configuration, "block_size") {
            mkfs = mkfs.args(["-b".to_string(), bytes.to_string()]);
        }
        mkfs = mkfs.args(raw_mkfs(configuration)).device("", data.handle, &data.node);
        let tune = seed.map(|seed| {
            let identity = self.identifier(seed, &data.planned);
            Command::new("nilfs-tune").args(["-U"]).args([identity]).device("", data.handle, &data.node)
        });
        std::iter::once(mkfs).chain(tune).collect()
    }

    fn mount_options(&self, configuration: &Configuration, _journal: Option<&Path>) -> Vec<String> {
        let word = |level| if level == "1" { "barrier" } else { "nobarrier" };
        configuration.level("barrier").map(|level| word(level).to_string()).into_iter().collect()
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

    fn caveats(&self) -> Vec<Warning> {
        vec![Warning::new(WarningKind::GarbageCollection, UNCLEANED)]
    }

    /// "No fsck tool is available yet, sorry" (nilfs-tune(8)).
    fn check(&self, _targets: &Targets) -> Option<Command> {
        None
    }

    fn clean(&self, _output: &Output) -> Option<bool> {
        None
    }

    fn geometry(&self, targets: &Targets) -> Option<Command> {
        Some(Command::new("nilfs-tune").args(["-l"]).device("", targets.data.handle, &targets.data.node))
    }
}
