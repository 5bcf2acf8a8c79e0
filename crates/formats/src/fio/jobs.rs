//! The options of jobs: which jobs are alike, and whether an entry of the document can be a single job.

use super::{Direction, Document, Job, option};
use fsdyno_core::Bytes;
use std::collections::BTreeMap;

/// Options that say where a job works and how it is called, not what it does.
const WHERE: &[&str] =
    &["description", "directory", "filename", "filename_format", "name", "offset", "offset_increment"];

/// What each job of a document does, by its name: its options and the global ones, without those that say
/// where it does it.
pub type Jobs = BTreeMap<String, BTreeMap<String, String>>;

/// Reads the options of all jobs.
///
/// # Errors
/// If it is not JSON of fio.
pub fn options(json: &str) -> serde_json::Result<Jobs> {
    let document: Document = serde_json::from_str(json)?;
    let of = |job: &Job| {
        let all = document.global.iter().chain(&job.options).filter(|(key, _)| says_what(key));
        (job.jobname.clone(), all.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    Ok(document.jobs.iter().map(of).collect())
}

fn says_what(key: &str) -> bool {
    !WHERE.contains(&key)
}

/// Whether two jobs do the same.
pub(super) fn alike(one: &Job, other: &Job) -> bool {
    let of = |job: &'_ Job| -> Vec<(String, String)> {
        let kept = job.options.iter().filter(|(key, _)| says_what(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    of(one) == of(other)
}

/// How many operations it takes until their mean size says something: the last one of a file may be short.
const ENOUGH: u64 = 1000;

/// Rejects an entry whose figures its own options cannot produce. Under `group_reporting`, fio adds all jobs
/// of a group up and prints the name of one and the options of another, so that one of them seems missing.
pub(super) fn check(job: &Job, document: &Document) -> Result<(), String> {
    let global = &document.global;
    let merged = |why: String| {
        Err(format!(
            "{why}: fio adds different jobs of a group up under group_reporting; remove that option, or \
             start a group for each with new_group"
        ))
    };
    let pattern = option(job, global, "rw").or(option(job, global, "readwrite")).unwrap_or("read");
    let pattern = pattern.split(':').next().unwrap_or(pattern);
    let reads_only = ["read", "randread"].contains(&pattern);
    let writes_only = ["write", "randwrite"].contains(&pattern);
    if (writes_only && job.read.total_ios > 0) || (reads_only && job.write.total_ios > 0) {
        let did = if writes_only { "read" } else { "written" };
        return merged(format!("has {did}, although its options say rw={pattern}"));
    }
    // Forms such as 4k,64k and options such as bsrange give several sizes.
    let several = ["bsrange", "blocksize_range", "bssplit", "bs_unaligned", "bs_is_seq_rand"];
    let size = option(job, global, "bs").or(option(job, global, "blocksize"));
    let Some(size) = size.and_then(|size| size.parse::<Bytes>().ok()) else { return Ok(()) };
    if several.iter().any(|key| option(job, global, key).is_some()) {
        return Ok(());
    }
    let possible = |one: &Direction| {
        let most = u128::from(one.total_ios) * u128::from(size.0);
        let least = if one.total_ios < ENOUGH { 0 } else { most / 100 * 99 };
        (least..=most).contains(&u128::from(one.io_bytes))
    };
    match [&job.read, &job.write].into_iter().all(possible) {
        true => Ok(()),
        false => merged(format!("has operations of other sizes than its option bs={}", size)),
    }
}
