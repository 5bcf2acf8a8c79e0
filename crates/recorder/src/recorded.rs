//! The disk that is shown, whatever it is at the moment.

use crate::disk::Disk;
use crate::error::RecorderError;
use crate::faults::Faults;
use crate::log::RecordedLog;
use crate::state::DiskState;
use crate::{Result, SECTOR};
use fsdyno_core::Bytes;
use fsdyno_core::durability::{CacheModel, CompleteLog, MARKS_FILE, StateRequest};
use fsdyno_core::outcome::chain;
use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::SystemTime;

/// Number of the directory.
const ROOT: u64 = 1;
/// Number of the file that takes marks.
pub(crate) const MARKS: u64 = 2;
/// The size of that file, far more than the marks of any load.
const MARKS_SIZE: u64 = 1 << 30;
/// Number of the first disk; each disk has new ones for its parts, so that nothing the kernel keeps of one is
/// taken for another's.
const FIRST_DISK: u64 = 3;

/// The state before everything.
const BLANK: StateRequest =
    StateRequest { at: 0, model: CacheModel::Completed, seed: 0, atom: Bytes(SECTOR), volatile: Bytes(0) };

/// The stage that the disk is in.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Nobody has created it yet: the next one is recorded.
    Waiting,
    /// It is recorded.
    Recording,
    /// It is removed, or was recorded earlier, and there is none.
    Complete,
    /// The next one that is created is in the state that was entered.
    Ready,
    /// It is there, in that state.
    Shown,
}

/// Everything about the disk.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub stage: Stage,
    pub directory: PathBuf,
    /// While it is recorded, and later for comparisons.
    pub disk: Option<Disk>,
    /// A log that was complete before.
    complete: Option<RecordedLog>,
    pub state: Option<DiskState>,
    /// `true` if that state is the disk after a cut.
    pub is_after_cut: bool,
    pub faults: Faults,
    /// Of all parts together.
    pub size: Bytes,
    /// The number of parts of the disk, each of which is a file.
    parts: u32,
    /// The files of this disk in the order of their creation, each with its name until it is removed.
    files: Vec<Option<OsString>>,
    /// The number of the first of them.
    first: u64,
}

impl Recorded {
    /// A disk of so many parts that will be recorded, or of which there is a complete log. Its own files are
    /// made in this directory.
    pub fn new(directory: PathBuf, complete: Option<&CompleteLog>, parts: u32) -> Result<Recorded> {
        if parts == 0 || (complete.is_some() && parts > 1) {
            return Err(RecorderError::Refused(
                "a disk needs a part, and one whose log is complete has exactly one",
            ));
        }
        let size = complete.map(|log| log.size);
        let complete = complete.map(|log| RecordedLog::open(&log.directory, log.size)).transpose()?;
        Ok(Recorded {
            stage: if complete.is_some() { Stage::Complete } else { Stage::Waiting },
            directory,
            disk: None,
            complete,
            state: None,
            is_after_cut: false,
            faults: Faults::default(),
            size: size.unwrap_or_default(),
            parts,
            files: Vec::new(),
            first: FIRST_DISK,
        })
    }

    /// The log, once it is complete.
    pub fn log(&self) -> Result<&RecordedLog> {
        let log = self.disk.as_ref().map(Disk::log).or(self.complete.as_ref());
        match (&self.stage, log) {
            (Stage::Waiting | Stage::Recording, _) | (_, None) => {
                Err(RecorderError::Refused("the log is not complete"))
            }
            (_, Some(log)) => Ok(log),
        }
    }

    /// The disk after a cut, and the log that it reads from.
    pub fn state(&mut self) -> Result<(&mut DiskState, &RecordedLog)> {
        self.log()?;
        if self.state.is_none() {
            self.state = Some(DiskState::create(&self.directory, self.size)?);
        }
        let log = self.disk.as_ref().map(Disk::log).or(self.complete.as_ref());
        self.state.as_mut().zip(log).ok_or(RecorderError::Refused("the log is not complete"))
    }

    /// Makes the next disk one on which nothing has ever been written.
    pub fn blank(&mut self, size: Bytes) -> Result<()> {
        if matches!(self.stage, Stage::Waiting) {
            let mut disk = Disk::create(&self.directory)?;
            disk.set_size(size, self.parts)?;
            self.disk = Some(disk);
            self.size = size;
            self.stage = Stage::Complete;
        }
        self.faults.set(None);
        let (state, log) = self.state()?;
        state.enter(log, &BLANK)?;
        self.is_after_cut = false;
        self.stage = Stage::Ready;
        Ok(())
    }

    /// The files of the disk that are there, with their numbers.
    pub fn names(&self) -> impl Iterator<Item = (u64, &OsString)> {
        (self.first..).zip(&self.files).filter_map(|(number, name)| Some((number, name.as_ref()?)))
    }

    fn number_of(&self, name: &OsStr) -> Option<u64> {
        self.names().find(|(_, known)| *known == name).map(|(number, _)| number)
    }

    /// The part of the disk that a file is; that of an earlier one for whoever still has it open.
    pub fn part(&self, number: u64) -> u32 {
        (number.saturating_sub(FIRST_DISK) % u64::from(self.parts)) as u32
    }

    /// Returns whether a file was created for the disk that is there, or for the one that was there last.
    pub fn is_current(&self, number: u64) -> bool {
        (self.first..self.first + self.files.len() as u64).contains(&number)
    }

    /// The number of parts, and the size of each.
    pub fn part_sizes(&self) -> (u32, u64) {
        (self.parts, self.part_size())
    }

    /// The size of each part.
    fn part_size(&self) -> u64 {
        self.size.0 / u64::from(self.parts)
    }

    /// Creates the first file of a disk, or the next one; returns its number.
    pub fn create(&mut self, name: &OsStr) -> std::result::Result<u64, Errno> {
        match self.stage {
            Stage::Recording | Stage::Shown if self.number_of(name).is_some() => return Err(Errno::EEXIST),
            Stage::Recording | Stage::Shown if self.files.len() < self.parts as usize => {}
            Stage::Recording | Stage::Shown => return Err(Errno::ENOSPC),
            Stage::Waiting => {
                self.disk = Some(Disk::create(&self.directory).map_err(errno_of)?);
                self.begin(Stage::Recording);
            }
            Stage::Ready => self.begin(Stage::Shown),
            Stage::Complete => return Err(Errno::EACCES),
        }
        self.files.push(Some(name.to_os_string()));
        Ok(self.first + self.files.len() as u64 - 1)
    }

    fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        self.files.clear();
        self.first += u64::from(self.parts);
    }

    /// Removes a file; with the last one, the disk is gone.
    pub fn remove(&mut self, name: &OsStr) -> std::result::Result<(), Errno> {
        let named = |file: &&mut Option<OsString>| file.as_deref() == Some(name);
        *self.files.iter_mut().find(named).ok_or(Errno::ENOENT)? = None;
        if self.files.iter().all(Option::is_none) {
            self.stage = Stage::Complete;
        }
        Ok(())
    }

    /// Gives a file another name.
    pub fn rename(&mut self, name: &OsStr, new_name: &OsStr) -> std::result::Result<(), Errno> {
        if self.find(new_name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let named = |file: &&mut Option<OsString>| file.as_deref() == Some(name);
        *self.files.iter_mut().find(named).ok_or(Errno::ENOENT)? = Some(new_name.to_os_string());
        Ok(())
    }

    /// Sets the size of a file. That of the first one is the size of all parts.
    pub fn set_size(&mut self, number: u64, size: u64) -> Result<()> {
        let whole = Bytes(size.saturating_mul(self.parts.into()));
        let is_first = number == self.first && self.files.len() == 1;
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) if is_first && size.is_multiple_of(SECTOR) => {
                disk.set_size(whole, self.parts)?;
                self.size = whole;
                Ok(())
            }
            (Stage::Recording | Stage::Shown, _) if whole == self.size => Ok(()),
            _ => Err(RecorderError::Refused("the size of the disk cannot be changed to this")),
        }
    }

    /// Where a range of a part is on the whole disk.
    fn place(&self, part: u32, at: u64, length: u64) -> Result<u64> {
        match at.checked_add(length).is_some_and(|end| end <= self.part_size()) {
            true => verify_sectors(at, length).map(|()| u64::from(part) * self.part_size() + at),
            false => Err(RecorderError::Refused("the disk ends before that")),
        }
    }

    /// Notes why the recorder's own files could not be used: to whoever uses the disk, that looks like one
    /// of the failures that were asked for.
    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error @ RecorderError::File { .. }) = &result {
            self.faults.note(chain(error));
        }
        result
    }

    pub fn read(&mut self, part: u32, at: u64, length: u64) -> Result<Vec<u8>> {
        let read = self.read_now(part, at, length);
        self.noted(read)
    }

    pub fn write(&mut self, part: u32, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.write_now(part, at, bytes);
        self.noted(written)
    }

    fn read_now(&mut self, part: u32, at: u64, length: u64) -> Result<Vec<u8>> {
        // QEMU finds out which requests a disk takes by reading less and less of it.
        verify_sectors(at, length)?;
        let length = at.saturating_add(length).min(self.part_size()).saturating_sub(at);
        if length == 0 {
            return Ok(Vec::new());
        }
        let at = self.place(part, at, length)?;
        let mut buffer = vec![0; length as usize];
        match (&self.stage, &self.disk) {
            (Stage::Recording, Some(disk)) => disk.read_at(&mut buffer, at)?,
            _ => {
                let (state, log) = self.state()?;
                state.read_at(log, &mut buffer, at)?;
            }
        }
        if self.faults.read(&buffer) {
            return Err(RecorderError::Fault);
        }
        Ok(buffer)
    }

    fn write_now(&mut self, part: u32, at: u64, bytes: &[u8]) -> Result<()> {
        let at = self.place(part, at, bytes.len() as u64)?;
        if self.faults.write(bytes) {
            return Err(RecorderError::Fault);
        }
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) => disk.write_at(bytes, at),
            _ => self.state()?.0.write_at(bytes, at),
        }
    }

    pub fn zero(&mut self, part: u32, at: u64, length: u64) -> Result<()> {
        let at = self.place(part, at, length)?;
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) => disk.zero(at, length),
            _ => {
                self.state()?.0.zero(at..at + length);
                Ok(())
            }
        }
    }

    pub fn flush(&mut self, part: u32, covers: u64) -> Result<()> {
        if self.faults.flush() {
            return Err(RecorderError::Fault);
        }
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) => disk.flush(part, covers),
            _ => Ok(()),
        }
    }

    pub fn mark(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        // Whoever prepares the file as a disk writes back what is there.
        if self.read_marks(at, bytes.len() as u64)? == bytes {
            return Ok(());
        }
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) => disk.mark(bytes),
            _ => Err(RecorderError::Refused("nothing is recorded")),
        }
    }

    /// The marks so far.
    pub fn read_marks(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        verify_sectors(at, length)?;
        let end = at.saturating_add(length).min(MARKS_SIZE);
        let mut buffer = vec![0; end.saturating_sub(at) as usize];
        if let Some(disk) = &self.disk {
            disk.read_marks_at(&mut buffer, at)?;
        }
        Ok(buffer)
    }

    pub fn attributes(&self, number: u64) -> std::result::Result<FileAttr, Errno> {
        let (kind, perm, size) = match number {
            ROOT => (FileType::Directory, 0o700, 0),
            MARKS => (FileType::RegularFile, 0o600, MARKS_SIZE),
            // One that was removed is still open in a guest.
            _ if number < self.first + self.files.len() as u64 => {
                (FileType::RegularFile, 0o600, self.part_size())
            }
            _ => return Err(Errno::ENOENT),
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size / SECTOR,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm,
            nlink: if number == ROOT { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    pub fn find(&self, name: &OsStr) -> std::result::Result<FileAttr, Errno> {
        match name {
            _ if name == MARKS_FILE => self.attributes(MARKS),
            _ => self.attributes(self.number_of(name).ok_or(Errno::ENOENT)?),
        }
    }
}

fn verify_sectors(at: u64, length: u64) -> Result<()> {
    match at.is_multiple_of(SECTOR) && length.is_multiple_of(SECTOR) {
        true => Ok(()),
        false => Err(RecorderError::Refused("only whole sectors of the disk can be used")),
    }
}

/// The kernel's number for an error, of which it has nothing else to say.
pub(crate) fn errno_of(error: RecorderError) -> Errno {
    Errno::from_i32(error.errno().raw_os_error())
}
