//! Parsers for texts of /proc and /sys. Totals since boot, as the kernel counts them; differences are
//! computed elsewhere ([`crate::Sampler`]).
//!
//! The procfs crate parses the same files, but gives up on a whole file at the first line that it does not
//! know, and slices some lines without checking; here such a line is counted and the rest is used.

mod journal;
mod system;
mod task;

pub use journal::{btrfs_commits, jbd2_info, xfs_stats};
pub use system::{DiskCounters, cpu_time, disks, memory, stalls};
pub use task::{TaskIo, run_time_ns, task_io};

/// The value read, and the number of lines that could not be parsed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parsed<T> {
    /// The parsed value.
    pub value: T,
    /// Lines that could not be parsed, or that are missing.
    pub unparsed: u64,
}

/// The number after a word in a text of lines `word number ...`, like `/proc/meminfo`.
fn number_of(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix([':', ' ']))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The numbers after a word, in order.
fn numbers_of(text: &str, word: &str) -> Option<Vec<u64>> {
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix([':', ' ']))?;
    line.split_whitespace().map(|number| number.parse().ok()).collect()
}
