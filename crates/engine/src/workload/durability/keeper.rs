//! The way in which each promise is made: the system calls that the documentation of [`Promise`] names.

use super::script::{self, Script, Unsynced, Write};
use super::sector::SECTOR;
use crate::error::OperationFailure;
use crate::plant::{CREATE, DIRECTORY, DIRECTORY_MODE, FILE_MODE, make_directory};
use fsdyno_core::Operation;
use fsdyno_core::durability::Promise;
use fsdyno_sys::mapping::Mapping;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::path::Path;

/// The flags to open an existing file.
const EXISTING: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

type Done<T = ()> = Result<T, OperationFailure>;

/// Makes one kind of promise, or does the work that nothing syncs.
pub(crate) struct Keeper {
    script: Script,
    promise: Option<Promise>,
    directory: OwnedFd,
    /// The file that the promise before this one has also written to.
    open: Option<(u64, OwnedFd)>,
    /// Files in memory, by their numbers.
    mapped: Vec<Mapping>,
    /// The bytes about to be written.
    buffer: Vec<u8>,
}

impl Keeper {
    /// Creates the directory of a promise, or of unsynced work, with the files that must exist before it
    /// begins. All of it is synced, except for the name of the directory.
    pub(crate) fn prepare(base: &OwnedFd, script: Script, promise: Option<Promise>) -> Done<Keeper> {
        let name = CString::new(script::directory(promise)).unwrap_or_default();
        let made = make_directory(base, &name).map_err(failed(promise, Operation::Mkdirat, ""));
        let mut keeper = Keeper::new(made?, script, promise);
        if let Some(promise) = promise {
            for file in 0..script.prepared(promise) {
                keeper.create_synced(&script.prepared_file(promise, file))?;
            }
        }
        keeper.fsync_directory()?;
        Ok(keeper)
    }

    /// Finds that directory again.
    pub(crate) fn open(base: &Path, script: Script, promise: Option<Promise>) -> Done<Keeper> {
        let path = base.join(script::directory(promise));
        let opened = rustix::fs::open(&path, DIRECTORY, Mode::empty());
        let directory = opened.map_err(failed(promise, Operation::Openat, ""))?;
        let mut keeper = Keeper::new(directory, script, promise);
        if promise == Some(Promise::Msync) {
            for file in 0..script.prepared(Promise::Msync) {
                let length = script.prepared_file(Promise::Msync, file).sectors.end as usize * SECTOR;
                let name = script::name(file);
                let file = keeper.open_file(&name, EXISTING, Operation::Openat)?;
                let mapping = Mapping::new(file.as_fd(), length);
                keeper.mapped.push(mapping.map_err(failed(promise, Operation::Mmap, &name))?);
            }
        }
        Ok(keeper)
    }

    fn new(directory: OwnedFd, script: Script, promise: Option<Promise>) -> Self {
        Keeper { script, promise, directory, open: None, mapped: Vec::new(), buffer: Vec::new() }
    }

    /// Does what must be on the device before the promise of this number begins.
    pub(crate) fn before(&mut self, number: u64) -> Done {
        let Some(promise @ (Promise::Link | Promise::Rename | Promise::Unlink)) = self.promise else {
            return Ok(());
        };
        for write in self.script.writes(promise, number) {
            self.create_synced(&write)?;
        }
        self.fsync_directory()
    }

    /// Makes the promise of this number, or does the unsynced work of this number.
    pub(crate) fn make(&mut self, number: u64) -> Done {
        match self.promise {
            Some(promise) => self.keep(promise, number),
            None => self.leave_unsynced(number),
        }
    }

    fn keep(&mut self, promise: Promise, number: u64) -> Done {
        let writes = self.script.writes(promise, number);
        match promise {
            Promise::Syncfs => {
                writes
                    .iter()
                    .try_for_each(|write| self.create(&script::name(write.file), write).map(drop))?;
                rustix::fs::syncfs(&self.directory).map_err(self.failed(Operation::Syncfs, ""))
            }
            _ => writes.iter().try_for_each(|write| self.keep_one(promise, write)),
        }
    }

    fn keep_one(&mut self, promise: Promise, write: &Write) -> Done {
        match promise {
            Promise::Create => {
                self.create_synced(write)?;
                self.fsync_directory()
            }
            Promise::CreateFile => self.create_synced(write),
            Promise::Append => self.append(write, OFlags::APPEND),
            Promise::DsyncAppend => self.append(write, OFlags::APPEND | OFlags::DSYNC),
            Promise::Overwrite => self.overwrite(write),
            Promise::Msync => self.store(write),
            Promise::Replace => self.replace(promise, write, true),
            Promise::ReplaceUnsynced => self.replace(promise, write, false),
            Promise::Link | Promise::Rename | Promise::Unlink => self.change_name(promise, write.file),
            // All of its files together.
            Promise::Syncfs => Ok(()),
        }
    }

    fn leave_unsynced(&mut self, number: u64) -> Done {
        let name = script::name(number);
        match self.script.unsynced(number) {
            Unsynced::File(write) => self.create(&name, &write).map(drop),
            Unsynced::Directory => rustix::fs::mkdirat(&self.directory, &name, DIRECTORY_MODE)
                .map_err(self.failed(Operation::Mkdirat, &name)),
        }
    }

    /// Appends a record. The first one creates the file.
    fn append(&mut self, write: &Write, flags: OFlags) -> Done {
        let name = script::name(write.file);
        let is_first = write.sectors.start == 0;
        if is_first {
            self.open = Some((write.file, self.open_file(&name, CREATE | flags, Operation::Create)?));
        }
        let (_, file) = self.take_open(write.file, OFlags::WRONLY | OFlags::NOFOLLOW | flags)?;
        self.write(&file, &name, write)?;
        if is_first {
            self.fsync(&file, &name)?;
            self.fsync_directory()?;
        } else if !flags.contains(OFlags::DSYNC) {
            self.fdatasync(&file, &name)?;
        }
        self.open = Some((write.file, file));
        Ok(())
    }

    fn overwrite(&mut self, write: &Write) -> Done {
        let name = script::name(write.file);
        let (_, file) = self.take_open(write.file, EXISTING)?;
        self.write(&file, &name, write)?;
        self.fdatasync(&file, &name)?;
        self.open = Some((write.file, file));
        Ok(())
    }

    fn store(&mut self, write: &Write) -> Done {
        let name = script::name(write.file);
        self.script.fill(self.promise, write, &mut self.buffer);
        let at = write.sectors.start as usize * SECTOR;
        let failed = self.failed(Operation::Msync, &name);
        let Some(mapping) = self.mapped.get_mut(write.file as usize) else {
            return Err(failed(Errno::NOENT));
        };
        let stored = mapping.store(at, &self.buffer);
        stored.and_then(|()| mapping.sync(at, self.buffer.len())).map_err(failed)
    }

    /// Puts a new version in place of an old one.
    fn replace(&mut self, promise: Promise, write: &Write, synced: bool) -> Done {
        let (name, new) = (script::name(write.file), script::second_name(promise, write.file));
        let file = self.create(&new, write)?;
        if synced {
            self.fsync(&file, &new)?;
        }
        fsdyno_sys::thread::close(file).map_err(self.failed(Operation::Close, &new))?;
        rustix::fs::renameat(&self.directory, &new, &self.directory, &name)
            .map_err(self.failed(Operation::Renameat, &name))?;
        if synced { self.fsync_directory() } else { Ok(()) }
    }

    /// Adds, changes or removes the name of a file, and syncs the directory.
    fn change_name(&mut self, promise: Promise, file: u64) -> Done {
        let (name, second) = (script::name(file), script::second_name(promise, file));
        let directory = &self.directory;
        let (operation, changed) = match promise {
            Promise::Link => (
                Operation::Linkat,
                rustix::fs::linkat(directory, &name, directory, &second, AtFlags::empty()),
            ),
            Promise::Rename => {
                (Operation::Renameat, rustix::fs::renameat(directory, &name, directory, &second))
            }
            _ => (Operation::Unlinkat, rustix::fs::unlinkat(directory, &name, AtFlags::empty())),
        };
        changed.map_err(self.failed(operation, &name))?;
        self.fsync_directory()
    }

    fn create_synced(&mut self, write: &Write) -> Done {
        let name = script::name(write.file);
        let file = self.create(&name, write)?;
        self.fsync(&file, &name)
    }

    fn create(&mut self, name: &str, write: &Write) -> Done<OwnedFd> {
        let file = self.open_file(name, CREATE, Operation::Create)?;
        self.write(&file, name, write)?;
        Ok(file)
    }

    fn write(&mut self, file: &OwnedFd, name: &str, write: &Write) -> Done {
        self.script.fill(self.promise, write, &mut self.buffer);
        let mut done = 0;
        while done < self.buffer.len() {
            let position = write.sectors.start * SECTOR as u64 + done as u64;
            match rustix::io::pwrite(file, &self.buffer[done..], position) {
                // No progress without an error would loop forever.
                Ok(0) => return Err(self.failed(Operation::Pwrite, name)(Errno::IO)),
                Ok(written) => done += written,
                Err(errno) => return Err(self.failed(Operation::Pwrite, name)(errno)),
            }
        }
        Ok(())
    }

    /// The file that was open last, or another one.
    fn take_open(&mut self, file: u64, flags: OFlags) -> Done<(u64, OwnedFd)> {
        match self.open.take().filter(|(number, _)| *number == file) {
            Some(open) => Ok(open),
            None => {
                let opened = self.open_file(&script::name(file), flags | OFlags::CLOEXEC, Operation::Openat);
                Ok((file, opened?))
            }
        }
    }

    fn open_file(&self, name: &str, flags: OFlags, operation: Operation) -> Done<OwnedFd> {
        rustix::fs::openat(&self.directory, name, flags, FILE_MODE).map_err(self.failed(operation, name))
    }

    fn fsync(&self, file: &OwnedFd, name: &str) -> Done {
        rustix::fs::fsync(file).map_err(self.failed(Operation::Fsync, name))
    }

    fn fdatasync(&self, file: &OwnedFd, name: &str) -> Done {
        rustix::fs::fdatasync(file).map_err(self.failed(Operation::Fdatasync, name))
    }

    fn fsync_directory(&self) -> Done {
        rustix::fs::fsync(&self.directory).map_err(self.failed(Operation::Fsync, ""))
    }

    fn failed(&self, operation: Operation, name: &str) -> impl FnOnce(Errno) -> OperationFailure + use<> {
        failed(self.promise, operation, name)
    }
}

/// Returns a function that turns an error into the failure of an operation on a file, or on its directory if
/// it has no name.
fn failed(
    promise: Option<Promise>,
    operation: Operation,
    name: &str,
) -> impl FnOnce(Errno) -> OperationFailure + use<> {
    let path = [script::directory(promise), name].join("/").trim_end_matches('/').to_string();
    move |errno| OperationFailure { operation: Some(operation), path, errno }
}
