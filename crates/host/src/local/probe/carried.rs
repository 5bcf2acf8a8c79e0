//! What the machine and fsdyno need, and the block devices that carry it, directly or through layers.

use super::graph::Graph;
use super::users::Swap;
use super::{Number, device_number};
use crate::mountinfo::{containing, nearest_existing};
use crate::probe::MountInfo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Filesystems that have no device number of their own but name their devices as the mount's source.
const NAMED_BY_SOURCE: &[&str] = &["btrfs", "bcachefs"];

/// For each device, everything that it carries. A filesystem whose devices cannot be determined from its
/// mount (overlay, zfs, the network) adds nothing here; its devices, if it has any, are claimed exclusively
/// by the kernel, which the probe detects.
pub(super) fn by_device(
    graph: &Graph,
    mounts: &[MountInfo],
    swaps: &[Swap],
    protected: &[(String, PathBuf)],
    unknown: &mut Vec<String>,
) -> BTreeMap<Number, Vec<String>> {
    let mut carried: BTreeMap<Number, Vec<String>> = BTreeMap::new();
    let mut carry = |what: &str, devices: Vec<Number>| {
        for number in graph.below(devices) {
            let all = carried.entry(number).or_default();
            if !all.iter().any(|known| known == what) {
                all.push(what.to_string());
            }
        }
    };
    for (what, path) in protected {
        if let Some(mount) = containing(mounts, &nearest_existing(path)) {
            carry(what, devices_of(graph, mount, unknown));
        }
    }
    for swap in swaps {
        match swap.block {
            Some(number) => carry("swap", vec![number]),
            None => {
                if let Some(mount) = containing(mounts, &swap.path) {
                    carry("swap", devices_of(graph, mount, unknown));
                }
            }
        }
    }
    carried
}

/// The block devices of a mounted filesystem, as far as the mount reveals them.
pub(super) fn devices_of(graph: &Graph, mount: &MountInfo, unknown: &mut Vec<String>) -> Vec<Number> {
    if mount.device.0 != 0 {
        return vec![mount.device];
    }
    if !NAMED_BY_SOURCE.contains(&mount.filesystem.as_str()) {
        return Vec::new();
    }
    let named = devices_named(&mount.source);
    if named.is_empty() {
        let (target, filesystem) = (mount.target.display(), &mount.filesystem);
        unknown
            .push(format!("devices of the {filesystem} at '{target}': '{}' is not a device", mount.source));
    }
    let members = named.iter().filter_map(|number| graph.nodes.get(number)?.btrfs.as_ref());
    let all = members.flat_map(|uuid| {
        let same = graph.nodes.iter().filter(move |(_, node)| node.btrfs.as_ref() == Some(uuid));
        same.map(|(number, _)| *number)
    });
    let all: Vec<Number> = all.collect();
    if all.is_empty() { named } else { all }
}

/// Device numbers of the nodes that a mount's source names, joined by colons where there are several
/// (bcachefs).
pub(super) fn devices_named(source: &str) -> Vec<Number> {
    let nodes = source.split(':').filter(|path| path.starts_with('/'));
    nodes.filter_map(|path| block_number(Path::new(path))).collect()
}

/// Device number of a block device node.
pub(super) fn block_number(path: &Path) -> Option<Number> {
    let stat = rustix::fs::stat(path).ok()?;
    let block = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
    block.then(|| device_number(stat.st_rdev))
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::machine;
    use super::*;
    use crate::mountinfo;

    fn mounts() -> Vec<MountInfo> {
        let text = "\
27 1 252:0 / / rw - ext4 /dev/mapper/vg-root rw
28 27 8:1 / /boot rw - ext4 /dev/sda1 rw
29 27 0:44 / /proc rw - proc proc rw
30 27 7:3 / /images/x rw - ext4 /dev/loop3 rw
";
        mountinfo::parse(text).0
    }

    #[test]
    fn a_path_lies_in_the_longest_mount_above_it() {
        let mounts = mounts();
        assert_eq!(containing(&mounts, Path::new("/boot/efi")).unwrap().device, (8, 1));
        assert_eq!(containing(&mounts, Path::new("/bootstrap")).unwrap().device, (252, 0));
        assert_eq!(containing(&mounts, Path::new("/")).unwrap().device, (252, 0));
    }

    #[test]
    fn a_disk_carries_what_its_layers_carry() {
        let protected = [("/", "/"), ("/boot", "/boot"), ("the store", "/images/x/none/such")];
        let protected = protected.map(|(what, path)| (what.to_string(), PathBuf::from(path)));
        let swaps = [Swap { path: "/dev/sdb".into(), block: Some((8, 16)) }];
        let mut unknown = Vec::new();
        let mut mounts = mounts();
        mounts.pop();
        let carried = by_device(&machine(), &mounts, &swaps, &protected, &mut unknown);
        assert_eq!(carried[&(8, 2)], ["/", "the store"]);
        assert_eq!(carried[&(8, 0)], ["/", "/boot", "the store"]);
        assert_eq!(carried[&(8, 16)], ["swap"]);
        assert!(!carried.contains_key(&(7, 3)));
        assert!(unknown.is_empty());
    }

    #[test]
    fn a_btrfs_stands_on_all_its_members() {
        let mut graph = machine();
        for number in [(8, 1), (8, 16)] {
            graph.nodes.get_mut(&number).unwrap().btrfs = Some("u-1".to_string());
        }
        let mount = MountInfo { source: "gone".to_string(), ..btrfs() };
        let mut unknown = Vec::new();
        assert!(devices_of(&graph, &mount, &mut unknown).is_empty());
        assert_eq!(unknown.len(), 1);
    }

    fn btrfs() -> MountInfo {
        mountinfo::parse("30 27 0:50 / /data rw - btrfs /dev/sdb rw").0.remove(0)
    }
}
