//! Reading trials back: the record that was written, from the rows it became.

use crate::Store;
use crate::error::{Result, StoreError, Trying};
use crate::sweeps::SweepId;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fsdyno_core::result::{
    Built, CpuTime, Latency, Lifecycle, OperationResult, Quantile, Quantiles, Rates, RoleResult, Timeline,
    TimerFacts, TreeSummary, WorkerResult,
};
use fsdyno_core::{Configuration, Nanos, Outcome, PhaseResult, Telemetry, TrialRecord, Warning};
use rusqlite::types::FromSql;
use rusqlite::{Params, Row};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::str::FromStr;

const READ: &str = "read a trial";

/// How much of a trial is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Everything.
    Whole,
    /// All but what is long: histograms, timelines, slow operations and samples of telemetry.
    Outline,
}

/// The columns of an operation that every table needs. SQLite reads a long value only where it is asked for.
const OPERATION_OUTLINE: &str =
    "SELECT operation, censored, count, lat_ns_min, lat_ns_max, lat_ns_mean, lat_ns_stddev,
        lat_ns_median, lat_ns_p90, lat_ns_p99, lat_ns_p999, lat_ns_p9999, lat_ns_at_least_from
    FROM operations WHERE role_id = ? ORDER BY position";

/// The quantiles that the tables have, with their columns.
const QUANTILES: &[(Quantile, &str)] = &[
    (Quantile::P50, "lat_ns_median"),
    (Quantile::P90, "lat_ns_p90"),
    (Quantile::P99, "lat_ns_p99"),
    (Quantile::P999, "lat_ns_p999"),
    (Quantile::P9999, "lat_ns_p9999"),
];

impl Store {
    /// The trials of a sweep that are stored, in their order. None for a sweep that does not exist.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::Damaged`] when a field was changed behind our back.
    pub fn trials(&self, sweep: SweepId) -> Result<Vec<TrialRecord>> {
        let sql = "SELECT * FROM trials WHERE sweep_id = ? ORDER BY trial";
        self.each(sql, [sweep.0], |row| self.trial(row, Extent::Whole))
    }

    /// The trials of a sweep in outline, which is read ten times as fast: their histograms, timelines, slow operations
    /// and samples of telemetry are empty, whatever was measured; every measure has its value.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::Damaged`] when a field was changed behind our back.
    pub fn outlines(&self, sweep: SweepId) -> Result<Vec<TrialRecord>> {
        let sql = "SELECT * FROM trials WHERE sweep_id = ? ORDER BY trial";
        self.each(sql, [sweep.0], |row| self.trial(row, Extent::Outline))
    }

    /// The trials of one case of a sweep, in their order.
    ///
    /// # Errors
    /// [`StoreError::Sql`]; [`StoreError::Damaged`] when a field was changed behind our back.
    pub fn trials_of_case(&self, sweep: SweepId, case: u32) -> Result<Vec<TrialRecord>> {
        let sql = "SELECT * FROM trials WHERE sweep_id = ?1 AND case_index = ?2 ORDER BY trial";
        self.each(sql, [sweep.0, i64::from(case)], |row| self.trial(row, Extent::Whole))
    }

    /// The numbers of the trials that are stored.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn trial_numbers(&self, sweep: SweepId) -> Result<BTreeSet<u32>> {
        let sql = "SELECT trial FROM trials WHERE sweep_id = ?";
        self.each(sql, [sweep.0], |row| get(row, "trial")).map(BTreeSet::from_iter)
    }

    fn trial(&self, row: &Row<'_>, extent: Extent) -> Result<TrialRecord> {
        let id = get(row, "id")?;
        Ok(TrialRecord {
            trial: get(row, "trial")?,
            block: get(row, "block")?,
            case: get(row, "case_index")?,
            sentinel: get(row, "sentinel")?,
            seed: number(row, "seed")?,
            configuration: Configuration {
                name: get(row, "configuration")?,
                filesystem: get(row, "filesystem")?,
                settings: from_json(row, "settings")?,
            },
            device: from_json(row, "device")?,
            workload: from_json(row, "parameters")?,
            outcome: outcome(row)?,
            warnings: self.warnings(id)?,
            timer: timer(row)?,
            lifecycle_ns: Lifecycle {
                boot: get_ns(row, "boot_ns")?,
                mkfs: get_ns(row, "mkfs_ns")?,
                mount: get_ns(row, "mount_ns")?,
                prepare: get_ns(row, "prepare_ns")?,
                umount_between: get_ns(row, "umount_between_ns")?,
                mount_between: get_ns(row, "mount_between_ns")?,
                umount: get_ns(row, "umount_ns")?,
                check: get_ns(row, "check_ns")?,
                total: get_ns(row, "total_ns")?,
            },
            built: Built {
                mkfs_command: get(row, "mkfs_command")?,
                mount_command: get(row, "mount_command")?,
                mount_options_in_force: get(row, "mount_options_in_force")?,
                scheduler_in_force: get(row, "scheduler_in_force")?,
                check: from_json_or_none(row, "check_result")?,
                recipe: from_json_or_none(row, "recipe")?,
            },
            environment: from_json(row, "environment")?,
            trees: TreeSummary {
                files: get(row, "tree_files")?,
                directories: get(row, "tree_directories")?,
                bytes: get(row, "tree_bytes")?,
            },
            filled: from_json_or_none(row, "filled")?,
            layout: from_json_or_none(row, "layout")?,
            phases: self.phases(id, extent)?,
            started: get(row, "started")?,
            finished: get(row, "finished")?,
        })
    }

    fn warnings(&self, trial_id: i64) -> Result<Vec<Warning>> {
        self.each("SELECT * FROM warnings WHERE trial_id = ? ORDER BY position", [trial_id], |row| {
            Ok(Warning { kind: word(row, "kind")?, text: get(row, "text")? })
        })
    }

    fn phases(&self, trial_id: i64, extent: Extent) -> Result<Vec<PhaseResult>> {
        self.each("SELECT * FROM phases WHERE trial_id = ? ORDER BY position", [trial_id], |row| {
            let id = get(row, "id")?;
            Ok(PhaseResult {
                name: get(row, "name")?,
                ramp_ns: Nanos(get(row, "ramp_ns")?),
                window_ns: Nanos(get(row, "window_ns")?),
                drain_ns: Nanos(get(row, "drain_ns")?),
                roles: self.roles(id, extent)?,
                telemetry: self.telemetry(id, extent)?,
            })
        })
    }

    fn telemetry(&self, phase_id: i64, extent: Extent) -> Result<Option<Telemetry>> {
        let sql = match extent {
            Extent::Whole => "SELECT telemetry FROM telemetry WHERE phase_id = ?",
            Extent::Outline => {
                "SELECT json_set(telemetry, '$.samples', json('[]')) AS telemetry FROM telemetry WHERE phase_id = ?"
            }
        };
        Ok(self.each(sql, [phase_id], |row| from_json(row, "telemetry"))?.pop())
    }

    fn roles(&self, phase_id: i64, extent: Extent) -> Result<Vec<RoleResult>> {
        self.each("SELECT * FROM roles WHERE phase_id = ? ORDER BY position", [phase_id], |row| {
            let id = get(row, "id")?;
            Ok(RoleResult {
                role: word(row, "role")?,
                workers: get(row, "workers")?,
                longest_stall_ns: Nanos(get(row, "longest_stall_ns")?),
                time_over_100ms: get(row, "time_over_100ms")?,
                time_over_1s: get(row, "time_over_1s")?,
                blocked_at_start: from_json(row, "blocked_at_start")?,
                rates: Rates {
                    data_bytes_per_s: get(row, "data_bytes_per_s")?,
                    with_overhead_bytes_per_s: get(row, "with_overhead_bytes_per_s")?,
                    aggregate_bytes_per_s: get(row, "aggregate_bytes_per_s")?,
                    operations_per_s: get(row, "operations_per_s")?,
                    bytes: get(row, "bytes")?,
                    items_per_s: get(row, "items_per_s")?,
                    items: get(row, "items")?,
                },
                cpu: cpu(row)?,
                counts: from_json(row, "counts")?,
                longest_item_ns: get::<Option<u64>>(row, "longest_item_ns")?.map(Nanos),
                worker_results: self.workers(id)?,
                operations: self.operations(id, extent)?,
            })
        })
    }

    fn workers(&self, role_id: i64) -> Result<Vec<WorkerResult>> {
        self.each("SELECT * FROM workers WHERE role_id = ? ORDER BY position", [role_id], |row| {
            Ok(WorkerResult {
                completed: get(row, "completed")?,
                spanning: get(row, "spanning")?,
                longest_stall_ns: Nanos(get(row, "longest_stall_ns")?),
                time_over_100ms: get(row, "time_over_100ms")?,
                time_over_1s: get(row, "time_over_1s")?,
                rounds: get(row, "rounds")?,
                bytes: get(row, "bytes")?,
                active_ns: Nanos(get(row, "active_ns")?),
                cpu: cpu(row)?,
                unfinished: from_json_or_none(row, "unfinished")?,
            })
        })
    }

    fn operations(&self, role_id: i64, extent: Extent) -> Result<Vec<OperationResult>> {
        let outline = |row: &Row<'_>| {
            Ok(OperationResult {
                operation: word(row, "operation")?,
                censored: get(row, "censored")?,
                lat_ns: latency(row)?,
                histogram: String::new(),
                timeline: Timeline::default(),
                slowest: Vec::new(),
            })
        };
        if extent == Extent::Outline {
            return self.each(OPERATION_OUTLINE, [role_id], outline);
        }
        self.each("SELECT * FROM operations WHERE role_id = ? ORDER BY position", [role_id], |row| {
            Ok(OperationResult {
                histogram: BASE64_STANDARD.encode(get::<Vec<u8>>(row, "histogram")?),
                timeline: from_json(row, "timeline")?,
                slowest: from_json(row, "slowest")?,
                ..outline(row)?
            })
        })
    }

    /// What `read` makes of every row that belongs to `id`.
    fn each<T>(&self, sql: &str, id: impl Params, read: impl Fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql).trying_to(READ)?;
        let mut rows = statement.query(id).trying_to(READ)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().trying_to(READ)? {
            found.push(read(row)?);
        }
        Ok(found)
    }
}

fn outcome(row: &Row<'_>) -> Result<Outcome> {
    let unmet = from_json_or_none(row, "unmet")?.map(|unmet| Outcome::Skipped { unmet });
    let failed = from_json_or_none(row, "error")?.map(|error| Outcome::Failed { error });
    Ok(unmet.or(failed).unwrap_or(Outcome::Measured))
}

fn timer(row: &Row<'_>) -> Result<Option<TimerFacts>> {
    let Some(source) = get(row, "timer")? else {
        return Ok(None);
    };
    Ok(Some(TimerFacts {
        source,
        read_ns: get(row, "timer_read_ns")?,
        overhead_ns_per_op: get(row, "timer_overhead_ns_per_op")?,
        overhead_with_telemetry_ns_per_op: get(row, "timer_overhead_with_telemetry_ns_per_op")?,
    }))
}

fn cpu(row: &Row<'_>) -> Result<CpuTime> {
    let (user_ns, system_ns) = (Nanos(get(row, "cpu_user_ns")?), Nanos(get(row, "cpu_system_ns")?));
    Ok(CpuTime { user_ns, system_ns })
}

fn latency(row: &Row<'_>) -> Result<Latency> {
    Ok(Latency {
        count: get(row, "count")?,
        min: get(row, "lat_ns_min")?,
        max: get(row, "lat_ns_max")?,
        mean: get(row, "lat_ns_mean")?,
        stddev: get(row, "lat_ns_stddev")?,
        quantiles: quantiles(row)?,
        at_least_from: get(row, "lat_ns_at_least_from")?,
    })
}

fn quantiles(row: &Row<'_>) -> Result<Quantiles> {
    let mut quantiles = Quantiles::default();
    for (quantile, column) in QUANTILES {
        quantiles[*quantile] = get(row, column)?;
    }
    Ok(quantiles)
}

fn get<T: FromSql>(row: &Row<'_>, column: &'static str) -> Result<T> {
    row.get(column).trying_to(READ)
}

fn get_ns(row: &Row<'_>, column: &'static str) -> Result<Option<Nanos>> {
    Ok(get::<Option<u64>>(row, column)?.map(Nanos))
}

/// A number that is stored as decimal text, because SQLite's integers have a sign.
pub(crate) fn number<T: FromStr>(row: &Row<'_>, column: &'static str) -> Result<T> {
    let text: String = get(row, column)?;
    text.parse().map_err(|_| StoreError::DamagedNumber { what: column, text })
}

/// A word of the vocabulary: what serialises as a string.
pub(crate) fn word<T: DeserializeOwned>(row: &Row<'_>, column: &'static str) -> Result<T> {
    let text: String = get(row, column)?;
    serde_json::from_value(text.into()).map_err(|source| StoreError::Damaged { what: column, source })
}

pub(crate) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: &'static str) -> Result<T> {
    let text: String = get(row, column)?;
    serde_json::from_str(&text).map_err(|source| StoreError::Damaged { what: column, source })
}

pub(crate) fn from_json_or_none<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &'static str,
) -> Result<Option<T>> {
    let text: Option<String> = get(row, column)?;
    let value = text.map(|text| serde_json::from_str(&text));
    value.transpose().map_err(|source| StoreError::Damaged { what: column, source })
}
