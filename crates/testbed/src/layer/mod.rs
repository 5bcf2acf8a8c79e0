//! What each layer of a device stack knows: one type per layer, and nothing about a layer anywhere else.
//!
//! A layer is made by its tools on devices that are open, locked and verified, and read back from sysfs: the device that was
//! made is the one that holds every member, whatever its name. What stands for it in the journal, and on the disks
//! themselves, has 128 random bits, so that taking it down touches nothing of anybody else.

mod delay;
mod lvm;
mod md;

use crate::Result;
use crate::filesystem::{Target, Tool};
use crate::signature;
use crate::stack::run_to_success;
use crate::undo::{UndoAction, Undone};
use fsdyno_core::{DeviceSpec, Recipe};
use fsdyno_host::{Command, DeviceHandle, Grant, Host, HostError, Output};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const ENOENT: i32 = 2;
/// What is said of a disk whose node, or the link that names it, is still there: ENOENT, ENXIO and ENODEV.
const GONE: [i32; 3] = [ENOENT, 6, 19];
const EBUSY: i32 = 16;
/// Bytes of a sector, in which the device mapper counts.
const SECTOR: u64 = 512;

/// A device that a layer stands on.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub target: Target,
    /// Its size in bytes; absent in a dry run on a block device.
    pub size_bytes: Option<u64>,
}

/// How a layer is made.
#[derive(Debug, Clone)]
pub(crate) struct Making<'a> {
    /// What it stands on.
    pub members: &'a [Member],
    /// 128 random bits in hexadecimal.
    pub id: &'a str,
    /// Whether its disks are new and hold nothing but zeros.
    pub blank: bool,
}

/// A layer that was made, and may have something to do yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made<'a> {
    /// How it was made.
    pub making: &'a Making<'a>,
    /// Its directory in sysfs: `/sys/block/md127`.
    pub directory: &'a Path,
    /// Set by somebody who does not want to wait any longer.
    pub interrupt: &'a AtomicBool,
}

/// What a layer is, as read back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InForce {
    /// For a person: `raid1 of 2 disks, metadata 1.2, no bitmap`.
    pub text: String,
    /// What was asked and is not in force, one line each.
    pub differences: Vec<String>,
}

/// A layer of a device stack: how it is made, seen and described.
pub(crate) trait Layer {
    /// The programs that it needs.
    fn tools(&self) -> &'static [Tool];
    /// What the kernel must be able to do, by the names of its modules.
    fn modules(&self) -> Vec<&'static str>;
    /// What this kernel lacks for it.
    fn unmet(&self, host: &mut dyn Host) -> Vec<String>;
    /// The commands that make it, in order.
    fn commands(&self, making: &Making<'_>) -> Vec<Command>;
    /// A path by which a person finds what was made.
    fn path(&self, id: &str) -> PathBuf;
    /// The ways back, in the order in which they belong into the journal.
    fn ways_back(&self, id: &str, below: &[DeviceSpec]) -> Vec<UndoAction>;
    /// Waits until it has nothing more to do by itself or somebody interrupts, and tells what it is.
    fn settle(&self, host: &mut dyn Host, made: Made<'_>) -> Result<InForce>;
    /// The commands of a person who makes the same; none for what nobody wants.
    fn recipe(&self) -> Vec<String>;
}

/// The layer of a device that is one.
pub(crate) fn of(spec: &DeviceSpec) -> Option<&dyn Layer> {
    match spec {
        DeviceSpec::Md(md) => Some(md),
        DeviceSpec::Lvm(lvm) => Some(lvm),
        DeviceSpec::Delayed(delayed) => Some(delayed),
        DeviceSpec::Image { .. } | DeviceSpec::Block { .. } | DeviceSpec::Directory { .. } => None,
    }
}

/// Every layer of a stack, outermost first.
pub(crate) fn all(spec: &DeviceSpec) -> Vec<&dyn Layer> {
    spec.layers().into_iter().filter_map(of).collect()
}

/// What a layer writes on its disks to know them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The superblock of the array of this UUID.
    Md {
        /// In mdadm's words: four groups of eight digits.
        uuid: String,
    },
    /// The label of a physical volume of this volume group.
    Lvm {
        /// Its name.
        group: String,
    },
    /// The signature of the filesystem, or of the journal, of this UUID.
    Filesystem {
        /// As libblkid tells it; the serial number of a filesystem that has no UUID.
        uuid: String,
    },
}

/// The labels that are left on the disks which are not ours. What lies on another layer goes with that, and a delay puts
/// every block where it was.
fn labels(below: &[DeviceSpec], label: &Label) -> Vec<UndoAction> {
    let disk = |spec: &DeviceSpec| match spec {
        DeviceSpec::Delayed(delayed) => (*delayed.disk).clone(),
        other => other.clone(),
    };
    let disks = below.iter().map(disk).filter_map(|spec| match spec {
        DeviceSpec::Block { path, .. } => Some(path),
        _ => None,
    });
    disks.map(|disk| UndoAction::ClearLabel { disk, label: label.clone() }).collect()
}

/// Takes down the array of a UUID, wherever it is.
pub(crate) fn stop_array(host: &mut dyn Host, uuid: &str) -> fsdyno_host::Result<Undone> {
    md::stop(host, uuid)
}

/// Takes down the device-mapper device of a name.
pub(crate) fn remove_mapping(host: &mut dyn Host, name: &str) -> fsdyno_host::Result<Undone> {
    let mut found = false;
    for device in host.list_directory(Path::new("/sys/block"))?.iter().filter(|name| name.starts_with("dm-"))
    {
        match host.read_text(&Path::new("/sys/block").join(device).join("dm/name")) {
            Ok(text) => found |= text.trim() == name,
            // It went meanwhile.
            Err(HostError::System { errno: ENOENT, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if !found {
        return Ok(Undone::Nothing);
    }
    // udev looks at each device that appears or changes, and holds it open meanwhile.
    succeed(host, &dmsetup().args(["remove", "--retry", name]), "remove", name)?;
    Ok(Undone::Done(format!("removed the mapping '{name}'")))
}

/// Removes a label from a disk that carries it. `open` gets the disk where it cannot be closed.
pub(crate) fn clear_label(
    host: &mut dyn Host,
    disk: &Path,
    label: &Label,
    open: &mut Vec<DeviceHandle>,
) -> fsdyno_host::Result<Undone> {
    // A disk that is gone carries nothing any more.
    if host.file_identity(disk)?.is_none() {
        return Ok(Undone::Nothing);
    }
    let opened = host.probe_device(disk).and_then(|probe| {
        let handle = host.open_device(&probe.canonical, &probe.identity)?;
        Ok((probe, handle))
    });
    let (probe, handle) = match opened {
        Err(error) if error.errno().is_some_and(|errno| GONE.contains(&errno)) => return Ok(Undone::Nothing),
        opened => opened?,
    };
    let target = Target { handle, node: probe.canonical, planned: disk.to_path_buf() };
    let cleared = match label {
        Label::Md { uuid } => md::clear(host, &target, uuid),
        Label::Lvm { group } => lvm::clear(host, &target, group),
        Label::Filesystem { uuid } => signature::clear(host, &target, uuid),
    };
    // What was on the array or volume stays, and nothing else would tell that it was ours.
    let cleared =
        cleared.and_then(|ours| if ours { host.mark_device(handle).map(|()| true) } else { Ok(false) });
    if let Err(error) = host.close_device(handle) {
        open.push(handle);
        return Err(error);
    }
    Ok(match cleared? {
        true => Undone::Done(format!("removed fsdyno's label from '{}'", disk.display())),
        false => Undone::Nothing,
    })
}

/// Runs a tool that must succeed while something is taken down. One that finds its object busy can be run again.
fn succeed(
    host: &mut dyn Host,
    command: &Command,
    action: &str,
    object: &str,
) -> fsdyno_host::Result<Output> {
    let output = host.run(command)?;
    if output.status == 0 {
        return Ok(output);
    }
    let reason = [output.stderr.trim(), output.stdout.trim()].join("\n").trim().to_string();
    let busy = ["busy", "exclusive access"].iter().any(|word| reason.contains(word));
    Err(HostError::System {
        action: action.to_string(),
        object: object.to_string(),
        errno: if busy { EBUSY } else { 0 },
        reason,
    })
}

/// The table of a device-mapper device, one line for each stretch of it.
fn table(host: &mut dyn Host, name: &str) -> Result<Vec<String>> {
    let output = run_to_success(host, "device", &dmsetup().args(["table", name]))?;
    Ok(output.stdout.lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect())
}

/// A command of dmsetup, which controls the device mapper and makes the nodes of mappings.
fn dmsetup() -> Command {
    Command::new("dmsetup").may_change(controlling_mappings())
}

/// What the tools of the device mapper change beside the devices below a mapping.
fn controlling_mappings() -> [Grant; 2] {
    [Grant::File("/dev/mapper/control".into()), Grant::Nodes("/dev".into())]
}

/// What is missing where the kernel has no device mapper.
fn no_device_mapper(host: &mut dyn Host) -> Option<String> {
    let devices = host.read_text(Path::new("/proc/devices")).unwrap_or_default();
    let there = devices.lines().any(|line| line.trim().ends_with(" device-mapper"));
    (!there && !crate::capability::has_module(host, "dm-mod")).then(|| in_kernel("device mapper"))
}

/// A lack of the kernel, with where to have it.
fn in_kernel(what: &str) -> String {
    format!("the kernel has no {what}; available in a guest with kernel = \"debian:6.1\"")
}

/// Stands for a member in a recipe.
fn disk(index: usize) -> Member {
    let node = PathBuf::from(format!("{}{}", Recipe::DISK, index + 1));
    Member {
        target: Target { handle: DeviceHandle(index as u64), planned: node.clone(), node },
        size_bytes: None,
    }
}

/// A tool's word for a size.
fn kib(bytes: fsdyno_core::Bytes) -> String {
    format!("{}k", bytes.0 / fsdyno_core::Bytes::KIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TestbedError;
    use fsdyno_host::fake::FakeHost;

    #[test]
    fn a_table_that_cannot_be_read_is_no_table_that_differs() {
        let error = table(&mut FakeHost::new(), "gone").unwrap_err();
        assert!(matches!(error, TestbedError::Tool { .. }), "{error}");
    }

    /// `/dev/disk1` and so on, 4 GiB each.
    pub(crate) fn members(count: usize) -> Vec<Member> {
        (1..=count)
            .map(|index| {
                let node = PathBuf::from(format!("/dev/disk{index}"));
                let target = Target { handle: DeviceHandle(0), planned: node.clone(), node };
                Member { target, size_bytes: Some(4 << 30) }
            })
            .collect()
    }
}
