//! Sweeps that pause or end between two trials, as somebody who watches asks them to.

use crate::lab::{Lab, PLAN, measured, plan};
use fsdyno_core::{AfterTrial, Nanos};
use fsdyno_store::SweepState;
use fsdyno_sweep::{Differs, Plan, SweepEnd, SweepError, SweepEvent, nominal_time};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
            if let SweepEvent::Running(position) = progress
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
fn a_sweep_is_not_continued_with_another_flow_under_the_same_name() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let (head, _) = PLAN.split_once("kind").unwrap();
    write("plan.toml", &format!("{head}kind = \"flow\"\nflow = \"load.toml\"\n"));
    let load = |step: &str| {
        write(
            "load.toml",
            &format!(
                "{head}kind = \"flow\"\n[workloads.files.all]\ncount = 10\nsize = \"4k\"\n\
                 [workloads.roles.client]\nsteps = [{{ {step} = \"all\" }}]\n"
            ),
        );
        let small: Vec<String> = SMALL.iter().map(|set| (*set).to_string()).collect();
        Plan::load(&directory.path().join("plan.toml"), &small).unwrap()
    };
    let mut lab = lab();
    let asked = Arc::clone(&lab.asked);
    let ask = |progress: &SweepEvent<'_>, _: &AtomicBool| {
        if let SweepEvent::Stored(..) = progress {
            asked.set(AfterTrial::Stop);
        }
    };
    let stopped = lab.run_watched(&load("stat"), None, ask).unwrap();
    assert_eq!(stopped.end, SweepEnd::Interrupted);

    lab.asked.set(AfterTrial::Continue);
    lab.engines(std::iter::repeat_with(measured).take(6));
    let refused = lab.run(&load("readdir"), Some(stopped.sweep)).unwrap_err();
    assert!(matches!(refused, SweepError::PlanDiffers { differs: Differs::Files { .. }, .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("a file that the plan names, such as that of a flow, has changed"), "{said}");
    assert_eq!(lab.run(&load("stat"), Some(stopped.sweep)).unwrap().end, SweepEnd::Finished);
}

#[test]
fn a_sweep_that_is_asked_to_pause_waits_between_two_trials_and_says_so() {
    let mut lab = lab();
    let asked = Arc::clone(&lab.asked);
    let mut said = Vec::new();
    let outcome = lab
        .run_watched(&plan(PLAN, SMALL), None, |progress, _| match progress {
            SweepEvent::Stored(position, _) if position.trial == 2 => asked.set(AfterTrial::Pause),
            SweepEvent::Paused { next, first } => {
                said.push((*next, *first));
                if said.len() == 3 {
                    asked.set(AfterTrial::Continue);
                }
            }
            SweepEvent::Continued(paused) => assert!(*paused >= Nanos::from_millis(200), "{paused}"),
            _ => {}
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 6));
    assert_eq!(said, [(3, true), (3, false), (3, false)]);
}

#[test]
fn an_interruption_ends_a_pause() {
    let mut lab = lab();
    lab.asked.set(AfterTrial::Pause);
    let outcome = lab
        .run_watched(&plan(PLAN, SMALL), None, |progress, interrupt| {
            if let SweepEvent::Paused { next, .. } = progress {
                assert_eq!(*next, 1);
                interrupt.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Interrupted, 0));
}

#[test]
fn the_machine_is_left_alone_before_each_trial_and_no_longer_than_anybody_wants() {
    let pause = |time: &str| plan(PLAN, &[SMALL, &[&format!("cooldown={time}")]].concat());
    let mut cool = Vec::new();
    let (mut lab, begin) = (lab(), Instant::now());
    let outcome = lab
        .run_watched(&pause("20ms"), None, |progress, _| {
            if let SweepEvent::Running(position) = progress
                && position.progress.step.name() == "cooldown"
            {
                cool.push(position.trial);
            }
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 6));
    cool.dedup();
    assert!(cool == [1, 2, 3, 4, 5, 6] && begin.elapsed() >= Duration::from_millis(120), "{cool:?}");
    assert_eq!(nominal_time(&pause("1h")).0 - nominal_time(&plan(PLAN, SMALL)).0, 6 * 3_600_000_000_000);

    let mut lab = self::lab();
    let outcome = lab
        .run_watched(&pause("10000h"), None, |progress, interrupt| {
            if let SweepEvent::Running(position) = progress {
                interrupt.store(position.progress.step.name() == "cooldown", Ordering::Relaxed);
            }
        })
        .unwrap();
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Interrupted, 0));
}
