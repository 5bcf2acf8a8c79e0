//! Checks that the figures of a result are possible. A file may come from anybody, and may have been edited
//! or cut off.

use super::document::{Direction, Document, Job, Latencies};
use std::collections::BTreeMap;

/// The limit for every figure of a job, and for the totals of a file: bytes, operations, nanoseconds, or
/// rates of them. A histogram can hold sums up to this limit.
const MOST: u64 = fsdyno_core::figures::LARGEST;
/// The same limit in milliseconds.
const MOST_MS: u64 = MOST / 1_000_000;

/// Rejects figures that contradict each other or exceed the limit, and says which.
pub(super) fn check(document: &Document) -> Result<(), String> {
    for job in document.entries() {
        check_job(job).map_err(|problem| format!("its job '{}' {problem}", job.jobname))?;
    }
    let all = |of: fn(&Direction) -> u64| -> u128 {
        document.entries().flat_map(directions).map(|one| u128::from(of(one))).sum()
    };
    let most = u128::from(MOST);
    match all(|one| one.bytes) > most || all(|one| one.operations) > most || samples(document) > most {
        true => Err("the totals of its jobs are too large".to_string()),
        false => Ok(()),
    }
}

fn directions(job: &Job) -> [&Direction; 4] {
    [&job.read, &job.write, &job.trim, &job.mixed]
}

/// The number of latencies of all jobs together.
fn samples(document: &Document) -> u128 {
    let of_direction = |one: &Direction| [&one.clat_ns, &one.lat_ns].map(count).into_iter().sum::<u128>();
    let of_job =
        |job: &Job| directions(job).into_iter().map(of_direction).sum::<u128>() + count(&job.sync.lat_ns);
    document.entries().map(of_job).sum()
}

fn count(one: &Latencies) -> u128 {
    let bins = one.bins.values().map(|times| u128::from(*times)).sum::<u128>();
    bins.max(u128::from(one.count))
}

fn check_job(job: &Job) -> Result<(), String> {
    let rates = directions(job).map(|one| [one.bytes_per_s, one.operations_per_s]);
    let [runtime, user, system] = [job.job_runtime, job.usr_cpu, job.sys_cpu].map(|time| time.unwrap_or(0.0));
    rates.into_iter().flatten().chain([runtime, user, system]).try_for_each(number)?;
    // The processor time in nanoseconds.
    number(runtime * (user + system) * 1e4)?;
    for direction in directions(job) {
        whole(direction.bytes, MOST)?;
        whole(direction.operations, MOST)?;
        whole(direction.runtime_ms, MOST_MS)?;
        distribution(&direction.clat_ns)?;
        distribution(&direction.lat_ns)?;
    }
    distribution(&job.sync.lat_ns)
}

fn distribution(one: &Latencies) -> Result<(), String> {
    // Without samples, the minimum is the value that fio starts with.
    if one.count == 0 && one.bins.is_empty() && one.percentile.is_empty() {
        return Ok(());
    }
    [one.min, one.max, one.count].into_iter().try_for_each(|value| whole(value, MOST))?;
    [one.mean, one.stddev].into_iter().try_for_each(number)?;
    if one.min > one.max {
        return Err(format!("has a minimum latency of {} ns, above its maximum of {} ns", one.min, one.max));
    }
    one.percentile.values().chain(one.bins.values()).try_for_each(|value| whole(*value, MOST))?;
    keys(&one.bins, "a latency in ns", |text| text.parse::<u64>().is_ok())?;
    let is_percentage = |text: &str| text.parse().is_ok_and(|percent: f64| (0.0..=100.0).contains(&percent));
    keys(&one.percentile, "a percentage", is_percentage)
}

fn keys(of: &BTreeMap<String, u64>, what: &str, fits: impl Fn(&str) -> bool) -> Result<(), String> {
    match of.keys().find(|text| !fits(text)) {
        Some(text) => Err(format!("has '{text}' where {what} should be")),
        None => Ok(()),
    }
}

fn whole(value: u64, most: u64) -> Result<(), String> {
    if value <= most { Ok(()) } else { Err(format!("has a figure of {value}, above the limit of {most}")) }
}

fn number(value: f64) -> Result<(), String> {
    let fits = (0.0..=MOST as f64).contains(&value);
    if fits { Ok(()) } else { Err(format!("has a figure of {value:e}, which is out of range")) }
}
