//! Reads the tables of trials up to version 8 of the schema, to convert a store.
//!
//! A trial was a row of `trials` with rows of phases, roles, workers, operations and warnings.

use crate::error::{Result, Trying};
use crate::id::SweepId;
use crate::packed::Packed;
use crate::row::{READ, from_json, from_json_or_none, get, number, word};
use crate::trials::insert;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fsdyno_core::result::{
    Built, CpuTime, Latency, Lifecycle, OperationResult, Quantile, Quantiles, Rates, RoleResult, TimerFacts,
    TreeSummary, WorkerResult,
};
use fsdyno_core::{Configuration, Nanos, Outcome, PhaseResult, Telemetry, TrialRecord, Warning};
use rusqlite::{Connection, Params, Row};

/// The quantiles in the tables, with their columns.
const QUANTILES: &[(Quantile, &str)] = &[
    (Quantile::P50, "lat_ns_median"),
    (Quantile::P90, "lat_ns_p90"),
    (Quantile::P99, "lat_ns_p99"),
    (Quantile::P999, "lat_ns_p999"),
    (Quantile::P9999, "lat_ns_p9999"),
];

/// Converts every trial of the version 8 tables to a row of `whole_trials`, and removes the tables, all in
/// the transaction of the caller.
///
/// A trial with damaged rows gets an empty document, which is an error when that trial is read; other trials
/// and sweeps are not affected.
pub(crate) fn convert(connection: &Connection) -> Result<()> {
    let older = Older(connection);
    let numbers = older.each("SELECT id FROM trials ORDER BY id", [], |row| get::<i64>(row, "id"))?;
    for id in numbers {
        older.each("SELECT * FROM trials WHERE id = ?", [id], |row| older.convert(row))?;
    }
    connection.execute_batch(include_str!("schema/9-after.sql")).trying_to("remove the older tables")
}

/// A store of version 8.
struct Older<'a>(&'a Connection);

impl Older<'_> {
    fn convert(&self, row: &Row<'_>) -> Result<()> {
        let sweep = SweepId(get(row, "sweep_id")?);
        let record = self.trial(row).and_then(|record| Ok((Packed::new(&record)?, record)));
        match record {
            Ok((packed, record)) => insert(self.0, "whole_trials", sweep, &record, &packed),
            Err(_) => self.convert_damaged(row),
        }
    }

    fn convert_damaged(&self, row: &Row<'_>) -> Result<()> {
        let columns = ["sweep_id", "trial", "case_index", "outcome", "configuration", "workload"];
        let sql = format!(
            "INSERT INTO whole_trials ({names}, document, bulk)
             SELECT {names}, x'', x'' FROM trials WHERE id = ?",
            names = columns.join(", ")
        );
        self.0.execute(&sql, [get::<i64>(row, "id")?]).map(drop).trying_to("convert a trial")
    }

    fn trial(&self, row: &Row<'_>) -> Result<TrialRecord> {
        let id = get(row, "id")?;
        Ok(TrialRecord {
            trial: get(row, "trial")?,
            block: get(row, "block")?,
            case: get(row, "case_index")?,
            sentinel: get(row, "sentinel")?,
            machine: None,
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
                precondition: None,
                mkfs: get_ns(row, "mkfs_ns")?,
                mount: get_ns(row, "mount_ns")?,
                prepare: get_ns(row, "prepare_ns")?,
                umount_between: get_ns(row, "umount_between_ns")?,
                copy: None,
                mount_between: get_ns(row, "mount_between_ns")?,
                umount: get_ns(row, "umount_ns")?,
                read_again: None,
                check: get_ns(row, "check_ns")?,
                total: get_ns(row, "total_ns")?,
            },
            built: Built {
                mkfs_command: get(row, "mkfs_command")?,
                mount_command: get(row, "mount_command")?,
                mount_options_in_force: get(row, "mount_options_in_force")?,
                scheduler_in_force: get(row, "scheduler_in_force")?,
                check: from_json_or_none(row, "check_result")?,
                prepared_in: None,
                served: None,
                recipe: from_json_or_none(row, "recipe")?,
                log: Vec::new(),
            },
            environment: from_json(row, "environment")?,
            trees: TreeSummary {
                files: get(row, "tree_files")?,
                directories: get(row, "tree_directories")?,
                bytes: get(row, "tree_bytes")?,
            },
            filled: from_json_or_none(row, "filled")?,
            commands: Vec::new(),
            layout: from_json_or_none(row, "layout")?,
            durability: None,
            io_errors: Vec::new(),
            read_again: None,
            columns: Default::default(),
            phases: self.phases(id)?,
            started: get(row, "started")?,
            finished: get(row, "finished")?,
        })
    }

    fn warnings(&self, trial_id: i64) -> Result<Vec<Warning>> {
        self.each("SELECT * FROM warnings WHERE trial_id = ? ORDER BY position", [trial_id], |row| {
            Ok(Warning { kind: word(row, "kind")?, phase: None, text: get(row, "text")? })
        })
    }

    fn phases(&self, trial_id: i64) -> Result<Vec<PhaseResult>> {
        self.each("SELECT * FROM phases WHERE trial_id = ? ORDER BY position", [trial_id], |row| {
            let id = get(row, "id")?;
            Ok(PhaseResult {
                ramp_ns: Nanos(get(row, "ramp_ns")?),
                drain_ns: Nanos(get(row, "drain_ns")?),
                telemetry: self.telemetry(id)?,
                ..PhaseResult::lasting(
                    get::<String>(row, "name")?,
                    Nanos(get(row, "window_ns")?),
                    self.roles(id)?,
                )
            })
        })
    }

    fn telemetry(&self, phase_id: i64) -> Result<Option<Telemetry>> {
        let sql = "SELECT telemetry FROM telemetry WHERE phase_id = ?";
        Ok(self.each(sql, [phase_id], |row| from_json(row, "telemetry"))?.pop())
    }

    fn roles(&self, phase_id: i64) -> Result<Vec<RoleResult>> {
        self.each("SELECT * FROM roles WHERE phase_id = ? ORDER BY position", [phase_id], |row| {
            let id = get(row, "id")?;
            Ok(RoleResult {
                role: word(row, "role")?,
                workers: get(row, "workers")?,
                longest_stall_ns: Nanos(get(row, "longest_stall_ns")?),
                longest_stall_at_least: false,
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
                reported_cpu_share: None,
                counts: from_json(row, "counts")?,
                longest_item_ns: get::<Option<u64>>(row, "longest_item_ns")?.map(Nanos),
                removing_ns: None,
                open_loop: None,
                worker_results: self.workers(id)?,
                operations: self.operations(id)?,
            })
        })
    }

    fn workers(&self, role_id: i64) -> Result<Vec<WorkerResult>> {
        self.each("SELECT * FROM workers WHERE role_id = ? ORDER BY position", [role_id], |row| {
            Ok(WorkerResult {
                completed: get(row, "completed")?,
                spanning: get(row, "spanning")?,
                longest_stall_ns: Nanos(get(row, "longest_stall_ns")?),
                longest_stall_at_least: false,
                time_over_100ms: get(row, "time_over_100ms")?,
                time_over_1s: get(row, "time_over_1s")?,
                rounds: get(row, "rounds")?,
                bytes: get(row, "bytes")?,
                items: 0,
                active_ns: Nanos(get(row, "active_ns")?),
                cpu: cpu(row)?,
                unfinished: from_json_or_none(row, "unfinished")?,
            })
        })
    }

    fn operations(&self, role_id: i64) -> Result<Vec<OperationResult>> {
        self.each("SELECT * FROM operations WHERE role_id = ? ORDER BY position", [role_id], |row| {
            Ok(OperationResult {
                operation: word(row, "operation")?,
                censored: get(row, "censored")?,
                lat_ns: latency(row)?,
                histogram: BASE64_STANDARD.encode(get::<Vec<u8>>(row, "histogram")?),
                timeline: from_json(row, "timeline")?,
                slowest: from_json(row, "slowest")?,
            })
        })
    }

    /// Applies `read` to every row that belongs to `id`.
    fn each<T>(&self, sql: &str, id: impl Params, read: impl Fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
        let mut statement = self.0.prepare_cached(sql).trying_to(READ)?;
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

fn get_ns(row: &Row<'_>, column: &'static str) -> Result<Option<Nanos>> {
    Ok(get::<Option<u64>>(row, column)?.map(Nanos))
}
