//! Finds trials that cannot be read any more, and deletes them, so that the others can be used.

use crate::error::{Result, StoreError, Trying};
use crate::schema::{self, Depth};
use crate::trials::Parts;
use crate::{Store, SweepId, process};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior};
use serde::Serialize;
use std::fmt;

/// A trial that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedTrial {
    /// Its number, from 0.
    pub trial: u32,
    /// The fault in the trial.
    pub reason: String,
}

impl fmt::Display for DamagedTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trial {}: {}", self.trial + 1, self.reason)
    }
}

impl Store {
    /// Checks the structure of the whole file, which holds more than the trials.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn check_file(&self) -> Result<()> {
        schema::check(&self.connection, &self.path, Depth::Rows)
    }

    /// The trials of a sweep that cannot be read whole. Reads all of them, one group after the other.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn damaged_trials(&self, sweep: SweepId) -> Result<Vec<DamagedTrial>> {
        let mut damaged = Vec::new();
        self.each_trial(Parts::All, "", [sweep.0], |trial| match trial {
            Ok(_) => Ok(()),
            Err(StoreError::DamagedTrial { trial, reason, .. }) => {
                damaged.push(DamagedTrial { trial, reason });
                Ok(())
            }
            Err(error) => Err(error),
        })?;
        Ok(damaged)
    }

    /// Deletes the trials of a sweep that cannot be read, and returns them. The sweep stays as it ended; when
    /// it is resumed, it measures them again.
    ///
    /// # Errors
    /// [`StoreError::Running`] if a process is running it; [`StoreError::Sql`].
    pub fn delete_damaged(&mut self, sweep: SweepId) -> Result<Vec<DamagedTrial>> {
        let action = "delete damaged trials";
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(action)?;
        let sql = "SELECT process FROM sweeps WHERE id = ? AND state = 'running'";
        let process: Option<String> =
            transaction.query_row(sql, [sweep.0], |row| row.get(0)).optional().trying_to(action)?;
        if process.is_some_and(|process| process::is_alive(&process)) {
            return Err(StoreError::Running { sweep });
        }
        let damaged = self.damaged_trials(sweep)?;
        for DamagedTrial { trial, .. } in &damaged {
            let sql = "DELETE FROM trials WHERE sweep_id = ?1 AND trial = ?2";
            transaction.execute(sql, (sweep.0, trial)).trying_to(action)?;
        }
        transaction.commit().trying_to(action)?;
        Ok(damaged)
    }
}
