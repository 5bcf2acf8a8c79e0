//! Writing a trial: one transaction.

use crate::Store;
use crate::error::{Result, StoreError, Trying};
use crate::sweeps::SweepId;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fsdyno_core::result::{
    Built, Lifecycle, OperationResult, Quantile, RoleResult, TreeSummary, WorkerResult,
};
use fsdyno_core::{Nanos, Outcome, PhaseResult, TrialRecord};
use rusqlite::{Connection, ErrorCode, ToSql, TransactionBehavior};
use serde::Serialize;

const STORE: &str = "store a trial";

impl Store {
    /// Stores a trial that has ended, whole or not at all. It is on disk when this returns.
    ///
    /// A trial is stored once. A sweep that is resumed runs the trials that are not stored, so that an earlier attempt of
    /// the same number is there only if it came to an end, be it a failure, and then it stays.
    ///
    /// # Errors
    /// [`StoreError::TrialExists`]; [`StoreError::Histogram`]; [`StoreError::Encode`]; [`StoreError::Sql`].
    pub fn add_trial(&mut self, sweep: SweepId, trial: &TrialRecord) -> Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.trying_to(STORE)?;
        write_trial(&transaction, sweep, trial)?;
        transaction.commit().trying_to(STORE)
    }
}

pub(crate) fn write_trial(connection: &Connection, sweep: SweepId, record: &TrialRecord) -> Result<()> {
    let id = write_head(connection, sweep, record)?;
    for (position, warning) in record.warnings.iter().enumerate() {
        let columns: Columns<'_> = &[
            ("trial_id", &id),
            ("position", &position),
            ("kind", &warning.kind.name()),
            ("text", &warning.text),
        ];
        insert(connection, "warnings", columns).trying_to(STORE)?;
    }
    for (position, phase) in record.phases.iter().enumerate() {
        write_phase(connection, id, position, phase)?;
    }
    Ok(())
}

fn write_head(connection: &Connection, sweep: SweepId, record: &TrialRecord) -> Result<i64> {
    let (unmet, error) = match &record.outcome {
        Outcome::Measured => (None, None),
        Outcome::Skipped { unmet } => (Some(to_json("unmet requirements", unmet)?), None),
        Outcome::Failed { error } => (None, Some(to_json("error", error)?)),
    };
    let Lifecycle { boot, mkfs, mount, prepare, umount_between, mount_between, umount, check, total } =
        &record.lifecycle_ns;
    let Built {
        mkfs_command,
        mount_command,
        mount_options_in_force,
        scheduler_in_force,
        check: checked,
        recipe,
    } = &record.built;
    let TreeSummary { files, directories, bytes } = record.trees;
    let timer = record.timer.as_ref();
    let ns = |step: &Option<Nanos>| step.map(|step| step.0);
    let id = insert(
        connection,
        "trials",
        &[
            ("sweep_id", &sweep.0),
            ("trial", &record.trial),
            ("block", &record.block),
            ("case_index", &record.case),
            ("sentinel", &record.sentinel),
            ("seed", &record.seed.to_string()),
            ("outcome", &record.outcome.word()),
            ("unmet", &unmet),
            ("error", &error),
            ("configuration", &record.configuration.name),
            ("filesystem", &record.configuration.filesystem),
            ("settings", &to_json("settings", &record.configuration.settings)?),
            ("device", &to_json("device", &record.device)?),
            ("workload", &record.workload.kind()),
            ("parameters", &to_json("workload", &record.workload)?),
            ("timer", &timer.map(|timer| &timer.source)),
            ("timer_read_ns", &timer.map(|timer| timer.read_ns)),
            ("timer_overhead_ns_per_op", &timer.and_then(|timer| timer.overhead_ns_per_op)),
            (
                "timer_overhead_with_telemetry_ns_per_op",
                &timer.and_then(|timer| timer.overhead_with_telemetry_ns_per_op),
            ),
            ("boot_ns", &ns(boot)),
            ("mkfs_ns", &ns(mkfs)),
            ("mount_ns", &ns(mount)),
            ("prepare_ns", &ns(prepare)),
            ("umount_between_ns", &ns(umount_between)),
            ("mount_between_ns", &ns(mount_between)),
            ("umount_ns", &ns(umount)),
            ("check_ns", &ns(check)),
            ("total_ns", &ns(total)),
            ("mkfs_command", mkfs_command),
            ("mount_command", mount_command),
            ("mount_options_in_force", mount_options_in_force),
            ("scheduler_in_force", scheduler_in_force),
            ("check_result", &checked.as_ref().map(|check| to_json("check", check)).transpose()?),
            ("recipe", &recipe.as_ref().map(|recipe| to_json("recipe", recipe)).transpose()?),
            ("tree_files", &files),
            ("tree_directories", &directories),
            ("tree_bytes", &bytes),
            ("filled", &record.filled.as_ref().map(|filled| to_json("filled", filled)).transpose()?),
            ("layout", &record.layout.as_ref().map(|layout| to_json("layout", layout)).transpose()?),
            ("environment", &to_json("environment", &record.environment)?),
            ("started", &record.started),
            ("finished", &record.finished),
        ],
    );
    id.map_err(|source| match source.sqlite_error_code() {
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

fn write_phase(connection: &Connection, trial_id: i64, position: usize, phase: &PhaseResult) -> Result<()> {
    let columns: Columns<'_> = &[
        ("trial_id", &trial_id),
        ("position", &position),
        ("name", &phase.name),
        ("ramp_ns", &phase.ramp_ns.0),
        ("window_ns", &phase.window_ns.0),
        ("drain_ns", &phase.drain_ns.0),
    ];
    let id = insert(connection, "phases", columns).trying_to(STORE)?;
    if let Some(telemetry) = &phase.telemetry {
        let telemetry = to_json("telemetry", telemetry)?;
        insert(connection, "telemetry", &[("phase_id", &id), ("telemetry", &telemetry)]).trying_to(STORE)?;
    }
    for (position, role) in phase.roles.iter().enumerate() {
        write_role(connection, id, position, role)?;
    }
    Ok(())
}

fn write_role(connection: &Connection, phase_id: i64, position: usize, role: &RoleResult) -> Result<()> {
    let columns: Columns<'_> = &[
        ("phase_id", &phase_id),
        ("position", &position),
        ("role", &role.role.name()),
        ("workers", &role.workers),
        ("longest_stall_ns", &role.longest_stall_ns.0),
        ("time_over_100ms", &role.time_over_100ms),
        ("time_over_1s", &role.time_over_1s),
        ("blocked_at_start", &to_json("operations blocked at the start", &role.blocked_at_start)?),
        ("data_bytes_per_s", &role.rates.data_bytes_per_s),
        ("with_overhead_bytes_per_s", &role.rates.with_overhead_bytes_per_s),
        ("aggregate_bytes_per_s", &role.rates.aggregate_bytes_per_s),
        ("operations_per_s", &role.rates.operations_per_s),
        ("bytes", &role.rates.bytes),
        ("counts", &to_json("counts", &role.counts)?),
        ("longest_item_ns", &role.longest_item_ns.map(|time| time.0)),
        ("items", &role.rates.items),
        ("items_per_s", &role.rates.items_per_s),
        ("cpu_user_ns", &role.cpu.user_ns.0),
        ("cpu_system_ns", &role.cpu.system_ns.0),
    ];
    let id = insert(connection, "roles", columns).trying_to(STORE)?;
    for (position, worker) in role.worker_results.iter().enumerate() {
        write_worker(connection, id, position, worker)?;
    }
    for (position, operation) in role.operations.iter().enumerate() {
        write_operation(connection, id, position, operation)?;
    }
    Ok(())
}

fn write_worker(connection: &Connection, role_id: i64, position: usize, worker: &WorkerResult) -> Result<()> {
    let unfinished = worker.unfinished.as_ref().map(|operation| to_json("unfinished operation", operation));
    let columns: Columns<'_> = &[
        ("role_id", &role_id),
        ("position", &position),
        ("completed", &worker.completed),
        ("spanning", &worker.spanning),
        ("longest_stall_ns", &worker.longest_stall_ns.0),
        ("time_over_100ms", &worker.time_over_100ms),
        ("time_over_1s", &worker.time_over_1s),
        ("rounds", &worker.rounds),
        ("bytes", &worker.bytes),
        ("active_ns", &worker.active_ns.0),
        ("cpu_user_ns", &worker.cpu.user_ns.0),
        ("cpu_system_ns", &worker.cpu.system_ns.0),
        ("unfinished", &unfinished.transpose()?),
    ];
    insert(connection, "workers", columns).map(drop).trying_to(STORE)
}

fn write_operation(
    connection: &Connection,
    role_id: i64,
    position: usize,
    result: &OperationResult,
) -> Result<()> {
    let histogram = BASE64_STANDARD
        .decode(&result.histogram)
        .map_err(|source| StoreError::Histogram { operation: result.operation, source })?;
    let latency = &result.lat_ns;
    let columns: Columns<'_> = &[
        ("role_id", &role_id),
        ("position", &position),
        ("operation", &result.operation.name()),
        ("count", &latency.count),
        ("censored", &result.censored),
        ("lat_ns_min", &latency.min),
        ("lat_ns_max", &latency.max),
        ("lat_ns_mean", &latency.mean),
        ("lat_ns_stddev", &latency.stddev),
        ("lat_ns_median", &latency.quantiles[Quantile::P50]),
        ("lat_ns_p90", &latency.quantiles[Quantile::P90]),
        ("lat_ns_p99", &latency.quantiles[Quantile::P99]),
        ("lat_ns_p999", &latency.quantiles[Quantile::P999]),
        ("lat_ns_p9999", &latency.quantiles[Quantile::P9999]),
        ("lat_ns_at_least_from", &latency.at_least_from),
        ("histogram", &histogram),
        ("timeline", &to_json("timeline", &result.timeline)?),
        ("slowest", &to_json("slowest operations", &result.slowest)?),
    ];
    insert(connection, "operations", columns).map(drop).trying_to(STORE)
}

/// The columns of a row with their values.
type Columns<'a> = &'a [(&'a str, &'a dyn ToSql)];

/// Inserts a row and gives its number.
pub(crate) fn insert(connection: &Connection, table: &str, columns: Columns<'_>) -> rusqlite::Result<i64> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    let values = rusqlite::params_from_iter(columns.iter().map(|(_, value)| value));
    connection.prepare_cached(&sql)?.insert(values)
}

pub(crate) fn to_json(what: &'static str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|source| StoreError::Encode { what, source })
}
