//! The free space of filesystems.

use super::mount;
use crate::probe::Room;
use crate::{HostError, Result, mountinfo};
use fsdyno_core::Bytes;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// `shares` is what else is stored in places and needs space, each with its name.
pub(super) fn of(path: &Path, shares: &[(String, PathBuf)]) -> Result<Room> {
    let failed = |error: Errno| HostError::system("determine the free space of", path, error);
    let found = rustix::fs::statvfs(path).map_err(failed)?;
    let mounts = mount::mounts()?;
    let mount_of = |path: &Path| mountinfo::containing(&mounts, &mountinfo::nearest_existing(path));
    let mount = mount_of(path).ok_or_else(|| failed(Errno::NOENT))?;
    let beside =
        shares.iter().filter(|(_, path)| mount_of(path).is_some_and(|other| other.device == mount.device));
    Ok(Room {
        free: Bytes(found.f_bavail.saturating_mul(found.f_frsize)),
        size: Bytes(found.f_blocks.saturating_mul(found.f_frsize)),
        device: mount.device,
        in_memory: ["tmpfs", "ramfs"].contains(&mount.filesystem.as_str()),
        shared_with: beside.map(|(name, _)| name.clone()).collect(),
    })
}
