//! The JSON documents in what fio printed, whatever its version, as one structure.
//!
//! | version | what differs |
//! |---|---|
//! | 2.x | latencies in microseconds (`clat`), `io_bytes` in KiB |
//! | 3.0, 3.1 | no `bw_bytes` |
//! | up to 3.7 | no `job_runtime` |
//! | up to 3.17 | no `N` of latencies |
//!
//! Messages may precede a document, and what fio prints for people may follow it. With `--status-interval`
//! there is a document for each interval, each with everything since the start: the last one counts.
//! Documents of runs that began one after the other are results of their own.

use super::FioError;
use super::bounded::{MOST_JOBS, jobs, table};
use super::number::{decimal, whole};
use crate::run::MOST_RUNS;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The entry that adds up those of all clients.
const ALL_CLIENTS: &str = "All clients";

/// The most by which the starts of two documents of one run may differ, because fio rounds the elapsed time
/// up to a second.
const SAME_START_MS: i64 = 1000;

/// Bytes of a KiB.
const KIB: u64 = 1024;

#[derive(Debug, Deserialize)]
pub(super) struct Document {
    #[serde(rename = "fio version")]
    pub version: Option<String>,
    /// Seconds since 1970, when it was printed.
    pub timestamp: Option<i64>,
    timestamp_ms: Option<i64>,
    #[serde(rename = "global options", default, deserialize_with = "table")]
    pub global: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "jobs")]
    pub jobs: Option<Vec<Job>>,
    /// The jobs of all clients, in a run with `--client`.
    #[serde(default, deserialize_with = "jobs")]
    client_stats: Option<Vec<Job>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub jobname: String,
    #[serde(default)]
    pub groupid: u32,
    #[serde(default)]
    pub error: i32,
    /// Errors in spite of which it went on (`continue_on_error`).
    #[serde(default, deserialize_with = "whole")]
    pub total_err: Option<u64>,
    /// Seconds since the start of the run, rounded up.
    #[serde(default, deserialize_with = "whole")]
    elapsed: Option<u64>,
    pub hostname: Option<String>,
    #[serde(default, deserialize_with = "whole")]
    pub port: Option<u64>,
    #[serde(rename = "job options", default, deserialize_with = "table")]
    pub options: BTreeMap<String, String>,
    #[serde(default)]
    pub read: Direction,
    #[serde(default)]
    pub write: Direction,
    #[serde(default)]
    pub trim: Direction,
    /// All of them together (`unified_rw_reporting`).
    #[serde(default)]
    pub mixed: Direction,
    #[serde(default)]
    pub sync: Syncs,
    /// Milliseconds of all its clones together, to which the percentages below refer.
    #[serde(default, deserialize_with = "decimal")]
    pub job_runtime: Option<f64>,
    #[serde(default, deserialize_with = "decimal")]
    pub usr_cpu: Option<f64>,
    #[serde(default, deserialize_with = "decimal")]
    pub sys_cpu: Option<f64>,
}

/// The reads, writes or trims of a job.
#[derive(Debug, Deserialize, Default)]
#[serde(from = "PrintedDirection")]
pub(super) struct Direction {
    pub bytes: u64,
    pub operations: u64,
    /// Milliseconds.
    pub runtime_ms: u64,
    pub bytes_per_s: f64,
    pub operations_per_s: f64,
    pub short: u64,
    pub clat_ns: Latencies,
    pub lat_ns: Latencies,
}

#[derive(Debug, Deserialize, Default)]
#[serde(from = "PrintedSyncs")]
pub(super) struct Syncs {
    pub operations: u64,
    pub lat_ns: Latencies,
}

/// A distribution of latencies in nanoseconds, as far as it is printed.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    pub count: u64,
    pub min: u64,
    pub max: u64,
    pub mean: f64,
    pub stddev: f64,
    pub bins: BTreeMap<String, u64>,
    /// The percentiles that fio prints without bins: percentages, each with the value below which that share
    /// of the samples is.
    pub percentile: BTreeMap<String, u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PrintedDirection {
    #[serde(deserialize_with = "whole")]
    io_bytes: Option<u64>,
    #[serde(deserialize_with = "whole")]
    io_kbytes: Option<u64>,
    #[serde(deserialize_with = "decimal")]
    bw_bytes: Option<f64>,
    /// KiB/s.
    #[serde(deserialize_with = "decimal")]
    bw: Option<f64>,
    #[serde(deserialize_with = "decimal")]
    iops: Option<f64>,
    #[serde(deserialize_with = "whole")]
    runtime: Option<u64>,
    #[serde(deserialize_with = "whole")]
    total_ios: Option<u64>,
    #[serde(deserialize_with = "whole")]
    short_ios: Option<u64>,
    clat_ns: Option<PrintedLatencies>,
    lat_ns: Option<PrintedLatencies>,
    clat: Option<PrintedLatencies>,
    lat: Option<PrintedLatencies>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PrintedSyncs {
    #[serde(deserialize_with = "whole")]
    total_ios: Option<u64>,
    lat_ns: PrintedLatencies,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PrintedLatencies {
    #[serde(rename = "N", deserialize_with = "whole")]
    samples: Option<u64>,
    #[serde(deserialize_with = "whole")]
    min: Option<u64>,
    #[serde(deserialize_with = "whole")]
    max: Option<u64>,
    #[serde(deserialize_with = "decimal")]
    mean: Option<f64>,
    #[serde(deserialize_with = "decimal")]
    stddev: Option<f64>,
    #[serde(deserialize_with = "table")]
    bins: BTreeMap<String, u64>,
    #[serde(deserialize_with = "table")]
    percentile: BTreeMap<String, u64>,
}

impl From<PrintedDirection> for Direction {
    fn from(printed: PrintedDirection) -> Direction {
        let operations = printed.total_ios.unwrap_or(0);
        let runtime_ms = printed.runtime.unwrap_or(0);
        let bytes = printed.bytes();
        let per_second = |amount: u64| match runtime_ms {
            0 => 0.0,
            ms => amount as f64 * 1e3 / ms as f64,
        };
        let of = |ns: Option<PrintedLatencies>, us: Option<PrintedLatencies>| match (ns, us) {
            (Some(ns), _) => ns.latencies(operations, 1),
            (None, Some(us)) => us.latencies(operations, 1000),
            (None, None) => Latencies::default(),
        };
        Direction {
            bytes,
            operations,
            runtime_ms,
            bytes_per_s: printed.bw_bytes.unwrap_or_else(|| per_second(bytes)),
            operations_per_s: printed.iops.unwrap_or_else(|| per_second(operations)),
            short: printed.short_ios.unwrap_or(0),
            clat_ns: of(printed.clat_ns, printed.clat),
            lat_ns: of(printed.lat_ns, printed.lat),
        }
    }
}

impl PrintedDirection {
    /// The bytes. Until `io_kbytes` was added, `io_bytes` was in KiB at first; the bandwidth says which.
    fn bytes(&self) -> u64 {
        let printed = self.io_bytes.unwrap_or(0);
        if self.io_kbytes.is_some() || self.bw_bytes.is_some() {
            return printed;
        }
        let kib = self.bw.zip(self.runtime).map(|(kib_per_s, ms)| kib_per_s * ms as f64 / 1e3);
        let is_kib = match kib.filter(|kib| *kib > 0.0) {
            // Halfway between 1 and 1024, so that rounding does not matter.
            Some(kib) => (printed as f64) < kib * 32.0,
            None => self.clat_ns.is_none(),
        };
        if is_kib { printed.saturating_mul(KIB) } else { printed }
    }
}

impl From<PrintedSyncs> for Syncs {
    fn from(printed: PrintedSyncs) -> Syncs {
        let lat_ns = printed.lat_ns.latencies(printed.total_ios.unwrap_or(0), 1);
        Syncs { operations: printed.total_ios.unwrap_or(lat_ns.count), lat_ns }
    }
}

impl PrintedLatencies {
    /// These latencies, of this many operations, printed in this many nanoseconds.
    fn latencies(self, operations: u64, unit_ns: u64) -> Latencies {
        let ns = |value: Option<u64>| value.unwrap_or(0).saturating_mul(unit_ns);
        let decimal_ns = |value: Option<f64>| value.unwrap_or(0.0) * unit_ns as f64;
        let scaled = |values: BTreeMap<String, u64>| {
            values.into_iter().map(|(key, value)| (key, value.saturating_mul(unit_ns))).collect()
        };
        let (min, max) = (ns(self.min), ns(self.max));
        // Without samples, versions print a minimum of 0 or the largest number, and a maximum of 0.
        let measured = max > 0 || !self.bins.is_empty();
        Latencies {
            count: self.samples.unwrap_or(if measured { operations } else { 0 }),
            min,
            max,
            mean: decimal_ns(self.mean),
            stddev: decimal_ns(self.stddev),
            // Up to 3.0, their keys are the numbers of bins.
            bins: if self.bins.contains_key("FIO_IO_U_PLAT_BITS") { BTreeMap::new() } else { self.bins },
            percentile: scaled(self.percentile),
        }
    }
}

impl Document {
    /// The entries to read: of a run with clients those of each, without their sum.
    pub fn entries(&self) -> impl Iterator<Item = &Job> {
        let of_clients = self.client_stats.as_deref().unwrap_or_default();
        let each = of_clients.iter().filter(|job| of_clients.len() == 1 || job.jobname != ALL_CLIENTS);
        self.jobs.iter().flatten().chain(each)
    }

    /// The number of clients, unless fio ran on this machine alone.
    pub fn clients(&self) -> usize {
        let clients: BTreeSet<_> =
            self.entries().filter_map(|job| Some((job.hostname.as_ref()?, job.port))).collect();
        clients.len()
    }

    /// Milliseconds since 1970, when its run began.
    fn began_ms(&self) -> Option<i64> {
        let elapsed = self.entries().filter_map(|job| job.elapsed).max()?;
        let printed = self.timestamp_ms.or(self.timestamp.map(|seconds| seconds.saturating_mul(1000)))?;
        Some(printed.saturating_sub(i64::try_from(elapsed).unwrap_or(i64::MAX).saturating_mul(1000)))
    }

    /// Returns whether this document continues the run of an earlier one.
    fn continues(&self, before: &Document) -> bool {
        let [a, b] = [before.began_ms(), self.began_ms()];
        let together = a.zip(b).is_some_and(|(a, b)| a.abs_diff(b) <= SAME_START_MS.unsigned_abs());
        let counts = |job: &Job| {
            let of = |one: &Direction| [one.bytes, one.operations, one.runtime_ms];
            [of(&job.read), of(&job.write), of(&job.trim), of(&job.mixed)].concat()
        };
        let grew = |(before, after): (&Job, &Job)| {
            let mut counted = counts(before).into_iter().zip(counts(after));
            (&before.jobname, before.groupid) == (&after.jobname, after.groupid)
                && counted.all(|(before, after)| before <= after)
        };
        together
            && before.entries().count() == self.entries().count()
            && before.entries().zip(self.entries()).all(grew)
    }
}

/// The last document of each run in what fio printed, and what must be known about it.
pub(super) fn last_of_each_run(printed: &str) -> Result<Vec<(Document, Option<String>)>, FioError> {
    let mut runs: Vec<(Document, Option<String>)> = Vec::new();
    let (mut at, mut failed, mut entries) = (0, None::<FioError>, 0);
    while let Some(begin) = next(printed, at, failed.is_some()) {
        let mut stream = serde_json::Deserializer::from_str(&printed[begin..]).into_iter::<Document>();
        match stream.next() {
            Some(Ok(document)) if document.jobs.is_some() || document.client_stats.is_some() => {
                at = begin + stream.byte_offset();
                match runs.last_mut() {
                    Some((last, _)) if document.continues(last) => *last = document,
                    _ => {
                        entries += document.entries().count();
                        if entries > MOST_JOBS || runs.len() == MOST_RUNS {
                            let problem = format!("a file has at most {MOST_JOBS} jobs and {MOST_RUNS} runs");
                            return Err(FioError::Job(problem));
                        }
                        runs.push((document, None));
                    }
                }
                failed = None;
            }
            read => {
                let error = read
                    .and_then(Result::err)
                    .unwrap_or_else(|| serde::de::Error::custom("it has neither 'jobs' nor 'client_stats'"));
                at = begin + 1;
                failed.get_or_insert(FioError::Json { error, begin });
            }
        }
    }
    match failed {
        None if runs.is_empty() => Err(FioError::NoJson(instead(printed))),
        None => Ok(runs),
        Some(FioError::Json { error, .. }) if error.is_eof() && !runs.is_empty() => {
            let note = "its last document is cut off, so its figures are those of the one before";
            runs.last_mut().into_iter().for_each(|(_, of_last)| *of_last = Some(note.to_string()));
            Ok(runs)
        }
        Some(error) => Err(error),
    }
}

/// Where the next document may begin: the first anywhere, since a message may precede it on its line, the
/// next one right after it, and any other at the beginning of a line.
fn next(printed: &str, from: usize, failed: bool) -> Option<usize> {
    let rest = &printed[from..];
    let space = rest.len() - rest.trim_start().len();
    let of_line = || rest.find("\n{").map(|at| at + 1);
    let at = match (from, failed) {
        (0, false) => rest.find('{'),
        (_, false) if rest[space..].starts_with('{') => Some(space),
        _ => of_line(),
    };
    at.map(|at| from + at)
}

/// Returns a description of the format that was printed instead of JSON.
fn instead(printed: &str) -> &'static str {
    let is_terse =
        |line: &str| line.split_once(";fio-").is_some_and(|(version, _)| version.parse::<u32>().is_ok());
    if printed.lines().any(is_terse) {
        return "the terse format, which does not name its figures; run fio with --output-format=json";
    }
    if printed.contains("(groupid=") || printed.contains("Run status group") {
        return "the text for people; run fio with --output-format=json";
    }
    "none"
}
