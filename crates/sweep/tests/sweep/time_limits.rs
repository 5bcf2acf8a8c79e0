//! Sweeps that end after the last block that fits into their time.

use crate::lab::{Lab, PLAN, measured, plan};
use fsdyno_core::Nanos;
use fsdyno_host::guest::NoGuests;
use fsdyno_store::SweepState;
use fsdyno_sweep::{Plan, SweepEnd, SweepEvent, dry_run};
use fsdyno_testkit::fake::FakeHost;
use std::sync::atomic::Ordering;

/// Three blocks of two cases with their sentinels.
fn limited(limit: &str) -> Plan {
    plan(PLAN, &["repetitions=3", "axes.scheduler=none", &format!("time_limit={limit}")])
}

fn engines(lab: &mut Lab) {
    lab.engines(std::iter::repeat_with(measured).take(9));
}

#[test]
fn a_sweep_ends_with_the_last_block_that_fits() {
    let mut lab = Lab::new();
    engines(&mut lab);
    let (mut ends, mut long) = (Vec::new(), 0);
    let outcome = lab
        .run_watched(&limited("1ms"), None, |progress, _| match progress {
            SweepEvent::TimeIsUp { blocks, planned, limit } => ends.push((*blocks, *planned, *limit)),
            SweepEvent::LongBlock { .. } => long += 1,
            SweepEvent::Stored(position, _) if position.trial == 3 => assert_eq!(position.left, Nanos(0)),
            _ => {}
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 3), "the first block is always run");
    assert_eq!((&ends[..], long), (&[(1, 3, Nanos::from_millis(1))][..], 1));
    let summary = lab.store.sweep(outcome.sweep).unwrap().summary;
    assert_eq!((summary.trials, summary.state), (3, SweepState::Finished));
}

#[test]
fn a_sweep_with_enough_time_is_not_shortened() {
    let mut lab = Lab::new();
    engines(&mut lab);
    let outcome = lab.run(&limited("1h"), None).unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 9));
}

#[test]
fn a_block_that_has_begun_is_finished_later_and_no_other_one_begins() {
    for last in 1..=3 {
        let mut lab = Lab::new();
        engines(&mut lab);
        let stopped = lab
            .run_watched(&limited("1ms"), None, |progress, interrupt| {
                if let SweepEvent::Stored(position, _) = progress {
                    interrupt.store(position.trial == last, Ordering::Relaxed);
                }
            })
            .unwrap();
        lab.interrupt.store(false, Ordering::Relaxed);
        // After the last trial of the block there was nothing to interrupt.
        assert_eq!(stopped.end == SweepEnd::Interrupted, last < 3);
        if last < 3 {
            engines(&mut lab);
            let resumed = lab.run(&limited("1ms"), Some(stopped.sweep)).unwrap();
            assert_eq!((resumed.end, resumed.measured), (SweepEnd::Finished, 3 - last));
        }
        assert_eq!(lab.trials(&stopped).len(), 3);
    }
}

#[test]
fn a_dry_run_takes_at_most_the_limit_but_for_the_first_block() {
    let time = |limit: &str| dry_run(&limited(limit), &mut FakeHost::new(), &mut NoGuests).time_ns;
    let [whole, block] = ["1h", "1ms"].map(time);
    assert_eq!(whole.0, 3 * block.0);
    assert_eq!(time("10s"), Nanos::from_secs(10).max(block));
}
