//! Which files are kernel settings: sysctls, and the attributes of a disk's queue that an axis varies.
//!
//! A host writes to nothing else, whatever its caller asks for. So a hole in the plan parser, or a forged
//! line in an undo journal, is not a hole in the machine.

use fsdyno_core::axis::QUEUE;
use fsdyno_core::sysctl;
use std::path::{Component, Path, PathBuf};

/// The attribute of `queue` in sysfs that a key of a device sets, and not an axis.
const DISCARD: &str = "discard_max_bytes";
/// The attribute that a modelled disk sets: whether it has platters.
pub const ROTATIONAL: &str = "rotational";
/// The largest setting in bytes that can be restored.
pub const BYTES_MAX: usize = sysctl::VALUE_BYTES_MAX;

/// Returns the attributes of `queue` in sysfs that an axis or a key of a device sets
/// (Documentation/ABI/stable/sysfs-block).
pub fn queue_attributes() -> impl Iterator<Item = &'static str> {
    QUEUE.iter().map(|attribute| attribute.file).chain([DISCARD, ROTATIONAL])
}

/// The attributes of a disk's queue, by its name in `/sys/block`, that stay as they are when it is used and
/// not used any more.
pub fn lasting_attributes(disk: &str) -> impl Iterator<Item = &'static str> {
    let is_loop = disk.starts_with("loop");
    let of_file = |name| {
        [DISCARD, ROTATIONAL].contains(&name)
            || QUEUE.iter().any(|attribute| attribute.of_file && attribute.file == name)
    };
    queue_attributes().filter(move |name| !(is_loop && of_file(*name)))
}

/// The filesystem that a setting is a file of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// `/proc/sys`.
    Sysctl,
    /// `/sys`.
    Sysfs,
}

impl Root {
    /// Where it is mounted.
    pub fn path(self) -> &'static Path {
        Path::new(match self {
            Root::Sysctl => "/proc/sys",
            Root::Sysfs => "/sys",
        })
    }
}

/// A file that is a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSetting {
    /// The filesystem.
    pub root: Root,
    /// The file relative to that: only names, no `.`, no `..`.
    pub file: PathBuf,
}

impl HostSetting {
    /// The setting at a path; `None` if it is something else.
    pub fn at(path: &Path) -> Option<HostSetting> {
        // `Path` itself skips `.` and doubled slashes.
        let text = path.to_str()?;
        let plain = text.strip_prefix('/')?.split('/').all(|name| !["", ".", ".."].contains(&name));
        let root = [Root::Sysctl, Root::Sysfs].into_iter().find(|root| path.starts_with(root.path()))?;
        let file = path.strip_prefix(root.path()).ok()?;
        let names: Vec<&str> = file.components().map(name_of).collect::<Option<_>>()?;
        let known = match root {
            Root::Sysctl => !names.is_empty() && names.iter().all(|name| sysctl::is_component(name)),
            Root::Sysfs => is_queue_attribute(&names),
        };
        (plain && known).then(|| HostSetting { root, file: file.to_path_buf() })
    }

    /// The device number in `dev/block/MAJOR:MINOR`, which is a link in sysfs, and what follows it.
    pub fn behind_link(&self) -> Option<(PathBuf, PathBuf)> {
        let rest = self.file.strip_prefix("dev/block").ok().filter(|_| self.root == Root::Sysfs)?;
        let mut names = rest.components();
        let number = names.next()?;
        Some((Path::new("dev/block").join(number), names.as_path().to_path_buf()))
    }
}

fn name_of(component: Component<'_>) -> Option<&str> {
    match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    }
}

/// `dev/block/MAJOR:MINOR/queue/NAME`, or `devices/…/queue/NAME`, to which the link of the first leads.
fn is_queue_attribute(names: &[&str]) -> bool {
    let [directory @ .., "queue", attribute] = names else { return false };
    let is_number = |text: &str| {
        text.split_once(':').is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
    };
    let device = match directory {
        ["dev", "block", number] => is_number(number),
        ["devices", .., _] => true,
        _ => false,
    };
    device && queue_attributes().any(|known| known == *attribute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_and_attributes_of_queues_are_settings() {
        let at = |path: &str| HostSetting::at(Path::new(path));
        let dirty = at("/proc/sys/vm/dirty_ratio").unwrap();
        assert_eq!((dirty.root, dirty.file.as_path()), (Root::Sysctl, Path::new("vm/dirty_ratio")));
        assert_eq!(dirty.behind_link(), None);
        let scheduler = at("/sys/dev/block/259:0/queue/scheduler").unwrap();
        let (link, rest) = scheduler.behind_link().unwrap();
        assert_eq!(
            (link.as_path(), rest.as_path()),
            (Path::new("dev/block/259:0"), Path::new("queue/scheduler"))
        );
        assert!(
            at("/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/block/sda/queue/read_ahead_kb").is_some()
        );
    }

    #[test]
    fn nothing_else_is_a_setting() {
        for path in [
            "/etc/passwd",
            "/proc/sys",
            "/proc/sysrq-trigger",
            "/proc/sys/../sysrq-trigger",
            "/proc/sys/vm/../../sysrq-trigger",
            "/proc/sys/vm/./dirty_ratio",
            "/proc/sys//vm/dirty_ratio",
            "/proc/sys/vm/",
            "/proc/system/x",
            "/proc/self/mem",
            "proc/sys/vm/dirty_ratio",
            "/proc/sys/fs/binfmt_misc/.x",
            "/sys/power/state",
            "/sys/block/sda/device/delete",
            "/sys/dev/block/8:0/queue/../device/delete",
            "/sys/dev/block/8:0/queue/iostats",
            "/sys/dev/block/sda/queue/scheduler",
            "/sys/dev/block/../../etc/queue/scheduler",
            "/sys/queue/scheduler",
            "/sys/devices/queue/scheduler",
            "/tmp/sys/devices/x/queue/scheduler",
        ] {
            assert_eq!(HostSetting::at(Path::new(path)), None, "{path}");
        }
    }
}
