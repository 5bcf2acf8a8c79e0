//! Results as one tidy table: a row for each trial, phase, role and operation.
//!
//! Every row repeats what identifies it, so that a row can be read alone and the whole loads into any data frame. Figures
//! of a role (`role_...`) and of a phase (`phase_...`) repeat on each operation. A trial without phases has one row, with its outcome and no
//! figures: what was skipped or failed does not vanish. Times are nanoseconds, rates bytes per second, shares 0 to 1; a
//! figure that does not exist is empty. The settings follow as one column for each axis that any trial sets.

use fsdyno_core::Nanos;
use fsdyno_core::result::{OperationResult, PhaseResult, RoleResult, TrialRecord};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Columns before those of the settings.
pub const COLUMNS: &[&str] = &[
    "trial",
    "block",
    "case",
    "sentinel",
    "configuration",
    "filesystem",
    "workload",
    "kernel",
    "outcome",
    "phase",
    "window_ns",
    "role",
    "role_workers",
    "role_longest_stall_ns",
    "role_time_over_100ms",
    "role_time_over_1s",
    "role_data_bytes_per_s",
    "role_with_overhead_bytes_per_s",
    "role_aggregate_bytes_per_s",
    "role_operations_per_s",
    "role_cpu_user_ns",
    "role_cpu_system_ns",
    "phase_kernel_threads_cpu_ns",
    "operation",
    "count",
    "censored",
    "lat_ns_min",
    "lat_ns_mean",
    "lat_ns_stddev",
    "lat_ns_p50",
    "lat_ns_p90",
    "lat_ns_p99",
    "lat_ns_p99.9",
    "lat_ns_p99.99",
    "lat_ns_max",
    "lat_ns_at_least_from",
];

/// Columns that identify a trial; the first of [`COLUMNS`].
const TRIAL_COLUMNS: usize = 9;
/// Columns that an operation fills; the last of [`COLUMNS`].
const OPERATION_COLUMNS: usize = 13;

/// Writes every trial.
///
/// # Errors
/// Those of `out`.
pub fn operations(out: &mut dyn Write, trials: &[TrialRecord]) -> io::Result<()> {
    let axes: BTreeSet<&str> =
        trials.iter().flat_map(|trial| trial.configuration.settings.keys()).map(String::as_str).collect();
    let settings = axes.iter().map(|axis| format!("setting_{axis}"));
    let mut writer = csv::Writer::from_writer(out);
    writer
        .write_record(COLUMNS.iter().map(|name| (*name).to_string()).chain(settings))
        .map_err(output_error)?;
    for trial in trials {
        let levels: Vec<String> = axes
            .iter()
            .map(|axis| trial.configuration.settings.get(*axis).cloned().unwrap_or_default())
            .collect();
        let identity = identity(trial);
        let rows = figures(trial);
        for figures in &rows {
            writer.write_record(identity.iter().chain(figures).chain(&levels)).map_err(output_error)?;
        }
        if rows.is_empty() {
            let none = vec![String::new(); COLUMNS.len() - TRIAL_COLUMNS];
            writer.write_record(identity.iter().chain(&none).chain(&levels)).map_err(output_error)?;
        }
    }
    writer.flush()
}

/// The error of the output itself, so that a closed pipe is known as one.
pub(crate) fn output_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn identity(trial: &TrialRecord) -> [String; TRIAL_COLUMNS] {
    [
        trial.trial.to_string(),
        trial.block.to_string(),
        trial.case.to_string(),
        trial.sentinel.to_string(),
        trial.configuration.name.clone(),
        trial.configuration.filesystem.clone(),
        trial.workload.kind().to_string(),
        trial.environment.kernel.clone(),
        trial.outcome.word().to_string(),
    ]
}

fn figures(trial: &TrialRecord) -> Vec<Vec<String>> {
    let roles = trial.phases.iter().flat_map(|phase| phase.roles.iter().map(move |role| (phase, role)));
    roles
        .flat_map(|(phase, role)| match &role.operations[..] {
            // What a program tells of a role that is not ours need not say anything of operations.
            [] => vec![[of_role(phase, role), vec![String::new(); OPERATION_COLUMNS]].concat()],
            operations => operations
                .iter()
                .map(|result| [of_role(phase, role), of_operation(result)].concat())
                .collect(),
        })
        .collect()
}

fn of_role(phase: &PhaseResult, role: &RoleResult) -> Vec<String> {
    let maybe = |rate: Option<f64>| rate.map(|rate| rate.to_string()).unwrap_or_default();
    let known_cpu = role.is_watched() || role.cpu.total() > Nanos(0);
    let cpu = |time: Nanos| if known_cpu { time.0.to_string() } else { String::new() };
    vec![
        phase.name.clone(),
        phase.window_ns.0.to_string(),
        role.role.name().to_string(),
        role.workers.to_string(),
        role.known_stall_ns().map(|stall| stall.0.to_string()).unwrap_or_default(),
        maybe(role.is_watched().then_some(role.time_over_100ms)),
        maybe(role.is_watched().then_some(role.time_over_1s)),
        maybe(role.rates.data_bytes_per_s),
        maybe(role.rates.with_overhead_bytes_per_s),
        role.rates.aggregate_bytes_per_s.to_string(),
        role.rates.operations_per_s.to_string(),
        cpu(role.cpu.user_ns),
        cpu(role.cpu.system_ns),
        phase.telemetry.as_ref().map(|seen| seen.storage_threads_ns().to_string()).unwrap_or_default(),
    ]
}

fn of_operation(result: &OperationResult) -> Vec<String> {
    let latency = &result.lat_ns;
    // Without a sample there is no minimum, mean or quantile; there may be a maximum, of an operation that spans the window.
    let sampled = |value: String| if latency.count > 0 { value } else { String::new() };
    let quantile = |ns: u64| latency.known(ns).map(|ns| sampled(ns.to_string())).unwrap_or_default();
    vec![
        result.operation.name().to_string(),
        latency.count.to_string(),
        result.censored.to_string(),
        sampled(latency.min.to_string()),
        sampled(latency.mean.to_string()),
        sampled(latency.stddev.to_string()),
        sampled(latency.median.to_string()),
        quantile(latency.p90),
        quantile(latency.p99),
        quantile(latency.p999),
        quantile(latency.p9999),
        if latency.max > 0 { latency.max.to_string() } else { String::new() },
        latency.at_least_from.map(|bound| bound.to_string()).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_role_of_whose_operations_nothing_is_known_has_a_row() {
        let mut trials = fixture::trials()[..1].to_vec();
        trials[0].phases.truncate(1);
        let role = &mut trials[0].phases[0].roles[0];
        (role.operations, role.worker_results) = (Vec::new(), Vec::new());
        role.longest_stall_ns = Nanos(0);
        let rows = rows(&trials);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0]["role"].as_str(), rows[0]["operation"].as_str()), ("reader", ""));
        assert_eq!(
            (rows[0]["role_longest_stall_ns"].as_str(), rows[0]["role_time_over_1s"].as_str()),
            ("", "")
        );
        assert_ne!(rows[0]["role_aggregate_bytes_per_s"], "");
    }

    /// The rows of a document by column.
    fn rows(trials: &[TrialRecord]) -> Vec<std::collections::HashMap<String, String>> {
        let mut out = Vec::new();
        operations(&mut out, trials).unwrap();
        csv::Reader::from_reader(out.as_slice()).deserialize().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn the_header_is_stable_and_ends_in_the_settings() {
        let mut out = Vec::new();
        operations(&mut out, &fixture::trials()).unwrap();
        let header = String::from_utf8(out).unwrap().lines().next().unwrap().to_string();
        assert_eq!(
            header,
            "trial,block,case,sentinel,configuration,filesystem,workload,kernel,outcome,phase,window_ns,role,\
             role_workers,role_longest_stall_ns,role_time_over_100ms,role_time_over_1s,role_data_bytes_per_s,\
             role_with_overhead_bytes_per_s,role_aggregate_bytes_per_s,role_operations_per_s,role_cpu_user_ns,\
             role_cpu_system_ns,phase_kernel_threads_cpu_ns,operation,count,censored,lat_ns_min,lat_ns_mean,lat_ns_stddev,lat_ns_p50,lat_ns_p90,lat_ns_p99,lat_ns_p99.9,\
             lat_ns_p99.99,lat_ns_max,lat_ns_at_least_from,setting_scheduler"
        );
    }

    #[test]
    fn each_operation_of_each_trial_has_a_row() {
        let trials = fixture::trials();
        let rows = rows(&trials);
        // 6 operations of readers in three phases and 5 of writers in one, in 4 measured trials; 2 trials have no phases.
        assert_eq!(rows.len(), 4 * (3 * 6 + 5) + 2);
        let blocked = rows.iter().find(|row| row["trial"] == "4" && row["operation"] == "mkdirat").unwrap();
        assert_eq!(blocked["lat_ns_max"], "62000000000");
        assert_eq!(blocked["lat_ns_at_least_from"], "62000000000");
        assert_eq!(blocked["setting_scheduler"], "bfq");
    }

    #[test]
    fn what_was_not_measured_has_a_row_without_figures() {
        let rows = rows(&fixture::trials());
        for (trial, outcome) in [("2", "skipped"), ("5", "failed")] {
            let of_trial: Vec<_> = rows.iter().filter(|row| row["trial"] == trial).collect();
            assert_eq!(of_trial.len(), 1);
            assert_eq!((of_trial[0]["outcome"].as_str(), of_trial[0]["count"].as_str()), (outcome, ""));
        }
    }
}
