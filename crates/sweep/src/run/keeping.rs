//! What a sweep has in the store, and how it gets there.

use super::blocks::count;
use super::{SweepEnd, SweepOutcome};
use crate::options::RunOptions;
use crate::plan::Plan;
use crate::resume;
use crate::sweep_error::SweepError;
use fsdyno_core::{Outcome, TrialRecord};
use fsdyno_host::Host;
use fsdyno_store::{NewSweep, Store, SweepId};
use std::collections::BTreeSet;

/// The trials of a sweep that is resumed: their numbers, and what matters of them.
pub(crate) fn earlier(
    plan: &Plan,
    host: Option<&mut dyn Host>,
    store: &Store,
    resumed: Option<SweepId>,
) -> Result<(BTreeSet<u32>, Vec<TrialRecord>), SweepError> {
    match resumed {
        None => Ok(Default::default()),
        Some(sweep) => Ok((resume::stored_trials(plan, host, store, sweep)?, store.outlines(sweep)?)),
    }
}

/// A new sweep of so many trials, or one that goes on.
pub(crate) fn begin(
    plan: &Plan,
    store: &mut Store,
    resumed: Option<SweepId>,
    (cases, trials): (usize, u32),
) -> Result<SweepId, SweepError> {
    if let Some(sweep) = resumed {
        store.resume_sweep(sweep)?;
        return Ok(sweep);
    }
    Ok(store.create_sweep(&NewSweep {
        name: plan.name.clone(),
        plan_toml: plan.text.clone(),
        overrides: plan.overrides.clone(),
        seed: plan.seed,
        measure: plan.measure.name().to_string(),
        environment: None,
        cases: count(cases),
        trials,
    })?)
}

impl SweepOutcome {
    /// Of a sweep that has just begun.
    pub(crate) fn new(sweep: SweepId, left: Vec<String>) -> Self {
        SweepOutcome {
            sweep,
            end: SweepEnd::Finished,
            measured: 0,
            skipped: 0,
            failed: 0,
            left,
            broken: None,
            is_elsewhere: false,
        }
    }

    /// Stores a trial and counts it; if it cannot be stored, its record is kept elsewhere and the sweep ends.
    pub(crate) fn store(
        &mut self,
        store: &mut Store,
        options: &RunOptions<'_>,
        record: &TrialRecord,
    ) -> Result<(), SweepError> {
        let trial = record.trial;
        if let Err(source) = store.add_trial(self.sweep, record) {
            return Err(match store.keep(self.sweep, record, options.keep) {
                Ok(kept) => SweepError::NotStored { trial, kept, source: Box::new(source) },
                Err(error) => SweepError::Lost { trial, cause: source.to_string(), source: Box::new(error) },
            });
        }
        in_place(store, options)?;
        match record.outcome {
            Outcome::Measured => self.measured += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
            Outcome::Failed { .. } => self.failed += 1,
        }
        Ok(())
    }

    /// Notes in the store how the sweep ended, for this reason if there is one.
    pub(crate) fn end(
        mut self,
        store: &mut Store,
        options: &RunOptions<'_>,
        result: Result<(), SweepError>,
    ) -> Self {
        let noted = match (&result, self.end) {
            (Ok(()), SweepEnd::Finished) => store.finish_sweep(self.sweep),
            _ => store.interrupt_sweep(self.sweep),
        };
        let result = result.and_then(|()| in_place(store, options));
        if let Err(error) = result.and(noted.map_err(SweepError::from)) {
            self.is_elsewhere = matches!(error, SweepError::StoreRemoved { .. });
            self.broken = Some(error);
            if self.end == SweepEnd::Finished {
                self.end = SweepEnd::Broken;
            }
        }
        if !self.left.is_empty() {
            self.end = SweepEnd::NotRestored;
        }
        self
    }
}

/// Ends the sweep if the file of the store has been removed: what has no name is lost with this process.
fn in_place(store: &Store, options: &RunOptions<'_>) -> Result<(), SweepError> {
    if store.is_in_place() {
        return Ok(());
    }
    let path = store.path().to_path_buf();
    match store.rescue(options.keep) {
        Ok(rescued) => Err(SweepError::StoreRemoved { path, rescued }),
        Err(error) => Err(error.into()),
    }
}
