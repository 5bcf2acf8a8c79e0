//! The attributes of a disk's queue that axes set, as files in sysfs.

use super::WRITE_CACHE;
use crate::units::Bytes;

/// An attribute of `queue` in sysfs (Documentation/ABI/stable/sysfs-block) that an axis sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueAttribute {
    /// The axis.
    pub axis: &'static str,
    /// The file.
    pub file: &'static str,
    /// The form of a level in its file.
    pub content: QueueContent,
    /// `true` if it is set for each disk of a stack: arrays and mappings pass requests on and have none of
    /// their own. Otherwise it is that of the device with the filesystem.
    pub of_each_disk: bool,
    /// `true` if a loop device has what the file makes it that it has, or had last.
    pub of_file: bool,
    /// The attribute that the kernel sets anew along with it.
    pub resets: Option<&'static str>,
}

/// The form in which a level is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueContent {
    /// The level itself.
    Level,
    /// Words with spaces where the level has hyphens.
    Words,
    /// A size in KiB.
    Kibibytes,
    /// The place of the level in this list, from 0.
    Number(&'static [&'static str]),
}

impl QueueAttribute {
    /// Returns the text to write for a level; `None` if it is no size, or none of the list, but should
    /// be.
    pub fn text(&self, level: &str) -> Option<String> {
        Some(match self.content {
            QueueContent::Level => level.to_string(),
            QueueContent::Words => level.replace('-', " "),
            QueueContent::Kibibytes => (level.parse::<Bytes>().ok()?.0 / Bytes::KIB).to_string(),
            QueueContent::Number(levels) => levels.iter().position(|known| *known == level)?.to_string(),
        })
    }

    const fn of(axis: &'static str, file: &'static str, content: QueueContent) -> Self {
        QueueAttribute { axis, file, content, of_each_disk: true, of_file: false, resets: None }
    }
}

/// Which merges the block layer tries, in the order of `nomerges`.
pub(super) const MERGES: [&str; 3] = ["all", "simple", "none"];

/// The attributes that axes set, in the order in which they are set.
pub const QUEUE: [QueueAttribute; 7] = [
    // Another scheduler starts with its own queue depth (elevator_switch in block/elevator.c).
    QueueAttribute {
        resets: Some("nr_requests"),
        ..QueueAttribute::of("scheduler", "scheduler", QueueContent::Level)
    },
    QueueAttribute { of_file: true, ..QueueAttribute::of(WRITE_CACHE, "write_cache", QueueContent::Words) },
    QueueAttribute {
        of_each_disk: false,
        ..QueueAttribute::of("readahead", "read_ahead_kb", QueueContent::Kibibytes)
    },
    QueueAttribute::of("nr_requests", "nr_requests", QueueContent::Level),
    QueueAttribute::of("max_request", "max_sectors_kb", QueueContent::Kibibytes),
    QueueAttribute::of("rq_affinity", "rq_affinity", QueueContent::Level),
    QueueAttribute::of("merges", "nomerges", QueueContent::Number(&MERGES)),
];
