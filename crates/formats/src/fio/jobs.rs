//! The number of jobs that an entry of a document stands for, and whether the entry can be what its options
//! say.
//!
//! Under `group_reporting`, fio adds the jobs of a group up, and prints the name of one and the options of
//! another. Switches are not among the options that it prints, so only the figures show whether it has done
//! so: `job_runtime` is the sum over the jobs, `runtime` the longest of them.

use super::document::{Direction, Document, Job};
use super::{option, workload};
use fsdyno_core::Bytes;

/// The number of operations from which their mean size is meaningful: the last one of a file may be short.
const ENOUGH: u64 = 1000;

/// Options under which jobs that write also read, or the reverse.
const BOTH_WAYS: &[&str] = &["experimental_verify", "profile", "read_iolog", "verify"];

/// Options under which operations have other sizes than `bs`, or bytes are counted without their operations.
const OTHER_SIZES: &[&str] = &[
    "blockalign",
    "blocksize_range",
    "bs_is_seq_rand",
    "bs_unaligned",
    "bsrange",
    "bssplit",
    "continue_on_error",
    "filesize",
    "nrfiles",
    "profile",
    "ramp_time",
    "read_iolog",
    "zonemode",
    "zonerange",
    "zonesize",
    "zoneskip",
];

/// Options under which jobs sync.
const SYNCS: &[&str] = &[
    "create_fsync",
    "end_fsync",
    "fdatasync",
    "fsync",
    "fsync_on_close",
    "read_iolog",
    "sync_file_range",
    "verify",
];

/// The jobs that an entry stands for.
pub(super) struct JobEntry {
    /// The number of jobs.
    pub jobs: u32,
    /// The fact about the entry that a reader must know.
    pub note: Option<String>,
}

/// An entry of a document, which lists this many of its name in its group and of its client.
///
/// # Errors
/// Why its figures are not those of what it names.
pub(super) fn entry(job: &Job, document: &Document, listed: usize) -> Result<JobEntry, String> {
    // Clones that are listed one by one are one job each.
    if listed > 1 {
        return Ok(JobEntry { jobs: 1, note: None });
    }
    let stated = option(job, document, "numjobs").and_then(|count| count.parse().ok());
    let seen = job.job_runtime.and_then(|sum_ms| Seen::of(job, document, sum_ms, stated.unwrap_or(1)));
    let contradiction = contradiction(job, document);
    let other_name = job.options.get("name").filter(|name| **name != job.jobname);
    let added_up = match (&seen, other_name) {
        (Some(seen), _) => Some(format!("{seen}, and numjobs is {}", stated.unwrap_or(1))),
        (None, Some(name)) => Some(format!("its options are those of '{name}'")),
        (None, None) => None,
    };
    let Some(evidence) = added_up else {
        return match contradiction {
            None => Ok(JobEntry { jobs: stated.unwrap_or(1).max(1), note: None }),
            Some(contradiction) => Err(format!(
                "{contradiction}, and none of its options explains that{}",
                grouped(job, document)
            )),
        };
    };
    // Jobs that differ only in where they work have nothing but that among their own options.
    let own = job.options.keys().filter(|key| !["name", "numjobs"].contains(&key.as_str()));
    let only_where = own.clone().count() > 0 && own.clone().all(|key| !workload::says_what(key));
    let why = contradiction
        .or_else(|| unasked_syncs(job, document))
        .or_else(|| (!only_where).then(|| "the options of the others are not known".to_string()));
    match why {
        None => {
            let jobs = seen.map_or(2, |seen| seen.jobs);
            let note = format!(
                "'{}' stands for {jobs} jobs, which fio has added up under group_reporting: {evidence}",
                job.jobname
            );
            Ok(JobEntry { jobs, note: Some(note) })
        }
        Some(why) => Err(format!(
            "stands for several jobs ({evidence}), and {why}; fio adds jobs up under group_reporting: remove \
             that option, or start a group for each with new_group"
        )),
    }
}

/// More jobs than the options say.
struct Seen {
    jobs: u32,
    sum_ms: f64,
    /// The longest of the directions, or their sum if one follows the other.
    lasted: (String, f64),
}

impl Seen {
    fn of(job: &Job, document: &Document, sum_ms: f64, stated: u32) -> Option<Seen> {
        let lasted = lasted(job, document);
        let jobs = (sum_ms / lasted.1).round();
        // Each time is rounded up to a millisecond.
        let rounding_ms = 2.0 * f64::from(stated);
        let beyond_ms = sum_ms - f64::from(stated) * lasted.1;
        let more = jobs > f64::from(stated) && beyond_ms > rounding_ms;
        (more && jobs.is_finite()).then_some(Seen { jobs: jobs as u32, sum_ms, lasted })
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, ms) = &self.lasted;
        write!(f, "job_runtime {} ms is {} x {name} {ms} ms", self.sum_ms, self.jobs)
    }
}

/// Returns the duration of one of the jobs of an entry, in milliseconds, with the figures that state it.
pub(super) fn lasted(job: &Job, document: &Document) -> (String, f64) {
    let all = [("read", &job.read), ("write", &job.write), ("trim", &job.trim), ("mixed", &job.mixed)];
    let ran = all.into_iter().filter(|(_, one)| one.runtime_ms > 0);
    let ran: Vec<(&str, f64)> = ran.map(|(name, one)| (name, one.runtime_ms as f64)).collect();
    let verifies = option(job, document, "verify").is_some();
    // What was written is read afterwards.
    if verifies && ran.len() > 1 {
        let names: Vec<String> = ran.iter().map(|(name, _)| format!("{name}.runtime")).collect();
        return (names.join(" + "), ran.iter().map(|(_, ms)| ms).sum());
    }
    let longest = ran.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    longest.map_or((String::new(), 0.0), |(name, ms)| (format!("{name}.runtime"), ms))
}

/// The option that adds jobs up, if it is set.
fn grouped(job: &Job, document: &Document) -> &'static str {
    match option(job, document, "group_reporting") {
        None | Some("0") => "; its figures may be those of other jobs, too",
        Some(_) => {
            "; group_reporting adds different jobs up: remove it, or start a group for each with new_group"
        }
    }
}

/// Figures that the options of an entry cannot produce.
fn contradiction(job: &Job, document: &Document) -> Option<String> {
    let is_set = |keys: &[&str]| keys.iter().any(|key| option(job, document, key).is_some_and(is_on));
    let pattern = option(job, document, "rw").or(option(job, document, "readwrite"));
    let word = pattern.map(|pattern| pattern.split(':').next().unwrap_or(pattern));
    let unasked = match word {
        Some("write" | "randwrite" | "trimwrite") => ("read", "reads", job.read.operations),
        Some("read" | "randread") => ("written", "writes", job.write.operations),
        _ => ("", "", 0),
    };
    if let ((did, what, operations @ 1..), Some(pattern)) = (unasked, pattern)
        && !is_set(BOTH_WAYS)
    {
        return Some(format!("has {did} ({operations} {what}), although its options say rw={pattern}"));
    }
    if is_set(OTHER_SIZES) {
        return None;
    }
    let sizes = option(job, document, "bs").or(option(job, document, "blocksize"))?;
    let decimal = option(job, document, "kb_base") == Some("1000");
    let all = [("reads", 0, &job.read), ("writes", 1, &job.write), ("trims", 2, &job.trim)];
    all.into_iter().find_map(|(what, index, one)| {
        // The last of several counts for the rest.
        let size = sizes.split(',').nth(index).or(sizes.rsplit(',').next()).unwrap_or(sizes);
        let mean = one.bytes as f64 / one.operations.max(1) as f64;
        (!has_size(one, size.parse().ok()?, decimal)).then(|| {
            format!(
                "has {} {what} of {mean:.0} bytes on average, although its options say bs={sizes}",
                one.operations
            )
        })
    })
}

fn is_on(value: &str) -> bool {
    value != "0" && value != "none"
}

/// Returns whether operations of this size move so many bytes. With `kb_base=1000` a k is 1000, if that
/// option precedes the size.
fn has_size(one: &Direction, size: Bytes, decimal: bool) -> bool {
    let most = u128::from(one.operations) * u128::from(size.0);
    let least = match one.operations {
        operations if operations < ENOUGH || one.short > 0 => 0,
        _ if decimal => most / 100 * 85,
        _ => most / 100 * 99,
    };
    (least..=most).contains(&u128::from(one.bytes))
}

/// Syncs that none of the options asks for.
fn unasked_syncs(job: &Job, document: &Document) -> Option<String> {
    let asked = SYNCS.iter().any(|key| option(job, document, key).is_some_and(is_on));
    let syncs = job.sync.operations;
    (syncs > 0 && !asked).then(|| format!("has {syncs} syncs, for which its options do not ask"))
}
