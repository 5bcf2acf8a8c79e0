//! Sweeps that pause or end between two trials, as somebody who watches asks them to.

use crate::lab::{Lab, PLAN, measured, plan};
use fsdyno_core::{AfterTrial, Nanos};
use fsdyno_store::SweepState;
use fsdyno_sweep::{Progress, SweepEnd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Two cases with a sentinel, in two blocks.
fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.engines(std::iter::repeat_with(measured).take(6));
    lab
}

const SMALL: &[&str] = &["repetitions=2", "axes.scheduler=none"];

#[test]
fn a_sweep_that_is_asked_to_stop_ends_after_the_trial_and_can_be_resumed() {
    let mut lab = lab();
    let asked = Arc::clone(&lab.asked);
    let plan = plan(PLAN, SMALL);
    let stopped = lab
        .run_watched(&plan, None, |progress, _| {
            // In the middle of a trial, which loses nothing.
            if let Progress::Running(position) = progress
                && position.trial == 2
            {
                asked.set(AfterTrial::Stop);
            }
        })
        .unwrap();
    assert_eq!((stopped.end, stopped.measured), (SweepEnd::Interrupted, 2));
    assert_eq!(lab.store.sweep(stopped.sweep).unwrap().summary.state, SweepState::Interrupted);
    assert_eq!(lab.journals(), 0);

    lab.asked.set(AfterTrial::Continue);
    lab.engines(std::iter::repeat_with(measured).take(4));
    let resumed = lab.run(&plan, Some(stopped.sweep)).unwrap();
    assert_eq!((resumed.end, resumed.measured), (SweepEnd::Finished, 4));
}

#[test]
fn a_sweep_that_is_asked_to_pause_waits_between_two_trials_and_says_so() {
    let mut lab = lab();
    let asked = Arc::clone(&lab.asked);
    let mut told = Vec::new();
    let outcome = lab
        .run_watched(&plan(PLAN, SMALL), None, |progress, _| match progress {
            Progress::Stored(position, _) if position.trial == 2 => asked.set(AfterTrial::Pause),
            Progress::Paused { next, first } => {
                told.push((*next, *first));
                if told.len() == 3 {
                    asked.set(AfterTrial::Continue);
                }
            }
            Progress::Continued(paused) => assert!(*paused >= Nanos::from_millis(200), "{paused}"),
            _ => {}
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 6));
    assert_eq!(told, [(3, true), (3, false), (3, false)]);
}

#[test]
fn an_interruption_ends_a_pause() {
    let mut lab = lab();
    lab.asked.set(AfterTrial::Pause);
    let outcome = lab
        .run_watched(&plan(PLAN, SMALL), None, |progress, interrupt| {
            if let Progress::Paused { next, .. } = progress {
                assert_eq!(*next, 1);
                interrupt.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Interrupted, 0));
}
