//! What a trial measured, in the form that is stored, shown and exported.
//!
//! Times and sizes are integers of nanoseconds and bytes. Statistics that depend on operations whose end was
//! not seen are marked (`at_least`).

mod document;
mod latency;
mod lifecycle;

pub use latency::{Latency, Quantile, Quantiles};
pub use lifecycle::{Lifecycle, LifecycleStep};

use crate::configuration::Configuration;
use crate::device::DeviceSpec;
use crate::environment::Environment;
use crate::operation::{Operation, Role};
use crate::outcome::Outcome;
use crate::telemetry::Telemetry;
use crate::units::Nanos;
use crate::warning::Warning;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything about one trial.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "document::Read")]
pub struct TrialRecord {
    /// Position in the sweep, from 0.
    pub trial: u32,
    /// The block that it belongs to, from 0: every case once in random order.
    pub block: u32,
    /// Index of its case in the plan.
    pub case: u32,
    /// Whether this is a repetition of the first case as the sentinel, in addition to the block.
    pub sentinel: bool,
    /// Seed of trees, contents, filesystem UUID and hash seed.
    pub seed: u64,
    /// What was built.
    pub configuration: Configuration,
    /// What it was built on.
    pub device: DeviceSpec,
    /// What ran on it.
    pub workload: Workload,
    /// How it ended.
    pub outcome: Outcome,
    /// What a reader must know about the result.
    pub warnings: Vec<Warning>,
    /// How the engine measured time; absent if it never ran.
    pub timer: Option<TimerFacts>,
    /// Durations outside the windows.
    pub lifecycle_ns: Lifecycle,
    /// What was built, in the words of the tools and the kernel.
    pub built: Built,
    /// What it ran on.
    pub environment: Environment,
    /// The trees that were created.
    pub trees: TreeSummary,
    /// How full the filesystem was made before the load; absent for a fresh one.
    pub filled: Option<Filled>,
    /// How the files were laid out on the filesystem after the load; absent if the load did not finish.
    pub layout: Option<Layout>,
    /// One result per phase.
    pub phases: Vec<PhaseResult>,
    /// Wall-clock start and end, RFC 3339, UTC.
    pub started: String,
    /// See `started`.
    pub finished: String,
}

/// Commands that were run, and what is in force as a result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Built {
    /// The exact mkfs command line.
    pub mkfs_command: String,
    /// The mount, as an equivalent command line.
    pub mount_command: String,
    /// From `/proc/self/mountinfo`.
    pub mount_options_in_force: String,
    /// From sysfs.
    pub scheduler_in_force: String,
    /// Verdict and output of the check.
    pub check: Option<CheckResult>,
    /// How to build the same on another device; absent if nothing was built.
    pub recipe: Option<Recipe>,
}

/// How to build a configuration on another device: the commands of the trial, without the options that pin
/// its hidden factors and without those that suppress a tool's questions. [`Recipe::DEVICE`],
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
}

/// The outcome of a filesystem check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command line.
    pub command: String,
    /// Whether the filesystem is clean.
    pub clean: bool,
    /// The end of what it printed.
    pub output: String,
}

/// How the filesystem was filled before the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filled {
    /// How long it took.
    pub duration_ns: Nanos,
    /// Size of the filesystem, as statvfs(3) reports it.
    pub size_bytes: u64,
    /// How much of it was in use in the end.
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

/// Free space of a filesystem, and the layout of the files that a load left on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// How long writeback took before the files could be examined. It is part of the time to unmount.
    pub written_back_ns: Nanos,
    /// Size of the filesystem.
    pub size_bytes: u64,
    /// How much of it is free, including the space reserved for root.
    pub free_bytes: u64,
    /// Regular files below the engine's directory.
    pub files: u64,
    /// Whether all of its directories were walked; false if that would have taken too long.
    pub complete: bool,
    /// Files with blocks of their own that were examined, a random sample.
    pub sampled: u64,
    /// Extents of these files.
    pub extents: u64,
    /// How many of these files are fragmented.
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

/// How the engine measures time, and what that costs.
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

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// `1 reader`, `3 readers`, `3 readers, 3 writers`.
    pub name: String,
    /// Load before the window.
    pub ramp_ns: Nanos,
    /// The measured part; from the first operation to the last if the phase lasts until its work is done.
    /// Zero if an external program was too fast to measure, and then there are no rates either.
    pub window_ns: Nanos,
    /// Time after the window until the last operation had ended, or the limit.
    pub drain_ns: Nanos,
    /// Results by role, writers before readers, as in the published tables.
    pub roles: Vec<RoleResult>,
    /// What the machine did in the window; absent if it was not sampled.
    #[serde(default)]
    pub telemetry: Option<Telemetry>,
}

impl PhaseResult {
    /// A phase of which only the duration is known, and not what came before and after.
    pub fn lasting(name: impl Into<String>, window_ns: Nanos, roles: Vec<RoleResult>) -> Self {
        let (name, none) = (name.into(), Nanos(0));
        PhaseResult { name, ramp_ns: none, window_ns, drain_ns: none, roles, telemetry: None }
    }

    /// Bytes that all roles moved in the window.
    pub fn bytes(&self) -> u64 {
        self.roles.iter().map(|role| role.rates.bytes).fold(0, u64::saturating_add)
    }
}

/// Name of the phase without roles that has the telemetry of all others if a program ran them without
/// reporting when one ended and the next began.
pub const WHOLE_RUN: &str = "whole run";

/// What was watched as one: a phase, or all phases of a program together if they could not be separated.
#[derive(Debug, Clone)]
pub struct Watched<'a> {
    /// Name of the phase, or [`WHOLE_RUN`].
    pub name: &'a str,
    /// The measured part.
    pub window_ns: Nanos,
    /// Everything that worked meanwhile.
    pub roles: Vec<&'a RoleResult>,
    /// What the machine did meanwhile.
    pub telemetry: &'a Telemetry,
}

impl<'a> Watched<'a> {
    /// The phases of a trial that were watched, or all of them as one.
    pub fn of(phases: &'a [PhaseResult]) -> Vec<Watched<'a>> {
        let is_whole = |phase: &&PhaseResult| phase.name == WHOLE_RUN && phase.roles.is_empty();
        let watched = |phase: &'a PhaseResult, roles| {
            let PhaseResult { name, window_ns, telemetry, .. } = phase;
            Some(Watched { name, window_ns: *window_ns, roles, telemetry: telemetry.as_ref()? })
        };
        match phases.iter().find(is_whole) {
            Some(whole) => {
                watched(whole, phases.iter().flat_map(|phase| &phase.roles).collect()).into_iter().collect()
            }
            None => phases.iter().filter_map(|phase| watched(phase, phase.roles.iter().collect())).collect(),
        }
    }

    /// Bytes that all roles moved.
    pub fn bytes(&self) -> u64 {
        self.roles.iter().map(|role| role.rates.bytes).fold(0, u64::saturating_add)
    }

    /// Processor time of all workers, and of the kernel threads that worked for them. `None` if a program did
    /// not report its own.
    pub fn cpu_with_threads(&self) -> Option<Nanos> {
        let workers = self.roles.iter().fold(CpuTime::default(), |sum, role| sum + role.cpu).total();
        let is_told = workers > Nanos(0) || self.roles.iter().all(|role| role.is_watched());
        is_told.then(|| Nanos(workers.0.saturating_add(self.telemetry.storage_threads_ns())))
    }
}

/// What the workers of one role did in one phase.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RoleResult {
    /// Which role.
    pub role: Role,
    /// How many workers.
    pub workers: u32,
    /// The longest time in which a worker completed nothing, cut at the edges of the window.
    #[serde(deserialize_with = "document::or_none")]
    pub longest_stall_ns: Nanos,
    /// Share of the window that workers spent in operations longer than 100 ms, 0 to 1, mean over workers.
    #[serde(deserialize_with = "document::or_none")]
    pub time_over_100ms: f64,
    /// The same for 1 s.
    #[serde(deserialize_with = "document::or_none")]
    pub time_over_1s: f64,
    /// Operations in flight when the window began: not part of the sample, but their time counts as stall.
    pub blocked_at_start: Vec<InFlight>,
    /// Rates over the window.
    pub rates: Rates,
    /// Processor time of the workers in the window. If a program reports a single figure, that is stored as
    /// system time.
    #[serde(default)]
    pub cpu: CpuTime,
    /// What a workload counts by name in addition to its items, such as the files that postmark created, read
    /// and appended to.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// The longest time that one item took, from the start of its first operation to the end of its last;
    /// absent if the workload does not measure it.
    #[serde(default)]
    pub longest_item_ns: Option<Nanos>,
    /// Each worker separately.
    pub worker_results: Vec<WorkerResult>,
    /// Each operation, in the order of [`Operation::ALL`].
    pub operations: Vec<OperationResult>,
}

impl RoleResult {
    /// A role of whose workers only the number is known.
    pub fn unwatched(role: Role, workers: u32) -> Self {
        RoleResult {
            role,
            workers,
            longest_stall_ns: Nanos(0),
            time_over_100ms: 0.0,
            time_over_1s: 0.0,
            blocked_at_start: Vec::new(),
            rates: Rates::default(),
            cpu: CpuTime::default(),
            counts: BTreeMap::new(),
            longest_item_ns: None,
            worker_results: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// Whether its workers were watched. Those of an external program are not: only what the program reports
    /// is known about their stalls and operations, and a zero means unknown.
    pub fn is_watched(&self) -> bool {
        !self.worker_results.is_empty()
    }

    /// The longest stall, if it is known.
    pub fn known_stall_ns(&self) -> Option<Nanos> {
        (self.is_watched() || self.longest_stall_ns > Nanos(0)).then_some(self.longest_stall_ns)
    }
}

/// One worker of a role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerResult {
    /// Operations that started and ended inside the window.
    pub completed: u64,
    /// Operations that covered the whole window: 0 or 1, or up to as many as the worker keeps in flight at
    /// once.
    pub spanning: u64,
    /// The longest time in which it completed nothing, cut at the edges of the window.
    pub longest_stall_ns: Nanos,
    /// Share of the window spent in operations longer than 100 ms; the mean if several are in flight at once.
    pub time_over_100ms: f64,
    /// The same for 1 s.
    pub time_over_1s: f64,
    /// How often it finished its tree (a reader), or had to start a new one for lack of space (a writer).
    pub rounds: u64,
    /// Bytes of operations that ended inside the window.
    #[serde(default)]
    pub bytes: u64,
    /// How long it worked: the window, or until its work was done.
    #[serde(default)]
    pub active_ns: Nanos,
    /// Processor time in the window.
    #[serde(default)]
    pub cpu: CpuTime,
    /// The operation that had not ended at the drain limit; if there are several, the one that started first.
    pub unfinished: Option<InFlight>,
}

/// An operation seen in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// Index of the worker within its role.
    pub worker: u32,
    /// Which operation.
    pub operation: Operation,
    /// Start relative to the start of the window; negative before it.
    pub start_ns: i64,
    /// How long it took, or at least took.
    pub duration_ns: Nanos,
    /// Whether its end was never seen.
    pub at_least: bool,
}

/// Rates of a role. Per worker: over the time spent in the operations, as in the 2009 tables. Aggregate: all
/// workers together over the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Bytes after the first over the time in their reads or writes; absent if there are none.
    pub data_bytes_per_s: Option<f64>,
    /// All bytes over the time in readdir + open + first byte + data (readers), open + first byte + data +
    /// close (writers).
    pub with_overhead_bytes_per_s: Option<f64>,
    /// Bytes of operations that ended inside the window over the window.
    pub aggregate_bytes_per_s: f64,
    /// Operations that ended inside the window over the window.
    pub operations_per_s: f64,
    /// Bytes of operations that ended inside the window.
    pub bytes: u64,
    /// Items that were finished inside the window over the window.
    #[serde(default)]
    pub items_per_s: f64,
    /// Items that were finished inside the window: files, transactions, seeks or chunks, whatever the
    /// workload counts.
    #[serde(default)]
    pub items: u64,
}

/// Processor time of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: Nanos,
    /// In the kernel.
    pub system_ns: Nanos,
}

impl CpuTime {
    /// Both together.
    pub fn total(&self) -> Nanos {
        Nanos(self.user_ns.0.saturating_add(self.system_ns.0))
    }

    /// What was used since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &CpuTime) -> CpuTime {
        CpuTime {
            user_ns: Nanos(self.user_ns.0.saturating_sub(earlier.user_ns.0)),
            system_ns: Nanos(self.system_ns.0.saturating_sub(earlier.system_ns.0)),
        }
    }
}

impl std::ops::Add for CpuTime {
    type Output = CpuTime;

    fn add(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: Nanos(self.user_ns.0.saturating_add(other.user_ns.0)),
            system_ns: Nanos(self.system_ns.0.saturating_add(other.system_ns.0)),
        }
    }
}

/// The sample of one operation: those that started inside the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// Which operation.
    pub operation: Operation,
    /// How many operations of the sample had not ended at the drain limit; each counts with the time seen so
    /// far.
    pub censored: u64,
    /// The distribution of its latency.
    pub lat_ns: Latency,
    /// HdrHistogram V2, compressed, base64; nanoseconds, 3 digits.
    pub histogram: String,
    /// The sample over time.
    pub timeline: Timeline,
    /// The slowest operations, longest first, 64 at most.
    pub slowest: Vec<SlowOperation>,
}

/// Counts, sums, maxima and bytes per interval, by the start of the operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of an interval; the first begins with the window.
    pub interval_ns: Nanos,
    /// Operations.
    pub count: Vec<u64>,
    /// Their total time.
    pub sum_ns: Vec<u64>,
    /// The longest.
    pub max_ns: Vec<u64>,
    /// Bytes that they moved; empty for operations that move none.
    #[serde(default)]
    pub bytes: Vec<u64>,
}

/// A slow operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowOperation {
    /// Start relative to the start of the window.
    pub start_ns: u64,
    /// How long it took, or at least took if censored.
    pub duration_ns: u64,
    /// What it was done to, relative to the engine's directory.
    pub path: String,
}
