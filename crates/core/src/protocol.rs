//! The engine protocol: one request as JSON on stdin, events as JSON lines on stdout.
//!
//! The same protocol serves an engine on this machine and one in a guest. The parent may close the engine's
//! stdin at any moment: the engine then stops its workers, cleans up if requested (`clean_up`), and exits.

use crate::cache::CacheState;
use crate::configuration::Precondition;
use crate::outcome::Failure;
use crate::progress::Progress;
use crate::reached::{Reached, ReadAgain, Reread};
use crate::result::{Durable, Filled, Layout, PhaseResult, TimerFacts, TreeSummary};
use crate::telemetry::{Telemetry, TelemetryRequest};
use crate::units::{Bytes, Nanos};
use crate::warning::Warning;
use crate::workload::Workload;
pub use crate::workload::part::EnginePart;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of this protocol; the engine refuses any other.
pub const PROTOCOL_VERSION: u32 = 2;

/// The prefix of the paths where trials mount filesystems; 128 random bits in hexadecimal follow.
pub const MOUNT_PREFIX: &str = "/run/fsdyno-";

/// Everything that the engine needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineRequest {
    /// [`PROTOCOL_VERSION`] of the sender.
    pub version: u32,
    /// An existing directory; the engine creates and removes only what is below it.
    pub directory: PathBuf,
    /// The workload to run there.
    pub workload: Workload,
    /// The state to bring the filesystem into first.
    #[serde(default)]
    pub precondition: Option<Precondition>,
    /// The part of the workload to run.
    #[serde(default)]
    pub part: EnginePart,
    /// `true` if the filesystem has been unmounted and mounted again before this part.
    #[serde(default)]
    pub remounted: bool,
    /// Seed of trees and contents.
    pub seed: u64,
    /// `true` to drop the page cache before each phase; needs root.
    pub drop_caches: bool,
    /// The state to bring the caches into for a phase that reads what was there before.
    #[serde(default)]
    pub cache: CacheState,
    /// `true` to remove the trees at the end; a filesystem that is thrown away needs no cleaning up.
    pub clean_up: bool,
    /// The block device below that directory, for a workload that reads it directly.
    #[serde(default)]
    pub device: Option<PathBuf>,
    /// The size of what the filesystem was created on, the same for all filesystems; absent in a directory.
    #[serde(default)]
    pub device_bytes: Option<Bytes>,
    /// The number of machines that do the same at the same time, and share the free space.
    #[serde(default = "one")]
    pub machines: u32,
    /// The seed whose trees all of these machines read: the one that has it as its own creates them for all.
    /// If absent, each has trees of its own.
    #[serde(default)]
    pub shared: Option<u64>,
    /// The telemetry to sample while phases are measured; nothing if absent.
    #[serde(default)]
    pub telemetry: Option<TelemetryRequest>,
    /// The time for which a phase that ends with its work may complete nothing before it is given up and
    /// reported with the operations in flight; unlimited if absent.
    #[serde(default)]
    pub patience: Option<Nanos>,
    /// The wait for a calm device before each phase, if there is one.
    #[serde(default)]
    pub quiesce: Option<Quiesce>,
    /// The memory cgroup to work in; that of the sender if absent.
    #[serde(default)]
    pub memory: Option<MemoryGroup>,
    /// `true` to report that a phase is ready ([`EngineEvent::Ready`]) and wait for a line on stdin.
    #[serde(default)]
    pub pauses: bool,
    /// Where workers write marks ([`crate::durability::Mark`]), each as a whole sector at offset 0: a file
    /// that puts them into the log of the device below the directory. Absent if nothing is recorded.
    #[serde(default)]
    pub marks: Option<PathBuf>,
    /// The point at which to read again what a verified load has left, if at all.
    #[serde(default)]
    pub reread: Reread,
    /// The progress of the writers in earlier parts ([`EngineEvent::Reached`]).
    #[serde(default)]
    pub reached: Vec<Reached>,
    /// `true` to do nothing but sample, from [`EngineEvent::Ready`] until the parent closes stdin.
    #[serde(default)]
    pub observes: bool,
}

impl EngineRequest {
    /// All of a workload, with nothing around it: no filling, no dropping of caches, no sampling, no limit.
    pub fn new(directory: impl Into<PathBuf>, workload: Workload, seed: u64) -> Self {
        EngineRequest {
            version: PROTOCOL_VERSION,
            directory: directory.into(),
            workload,
            precondition: None,
            part: EnginePart::WHOLE,
            remounted: false,
            seed,
            drop_caches: false,
            cache: CacheState::Cold,
            clean_up: false,
            device: None,
            device_bytes: None,
            machines: 1,
            shared: None,
            telemetry: None,
            patience: None,
            quiesce: None,
            memory: None,
            pauses: false,
            marks: None,
            reread: Reread::Never,
            reached: Vec::new(),
            observes: false,
        }
    }
}

fn one() -> u32 {
    1
}

/// A memory cgroup (cgroups(7)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryGroup {
    /// Its directory, which exists.
    pub directory: PathBuf,
    /// The memory that everything in it may use together, page cache included.
    pub limit: Bytes,
}

/// A wait for a calm device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiesce {
    /// The longest time to wait.
    pub limit: Nanos,
    /// Kernel names of the block devices that must be calm: `loop0`, `vda`.
    pub devices: Vec<String>,
}

impl Default for EnginePart {
    fn default() -> Self {
        EnginePart::WHOLE
    }
}

/// The engine's events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EngineEvent {
    /// The first event: the engine is running.
    Hello {
        /// Its process.
        pid: u32,
        /// Its clock.
        timer: TimerFacts,
    },
    /// About once a second, as a sign of life.
    Progress(Progress),
    /// The filesystem has been filled and aged as requested.
    Filled(Filled),
    /// The trees have been created.
    Prepared {
        /// The time that creating them took.
        duration_ns: Nanos,
        /// The trees that were created.
        trees: TreeSummary,
    },
    /// A phase begins as soon as the parent sends a line.
    Ready {
        /// Its name.
        phase: String,
    },
    /// A phase has ended.
    Phase(Box<PhaseResult>),
    /// The data that the last phase wrote is on the device now, or the wait for that was given up.
    Durable {
        /// For the result of the phase.
        durable: Durable,
        /// The part of its time that followed the phase.
        written_back_ns: Nanos,
    },
    /// The progress of the writers of a verified load in the last phase.
    Reached {
        /// Each writer.
        writers: Vec<Reached>,
    },
    /// Everything that a verified load has left was read again, and is as it was written.
    ReadAgain {
        /// The files that were read.
        read_again: ReadAgain,
        /// The time that reading them took.
        duration_ns: Nanos,
    },
    /// The telemetry of an engine that only observes.
    Observed(Box<Telemetry>),
    /// The layout of the files after the last phase.
    Layout(Layout),
    /// A warning for the reader of the result.
    Warning(Warning),
    /// All phases have ended; nothing follows.
    Done,
    /// The engine gave up; nothing follows.
    Failed(Failure),
}
