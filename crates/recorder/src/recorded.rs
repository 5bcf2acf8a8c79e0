//! The disk that is shown, whatever it is at the moment.

use crate::disk::Disk;
use crate::error::RecorderError;
use crate::faults::Faults;
use crate::log::Log;
use crate::state::State;
use crate::{Result, SECTOR};
use fsdyno_core::Bytes;
use fsdyno_core::durability::{CacheModel, MARKS_FILE, StateRequest};
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
/// Number of the first disk; each disk has a new one, so that nothing the kernel keeps of one is taken for
/// another's.
const FIRST_DISK: u64 = 3;

/// The state before everything.
const BLANK: StateRequest =
    StateRequest { at: 0, model: CacheModel::Completed, seed: 0, atom: Bytes(SECTOR), volatile: Bytes(0) };

/// What the disk is.
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
    /// A log that was recorded earlier.
    kept: Option<Log>,
    pub state: Option<State>,
    /// Whether that is the disk after a cut.
    pub is_after_cut: bool,
    pub faults: Faults,
    pub size: Bytes,
    pub name: OsString,
    pub number: u64,
}

impl Recorded {
    /// A disk that will be recorded in this directory, or was if it has a size.
    pub fn new(directory: PathBuf, size: Option<Bytes>) -> Result<Recorded> {
        let kept = size.map(|size| Log::open(&directory, size)).transpose()?;
        Ok(Recorded {
            stage: if kept.is_some() { Stage::Complete } else { Stage::Waiting },
            directory,
            disk: None,
            kept,
            state: None,
            is_after_cut: false,
            faults: Faults::default(),
            size: size.unwrap_or_default(),
            name: OsString::new(),
            number: FIRST_DISK,
        })
    }

    /// The log, once it is complete.
    pub fn log(&self) -> Result<&Log> {
        let log = self.disk.as_ref().map(Disk::log).or(self.kept.as_ref());
        match (&self.stage, log) {
            (Stage::Waiting | Stage::Recording, _) | (_, None) => {
                Err(RecorderError::Refused("the log is not complete"))
            }
            (_, Some(log)) => Ok(log),
        }
    }

    /// The disk after a cut, and the log that it reads from.
    pub fn state(&mut self) -> Result<(&mut State, &Log)> {
        self.log()?;
        if self.state.is_none() {
            self.state = Some(State::create(&self.directory, self.size)?);
        }
        let log = self.disk.as_ref().map(Disk::log).or(self.kept.as_ref());
        self.state.as_mut().zip(log).ok_or(RecorderError::Refused("the log is not complete"))
    }

    /// Makes the next disk one on which nothing has ever been written.
    pub fn blank(&mut self, size: Bytes) -> Result<()> {
        if matches!(self.stage, Stage::Waiting) {
            let mut disk = Disk::create(&self.directory)?;
            disk.set_size(size)?;
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

    pub fn exists(&self) -> bool {
        matches!(self.stage, Stage::Recording | Stage::Shown)
    }

    pub fn create(&mut self, name: &OsStr) -> std::result::Result<(), Errno> {
        if self.exists() {
            return Err(if name == self.name { Errno::EEXIST } else { Errno::ENOSPC });
        }
        match self.stage {
            Stage::Waiting => {
                self.disk = Some(Disk::create(&self.directory).map_err(told)?);
                self.stage = Stage::Recording;
            }
            Stage::Ready => self.stage = Stage::Shown,
            _ => return Err(Errno::EACCES),
        }
        self.name = name.to_os_string();
        self.number += 1;
        Ok(())
    }

    pub fn remove(&mut self) {
        self.stage = Stage::Complete;
    }

    pub fn set_size(&mut self, size: u64) -> Result<()> {
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) if size.is_multiple_of(SECTOR) => {
                disk.set_size(Bytes(size))?;
                self.size = Bytes(size);
                Ok(())
            }
            (Stage::Shown, _) if size == self.size.0 => Ok(()),
            _ => Err(RecorderError::Refused("the size of the disk cannot be changed to this")),
        }
    }

    fn verify_range(&self, at: u64, length: u64) -> Result<()> {
        match at.checked_add(length).is_some_and(|end| end <= self.size.0) {
            true => verify_sectors(at, length),
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

    pub fn read(&mut self, at: u64, length: u64) -> Result<Vec<u8>> {
        let read = self.read_now(at, length);
        self.noted(read)
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.write_now(at, bytes);
        self.noted(written)
    }

    fn read_now(&mut self, at: u64, length: u64) -> Result<Vec<u8>> {
        // QEMU finds out which requests a disk takes by reading less and less of it.
        verify_sectors(at, length)?;
        let end = at.saturating_add(length).min(self.size.0);
        let mut buffer = vec![0; end.saturating_sub(at) as usize];
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

    fn write_now(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.verify_range(at, bytes.len() as u64)?;
        if self.faults.write(bytes) {
            return Err(RecorderError::Fault);
        }
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) => disk.write_at(bytes, at),
            _ => self.state()?.0.write_at(bytes, at),
        }
    }

    pub fn zero(&mut self, at: u64, length: u64) -> Result<()> {
        self.verify_range(at, length)?;
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) => disk.zero(at, length),
            _ => {
                self.state()?.0.zero(at..at + length);
                Ok(())
            }
        }
    }

    pub fn flush(&mut self, covers: u64) -> Result<()> {
        if self.faults.flush() {
            return Err(RecorderError::Fault);
        }
        match (&self.stage, &mut self.disk) {
            (Stage::Recording, Some(disk)) => disk.flush(covers),
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
            _ if number <= self.number => (FileType::RegularFile, 0o600, self.size.0),
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
            _ if name == self.name && self.exists() => self.attributes(self.number),
            _ => Err(Errno::ENOENT),
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
pub(crate) fn told(error: RecorderError) -> Errno {
    Errno::from_i32(error.errno().raw_os_error())
}
