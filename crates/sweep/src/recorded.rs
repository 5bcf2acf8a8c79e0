//! Disks that are recorded: what they are, where their logs are written, and what keeps a case from being run
//! on them.
//!
//! They have the shape of the plan's device: an array becomes an array of recorded disks. All of them are
//! parts of one record, so that a cut is at the same moment on each.

use crate::plan::{Case, Plan};
use fsdyno_core::axis::JOURNAL;
use fsdyno_core::device::{DiskModelText, Image, Md, Preallocation};
use fsdyno_core::workload::{Durability, IoErrors, Workload};
use fsdyno_core::{Bytes, DeviceSpec, Devices};
use fsdyno_path::trusted::{self, Untrusted};
use fsdyno_testbed::GuardRefusal;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// Name of the disk in the directory where it is shown.
const DISK: &str = "disk";
/// Sizes of disks are multiples of this.
const BLOCK: u64 = 4096;
/// Only root can record a disk.
pub(crate) const ROOT: u32 = 0;
/// The advice if no log can be written somewhere.
pub(crate) const LOG_HINT: &str = "name an image in a directory of root's, or in /var/tmp";
/// The placeholder for a directory of a random name.
const SOME_MOUNTPOINT: &str = "/run/fsdyno-RANDOM";

/// The load of a case that runs on a disk of its own, which fsdyno shows.
#[derive(Clone, Copy)]
pub(crate) enum Recorded<'a> {
    /// Power is cut.
    Cuts(&'a Durability),
    /// Requests fail.
    Errors(&'a IoErrors),
    /// An ordinary load runs, with the times of other disks.
    Paced {
        /// The device.
        device: &'a DeviceSpec,
        /// The model of its disks.
        model: &'a DiskModelText,
    },
}

impl Recorded<'_> {
    /// The size of the disk.
    pub fn size(self) -> Bytes {
        match self {
            Recorded::Cuts(parameters) => parameters.size,
            Recorded::Errors(parameters) => parameters.size,
            Recorded::Paced { device, .. } => device.size().unwrap_or_default(),
        }
    }
}

/// The load of a case, if it runs on such a disk.
pub(crate) fn load(case: &Case) -> Option<Recorded<'_>> {
    match &case.workload {
        Workload::Durability(parameters) => Some(Recorded::Cuts(parameters)),
        Workload::IoErrors(parameters) => Some(Recorded::Errors(parameters)),
        _ => case.device.model().map(|model| Recorded::Paced { device: &case.device, model }),
    }
}

/// The disks that are shown for a plan's device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    /// The plan's device, if it is more than one disk.
    stack: Option<&'a DeviceSpec>,
    /// The approximate capacity of the device.
    size: Bytes,
    /// The logical block of its disks.
    sector: Bytes,
    /// The model whose times the disk has.
    model: Option<&'a DiskModelText>,
}

impl<'a> Shape<'a> {
    /// The disks for a load on a plan's device.
    pub fn of(data: &'a DeviceSpec, load: Recorded<'a>) -> Shape<'a> {
        let is_stack = !data.below().is_empty();
        let (sector, model) = match load {
            Recorded::Paced { device, model } => (sector(device), Some(model)),
            Recorded::Cuts(_) | Recorded::Errors(_) => (Image::SECTORS[0], None),
        };
        Shape { stack: is_stack.then_some(data), size: load.size(), sector, model }
    }

    /// Returns the number of disks.
    pub fn parts(self) -> usize {
        self.stack.map_or(1, |stack| stack.disks().len())
    }

    /// The size of each disk: all have that of the largest.
    fn part(self) -> Bytes {
        let largest = self.stack.map_or(self.size, |stack| largest_share(stack, self.size));
        Bytes(largest.0.next_multiple_of(BLOCK))
    }

    /// The size of all disks together.
    pub fn whole(self) -> Bytes {
        Bytes(self.part().0.saturating_mul(self.parts() as u64))
    }

    /// The disks in a directory: to the testbed, images like any others.
    pub fn devices(self, mountpoint: &Path, direct_io: bool) -> Devices {
        let mut names = self.names().into_iter();
        let mut image = |_: &DeviceSpec| -> Result<DeviceSpec, Infallible> {
            Ok(DeviceSpec::Image(Image {
                path: mountpoint.join(names.next().unwrap_or_default()),
                size: self.part(),
                direct_io,
                sector: self.sector,
                preallocate: Preallocation::None,
                model: self.model.cloned(),
            }))
        };
        let data = match self.stack {
            Some(stack) => stack.on_other_disks(&mut image),
            None => image(&DeviceSpec::image(DISK, self.size)),
        };
        match data {
            Ok(data) => Devices { data, journals: BTreeMap::new() },
        }
    }

    fn names(self) -> Vec<String> {
        match self.parts() {
            1 => vec![DISK.to_string()],
            parts => (1..=parts).map(|number| format!("{DISK}{number}")).collect(),
        }
    }

    /// Returns the number of members of an array of which one may be missing; `None` if it needs all of them.
    pub fn members(self) -> Option<usize> {
        match self.stack {
            Some(DeviceSpec::Md(Md { level, disks, .. })) if level.is_redundant() => Some(disks.len()),
            _ => None,
        }
    }
}

/// The logical block of the disks of a device, all of which are images of the same kind.
fn sector(device: &DeviceSpec) -> Bytes {
    match device.disks().first() {
        Some(DeviceSpec::Image(image)) => image.sector,
        _ => Image::SECTORS[0],
    }
}

/// The most that a disk of a stack holds if the stack holds so much.
fn largest_share(spec: &DeviceSpec, size: Bytes) -> Bytes {
    let share = spec.share_of(size);
    spec.below().iter().map(|below| largest_share(below, share)).max().unwrap_or(size)
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

/// Checks that nobody else can have the files of a log written elsewhere by replacing the directory in this
/// one.
pub(crate) fn check_log_directory(parent: &Path) -> Result<(), Untrusted> {
    trusted::check(&parent.join("log"), ROOT)
}

/// A refusal if no log can be written where the plan's logs would be.
pub(crate) fn refused_log_directory(plan: &Plan) -> Option<GuardRefusal> {
    let is_shown = plan.devices.data.model().is_some() || plan.workloads.iter().any(Workload::is_recorded);
    is_shown.then_some(())?;
    let parent = std::path::absolute(log_directory(&plan.devices, Path::new("/"))).ok()?;
    let untrusted = check_log_directory(&parent).err()?;
    let reason = format!("is no place for the logs of recorded disks: {untrusted}");
    Some(GuardRefusal { device: parent, reason, hint: LOG_HINT.to_string() })
}

/// The disks of a trial that has not begun.
pub(crate) fn planned_devices(plan: &Plan, load: Recorded<'_>) -> Devices {
    Shape::of(&plan.devices.data, load).devices(Path::new(SOME_MOUNTPOINT), true)
}

/// Returns the steps before and after the commands of a case.
pub(crate) fn before_and_after(plan: &Plan, load: Recorded<'_>) -> (String, Option<String>) {
    let shape = Shape::of(&plan.devices.data, load);
    let names = shape.names();
    let shown: Vec<String> = names.iter().map(|name| format!("{SOME_MOUNTPOINT}/{name}")).collect();
    let shown = shown.join(", ");
    match load {
        Recorded::Cuts(parameters) => (
            format!("record everything that is written to {shown}"),
            Some(format!(
                "{}mount, verify, unmount and check {} states after power cuts",
                match (shape.stack, parameters.degraded) {
                    (None, _) => "",
                    (Some(_), false) => "put the device together again, ",
                    (Some(_), true) => "put the array together again without one of its disks, ",
                },
                parameters.states()
            )),
        ),
        Recorded::Errors(parameters) => (
            format!("show a disk of which requests fail as {shown}"),
            Some(format!(
                "the same for each of {} faults, mounting again before and after it",
                parameters.faults.len()
            )),
        ),
        Recorded::Paced { model, .. } => {
            (format!("show a disk as {shown}, with the times of '{}' while the load runs", model.name), None)
        }
    }
}

/// Why a case cannot run on such disks.
pub(crate) fn unmet(plan: &Plan, case: &Case, load: Recorded<'_>) -> Option<String> {
    let external = case.configuration.level(JOURNAL).is_some_and(|level| level.starts_with("external"));
    let shape = Shape::of(&plan.devices.data, load);
    let reason = match load {
        _ if external => "uses disks of its own, so the journal cannot be on another one",
        Recorded::Paced { .. } if plan.hooks.at_phases().is_some() => {
            "on a modelled disk has no hooks and monitors at its phases"
        }
        Recorded::Paced { .. } if plan.serve.is_some() => "on a modelled disk cannot be served to clients",
        Recorded::Cuts(_) | Recorded::Errors(_) if plan.devices.data.model().is_some() => {
            "uses a disk of its own, which has no model"
        }
        _ if matches!(plan.devices.data, DeviceSpec::Directory { .. }) => {
            "makes filesystems, and a directory has one already"
        }
        Recorded::Cuts(parameters) if parameters.degraded && shape.members().is_none() => {
            "with `degraded` needs an array that can lose a disk: [device.md] of another level than raid0"
        }
        _ if shape.stack.is_none() => return None,
        Recorded::Errors(_) => "uses a single disk of its own, not an array, a volume or a pool",
        // An array of this machine could be started by others as soon as its disks are attached (udev(7)).
        _ if case.configuration.guest_kernel().is_none() => {
            "of an array, a volume or a pool needs a guest, such as kernel = \"debian:6.1\""
        }
        Recorded::Cuts(parameters) if parameters.keep_log => "with `keep_log` needs a single disk",
        Recorded::Cuts(_) | Recorded::Paced { .. } => return None,
    };
    Some(format!("{} {reason}", case.workload.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(more: &str, kernel: &str) -> String {
        format!(
            "{more}\n[device]\nimage = \"/var/tmp/x.img\"\nsize = \"1G\"\nmodel = \"ebs-gp3\"\n[axes]\n\
             filesystem = \"ext4\"\nkernel = \"{kernel}\"\n[[workloads]]\nkind = \"fileserver\"\n"
        )
    }

    fn reason(text: &str) -> Option<String> {
        let plan = Plan::parse(text, "p.toml", &[]).unwrap();
        let cases = plan.cases();
        unmet(&plan, &cases[0], load(&cases[0]).unwrap())
    }

    #[test]
    fn what_would_not_have_the_times_of_the_model_is_not_run() {
        assert_eq!(reason(&text("", "host")), None);
        let served = reason(&text("serve = { protocol = \"nfs\" }\nclients = { count = 1 }", "debian:6.1"));
        assert!(served.is_some_and(|why| why.contains("cannot be served")));
        let hooked = reason(&text("hooks = { before_phase = \"true\" }", "host"));
        assert!(hooked.is_some_and(|why| why.contains("no hooks")));
        let cut = reason(&text("", "host").replace("fileserver", "durability"));
        assert!(cut.is_some_and(|why| why.contains("has no model")));
    }
}
