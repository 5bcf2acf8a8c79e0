//! The steps by which each action is undone.

use crate::name::is_mount_directory;
use crate::way_back::{MountSource, UndoAction, Undone};
use crate::{layer, setting};
use fsdyno_host::probe::{FileIdentity, LoopInfo, MountInfo};
use fsdyno_host::{Command, DeviceHandle, Host, HostError};
use std::path::Path;
use std::time::Duration;

/// The time that writing back cached data to a slow device may take.
const WRITE_BACK: Duration = Duration::from_secs(300);
const ENOENT: i32 = 2;
const ENOTCONN: i32 = 107;

/// Undoes one action; a device that could not be closed is added to `open`.
#[expect(clippy::too_many_lines, reason = "one arm for each step")]
pub(super) fn undo(
    host: &mut dyn Host,
    action: &UndoAction,
    rebooted: bool,
    open: &mut Vec<DeviceHandle>,
) -> fsdyno_host::Result<Undone> {
    match action {
        UndoAction::RemoveFile { path, identity } => {
            let Some(found) = still_there(host, path)? else { return Ok(Undone::Nothing) };
            let ours = match identity {
                None => found.regular,
                Some(identity) => same_file(&found, identity, rebooted),
            };
            if !ours {
                return Ok(Undone::Foreign(foreign_file(path)));
            }
            match host.remove_file(path, &found) {
                Err(HostError::Replaced { .. }) => Ok(Undone::Foreign(foreign_file(path))),
                result => result.map(|()| Undone::Done(format!("removed '{}'", path.display()))),
            }
        }
        UndoAction::DetachLoop { image, path } => detach(host, image, path),
        UndoAction::WriteSetting { path, old, new } => {
            let text = match host.read_setting(path) {
                Ok(text) => text,
                // The device is gone, and its settings with it.
                Err(HostError::System { errno: ENOENT, .. }) => return Ok(Undone::Nothing),
                Err(error) => return Err(error),
            };
            if setting::is_back(path, &text, old) {
                if setting::hides_what_is_in_force(path) {
                    host.change_setting(path, old)?;
                }
                return Ok(Undone::Nothing);
            }
            let current = setting::in_force(path, &text);
            if new.as_ref().is_some_and(|new| !setting::same(&current, new)) {
                return Ok(Undone::Foreign(format!(
                    "'{}' is now '{current}', which fsdyno did not set",
                    path.display()
                )));
            }
            host.change_setting(path, old)?;
            let now = host.read_setting(path)?;
            let old = old.trim_end();
            if !setting::is_back(path, now.trim_end(), old) {
                return Err(HostError::System {
                    action: format!("restore '{old}' in"),
                    object: path.display().to_string(),
                    errno: 0,
                    reason: format!("it is '{}' after writing", setting::in_force(path, &now)),
                });
            }
            Ok(Undone::Done(format!("set '{}' back to '{old}'", path.display())))
        }
        UndoAction::SettingInForce { .. } => Ok(Undone::Nothing),
        UndoAction::RemoveDirectory { path } | UndoAction::RemoveMemoryGroup { path } => {
            if host.file_identity(path)?.is_none() {
                return Ok(Undone::Nothing);
            }
            host.remove_directory(path)?;
            Ok(Undone::Done(format!("removed '{}'", path.display())))
        }
        UndoAction::RemoveTraceInstance { name } => Ok(match host.remove_trace_instance(name)? {
            true => Undone::Done(format!("removed {}", action.describe())),
            false => Undone::Nothing,
        }),
        UndoAction::RemoveTree { path } => {
            if host.file_identity(path)?.is_none() {
                return Ok(Undone::Nothing);
            }
            host.remove_tree(path)?;
            Ok(Undone::Done(format!("removed '{}'", path.display())))
        }
        UndoAction::Unmount { target, mounted } => unmount(host, target, mounted.as_ref()),
        UndoAction::StopArray { uuid } => layer::stop_array(host, uuid),
        UndoAction::RemoveMapping { name } => layer::remove_mapping(host, name),
        // Just after a boot, not all disks may have appeared yet.
        UndoAction::ClearLabel { disk, .. } if rebooted && host.file_identity(disk)?.is_none() => {
            Err(HostError::system("find the disk", disk, std::io::Error::from_raw_os_error(ENOENT)))
        }
        UndoAction::ClearLabel { disk, label } => layer::clear_label(host, disk, label, open),
    }
}

/// Returns the identity of the file at a path. The files of a recorder are gone with its process, although
/// its mountpoint is still there.
fn still_there(host: &mut dyn Host, path: &Path) -> fsdyno_host::Result<Option<FileIdentity>> {
    match host.file_identity(path) {
        Err(HostError::System { errno: ENOTCONN, .. }) if path.parent().is_some_and(is_mount_directory) => {
            Ok(None)
        }
        found => found,
    }
}

fn foreign_file(path: &Path) -> String {
    format!("'{}' is not the file that fsdyno created", path.display())
}

/// Detaches every loop device that has one of fsdyno's images, and none that has something else when its turn
/// comes.
fn detach(host: &mut dyn Host, image: &FileIdentity, path: &Path) -> fsdyno_host::Result<Undone> {
    let mut nodes = Vec::new();
    for found in host.loops()? {
        // The disk of a recorder that was killed is known by its path alone, whose directory nobody else
        // makes.
        let is_ours = match found.answers() {
            true => has(host, &found, image)?,
            false => path.parent().is_some_and(is_mount_directory) && Path::new(&found.backing_path) == path,
        };
        if !is_ours {
            continue;
        }
        match host.detach_loop(&found) {
            Err(HostError::Replaced { .. }) => {}
            result => result.map(|()| nodes.push(found.device.display().to_string()))?,
        }
    }
    if nodes.is_empty() {
        return Ok(Undone::Nothing);
    }
    Ok(Undone::Done(format!("detached {} from '{}'", nodes.join(", "), path.display())))
}

/// Returns whether a loop device has this image. After the image was removed, another file may have got its
/// inode, but with another birth time.
fn has(host: &mut dyn Host, found: &LoopInfo, image: &FileIdentity) -> fsdyno_host::Result<bool> {
    if (found.backing_device, found.backing_inode) != (image.device, image.inode) {
        return Ok(false);
    }
    let named = still_there(host, Path::new(&found.backing_path))?;
    let same_inode = named.filter(|named| (named.device, named.inode) == (image.device, image.inode));
    Ok(same_inode.is_none_or(|named| named == *image))
}

/// Unmounts what fsdyno mounted in a place, unless somebody else has mounted something over it.
fn unmount(host: &mut dyn Host, target: &Path, mounted: Option<&MountSource>) -> fsdyno_host::Result<Undone> {
    let mut mounts = host.mounts()?;
    mounts.retain(|mount| mount.target == target);
    let Some((top, below)) = mounts.split_last() else { return Ok(Undone::Nothing) };
    let is_ours = |mount: &MountInfo| mounted.is_none_or(|mounted| mounted.is(mount));
    let is_foreign = match mounted {
        Some(mounted) => !mounted.is(top),
        // It is not known what was mounted, but it was the first.
        None => !below.is_empty(),
    };
    if !is_foreign {
        write_back(host, target)?;
        host.unmount(target)?;
        return Ok(Undone::Done(format!("unmounted '{}'", target.display())));
    }
    let stranger = format!("{} of '{}'", top.filesystem, top.source);
    if !below.iter().any(is_ours) {
        return Ok(Undone::Foreign(format!(
            "on '{}' is {stranger}, which fsdyno did not mount",
            target.display()
        )));
    }
    Err(HostError::System {
        action: "unmount".to_string(),
        object: target.display().to_string(),
        errno: 0,
        reason: format!("{stranger} was mounted over it by somebody else, and has to be unmounted first"),
    })
}

/// Writes a filesystem back before it is unmounted. Unmounting locks it meanwhile, and if writing hangs, so
/// would everybody who iterates over all filesystems, for example `drop_caches`: such a filesystem stays
/// mounted.
fn write_back(host: &mut dyn Host, target: &Path) -> fsdyno_host::Result<()> {
    let sync = Command::new("sync").args(["-f", &target.to_string_lossy()]);
    match host.run(&Command { limit: WRITE_BACK, ..sync }) {
        Err(error @ HostError::Hung { .. }) => Err(error),
        // Unmounting reports every other error.
        _ => Ok(()),
    }
}

/// Returns whether a file is the one that fsdyno created. Device numbers are reassigned at boot; inode and
/// birth time stay.
fn same_file(found: &FileIdentity, ours: &FileIdentity, rebooted: bool) -> bool {
    let same_device = found.device == ours.device || (rebooted && ours.birth_ns.is_some());
    same_device
        && found.inode == ours.inode
        && found.birth_ns == ours.birth_ns
        && found.regular == ours.regular
}
