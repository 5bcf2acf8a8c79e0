//! Disks that are recorded: what they are, where their logs are written, and what keeps a case from being run
//! on one.

use crate::plan::{Case, Plan};
use fsdyno_core::axis::JOURNAL;
use fsdyno_core::device::{Image, Preallocation};
use fsdyno_core::workload::{Durability, Workload};
use fsdyno_core::{Bytes, DeviceSpec, Devices};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the disk in the directory where it is shown.
const DISK: &str = "disk";
/// What stands for a directory of a random name.
const SOME_MOUNTPOINT: &str = "/run/fsdyno-RANDOM";

/// A case that runs on a recorded disk, with the parameters of its load.
pub(crate) fn parameters(case: &Case) -> Option<&Durability> {
    match &case.workload {
        Workload::Durability(parameters) => Some(parameters),
        _ => None,
    }
}

/// The disk that is shown in a directory: to the testbed, an image like any other.
pub(crate) fn devices(mountpoint: &Path, size: Bytes) -> Devices {
    let image = Image {
        path: mountpoint.join(DISK),
        size,
        direct_io: true,
        sector: Image::SECTORS[0],
        preallocate: Preallocation::None,
    };
    Devices { data: DeviceSpec::Image(image), journals: BTreeMap::new() }
}

/// Where the log is written: next to the image of the plan, or here if the plan has none.
pub(crate) fn log_directory(devices: &Devices, otherwise: &Path) -> PathBuf {
    let image = devices.data.disks().into_iter().find_map(|disk| match disk {
        DeviceSpec::Image(image) => image.path.parent(),
        _ => None,
    });
    match image.unwrap_or(otherwise) {
        here if here.as_os_str().is_empty() => PathBuf::from("."),
        directory => directory.to_path_buf(),
    }
}

/// The commands of a case, and what follows them.
pub(crate) fn commands(case: &Case, parameters: &Durability, seed: u64) -> Vec<String> {
    let devices = devices(Path::new(SOME_MOUNTPOINT), parameters.size);
    let record = format!("record everything that is written to {SOME_MOUNTPOINT}/{DISK}");
    let states = format!("mount, verify, unmount and check {} states after power cuts", parameters.states());
    let within = fsdyno_testbed::commands(&case.configuration, &devices, seed);
    std::iter::once(record).chain(within).chain([states]).collect()
}

/// Why the device of a case cannot be recorded.
pub(crate) fn unmet(plan: &Plan, case: &Case) -> Option<&'static str> {
    let external = case.configuration.level(JOURNAL).is_some_and(|level| level.starts_with("external"));
    match &plan.devices.data {
        _ if case.configuration.guest_kernel().is_some() => {
            Some("durability is measured on this machine's own kernel only, not in guests")
        }
        _ if external => Some("durability records a single disk, so the journal cannot be on another one"),
        DeviceSpec::Directory { .. } => Some("durability makes filesystems, and a directory has one already"),
        DeviceSpec::Image(_) | DeviceSpec::Block { .. } => None,
        _ => Some("durability records a single disk, not an array, a volume or a pool"),
    }
}
