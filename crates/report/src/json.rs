//! Results as one JSON document, versioned and stable.
//!
//! A trial is written as it is stored: [`TrialRecord`] and its parts serialise themselves. Latencies have the
//! structure of fio's `lat_ns`, with percentiles keyed by text with six decimals, so that parsers for fio
//! work. Within a version, keys are only added. Times are nanoseconds, sizes bytes, shares 0 to 1.
//!
//! `at_least_from` says which latencies are only lower bounds: every figure from that value up belongs to
//! operations whose end was not seen.

use fsdyno_core::SweepHeader;
use fsdyno_core::environment::Environment;
use fsdyno_core::result::TrialRecord;
use fsdyno_verdict::judgement::Judgement;
use fsdyno_verdict::outcomes::is_measured;
use fsdyno_verdict::recommendation::{Answer, Contender, Question, Recommendation};
use serde::Serialize;

/// Version of the document; raised when a key is removed or changes its meaning.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// A sweep with all its trials, ready to be written.
pub fn sweep<'a>(header: &'a SweepHeader, trials: &'a [TrialRecord]) -> Document<'a> {
    let sweep = SweepDocument { header, environment: environment(trials) };
    let recommendation = Recommendation::new(header, trials, &Question::default());
    let answers = recommendation.answers.into_iter().map(Judged::from).collect();
    Document { schema_version: SCHEMA_VERSION, sweep, answers, trials }
}

/// The environment of the first measured trial: a skipped one may know little about where it would have run.
fn environment(trials: &[TrialRecord]) -> Option<&Environment> {
    let measured = trials.iter().find(|trial| is_measured(trial));
    measured.or(trials.first()).map(|trial| &trial.environment)
}

/// The whole document.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The sweep that was executed, when and where.
    pub sweep: SweepDocument<'a>,
    /// The judgement for each workload; `fsdyno recommend` has the evidence.
    pub answers: Vec<Judged>,
    /// Every trial, in order of execution.
    pub trials: &'a [TrialRecord],
}

/// The judgement for one workload.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// Description of the workload in one line.
    pub title: String,
    /// Name of the measure that decides.
    pub measure: String,
    /// Its class, the headline and the next step.
    pub judgement: Judgement,
    /// The reasons for doubt.
    pub doubts: Vec<String>,
    /// Name of the configuration to use; absent if there is no winner.
    pub winner: Option<String>,
    /// Name of the default.
    pub default: Option<String>,
}

impl From<Answer> for Judged {
    fn from(answer: Answer) -> Self {
        let name = |one: Option<&Contender>| one.map(|one| one.name.clone());
        Judged {
            winner: name(answer.winner()),
            default: name(answer.default()),
            title: answer.title,
            measure: answer.measure,
            judgement: answer.judgement,
            doubts: answer.doubts,
        }
    }
}

/// One execution of a plan.
#[derive(Debug, Serialize)]
pub struct SweepDocument<'a> {
    /// The facts in the store about the sweep.
    #[serde(flatten)]
    pub header: &'a SweepHeader,
    /// The environment of the first measured trial, or else of the first trial; null until there is one.
    pub environment: Option<&'a Environment>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use serde_json::Value;

    fn document() -> Value {
        let (header, trials) = (fixture::header("read-under-write"), fixture::trials());
        serde_json::to_value(sweep(&header, &trials)).unwrap()
    }

    /// Asserts that an object has these keys, and perhaps others.
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
    fn every_key_of_the_contract_exists() {
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
        let document = serde_json::to_value(sweep(&header, &trials)).unwrap();
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
        let text = serde_json::to_string(&sweep(&header, &trials)).unwrap();
        let start = "{\"schema_version\":1,\"sweep\":{\"id\":\"7\",\"name\":\"demo\",\"plan_toml\":";
        assert!(text.starts_with(start), "{}", &text[..100]);
    }

    #[test]
    fn a_blocked_worker_has_numbers() {
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
    fn a_workload_has_a_kind_and_parameters() {
        let workload = &document()["trials"][0]["workload"];
        assert_eq!(workload["kind"], "fileserver");
        assert_eq!(workload["parameters"]["readers"], 3);
        assert_eq!(workload["parameters"]["kind"], Value::Null);
    }

    #[test]
    fn a_trial_survives_a_round_trip() {
        let trials = fixture::with_telemetry(fixture::trials());
        let text = serde_json::to_string(&trials).unwrap();
        assert_eq!(serde_json::from_str::<Vec<TrialRecord>>(&text).unwrap(), trials);
    }
}
