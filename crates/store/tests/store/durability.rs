//! Processes that die, and processes that read while another writes.

use crate::fixture::{store_with_sweep, sweep, usual_trial};
use fsdyno_store::{Store, SweepId, SweepState};
use rusqlite::Connection;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const STORE: &str = "FSDYNO_STORE_TEST";
const SWEEP: SweepId = SweepId(1);

/// Runs only `child` of this test program in another process.
fn spawn(child: &str, store: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("durability::{child}"), "--nocapture"])
        .env(STORE, store)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The store on which the child works; `None` in an ordinary run of the suite, where it does nothing.
fn store_of_the_child() -> Option<PathBuf> {
    std::env::var_os(STORE).map(PathBuf::from)
}

/// The trials that the child reports as stored. It ends when nobody reads its output.
fn stored(child: &mut Child) -> impl Iterator<Item = u32> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("stored ")?.parse().ok())
}

#[test]
fn child_stores_trials_without_end() {
    let Some(path) = store_of_the_child() else { return };
    let mut store = Store::open(&path).unwrap();
    let id = store.create_sweep(&sweep("killed")).unwrap();
    for number in 0.. {
        store.add_trial(id, &usual_trial(number)).unwrap();
        println!("\nstored {number}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn every_trial_that_was_stored_survives_a_kill() {
    for round in 0..6 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.db");
        let mut child = spawn("child_stores_trials_without_end", &path);
        let mut acknowledged = stored(&mut child);
        let first = acknowledged.by_ref().nth(round).unwrap();
        std::thread::sleep(Duration::from_micros(1700 * round as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = acknowledged.last().unwrap_or(first);

        let mut store = Store::open(&path).unwrap();
        let trials = store.trials(SWEEP).unwrap();
        assert!(
            trials.len() as u32 > last,
            "trial {last} was stored, but only {} trials are there",
            trials.len()
        );
        for (number, trial) in (0..).zip(&trials) {
            assert_eq!(*trial, usual_trial(number));
        }
        assert_eq!(store.sweeps().unwrap()[0].state, SweepState::Interrupted);
        store.resume_sweep(SWEEP).unwrap();
        store.add_trial(SWEEP, &usual_trial(trials.len() as u32)).unwrap();
    }
}

#[test]
fn child_dies_in_mid_transaction() {
    let Some(path) = store_of_the_child() else { return };
    let database = Connection::open(path).unwrap();
    // With a cache this small, the rows reach the write-ahead log long before the end.
    database
        .execute_batch("PRAGMA cache_size = 5; BEGIN IMMEDIATE; UPDATE trials SET configuration = 'bent'")
        .unwrap();
    for trial in 100..2000 {
        database
            .execute(
                "INSERT INTO trials VALUES (NULL, 1, ?, 0, 'failed', hex(zeroblob(2000)), '', x'', x'')",
                [trial],
            )
            .unwrap();
    }
    std::process::abort();
}

#[test]
fn half_a_trial_is_not_stored() {
    let (directory, mut store, id) = store_with_sweep();
    let path = directory.path().join("results.db");
    store.add_trial(id, &usual_trial(0)).unwrap();
    let status = spawn("child_dies_in_mid_transaction", &path).wait().unwrap();
    assert_eq!(status.code(), None, "the child should have been aborted");
    let log = std::fs::metadata(directory.path().join("results.db-wal")).unwrap().len();
    assert!(log > 1_000_000, "the child left only {log} bytes in the log");
    assert_eq!(store.trials(id).unwrap(), [usual_trial(0)]);
    store.add_trial(id, &usual_trial(1)).unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.trials(id).unwrap(), [usual_trial(0), usual_trial(1)]);
    let verdict = Connection::open(&path).unwrap();
    let verdict = verdict.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(verdict.as_deref(), Ok("ok"));
}

#[test]
fn readers_see_whole_trials_while_another_process_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut child = spawn("child_stores_trials_without_end", &path);
    let mut acknowledged = stored(&mut child);
    acknowledged.next().unwrap();
    let reader = Store::open(&path).unwrap();
    let mut seen = 0;
    for _ in 0..5 {
        let stored = acknowledged.next().unwrap() as usize;
        let trials = reader.trials(SWEEP).unwrap();
        assert!(trials.len() > stored.max(seen));
        for (number, trial) in (0..).zip(&trials) {
            assert_eq!(*trial, usual_trial(number));
        }
        assert_eq!(reader.sweep(SWEEP).unwrap().summary.state, SweepState::Running);
        seen = trials.len() - 1;
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Writers in several processes wait for each other.
#[test]
fn two_sweeps_may_write_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut children: Vec<Child> = (0..2).map(|_| spawn("child_stores_trials_without_end", &path)).collect();
    let counts: Vec<usize> = children.iter_mut().map(|child| stored(child).take(5).count()).collect();
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(counts, [5, 5]);
    let store = Store::open(&path).unwrap();
    for id in [SweepId(1), SweepId(2)] {
        assert!(store.trials(id).unwrap().len() >= 5, "sweep {id}");
    }
}
