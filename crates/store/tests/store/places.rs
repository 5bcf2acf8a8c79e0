//! Where a store is: where its path led when it was opened, and nowhere else.

use crate::fixture::{sweep, trial};
use fsdyno_store::{Store, StoreError};
use std::fs;
use std::os::unix::fs::{lchown, symlink};

#[test]
fn no_store_is_opened_by_a_link_of_somebody_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let path = |name: &str| lab.path().join(name);
    fs::create_dir(path("real")).unwrap();
    drop(Store::open(&path("real/results.db")).unwrap());
    for (link, target) in [("file", "real/results.db"), ("directory", "real"), ("dangling", "real/new")] {
        symlink(target, path(link)).unwrap();
        lchown(path(link), Some(65_534), None).unwrap();
    }
    for name in ["file", "directory/results.db", "directory/new", "directory/deep/new", "dangling"] {
        for opened in [Store::open(&path(name)), Store::open_to_read(&path(name))] {
            let error = opened.unwrap_err();
            assert!(matches!(error, StoreError::Link { .. }), "{name}: {error:?}");
        }
    }
    assert_eq!(fs::read_dir(path("real")).unwrap().count(), 1);
    lchown(path("file"), Some(0), None).unwrap();
    assert_eq!(Store::open(&path("file")).unwrap().path(), path("real/results.db"));
}

/// As if the owner of the directory above it had waited until it was open.
#[test]
fn all_its_files_stay_in_the_directory_that_was_opened() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let path = |name: &str| lab.path().join(name);
    let mut store = Store::open(&path("real/results.db")).unwrap();
    let id = store.create_sweep(&sweep("moved")).unwrap();
    fs::create_dir_all(path("real/results.db.files/1")).unwrap();
    fs::create_dir_all(path("decoy/results.db.files/1")).unwrap();
    for name in ["results.db", "results.db-wal", "results.db-shm", "results.db.files/1/precious"] {
        fs::write(path("decoy").join(name), "precious").unwrap();
    }
    fs::rename(path("real"), path("moved")).unwrap();
    symlink("decoy", path("real")).unwrap();
    lchown(path("real"), Some(65_534), None).unwrap();

    store.add_trial(id, &trial(0, 1)).unwrap();
    let error = store.keep(id, &trial(1, 1), &[]).unwrap_err().to_string();
    assert!(error.contains("is a symbolic link that another user can change"), "{error}");
    assert!(!store.is_in_place(), "whoever runs a sweep is warned");
    store.interrupt_sweep(id).unwrap();
    drop(store.delete_sweep(id));
    drop(store);
    let names = |directory: &str| {
        let entries = fs::read_dir(path(directory)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let decoys = ["results.db", "results.db-shm", "results.db-wal", "results.db.files"];
    assert_eq!(names("decoy"), decoys);
    assert_eq!(fs::read_to_string(path("decoy/results.db.files/1/precious")).unwrap(), "precious");
    for name in &decoys[..3] {
        assert_eq!(fs::read_to_string(path("decoy").join(name)).unwrap(), "precious", "{name}");
    }
    let moved = names("moved");
    assert!(!moved.iter().any(|name| name.ends_with("-wal") || name.ends_with("-shm")), "{moved:?}");
}
