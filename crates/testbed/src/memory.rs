//! A memory cgroup for the load: it bounds the memory of the engine, of the programs that it runs, and of the
//! page cache that they fill (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
//!
//! A new group lies below that of fsdyno itself in version 1. In version 2 it lies below the nearest group
//! that passes the memory controller on, because a group with processes cannot. The engine sets the limit and
//! enters; the group is removed when the trial is undone.

use crate::Result;
use crate::name::{is_memory_group, memory_group};
use crate::undo::UndoJournal;
use crate::way_back::UndoAction;
use fsdyno_core::protocol::MemoryGroup;
use fsdyno_core::{Bytes, Configuration, DeviceSpec};
use fsdyno_host::{Host, HostError};
use std::path::{Path, PathBuf};

/// The minimum: the engine itself must fit into it, along with the pages that it works on.
pub const LEAST: Bytes = Bytes(32 * Bytes::MIB);

/// The maximum: more than any machine has, and exact in every format of results.
pub const MOST: Bytes = Bytes(1 << 50);

/// What the configuration asks for and cannot be.
pub(crate) fn contradiction(configuration: &Configuration) -> Option<String> {
    let asked = configuration.memory().filter(|asked| !(LEAST..=MOST).contains(asked))?;
    Some(format!("memory = {asked} is out of range ({LEAST} to {MOST})"))
}

/// Creates the group that the configuration asks for. `Err` in the result says why there can be none.
///
/// # Errors
/// [`crate::TestbedError::Journal`], before anything was created.
pub fn group(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    configuration: &Configuration,
    device: &DeviceSpec,
) -> Result<Option<std::result::Result<MemoryGroup, String>>> {
    let Some(limit) = configuration.memory() else { return Ok(None) };
    if let Some(path) = in_memory(host, device) {
        return Ok(Some(Err(format!(
            "'{}' is itself in memory, which the limit would count",
            path.display()
        ))));
    }
    let parent = match parent(host) {
        Ok(parent) => parent,
        Err(reason) => return Ok(Some(Err(reason))),
    };
    let directory = memory_group(&parent);
    journal.append(&[UndoAction::RemoveMemoryGroup { path: directory.clone() }])?;
    let made = host.create_directory(&directory).map_err(|error| error.to_string());
    Ok(Some(made.map(|()| MemoryGroup { directory, limit })))
}

/// What is used for data, if it is on a filesystem in memory: its pages cannot be reclaimed, so that a limit
/// would end the load.
fn in_memory(host: &mut dyn Host, device: &DeviceSpec) -> Option<PathBuf> {
    device.disks().into_iter().find_map(|disk| {
        let path = disk.path();
        let directory = match disk {
            DeviceSpec::Image { .. } => path.parent().filter(|parent| !parent.as_os_str().is_empty())?,
            DeviceSpec::Directory { .. } => path,
            _ => return None,
        };
        host.room(directory).is_ok_and(|room| room.in_memory).then(|| path.to_path_buf())
    })
}

/// Whether the kernel has killed something in a group because its limit was reached.
pub fn has_killed(host: &mut dyn Host, group: &MemoryGroup) -> bool {
    ["memory.events", "memory.oom_control"].into_iter().any(|file| {
        let text = host.read_text(&group.directory.join(file)).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    })
}

/// Where a group can be created, or why nowhere.
pub(crate) fn parent(host: &mut dyn Host) -> std::result::Result<PathBuf, String> {
    let mut read = |path: &str| host.read_text(Path::new(path)).map_err(|error: HostError| error.to_string());
    let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
    let hierarchies = hierarchies(&mounts);
    let own = |controller: &str| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let named = fields.next()?.split(',').any(|name| name == controller);
            if named { fields.next() } else { None }
        })
    };
    let mut outside = None;
    for hierarchy in &hierarchies {
        let Some(own) = own(if hierarchy.unified { "" } else { "memory" }) else { continue };
        let Ok(below) = Path::new(own).strip_prefix(&hierarchy.root) else {
            outside = Some(format!("fsdyno's own cgroup '{own}' is outside of the mounted ones"));
            continue;
        };
        let directory = hierarchy.mount.join(below);
        if !hierarchy.unified {
            return Ok(directory);
        }
        let passes_on = |directory: &&Path| {
            let controllers = host.read_text(&directory.join("cgroup.subtree_control")).unwrap_or_default();
            controllers.split_whitespace().any(|one| one == "memory")
        };
        let above = directory.ancestors().take_while(|above| above.starts_with(&hierarchy.mount));
        if let Some(found) = above.into_iter().find(passes_on) {
            return Ok(found.to_path_buf());
        }
    }
    Err(match hierarchies.is_empty() {
        _ if outside.is_some() => outside.unwrap_or_default(),
        true => "no cgroup filesystem with the memory controller is mounted below /sys/fs/cgroup".to_string(),
        false => "no group above fsdyno's own passes the memory controller on".to_string(),
    })
}

/// A mounted cgroup filesystem that may have the memory controller.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    unified: bool,
    root: PathBuf,
    mount: PathBuf,
}

/// Those in a mountinfo (proc_pid_mountinfo(5)) where groups of ours may be removed, version 1 first: a
/// controller is in one version only, and mounted there.
fn hierarchies(mounts: &str) -> Vec<Hierarchy> {
    let read = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let (place, kind): (Vec<&str>, Vec<&str>) = (place.split(' ').collect(), kind.split(' ').collect());
        let unified = match *kind.first()? {
            "cgroup" if kind.get(2)?.split(',').any(|option| option == "memory") => false,
            "cgroup2" => true,
            _ => return None,
        };
        Some(Hierarchy { unified, root: place.get(3)?.into(), mount: place.get(4)?.into() })
    };
    let usual = |hierarchy: &Hierarchy| is_memory_group(&memory_group(&hierarchy.mount));
    let mut found: Vec<Hierarchy> = mounts.lines().filter_map(read).filter(usual).collect();
    found.sort_by_key(|hierarchy| hierarchy.unified);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_host::fake::FakeHost;

    const BOTH: &str = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                        31 25 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
    const UNIFIED: &str =
        "31 25 0:27 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn parent_in(files: &[(&str, &str)]) -> std::result::Result<PathBuf, String> {
        let mut host = FakeHost::new();
        for (path, text) in files {
            host.write_setting(path, text);
        }
        parent(&mut host)
    }

    #[test]
    fn version_1_takes_a_group_below_ones_own() {
        let found = parent_in(&[
            ("/proc/self/mountinfo", BOTH),
            ("/proc/self/cgroup", "4:memory:/system/fsdyno\n3:cpuset:/\n0::/\n"),
        ]);
        assert_eq!(found, Ok(PathBuf::from("/sys/fs/cgroup/memory/system/fsdyno")));
    }

    #[test]
    fn version_2_takes_one_below_the_nearest_that_passes_the_controller_on() {
        let own = ("/proc/self/cgroup", "0::/user.slice/user-0.slice/session-3.scope\n");
        let slice = "/sys/fs/cgroup/user.slice/cgroup.subtree_control";
        let found = parent_in(&[("/proc/self/mountinfo", UNIFIED), own, (slice, "cpu memory pids\n")]);
        assert_eq!(found, Ok(PathBuf::from("/sys/fs/cgroup/user.slice")));
        let found = parent_in(&[("/proc/self/mountinfo", UNIFIED), own, (slice, "cpu pids\n")]);
        assert!(found.is_err_and(|reason| reason.contains("passes the memory controller on")));
    }

    #[test]
    fn a_machine_without_cgroups_says_so() {
        let found = parent_in(&[("/proc/self/mountinfo", ""), ("/proc/self/cgroup", "")]);
        assert!(found.is_err_and(|reason| reason.contains("no cgroup filesystem")));
    }
}
