//! The status that a running sweep publishes.

use fsdyno_core::{AfterTrial, Nanos, Progress};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of [`Status`]; a watcher refuses any other.
pub const STATUS_VERSION: u32 = 3;

/// Where a sweep is. Paths and names come from plans and devices: nothing of them is to be shown raw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`STATUS_VERSION`] of the sweep.
    pub version: u32,
    /// Its process.
    pub pid: u32,
    /// The directory of state that it uses.
    pub state_directory: PathBuf,
    /// The store that it writes.
    pub store: PathBuf,
    /// The name of its plan.
    pub plan: String,
    /// Its number in the store, once it is there.
    pub sweep: Option<i64>,
    /// The stage that it has reached.
    pub stage: Stage,
    /// The action that somebody who watches has asked for, as far as the sweep has seen it.
    pub asked: AfterTrial,
    /// The current trial; the last one between two of them.
    pub now: Option<Now>,
    /// The number of trials that this process has stored.
    pub stored: u32,
    /// The number of times that it has published the course of its race, which is not part of this; 0 if it
    /// is not a race.
    pub raced: u32,
    /// The cost of publishing.
    pub publishing: Publishing,
}

/// The stage of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It has not begun: guards, images, the cost of measuring.
    Starting,
    /// A trial is running.
    Running,
    /// It waits between two trials.
    Paused,
    /// It has ended; its process still prints the results.
    Ended,
}

/// A trial that is running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Now {
    /// The trial, from 1.
    pub trial: u32,
    /// Planned trials.
    pub trials: u32,
    /// The block, from 0.
    pub block: u32,
    /// Index of the case in the plan.
    pub case: u32,
    /// Name of the configuration.
    pub configuration: String,
    /// Kind of the workload.
    pub workload: String,
    /// `true` if it is the sentinel.
    pub sentinel: bool,
    /// The machine of a fleet that runs it; others may run trials as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Where it is; the activity of the workers stays as long as the phase lasts.
    pub progress: Progress,
    /// Estimated time until the sweep ends, or the block if more may follow.
    pub left_ns: Nanos,
    /// `true` if blocks may follow that are not planned yet.
    pub more_may_follow: bool,
}

/// The cost of publishing for a sweep so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publishing {
    /// The number of times that the page was written.
    pub writes: u64,
    /// Processor time of that.
    pub cpu_ns: Nanos,
    /// Time since the first.
    pub since_ns: Nanos,
}

impl Publishing {
    /// Share of one processor, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.since_ns.0 == 0 { 0.0 } else { self.cpu_ns.0 as f64 / self.since_ns.0 as f64 }
    }
}
