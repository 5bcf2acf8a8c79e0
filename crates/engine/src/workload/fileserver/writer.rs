//! A writer: creates new trees, one file after the other.
//!
//! Per directory `mkdir`; per file open with create, write the first byte, write the rest, close. When it has
//! used the space that it may occupy, it removes its tree, which is also timed but not part of its rates, and
//! starts another one.

use super::NEW_TREES;
use crate::content::{ALIGNMENT, Content, FileIdentity, path_seed, version_of_size};
use crate::error::OperationFailure;
use crate::meter::{Halt, Meter, Object, timed, watched};
use crate::phase::Job;
use crate::plant::{CREATE, DIRECTORY, DIRECTORY_MODE, FILE_MODE};
use crate::removal::{self, Remover};
use crate::session::Ledger;
use crate::tree::{Model, Tree, TreeEntry, TreeLimits, derive_seed};
use fsdyno_core::workload::fileserver::writer::{
    CLOSE, MKDIRAT, OPENAT, RMDIR, UNLINKAT, WRITE, WRITE_FIRST_BYTE,
};
use fsdyno_core::{Operation, Reached, workload};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::Arc;

/// The task of one writer.
pub(super) struct Assignment {
    /// The engine's directory.
    pub(super) base: PathBuf,
    pub(super) worker: u32,
    /// Of the whole request.
    pub(super) seed: u64,
    pub(super) model: Arc<Model>,
    pub(super) content: workload::Content,
    pub(super) io_size: usize,
    pub(super) direct: bool,
    pub(super) space: Space,
    /// Where it notes how far it came.
    pub(super) ledger: Option<Ledger>,
}

/// The space that one writer may occupy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

/// The space that files and directories use in addition to their data: an inode and a name, and at least one
/// block each, in bytes.
const PER_NAME_BYTES: u64 = 512;
const BLOCK_BYTES: u64 = 4096;

impl Space {
    /// Subtracts the space of a file of this size or a directory (size 1). `false` if it does not fit.
    fn take(&mut self, size_bytes: u64) -> bool {
        let bytes = size_bytes.next_multiple_of(BLOCK_BYTES) + PER_NAME_BYTES;
        let fits = self.bytes >= bytes && self.inodes > 0;
        if fits {
            self.bytes -= bytes;
            self.inodes -= 1;
        }
        fits
    }
}

/// Creates trees until the phase is over.
pub(super) fn job(assignment: Assignment) -> Job {
    Box::new(move |lineup| {
        let (mut writer, home) = match Writer::new(&assignment) {
            Ok(prepared) => prepared,
            Err(failure) => return Halt::Failed(failure),
        };
        let mut meter = lineup.start();
        for round in 0.. {
            if let Err(halt) = writer.round(&mut meter, &assignment, &home, round) {
                if let Some(ledger) = &assignment.ledger {
                    ledger.note(Reached::Tree {
                        worker: assignment.worker,
                        round,
                        files: writer.files,
                        removing: writer.removing,
                        space_bytes: assignment.space.bytes,
                    });
                }
                return halt;
            }
            meter.next_round();
        }
        Halt::Over
    })
}

struct Writer {
    flags: OFlags,
    first_bytes: usize,
    io_size: usize,
    content: Content,
    /// The directory that is filled, relative to the engine's directory.
    path: Vec<u8>,
    /// Files of the tree that are complete, and whether it is being removed.
    files: u64,
    removing: bool,
    /// The seeds of the directories down to the one that is filled.
    seeds: Vec<u64>,
}

impl Writer {
    /// The writer and the directory that holds its trees.
    fn new(assignment: &Assignment) -> Result<(Self, OwnedFd), OperationFailure> {
        let name = home(assignment.worker);
        let path = assignment.base.join(&name);
        let fail =
            |errno| OperationFailure { operation: Some(Operation::Mkdirat), path: name.clone(), errno };
        rustix::fs::mkdirat(CWD, &path, DIRECTORY_MODE).map_err(fail)?;
        let home = rustix::fs::open(&path, DIRECTORY, Mode::empty()).map_err(fail)?;
        let (direct, first_bytes) =
            if assignment.direct { (OFlags::DIRECT, ALIGNMENT) } else { (OFlags::empty(), 1) };
        let writer = Writer {
            flags: CREATE | direct,
            first_bytes,
            io_size: assignment.io_size,
            content: Content::new(assignment.content, assignment.seed, assignment.io_size.max(first_bytes)),
            path: name.into_bytes(),
            files: 0,
            removing: false,
            seeds: Vec::with_capacity(DEEP),
        };
        Ok((writer, home))
    }

    /// Creates one tree, as large as the space allows, and removes it.
    fn round(
        &mut self,
        meter: &mut Meter,
        assignment: &Assignment,
        home: &OwnedFd,
        round: u64,
    ) -> Result<(), Halt> {
        let name = round_name(round);
        let seed = tree_seed(assignment.seed, assignment.worker, round);
        (self.files, self.removing) = (0, false);
        self.grow(meter, assignment, home, &name, seed)?;
        self.removing = true;
        removal::remove(&mut Timed { meter, path: &self.path }, home, &name)
    }

    fn grow(
        &mut self,
        meter: &mut Meter,
        assignment: &Assignment,
        home: &OwnedFd,
        name: &CStr,
        seed: u64,
    ) -> Result<(), Halt> {
        let mut space = assignment.space;
        let limits = limits(space.bytes, self.first_bytes as u64);
        self.seeds.clear();
        self.seeds.push(seed);
        let outside = self.path.len();
        let mut directories = vec![self.enter(meter, home, name)?];
        for entry in Tree::new(&assignment.model, seed, limits) {
            let (Some(directory), Some(&here)) = (directories.last(), self.seeds.last()) else { break };
            match entry {
                TreeEntry::Enter { name } if space.take(1) => {
                    let below = self.enter(meter, directory, name.as_c_str())?;
                    directories.push(below);
                    self.seeds.push(path_seed(here, name.as_c_str()));
                }
                TreeEntry::File { name, size_bytes, .. } if space.take(size_bytes) => {
                    let file =
                        FileIdentity::named(here, name.as_c_str()).version(version_of_size(size_bytes));
                    self.write(meter, directory, name.as_c_str(), size_bytes, file)?;
                    self.files += 1;
                }
                TreeEntry::Leave => {
                    directories.pop();
                    self.seeds.pop();
                    let length = self.path.iter().rposition(|byte| *byte == b'/').unwrap_or(outside);
                    self.path.truncate(length);
                    meter.work_in(&self.path);
                }
                TreeEntry::Enter { .. } | TreeEntry::File { .. } => break,
            }
        }
        self.path.truncate(outside);
        meter.work_in(&self.path);
        Ok(())
    }

    /// Creates a directory and goes into it.
    fn enter(&mut self, meter: &mut Meter, parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Halt> {
        let object = Object { directory: &self.path, name };
        timed(meter, MKDIRAT, object, |()| 0, || rustix::fs::mkdirat(parent, name, DIRECTORY_MODE))?;
        let directory =
            watched(meter, OPENAT, object, || rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()))?;
        self.path.push(b'/');
        self.path.extend_from_slice(name.to_bytes());
        meter.work_in(&self.path);
        Ok(directory)
    }

    fn write(
        &mut self,
        meter: &mut Meter,
        directory: &OwnedFd,
        name: &CStr,
        size_bytes: u64,
        file: FileIdentity,
    ) -> Result<(), Halt> {
        let object = Object { directory: &self.path, name };
        meter.await_due()?;
        let descriptor = timed(
            meter,
            OPENAT,
            object,
            |_| 0,
            || rustix::fs::openat(directory, name, self.flags, FILE_MODE),
        )?;
        let mut position = 0;
        while position < size_bytes {
            let (step, longest) =
                if position == 0 { (WRITE_FIRST_BYTE, self.first_bytes) } else { (WRITE, self.io_size) };
            let length = (size_bytes - position).min(longest as u64) as usize;
            let bytes = self.content.bytes(file, position, length);
            let written = timed(
                meter,
                step,
                object,
                |written| *written as u64,
                || {
                    match rustix::io::write(&descriptor, bytes) {
                        // No progress without an error would loop forever.
                        Ok(0) => Err(Errno::IO),
                        other => other,
                    }
                },
            )?;
            position += written as u64;
        }
        timed(meter, CLOSE, object, |()| 0, || fsdyno_sys::thread::close(descriptor))?;
        meter.end_iteration()?;
        meter.item();
        Ok(())
    }
}

/// Directories above a file, for which there is room without allocating.
const DEEP: usize = 64;

/// The directory of a writer.
pub(super) fn home(worker: u32) -> String {
    format!("new-{worker}")
}

/// The tree of a round.
pub(super) fn round_name(round: u64) -> CString {
    CString::new(format!("round-{round}")).unwrap_or_default()
}

/// Its seed.
pub(super) fn tree_seed(seed: u64, worker: u32, round: u64) -> u64 {
    derive_seed(seed, &[NEW_TREES, u64::from(worker), round])
}

/// Where it would end if the space had no end.
pub(super) fn limits(space_bytes: u64, multiple_bytes: u64) -> TreeLimits {
    let size_bytes = u64::MAX / multiple_bytes * multiple_bytes;
    TreeLimits { size_bytes, ..TreeLimits::new(space_bytes, multiple_bytes) }
}

/// Removes with timing.
struct Timed<'a> {
    meter: &'a mut Meter,
    path: &'a [u8],
}

impl Remover for Timed<'_> {
    type Error = Halt;

    fn failed(&mut self, name: &CStr, errno: Errno) -> Halt {
        let path = Object { directory: self.path, name }.path();
        Halt::Failed(OperationFailure { operation: Some(Operation::Unlinkat), path, errno })
    }

    fn unlink(&mut self, directory: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Halt> {
        let step = if flags.contains(AtFlags::REMOVEDIR) { RMDIR } else { UNLINKAT };
        let object = Object { directory: self.path, name };
        timed(self.meter, step, object, |()| 0, || rustix::fs::unlinkat(directory, name, flags))
    }
}
