//! Stored records come back as they were, and damage in between is reported.

use crate::fixture::{store_with_sweep, sweep, trial, usual_trial};
use fsdyno_core::{Outcome, TrialRecord};
use fsdyno_store::{DamagedTrial, StoreError};
use proptest::prelude::*;
use rusqlite::Connection;
use std::io::Read;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn a_trial_comes_back_as_it_went_in(seeds in prop::collection::vec(any::<u64>(), 1..8)) {
        let (_directory, mut store, id) = store_with_sweep();
        let written: Vec<TrialRecord> = (0..).zip(&seeds).map(|(number, seed)| trial(number, *seed)).collect();
        for trial in written.iter().rev() {
            store.add_trial(id, trial).unwrap();
        }
        prop_assert_eq!(store.trials(id).unwrap(), written);
    }
}

/// The random trials must cover what they are meant to cover.
#[test]
fn random_trials_have_every_outcome_and_all_parts() {
    let trials: Vec<TrialRecord> = (0..200).map(|seed| trial(0, seed)).collect();
    let some = |what: fn(&TrialRecord) -> bool| trials.iter().any(what) && !trials.iter().all(what);
    let roles = |trial: &TrialRecord| trial.phases.iter().map(|phase| phase.roles.len()).sum::<usize>();
    assert!(some(|trial| trial.outcome == Outcome::Measured));
    assert!(some(|trial| matches!(trial.outcome, Outcome::Failed { .. })));
    assert!(some(|trial| matches!(&trial.outcome, Outcome::Skipped { unmet } if unmet.len() > 1)));
    assert!(some(|trial| trial.seed > i64::MAX as u64));
    assert!(some(|trial| trial.timer.is_none()));
    assert!(some(|trial| trial.warnings.len() > 1));
    assert!(trials.iter().any(|trial| roles(trial) > 4));
    assert!(some(|trial| trial.phases.iter().any(|phase| phase.telemetry.is_some())));
}

#[test]
fn trials_of_the_usual_size_come_back_too() {
    let (_directory, mut store, id) = store_with_sweep();
    for number in [4, 2] {
        store.add_trial(id, &usual_trial(number)).unwrap();
    }
    assert_eq!(store.trials(id).unwrap(), [usual_trial(2), usual_trial(4)]);
    assert_eq!(store.trial_numbers(id).unwrap(), [2, 4].into());
}

#[test]
fn an_outline_is_a_trial_without_its_bulky_parts() {
    let (_directory, mut store, id) = store_with_sweep();
    let written: Vec<TrialRecord> = (0..40).map(|number| trial(number, u64::from(number))).collect();
    for trial in &written {
        store.add_trial(id, trial).unwrap();
    }
    let mut expected = written.clone();
    for phase in expected.iter_mut().flat_map(|trial| &mut trial.phases) {
        phase.telemetry.iter_mut().for_each(|telemetry| telemetry.samples.clear());
        for operation in phase.roles.iter_mut().flat_map(|role| &mut role.operations) {
            operation.histogram.clear();
            operation.slowest.clear();
            operation.timeline = fsdyno_core::result::Timeline::default();
        }
    }
    assert_ne!(expected, written);
    assert_eq!(store.outlines(id).unwrap(), expected);
}

#[test]
fn the_trials_of_a_case_are_its_own() {
    let (_directory, mut store, id) = store_with_sweep();
    let of_case = |number, case| TrialRecord { case, ..usual_trial(number) };
    for trial in [of_case(0, 3), of_case(1, 4), of_case(2, 3)] {
        store.add_trial(id, &trial).unwrap();
    }
    assert_eq!(store.trials_of_case(id, 3).unwrap(), [of_case(0, 3), of_case(2, 3)]);
    assert_eq!(store.trials_of_case(id, 5).unwrap(), []);
}

#[test]
fn a_trial_is_stored_once() {
    let (_directory, mut store, id) = store_with_sweep();
    store.add_trial(id, &trial(3, 1)).unwrap();
    let error = store.add_trial(id, &trial(3, 2)).unwrap_err();
    assert!(matches!(error, StoreError::TrialExists { sweep, trial: 3 } if sweep == id), "{error:?}");
    assert_eq!(store.trials(id).unwrap(), [trial(3, 1)]);
    let other = store.create_sweep(&sweep("other")).unwrap();
    store.add_trial(other, &trial(3, 2)).unwrap();
}

#[test]
fn a_trial_that_cannot_be_stored_leaves_nothing_behind() {
    let (directory, mut store, id) = store_with_sweep();
    let mut bad = usual_trial(0);
    bad.phases[2].roles[1].operations[5].histogram = "no base64".to_string();
    let error = store.add_trial(id, &bad).unwrap_err();
    assert!(matches!(error, StoreError::Histogram { .. }), "{error:?}");
    assert!(store.trials(id).unwrap().is_empty());
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    let count = database.query_row("SELECT count(*) FROM trials", [], |row| row.get(0));
    assert_eq!(count, Ok(0));
}

#[test]
fn the_largest_numbers_come_back() {
    let (_directory, mut store, id) = store_with_sweep();
    let mut large = usual_trial(0);
    let operation = &mut large.phases[0].roles[0].operations[0];
    operation.lat_ns.max = u64::MAX;
    operation.timeline.max_ns = vec![0, u64::MAX, 1];
    store.add_trial(id, &large).unwrap();
    assert_eq!(store.trials(id).unwrap(), [large]);
}

#[test]
fn a_damaged_trial_is_named() {
    let (directory, mut store, id) = store_with_sweep();
    store.add_trial(id, &trial(7, 1)).unwrap();
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    let small = |length: u64| zstd::encode_all(std::io::repeat(b' ').take(length), 19).unwrap();
    for (column, bytes, reason) in [
        ("document", vec![], "it is empty"),
        ("document", b"{".to_vec(), ""),
        ("document", small(3), "EOF while parsing"),
        ("document", small(1 << 30), "it has more than 33554432 bytes"),
    ] {
        database.execute(&format!("UPDATE trials SET {column} = ?"), [&bytes]).unwrap();
        let error = store.trials(id).unwrap_err();
        assert!(matches!(error, StoreError::DamagedTrial { trial: 7, .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
        assert!(store.outlines(id).is_err());
    }
}

/// A disk may return wrong data without an error.
#[test]
fn a_wrong_bit_does_not_change_a_figure() {
    let (directory, mut store, id) = store_with_sweep();
    store.add_trial(id, &trial(0, 5)).unwrap();
    let expected = store.trials(id).unwrap();
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    for column in ["document", "bulk"] {
        let sql = format!("SELECT {column} FROM trials");
        let good: Vec<u8> = database.query_row(&sql, [], |row| row.get(0)).unwrap();
        let sql = format!("UPDATE trials SET {column} = ?");
        for byte in 0..good.len() {
            let mut wrong = good.clone();
            wrong[byte] ^= 1 << (byte % 8);
            database.execute(&sql, [wrong]).unwrap();
            match store.trials(id) {
                // Some bits mean nothing.
                Ok(trials) => assert_eq!(trials, expected, "{column} {byte}"),
                Err(error) => assert!(error.to_string().contains("is damaged"), "{error}"),
            }
        }
        database.execute(&sql, [good]).unwrap();
    }
    assert_eq!(store.trials(id).unwrap(), expected);
}

#[test]
fn what_belongs_to_another_trial_is_not_read() {
    let (directory, mut store, id) = store_with_sweep();
    let first = usual_trial(0);
    store.add_trial(id, &first).unwrap();
    store.add_trial(id, &TrialRecord { trial: 1, seed: 9, ..first.clone() }).unwrap();
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    let swap =
        "UPDATE trials SET bulk = (SELECT bulk FROM trials AS other WHERE other.trial = 1 - trials.trial)";
    database.execute(swap, []).unwrap();
    let error = store.trials(id).unwrap_err().to_string();
    let path = std::fs::canonicalize(directory.path()).unwrap().join("results.db");
    let expected = format!(
        "trial 1 of sweep 1 in '{}' is damaged: its bulk data is that of another trial",
        path.display()
    );
    assert_eq!(error, expected);
    assert_eq!(store.outlines(id).unwrap().len(), 2);
    database.execute(&swap.replace("bulk", "document"), []).unwrap();
    let error = store.outlines(id).unwrap_err().to_string();
    assert!(error.ends_with("its document is that of trial 2"), "{error}");
}

#[test]
fn what_is_damaged_can_be_deleted_so_that_the_rest_is_read() {
    let (directory, mut store, id) = store_with_sweep();
    let trials: Vec<TrialRecord> = (0..3).map(usual_trial).collect();
    for trial in &trials {
        store.add_trial(id, trial).unwrap();
    }
    let other = store.create_sweep(&sweep("other")).unwrap();
    store.add_trial(other, &trial(1, 5)).unwrap();
    assert_eq!(store.damaged_trials(id).unwrap(), []);
    assert_eq!(store.delete_damaged(other).unwrap_err().to_string(), "sweep 2 is still running");
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    // Only the bulk of one trial, and the document of another.
    for (column, trial) in [("bulk", 1), ("document", 2)] {
        let sql = format!("UPDATE trials SET {column} = x'00' WHERE sweep_id = 1 AND trial = {trial}");
        database.execute(&sql, []).unwrap();
    }
    store.interrupt_sweep(id).unwrap();
    let numbers = |damaged: Vec<DamagedTrial>| damaged.iter().map(|one| one.trial).collect::<Vec<_>>();
    assert_eq!(numbers(store.damaged_trials(id).unwrap()), [1, 2]);
    assert_eq!(numbers(store.delete_damaged(id).unwrap()), [1, 2]);
    assert_eq!(store.trials(id).unwrap(), trials[..1]);
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("SELECT count(DISTINCT trial) FROM measures WHERE sweep_id = 1"), 1);
    assert_eq!(count("SELECT count(*) FROM trials WHERE sweep_id = 2"), 1);
    // What a resume measures again.
    store.add_trial(id, &trials[2]).unwrap();
    assert_eq!(store.trial_numbers(id).unwrap(), [0, 2].into());
}

#[test]
fn a_damaged_sweep_hides_no_other_and_can_be_deleted() {
    let (directory, mut store, id) = store_with_sweep();
    let other = store.create_sweep(&sweep("other")).unwrap();
    store.add_trial(other, &usual_trial(0)).unwrap();
    store.interrupt_sweep(id).unwrap();
    assert!(store.all_sweeps().unwrap().damaged.is_empty());
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    for (column, value, reason) in [
        ("environment", "'{'", "stored environment is damaged: EOF while parsing"),
        ("seed", "'abc'", "stored seed 'abc' is damaged"),
        ("cases", "4000000000000", "out of range"),
    ] {
        database.execute(&format!("UPDATE sweeps SET {column} = {value} WHERE id = 1"), []).unwrap();
        let damaged = store.all_sweeps().unwrap().damaged;
        let [(1, error)] = &damaged.iter().map(|(id, error)| (id.0, error)).collect::<Vec<_>>()[..] else {
            panic!("{damaged:?}")
        };
        let said = error.to_string();
        assert!(said.starts_with("sweep 1 in '") && said.contains(reason), "{said}");
        assert!(error.hint().is_some_and(|hint| hint.contains("fsdyno delete 1 --store '")), "{error:?}");
        assert!(store.sweeps().unwrap().iter().any(|sweep| sweep.id == other));
        assert_eq!(store.sweep(id).unwrap_err().to_string(), said);
    }
    assert!(store.find(Some("other")).is_ok());
    store.delete_sweep(id).unwrap();
    assert!(store.all_sweeps().unwrap().damaged.is_empty());
    assert_eq!(store.trials(other).unwrap(), [usual_trial(0)]);
}

/// Queries go by the columns.
#[test]
fn a_row_that_says_something_else_than_its_document_is_damaged() {
    let (directory, mut store, id) = store_with_sweep();
    store.add_trial(id, &usual_trial(0)).unwrap();
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    for (column, value) in [("case_index", "99"), ("outcome", "'failed'"), ("configuration", "'zfs'")] {
        let sql = format!("UPDATE trials SET {column} = {value}");
        let before = format!("SELECT {column} FROM trials");
        let before: rusqlite::types::Value = database.query_row(&before, [], |row| row.get(0)).unwrap();
        database.execute(&sql, []).unwrap();
        for error in [store.trials(id).unwrap_err(), store.outlines(id).unwrap_err()] {
            assert!(error.to_string().contains(" is damaged: its row is that of case "), "{error}");
        }
        assert_eq!(store.damaged_trials(id).unwrap().len(), 1, "{column}");
        database.execute(&format!("UPDATE trials SET {column} = ?"), [before]).unwrap();
    }
    assert_eq!(store.trials(id).unwrap(), [usual_trial(0)]);
}

#[test]
fn damaged_bulk_data_is_an_error_and_not_a_panic() {
    let (directory, mut store, id) = store_with_sweep();
    store.add_trial(id, &trial(0, 5)).unwrap();
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    let bulk: Vec<u8> = database.query_row("SELECT bulk FROM trials", [], |row| row.get(0)).unwrap();
    let bulk = zstd::decode_all(&bulk[..]).unwrap();
    let set = |bytes: &[u8]| {
        let bytes = zstd::encode_all(bytes, 1).unwrap();
        database.execute("UPDATE trials SET bulk = ?", [bytes]).unwrap();
    };
    for length in 0..bulk.len() {
        set(&bulk[..length]);
        assert!(store.trials(id).is_err(), "cut to {length} of {}", bulk.len());
        let mut changed = bulk.clone();
        changed[length] ^= 0xff;
        set(&changed);
        let _ = store.trials(id);
    }
    set(&bulk);
    assert_eq!(store.trials(id).unwrap(), [trial(0, 5)]);
    assert_eq!(store.outlines(id).unwrap().len(), 1);
}
