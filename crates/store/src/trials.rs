//! Writes and reads trials, one row each.

use crate::error::{Result, StoreError, Trying};
use crate::packed::{self, Packed};
use crate::row::{self, Columns, READ, get};
use crate::{Store, SweepId, measures};
use fsdyno_core::TrialRecord;
use fsdyno_core::parallel::in_parallel;
use rusqlite::{Connection, ErrorCode, Params, Row, TransactionBehavior};
use std::collections::BTreeSet;

const STORE: &str = "store a trial";
/// The parts of trials that are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parts {
    All,
    /// All but histograms, timelines, slow operations and telemetry samples, which is ten times as fast.
    Outline,
}

impl Store {
    /// Stores a trial that has ended, whole or not at all. It is on disk when this returns.
    ///
    /// A trial is stored once. A resumed sweep runs only the trials that are not stored; an earlier attempt
    /// is stored only if it ended, even by failing, and then it stays.
    ///
    /// # Errors
    /// [`StoreError::TrialExists`]; [`StoreError::Histogram`]; [`StoreError::Encode`];
    /// [`StoreError::TooLong`]; [`StoreError::Sql`].
    pub fn add_trial(&mut self, sweep: SweepId, trial: &TrialRecord) -> Result<()> {
        // Before the transaction, so that no other process has to wait for the compression.
        let packed = Packed::new(trial)?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(STORE)?;
        insert(&transaction, sweep, trial, &packed)?;
        measures::add(&transaction, sweep.0, trial)?;
        transaction.commit().trying_to(STORE)
    }

    /// The stored trials of a sweep, in order. Empty if the sweep does not exist.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::DamagedTrial`] if another program has modified a row.
    pub fn trials(&self, sweep: SweepId) -> Result<Vec<TrialRecord>> {
        self.marked(sweep, self.unpacked(Parts::All, "", [sweep.0])?)
    }

    /// The trials of a sweep in outline, which is ten times as fast to read: histograms, timelines, slow
    /// operations and telemetry samples are always empty; every measure has its value.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::DamagedTrial`] if another program has modified a row.
    pub fn outlines(&self, sweep: SweepId) -> Result<Vec<TrialRecord>> {
        self.marked(sweep, self.unpacked(Parts::Outline, "", [sweep.0])?)
    }

    /// One trial in outline.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::DamagedTrial`] if another program has modified or removed the row.
    pub fn outline(&self, sweep: SweepId, trial: u32) -> Result<TrialRecord> {
        let mut found = self.single(Parts::Outline, sweep, trial)?;
        self.looks(sweep)?.mark(&mut found);
        Ok(found)
    }

    /// The trials of one case of a sweep, in order.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::DamagedTrial`] if another program has modified a row.
    pub fn trials_of_case(&self, sweep: SweepId, case: u32) -> Result<Vec<TrialRecord>> {
        self.marked(sweep, self.unpacked(Parts::All, "AND case_index = ?2", [sweep.0, i64::from(case)])?)
    }

    /// One trial.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::DamagedTrial`] if another program has modified or removed the row.
    pub(crate) fn trial(&self, sweep: SweepId, trial: u32) -> Result<TrialRecord> {
        self.single(Parts::All, sweep, trial)
    }

    /// The same trials, of which those are marked that do not count.
    fn marked(&self, sweep: SweepId, mut trials: Vec<TrialRecord>) -> Result<Vec<TrialRecord>> {
        let looks = self.looks(sweep)?;
        trials.iter_mut().for_each(|trial| looks.mark(trial));
        Ok(trials)
    }

    fn single(&self, parts: Parts, sweep: SweepId, trial: u32) -> Result<TrialRecord> {
        let found = self.unpacked(parts, "AND trial = ?2", [sweep.0, i64::from(trial)])?;
        let gone = || self.damaged(sweep.0, trial, "it is gone".to_string());
        found.into_iter().next().ok_or_else(gone)
    }

    /// The numbers of the stored trials.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn trial_numbers(&self, sweep: SweepId) -> Result<BTreeSet<u32>> {
        let sql = "SELECT trial FROM trials WHERE sweep_id = ?";
        let mut numbers = BTreeSet::new();
        self.each(sql, [sweep.0], |row| {
            numbers.insert(get(row, "trial")?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// The trials of the sweep that is the first parameter, in order; only those for which a condition holds,
    /// if there is one.
    fn unpacked(&self, parts: Parts, condition: &str, parameters: impl Params) -> Result<Vec<TrialRecord>> {
        let mut found = Vec::new();
        self.each_trial(parts, condition, parameters, |trial| {
            found.push(trial?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `take` for each of these trials, or with the error if it is damaged. Rows are read one after the
    /// other, and unpacked by all processors, some at a time.
    pub(crate) fn each_trial(
        &self,
        parts: Parts,
        condition: &str,
        parameters: impl Params,
        mut take: impl FnMut(Result<TrialRecord>) -> Result<()>,
    ) -> Result<()> {
        const AT_ONCE: usize = 64;
        let mut unpack = |rows: &[PackedRow]| {
            let trials = in_parallel(rows, PackedRow::unpack);
            let mut trials = rows.iter().zip(trials);
            trials.try_for_each(|(row, read)| {
                take(read.map_err(|reason| self.damaged(row.sweep, row.trial, reason)))
            })
        };
        let mut packed = Vec::with_capacity(AT_ONCE);
        let bulk = match parts {
            Parts::All => "bulk",
            Parts::Outline => "NULL AS bulk",
        };
        let sql = format!(
            "SELECT sweep_id, trial, case_index, outcome, configuration, document, {bulk} FROM trials
            WHERE sweep_id = ?1 {condition} ORDER BY trial"
        );
        self.each(&sql, parameters, |row| {
            packed.push(PackedRow::read(row)?);
            if packed.len() == AT_ONCE {
                unpack(&packed)?;
                packed.clear();
            }
            Ok(())
        })?;
        unpack(&packed)
    }

    fn damaged(&self, sweep: i64, trial: u32, reason: String) -> StoreError {
        StoreError::DamagedTrial { path: self.path.clone(), sweep: SweepId(sweep), trial, reason }
    }

    /// Calls `read` for every row.
    fn each(
        &self,
        sql: &str,
        parameters: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).trying_to(READ)?;
        let mut rows = statement.query(parameters).trying_to(READ)?;
        while let Some(row) = rows.next().trying_to(READ)? {
            read(row)?;
        }
        Ok(())
    }
}

/// A row, with what its columns say of the trial.
struct PackedRow {
    sweep: i64,
    trial: u32,
    case: i64,
    outcome: String,
    configuration: String,
    document: Vec<u8>,
    bulk: Option<Vec<u8>>,
}

impl PackedRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(PackedRow {
            sweep: get(row, "sweep_id")?,
            trial: get(row, "trial")?,
            case: get(row, "case_index")?,
            outcome: get(row, "outcome")?,
            configuration: get(row, "configuration")?,
            document: get(row, "document")?,
            bulk: get(row, "bulk")?,
        })
    }

    /// The trial, or what is wrong with it. Queries go by the columns, so they must say the same.
    fn unpack(&self) -> std::result::Result<TrialRecord, String> {
        let record = match &self.bulk {
            Some(bulk) => packed::whole(self.trial, &self.document, bulk),
            None => packed::outline(self.trial, &self.document),
        }?;
        let columns = (self.case, &*self.outcome, &*self.configuration);
        let document = (i64::from(record.case), record.outcome.word(), &*record.configuration.name);
        if columns != document {
            let about = |(case, outcome, configuration): (i64, &str, &str)| {
                format!("case {case}, '{configuration}', {outcome}")
            };
            return Err(format!(
                "its row is that of {}, its document of {}",
                about(columns),
                about(document)
            ));
        }
        Ok(record)
    }
}

/// Adds the row of a trial to a table.
pub(crate) fn insert(
    connection: &Connection,
    sweep: SweepId,
    record: &TrialRecord,
    packed: &Packed,
) -> Result<()> {
    let columns: Columns<'_> = &[
        ("sweep_id", &sweep.0),
        ("trial", &record.trial),
        ("case_index", &record.case),
        ("outcome", &record.outcome.word()),
        ("configuration", &record.configuration.name),
        ("workload", &record.workload.kind()),
        ("document", &packed.document),
        ("bulk", &packed.bulk),
    ];
    let inserted = row::insert(connection, "trials", columns);
    inserted.map(drop).map_err(|source| match source.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) if is_stored(connection, sweep, record.trial) => {
            StoreError::TrialExists { sweep, trial: record.trial }
        }
        _ => StoreError::Sql { action: STORE, source },
    })
}

fn is_stored(connection: &Connection, sweep: SweepId, trial: u32) -> bool {
    let sql = "SELECT 1 FROM trials WHERE sweep_id = ?1 AND trial = ?2";
    connection.query_row(sql, (sweep.0, trial), |_| Ok(())).is_ok()
}
