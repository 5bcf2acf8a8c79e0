//! The block devices that carry a trial: those that the filesystem uses, and those beneath them, down to the
//! disks.
//!
//! A loop device is backed by the disk with its file, a partition by its disk, md and dm by their members.
//! Names are the kernel's (`loop0`, `vda`), as in `/proc/diskstats`.

use crate::device::Device;
use crate::trial::{Location, Trial};
use fsdyno_core::DeviceSpec;
use fsdyno_core::device::Image;
use fsdyno_host::Host;
use std::path::{Path, PathBuf};

/// More layers than any real stack has.
const MOST_LAYERS: usize = 16;

/// The carriers of a trial, beginning with the device with the filesystem. What the machine does not report
/// is omitted.
pub(crate) fn carriers(host: &mut dyn Host, trial: &Trial, directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    match &trial.location {
        Location::Volume(volume) => {
            // The devices of the filesystem come before those beneath them.
            for device in volume.devices() {
                names.extend(name_of(host, device.identity.number));
            }
            let layers = |device| Device::all(device).into_iter().filter(|device| !device.below.is_empty());
            for layer in volume.devices().flat_map(layers) {
                let device = name_of(host, layer.identity.number);
                add_below(host, device, MOST_LAYERS, &mut names);
            }
            for device in volume.devices().flat_map(Device::disks) {
                let below = match &device.spec {
                    DeviceSpec::Image(Image { path, .. }) => device_of_file(host, path),
                    _ => name_of(host, device.identity.number),
                };
                add_below(host, below, MOST_LAYERS, &mut names);
            }
        }
        Location::Directory(_) => {
            let device = device_of_file(host, directory);
            add_below(host, device, MOST_LAYERS, &mut names);
        }
    }
    names
}

/// The devices that only the trial uses, as far as fsdyno knows: those of the filesystem and of its stack,
/// but not the disk that holds an image.
pub(crate) fn own(host: &mut dyn Host, trial: &Trial, directory: &Path) -> Vec<String> {
    match &trial.location {
        Location::Volume(volume) => {
            let devices = volume.devices().flat_map(Device::all);
            devices.filter_map(|device| name_of(host, device.identity.number)).collect()
        }
        Location::Directory(_) => device_of_file(host, directory).into_iter().collect(),
    }
}

/// The disk that an external journal shares with the data, if it does.
pub(crate) fn shared_with_journal(host: &mut dyn Host, trial: &Trial) -> Option<String> {
    let Location::Volume(volume) = &trial.location else { return None };
    let journal = disks_of(host, volume.journal.as_ref()?);
    let data = disks_of(host, &volume.data);
    data.into_iter().find(|disk| journal.contains(disk))
}

/// The disks at the bottom of a device.
fn disks_of(host: &mut dyn Host, device: &Device) -> Vec<String> {
    let mut names = Vec::new();
    for disk in device.disks() {
        let name = match &disk.spec {
            DeviceSpec::Image(Image { path, .. }) => device_of_file(host, path),
            _ => name_of(host, disk.identity.number),
        };
        add_below(host, name, MOST_LAYERS, &mut names);
    }
    names.retain(|name| below(host, name).is_empty());
    names
}

/// Adds a device, once, and everything below it.
fn add_below(host: &mut dyn Host, device: Option<String>, layers: usize, names: &mut Vec<String>) {
    let Some(device) = device.filter(|_| layers > 0) else { return };
    let below = below(host, &device);
    if !names.contains(&device) {
        names.push(device);
    }
    for device in below {
        add_below(host, Some(device), layers - 1, names);
    }
}

/// The disk of a partition; the members of an array or a mapping.
fn below(host: &mut dyn Host, device: &str) -> Vec<String> {
    let directory = PathBuf::from("/sys/class/block").join(device);
    match host.read_text(&directory.join("partition")) {
        // Links are followed before `..`, so this is the disk's own file.
        Ok(_) => name_in(host, &directory.join("../uevent")).into_iter().collect(),
        Err(_) => host.list_directory(&directory.join("slaves")).unwrap_or_default(),
    }
}

/// The device under the filesystem that holds a file.
fn device_of_file(host: &mut dyn Host, path: &Path) -> Option<String> {
    let number = host.file_identity(path).ok()??.device;
    if let Some(name) = name_of(host, number) {
        return Some(name);
    }
    // A filesystem that spans devices, such as btrfs, is identified by one of its devices.
    let mounts = host.mounts().ok()?;
    let mount = mounts.iter().find(|mount| mount.device == number && mount.source.starts_with("/dev/"))?;
    let node = Path::new(&mount.source).file_name()?.to_str()?.to_string();
    name_in(host, &PathBuf::from("/sys/class/block").join(node).join("uevent"))
}

/// The name of a device by its number.
pub(crate) fn name_of(host: &mut dyn Host, (major, minor): (u32, u32)) -> Option<String> {
    name_in(host, &PathBuf::from(format!("/sys/dev/block/{major}:{minor}/uevent")))
}

/// `DEVNAME=loop0` in a `uevent` file.
fn name_in(host: &mut dyn Host, uevent: &Path) -> Option<String> {
    let text = host.read_text(uevent).ok()?;
    text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(str::to_string)
}
