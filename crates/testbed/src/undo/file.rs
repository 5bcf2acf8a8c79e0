//! The file of an undo journal, and the locks that show whether somebody is still working with it.
//!
//! It contains JSON lines: a header with the boot ID, then [`UndoAction`]s. If a crash tore a line, its
//! change was never made, so the last line may be incomplete.
//!
//! The lock of the journal itself shows that its owner is alive. The processes that carry out the owner's
//! steps are killed along with it, but one that is in a system call ends only after that call, and its change
//! may happen long after the owner is gone. So each of them inherits the lock of a second file, and whoever
//! takes over the journal waits for that one as well.

use super::limits::violation;
use super::{PATIENCE, PAUSE};
use crate::Result;
use crate::error::TestbedError;
use crate::name::random_name;
use crate::way_back::UndoAction;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const SUFFIX: &str = "journal";
/// Suffix of the second file next to the journal.
const STEPS_SUFFIX: &str = "steps";
/// Suffix of a journal that is being created.
const NEW_SUFFIX: &str = "new";
/// Suffix of a journal that was moved aside.
const ASIDE_SUFFIX: &str = "bad";
const VERSION: u32 = 1;
/// The maximum size in bytes of a journal: far more than the undo actions of a trial need.
const LONGEST: u64 = 16 << 20;
/// Nobody else needs access to the undo actions.
const OWNER_ONLY: u32 = 0o700;
const WRITE_OF_OTHERS: u32 = 0o022;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    fsdyno_undo_journal: u32,
    boot_id: String,
    pid: u32,
}

/// A journal on disk, locked.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    file: File,
    header_bytes: u64,
    steps: Arc<OwnedFd>,
}

/// The journal of a process that is gone.
pub(super) struct Adopted {
    pub file: JournalFile,
    /// `true` if the machine has been rebooted since.
    pub rebooted: bool,
    pub actions: Vec<UndoAction>,
}

/// Why a journal is not used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It is not valid, or contains actions that fsdyno never journals.
    Bad(String),
    /// It was written by a newer fsdyno, in this version of the format.
    Newer(u32),
}

impl JournalFile {
    /// Creates one in this directory, which is created if necessary.
    pub fn create(directory: &Path) -> Result<Self> {
        let name = random_name();
        let path = directory.join(format!("{name}.{SUFFIX}"));
        let fail = |action| failed(action, &path);
        make_directory(directory).map_err(fail("create a directory for"))?;
        // It is locked before it gets a name that restore looks for, so that restore never sees it without
        // its owner.
        let unlocked = directory.join(format!("{name}.{NEW_SUFFIX}"));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&unlocked)
            .map_err(fail("create"))?;
        file.try_lock().map_err(|error| fail("lock")(error.into()))?;
        let header = Header { fsdyno_undo_journal: VERSION, boot_id: boot_id(), pid: std::process::id() };
        let line = json_line(&header).map_err(fail("write"))?;
        let written = file.write_all(&line).and_then(|()| file.sync_all()).map_err(fail("write"));
        if let Err(error) = written.and_then(|()| fs::rename(&unlocked, &path).map_err(fail("rename"))) {
            // `restore` removes it otherwise.
            let _ = fs::remove_file(&unlocked);
            return Err(error);
        }
        let steps = open_steps(&path).map_err(fail("create the lock of"))?;
        steps.try_lock().map_err(|error| fail("lock")(error.into()))?;
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(fail("sync the directory of"))?;
        Ok(JournalFile { path, file, header_bytes: line.len() as u64, steps: Arc::new(steps.into()) })
    }

    /// Takes over a journal. `None` if its owner is alive, or if it has disappeared.
    ///
    /// A process that hangs in the kernel for good holds the second lock for good, and what does not depend
    /// on it still has to be undone: so the wait is limited.
    pub fn adopt(path: &Path) -> Result<Option<std::result::Result<Adopted, Unusable>>> {
        let fail = |action| failed(action, path);
        let mut file = match open_own(path) {
            Ok(Ok(file)) => file,
            Ok(Err(reason)) => return Ok(Some(Err(Unusable::Bad(reason)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail("open")(error)),
        };
        // A child that is being started has all open files of its parent until it executes another program.
        if !locked(&file, || !owner_lives(path)).map_err(fail("lock"))? || !path.exists() {
            return Ok(None);
        }
        let steps = open_steps(path).map_err(fail("open the lock of"))?;
        locked(&steps, || true).map_err(fail("wait for the lock of"))?;
        let mut bytes = Vec::new();
        (&mut file).take(LONGEST + 1).read_to_end(&mut bytes).map_err(fail("read"))?;
        let (header, header_bytes, actions) = match parse(&bytes) {
            Ok(parsed) => parsed,
            Err(unusable) => return Ok(Some(Err(unusable))),
        };
        file.seek(io::SeekFrom::End(0)).map_err(fail("read"))?;
        let file =
            JournalFile { path: path.to_path_buf(), file, header_bytes, steps: Arc::new(steps.into()) };
        Ok(Some(Ok(Adopted { file, rebooted: header.boot_id != boot_id(), actions })))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor that every process that carries out steps has to inherit.
    pub fn steps(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.steps)
    }

    /// Fails if its path no longer leads to it: what is written to it now would be lost with this process.
    pub fn verify_in_place(&self) -> Result<()> {
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        let own = self.file.metadata().map(identity).map_err(failed("examine", &self.path))?;
        let found = fs::metadata(&self.path).map(identity).map_err(failed("find", &self.path))?;
        match found == own {
            true => Ok(()),
            false => Err(failed("find", &self.path)(io::Error::other("another file has its name"))),
        }
    }

    /// Appends lines, with one sync if one of them has to be known after the machine has gone down.
    pub fn append(&mut self, actions: &[UndoAction]) -> Result<()> {
        self.verify_in_place()?;
        self.write(actions).map_err(failed("append to", &self.path))
    }

    fn write(&mut self, actions: &[UndoAction]) -> io::Result<()> {
        let mut lines = Vec::new();
        for action in actions {
            lines.extend(json_line(action)?);
        }
        let end = self.file.stream_position()?;
        let mut written = self.file.write_all(&lines);
        if actions.iter().any(UndoAction::outlives_reboot) {
            written = written.and_then(|()| self.file.sync_data());
        }
        if written.is_err() {
            // An incomplete line must not precede the next one.
            self.file.set_len(end)?;
            self.file.seek(io::SeekFrom::Start(end))?;
        }
        written
    }

    /// Forgets every action.
    pub fn clear(&mut self) {
        // A journal that is kept longer than necessary is replayed without effect.
        let _ = self.file.set_len(self.header_bytes);
        let _ = self.file.seek(io::SeekFrom::End(0));
    }

    /// Removes it, the second file first: a journal without one can be taken over like any other. One that
    /// somebody has removed before is not left behind.
    pub fn remove(self) -> Result<()> {
        for path in [self.path.with_extension(STEPS_SUFFIX), self.path] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(failed("remove", &path))?,
            }
        }
        Ok(())
    }
}

/// Parses a journal: its header, the length of that, and the undo actions.
fn parse(bytes: &[u8]) -> std::result::Result<(Header, u64, Vec<UndoAction>), Unusable> {
    let bad = |line: usize, why: String| Unusable::Bad(format!("line {line}: {why}"));
    if bytes.len() as u64 > LONGEST {
        return Err(Unusable::Bad(format!("it is longer than {LONGEST} bytes")));
    }
    // A crash tore off what follows the last line end, and its change was not made.
    let whole = &bytes[..bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)];
    let mut lines = whole.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let Version { fsdyno_undo_journal: version } =
        serde_json::from_slice(first).map_err(|error| bad(1, error.to_string()))?;
    if version > VERSION {
        return Err(Unusable::Newer(version));
    }
    let header: Header = serde_json::from_slice(first).map_err(|error| bad(1, error.to_string()))?;
    let mut actions = Vec::new();
    for (index, line) in lines.enumerate() {
        let action = serde_json::from_slice(line).map_err(|error| bad(index + 2, error.to_string()))?;
        if let Some(violation) = violation(&action) {
            return Err(bad(index + 2, violation));
        }
        actions.push(action);
    }
    Ok((header, first.len() as u64, actions))
}

/// The part of the header that every version has.
#[derive(Deserialize)]
struct Version {
    fsdyno_undo_journal: u32,
}

/// Opens a journal, which must be a file of fsdyno's own: `Err` says why it is not.
fn open_own(path: &Path) -> io::Result<std::result::Result<File, String>> {
    // A pipe without a writer would block for ever.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Ok(Err("it is a symbolic link".to_string()));
        }
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            return Ok(Err("it is a directory".to_string()));
        }
        result => result?,
    };
    let found = file.metadata()?;
    let user = geteuid().as_raw();
    Ok(match found {
        _ if !found.is_file() => Err("it is not a regular file".to_string()),
        _ if found.nlink() > 1 => Err("it has a second hard link".to_string()),
        _ if found.uid() != user => Err(format!("it belongs to user {}", found.uid())),
        _ if found.mode() & WRITE_OF_OTHERS != 0 => Err("others can write to it".to_string()),
        _ => Ok(file),
    })
}

/// Creates the directory of journals if necessary, and makes it private.
fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(directory)?;
    let found = fs::metadata(directory)?;
    let open = found.permissions().mode() & !OWNER_ONLY & 0o777 != 0;
    match open && found.uid() == geteuid().as_raw() {
        true => fs::set_permissions(directory, Permissions::from_mode(OWNER_ONLY)),
        false => Ok(()),
    }
}

/// Renames a journal in place, so that it is not used again. An existing file of that name stays.
pub(super) fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.with_extension(ASIDE_SUFFIX);
    if fs::symlink_metadata(&aside).is_ok() {
        aside = path.with_extension(format!("{}.{ASIDE_SUFFIX}", random_name()));
    }
    fs::rename(path, &aside)?;
    // The lock of an unused journal serves no purpose; `fsdyno restore` works without it.
    let _ = fs::remove_file(path.with_extension(STEPS_SUFFIX));
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(aside)
}

/// The journals in a directory.
pub(super) fn journals(directory: &Path) -> Result<Vec<PathBuf>> {
    with_suffix(directory, SUFFIX)
}

/// Removes journals that were never finished: whoever created them is gone, and changed nothing.
pub(super) fn remove_unfinished(directory: &Path) -> Result<()> {
    for path in with_suffix(directory, NEW_SUFFIX)? {
        let fail = |action| failed(action, &path);
        match open_own(&path) {
            Ok(Ok(file)) if locked(&file, || false).map_err(fail("lock"))? => {
                fs::remove_file(&path).map_err(fail("remove"))?;
            }
            // Somebody is about to rename it, or has, or it is not one of fsdyno's.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail("open")(error)),
        }
    }
    Ok(())
}

/// The journals in a directory that were moved aside.
pub(super) fn aside(directory: &Path) -> Result<Vec<PathBuf>> {
    with_suffix(directory, ASIDE_SUFFIX)
}

fn with_suffix(directory: &Path, suffix: &str) -> Result<Vec<PathBuf>> {
    let fail = |source| failed("search for", directory)(source);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == suffix) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Locks a file; returns whether that succeeded, waiting for [`PATIENCE`] while there is hope.
fn locked(file: &File, hope: impl Fn() -> bool) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE && hope() => {
                std::thread::sleep(PAUSE)
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Returns whether the process named in a journal is running; assumes so if that cannot be determined.
fn owner_lives(journal: &Path) -> bool {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let header = text.lines().next().and_then(|line| serde_json::from_str::<Header>(line).ok());
    header.is_none_or(|header| Path::new(&format!("/proc/{}", header.pid)).exists())
}

/// An error with a journal, from what the system said.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TestbedError + use<> {
    let path = path.to_path_buf();
    move |source| TestbedError::Journal { action, path, source }
}

/// The second file of a journal; one of an earlier version has none.
fn open_steps(journal: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options.open(journal.with_extension(STEPS_SUFFIX))
}

/// The boot ID of the machine that keeps the journal; see random(4).
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string()).unwrap_or_default()
}

fn json_line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use tempfile::TempDir;

    /// A journal whose owner is gone, while a process that inherited its second lock still runs this script.
    fn left_by_a_step(directory: &TempDir, script: &str) -> (PathBuf, Child) {
        let journal = JournalFile::create(directory.path()).unwrap();
        let lock = journal.steps().try_clone().unwrap();
        let step =
            Command::new("sh").args(["-c", script]).current_dir(directory).stdin(lock).spawn().unwrap();
        let path = journal.path().to_path_buf();
        disown(&path);
        (path, step)
    }

    /// Makes a process that has ended the owner of a journal. What the kernel closes when a program is
    /// executed may stay open for a moment after its start was reported: if the owner is alive, that would be
    /// taken for the owner's own.
    fn disown(path: &Path) {
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let (ours, its) = (std::process::id(), gone.id());
        let text = fs::read_to_string(path).unwrap();
        let disowned = text.replace(&format!("\"pid\":{ours}"), &format!("\"pid\":{its}"));
        assert_ne!(disowned, text);
        fs::write(path, disowned).unwrap();
    }

    fn adopted(path: &Path) -> Option<Adopted> {
        JournalFile::adopt(path).unwrap().map(|adopted| adopted.unwrap_or_else(|bad| panic!("{bad:?}")))
    }

    /// Tests run one at a time: a process started by another one would inherit its open files until it
    /// executes its program.
    #[test]
    fn steps_that_outlive_their_owner_are_waited_for_but_not_for_ever() {
        let directory = TempDir::new().unwrap();
        let (path, mut step) = left_by_a_step(&directory, "sleep 0.5; echo > changed");
        assert!(adopted(&path).is_some(), "its owner is gone");
        assert!(directory.path().join("changed").exists(), "what it changed would not be seen");
        step.wait().unwrap();

        let (path, mut step) = left_by_a_step(&directory, "exec sleep 1000");
        let adopted = adopted(&path);
        let runs = step.try_wait().unwrap().is_none();
        step.kill().unwrap();
        step.wait().unwrap();
        assert!(adopted.is_some() && runs);
    }

    #[test]
    fn the_directory_of_journals_is_closed_to_others() {
        let directory = TempDir::new().unwrap();
        let undo = directory.path().join("undo");
        let mode = || fs::metadata(&undo).unwrap().permissions().mode() & 0o777;
        JournalFile::create(&undo).unwrap();
        assert_eq!(mode(), OWNER_ONLY);
        fs::set_permissions(&undo, Permissions::from_mode(0o755)).unwrap();
        JournalFile::create(&undo).unwrap();
        assert_eq!(mode(), OWNER_ONLY);
    }

    #[test]
    fn one_that_was_never_finished_is_removed_unless_its_owner_lives() {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        drop(options.open(path("gone.new")).unwrap());
        let held = options.open(path("held.new")).unwrap();
        held.try_lock().unwrap();
        remove_unfinished(directory.path()).unwrap();
        assert!(!path("gone.new").exists() && path("held.new").exists());
    }

    #[test]
    fn nothing_is_left_of_one_that_is_removed() {
        let directory = TempDir::new().unwrap();
        JournalFile::create(directory.path()).unwrap().remove().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
