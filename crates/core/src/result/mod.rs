//! The results of a trial, in the form that is stored, shown and exported.
//!
//! Times and sizes are integers of nanoseconds and bytes. Statistics that depend on operations whose end was
//! not seen are marked (`at_least`).

mod clients;
mod command;
mod cpu;
mod durability;
mod io_errors;
mod latency;
mod lifecycle;
mod open_loop;
mod phase;
mod served;
mod slowest;

pub use crate::durability::LogSummary;
pub use crate::quantile::Quantile;
pub use crate::workload::fault::Harm;
pub use clients::{ClientResult, ClientRole, ClientWork, ClockOffset};
pub use command::{CommandKind, CommandRun};
pub use cpu::CpuTime;
pub use durability::{
    AgeBin, Durability, LosingState, ModelResult, PromiseResult, Spread, UnsyncedResult, Verified,
    VerifiedPromise, VerifiedUnsynced, WrongInside,
};
pub use io_errors::{Content, FaultResult, Usable, Witnessed};
pub use latency::{Latency, Quantiles};
pub use lifecycle::{Lifecycle, LifecycleStep};
pub use open_loop::{Backlog, OpenLoop, RateCurve, RatePoint};
pub use phase::{
    CacheAtStart, Durable, GroupMemory, InFlight, OperationResult, PhaseResult, Quiet, Rates, RoleResult,
    SlowOperation, Steadiness, Timeline, WHOLE_RUN, Watched, WindowClock, WorkerResult,
};
pub use served::{Outage, ServeProtocol, ServeRecipe, Served};
pub use slowest::{SLOWEST, SLOWEST_OF_ROLE, STALL};

use crate::configuration::Configuration;
use crate::device::DeviceSpec;
use crate::durability::PaceKept;
use crate::environment::Environment;
use crate::outcome::Outcome;
use crate::reached::ReadAgain;
use crate::units::Nanos;
use crate::warning::Warning;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Everything about one trial. Serialised, it is the public JSON of a trial, of which the store keeps a part.
///
/// Within a version of the documents that contain trials, keys are only added, and those that are not known
/// are passed on. Times are nanoseconds, sizes bytes, shares 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Position in the sweep, from 0.
    pub trial: u32,
    /// The block that it belongs to, from 0: every case once in random order.
    pub block: u32,
    /// Index of its case in the plan.
    pub case: u32,
    /// `true` if this is a repetition of the first case as the sentinel, in addition to the block.
    pub sentinel: bool,
    /// The machine of a fleet that ran it; absent if it ran on the machine that has the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Seed of trees, contents, filesystem UUID and hash seed.
    pub seed: u64,
    /// Wall-clock start, RFC 3339, UTC.
    pub started: String,
    /// `started` and the time that the trial took, on `CLOCK_MONOTONIC`.
    pub finished: String,
    /// The configuration, its device, and the commands and settings of the build.
    pub configuration: BuiltConfiguration,
    /// The workload that ran on it.
    pub workload: Workload,
    /// The outcome of the trial.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The warnings for a reader of the result.
    pub warnings: Vec<Warning>,
    /// The timer of the engine; absent if the engine never ran.
    pub timer: Option<TimerFacts>,
    /// Durations outside the windows.
    pub lifecycle_ns: Lifecycle,
    /// Verdict and output of the check.
    pub check: Option<CheckResult>,
    /// The trial that created the filesystem and everything on it that this one began with; absent if this
    /// trial did so for itself alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_in: Option<u32>,
    /// The export that clients saw; absent without `[serve]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// The recipe for building the same on another device; absent if nothing was built.
    #[serde(default)]
    pub recipe: Option<Recipe>,
    /// Everything that was done to the machine, in order; empty in results of versions that did not keep it.
    #[serde(default)]
    pub log: Vec<LogEntry>,
    /// The hooks and monitors of the plan that ran with it, in order.
    #[serde(default)]
    pub commands: Vec<CommandRun>,
    /// The filling of the filesystem before the load; absent for a fresh one.
    pub filled: Option<Filled>,
    /// The layout of the files on the filesystem after the load; absent if the load did not finish.
    pub layout: Option<Layout>,
    /// The files that were read again at the end; absent if the load was not verified, or if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_again: Option<ReadAgain>,
    /// The trees that were created.
    pub trees: TreeSummary,
    /// The environment in which it ran.
    pub environment: Environment,
    /// One result per phase.
    pub phases: Vec<PhaseResult>,
    /// The findings after power cuts; only of the workload `durability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// The consequences of requests that failed, one entry for each fault; only of the workload `io-errors`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_errors: Vec<FaultResult>,
    /// The punctuality of a modelled disk while the load ran; absent for any other disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceKept>,
    /// The values that an imported table has for the trial, in base units, by the name of their measure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, f64>,
    /// The parts that another version of fsdyno has added, by their names. They are stored, shown and packed
    /// as they are.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// A configuration as the plan asks for it, and as the tools and the kernel built it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltConfiguration {
    /// The configuration as the plan asks for it.
    #[serde(flatten)]
    pub asked: Configuration,
    /// The kernel that it was built by, as in the environment.
    pub kernel: String,
    /// The device that it was built on.
    pub device: DeviceSpec,
    /// The commands and settings of the build.
    #[serde(flatten)]
    pub built: Built,
}

impl Deref for BuiltConfiguration {
    type Target = Configuration;

    fn deref(&self) -> &Configuration {
        &self.asked
    }
}

impl DerefMut for BuiltConfiguration {
    fn deref_mut(&mut self) -> &mut Configuration {
        &mut self.asked
    }
}

/// Commands that were run, and what is in force as a result, in the words of the tools and the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The exact mkfs command line.
    pub mkfs_command: String,
    /// The mount, as an equivalent command line.
    pub mount_command: String,
    /// From `/proc/self/mountinfo`.
    pub mount_options_in_force: String,
    /// From sysfs.
    pub scheduler_in_force: String,
}

/// A change that a trial made to the machine, or a command that it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The action, as a command line where there is one: `mkfs.ext4 ...`, `mount -t ext4 ...`.
    pub step: String,
    /// The duration of the action.
    pub took_ns: Nanos,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The recipe for building a configuration on another device: the commands of the trial, without the options
/// that pin its hidden factors and without those that suppress a tool's questions. [`Recipe::DEVICE`],
/// [`Recipe::JOURNAL`] and [`Recipe::MOUNTPOINT`] are placeholders for the user's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The commands that build the device from [`Recipe::DISK`] 1, 2 and so on; empty if it is a plain disk.
    #[serde(default)]
    pub device: Vec<String>,
    /// The commands that create the filesystem, in order.
    pub mkfs: Vec<String>,
    /// The filesystem's name.
    pub filesystem: String,
    /// The mount options.
    pub mount_options: Vec<String>,
    /// The sixth field of fstab(5): the order of checks at boot, 0 for none.
    pub check_order: u32,
    /// Files of the device's `queue` directory in sysfs, with the values to write, in order.
    pub queue: Vec<(String, String)>,
    /// Names of sysctls, with their values.
    pub sysctl: Vec<(String, String)>,
    /// The recipe for showing it to clients by a server, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve: Option<ServeRecipe>,
}

impl Recipe {
    /// The device that the filesystem is created on.
    pub const DEVICE: &'static str = "DEVICE";
    /// A disk that the device is built from; its number follows.
    pub const DISK: &'static str = "DISK";
    /// The device of its external journal.
    pub const JOURNAL: &'static str = "JOURNAL";
    /// Where it is mounted.
    pub const MOUNTPOINT: &'static str = "MOUNTPOINT";
    /// Who may mount what a server shows, in the words of exports(5).
    pub const CLIENTS: &'static str = "CLIENTS";
    /// The server's name.
    pub const SERVER: &'static str = "SERVER";
}

/// The outcome of a filesystem check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command line.
    pub command: String,
    /// `true` if the filesystem is clean.
    pub clean: bool,
    /// The end of what it printed.
    pub output: String,
}

/// The filling of the filesystem before the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filled {
    /// The duration of the filling.
    pub duration_ns: Nanos,
    /// Size of the filesystem, as statvfs(3) reports it.
    pub size_bytes: u64,
    /// The part of it that was in use in the end.
    pub used_bytes: u64,
    /// Files present, without those that ageing has removed.
    pub files: u64,
    /// Bytes in these files.
    pub bytes: u64,
    /// Rounds of ageing.
    pub rounds: u32,
    /// Files that ageing has removed.
    pub removed: u64,
}

impl Filled {
    /// The share of the filesystem that was in use, 0 to 1.
    pub fn used_share(&self) -> f64 {
        self.used_bytes as f64 / self.size_bytes.max(1) as f64
    }
}

impl TrialRecord {
    /// A trial of which only this is known.
    pub fn new(
        configuration: Configuration,
        device: DeviceSpec,
        workload: Workload,
        outcome: Outcome,
    ) -> Self {
        TrialRecord {
            trial: 0,
            block: 0,
            case: 0,
            sentinel: false,
            machine: None,
            seed: 0,
            started: String::new(),
            finished: String::new(),
            configuration: BuiltConfiguration {
                asked: configuration,
                kernel: String::new(),
                device,
                built: Built::default(),
            },
            workload,
            outcome,
            warnings: Vec::new(),
            timer: None,
            lifecycle_ns: Lifecycle::default(),
            check: None,
            prepared_in: None,
            served: None,
            recipe: None,
            log: Vec::new(),
            commands: Vec::new(),
            filled: None,
            layout: None,
            read_again: None,
            trees: TreeSummary::default(),
            environment: Environment::default(),
            phases: Vec::new(),
            durability: None,
            io_errors: Vec::new(),
            pace: None,
            columns: BTreeMap::new(),
            others: BTreeMap::new(),
        }
    }

    /// Notes the environment, whose kernel is part of what was built.
    pub fn set_environment(&mut self, environment: Environment) {
        self.configuration.kernel.clone_from(&environment.kernel);
        self.environment = environment;
    }

    /// Returns the duration of the trial; zero if its stored times are not valid.
    pub fn duration(&self) -> Nanos {
        let [started, finished] = [&self.started, &self.finished].map(|text| humantime::parse_rfc3339(text));
        let took = started.ok().zip(finished.ok()).and_then(|(from, to)| to.duration_since(from).ok());
        took.map_or(Nanos(0), Nanos::from)
    }
}

/// Free space of a filesystem, and the layout of the files that a load left on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The time that writeback took before the files could be examined. It is part of the time to unmount.
    pub written_back_ns: Nanos,
    /// Size of the filesystem.
    pub size_bytes: u64,
    /// The free part of it, including the space reserved for root.
    pub free_bytes: u64,
    /// Regular files below the engine's directory.
    pub files: u64,
    /// `true` if all directories below it were walked; `false` if that would have taken too long.
    pub complete: bool,
    /// Files with blocks of their own that were examined, a random sample.
    pub sampled: u64,
    /// Extents of these files; those that are adjacent on the device count as one.
    pub extents: u64,
    /// The number of these files that are fragmented.
    pub fragmented: u64,
    /// Why nothing is known about the extents.
    pub unknown: Option<String>,
}

impl Layout {
    /// Mean number of extents of a file.
    pub fn extents_per_file(&self) -> Option<f64> {
        (self.sampled > 0).then(|| self.extents as f64 / self.sampled as f64)
    }

    /// Share of files that are fragmented, 0 to 1.
    pub fn fragmented_share(&self) -> Option<f64> {
        (self.sampled > 0).then(|| self.fragmented as f64 / self.sampled as f64)
    }
}

/// The timer of the engine, and its cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimerFacts {
    /// `tsc` or `CLOCK_MONOTONIC`.
    pub source: String,
    /// Cost of reading it once.
    pub read_ns: f64,
    /// Cost of an operation of the null workload, measured before the sweep: includes recording, but no
    /// system call.
    pub overhead_ns_per_op: Option<f64>,
    /// The same while telemetry is taken, at least twice a second; absent without telemetry.
    #[serde(default)]
    pub overhead_with_telemetry_ns_per_op: Option<f64>,
}

/// The trees that a workload created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSummary {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes in files.
    pub bytes: u64,
}
