//! The cases of a sweep, with the measured trials of each merged.

use super::ClientsView;
use crate::durability::Losses;
use crate::faults::Faults;
use crate::load::Workloads;
use crate::merge::{self, Time, UnreadableHistogram};
use crate::outcomes::is_measured;
use fsdyno_core::figures::{grow, total};
use fsdyno_core::measure::{Value, durable};
use fsdyno_core::parallel::in_parallel;
use fsdyno_core::result::{
    CheckResult, CpuTime, Filled, Latency, Layout, Lifecycle, LifecycleStep, OpenLoop, PhaseResult, Quantile,
    Quiet, RateCurve, Rates, RoleResult, Steadiness, TrialRecord, Watched,
};
use fsdyno_core::telemetry::TaskKind;
use fsdyno_core::workload::Arrivals;
use fsdyno_core::{Configuration, DeviceSpec, ReadAgain};
use fsdyno_core::{Environment, Nanos, Operation, Role, Workload};
use fsdyno_stats::Fairness;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A configuration under a workload, all its measured trials merged.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseView {
    /// Index in the plan.
    pub case: u32,
    /// The configuration that was built.
    pub configuration: Configuration,
    /// The device that it was built on.
    pub device: DeviceSpec,
    /// The workload that ran on it.
    pub workload: Workload,
    /// The name of the workload, with what tells it from the others of the sweep.
    pub workload_name: Cow<'static, str>,
    /// The line that describes the workload and distinguishes it from the others of the sweep.
    pub workload_title: String,
    /// The environment of the first trial.
    pub environment: Environment,
    /// Mount options in force in the first trial.
    pub mount_options_in_force: String,
    /// I/O scheduler in force in the first trial.
    pub scheduler_in_force: String,
    /// Numbers of the measured trials.
    pub trials: Vec<u32>,
    /// Means over the trials.
    pub lifecycle: Lifecycle,
    /// The result of each check, with the number of its trial.
    pub checks: Vec<(u32, CheckResult)>,
    /// The trials that prepared what its trials have begun with copies of, each once.
    pub prepared_in: BTreeSet<u32>,
    /// The filling of the filesystem of each trial.
    pub filled: Vec<Filled>,
    /// The layout of the files of each trial.
    pub layouts: Vec<Layout>,
    /// The files that were read again at the end of each trial.
    pub read_again: Vec<ReadAgain>,
    /// The phases.
    pub phases: Vec<PhaseView>,
    /// The losses in power cuts; absent under other workloads.
    pub losses: Option<Losses>,
    /// The outcomes of requests that failed; absent under other workloads.
    pub faults: Option<Faults>,
}

/// One phase over all trials of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseView {
    /// `3 readers, 3 writers`.
    pub name: String,
    /// The measured part; the mean over trials if each lasted until its work was done.
    pub window_ns: Nanos,
    /// The number of trials that have the phase.
    pub trials: usize,
    /// The ramps that waited for the load to be steady, and what each found.
    pub ramps: Vec<(Nanos, Steadiness)>,
    /// The results of waiting for a calm device before the phase, in each trial that waited.
    pub quiet: Vec<Quiet>,
    /// Bytes per second written until everything was on the device; absent if nothing was written.
    pub durable: Option<Value>,
    /// The machines that did the load, if they are others.
    pub clients: Option<ClientsView>,
    /// Writers before readers.
    pub roles: Vec<RoleView>,
    /// Processor time of the kernel threads that worked for the phase, and of all that worked for it per byte
    /// moved; absent if a trial has no telemetry.
    pub kernel: Option<KernelView>,
}

/// The work of kernel threads for one phase, the mean over trials.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KernelView {
    /// Processor time by kind.
    pub by_kind: BTreeMap<TaskKind, u64>,
    /// Processor time of workers and kernel threads in nanoseconds per 10^6 bytes; absent if none were moved.
    pub cpu_ns_per_megabyte: Option<f64>,
    /// `true` if the threads are those of a server, whose clients have the workers.
    pub of_server: bool,
}

/// One role in one phase, over all trials of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleView {
    /// Which role.
    pub role: Role,
    /// The number of workers.
    pub workers: u32,
    /// `true` if the workers were watched. If not, shares of time are unknown, and stalls too unless a
    /// program reported them.
    pub watched: bool,
    /// The longest of all trials; absent if none is known.
    pub longest_stall: Option<Time>,
    /// Share of the window in operations over 100 ms, 0 to 1, mean over trials.
    pub time_over_100ms: Option<f64>,
    /// The same for 1 s.
    pub time_over_1s: Option<f64>,
    /// Total work over total time, of all trials together.
    pub rates: Rates,
    /// Processor time of the workers, all trials together.
    pub cpu: CpuTime,
    /// In how many trials it is known.
    pub cpu_trials: usize,
    /// Processor time over the windows of the trials in which that is known. Trials count by the length of
    /// their windows, or all alike if one of these is unknown.
    pub cpu_share: Option<f64>,
    /// The number of trials that have the role.
    pub trials: usize,
    /// Bytes per second over the time in which the workers did not remove what they had written; absent if
    /// they removed nothing.
    pub without_removal_bytes_per_s: Option<f64>,
    /// The longest that one item took in any trial; absent if the workload does not measure that.
    pub longest_item: Option<Nanos>,
    /// The figures on how the workers kept up with the rate of the role; absent if it has none.
    pub open_loop: Option<OpenLoopView>,
    /// The result of the search for the highest rate in each trial; empty if the plan has a rate.
    pub curves: Vec<TrialCurve>,
    /// The fairness among the workers, by the rate at which each moved data while it worked: the mean over
    /// trials.
    pub fairness: Option<Fairness>,
    /// Operations that the workers completed, all trials together.
    pub completed: u64,
    /// The counts of the workload, by name; means over trials.
    pub counts: BTreeMap<String, u64>,
    /// Each operation.
    pub operations: Vec<OperationView>,
    /// Lines about workers that were blocked or never finished.
    pub remarks: Vec<String>,
}

/// The figures on how the workers of a role with a rate kept up with it, over all trials of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenLoopView {
    /// The rate at which iterations were due, per second: that of the plan, or the mean of those found.
    pub intended_per_s: f64,
    /// When iterations were due.
    pub arrivals: Arrivals,
    /// Iterations per second that ended inside the windows.
    pub achieved_per_s: f64,
    /// The largest number of iterations in any trial that were due and had not begun.
    pub backlog_max: u64,
    /// The largest such number at the end of a window.
    pub backlog_at_end: u64,
    /// The number of iterations that were not even begun at the drain limit, all trials together.
    pub never_begun: u64,
    /// The lateness of workers that had waited for the moment to begin: the mean over trials, and the most.
    pub late_ns_mean: f64,
    /// See `late_ns_mean`.
    pub late_ns_max: u64,
}

/// Response times over rates in one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialCurve {
    /// The trial.
    pub trial: u32,
    /// The curve that the trial found.
    pub curve: RateCurve,
}

impl RoleView {
    /// The curve of the trial in the middle, by the highest rate that met the target; of two, the lower one.
    pub fn middle_curve(&self) -> Option<&TrialCurve> {
        let mut curves: Vec<&TrialCurve> = self.curves.iter().collect();
        let highest = |one: &TrialCurve| one.curve.highest_per_s.unwrap_or(0.0);
        curves.sort_by(|a, b| highest(a).total_cmp(&highest(b)));
        curves.get(curves.len().checked_sub(1)? / 2).copied()
    }
}

impl OpenLoopView {
    /// The windows of a case are of equal length, so that the mean of their rates is that of all iterations.
    fn of(parts: &[&OpenLoop]) -> Option<Self> {
        let first = parts.first()?;
        let mean =
            |of: fn(&OpenLoop) -> f64| parts.iter().map(|part| of(part)).sum::<f64>() / parts.len() as f64;
        let most = |of: fn(&OpenLoop) -> u64| parts.iter().map(|part| of(part)).max().unwrap_or(0);
        Some(OpenLoopView {
            intended_per_s: mean(|part| part.intended_per_s),
            arrivals: first.arrivals,
            achieved_per_s: mean(|part| part.achieved_per_s),
            backlog_max: most(|part| part.backlog_max),
            backlog_at_end: most(|part| part.backlog_at_end),
            never_begun: total(parts.iter().map(|part| part.never_begun)),
            late_ns_mean: mean(|part| part.late_ns_mean),
            late_ns_max: most(|part| part.late_ns_max),
        })
    }
}

/// One operation of one role in one phase, over all trials of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationView {
    /// Which operation.
    pub operation: Operation,
    /// The mean number over the trials that have the phase.
    pub count: u64,
    /// The number of operations of the sample that had not ended at the drain limit.
    pub censored: u64,
    /// The merged distribution.
    pub latency: Latency,
}

impl OperationView {
    /// A statistic of this operation, marked as a bound if it depends on operations whose end was not seen.
    pub fn time(&self, ns: u64) -> Time {
        Time { ns, at_least: self.latency.is_bound(ns) }
    }

    /// The same for a quantile; `None` if the sample is empty or the quantile is unknown.
    pub fn quantile(&self, quantile: Quantile) -> Option<Time> {
        self.latency.shown(quantile).filter(|_| self.latency.count > 0).map(|ns| self.time(ns))
    }
}

impl RoleView {
    /// The operation of this role, if it has one.
    pub fn operation(&self, operation: Operation) -> Option<&OperationView> {
        self.operations.iter().find(|view| view.operation == operation)
    }
}

/// The measured trials of a sweep by case, in the plan's order.
///
/// # Errors
/// [`UnreadableHistogram`] when a stored histogram cannot be read.
pub fn cases(trials: &[TrialRecord]) -> Result<Vec<CaseView>, UnreadableHistogram> {
    let mut by_case: BTreeMap<u32, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| is_measured(trial)) {
        by_case.entry(trial.case).or_default().push(trial);
    }
    let workloads = Workloads::of(by_case.values().map(|trials| trials[0]));
    let by_case: Vec<Vec<&TrialRecord>> = by_case.into_values().collect();
    in_parallel(&by_case, |trials| case(trials, &workloads)).into_iter().collect()
}

fn case(trials: &[&TrialRecord], workloads: &Workloads<'_>) -> Result<CaseView, UnreadableHistogram> {
    let first = trials[0];
    // An external program may leave out in one trial what it reports in another.
    let mut names: Vec<&str> = Vec::new();
    for phase in trials.iter().flat_map(|trial| &trial.phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    let phases = names.into_iter().map(|name| merge_phase(name, trials));
    Ok(CaseView {
        case: first.case,
        configuration: first.configuration.asked.clone(),
        device: first.configuration.device.clone(),
        workload: first.workload.clone(),
        workload_name: workloads.name(&first.workload),
        workload_title: workloads.title(&first.workload),
        environment: first.environment.clone(),
        mount_options_in_force: first.configuration.built.mount_options_in_force.clone(),
        scheduler_in_force: first.configuration.built.scheduler_in_force.clone(),
        trials: trials.iter().map(|trial| trial.trial).collect(),
        lifecycle: lifecycle(trials),
        checks: trials.iter().filter_map(|trial| Some((trial.trial, trial.check.clone()?))).collect(),
        prepared_in: trials.iter().filter_map(|trial| trial.prepared_in).collect(),
        filled: trials.iter().filter_map(|trial| trial.filled).collect(),
        layouts: trials.iter().filter_map(|trial| trial.layout.clone()).collect(),
        read_again: trials.iter().filter_map(|trial| trial.read_again).collect(),
        phases: phases.collect::<Result<_, _>>()?,
        losses: Losses::of(trials),
        faults: Faults::of(trials),
    })
}

/// The mean of each step over the trials in which it happened.
fn lifecycle(trials: &[&TrialRecord]) -> Lifecycle {
    let mut means = Lifecycle::default();
    for step in LifecycleStep::ALL {
        let times: Vec<u64> =
            trials.iter().filter_map(|trial| step.of(&trial.lifecycle_ns)).map(|ns| ns.0).collect();
        let sum: u128 = times.iter().copied().map(u128::from).sum();
        let mean = || Nanos((sum / times.len() as u128) as u64);
        *step.of_mut(&mut means) = (!times.is_empty()).then(mean);
    }
    means
}

fn merge_phase(name: &str, trials: &[&TrialRecord]) -> Result<PhaseView, UnreadableHistogram> {
    let parts: Vec<(u32, &PhaseResult)> = trials
        .iter()
        .filter_map(|trial| Some((trial.trial, trial.phases.iter().find(|phase| phase.name == name)?)))
        .collect();
    let workload = trials.first().map(|trial| &trial.workload);
    let roles = roles(&parts).into_iter().map(|role| merge_role(role, workload, &parts));
    Ok(PhaseView {
        name: name.to_string(),
        // If one of them was too short for the program to report, the mean is unknown.
        window_ns: match parts.iter().any(|(_, phase)| phase.window_ns == Nanos(0)) {
            true => Nanos(0),
            false => Nanos(total(parts.iter().map(|(_, phase)| phase.window_ns.0)) / parts.len() as u64),
        },
        trials: parts.len(),
        ramps: parts.iter().filter_map(|(_, phase)| Some((phase.ramp_ns, phase.steady?))).collect(),
        quiet: parts.iter().filter_map(|(_, phase)| phase.quiet).collect(),
        durable: match parts.iter().all(|(_, phase)| phase.durable.is_some()) {
            true => durable(parts.iter().map(|(_, phase)| *phase)),
            false => None,
        },
        clients: ClientsView::of(&parts.iter().map(|(_, phase)| *phase).collect::<Vec<_>>()),
        roles: roles.collect::<Result<_, _>>()?,
        kernel: merge_kernel(name, trials),
    })
}

/// The roles of a phase, in the order of the trial with the most roles: of a job that reads and writes at
/// random, one trial may have only reads.
fn roles(parts: &[(u32, &PhaseResult)]) -> Vec<Role> {
    let mut phases: Vec<&PhaseResult> = parts.iter().map(|(_, phase)| *phase).collect();
    phases.sort_by_key(|phase| Reverse(phase.roles.len()));
    let mut roles: Vec<Role> = Vec::new();
    for role in phases.into_iter().flat_map(|phase| &phase.roles) {
        if !roles.contains(&role.role) {
            roles.push(role.role);
        }
    }
    roles
}

/// Returns the work of kernel threads for a phase, or for all phases of a program that does not separate
/// them.
fn merge_kernel(name: &str, trials: &[&TrialRecord]) -> Option<KernelView> {
    let with_it = trials.iter().filter(|trial| trial.phases.iter().any(|phase| phase.name == name));
    let parts = with_it.map(|trial| Watched::of(&trial.phases).into_iter().find(|one| one.name == name));
    let parts: Vec<Watched<'_>> = parts.collect::<Option<_>>()?;
    let of_server = parts.iter().any(|one| one.is_server);
    let mut view = KernelView { of_server, ..KernelView::default() };
    let works = |kind: TaskKind| kind.works_for_storage() || (of_server && kind == TaskKind::Serve);
    for one in &parts {
        let kinds = one.telemetry.window.task_ns.iter().filter(|(kind, _)| works(**kind));
        for (kind, time_ns) in kinds {
            grow(view.by_kind.entry(*kind).or_default(), *time_ns);
        }
    }
    view.by_kind.values_mut().for_each(|time_ns| *time_ns /= parts.len().max(1) as u64);
    let bytes: f64 = parts.iter().map(|one| one.bytes() as f64).sum();
    let cpu_ns: Option<Vec<Nanos>> = parts.iter().map(Watched::cpu_with_threads).collect();
    let cpu_ns = cpu_ns.map(|each| each.iter().map(|ns| ns.0 as f64).sum::<f64>());
    view.cpu_ns_per_megabyte = cpu_ns.filter(|_| bytes > 0.0).map(|cpu_ns| cpu_ns / (bytes / 1e6));
    Some(view)
}

fn merge_role(
    role: Role,
    workload: Option<&Workload>,
    phases: &[(u32, &PhaseResult)],
) -> Result<RoleView, UnreadableHistogram> {
    let parts: Vec<(u32, &PhaseResult, &RoleResult)> = phases
        .iter()
        .flat_map(|(trial, phase)| phase.roles.iter().map(|part| (*trial, *phase, part)))
        .filter(|(_, _, part)| part.role == role)
        .collect();
    let mean = |share: fn(&RoleResult) -> Option<f64>| {
        let sum = parts.iter().map(|(_, _, part)| share(part)).sum::<Option<f64>>();
        sum.map(|sum| sum / parts.len() as f64)
    };
    let several = phases.len() > 1;
    let stalls = parts.iter().filter_map(|(_, phase, part)| stall(phase, part));
    Ok(RoleView {
        role,
        workers: parts[0].2.workers,
        watched: parts.iter().all(|(_, _, part)| part.is_watched()),
        // What had not ended in any of the trials may have become the longest.
        longest_stall: stalls.reduce(|a, b| Time { ns: a.ns.max(b.ns), at_least: a.at_least || b.at_least }),
        time_over_100ms: mean(|part| part.time_over_100ms),
        time_over_1s: mean(|part| part.time_over_1s),
        cpu: parts.iter().fold(CpuTime::default(), |sum, (_, _, part)| sum + part.cpu),
        cpu_trials: parts.iter().filter(|(_, _, part)| part.cpu.total() > Nanos(0)).count(),
        cpu_share: merge::cpu_share(
            &parts.iter().map(|(_, phase, part)| (*phase, *part)).collect::<Vec<_>>(),
        ),
        longest_item: parts.iter().filter_map(|(_, _, part)| part.longest_item_ns).max(),
        open_loop: OpenLoopView::of(
            &parts.iter().filter_map(|(_, _, part)| part.open_loop.as_ref()).collect::<Vec<_>>(),
        ),
        curves: parts
            .iter()
            .filter_map(|(trial, _, part)| {
                let curve = part.open_loop.as_ref()?.search.clone()?;
                Some(TrialCurve { trial: *trial, curve })
            })
            .collect(),
        fairness: merge::fairness(workload, &parts.iter().map(|(_, _, part)| *part).collect::<Vec<_>>()),
        rates: merge::rates(&parts.iter().map(|(_, phase, part)| (*phase, *part)).collect::<Vec<_>>()),
        completed: total(
            parts.iter().flat_map(|(_, _, part)| &part.worker_results).map(|worker| worker.completed),
        ),
        counts: merge::counts(&parts.iter().map(|(_, _, part)| &part.counts).collect::<Vec<_>>()),
        trials: parts.len(),
        without_removal_bytes_per_s: merge::rate_without_removal(
            &parts.iter().map(|(_, phase, part)| (*phase, *part)).collect::<Vec<_>>(),
        ),
        operations: merge_operations(&parts)?,
        remarks: parts
            .iter()
            .flat_map(|(trial, phase, part)| crate::remark::workers(several.then_some(*trial), phase, part))
            .collect(),
    })
}

fn merge_operations(
    parts: &[(u32, &PhaseResult, &RoleResult)],
) -> Result<Vec<OperationView>, UnreadableHistogram> {
    let mut views = Vec::new();
    for operation in Operation::ALL {
        let same: Vec<_> = parts
            .iter()
            .flat_map(|(trial, _, part)| part.operations.iter().map(|result| (*trial, result)))
            .filter(|(_, result)| result.operation == *operation)
            .collect();
        if !same.is_empty() {
            let latency = merge::latencies(&same)?;
            views.push(OperationView {
                operation: *operation,
                count: (latency.count as f64 / parts.len() as f64).round() as u64,
                censored: total(same.iter().map(|(_, result)| result.censored)),
                latency,
            });
        }
    }
    Ok(views)
}

/// The longest stall of a role in one trial; `None` if it is not known.
fn stall(phase: &PhaseResult, role: &RoleResult) -> Option<Time> {
    Some(Time { ns: role.longest_stall_ns?.0, at_least: role.stall_is_bound(phase.window_ns) })
}
