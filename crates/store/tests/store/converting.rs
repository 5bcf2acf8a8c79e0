//! Stores of earlier versions of the schema, back to release 0.2.0, and of releases before it.

use crate::fixture::{sweep, trial, usual_trial};
use fsdyno_core::TrialRecord;
use fsdyno_store::{Store, StoreError, SweepId};
use rusqlite::Connection;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub const SWEEP: SweepId = SweepId(1);
const STORE: &str = "FSDYNO_STORE_TEST";

/// A store of version 9 with these trials: one of today without what later versions added.
pub fn old_store(path: &Path, trials: impl IntoIterator<Item = TrialRecord>) -> PathBuf {
    let mut store = Store::open(path).unwrap();
    let id = store.create_sweep(&sweep("old")).unwrap();
    assert_eq!(id, SWEEP);
    trials.into_iter().for_each(|trial| store.add_trial(id, &trial).unwrap());
    store.finish_complete().unwrap();
    drop(store);
    let less = "DROP VIEW fsdyno_sweeps; DROP VIEW fsdyno_trials; DROP VIEW fsdyno_measures;
        DROP TABLE measures; DROP TABLE numbers; ALTER TABLE sweeps DROP COLUMN note;
        ALTER TABLE sweeps DROP COLUMN origin; ALTER TABLE sweeps DROP COLUMN looks; PRAGMA user_version = 9";
    Connection::open(path).unwrap().execute_batch(less).unwrap();
    path.to_path_buf()
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
fn a_store_from_before_0_2_0_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = old_store(&directory.path().join("results.db"), [trial(0, 1)]);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 8).unwrap();
    for opened in [Store::open(&path), Store::open_to_read(&path)] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::TooOld { version: 8, .. }), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("fsdyno 0.2.0")), "{error:?}");
    }
    assert_eq!(version(&path), 8);
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
    const TRIALS: u32 = 150;
    let mut old = 0;
    let originals = tempfile::tempdir().unwrap();
    let original = old_store(&originals.path().join("results.db"), (0..TRIALS).map(usual_trial));
    for milliseconds in [30, 60, 120, 240] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.db");
        std::fs::copy(&original, &path).unwrap();
        let mut child = child(&path, ":").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        let _ = child.kill();
        child.wait().unwrap();
        old += u32::from(version(&path) == 9);
        assert_eq!(count(&path), TRIALS);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.outlines(SWEEP).unwrap().len(), TRIALS as usize);
    }
    assert!(old > 0, "every conversion finished before it was killed");
}

#[test]
fn a_conversion_without_room_leaves_the_old_store() {
    const TRIALS: u32 = 150;
    let directory = tempfile::tempdir().unwrap();
    let path = old_store(&directory.path().join("results.db"), (0..TRIALS).map(usual_trial));
    let before = std::fs::metadata(&path).unwrap().len();
    // There is room for the copy, but not for what is written after it: no file can grow beyond 64 KiB.
    std::fs::copy(&path, directory.path().join("results.db.before-v12")).unwrap();
    let status = child(&path, "trap '' XFSZ; ulimit -f 128").status().unwrap();
    assert!(!status.success());
    assert_eq!((version(&path), count(&path)), (9, TRIALS));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), before);
    assert_eq!(Store::open(&path).unwrap().outlines(SWEEP).unwrap().len(), TRIALS as usize);
}

/// `version-10.db.zst` has trials as they were before dictionaries, and `version-10.json.zst` what
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
