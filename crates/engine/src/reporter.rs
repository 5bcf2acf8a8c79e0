//! Signs of life: about one event a second, with the time that is left.

use fsdyno_core::units::Nanos;
use fsdyno_core::{EngineEvent, Glance, Progress, TrialStep};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The interval between signs of life.
const INTERVAL: Duration = Duration::from_secs(1);

/// The parent's messages about the beginning of phases.
#[derive(Debug, Default)]
pub(crate) struct Cues {
    /// The number of times that the parent has let a phase begin.
    given: AtomicU32,
    /// When the last one is to begin, on `CLOCK_MONOTONIC`; 0 for at once.
    at_ns: AtomicU64,
}

impl Cues {
    /// Takes a line from the parent: the moment, or nothing.
    pub(crate) fn give(&self, line: &[u8]) {
        let moment = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse().ok());
        self.at_ns.store(moment.unwrap_or(0), Ordering::Relaxed);
        self.given.fetch_add(1, Ordering::Release);
    }
}

/// Reports the progress of the engine to the parent. `done` never decreases within a step.
pub(crate) struct Reporter<'a> {
    events: &'a mut dyn FnMut(EngineEvent),
    /// The time that everything after the current phase or the preparation takes.
    future_ns: u64,
    last: Option<(Instant, TrialStep, String, f64)>,
    /// Set if phases wait for the parent; then also the number of phases that have asked.
    pauses: Option<(Arc<Cues>, u32)>,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(events: &'a mut dyn FnMut(EngineEvent)) -> Self {
        Reporter { events, future_ns: 0, last: None, pauses: None }
    }

    /// Lets each phase wait for the parent.
    pub(crate) fn pause(&mut self, cues: Arc<Cues>) {
        self.pauses = Some((cues, 0));
    }

    /// Reports that a phase is ready to begin, if the parent wants to know.
    pub(crate) fn ready(&mut self, phase: &str) {
        if let Some((_, asked)) = &mut self.pauses {
            *asked += 1;
            (self.events)(EngineEvent::Ready { phase: phase.to_string() });
        }
    }

    /// Returns whether the phase that is ready still has to wait.
    pub(crate) fn must_wait(&self) -> bool {
        self.pauses.as_ref().is_some_and(|(cues, asked)| cues.given.load(Ordering::Acquire) < *asked)
    }

    /// When the phase that may begin is to begin, on `CLOCK_MONOTONIC`; at once if absent.
    pub(crate) fn begins_at_ns(&self) -> Option<u64> {
        let (cues, _) = self.pauses.as_ref()?;
        Some(cues.at_ns.load(Ordering::Relaxed)).filter(|at_ns| *at_ns > 0)
    }

    /// Sets how long everything after the current phase will take.
    pub(crate) fn expect(&mut self, future_ns: u64) {
        self.future_ns = future_ns;
    }

    /// Sends any other event.
    pub(crate) fn event(&mut self, event: EngineEvent) {
        (self.events)(event);
    }

    /// Returns whether [`Reporter::tell`] would report this step now: if a second has passed, or if the
    /// step has just begun.
    pub(crate) fn is_due(&self, step: TrialStep, phase: &str) -> bool {
        self.last_of(step, phase).is_none_or(|(when, _)| when.elapsed() >= INTERVAL)
    }

    /// When this step was reported last, and what was done, if no other has followed.
    fn last_of(&self, step: TrialStep, phase: &str) -> Option<(Instant, f64)> {
        let last = self.last.as_ref().filter(|last| (last.1, last.2.as_str()) == (step, phase))?;
        Some((last.0, last.3))
    }

    /// Reports the current step if a second has passed, or if it has just begun.
    pub(crate) fn tell(&mut self, step: TrialStep, phase: &str, done: f64, left_ns: u64) {
        if self.is_due(step, phase) {
            self.tell_now(step, phase, done, left_ns, None);
        }
    }

    /// Reports the current step, with what the workers are doing.
    pub(crate) fn tell_now(
        &mut self,
        step: TrialStep,
        phase: &str,
        done: f64,
        left_ns: u64,
        glance: Option<Glance>,
    ) {
        let before = self.last_of(step, phase).map_or(0.0, |(_, done)| done);
        let (phase, done) = (phase.to_string(), done.clamp(0.0, 1.0).max(before));
        self.last = Some((Instant::now(), step, phase.clone(), done));
        let left_ns = Nanos(left_ns.saturating_add(self.future_ns));
        let glance = glance.map(Box::new);
        let progress = Progress { step, phase, done: Some(done), left_ns: Some(left_ns), glance };
        (self.events)(EngineEvent::Progress(progress));
    }
}
