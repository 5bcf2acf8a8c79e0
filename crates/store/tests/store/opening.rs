//! Opening new files, old ones, and files of others.

use crate::fixture::{store_with_sweep, sweep, trial, usual_trial};
use fsdyno_store::{Store, StoreError};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The oldest schema that is converted, and the version that this build creates.
const VERSION_9: &str = include_str!("../../src/schema/9.sql");
const LATEST_VERSION: i64 = 12;

fn version(path: &Path) -> i64 {
    Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_new_store_is_created_with_its_directories() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state/fsdyno/results.db");
    let store = Store::open(&path).unwrap();
    assert!(store.sweeps().unwrap().is_empty());
    assert_eq!(version(&path), LATEST_VERSION);
}

#[test]
fn reopening_keeps_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut store = Store::open(&path).unwrap();
    let id = store.create_sweep(&sweep("demo")).unwrap();
    store.add_trial(id, &trial(0, 9)).unwrap();
    let found = store.sweep(id).unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.sweep(id).unwrap(), found);
    assert_eq!(store.trials(id).unwrap(), [trial(0, 9)]);
    assert_eq!(version(&path), LATEST_VERSION);
}

#[test]
fn a_store_of_version_9_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(VERSION_9).unwrap();
    old.execute_batch("PRAGMA application_id = 0x66736479; PRAGMA user_version = 9").unwrap();
    old.execute_batch(
        "INSERT INTO sweeps VALUES (7, 'old', '', '[]', '42', 'read', NULL, 1, 1, 'finished', '', 'then', \
         'later')",
    )
    .unwrap();
    drop(old);
    let mut store = Store::open(&path).unwrap();
    // The original is next to the new one.
    let copy = directory.path().join(format!("results.db.before-v{LATEST_VERSION}"));
    assert_eq!(store.copy_of_older(), Some(copy.as_path()));
    assert_eq!(version(&copy), 9);
    let names: String =
        Connection::open(&copy).unwrap().query_row("SELECT name FROM sweeps", [], |row| row.get(0)).unwrap();
    assert_eq!(names, "old");
    let found = store.find(Some("old")).unwrap();
    assert_eq!((found.summary.id.0, found.seed, found.overrides.len()), (7, 42, 0));
    store.add_trial(found.summary.id, &trial(0, 1)).unwrap();
    assert_eq!(version(&path), LATEST_VERSION);
}

/// SQLite obeys the journal next to a store, whoever has put it there.
#[test]
fn root_keeps_no_results_where_others_may_write_and_reads_a_copy() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    drop(Store::open(&path).unwrap());
    let older = Connection::open(&path).unwrap();
    older.execute_batch("ALTER TABLE sweeps DROP COLUMN looks").unwrap();
    older.pragma_update(None, "user_version", LATEST_VERSION - 1).unwrap();
    drop(older);
    let set = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
    let refused = || matches!(Store::open(&path), Err(StoreError::OpenToOthers { .. }));
    for mode in [0o777, 0o1777] {
        set(mode);
        assert!(refused(), "{mode:o}");
    }
    set(0o755);
    std::os::unix::fs::chown(directory.path(), Some(65534), None).unwrap();
    assert!(refused());
    assert_eq!(Store::open_to_read(&path).unwrap().sweeps().unwrap().len(), 0);
    let log = directory.path().join("results.db-wal");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &log, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let error = Store::open_to_read(&path).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
    let mut names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["results.db", "results.db-wal"], "something was created there");
}

#[test]
fn what_a_newer_fsdyno_wrote_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    drop(Store::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::TooNew { version: 99, known: LATEST_VERSION, .. }), "{error:?}");
    assert!(error.to_string().contains("newer fsdyno"), "{error}");
    assert_eq!(version(&path), 99);
}

/// A query of it may never end.
#[test]
fn a_view_in_the_place_of_a_table_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    drop(Store::open(&path).unwrap());
    let endless = "DROP VIEW fsdyno_trials; DROP VIEW fsdyno_measures; ALTER TABLE trials RENAME TO others;
        CREATE VIEW trials AS WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT n FROM n";
    Connection::open(&path).unwrap().execute_batch(endless).unwrap();
    for opened in [Store::open(&path), Store::open_to_read(&path)] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
    }
}

#[test]
fn a_store_that_cannot_be_upgraded_does_not_print_the_script() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    drop(Store::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.starts_with("cannot upgrade results") && error.lines().count() == 1, "{error}");
    assert!(error.contains("duplicate column name"), "{error}");
}

#[test]
fn a_file_that_is_not_a_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letter.txt");
    let letter = "Dear Sir or Madam, ".repeat(100);
    fs::write(&path, &letter).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::NotADatabase { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("'{}' is not a database", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), letter);
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("places.sqlite");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE places (url TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn a_path_that_cannot_be_created_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let error = Store::open(&directory.path().join("file/results.db")).unwrap_err();
    assert!(matches!(error, StoreError::Directory { .. }), "{error:?}");
}

#[test]
fn many_may_open_a_new_store_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| Store::open(&path).map(drop))).collect();
        for thread in opened {
            thread.join().unwrap().unwrap();
        }
    });
    assert_eq!(version(&path), LATEST_VERSION);
}

/// A store of version 9.
fn older(path: &Path) {
    let old = Connection::open(path).expect("an old store");
    old.execute_batch(VERSION_9).expect("an old store");
    old.execute_batch("PRAGMA application_id = 0x66736479; PRAGMA user_version = 9").expect("an old store");
}

#[test]
fn an_older_store_that_is_refused_stays_as_it_is() {
    // Only root refuses what others can write next to.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    older(&path);
    let mode = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::OpenToOthers { .. }), "{error:?}");
    assert_eq!(version(&path), 9);
    mode(0o755);
    assert!(Store::open(&path).unwrap().copy_of_older().is_some());
}

#[test]
fn a_new_store_and_one_that_is_up_to_date_are_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    for _ in 0..2 {
        assert_eq!(Store::open(&path).unwrap().copy_of_older(), None);
    }
}

#[test]
fn code_in_a_schema_is_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    drop(Store::open(&path).unwrap());
    let hostile = Connection::open(&path).unwrap();
    hostile
        .execute_batch(
            "CREATE TRIGGER t AFTER INSERT ON sweeps BEGIN UPDATE sweeps SET name = 'triggered'; END",
        )
        .unwrap();
    drop(hostile);
    let mut store = Store::open(&path).unwrap();
    store.create_sweep(&sweep("mine")).unwrap();
    assert_eq!(store.sweeps().unwrap()[0].name, "mine");
}

#[test]
fn a_damaged_older_store_is_reported_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    older(&path);
    let bytes = damage(&path, "sweeps");
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
}

/// Measures are for queries of others; fsdyno does not read them.
#[test]
fn damage_outside_the_trials_is_found() {
    let (directory, mut store, id) = store_with_sweep();
    store.add_trial(id, &usual_trial(0)).unwrap();
    store.finish_sweep(id).unwrap();
    store.check_file().unwrap();
    drop(store);
    let path = directory.path().join("results.db");
    let bytes = damage(&path, "measures");
    let store = Store::open(&path).unwrap();
    assert_eq!(store.damaged_trials(id).unwrap(), []);
    let error = store.check_file().unwrap_err().to_string();
    assert!(error.starts_with(&format!("results '{}' are damaged: ", path.display())), "{error}");
    drop(store);
    assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
}

/// Damages the page at which a table begins, and returns the whole file.
fn damage(path: &Path, table: &str) -> Vec<u8> {
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: usize = Connection::open(path).unwrap().query_row(root, [table], |row| row.get(0)).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[(root - 1) * 4096..][..12].fill(0xa5);
    fs::write(path, &bytes).unwrap();
    bytes
}

/// SQLite would take a device for an empty database.
#[test]
fn what_is_no_file_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    for path in [Path::new("/dev/null"), directory.path()] {
        let error = Store::open(path).unwrap_err();
        assert!(matches!(error, StoreError::NotAFile { .. }), "{error}");
    }
}
