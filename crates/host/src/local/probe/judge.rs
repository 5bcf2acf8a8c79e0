//! From facts to uses that forbid touching a device. Reads nothing.

use super::Number;
use super::graph::{Graph, Node};
use super::users::{Namespace, Opened, Opener, Swap, is_mounted_from};
use crate::probe::Use;
use std::collections::{BTreeMap, BTreeSet};

/// The findings about the machine.
pub(super) struct Facts {
    pub(super) graph: Graph,
    /// Our own first.
    pub(super) namespaces: Vec<Namespace>,
    pub(super) swaps: Vec<Swap>,
    /// Everything that each device carries.
    pub(super) carried: BTreeMap<Number, Vec<String>>,
    pub(super) openers: Vec<Opener>,
}

/// The devices and files whose openers matter for a device: the device itself, its aliases, and the files
/// under loop devices.
pub(super) fn watched(graph: &Graph, number: Number) -> BTreeSet<Opened> {
    let mut devices = graph.aliases(number);
    devices.insert(number);
    let files = devices.iter().filter_map(|one| graph.nodes.get(one)?.backing.as_ref());
    let files: Vec<Opened> =
        files.filter(|backing| backing.block.is_none()).map(|backing| Opened::File(backing.file)).collect();
    devices.into_iter().map(Opened::Block).chain(files).collect()
}

impl Facts {
    /// Every use of a device that forbids touching it.
    pub(super) fn uses_of(&self, number: Number) -> Vec<Use> {
        let mut uses = self.mounts_of(number);
        if self.swaps.iter().any(|swap| swap.block == Some(number)) {
            uses.push(Use::Swap);
        }
        if let Some(node) = self.graph.nodes.get(&number) {
            uses.extend(self.neighbours(node));
        }
        let carried = self.carried.get(&number).into_iter().flatten();
        uses.extend(carried.map(|what| Use::Carries { what: what.clone() }));
        let openers = self.openers.iter().filter(|opener| opener.opened == Opened::Block(number));
        uses.extend(openers.map(|opener| match opener.inherited {
            Some(descriptor) => Use::Inherited { descriptor },
            None => Use::OpenedBy { pid: opener.pid, command: opener.command.clone() },
        }));
        uses.extend(self.aliases_of(number));
        uses
    }

    /// Mounts in fsdyno's own namespace, or else in others.
    fn mounts_of(&self, number: Number) -> Vec<Use> {
        let of = |namespace: &Namespace| -> Vec<Use> {
            let mounts = namespace.mounts.iter().filter(|mount| is_mounted_from(mount, number));
            let uses = mounts.map(|mount| Use::Mounted {
                target: mount.target.display().to_string(),
                namespace_of_pid: namespace.pid,
            });
            uses.collect()
        };
        let own = self.namespaces.first().map(of).unwrap_or_default();
        if own.is_empty() { self.namespaces.iter().skip(1).flat_map(of).collect() } else { own }
    }

    fn neighbours(&self, node: &Node) -> Vec<Use> {
        let name = |number: &Number| self.graph.name(*number);
        let mut uses: Vec<Use> = Vec::new();
        uses.extend(node.holders.iter().map(|one| Use::Holder { name: name(one) }));
        uses.extend(node.slaves.iter().map(|one| Use::Slave { name: name(one) }));
        uses.extend(node.partitions.iter().map(|one| Use::Partition { name: name(one) }));
        uses.extend(
            node.btrfs.iter().map(|uuid| Use::Member { filesystem: "btrfs".to_string(), uuid: uuid.clone() }),
        );
        uses
    }

    fn aliases_of(&self, number: Number) -> Vec<Use> {
        let Some(node) = self.graph.nodes.get(&number) else { return Vec::new() };
        let disk = node.disk.and_then(|disk| self.graph.nodes.get(&disk));
        let aliases = self.graph.aliases(number);
        let mut uses: Vec<Use> = Vec::new();
        for alias in &aliases {
            if node.disk == Some(*alias) {
                let how = self.used_whole(*alias);
                uses.extend(how.map(|how| Use::Alias { name: self.graph.name(*alias), how }));
                continue;
            }
            let attached = self.graph.nodes.get(alias).is_some_and(|other| other.backing.is_some());
            let how = self.how_used(*alias).or_else(|| attached.then(|| "attached".to_string()));
            uses.extend(how.map(|how| Use::Alias { name: self.graph.name(*alias), how }));
        }
        let overlapping = self.graph.overlapping(number).into_iter();
        uses.extend(overlapping.map(|other| Use::Alias {
            name: self.graph.name(other),
            how: "a partition that overlaps it".to_string(),
        }));
        let backing = node.backing.as_ref().or(disk.and_then(|disk| disk.backing.as_ref()));
        if let Some(backing) = backing.filter(|backing| backing.block.is_none()) {
            let openers = self.openers.iter().filter(|opener| opener.opened == Opened::File(backing.file));
            uses.extend(openers.map(|opener| Use::Alias { name: backing.path.clone(), how: opener.how() }));
        }
        let whole = disk.unwrap_or(node);
        let twins = self.graph.nodes.iter().filter(|(other, twin)| {
            ![Some(number), node.disk].contains(&Some(**other))
                && whole.wwid.is_some()
                && twin.wwid == whole.wwid
                && !whole.slaves.contains(other)
        });
        uses.extend(twins.map(|(other, _)| Use::Alias {
            name: self.graph.name(*other),
            how: "another path to the same disk, by its world-wide name".to_string(),
        }));
        uses
    }

    /// Other partitions of its disk that are in use, for a person.
    pub(super) fn shared_with(&self, number: Number) -> Vec<String> {
        let used = |other| Some(format!("'{}', which is {}", self.graph.name(other), self.how_used(other)?));
        self.graph.siblings(number).filter_map(used).collect()
    }

    /// The first way in which the disk of a partition is in use as a whole, apart from its other partitions.
    fn used_whole(&self, disk: Number) -> Option<String> {
        let node = self.graph.nodes.get(&disk)?;
        let slave = node.slaves.first().map(|slave| format!("made of {}", self.graph.name(*slave)));
        let alone = Node { partitions: Vec::new(), ..node.clone() };
        slave.or_else(|| self.how_used_as(disk, &alone))
    }

    /// The first way in which another device over the same bytes is in use.
    fn how_used(&self, alias: Number) -> Option<String> {
        let node = self.graph.nodes.get(&alias).cloned().unwrap_or_default();
        let carried =
            self.carried.get(&alias).and_then(|all| all.first()).map(|what| format!("carries {what}"));
        self.how_used_as(alias, &node).or(carried)
    }

    fn how_used_as(&self, alias: Number, node: &Node) -> Option<String> {
        let uses = self.mounts_of(alias).into_iter().chain(self.neighbours(node));
        let of_neighbours = uses.filter_map(|one| match one {
            Use::Mounted { target, .. } => Some(format!("mounted at '{target}'")),
            Use::Holder { name } => Some(format!("held by {name}")),
            Use::Partition { name } => Some(format!("has partition {name}")),
            Use::Member { filesystem, uuid } => Some(format!("member of {filesystem} {uuid}")),
            _ => None,
        });
        let swap = self.swaps.iter().any(|swap| swap.block == Some(alias)).then(|| "swap".to_string());
        let opener = self.openers.iter().find(|opener| opener.opened == Opened::Block(alias));
        let opened = opener.map(Opener::how);
        of_neighbours.chain(swap).chain(opened).next()
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::machine;
    use super::*;
    use crate::mountinfo;

    fn facts() -> Facts {
        let own =
            "27 1 252:0 / / rw - ext4 /dev/mapper/vg-root rw\n28 27 7:1 / /mnt/one rw - xfs /dev/loop1 rw\n";
        let other = "27 1 252:0 / / rw - ext4 x rw\n40 27 8:16 / /hidden rw - ext4 /dev/sdb rw\n";
        let opener =
            Opener { opened: Opened::Block((7, 3)), pid: 12, command: "dd".to_string(), inherited: None };
        Facts {
            graph: machine(),
            namespaces: vec![
                Namespace { pid: None, mounts: mountinfo::parse(own).0 },
                Namespace { pid: Some(99), mounts: mountinfo::parse(other).0 },
            ],
            swaps: vec![Swap { path: "/dev/sda1".into(), block: Some((8, 1)) }],
            carried: [((8, 0), vec!["/".to_string()])].into(),
            openers: vec![opener],
        }
    }

    #[test]
    fn mounts_here_and_in_other_namespaces() {
        let own = Use::Mounted { target: "/".to_string(), namespace_of_pid: None };
        let other = Use::Mounted { target: "/hidden".to_string(), namespace_of_pid: Some(99) };
        assert_eq!(facts().mounts_of((252, 0)), [own]);
        assert_eq!(facts().mounts_of((8, 16)), [other]);
    }

    #[test]
    fn a_disk_tells_of_its_partitions_and_of_what_it_carries() {
        let uses = facts().uses_of((8, 0));
        let expected = [
            Use::Partition { name: "sda1".to_string() },
            Use::Partition { name: "sda2".to_string() },
            Use::Carries { what: "/".to_string() },
        ];
        assert_eq!(uses, expected);
    }

    #[test]
    fn partitions_swap_holders_slaves_and_openers() {
        assert_eq!(facts().uses_of((8, 1)), [Use::Swap]);
        let holder = Use::Holder { name: "dm-0".to_string() };
        assert_eq!(facts().uses_of((8, 2)), [holder]);
        assert!(facts().uses_of((252, 0)).contains(&Use::Slave { name: "sda2".to_string() }));
        let opened = Use::OpenedBy { pid: 12, command: "dd".to_string() };
        assert_eq!(facts().uses_of((7, 3)), [opened]);
    }

    #[test]
    fn a_partition_is_free_beside_others_in_use_but_not_on_a_disk_that_is_used_whole() {
        let free = |change: &dyn Fn(&mut Facts)| {
            let mut facts = facts();
            facts.graph.nodes.get_mut(&(8, 2)).unwrap().holders.clear();
            change(&mut facts);
            facts.uses_of((8, 2))
        };
        assert_eq!(free(&|_| ()), [], "sda carries / and swap, and none of them on this partition");
        let used = |how: &str| [Use::Alias { name: "sda".to_string(), how: how.to_string() }];
        let opener =
            Opener { opened: Opened::Block((8, 0)), pid: 7, command: "qemu".to_string(), inherited: None };
        let opened = used("opened by process 7 (qemu)");
        assert_eq!(free(&|facts| facts.openers.push(opener.clone())), opened);
        let held = |facts: &mut Facts| facts.graph.nodes.get_mut(&(8, 0)).unwrap().holders.push((252, 0));
        assert_eq!(free(&held), used("held by dm-0"));
        let mounted = |facts: &mut Facts| {
            facts.namespaces[0].mounts[0].device = (8, 0);
        };
        assert_eq!(free(&mounted), used("mounted at '/'"));
        let swap = |facts: &mut Facts| facts.swaps[0].block = Some((8, 0));
        assert_eq!(free(&swap), used("swap"));
        let looped = |facts: &mut Facts| {
            facts.graph.nodes.get_mut(&(7, 2)).unwrap().backing.as_mut().unwrap().block = Some((8, 0));
        };
        let expected = Use::Alias { name: "loop2".to_string(), how: "attached".to_string() };
        assert_eq!(free(&looped), [expected]);
        let twin = |facts: &mut Facts| {
            for number in [(8, 0), (8, 16)] {
                facts.graph.nodes.get_mut(&number).unwrap().wwid = Some("naa.1".to_string());
            }
        };
        assert!(matches!(&free(&twin)[..], [Use::Alias { name, .. }] if name == "sdb"));
    }

    #[test]
    fn the_other_partitions_in_use_are_told() {
        assert_eq!(facts().shared_with((8, 2)), ["'sda1', which is swap"]);
        assert_eq!(facts().shared_with((8, 0)), [""; 0]);
    }

    #[test]
    fn an_alias_says_how_it_is_in_use() {
        let alias = |name: &str, how: &str| Use::Alias { name: name.to_string(), how: how.to_string() };
        assert_eq!(facts().uses_of((7, 0)), [alias("loop1", "mounted at '/mnt/one'")]);
        assert!(facts().uses_of((8, 16)).contains(&alias("loop2", "attached")));
        assert_eq!(facts().uses_of((7, 2)), [alias("sdb", "mounted at '/hidden'")]);
    }

    #[test]
    fn two_paths_to_one_disk_are_aliases() {
        let mut facts = facts();
        for number in [(8, 0), (8, 16)] {
            facts.graph.nodes.get_mut(&number).unwrap().wwid = Some("naa.1".to_string());
        }
        let twin = facts
            .uses_of((8, 16))
            .into_iter()
            .find(|one| matches!(one, Use::Alias { name, .. } if name == "sda"));
        assert!(twin.is_some());
    }

    #[test]
    fn watched_are_the_device_its_aliases_and_the_files_under_them() {
        let expected = [Opened::Block((7, 0)), Opened::Block((7, 1)), Opened::File(((252, 0), 77))];
        assert_eq!(watched(&machine(), (7, 0)), expected.into());
        let expected = [Opened::Block((8, 1)), Opened::Block((8, 0))];
        assert_eq!(watched(&machine(), (8, 1)), expected.into(), "a partition and its disk");
    }
}
