//! Undo journals, which root follows, replayed on a machine in memory.

use crate::machine;
use fsdyno_host::probe::FileIdentity;
use fsdyno_testbed::UndoAction;
use fsdyno_testbed::undo::restore_within;
use fsdyno_testkit::fake::Machine;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

const NAME: &str = "00000000000000000000000000000000.journal";

/// The first line of a journal of this boot.
static HEADER: LazyLock<String> = LazyLock::new(|| {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{{\"fsdyno_undo_journal\":1,\"boot_id\":\"{}\",\"pid\":4194305}}\n", boot.trim())
});

/// Whatever a journal says, restoring touches nothing that is not ours. An input that begins with `!` is a
/// whole file after that character, any other input the entries of a journal of this boot.
pub fn journal(data: &[u8]) {
    let text = match data.split_first() {
        Some((b'!', whole)) => whole.to_vec(),
        _ => [HEADER.as_bytes(), data].concat(),
    };
    let mut host = machine::with_remains();
    let identities = identities(&text);
    if identities.iter().any(|file| machine::is_of_others(&host, file)) {
        return;
    }
    let before = host.snapshot();
    let directory = scratch();
    let path = directory.path().join(NAME);
    let mut restore = |write: bool| {
        if write {
            fs::write(&path, &text).expect("memory");
        }
        let report = restore_within(&mut host, directory.path(), Duration::ZERO).expect("a report");
        machine::assert_untouched(&before, &host.snapshot());
        (report, host.snapshot())
    };
    let (report, after) = restore(true);
    let followed = report.aside.is_empty();
    assert!(
        followed || without_settings(&after) == without_settings(&before),
        "it was moved aside, but also followed"
    );
    // What was left is tried again; another entry may have been in its way.
    let (again, _) = restore(false);
    assert!(again.report.left.len() <= report.report.left.len(), "{again:?} after {report:?}");
    if report.report.left.is_empty() {
        assert!(!path.exists(), "a journal stays after everything in it was undone");
    }
    if report.report.left.is_empty() && !contradict(&identities) {
        let (_, replayed) = restore(true);
        assert_eq!(
            without_settings(&replayed),
            without_settings(&after),
            "undoing twice differs from undoing once"
        );
    }
}

/// A directory in memory if possible, because journals are synced to disk.
pub fn scratch() -> TempDir {
    let memory = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir());
    tempfile::tempdir_in(memory.unwrap_or_else(std::env::temp_dir)).expect("a directory")
}

/// The identities of files in the entries.
fn identities(journal: &[u8]) -> Vec<FileIdentity> {
    let entries = journal.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let identity = |entry| match entry {
        UndoAction::RemoveFile { identity, .. } => identity,
        UndoAction::DetachLoop { image, .. } => Some(image),
        _ => None,
    };
    entries.filter_map(identity).collect()
}

/// Returns whether two entries describe one inode differently: after the first is undone, the other has
/// nothing to compare.
fn contradict(identities: &[FileIdentity]) -> bool {
    identities.iter().any(|one| identities.iter().any(|other| one.inode == other.inode && one != other))
}

/// A machine without its settings. Entries for one setting may contradict each other, and then each replay
/// finds what the other one wrote.
fn without_settings(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.texts.retain(|path, _| !path.starts_with("/proc/sys") && !path.starts_with(Path::new("/sys")));
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The journal that fuzzing varies must be followed, or its variations would not be followed either.
    #[test]
    fn the_honest_seed_removes_all_remains() {
        let mut host = machine::with_remains();
        let directory = scratch();
        let seed = include_bytes!("../../../fuzz/corpus/journal/seed-honest");
        fs::write(directory.path().join(NAME), [HEADER.as_bytes(), seed].concat()).expect("memory");
        let report = restore_within(&mut host, directory.path(), Duration::ZERO).expect("a report");
        assert_eq!(report.report.left, [""; 0]);
        let after = host.snapshot();
        assert_eq!((after.files.len(), after.loops.len(), after.mounts.len()), (1, 1, 1), "{after:?}");
        assert!(
            after.layers.is_empty() && after.labels.is_empty() && after.signatures.is_empty(),
            "{after:?}"
        );
        assert!(
            !after.directories.iter().any(|path| path.display().to_string().contains("fsdyno")),
            "{after:?}"
        );
        assert_eq!(after.texts[Path::new("/proc/sys/vm/dirty_ratio")], "20\n");
    }

    #[test]
    #[should_panic(expected = "/home' was unmounted")]
    fn changes_to_what_belongs_to_others_are_detected() {
        let mut host = machine::with_remains();
        let before = host.snapshot();
        host.as_somebody_else(|host| fsdyno_host::Steps::unmount(host, Path::new("/home")))
            .expect("unmounted");
        machine::assert_untouched(&before, &host.snapshot());
    }
}
