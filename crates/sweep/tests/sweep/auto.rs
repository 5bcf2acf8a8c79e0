//! Sweeps that end once their answer is decided, and sweeps that go on after their end.

use crate::lab::{Lab, PLAN, full, measured_as, parse, phase, plan};
use fsdyno_core::telemetry::{Sample, TaskKind, Telemetry};
use fsdyno_core::{Nanos, RepeatedBlock, TrialRecord, WarningKind};
use fsdyno_host::guest::NoGuests;
use fsdyno_store::SweepState;
use fsdyno_sweep::{MoreBlocks, Plan, Slot, SweepEnd, SweepError, SweepEvent, SweepOutcome, dry_run, order};
use fsdyno_testkit::fake::FakeEngine;
use std::sync::atomic::Ordering;

/// Two cases, mq-deadline and bfq.
const TWO: [&str; 2] = ["axes.filesystem=ext4", "measure=null/null/operation-rate"];

fn auto(max: u32) -> Plan {
    plan(PLAN, &[&TWO[..], &["repetitions=auto", &format!("max_repetitions={max}")]].concat())
}

fn fixed(repetitions: u32) -> Plan {
    plan(PLAN, &[&TWO[..], &[&format!("repetitions={repetitions}")]].concat())
}

fn at_rate(operations_per_s: f64) -> FakeEngine {
    measured_as(at(operations_per_s))
}

fn at(operations_per_s: f64) -> fsdyno_core::PhaseResult {
    let mut phase = phase("null");
    phase.roles[0].rates.operations_per_s = operations_per_s;
    phase
}

/// An engine during whose phase others took half of the processors.
fn disturbed(operations_per_s: f64) -> FakeEngine {
    const LENGTH_NS: u64 = 1_000_000_000;
    let window = Sample {
        length_ns: Nanos(LENGTH_NS),
        task_ns: [(TaskKind::Process, LENGTH_NS)].into(),
        ..Sample::default()
    };
    let telemetry = Telemetry { processors: 2, window, ..Telemetry::default() };
    measured_as(fsdyno_core::PhaseResult { telemetry: Some(telemetry), ..at(operations_per_s) })
}

/// A trial of a block that varies by about 2 %; the second case is slower by this factor.
fn rate(slot: &Slot, factor: f64) -> f64 {
    let noise = 1.0 + 0.01 * (f64::from((slot.block * 7 + slot.case * 3) % 5) - 2.0);
    1e8 * noise * if slot.case == 1 { factor } else { 1.0 }
}

/// The trials of as many complete blocks as there may be.
fn slots() -> Vec<Slot> {
    order(&fixed(40))
}

fn engines(factor: f64) -> Vec<FakeEngine> {
    slots().iter().map(|slot| at_rate(rate(slot, factor))).collect()
}

fn places(trials: &[TrialRecord]) -> Vec<(u32, u32, u32, bool, u64)> {
    trials.iter().map(|trial| (trial.trial, trial.block, trial.case, trial.sentinel, trial.seed)).collect()
}

/// Those of the first blocks of a plan with a fixed number.
fn places_of(blocks: u32) -> Vec<(u32, u32, u32, bool, u64)> {
    order(&fixed(blocks))
        .iter()
        .map(|slot| (slot.trial, slot.block, slot.case, slot.sentinel, slot.seed))
        .collect()
}

#[test]
fn a_sweep_ends_as_soon_as_a_configuration_is_shown_to_be_better() {
    let mut lab = Lab::new();
    lab.engines(engines(0.5));
    let mut said = Vec::new();
    let outcome = lab
        .run_watched(&auto(20), None, |progress, _| match progress {
            SweepEvent::Judged { lines, .. } => said.extend(lines.iter().cloned()),
            SweepEvent::Stored(position, _) if position.trial == 6 => assert!(position.more_may_follow),
            _ => {}
        })
        .unwrap();
    assert_eq!(outcome.end, SweepEnd::Finished);
    assert_eq!(places(&lab.trials(&outcome)), places_of(4));
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("after 4 blocks: decided. Use 'mq-deadline'"), "{said:?}");
    let stored = lab.store.sweep(outcome.sweep).unwrap();
    assert_eq!((stored.looks.after.as_slice(), stored.summary.state), (&[4][..], SweepState::Finished));
}

/// Runs a sweep, and returns what was said of it after its blocks.
fn judged(lab: &mut Lab, plan: &Plan) -> (SweepOutcome, Vec<String>) {
    let mut said = Vec::new();
    let outcome = lab.run_watched(plan, None, |progress, _| {
        if let SweepEvent::Judged { lines, .. } = progress {
            said.extend(lines.iter().cloned());
        }
    });
    (outcome.unwrap(), said)
}

#[test]
fn a_sweep_goes_on_while_it_is_undecided_and_ends_at_its_maximum() {
    // 5 % more than the default is neither within the threshold nor beyond it for long.
    let mut lab = Lab::new();
    lab.engines(engines(1.05));
    let (outcome, said) = judged(&mut lab, &auto(6));
    assert_eq!(places(&lab.trials(&outcome)), places_of(6), "{said:?}");
    assert_eq!(lab.store.sweep(outcome.sweep).unwrap().looks.after, [4, 5, 6]);
    assert_eq!(said[0], "after 4 blocks: undecided between 'bfq', 'mq-deadline'");
}

#[test]
fn configurations_that_are_alike_are_found_to_be_alike() {
    let mut lab = Lab::new();
    lab.engines(engines(1.0));
    let (outcome, said) = judged(&mut lab, &auto(20));
    let blocks = lab.trials(&outcome).last().unwrap().block + 1;
    assert!((4..20).contains(&blocks), "{said:?}");
    assert!(said.last().unwrap().contains("No material difference (within 5.0 %)"), "{said:?}");
}

#[test]
fn a_sweep_that_was_stopped_anywhere_gets_the_same_blocks_and_looks() {
    let plan = auto(6);
    let expected = places_of(6);
    for last in [1, 11, 12, 13, 15, 17] {
        let mut lab = Lab::new();
        lab.engines(engines(1.05));
        let stopped = lab
            .run_watched(&plan, None, |progress, interrupt| {
                if let SweepEvent::Stored(position, _) = progress {
                    interrupt.store(position.trial == last, Ordering::Relaxed);
                }
            })
            .unwrap();
        assert_eq!(stopped.end, SweepEnd::Interrupted, "after {last}");
        lab.interrupt.store(false, Ordering::Relaxed);
        lab.engines(engines(1.05).into_iter().skip(last as usize));
        let resumed = lab.run(&plan, Some(stopped.sweep)).unwrap();
        assert_eq!(resumed.end, SweepEnd::Finished, "after {last}");
        assert_eq!(places(&lab.trials(&resumed)), expected, "after {last}");
        assert_eq!(lab.store.sweep(resumed.sweep).unwrap().looks.after, [4, 5, 6], "after {last}");
    }
}

#[test]
fn blocks_that_are_added_continue_the_order_of_the_plan_wherever_they_are_interrupted() {
    let plan = fixed(3);
    for last in [None, Some(10), Some(13)] {
        let mut lab = Lab::new();
        lab.engines(engines(1.05));
        let outcome = lab.run(&plan, None).unwrap();
        assert!(lab.store.sweep(outcome.sweep).unwrap().looks.is_empty(), "nobody looked to decide");
        lab.engines(engines(1.05).into_iter().skip(9));
        lab.more = Some(MoreBlocks::Count(2));
        let added = lab
            .run_watched(&plan, Some(outcome.sweep), |progress, interrupt| {
                if let SweepEvent::Stored(position, _) = progress {
                    interrupt.store(last == Some(position.trial), Ordering::Relaxed);
                }
            })
            .unwrap();
        lab.more = None;
        if let Some(last) = last {
            assert_eq!(added.end, SweepEnd::Interrupted);
            lab.interrupt.store(false, Ordering::Relaxed);
            lab.engines(engines(1.05).into_iter().skip(last as usize));
            lab.run(&plan, Some(outcome.sweep)).unwrap();
        }
        assert_eq!(places(&lab.trials(&outcome)), places_of(5), "{last:?}");
        let stored = lab.store.sweep(outcome.sweep).unwrap();
        assert_eq!(stored.looks.after, [3, 4, 5], "every block was looked at, the end of the plan included");
        assert_eq!(stored.summary.state, SweepState::Finished);
    }
}

#[test]
fn a_time_that_is_added_ends_as_soon_as_the_answer_is_decided() {
    let plan = fixed(3);
    let mut lab = Lab::new();
    lab.engines(engines(0.5));
    let outcome = lab.run(&plan, None).unwrap();
    lab.engines(engines(0.5).into_iter().skip(9));
    lab.more = Some(MoreBlocks::Within(Nanos::from_secs(3600)));
    lab.run(&plan, Some(outcome.sweep)).unwrap();
    assert_eq!(
        places(&lab.trials(&outcome)),
        places_of(4),
        "three blocks cannot show it after several looks"
    );
}

#[test]
fn nothing_is_added_to_what_has_not_ended_or_ran_on_another_kernel() {
    let plan = fixed(3);
    let mut lab = Lab::new();
    lab.engines(engines(1.05));
    let stopped = lab
        .run_watched(&plan, None, |progress, interrupt| {
            interrupt.fetch_or(matches!(progress, SweepEvent::Stored(..)), Ordering::Relaxed);
        })
        .unwrap();
    lab.interrupt.store(false, Ordering::Relaxed);
    lab.more = Some(MoreBlocks::Count(1));
    let refused = lab.run(&plan, Some(stopped.sweep)).unwrap_err();
    assert!(matches!(refused, SweepError::NotEnded { .. }), "{refused}");
    assert!(refused.hint().unwrap().contains(&format!("--resume {}", stopped.sweep)));

    lab.more = None;
    lab.engines(engines(1.05).into_iter().skip(1));
    lab.run(&plan, Some(stopped.sweep)).unwrap();
    lab.more = Some(MoreBlocks::Count(1));
    lab.host.write_setting("/proc/sys/kernel/osrelease", "6.99.0\n");
    let refused = lab.run(&plan, Some(stopped.sweep)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "sweep {} cannot go on here: its trials ran on kernel 6.18.0 , and this is 6.99.0 ",
            stopped.sweep
        )
    );
    assert_eq!(places(&lab.trials(&stopped)), places_of(3), "nothing was added");
}

/// Engines of which those of some blocks are disturbed.
fn disturbed_in(blocks: &[u32], factor: f64) -> Vec<FakeEngine> {
    let engine = |slot: &Slot| match blocks.contains(&slot.block) {
        true => disturbed(rate(slot, factor)),
        false => at_rate(rate(slot, factor)),
    };
    slots().iter().map(engine).collect()
}

#[test]
fn a_disturbed_block_is_measured_again_at_the_end_and_stays_marked() {
    let mut lab = Lab::new();
    lab.engines(disturbed_in(&[1], 0.5));
    let (outcome, said) = judged(&mut lab, &auto(20));
    let trials = lab.trials(&outcome);
    assert_eq!(places(&trials), places_of(5), "{said:?}");
    let marked: Vec<u32> =
        trials.iter().filter(|trial| trial.is_measured_again()).map(|trial| trial.block).collect();
    assert_eq!(marked, [1, 1, 1], "with the sentinel");
    let looks = lab.store.sweep(outcome.sweep).unwrap().looks;
    let repeated = RepeatedBlock { block: 1, by: 4, why: vec![WarningKind::ForeignLoad], counts: true };
    assert_eq!(looks.repeated, [repeated]);
    assert_eq!(said[1], "block 2 was disturbed (foreign-load) and is measured again as block 5");
    assert_eq!(said[2], "block 5 counts in the place of block 2");
}

#[test]
fn a_block_that_is_disturbed_again_takes_no_place_and_a_machine_that_always_is_gets_no_second_chance() {
    let run = |blocks: &[u32]| {
        let mut lab = Lab::new();
        lab.engines(disturbed_in(blocks, 0.5));
        let outcome = lab.run(&auto(20), None).unwrap();
        let trials = lab.trials(&outcome);
        (trials.last().unwrap().block + 1, trials.iter().filter(|trial| trial.is_measured_again()).count())
    };
    assert_eq!(run(&[1, 4]), (5, 0));
    assert_eq!(run(&[0, 1, 2, 3]), (4, 0));
}

#[test]
fn a_case_that_cannot_be_measured_does_not_keep_a_sweep_going() {
    let mut lab = Lab::new();
    let failing = |slot: &Slot| if slot.case == 0 { at_rate(1e8) } else { full() };
    lab.engines(slots().iter().map(failing));
    let outcome = lab.run(&auto(20), None).unwrap();
    assert_eq!((outcome.measured, outcome.failed), (8, 4), "of 4 blocks with their sentinels");
}

#[test]
fn a_dry_run_tells_the_least_and_the_most() {
    let run = dry_run(&auto(20), &mut fsdyno_testkit::fake::FakeHost::new(), &mut NoGuests);
    assert_eq!((run.trials, run.trials_max), (12, 60));
}

#[test]
fn plans_that_no_number_of_repetitions_decides_are_refused() {
    let problem = |overrides: &[&str]| parse(PLAN, "plans/test.toml", overrides).unwrap_err().to_string();
    assert!(problem(&["repetitions=often"]).contains("\"auto\", a whole number, or { min, max, until }"));
    assert!(problem(&["max_repetitions=9"]).contains("'max_repetitions' requires 'repetitions = \"auto\"'"));
    assert!(problem(&["repetitions=auto", "max_repetitions=1"]).contains("a whole number from 2 to"));
    let durability =
        ["workloads=[{ kind = \"durability\" }]", "measure=acknowledged-lost", "repetitions=auto"];
    assert!(problem(&durability).contains("needs a load that is measured"));
    let race = parse(PLAN, "plans/test.toml", &["repetitions=auto", "protocol=race"]).unwrap();
    assert_eq!(race.enough, None, "a race decides itself");
    let few = parse(PLAN, "plans/test.toml", &["repetitions=auto", "max_repetitions=3"]).unwrap();
    assert_eq!(few.repetitions, 3);
}

#[test]
fn what_is_added_is_a_number_of_blocks_or_a_time() {
    let parse = |text: &str| text.parse::<MoreBlocks>().ok();
    assert_eq!(parse("10"), Some(MoreBlocks::Count(10)));
    assert_eq!(parse("90s"), Some(MoreBlocks::Within(Nanos::from_secs(90))));
    for text in ["0", "0s", "", "1.5", "-3", "ten"] {
        assert_eq!(parse(text), None, "{text}");
    }
}
