//! Watches an engine until it exits, and gives it up if it hangs.
//!
//! A worker of the engine may hang in the kernel for ever, and the engine with it. So the engine must not
//! only be alive but make progress: an event equal to the previous one is not a sign of progress. A stage may
//! go without a change for as long as its work should take on a slow disk, plus the plan's `watchdog`. An
//! engine that is given up is stopped; one that cannot be killed is left behind, and reported.

use super::report::EngineReport;
use crate::estimate::SLOW_TREE_RATE;
use fsdyno_core::result::PhaseResult;
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Failure, Nanos, Progress, TrialStep, Workload};
use fsdyno_host::{EngineOutput, EngineProcess, Plight};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most that filling writes between two signs of progress.
const FILL_STEP: Bytes = Bytes(Bytes::GIB);
/// The interval at which interruption is checked while the engine is silent.
const GLANCE: Duration = Duration::from_millis(100);
/// The same while it waits for a hook.
const SHORT_GLANCE: Duration = Duration::from_millis(5);
/// The time that an engine may take to exit on its own and, after being killed, to disappear.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The way in which an engine's run ended.
#[derive(Debug)]
pub(crate) enum LoadEnd {
    /// It did all phases.
    Done,
    /// It failed, exited early or sent invalid output.
    Failed(Failure),
    /// It made no progress and was given up.
    Hung(Failure),
    /// The user interrupted it.
    Interrupted,
    /// A filesystem has only its reserve left.
    NoRoom(Failure),
}

/// A run of an engine, and its process, with what keeps it, if that could not be ended.
#[derive(Debug)]
pub(crate) struct Load {
    pub end: LoadEnd,
    pub stuck: Option<String>,
}

/// The actions while an engine runs.
pub(crate) struct Looks<'a> {
    /// Called with each of its signs of life.
    pub progress: &'a mut dyn FnMut(&Progress),
    /// Says why it must stop for lack of room.
    pub room: &'a mut dyn FnMut() -> Option<Failure>,
    /// The activity at its phases.
    pub at_phases: &'a mut dyn AtPhases,
}

/// An activity at the phases of an engine that waits before each of them.
pub(crate) trait AtPhases {
    /// A phase is ready to begin. `settled`: the engine has written back and emptied caches for it.
    fn begin(&mut self, _phase: &str, _settled: bool) -> Result<(), Box<Failure>> {
        Ok(())
    }
    /// The engine has come this far.
    fn reached(&mut self, _progress: &Progress) {}
    /// Called often; whether the phase may begin.
    fn look(&mut self) -> Result<bool, Box<Failure>> {
        Ok(true)
    }
    /// The phase has ended, with this result, or, if not `gently`, the engine is about to be ended.
    fn end(&mut self, _gently: bool, _phase: Option<&mut PhaseResult>) {}
}

/// Nothing.
impl AtPhases for () {}

/// The flags that end the wait for an engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stops<'a> {
    /// The user wants it to stop.
    pub interrupt: &'a AtomicBool,
    /// The user does not want to wait for it to clean up.
    pub hurry: &'a AtomicBool,
}

/// Follows an engine until it exits. One that has to clean up is given the time to do so, even after an
/// interruption.
pub(crate) fn watch(
    engine: &mut dyn EngineProcess,
    request: &EngineRequest,
    watchdog: Nanos,
    stop: Stops<'_>,
    report: &mut EngineReport,
    looks: &mut Looks<'_>,
) -> Load {
    let workload = &request.workload;
    let end = follow(engine, workload, watchdog.into(), stop.interrupt, report, looks);
    looks.at_phases.end(matches!(end, LoadEnd::Done), None);
    if request.clean_up && !matches!(end, LoadEnd::Done) {
        engine.ask_to_stop();
        // Cleaning up makes room.
        let mut looks = Looks { progress: &mut *looks.progress, room: &mut || None, at_phases: &mut () };
        follow(engine, workload, watchdog.into(), stop.hurry, report, &mut looks);
    }
    let stuck = (!engine.stop(STOP_LIMIT))
        .then(|| format!("{}, which {}", engine.process(), engine.plight().of_killed()));
    Load { end, stuck }
}

fn follow(
    engine: &mut dyn EngineProcess,
    workload: &Workload,
    watchdog: Duration,
    interrupt: &AtomicBool,
    report: &mut EngineReport,
    looks: &mut Looks<'_>,
) -> LoadEnd {
    let mut heard = Heard { place: None, changed: Instant::now(), waits: false, settled: false };
    loop {
        if interrupt.load(Ordering::Relaxed) {
            return LoadEnd::Interrupted;
        }
        if let Some(failure) = (looks.room)() {
            return LoadEnd::NoRoom(failure);
        }
        match looks.at_phases.look() {
            Err(failure) => return LoadEnd::Failed(*failure),
            Ok(may_begin) if heard.waits => {
                // What it waits for has a limit of its own.
                heard.changed = Instant::now();
                if may_begin {
                    engine.proceed(None);
                    heard.waits = false;
                }
            }
            Ok(_) => {}
        }
        let of_step = heard.place.as_ref().map_or(Duration::ZERO, |place| allowance(place.step, workload));
        let limit = watchdog + of_step;
        match engine.next(if heard.waits { SHORT_GLANCE } else { GLANCE.min(limit) }) {
            EngineOutput::Event(event) => {
                if let Some(end) = heard.event(*event, report, looks) {
                    return end;
                }
            }
            EngineOutput::Silence => {}
            EngineOutput::Garbage(text) => return LoadEnd::Failed(garbage(&text)),
            EngineOutput::End(stderr) => return LoadEnd::Failed(ended_early(&heard.place, stderr)),
        }
        if heard.changed.elapsed() > limit {
            return LoadEnd::Hung(hung(&heard.place, limit, engine));
        }
    }
}

/// The state of an engine, by what it has said.
struct Heard {
    place: Option<Progress>,
    /// When it last got further.
    changed: Instant,
    /// It waits for leave to begin a phase.
    waits: bool,
    /// It has waited for a calm device since the last phase.
    settled: bool,
}

impl Heard {
    /// Notes an event; returns the end if it is the last one.
    fn event(
        &mut self,
        event: EngineEvent,
        report: &mut EngineReport,
        looks: &mut Looks<'_>,
    ) -> Option<LoadEnd> {
        match event {
            EngineEvent::Done => return Some(LoadEnd::Done),
            EngineEvent::Failed(failure) => return Some(LoadEnd::Failed(failure)),
            EngineEvent::Warning(warning) => {
                report.warnings.push(warning);
                return None;
            }
            // Only of one that does nothing else.
            EngineEvent::Observed(_) => return None,
            EngineEvent::Progress(now) => {
                (looks.progress)(&now);
                looks.at_phases.reached(&now);
                self.settled |= now.step == TrialStep::Settle;
                let is_as_before =
                    self.place.as_ref().is_some_and(|place| place.is_like(&now) && place.done == now.done);
                self.place = Some(now);
                if is_as_before {
                    return None;
                }
            }
            EngineEvent::Ready { phase } => {
                if let Err(failure) = looks.at_phases.begin(&phase, std::mem::take(&mut self.settled)) {
                    return Some(LoadEnd::Failed(*failure));
                }
                self.waits = true;
                return None;
            }
            EngineEvent::Phase(mut phase) => {
                looks.at_phases.end(true, Some(&mut phase));
                report.phases.push(*phase);
            }
            EngineEvent::Durable { durable, written_back_ns } => {
                if let Some(phase) = report.phases.last_mut() {
                    phase.durable = Some(durable);
                }
                report.written_back = written_back_ns;
            }
            EngineEvent::Prepared { duration_ns, trees } => {
                report.prepare = Some(duration_ns);
                report.trees = trees;
            }
            EngineEvent::ReadAgain { read_again, duration_ns } => {
                report.read_again = Some((read_again, duration_ns));
            }
            EngineEvent::Hello { timer, .. } => report.timer = Some(timer),
            EngineEvent::Filled(filled) => report.filled = Some(filled),
            EngineEvent::Reached { writers } => report.reached.extend(writers),
            EngineEvent::Layout(layout) => report.layout = Some(layout),
        }
        self.changed = Instant::now();
        None
    }
}

/// Returns the time that a phase that ends with its work may complete nothing: a little less than until the
/// engine is given up, so that what was measured is reported.
pub(crate) fn patience(watchdog: Nanos, workload: &Workload) -> Nanos {
    let limit = Duration::from(watchdog) + allowance(TrialStep::Measure, workload);
    Nanos::from(limit / 10 * 9)
}

/// Returns the time that a stage should take at most if nothing is wrong.
fn allowance(step: TrialStep, workload: &Workload) -> Duration {
    let load = workload.load();
    let timing = load.timing();
    let slow = |bytes: u64| Duration::from_secs(bytes / SLOW_TREE_RATE);
    match step {
        TrialStep::Prepare
        | TrialStep::Settle
        | TrialStep::Quiesce
        | TrialStep::Layout
        | TrialStep::ReadAgain
        | TrialStep::CleanUp => slow(most_bytes(workload)),
        TrialStep::Fill => slow(FILL_STEP.0),
        TrialStep::Ramp => timing.ramp.longest().into(),
        // A phase without a window may end by writing back everything that it wrote.
        TrialStep::Measure => Duration::from(timing.window) + slow(load.moves().0),
        TrialStep::Drain => timing.drain_limit.into(),
        // Not of an engine.
        _ => Duration::ZERO,
    }
}

/// Returns the bytes created before the phases and written by them; if only the free space limits the latter,
/// four times those created.
fn most_bytes(workload: &Workload) -> u64 {
    let (prepared, written) = (workload.load().prepares().0, workload.load().writes().0);
    prepared.saturating_add(if written == u64::MAX { prepared.saturating_mul(3) } else { written })
}

/// The step to which a failure is attributed: the phase, or the activity outside of phases.
fn step(place: &Option<Progress>) -> String {
    match place {
        None => "engine".to_string(),
        Some(place) if place.phase.is_empty() => place.step.name().to_string(),
        Some(place) => place.phase.clone(),
    }
}

fn hung(place: &Option<Progress>, limit: Duration, engine: &dyn EngineProcess) -> Failure {
    let stage = place.as_ref().map_or("start", |place| place.step.name());
    let message = format!("the engine made no progress for {} in stage '{stage}'", Nanos::from(limit));
    let mut failure = Failure::new(step(place), message);
    if let Some(place) = place {
        failure.details = format!(
            "{} had completed {:.0} % of stage '{stage}'",
            engine.process(),
            place.done.unwrap_or_default() * 100.0
        );
    }
    let hint = match engine.plight() {
        Plight::NoProcessor => {
            "its threads could run, but others use the processors: stop what else runs on this machine, or \
             increase `watchdog`"
        }
        _ => "look for hung tasks in the kernel log (dmesg); for a slow device, increase `watchdog`",
    };
    failure.hint = Some(hint.into());
    failure
}

fn garbage(text: &str) -> Failure {
    let mut failure = Failure::new("engine", "the engine's output is not a valid event");
    failure.details = text.to_string();
    failure.hint = Some("this is a bug in fsdyno, or something else wrote to the engine's stdout".into());
    failure
}

fn ended_early(place: &Option<Progress>, stderr: String) -> Failure {
    let mut failure = Failure::new(step(place), "the engine exited without a result");
    failure.details = stderr;
    failure.hint =
        Some("check the kernel log (dmesg): the engine may have been killed for lack of memory".into());
    failure
}
