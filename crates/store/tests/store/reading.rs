//! Stores that are only read, and what other programs may rely on.

use crate::converting::{SWEEP, old_store};
use crate::fixture::{store, store_with_sweep, sweep, usual_trial};
use fsdyno_core::{Measure, Outcome};
use fsdyno_store::{Store, StoreError};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

const SOMEBODY: u32 = 12_345;

/// The views with their columns, as docs/guide/results.md lists them.
const DOCUMENTED: &str = include_str!("../../../../docs/guide/results.md");

#[test]
fn a_store_that_does_not_exist_is_empty_and_not_created() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_to_read(&directory.path().join("a/results.db")).unwrap();
    assert!(matches!(store.find(None), Err(StoreError::NoSweeps)));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

fn give_away(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        chown(entry.path(), Some(SOMEBODY), None).unwrap();
    }
}

#[test]
fn a_store_of_somebody_else_is_read_whatever_state_it_is_in() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (directory, mut writer, id) = store_with_sweep();
    let path = directory.path().join("results.db");
    writer.add_trial(id, &usual_trial(0)).unwrap();
    let files = || fs::read_dir(directory.path()).unwrap().count();
    // While its owner writes; after a crash, with the log alone; and at rest.
    give_away(directory.path());
    let before = files();
    assert!(matches!(Store::open(&path), Err(StoreError::NotYours { owner: SOMEBODY, .. })));
    assert_eq!(Store::open_to_read(&path).unwrap().trials(id).unwrap().len(), 1);
    assert_eq!(files(), before);

    let crashed = tempfile::tempdir().unwrap();
    for name in ["results.db", "results.db-wal"] {
        fs::copy(directory.path().join(name), crashed.path().join(name)).unwrap();
    }
    give_away(crashed.path());
    let copy = crashed.path().join("results.db");
    assert_eq!(Store::open_to_read(&copy).unwrap().trials(id).unwrap().len(), 1);
    assert_eq!(fs::read_dir(crashed.path()).unwrap().count(), 2);

    drop(writer);
    let before = files();
    let mut reader = Store::open_to_read(&path).unwrap();
    assert_eq!(reader.trials(id).unwrap().len(), 1);
    assert!(reader.note_sweep(id, Some("no")).is_err());
    assert_eq!(files(), before);

    // An older one is brought up to date in a copy.
    let old = old_store(&directory.path().join("old.db"), (0..3).map(usual_trial));
    give_away(directory.path());
    let bytes = fs::read(&old).unwrap();
    let reader = Store::open_to_read(&old).unwrap();
    assert_eq!((reader.trials(SWEEP).unwrap().len(), reader.path()), (3, old.as_path()));
    assert!(reader.copy_of_older().is_none() && fs::read(&old).unwrap() == bytes);
}

#[test]
fn a_damaged_store_of_somebody_else_is_reported() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (directory, mut writer, id) = store_with_sweep();
    (0..4).for_each(|number| writer.add_trial(id, &usual_trial(number)).unwrap());
    drop(writer);
    let path = directory.path().join("results.db");
    let mut bytes = fs::read(&path).unwrap();
    for page in bytes.chunks_mut(4096).skip(1) {
        page[..12].fill(0xa5);
    }
    fs::write(&path, bytes).unwrap();
    give_away(directory.path());
    let error = Store::open_to_read(&path).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Open { .. }), "{error:?}");
}

#[test]
fn the_views_have_the_columns_that_are_documented() {
    let (directory, _store) = store();
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    let views = "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name";
    let list = |sql: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let views = list(views);
    assert_eq!(views, ["fsdyno_measures", "fsdyno_sweeps", "fsdyno_trials"]);
    for view in views {
        let columns = list(&format!("SELECT name FROM pragma_table_info('{view}')"));
        let section = DOCUMENTED.split(&format!("### `{view}`")).nth(1).expect("a section");
        let section = section.split("\n#").next().expect("its text");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        assert_eq!(rows.collect::<Vec<_>>(), columns, "{view}");
    }
    let queries =
        DOCUMENTED.lines().filter_map(|line| line.strip_prefix("$ sqlite3 results.db \"")?.strip_suffix('"'));
    assert_eq!(queries.map(|query| database.prepare(query).unwrap().column_count()).collect::<Vec<_>>(), [2]);
}

#[test]
fn measures_are_rows_with_the_values_of_the_trial() {
    let (directory, mut store, id) = store_with_sweep();
    let mut trial = usual_trial(0);
    trial.outcome = Outcome::Measured;
    store.add_trial(id, &trial).unwrap();
    let imported = store.import_sweep(&sweep("imported"), std::slice::from_ref(&trial)).unwrap();
    drop(store);
    let database = Connection::open(directory.path().join("results.db")).unwrap();
    let expected: BTreeMap<String, f64> = Measure::all_of([&trial])
        .into_iter()
        .filter_map(|measure| Some((measure.name().to_string(), measure.value(&trial)?.value)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    assert!(expected.len() > 3 && expected.contains_key("p99 (ms)"), "{expected:?}");
    for sweep in [id, imported] {
        let sql = "SELECT measure, value FROM fsdyno_measures WHERE sweep = ?";
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([sweep.0], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(rows.map(Result::unwrap).collect::<BTreeMap<String, f64>>(), expected);
    }
}

#[test]
fn an_older_store_gets_its_measures() {
    let directory = tempfile::tempdir().unwrap();
    let path = old_store(&directory.path().join("results.db"), (0..3).map(usual_trial));
    let trials = Store::open(&path).unwrap().trials(SWEEP).unwrap();
    let values = |trial| Measure::all_of([trial]).iter().filter(|one| one.value(trial).is_some()).count();
    let expected: usize = trials.iter().map(values).sum();
    let database = Connection::open(&path).unwrap();
    let sql = "SELECT count(*) FROM fsdyno_measures WHERE sweep = 1";
    let found: usize = database.query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(found == expected && found > 0, "{found} of {expected}");
}
