//! `durability`: promises that system calls make, and work that nothing syncs, on a device that records what
//! is written to it.
//!
//! Each promise has a worker and a directory. Before the first system call of a promise and after the last
//! one, its worker puts a mark into the log of the device ([`marks`]), so that the log says at each place
//! what was acknowledged there. What is written derives from the seed ([`script`]), and every sector says
//! whose it is ([`sector`]): [`crate::verify`] can judge what a cut in the log has left without having seen
//! anything else. Nothing is timed, and nothing is synced at the end.

mod keeper;
mod marks;
pub(crate) mod script;
pub(crate) mod sector;

use crate::background::{self, Gauge};
use crate::error::{EngineError, OperationFailure};
use crate::plant::DIRECTORY;
use crate::session::Session;
use crate::workload::Work;
use fsdyno_core::TrialStep;
use fsdyno_core::durability::{Moment, Promise};
use fsdyno_core::result::TreeSummary;
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::Durability;
use fsdyno_sys::thread;
use keeper::Keeper;
use marks::{Marker, Put};
use rustix::fs::Mode;
use script::Script;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The stages, as progress and failures name them.
const PROMISES: &str = "promises";
const UNSYNCED: &str = "unsynced";
/// Time between two pieces of work that nothing syncs.
const INTERVAL: Duration = Duration::from_millis(20);
/// The interval at which those who wait check whether they are to stop.
const LOOK_UP: Duration = Duration::from_millis(20);
/// The time to wait for the other workers when one has failed.
const PATIENCE: Duration = Duration::from_secs(1);

impl Work for Durability {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let marks = session.request.marks.clone().ok_or(EngineError::NoMarks)?;
        let course = StageLengths::of(self);
        session.reporter.expect(course.length().as_nanos() as u64);
        let base = session.make_base()?;
        let script = Script::new(session.request.seed);
        let begin = Instant::now();
        let path = base.clone();
        let make = move |gauge: &Gauge| prepare(&path, script, gauge);
        let trees = background::run("prepare", session.bounds, make, |_| true)??;
        session.prepared(begin.elapsed().into(), trees);
        session.reporter.expect(0);
        let (reporter, patience) = (&mut *session.reporter, session.request.patience);
        let (begin, mut given_up) = (Instant::now(), None);
        let work = move |gauge: &Gauge| work(&base, course, script, marks::open(&marks)?, gauge);
        let ended = background::run(PROMISES, session.bounds, work, |_| {
            let elapsed = begin.elapsed();
            let late = elapsed.saturating_sub(course.length());
            given_up = patience.filter(|patience| late > Duration::from_nanos(patience.0));
            let left_ns = course.length().saturating_sub(elapsed).as_nanos() as u64;
            let (phase, done) = match elapsed.checked_sub(course.promising) {
                None => (PROMISES, elapsed.as_secs_f64() / course.promising.as_secs_f64()),
                Some(since) => (UNSYNCED, since.as_secs_f64() / course.unsynced.as_secs_f64().max(0.001)),
            };
            reporter.tell(TrialStep::Measure, phase, done, left_ns);
            given_up.is_none()
        });
        match (ended, given_up) {
            // A promise that began in time is still not acknowledged.
            (Err(EngineError::Stopped), Some(patience)) => {
                Err(EngineError::NoProgress { step: PROMISES.to_string(), patience })
            }
            (ended, _) => ended?,
        }
    }
}

/// Creates all directories, and the files that promises are made about later, and syncs everything up to the
/// directory above. Ends early, without error, if the gauge says so.
pub(crate) fn prepare(base: &Path, script: Script, gauge: &Gauge) -> Result<TreeSummary, EngineError> {
    let opened = rustix::fs::open(base, DIRECTORY, Mode::empty());
    let opened = opened.map_err(EngineError::system("find the directory", base))?;
    let mut trees = TreeSummary::default();
    for promise in everyone() {
        // The waiting side looks whether this is to stop.
        gauge.wake();
        if gauge.cancelled() {
            return Ok(trees);
        }
        Keeper::prepare(&opened, script, promise).map_err(failure("prepare"))?;
        trees.directories += 1;
        for file in 0..promise.map_or(0, |promise| script.prepared(promise)) {
            trees.files += 1;
            let sectors = promise.map_or(0, |promise| script.prepared_file(promise, file).sectors.end);
            trees.bytes += sectors * sector::SECTOR as u64;
        }
    }
    rustix::fs::fsync(&opened).map_err(EngineError::system("sync", base))?;
    let Some(parent) = base.parent() else { return Ok(trees) };
    rustix::fs::open(parent, DIRECTORY - rustix::fs::OFlags::NOFOLLOW, Mode::empty())
        .and_then(rustix::fs::fsync)
        .map_err(EngineError::system("sync", parent))?;
    Ok(trees)
}

/// Every promise, then the work that nothing syncs.
fn everyone() -> impl Iterator<Item = Option<Promise>> {
    Promise::ALL.into_iter().map(Some).chain([None])
}

fn failure(step: &'static str) -> impl FnOnce(OperationFailure) -> EngineError {
    move |failure| EngineError::operation(step, failure)
}

/// The length of each stage of the workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StageLengths {
    promises: u32,
    promising: Duration,
    unsynced: Duration,
}

impl StageLengths {
    pub(crate) fn of(parameters: &Durability) -> Self {
        let time = |time: Nanos| Duration::from_nanos(time.0);
        StageLengths {
            promises: parameters.promises,
            promising: time(parameters.duration),
            unsynced: time(parameters.unsynced),
        }
    }

    fn length(&self) -> Duration {
        self.promising + self.unsynced
    }

    /// When a promise should begin.
    fn intended(&self, number: u64) -> Duration {
        let share = u128::from(number) * self.promising.as_nanos() / u128::from(self.promises.max(1));
        Duration::from_nanos(share as u64)
    }
}

/// Does all of the work, on one thread for each kind. If a worker hangs in the kernel after another has
/// failed or this was cancelled, it is left behind.
pub(crate) fn work(
    base: &Path,
    course: StageLengths,
    script: Script,
    put: Put,
    gauge: &Gauge,
) -> Result<(), EngineError> {
    let over = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let (sender, ends) = channel();
    let mut working = 0;
    let (mut failed, mut ended) = (None, None);
    for promise in everyone() {
        let worker = Worker {
            promise,
            base: base.to_path_buf(),
            script,
            course,
            marker: Marker::new(promise, Arc::clone(&put)),
            begin,
            over: Arc::clone(&over),
        };
        let sender = sender.clone();
        let name = script::directory(promise).to_string();
        let work = move || {
            thread::block_signals();
            // Nobody listens if this one was left behind.
            drop(sender.send(catch_unwind(AssertUnwindSafe(|| worker.work()))));
        };
        match std::thread::Builder::new().name(name).spawn(work) {
            Ok(_) => working += 1,
            Err(source) => {
                failed = Some(EngineError::Thread { step: PROMISES.to_string(), source });
                break;
            }
        }
    }
    drop(sender);
    while working > 0 {
        if failed.is_some() || gauge.cancelled() {
            over.store(true, Ordering::Relaxed);
            if ended.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                break;
            }
        }
        // The waiting side looks whether this is to stop.
        gauge.wake();
        let end = match ends.recv_timeout(LOOK_UP) {
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(end) => end,
        };
        working -= 1;
        let end = end.unwrap_or_else(|_panic| Err(EngineError::Worker { step: PROMISES.to_string() }));
        if let Err(error) = end {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// One thread.
struct Worker {
    promise: Option<Promise>,
    base: PathBuf,
    script: Script,
    course: StageLengths,
    marker: Marker,
    begin: Instant,
    over: Arc<AtomicBool>,
}

impl Worker {
    fn work(mut self) -> Result<(), EngineError> {
        let opened = Keeper::open(&self.base, self.script, self.promise);
        let mut keeper = opened.map_err(failure(PROMISES))?;
        match self.promise {
            Some(_) => self.promise(&mut keeper),
            None => self.leave_unsynced(&mut keeper),
        }
    }

    /// Makes promises, evenly spread; those that are late begin at once.
    fn promise(&mut self, keeper: &mut Keeper) -> Result<(), EngineError> {
        for number in 0..u64::from(self.course.promises) {
            let intended = self.begin + self.course.intended(number);
            if !self.reach(intended) || self.begin.elapsed() >= self.course.promising {
                break;
            }
            keeper.before(number).map_err(failure(PROMISES))?;
            self.marked(keeper, number, PROMISES)?;
        }
        Ok(())
    }

    fn leave_unsynced(&mut self, keeper: &mut Keeper) -> Result<(), EngineError> {
        let mut next = self.begin;
        for number in 0.. {
            if !self.reach(next) || self.begin.elapsed() >= self.course.length() {
                break;
            }
            self.marked(keeper, number, UNSYNCED)?;
            next = (next + INTERVAL).max(Instant::now());
        }
        Ok(())
    }

    fn marked(&mut self, keeper: &mut Keeper, number: u64, step: &'static str) -> Result<(), EngineError> {
        self.marker.note(number, Moment::Begun)?;
        keeper.make(number).map_err(failure(step))?;
        self.marker.note(number, Moment::Acknowledged)
    }

    /// Waits for a moment; `false` if everything is over before.
    fn reach(&self, moment: Instant) -> bool {
        loop {
            if self.over.load(Ordering::Relaxed) {
                return false;
            }
            match moment.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return true,
                Some(left) => std::thread::sleep(left.min(LOOK_UP)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
