//! A trial that asks what a power cut loses: an ordinary trial on a disk that records every write, then many
//! short ones on that disk as it would be if power had been lost at some place of the record. Or what I/O
//! errors do ([`errors`]): many short ones on a disk of which requests fail. Or an ordinary trial on a disk
//! that has the times of a model while the load runs ([`Pacing`]).
//!
//! The recorder shows its disk as a file, so that the testbed builds on it as on any other image, on this
//! machine or in a guest ([`site`]): what is journaled, guarded and taken down is the same.

mod cutting;
mod errors;
mod looking;
mod place;
mod shown;
mod site;
mod tally;
mod work;

pub use shown::{ShownState, show_state};

use super::pacing::{PATIENCE, Pacing};
use super::report::{Overhead, host_failure};
use super::watch::{LoadEnd, Stops};
use super::{Bench, Ended, Site, Stop, not_built};
use crate::options::Machines;
use crate::order::Slot;
use crate::plan::{Case, Plan};
use crate::recorded::{self, Recorded, Shape};
use fsdyno_core::device::DiskModelText;
use fsdyno_core::durability::{CompleteLog, Cut, RecorderReply, RecorderRequest};
use fsdyno_core::kernel::HOST_KERNEL;
use fsdyno_core::result::LogSummary;
use fsdyno_core::workload::Durability;
use fsdyno_core::{Failure, Outcome, Progress};
use fsdyno_host::recorder::Recorder;
use fsdyno_host::{Host, HostError};
use place::LogPlace;
use site::{DiskSite, User};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The time that a step on a disk after a cut may take. Recovery of such a small disk takes less than a
/// second.
const STEP_LIMIT: Duration = Duration::from_secs(30);

/// Everything that such a trial needs in addition to its case.
pub(crate) struct Recording<'a, 'm> {
    pub plan: &'a Plan,
    pub machines: &'a mut Machines<'m>,
    /// Directory of the undo journals.
    pub state_dir: &'a Path,
    pub stops: Stops<'a>,
    pub overheads: &'a mut BTreeMap<String, Overhead>,
    /// Where the log is kept, if it is.
    pub keep: PathBuf,
    pub progress: &'a mut dyn FnMut(&Progress),
}

impl Recording<'_, '_> {
    fn is_interrupted(&self) -> bool {
        self.stops.interrupt.load(Ordering::Relaxed)
    }
}

/// Runs a trial and takes everything down.
pub(crate) fn run(recording: &mut Recording<'_, '_>, slot: &Slot, case: &Case, load: Recorded<'_>) -> Ended {
    let device = case.device.clone();
    let parent = recorded::log_directory(&recording.plan.devices, recording.state_dir);
    let place = match LogPlace::make(recording.machines.host, &parent, recording.state_dir) {
        Ok(place) => place,
        Err(failure) => return not_built(slot, case, &device, LoadEnd::Failed(*failure)),
    };
    let mut ended = not_built(slot, case, &device, LoadEnd::Done);
    match look_at_all(recording, slot, case, load, &place, &mut ended) {
        Ok(()) => {}
        Err(Stop::Interrupted) => ended.interrupted = true,
        Err(Stop::NoRoom(error)) => {
            ended.no_room = true;
            ended.record.outcome = Outcome::Failed { error: *error };
        }
        Err(Stop::Failed(error) | Stop::Hung(error, _)) => {
            ended.record.outcome = Outcome::Failed { error: *error }
        }
        Err(Stop::Skipped(unmet)) => ended.record.outcome = Outcome::Skipped { unmet },
    }
    let keep = matches!(load, Recorded::Cuts(parameters) if parameters.keep_log);
    let kept = keep && ended.record.durability.is_some();
    let left = place.leave(recording.machines.host, kept.then_some(&*recording.keep));
    super::note_what_is_left(&mut ended.record, &left);
    ended.left.extend(left);
    ended
}

/// The trial itself, on a recorder that ends with it.
fn look_at_all(
    recording: &mut Recording<'_, '_>,
    slot: &Slot,
    case: &Case,
    load: Recorded<'_>,
    place: &LogPlace,
    ended: &mut Ended,
) -> Result<(), Stop> {
    let shared = case.configuration.guest_kernel().is_some();
    let shape = Shape::of(&recording.plan.devices.data, load);
    let parts = shape.parts() as u32;
    let mut recorder = start_recorder(recording.machines.host, place, None, parts, shared)?;
    let recorder = recorder.as_mut();
    if !matches!(load, Recorded::Cuts(_)) {
        // Nothing is to be recorded.
        ask(recorder, &RecorderRequest::Blank { size: shape.whole() })?;
    }
    let mut site = match DiskSite::open(recording, place, case, shape) {
        Ok(site) => site,
        // What a disk of the recorder could not do may be the recorder's own trouble.
        Err(stop) => return heal(recorder).and(Err(stop)),
    };
    let result = match load {
        Recorded::Cuts(parameters) => {
            *ended = record(recording, slot, case, &mut site, None);
            site.end_client(&mut ended.record);
            ended.left.extend(site.detach(recording.machines.host));
            match ended.record.outcome {
                Outcome::Failed { .. } => heal(recorder).map(drop),
                Outcome::Measured if ended.left.is_empty() => cutting::all(
                    recording,
                    slot,
                    case,
                    (parameters, shape),
                    place,
                    &mut site,
                    recorder,
                    ended,
                ),
                _ => Ok(()),
            }
        }
        Recorded::Paced { model, .. } => {
            *ended = record(recording, slot, case, &mut site, Some((recorder, model)));
            ended.left.extend(site.detach(recording.machines.host));
            // The name of the disk is another one in each trial.
            ended.record.configuration.device = case.device.clone();
            heal(recorder).map(drop)
        }
        Recorded::Errors(parameters) => {
            ended.left.extend(site.detach(recording.machines.host));
            let result = errors::all(recording, slot, case, parameters, &mut site, recorder, ended);
            if result.is_ok() {
                ended.record.outcome = Outcome::Measured;
            }
            result
        }
    };
    site.describe(&mut ended.record);
    ended.left.extend(site.leave(recording.machines.host));
    result
}

/// Starts a recorder of so many disks, which are new unless there is a complete log of them.
fn start_recorder(
    host: &mut dyn Host,
    place: &LogPlace,
    complete: Option<CompleteLog>,
    parts: u32,
    shared: bool,
) -> Result<Box<dyn Recorder>, Stop> {
    let failed = |error: HostError| Stop::Failed(Box::new(host_failure(&error)));
    let mut recorder = host.start_recorder().map_err(failed)?;
    let begin = RecorderRequest::Begin {
        directory: place.log().to_path_buf(),
        mountpoint: place.mountpoint().to_path_buf(),
        complete,
        parts,
        shared,
    };
    recorder.ask(&begin, PATIENCE).map_err(failed)?;
    Ok(recorder)
}

/// The load, on the disk that is recorded, or has the times of another one.
fn record(
    recording: &mut Recording<'_, '_>,
    slot: &Slot,
    case: &Case,
    site: &mut DiskSite,
    paced: Option<(&mut dyn Recorder, &DiskModelText)>,
) -> Ended {
    let device = site.testbed.device().clone();
    let journal = site.journal(recording.machines.host, recording.state_dir);
    let mut journal = match journal {
        Ok(journal) => journal,
        Err(error) => return not_built(slot, case, &device, LoadEnd::Failed(error.failure())),
    };
    let kernel = case.configuration.guest_kernel().unwrap_or(HOST_KERNEL);
    let overhead = recording.overheads.get(kernel).copied().unwrap_or_default();
    let User { host, site: place, testbed, configuration, marks } = site.user(recording.machines.host);
    let within = Case { configuration: configuration.clone(), ..case.clone() };
    let mut bench = Bench {
        plan: recording.plan,
        host,
        testbed,
        device: &device,
        journal: &mut journal,
        stops: recording.stops,
        overhead,
        site: place,
        marks: Some(marks),
        pacing: paced.map(|(recorder, model)| Pacing::new(recorder, model)),
        progress: &mut *recording.progress,
    };
    let mut ended = super::run(&mut bench, slot, &within);
    if let Some(pacing) = bench.pacing.take() {
        pacing.keep(&mut ended.record);
    }
    // The guest goes on.
    if bench.site.ends() {
        if let Site::Server { clients, .. } = &mut bench.site {
            clients.abandon(bench.host);
        }
        let left = bench.journal.undo_all(bench.host).left;
        if let Err(failure) = site.note_left(left, &mut ended)
            && ended.record.outcome == Outcome::Measured
        {
            ended.record.outcome = Outcome::Failed { error: *failure };
        }
    }
    ended.record.configuration.asked = case.configuration.clone();
    ended.left.extend(journal.close().err().map(|error| error.failure().message));
    ended
}

fn ask(recorder: &mut dyn Recorder, request: &RecorderRequest) -> Result<RecorderReply, Stop> {
    recorder.ask(request, PATIENCE).map_err(|error| Stop::Failed(Box::new(host_failure(&error))))
}

fn summary_of(recorder: &mut dyn Recorder) -> Result<LogSummary, Stop> {
    match ask(recorder, &RecorderRequest::Summary)? {
        RecorderReply::Summary { summary } => Ok(summary),
        _ => Err(unexpected()),
    }
}

/// The cuts of a trial of this seed.
fn cuts_of(recorder: &mut dyn Recorder, parameters: &Durability, seed: u64) -> Result<Vec<Cut>, Stop> {
    match ask(recorder, &RecorderRequest::Cuts { count: parameters.cuts, seed })? {
        RecorderReply::Cuts { cuts } => Ok(cuts),
        _ => Err(unexpected()),
    }
}

/// Nothing fails on purpose any more; returns how many requests have failed until now. If the recorder's own
/// files could not be used, what was found is about those, and not about the filesystem.
fn heal(recorder: &mut dyn Recorder) -> Result<u64, Stop> {
    match ask(recorder, &RecorderRequest::Fail { fault: None })? {
        RecorderReply::Faults { failed, trouble: None } => Ok(failed),
        RecorderReply::Faults { trouble: Some(trouble), .. } => Err(Stop::Failed(Box::new(own(&trouble)))),
        _ => Err(unexpected()),
    }
}

fn own(trouble: &str) -> Failure {
    let mut failure = Failure::new("record", format!("the recorded disk itself failed: {trouble}"));
    failure.hint = Some("make room where the image of the plan is".to_string());
    failure
}

fn unexpected() -> Stop {
    Stop::Failed(Box::new(Failure::new("record", "the recorder gave another reply than was asked for")))
}
