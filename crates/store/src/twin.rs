//! The comparison of two sweeps that began at the same moment with the same seed.

use crate::error::{Result, StoreError, Trying};
use crate::row::READ;
use crate::{Store, SweepId};
use fsdyno_core::TrialRecord;
use rusqlite::OptionalExtension;

/// Another sweep that began at the same moment with the same seed, and how it differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// Its number.
    pub id: SweepId,
    /// The number of trials that only the twin has.
    pub more: usize,
    /// The number of trials that the twin does not have.
    pub fewer: usize,
    /// The trials of both that do not say the same, or that cannot be read.
    pub different: Vec<u32>,
    /// `true` if its plan, overrides, measure or environment is another one.
    pub is_planned_otherwise: bool,
}

impl Store {
    /// Compares a sweep with the first other one that began at the same moment with the same seed, if there
    /// is one. Reads all trials of both, one after the other.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; those of [`Store::sweep`].
    pub fn twin(&self, id: SweepId) -> Result<Option<Twin>> {
        let sql = "SELECT other.id FROM sweeps AS other JOIN sweeps AS this
            ON other.started = this.started AND other.seed = this.seed AND other.id != this.id
            WHERE this.id = ? ORDER BY other.id LIMIT 1";
        let found = self.connection.query_row(sql, [id.0], |row| row.get(0)).optional().trying_to(READ)?;
        let Some(other) = found.map(SweepId) else { return Ok(None) };
        let (ours, theirs) = (self.trial_numbers(id)?, self.trial_numbers(other)?);
        let mut different = Vec::new();
        for trial in ours.intersection(&theirs) {
            let (our, their) = (self.if_readable(id, *trial)?, self.if_readable(other, *trial)?);
            if our.is_none() || our != their {
                different.push(*trial);
            }
        }
        let (this, that) = (self.sweep(id)?, self.sweep(other)?);
        let is_planned_otherwise = (this.plan_toml, this.overrides, this.measure, this.environment)
            != (that.plan_toml, that.overrides, that.measure, that.environment);
        Ok(Some(Twin {
            id: other,
            more: theirs.difference(&ours).count(),
            fewer: ours.difference(&theirs).count(),
            different,
            is_planned_otherwise,
        }))
    }

    fn if_readable(&self, sweep: SweepId, trial: u32) -> Result<Option<TrialRecord>> {
        match self.trial(sweep, trial) {
            Ok(record) => Ok(Some(record)),
            Err(StoreError::DamagedTrial { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
