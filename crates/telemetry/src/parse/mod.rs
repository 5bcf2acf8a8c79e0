//! Texts of /proc and /sys as types. Totals since the machine started, as the kernel counts them; differences are made
//! elsewhere ([`crate::Sampler`]).
//!
//! The procfs crate parses the same files, but gives a whole file up at the first line that it does not know, and slices
//! some lines without looking; here such a line is counted and the rest is used.

mod journal;
mod system;
mod task;

pub use journal::{btrfs_commits, jbd2_info, xfs_stats};
pub use system::{DiskCounters, cpu_time, disks, memory, stalls};
pub use task::{TaskIo, run_time_ns, task_io, task_stat};

/// What was read, and how many lines were not understood.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parsed<T> {
    /// What was understood.
    pub value: T,
    /// Lines that were not, or that ought to be there and are not.
    pub unparsed: u64,
}

/// The number behind a word in a text of lines `word number ...`: the shape of `/proc/meminfo` and its like.
fn number_of(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix([':', ' ']))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The numbers behind a word, in order.
fn numbers_of(text: &str, word: &str) -> Option<Vec<u64>> {
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix([':', ' ']))?;
    line.split_whitespace().map(|number| number.parse().ok()).collect()
}
