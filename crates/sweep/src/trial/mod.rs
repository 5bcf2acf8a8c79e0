//! One trial, from probing the devices to the record: the sequence, read from top to bottom.
//!
//! A trial counts as failed until it has been measured. Whatever happens, everything is taken down by undoing
//! the journal, and what was measured before a failure is kept. What cannot be taken down is reported.

pub(crate) mod commands;
pub(crate) mod durability;
pub(crate) mod guest;
pub(crate) mod hooks;
mod load;
mod observed;
mod outage;
pub(crate) mod overhead;
mod pacing;
pub(crate) mod report;
pub(crate) mod served;
mod start;
pub(crate) mod watch;

use crate::order::Slot;
use crate::plan::{Case, Plan};
use crate::preparations::Preparations;
use commands::TrialCommands;
use fsdyno_core::device::Image;
use fsdyno_core::outcome::VERIFICATION;
use fsdyno_core::protocol::{EnginePart, Quiesce};
use fsdyno_core::{
    Bytes, DeviceSpec, EngineRequest, Failure, Nanos, Outcome, Progress, Reread, TelemetryRequest,
    TrialRecord, TrialStep, Warning, WarningKind,
};
use fsdyno_host::{Host, HostError};
use fsdyno_testbed::undo::UndoReport;
use fsdyno_testbed::{Mounted, Testbed, TestbedError, UndoJournal, Unmounted};
use fsdyno_verdict::confounder::confounders;
use load::load;
use pacing::Pacing;
use report::{Overhead, request};
use served::ServedClients;
use start::Begun;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;
use watch::{LoadEnd, Stops};

/// The fault of a trial of which nothing is known yet.
const UNPROVEN: &str = "did not finish";

/// Everything that a trial needs in addition to its case.
pub(crate) struct Bench<'a, 'p> {
    pub plan: &'a Plan,
    pub host: &'a mut dyn Host,
    pub testbed: &'a Testbed,
    pub device: &'a DeviceSpec,
    pub journal: &'a mut UndoJournal,
    pub stops: Stops<'a>,
    /// The overhead of the tool.
    pub overhead: Overhead,
    pub site: Site<'a, 'p>,
    /// Where workers note what they do, if the device is recorded.
    pub marks: Option<&'a Path>,
    /// The times of the device, if they are those of a model.
    pub pacing: Option<Pacing<'a>>,
    /// Called with each step, and with what the engine reports.
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// Where the host of a trial is, with what exists only there.
pub(crate) enum Site<'a, 'p> {
    /// It is this machine.
    Machine {
        /// The commands of the plan.
        commands: &'a mut TrialCommands<'p>,
        /// Where the files of these commands are, whose filesystem has a reserve as well.
        store: &'a Path,
        /// The preparations for trials that do not begin with a filesystem of their own.
        preparations: Option<&'a mut Preparations>,
    },
    /// It is this machine, with a disk that is recorded.
    Recorded,
    /// It is a guest, which ends with the trial: there is nothing on it to take down.
    Guest { machine: &'a mut dyn Host },
    /// It is a guest that shows the filesystem to these clients.
    Server { machine: &'a mut dyn Host, clients: &'a mut ServedClients },
}

impl Site<'_, '_> {
    /// Returns whether the host ends with the trial.
    pub fn ends(&self) -> bool {
        matches!(self, Site::Guest { .. } | Site::Server { .. })
    }

    fn clients(&mut self) -> Option<&mut ServedClients> {
        match self {
            Site::Server { clients, .. } => Some(clients),
            _ => None,
        }
    }

    fn preparations(&mut self) -> Option<&mut Preparations> {
        match self {
            Site::Machine { preparations, .. } => preparations.as_deref_mut(),
            _ => None,
        }
    }
}

/// A trial that has ended.
pub(crate) struct Ended {
    pub record: TrialRecord,
    /// The things that could not be taken down, one line each.
    pub left: Vec<String>,
    /// The process that cannot be killed, which no journal can undo.
    pub stuck: Option<String>,
    /// `true` if the user stopped it: then it does not count, and `--resume` runs it again.
    pub interrupted: bool,
    /// `true` if it was stopped because a filesystem had only its reserve left. It does not count either.
    pub no_room: bool,
}

/// Why the sequence stopped before its end.
enum Stop {
    Failed(Box<Failure>),
    Skipped(Vec<String>),
    Interrupted,
    NoRoom(Box<Failure>),
    /// Something hangs, possibly with an engine process that cannot be killed: from now on waits are short.
    Hung(Box<Failure>, Option<String>),
}

impl From<TestbedError> for Stop {
    fn from(error: TestbedError) -> Self {
        match error {
            TestbedError::Unmet { unmet } => Stop::Skipped(unmet),
            TestbedError::Contradiction { contradictions } => Stop::Skipped(contradictions),
            TestbedError::Host { source: HostError::Hung { .. }, .. } => {
                Stop::Hung(Box::new(error.failure()), None)
            }
            error => Stop::Failed(Box::new(error.failure())),
        }
    }
}

/// Runs a trial and takes everything down.
pub(crate) fn run(bench: &mut Bench<'_, '_>, slot: &Slot, case: &Case) -> Ended {
    let start = Instant::now();
    let mut record = unproven(slot, case, bench.device);
    let result = sequence(bench, slot, case, &mut record);
    let UndoReport { mut left, foreign, .. } = match bench.site.ends() {
        true => UndoReport::default(),
        false => take_down(bench, &result),
    };
    // A tool that receives the user's Ctrl-C fails before the flag is checked.
    let interrupted = matches!(result, Err(Stop::Interrupted))
        || (result.is_err() && bench.stops.interrupt.load(Ordering::Relaxed));
    let no_room = matches!(result, Err(Stop::NoRoom(_)));
    let stuck = match &result {
        Err(Stop::Hung(_, Some(process))) => Some(format!("engine {process}")),
        _ => None,
    };
    left.splice(..0, stuck.clone());
    record.outcome = match result {
        Ok(()) => Outcome::Measured,
        Err(Stop::Skipped(unmet)) => Outcome::Skipped { unmet },
        Err(Stop::Failed(error) | Stop::NoRoom(error)) => Outcome::Failed { error: *error },
        Err(Stop::Interrupted) => Outcome::Failed { error: Failure::new("trial", "interrupted") },
        Err(Stop::Hung(error, _)) => Outcome::Failed { error: *error },
    };
    if let Outcome::Failed { error } = &record.outcome
        && error.step == VERIFICATION
    {
        // How fast wrong data was read is no property of the filesystem.
        record.phases.clear();
    }
    record.warnings.extend(confounders(&record));
    note_what_is_left(&mut record, &left);
    let foreign = foreign.into_iter().map(|text| Warning::new(WarningKind::LeftBehind, text));
    record.warnings.extend(foreign);
    record.lifecycle_ns.total = Some(start.elapsed().into());
    Ended { record, left, stuck, interrupted, no_room }
}

/// Undoes everything.
fn take_down(bench: &mut Bench<'_, '_>, result: &Result<(), Stop>) -> UndoReport {
    (bench.progress)(&Progress::at(TrialStep::TearDown));
    let hung = matches!(result, Err(Stop::Hung(..)));
    bench.host.limit_steps(hung.then_some(bench.plan.rules.watchdog.into()));
    let report = bench.journal.undo_all(bench.host);
    bench.host.limit_steps(None);
    report
}

/// The trial itself. Every step may fail; the caller takes down.
fn sequence(
    bench: &mut Bench<'_, '_>,
    slot: &Slot,
    case: &Case,
    record: &mut TrialRecord,
) -> Result<(), Stop> {
    let Begun { mut mounted, group, mut reached, parts_done } = start::begin(bench, slot, case, record)?;
    let mut written_back = Nanos(0);
    let verifies = case.workload.load().verifies();
    let rereads = verifies && mounted.can_be_remounted() && bench.site.clients().is_none();
    for part in parts(bench.plan, case, &mounted, record).skip(parts_done as usize) {
        // A copy has just been mounted for the first time.
        let mut remounted = parts_done > 0;
        if part.number > parts_done && mounted.can_be_remounted() {
            (mounted, remounted) = remount(bench, mounted, written_back, record)?;
        }
        bench.begin(TrialStep::StartEngine)?;
        let pauses = match &mut bench.site {
            Site::Machine { commands, .. } => {
                commands.mounted(Some((mounted.directory(), mounted.device().as_deref())));
                commands.are_at_phases()
            }
            _ => bench.pacing.is_some(),
        };
        let request = EngineRequest {
            pauses,
            part,
            remounted,
            memory: group.clone(),
            device_bytes: device_bytes(bench.device, record),
            reread: if verifies && !rereads && part.is_last() { Reread::AtEnd } else { Reread::Never },
            reached: reached.clone(),
            ..engine_request(bench, slot, case, &mounted)
        };
        let loaded = load(bench, &mut mounted, &request, record)?;
        written_back = loaded.written_back;
        reached.extend(loaded.reached);
    }

    bench.begin(TrialStep::Umount)?;
    let start = Instant::now();
    let mut unmounted = mounted.unmount(bench.host, bench.journal)?;
    // To read the file layout, the engine has already written everything back; otherwise the unmount would
    // have done it.
    let written_back = record.layout.as_ref().map_or(written_back, |layout| layout.written_back_ns);
    let took = Nanos(written_back.0.saturating_add(Nanos::from(start.elapsed()).0));
    // A directory stays mounted.
    record.lifecycle_ns.umount = (!matches!(bench.device, DeviceSpec::Directory { .. })).then_some(took);
    let mut released = unmounted.is_released(bench.host, bench.journal)?;
    if !released {
        record.lifecycle_ns.umount = None;
    }
    if rereads {
        bench.begin(TrialStep::ReadAgain)?;
        let mut mounted = unmounted.mount_again(bench.host, bench.journal)?;
        let request = EngineRequest {
            part: last_part(case),
            remounted: released,
            memory: group.clone(),
            reread: Reread::Only,
            reached,
            ..engine_request(bench, slot, case, &mounted)
        };
        load(bench, &mut mounted, &request, record)?;
        unmounted = mounted.unmount(bench.host, bench.journal)?;
        released = unmounted.is_released(bench.host, bench.journal)?;
    }
    if !released {
        record
            .warnings
            .push(still_mounted("the time to unmount is unknown, and the filesystem was not checked"));
        return Ok(());
    }

    check(bench, &unmounted, record)
}

/// Checks the filesystem without changing it.
fn check(bench: &mut Bench<'_, '_>, unmounted: &Unmounted, record: &mut TrialRecord) -> Result<(), Stop> {
    bench.begin(TrialStep::Check)?;
    if let Some((check, took)) = unmounted.check(bench.host, bench.journal)? {
        record.lifecycle_ns.check = Some(took);
        if !check.clean {
            let text = format!("'{}' found the filesystem damaged", check.command);
            record.warnings.push(Warning::new(WarningKind::CheckFailed, text));
        }
        record.check = Some(check);
    }
    Ok(())
}

fn still_mounted(consequence: &str) -> Warning {
    let text = format!("another mount namespace kept the filesystem mounted: {consequence}");
    Warning::new(WarningKind::StillMounted, text)
}

/// The parts of the load, each for its own engine; a single part if the filesystem cannot be mounted again in
/// between. Clients read in each part what another one wrote in the part before, which they cannot have in
/// memory; only what is verified stays with the client that knows how far it came.
fn parts(
    plan: &Plan,
    case: &Case,
    mounted: &Mounted,
    record: &mut TrialRecord,
) -> impl Iterator<Item = EnginePart> + use<> {
    let parts = case.workload.load().parts();
    let reads_of_others = plan.machines() > 1 && !case.workload.load().verifies();
    let stays = match plan.serve.is_some() {
        true => case.workload.load().verifies().then_some("each client verifies what it has written itself"),
        false => {
            (!mounted.can_be_remounted() && !reads_of_others).then_some("a directory cannot be unmounted")
        }
    };
    if let (Some(why), true) = (stays, parts > 1) {
        let text = format!(
            "{why}: what a test reads may still be in memory, unless dropping the caches was possible"
        );
        record.warnings.push(Warning::new(WarningKind::NotRemounted, text));
        return EnginePart::all(1);
    }
    EnginePart::all(parts)
}

/// The part that a workload ends with.
fn last_part(case: &Case) -> EnginePart {
    let of = case.workload.load().parts().max(1);
    EnginePart { number: of - 1, of }
}

/// Warnings that the host keeps in memory what the device of the trial holds. `device`: what it uses by loop
/// devices.
pub(crate) fn cached_by_host(device: Option<&DeviceSpec>, in_memory: Option<&Path>) -> Vec<Warning> {
    let in_memory =
        in_memory.map(|path| format!("'{}' is in memory (tmpfs), and so is the device", path.display()));
    let cached = device.into_iter().flat_map(DeviceSpec::disks).find_map(|disk| match disk {
        DeviceSpec::Image(Image { path, direct_io: false, .. }) => Some(format!(
            "direct_io = false: the host caches what is read from and written to '{}'",
            path.display()
        )),
        _ => None,
    });
    in_memory.into_iter().chain(cached).map(|text| Warning::new(WarningKind::HostCache, text)).collect()
}

/// Unmounts and mounts again, so that nothing of the filesystem is left in memory, and says whether that is
/// so. What it takes is recorded the first time, when it follows the writing; the engine has already written
/// everything back in `written_back`, which the unmount would otherwise have done.
fn remount(
    bench: &mut Bench<'_, '_>,
    mounted: Mounted,
    written_back: Nanos,
    record: &mut TrialRecord,
) -> Result<(Mounted, bool), Stop> {
    let (unmounted, took) = unmount_between(bench, mounted, written_back)?;
    let (first, released) = (record.lifecycle_ns.mount_between.is_none(), took.is_some());
    let warning = still_mounted("what was written may have been read from memory");
    if !released && !record.warnings.contains(&warning) {
        record.warnings.push(warning);
    }

    bench.begin(TrialStep::MountBetween)?;
    let mounted = unmounted.mount_again(bench.host, bench.journal)?;
    if first {
        record.lifecycle_ns.umount_between = took;
        record.lifecycle_ns.mount_between = mounted.lifecycle().mount_between;
    }
    for warning in mounted.warnings() {
        if !record.warnings.contains(warning) {
            record.warnings.push(warning.clone());
        }
    }
    Ok((mounted, released))
}

/// Unmounts between parts of the load. Returns how long that took, with the time in which the engine has
/// already written everything back; nothing if the filesystem is still mounted elsewhere.
fn unmount_between(
    bench: &mut Bench<'_, '_>,
    mounted: Mounted,
    written_back: Nanos,
) -> Result<(Unmounted, Option<Nanos>), Stop> {
    bench.begin(TrialStep::UmountBetween)?;
    let start = Instant::now();
    let unmounted = mounted.unmount(bench.host, bench.journal)?;
    let took = Nanos(written_back.0.saturating_add(Nanos::from(start.elapsed()).0));
    let released = unmounted.is_released(bench.host, bench.journal)?;
    Ok((unmounted, released.then_some(took)))
}

/// The size of the device with the filesystem.
fn device_bytes(device: &DeviceSpec, record: &TrialRecord) -> Option<Bytes> {
    let facts = record.environment.devices.first()?;
    (!matches!(device, DeviceSpec::Directory { .. })).then_some(Bytes(facts.size_bytes))
}

/// Returns the request that every part of a trial's load has in common.
fn engine_request(bench: &mut Bench<'_, '_>, slot: &Slot, case: &Case, mounted: &Mounted) -> EngineRequest {
    let keeps = matches!(bench.device, DeviceSpec::Directory { .. });
    let Bench { plan, host, .. } = bench;
    let quiesce = plan.rules.quiesce.map(|limit| Quiesce { limit, devices: mounted.own_devices(*host) });
    let telemetry =
        plan.rules.telemetry.map(|interval| TelemetryRequest { interval, devices: mounted.carriers(*host) });
    EngineRequest {
        precondition: case.configuration.precondition(),
        cache: case.configuration.cache(),
        patience: Some(watch::patience(bench.plan.rules.watchdog, &case.workload)),
        device: mounted.device(),
        marks: bench.marks.map(Path::to_path_buf),
        quiesce,
        telemetry,
        shared: bench.plan.shared_trees.then_some(slot.seed),
        ..request(mounted.directory(), &case.workload, slot.seed, keeps)
    }
}

impl Bench<'_, '_> {
    /// Reports the step, and stops if the user has interrupted.
    fn begin(&mut self, step: TrialStep) -> Result<(), Stop> {
        (self.progress)(&Progress::at(step));
        match self.stops.interrupt.load(Ordering::Relaxed) {
            true => Err(Stop::Interrupted),
            false => Ok(()),
        }
    }
}

/// The record of a trial of which nothing is known yet.
pub(crate) fn unproven(slot: &Slot, case: &Case, device: &DeviceSpec) -> TrialRecord {
    let now = jiff::Timestamp::now().to_string();
    let outcome = Outcome::Failed { error: Failure::new("trial", UNPROVEN) };
    TrialRecord {
        trial: slot.trial,
        block: slot.block,
        case: slot.case,
        sentinel: slot.sentinel,
        seed: slot.seed,
        started: now.clone(),
        finished: now,
        warnings: case.warnings.clone(),
        ..TrialRecord::new(case.configuration.clone(), device.clone(), case.workload.clone(), outcome)
    }
}

/// The record of a trial that this machine cannot run. No device is touched.
pub(crate) fn skipped(slot: &Slot, case: &Case, device: &DeviceSpec, unmet: &[String]) -> TrialRecord {
    TrialRecord { outcome: Outcome::Skipped { unmet: unmet.to_vec() }, ..unproven(slot, case, device) }
}

/// The record of a trial that was not started because its device is stuck.
pub(crate) fn not_begun(slot: &Slot, case: &Case, device: &DeviceSpec, left: &[String]) -> TrialRecord {
    let mut error = Failure::new("build", "not started: an earlier trial still holds the device");
    error.details = left.join("\n");
    error.hint = Some("stop what holds the device, or reboot; then run the sweep again".to_string());
    TrialRecord { outcome: Outcome::Failed { error }, ..unproven(slot, case, device) }
}

/// The record of a trial that ended before anything was built.
fn not_built(slot: &Slot, case: &Case, device: &DeviceSpec, end: LoadEnd) -> Ended {
    let record = unproven(slot, case, device);
    let mut ended = Ended { record, left: Vec::new(), stuck: None, interrupted: false, no_room: false };
    end_badly(&mut ended, end);
    ended
}

/// A trial ends because of what runs around it. An earlier failure remains the one that is reported.
fn end_badly(ended: &mut Ended, end: LoadEnd) {
    let failure = match end {
        LoadEnd::Done => return,
        LoadEnd::Interrupted => {
            ended.interrupted = true;
            Failure::new("trial", "interrupted")
        }
        LoadEnd::NoRoom(failure) => {
            ended.no_room = true;
            failure
        }
        LoadEnd::Failed(failure) | LoadEnd::Hung(failure) => failure,
    };
    match &mut ended.record.outcome {
        Outcome::Failed { error } if error.message != UNPROVEN => {
            let gap = if error.details.is_empty() { "" } else { "\n" };
            error.details.push_str(&format!("{gap}{failure}"));
        }
        outcome => *outcome = Outcome::Failed { error: failure },
    }
}

pub(crate) fn note_what_is_left(record: &mut TrialRecord, left: &[String]) {
    record.warnings.extend(left.iter().map(|text| Warning::new(WarningKind::LeftBehind, text.clone())));
    if let Outcome::Failed { error } = &mut record.outcome
        && !left.is_empty()
    {
        let separator = if error.details.is_empty() { "" } else { "\n" };
        error.details.push_str(&format!("{separator}left behind: {}", left.join("; ")));
    }
}
