//! Signs of life: about one event a second, with the time that is left.

use fsdyno_core::EngineEvent;
use fsdyno_core::protocol::Stage;
use fsdyno_core::units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How often there is a sign of life.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often the parent has said that a phase may begin.
pub(crate) type Cues = Arc<AtomicU32>;

/// Reports the progress of the engine to the parent. `done` never decreases within a stage.
pub(crate) struct Progress<'a> {
    events: &'a mut dyn FnMut(EngineEvent),
    /// What comes after the current phase or the preparation.
    future_ns: u64,
    last: Option<(Instant, Stage, String, f64)>,
    /// Set if phases wait for the parent; then also the number of phases that have asked.
    pauses: Option<(Cues, u32)>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(events: &'a mut dyn FnMut(EngineEvent)) -> Self {
        Progress { events, future_ns: 0, last: None, pauses: None }
    }

    /// Lets each phase wait for the parent.
    pub(crate) fn pause(&mut self, cues: Cues) {
        self.pauses = Some((cues, 0));
    }

    /// Reports that a phase is ready to begin, if the parent wants to know.
    pub(crate) fn ready(&mut self, phase: &str) {
        if let Some((_, asked)) = &mut self.pauses {
            *asked += 1;
            (self.events)(EngineEvent::Ready { phase: phase.to_string() });
        }
    }

    /// Whether that phase still has to wait.
    pub(crate) fn must_wait(&self) -> bool {
        self.pauses.as_ref().is_some_and(|(cues, asked)| cues.load(Ordering::Acquire) < *asked)
    }

    /// Sets how long everything after the current phase will take.
    pub(crate) fn expect(&mut self, future_ns: u64) {
        self.future_ns = future_ns;
    }

    /// Sends any other event.
    pub(crate) fn event(&mut self, event: EngineEvent) {
        (self.events)(event);
    }

    /// Reports the current stage if a second has passed, or if it has just begun.
    pub(crate) fn tell(&mut self, stage: Stage, phase: &str, done: f64, left_ns: u64) {
        let mut done = done.clamp(0.0, 1.0);
        if let Some((when, last_stage, last_phase, last_done)) = &self.last
            && *last_stage == stage
            && last_phase == phase
        {
            if when.elapsed() < INTERVAL {
                return;
            }
            done = done.max(*last_done);
        }
        self.last = Some((Instant::now(), stage, phase.to_string(), done));
        let left_ns = Nanos(left_ns.saturating_add(self.future_ns));
        (self.events)(EngineEvent::Progress { stage, phase: phase.to_string(), done, left_ns });
    }
}
