//! Creates a tree on disk, as fast as possible and without timing.
//!
//! One thread creates all trees one after the other, so that the same seed also gives the same layout on
//! disk.

use crate::background::Gauge;
use crate::content::{Content, FileIdentity, path_seed, version_of_size};
use crate::error::{EngineError, INODE_RESERVE, OperationFailure};
use crate::tree::{Model, Tree, TreeEntry, TreeLimits};
use fsdyno_core::result::TreeSummary;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;

/// Bytes per `write`.
pub(crate) const PIECE: usize = 1 << 20;

/// The flags to open a directory to work in.
pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The flags to create a file.
pub(crate) const CREATE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Permissions of directories.
pub(crate) const DIRECTORY_MODE: Mode = Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP);
/// Permissions of files.
pub(crate) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// Refuses to prepare more bytes than there is room for, before all that is left is written full; `first` is
/// what would be written first.
///
/// # Errors
/// `ENOSPC`, or the error of reading the free space.
pub(crate) fn verify_room(base: &std::path::Path, bytes: u64, first: &str) -> Result<(), EngineError> {
    let filesystem =
        rustix::fs::statvfs(base).map_err(EngineError::system("read the free space of", base))?;
    match filesystem.f_bavail.saturating_mul(filesystem.f_frsize) < bytes {
        true => Err(no_room(first)),
        false => Ok(()),
    }
}

/// Checks, before a tree is made, that a filesystem has as many inodes, and that some are left.
///
/// # Errors
/// [`EngineError::Inodes`], or the error of reading how many there are.
pub(crate) fn verify_inodes(base: &std::path::Path, needed: u64) -> Result<(), EngineError> {
    let filesystem =
        rustix::fs::statvfs(base).map_err(EngineError::system("read the free space of", base))?;
    let free = filesystem.f_favail;
    // A filesystem that does not count them has 0 in all.
    let enough = filesystem.f_files == 0 || needed <= free.saturating_sub(filesystem.f_files / INODE_RESERVE);
    match enough {
        true => Ok(()),
        false => Err(EngineError::Inodes { path: base.to_path_buf(), free, needed }),
    }
}

/// There is no room for a file that a workload needs.
pub(crate) fn no_room(path: &str) -> EngineError {
    let failure = OperationFailure { operation: None, path: path.to_string(), errno: Errno::NOSPC };
    EngineError::operation("prepare", failure)
}

/// Creates the tree `name` in `parent`. Ends early, without error, if the gauge says so; the gauge counts
/// bytes.
///
/// # Errors
/// The system call that failed, with the path below `parent`.
pub(crate) fn plant(
    parent: &OwnedFd,
    name: &CStr,
    model: &Model,
    seed: u64,
    limits: TreeLimits,
    content: &mut Content,
    gauge: &Gauge,
) -> Result<TreeSummary, OperationFailure> {
    let mut path = Path { names: vec![name.to_string_lossy().into_owned()] };
    let mut seeds = vec![seed];
    let mut directories = vec![make_directory(parent, name).map_err(|errno| path.failure(errno))?];
    let mut summary = TreeSummary { directories: 1, ..TreeSummary::default() };
    for entry in Tree::new(model, seed, limits) {
        let (Some(directory), Some(&here)) = (directories.last(), seeds.last()) else { break };
        match entry {
            TreeEntry::Enter { name } => {
                path.names.push(name.as_c_str().to_string_lossy().into_owned());
                let made = make_directory(directory, name.as_c_str()).map_err(|errno| path.failure(errno))?;
                directories.push(made);
                seeds.push(path_seed(here, name.as_c_str()));
                summary.directories += 1;
            }
            TreeEntry::File { name, size_bytes, .. } => {
                let file = FileIdentity::named(here, name.as_c_str()).version(version_of_size(size_bytes));
                make_file(directory, name.as_c_str(), size_bytes, file, content).map_err(|errno| {
                    path.names.push(name.as_c_str().to_string_lossy().into_owned());
                    path.failure(errno)
                })?;
                summary.files += 1;
                summary.bytes += size_bytes;
                gauge.advance(size_bytes);
            }
            TreeEntry::Leave => {
                directories.pop();
                seeds.pop();
                path.names.pop();
            }
        }
        if gauge.cancelled() {
            break;
        }
    }
    Ok(summary)
}

struct Path {
    names: Vec<String>,
}

impl Path {
    fn failure(&self, errno: Errno) -> OperationFailure {
        OperationFailure { operation: None, path: self.names.join("/"), errno }
    }
}

/// Creates and opens a directory.
pub(crate) fn make_directory(parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(parent, name, DIRECTORY_MODE)?;
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

fn make_file(
    directory: impl AsFd,
    name: &CStr,
    size_bytes: u64,
    file: FileIdentity,
    content: &mut Content,
) -> Result<(), Errno> {
    let descriptor = rustix::fs::openat(directory, name, CREATE, FILE_MODE)?;
    let mut position = 0;
    while position < size_bytes {
        let length = (size_bytes - position).min(PIECE as u64) as usize;
        match rustix::io::write(&descriptor, content.bytes(file, position, length))? {
            0 => return Err(Errno::IO),
            written => position += written as u64,
        }
    }
    fsdyno_sys::thread::close(descriptor)
}
