//! Whom root obeys: undo journals and kernels only from directories that nobody else can write to.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOMEBODY: u32 = 12_345;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn fsdyno(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
    command.args(arguments).env_remove("XDG_STATE_HOME").env_remove("XDG_CACHE_HOME");
    command
}

/// Code, stdout and stderr.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A directory of state with a journal of a process that is gone, and the file that it would remove.
fn with_a_journal(state: &Path) -> (PathBuf, PathBuf) {
    let undo = state.join("undo");
    fs::create_dir_all(&undo).expect("directories");
    let precious = state.join(".fsdyno-0123456789abcdef0123456789abcdef");
    fs::write(&precious, "precious").expect("a file");
    let journal = undo.join("a.journal");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let text = format!(
        "{{\"fsdyno_undo_journal\":1,\"boot_id\":{:?},\"pid\":4194303}}\n\
         {{\"undo\":\"remove_file\",\"path\":{precious:?},\"identity\":null}}\n",
        boot.trim()
    );
    fs::write(&journal, text).expect("a journal");
    (journal, precious)
}

#[test]
fn root_replays_no_journal_that_a_user_could_have_written() {
    if !is_root() {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let (journal, precious) = with_a_journal(&home.path().join("fsdyno"));
    chown(home.path(), Some(SOMEBODY), None).expect("root may");
    let state = home.path().join("fsdyno").display().to_string();
    // What `sudo -E` brings along.
    let by_variable = fsdyno(&["restore"]).env("XDG_STATE_HOME", home.path()).output();
    let by_option = fsdyno(&["restore", "--state", &state]).output();
    for (output, by) in [(by_variable, "XDG_STATE_HOME"), (by_option, "--state")] {
        let (code, out, err) = said(&output.expect("run fsdyno"));
        assert_eq!((code, out.as_str()), (Some(3), ""), "{err}");
        let place = format!("'{}' belongs to user {SOMEBODY}", home.path().display());
        assert!(err.contains(&place) && err.contains(by) && err.contains("hint: "), "{err}");
        assert!(journal.exists() && precious.exists(), "{err}");
    }
    // Its own directory is as good as any, once it is closed to others.
    chown(home.path(), Some(0), None).expect("root may");
    let (code, out, err) = said(&fsdyno(&["restore", "--state", &state]).output().expect("run fsdyno"));
    assert_eq!((code, journal.exists(), precious.exists()), (Some(0), false, false), "{out}{err}");
}

#[test]
fn a_store_of_somebody_else_is_shown_without_obeying_the_journals_beside_it() {
    if !is_root() {
        return;
    }
    let (home, own) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (journal, precious) = with_a_journal(home.path());
    chown(home.path(), Some(SOMEBODY), None).expect("root may");
    let (store, state) = (home.path().join("results.db"), own.path().join("state"));
    fs::write(&store, "").expect("an empty store");
    let (store, state) = (store.display().to_string(), state.display().to_string());
    for arguments in
        [["list", "--store", &store, "--state", &state], ["restore", "--store", &store, "--state", &state]]
    {
        let (code, out, err) = said(&fsdyno(&arguments).output().expect("run fsdyno"));
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(journal.exists() && precious.exists(), "{out}{err}");
    }
}

#[test]
fn kernels_for_root_come_from_no_cache_of_a_user() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let cache = directory.path().join("cache");
    fs::create_dir(&cache).expect("a directory");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).expect("ours");
    let plan = directory.path().join("plan.toml");
    fs::write(
        &plan,
        "[device]\nimage = \"/nowhere/x.img\"\nsize = \"1G\"\n[axes]\nfilesystem = \"ext4\"\n\
         kernel = \"debian:6.1\"\n[[workloads]]\nkind = \"null\"\n",
    )
    .expect("a plan");
    let plan = plan.display().to_string();
    let output = fsdyno(&["plan", &plan])
        .env("XDG_STATE_HOME", directory.path().join("state"))
        .env("XDG_CACHE_HOME", &cache)
        .output();
    let (code, out, err) = said(&output.expect("run fsdyno"));
    assert_eq!(code, Some(3), "{out}{err}");
    assert!(err.contains("can be written by others (mode 0777)") && err.contains("XDG_CACHE_HOME"), "{err}");
}

#[test]
fn a_relative_place_for_state_is_named_and_not_used() {
    let home = tempfile::tempdir().expect("a directory");
    let mut list = fsdyno(&["list"]);
    list.env("XDG_STATE_HOME", "here").env("HOME", home.path()).current_dir(home.path());
    let (code, _, err) = said(&list.output().expect("run fsdyno"));
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("XDG_STATE_HOME is 'here', which counts as unset"), "{err}");
    assert!(!home.path().join("here").exists());
}

#[test]
fn a_directory_is_not_imported_and_what_is_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display().to_string();
    let state = directory.path().join("state").display().to_string();
    let output = fsdyno(&["import", "fio", &path, "--state", &state]).output();
    let (code, _, err) = said(&output.expect("run fsdyno"));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("it is a directory") && err.contains("hint: name a file"), "{err}");
}
