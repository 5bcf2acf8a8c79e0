//! Files and directories.

use crate::lines::TEXT_MAX;
use crate::probe::{FileIdentity, Room};
use crate::{HostError, Result, mountinfo};
use fsdyno_core::Bytes;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

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

/// What is at a path, without following links.
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

/// `shares` is what else is stored in places and needs space, each with its name.
pub(super) fn room(path: &Path, shares: &[(String, PathBuf)]) -> Result<Room> {
    let failed = |error: Errno| HostError::system("determine the free space of", path, error);
    let found = rustix::fs::statvfs(path).map_err(failed)?;
    let mounts = super::mount::mounts()?;
    let of = |path: &Path| mountinfo::containing(&mounts, &mountinfo::nearest_existing(path));
    let mount = of(path).ok_or_else(|| failed(Errno::NOENT))?;
    let beside = shares.iter().filter(|(_, path)| of(path).is_some_and(|other| other.device == mount.device));
    Ok(Room {
        free: Bytes(found.f_bavail.saturating_mul(found.f_frsize)),
        size: Bytes(found.f_blocks.saturating_mul(found.f_frsize)),
        device: mount.device,
        in_memory: ["tmpfs", "ramfs"].contains(&mount.filesystem.as_str()),
        shared_with: beside.map(|(name, _)| name.clone()).collect(),
    })
}
