//! Disks that are recorded: what they are, where their logs are written, and what keeps a case from being run
//! on one.

use crate::plan::{Case, Plan};
use fsdyno_core::axis::JOURNAL;
use fsdyno_core::device::{Image, Preallocation};
use fsdyno_core::workload::{Durability, IoErrors, Workload};
use fsdyno_core::{Bytes, DeviceSpec, Devices};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the disk in the directory where it is shown.
const DISK: &str = "disk";
/// What stands for a directory of a random name.
const SOME_MOUNTPOINT: &str = "/run/fsdyno-RANDOM";

/// The load of a case that runs on a disk of its own, which fsdyno shows.
#[derive(Clone, Copy)]
pub(crate) enum Recorded<'a> {
    /// Power is cut.
    Cuts(&'a Durability),
    /// Requests fail.
    Errors(&'a IoErrors),
}

impl Recorded<'_> {
    /// The size of the disk.
    pub fn size(self) -> Bytes {
        match self {
            Recorded::Cuts(parameters) => parameters.size,
            Recorded::Errors(parameters) => parameters.size,
        }
    }
}

/// The load of a case, if it runs on such a disk.
pub(crate) fn load(case: &Case) -> Option<Recorded<'_>> {
    match &case.workload {
        Workload::Durability(parameters) => Some(Recorded::Cuts(parameters)),
        Workload::IoErrors(parameters) => Some(Recorded::Errors(parameters)),
        _ => None,
    }
}

/// The disk that is shown in a directory: to the testbed, an image like any other.
pub(crate) fn devices(mountpoint: &Path, size: Bytes, direct_io: bool) -> Devices {
    let image = Image {
        path: mountpoint.join(DISK),
        size,
        direct_io,
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

/// The disk of a trial that has not begun.
pub(crate) fn planned_devices(load: Recorded<'_>) -> Devices {
    devices(Path::new(SOME_MOUNTPOINT), load.size(), true)
}

/// What comes before and after the commands of a case.
pub(crate) fn before_and_after(load: Recorded<'_>) -> (String, String) {
    let shown = format!("{SOME_MOUNTPOINT}/{DISK}");
    match load {
        Recorded::Cuts(parameters) => (
            format!("record everything that is written to {shown}"),
            format!("mount, verify, unmount and check {} states after power cuts", parameters.states()),
        ),
        Recorded::Errors(parameters) => (
            format!("show a disk of which requests fail as {shown}"),
            format!(
                "the same for each of {} faults, mounting again before and after it",
                parameters.faults.len()
            ),
        ),
    }
}

/// Why a case cannot run on such a disk.
pub(crate) fn unmet(plan: &Plan, case: &Case) -> Option<String> {
    let external = case.configuration.level(JOURNAL).is_some_and(|level| level.starts_with("external"));
    let reason = match &plan.devices.data {
        _ if external => "uses a single disk of its own, so the journal cannot be on another one",
        DeviceSpec::Directory { .. } => "makes filesystems, and a directory has one already",
        DeviceSpec::Image(_) | DeviceSpec::Block(_) => return None,
        _ => "uses a single disk of its own, not an array, a volume or a pool",
    };
    Some(format!("{} {reason}", case.workload.kind()))
}
