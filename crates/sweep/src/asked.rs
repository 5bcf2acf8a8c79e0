//! The requests of somebody who watches a sweep, which it follows between two trials.
//!
//! A request never touches the trial in progress: unlike Ctrl-C, it loses nothing. Whoever runs the sweep
//! passes requests on, from wherever they come; the sweep looks at them before each trial.

use fsdyno_core::{AfterTrial, Nanos};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The interval at which a paused sweep checks whether it still has to pause.
const GLANCE: Duration = Duration::from_millis(100);

/// The latest request; any thread may change it at any time.
#[derive(Debug, Default)]
pub struct Asked(AtomicU8);

impl Asked {
    /// Asks for something else.
    pub fn set(&self, wish: AfterTrial) {
        self.0.store(wish.byte(), Ordering::Relaxed);
    }

    /// Returns the latest request.
    pub fn get(&self) -> AfterTrial {
        AfterTrial::from_byte(self.0.load(Ordering::Relaxed))
    }

    /// Waits until no pause is asked for any more, or until the interruption, and calls `on_pause` meanwhile,
    /// with whether it is the first time. Returns for how long; `None` if there was no pause.
    pub(crate) fn wait(&self, interrupt: &AtomicBool, on_pause: &mut dyn FnMut(bool)) -> Option<Nanos> {
        let begin = Instant::now();
        let pauses = || self.get() == AfterTrial::Pause && !interrupt.load(Ordering::Relaxed);
        if !pauses() {
            return None;
        }
        let mut first = true;
        while pauses() {
            on_pause(std::mem::take(&mut first));
            std::thread::sleep(GLANCE);
        }
        Some(begin.elapsed().into())
    }
}
