//! fio: the JSON that it prints, `json` and `json+`.
//!
//! A phase is the jobs with the same options in a group as fio groups them (`new_group`, `stonewall`): what
//! they read appears as readers, what they write as writers. Jobs that differ, such as a log and the data
//! files of a database, are phases of their own, which ran at the same time. Latency distributions come from
//! fio's own bins, 64 to each power of two, so quantiles are accurate to 0.8 %; minimum, maximum, mean and
//! deviation are exact. With `lat_percentiles=1` the distribution is that of the total latency, otherwise of
//! the completion latency (`clat`). If a job file tells fio to omit samples or percentiles (`gtod_reduce`,
//! `clat_percentiles=0`), there are rates but no latencies, and a warning says so.

mod jobs;
mod sane;

pub use jobs::{Jobs, options};

use crate::{Results, nanos};
use fsdyno_core::figures::LATENCY_BITS;
use fsdyno_core::result::{CpuTime, Latency, OperationResult, Quantile, Quantiles, RoleResult, Timeline};
use fsdyno_core::units::Nanos;
use fsdyno_core::{Operation, PhaseResult, Role, WarningKind};
use fsdyno_stats::Distribution as Histogram;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a document contains besides its jobs.
#[derive(Debug, Deserialize)]
pub struct Head {
    /// `fio-3.33`.
    #[serde(rename = "fio version")]
    pub version: Option<String>,
    /// Seconds since 1970, at the end of the run.
    pub timestamp: Option<i64>,
}

/// Reads the head of a JSON document of fio.
///
/// # Errors
/// If it is not JSON.
pub fn head(json: &str) -> serde_json::Result<Head> {
    serde_json::from_str(json)
}

#[derive(Deserialize)]
struct Document {
    jobs: Vec<Job>,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    groupid: u32,
    error: i32,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: Direction,
    write: Direction,
    #[serde(default)]
    sync: Sync,
    /// Milliseconds of all its clones together, to which the percentages below refer.
    job_runtime: f64,
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    bw_bytes: f64,
    iops: f64,
    /// Milliseconds.
    runtime: u64,
    total_ios: u64,
    clat_ns: Distribution,
    lat_ns: Distribution,
}

#[derive(Deserialize, Default)]
struct Sync {
    #[serde(default)]
    lat_ns: Distribution,
}

#[derive(Deserialize, Default)]
struct Distribution {
    #[serde(rename = "N", default)]
    count: u64,
    #[serde(default)]
    min: u64,
    #[serde(default)]
    max: u64,
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    stddev: f64,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
    /// What fio prints without bins: percentages, each with the value below which that share of the samples
    /// is.
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
}

impl Job {
    fn direction(&self, role: Role) -> &Direction {
        if role == Role::Writer { &self.write } else { &self.read }
    }
}

impl Direction {
    fn distribution(&self) -> &Distribution {
        if self.lat_ns.has_quantiles() { &self.lat_ns } else { &self.clat_ns }
    }
}

impl Distribution {
    fn has_quantiles(&self) -> bool {
        !self.bins.is_empty() || !self.percentile.is_empty()
    }

    /// Whether the value at this share of the samples is known: any with bins, otherwise those of fio's
    /// `percentile_list`.
    fn knows(&self, share: f64) -> bool {
        let is_it = |percent: f64| (percent / 100.0 - share).abs() < 1e-9;
        !self.bins.is_empty() || self.percentile.keys().any(|text| text.parse().is_ok_and(is_it))
    }

    /// Values and how often each was seen. Without bins, samples between two percentiles count for the upper
    /// one, and those above the last for the maximum: the percentiles that fio prints are then exact, and
    /// others unknown.
    fn counts(&self) -> Vec<(u64, u64)> {
        if !self.bins.is_empty() {
            let bin = |(value, times): (&String, &u64)| (value.parse().unwrap_or(u64::MAX), *times);
            return self.bins.iter().map(bin).collect();
        }
        let share = |text: &String| text.parse::<f64>().map_or(0.0, |percent| percent / 100.0);
        let mut steps: Vec<(f64, u64)> =
            self.percentile.iter().map(|(text, ns)| (share(text), *ns)).collect();
        steps.push((1.0, self.max));
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0;
        let step = |(share, ns): (f64, u64)| {
            let until = (share * self.count as f64).ceil() as u64;
            let times = until.saturating_sub(below);
            below = below.max(until);
            (ns, times)
        };
        steps.into_iter().map(step).filter(|(_, times)| *times > 0).collect()
    }
}

/// Why a text is not a result of fio.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It is not JSON, or not JSON of fio.
    #[error("cannot parse its JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// One of its jobs failed.
    #[error("{0}")]
    Job(String),
}

/// The JSON document in the output of fio; messages may precede it.
pub fn document(printed: &str) -> Option<&str> {
    printed.find('{').map(|begin| &printed[begin..])
}

/// Reads the output of a run.
///
/// # Errors
/// Why the output is not a result.
pub fn output(stdout: &str) -> Result<Results, String> {
    read(document(stdout).ok_or("it printed no JSON")?).map_err(|error| error.to_string())
}

/// Reads the jobs of a JSON document of fio.
///
/// # Errors
/// [`FioError`].
pub fn read(json: &str) -> Result<Results, FioError> {
    let document: Document = serde_json::from_str(json)?;
    if let Some(job) = document.jobs.iter().find(|job| job.error != 0) {
        return Err(FioError::Job(format!("its job '{}' failed with error {}", job.jobname, job.error)));
    }
    sane::check(&document).map_err(FioError::Job)?;
    let mut groups: Vec<Vec<&Job>> = Vec::new();
    for job in &document.jobs {
        let alike = |group: &&mut Vec<&Job>| group[0].groupid == job.groupid && jobs::alike(group[0], job);
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(job),
            None => groups.push(vec![job]),
        }
    }
    let mut report = Results::default();
    for jobs in groups {
        let mut name = group_name(&jobs);
        while report.phases.iter().any(|phase| phase.name == name) {
            name = format!("{name} (group {})", jobs[0].groupid);
        }
        // Writers before readers, as everywhere.
        let roles: Vec<RoleResult> = [Role::Writer, Role::Reader]
            .into_iter()
            .filter_map(|role| role_of(role, &jobs, &document.global))
            .collect();
        if roles.is_empty() {
            let text = format!("the jobs of '{name}' neither read nor wrote, so they have no figures");
            report.warn(WarningKind::FigureMissing, text);
            continue;
        }
        let timed =
            |role: &RoleResult| role.operations.iter().any(|result| result.operation != Operation::Fsync);
        for role in roles.iter().filter(|role| !timed(role)) {
            let text = format!(
                "fio reports no latency distribution for the {}s of '{name}', so they have no latencies; \
                 remove gtod_reduce, disable_clat and clat_percentiles=0 from the job",
                role.role
            );
            report.warn(WarningKind::FigureMissing, text);
        }
        let runtime = jobs.iter().map(|job| job.read.runtime.max(job.write.runtime)).max().unwrap_or(0);
        report.phases.push(PhaseResult::lasting(name, Nanos::from_millis(runtime), roles));
    }
    Ok(report)
}

fn group_name(jobs: &[&Job]) -> String {
    let mut names: Vec<&str> = jobs.iter().map(|job| job.jobname.as_str()).collect();
    names.dedup();
    names.join(", ")
}

fn role_of(which: Role, jobs: &[&Job], global: &BTreeMap<String, String>) -> Option<RoleResult> {
    let jobs: Vec<&Job> = jobs.iter().copied().filter(|job| job.direction(which).total_ios > 0).collect();
    if jobs.is_empty() {
        return None;
    }
    let workers = jobs.iter().map(|job| clones(job, &jobs, global)).fold(0, u32::saturating_add);
    let mut result = RoleResult::unwatched(which, workers);
    for job in &jobs {
        let direction = job.direction(which);
        result.rates.aggregate_bytes_per_s += direction.bw_bytes;
        result.rates.operations_per_s += direction.iops;
        result.rates.bytes += direction.io_bytes;
        // The processor time of a job that does both counts in one role only.
        if which == Role::Writer || job.write.total_ios == 0 {
            let of = |percent: f64| nanos(job.job_runtime / 1e3 * percent / 100.0);
            result.cpu = result.cpu + CpuTime { user_ns: of(job.usr_cpu), system_ns: of(job.sys_cpu) };
        }
    }
    let parts: Vec<&Distribution> = jobs.iter().map(|job| job.direction(which).distribution()).collect();
    result.operations.extend(operation(operation_of(which, jobs[0], global), &parts));
    if which == Role::Writer {
        let syncs = jobs.iter().map(|job| &job.sync.lat_ns).filter(|sync| sync.count > 0);
        result.operations.extend(operation(Operation::Fsync, &syncs.collect::<Vec<_>>()));
    }
    result.operations.sort_by_key(|result| result.operation);
    Some(result)
}

fn option<'a>(job: &'a Job, global: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    job.options.get(key).or(global.get(key)).map(String::as_str)
}

/// Clones of a job are listed one by one, or the first represents all of them (`group_reporting`).
fn clones(job: &Job, group: &[&Job], global: &BTreeMap<String, String>) -> u32 {
    match group.iter().filter(|other| other.jobname == job.jobname).count() {
        1 => option(job, global, "numjobs").and_then(|count| count.parse().ok()).unwrap_or(1),
        _ => 1,
    }
}

/// The system call of an I/O engine; fio's own default is `psync`.
fn operation_of(which: Role, job: &Job, global: &BTreeMap<String, String>) -> Operation {
    let writes = which == Role::Writer;
    match option(job, global, "ioengine").unwrap_or("psync") {
        "io_uring" if writes => Operation::UringWrite,
        "io_uring" => Operation::UringRead,
        "psync" | "pvsync" | "pvsync2" if writes => Operation::Pwrite,
        "psync" | "pvsync" | "pvsync2" => Operation::Pread,
        _ if writes => Operation::Write,
        _ => Operation::Read,
    }
}

/// Merges distributions. `None` if there are none, or if one has no samples or no known median: a part of the
/// operations says nothing about all of them.
fn operation(operation: Operation, parts: &[&Distribution]) -> Option<OperationResult> {
    if parts.is_empty() || !parts.iter().all(|part| part.count > 0 && part.knows(Quantile::P50.fraction())) {
        return None;
    }
    let mut histogram = Histogram::up_to((1 << LATENCY_BITS) - 1);
    let (mut count, mut mean) = (0_u64, 0.0);
    for part in parts {
        for (value, times) in part.counts() {
            histogram.record_n(value, times);
        }
        count += part.count;
        mean += part.mean * part.count as f64;
    }
    let total = count as f64;
    mean /= total;
    let squares = parts
        .iter()
        .map(|part| part.count as f64 * (part.stddev.powi(2) + (part.mean - mean).powi(2)))
        .sum::<f64>();
    let min = parts.iter().map(|part| part.min).min().unwrap_or(0);
    let max = parts.iter().map(|part| part.max).max().unwrap_or(0);
    // 0 marks it as unknown ([`Latency::known`]).
    let quantile = |share: f64| match parts.iter().all(|part| part.knows(share)) {
        true => histogram.quantile(share).unwrap_or(0).clamp(min, max),
        false => 0,
    };
    Some(OperationResult {
        operation,
        censored: 0,
        lat_ns: Latency {
            count,
            min,
            max,
            mean,
            stddev: (squares / total).sqrt(),
            quantiles: Quantiles::of(|of| quantile(of.fraction())),
            at_least_from: None,
        },
        // Writing to memory cannot fail.
        histogram: histogram.encode().unwrap_or_default(),
        timeline: Timeline::default(),
        slowest: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fio --output-format=json+` of version 3.33 with two groups: two writers reported as one, and a mixed
    /// job.
    const CAPTURED: &str = include_str!("../../captured/fio-3.33.json");

    #[test]
    fn groups_become_phases_with_their_roles() {
        let report = output(CAPTURED).unwrap();
        assert!(report.warnings.is_empty());
        let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["writers", "mixed"]);
        let writers = &report.phases[0].roles;
        assert_eq!((writers.len(), writers[0].role, writers[0].workers), (1, Role::Writer, 2));
        assert_eq!(writers[0].rates.bytes, 32 << 20);
        assert!((writers[0].rates.operations_per_s - 102_400.0).abs() < 0.5);
        // 20 % of 5 ms.
        assert_eq!(writers[0].cpu, CpuTime { user_ns: Nanos(0), system_ns: Nanos::from_millis(1) });
        let mixed: Vec<Role> = report.phases[1].roles.iter().map(|role| role.role).collect();
        assert_eq!(mixed, [Role::Writer, Role::Reader]);
        assert_eq!(report.phases[1].roles[1].cpu, CpuTime::default());
    }

    #[test]
    fn latencies_are_those_of_fio_within_its_bins() {
        let report = output(CAPTURED).unwrap();
        let write = &report.phases[0].roles[0].operations[0];
        assert_eq!(write.operation, Operation::Pwrite);
        let latency = &write.lat_ns;
        assert_eq!((latency.count, latency.min, latency.max), (512, 5087, 2_853_500));
        assert!((latency.mean - 12_517.949).abs() < 0.01 && (latency.stddev - 125_855.97).abs() < 0.1);
        for (ours, fio) in [
            (latency.median(), 6496.0),
            (latency.quantiles[Quantile::P90], 8256.0),
            (latency.quantiles[Quantile::P99], 11_328.0),
        ] {
            assert!((ours as f64 / fio - 1.0).abs() < 0.01, "{ours} against {fio}");
        }
        assert_eq!(latency.quantiles[Quantile::P9999], latency.max);
        let operations = &report.phases[1].roles[0].operations;
        assert_eq!(
            operations.iter().map(|result| result.operation).collect::<Vec<_>>(),
            [Operation::Pwrite, Operation::Fsync]
        );
        assert_eq!(operations[1].lat_ns.count, 59);
    }

    /// The same run as `--output-format=json` prints it: percentiles and no bins.
    #[test]
    fn without_bins_the_percentiles_of_fio_are_used() {
        let mut document: serde_json::Value = serde_json::from_str(CAPTURED).unwrap();
        let mut strip = |direction: &str, kind: &str| {
            let jobs = document["jobs"].as_array_mut().unwrap();
            jobs.iter_mut().for_each(|job| {
                job[direction][kind].as_object_mut().unwrap().remove("bins");
            });
        };
        for direction in ["read", "write"] {
            ["lat_ns", "clat_ns"].into_iter().for_each(|kind| strip(direction, kind));
        }
        let report = read(&document.to_string()).unwrap();
        let latency = &report.phases[0].roles[0].operations[0].lat_ns;
        assert_eq!((latency.count, latency.min, latency.max), (512, 5087, 2_853_500));
        for (ours, fio) in [
            (latency.median(), 6496.0),
            (latency.quantiles[Quantile::P90], 8256.0),
            (latency.quantiles[Quantile::P99], 11_328.0),
        ] {
            assert!((ours as f64 / fio - 1.0).abs() < 0.001, "{ours} against {fio}");
        }
    }

    /// The captured run, with a change to the latencies of every job.
    fn captured_with(change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) -> Results {
        let mut document: serde_json::Value = serde_json::from_str(CAPTURED).unwrap();
        for job in document["jobs"].as_array_mut().unwrap() {
            for (direction, kind) in
                [("read", "lat_ns"), ("read", "clat_ns"), ("write", "lat_ns"), ("write", "clat_ns")]
            {
                change(job[direction][kind].as_object_mut().unwrap());
            }
        }
        read(&document.to_string()).unwrap()
    }

    /// `gtod_reduce=1` and `disable_lat=1` omit samples, `clat_percentiles=0` omits their percentiles.
    #[test]
    fn latencies_that_fio_omits_are_absent_with_a_warning() {
        for without in ["N", "bins"] {
            let report = captured_with(|latency| match without {
                "N" => latency.clear(),
                _ => latency.retain(|key, _| !["bins", "percentile"].contains(&key.as_str())),
            });
            let [writers, mixed] = &report.phases[..] else { panic!("two phases") };
            assert_eq!(writers.roles[0].operations, [], "without {without}");
            assert!((writers.roles[0].rates.operations_per_s - 102_400.0).abs() < 0.5);
            let syncs: Vec<Operation> =
                mixed.roles[0].operations.iter().map(|result| result.operation).collect();
            assert_eq!(syncs, [Operation::Fsync], "the latencies of syncs stay");
            assert_eq!(report.warnings.len(), 3, "{:?}", report.warnings);
            let text = &report.warnings[0].text;
            assert!(text.contains("'writers'") && text.contains("gtod_reduce"), "{text}");
        }
    }

    /// `percentile_list=50:99` without bins.
    #[test]
    fn percentiles_that_are_not_listed_are_unknown() {
        let report = captured_with(|latency| {
            latency.remove("bins");
            if let Some(percentiles) = latency.get_mut("percentile") {
                let listed = |key: &String| ["50.000000", "99.000000"].contains(&key.as_str());
                percentiles.as_object_mut().unwrap().retain(|key, _| listed(key));
            }
        });
        let latency = &report.phases[0].roles[0].operations[0].lat_ns;
        assert!((latency.median() as f64 / 6496.0 - 1.0).abs() < 0.001, "{latency:?}");
        assert!((latency.quantiles[Quantile::P99] as f64 / 11_328.0 - 1.0).abs() < 0.001, "{latency:?}");
        let unknown =
            [Quantile::P90, Quantile::P999, Quantile::P9999].map(|quantile| latency.known(quantile));
        assert_eq!(unknown, [None; 3]);
        assert!(report.warnings.is_empty());
    }

    #[test]
    fn anything_but_a_result_is_an_error() {
        assert_eq!(output("fio: no such job\n").unwrap_err(), "it printed no JSON");
        assert!(output("{ \"jobs\": 3 }").unwrap_err().starts_with("cannot parse its JSON"));
        let failed = CAPTURED.replacen("\"error\" : 0", "\"error\" : 28", 1);
        assert_eq!(output(&failed).unwrap_err(), "its job 'writers' failed with error 28");
    }
}
