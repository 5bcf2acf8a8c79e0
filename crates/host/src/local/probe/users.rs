//! Who uses block devices: mounts in every mount namespace, swap areas, processes with open descriptors.

use super::{Number, block_number, devices_named};
use crate::mountinfo;
use crate::probe::MountInfo;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mounts of one mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Namespace {
    /// A process in it; `None` for fsdyno's own.
    pub(super) pid: Option<u32>,
    pub(super) mounts: Vec<MountInfo>,
}

/// Every mount namespace that has a process, as far as its processes see it; fsdyno's own is the first. A
/// process that does not reveal its namespace counts as having its own, because its mounts can be read
/// anyway.
pub(super) fn namespaces(unknown: &mut Vec<String>) -> Vec<Namespace> {
    let mut own = mounts_in(Path::new("/proc/self/mountinfo"), unknown);
    mountinfo::add_root(&mut own);
    let mut found = vec![Namespace { pid: None, mounts: own }];
    let mut seen: BTreeSet<_> = view(Path::new("/proc/self")).into_iter().collect();
    for (pid, directory) in processes(unknown) {
        let known = match view(&directory) {
            Ok(view) => !seen.insert(view),
            Err(error) => has_gone(&error),
        };
        if !known {
            let mounts = mounts_in(&directory.join("mountinfo"), unknown);
            found.push(Namespace { pid: Some(pid), mounts });
        }
    }
    found
}

/// Returns the view of a process: its mount namespace, and the directory that is its root, beyond which the
/// kernel lists no mounts.
fn view(process: &Path) -> std::io::Result<(PathBuf, Number, u64)> {
    let namespace = fs::read_link(process.join("ns/mnt"))?;
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    let root = rustix::fs::statx(CWD, process.join("root"), AtFlags::STATX_DONT_SYNC, wanted)?;
    Ok((namespace, (root.stx_dev_major, root.stx_dev_minor), root.stx_ino))
}

pub(super) fn own_mounts(namespaces: &[Namespace]) -> &[MountInfo] {
    namespaces.first().map(|own| own.mounts.as_slice()).unwrap_or_default()
}

fn mounts_in(file: &Path, unknown: &mut Vec<String>) -> Vec<MountInfo> {
    let text = match fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if has_gone(&error) => return Vec::new(),
        Err(error) => {
            unknown.push(format!("mounts: '{}' cannot be read: {error}", file.display()));
            return Vec::new();
        }
    };
    let (mounts, bad) = mountinfo::parse(&text);
    unknown.extend(bad.first().map(|line| format!("mounts: line '{line}' is not valid")));
    mounts
}

/// An area that the kernel swaps to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Swap {
    pub(super) path: PathBuf,
    /// The block device that it is; `None` for a file.
    pub(super) block: Option<Number>,
}

pub(super) fn swaps(unknown: &mut Vec<String>) -> Vec<Swap> {
    let text = match fs::read_to_string("/proc/swaps") {
        Ok(text) => text,
        // A kernel without swap has no such file.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            unknown.push(format!("swap: '/proc/swaps' cannot be read: {error}"));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (path, partition) in parse_swaps(&text) {
        let block = block_number(&path);
        if partition && block.is_none() {
            unknown.push(format!("swap: '{}' is not a device here", path.display()));
        }
        found.push(Swap { path, block });
    }
    found
}

/// Path and whether it is a block device, from each line of `/proc/swaps` but the heading.
fn parse_swaps(text: &str) -> Vec<(PathBuf, bool)> {
    let lines = text.lines().skip(1);
    let areas = lines.filter_map(|line| {
        let mut fields = line.split_whitespace();
        let path = OsString::from_vec(mountinfo::unescape(fields.next()?));
        Some((PathBuf::from(path), fields.next()? == "partition"))
    });
    areas.collect()
}

/// A device or file that processes may hold open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Opened {
    /// A block device.
    Block(Number),
    /// A file: device number of its filesystem, and inode.
    File((Number, u64)),
}

/// A process that holds something open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opener {
    pub(super) opened: Opened,
    pub(super) pid: u32,
    pub(super) command: String,
    /// The descriptor, if the process is the fsdyno that has started this agent: it opens no devices, so that
    /// it was itself started with it.
    pub(super) inherited: Option<RawFd>,
}

impl Opener {
    /// That it is open, for a person.
    pub(super) fn how(&self) -> String {
        match self.inherited {
            Some(descriptor) => format!("open as descriptor {descriptor} of fsdyno itself"),
            None => format!("opened by process {} ({})", self.pid, self.command),
        }
    }
}

/// Processes other than ours that hold one of these open, each once.
pub(super) fn openers(watched: &BTreeSet<Opened>, unknown: &mut Vec<String>) -> Vec<Opener> {
    let mut found = Vec::new();
    let mut hidden = Vec::new();
    let parent = parent();
    for (pid, directory) in processes(unknown) {
        match opened_by(&directory) {
            Ok(all) => {
                for (opened, descriptor) in all.iter().filter(|(opened, _)| watched.contains(opened)) {
                    let inherited = (parent == Some(pid)).then_some(*descriptor);
                    let command = command_of(&directory);
                    found.push(Opener { opened: *opened, pid, command, inherited });
                }
            }
            Err(error) if has_gone(&error) || is_closed_init(pid) => {}
            Err(error) => hidden.push(format!("{} ({pid}): {error}", command_of(&directory))),
        }
    }
    if let Some(first) = hidden.first() {
        unknown.push(format!("open files of {} processes, the first {first}", hidden.len()));
    }
    found
}

/// The supervisor of a container or sandbox may be hidden from the root inside. This does not count against a
/// device: nothing that is done inside could change it.
fn is_closed_init(pid: u32) -> bool {
    pid == 1 && rustix::process::geteuid().is_root()
}

/// The process that has started this one, if it is fsdyno.
fn parent() -> Option<u32> {
    let pid = rustix::process::getppid()?.as_raw_pid().cast_unsigned();
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    (program("self")? == program(&pid.to_string())?).then_some(pid)
}

/// Block devices and files that a process holds open, with one of the descriptors of each. The query does not
/// reach the filesystem: a broken one must not block fsdyno here.
fn opened_by(process: &Path) -> std::io::Result<BTreeMap<Opened, RawFd>> {
    let mut found = BTreeMap::new();
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    for entry in fs::read_dir(process.join("fd"))? {
        let entry = entry?;
        let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = match rustix::fs::statx(CWD, entry.path(), AtFlags::STATX_DONT_SYNC, wanted) {
            Ok(stat) => stat,
            Err(error @ (Errno::ACCESS | Errno::PERM)) => return Err(error.into()),
            // Closed in the meantime, or a file that the filesystem has lost; a device node is neither.
            Err(_) => continue,
        };
        match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::BlockDevice => {
                found.insert(Opened::Block((stat.stx_rdev_major, stat.stx_rdev_minor)), descriptor);
            }
            FileType::RegularFile => {
                let file = ((stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino);
                found.insert(Opened::File(file), descriptor);
            }
            _ => {}
        }
    }
    Ok(found)
}

fn command_of(process: &Path) -> String {
    fs::read_to_string(process.join("comm")).map(|name| name.trim_end().to_string()).unwrap_or_default()
}

/// Every process but ours.
fn processes(unknown: &mut Vec<String>) -> Vec<(u32, PathBuf)> {
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => {
            unknown.push(format!("processes: '/proc' cannot be read: {error}"));
            return Vec::new();
        }
    };
    let own = std::process::id();
    let processes = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (pid != own).then(|| (pid, entry.path()))
    });
    processes.collect()
}

/// Processes come and go in the meantime.
fn has_gone(error: &std::io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH, Errno::INVAL];
    error.raw_os_error().is_some_and(|number| gone.iter().any(|errno| errno.raw_os_error() == number))
}

/// Returns whether a filesystem is mounted from this device: by number, or by the node that its source names.
pub(super) fn is_mounted_from(mount: &MountInfo, number: Number) -> bool {
    mount.device == number || (mount.device.0 == 0 && devices_named(&mount.source).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::super::device_number;
    use super::*;

    #[test]
    fn swap_areas() {
        let text = "\
Filename				Type		Size		Used		Priority
/dev/dm-1                               partition	8388604		0		-2
/swap\\040file                           file		2097148		1024		-3
";
        let expected = [(PathBuf::from("/dev/dm-1"), true), (PathBuf::from("/swap file"), false)];
        assert_eq!(parse_swaps(text), expected);
        assert!(parse_swaps("Filename\tType\tSize\tUsed\tPriority\n").is_empty());
    }

    #[test]
    fn our_own_files_count_for_others_only() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let opened = Opened::File((device_number(stat.st_dev), stat.st_ino));
        let own = PathBuf::from("/proc/self");
        assert!(opened_by(&own).unwrap().contains_key(&opened));
        assert!(openers(&[opened].into(), &mut Vec::new()).is_empty());
        let mut child =
            std::process::Command::new("sleep").arg("1000").stdin(file.reopen().unwrap()).spawn().unwrap();
        let found = openers(&[opened].into(), &mut Vec::new());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, child.id());
    }
}
