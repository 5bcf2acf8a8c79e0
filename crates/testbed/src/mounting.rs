//! Mounting a volume from devices that are open and verified, the first time and again.

use crate::Result;
use crate::error::TestbedError;
use crate::filesystem::all_mount_options;
use crate::trial::{Trial, Volume};
use crate::undo::UndoJournal;
use fsdyno_core::{Nanos, Warning, WarningKind};
use fsdyno_host::probe::{DeviceIdentity, MountInfo};
use fsdyno_host::{DeviceHandle, Host, MountRequest};
use std::path::Path;
use std::time::Instant;

/// Mounts again what was mounted before; records what is in force now but was not then.
pub(crate) fn mount_again(
    trial: &mut Trial,
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    volume: &Volume,
) -> Result<()> {
    let handles = volume.open_again(host, journal, "mount")?;
    let request = mount_request(trial, volume, handles[0]);
    let (mount, took) = mount_verified(host, journal, volume, &handles, &request)?;
    trial.lifecycle.mount_between = Some(took);
    let before = &trial.built.mount_options_in_force;
    trial.warnings.clear();
    if mount.options != *before {
        let text = format!(
            "after mounting again, the active mount options are {}; before, they were {before}",
            mount.options
        );
        trial.warnings.push(Warning::new(WarningKind::OptionNotInForce, text));
    }
    Ok(())
}

/// Returns the request by which a volume is mounted each time, from the device that is open.
pub(crate) fn mount_request(trial: &Trial, volume: &Volume, open: DeviceHandle) -> MountRequest {
    let log = volume.journal.as_ref().map(|device| device.target.node.as_path());
    let members =
        volume.others.iter().filter_map(|device| volume.filesystem.member_option(&device.target.node));
    let options = all_mount_options(volume.filesystem, &trial.configuration, log);
    MountRequest {
        filesystem: volume.filesystem.descriptor().kernel_type.to_string(),
        source: volume.data.target.node.clone(),
        device: Some(open),
        options: options.into_iter().chain(members).collect(),
        target: trial.target.clone(),
    }
}

/// Mounts devices that were verified directly before, and compares afterwards; returns what is in force, and
/// how long the mount itself took.
///
/// The kernel mounts whatever a path leads to. The devices stay open meanwhile, so that nothing else can get
/// their numbers, whatever happens to the paths: a mount that shows the number and claims the descriptors is
/// of these very devices.
pub(crate) fn mount_verified(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    volume: &Volume,
    handles: &[DeviceHandle],
    request: &MountRequest,
) -> Result<(MountInfo, Nanos)> {
    // A kernel without CONFIG_BLK_DEV_WRITE_MOUNTED mounts no device that is open for writing.
    for (device, handle) in volume.devices().zip(handles) {
        host.verify_device(*handle, &device.identity).map_err(TestbedError::at("mount"))?;
        host.downgrade_device(*handle).map_err(TestbedError::at("mount"))?;
    }
    journal.mounting(request)?;
    let start = Instant::now();
    host.mount(request).map_err(TestbedError::at("mount"))?;
    let took = start.elapsed().into();
    for (device, handle) in volume.devices().zip(handles) {
        host.verify_device(*handle, &device.identity).map_err(TestbedError::at("mount"))?;
        if !host.is_claimed(*handle).map_err(TestbedError::at("mount"))? {
            let found = format!("a filesystem that does not use '{}'", device.target.node.display());
            return Err(wrong_mount(request, found));
        }
    }
    let mount = read_back(host, request, &volume.data.identity)?;
    for handle in handles {
        journal.close_device(host, *handle).map_err(TestbedError::at("mount"))?;
    }
    Ok((mount, took))
}

fn wrong_mount(request: &MountRequest, found: String) -> TestbedError {
    TestbedError::WrongMount { target: request.target.clone(), node: request.source.clone(), found }
}

/// The mount as the kernel shows it, which must be of the device that was verified.
fn read_back(host: &mut dyn Host, request: &MountRequest, identity: &DeviceIdentity) -> Result<MountInfo> {
    let mounts = host.mounts().map_err(TestbedError::at("mount"))?;
    let found = mounts.into_iter().rfind(|mount| mount.target == request.target);
    match found {
        Some(mount) if mount.filesystem == request.filesystem && is_of(&mount, identity, &request.source) => {
            Ok(mount)
        }
        Some(mount) => Err(wrong_mount(request, format!("{} of '{}'", mount.filesystem, mount.source))),
        None => Err(wrong_mount(request, "nothing".to_string())),
    }
}

/// A btrfs may span devices and shows none of their numbers, so the source counts there.
fn is_of(mount: &MountInfo, identity: &DeviceIdentity, node: &Path) -> bool {
    mount.device == identity.number || (mount.device.0 == 0 && Path::new(&mount.source) == node)
}
