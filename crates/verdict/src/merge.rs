//! Merges the trials of a case, for the tables of each case.
//!
//! Histograms add up, so quantiles of the merged sample are exact to the histograms' three digits. Counts and
//! moments add up exactly; maxima are those of all trials; a rate is total work over total time. Nothing here
//! compares cases: trials are the unit of replication, and pooling their operations would make every
//! difference look certain.

use fsdyno_core::figures::{Quotient, total};
use fsdyno_core::result::{
    Latency, OperationResult, PhaseResult, Quantile, Quantiles, Rates, RoleResult, WorkerResult,
};
use fsdyno_core::{Nanos, Operation, Workload};
use fsdyno_stats::{Distribution, DistributionError, Fairness, MeanKind, Moments, Weighted, mean};
use std::collections::{BTreeMap, BTreeSet};

/// A time, or a lower bound of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Time {
    /// Nanoseconds.
    pub ns: u64,
    /// `true` if it is a lower bound, printed with `>=`.
    pub at_least: bool,
}

/// A stored histogram cannot be decoded, or does not fit the others.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the histogram of '{operation}' in trial {}", trial + 1)]
pub struct UnreadableHistogram {
    /// The trial.
    pub trial: u32,
    /// The operation.
    pub operation: Operation,
    /// The cause.
    pub source: DistributionError,
}

/// Merges the latencies of one operation in several trials, each with its number. A single one is returned as
/// recorded.
///
/// # Errors
/// [`UnreadableHistogram`] when a stored histogram cannot be read.
pub fn latencies(parts: &[(u32, &OperationResult)]) -> Result<Latency, UnreadableHistogram> {
    if let [(_, only)] = parts {
        return Ok(only.lat_ns.clone());
    }
    let samples = || parts.iter().map(|(_, part)| &part.lat_ns).filter(|latency| latency.count > 0);
    // An operation that covered the whole window only counts for the maximum, so even an empty sample may
    // have one.
    let max = parts.iter().map(|(_, part)| part.lat_ns.max).max().unwrap_or(0);
    let distribution = distribution(parts)?;
    let Moments { count, mean, stddev } = Moments::pooled(samples().map(|latency| Moments {
        count: latency.count,
        mean: latency.mean,
        stddev: latency.stddev,
    }));
    // Imported trials may have quantiles but no histogram. Then only the mean of a quantile is known, and
    // nothing if some trial lacks it.
    let quantile = |of: Quantile| match distribution.count() == count {
        true => distribution.quantile(of.fraction()).unwrap_or(0).min(max),
        false if samples().any(|latency| latency.known(of).is_none()) => 0,
        false => {
            let share = |latency: &Latency| latency.count as f64 / count as f64;
            let mean: f64 = samples().map(|latency| share(latency) * latency.quantiles[of] as f64).sum();
            mean.round() as u64
        }
    };
    Ok(Latency {
        count,
        min: samples().map(|latency| latency.min).min().unwrap_or(0),
        max,
        mean,
        stddev,
        quantiles: Quantiles::of(quantile),
        at_least_from: parts.iter().filter_map(|(_, part)| part.lat_ns.at_least_from).min(),
    })
}

/// The operations of several trials, each with its number, as one sample.
///
/// # Errors
/// [`UnreadableHistogram`] when a stored histogram cannot be read.
pub fn distribution(parts: &[(u32, &OperationResult)]) -> Result<Distribution, UnreadableHistogram> {
    let mut merged: Option<Distribution> = None;
    for (trial, part) in parts.iter().filter(|(_, part)| part.lat_ns.count > 0) {
        let unreadable = |source| UnreadableHistogram { trial: *trial, operation: part.operation, source };
        let next = Distribution::decode(&part.histogram).map_err(unreadable)?;
        match &mut merged {
            Some(merged) => merged.merge(&next).map_err(unreadable)?,
            None => merged = Some(next),
        }
    }
    Ok(merged.unwrap_or_else(Distribution::empty))
}

/// Returns the fairness among the workers of a role: the mean over trials. Workers of a flow, whose files may
/// be of any size, are compared by their iterations; others by the data that they moved, or, if they move
/// none, by operations.
pub fn fairness(workload: Option<&Workload>, parts: &[&RoleResult]) -> Option<Fairness> {
    let is_flow = matches!(workload, Some(Workload::Flow(_)));
    let of_part = |part: &RoleResult| {
        let any = |of: fn(&WorkerResult) -> u64| part.worker_results.iter().any(|worker| of(worker) > 0);
        let (moved, counted) = (any(|worker| worker.bytes), is_flow && any(|worker| worker.items));
        let rate = |worker: &WorkerResult| {
            let work = match (counted, moved) {
                (true, _) => worker.items,
                (false, true) => worker.bytes,
                (false, false) => worker.completed,
            };
            (worker.active_ns > Nanos(0)).then(|| work as f64 / worker.active_ns.as_secs_f64())
        };
        fsdyno_stats::fairness(&part.worker_results.iter().map(rate).collect::<Option<Vec<_>>>()?)
    };
    let each: Vec<Fairness> = parts.iter().filter_map(|part| of_part(part)).collect();
    let average =
        |of: fn(&Fairness) -> f64| mean(&each.iter().map(of).collect::<Vec<_>>(), MeanKind::Arithmetic);
    Some(Fairness {
        jain: average(|fairness| fairness.jain)?,
        least_to_most: average(|fairness| fairness.least_to_most)?,
    })
}

/// Merges the counts of several trials: the mean of each, rounded down.
pub fn counts(parts: &[&BTreeMap<String, u64>]) -> BTreeMap<String, u64> {
    let names: BTreeSet<&String> = parts.iter().flat_map(|counts| counts.keys()).collect();
    let mean = |name: &String| {
        let values: Vec<u64> = parts.iter().filter_map(|counts| counts.get(name).copied()).collect();
        let sum: u128 = values.iter().copied().map(u128::from).sum();
        (sum / values.len().max(1) as u128) as u64
    };
    names.into_iter().map(|name| (name.clone(), mean(name))).collect()
}

/// Merges the rates of a role in several trials, total work over total time, and adds up bytes and items. If
/// a program did not report a rate in one of the trials, there is none, which is 0.
pub fn rates(parts: &[(&PhaseResult, &RoleResult)]) -> Rates {
    let of_window = |rate: fn(&Rates) -> f64| {
        let each = parts.iter().map(|(phase, role)| role.window_rate(rate, phase.window_ns));
        each.collect::<Option<Vec<_>>>().and_then(|each| mean_quotient(&each)).unwrap_or(0.0)
    };
    let of_operations = |rate: fn(&RoleResult, Nanos) -> Option<Quotient>| {
        let each = parts.iter().filter_map(|(phase, role)| rate(role, phase.window_ns));
        mean_quotient(&each.collect::<Vec<_>>())
    };
    Rates {
        data_bytes_per_s: of_operations(RoleResult::data_rate),
        with_overhead_bytes_per_s: of_operations(RoleResult::overhead_rate),
        aggregate_bytes_per_s: of_window(|rates| rates.aggregate_bytes_per_s),
        operations_per_s: of_window(|rates| rates.operations_per_s),
        bytes: total(parts.iter().map(|(_, role)| role.rates.bytes)),
        items_per_s: of_window(|rates| rates.items_per_s),
        items: total(parts.iter().map(|(_, role)| role.rates.items)),
    }
}

/// Processor time over the windows of the trials in which that is known. Without the length of a window, each
/// counts alike.
pub fn cpu_share(parts: &[(&PhaseResult, &RoleResult)]) -> Option<f64> {
    let known = parts.iter().filter_map(|(phase, role)| Some((phase, role.cpu_share(phase.window_ns)?)));
    let known: Vec<_> = known.collect();
    let all_timed = known.iter().all(|(phase, _)| phase.window_ns > Nanos(0));
    let weighted = known.iter().map(|(phase, share)| Weighted {
        value: *share,
        weight: if all_timed { phase.window_ns.as_secs_f64() } else { 1.0 },
    });
    mean(&weighted.collect::<Vec<_>>(), MeanKind::Arithmetic)
}

/// The rate of a role over the time in which it did not remove what it had written; `None` if it never did.
pub fn rate_without_removal(parts: &[(&PhaseResult, &RoleResult)]) -> Option<f64> {
    let removing = |(phase, role): &(&PhaseResult, &RoleResult)| role.removing(phase.window_ns) > 0.0;
    if !parts.iter().any(removing) {
        return None;
    }
    let each = parts.iter().map(|(phase, role)| role.rate_without_removal(phase.window_ns));
    mean_quotient(&each.collect::<Option<Vec<_>>>()?)
}

fn mean_quotient(quotients: &[Quotient]) -> Option<f64> {
    let weighted = quotients.iter().map(|one| Weighted { value: one.value, weight: one.weight });
    mean(&weighted.collect::<Vec<_>>(), MeanKind::Arithmetic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::result::InFlight;
    use fsdyno_core::workload::{Flow, Null};
    use fsdyno_core::{Operation, Role};

    #[test]
    fn merged_trials_are_all_their_operations_together() {
        let (a, b) = (fixture::around(17_000, 500), fixture::around(90_000, 300));
        let parts = [fixture::operation(Operation::Openat, &a), fixture::operation(Operation::Openat, &b)];
        let merged = latencies(&[(0, &parts[0]), (1, &parts[1])]).unwrap();
        let together = fixture::operation(Operation::Openat, &[a, b].concat()).lat_ns;
        assert!((merged.mean - together.mean).abs() < 1e-6 * together.mean);
        assert!((merged.stddev - together.stddev).abs() < 1e-6 * together.stddev);
        assert_eq!(
            Latency { mean: 0.0, stddev: 0.0, ..merged },
            Latency { mean: 0.0, stddev: 0.0, ..together }
        );
    }

    /// Two workers that do the same on files of different sizes.
    #[test]
    fn workers_of_a_flow_are_even_if_they_do_as_many_iterations() {
        let worker = |bytes| WorkerResult {
            bytes,
            items: 100,
            completed: 300,
            active_ns: Nanos::from_millis(1000),
            ..WorkerResult::default()
        };
        let role = RoleResult {
            worker_results: vec![worker(1000), worker(3000)],
            ..RoleResult::unwatched(Role::Client, 2)
        };
        let even = |workload: &Workload| fairness(Some(workload), &[&role]).map(|fairness| fairness.jain);
        assert_eq!(even(&Workload::Flow(Flow::default())), Some(1.0));
        assert_eq!(even(&Workload::Null(Null::default())), Some(0.8), "4000^2 / (2 (1000^2 + 3000^2))");
    }

    #[test]
    fn a_bound_in_one_trial_is_a_bound_of_all() {
        let sample = fixture::around(17_000, 500);
        let mut blocked = fixture::operation(Operation::Mkdirat, &[]);
        blocked.lat_ns.max = 30_000_000_000;
        blocked.lat_ns.at_least_from = Some(30_000_000_000);
        let merged =
            latencies(&[(0, &fixture::operation(Operation::Mkdirat, &sample)), (1, &blocked)]).unwrap();
        assert_eq!((merged.count, merged.max, merged.min), (500, 30_000_000_000, 17_000 * 80 / 100));
        assert!(merged.is_bound(merged.max) && !merged.is_bound(merged.quantiles[Quantile::P9999]));
    }

    #[test]
    fn empty_samples_merge_into_an_empty_sample() {
        let nothing = fixture::operation(Operation::Mkdirat, &[]);
        let merged = latencies(&[(0, &nothing), (1, &nothing)]).unwrap();
        assert_eq!((merged.count, merged.max, merged.median()), (0, 0, 0));
    }

    #[test]
    fn a_damaged_histogram_is_an_error_with_its_trial() {
        let good = fixture::operation(Operation::Openat, &[17_000]);
        let damaged = OperationResult { histogram: "none".to_string(), ..good.clone() };
        let error = latencies(&[(3, &good), (4, &damaged)]).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the histogram of 'openat' in trial 5");
    }

    /// A phase of this length in which one worker moved so many bytes, all in its reads.
    fn phase(window: Nanos, bytes: u64) -> PhaseResult {
        let mut phase = fixture::trials()[0].phases[0].clone();
        phase.window_ns = window;
        let role = &mut phase.roles[0];
        let rate = bytes as f64 / window.as_secs_f64();
        role.rates = Rates {
            data_bytes_per_s: (bytes > 0).then_some(rate),
            aggregate_bytes_per_s: rate,
            bytes,
            ..Rates::default()
        };
        role.blocked_at_start.clear();
        phase
    }

    fn merged(phases: &[PhaseResult]) -> Rates {
        rates(&phases.iter().map(|phase| (phase, &phase.roles[0])).collect::<Vec<_>>())
    }

    #[test]
    fn one_stalled_trial_does_not_decide_the_mean_of_equal_windows() {
        let second = Nanos::from_secs(1);
        let rates = merged(&[phase(second, 1_233_000_000), phase(second, 1_260_000)]);
        assert_eq!((rates.aggregate_bytes_per_s, rates.bytes), (617_130_000.0, 1_234_260_000));
        let rates = merged(&[phase(second, 60_000_000), phase(second, 0)]);
        assert_eq!(rates.aggregate_bytes_per_s, 30_000_000.0);
    }

    #[test]
    fn rates_of_equal_work_count_by_the_time_that_it_took() {
        let rates = merged(&[phase(Nanos::from_secs(1), 60_000_000), phase(Nanos::from_secs(2), 60_000_000)]);
        assert_eq!((rates.aggregate_bytes_per_s, rates.data_bytes_per_s), (40e6, Some(40e6)));
    }

    #[test]
    fn a_worker_that_was_blocked_moved_nothing_in_that_time() {
        let window = Nanos::from_secs(2);
        let mut blocked = phase(window, 0);
        let moving = phase(window, 60_000_000);
        assert_eq!(
            merged(&[moving.clone(), blocked.clone()]).data_bytes_per_s,
            Some(30e6),
            "it was not in a read"
        );
        blocked.roles[0].blocked_at_start.push(InFlight {
            worker: 0,
            operation: Operation::Read,
            start_ns: -1_000_000_000,
            duration_ns: Nanos::from_secs(9),
            at_least: true,
        });
        assert_eq!(merged(&[moving, blocked]).data_bytes_per_s, Some(15e6));
    }

    #[test]
    fn a_rate_that_no_program_reported_is_none() {
        let mut silent = phase(Nanos(0), 0);
        silent.roles[0].worker_results.clear();
        silent.roles[0].rates = Rates::default();
        let rates = merged(&[phase(Nanos::from_secs(1), 60_000_000), silent]);
        assert_eq!(rates.aggregate_bytes_per_s, 0.0);
    }
}
