//! A disk that has the times of a model while a load runs. Everything before and after runs at the speed of
//! the machine: what a tree looks like does not depend on how fast it was made.

use super::report::host_failure;
use super::watch::AtPhases;
use fsdyno_core::device::DiskModelText;
use fsdyno_core::durability::{PaceKept, RecorderReply, RecorderRequest};
use fsdyno_core::result::PhaseResult;
use fsdyno_core::{Failure, Nanos, Outcome, Progress, TrialRecord, TrialStep, Warning, WarningKind};
use fsdyno_host::recorder::Recorder;
use std::time::Duration;

/// The time that a recorder may take for a reply: it may have to replay a whole log.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// By which share of the time that its requests take a modelled disk may be late.
const LATE_SHARE: f64 = 0.02;

/// The times of a disk during a trial.
pub(crate) struct Pacing<'a> {
    recorder: &'a mut dyn Recorder,
    model: &'a DiskModelText,
    is_on: bool,
    /// Their quality; the worst if the load has several parts.
    kept: Option<PaceKept>,
}

impl<'a> Pacing<'a> {
    /// A disk that still has the times of the machine.
    pub fn new(recorder: &'a mut dyn Recorder, model: &'a DiskModelText) -> Self {
        Pacing { recorder, model, is_on: false, kept: None }
    }

    fn switch(&mut self, on: bool) -> Result<(), Box<Failure>> {
        let model = on.then(|| self.model.clone());
        let reply = self.recorder.ask(&RecorderRequest::Pace { model }, PATIENCE);
        self.is_on = on;
        match reply.map_err(|error| Box::new(host_failure(&error)))? {
            RecorderReply::Pace { kept } => {
                self.kept = match (self.kept, kept) {
                    (Some(before), Some(kept)) => Some(before.or_worse(kept)),
                    (one, other) => one.or(other),
                };
                Ok(())
            }
            _ => {
                Err(Failure::new("engine", "the modelled disk gave another reply than was asked for").into())
            }
        }
    }

    /// Notes how well the times were kept.
    pub fn keep(mut self, record: &mut TrialRecord) {
        if self.is_on {
            // The trial has failed, and says why.
            let _ = self.switch(false);
        }
        record.pace = self.kept;
        let Some(kept) = self.kept else {
            if record.outcome == Outcome::Measured {
                let text = format!("the load never had the times of '{}'", self.model.name);
                record.outcome = Outcome::Failed { error: Failure::new("engine", text) };
            }
            return;
        };
        if kept.late_share() > LATE_SHARE {
            let ms = |time: Nanos| format!("{:.2} ms", time.as_secs_f64() * 1e3);
            let text = format!(
                "{} requests, which take {} in the mean, were {} late in the mean, 1 % over {}, and one {}: this \
                 machine is too busy, or too slow, for '{}'",
                kept.requests,
                ms(kept.service_mean_ns),
                ms(kept.late_mean_ns),
                ms(kept.late_p99_ns),
                ms(kept.late_max_ns),
                self.model.name
            );
            record.warnings.push(Warning::new(WarningKind::ModelLate, text));
        }
    }
}

impl AtPhases for Pacing<'_> {
    /// The first phase switches the disk on; between phases it stays so. One that begins with nothing in
    /// memory finds nothing in that of the disk: an image is small, and its readers would come back to what
    /// the phase before has left there.
    fn begin(&mut self, _phase: &str, settled: bool) -> Result<(), Box<Failure>> {
        if self.is_on && !settled { Ok(()) } else { self.switch(true) }
    }

    /// Looks at the layout of files take the machine's own time.
    fn reached(&mut self, progress: &Progress) {
        if progress.step == TrialStep::Layout && self.is_on {
            // A recorder that is gone shows in the next step.
            let _ = self.switch(false);
        }
    }

    fn end(&mut self, _gently: bool, phase: Option<&mut PhaseResult>) {
        // The engine has ended, or is about to be: whoever waits for the disk must not wait any longer.
        if phase.is_none() && self.is_on {
            // A recorder that is gone shows in the next step.
            let _ = self.switch(false);
        }
    }
}
