//! Records that could not be stored, kept in files and added later.

use crate::fixture::{sweep, trial};
use fsdyno_store::{NewSweep, Store, StoreError, SweepState, kept};
use std::fs;
use std::path::{Path, PathBuf};

struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Lab { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self) -> Store {
        Store::open(&self.path("results.db")).expect("a store")
    }
}

#[test]
fn a_kept_record_is_added_later_and_its_file_removed() {
    let lab = Lab::new();
    let mut store = lab.open();
    let id = store.create_sweep(&sweep("full")).unwrap();
    let path = store.keep(id, &trial(4, 1), &[]).unwrap();
    assert_eq!(path.parent().unwrap(), fs::canonicalize(lab.directory.path()).unwrap());
    drop(store);
    assert_eq!(kept(&lab.path("results.db"), &[]), std::slice::from_ref(&path));
    let mut store = lab.open();
    let added = store.add_kept(&[]);
    assert_eq!((added.added.len(), added.left.len()), (1, 0), "{added:?}");
    assert!(added.added[0].contains("trial 5 of sweep 1"), "{added:?}");
    assert_eq!(store.trials(id).unwrap(), [trial(4, 1)]);
    assert!(!path.exists());
    assert_eq!(store.add_kept(&[]), Default::default());
}

#[test]
fn a_sweep_is_finished_once_its_last_record_is_added() {
    let lab = Lab::new();
    let mut store = lab.open();
    let id = store.create_sweep(&NewSweep { trials: 2, ..sweep("full") }).unwrap();
    store.add_trial(id, &trial(0, 1)).unwrap();
    store.keep(id, &trial(1, 2), &[]).unwrap();
    store.interrupt_sweep(id).unwrap();
    let other = store.create_sweep(&NewSweep { trials: 3, ..sweep("other") }).unwrap();
    store.add_trial(other, &trial(0, 1)).unwrap();
    store.interrupt_sweep(other).unwrap();
    assert_eq!(store.finish_complete().unwrap(), []);
    assert_eq!(store.add_kept(&[]).added.len(), 1);
    assert_eq!(store.finish_complete().unwrap(), [id]);
    assert_eq!(store.finish_complete().unwrap(), []);
    let states: Vec<SweepState> = store.sweeps().unwrap().iter().map(|sweep| sweep.state).collect();
    assert_eq!(states, [SweepState::Finished, SweepState::Interrupted]);
}

#[test]
fn without_room_next_to_the_store_another_directory_is_used() {
    let lab = Lab::new();
    let other = lab.path("other");
    fs::create_dir(&other).unwrap();
    let state = lab.path("state");
    fs::create_dir(&state).unwrap();
    let mut store = Store::open(&state.join("results.db")).unwrap();
    let id = store.create_sweep(&sweep("full")).unwrap();
    // This works like a full disk: nobody can create a file there, not even root.
    fs::rename(&state, lab.path("moved")).unwrap();
    let error = store.keep(id, &trial(0, 1), &[]).unwrap_err();
    assert!(matches!(error, StoreError::Keep { trial: 0, .. }), "{error}");
    let path = store.keep(id, &trial(0, 1), &[lab.path("absent"), other.clone()]).unwrap();
    assert!(path.starts_with(&other), "{}", path.display());
    fs::rename(lab.path("moved"), &state).unwrap();
    assert_eq!(store.add_kept(std::slice::from_ref(&other)).added.len(), 1);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
}

#[test]
fn nothing_kept_is_lost_or_added_to_the_wrong_sweep() {
    let lab = Lab::new();
    let mut store = lab.open();
    let id = store.create_sweep(&sweep("one")).unwrap();
    let first = store.keep(id, &trial(0, 1), &[]).unwrap();
    let second = store.keep(id, &trial(0, 2), &[]).unwrap();
    assert_ne!(first, second, "a record does not replace another one");
    // Another attempt has been stored: it stays, and so do the files.
    store.add_trial(id, &trial(0, 3)).unwrap();
    let added = store.add_kept(&[]);
    assert_eq!((added.added.len(), added.left.len()), (0, 2), "{added:?}");
    assert_eq!(store.trials(id).unwrap(), [trial(0, 3)]);
    assert!(first.exists() && second.exists());
    // A new store gives the same numbers to other sweeps.
    drop(store);
    fs::remove_file(lab.path("results.db")).unwrap();
    let mut store = lab.open();
    let id = store.create_sweep(&sweep("two")).unwrap();
    let added = store.add_kept(&[]);
    assert!(added.orphaned.iter().all(|line| line.contains("belongs to a different sweep 1")), "{added:?}");
    assert_eq!((added.orphaned.len(), added.left.len()), (2, 0), "{added:?}");
    assert!(store.trials(id).unwrap().is_empty() && first.exists());
}

#[test]
fn a_record_whose_store_is_gone_is_an_orphan() {
    let lab = Lab::new();
    let mut store = lab.open();
    let id = store.create_sweep(&sweep("one")).unwrap();
    let path = store.keep(id, &trial(0, 1), &[]).unwrap();
    drop(store);
    fs::remove_file(lab.path("results.db")).unwrap();
    let added = lab.open().add_kept(&[]);
    assert!(added.orphaned.len() == 1 && added.orphaned[0].contains("no longer has sweep 1"), "{added:?}");
    assert!(added.left.is_empty() && path.exists(), "{added:?}");
}

#[test]
fn a_file_that_is_not_a_record_stays_and_is_reported() {
    let lab = Lab::new();
    let mut store = lab.open();
    let path = |name: &str| lab.path(name);
    fs::write(path("results.db.kept-1-0.json"), "{").unwrap();
    fs::create_dir(path("results.db.kept-1-1.json")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path("results.db.kept-1-2.json")).unwrap();
    fs::write(path("other.db.kept-1-0.json"), "{").unwrap();
    let added = store.add_kept(&[]);
    assert_eq!((added.added.len(), added.left.len()), (0, 3), "{added:?}");
    assert!(fs::symlink_metadata(path("results.db.kept-1-2.json")).is_ok());
    assert!(kept(Path::new("/"), &[]).is_empty());
}
