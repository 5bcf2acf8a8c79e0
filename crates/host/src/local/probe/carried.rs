//! The paths and swap areas that the machine and fsdyno need, and the block devices that carry them, directly
//! or through layers.

use super::Number;
use super::graph::Graph;
use super::users::Swap;
use crate::mountinfo::{containing, nearest_existing};
use crate::probe::MountInfo;
use std::collections::BTreeMap;
use std::path::PathBuf;

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
            carry(what, graph.devices_of(mount, unknown));
        }
    }
    for swap in swaps {
        match swap.block {
            Some(number) => carry("swap", vec![number]),
            None => {
                if let Some(mount) = containing(mounts, &swap.path) {
                    carry("swap", graph.devices_of(mount, unknown));
                }
            }
        }
    }
    carried
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::machine;
    use super::*;
    use crate::mountinfo;
    use std::path::Path;

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
}
