//! The results of the workers of a phase.

use super::{ClientResult, CpuTime, Latency, OpenLoop, Outage};
use crate::cache::CacheState;
use crate::figures::Quotient;
use crate::operation::{Operation, Role};
use crate::telemetry::{TaskKind, Telemetry};
use crate::units::{Bytes, Nanos};
use crate::workload::Excursion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// The steadiness of the load when the window began; absent if the ramp did not wait for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steadiness>,
    /// The outcome of waiting for a calm device before the phase; absent if the plan does not ask for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Time after the window until the last operation had ended, or the limit.
    pub drain_ns: Nanos,
    /// The window on the clock of the machine; absent if an external program did the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<WindowClock>,
    /// The delay of the load's start after the agreed moment, if several machines began it together: that of
    /// the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<Nanos>,
    /// When the server of those that did the load was away, if the plan asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<Outage>,
    /// Each machine separately, if several did the load. Their workers are those of the roles, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientResult>,
    /// Results by role, writers before readers, as in the published tables.
    pub roles: Vec<RoleResult>,
    /// The activity of the machine in the window; absent if it was not sampled.
    #[serde(default)]
    pub telemetry: Option<Telemetry>,
    /// The load's use of the memory that it was limited to; absent if it was not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<GroupMemory>,
    /// The state of the caches when it began; absent if it does not read what was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheAtStart>,
    /// The data that it wrote, and the time until that was on the device; absent if it wrote nothing, or if
    /// the workload went on without waiting for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<Durable>,
}

/// The outcome of a ramp that waited for the load to be steady.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// `true` if the load was steady before the limit.
    pub reached: bool,
    /// The number of rounds that were complete.
    pub rounds: u32,
    /// The variation of the rate over the last of them; absent if there were too few, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excursion: Option<Excursion>,
}

/// The outcome of waiting for a calm device and little dirty data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// `true` if that state came before the limit: no request for half a second, and at most 1 MiB dirty.
    pub reached: bool,
    /// The time until then, or the limit.
    pub waited_ns: Nanos,
    /// Requests that the devices completed meanwhile.
    pub requests: u64,
    /// The amount that was dirty or being written back at the end: of the load's memory cgroup if it has one,
    /// else of the machine.
    pub dirty: Bytes,
}

/// The edges of a window on `CLOCK_MONOTONIC` of the machine that ran the load, which traces of the kernel
/// (perf, bpftrace) use as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowClock {
    /// The first moment inside, in nanoseconds.
    pub begin_ns: u64,
    /// The first moment after it.
    pub end_ns: u64,
}

/// The data that the workers of a phase wrote, and the time until the device had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durable {
    /// Bytes that they wrote in ramp, window and drain. Zero if a worker hung and the wait for the device was
    /// given up: nobody knows what arrived.
    pub bytes: u64,
    /// From the first operation of the ramp until everything was written back (syncfs(2)).
    pub duration_ns: Nanos,
}

/// The state of the caches when a phase began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheAtStart {
    /// The state that the plan asks for.
    pub state: CacheState,
    /// `true` if the filesystem had just been mounted. Otherwise caches were only dropped, which leaves the
    /// part that the filesystem holds on to.
    pub remounted: bool,
    /// The number of times that caches were dropped until nothing more went away; 0 without the privilege.
    pub drops: u32,
    /// The amount left of page cache, buffers and reclaimable slabs of the whole machine; absent if they were
    /// not dropped.
    pub left: Option<Bytes>,
    /// The amount then read from the device to reach the state; absent if the state is `cold`, and where the
    /// kernel does not count reads (FUSE).
    pub loaded: Option<Bytes>,
    /// The amount read from the device when the same was done once more: the part that did not stay in
    /// memory.
    pub missed: Option<Bytes>,
}

/// The use of a memory cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMemory {
    /// The memory that everything in it may use together, page cache included.
    pub limit: Bytes,
    /// The most that was used until the end of the phase (`memory.peak`, `memory.max_usage_in_bytes`);
    /// absent where the kernel does not keep it (version 2 before Linux 5.19).
    pub peak: Option<Bytes>,
    /// The number of times that the limit was reached in the phase, which made the kernel reclaim pages
    /// (`max` in `memory.events`, `memory.failcnt`).
    pub reclaims: u64,
}

impl PhaseResult {
    /// A phase of which only the duration is known, and not what came before and after.
    pub fn lasting(name: impl Into<String>, window_ns: Nanos, roles: Vec<RoleResult>) -> Self {
        let (name, none) = (name.into(), Nanos(0));
        PhaseResult {
            name,
            ramp_ns: none,
            steady: None,
            quiet: None,
            window_ns,
            drain_ns: none,
            clock: None,
            late_ns: None,
            outage: None,
            clients: Vec::new(),
            roles,
            telemetry: None,
            memory: None,
            cache: None,
            durable: None,
        }
    }

    /// Bytes that all roles moved in the window.
    pub fn bytes(&self) -> u64 {
        self.roles.iter().map(|role| role.rates.bytes).fold(0, u64::saturating_add)
    }
}

/// Name of the phase without roles that has the telemetry of all others if a program ran them without
/// reporting when one ended and the next began.
pub const WHOLE_RUN: &str = "whole run";

/// The part that was watched as one: a phase, or all phases of a program together if they could not be
/// separated.
#[derive(Debug, Clone)]
pub struct Watched<'a> {
    /// Name of the phase, or [`WHOLE_RUN`].
    pub name: &'a str,
    /// The measured part.
    pub window_ns: Nanos,
    /// Everything that worked meanwhile.
    pub roles: Vec<&'a RoleResult>,
    /// The activity of the machine meanwhile.
    pub telemetry: &'a Telemetry,
    /// `true` if the machine is a server, and others did the work.
    pub is_server: bool,
}

impl<'a> Watched<'a> {
    /// The phases of a trial that were watched, or all of them as one.
    pub fn of(phases: &'a [PhaseResult]) -> Vec<Watched<'a>> {
        let is_whole = |phase: &&PhaseResult| phase.name == WHOLE_RUN && phase.roles.is_empty();
        let watched = |phase: &'a PhaseResult, roles| {
            let PhaseResult { name, window_ns, telemetry, clients, .. } = phase;
            let (window_ns, is_server) = (*window_ns, !clients.is_empty());
            Some(Watched { name, window_ns, roles, telemetry: telemetry.as_ref()?, is_server })
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

    /// Processor time of all workers, and of the kernel threads that worked for them, on a server those that
    /// serve included. `None` if a program did
    /// not report its own.
    pub fn cpu_with_threads(&self) -> Option<Nanos> {
        let workers = self.roles.iter().fold(CpuTime::default(), |sum, role| sum + role.cpu).total();
        let is_told = workers > Nanos(0) || self.roles.iter().all(|role| role.is_watched());
        let serving = self.telemetry.window.task_ns.get(&TaskKind::Serve).filter(|_| self.is_server);
        let threads = self.telemetry.storage_threads_ns().saturating_add(serving.copied().unwrap_or(0));
        is_told.then(|| Nanos(workers.0.saturating_add(threads)))
    }
}

/// The results of the workers of one role in one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleResult {
    /// Which role.
    pub role: Role,
    /// The number of workers.
    pub workers: u32,
    /// The longest time in which a worker completed nothing, of which at least one moment is inside the
    /// window. Its whole length counts, also in the ramp and in the drain. Unknown, as are the shares below,
    /// if the workers were not watched.
    pub longest_stall_ns: Option<Nanos>,
    /// `true` if that stall had not ended at the drain limit.
    #[serde(default)]
    pub longest_stall_at_least: bool,
    /// Share of the window that workers spent in operations longer than 100 ms, 0 to 1, mean over workers.
    pub time_over_100ms: Option<f64>,
    /// The same for 1 s.
    pub time_over_1s: Option<f64>,
    /// Operations in flight when the window began: not part of the sample, but their time counts as stall.
    pub blocked_at_start: Vec<InFlight>,
    /// Rates over the window.
    pub rates: Rates,
    /// Processor time of the workers in the window. If a program reports a single figure, that is stored as
    /// system time.
    #[serde(default)]
    pub cpu: CpuTime,
    /// Processor time over the window as a program reports it, which may exceed 1; absent if it reports none.
    /// It may be known without either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cpu_share: Option<f64>,
    /// The counts that a workload keeps by name in addition to its items, such as those of the files that
    /// postmark created, read and appended to.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// The longest time that one item took, from the start of its first operation to the end of its last;
    /// absent if the workload does not measure it.
    #[serde(default)]
    pub longest_item_ns: Option<Nanos>,
    /// Time inside the window that the workers together spent removing names, also in operations of which
    /// only a part is inside; absent if they removed none, or if an older version measured them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removing_ns: Option<Nanos>,
    /// The extent to which the workers kept up with the rate of the role; absent if it has none. The
    /// distributions of their iterations are among the operations ([`Operation::ResponseTime`],
    /// [`Operation::ServiceTime`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
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
            longest_stall_ns: None,
            longest_stall_at_least: false,
            time_over_100ms: None,
            time_over_1s: None,
            blocked_at_start: Vec::new(),
            rates: Rates::default(),
            cpu: CpuTime::default(),
            reported_cpu_share: None,
            counts: BTreeMap::new(),
            longest_item_ns: None,
            removing_ns: None,
            open_loop: None,
            worker_results: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// Returns whether the workers of the role were watched. Those of an external program are not: only the
    /// figures that the program reports are known about their stalls and operations, and a zero means
    /// unknown.
    pub fn is_watched(&self) -> bool {
        !self.worker_results.is_empty()
    }

    /// Processor time of all workers over the window, so that it may exceed 1: as a program reports it, else
    /// by the kernel's count. `None` if neither is known.
    pub fn cpu_share(&self, window: Nanos) -> Option<f64> {
        let used = self.cpu.total();
        // No worker runs without using processor time: none means that it was not read.
        let counted = (used > Nanos(0) && window > Nanos(0)).then(|| used.0 as f64 / window.0 as f64);
        self.reported_cpu_share.or(counted)
    }

    /// One of the rates over the window. `None` if a program did not report it, which is not a rate of zero.
    pub fn window_rate(&self, rate: impl FnOnce(&Rates) -> f64, window: Nanos) -> Option<Quotient> {
        let rate = rate(&self.rates);
        (self.is_watched() || rate > 0.0).then(|| Quotient::over(rate, window.as_secs_f64()))
    }

    /// The share of the window that its workers spent removing names, 0 to 1.
    pub fn removing(&self, window: Nanos) -> f64 {
        let all_ns = window.0 as f64 * f64::from(self.workers);
        // The sample has operations that began in the window, with their whole lengths.
        let of_sample = || -> f64 {
            let removals = self.operations.iter().filter(|one| one.operation.is_of_removal());
            removals.map(|one| one.lat_ns.count as f64 * one.lat_ns.mean).sum()
        };
        let spent_ns = self.removing_ns.map_or_else(of_sample, |spent| spent.0 as f64);
        if all_ns > 0.0 { (spent_ns / all_ns).min(1.0) } else { 0.0 }
    }

    /// Bytes per second of the window without the time in which it removed what it had written.
    pub fn rate_without_removal(&self, window: Nanos) -> Option<Quotient> {
        let removing = self.removing(window);
        // Whoever does nothing but remove writes nothing, for all of the window.
        let writing = if removing < 1.0 { 1.0 - removing } else { 1.0 };
        let over = Nanos((window.0 as f64 * writing) as u64);
        self.window_rate(|rates| rates.aggregate_bytes_per_s / writing, over)
    }

    /// Bytes per second of the time that all workers together spent in reads or writes after the first.
    pub fn data_rate(&self, window: Nanos) -> Option<Quotient> {
        self.over_operations(self.rates.data_bytes_per_s, window, &Operation::is_of_data)
    }

    /// The same for the time spent in everything that the published tables count as overhead.
    pub fn overhead_rate(&self, window: Nanos) -> Option<Quotient> {
        let performed = self.operations.iter().map(|result| result.operation);
        let belongs = |operation: Operation| operation.is_of_overhead(performed.clone());
        self.over_operations(self.rates.with_overhead_bytes_per_s, window, &belongs)
    }

    /// A rate over the time spent in some operations. Workers that were in one of them when the window began,
    /// and completed none, moved nothing in that time; that is not the same as no rate.
    fn over_operations(
        &self,
        rate: Option<f64>,
        window: Nanos,
        belongs: &dyn Fn(Operation) -> bool,
    ) -> Option<Quotient> {
        if let Some(rate) = rate {
            let seconds = match rate > 0.0 {
                true => self.rates.bytes as f64 / rate,
                false => window.as_secs_f64() * f64::from(self.workers),
            };
            return Some(Quotient::over(rate, seconds));
        }
        // A worker with many in flight waits for all of them at once.
        let mut blocked: BTreeMap<u32, Nanos> = BTreeMap::new();
        for one in self.blocked_at_start.iter().filter(|one| belongs(one.operation)) {
            let end_ns = one.start_ns.saturating_add_unsigned(one.duration_ns.0);
            let inside = Nanos(end_ns.max(0) as u64).min(window);
            let longest = blocked.entry(one.worker).or_default();
            *longest = inside.max(*longest);
        }
        let seconds: f64 = blocked.values().map(|inside| inside.as_secs_f64()).sum();
        (seconds > 0.0).then(|| Quotient::over(0.0, seconds))
    }

    /// Returns whether the longest stall in this window is only a lower bound. In results up to version 0.2
    /// stalls are cut at the edges of the window, so that one that fills it may have been longer.
    pub fn stall_is_bound(&self, window: Nanos) -> bool {
        self.is_watched() && (self.longest_stall_at_least || self.longest_stall_ns == Some(window))
    }
}

/// One worker of a role.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerResult {
    /// Operations that started and ended inside the window.
    pub completed: u64,
    /// Operations that covered the whole window: 0 or 1, or up to as many as the worker keeps in flight at
    /// once.
    pub spanning: u64,
    /// The longest time in which it completed nothing, as in [`RoleResult`].
    pub longest_stall_ns: Nanos,
    /// `true` if that stall had not ended at the drain limit.
    #[serde(default)]
    pub longest_stall_at_least: bool,
    /// Share of the window spent in operations longer than 100 ms; the mean if several are in flight at once.
    pub time_over_100ms: f64,
    /// The same for 1 s.
    pub time_over_1s: f64,
    /// The number of times that it finished its tree (a reader), or had to start a new one for lack of space
    /// (a writer).
    pub rounds: u64,
    /// Bytes of operations that ended inside the window.
    #[serde(default)]
    pub bytes: u64,
    /// The number of items that it finished inside the window, as the workload counts them: files,
    /// transactions, iterations.
    #[serde(default)]
    pub items: u64,
    /// The time for which it worked: the window, or until its work was done.
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
    /// The time that it took, or at least took.
    pub duration_ns: Nanos,
    /// `true` if its end was never seen.
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

/// The sample of one operation: those that started inside the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// Which operation.
    pub operation: Operation,
    /// The number of operations of the sample that had not ended at the drain limit; each counts with the
    /// time seen so far.
    pub censored: u64,
    /// The distribution of its latency.
    pub lat_ns: Latency,
    /// HdrHistogram V2, compressed, base64; nanoseconds, 3 digits.
    pub histogram: String,
    /// The sample over time.
    pub timeline: Timeline,
    /// The slowest operations, longest first: which ones, says [`RoleResult::keep_outliers`].
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
    /// The time that it took, or at least took if censored.
    pub duration_ns: u64,
    /// The path that it was applied to, relative to the engine's directory.
    pub path: String,
}
