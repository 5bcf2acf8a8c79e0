//! The part of a sweep that is in the store, and how it gets there.

use super::{SweepEnd, SweepOutcome};
use crate::options::{MoreBlocks, RunOptions};
use crate::order::count;
use crate::plan::Plan;
use crate::resume;
use crate::sweep_error::SweepError;
use fsdyno_core::{Looks, More, Outcome, TrialRecord};
use fsdyno_host::Host;
use fsdyno_store::{NewSweep, Store, SweepId};
use fsdyno_testbed::running_kernel;
use std::collections::{BTreeMap, BTreeSet};

/// The stored part of a sweep that goes on; empty for a new one.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The numbers of its trials.
    pub stored: BTreeSet<u32>,
    /// These trials in outline.
    pub trials: Vec<TrialRecord>,
    /// The looks at them that decided how many there are.
    pub looks: Looks,
    /// The addition to it after it had ended.
    pub more: Option<More>,
}

/// Returns the stored part of the sweep that these options continue.
pub(crate) fn earlier(
    plan: &Plan,
    mut host: Option<&mut dyn Host>,
    store: &Store,
    options: &RunOptions<'_>,
) -> Result<Earlier, SweepError> {
    let Some(sweep) = options.resume else { return Ok(Earlier::default()) };
    let kernel = host.as_mut().map(|host| running_kernel(&mut **host));
    let stored = resume::stored_trials(plan, host, store, sweep)?;
    let trials = store.outlines(sweep)?;
    let mut looks = store.sweep(sweep)?.looks;
    if let Some(wanted) = options.more {
        resume::verify_can_have_more(plan, &store.sweep(sweep)?, &trials, kernel.as_deref())?;
        let from = trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
        // What was not measured again will not be.
        looks.repeated.retain(|one| one.by < from);
        if !looks.after.contains(&from) {
            looks.after.push(from);
        }
        let (blocks, time_ns) = match wanted {
            MoreBlocks::Count(count) => (Some(count), None),
            MoreBlocks::Within(time) => (None, Some(time)),
        };
        looks.more.push(More { from, blocks, time_ns });
    }
    let more = looks.more.last().copied();
    Ok(Earlier { stored, trials, looks, more })
}

/// Refuses a trial on another kernel than the earlier ones of its case; the release of a guest's is known
/// once it has run.
pub(crate) fn verify_kernel(
    kernels: &BTreeMap<u32, String>,
    sweep: SweepId,
    record: &TrialRecord,
) -> Result<(), SweepError> {
    let then = kernels.get(&record.case).filter(|_| record.outcome == Outcome::Measured);
    match then.filter(|then| **then != record.environment.kernel) {
        None => Ok(()),
        Some(then) => Err(SweepError::KernelDiffers {
            sweep,
            configuration: Some(record.configuration.name.clone()),
            then: then.clone(),
            now: record.environment.kernel.clone(),
        }),
    }
}

impl Earlier {
    /// The kernel that each case has run on, if blocks are added.
    pub fn kernels(&self) -> BTreeMap<u32, String> {
        let measured = self.trials.iter().filter(|trial| trial.outcome == Outcome::Measured);
        let known = measured.filter(|trial| self.more.is_some() && !trial.environment.kernel.is_empty());
        known.map(|trial| (trial.case, trial.environment.kernel.clone())).collect()
    }

    /// Records what is being added, so that it goes on after an interruption.
    pub fn record(&self, store: &mut Store, sweep: SweepId) -> Result<(), SweepError> {
        if self.more.is_some() {
            store.record_looks(sweep, &self.looks)?;
        }
        Ok(())
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
        seed: plan.rules.seed,
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
