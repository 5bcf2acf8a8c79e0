//! Beginning, ending and finding sweeps.

use crate::fixture::{store, store_with_sweep, sweep, trial, usual_trial};
use fsdyno_core::{Failure, Outcome, TrialRecord};
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
        let id = store.create_sweep(&sweep(name)).unwrap();
        store.add_trial(id, &usual_trial(0)).unwrap();
        store.finish_sweep(id).unwrap();
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
fn the_latest_sweep_is_one_that_is_finished_and_has_results() {
    let (_directory, mut store) = store();
    let mut add = |name: &str, outcome: Outcome, finished: bool| {
        let id = store.create_sweep(&sweep(name)).unwrap();
        store.add_trial(id, &TrialRecord { outcome, ..usual_trial(0) }).unwrap();
        match finished {
            true => store.finish_sweep(id).unwrap(),
            false => store.interrupt_sweep(id).unwrap(),
        }
        store.find(None).map(|sweep| sweep.summary.id.0).map_err(|error| error.to_string())
    };
    let failed = || Outcome::Failed { error: Failure::new("mount", "no") };
    let none = "no finished sweep with results is stored yet; sweep 1 ('stopped') was interrupted after 1 of \
        36 trials";
    assert_eq!(add("stopped", Outcome::Measured, false), Err(none.to_string()));
    assert!(add("failed", failed(), true).unwrap_err().ends_with("sweep 2 ('failed') measured nothing"));
    assert_eq!(add("good", Outcome::Measured, true), Ok(3));
    assert_eq!(add("skipped", Outcome::Skipped { unmet: vec!["mkfs".to_string()] }, true), Ok(3));
    assert_eq!(add("stopped", Outcome::Measured, false), Ok(3));
}

#[test]
fn a_clock_that_was_set_back_does_not_make_an_earlier_sweep_the_latest() {
    let (directory, mut store) = store();
    for name in ["before", "ahead", "behind", "after"] {
        let id = store.create_sweep(&sweep(name)).unwrap();
        store.add_trial(id, &usual_trial(0)).unwrap();
        store.finish_sweep(id).unwrap();
    }
    let file = Connection::open(directory.path().join("results.db")).unwrap();
    for (id, started) in [(2, "2077-01-01T00:00:00Z"), (3, "1970-01-01T00:00:07Z")] {
        file.execute("UPDATE sweeps SET started = ?2 WHERE id = ?1", (id, started)).unwrap();
    }
    let order = |store: &fsdyno_store::Store| {
        store.sweeps().unwrap().into_iter().map(|sweep| sweep.name).collect::<Vec<_>>()
    };
    assert_eq!(order(&store), ["before", "ahead", "behind", "after"]);
    assert_eq!(store.find(None).unwrap().summary.name, "after");
    // What was measured elsewhere is as old as it says.
    file.execute("UPDATE sweeps SET origin = 'pack' WHERE id = 3", ()).unwrap();
    assert_eq!(order(&store), ["behind", "before", "ahead", "after"]);
}

#[test]
fn a_sweep_is_renamed_noted_and_deleted_and_its_number_is_not_used_again() {
    let (_directory, mut store, id) = store_with_sweep();
    assert!(matches!(store.delete_sweep(id), Err(StoreError::Running { .. })), "this process runs it");
    store.add_trial(id, &usual_trial(0)).unwrap();
    store.finish_sweep(id).unwrap();
    store.rename_sweep(id, "renamed").unwrap();
    store.note_sweep(id, Some("a note")).unwrap();
    let summary = store.find(Some("renamed")).unwrap().summary;
    assert_eq!((summary.id, summary.note.as_deref()), (id, Some("a note")));
    store.note_sweep(id, None).unwrap();
    assert_eq!(store.sweep(id).unwrap().summary.note, None);
    store.delete_sweep(id).unwrap();
    assert_eq!((store.sweeps().unwrap().len(), store.trials(id).unwrap().len()), (0, 0));
    for gone in [store.rename_sweep(id, "x"), store.note_sweep(id, None), store.delete_sweep(id)] {
        assert!(matches!(gone, Err(StoreError::UnknownSweep { .. })), "{gone:?}");
    }
    assert_eq!(store.create_sweep(&sweep("next")).unwrap().0, id.0 + 1);
}

#[test]
fn what_is_deleted_gives_its_space_back() {
    let (directory, mut store, id) = store_with_sweep();
    let size = || std::fs::metadata(directory.path().join("results.db")).unwrap().len();
    let empty = {
        store.finish_sweep(id).unwrap();
        store.delete_sweep(id).unwrap();
        size()
    };
    let id = store.create_sweep(&sweep("large")).unwrap();
    (0..20).for_each(|number| store.add_trial(id, &usual_trial(number)).unwrap());
    store.finish_sweep(id).unwrap();
    store.delete_sweep(id).unwrap();
    assert!(size() <= empty + 8192, "{} bytes, {empty} when it was empty", size());
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
