//! The protocol of the process that records a disk: requests as JSON lines on its stdin, one reply to each on
//! its stdout. It ends, and its files disappear from the mountpoint, when its stdin is closed.

use super::{CacheModel, Promise, RequestKind};
use crate::device::DiskModelText;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Name of the file below the mountpoint that takes marks: each sector that is written to it, at any offset.
/// It reads as the marks so far, in their order, and has a size so that it can be the disk of a guest.
pub const MARKS_FILE: &str = "marks";

/// The source that the mount of a recorder shows, which is of type `fuse`.
pub const RECORDER_SOURCE: &str = "fsdyno-recorder";

/// A log to which nothing more is added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteLog {
    /// The directory with its files.
    pub directory: PathBuf,
    /// The size of the disk, all parts together.
    pub size: Bytes,
}

/// A request to a recorder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum RecorderRequest {
    /// The first request. Makes a log in `directory`, and mounts itself at `mountpoint`. The next files that
    /// are created there are the parts of the disk, all of the size of the first; once they are removed, the
    /// log is complete.
    Begin {
        /// An empty directory for the files of the log and of states.
        directory: PathBuf,
        /// An empty directory.
        mountpoint: PathBuf,
        /// A log of one part to read instead of making one. Several recorders can read the same log.
        complete: Option<CompleteLog>,
        /// The number of files that make up the disk, each of which is flushed by itself.
        parts: u32,
        /// `true` if processes of other users may use the files, once they have received them open: then the
        /// permissions decide, which are root's. Otherwise the kernel keeps everybody else away.
        shared: bool,
    },
    /// Chooses places in the complete log.
    Cuts {
        /// The number of places.
        count: u32,
        /// Decides which.
        seed: u64,
    },
    /// The next files that are created at the mountpoint are the disk in this state, until they are removed.
    /// So are those that were removed, to whoever still has them open.
    State(StateRequest),
    /// The next files that are created at the mountpoint are a disk on which nothing has ever been written,
    /// until they are removed; likewise to whoever has earlier ones open. Nothing is recorded. Ends all
    /// faults.
    Blank {
        /// The size of the disk, all parts together; that of the first one, for all later ones.
        size: Bytes,
    },
    /// Lets requests to the disk fail from now on, in place of those that failed before; `None`: no more.
    Fail {
        /// Which.
        fault: Option<FaultRequest>,
    },
    /// Lets requests to the disk end from now on when a disk of this model would have ended them, which has
    /// just been switched on; `None`: as soon as they are carried out. Each part is a disk of its own.
    Pace {
        /// The model.
        model: Option<DiskModelText>,
    },
    /// Summarises the complete log.
    Summary,
    /// Replays the whole log, and compares the result with the disk.
    Check,
}

/// A disk as it may be after a power cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRequest {
    /// The number of entries of the log that were completed before the cut.
    pub at: u64,
    /// Which of them survive.
    pub model: CacheModel,
    /// Decides random choices.
    pub seed: u64,
    /// The unit in which the device writes as a whole.
    pub atom: Bytes,
    /// The number of the most recent bytes that the model `window` may lose.
    pub volatile: Bytes,
}

/// Requests that fail with EIO from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRequest {
    /// Their kind.
    pub request: RequestKind,
    /// The first of them that fails, counted from 1.
    pub nth: u32,
    /// `true` if all later ones fail, too.
    pub for_good: bool,
    /// The first bytes of a sector with data.
    pub data: [u8; 8],
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The number of entries that were completed before it.
    pub at: u64,
    /// The number of those entries that are marks.
    pub marks: u64,
    /// When it is, by `CLOCK_MONOTONIC`.
    pub time_ns: Nanos,
}

/// The summary of a recorded log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// Writes.
    pub writes: u64,
    /// Bytes in them.
    pub written_bytes: u64,
    /// Discards, and writes of zeros without data.
    pub discards: u64,
    /// Flushes.
    pub flushes: u64,
    /// From the first entry to the last.
    pub duration_ns: Nanos,
    /// The number of acknowledged promises of each kind in the whole log, for those that were acknowledged.
    pub promises: Vec<(Promise, u64)>,
}

/// The punctuality of a modelled disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PaceKept {
    /// The number of requests that ended.
    pub requests: u64,
    /// The mean of the time that they take by the model, from arrival to end.
    pub service_mean_ns: Nanos,
    /// By how much they ended later than by the model: the mean.
    pub late_mean_ns: Nanos,
    /// Its 99th percentile.
    pub late_p99_ns: Nanos,
    /// The longest of it.
    pub late_max_ns: Nanos,
}

impl PaceKept {
    /// By which share of the time that requests take the latest 1 % of them were late.
    pub fn late_share(&self) -> f64 {
        self.late_p99_ns.0 as f64 / self.service_mean_ns.0.max(1) as f64
    }

    /// Whichever of two was later, with the requests of both.
    #[must_use]
    pub fn or_worse(self, other: PaceKept) -> PaceKept {
        let requests = self.requests.saturating_add(other.requests);
        let late_max_ns = self.late_max_ns.max(other.late_max_ns);
        let worse = if self.late_share() > other.late_share() { self } else { other };
        PaceKept { requests, late_max_ns, ..worse }
    }
}

/// A reply of a recorder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum RecorderReply {
    /// It is done, and there is nothing to tell.
    Done,
    /// Places in ascending order.
    Cuts {
        /// As many as were asked for.
        cuts: Vec<Cut>,
    },
    /// The log.
    Summary {
        /// The summary of the recorded log.
        summary: LogSummary,
    },
    /// Requests have failed until now.
    Faults {
        /// The number of requests that failed since the last [`RecorderRequest::Fail`].
        failed: u64,
        /// Why a request failed that was not to fail: the recorder's own files could not be used.
        trouble: Option<String>,
    },
    /// Requests ended as those of a model until now.
    Pace {
        /// Their punctuality; `None` if they did not.
        kept: Option<PaceKept>,
    },
    /// It could not be done.
    Failed {
        /// Why, with its causes.
        reason: String,
    },
}
