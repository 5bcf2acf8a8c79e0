//! Work outside the phases, on a separate thread, so that the engine stays responsive and can be stopped,
//! whatever the filesystem does to the thread.
//!
//! Such a thread, like the workers, has its own descriptor table without the standard streams: if it hung
//! after the engine has ended, it would otherwise keep the pipe to the parent open. So it opens what it needs
//! by path.

use crate::bounds::Bounds;
use crate::error::EngineError;
use crate::phase::LOOK_UP;
use fsdyno_sys::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The time that cancelled work may take to notice.
const PATIENCE: Duration = Duration::from_secs(2);

/// The progress that the thread reports, and the flag that asks it to stop.
#[derive(Default)]
pub(crate) struct Gauge {
    done: AtomicU64,
    cancelled: AtomicBool,
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Gauge {
    /// Adds to what is done; the unit is the work's own.
    pub(crate) fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    /// Returns the amount of work done.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Makes the waiting side look at once.
    pub(crate) fn wake(&self) {
        if let Some(wake) = &self.wake {
            wake();
        }
    }

    /// Returns whether the work should end here.
    pub(crate) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// A message from the thread.
enum ThreadMessage<T> {
    Look,
    /// `Err`: it panicked.
    Ended(std::thread::Result<Result<T, EngineError>>),
}

/// Runs `work` on its own thread, within its bounds. `look` is called at once, then every now and then while
/// it lasts, and whenever the work requests it; it returns whether to go on waiting.
///
/// # Errors
/// [`EngineError::Stopped`] if the engine is to stop or `look` lost patience: the thread is asked to stop,
/// and left behind if it does not react. [`EngineError::Thread`]; [`EngineError::Worker`] if it panicked.
pub(crate) fn run<'b, T: Send + 'static>(
    step: &str,
    bounds: impl Into<Bounds<'b>>,
    work: impl FnOnce(&Gauge) -> T + Send + 'static,
    mut look: impl FnMut(&Gauge) -> bool,
) -> Result<T, EngineError> {
    let bounds = bounds.into();
    let confined = bounds.confined.cloned();
    let worker = || EngineError::Worker { step: step.to_string() };
    let (sender, words) = channel();
    let waker = sender.clone();
    let wake = Box::new(move || drop(waker.send(ThreadMessage::Look)));
    let gauge = Arc::new(Gauge { wake: Some(wake), ..Gauge::default() });
    let its_gauge = Arc::clone(&gauge);
    std::thread::Builder::new()
        .name(step.to_string())
        .spawn(move || {
            // The work can also be done without a separate table; only a hang would then be worse.
            let _ = thread::unshare_files().and_then(|()| thread::release_standard_streams());
            let work = || match confined.map_or(Ok(()), |confined| confined.enter()) {
                Ok(()) => Ok(work(&its_gauge)),
                Err(error) => Err(EngineError::Confine(error)),
            };
            // Nobody listens if the thread was left behind.
            drop(sender.send(ThreadMessage::Ended(catch_unwind(AssertUnwindSafe(work)))));
        })
        .map_err(|source| EngineError::Thread { step: step.to_string(), source })?;
    let mut cancelled: Option<Instant> = None;
    loop {
        match cancelled {
            Some(since) if since.elapsed() > PATIENCE => return Err(EngineError::Stopped),
            None if bounds.stop.load(Ordering::Relaxed) || !look(&gauge) => {
                gauge.cancelled.store(true, Ordering::Relaxed);
                cancelled = Some(Instant::now());
            }
            _ => {}
        }
        match words.recv_timeout(LOOK_UP) {
            Ok(ThreadMessage::Ended(Ok(_))) if cancelled.is_some() => return Err(EngineError::Stopped),
            Ok(ThreadMessage::Ended(result)) => return result.unwrap_or_else(|_panic| Err(worker())),
            // The channel cannot be closed: the gauge also has a sender.
            Ok(ThreadMessage::Look) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_is_left_behind() {
        let never = AtomicBool::new(false);
        let result = run("test", &never, |_| std::thread::sleep(Duration::from_secs(3600)), |_| false);
        assert!(matches!(result, Err(EngineError::Stopped)));
    }

    #[test]
    fn work_that_panics_is_an_error() {
        let never = AtomicBool::new(false);
        let result = run("test", &never, |_| assert!(never_true()), |_| true);
        assert!(matches!(result, Err(EngineError::Worker { .. })));
    }

    fn never_true() -> bool {
        std::env::args().count() == 0
    }

    #[test]
    fn work_that_wants_to_be_looked_at_is_before_it_ends() {
        let never = AtomicBool::new(false);
        let mut seen = Vec::new();
        let work = |gauge: &Gauge| {
            for _ in 0..3 {
                gauge.advance(1);
                gauge.wake();
            }
        };
        run("test", &never, work, |gauge| {
            seen.push(gauge.done());
            true
        })
        .unwrap();
        assert!(seen.len() >= 4, "{seen:?}: at once, and three times more");
    }

    #[test]
    fn results_come_back() {
        let never = AtomicBool::new(false);
        let work = |gauge: &Gauge| {
            gauge.advance(3);
            gauge.done()
        };
        assert!(matches!(run("test", &never, work, |_| true), Ok(3)));
    }
}
