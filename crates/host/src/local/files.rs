//! Files and directories.

use crate::lines::TEXT_MAX;
use crate::probe::FileIdentity;
use crate::{HostError, Result};
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::Path;

pub(super) fn read_text(path: &Path) -> Result<String> {
    let failed = |error| HostError::system("read", path, error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(TEXT_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > TEXT_MAX {
        return Err(failed(Errno::FBIG.into()));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn list_directory(path: &Path) -> Result<Vec<String>> {
    let failed = |error| HostError::system("list the directory", path, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Returns the identity of the file at a path, without following links.
pub(super) fn identity(path: &Path) -> Result<Option<FileIdentity>> {
    identity_at(CWD, path)
}

/// The same, from a directory on.
pub(super) fn identity_at(directory: BorrowedFd<'_>, path: &Path) -> Result<Option<FileIdentity>> {
    match rustix::fs::statx(directory, path, AtFlags::SYMLINK_NOFOLLOW, IDENTITY) {
        Ok(found) => Ok(Some(identified(&found))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(HostError::system("examine", path, error)),
    }
}

/// Which file a descriptor is; `path` is for a person.
pub(super) fn identity_of(file: BorrowedFd<'_>, path: &Path) -> Result<FileIdentity> {
    rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, IDENTITY)
        .map(|found| identified(&found))
        .map_err(|error| HostError::system("examine", path, error))
}

const IDENTITY: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

fn identified(found: &Statx) -> FileIdentity {
    let born = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    FileIdentity {
        device: (found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        birth_ns: born.then(|| found.stx_btime.tv_sec * 1_000_000_000 + i64::from(found.stx_btime.tv_nsec)),
        regular: FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile,
    }
}
