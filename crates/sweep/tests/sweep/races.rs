//! Sweeps that drop configurations as evidence grows.

use crate::lab::{Lab, PLAN, full, measured_as, phase, plan};
use fsdyno_core::{Nanos, RaceBudget, RaceRules, SweepHeader, TrialRecord};
use fsdyno_host::guest::NoGuests;
use fsdyno_store::{SweepId, SweepState};
use fsdyno_sweep::{Plan, Slot, SweepEnd, SweepError, SweepEvent, dry_run, order, race_budget};
use fsdyno_testkit::fake::{FakeEngine, FakeHost};
use fsdyno_verdict::race::{RaceAnswer, RaceState, answer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Eight cases, of which each is faster than the one before.
const SET: [&str; 3] = [
    "protocol=race",
    "axes.scheduler=[\"none\", \"mq-deadline\", \"kyber\", \"bfq\"]",
    "measure=null/null/operation-rate",
];
/// The configurations that go on after the first block: the best four, and the default.
const LEFT: [u32; 5] = [0, 4, 5, 6, 7];
/// Trials of such a race: 8 and the sentinel, then twice 5 and the sentinel.
const TRIALS: usize = 21;

/// None of its engines hangs, so none needs a watchdog that a busy machine could wake.
fn race(more: &[&str]) -> Plan {
    plan(PLAN, &[&SET[..], &["watchdog=1m"], more].concat())
}

fn of_case(case: u32) -> FakeEngine {
    let mut phase = phase("null");
    phase.roles[0].rates.operations_per_s = 1e8 * (1.0 + 0.3 * f64::from(case));
    measured_as(phase)
}

/// The trials of a race with these cases in all blocks after the first.
fn slots(left: &[u32]) -> Vec<Slot> {
    let exhaustive = plan(PLAN, &[&SET[1..], &["repetitions=12"]].concat());
    let runs = |slot: &Slot| slot.block == 0 || slot.sentinel || left.contains(&slot.case);
    order(&exhaustive).into_iter().filter(runs).collect()
}

fn engines(lab: &mut Lab, left: &[u32], from: usize, engine: impl Fn(&Slot) -> FakeEngine) {
    lab.engines(slots(left).iter().skip(from).map(engine));
}

fn sound(slot: &Slot) -> FakeEngine {
    of_case(slot.case)
}

fn places(trials: &[TrialRecord]) -> Vec<(u32, u32, u32, bool, u64)> {
    trials.iter().map(|trial| (trial.trial, trial.block, trial.case, trial.sentinel, trial.seed)).collect()
}

/// Returns the answer of the stored trials.
fn heard(lab: &Lab, sweep: SweepId) -> RaceAnswer {
    let stored = lab.store.sweep(sweep).unwrap();
    let budget = race_budget(&stored.plan_toml, &stored.overrides).expect("a race");
    let measure: fsdyno_core::Measure = stored.measure.parse().unwrap();
    let rules = RaceRules { budget, measure: measure.clone(), configurations: stored.summary.cases };
    let header = SweepHeader {
        id: sweep.to_string(),
        name: stored.summary.name.clone(),
        plan_toml: stored.plan_toml.clone(),
        overrides: stored.overrides.clone(),
        started: stored.summary.started.clone(),
        finished: None,
        seed: stored.seed,
        measure,
        race: Some(rules.clone()),
        looks: Default::default(),
        selected: None,
    };
    answer(&header, &rules, &lab.store.outlines(sweep).unwrap(), 0.05).unwrap()
}

fn dropped(found: &RaceAnswer) -> Vec<u32> {
    found.eliminations.iter().map(|one| one.raced.case).collect()
}

#[test]
fn a_race_drops_the_worse_half_and_measures_the_rest_again() {
    let mut lab = Lab::new();
    engines(&mut lab, &LEFT, 0, sound);
    let (mut lines, mut planned, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let outcome = lab
        .run_watched(&race(&[]), None, |progress, _| match progress {
            SweepEvent::Raced { lines: said, trials, .. } => {
                lines.push(said.join("\n"));
                planned.push(*trials);
            }
            SweepEvent::Stored(position, _) => {
                assert_eq!((position.trials as usize, position.more_may_follow), (TRIALS, false));
                left.push(position.left);
            }
            _ => {}
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured as usize), (SweepEnd::Finished, TRIALS));
    assert_eq!(planned, [21, 21, 21]);
    assert!(left[19] > Nanos(0) && left[20] == Nanos(0), "{left:?}");
    let trials = lab.trials(&outcome);
    let expected: Vec<_> = slots(&LEFT).into_iter().take(TRIALS).collect();
    let numbered =
        (0..).zip(expected).map(|(trial, slot)| (trial, slot.block, slot.case, slot.sentinel, slot.seed));
    assert_eq!(places(&trials), numbered.collect::<Vec<_>>(), "each block in the order of the complete one");
    let found = heard(&lab, outcome.sweep);
    assert_eq!((dropped(&found), found.state), (vec![3, 2, 1], RaceState::Over));
    assert_eq!((found.pick.case, found.default.case, found.trials), (7, 0, TRIALS));
    let finalists: Vec<(u32, usize)> =
        found.finalists.iter().map(|one| (one.raced.case, one.trials)).collect();
    assert_eq!(finalists, [(7, 2), (6, 2), (5, 2), (4, 2), (0, 2)], "two fresh trials of each");
    assert!(lines[0].starts_with("after round 1 (8 trials) 3 dropped: 'ext4 bfq' ("), "{}", lines[0]);
    for said in &lines {
        assert!(
            said.contains("no configuration is more than ") && said.contains("better than 'xfs bfq', 95 %")
        );
    }
    assert!(lines[0].contains("block 2 of 3 is next, with 5 configurations, which are measured again"));
    assert!(lines[2].ends_with("\nthe race is over"), "{}", lines[2]);
    let summary = lab.store.sweep(outcome.sweep).unwrap().summary;
    assert_eq!((summary.trials as usize, summary.cases, summary.state), (TRIALS, 8, SweepState::Finished));
}

#[test]
fn a_race_that_was_interrupted_anywhere_ends_as_if_it_had_not_been() {
    let mut whole = Lab::new();
    engines(&mut whole, &LEFT, 0, sound);
    let outcome = whole.run(&race(&[]), None).unwrap();
    let (expected, decided) = (places(&whole.trials(&outcome)), heard(&whole, outcome.sweep));
    for last in 1..TRIALS {
        let mut lab = Lab::new();
        engines(&mut lab, &LEFT, 0, sound);
        let stopped = lab
            .run_watched(&race(&[]), None, |progress, interrupt| {
                if let SweepEvent::Stored(position, _) = progress {
                    interrupt.store(position.trial as usize == last, Ordering::Relaxed);
                }
            })
            .unwrap();
        assert_eq!((stopped.end, stopped.measured as usize), (SweepEnd::Interrupted, last));
        if last > 9 {
            let so_far = heard(&lab, stopped.sweep);
            assert_eq!((so_far.state, dropped(&so_far)), (RaceState::Unfinished, vec![3, 2, 1]));
        }
        lab.interrupt.store(false, Ordering::Relaxed);
        engines(&mut lab, &LEFT, last, sound);
        let resumed = lab.run(&race(&[]), Some(stopped.sweep)).unwrap();
        assert_eq!(resumed.end, SweepEnd::Finished, "stopped after {last}");
        assert_eq!(places(&lab.trials(&resumed)), expected, "stopped after {last}");
        let found = heard(&lab, resumed.sweep);
        assert_eq!(found.eliminations, decided.eliminations, "stopped after {last}");
        assert_eq!((&found.pick, found.regret_bound), (&decided.pick, decided.regret_bound));
    }
}

#[test]
fn what_cannot_be_measured_is_dropped_and_does_not_stop_the_race() {
    // The best fails at once; the next fails when it is measured again.
    let mut lab = Lab::new();
    let engine = |slot: &Slot| match (slot.case, slot.block) {
        (7, 0) | (6, 1..) => full(),
        _ => sound(slot),
    };
    engines(&mut lab, &[0, 3, 4, 5, 6], 0, engine);
    let outcome = lab.run(&race(&[]), None).unwrap();
    assert_eq!(outcome.end, SweepEnd::Finished);
    let found = heard(&lab, outcome.sweep);
    let failed = &found.eliminations[0];
    assert_eq!((failed.raced.case, failed.round, failed.rank), (7, 1, None));
    assert!(failed.why.starts_with("failed: 3 readers, 3 writers"), "{}", failed.why);
    let six = found.finalists.iter().find(|one| one.raced.case == 6).unwrap();
    assert_eq!((six.trials, six.value), (0, None));
    assert_eq!(found.eliminations.len() + found.finalists.len(), 8, "nothing gets lost");
    // If none is measured, there is nothing to go on with.
    let mut lab = Lab::new();
    lab.engines(std::iter::repeat_with(full).take(9));
    let mut said = String::new();
    let outcome = lab
        .run_watched(&race(&[]), None, |progress, _| {
            if let SweepEvent::Raced { lines, .. } = progress {
                said = lines.join("\n");
            }
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.failed), (SweepEnd::Finished, 9));
    assert_eq!(said, "the race is over: the sweep has no measured trials");
}

#[test]
fn the_last_round_takes_what_is_left_of_the_budget() {
    let mut lab = Lab::new();
    engines(&mut lab, &LEFT, 0, sound);
    let outcome = lab.run(&race(&["budget=35"]), None).unwrap();
    // 9 in the first block, and four times 6.
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 33));
    let found = heard(&lab, outcome.sweep);
    assert_eq!((found.budget.as_deref(), found.finalists[0].trials), (Some("35 trials"), 4));
}

/// Each step of a trial takes 5 ms, so that the first block takes longer than the whole race may.
#[test]
fn a_race_whose_time_is_used_up_ends_and_says_so() {
    let limited = race(&["workloads.window=1ms", "budget=30ms"]);
    for last in [0, 4] {
        let mut lab = Lab::new();
        engines(&mut lab, &LEFT, 0, sound);
        let mut long = 0;
        let mut watch = |progress: &SweepEvent<'_>, interrupt: &AtomicBool| match progress {
            SweepEvent::LongBlock { limit, .. } => long += u32::from(*limit == Nanos::from_millis(30)),
            SweepEvent::Running(_) => std::thread::sleep(Duration::from_millis(5)),
            SweepEvent::Stored(position, _) => interrupt.store(position.trial == last, Ordering::Relaxed),
            _ => {}
        };
        let mut outcome = lab.run_watched(&limited, None, &mut watch).unwrap();
        if last > 0 {
            assert_eq!(outcome.end, SweepEnd::Interrupted);
            lab.interrupt.store(false, Ordering::Relaxed);
            engines(&mut lab, &LEFT, last as usize, sound);
            outcome = lab.run_watched(&limited, Some(outcome.sweep), &mut watch).unwrap();
        }
        assert_eq!((outcome.end, lab.trials(&outcome).len()), (SweepEnd::Finished, 9));
        assert!(long > 0, "said as soon as it is known");
        let found = heard(&lab, outcome.sweep);
        assert_eq!((found.state, found.pick.case), (RaceState::OutOfBudget, 7));
        assert!(found.finalists.iter().all(|one| one.trials == 0), "nothing was measured again");
        assert!(
            found.sentences[0].contains("because its budget of 30ms was used up"),
            "{:?}",
            found.sentences
        );
        let summary = lab.store.sweep(outcome.sweep).unwrap().summary;
        assert_eq!((summary.trials, summary.state), (9, SweepState::Finished));
    }
}

#[test]
fn a_dry_run_says_what_a_race_will_do() {
    let foreseen = |more: &[&str]| dry_run(&race(more), &mut FakeHost::new(), &mut NoGuests);
    let rounds = |more: &[&str]| {
        let rounds = foreseen(more).race.expect("a race").rounds;
        rounds.into_iter().map(|round| (round.configurations, round.blocks)).collect::<Vec<_>>()
    };
    assert_eq!(rounds(&[]), [(8, 1), (4, 2)]);
    assert_eq!(rounds(&["budget=35"]), [(8, 1), (4, 4)]);
    let run = foreseen(&[]);
    assert_eq!((run.trials as usize, run.trials_max as usize), (TRIALS, TRIALS));
    assert_eq!(run.time_ns.0, run.cases[0].time_ns.0 * TRIALS as u64);
    // A trial is estimated to take about 2 s.
    assert!(foreseen(&["budget=1h"]).time_ns <= Nanos::from_secs(3600));
    assert!(foreseen(&["budget=1h"]).trials > 40);
    let short = foreseen(&["budget=20s"]).race.expect("a race");
    assert!(!short.fits && short.trials as usize == TRIALS, "{short:?}");
    assert_eq!(dry_run(&plan(PLAN, &[]), &mut FakeHost::new(), &mut NoGuests).race, None);
}

#[test]
fn a_race_without_rivals_here_does_not_start() {
    let mut lab = Lab::new();
    lab.host.programs.remove("mkfs.xfs");
    let alone = plan(PLAN, &["protocol=race", "axes.scheduler=none"]);
    let error = lab.run(&alone, None).unwrap_err();
    assert!(matches!(error, SweepError::NoRace { configurations: 2, runs: 1 }), "{error}");
    assert_eq!(
        error.to_string(),
        "a race needs at least two configurations that can run here, but of 2 only 1 can"
    );
    assert!(lab.store.sweeps().unwrap().is_empty());
    // Those that lack something are skipped once, and cost nothing.
    let others = race(&["budget=21"]);
    let run = dry_run(&others, &mut lab.host, &mut NoGuests);
    assert_eq!(run.race.expect("a race").configurations, 4);
}

#[test]
fn a_stored_plan_says_whether_it_is_a_race() {
    let time = RaceBudget::Time(Nanos::from_secs(24 * 3600));
    assert_eq!(race_budget("protocol = \"race\"\nbudget = \"24h\"", &[]), Some(time));
    assert_eq!(race_budget("", &["protocol=race".to_string()]), Some(RaceBudget::Halving));
    for text in ["", "protocol = \"exhaustive\"", "not a plan", "protocol = \"race\"\nbudget = []"] {
        assert_eq!(race_budget(text, &[]), None, "{text}");
    }
}
