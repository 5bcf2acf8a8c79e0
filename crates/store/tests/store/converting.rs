//! Stores of earlier releases, whose trials were rows of several tables.
//!
//! `version-8.db.zst` was written by a release with version 8 of the schema and shortened afterwards;
//! `version-8.json.zst` is what that release printed for its trials.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fsdyno_core::TrialRecord;
use fsdyno_store::{Store, StoreError, SweepId};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rusqlite::Connection;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const OLD_STORE: &[u8] = include_bytes!("version-8.db.zst");
const OLD_JSON: &[u8] = include_bytes!("version-8.json.zst");
const SWEEP: SweepId = SweepId(1);
const STORE: &str = "FSDYNO_STORE_TEST";

fn old_store(directory: &Path) -> PathBuf {
    let path = directory.join("results.db");
    std::fs::write(&path, zstd::decode_all(OLD_STORE).unwrap()).unwrap();
    path
}

/// The same store with many more trials.
fn large_old_store(directory: &Path, trials: u32) -> PathBuf {
    let path = old_store(directory);
    let database = Connection::open(&path).unwrap();
    let columns = |table: &str| -> Vec<String> {
        let sql = format!("SELECT name FROM pragma_table_info('{table}') WHERE name NOT IN ('id', 'trial')");
        let mut statement = database.prepare(&sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let names = columns("trials").join(", ");
    database.execute_batch("BEGIN").unwrap();
    for trial in 3..trials {
        let sql =
            format!("INSERT INTO trials (trial, {names}) SELECT ?, {names} FROM trials WHERE trial = 0");
        database.execute(&sql, [trial]).unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
    path
}

fn version(path: &Path) -> i64 {
    Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

fn count(path: &Path) -> u32 {
    let database = Connection::open(path).unwrap();
    let verdict = database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(verdict.as_deref(), Ok("ok"));
    database.query_row("SELECT count(*) FROM trials", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_store_of_version_8_has_the_same_trials_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let path = old_store(directory.path());
    let before = std::fs::metadata(&path).unwrap().len();
    let store = Store::open(&path).unwrap();
    let trials = store.trials(SWEEP).unwrap();
    let mut expected: Vec<Value> = serde_json::from_slice(&zstd::decode_all(OLD_JSON).unwrap()).unwrap();
    // That release printed neither the recipe, nor what was done to the machine or ran around the trial, nor
    // whether a stall had been seen to end, nor when telemetry began, nor what each worker finished; and it
    // verified nothing.
    for (expected, trial) in expected.iter_mut().zip(&trials) {
        expected["lifecycle_ns"]["precondition"] = Value::Null;
        expected["lifecycle_ns"]["copy"] = Value::Null;
        expected["lifecycle_ns"]["read_again"] = Value::Null;
        expected["workload"]["parameters"]["verify"] = Value::Bool(false);
        expected["workload"]["parameters"]["write_rate"] = Value::Null;
        expected["recipe"] = serde_json::to_value(&trial.built.recipe).unwrap();
        assert_eq!(trial.built.log, []);
        expected["log"] = Value::Array(Vec::new());
        expected["commands"] = Value::Array(Vec::new());
        for phase in expected["phases"].as_array_mut().unwrap() {
            if let Some(telemetry) = phase["telemetry"].as_object_mut() {
                telemetry.insert("began_ns".to_string(), Value::from(0));
            }
            for role in phase["roles"].as_array_mut().unwrap() {
                role["longest_stall_at_least"] = Value::Bool(false);
                for worker in role["worker_results"].as_array_mut().unwrap() {
                    worker["longest_stall_at_least"] = Value::Bool(false);
                    worker["items"] = Value::from(0);
                }
            }
        }
    }
    assert_eq!(serde_json::to_value(&trials).unwrap(), Value::Array(expected.clone()));
    let read: Vec<TrialRecord> = serde_json::from_value(Value::Array(expected)).unwrap();
    assert_eq!(read, trials, "the public JSON of an earlier release can be read");
    let summary = &store.sweeps().unwrap()[0];
    assert_eq!((summary.measured, summary.skipped, summary.failed), (1, 1, 1));
    let copy = store.copy_of_older().unwrap().to_path_buf();
    drop(store);
    assert_eq!((version(&path), version(&copy), count(&copy)), (12, 8, 3));
    assert!(std::fs::metadata(&path).unwrap().len() < before, "the space of the tables is freed");
    assert_eq!(Store::open(&path).unwrap().copy_of_older(), None);
}

#[test]
fn a_damaged_row_of_an_old_store_affects_only_its_own_trial() {
    let directory = tempfile::tempdir().unwrap();
    let path = old_store(directory.path());
    Connection::open(&path).unwrap().execute("UPDATE trials SET settings = '{' WHERE trial = 1", []).unwrap();
    let store = Store::open(&path).unwrap();
    let error = store.trials(SWEEP).unwrap_err();
    assert!(matches!(error, StoreError::DamagedTrial { trial: 1, .. }), "{error:?}");
    assert_eq!(store.trials_of_case(SWEEP, 0).unwrap().len(), 1);
    assert_eq!(store.trial_numbers(SWEEP).unwrap(), [0, 1, 2].into());
}

/// Runs only `child_converts` of this test program in another process; a shell runs `before` first.
fn child(path: &Path, before: &str) -> Command {
    let mut shell = Command::new("sh");
    let program = std::env::current_exe().unwrap();
    shell
        .args(["-c", &format!("{before}; exec \"$0\" --exact converting::child_converts")])
        .arg(program)
        .env(STORE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    shell
}

#[test]
fn child_converts() {
    let Some(path) = std::env::var_os(STORE) else { return };
    Store::open(Path::new(&path)).unwrap();
}

#[test]
fn a_conversion_that_is_killed_leaves_the_old_store_or_the_new_one() {
    const TRIALS: u32 = 400;
    let mut old = 0;
    for milliseconds in [30, 60, 120, 240] {
        let directory = tempfile::tempdir().unwrap();
        let path = large_old_store(directory.path(), TRIALS);
        let mut child = child(&path, ":").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        let _ = child.kill();
        child.wait().unwrap();
        old += u32::from(version(&path) == 8);
        assert_eq!(count(&path), TRIALS);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.outlines(SWEEP).unwrap().len(), TRIALS as usize);
    }
    assert!(old > 0, "every conversion finished before it was killed");
}

#[test]
fn a_conversion_without_room_leaves_the_old_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = large_old_store(directory.path(), 400);
    let before = std::fs::metadata(&path).unwrap().len();
    // There is room for the copy, but not for what is written after it: no file can grow beyond 256 KiB.
    std::fs::copy(&path, directory.path().join("results.db.before-v12")).unwrap();
    let status = child(&path, "trap '' XFSZ; ulimit -f 512").status().unwrap();
    assert!(!status.success());
    assert_eq!((version(&path), count(&path)), (8, 400));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), before);
    assert_eq!(Store::open(&path).unwrap().outlines(SWEEP).unwrap().len(), 400);
}

/// `version-10.db.zst` has trials as they were before dictionaries and counts, and `version-10.json.zst` what
/// was printed for them.
#[test]
fn the_trials_of_a_store_of_version_10_stay_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    std::fs::write(&path, zstd::decode_all(&include_bytes!("version-10.db.zst")[..]).unwrap()).unwrap();
    let rows = |path: &Path| -> (Vec<u8>, Vec<u8>) {
        let database = Connection::open(path).unwrap();
        let sql = "SELECT document, bulk FROM trials";
        database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let before = rows(&path);
    let store = Store::open(&path).unwrap();
    let trials = store.trials(store.find(None).unwrap().summary.id).unwrap();
    let printed = zstd::decode_all(&include_bytes!("version-10.json.zst")[..]).unwrap();
    let expected: Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(serde_json::to_value(&trials).unwrap(), expected);
    assert_eq!(rows(&path), before);
    assert_eq!(version(store.copy_of_older().unwrap()), 10);
}

/// The same of version 11. Another version of the library that deflates may write other bytes for the same
/// histogram.
#[test]
fn the_trials_of_a_store_of_version_11_are_read_as_they_were_printed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    std::fs::write(&path, zstd::decode_all(&include_bytes!("version-11.db.zst")[..]).unwrap()).unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(version(store.copy_of_older().unwrap()), 11);
    let mut trials = store.trials(store.find(None).unwrap().summary.id).unwrap();
    let printed = zstd::decode_all(&include_bytes!("version-11.json.zst")[..]).unwrap();
    let mut expected: Vec<TrialRecord> = serde_json::from_slice(&printed).unwrap();
    let histograms = |trials: &mut [TrialRecord]| -> Vec<Histogram<u64>> {
        let phases = trials.iter_mut().flat_map(|trial| &mut trial.phases);
        let operations = phases.flat_map(|phase| &mut phase.roles).flat_map(|role| &mut role.operations);
        let decode = |text: String| {
            let v2 = BASE64_STANDARD.decode(text).unwrap();
            Deserializer::new().deserialize(&mut v2.as_slice()).unwrap()
        };
        operations.map(|operation| decode(std::mem::take(&mut operation.histogram))).collect()
    };
    let (read, printed) = (histograms(&mut trials), histograms(&mut expected));
    assert!(read.len() > 10 && read.iter().any(|histogram| histogram.len() > 100));
    assert_eq!(read, printed);
    assert_eq!(trials, expected);
}
