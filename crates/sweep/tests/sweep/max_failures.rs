//! Sweeps that stop once so many trials in a row have failed.

use crate::lab::{Lab, PLAN, full, measured, plan};
use fsdyno_store::SweepState;
use fsdyno_sweep::{Plan, SweepEnd, SweepError};

/// Five trials: four cases, and the sentinel.
fn at_most(failures: u32) -> Plan {
    plan(PLAN, &[&format!("max_failures={failures}")])
}

#[test]
fn a_sweep_stops_after_so_many_failures_in_a_row_and_can_go_on() {
    let mut lab = Lab::new();
    let before = lab.host.snapshot();
    lab.engines([full(), measured(), full(), full(), measured()]);
    let mut stopped = lab.run(&at_most(2), None).unwrap();
    assert_eq!((stopped.end, stopped.measured, stopped.failed), (SweepEnd::Broken, 1, 3));
    let error = stopped.broken.take().expect("a reason");
    assert!(matches!(error, SweepError::TooManyFailures { failed: 2 }), "{error:?}");
    assert_eq!(error.to_string(), "2 trials in a row have failed, so the sweep stops (max_failures)");
    assert!(error.hint().is_some_and(|hint| hint.contains("--resume")));
    assert_eq!(lab.trials(&stopped).len(), 4, "they are kept");
    assert_eq!((lab.host.snapshot(), lab.journals()), (before, 0), "everything is undone");
    let summary = lab.store.sweep(stopped.sweep).unwrap().summary;
    assert_eq!((summary.trials, summary.state), (5, SweepState::Interrupted));
    // The failures of then do not keep it from going on.
    lab.engines([measured()]);
    let resumed = lab.run(&at_most(2), Some(stopped.sweep)).unwrap();
    assert_eq!((resumed.end, resumed.measured, resumed.failed), (SweepEnd::Finished, 1, 0));
    assert_eq!(lab.trials(&resumed).len(), 5);
}

#[test]
fn a_sweep_whose_last_trials_fail_is_complete() {
    let mut lab = Lab::new();
    lab.engines([measured(), measured(), measured(), full(), full()]);
    let outcome = lab.run(&at_most(2), None).unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Finished, 3, 2));
    assert!(outcome.broken.is_none());
}

#[test]
fn failures_that_are_not_in_a_row_do_not_stop_it() {
    let mut lab = Lab::new();
    lab.engines([full(), measured(), full(), measured(), full()]);
    let outcome = lab.run(&at_most(2), None).unwrap();
    assert_eq!((outcome.end, outcome.measured, outcome.failed), (SweepEnd::Finished, 2, 3));
}
