//! The layers of a device stack: one type per layer, and nothing about a layer anywhere else.
//!
//! A layer is built by its tools on devices that are open, locked and verified, and read back from sysfs: the
//! new device is the one that holds every member, whatever its name. Its entry in the journal and its labels
//! on the disks contain 128 random bits, so that taking it down touches nothing that belongs to others.

mod delay;
mod lvm;
mod md;

use crate::Result;
use crate::filesystem::Target;
use crate::kernel_module::has_module;
use crate::signature;
use crate::tool::run_to_success;
use crate::way_back::{Label, UndoAction, Undone};
use fsdyno_core::Tool;
use fsdyno_core::device::Block;
use fsdyno_core::{DeviceSpec, Recipe};
use fsdyno_host::{Command, DeviceHandle, Grant, Host, HostError, Output};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const ENOENT: i32 = 2;
/// Errors of a disk that is gone while its node, or the link to it, still exists: ENOENT, ENXIO and ENODEV.
const GONE: [i32; 3] = [ENOENT, 6, 19];
const EBUSY: i32 = 16;
/// Bytes of a sector, in which the device mapper counts.
const SECTOR: u64 = 512;

/// A device that a layer is built on.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub target: Target,
    /// Its size in bytes; absent in a dry run on a block device.
    pub size_bytes: Option<u64>,
}

/// The parameters with which a layer is made.
#[derive(Debug, Clone)]
pub(crate) struct Making<'a> {
    /// The devices that the layer is built on.
    pub members: &'a [Member],
    /// 128 random bits in hexadecimal.
    pub id: &'a str,
    /// `true` if its disks are new and contain only zeros.
    pub blank: bool,
}

/// A layer that was built, and may still be busy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made<'a> {
    /// The parameters with which the layer was made.
    pub making: &'a Making<'a>,
    /// Its directory in sysfs: `/sys/block/md127`.
    pub directory: &'a Path,
    /// Set if somebody does not want to wait any longer.
    pub interrupt: &'a AtomicBool,
}

/// The properties of a layer, as read back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InForce {
    /// For a person: `raid1 of 2 disks, metadata 1.2, no bitmap`.
    pub text: String,
    /// The properties that were requested but are not in force, one line each.
    pub differences: Vec<String>,
}

/// A layer of a device stack: how it is built, verified and described.
pub(crate) trait Layer {
    /// The programs that it needs.
    fn tools(&self) -> &'static [Tool];
    /// Returns the features that the kernel must support, as module names.
    fn modules(&self) -> Vec<&'static str>;
    /// Returns the requirements of the layer that this kernel does not meet.
    fn unmet(&self, host: &mut dyn Host) -> Vec<String>;
    /// The commands that make it, in order.
    fn commands(&self, making: &Making<'_>) -> Vec<Command>;
    /// The commands that put it together again from members that carry it already. If it is degraded, one of
    /// them is missing.
    fn assembly(&self, making: &Making<'_>, degraded: bool) -> Vec<Command>;
    /// A path at which a person finds the new device.
    fn path(&self, id: &str) -> PathBuf;
    /// The undo actions, in journal order.
    fn ways_back(&self, id: &str, below: &[DeviceSpec]) -> Vec<UndoAction>;
    /// Waits until it has finished its background work or somebody interrupts, and returns its properties.
    fn settle(&self, host: &mut dyn Host, made: Made<'_>) -> Result<InForce>;
    /// The commands with which a person builds the same; empty if nobody would want to.
    fn recipe(&self) -> Vec<String>;
}

/// The layer of a device, if it is one.
pub(crate) fn of(spec: &DeviceSpec) -> Option<&dyn Layer> {
    match spec {
        DeviceSpec::Md(md) => Some(md),
        DeviceSpec::Lvm(lvm) => Some(lvm),
        DeviceSpec::Delayed(delayed) => Some(delayed),
        DeviceSpec::Image(_) | DeviceSpec::Block(_) | DeviceSpec::Directory { .. } | DeviceSpec::Pool(_) => {
            None
        }
    }
}

/// Every layer of a stack, outermost first.
pub(crate) fn all(spec: &DeviceSpec) -> Vec<&dyn Layer> {
    spec.layers().into_iter().filter_map(of).collect()
}

/// The labels that remain on disks that are not fsdyno's. What is on another layer disappears with it, and a
/// delay leaves every block where it was.
fn labels(below: &[DeviceSpec], label: &Label) -> Vec<UndoAction> {
    let disk = |spec: &DeviceSpec| match spec {
        DeviceSpec::Delayed(delayed) => (*delayed.disk).clone(),
        other => other.clone(),
    };
    let disks = below.iter().map(disk).filter_map(|spec| match spec {
        DeviceSpec::Block(Block { path, .. }) => Some(path),
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
            // It has disappeared in the meantime.
            Err(HostError::System { errno: ENOENT, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if !found {
        return Ok(Undone::Nothing);
    }
    // udev examines each device that appears or changes, and holds it open meanwhile.
    succeed(host, &dmsetup().args(["remove", "--retry", name]), "remove", name)?;
    Ok(Undone::Done(format!("removed the mapping '{name}'")))
}

/// Removes a label from a disk that carries it. If the disk cannot be closed, it is added to `open`.
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
    // What was on the array or volume stays, and nothing else would show that it was fsdyno's.
    let cleared =
        cleared.and_then(|ours| if ours { host.mark_device(handle, disk).map(|()| true) } else { Ok(false) });
    if let Err(error) = host.close_device(handle) {
        open.push(handle);
        return Err(error);
    }
    Ok(match cleared? {
        true => Undone::Done(format!("removed fsdyno's label from '{}'", disk.display())),
        false => Undone::Nothing,
    })
}

/// Runs a tool that must succeed during take-down. If it finds its object busy, it can be run again.
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

/// The table of a device-mapper device, one line per segment.
fn table(host: &mut dyn Host, name: &str) -> Result<Vec<String>> {
    let output = run_to_success(host, "device", &dmsetup().args(["table", name]))?;
    Ok(output.stdout.lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect())
}

/// A command of dmsetup, which controls the device mapper and creates the nodes of mappings.
fn dmsetup() -> Command {
    Command::new("dmsetup").may_change(controlling_mappings())
}

/// Returns the grants for everything that device-mapper tools change apart from the devices below a mapping.
fn controlling_mappings() -> [Grant; 2] {
    [Grant::File("/dev/mapper/control".into()), Grant::Nodes("/dev".into())]
}

/// The missing requirement if the kernel has no device mapper.
fn no_device_mapper(host: &mut dyn Host) -> Option<String> {
    let devices = host.read_text(Path::new("/proc/devices")).unwrap_or_default();
    let there = devices.lines().any(|line| line.trim().ends_with(" device-mapper"));
    (!there && !has_module(host, "dm-mod")).then(|| in_kernel("device mapper"))
}

/// Something that the kernel lacks, with where to get it.
fn in_kernel(what: &str) -> String {
    format!("the kernel has no {what}; available in a guest with kernel = \"debian:6.1\"")
}

/// Represents a member in a recipe.
fn disk(index: usize) -> Member {
    let node = PathBuf::from(format!("{}{}", Recipe::DISK, index + 1));
    Member {
        target: Target { handle: DeviceHandle(index as u64), planned: node.clone(), node },
        size_bytes: None,
    }
}

/// A size as a tool expects it.
fn kib(bytes: fsdyno_core::Bytes) -> String {
    format!("{}k", bytes.0 / fsdyno_core::Bytes::KIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TestbedError;
    use fsdyno_testkit::fake::FakeHost;

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
