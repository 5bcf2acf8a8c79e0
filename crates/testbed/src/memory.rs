//! A memory cgroup for the load: it bounds the memory of the engine, of the programs that it runs, and of the
//! page cache that they fill (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
//!
//! A new group lies below that of fsdyno itself in version 1. In version 2 it lies below the nearest group
//! that enables the memory controller for those below it, which a group with processes cannot. The engine
//! sets the limit and enters; the group is removed when the trial is undone.

use crate::Result;
use crate::error::TestbedError;
use crate::name::{may_hold_groups, memory_group};
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

/// Returns the contradiction if the configuration asks for memory that is out of range.
pub(crate) fn contradiction(configuration: &Configuration) -> Option<String> {
    let asked = configuration.memory().filter(|asked| !(LEAST..=MOST).contains(asked))?;
    Some(format!("memory = {asked} is out of range ({LEAST} to {MOST})"))
}

/// Creates the group that the configuration asks for.
///
/// # Errors
/// [`TestbedError::Unmet`] with the reason if there can be none; [`TestbedError::Journal`]. Nothing was
/// created then.
pub fn group(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    configuration: &Configuration,
    in_memory: Option<&Path>,
) -> Result<Option<MemoryGroup>> {
    let Some(limit) = configuration.memory() else { return Ok(None) };
    if let Some(path) = in_memory {
        let path = path.display();
        return Err(unmet(format!(
            "'{path}' is in memory (tmpfs), and its pages would count against the limit"
        )));
    }
    group_of(host, journal, limit).map(Some)
}

/// Creates a group with this limit.
///
/// # Errors
/// As for [`group`].
pub fn group_of(host: &mut dyn Host, journal: &mut UndoJournal, limit: Bytes) -> Result<MemoryGroup> {
    let directory = memory_group(&parent(host)?);
    journal.append(&[UndoAction::RemoveMemoryGroup { path: directory.clone() }])?;
    host.create_directory(&directory).map_err(|error| unmet(error.to_string()))?;
    Ok(MemoryGroup { directory, limit })
}

fn unmet(reason: String) -> TestbedError {
    TestbedError::Unmet { unmet: vec![format!("memory cannot be limited: {reason}")] }
}

/// Returns the path that is used for data, if it is on a filesystem in memory: such a filesystem is as fast
/// as memory, and its pages cannot be reclaimed, so that a limit would end the load.
pub fn in_memory(host: &mut dyn Host, device: &DeviceSpec) -> Option<PathBuf> {
    device.disks().into_iter().find_map(|disk| {
        let path = disk.path();
        let directory = match disk {
            DeviceSpec::Image(_) => path.parent().filter(|parent| !parent.as_os_str().is_empty())?,
            DeviceSpec::Directory { .. } => path,
            _ => return None,
        };
        host.room(directory).is_ok_and(|room| room.in_memory).then(|| path.to_path_buf())
    })
}

/// Returns whether the kernel has killed something in a group because its limit was reached.
pub fn has_killed(host: &mut dyn Host, group: &MemoryGroup) -> bool {
    ["memory.events", "memory.oom_control"].into_iter().any(|file| {
        let text = host.read_text(&group.directory.join(file)).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    })
}

/// Returns whether writers may fill a group with pages that are not on the disk yet: version 1 does not slow
/// them down before that (`writeback_throttling_sane` in mm/vmscan.c), and while the disk stalls nothing can
/// be reclaimed.
pub fn lets_writers_fill(host: &mut dyn Host, group: &MemoryGroup) -> bool {
    host.read_text(&group.directory.join("memory.oom_control")).is_ok()
}

/// The group below which one can be created.
fn parent(host: &mut dyn Host) -> Result<PathBuf> {
    let failed = |error: HostError| unmet(error.to_string());
    let own = host.read_text(Path::new("/proc/self/cgroup")).map_err(failed)?;
    let mounts = host.mounts().map_err(failed)?;
    let mut reason =
        "no cgroup filesystem with the memory controller is mounted below /sys/fs/cgroup".to_string();
    for mount in mounts.iter().filter(|mount| may_hold_groups(&mount.target)) {
        // Version 1 has a mount for each controller, version 2 a single one without a name.
        let controller = match mount.filesystem.as_str() {
            "cgroup" if mount.options.split(',').any(|option| option == "memory") => "memory",
            "cgroup2" => "",
            _ => continue,
        };
        let Some(own) = own_group(&own, controller) else { continue };
        let Ok(below) = Path::new(own).strip_prefix(&mount.root) else {
            reason = format!("fsdyno's own cgroup '{own}' is not below the one that is mounted");
            continue;
        };
        let directory = mount.target.join(below);
        if controller == "memory" {
            return Ok(directory);
        }
        let above = directory.ancestors().take_while(|above| above.starts_with(&mount.target));
        if let Some(found) = above.into_iter().find(|above| enables_memory(host, above)) {
            return Ok(found.to_path_buf());
        }
        reason = "no cgroup above fsdyno's own enables the memory controller for those below it".to_string();
    }
    Err(unmet(reason))
}

/// The group of this process in the hierarchy of a controller (`/proc/self/cgroup`, cgroups(7)).
fn own_group<'t>(text: &'t str, controller: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let named = fields.next()?.split(',').any(|name| name == controller);
        if named { fields.next() } else { None }
    })
}

fn enables_memory(host: &mut dyn Host, group: &Path) -> bool {
    let controllers = host.read_text(&group.join("cgroup.subtree_control")).unwrap_or_default();
    controllers.split_whitespace().any(|controller| controller == "memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_testkit::fake::FakeHost;

    const BOTH: &str = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                        31 25 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
    const UNIFIED: &str =
        "31 25 0:27 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn parent_in(mounts: &str, files: &[(&str, &str)]) -> std::result::Result<PathBuf, String> {
        let mut host = FakeHost::new();
        host.add_mounts(mounts);
        for (path, text) in files {
            host.write_setting(path, text);
        }
        parent(&mut host).map_err(|error| error.to_string())
    }

    #[test]
    fn version_1_takes_a_group_below_ones_own() {
        let groups = "4:memory:/system/fsdyno\n3:cpuset:/\n0::/\n";
        let found = parent_in(BOTH, &[("/proc/self/cgroup", groups)]);
        assert_eq!(found, Ok(PathBuf::from("/sys/fs/cgroup/memory/system/fsdyno")));
    }

    #[test]
    fn version_2_takes_one_below_the_nearest_that_passes_the_controller_on() {
        let own = ("/proc/self/cgroup", "0::/user.slice/user-0.slice/session-3.scope\n");
        let slice = "/sys/fs/cgroup/user.slice/cgroup.subtree_control";
        let found = parent_in(UNIFIED, &[own, (slice, "cpu memory pids\n")]);
        assert_eq!(found, Ok(PathBuf::from("/sys/fs/cgroup/user.slice")));
        let found = parent_in(UNIFIED, &[own, (slice, "cpu pids\n")]);
        assert!(found.is_err_and(|reason| reason.contains("enables the memory controller")));
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_named() {
        let mount = "30 25 0:26 /jail /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = parent_in(mount, &[("/proc/self/cgroup", "4:memory:/system\n")]);
        assert!(found.is_err_and(|reason| reason.contains("'/system' is not below")));
    }

    #[test]
    fn a_machine_without_cgroups_says_so() {
        let found = parent_in("", &[("/proc/self/cgroup", "")]);
        assert!(found.is_err_and(|reason| reason.contains("no cgroup filesystem")));
    }
}
