//! The graph of block devices that are built on each other: partitions, arrays, loop devices and the
//! filesystems that hold their files.

use super::{Number, devices_named};
use crate::local::loops;
use crate::mountinfo;
use crate::probe::MountInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/dev/block";

/// Filesystems that have no device number of their own but name their devices as the mount's source.
const NAMED_BY_SOURCE: &[&str] = &["btrfs", "bcachefs"];

/// A block device and its neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The kernel's name: `sda1`.
    pub(super) name: String,
    /// Its disk, when it is a partition.
    pub(super) disk: Option<Number>,
    /// First byte on the disk and size in bytes, if it is a partition.
    pub(super) extent: Option<(u64, u64)>,
    pub(super) partitions: Vec<Number>,
    /// The devices that it consists of (md, dm).
    pub(super) slaves: Vec<Number>,
    /// The devices built on it.
    pub(super) holders: Vec<Number>,
    /// The file or device that a loop device is attached to.
    pub(super) backing: Option<Backing>,
    /// World-wide name of a disk.
    pub(super) wwid: Option<String>,
    /// Identifier of the mounted btrfs that it is a member of.
    pub(super) btrfs: Option<String>,
}

/// The file or device that a loop device is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backing {
    /// Device number of the filesystem, and inode.
    pub(super) file: (Number, u64),
    pub(super) path: String,
    /// The block device that it is, if it is one.
    pub(super) block: Option<Number>,
    /// The block devices of the filesystem that holds the file.
    pub(super) stands_on: Vec<Number>,
}

/// Every block device of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) nodes: BTreeMap<Number, Node>,
}

impl Graph {
    /// Reads sysfs and the status of each loop device.
    pub(super) fn read(unknown: &mut Vec<String>) -> Self {
        let mut links = BTreeMap::new();
        match fs::read_dir(DEVICES) {
            Err(error) => unknown.push(format!("block devices: '{DEVICES}' cannot be read: {error}")),
            Ok(entries) => {
                for entry in entries.flatten() {
                    let number = parse_number(&entry.file_name().to_string_lossy());
                    if let (Some(number), Ok(link)) = (number, fs::read_link(entry.path())) {
                        links.insert(number, link);
                    }
                }
            }
        }
        let mut graph = Graph::connect(&links, &|directory| names_in(directory));
        for (number, node) in &mut graph.nodes {
            node.wwid = wwid(*number).filter(|_| node.disk.is_none());
            if node.disk.is_some() {
                node.extent = extent(*number);
                if node.extent.is_none() {
                    unknown.push(format!("partitions: '{}' does not report its position", node.name));
                }
            }
        }
        graph.attach_loops(unknown);
        graph.join_btrfs(unknown);
        graph
    }

    /// From the links in `/sys/dev/block` (`7:0` to `../../devices/virtual/block/loop0`; a partition is in
    /// its disk's directory) and a function that lists the directories `slaves` and `holders`.
    fn connect(links: &BTreeMap<Number, PathBuf>, list: &dyn Fn(&Path) -> Vec<String>) -> Self {
        let name_of = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let numbers: BTreeMap<String, Number> =
            links.iter().filter_map(|(number, link)| Some((name_of(link)?, *number))).collect();
        let mut nodes: BTreeMap<Number, Node> = BTreeMap::new();
        for (number, link) in links {
            let directory = PathBuf::from(DEVICES).join(format!("{}:{}", number.0, number.1));
            let neighbours = |kind: &str| -> Vec<Number> {
                list(&directory.join(kind)).iter().filter_map(|name| numbers.get(name).copied()).collect()
            };
            let parent = link.parent().and_then(name_of);
            let node = nodes.entry(*number).or_default();
            node.name = name_of(link).unwrap_or_default();
            node.slaves = neighbours("slaves");
            node.holders = neighbours("holders");
            node.disk = parent.and_then(|name| numbers.get(&name).copied());
            if let Some(disk) = node.disk {
                nodes.entry(disk).or_default().partitions.push(*number);
            }
        }
        Graph { nodes }
    }

    fn attach_loops(&mut self, unknown: &mut Vec<String>) {
        let attached = match loops::attached() {
            Ok(attached) => attached,
            Err(error) => return unknown.push(format!("loop devices: {error}")),
        };
        for one in attached {
            let name = one.info.device.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !one.info.answers() {
                unknown.push(format!("loop devices: the file of '{name}' does not answer any more"));
                continue;
            }
            let backing = Backing {
                file: (one.info.backing_device, one.info.backing_inode),
                path: one.info.backing_path,
                block: one.backing_block,
                stands_on: Vec::new(),
            };
            match self.nodes.values_mut().find(|node| node.name == name) {
                Some(node) => node.backing = Some(backing),
                None => unknown.push(format!("loop devices: '{name}' has no device number")),
            }
        }
    }

    /// Members of mounted btrfs filesystems: `/sys/fs/btrfs/UUID/devices/NAME`.
    fn join_btrfs(&mut self, unknown: &mut Vec<String>) {
        let root = Path::new("/sys/fs/btrfs");
        for uuid in names_in(root).into_iter().filter(|name| name.contains('-')) {
            for name in names_in(&root.join(&uuid).join("devices")) {
                match self.nodes.values_mut().find(|node| node.name == name) {
                    Some(node) => node.btrfs = Some(uuid.clone()),
                    None => unknown.push(format!("btrfs {uuid}: member '{name}' has no device number")),
                }
            }
        }
    }

    /// Finds the devices under each loop device's file.
    pub(super) fn place_backing_files(&mut self, mounts: &[MountInfo], unknown: &mut Vec<String>) {
        let mut placed = Vec::new();
        for (number, node) in &self.nodes {
            if let Some(backing) = node.backing.as_ref().filter(|backing| backing.block.is_none()) {
                placed.push((*number, self.under_file(backing, mounts, unknown)));
            }
        }
        for (number, devices) in placed {
            if let Some(backing) = self.nodes.get_mut(&number).and_then(|node| node.backing.as_mut()) {
                backing.stands_on = devices;
            }
        }
    }

    fn under_file(&self, backing: &Backing, mounts: &[MountInfo], unknown: &mut Vec<String>) -> Vec<Number> {
        let ((major, _), _) = backing.file;
        if major != 0 {
            return vec![backing.file.0];
        }
        // Filesystems without a device number of their own; the path leads to the mount. A file that was
        // deleted, or is in another namespace, has none here.
        let mount = mountinfo::containing(mounts, Path::new(&backing.path));
        mount.map(|mount| self.devices_of(mount, unknown)).unwrap_or_default()
    }

    /// The block devices of a mounted filesystem, as far as the mount reveals them.
    pub(super) fn devices_of(&self, mount: &MountInfo, unknown: &mut Vec<String>) -> Vec<Number> {
        if mount.device.0 != 0 {
            return vec![mount.device];
        }
        if !NAMED_BY_SOURCE.contains(&mount.filesystem.as_str()) {
            return Vec::new();
        }
        let named = devices_named(&mount.source);
        if named.is_empty() {
            let (target, filesystem) = (mount.target.display(), &mount.filesystem);
            unknown.push(format!(
                "devices of the {filesystem} at '{target}': '{}' is not a device",
                mount.source
            ));
        }
        let members = named.iter().filter_map(|number| self.nodes.get(number)?.btrfs.as_ref());
        let all = members.flat_map(|uuid| {
            let same = self.nodes.iter().filter(move |(_, node)| node.btrfs.as_ref() == Some(uuid));
            same.map(|(number, _)| *number)
        });
        let all: Vec<Number> = all.collect();
        if all.is_empty() { named } else { all }
    }

    /// Returns the devices that these are built on, including themselves, down to the disks.
    pub(super) fn below(&self, start: impl IntoIterator<Item = Number>) -> BTreeSet<Number> {
        let mut found = BTreeSet::new();
        let mut open: Vec<Number> = start.into_iter().collect();
        while let Some(number) = open.pop() {
            if !found.insert(number) {
                continue;
            }
            let Some(node) = self.nodes.get(&number) else { continue };
            open.extend(node.disk);
            open.extend(&node.slaves);
            if let Some(backing) = &node.backing {
                open.extend(backing.block);
                open.extend(&backing.stands_on);
            }
        }
        found
    }

    /// Other devices that provide access to the same bytes: loop devices over the same file or over each
    /// other, the disk of a partition, and the block device under a loop device. For overlaps see
    /// [`Graph::overlapping`].
    pub(super) fn aliases(&self, number: Number) -> BTreeSet<Number> {
        let mut found = BTreeSet::new();
        let mut open = vec![number];
        open.extend(self.nodes.get(&number).and_then(|node| node.disk));
        while let Some(one) = open.pop() {
            if !found.insert(one) {
                continue;
            }
            let backing = self.nodes.get(&one).and_then(|node| node.backing.as_ref());
            open.extend(backing.and_then(|backing| backing.block));
            open.extend(self.nodes.iter().filter_map(|(other, node)| {
                let theirs = node.backing.as_ref()?;
                let same = backing.is_some_and(|ours| ours.file == theirs.file);
                (same || theirs.block == Some(one)).then_some(*other)
            }));
        }
        found.remove(&number);
        found
    }

    /// Other partitions of the same disk.
    pub(super) fn siblings(&self, number: Number) -> impl Iterator<Item = Number> {
        let disk = self.nodes.get(&number).and_then(|node| node.disk);
        let all = disk.and_then(|disk| self.nodes.get(&disk)).into_iter().flat_map(|disk| &disk.partitions);
        all.copied().filter(move |other| *other != number)
    }

    /// Other partitions of the same disk that share bytes with this one, which a partition table can well
    /// contain.
    pub(super) fn overlapping(&self, number: Number) -> Vec<Number> {
        let extent = |number: Number| self.nodes.get(&number).and_then(|node| node.extent);
        let Some((start, size)) = extent(number) else { return Vec::new() };
        let overlaps = |other: &Number| {
            extent(*other).is_some_and(|(from, length)| from < start + size && start < from + length)
        };
        self.siblings(number).filter(overlaps).collect()
    }

    pub(super) fn name(&self, number: Number) -> String {
        let name = self.nodes.get(&number).map(|node| node.name.clone());
        name.unwrap_or_else(|| format!("{}:{}", number.0, number.1))
    }
}

/// In sysfs both are in sectors of 512 bytes.
fn extent((major, minor): Number) -> Option<(u64, u64)> {
    let directory = PathBuf::from(DEVICES).join(format!("{major}:{minor}"));
    let bytes = |file: &str| {
        let text = fs::read_to_string(directory.join(file)).ok()?;
        Some(text.trim().parse::<u64>().ok()? * 512)
    };
    Some((bytes("start")?, bytes("size")?))
}

fn wwid((major, minor): Number) -> Option<String> {
    let directory = PathBuf::from(DEVICES).join(format!("{major}:{minor}"));
    let places = ["wwid", "device/wwid"];
    let text = places.iter().find_map(|place| fs::read_to_string(directory.join(place)).ok())?;
    let text = text.trim().to_string();
    (!text.is_empty()).then_some(text)
}

fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Names in a directory; none when it does not exist.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// `sda` with two partitions, an LVM volume `dm-0` on the second, `loop0` over a file on that volume,
    /// `loop1` over the same file, `loop2` over the whole of `sdb`, `loop3` over a file of its own.
    pub(in super::super) fn machine() -> Graph {
        let links = [
            ((8, 0), "../../devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda"),
            ((8, 1), "../../devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1"),
            ((8, 2), "../../devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda2"),
            ((8, 16), "../../devices/pci0000:00/ata2/host1/target1:0:0/1:0:0:0/block/sdb"),
            ((252, 0), "../../devices/virtual/block/dm-0"),
            ((7, 0), "../../devices/virtual/block/loop0"),
            ((7, 1), "../../devices/virtual/block/loop1"),
            ((7, 2), "../../devices/virtual/block/loop2"),
            ((7, 3), "../../devices/virtual/block/loop3"),
        ];
        let links = links.into_iter().map(|(number, link)| (number, PathBuf::from(link))).collect();
        let list = |directory: &Path| match directory.to_str() {
            Some("/sys/dev/block/252:0/slaves") => vec!["sda2".to_string()],
            Some("/sys/dev/block/8:2/holders") => vec!["dm-0".to_string()],
            _ => Vec::new(),
        };
        let mut graph = Graph::connect(&links, &list);
        let mut attach = |number: Number, file: (Number, u64), block: Option<Number>, on: &[Number]| {
            let backing =
                Backing { file, path: format!("/images/{}", file.1), block, stands_on: on.to_vec() };
            graph.nodes.get_mut(&number).expect("a node").backing = Some(backing);
        };
        attach((7, 0), ((252, 0), 77), None, &[(252, 0)]);
        attach((7, 1), ((252, 0), 77), None, &[(252, 0)]);
        attach((7, 2), ((0, 6), 301), Some((8, 16)), &[]);
        attach((7, 3), ((252, 0), 78), None, &[(252, 0)]);
        graph
    }

    #[test]
    fn neighbours_come_from_links_and_directories() {
        let graph = machine();
        assert_eq!(graph.nodes[&(8, 0)].partitions, [(8, 1), (8, 2)]);
        assert_eq!(graph.nodes[&(8, 2)].disk, Some((8, 0)));
        assert_eq!(graph.nodes[&(8, 2)].holders, [(252, 0)]);
        assert_eq!(graph.nodes[&(252, 0)].slaves, [(8, 2)]);
        assert_eq!(graph.nodes[&(7, 0)].disk, None);
        assert_eq!(graph.name((8, 2)), "sda2");
    }

    #[test]
    fn below_goes_through_files_volumes_and_partitions_to_the_disk() {
        let expected = [(7, 0), (8, 0), (8, 2), (252, 0)].into();
        assert_eq!(machine().below([(7, 0)]), expected);
        assert_eq!(machine().below([(8, 1)]), [(8, 0), (8, 1)].into());
    }

    #[test]
    fn aliases_reach_the_same_bytes() {
        assert_eq!(machine().aliases((7, 0)), [(7, 1)].into());
        assert_eq!(machine().aliases((7, 2)), [(8, 16)].into());
        assert_eq!(machine().aliases((8, 16)), [(7, 2)].into());
        assert_eq!(machine().aliases((7, 3)), [].into());
        assert_eq!(machine().aliases((8, 1)), [(8, 0)].into());
    }

    #[test]
    fn partitions_that_share_bytes_overlap() {
        let mut graph = machine();
        let mut place = |number, extent| graph.nodes.get_mut(&number).expect("a node").extent = Some(extent);
        place((8, 1), (1 << 20, 1 << 20));
        place((8, 2), (2 << 20, 1 << 20));
        assert_eq!(graph.overlapping((8, 1)), []);
        graph.nodes.get_mut(&(8, 2)).expect("a node").extent = Some(((2 << 20) - 1, 1 << 20));
        assert_eq!(graph.overlapping((8, 1)), [(8, 2)]);
        assert_eq!(graph.overlapping((8, 2)), [(8, 1)]);
    }

    #[test]
    fn a_btrfs_stands_on_all_its_members() {
        let mut graph = machine();
        for number in [(8, 1), (8, 16)] {
            graph.nodes.get_mut(&number).unwrap().btrfs = Some("u-1".to_string());
        }
        let mount = MountInfo { source: "gone".to_string(), ..btrfs() };
        let mut unknown = Vec::new();
        assert!(graph.devices_of(&mount, &mut unknown).is_empty());
        assert_eq!(unknown.len(), 1);
    }

    fn btrfs() -> MountInfo {
        mountinfo::parse("30 27 0:50 / /data rw - btrfs /dev/sdb rw").0.remove(0)
    }
}
