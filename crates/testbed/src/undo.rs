//! The undo journal: before each change, the way back is appended to a file and synced.
//!
//! One file per sweep process, held under flock by its owner, so that [`restore`] leaves the journals of a running sweep
//! alone. JSON lines: a header with the boot, then [`UndoAction`]s. Undoing goes through them in reverse and is idempotent:
//! each action first looks whether there is anything to undo, so that it does not matter whether the change was made, not
//! made, or undone already. Entries carry identities; nothing is found by the pattern of its name. After a reboot only
//! what is in files, directories and on disks means anything: mounts, loop devices and settings went with the kernel that
//! held them.
//!
//! A line that was torn by a crash was never followed by its change, so the last line may be incomplete.

use crate::error::TestbedError;
use crate::layer::{self, Label};
use crate::{Result, tunable};
use fsdyno_host::probe::FileIdentity;
use fsdyno_host::{Command, DeviceHandle, Host, HostError};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long undoing waits for something that is still busy: an engine that was killed may still be dying.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// How long writing back what memory holds for a slow device may take.
const WRITE_BACK: Duration = Duration::from_secs(300);
const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const ENOTEMPTY: i32 = 39;
const SUFFIX: &str = "journal";

/// The way back from one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "undo")]
pub enum UndoAction {
    /// Remove a file that we made.
    RemoveFile {
        /// Where it was made.
        path: PathBuf,
        /// Which file it is; `None` only for a name of 128 random bits, journaled before the file was made.
        identity: Option<FileIdentity>,
    },
    /// Detach every loop device on an image that we made.
    DetachLoop {
        /// Where it was made.
        path: PathBuf,
        /// Which file it is.
        image: FileIdentity,
    },
    /// Write a setting of sysfs or a sysctl back.
    WriteSetting {
        /// Its file.
        path: PathBuf,
        /// What it was.
        old: String,
        /// What we set; it is written back only while this is in force. `None`: a setting that changed with another one
        /// and is written back whenever it differs.
        new: Option<String>,
    },
    /// Remove an empty directory of a random name that we made.
    RemoveDirectory {
        /// Where.
        path: PathBuf,
    },
    /// Remove a directory of a random name that we made, with everything that the engine has left in it.
    RemoveTree {
        /// Where.
        path: PathBuf,
    },
    /// Unmount what we mounted on our own directory.
    Unmount {
        /// Where.
        target: PathBuf,
    },
    /// Stop the array of md with this UUID of random bits.
    StopArray {
        /// In mdadm's words: four groups of eight digits.
        uuid: String,
    },
    /// Remove the device-mapper device of a random name.
    RemoveMapping {
        /// Its name.
        name: String,
    },
    /// Remove what a layer has written on a block device to know it again.
    ClearLabel {
        /// The device as the plan names it.
        disk: PathBuf,
        /// What it has to carry to be ours.
        label: Label,
    },
}

impl UndoAction {
    /// What is left when it was not undone, for a person.
    fn describe(&self) -> String {
        match self {
            UndoAction::RemoveFile { path, .. } => format!("file '{}'", path.display()),
            UndoAction::DetachLoop { path, .. } => format!("loop device on '{}'", path.display()),
            UndoAction::WriteSetting { path, old, .. } => {
                format!("setting '{}', which was '{old}'", path.display())
            }
            UndoAction::RemoveDirectory { path } | UndoAction::RemoveTree { path } => {
                format!("directory '{}'", path.display())
            }
            UndoAction::Unmount { target } => format!("mount '{}'", target.display()),
            UndoAction::StopArray { uuid } => format!("array with UUID {uuid}"),
            UndoAction::RemoveMapping { name } => format!("mapping '{name}'"),
            UndoAction::ClearLabel { disk, label: Label::Md { .. } } => {
                format!("superblock of an array on '{}'", disk.display())
            }
            UndoAction::ClearLabel { disk, label: Label::Lvm { .. } } => {
                format!("label of a volume group on '{}'", disk.display())
            }
        }
    }

    /// Files stay, and so does what is written on disks, from which arrays and volumes come up again by themselves.
    fn outlives_reboot(&self) -> bool {
        !matches!(
            self,
            UndoAction::DetachLoop { .. } | UndoAction::WriteSetting { .. } | UndoAction::Unmount { .. }
        )
    }

    /// Whether it takes down something that stands on disks.
    fn is_layer(&self) -> bool {
        matches!(self, UndoAction::StopArray { .. } | UndoAction::RemoveMapping { .. })
    }
}

/// What undoing did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// What was undone, one line each; what needed no undoing is not listed.
    pub undone: Vec<String>,
    /// What is left behind and why, one line each.
    pub left: Vec<String>,
    /// Settings that somebody else changed meanwhile, which stay as they are.
    pub foreign: Vec<String>,
}

/// What [`restore`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Journals that no live process holds, all of them processed.
    pub journals: usize,
    /// Journals of sweeps that are running.
    pub running: usize,
    /// What was undone, left and foreign, over all journals.
    pub report: UndoReport,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    fsdyno_undo_journal: u32,
    boot_id: String,
    pid: u32,
}

const VERSION: u32 = 1;

/// The journal of one process, and the devices that it holds open.
#[derive(Debug)]
pub struct UndoJournal {
    /// None for a host that is gone, with everything that was done on it, when its process is.
    on_disk: Option<OnDisk>,
    rebooted: bool,
    actions: Vec<UndoAction>,
    open: Vec<DeviceHandle>,
}

/// The file of a journal.
#[derive(Debug)]
struct OnDisk {
    path: PathBuf,
    file: File,
    header_bytes: u64,
}

impl UndoJournal {
    /// A journal for a host that ends with this process: nothing done on it can outlive what would undo it.
    pub fn in_memory() -> Self {
        UndoJournal { on_disk: None, rebooted: false, actions: Vec::new(), open: Vec::new() }
    }

    /// Makes a journal in this directory, which is made too where it is missing.
    ///
    /// # Errors
    /// [`TestbedError::Journal`] when it cannot be written.
    pub fn create(directory: &Path) -> Result<Self> {
        let name = random_name();
        let path = directory.join(format!("{name}.{SUFFIX}"));
        let fail = |action| {
            let path = path.clone();
            move |source| TestbedError::Journal { action, path, source }
        };
        fs::create_dir_all(directory).map_err(fail("make a directory for"))?;
        // Locked before it has a name that restore looks at, so that restore never sees it without its owner.
        let unlocked = directory.join(format!("{name}.new"));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&unlocked)
            .map_err(fail("create"))?;
        file.try_lock().map_err(|error| fail("lock")(error.into()))?;
        let header = Header { fsdyno_undo_journal: VERSION, boot_id: boot_id(), pid: std::process::id() };
        let line = json_line(&header).map_err(fail("write"))?;
        file.write_all(&line).and_then(|()| file.sync_all()).map_err(fail("write"))?;
        fs::rename(&unlocked, &path).map_err(fail("name"))?;
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(fail("sync the directory of"))?;
        let header_bytes = line.len() as u64;
        let on_disk = Some(OnDisk { path, file, header_bytes });
        Ok(UndoJournal { on_disk, rebooted: false, actions: Vec::new(), open: Vec::new() })
    }

    /// Its file, where it has one.
    pub fn path(&self) -> Option<&Path> {
        self.on_disk.as_ref().map(|on_disk| on_disk.path.as_path())
    }

    /// Appends the ways back from changes that are about to be made, with one sync.
    ///
    /// # Errors
    /// [`TestbedError::Journal`]; then the changes must not be made.
    pub fn append(&mut self, actions: &[UndoAction]) -> Result<()> {
        if let Some(on_disk) = &mut self.on_disk {
            on_disk.write(actions).map_err(|source| TestbedError::Journal {
                action: "append to",
                path: on_disk.path.clone(),
                source,
            })?;
        }
        self.actions.extend_from_slice(actions);
        Ok(())
    }

    /// Whether nothing waits to be undone.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Remembers an open device: it must be closed before what it stands on can go.
    pub(crate) fn opened(&mut self, handle: DeviceHandle) {
        self.open.push(handle);
    }

    /// Closes a device.
    pub(crate) fn close_device(
        &mut self,
        host: &mut dyn Host,
        handle: DeviceHandle,
    ) -> fsdyno_host::Result<()> {
        host.close_device(handle)?;
        self.open.retain(|other| *other != handle);
        Ok(())
    }

    /// Undoes everything in reverse, mounts first. What could be undone leaves the journal; what is left can be tried again.
    pub fn undo_all(&mut self, host: &mut dyn Host) -> UndoReport {
        let mut report = UndoReport::default();
        // A device that cannot be closed shows itself when what it stands on stays busy.
        self.open.retain(|handle| host.close_device(*handle).is_err());
        let mut left: Vec<UndoAction> = Vec::new();
        let mut actions = std::mem::take(&mut self.actions);
        actions.reverse();
        // Settings of a device wait for what is under way on it, which unmounting completes. A disk can be written to once
        // nothing stands on it.
        actions.sort_by_key(|action| match action {
            UndoAction::Unmount { .. } => 0,
            UndoAction::ClearLabel { .. } => 2,
            _ => 1,
        });
        let layers: Vec<UndoAction> = actions.iter().filter(|action| action.is_layer()).cloned().collect();
        for action in actions {
            if self.rebooted && !action.outlives_reboot() {
                continue;
            }
            if let Some(reason) = stands_on(&action, &left) {
                report.left.push(format!("{}: {reason}", action.describe()));
                left.push(action);
                continue;
            }
            let step = || {
                let result = undo(host, &action, self.rebooted, &mut self.open);
                if result.as_ref().is_err_and(|error| error.errno() == Some(EBUSY)) {
                    // udev puts an array together again when it sees a disk that belonged to it.
                    let again = layers.iter().map(|layer| undo(host, layer, self.rebooted, &mut self.open));
                    again.for_each(drop);
                }
                result
            };
            match patiently(step) {
                Ok(Undone::Nothing) => {}
                Ok(Undone::Done(text)) => report.undone.push(text),
                Ok(Undone::Foreign(text)) => report.foreign.push(text),
                Err(error) => {
                    report.left.push(format!("{}: {error}", action.describe()));
                    left.push(action);
                }
            }
        }
        left.reverse();
        self.actions = left;
        if let (true, Some(on_disk)) = (self.actions.is_empty(), &mut self.on_disk) {
            // A journal that stays longer than it need is replayed without effect.
            let _ = on_disk.file.set_len(on_disk.header_bytes);
            let _ = on_disk.file.seek(io::SeekFrom::End(0));
        }
        report
    }

    /// Gives the journal up. Its file goes when nothing is left to undo, and stays for `fsdyno restore` otherwise.
    ///
    /// # Errors
    /// [`TestbedError::Journal`] when the file cannot be removed.
    pub fn close(self) -> Result<()> {
        match self.on_disk {
            Some(OnDisk { path, .. }) if self.actions.is_empty() => fs::remove_file(&path)
                .map_err(|source| TestbedError::Journal { action: "remove", path, source }),
            _ => Ok(()),
        }
    }

    /// Takes over the journal of a process that is gone. `None`: its owner lives, or it is gone meanwhile.
    fn adopt(path: &Path) -> Result<Option<Self>> {
        let fail = |action| move |source| TestbedError::Journal { action, path: path.to_path_buf(), source };
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail("open")(error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(fail("lock")(error)),
        }
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(path).map_err(fail("read"))?;
        // What stands after the last line end was torn off by the crash, and its change was not made.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let parse_error =
            |line| move |source| TestbedError::JournalLine { path: path.to_path_buf(), line, source };
        let mut lines = whole.lines();
        let first = lines.next().unwrap_or_default();
        let header: Header = serde_json::from_str(first).map_err(parse_error(1))?;
        let actions = lines
            .enumerate()
            .map(|(index, line)| serde_json::from_str(line).map_err(parse_error(index + 2)))
            .collect::<Result<Vec<UndoAction>>>()?;
        file.seek(io::SeekFrom::End(0)).map_err(fail("read"))?;
        let header_bytes = first.len() as u64 + 1;
        Ok(Some(UndoJournal {
            on_disk: Some(OnDisk { path: path.to_path_buf(), file, header_bytes }),
            rebooted: header.boot_id != boot_id(),
            actions,
            open: Vec::new(),
        }))
    }
}

impl OnDisk {
    fn write(&mut self, actions: &[UndoAction]) -> io::Result<()> {
        let mut lines = Vec::new();
        for action in actions {
            lines.extend(json_line(action)?);
        }
        let end = self.file.stream_position()?;
        let written = self.file.write_all(&lines).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // Half a line must not stand before the next one.
            self.file.set_len(end)?;
            self.file.seek(io::SeekFrom::Start(end))?;
        }
        written
    }
}

/// Undoes what processes that are gone have left: every journal in this directory that no live process holds. A journal
/// is removed when all of it is undone. Doing it again changes nothing.
///
/// # Errors
/// [`TestbedError::Journal`] or [`TestbedError::JournalLine`] when a journal cannot be read.
pub fn restore(host: &mut dyn Host, directory: &Path) -> Result<RestoreReport> {
    let mut result = RestoreReport::default();
    for path in journals(directory)? {
        let Some(mut journal) = UndoJournal::adopt(&path)? else {
            result.running += 1;
            continue;
        };
        result.journals += 1;
        let report = journal.undo_all(host);
        result.report.undone.extend(report.undone);
        result.report.left.extend(report.left);
        result.report.foreign.extend(report.foreign);
        journal.close()?;
    }
    Ok(result)
}

fn journals(directory: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| TestbedError::Journal { action: "look for", path: directory.to_path_buf(), source };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// What undoing one action came to.
#[derive(Debug)]
pub(crate) enum Undone {
    Nothing,
    Done(String),
    Foreign(String),
}

/// `open` gets a device that could not be closed.
fn undo(
    host: &mut dyn Host,
    action: &UndoAction,
    rebooted: bool,
    open: &mut Vec<DeviceHandle>,
) -> fsdyno_host::Result<Undone> {
    match action {
        UndoAction::RemoveFile { path, identity } => {
            let Some(found) = host.file_identity(path)? else { return Ok(Undone::Nothing) };
            let ours = match identity {
                None => found.regular,
                Some(identity) => same_file(&found, identity, rebooted),
            };
            if !ours {
                return Ok(Undone::Foreign(format!(
                    "'{}' is another file than the one we made",
                    path.display()
                )));
            }
            host.remove_file(path)?;
            Ok(Undone::Done(format!("removed '{}'", path.display())))
        }
        UndoAction::DetachLoop { image, path } => {
            let mut nodes = Vec::new();
            for found in host.loops()? {
                if found.backing_device == image.device && found.backing_inode == image.inode {
                    host.detach_loop(&found.device)?;
                    nodes.push(found.device.display().to_string());
                }
            }
            if nodes.is_empty() {
                return Ok(Undone::Nothing);
            }
            Ok(Undone::Done(format!("detached {} from '{}'", nodes.join(", "), path.display())))
        }
        UndoAction::WriteSetting { path, old, new } => {
            let current = match host.read_text(path) {
                Ok(text) => tunable::active(&text),
                // The device went, and its settings with it.
                Err(HostError::System { errno: ENOENT, .. }) => return Ok(Undone::Nothing),
                Err(error) => return Err(error),
            };
            if tunable::same(&current, old) {
                return Ok(Undone::Nothing);
            }
            if new.as_ref().is_some_and(|new| !tunable::same(&current, new)) {
                return Ok(Undone::Foreign(format!(
                    "'{}' is '{current}' now, which we did not set",
                    path.display()
                )));
            }
            host.write_text(path, old)?;
            Ok(Undone::Done(format!("set '{}' back to '{old}'", path.display())))
        }
        UndoAction::RemoveDirectory { path } => {
            if host.file_identity(path)?.is_none() {
                return Ok(Undone::Nothing);
            }
            host.remove_directory(path)?;
            Ok(Undone::Done(format!("removed '{}'", path.display())))
        }
        UndoAction::RemoveTree { path } => {
            if host.file_identity(path)?.is_none() {
                return Ok(Undone::Nothing);
            }
            match host.remove_directory(path) {
                Err(HostError::System { errno: ENOTEMPTY, .. }) => remove_tree(host, path)?,
                result => result?,
            }
            Ok(Undone::Done(format!("removed '{}'", path.display())))
        }
        UndoAction::Unmount { target } => {
            if !host.mounts()?.iter().any(|mount| mount.target == *target) {
                return Ok(Undone::Nothing);
            }
            write_back(host, target)?;
            host.unmount(target)?;
            Ok(Undone::Done(format!("unmounted '{}'", target.display())))
        }
        UndoAction::StopArray { uuid } => layer::stop_array(host, uuid),
        UndoAction::RemoveMapping { name } => layer::remove_mapping(host, name),
        UndoAction::ClearLabel { disk, label } => layer::clear_label(host, disk, label, open),
    }
}

/// Writes a filesystem back before it is unmounted. Unmounting keeps it locked meanwhile, and where writing hangs, so would
/// everybody who goes through all filesystems, `drop_caches` among them: such a filesystem stays mounted.
fn write_back(host: &mut dyn Host, target: &Path) -> fsdyno_host::Result<()> {
    let sync = Command::new("sync").args(["-f", &target.to_string_lossy()]);
    match host.run(&Command { limit: WRITE_BACK, ..sync }) {
        Err(error @ HostError::Hung { .. }) => Err(error),
        // Unmounting tells of every other error.
        _ => Ok(()),
    }
}

/// Removes what is left of the engine's work; other filesystems that were mounted in it are not followed.
fn remove_tree(host: &mut dyn Host, path: &Path) -> fsdyno_host::Result<()> {
    let path = path.to_string_lossy();
    let output = host.run(&Command::new("rm").args(["-rf", "--one-file-system", "--", &path]))?;
    if output.status == 0 {
        return Ok(());
    }
    Err(HostError::System {
        action: "remove".to_string(),
        object: path.into_owned(),
        errno: 0,
        reason: output.stderr.trim().to_string(),
    })
}

/// Whether a file is the one that we made. Device numbers are given anew at boot; inode and birth stay.
fn same_file(found: &FileIdentity, ours: &FileIdentity, rebooted: bool) -> bool {
    let same_device = found.device == ours.device || (rebooted && ours.birth_ns.is_some());
    same_device
        && found.inode == ours.inode
        && found.birth_ns == ours.birth_ns
        && found.regular == ours.regular
}

/// What has to stay because something that stands on it, or would change it again, could not be undone: an image whose
/// loop device is still attached, a device whose filesystem is still mounted, a setting that changes along with one that is
/// not back yet.
fn stands_on(action: &UndoAction, left: &[UndoAction]) -> Option<&'static str> {
    left.iter().find_map(|other| match (action, other) {
        (UndoAction::RemoveFile { identity: Some(identity), .. }, UndoAction::DetachLoop { image, .. }) => {
            (image == identity).then_some("its loop device is still attached")
        }
        (
            UndoAction::WriteSetting { path, new: None, .. },
            UndoAction::WriteSetting { path: other, new: Some(_), .. },
        ) => (path.parent() == other.parent()).then_some("the setting that it depends on is not back yet"),
        (UndoAction::RemoveDirectory { path }, UndoAction::Unmount { target }) => {
            (path == target).then_some("it is still mounted")
        }
        // A journal is that of one trial, so that its mount is on its devices.
        (action, UndoAction::Unmount { .. })
            if action.is_layer()
                || matches!(action, UndoAction::DetachLoop { .. } | UndoAction::ClearLabel { .. }) =>
        {
            Some("its filesystem is still mounted")
        }
        (UndoAction::DetachLoop { .. } | UndoAction::ClearLabel { .. }, other) if other.is_layer() => {
            Some("an array or a mapping still stands on it")
        }
        (UndoAction::WriteSetting { path, .. }, UndoAction::Unmount { .. }) => {
            path.starts_with("/sys").then_some("the filesystem on its device is still mounted")
        }
        _ => None,
    })
}

fn patiently(mut step: impl FnMut() -> fsdyno_host::Result<Undone>) -> fsdyno_host::Result<Undone> {
    let start = Instant::now();
    loop {
        match step() {
            Err(HostError::System { errno: EBUSY, .. }) if start.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE)
            }
            result => return result,
        }
    }
}

/// 128 random bits in hexadecimal: a name that nobody else has.
pub(crate) fn random_name() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// This boot of the machine that keeps the journal; see random(4).
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string()).unwrap_or_default()
}

fn json_line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
