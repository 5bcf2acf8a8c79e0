//! A trial in a guest: the same sequence, on a machine created for it and discarded afterwards.
//!
//! On the host, a guest's trial consists only of its images: they are created, attached to the guest as
//! disks, and removed. Inside, the testbed finds block devices, and everything works as on any machine,
//! guards included; only nothing is taken down, because the guest ends.

use super::report::Overhead;
use super::served::{self, Booted, ServedClients};
use super::watch::Stops;
use super::{Bench, Ended, Site, overhead};
use crate::estimate;
use crate::options::Machines;
use crate::order::Slot;
use crate::plan::{Case, Plan};
use crate::space::least_space;
use crate::trial;
use fsdyno_core::axis::CACHE;
use fsdyno_core::{
    Bytes, DeviceSpec, Devices, DiskCache, Failure, Outcome, Progress, TrialRecord, TrialStep, Warning,
    WarningKind,
};
use fsdyno_host::guest::{Guest, GuestRequest, NotStarted};
use fsdyno_testbed::{Testbed, TestbedError, UndoJournal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The directory of an engine in a guest that touches no file.
const ANYWHERE: &str = "/tmp";

/// Everything that a trial in a guest needs in addition to its case.
pub(crate) struct InGuest<'a, 'm> {
    pub plan: &'a Plan,
    pub machines: &'a mut Machines<'m>,
    pub devices: &'a Devices,
    pub device: &'a DeviceSpec,
    /// Of this machine.
    pub journal: &'a mut UndoJournal,
    pub stops: Stops<'a>,
    pub overheads: &'a mut BTreeMap<String, Overhead>,
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// Runs a trial in its own guest and removes its images.
pub(crate) fn run(trial: &mut InGuest<'_, '_>, request: &GuestRequest, slot: &Slot, case: &Case) -> Ended {
    let mut ended = boot_and_run(trial, request, slot, case).unwrap_or_else(|failure| {
        let mut record = trial::unproven(slot, case, trial.device);
        record.outcome = Outcome::Failed { error: *failure };
        // Downloads for a guest receive the user's Ctrl-C and fail, and nobody waits for a guest that is
        // booting.
        let interrupted = trial.stops.interrupt.load(Ordering::Relaxed);
        Ended { record, left: Vec::new(), stuck: None, interrupted, no_room: false }
    });
    (trial.progress)(&Progress::at(TrialStep::TearDown));
    ended.left = trial.journal.undo_all(trial.machines.host).left;
    trial::note_what_is_left(&mut ended.record, &ended.left);
    ended
}

fn boot_and_run(
    trial: &mut InGuest<'_, '_>,
    request: &GuestRequest,
    slot: &Slot,
    case: &Case,
) -> Result<Ended, Box<Failure>> {
    (trial.progress)(&Progress::at(TrialStep::Boot));
    let images = fsdyno_testbed::guest::images(&case.configuration, trial.devices);
    let disks = fsdyno_testbed::guest::make(trial.machines.host, trial.journal, &images)
        .map_err(|error| Box::new(error.failure()))?;
    let (guests, interrupt) = (&mut *trial.machines.guests, trial.stops.interrupt);
    let started = served::boot(guests, (trial.plan, case), request, &disks, false, interrupt);
    // From now on only the guest has them open.
    drop(disks);
    let Booted { mut guest, clients } = started.map_err(|not| Box::new(not_started(&not)))?;
    let mut served = ServedClients::connect(trial.plan, &case.configuration, guest.as_mut(), clients)?;
    let mut ended = in_guest(trial, guest.as_mut(), served.as_mut(), slot, case);
    let record = match &mut ended {
        Ok(ended) => &mut ended.record,
        Err(failure) => {
            add_last_words(failure, guest.as_mut());
            return ended;
        }
    };
    describe(record, guest.as_mut());
    if let Some(served) = served {
        served.leave(record);
    }
    guest.end_now();
    let in_memory = fsdyno_testbed::memory::in_memory(trial.machines.host, trial.device);
    // QEMU opens the image itself: its cache mode counts, and not how a loop device would be used.
    record.warnings.extend(trial::cached_by_host(None, in_memory.as_deref()));
    let cache = request.shape.cache;
    if cache != DiskCache::None {
        let text = format!("guest cache = \"{}\": the host caches the guest's disks", cache.name());
        record.warnings.push(Warning::new(WarningKind::HostCache, text));
    }
    ended
}

/// Notes in a record in which guest it was made, what was done there, and, if it failed, the guest's last
/// words.
pub(super) fn describe(record: &mut TrialRecord, guest: &mut dyn Guest) {
    if let Outcome::Failed { error } = &mut record.outcome {
        add_last_words(error, guest);
    }
    record.log.splice(..0, guest.take_log());
    let facts = guest.facts();
    record.environment.virtualisation = Some(facts.description.clone());
    record.lifecycle_ns.boot = Some(facts.boot);
    if facts.emulated {
        record.warnings.push(emulation(&facts.description));
    }
}

/// The trial itself, beginning with the guards.
fn in_guest(
    trial: &mut InGuest<'_, '_>,
    guest: &mut dyn Guest,
    served: Option<&mut ServedClients>,
    slot: &Slot,
    case: &Case,
) -> Result<Ended, Box<Failure>> {
    let disks = guest.disks();
    let (configuration, devices) = fsdyno_testbed::guest::within(&case.configuration, trial.devices, &disks);
    let within = Case { configuration, ..case.clone() };
    let mut unmet = fsdyno_testbed::unmet(guest, &within.configuration, &devices);
    unmet.extend(estimate::of_workload(guest, trial.plan, &within, trial.plan.varies(CACHE)));
    if !unmet.is_empty() {
        let record = trial::skipped(slot, case, trial.device, &unmet);
        return Ok(Ended { record, left: Vec::new(), stuck: None, interrupted: false, no_room: false });
    }
    let overhead = measured_overhead(trial.plan, guest, case, trial.overheads, trial.stops.interrupt)?;
    let testbed = verify(guest, &devices, &within, &disks, least_space(trial.plan))?;
    let machine = &mut *trial.machines.host;
    let mut bench = Bench {
        plan: trial.plan,
        host: guest,
        testbed: &testbed,
        device: trial.device,
        journal: &mut UndoJournal::in_memory(),
        stops: trial.stops,
        overhead,
        site: match served {
            Some(clients) => Site::Server { machine, clients },
            None => Site::Guest { machine },
        },
        marks: None,
        pacing: None,
        progress: &mut *trial.progress,
    };
    let mut ended = trial::run(&mut bench, slot, &within);
    ended.record.configuration.asked = case.configuration.clone();
    Ok(ended)
}

/// All guards, in the guest.
pub(super) fn verify(
    guest: &mut dyn Guest,
    devices: &Devices,
    case: &Case,
    disks: &[PathBuf],
    space: Bytes,
) -> Result<Testbed, Box<Failure>> {
    let confirmation = fsdyno_testbed::guest::confirmation(&case.configuration, disks);
    let configurations = std::slice::from_ref(&case.configuration);
    Testbed::verify(guest, devices, configurations, space, &confirmation)
        .map(Testbed::with_blank_disks)
        .map_err(|error: TestbedError| Box::new(error.failure()))
}

/// The overhead of the tool on guests of this kernel, measured in the first one.
pub(super) fn measured_overhead(
    plan: &Plan,
    guest: &mut dyn Guest,
    case: &Case,
    overheads: &mut BTreeMap<String, Overhead>,
    interrupt: &AtomicBool,
) -> Result<Overhead, Box<Failure>> {
    let kernel = case.configuration.guest_kernel().unwrap_or_default();
    if let Some(known) = overheads.get(kernel) {
        return Ok(*known);
    }
    let overhead = overhead::measure(plan, guest, Path::new(ANYWHERE), interrupt)?;
    overheads.insert(kernel.to_string(), overhead);
    Ok(overhead)
}

pub(super) fn not_started(not: &NotStarted) -> Failure {
    let mut failure = Failure::new("boot", not.error.to_string());
    failure.details = with_heading(&not.last_words);
    failure
}

pub(super) fn add_last_words(failure: &mut Failure, guest: &mut dyn Guest) {
    let words = with_heading(&guest.last_words());
    let separator = if failure.details.is_empty() || words.is_empty() { "" } else { "\n" };
    failure.details.push_str(&format!("{separator}{words}"));
}

fn with_heading(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!("last output of the guest:\n{words}") }
}

fn emulation(description: &str) -> Warning {
    let text = format!("{description}: only ratios between guests are meaningful, not absolute times");
    Warning::new(WarningKind::Emulation, text)
}
