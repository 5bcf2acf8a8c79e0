//! The undo journal: before each change, the action that undoes it is appended to a file, which is synced if
//! that action has to be known after the machine has gone down.
//!
//! There is one file per sweep process, locked by its owner, so that [`restore`] leaves the journals of a
//! running sweep alone. Undoing goes through the [`UndoAction`]s in reverse and is idempotent: each action
//! first checks whether there is anything to undo, so it does not matter whether the change was made, not
//! made, or already undone. Entries contain identities; nothing is found by matching names. After a reboot
//! only files, directories and data on disks matter: mounts, loop devices and settings disappeared with the
//! kernel that held them.

mod file;
mod limits;
mod step;

use crate::Result;
use crate::error::TestbedError;
use crate::name::{mount_directory, random_name, trace_instance};
use crate::privilege::MissingPrivilege;
use crate::way_back::{MountSource, UndoAction, Undone, stands_on};
use file::{Adopted, JournalFile, Unusable};
use fsdyno_core::durability::RECORDER_SOURCE;
use fsdyno_host::probe::FileIdentity;
use fsdyno_host::{DeviceHandle, Host, HostError, ImageHandle, MountRequest};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use step::undo;

/// The time that undoing waits for something that is busy: an engine that was killed may still be exiting.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
const EBUSY: i32 = 16;
const EAGAIN: i32 = 11;

/// The outcome of undoing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// The changes that were undone, one line each; those that did not need undoing are not listed.
    pub undone: Vec<String>,
    /// The changes that are left behind and why, one line each.
    pub left: Vec<String>,
    /// Settings that somebody else has changed in the meantime, which stay as they are.
    pub foreign: Vec<String>,
}

/// The outcome of [`restore`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Journals that no live process holds, all of them processed.
    pub journals: usize,
    /// Journals of sweeps that are running.
    pub running: usize,
    /// Journals that were moved aside, now or before, because they are not valid: nothing in them is undone.
    pub aside: Vec<PathBuf>,
    /// The changes that were undone, left or foreign, in all journals.
    pub report: UndoReport,
}

/// The journal of one process, and the devices that it holds open.
#[derive(Debug)]
pub struct UndoJournal {
    /// `None` for a host that disappears together with its process and everything done on it.
    file: Option<JournalFile>,
    rebooted: bool,
    actions: Vec<UndoAction>,
    /// Settings that were seen in force as they were written.
    in_force: Vec<PathBuf>,
    open: Vec<DeviceHandle>,
    images: Vec<ImageHandle>,
    patience: Duration,
}

impl UndoJournal {
    /// A journal for a host that ends with this process: nothing done on it can outlive the process that
    /// would undo it.
    pub fn in_memory() -> Self {
        UndoJournal::empty(None)
    }

    fn empty(file: Option<JournalFile>) -> Self {
        UndoJournal {
            file,
            rebooted: false,
            actions: Vec::new(),
            in_force: Vec::new(),
            open: Vec::new(),
            images: Vec::new(),
            patience: PATIENCE,
        }
    }

    /// Fails if somebody has removed or moved its file: then nothing could undo a change after a crash.
    ///
    /// # Errors
    /// [`TestbedError::Journal`].
    pub fn verify_in_place(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), JournalFile::verify_in_place)
    }

    /// Creates a journal in this directory, which is created if necessary. From now on every process that
    /// carries out steps on the host is tracked: restoring waits until it is gone.
    ///
    /// # Errors
    /// [`TestbedError::Journal`] if it cannot be written.
    pub fn create(host: &mut dyn Host, directory: &Path) -> Result<Self> {
        let file = JournalFile::create(directory)?;
        host.hold(file.steps());
        Ok(UndoJournal::empty(Some(file)))
    }

    /// Its file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(JournalFile::path)
    }

    /// Appends the undo actions of changes that are about to be made, with at most one sync.
    ///
    /// # Errors
    /// [`TestbedError::Journal`]; then the changes must not be made.
    pub fn append(&mut self, actions: &[UndoAction]) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.append(actions)?;
        }
        self.remember(actions.iter().cloned());
        Ok(())
    }

    /// Names an instance of the kernel's tracing that is about to be created.
    ///
    /// # Errors
    /// As for [`UndoJournal::append`].
    pub fn trace_instance(&mut self) -> Result<String> {
        let name = trace_instance();
        self.append(&[UndoAction::RemoveTraceInstance { name: name.clone() }])?;
        Ok(name)
    }

    /// Journals a mount that is about to be made, unless it was made before in the same place.
    ///
    /// # Errors
    /// As for [`UndoJournal::append`].
    pub(crate) fn mounting(&mut self, request: &MountRequest) -> Result<()> {
        let mounted = MountSource { filesystem: request.filesystem.clone(), source: request.source.clone() };
        let way_back = UndoAction::Unmount { target: request.target.clone(), mounted: Some(mounted) };
        match self.actions.contains(&way_back) {
            true => Ok(()),
            false => self.append(&[way_back]),
        }
    }

    /// Names the directories of a recorder, which are about to be made: for its log, in this directory,
    /// and the one where its disk is shown.
    ///
    /// # Errors
    /// As for [`UndoJournal::append`].
    pub fn recorder(&mut self, parent: &Path) -> Result<(PathBuf, PathBuf)> {
        let (log, mountpoint) =
            (parent.join(format!("fsdyno-{}", random_name())), mount_directory(&random_name()));
        self.append(&[
            UndoAction::RemoveTree { path: log.clone() },
            UndoAction::RemoveDirectory { path: mountpoint.clone() },
            UndoAction::Unmount {
                target: mountpoint.clone(),
                mounted: Some(MountSource { filesystem: "fuse".to_string(), source: RECORDER_SOURCE.into() }),
            },
        ])?;
        Ok((log, mountpoint))
    }

    fn remember(&mut self, lines: impl Iterator<Item = UndoAction>) {
        for line in lines {
            match line {
                UndoAction::SettingInForce { path } => self.in_force.push(path),
                action => self.actions.push(action),
            }
        }
    }

    /// Returns whether nothing is left to undo.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Records which file was created under a name that was journaled before the file existed, so that
    /// another file that gets that name later is not taken for it.
    pub(crate) fn made(&mut self, name: &Path, file: &FileIdentity) {
        for action in &mut self.actions {
            if let UndoAction::RemoveFile { path, identity: identity @ None } = action
                && path == name
            {
                *identity = Some(file.clone());
            }
        }
    }

    /// Forgets a name that a file of fsdyno's no longer has.
    pub(crate) fn renamed(&mut self, name: &Path) {
        self.actions.retain(|action| !matches!(action, UndoAction::RemoveFile { path, .. } if path == name));
    }

    /// Remembers an open device: it must be closed before the devices beneath it can be removed.
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

    /// Remembers an open image, which uses space until it is closed, even after its file is removed.
    pub(crate) fn opened_image(&mut self, image: ImageHandle) {
        self.images.push(image);
    }

    /// Closes an image.
    pub(crate) fn close_image(&mut self, host: &mut dyn Host, image: ImageHandle) -> fsdyno_host::Result<()> {
        host.close_image(image)?;
        self.images.retain(|other| *other != image);
        Ok(())
    }

    /// Undoes everything in reverse, mounts first. What was undone leaves the journal; what is left can be
    /// tried again.
    pub fn undo_all(&mut self, host: &mut dyn Host) -> UndoReport {
        let mut report = UndoReport::default();
        // A device that cannot be closed shows up because the devices beneath it stay busy.
        self.open.retain(|handle| host.close_device(*handle).is_err());
        self.images.retain(|image| host.close_image(*image).is_err());
        let mut left: Vec<UndoAction> = Vec::new();
        let mut actions = std::mem::take(&mut self.actions);
        actions.reverse();
        // Settings of a device wait for the I/O in flight, which unmounting completes. A disk can be written
        // once nothing is built on it.
        actions.sort_by_key(|action| match action {
            UndoAction::Unmount { .. } => 0,
            UndoAction::ClearLabel { .. } => 2,
            _ => 1,
        });
        let layers: Vec<UndoAction> = actions.iter().filter(|action| action.is_layer()).cloned().collect();
        let taken_along: Vec<PathBuf> = actions.iter().filter_map(UndoAction::taken_along).cloned().collect();
        for action in actions {
            if self.rebooted && !action.outlives_reboot() {
                continue;
            }
            let violation = limits::violation(&action);
            if let Some(reason) = violation.as_deref().or_else(|| stands_on(&action, &left)) {
                report.left.push(format!("{}: {reason}", action.describe()));
                left.push(action);
                continue;
            }
            let now = action.clone().knowing(&self.in_force);
            let step = || {
                let result = undo(host, &now, self.rebooted, &mut self.open);
                if result.as_ref().is_err_and(|error| error.errno() == Some(EBUSY)) {
                    // udev reassembles an array when it sees a disk that belonged to it.
                    let again = layers.iter().map(|layer| undo(host, layer, self.rebooted, &mut self.open));
                    again.for_each(drop);
                }
                result
            };
            match patiently(self.patience, step) {
                Ok(Undone::Nothing) => {}
                Ok(Undone::Done(text)) => report.undone.push(text),
                // Another setting changed it as a side effect, and its own entry restores it.
                Ok(Undone::Foreign(_)) if action.is_of_setting(&taken_along) => {}
                Ok(Undone::Foreign(text)) => report.foreign.push(text),
                Err(error) => {
                    report.left.push(format!("{}: {error}", action.describe()));
                    left.push(action);
                }
            }
        }
        left.reverse();
        self.actions = left;
        if self.actions.is_empty() {
            self.in_force.clear();
            if let Some(file) = &mut self.file {
                file.clear();
            }
        }
        report
    }

    /// Removes files that are no longer needed. Returns what could not be removed, one line each; it stays in
    /// the journal.
    pub(crate) fn remove_files(&mut self, host: &mut dyn Host, paths: &[&Path]) -> Vec<String> {
        let is_one = |action: &UndoAction| matches!(action, UndoAction::RemoveFile { path, .. } if paths.contains(&path.as_path()));
        let (files, others) = std::mem::take(&mut self.actions).into_iter().partition(is_one);
        self.actions = others;
        let mut left = Vec::new();
        let files: Vec<UndoAction> = files;
        for action in files {
            if let Err(error) = patiently(self.patience, || undo(host, &action, false, &mut self.open)) {
                left.push(format!("{}: {error}", action.describe()));
                self.actions.push(action);
            }
        }
        if let (Some(file), true) = (&mut self.file, self.actions.is_empty()) {
            file.clear();
        }
        left
    }

    /// Gives up the journal. Its file is removed if nothing is left to undo, and stays for `fsdyno restore`
    /// otherwise.
    ///
    /// # Errors
    /// [`TestbedError::Journal`] if the file cannot be removed.
    pub fn close(mut self) -> Result<()> {
        match self.file.take() {
            Some(file) if self.actions.is_empty() => file.remove(),
            _ => Ok(()),
        }
    }

    /// Returns the changes that are left to undo, one line each.
    pub fn waiting(&self) -> Vec<String> {
        self.actions.iter().rev().map(UndoAction::describe).collect()
    }

    fn adopted(host: &mut dyn Host, adopted: Adopted, patience: Duration) -> Self {
        let Adopted { file, rebooted, actions } = adopted;
        host.hold(file.steps());
        let mut journal = UndoJournal::empty(Some(file));
        (journal.rebooted, journal.patience) = (rebooted, patience);
        journal.remember(actions.into_iter());
        journal
    }
}

/// One that was given up because of an error is also removed if nothing is left to undo.
impl Drop for UndoJournal {
    fn drop(&mut self) {
        if let (Some(file), true) = (self.file.take(), self.actions.is_empty()) {
            // There is nobody to report to; `fsdyno restore` will find nothing to do.
            let _ = file.remove();
        }
    }
}

/// Undoes what processes that are gone have left: every journal in this directory that no live process holds.
/// A journal is removed when all of it is undone. Repeating this changes nothing.
///
/// A journal that is not valid is moved aside and reported, one of a newer fsdyno stays where it is and is
/// reported, and neither keeps the others from being undone.
///
/// # Errors
/// [`TestbedError::Journal`] if the directory cannot be read; [`TestbedError::Powerless`], and nothing is
/// changed.
pub fn restore(host: &mut dyn Host, directory: &Path) -> Result<RestoreReport> {
    restore_within(host, directory, PATIENCE)
}

/// [`restore`], waiting at most this long for each thing that is busy. On a machine in memory, nothing busy
/// becomes free on its own.
///
/// # Errors
/// As for [`restore`].
pub fn restore_within(host: &mut dyn Host, directory: &Path, patience: Duration) -> Result<RestoreReport> {
    let mut result = RestoreReport::default();
    let mut waiting = Vec::new();
    let journals = file::journals(directory)?;
    // An ordinary user has journals of their own, of guests.
    let lack =
        MissingPrivilege::of(host).filter(|lack| !journals.is_empty() && *lack != MissingPrivilege::Root);
    if let Some(lack) = lack {
        return Err(TestbedError::Powerless { directory: directory.to_path_buf(), lack });
    }
    file::remove_unfinished(directory)?;
    for path in journals {
        let mut journal = match JournalFile::adopt(&path) {
            Ok(Some(Ok(adopted))) => UndoJournal::adopted(host, adopted, patience),
            Ok(Some(Err(unusable))) => {
                result.report.left.push(not_followed(&path, &unusable));
                continue;
            }
            Ok(None) => {
                result.running += 1;
                continue;
            }
            Err(error) => {
                result.report.left.push(error.failure().message);
                continue;
            }
        };
        result.journals += 1;
        let report = journal.undo_all(host);
        waiting.push((journal, report));
    }
    undo_what_others_held(host, &mut waiting);
    for (journal, report) in waiting {
        result.report.undone.extend(report.undone);
        result.report.left.extend(report.left);
        result.report.foreign.extend(report.foreign);
        if let Err(error) = journal.close() {
            result.report.left.push(error.failure().message);
        }
    }
    result.aside = file::aside(directory)?;
    Ok(result)
}

/// Tries the rest again as long as that undoes something: things that one journal made may have been used by
/// things that another one made, which are gone by now.
fn undo_what_others_held(host: &mut dyn Host, waiting: &mut [(UndoJournal, UndoReport)]) {
    loop {
        let mut undone = false;
        for (journal, report) in waiting.iter_mut().filter(|(journal, _)| !journal.is_empty()) {
            let before = journal.actions.len();
            let again = journal.undo_all(host);
            undone |= journal.actions.len() < before;
            report.undone.extend(again.undone);
            report.foreign.extend(again.foreign);
            report.left = again.left;
        }
        if !undone || waiting.len() < 2 {
            return;
        }
    }
}

/// The report on a journal that is not used; one that is not valid is moved aside.
fn not_followed(path: &Path, unusable: &Unusable) -> String {
    let journal = path.display();
    match unusable {
        Unusable::Newer(version) => format!(
            "undo journal '{journal}' was written by a newer fsdyno (format version {version}) and is kept; \
             restore it with that version"
        ),
        Unusable::Bad(reason) => match file::put_aside(path) {
            Ok(aside) => format!(
                "undo journal '{journal}' is not valid ({reason}): nothing in it was undone, and it was \
                 moved to '{}'",
                aside.display()
            ),
            Err(error) => {
                format!("undo journal '{journal}' is not valid ({reason}) and cannot be moved aside: {error}")
            }
        },
    }
}

fn patiently(
    patience: Duration,
    mut step: impl FnMut() -> fsdyno_host::Result<Undone>,
) -> fsdyno_host::Result<Undone> {
    let start = Instant::now();
    loop {
        match step() {
            // udev examines a device after it is closed, under a lock.
            Err(HostError::System { errno: EBUSY | EAGAIN, .. }) if start.elapsed() < patience => {
                std::thread::sleep(PAUSE)
            }
            result => return result,
        }
    }
}
