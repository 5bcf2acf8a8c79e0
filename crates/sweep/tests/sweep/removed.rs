//! Sweeps whose files are removed or replaced while they run: the store, and the undo journal.

use crate::lab::{Lab, PLAN, measured, plan};
use fsdyno_core::Outcome;
use fsdyno_store::Store;
use fsdyno_sweep::{SweepEnd, SweepError, SweepEvent, SweepOutcome};
use fsdyno_testbed::TestbedError;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs a sweep to which something happens as its second trial begins.
fn disturbed(lab: &mut Lab, happens: impl Fn(&AtomicBool)) -> SweepOutcome {
    lab.engines(std::iter::repeat_with(measured).take(5));
    let mut is_over = false;
    let watch = |progress: &SweepEvent<'_>, interrupt: &AtomicBool| {
        if let SweepEvent::Running(position) = progress
            && position.trial == 2
            && !std::mem::replace(&mut is_over, true)
        {
            happens(interrupt);
        }
    };
    lab.run_watched(&plan(PLAN, &[]), None, watch).unwrap()
}

#[test]
fn a_store_whose_file_is_removed_is_copied_and_ends_the_sweep() {
    let mut lab = Lab::new();
    let path = lab.store.path().to_path_buf();
    let mut outcome = disturbed(&mut lab, |_| fs::remove_file(&path).unwrap());
    let Some(SweepError::StoreRemoved { path: gone, rescued }) = outcome.broken.take() else {
        panic!("{:?}", outcome.broken)
    };
    assert!(outcome.is_elsewhere);
    assert_eq!(gone, path);
    let copy = Store::open(&rescued).unwrap();
    assert_eq!(copy.trials(outcome.sweep).unwrap(), lab.trials(&outcome));
    assert_eq!(copy.trial_numbers(outcome.sweep).unwrap().len(), 2);
    assert_eq!(lab.journals(), 0, "everything is undone");
}

#[test]
fn an_interrupted_sweep_whose_store_is_gone_is_copied_too() {
    let mut lab = Lab::new();
    let path = lab.store.path().to_path_buf();
    let mut outcome = disturbed(&mut lab, |interrupt| {
        // Another database of that name, to which SQLite's log of this one would be applied.
        fs::rename(&path, path.with_extension("old")).unwrap();
        fs::write(&path, "not a database").unwrap();
        interrupt.store(true, Ordering::Relaxed);
    });
    assert_eq!(outcome.end, SweepEnd::Interrupted);
    let broken = outcome.broken.take();
    assert!(matches!(broken, Some(SweepError::StoreRemoved { .. })), "{broken:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "not a database");
    assert!(!path.with_extension("db-wal").exists(), "it is not that of the other database");
}

#[test]
fn a_sweep_without_its_undo_journal_changes_nothing_and_ends() {
    let mut lab = Lab::new();
    let journals = lab.journal_directory();
    let mut outcome = disturbed(&mut lab, |_| fs::remove_dir_all(&journals).unwrap());
    let broken = outcome.broken.take();
    let is_journal = |error: &TestbedError| matches!(error, TestbedError::Journal { action: "find", .. });
    assert!(matches!(&broken, Some(SweepError::Testbed(error)) if is_journal(error)), "{broken:?}");
    let trials = lab.trials(&outcome);
    let last = trials.last().unwrap();
    assert!(matches!(&last.outcome, Outcome::Failed { .. }), "{last:?}");
    assert_eq!(trials.len(), 2, "the one that could not begin is the last");
}
