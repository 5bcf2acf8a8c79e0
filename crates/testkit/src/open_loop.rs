//! Trials of a flow whose clients have a rate.

use crate::{around, configuration, operation, readers, trial};
use fsdyno_core::result::{
    Backlog, Latency, OpenLoop, PhaseResult, Quantiles, RateCurve, RatePoint, RoleResult, TrialRecord,
};
use fsdyno_core::workload::{Arrivals, Flow, FlowRole, Pace, RateSearch, Workload, flow};
use fsdyno_core::{Nanos, Operation, Role};

const UNTIL: &str = "p99 <= 20ms";

/// A flow that searches for the highest rate with p99 <= 20ms: two trials of ext4, where that is 300 and 400
/// iterations per second, and one of xfs, where every rate up to 800 meets the target.
pub fn searched_trials() -> Vec<TrialRecord> {
    let cases = [(0, 0, "ext4", 300.0, true), (1, 0, "ext4", 400.0, true), (0, 1, "xfs", 800.0, false)];
    let searched = |(number, (block, case, filesystem, highest, has_limit))| {
        let record = trial(number, block, case, configuration(filesystem, "none"), 50.0);
        TrialRecord {
            workload: Workload::Flow(searching()),
            phases: vec![PhaseResult::lasting(
                flow::PHASE,
                Nanos::from_secs(30),
                vec![clients(highest, has_limit)],
            )],
            ..record
        }
    };
    (0..).zip(cases).map(searched).collect()
}

fn searching() -> Flow {
    let search = RateSearch {
        until: UNTIL.parse().expect("a target"),
        step: Nanos::from_secs(5),
        arrivals: Arrivals::Poisson,
    };
    let client = FlowRole { workers: 4, rate: Some(Pace::Highest(search)), ..FlowRole::of(Role::Client) };
    Flow { roles: flow::FlowRoles(vec![client]), ..Flow::default() }
}

fn clients(highest: f64, has_limit: bool) -> RoleResult {
    let responses = around(9_000_000, 3000);
    let mut role = readers(4, 50.0);
    role.role = Role::Client;
    role.operations.push(operation(Operation::ResponseTime, &responses));
    role.operations.push(operation(Operation::ServiceTime, &around(3_000_000, 3000)));
    role.open_loop = Some(OpenLoop {
        intended_per_s: highest,
        arrivals: Arrivals::Poisson,
        due: 3000,
        achieved_per_s: highest - 0.5,
        never_begun: 0,
        backlog_max: 12,
        backlog_at_end: 3,
        backlog: Backlog { interval_ns: Nanos::from_millis(100), max: vec![2; 300] },
        late_ns_mean: 61_200.0,
        late_ns_max: 1_200_000,
        search: Some(curve(highest, has_limit)),
    });
    role
}

/// Rates up to the highest one, in the order in which they were tried, and half as much again if that was too
/// much.
fn curve(highest: f64, has_limit: bool) -> RateCurve {
    let point = |rate: f64| {
        let kept = rate <= highest;
        let took = if kept { 9_000_000 } else { 90_000_000 };
        RatePoint {
            intended_per_s: rate,
            due: (5.0 * rate) as u64,
            achieved_per_s: rate.min(highest),
            backlog_at_end: if kept { 0 } else { rate as u64 },
            unfinished: u64::from(!kept),
            met: kept,
            lat_ns: Latency {
                count: (5.0 * rate) as u64,
                min: took / 2,
                max: 4 * took,
                mean: took as f64,
                stddev: 0.0,
                quantiles: Quantiles::of(|each| (took as f64 * (1.0 + each.fraction())) as u64),
                at_least_from: (!kept).then_some(4 * took),
            },
        }
    };
    let rates = [0.5, 1.5, 1.0].map(|share| share * highest);
    RateCurve {
        until: UNTIL.parse().expect("a target"),
        closed_per_s: 1.25 * highest,
        highest_per_s: Some(highest),
        has_limit,
        points: rates.into_iter().filter(|rate| has_limit || *rate <= highest).map(point).collect(),
    }
}
