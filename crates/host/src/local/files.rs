//! Files and directories.

use crate::probe::{FileIdentity, Room};
use crate::{HostError, Result, mountinfo};
use fsdyno_core::Bytes;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub(super) fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|error| HostError::system("read", path, error))?;
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

pub(super) fn identity(path: &Path) -> Result<Option<FileIdentity>> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = match rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(HostError::system("look at", path, error)),
    };
    let born = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    Ok(Some(FileIdentity {
        device: (found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        birth_ns: born.then(|| found.stx_btime.tv_sec * 1_000_000_000 + i64::from(found.stx_btime.tv_nsec)),
        regular: FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile,
    }))
}

/// File and directory entry are on the disk when this returns, so that an undo journal that names them is true after a
/// power cut.
pub(super) fn create_image(path: &Path, size: Bytes) -> Result<FileIdentity> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| HostError::system("make the image", path, error))?;
    size_and_sync(&File::from(file), path, size).map_err(|error| {
        // The file is ours, made by the call above with O_EXCL, and of no use.
        let left = fs::remove_file(path).err().map(|left| format!("; the empty file is left: {left}"));
        let error = HostError::system("size the image", path, error);
        match (error, left) {
            (HostError::System { action, object, errno, reason }, Some(left)) => {
                HostError::System { action, object, errno, reason: reason + &left }
            }
            (error, _) => error,
        }
    })?;
    identity(path)?.ok_or_else(|| HostError::system("look at", path, Errno::NOENT))
}

fn size_and_sync(file: &File, path: &Path, size: Bytes) -> std::io::Result<()> {
    file.set_len(size.0)?;
    file.sync_all()?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

pub(super) fn rename_new(from: &Path, to: &Path) -> Result<()> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
        .map_err(|error| HostError::system(&format!("rename '{}' to", from.display()), to, error))
}

/// `shares` is what else lies somewhere and needs room, each with its name.
pub(super) fn room(path: &Path, shares: &[(String, PathBuf)]) -> Result<Room> {
    let failed = |error: Errno| HostError::system("ask for the free space of", path, error);
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
