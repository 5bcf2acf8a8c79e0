//! Beginning, ending and finding sweeps.

use crate::fixture::{store, store_with_sweep, sweep, trial};
use fsdyno_core::Outcome;
use fsdyno_store::{StoreError, SweepState};
use rusqlite::Connection;

#[test]
fn a_sweep_comes_back_as_it_went_in() {
    let (_directory, store, id) = store_with_sweep();
    let new = sweep("demo");
    let found = store.sweep(id).unwrap();
    assert_eq!(found.summary.name, new.name);
    assert_eq!((found.summary.cases, found.summary.trials), (new.cases, new.trials));
    assert_eq!((found.plan_toml, found.overrides), (new.plan_toml, new.overrides));
    assert_eq!((found.seed, found.measure, found.environment), (new.seed, new.measure, new.environment));
    assert!(found.summary.started.ends_with('Z'), "{}", found.summary.started);
}

#[test]
fn the_list_counts_trials_by_outcome() {
    let (_directory, mut store, id) = store_with_sweep();
    let trials: Vec<_> = (0..30).map(|number| trial(number, u64::from(number))).collect();
    for trial in &trials {
        store.add_trial(id, trial).unwrap();
    }
    store.create_sweep(&sweep("empty")).unwrap();
    let count = |word| trials.iter().filter(|trial| trial.outcome.word() == word).count() as u32;
    let list = store.sweeps().unwrap();
    let counts = (list[0].measured, list[0].skipped, list[0].failed);
    assert_eq!(counts, (count("measured"), count("skipped"), count("failed")));
    assert!(trials.iter().any(|trial| trial.outcome == Outcome::Measured));
    assert_eq!((list[0].done(), list[1].done()), (30, 0));
}

#[test]
fn sweeps_are_found_by_number_name_and_age() {
    let (_directory, mut store) = store();
    assert!(matches!(store.find(None), Err(StoreError::NoSweeps)));
    for name in ["demo", "xfs-log", "demo", "1"] {
        store.create_sweep(&sweep(name)).unwrap();
    }
    let id = |selector| store.find(selector).unwrap().summary.id.0;
    assert_eq!(id(None), 4);
    assert_eq!(id(Some("latest")), 4);
    assert_eq!(id(Some("2")), 2);
    assert_eq!(id(Some("xfs-log")), 2);
    assert_eq!(id(Some("demo")), 3);
    assert_eq!(id(Some("1")), 1);
    let error = store.find(Some("xfs-lgo")).unwrap_err();
    assert_eq!(error.to_string(), "no sweep is named 'xfs-lgo'; did you mean 'xfs-log'?");
    let error = store.find(Some("5")).unwrap_err();
    assert!(matches!(error, StoreError::UnknownSweep { .. }), "{error:?}");
}

#[test]
fn a_sweep_runs_is_interrupted_resumed_and_finished() {
    let (_directory, mut store, id) = store_with_sweep();
    let state = |store: &fsdyno_store::Store| {
        let summary = store.sweep(id).unwrap().summary;
        (summary.state, summary.finished.is_some())
    };
    assert_eq!(state(&store), (SweepState::Running, false));
    store.interrupt_sweep(id).unwrap();
    assert_eq!(state(&store), (SweepState::Interrupted, true));
    store.resume_sweep(id).unwrap();
    assert_eq!(state(&store), (SweepState::Running, false));
    store.finish_sweep(id).unwrap();
    assert_eq!(state(&store), (SweepState::Finished, true));
}

#[test]
fn a_sweep_whose_process_is_gone_is_interrupted() {
    let (directory, mut store, id) = store_with_sweep();
    assert!(matches!(store.resume_sweep(id), Err(StoreError::Running { .. })));
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    database.execute("UPDATE sweeps SET process = process || '0'", []).unwrap();
    assert_eq!(store.sweeps().unwrap()[0].state, SweepState::Interrupted);
    store.resume_sweep(id).unwrap();
    assert_eq!(store.sweeps().unwrap()[0].state, SweepState::Running);
}

#[test]
fn an_imported_sweep_is_stored_whole_or_not_at_all() {
    let (_directory, mut store) = store();
    let mut trials: Vec<_> = (0..4).map(|number| trial(number, u64::from(number))).collect();
    let id = store.import_sweep(&sweep("imported"), &trials).unwrap();
    assert_eq!(store.trials(id).unwrap(), trials);
    assert_eq!(store.sweep(id).unwrap().summary.state, SweepState::Finished);
    // The last trial exists already.
    trials[3].trial = 0;
    let error = store.import_sweep(&sweep("twice"), &trials).unwrap_err();
    assert!(matches!(error, StoreError::TrialExists { trial: 0, .. }), "{error}");
    assert_eq!(store.sweeps().unwrap().len(), 1);
}
