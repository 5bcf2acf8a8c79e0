//! A request that is being executed: what every workload needs, from its own directory to settling before
//! each phase.

mod read_again;
mod warnings;

pub(crate) use read_again::Ledger;

use crate::background;
use crate::bounds::{Bounds, DROP_CACHES};
use crate::cache::{self, Dropped};
use crate::error::{EngineError, OperationFailure};
use crate::fill;
use crate::layout;
use crate::memory;
use crate::phase::{self, Observer, PhaseLoad, Run, Written};
use crate::plant::{DIRECTORY, DIRECTORY_MODE};
use crate::quiesce;
use crate::removal::{self, Remover};
use crate::reporter::Reporter;
use crate::tree::Model;
use fsdyno_core::result::{CacheAtStart, Durable, GroupMemory, Quiet, TreeSummary};
use fsdyno_core::units::{Bytes, Nanos};
use fsdyno_core::workload::TreeModel;
use fsdyno_core::{
    CacheState, EngineEvent, EngineRequest, PhaseResult, Reached, Reread, TrialStep, Warning, WarningKind,
};
use fsdyno_sys::timer::Timer;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that removing may make no progress while a worker hangs in the same filesystem.
const SHORT_PATIENCE: Duration = Duration::from_secs(5);
/// The time that removing may make no progress otherwise: a slow disk that writes back much may need this
/// long for one name.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// One request in execution.
pub(crate) struct Session<'a, 'e> {
    pub(crate) request: &'a EngineRequest,
    pub(crate) timer: Timer,
    pub(crate) stop: &'a AtomicBool,
    /// For everything that is not measured.
    pub(crate) bounds: Bounds<'a>,
    pub(crate) reporter: &'a mut Reporter<'e>,
    pub(crate) observer: &'a mut dyn Observer,
    /// The engine's own directory, once it has been created.
    base: Option<PathBuf>,
    /// Threads that hang in the kernel.
    left_behind: u32,
    /// The progress of the writers of a verified load, in this part and in earlier ones.
    pub(crate) reached: Vec<Reached>,
    /// Files and directories that were created before the phases.
    names: u64,
    /// The data that the last phase wrote, as long as nobody has waited for it to be on the device.
    unsynced: Option<Written>,
    /// The duration of that wait.
    written_back_ns: Nanos,
    /// The outcome of dropping caches before the next phase.
    dropped: Option<Dropped>,
    /// The contents of memory at the beginning of the next phase, if that phase reads what was there before.
    cache: Option<CacheAtStart>,
    /// The outcome of waiting for a calm device before the next phase.
    pub(crate) quiet: Option<Quiet>,
}

impl<'a, 'e> Session<'a, 'e> {
    pub(crate) fn new(
        request: &'a EngineRequest,
        timer: Timer,
        bounds: Bounds<'a>,
        reporter: &'a mut Reporter<'e>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Session {
            request,
            timer,
            stop: bounds.stop,
            bounds,
            reporter,
            observer,
            base: None,
            left_behind: 0,
            reached: request.reached.clone(),
            names: 0,
            unsynced: None,
            written_back_ns: Nanos(0),
            dropped: None,
            cache: None,
            quiet: None,
        }
    }

    /// Creates the engine's own directory, which must not exist; in a later part of a workload, finds it
    /// again. Everything else happens below it.
    pub(crate) fn make_base(&mut self) -> Result<PathBuf, EngineError> {
        if let Some(base) = &self.base {
            return Ok(base.clone());
        }
        let base = self.request.directory.join(base_name(self.request.seed));
        if self.begins() {
            let path = base.clone();
            let make = move |_: &background::Gauge| rustix::fs::mkdirat(CWD, &path, DIRECTORY_MODE);
            background::run("create the directory", self.bounds, make, |_| true)?
                .map_err(EngineError::system("create the directory", &base))?;
        } else {
            rustix::fs::open(&base, DIRECTORY, Mode::empty())
                .map_err(EngineError::system("find the directory", &base))?;
        }
        self.base = Some(base.clone());
        Ok(base)
    }

    /// Returns whether the request starts from scratch.
    fn begins(&self) -> bool {
        self.request.part.is_first() && self.request.reread != Reread::Only
    }

    /// Fills and ages the filesystem if requested, and checks that there is enough space for the workload.
    pub(crate) fn fill(&mut self) -> Result<(), EngineError> {
        let EngineRequest { precondition: Some(precondition), .. } = *self.request else {
            return Ok(());
        };
        if !self.begins() {
            return Ok(());
        }
        let base = self.make_base()?;
        let size =
            |space: rustix::fs::StatVfs| (space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize);
        let look = || {
            rustix::fs::statvfs(&base).map(size).map_err(EngineError::system("read the free space of", &base))
        };
        // A round of ageing removes one half and creates another.
        let level = look()?.0 / 100 * u64::from(precondition.fill_percent);
        let whole = level.saturating_mul(u64::from(precondition.age_rounds) + 1).max(1) as f64;
        let (path, seed) = (base.clone(), self.request.seed);
        let work = move |gauge: &background::Gauge| {
            let model = Model::new(&TreeModel::Home)?;
            fill::fill(&path, &model, seed, precondition, gauge)
                .map_err(|failure| EngineError::operation("fill", failure))
        };
        let reporter = &mut *self.reporter;
        let filled = background::run("fill", self.bounds, work, |gauge| {
            let done = gauge.done() as f64 / whole;
            reporter.tell(TrialStep::Fill, "", done / (done + 0.01).max(1.0), 0);
            true
        })??;
        self.reporter.event(EngineEvent::Filled(filled));
        let (free_bytes, needed_bytes) = (look()?.1, self.request.workload.load().prepares().0);
        if free_bytes < needed_bytes {
            let percent = precondition.fill_percent;
            return Err(EngineError::Room { percent, free_bytes, needed_bytes });
        }
        Ok(())
    }

    /// Reports that the trees exist.
    pub(crate) fn prepared(&mut self, duration_ns: Nanos, trees: TreeSummary) {
        self.names = trees.files + trees.directories;
        self.reporter.event(EngineEvent::Prepared { duration_ns, trees });
    }

    /// The memory that the load can fill: that of this machine, or the limit.
    pub(crate) fn memory(&self) -> Bytes {
        let machine = rustix::system::sysinfo();
        let all = Bytes(machine.totalram as u64 * u64::from(machine.mem_unit.max(1)));
        self.request.memory.as_ref().map_or(all, |group| group.limit.min(all))
    }

    /// Adds a warning for the reader of the result.
    pub(crate) fn warn(&mut self, kind: WarningKind, text: impl Into<String>) {
        self.reporter.event(EngineEvent::Warning(Warning::new(kind, text)));
    }

    /// Adds one about a phase.
    pub(crate) fn warn_in(&mut self, phase: &str, kind: WarningKind, text: impl Into<String>) {
        self.reporter.event(EngineEvent::Warning(Warning::new(kind, text).in_phase(phase)));
    }

    /// Writes back dirty data and, if requested, empties the caches.
    pub(crate) fn settle(&mut self, phase: &str, after_ns: u64) -> Result<(), EngineError> {
        let is_durable = self.make_durable(phase, after_ns)?;
        let Some(base) = self.base.clone() else { return Ok(()) };
        let drop_caches = self.request.drop_caches;
        let work = move |_: &background::Gauge| -> Result<Result<Option<Dropped>, Errno>, EngineError> {
            if !is_durable {
                write_back(&base)?;
            }
            Ok(drop_caches.then(cache::drop_all).transpose())
        };
        let reporter = &mut *self.reporter;
        let dropped = background::run("settle", self.bounds, work, |_| {
            reporter.tell(TrialStep::Settle, phase, 0.0, after_ns);
            true
        })??;
        self.dropped = dropped.unwrap_or_else(|errno| {
            let text = format!("cannot write '{DROP_CACHES}': {errno}");
            self.warn_in(phase, WarningKind::CachesNotDropped, text);
            None
        });
        Ok(())
    }

    /// Waits for the parent to let something begin that is not one of the engine's own phases.
    pub(crate) fn await_cue(&mut self, name: &str) -> Result<(), EngineError> {
        self.reporter.ready(name);
        while self.reporter.must_wait() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(EngineError::Stopped);
            }
            std::thread::sleep(phase::CUE);
        }
        Ok(())
    }

    /// Brings the caches into the state that the plan wants at the beginning of a phase that reads what was
    /// there before, and checks that they stay in it. Everything has been written back, and the caches have
    /// been dropped.
    pub(crate) fn warm_up(&mut self, phase: &str, after_ns: u64) -> Result<(), EngineError> {
        let Some(base) = self.base.clone() else { return Ok(()) };
        let state = self.request.cache;
        let (mut loaded, mut missed) = (None, None);
        if state != CacheState::Cold {
            let dropped = self.dropped.is_some();
            let work = move |gauge: &background::Gauge| -> Result<_, EngineError> {
                let read = || cache::read(&base, state == CacheState::Warm, gauge);
                let counted = read().and_then(|loaded| Ok((loaded, read()?))).map_err(|error| {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    EngineError::system("read into memory what is below", &base)(errno)
                })?;
                // What reading has changed (times of access) is not written back in the phase.
                write_back(&base)?;
                // After dropping there is something to read: then nothing was counted.
                Ok(if dropped && counted.0 == Some(Bytes(0)) { (None, None) } else { counted })
            };
            let (reporter, names) = (&mut *self.reporter, self.names);
            (loaded, missed) = background::run("settle", self.bounds, work, |gauge| {
                let done = gauge.done() as f64 / (2 * names).max(gauge.done() + 1) as f64;
                reporter.tell(TrialStep::Settle, phase, done, after_ns);
                true
            })??;
        }
        if let (Some(loaded), Some(missed)) = (loaded, missed)
            && missed.0 > loaded.0 / 100
        {
            let text = format!(
                "{} of {loaded} did not stay in memory; use smaller files, raise `memory`, or look for what else \
                 drops caches",
                missed.min(loaded)
            );
            self.warn_in(phase, WarningKind::CacheNotWarm, text);
        }
        self.cache = Some(CacheAtStart {
            state,
            remounted: self.request.remounted,
            drops: self.dropped.map_or(0, |dropped| dropped.drops),
            left: self.dropped.map(|dropped| dropped.left),
            loaded,
            missed,
        });
        Ok(())
    }

    /// Waits until the device is calm, if the plan asks for that.
    pub(crate) fn quiesce(&mut self, phase: &str) -> Result<(), EngineError> {
        let Some(quiesce) = &self.request.quiesce else { return Ok(()) };
        let (reporter, stop) = (&mut *self.reporter, self.stop);
        let quiet = quiesce::wait(quiesce, self.request.memory.as_ref(), &mut |share| {
            reporter.tell(TrialStep::Quiesce, phase, share.min(0.999), 0);
            !stop.load(Ordering::Relaxed)
        });
        if self.stop.load(Ordering::Relaxed) {
            return Err(EngineError::Stopped);
        }
        if !quiet.reached {
            let text = format!(
                "the device was not calm after {}: {} requests in that time, {} dirty at the end",
                quiet.waited_ns, quiet.requests, quiet.dirty
            );
            self.warn_in(phase, WarningKind::NotQuiet, text);
        }
        self.quiet = Some(quiet);
        Ok(())
    }

    /// Runs a phase and reports its result.
    pub(crate) fn phase(&mut self, phase: PhaseLoad) -> Result<(), EngineError> {
        self.counted_phase(phase, |_| ())
    }

    /// Runs a phase, adds what the workload counts by name to its result, and reports it.
    pub(crate) fn counted_phase(
        &mut self,
        phase: PhaseLoad,
        count: impl FnOnce(&mut PhaseResult),
    ) -> Result<(), EngineError> {
        let phase = PhaseLoad { span: phase.span.patient(self.request.patience), ..phase };
        self.quiesce(&phase.name)?;
        let used = || self.request.memory.as_ref().map(memory::used);
        let before = used();
        (self.unsynced, self.written_back_ns) = (None, Nanos(0));
        let Run { mut result, written, late, given_up, is_unthrottled } =
            phase::run(phase, self.timer, self.stop, self.reporter, self.observer, &mut self.left_behind)?;
        result.memory = used().zip(before).map(|(after, before)| GroupMemory {
            reclaims: after.reclaims.saturating_sub(before.reclaims),
            ..after
        });
        result.cache = self.cache.take();
        result.quiet = self.quiet.take();
        count(&mut result);
        for warning in warnings::warnings(&result) {
            self.reporter.event(EngineEvent::Warning(warning));
        }
        let name = result.name.clone();
        if let Some(failure) = late {
            let text = format!("after the window, {failure}: {}", failure.errno);
            self.warn_in(&name, WarningKind::LateFailure, text);
        }
        if is_unthrottled {
            let text = format!(
                "after {} of ramp, writers were still faster than the device; limit `memory`, write more, or \
                 lower vm.dirty_bytes",
                result.ramp_ns
            );
            self.warn_in(&name, WarningKind::NotThrottled, text);
        }
        self.reporter.event(EngineEvent::Phase(Box::new(result)));
        self.unsynced = (written.bytes > 0).then_some(written);
        given_up.map_or(Ok(()), |patience| Err(EngineError::NoProgress { step: name, patience }))
    }

    /// Waits until everything that the last phase wrote is on the device, and reports how long that took;
    /// returns whether it wrote back anything. If a worker hangs in the filesystem, this may hang as well,
    /// and is given up soon.
    pub(crate) fn make_durable(&mut self, next: &str, after_ns: u64) -> Result<bool, EngineError> {
        let (Some(base), Some(written)) = (self.base.clone(), self.unsynced.take()) else { return Ok(false) };
        let (begin_ns, begin) = (self.timer.now_ns(), Instant::now());
        let work = move |_: &background::Gauge| write_back(&base);
        let (reporter, hung) = (&mut *self.reporter, self.left_behind > 0);
        let ended = background::run("settle", self.bounds, work, |_| {
            reporter.tell(TrialStep::Settle, next, 0.0, after_ns);
            !hung || begin.elapsed() < SHORT_PATIENCE
        });
        let was_given_up =
            matches!(ended, Err(EngineError::Stopped)) && hung && !self.stop.load(Ordering::Relaxed);
        if !was_given_up {
            ended??;
        }
        let bytes = if was_given_up { 0 } else { written.bytes };
        let now_ns = self.timer.now_ns();
        self.written_back_ns = Nanos(now_ns.saturating_sub(begin_ns));
        let duration_ns = Nanos(now_ns.saturating_sub(written.since_ns));
        self.reporter.event(EngineEvent::Durable {
            durable: Durable { bytes, duration_ns },
            written_back_ns: self.written_back_ns,
        });
        Ok(!was_given_up)
    }

    /// Reports the layout of the files after the whole workload, unless a worker hangs in the filesystem:
    /// then this would hang as well.
    pub(crate) fn layout(&mut self) -> Result<(), EngineError> {
        let over = self.request.part.is_last() && self.left_behind == 0;
        let Some(base) = self.base.clone().filter(|_| over) else { return Ok(()) };
        let seed = self.request.seed;
        let path = base.clone();
        let work = move |gauge: &background::Gauge| layout::look(&path, seed, gauge);
        let names = self.names;
        let reporter = &mut *self.reporter;
        let looked = background::run("layout", self.bounds, work, |gauge| {
            let seen = gauge.done();
            reporter.tell(TrialStep::Layout, "", seen as f64 / names.max(seen + 1) as f64, 0);
            true
        })?;
        let mut layout = looked.map_err(EngineError::system("examine the files of", &base))?;
        layout.written_back_ns.0 += self.written_back_ns.0;
        self.reporter.event(EngineEvent::Layout(layout));
        Ok(())
    }

    /// Removes directories below the engine's own before others take their names.
    pub(crate) fn remove(&mut self, directories: Vec<PathBuf>) -> Result<(), EngineError> {
        let (reporter, names) = (&mut *self.reporter, self.names);
        let work = move |gauge: &background::Gauge| -> Result<(), EngineError> {
            directories.into_iter().try_for_each(|directory| remove_tree(directory, gauge))
        };
        background::run("remove", self.bounds, work, |gauge| {
            let removed = gauge.done();
            reporter.tell(TrialStep::CleanUp, "", removed as f64 / names.max(removed + 1) as f64, 0);
            true
        })?
    }

    /// Removes the engine's own directory. If that makes no progress for long, because a worker hangs in the
    /// same filesystem or because the filesystem does, it is given up, and a warning says what is left.
    pub(crate) fn clean_up(&mut self) -> Result<(), EngineError> {
        let Some(base) = self.base.take() else { return Ok(()) };
        let work = {
            let base = base.clone();
            move |gauge: &background::Gauge| remove_tree(base, gauge)
        };
        let patience = if self.left_behind > 0 { SHORT_PATIENCE } else { LONG_PATIENCE };
        let (mut seen, mut since) = (0, Instant::now());
        let (reporter, names) = (&mut *self.reporter, self.names);
        let never = AtomicBool::new(false);
        let unstoppable = Bounds { stop: &never, ..self.bounds };
        let removed = background::run("clean up", unstoppable, work, |gauge| {
            let removed = gauge.done();
            // How much the writers have left is unknown: as long as something is removed, there is progress.
            reporter.tell(TrialStep::CleanUp, "", removed as f64 / names.max(removed + 1) as f64, 0);
            if removed > seen {
                (seen, since) = (removed, Instant::now());
            }
            since.elapsed() < patience
        });
        match removed {
            Ok(result) => result,
            Err(EngineError::Stopped) => {
                let text = format!("'{}' could not be removed: a system call on it hangs", base.display());
                self.warn(WarningKind::LeftBehind, text);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The name of the engine's own directory.
pub(crate) fn base_name(seed: u64) -> String {
    format!("fsdyno-{seed:016x}")
}

/// Writes back everything of the filesystem below a directory.
fn write_back(base: &Path) -> Result<(), EngineError> {
    let action = "write back everything below";
    let directory =
        rustix::fs::open(base, DIRECTORY, Mode::empty()).map_err(EngineError::system(action, base))?;
    rustix::fs::syncfs(&directory).map_err(EngineError::system(action, base))
}

fn remove_tree(directory: PathBuf, gauge: &background::Gauge) -> Result<(), EngineError> {
    let action = "remove the directory";
    let fail = |errno| EngineError::system(action, &directory)(errno);
    let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else { return Ok(()) };
    let parent: OwnedFd =
        rustix::fs::open(parent, DIRECTORY - rustix::fs::OFlags::NOFOLLOW, Mode::empty()).map_err(fail)?;
    let name = CString::new(name.as_encoded_bytes()).map_err(|_| fail(Errno::INVAL))?;
    removal::remove(&mut Tidier { gauge }, &parent, &name)
        .map_err(|failure| EngineError::operation("clean up", failure))
}

/// Removes without timing, and reports its progress.
struct Tidier<'a> {
    gauge: &'a background::Gauge,
}

impl Remover for Tidier<'_> {
    type Error = OperationFailure;

    fn failed(&mut self, name: &CStr, errno: Errno) -> OperationFailure {
        OperationFailure { operation: None, path: name.to_string_lossy().into_owned(), errno }
    }

    fn unlink(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        flags: AtFlags,
    ) -> Result<(), OperationFailure> {
        if self.gauge.cancelled() {
            return Err(self.failed(name, Errno::CANCELED));
        }
        self.gauge.advance(1);
        rustix::fs::unlinkat(directory, name, flags).map_err(|errno| self.failed(name, errno))
    }
}
