//! Volumes of lvm(8): a group of all disks, and one volume that uses all of its space.
//!
//! lvm sees only these disks, reads none of the machine's configuration and writes no backups. Its volume is
//! a device-mapper device and is taken down as such; what is left then are the labels on the disks.

use super::{
    InForce, Label, Layer, Made, Making, SECTOR, controlling_mappings, disk, kib, labels, no_device_mapper,
    succeed, table,
};
use crate::Result;
use crate::filesystem::Target;
use crate::way_back::UndoAction;
use fsdyno_core::Tool;
use fsdyno_core::device::Lvm;
use fsdyno_core::{Bytes, DeviceSpec, Recipe};
use fsdyno_host::{Command, Grant, Host};
use std::path::{Path, PathBuf};

const TOOLS: &[Tool] = &[Tool::new("lvm", "lvm2", "version"), Tool::new("dmsetup", "dmsetup", "--version")];
const VOLUME: &str = "data";

impl Layer for Lvm {
    fn tools(&self) -> &'static [Tool] {
        TOOLS
    }

    fn modules(&self) -> Vec<&'static str> {
        vec!["dm-mod"]
    }

    fn unmet(&self, host: &mut dyn Host) -> Vec<String> {
        no_device_mapper(host).into_iter().collect()
    }

    fn commands(&self, making: &Making<'_>) -> Vec<Command> {
        let nodes = nodes(making);
        let group = group(making.id);
        // It does not look for signatures: the guards have done that, and a tool must not ask.
        let of_group =
            lvm("vgcreate", &nodes).args(["--yes", "--force", "--force", &group]).args(nodes.clone());
        let of_volume = lvm("lvcreate", &nodes)
            .args(["--yes", "--wipesignatures", "n", "--zero", "n"])
            .args(shape(self))
            .args([group]);
        vec![of_group, of_volume]
    }

    /// A volume that lacks a disk is not activated.
    fn assembly(&self, making: &Making<'_>, _degraded: bool) -> Vec<Command> {
        let group = group(making.id);
        vec![lvm("vgchange", &nodes(making)).args(["--activate", "y", &group])]
    }

    fn path(&self, id: &str) -> PathBuf {
        Path::new("/dev").join(group(id)).join(VOLUME)
    }

    fn ways_back(&self, id: &str, below: &[DeviceSpec]) -> Vec<UndoAction> {
        let mut ways_back = labels(below, &Label::Lvm { group: group(id) });
        ways_back.push(UndoAction::RemoveMapping { name: mapping(id) });
        ways_back
    }

    fn settle(&self, host: &mut dyn Host, made: Made<'_>) -> Result<InForce> {
        let table = table(host, &mapping(made.making.id))?;
        Ok(compare(self, &table))
    }

    fn recipe(&self) -> Vec<String> {
        let disks = (0..self.disks.len()).map(|index| disk(index).target.node.display().to_string());
        let of_group = Command::new("vgcreate").args(["GROUP"]).args(disks);
        let of_volume = Command::new("lvcreate").args(shape(self)).args(["GROUP"]);
        vec![of_group.line(), format!("{}    # {} is /dev/GROUP/{VOLUME}", of_volume.line(), Recipe::DEVICE)]
    }
}

fn nodes(making: &Making<'_>) -> Vec<String> {
    making.members.iter().map(|member| member.target.node.display().to_string()).collect()
}

/// The arguments that a trial and a person have in common.
fn shape(lvm: &Lvm) -> Vec<String> {
    let mut words: Vec<String> = ["--name", VOLUME, "--extents", "100%FREE"].map(str::to_string).to_vec();
    if lvm.stripes > 1 {
        words.extend(["--stripes".to_string(), lvm.stripes.to_string()]);
        words.extend(lvm.stripe_size.iter().flat_map(|size| ["--stripesize".to_string(), kib(*size)]));
    }
    words
}

/// A command of lvm that sees only these devices. Nodes of whole devices contain no characters that are
/// special in a filter.
fn lvm(subcommand: &str, nodes: &[String]) -> Command {
    let accepted: Vec<String> = nodes.iter().map(|node| format!("\"a|^{node}$|\"")).collect();
    let devices = format!("devices{{filter=[{},\"r|.*|\"] use_devicesfile=0}}", accepted.join(","));
    // No other command sees these devices, so nothing needs to be locked.
    let command = Command::new("lvm")
        .args([subcommand, "--config", &devices, "--nolocking"])
        .may_change(nodes.iter().map(|node| Grant::File(PathBuf::from(node))))
        .may_change(controlling_mappings());
    // With an empty configuration directory there is no lvm.conf, no backup and no archive.
    let environment = [("LVM_SYSTEM_DIR", ""), ("LVM_SUPPRESS_FD_WARNINGS", "1")];
    let environment = environment.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
    Command { environment, ..command }
}

/// Without a hyphen, which the device mapper would double.
fn group(id: &str) -> String {
    format!("fsdyno_{id}")
}

fn mapping(id: &str) -> String {
    format!("{}-{VOLUME}", group(id))
}

/// A line is `0 1032192 striped 2 256 254:0 2048 254:16 2048`, with the number of stripes and their size in
/// sectors, or `0 516096 linear 254:0 2048`.
fn compare(lvm: &Lvm, table: &[String]) -> InForce {
    let stretches: Vec<(&str, u64, u64)> = table
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |place: usize| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(0);
            let kind = words.get(2).copied().unwrap_or_default();
            if kind == "striped" { (kind, number(3), number(4) * SECTOR) } else { (kind, 1, 0) }
        })
        .collect();
    let asked_size = lvm.stripe_size.map(|size| size.0);
    let fits = |(kind, stripes, size): &(&str, u64, u64)| match lvm.stripes {
        1 => *kind == "linear",
        asked => {
            *kind == "striped"
                && *stripes == u64::from(asked)
                && asked_size.is_none_or(|asked| asked == *size)
        }
    };
    let asked = DeviceSpec::Lvm(lvm.clone());
    let differences = (stretches.is_empty() || !stretches.iter().all(fits))
        .then(|| format!("{asked} was requested, but the kernel reports '{}'", table.join("; ")));
    let text = match stretches.first() {
        Some(("striped", stripes, size)) => {
            format!("lvm volume in {stripes} stripes of {} on {} disks", Bytes(*size), lvm.disks.len())
        }
        _ => format!("lvm volume on {} disks, one after the other", lvm.disks.len()),
    };
    InForce { text, differences: differences.into_iter().collect() }
}

/// Removes the label of this volume group from a disk; `false` if it has none.
pub(super) fn clear(host: &mut dyn Host, disk: &Target, group: &str) -> fsdyno_host::Result<bool> {
    let node = disk.node.display().to_string();
    let nodes = std::slice::from_ref(&node);
    let output = host.run(&lvm("pvs", nodes).args(["--noheadings", "-o", "vg_name", &node]))?;
    if !output.stdout.lines().any(|line| line.trim() == group) {
        return Ok(false);
    }
    succeed(host, &lvm("pvremove", nodes).args(["--yes", "--force", "--force", &node]), "clear", &node)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::tests::members;

    fn volume(stripes: u32, stripe_size: Option<u64>) -> Lvm {
        let disk = DeviceSpec::image("/image", Bytes(4 << 30));
        Lvm { stripes, stripe_size: stripe_size.map(Bytes), disks: vec![disk; 2] }
    }

    fn lines(lvm: &Lvm) -> Vec<String> {
        let members = members(2);
        let making = Making { members: &members, id: "ab", blank: true };
        lvm.commands(&making).iter().map(Command::line).collect()
    }

    #[test]
    fn lvm_sees_the_members_and_nothing_else() {
        let config = r#"--config 'devices{filter=["a|^/dev/disk1$|","a|^/dev/disk2$|","r|.*|"] use_devicesfile=0}' --nolocking"#;
        assert_eq!(
            lines(&volume(2, Some(128 << 10))),
            [
                format!("lvm vgcreate {config} --yes --force --force fsdyno_ab /dev/disk1 /dev/disk2"),
                format!(
                    "lvm lvcreate {config} --yes --wipesignatures n --zero n --name data --extents 100%FREE \
                     --stripes 2 --stripesize 128k fsdyno_ab"
                ),
            ]
        );
        assert!(!lines(&volume(1, None))[1].contains("stripe"));
    }

    #[test]
    fn a_volume_that_is_there_is_only_activated() {
        let members = members(2);
        let making = Making { members: &members, id: "ab", blank: false };
        let lines: Vec<String> = volume(2, None).assembly(&making, false).iter().map(Command::line).collect();
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].starts_with("lvm vgchange ") && lines[0].contains("\"a|^/dev/disk2$|\""),
            "{lines:?}"
        );
        assert!(lines[0].ends_with(" --nolocking --activate y fsdyno_ab"), "{lines:?}");
    }

    #[test]
    fn lvm_may_write_to_the_members_alone() {
        let members = members(2);
        for command in volume(1, None).commands(&Making { members: &members, id: "ab", blank: true }) {
            let file = |path: &str| Grant::File(path.into());
            let [control, nodes] = controlling_mappings();
            assert_eq!(command.grants, [file("/dev/disk1"), file("/dev/disk2"), control, nodes]);
        }
    }

    #[test]
    fn a_person_is_told_where_the_device_is() {
        assert_eq!(
            Layer::recipe(&volume(2, Some(128 << 10))),
            [
                "vgcreate GROUP DISK1 DISK2",
                "lvcreate --name data --extents 100%FREE --stripes 2 --stripesize 128k GROUP    # DEVICE is \
                 /dev/GROUP/data"
            ]
        );
    }

    #[test]
    fn the_table_tells_what_is_in_force() {
        let striped = ["0 1032192 striped 2 256 254:0 2048 254:16 2048".to_string()];
        let linear = ["0 516096 linear 254:0 2048", "516096 516096 linear 254:16 2048"].map(str::to_string);
        let found = compare(&volume(2, Some(128 << 10)), &striped);
        assert_eq!(
            (found.text.as_str(), found.differences.len()),
            ("lvm volume in 2 stripes of 128k on 2 disks", 0)
        );
        assert_eq!(compare(&volume(2, None), &striped).differences.len(), 0);
        assert_eq!(compare(&volume(2, Some(64 << 10)), &striped).differences.len(), 1);
        assert_eq!(compare(&volume(1, None), &striped).differences.len(), 1);
        assert_eq!(compare(&volume(1, None), &linear).differences.len(), 0);
        assert_eq!(compare(&volume(2, None), &linear).differences.len(), 1);
        assert_eq!(compare(&volume(1, None), &[]).differences.len(), 1);
    }
}
