//! The results of one phase on several clients as the result of one phase.
//!
//! Clients begin at the same moment, so what they record relative to their windows fits together. A phase
//! with a window has the same one on all of them, up to the uncertainty of their clocks, and nothing outside
//! of it counts. A phase that ends with its work lasts until the last client has finished: its rates are all
//! work over all of that time, so that a straggler costs what it costs.

use fsdyno_core::Operation;
use fsdyno_core::figures::Quotient;
use fsdyno_core::result::{
    Backlog, CacheAtStart, ClientResult, ClientRole, ClientWork, ClockOffset, CpuTime, GroupMemory, InFlight,
    Latency, OpenLoop, OperationResult, PhaseResult, Quantile, Quantiles, Rates, RoleResult, SLOWEST,
    SlowOperation, Timeline, WindowClock, WorkerResult,
};
use fsdyno_core::units::{Bytes, Nanos};
use fsdyno_core::{Warning, WarningKind};
use fsdyno_stats::{Distribution, DistributionError, Moments};
use std::cmp::Reverse;

/// The least number of operations that shows p99.9.
const SHOWS_P999: u64 = 1_000;
/// The share of a window that may be uncertain because of clocks or a late start.
const UNCERTAIN_MAX: f64 = 0.01;

/// The facts known about one client.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub client: String,
    pub before: Option<ClockOffset>,
    pub after: Option<ClockOffset>,
    /// Absent if it was lost.
    pub result: Option<PhaseResult>,
    pub lost: Option<String>,
    /// The time for which the client had been silent when the phase ended for the others.
    pub silent_ns: Option<Nanos>,
}

/// The phase of all clients, and what a reader must know about it.
///
/// # Errors
/// [`DistributionError`] if a histogram cannot be read.
pub(crate) fn merge(parts: Vec<Part>) -> Result<(PhaseResult, Vec<Warning>), DistributionError> {
    let results: Vec<(&str, &PhaseResult)> =
        parts.iter().filter_map(|part| Some((part.client.as_str(), part.result.as_ref()?))).collect();
    let Some((_, first)) = results.first() else {
        return Ok((PhaseResult::lasting("", Nanos(0), Vec::new()), Vec::new()));
    };
    let phases = || results.iter().map(|(_, phase)| *phase);
    let window_ns = phases().map(|phase| phase.window_ns).max().unwrap_or_default();
    let roles = first.roles.iter().map(|role| merge_role(role, &results, window_ns));
    let merged = PhaseResult {
        ramp_ns: phases().map(|phase| phase.ramp_ns).max().unwrap_or_default(),
        drain_ns: phases().map(|phase| phase.drain_ns).max().unwrap_or_default(),
        clock: window_clock(&parts),
        late_ns: phases().filter_map(|phase| phase.late_ns).max(),
        clients: parts.iter().map(|part| client(part, window_ns)).collect::<Result<_, _>>()?,
        memory: memory(&phases().filter_map(|phase| phase.memory).collect::<Vec<_>>()),
        cache: cache(&phases().filter_map(|phase| phase.cache).collect::<Vec<_>>()),
        ..PhaseResult::lasting(first.name.clone(), window_ns, roles.collect::<Result<_, _>>()?)
    };
    let warnings = warnings(&merged);
    Ok((merged, warnings))
}

/// The window on the coordinator's clock: the part that is in the windows of all clients if these are of one
/// length, else from the first to the last moment.
fn window_clock(parts: &[Part]) -> Option<WindowClock> {
    let here = |part: &Part| {
        let (clock, offset) = (part.result.as_ref()?.clock?, part.before?.offset_ns);
        let shifted = |ns: u64| ns.saturating_add_signed(offset.saturating_neg());
        Some((shifted(clock.begin_ns), shifted(clock.end_ns)))
    };
    let windows: Vec<(u64, u64)> =
        parts.iter().filter(|part| part.result.is_some()).map(here).collect::<Option<_>>()?;
    let (begins, ends) = (windows.iter().map(|(begin, _)| *begin), windows.iter().map(|(_, end)| *end));
    let lengths = parts.iter().filter_map(|part| Some(part.result.as_ref()?.window_ns));
    let is_common = lengths.clone().min() == lengths.max();
    let (begin_ns, end_ns) = match is_common {
        true => (begins.max()?, ends.min()?),
        false => (begins.min()?, ends.max()?),
    };
    Some(WindowClock { begin_ns, end_ns: end_ns.max(begin_ns) })
}

/// One client by itself.
fn client(part: &Part, window_ns: Nanos) -> Result<ClientResult, DistributionError> {
    let own: Vec<&RoleResult> = part.result.iter().flat_map(|phase| &phase.roles).collect();
    let mut latencies = Distribution::empty();
    let mut roles = Vec::new();
    for role in &own {
        let of_role = latencies_of(role)?;
        roles.push(ClientRole { role: role.role, work: work(&[role], &of_role) });
        latencies.merge(&of_role)?;
    }
    let mut all = work(&own, &latencies);
    if part.lost.is_some() {
        (all.longest_stall_ns, all.longest_stall_at_least) = (part.silent_ns.unwrap_or_default(), true);
    }
    Ok(ClientResult {
        client: part.client.clone(),
        work: all,
        roles,
        cpu: own.iter().fold(CpuTime::default(), |sum, role| sum + role.cpu),
        late_ns: part.result.as_ref().and_then(|phase| phase.late_ns),
        active_ns: part.result.as_ref().map_or(window_ns, |phase| phase.window_ns),
        telemetry: part.result.as_ref().and_then(|phase| phase.telemetry.clone()),
        clock_before: part.before,
        clock_after: part.after,
        lost: part.lost.clone(),
    })
}

/// Returns the work of a client's workers in some roles, whose operations took these times.
fn work(roles: &[&RoleResult], latencies: &Distribution) -> ClientWork {
    let workers = || roles.iter().flat_map(|role| &role.worker_results);
    let p999 = latencies.quantile(Quantile::P999.fraction()).filter(|_| latencies.count() >= SHOWS_P999);
    ClientWork {
        workers: workers().count() as u32,
        bytes: workers().map(|worker| worker.bytes).sum(),
        completed: workers().map(|worker| worker.completed).sum(),
        p999_ns: p999.map(Nanos),
        longest_stall_ns: workers().map(|worker| worker.longest_stall_ns).max().unwrap_or_default(),
        longest_stall_at_least: workers().any(|worker| worker.longest_stall_at_least),
    }
}

/// Those of all operations of a role together.
fn latencies_of(role: &RoleResult) -> Result<Distribution, DistributionError> {
    let mut all = Distribution::empty();
    for operation in &role.operations {
        if operation.lat_ns.count > 0 && !operation.operation.is_an_iteration() {
            all.merge(&Distribution::decode(&operation.histogram)?)?;
        }
    }
    Ok(all)
}

/// Each has the same limit.
fn memory(parts: &[GroupMemory]) -> Option<GroupMemory> {
    let (first, others) = parts.split_first()?;
    Some(others.iter().fold(*first, |sum, other| GroupMemory {
        limit: sum.limit,
        peak: sum.peak.zip(other.peak).map(|(a, b)| a.max(b)),
        reclaims: sum.reclaims + other.reclaims,
    }))
}

fn cache(parts: &[CacheAtStart]) -> Option<CacheAtStart> {
    let (first, others) = parts.split_first()?;
    let add = |a: Option<Bytes>, b: Option<Bytes>| Some(Bytes(a?.0 + b?.0));
    Some(others.iter().fold(*first, |sum, other| CacheAtStart {
        state: sum.state,
        remounted: sum.remounted && other.remounted,
        drops: sum.drops.max(other.drops),
        left: add(sum.left, other.left),
        loaded: add(sum.loaded, other.loaded),
        missed: add(sum.missed, other.missed),
    }))
}

/// One role of all clients; `like` is that of the first.
fn merge_role(
    like: &RoleResult,
    phases: &[(&str, &PhaseResult)],
    window_ns: Nanos,
) -> Result<RoleResult, DistributionError> {
    let parts: Vec<(&str, &PhaseResult, &RoleResult)> = phases
        .iter()
        .flat_map(|(client, phase)| phase.roles.iter().map(move |role| (*client, *phase, role)))
        .filter(|(_, _, role)| role.role == like.role)
        .collect();
    let roles = || parts.iter().map(|(_, _, role)| *role);
    let workers: u32 = roles().map(|role| role.workers).sum();
    // A share of the window of a client that finished early is a smaller share of the common one.
    let share = |of: fn(&RoleResult) -> Option<f64>| {
        let spent = parts.iter().map(|(_, phase, role)| {
            Some(of(role)? * f64::from(role.workers) * phase.window_ns.as_secs_f64())
        });
        let all = (f64::from(workers) * window_ns.as_secs_f64()).max(f64::MIN_POSITIVE);
        spent.sum::<Option<f64>>().map(|spent| spent / all)
    };
    let mut merged = RoleResult {
        longest_stall_ns: roles().filter_map(|role| role.longest_stall_ns).max(),
        longest_stall_at_least: roles().any(|role| role.longest_stall_at_least),
        time_over_100ms: share(|role| role.time_over_100ms),
        time_over_1s: share(|role| role.time_over_1s),
        rates: rates(&parts, window_ns),
        cpu: roles().fold(CpuTime::default(), |sum, role| sum + role.cpu),
        longest_item_ns: roles().filter_map(|role| role.longest_item_ns).max(),
        removing_ns: roles()
            .filter_map(|role| role.removing_ns)
            .reduce(|sum, one| Nanos(sum.0.saturating_add(one.0))),
        open_loop: open_loop(&roles().filter_map(|role| role.open_loop.as_ref()).collect::<Vec<_>>()),
        ..RoleResult::unwatched(like.role, workers)
    };
    for (_, _, role) in &parts {
        let before = merged.worker_results.len() as u32;
        let shifted = |flight: &InFlight| InFlight { worker: flight.worker + before, ..flight.clone() };
        merged.blocked_at_start.extend(role.blocked_at_start.iter().map(shifted));
        merged.worker_results.extend(role.worker_results.iter().map(|worker| WorkerResult {
            unfinished: worker.unfinished.as_ref().map(shifted),
            ..worker.clone()
        }));
        for (name, count) in &role.counts {
            *merged.counts.entry(name.clone()).or_default() += count;
        }
    }
    for operation in Operation::ALL {
        let same: Vec<(&str, &OperationResult)> = parts
            .iter()
            .flat_map(|(client, _, role)| role.operations.iter().map(move |one| (*client, one)))
            .filter(|(_, one)| one.operation == *operation)
            .collect();
        if !same.is_empty() {
            merged.operations.push(merge_operation(*operation, &same)?);
        }
    }
    Ok(merged)
}

/// All work over the common time.
fn rates(parts: &[(&str, &PhaseResult, &RoleResult)], window_ns: Nanos) -> Rates {
    let of_window = |rate: fn(&Rates) -> f64| {
        let work = parts.iter().map(|(_, phase, role)| rate(&role.rates) * phase.window_ns.as_secs_f64());
        work.sum::<f64>() / window_ns.as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let of_operations = |rate: fn(&RoleResult, Nanos) -> Option<Quotient>| {
        let each: Vec<Quotient> =
            parts.iter().filter_map(|(_, phase, role)| rate(role, phase.window_ns)).collect();
        let time: f64 = each.iter().map(|one| one.weight).sum();
        (time > 0.0).then(|| each.iter().map(|one| one.value * one.weight).sum::<f64>() / time)
    };
    let rates = || parts.iter().map(|(_, _, role)| &role.rates);
    Rates {
        data_bytes_per_s: of_operations(RoleResult::data_rate),
        with_overhead_bytes_per_s: of_operations(RoleResult::overhead_rate),
        aggregate_bytes_per_s: of_window(|rates| rates.aggregate_bytes_per_s),
        operations_per_s: of_window(|rates| rates.operations_per_s),
        bytes: rates().map(|rates| rates.bytes).sum(),
        items_per_s: of_window(|rates| rates.items_per_s),
        items: rates().map(|rates| rates.items).sum(),
    }
}

/// Iterations with a rate: each client has the rate of the plan, so that all have as many times that.
fn open_loop(parts: &[&OpenLoop]) -> Option<OpenLoop> {
    let (first, others) = parts.split_first()?;
    Some(others.iter().fold((*first).clone(), |sum, other| {
        let due = (sum.due + other.due).max(1) as f64;
        let backlog = add_backlogs(&sum.backlog, &other.backlog);
        OpenLoop {
            intended_per_s: sum.intended_per_s + other.intended_per_s,
            arrivals: sum.arrivals,
            due: sum.due + other.due,
            achieved_per_s: sum.achieved_per_s + other.achieved_per_s,
            never_begun: sum.never_begun + other.never_begun,
            // Not the sum of what may have been at different times.
            backlog_max: backlog.max.iter().copied().max().unwrap_or(sum.backlog_max.max(other.backlog_max)),
            backlog_at_end: sum.backlog_at_end + other.backlog_at_end,
            backlog,
            late_ns_mean: (sum.late_ns_mean * sum.due as f64 + other.late_ns_mean * other.due as f64) / due,
            late_ns_max: sum.late_ns_max.max(other.late_ns_max),
            search: None,
        }
    }))
}

fn add_backlogs(one: &Backlog, other: &Backlog) -> Backlog {
    let interval_ns = one.interval_ns.max(other.interval_ns);
    let (one, other) = (
        coarser(&one.max, one.interval_ns, interval_ns, u64::max),
        coarser(&other.max, other.interval_ns, interval_ns, u64::max),
    );
    Backlog { interval_ns, max: zipped(&one, &other, |a, b| a + b) }
}

fn merge_operation(
    operation: Operation,
    parts: &[(&str, &OperationResult)],
) -> Result<OperationResult, DistributionError> {
    let results = || parts.iter().map(|(_, result)| *result);
    let mut distribution = Distribution::empty();
    for result in results().filter(|result| result.lat_ns.count > 0) {
        distribution.merge(&Distribution::decode(&result.histogram)?)?;
    }
    let mut slowest: Vec<SlowOperation> = parts
        .iter()
        .flat_map(|(client, result)| {
            result
                .slowest
                .iter()
                .map(move |slow| SlowOperation { path: format!("{client}:{}", slow.path), ..slow.clone() })
        })
        .collect();
    slowest.sort_by_key(|slow| Reverse(slow.duration_ns));
    slowest.truncate(SLOWEST);
    let samples = || results().map(|result| &result.lat_ns).filter(|latency| latency.count > 0);
    let Moments { count, mean, stddev } = Moments::pooled(samples().map(|latency| Moments {
        count: latency.count,
        mean: latency.mean,
        stddev: latency.stddev,
    }));
    let min = samples().map(|latency| latency.min).min().unwrap_or(0);
    let max = results().map(|result| result.lat_ns.max).max().unwrap_or(0);
    let quantile = |of: Quantile| distribution.quantile(of.fraction()).unwrap_or(0).clamp(min, max.max(min));
    Ok(OperationResult {
        operation,
        censored: results().map(|result| result.censored).sum(),
        lat_ns: Latency {
            count,
            min,
            max,
            mean,
            stddev,
            quantiles: if count > 0 { Quantiles::of(quantile) } else { Quantiles::default() },
            at_least_from: results().filter_map(|result| result.lat_ns.at_least_from).min(),
        },
        histogram: distribution.encode()?,
        timeline: timeline(&results().map(|result| &result.timeline).collect::<Vec<_>>()),
        slowest,
    })
}

/// Timelines that begin at the same moment; long ones have longer intervals.
fn timeline(parts: &[&Timeline]) -> Timeline {
    let interval_ns = parts.iter().map(|part| part.interval_ns).max().unwrap_or_default();
    let all = |of: fn(&Timeline) -> &Vec<u64>, combine: fn(u64, u64) -> u64| {
        parts.iter().fold(Vec::new(), |sum, part| {
            zipped(&sum, &coarser(of(part), part.interval_ns, interval_ns, combine), combine)
        })
    };
    Timeline {
        interval_ns,
        count: all(|part| &part.count, u64::saturating_add),
        sum_ns: all(|part| &part.sum_ns, u64::saturating_add),
        max_ns: all(|part| &part.max_ns, u64::max),
        bytes: all(|part| &part.bytes, u64::saturating_add),
    }
}

/// A timeline with longer intervals. Intervals grow by doubling, so that several become one.
fn coarser(values: &[u64], from: Nanos, to: Nanos, combine: fn(u64, u64) -> u64) -> Vec<u64> {
    let several = (to.0 / from.0.max(1)).max(1) as usize;
    values.chunks(several).map(|chunk| chunk.iter().copied().fold(0, combine)).collect()
}

fn zipped(one: &[u64], other: &[u64], combine: fn(u64, u64) -> u64) -> Vec<u64> {
    let at = |values: &[u64], index: usize| values.get(index).copied().unwrap_or(0);
    (0..one.len().max(other.len())).map(|index| combine(at(one, index), at(other, index))).collect()
}

/// Says which clients did not begin with the others, or when is not known.
fn warnings(phase: &PhaseResult) -> Vec<Warning> {
    let room_ns = (phase.window_ns.0 as f64 * UNCERTAIN_MAX) as u64;
    let said = phase.clients.iter().filter(|client| client.lost.is_none()).filter_map(|client| {
        let late = client.late_ns.map(|late| late.0.saturating_sub(phase.ramp_ns.0));
        let reason = match (client.clock_uncertainty(), late) {
            (None, _) | (_, None) => "when it began is unknown: its clock could not be read".to_string(),
            (Some(uncertain), _) if uncertain.0 > room_ns => {
                format!("when it began is known to {uncertain} only, so uncertain is its clock")
            }
            (_, Some(late)) if late > room_ns => format!("it began {} into the window", Nanos(late)),
            _ => return None,
        };
        let text = format!("client '{}': {reason}", client.client);
        Some(Warning::new(WarningKind::BegunApart, text).in_phase(&phase.name))
    });
    said.collect()
}

#[cfg(test)]
mod tests;
