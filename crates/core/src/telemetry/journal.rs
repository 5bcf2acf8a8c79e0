//! Journal statistics of filesystems.

use crate::figures::grow;
use serde::{Deserialize, Serialize};

/// The activity of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalActivity {
    /// As the kernel names it: `loop0-8`, `loop0`.
    pub name: String,
    /// In the filesystem's own terms.
    #[serde(flatten)]
    pub log: Log,
}

/// Differences of the journal statistics of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Log {
    /// ext3 and ext4, from `/proc/fs/jbd2/*/info`.
    Jbd2(Jbd2),
    /// XFS, from `/sys/fs/xfs/*/stats/stats`.
    Xfs(XfsLog),
    /// btrfs, from `/sys/fs/btrfs/*/commit_stats`.
    Btrfs(BtrfsCommits),
}

/// The journal of ext3 and ext4. The kernel provides only means since the mount, in whole units, so a window
/// has no means of its own: these are the values at the end of the sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jbd2 {
    /// Transactions committed.
    pub transactions: u64,
    /// The number of those transactions that were requested (fsync).
    pub requested: u64,
    /// Running mean of the commit time, weighted towards recent commits.
    pub commit_ns_mean: u64,
    /// Mean time for which a transaction was open.
    pub running_ns_mean: u64,
    /// Mean time of writing the data of ordered mode.
    pub flushing_ns_mean: u64,
    /// Mean time of writing the journal.
    pub logging_ns_mean: u64,
    /// Mean number of operations in a transaction.
    pub handles_mean: u64,
    /// Mean number of blocks in a transaction.
    pub blocks_mean: u64,
    /// Mean number of blocks that a transaction wrote to the journal.
    pub logged_blocks_mean: u64,
}

/// The log of XFS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfsLog {
    /// Log buffers written.
    pub writes: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The number of times that a task found all log buffers busy.
    pub no_buffer: u64,
    /// Forced log writes (fsync, and waiting for a pinned buffer).
    pub forces: u64,
    /// The number of forced log writes that had to wait.
    pub force_sleeps: u64,
    /// Transactions that had to wait for space in the log.
    pub space_sleeps: u64,
    /// Transactions committed synchronously.
    pub sync_transactions: u64,
    /// Transactions committed asynchronously.
    pub async_transactions: u64,
}

/// Transaction commits of btrfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BtrfsCommits {
    /// Commits.
    pub commits: u64,
    /// Total time of all commits.
    pub commit_ns: u64,
    /// The longest since the mount.
    pub commit_ns_max: u64,
}

impl Log {
    pub(super) fn add(&mut self, next: &Log) {
        match (self, next) {
            (Log::Jbd2(log), Log::Jbd2(next)) => {
                let (transactions, requested) = (log.transactions, log.requested);
                *log = *next;
                grow(&mut log.transactions, transactions);
                grow(&mut log.requested, requested);
            }
            (Log::Xfs(log), Log::Xfs(next)) => {
                grow(&mut log.writes, next.writes);
                grow(&mut log.bytes, next.bytes);
                grow(&mut log.no_buffer, next.no_buffer);
                grow(&mut log.forces, next.forces);
                grow(&mut log.force_sleeps, next.force_sleeps);
                grow(&mut log.space_sleeps, next.space_sleeps);
                grow(&mut log.sync_transactions, next.sync_transactions);
                grow(&mut log.async_transactions, next.async_transactions);
            }
            (Log::Btrfs(log), Log::Btrfs(next)) => {
                grow(&mut log.commits, next.commits);
                grow(&mut log.commit_ns, next.commit_ns);
                log.commit_ns_max = log.commit_ns_max.max(next.commit_ns_max);
            }
            // A name belongs to one filesystem; after the device is formatted again, the counters start from
            // zero.
            (log, next) => *log = *next,
        }
    }
}
