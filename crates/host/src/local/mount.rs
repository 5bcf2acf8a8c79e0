//! Mounts, with fsopen(2), fsconfig(2), fsmount(2) and move_mount(2), which reject options one by one and say
//! why; and the free space of what is mounted.

use super::while_busy;
use crate::probe::{MountInfo, Room};
use crate::{HostError, MountRequest, Result, mountinfo};
use fsdyno_core::Bytes;
use rustix::fs::{CWD, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Options that belong to the mount and not to the filesystem (mount_setattr(2)).
const ATTRIBUTES: &[(&str, MountAttrFlags)] = &[
    ("ro", MountAttrFlags::MOUNT_ATTR_RDONLY),
    ("noatime", MountAttrFlags::MOUNT_ATTR_NOATIME),
    ("relatime", MountAttrFlags::MOUNT_ATTR_RELATIME),
    ("strictatime", MountAttrFlags::MOUNT_ATTR_STRICTATIME),
    ("nodiratime", MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ("nosuid", MountAttrFlags::MOUNT_ATTR_NOSUID),
    ("nodev", MountAttrFlags::MOUNT_ATTR_NODEV),
    ("noexec", MountAttrFlags::MOUNT_ATTR_NOEXEC),
];

/// Options of mount(8) that have no effect here.
const NO_EFFECT: &[&str] = &["", "defaults", "rw", "atime", "diratime", "suid", "dev", "exec"];

pub(super) fn mount(request: &MountRequest) -> Result<()> {
    let kernel_log = KernelLog::from_now();
    let failed = |option: Option<&str>, error: Errno, messages: &[String]| {
        mount_error(request, option, error, messages)
    };
    let context = fsopen(request.filesystem.as_str(), FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(|error| failed(None, error, &unknown_type(&request.filesystem, error)))?;

    let mut attributes = MountAttrFlags::empty();
    for option in request.options.iter().flat_map(|joined| joined.split(',')) {
        if let Some((_, attribute)) = ATTRIBUTES.iter().find(|(name, _)| *name == option) {
            attributes = with_attribute(attributes, *attribute);
        }
        if let Some(result) = configure(&context, option) {
            result.map_err(|error| failed(Some(option), error, &messages(&context)))?;
        }
    }
    fsconfig_set_string(context.as_fd(), "source", &*request.source)
        .map_err(|error| failed(None, error, &messages(&context)))?;
    fsconfig_create(context.as_fd()).map_err(|error| {
        let mut said = messages(&context);
        said.extend(kernel_log.lines_about(&request.source));
        failed(named_option(request, &said), error, &said)
    })?;
    let mounted = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(|error| failed(None, error, &messages(&context)))?;
    move_mount(mounted.as_fd(), "", CWD, &*request.target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|error| failed(None, error, &[format!("at '{}'", request.target.display())]))
}

/// The last of several atime options wins, as in mount(8): they are values of one field rather than separate
/// flags.
fn with_attribute(attributes: MountAttrFlags, new: MountAttrFlags) -> MountAttrFlags {
    let atime = MountAttrFlags::MOUNT_ATTR__ATIME;
    let field = new.is_empty() || atime.contains(new);
    if field { attributes.difference(atime) | new } else { attributes | new }
}

/// Passes an option to the filesystem, unless it belongs to the mount only. `ro` belongs to both.
fn configure(context: &OwnedFd, option: &str) -> Option<rustix::io::Result<()>> {
    let of_the_mount = option != "ro" && ATTRIBUTES.iter().any(|(name, _)| *name == option);
    if of_the_mount || NO_EFFECT.contains(&option) {
        return None;
    }
    Some(match option.split_once('=') {
        Some((key, value)) => fsconfig_set_string(context.as_fd(), key, value),
        None => fsconfig_set_flag(context.as_fd(), option),
    })
}

fn mount_error(request: &MountRequest, option: Option<&str>, error: Errno, messages: &[String]) -> HostError {
    let mut reason = crate::reason(error.into());
    if let Some(option) = option {
        reason = format!("option '{option}': {reason}");
    }
    if !messages.is_empty() {
        reason = format!("{reason} ({})", messages.join("; "));
    }
    HostError::Mount {
        source_path: request.source.display().to_string(),
        filesystem: request.filesystem.clone(),
        option: option.map(str::to_string),
        errno: error.raw_os_error(),
        reason,
    }
}

fn unknown_type(filesystem: &str, error: Errno) -> Vec<String> {
    let unknown = error == Errno::NODEV;
    unknown.then(|| format!("the kernel does not support filesystem '{filesystem}'")).into_iter().collect()
}

/// The option that a message quotes or names, if the filesystem checks its options only together.
fn named_option<'a>(request: &'a MountRequest, messages: &[String]) -> Option<&'a str> {
    let mut options = request.options.iter().flat_map(|joined| joined.split(','));
    options.find(|option| {
        let key = option.split('=').next().unwrap_or(option);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !key.is_empty() && messages.iter().any(|line| line.split(|c| !is_word(c)).any(|word| word == key))
    })
}

/// The messages that a filesystem left for this mount: each read(2) of the context's descriptor gives one,
/// beginning with its severity (`e `, `w `, `i `).
fn messages(context: &OwnedFd) -> Vec<String> {
    let mut found = Vec::new();
    let mut buffer = [0_u8; 4096];
    while let Ok(length) = rustix::io::read(context.as_fd(), &mut buffer) {
        if length == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&buffer[..length]);
        let line = line.trim_end();
        found.push(line.get(2..).filter(|_| line[1..].starts_with(' ')).unwrap_or(line).to_string());
    }
    found
}

/// A position in the kernel's log; some filesystems explain a failed mount nowhere else. Absent without
/// permission to read it.
struct KernelLog(Option<OwnedFd>);

impl KernelLog {
    fn from_now() -> Self {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let log = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok();
        KernelLog(log.filter(|log| rustix::fs::seek(log, SeekFrom::End(0)).is_ok()))
    }

    /// Returns the records that were logged since the log was opened and name the device.
    fn lines_about(&self, source: &Path) -> Vec<String> {
        let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let records = self.0.as_ref().map(|log| records(log.as_fd())).unwrap_or_default();
        records.into_iter().filter(|line| !name.is_empty() && line.contains(&name)).collect()
    }
}

/// Records of `/dev/kmsg`, one a read, `priority,sequence,time,flags;text`
/// (Documentation/ABI/testing/dev-kmsg).
fn records(log: BorrowedFd<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut buffer = [0_u8; 8192];
    loop {
        match rustix::io::read(log, &mut buffer) {
            // Overwritten before it was read: the next read continues after the gap.
            Err(Errno::PIPE) => {}
            Err(_) | Ok(0) => return found,
            Ok(length) => {
                let record = String::from_utf8_lossy(&buffer[..length]);
                let text = record.split_once(';').map_or(&*record, |(_, text)| text);
                found.push(text.lines().next().unwrap_or_default().to_string());
            }
        }
    }
}

/// Unmounts, trying for a short time while the mount is busy.
pub(super) fn unmount(target: &Path) -> Result<()> {
    while_busy(|| rustix::mount::unmount(target, UnmountFlags::NOFOLLOW))
        .map_err(|error| HostError::system("unmount", target, error))
}

pub(super) fn mounts() -> Result<Vec<MountInfo>> {
    let path = Path::new("/proc/self/mountinfo");
    let text = super::files::read_text(path)?;
    let (mut mounts, bad) = mountinfo::parse(&text);
    mountinfo::add_root(&mut mounts);
    match bad.first() {
        None => Ok(mounts),
        Some(line) => Err(HostError::System {
            action: "parse a line of".to_string(),
            object: path.display().to_string(),
            errno: 0,
            reason: format!("'{line}'"),
        }),
    }
}

/// The free space of the filesystem that a path is on. `shares` is what else is stored in places and needs
/// space, each with its name.
pub(super) fn room(path: &Path, shares: &[(String, PathBuf)]) -> Result<Room> {
    let failed = |error: Errno| HostError::system("determine the free space of", path, error);
    let found = rustix::fs::statvfs(path).map_err(failed)?;
    let mounts = mounts()?;
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
