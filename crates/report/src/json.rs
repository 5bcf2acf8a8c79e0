//! Results as one JSON document, versioned and stable.
//!
//! Latencies have the shape of fio's `lat_ns`, percentiles keyed by text with six decimals, so that parsers made for fio
//! fit. Keys are only ever added within a version. All times are nanoseconds, all sizes bytes, all shares 0 to 1.
//!
//! Whether a latency is only a lower bound is said by `at_least_from`: every figure from that value up falls on operations
//! whose end nobody saw.

use fsdyno_core::DeviceSpec;
use fsdyno_core::environment::Environment;
use fsdyno_core::outcome::{Failure, Outcome};
use fsdyno_core::result::{
    CheckResult, CpuTime, Filled, InFlight, Latency, Layout, Lifecycle, OperationResult, PhaseResult, Rates,
    RoleResult, SlowOperation, Timeline, TimerFacts, TreeSummary, TrialRecord, WorkerResult,
};
use fsdyno_core::telemetry::{Column, DeviceActivity, ProcessIo, Sample, SamplingCost, Telemetry};
use fsdyno_core::warning::Warning;
use fsdyno_core::{Nanos, Operation, Role, Workload};
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::view::Header;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of the document; raised when a key changes its meaning or goes away.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// A sweep with all its trials, ready to be written.
///
/// # Errors
/// A [`serde_json::Error`] when a parameter of a workload has no form in JSON.
pub fn sweep<'a>(header: &'a Header, trials: &'a [TrialRecord]) -> serde_json::Result<Document<'a>> {
    Ok(Document {
        schema_version: SCHEMA_VERSION,
        sweep: Sweep {
            id: &header.id,
            name: &header.name,
            plan_toml: &header.plan_toml,
            overrides: &header.overrides,
            started: &header.started,
            finished: header.finished.as_deref(),
            seed: header.seed,
            environment: environment(trials),
            measure: header.measure.name(),
        },
        trials: trials.iter().map(Trial::new).collect::<Result<_, _>>()?,
    })
}

/// That of the first measured trial: one that was skipped may know little of where it would have run.
fn environment(trials: &[TrialRecord]) -> Option<&Environment> {
    let measured = trials.iter().find(|trial| is_measured(trial));
    measured.or(trials.first()).map(|trial| &trial.environment)
}

/// The whole document.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was executed, when and where.
    pub sweep: Sweep<'a>,
    /// Every trial, in order of execution.
    pub trials: Vec<Trial<'a>>,
}

/// One execution of a plan.
#[derive(Debug, Serialize)]
pub struct Sweep<'a> {
    /// Identifier in the store.
    pub id: &'a str,
    /// Name of the plan.
    pub name: &'a str,
    /// The plan as executed.
    pub plan_toml: &'a str,
    /// What the command line changed about the plan, `path=value` each.
    pub overrides: &'a [String],
    /// RFC 3339, UTC.
    pub started: &'a str,
    /// RFC 3339, UTC; null while it runs, and when it was interrupted.
    pub finished: Option<&'a str>,
    /// Seed of the order and of every trial's seed.
    pub seed: u64,
    /// What the first measured trial ran on; null before there is any.
    pub environment: Option<&'a Environment>,
    /// What the summary ranks by.
    pub measure: &'a str,
}

/// One execution of a case.
#[derive(Debug, Serialize)]
pub struct Trial<'a> {
    /// Position in the sweep, from 0.
    pub trial: u32,
    /// The block it is part of, from 0.
    pub block: u32,
    /// Index of its case in the plan.
    pub case: u32,
    /// Whether it repeats the first case to show drift.
    pub sentinel: bool,
    /// Seed of trees, contents and filesystem.
    pub seed: u64,
    /// RFC 3339, UTC.
    pub started: &'a str,
    /// RFC 3339, UTC.
    pub finished: &'a str,
    /// What was built.
    pub configuration: Configuration<'a>,
    /// What ran on it.
    pub workload: WorkloadParameters,
    /// `measured`, `skipped` or `failed`.
    pub outcome: &'static str,
    /// Every requirement that this machine does not meet; empty unless skipped.
    pub unmet: &'a [String],
    /// What went wrong; null unless failed.
    pub error: Option<&'a Failure>,
    /// What a reader must know.
    pub warnings: &'a [Warning],
    /// How the time was told; null when the engine never ran.
    pub timer: Option<&'a TimerFacts>,
    /// Durations outside the windows; null for steps that did not happen.
    pub lifecycle_ns: &'a Lifecycle,
    /// What the filesystem check said; null when there was none.
    pub check: Option<&'a CheckResult>,
    /// How full the filesystem was made before the load; null for a fresh one.
    pub filled: Option<&'a Filled>,
    /// How the files lay after the load; null when it did not come to its end.
    pub layout: Option<&'a Layout>,
    /// The trees that were made.
    pub trees: TreeSummary,
    /// What it ran on.
    pub environment: &'a Environment,
    /// The phases.
    pub phases: Vec<Phase<'a>>,
}

/// What was built.
#[derive(Debug, Serialize)]
pub struct Configuration<'a> {
    /// Its name in the sweep.
    pub name: &'a str,
    /// `uname -r` and `uname -v`.
    pub kernel: &'a str,
    /// The device stack.
    pub device: &'a DeviceSpec,
    /// What mkfs made.
    pub filesystem: &'a str,
    /// Level of each axis that the plan sets.
    pub settings: &'a BTreeMap<String, String>,
    /// Exact command line.
    pub mkfs_command: &'a str,
    /// The mount as a command line that does the same.
    pub mount_command: &'a str,
    /// From `/proc/self/mountinfo`.
    pub mount_options_in_force: &'a str,
    /// From sysfs.
    pub scheduler_in_force: &'a str,
}

/// A workload.
#[derive(Debug, Serialize)]
pub struct WorkloadParameters {
    /// `fileserver`, `null`.
    pub kind: &'static str,
    /// Every parameter, as a plan names it.
    pub parameters: Value,
}

/// One phase.
#[derive(Debug, Serialize)]
pub struct Phase<'a> {
    /// `3 readers, 3 writers`.
    pub name: &'a str,
    /// Load before the window.
    pub ramp_ns: Nanos,
    /// The measured part.
    pub window_ns: Nanos,
    /// From the end of the window to the end of the last operation, or to the limit.
    pub drain_ns: Nanos,
    /// Writers before readers.
    pub roles: Vec<RoleInPhase<'a>>,
    /// What the machine did in the window; null where no telemetry was taken.
    pub telemetry: Option<TelemetryInPhase<'a>>,
}

/// The telemetry of a phase.
#[derive(Debug, Serialize)]
pub struct TelemetryInPhase<'a> {
    /// Kernel names; the order of `devices` in each sample.
    pub devices: &'a [String],
    /// Processors online.
    pub processors: u32,
    /// Time between samples.
    pub interval_ns: Nanos,
    /// The whole window.
    pub window: SampleInTelemetry<'a>,
    /// One after the other.
    pub samples: Vec<SampleInTelemetry<'a>>,
    /// Processes that are not ours and read or wrote block devices.
    pub other_processes: &'a [ProcessIo],
    /// What sampling itself cost.
    pub cost: SamplingCost,
    /// Lines of /proc and /sys that were not understood.
    pub unparsed_lines: u64,
}

/// Differences of counters, and what iostat makes of them.
#[derive(Debug, Serialize)]
pub struct SampleInTelemetry<'a> {
    /// The differences.
    #[serde(flatten)]
    pub sample: &'a Sample,
    /// By device, then by column of `iostat -x`.
    pub iostat: BTreeMap<&'a str, BTreeMap<&'static str, f64>>,
}

/// What the workers of one role did.
#[derive(Debug, Serialize)]
pub struct RoleInPhase<'a> {
    /// `reader`, `writer`, `null`.
    pub role: Role,
    /// How many.
    pub workers: u32,
    /// The longest time in which some worker completed nothing, cut at the edges of the window; null when a program that
    /// is not ours did not tell.
    pub longest_stall_ns: Option<Nanos>,
    /// Share of the window in operations over 100 ms; null when nobody watched the workers.
    pub time_over_100ms: Option<f64>,
    /// Share of the window in operations over 1 s; null when nobody watched the workers.
    pub time_over_1s: Option<f64>,
    /// Operations in flight when the window began.
    pub blocked_at_start: &'a [InFlight],
    /// Rates over the window.
    pub rates: &'a Rates,
    /// Processor time of the workers in the window.
    pub cpu: CpuTime,
    /// What the workload counts by name.
    pub counts: &'a BTreeMap<String, u64>,
    /// The longest that one item took; null where the workload does not measure that.
    pub longest_item_ns: Option<Nanos>,
    /// Each worker by itself.
    pub worker_results: &'a [WorkerResult],
    /// Each operation.
    pub operations: Vec<OperationInRole<'a>>,
}

/// The sample of one operation.
#[derive(Debug, Serialize)]
pub struct OperationInRole<'a> {
    /// Which operation.
    pub operation: Operation,
    /// How many had not ended at the drain limit.
    pub censored: u64,
    /// The distribution.
    pub lat_ns: FioLatency,
    /// The slowest, longest first.
    pub slowest: &'a [SlowOperation],
    /// HdrHistogram V2, compressed, base64.
    pub histogram: &'a str,
    /// The sample over time.
    pub timeline: &'a Timeline,
}

/// A latency distribution in fio's shape.
#[derive(Debug, Serialize)]
pub struct FioLatency {
    /// Sample size.
    #[serde(rename = "N")]
    pub count: u64,
    /// Exact.
    pub min: u64,
    /// Exact, or at least so long.
    pub max: u64,
    /// Exact.
    pub mean: f64,
    /// Of the population.
    pub stddev: f64,
    /// Three digits.
    pub median: u64,
    /// Three digits, keyed `50.000000`; those that are known.
    pub percentile: BTreeMap<&'static str, u64>,
    /// Every figure from this one up is a lower bound; null when all are exact.
    pub at_least_from: Option<u64>,
}

impl<'a> Trial<'a> {
    fn new(trial: &'a TrialRecord) -> serde_json::Result<Self> {
        let (unmet, error): (&[String], _) = match &trial.outcome {
            Outcome::Measured => (&[], None),
            Outcome::Skipped { unmet } => (unmet, None),
            Outcome::Failed { error } => (&[], Some(error)),
        };
        Ok(Trial {
            trial: trial.trial,
            block: trial.block,
            case: trial.case,
            sentinel: trial.sentinel,
            seed: trial.seed,
            started: &trial.started,
            finished: &trial.finished,
            configuration: Configuration {
                name: &trial.configuration.name,
                kernel: &trial.environment.kernel,
                device: &trial.device,
                filesystem: &trial.configuration.filesystem,
                settings: &trial.configuration.settings,
                mkfs_command: &trial.built.mkfs_command,
                mount_command: &trial.built.mount_command,
                mount_options_in_force: &trial.built.mount_options_in_force,
                scheduler_in_force: &trial.built.scheduler_in_force,
            },
            workload: WorkloadParameters::new(&trial.workload)?,
            outcome: trial.outcome.word(),
            unmet,
            error,
            warnings: &trial.warnings,
            timer: trial.timer.as_ref(),
            lifecycle_ns: &trial.lifecycle_ns,
            check: trial.built.check.as_ref(),
            filled: trial.filled.as_ref(),
            layout: trial.layout.as_ref(),
            trees: trial.trees,
            environment: &trial.environment,
            phases: trial.phases.iter().map(Phase::new).collect(),
        })
    }
}

impl WorkloadParameters {
    fn new(workload: &Workload) -> serde_json::Result<Self> {
        let mut parameters = serde_json::to_value(workload)?;
        if let Some(parameters) = parameters.as_object_mut() {
            parameters.remove("kind");
        }
        Ok(WorkloadParameters { kind: workload.kind(), parameters })
    }
}

impl<'a> Phase<'a> {
    fn new(phase: &'a PhaseResult) -> Self {
        Phase {
            name: &phase.name,
            ramp_ns: phase.ramp_ns,
            window_ns: phase.window_ns,
            drain_ns: phase.drain_ns,
            roles: phase.roles.iter().map(RoleInPhase::new).collect(),
            telemetry: phase.telemetry.as_ref().map(TelemetryInPhase::new),
        }
    }
}

impl<'a> TelemetryInPhase<'a> {
    fn new(telemetry: &'a Telemetry) -> Self {
        let sample = |sample: &'a Sample| SampleInTelemetry::new(&telemetry.devices, sample);
        TelemetryInPhase {
            devices: &telemetry.devices,
            processors: telemetry.processors,
            interval_ns: telemetry.interval_ns,
            window: sample(&telemetry.window),
            samples: telemetry.samples.iter().map(sample).collect(),
            other_processes: &telemetry.other_processes,
            cost: telemetry.cost,
            unparsed_lines: telemetry.unparsed_lines,
        }
    }
}

impl<'a> SampleInTelemetry<'a> {
    fn new(devices: &'a [String], sample: &'a Sample) -> Self {
        let columns = |activity: &DeviceActivity| {
            Column::ALL
                .iter()
                .map(|column| (column.name(), activity.value(*column, sample.length_ns)))
                .collect()
        };
        let iostat = devices
            .iter()
            .zip(&sample.devices)
            .filter_map(|(device, activity)| Some((device.as_str(), columns(activity.as_ref()?))));
        SampleInTelemetry { sample, iostat: iostat.collect() }
    }
}

impl<'a> RoleInPhase<'a> {
    fn new(result: &'a RoleResult) -> Self {
        RoleInPhase {
            role: result.role,
            workers: result.workers,
            longest_stall_ns: result.known_stall_ns(),
            time_over_100ms: result.is_watched().then_some(result.time_over_100ms),
            time_over_1s: result.is_watched().then_some(result.time_over_1s),
            blocked_at_start: &result.blocked_at_start,
            rates: &result.rates,
            cpu: result.cpu,
            counts: &result.counts,
            longest_item_ns: result.longest_item_ns,
            worker_results: &result.worker_results,
            operations: result.operations.iter().map(OperationInRole::new).collect(),
        }
    }
}

impl<'a> OperationInRole<'a> {
    fn new(result: &'a OperationResult) -> Self {
        OperationInRole {
            operation: result.operation,
            censored: result.censored,
            lat_ns: FioLatency::from(&result.lat_ns),
            slowest: &result.slowest,
            histogram: &result.histogram,
            timeline: &result.timeline,
        }
    }
}

impl From<&Latency> for FioLatency {
    fn from(latency: &Latency) -> Self {
        FioLatency {
            count: latency.count,
            min: latency.min,
            max: latency.max,
            mean: latency.mean,
            stddev: latency.stddev,
            median: latency.median,
            percentile: [
                ("50.000000", latency.median),
                ("90.000000", latency.p90),
                ("99.000000", latency.p99),
                ("99.900000", latency.p999),
                ("99.990000", latency.p9999),
            ]
            .into_iter()
            .filter_map(|(share, ns)| Some((share, latency.known(ns)?)))
            .collect(),
            at_least_from: latency.at_least_from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn document() -> Value {
        let (header, trials) = (fixture::header("read-under-write"), fixture::trials());
        serde_json::to_value(sweep(&header, &trials).unwrap()).unwrap()
    }

    /// Asserts that an object has these keys; others may stand beside them.
    fn assert_keys(object: &Value, keys: &[&str]) {
        for key in keys {
            assert!(
                object.get(key).is_some(),
                "no '{key}' in {:?}",
                object.as_object().map(|o| o.keys().collect::<Vec<_>>())
            );
        }
    }

    #[test]
    fn every_key_of_the_contract_is_there() {
        let document = document();
        assert_eq!(document["schema_version"], 1);
        assert_keys(
            &document["sweep"],
            &["id", "name", "plan_toml", "overrides", "started", "finished", "seed", "environment"],
        );
        let trial = &document["trials"][4];
        assert_keys(
            trial,
            &[
                "trial",
                "block",
                "configuration",
                "workload",
                "outcome",
                "unmet",
                "error",
                "warnings",
                "timer",
                "lifecycle_ns",
                "phases",
            ],
        );
        assert_keys(
            &trial["configuration"],
            &[
                "name",
                "kernel",
                "device",
                "filesystem",
                "settings",
                "mkfs_command",
                "mount_command",
                "mount_options_in_force",
                "scheduler_in_force",
            ],
        );
        assert_keys(&trial["workload"], &["kind", "parameters"]);
        assert_keys(&trial["warnings"][0], &["kind", "text"]);
        assert_keys(&trial["timer"], &["source", "overhead_ns_per_op"]);
        assert_keys(&trial["lifecycle_ns"], &["mkfs", "mount", "prepare", "umount", "check"]);
        let phase = &trial["phases"][2];
        assert_keys(phase, &["name", "ramp_ns", "window_ns", "drain_ns", "roles"]);
        let role = &phase["roles"][0];
        assert_keys(
            role,
            &[
                "role",
                "workers",
                "longest_stall_ns",
                "time_over_100ms",
                "time_over_1s",
                "blocked_at_start",
                "rates",
                "operations",
            ],
        );
        assert_keys(
            &role["rates"],
            &["data_bytes_per_s", "with_overhead_bytes_per_s", "aggregate_bytes_per_s", "operations_per_s"],
        );
        let operation = &role["operations"][0];
        assert_keys(operation, &["operation", "censored", "lat_ns", "slowest"]);
        assert_keys(&operation["lat_ns"], &["N", "min", "max", "mean", "stddev", "median", "percentile"]);
        let percentiles: Vec<_> = operation["lat_ns"]["percentile"].as_object().unwrap().keys().collect();
        assert_eq!(percentiles, ["50.000000", "90.000000", "99.000000", "99.900000", "99.990000"]);
        assert_keys(&operation["slowest"][0], &["start_ns", "duration_ns", "path"]);
    }

    #[test]
    fn telemetry_has_the_columns_of_iostat_by_device() {
        assert_eq!(document()["trials"][0]["phases"][0]["telemetry"], Value::Null);
        let (header, trials) = (fixture::header("read"), fixture::with_telemetry(fixture::trials()));
        let document = serde_json::to_value(sweep(&header, &trials).unwrap()).unwrap();
        let telemetry = &document["trials"][0]["phases"][0]["telemetry"];
        assert_eq!(telemetry["window"]["iostat"]["loop0"]["rkB/s"], 4096.0);
        assert_eq!(telemetry["window"]["devices"][1]["reads"], 3000);
        assert_eq!(telemetry["window"]["journals"][0]["kind"], "jbd2");
        assert_eq!(telemetry["samples"].as_array().unwrap().len(), 30);
        assert_keys(
            &telemetry["samples"][0],
            &["start_ns", "length_ns", "devices", "cpu", "memory", "pressure", "task_ns", "tasks", "iostat"],
        );
        assert_keys(telemetry, &["processors", "interval_ns", "other_processes", "cost", "unparsed_lines"]);
    }

    #[test]
    fn keys_keep_the_order_of_the_contract() {
        let (header, trials) = (fixture::header("read"), fixture::trials());
        let text = serde_json::to_string(&sweep(&header, &trials).unwrap()).unwrap();
        let start = "{\"schema_version\":1,\"sweep\":{\"id\":\"7\",\"name\":\"demo\",\"plan_toml\":";
        assert!(text.starts_with(start), "{}", &text[..100]);
    }

    #[test]
    fn a_blocked_worker_is_a_number_and_not_a_hole() {
        let writers = &document()["trials"][4]["phases"][2]["roles"][0];
        assert_eq!(writers["longest_stall_ns"], 30_000_000_000u64);
        assert_eq!(writers["blocked_at_start"][0]["at_least"], true);
        assert_eq!(writers["worker_results"][0]["completed"], 0);
        assert_eq!(writers["worker_results"][0]["spanning"], 1);
        let mkdir = writers["operations"].as_array().unwrap().iter().find(|o| o["operation"] == "mkdirat");
        assert_eq!(mkdir.unwrap()["lat_ns"]["at_least_from"], 62_000_000_000u64);
    }

    #[test]
    fn skipped_and_failed_trials_say_why() {
        let document = document();
        assert_eq!(document["trials"][2]["outcome"], "skipped");
        assert_eq!(document["trials"][2]["unmet"].as_array().unwrap().len(), 2);
        assert_eq!(document["trials"][2]["timer"], Value::Null);
        assert_eq!(document["trials"][5]["outcome"], "failed");
        assert_eq!(document["trials"][5]["error"]["errno"], 28);
        assert_eq!(document["trials"][0]["error"], Value::Null);
    }

    #[test]
    fn a_workload_is_its_kind_and_its_parameters() {
        let workload = &document()["trials"][0]["workload"];
        assert_eq!(workload["kind"], "fileserver");
        assert_eq!(workload["parameters"]["readers"], 3);
        assert_eq!(workload["parameters"]["kind"], Value::Null);
    }
}
