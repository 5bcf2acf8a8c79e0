//! A trial that asks what requests to a disk that fail do to an application. Each fault has a new filesystem,
//! which is mounted three times: to prepare it, while requests fail, and when none fails any more.

use super::looking::{await_release, of_own_program};
use super::site::{DiskSite, User};
use super::{Recording, STEP_LIMIT, Stop, ask, heal};
use crate::order::Slot;
use crate::plan::Case;
use crate::trial::Ended;
use crate::trial::start::note_built;
use fsdyno_core::durability::{DATA, Fault, FaultRequest, RecorderRequest};
use fsdyno_core::result::{FaultResult, Witnessed};
use fsdyno_core::workload::IoErrors;
use fsdyno_core::{Failure, Nanos, Progress, TrialRecord, TrialStep};
use fsdyno_host::recorder::Recorder;
use fsdyno_host::{Grant, Host, HostError};
use fsdyno_testbed::{Mounted, TestbedError, UndoJournal, Unmounted};
use serde::de::DeserializeOwned;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Lets requests fail, one fault after the other.
pub(super) fn all(
    recording: &mut Recording<'_, '_>,
    slot: &Slot,
    case: &Case,
    parameters: &IoErrors,
    site: &mut DiskSite,
    recorder: &mut dyn Recorder,
    ended: &mut Ended,
) -> Result<(), Stop> {
    let mut journal = site.journal(recording.machines.host, recording.state_dir)?;
    let mut result = Ok(());
    let begin = Instant::now();
    for (done, fault) in (0..).zip(parameters.faults.iter().copied()) {
        if recording.is_interrupted() {
            result = Err(Stop::Interrupted);
            break;
        }
        let each = begin.elapsed().as_nanos() as u64 / u64::max(done, 1);
        let rest = each.saturating_mul(parameters.faults.len() as u64 - done);
        let left_ns = (done > 0).then_some(Nanos(rest));
        (recording.progress)(&Progress { left_ns, ..Progress::at(TrialStep::Fault) });
        let mut faulty = Faulty {
            machine: recording.machines.host,
            site: &mut *site,
            journal: &mut journal,
            recorder: &mut *recorder,
            seed: slot.seed,
            parameters,
            interrupt: recording.stops.interrupt,
        };
        let found = faulty.look(fault, &mut ended.record);
        // In any case, or what takes it down could fail as well.
        let healed = heal(faulty.recorder);
        let found = found.and_then(|found| healed.map(|_| found));
        let left = faulty.take_down();
        let hangs = matches!(&found, Ok(found) if found.witnessed.is_none());
        if hangs || (found.is_err() && site.is_lost()) {
            ended.record.io_errors.push(found.unwrap_or(FaultResult::unknown(fault)));
            let disk = format!("the disk with the fault {}", fault.name());
            match site.replace(recording, case, parameters.size, recorder, &disk)? {
                Some(warning) => ended.record.warnings.push(warning),
                None => {
                    // A guest that is lost has nothing left.
                    let _ = site.note_left(left, ended);
                    break;
                }
            }
            journal = site.journal(recording.machines.host, recording.state_dir)?;
            continue;
        }
        match found {
            Ok(found) => ended.record.io_errors.push(found),
            Err(stop) => result = Err(stop),
        }
        if result.is_err() || !left.is_empty() {
            result = result.and(site.note_left(left, ended).map_err(Stop::Failed));
            break;
        }
    }
    ended.left.extend(journal.close().err().map(|error| error.failure().message));
    result
}

/// Who lets requests fail, and looks.
struct Faulty<'a> {
    machine: &'a mut dyn Host,
    site: &'a mut DiskSite,
    journal: &'a mut UndoJournal,
    recorder: &'a mut dyn Recorder,
    seed: u64,
    parameters: &'a IoErrors,
    interrupt: &'a AtomicBool,
}

impl Faulty<'_> {
    fn host(&mut self) -> &mut dyn Host {
        self.there().0
    }

    /// Who uses the disk, and the journal of that.
    fn there(&mut self) -> (&mut dyn Host, &mut UndoJournal) {
        (self.site.user(self.machine).host, self.journal)
    }

    fn look(&mut self, fault: Fault, record: &mut TrialRecord) -> Result<FaultResult, Stop> {
        let mounted = self.prepare(fault, record)?;
        self.host().limit_steps(Some(STEP_LIMIT));
        let found = self.suffer(fault, mounted);
        self.host().limit_steps(None);
        match found {
            Err(Stop::Hung(..)) => {
                let failed = heal(self.recorder)?;
                Ok(FaultResult { failed, ..FaultResult::unknown(fault) })
            }
            found => found,
        }
    }

    /// A new filesystem with the file, of which nothing is in memory.
    fn prepare(&mut self, fault: Fault, record: &mut TrialRecord) -> Result<Mounted, Stop> {
        ask(self.recorder, &RecorderRequest::Blank { size: self.parameters.size })?;
        let Faulty { machine, site, journal, seed, interrupt, .. } = self;
        let User { host, testbed, configuration, .. } = site.user(*machine);
        let stack = fsdyno_testbed::build(host, journal, testbed, configuration, *seed, interrupt)?;
        let mounted = stack.format(host)?.mount(host, journal)?;
        if record.io_errors.is_empty() {
            record.lifecycle_ns = mounted.lifecycle().clone();
            note_built(record, &mounted);
            record.warnings.extend_from_slice(mounted.warnings());
            record.set_environment(mounted.environment(host));
        }
        self.application("prepare", &mounted, fault)?;
        let unmounted = self.unmount(mounted)?;
        let (host, journal) = self.there();
        Ok(unmounted.mount_again(host, journal)?)
    }

    /// Makes requests fail while the application runs. Returns what it witnessed, and what is there
    /// afterwards.
    fn suffer(&mut self, fault: Fault, mounted: Mounted) -> Result<FaultResult, Stop> {
        let request = FaultRequest {
            request: fault.request(),
            nth: self.parameters.nth,
            for_good: fault.is_for_good(),
            data: DATA,
        };
        heal(self.recorder)?;
        ask(self.recorder, &RecorderRequest::Fail { fault: Some(request) })?;
        let said = self.application("act", &mounted, fault)?;
        let witnessed: Witnessed = parsed(&said)?;
        // What the unmount would write fails as well, if requests fail for good.
        let (host, journal) = self.there();
        let unmounted = mounted.unmount(host, journal)?;
        let failed = heal(self.recorder)?;
        let (host, journal) = self.there();
        await_release(&unmounted, host, journal)?;
        unmounted.replay(host, journal)?;
        let result = FaultResult { failed, witnessed: Some(witnessed), ..FaultResult::unknown(fault) };
        let mounted = match unmounted.mount_again(host, journal) {
            Ok(mounted) => mounted,
            Err(TestbedError::Host { source: HostError::Mount { reason, .. }, .. }) => {
                return Ok(FaultResult { mount_error: Some(reason), ..result });
            }
            Err(error) => return Err(error.into()),
        };
        let after = parsed(&self.application("look", &mounted, fault)?)?;
        let unmounted = self.unmount(mounted)?;
        let (host, journal) = self.there();
        let clean = match unmounted.check_small(host, journal) {
            Ok(checked) => checked.map(|(check, _)| check.clean),
            // A check that gives up has found enough.
            Err(TestbedError::Tool { .. }) => Some(false),
            Err(error) => return Err(error.into()),
        };
        Ok(FaultResult { after: Some(after), clean, ..result })
    }

    fn unmount(&mut self, mounted: Mounted) -> Result<Unmounted, Stop> {
        let (host, journal) = self.there();
        let unmounted = mounted.unmount(host, journal)?;
        await_release(&unmounted, host, journal)?;
        Ok(unmounted)
    }

    /// Has a process of its own do a step of the application: it may hang.
    fn application(&mut self, step: &str, mounted: &Mounted, fault: Fault) -> Result<String, Stop> {
        let directory = mounted.directory();
        let (named, seed) = (directory.display().to_string(), self.seed.to_string());
        let words = ["application", step, &named, fault.act().name(), &seed].map(str::to_string);
        of_own_program(self.host(), "application", words, Some(Grant::Tree(directory.to_path_buf())))
    }

    /// Takes everything of a fault down; returns what is left.
    fn take_down(&mut self) -> Vec<String> {
        let (host, journal) = self.there();
        host.limit_steps(Some(STEP_LIMIT));
        let report = journal.undo_all(host);
        host.limit_steps(None);
        report.left
    }
}

fn parsed<T: DeserializeOwned>(said: &str) -> Result<T, Stop> {
    serde_json::from_str(said)
        .map_err(|error| Stop::Failed(Box::new(Failure::new("application", error.to_string()))))
}
