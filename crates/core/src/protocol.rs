//! What the engine is asked and what it answers: one request as JSON on its stdin, events as JSON lines on its stdout.
//!
//! The same boundary serves an engine on this machine and one in a guest. The parent may close the engine's stdin at any
//! moment: the engine then stops its workers, tidies up where it was asked to (`clean_up`), and exits.

use crate::configuration::Precondition;
use crate::outcome::Failure;
use crate::result::{Filled, Layout, PhaseResult, TimerFacts, TreeSummary};
use crate::telemetry::TelemetryRequest;
use crate::units::Nanos;
use crate::warning::Warning;
use crate::workload::Workload;
pub use crate::workload::part::Part;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of this protocol; the engine refuses any other.
pub const PROTOCOL_VERSION: u32 = 1;

/// Everything that the engine needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineRequest {
    /// [`PROTOCOL_VERSION`] of the sender.
    pub version: u32,
    /// An existing directory; the engine makes and removes only what is below it.
    pub directory: PathBuf,
    /// What to do there.
    pub workload: Workload,
    /// What to make of the filesystem first.
    #[serde(default)]
    pub precondition: Option<Precondition>,
    /// How much of it.
    #[serde(default)]
    pub part: Part,
    /// Seed of trees and contents.
    pub seed: u64,
    /// Whether to drop the page cache before each phase; needs root.
    pub drop_caches: bool,
    /// Whether to remove the trees at the end; a filesystem that is thrown away needs no tidying.
    pub clean_up: bool,
    /// The block device below that directory, for a workload that reads it past the filesystem.
    #[serde(default)]
    pub device: Option<PathBuf>,
    /// What to sample while phases are measured; nothing when absent.
    #[serde(default)]
    pub telemetry: Option<TelemetryRequest>,
}

impl Default for Part {
    fn default() -> Self {
        Part::WHOLE
    }
}

/// What the engine tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EngineEvent {
    /// First of all: the engine runs.
    Hello {
        /// Its process.
        pid: u32,
        /// How it tells the time.
        timer: TimerFacts,
    },
    /// About once a second, as a sign of life.
    Progress {
        /// What is being done.
        stage: Stage,
        /// The phase, empty while preparing.
        phase: String,
        /// Share of the stage that is done, 0 to 1.
        done: f64,
        /// Estimated time until the last phase ends.
        left_ns: Nanos,
    },
    /// The filesystem is as full and as old as it was to be.
    Filled(Filled),
    /// The trees are there.
    Prepared {
        /// How long it took.
        duration_ns: Nanos,
        /// What was made.
        trees: TreeSummary,
    },
    /// A phase has ended.
    Phase(Box<PhaseResult>),
    /// How the files lie after the last phase.
    Layout(Layout),
    /// The reader of the result must know this.
    Warning(Warning),
    /// All phases have ended; nothing follows.
    Done,
    /// The engine gave up; nothing follows.
    Failed(Failure),
}

/// A part of a trial as the engine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Filling and ageing the filesystem.
    Fill,
    /// Making the trees.
    Prepare,
    /// Syncing and dropping caches.
    Settle,
    /// The load runs, nothing counts.
    Ramp,
    /// The window.
    Measure,
    /// Waiting for operations in flight at the end of the window.
    Drain,
    /// Looking at how the files lie.
    Layout,
    /// Removing the trees.
    CleanUp,
}
