//! Axes that have something in common.

use super::{CACHE, CLIENT_SYNC, EXPORT, MEMORY, QUEUE};

/// The axes that say how the load runs, rather than what it runs on: they apply to a directory, too.
pub const OF_THE_LOAD: [&str; 2] = [MEMORY, CACHE];

/// The axes that describe the situation of a load rather than a choice: how full and how old a filesystem is,
/// and what memory it has. None is recommended.
pub const CONDITIONS: [&str; 4] = [MEMORY, CACHE, "fill", "age"];

/// The axes of a filesystem that a server shows to clients (`[serve]`).
pub const OF_SERVING: [&str; 7] =
    [EXPORT, "nfs_version", "nfsd_threads", CLIENT_SYNC, "rsize", "wsize", "nconnect"];

/// The axes besides those of a queue that leave no trace in the files that a load prepares.
pub(super) const WITHOUT_TRACE: [&str; 8] =
    [CACHE, "atime", "barrier", "commit", "journal_async_commit", "logbufs", "logbsize", "flushoncommit"];

/// Returns false for an axis that leaves no trace in the files that a load prepares: whatever its level, the
/// same blocks are written to the same places. `data` is not among them, because ext4 does not delay
/// allocation with `data=journal`; neither are memory and the sysctls of writeback, which decide how much is
/// allocated at a time.
pub fn leaves_trace(name: &str) -> bool {
    !WITHOUT_TRACE.contains(&name) && QUEUE.iter().all(|attribute| attribute.axis != name)
}
