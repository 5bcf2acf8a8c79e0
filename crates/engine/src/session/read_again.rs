//! Reading again what a verified load has left, and how far its writers came.

use super::Session;
use crate::background::{self, Gauge};
use crate::error::EngineError;
use crate::meter::Halt;
use crate::reread::STEP;
use fsdyno_core::{EngineEvent, Nanos, Reached, ReadAgain, TrialStep};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The places that the writers of a phase have reached. Each notes its own once, when it is done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Reached>>>);

impl Ledger {
    /// Notes how far a writer came.
    pub(crate) fn note(&self, reached: Reached) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(reached);
    }

    /// Takes everything that was noted. Writers that have not finished are missing.
    pub(crate) fn take(&self) -> Vec<Reached> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Session<'_, '_> {
    /// Reports how far the writers of the last phase came, if they noted it.
    pub(crate) fn reach(&mut self, writers: Vec<Reached>) {
        if writers.is_empty() {
            return;
        }
        self.reached.extend_from_slice(&writers);
        self.reporter.event(EngineEvent::Reached { writers });
    }

    /// Runs `work`, which reads about this many bytes again and counts them and the files, and reports what
    /// was read.
    ///
    /// # Errors
    /// As `work`: the first wrong byte.
    pub(crate) fn read_again(
        &mut self,
        about_bytes: u64,
        work: impl FnOnce(&Gauge) -> Result<ReadAgain, Halt> + Send + 'static,
    ) -> Result<(), EngineError> {
        let begin = Instant::now();
        let reporter = &mut *self.reporter;
        let read = background::run(STEP, self.bounds, work, |gauge| {
            let done = gauge.done();
            reporter.tell(TrialStep::ReadAgain, "", done as f64 / about_bytes.max(done + 1) as f64, 0);
            true
        })?;
        let read_again =
            ReadAgain { remounted: self.request.remounted, ..read.map_err(|halt| halt.error(STEP))? };
        self.reporter.event(EngineEvent::ReadAgain { read_again, duration_ns: Nanos::from(begin.elapsed()) });
        Ok(())
    }
}
