//! The memory cgroup that the engine and every program that it starts work in.

use crate::error::EngineError;
use fsdyno_core::Bytes;
use fsdyno_core::protocol::MemoryGroup;
use fsdyno_core::result::GroupMemory;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MlockAllFlags, mlockall};
use std::path::Path;

/// The file with the limit, in versions 2 and 1 of cgroups (Documentation/admin-guide/cgroup-v2.rst and
/// cgroup-v1/memory.rst).
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

/// Limits a group and moves this process into it, with all of its threads. The program itself stays in
/// memory, outside of the group: the load would displace parts of it, which would be read again from the
/// machine's own disk in the middle of a window, and not at all while a device that hangs keeps all pages of
/// the group.
///
/// # Errors
/// [`EngineError::System`] with the file that could not be written.
pub(crate) fn enter(group: &MemoryGroup) -> Result<(), EngineError> {
    let limit = LIMITS.map(|name| group.directory.join(name)).into_iter().find(|file| file.exists());
    let limit = limit.unwrap_or_else(|| group.directory.join(LIMITS[0]));
    write(&limit, &group.limit.0.to_string())?;
    // Whoever is not root may lock only little (RLIMIT_MEMLOCK), and does without.
    let _ = mlockall(MlockAllFlags::CURRENT);
    // 0 is whoever writes.
    write(&group.directory.join("cgroup.procs"), "0")
}

/// These files take their value in a single write.
fn write(path: &Path, text: &str) -> Result<(), EngineError> {
    let opened = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let written = opened.and_then(|file| rustix::io::write(&file, text.as_bytes()));
    written.map(drop).map_err(EngineError::system("limit memory by writing to", path))
}

/// Returns the memory use of a group until now, and the number of times that its limit was reached.
pub(crate) fn used(group: &MemoryGroup) -> GroupMemory {
    let read = |name: &str| std::fs::read_to_string(group.directory.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let reached = || {
        let events = read("memory.events")?;
        events.lines().find_map(|line| line.strip_prefix("max ")?.parse().ok())
    };
    GroupMemory {
        limit: group.limit,
        peak: number("memory.peak").or_else(|| number("memory.max_usage_in_bytes")).map(Bytes),
        reclaims: number("memory.failcnt").or_else(reached).unwrap_or(0),
    }
}

/// Returns the bytes in pages of a group that are not on the disk yet, dirty or being written back; `None`
/// where the kernel does not say.
pub(crate) fn dirty(group: &MemoryGroup) -> Option<Bytes> {
    let text = std::fs::read_to_string(group.directory.join("memory.stat")).ok()?;
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find_map(|(name, value)| (name == key).then(|| value.trim().parse::<u64>().ok())?)
    };
    // In version 2 and version 1.
    let names = [["file_dirty", "file_writeback"], ["dirty", "writeback"]];
    names.into_iter().find_map(|[dirty, writeback]| Some(Bytes(value(dirty)? + value(writeback)?)))
}
