//! The named measures of each trial as rows, for SQL: what a trial consists of is compressed.

use crate::error::{Result, Trying};
use crate::packed;
use crate::row::{READ, get, insert};
use fsdyno_core::{Measure, TrialRecord};
use rusqlite::Connection;

/// Adds the measures of a trial that has been added.
pub(crate) fn add(connection: &Connection, sweep: i64, record: &TrialRecord) -> Result<()> {
    for measure in Measure::all_of([record]) {
        // SQLite stores what is not a number as NULL.
        let Some(found) = measure.value(record).filter(|found| found.value.is_finite()) else { continue };
        let columns: crate::row::Columns<'_> = &[
            ("sweep_id", &sweep),
            ("trial", &record.trial),
            ("measure", &measure.name()),
            ("unit", &measure.unit().name()),
            ("value", &found.value),
            ("at_least", &found.at_least),
        ];
        insert(connection, "measures", columns).trying_to("store the measures of a trial")?;
    }
    Ok(())
}

/// Adds those of every trial in a store that had none. A damaged trial has none either.
pub(crate) fn add_all(connection: &Connection) -> Result<()> {
    let mut statement = connection
        .prepare("SELECT sweep_id, trial, document FROM trials WHERE outcome = 'measured'")
        .trying_to(READ)?;
    let mut rows = statement.query([]).trying_to(READ)?;
    while let Some(row) = rows.next().trying_to(READ)? {
        let (sweep, trial): (i64, u32) = (get(row, "sweep_id")?, get(row, "trial")?);
        let document: Vec<u8> = get(row, "document")?;
        let Ok(record) = packed::outline(trial, &document) else { continue };
        // The row counts, whatever its document says.
        add(connection, sweep, &TrialRecord { trial, ..record })?;
    }
    Ok(())
}
