//! The space that the images of a sweep use on the filesystems that hold them.

use crate::plan::Plan;
use fsdyno_core::reserve::reserve;
use fsdyno_core::workload::Load;
use fsdyno_core::{Bytes, DeviceSpec};
use fsdyno_host::Host;
use fsdyno_host::probe::Room;
use fsdyno_testbed::GuardRefusal;
use fsdyno_verdict::text::size;
use std::collections::BTreeMap;

/// The space that trees and writers of some workload are certain to need.
pub(crate) fn least_space(plan: &Plan) -> Bytes {
    let sizes = plan.workloads.iter().map(|workload| least_space_of(plan, workload.load()));
    sizes.max().unwrap_or_default()
}

/// The same of one workload.
pub(crate) fn least_space_of(plan: &Plan, load: &dyn Load) -> Bytes {
    let least = load.least_space().0;
    let prepared = load.prepares().0.min(least);
    Bytes(on_all(plan, prepared, least - prepared))
}

/// Returns the bytes that all machines need together: those that each prepares, or one for all, and those
/// that each writes in addition.
fn on_all(plan: &Plan, prepared: u64, written: u64) -> u64 {
    let prepared = prepared.saturating_mul(plan.preparing());
    prepared.saturating_add(written.saturating_mul(plan.machines()))
}

/// Images are sparse: they use as much space as is written to them, and never more than their size.
pub(crate) fn space(plan: &Plan) -> Bytes {
    let written = data_space(plan, |load| load.writes().0);
    let data = match &plan.devices.data {
        DeviceSpec::Directory { .. } => written.0,
        stack => occupied(stack, written),
    };
    // Those for journals are written completely.
    let disks = plan.devices.journals.values().flat_map(DeviceSpec::disks);
    let journals = disks.filter_map(DeviceSpec::size).map(|size| size.0);
    let one_trial = journals.fold(data, u64::saturating_add);
    let copied = plan.devices.all().map(|disk| occupied(disk, prepared_space(plan, disk)));
    let copied = copied.fold(0, u64::saturating_add).saturating_mul(plan.kept_to_be_copied());
    Bytes(one_trial.saturating_add(copied))
}

/// The space on a device that is ample for what every workload is certain to need.
pub(crate) fn ample_space(plan: &Plan) -> Bytes {
    data_space(plan, |load| load.least_space().0.saturating_sub(load.prepares().0))
}

/// The space on a device that the files of any case need, and what is written for them: everything that is
/// prepared, and this in addition.
fn data_space(plan: &Plan, writes: impl Fn(&dyn Load) -> u64) -> Bytes {
    let written = plan.workloads.iter().map(|workload| {
        let load = workload.load();
        on_all(plan, load.prepares().0, writes(load))
    });
    let fills = plan.cases().into_iter().filter_map(|case| {
        let percent = case.configuration.precondition()?.fill_percent;
        Some(share(plan.devices.data.size()?, percent))
    });
    let written = written.max().unwrap_or(0);
    let data = written.saturating_add(fills.max().unwrap_or(0));
    // For metadata, internal journals and partly filled blocks of small files, a quarter on top of the data
    // is ample.
    Bytes(data.saturating_add(data / 4).saturating_add(256 * Bytes::MIB))
}

/// The space that a disk has in use once a filesystem has been prepared on it to be copied.
fn prepared_space(plan: &Plan, disk: &DeviceSpec) -> Bytes {
    match *disk == plan.devices.data {
        true => data_space(plan, |_| 0),
        // A journal is written completely.
        false => disk.size().unwrap_or_default(),
    }
}

/// A refusal if what is kept to be copied does not fit beside the images of a trial.
pub(crate) fn short_of_room(host: &mut dyn Host, plan: &Plan) -> Vec<GuardRefusal> {
    let copies = plan.kept_to_be_copied();
    let mut needed: BTreeMap<(u32, u32), (Room, u64, &DeviceSpec)> = BTreeMap::new();
    for disk in plan.devices.all().filter(|_| copies > 0) {
        let (Some(place), Some(whole)) = (disk.path().parent(), disk.size()) else { continue };
        // A directory that cannot be examined is refused by the guards.
        let Ok(room) = host.room(place) else { continue };
        let kept = prepared_space(plan, disk).min(whole).0.saturating_mul(copies);
        let (_, bytes, _) = needed.entry(room.device).or_insert((room, 0, disk));
        *bytes = bytes.saturating_add(whole.0).saturating_add(kept);
    }
    let short = needed
        .into_values()
        .filter(|(room, bytes, _)| bytes.saturating_add(reserve(room.size).0) > room.free.0);
    short
        .map(|(room, bytes, disk)| GuardRefusal {
            device: disk.path().to_path_buf(),
            reason: format!(
                "needs up to {} with reuse = \"prepared\", which keeps {copies} prepared filesystems, but of the \
                 {} free there, {} is reserved",
                size(Bytes(bytes)),
                size(room.free),
                size(reserve(room.size))
            ),
            hint: "free some space, make the images or tree_size smaller with --set, or remove reuse"
                .to_string(),
        })
        .collect()
}

/// The space that the images of a stack use if it holds this much: a mirror stores it on each of its disks.
fn occupied(spec: &DeviceSpec, data: Bytes) -> u64 {
    match (spec, spec.below()) {
        (DeviceSpec::Image(image), _) if image.is_kept() => image.size.0,
        (DeviceSpec::Image(image), _) => image.size.0.min(data.0),
        (_, below) => {
            let shares = below.iter().map(|disk| occupied(disk, spec.share_of(data)));
            shares.fold(0, u64::saturating_add)
        }
    }
}

/// A percentage of a size.
pub(crate) fn share(size: Bytes, percent: u32) -> u64 {
    (u128::from(size.0) * u128::from(percent) / 100) as u64
}
