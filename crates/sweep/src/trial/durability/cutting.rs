//! All states that one log is cut to, under every cache model.
//!
//! On this machine two threads look at them, each with a recorder and an agent of its own. Most of a state's
//! time is spent waiting while requests go from the filesystem to the loop device, to the recorder and back.

use super::looking::Turns;
use super::place::LogPlace;
use super::site::DiskSite;
use super::tally::{DiskFindings, Tally};
use super::work::{Queue, Work, of_each_cut};
use super::{Recording, ask, cuts_of, heal, start_recorder, summary_of};
use crate::order::Slot;
use crate::plan::Case;
use crate::recorded::Shape;
use crate::trial::{Ended, Stop};
use fsdyno_core::durability::{CompleteLog, Promise, RecorderRequest};
use fsdyno_core::result::{LogEntry, LogSummary};
use fsdyno_core::workload::{Durability, Load};
use fsdyno_core::{Configuration, Progress, TrialStep, Warning, WarningKind};
use fsdyno_host::Host;
use fsdyno_host::recorder::Recorder;
use fsdyno_testbed::UndoJournal;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::{Builder, available_parallelism};
use std::time::Instant;

/// With two threads, recovery is timed after at most so many cuts, because one thread rests meanwhile.
const TIMED: usize = 100;

/// Cuts power at all places, and looks at what is left each time.
#[expect(clippy::too_many_arguments, reason = "each is something else")]
#[expect(clippy::too_many_lines, reason = "what two threads share is in one place")]
pub(super) fn all(
    recording: &mut Recording<'_, '_>,
    slot: &Slot,
    case: &Case,
    (parameters, shape): (&Durability, Shape<'_>),
    place: &LogPlace,
    site: &mut DiskSite,
    recorder: &mut dyn Recorder,
    ended: &mut Ended,
) -> Result<(), Stop> {
    heal(recorder)?;
    let summary = summary_of(recorder)?;
    ask(recorder, &RecorderRequest::Check)?;
    let cuts = cuts_of(recorder, parameters, slot.seed)?;
    let marks = place.read_marks().map_err(Stop::Failed)?;
    site.keep_in_memory(recording.machines.host, place, shape, parameters.least_space())?;
    ended.record.warnings.extend(too_few_promises(parameters, &summary));
    let helper = helper(recording.machines.host, site, shape).map(|(machine, beside)| {
        site.configuration = beside;
        machine
    });
    let work = Work {
        cuts: &cuts,
        of_each: of_each_cut(parameters),
        parameters,
        seed: slot.seed,
        shape,
        interrupt: recording.stops.interrupt,
        queue: Mutex::new(Queue::new(Tally::new(summary, &marks, parameters))),
        turns: Turns::default(),
        timed_every: if helper.is_some() { cuts.len().div_ceil(TIMED).max(1) } else { 1 },
    };
    let configuration = site.configuration.clone();
    let help = Help {
        log: place.complete_log(shape.whole()),
        marks: place.marks_so_far(),
        state_dir: recording.state_dir,
        configuration: &configuration,
    };
    let mut journal = site.journal(recording.machines.host, recording.state_dir)?;
    let mut look = |ended: &mut Ended| -> Result<(), Stop> {
        let begin = Instant::now();
        while let Some(state) = work.next()? {
            let (looked, left) = work.look(&state, recording.machines.host, site, &mut journal, recorder);
            if matches!(looked, Ok(DiskFindings::Hung)) || (looked.is_err() && site.is_lost()) {
                work.add(&state, DiskFindings::Hung);
                let disk =
                    format!("the disk after cut {} under the model '{}'", state.number, state.model.name());
                let Some(warning) = site.replace(recording, case, shape.whole(), recorder, &disk)? else {
                    // A guest that is lost has nothing left.
                    let _ = site.note_left(left, ended);
                    work.close();
                    return Ok(());
                };
                ended.record.warnings.push(warning);
                journal = site.journal(recording.machines.host, recording.state_dir)?;
                continue;
            }
            let is_clean = left.is_empty();
            let noted = site.note_left(left, ended);
            work.add(&state, looked?);
            noted.map_err(Stop::Failed)?;
            if !is_clean {
                work.close();
            }
            let left_ns = Some(work.left_after(begin));
            (recording.progress)(&Progress { left_ns, ..Progress::at(TrialStep::Cut) });
        }
        Ok(())
    };
    let mut result = std::thread::scope(|scope| {
        let (help, work) = (&help, &work);
        let helper = helper.and_then(|mut machine| {
            Builder::new().spawn_scoped(scope, move || help.give(machine.as_mut(), work)).ok()
        });
        let result = look(ended);
        if result.is_err() {
            work.close();
        }
        if let Some(helper) = helper {
            let helped = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            ended.left.extend(helped.left);
            ended.record.log.extend(helped.log);
        }
        result
    });
    if result.is_ok() {
        // What the helper could not look at.
        result = look(ended);
    }
    ended.left.extend(journal.close().err().map(|error| error.failure().message));
    result?;
    let (done, losses) = work.result();
    let states = parameters.states();
    if done < states {
        let text =
            format!("a filesystem hung after a power cut: only {done} of {states} states were looked at");
        ended.record.warnings.push(Warning::new(WarningKind::LeftBehind, text));
    }
    ended.record.durability = Some(losses);
    Ok(())
}

/// This machine for a second thread, and how both mount the filesystem; `None` where one thread has to do.
fn helper(
    machine: &dyn Host,
    site: &DiskSite,
    shape: Shape<'_>,
) -> Option<(Box<dyn Host + Send>, Configuration)> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    // Two mounted copies of an array or a volume would be taken for one.
    if processors < 2 || site.is_guest() || shape.parts() > 1 {
        return None;
    }
    let beside = fsdyno_testbed::beside_a_copy(&site.configuration)?;
    Some((machine.another()?, beside))
}

/// The inputs of a second thread that looks at states.
struct Help<'a> {
    log: CompleteLog,
    marks: PathBuf,
    state_dir: &'a Path,
    configuration: &'a Configuration,
}

/// The result of the second thread.
#[derive(Default)]
struct Helped {
    /// The leftovers, one line each.
    left: Vec<String>,
    log: Vec<LogEntry>,
}

impl Help<'_> {
    /// Looks at states until there are no more. If one cannot be looked at, it is given back and the thread
    /// ends: either the other one can, or it says why not. The log says why it ended.
    fn give(&self, machine: &mut dyn Host, work: &Work<'_>) -> Helped {
        let (mut helped, begin) = (Helped::default(), Instant::now());
        let parent = self.log.directory.parent().unwrap_or(&self.log.directory);
        let Ok(place) = LogPlace::make(machine, parent, self.state_dir) else { return helped };
        let mut journal = UndoJournal::create(machine, self.state_dir);
        let mut ended = Ok(());
        if let Ok(journal) = &mut journal {
            ended = self.look(machine, &place, work, journal);
        }
        helped.left.extend(place.leave(machine, None));
        if let Ok(mut journal) = journal {
            // What a recorder that died had kept is gone with its mount.
            helped.left.extend(journal.undo_all(machine).left);
            helped.left.extend(journal.close().err().map(|error| error.failure().message));
        }
        helped.log = machine.take_log();
        if let Err(Stop::Failed(failure) | Stop::Hung(failure, _) | Stop::NoRoom(failure)) = ended {
            let step = "look at states in a second thread".to_string();
            helped.log.push(LogEntry { step, took_ns: begin.elapsed().into(), error: Some(failure.message) });
        }
        helped
    }

    fn look(
        &self,
        machine: &mut dyn Host,
        place: &LogPlace,
        work: &Work<'_>,
        journal: &mut UndoJournal,
    ) -> Result<(), Stop> {
        let log = Some(self.log.clone());
        let mut recorder = start_recorder(machine, place, log, work.shape.parts() as u32, false)?;
        let devices = work.shape.devices(place.mountpoint(), false);
        let space = work.parameters.least_space();
        let mut site = DiskSite::on_machine(machine, place, self.configuration, &devices, space)?;
        site.marks_so_far.clone_from(&self.marks);
        while let Ok(Some(state)) = work.next() {
            let (looked, left) = work.look(&state, machine, &mut site, journal, recorder.as_mut());
            let goes_on = left.is_empty()
                && matches!(looked, Ok(DiskFindings::NotMounted { .. } | DiskFindings::Looked { .. }));
            match looked {
                Ok(found) => work.add(&state, found),
                Err(stop) => {
                    work.give_back(&state);
                    return Err(stop);
                }
            }
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}

/// Warns of kinds of promises of which far fewer were made than asked for.
fn too_few_promises(parameters: &Durability, summary: &LogSummary) -> Option<Warning> {
    let asked = u64::from(parameters.promises);
    let made = |promise: &Promise| {
        let of = summary.promises.iter().find(|(known, _)| known == promise);
        of.map_or(0, |(_, made)| *made)
    };
    let few: Vec<&str> = Promise::ALL
        .iter()
        .filter(|promise| made(promise) * 2 < asked)
        .map(|promise| promise.name())
        .collect();
    (!few.is_empty()).then(|| {
        let all: u64 = Promise::ALL.iter().map(made).sum();
        let text = format!(
            "{all} promises were made instead of {}; fewer than half of {}",
            asked * Promise::ALL.len() as u64,
            few.join(", ")
        );
        Warning::new(WarningKind::PromisesNotMade, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_promises_that_were_hardly_made_are_named() {
        let parameters = Durability { promises: 10, ..Durability::default() };
        let summary = |made: u64| LogSummary {
            promises: Promise::ALL.into_iter().skip(1).map(|promise| (promise, made)).collect(),
            ..LogSummary::default()
        };
        let warned =
            |summary: &LogSummary| too_few_promises(&parameters, summary).map(|warning| warning.text);
        let first = Promise::ALL[0].name();
        let text = format!("55 promises were made instead of 120; fewer than half of {first}");
        assert_eq!(warned(&summary(5)), Some(text));
        let mut all = summary(10);
        all.promises.push((Promise::ALL[0], 10));
        assert_eq!(warned(&all), None);
    }
}
