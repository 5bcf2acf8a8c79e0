//! Cases that are repeated until they are known well enough.

use crate::lab::{Lab, PLAN, full, measured_as, phase, plan};
use fsdyno_core::{TrialRecord, WarningKind};
use fsdyno_host::guest::NoGuests;
use fsdyno_store::SweepState;
use fsdyno_sweep::{Plan, Slot, SweepEnd, SweepEvent, dry_run, order};
use fsdyno_testkit::fake::{FakeEngine, FakeHost};
use std::sync::atomic::Ordering;

/// Two cases of which the second never settles, repeated until half of the interval is below 5 %.
fn restless() -> Plan {
    plan(
        PLAN,
        &[
            "repetitions={ min = 2, max = 4, until = \"5%\" }",
            "axes.filesystem=ext4",
            "measure=null/null/operation-rate",
        ],
    )
}

fn at_rate(operations_per_s: f64) -> FakeEngine {
    let mut phase = phase("null");
    phase.roles[0].rates.operations_per_s = operations_per_s;
    measured_as(phase)
}

/// One engine for each trial that follows: the sentinel and the first case always alike, the second never.
fn restless_engines(plan: &Plan, from: usize) -> Vec<FakeEngine> {
    let complete = order(plan).into_iter().map(|slot| slot.case);
    // A further block is the sentinel and the case that is still wanting.
    let cases = complete.chain([0, 1, 0, 1]);
    let rate = |(trial, case): (usize, u32)| if case == 0 { 1e8 } else { 1e8 * (1 + trial % 7) as f64 };
    cases.enumerate().skip(from).map(|at| at_rate(rate(at))).collect()
}

fn places(trials: &[TrialRecord]) -> Vec<(u32, u32, u32, bool, u64)> {
    trials.iter().map(|trial| (trial.trial, trial.block, trial.case, trial.sentinel, trial.seed)).collect()
}

#[test]
fn a_case_is_repeated_until_it_is_known_well_enough_and_then_given_up() {
    let plan = restless();
    let mut lab = Lab::new();
    lab.engines(restless_engines(&plan, 0));
    let mut further = Vec::new();
    let outcome = lab
        .run_watched(&plan, None, |progress, _| match progress {
            SweepEvent::Further { block, cases, trials } => further.push((*block, cases.len(), *trials)),
            SweepEvent::Stored(position, _) if position.trial == 6 => assert!(position.more_may_follow),
            _ => {}
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 10));
    assert_eq!(further, [(3, 1, 8), (4, 1, 10)]);
    let trials = lab.trials(&outcome);
    let blocks = |case| {
        let own = trials.iter().filter(|trial| trial.case == case && !trial.sentinel);
        own.map(|trial| trial.block).collect::<Vec<_>>()
    };
    assert_eq!((blocks(0), blocks(1)), (vec![0, 1], vec![0, 1, 2, 3]));
    assert_eq!(trials.iter().filter(|trial| trial.sentinel).count(), 4);
    let still_wide = |trial: &&TrialRecord| {
        trial
            .warnings
            .iter()
            .any(|warning| warning.kind == WarningKind::StillWide && warning.text.contains("4 blocks"))
    };
    let given_up: Vec<u32> = trials.iter().filter(still_wide).map(|trial| trial.trial).collect();
    assert_eq!(given_up.len(), 1);
    assert_eq!(trials[given_up[0] as usize].case, 1);
    let summary = lab.store.sweep(outcome.sweep).unwrap().summary;
    assert_eq!((summary.trials, summary.state), (10, SweepState::Finished));
}

#[test]
fn an_interrupted_further_block_goes_on_where_it_stopped() {
    let plan = restless();
    let mut whole = Lab::new();
    whole.engines(restless_engines(&plan, 0));
    let outcome = whole.run(&plan, None).unwrap();
    let expected = places(&whole.trials(&outcome));
    for last in 1..expected.len() as u32 {
        let mut lab = Lab::new();
        lab.engines(restless_engines(&plan, 0));
        let stopped = lab
            .run_watched(&plan, None, |progress, interrupt| {
                if let SweepEvent::Stored(position, _) = progress {
                    interrupt.store(position.trial == last, Ordering::Relaxed);
                }
            })
            .unwrap();
        assert_eq!((stopped.end, stopped.measured), (SweepEnd::Interrupted, last));
        lab.interrupt.store(false, Ordering::Relaxed);
        lab.engines(restless_engines(&plan, last as usize));
        let resumed = lab.run(&plan, Some(stopped.sweep)).unwrap();
        assert_eq!(resumed.end, SweepEnd::Finished, "stopped after {last}");
        assert_eq!(places(&lab.trials(&resumed)), expected, "stopped after {last}");
    }
}

#[test]
fn a_case_that_cannot_be_measured_is_not_repeated() {
    let plan = restless();
    let mut lab = Lab::new();
    let failing = |slot: Slot| match slot.case {
        0 => at_rate(1e8),
        _ => full(),
    };
    lab.engines(order(&plan).into_iter().map(failing));
    let outcome = lab.run(&plan, None).unwrap();
    assert_eq!((outcome.measured, outcome.failed), (4, 2));
}

#[test]
fn a_dry_run_tells_the_least_and_the_most() {
    let run = dry_run(&restless(), &mut FakeHost::new(), &mut NoGuests);
    assert_eq!((run.trials, run.trials_max), (6, 12));
    assert_eq!(run.time_max_ns.0, 2 * run.time_ns.0);
    let fixed = dry_run(&plan(PLAN, &[]), &mut FakeHost::new(), &mut NoGuests);
    assert_eq!((fixed.trials, fixed.time_ns), (fixed.trials_max, fixed.time_max_ns));
}
