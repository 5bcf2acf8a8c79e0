//! fio: the JSON that it prints, `json` and `json+`.
//!
//! A phase is the jobs with the same options in a group as fio groups them (`new_group`, `stonewall`): what
//! they read appears as readers, what they write as writers, what they trim as trimmers. Jobs that differ,
//! such as a log and the data files of a database, are phases of their own, which ran at the same time.
//! Latency distributions come from fio's own bins, 64 to each power of two, so quantiles are accurate to 0.8
//! %; minimum, maximum, mean and deviation are exact. Plain JSON has percentiles and no bins: those of one
//! job are read as printed, those of several are means, with a warning. With `lat_percentiles=1` the
//! distribution is that of the total latency, otherwise of the completion latency (`clat`). If a job file
//! makes fio omit samples or percentiles (`gtod_reduce`, `clat_percentiles=0`), there are rates but no
//! latencies, and a warning says so.

mod bounded;
mod document;
mod jobs;
mod number;
mod sane;

use crate::{Results, nanos};
use document::{Direction, Document, Job, Latencies};
use fsdyno_core::figures::LATENCY_BITS;
use fsdyno_core::result::{
    CpuTime, Latency, OperationResult, Quantile, Quantiles, Rates, RoleResult, Timeline,
};
use fsdyno_core::workload::external::fio as workload;
use fsdyno_core::{Operation, PhaseResult, Role, WarningKind};
use fsdyno_stats::Distribution as Histogram;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The error of a job whose `verify` found something else than what was written: EILSEQ. A wrong byte fails a
/// trial, even if fio was to go on.
const WRONG_DATA: i32 = 84;

/// Engines that create, examine or remove names, which fio reports as reads of as many bytes as the files
/// have.
const OF_NAMES: [(&str, Role, Operation); 6] = [
    ("dircreate", Role::Creator, Operation::Mkdirat),
    ("dirdelete", Role::Deleter, Operation::Rmdir),
    ("dirstat", Role::Examiner, Operation::Statx),
    ("filecreate", Role::Creator, Operation::Create),
    ("filedelete", Role::Deleter, Operation::Unlinkat),
    ("filestat", Role::Examiner, Operation::Statx),
];

/// A run of fio.
#[derive(Debug, PartialEq)]
pub struct FioRun {
    /// `fio-3.33`.
    pub version: Option<String>,
    /// Seconds since 1970, when it ended.
    pub timestamp: Option<i64>,
    /// The options of its jobs by name; empty if they are not printed.
    pub options: BTreeMap<String, String>,
    /// The results of the run.
    pub results: Results,
}

impl Direction {
    fn latencies(&self) -> &Latencies {
        if self.lat_ns.has_quantiles() { &self.lat_ns } else { &self.clat_ns }
    }
}

impl Latencies {
    fn has_quantiles(&self) -> bool {
        !self.bins.is_empty() || !self.percentile.is_empty()
    }

    /// Returns whether the value at this share of the samples is known: any with bins, otherwise those of
    /// fio's `percentile_list`.
    fn knows(&self, share: f64) -> bool {
        let is_it = |text: &String| text.parse().is_ok_and(|percent| is_share(percent, share));
        !self.bins.is_empty() || self.percentile.keys().any(is_it)
    }

    /// The value at this share of the samples, which must be known.
    fn quantile(&self, share: f64) -> u64 {
        if !self.bins.is_empty() {
            return self.histogram().quantile(share).unwrap_or(0);
        }
        let at = |(text, _): &(&String, &u64)| text.parse().is_ok_and(|percent| is_share(percent, share));
        self.percentile.iter().find(at).map_or(0, |(_, ns)| *ns)
    }

    /// The samples of the bins.
    fn histogram(&self) -> Histogram {
        let mut histogram = empty_histogram();
        for (value, times) in &self.bins {
            histogram.record_n(value.parse().unwrap_or(u64::MAX), *times);
        }
        histogram
    }
}

fn is_share(percent: f64, share: f64) -> bool {
    (percent / 100.0 - share).abs() < 1e-9
}

fn empty_histogram() -> Histogram {
    Histogram::up_to((1 << LATENCY_BITS) - 1)
}

/// Why a text is not a result of fio.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It has no JSON.
    #[error("expected the JSON output of fio, found {0}")]
    NoJson(&'static str),
    /// It is not JSON of fio.
    #[error("cannot parse its JSON: {error}")]
    Json {
        /// The error; its position is that in the document.
        error: serde_json::Error,
        /// Where the document begins in the text, in bytes.
        begin: usize,
    },
    /// One of its jobs has no figures that could be used.
    #[error("{0}")]
    Job(String),
}

/// Reads the output of a run.
///
/// # Errors
/// Why the output is not a result.
pub fn output(stdout: &str) -> Result<Results, String> {
    let runs = runs(stdout).map_err(|error| error.to_string())?;
    Ok(runs.into_iter().next_back().map(|run| run.results).unwrap_or_default())
}

/// Reads the runs whose JSON is in a text, at least one.
///
/// # Errors
/// [`FioError`].
pub fn runs(printed: &str) -> Result<Vec<FioRun>, FioError> {
    let printed = with_null(printed);
    let documents = document::last_of_each_run(&printed)?;
    documents.into_iter().map(|(document, note)| run(&document, note)).collect()
}

/// The text with `null` for what JSON has no number for. Positions stay the same.
fn with_null(printed: &str) -> Cow<'_, str> {
    const NOT_NUMBERS: [(&str, &str); 4] =
        [(": -nan", ": null"), (": -inf", ": null"), (": nan", ":null"), (": inf", ":null")];
    let mut text = Cow::Borrowed(printed);
    for ((found, null), end) in
        NOT_NUMBERS.into_iter().flat_map(|pair| [",", "\n", "\r"].map(|end| (pair, end)))
    {
        let found = format!("{found}{end}");
        if text.contains(&found) {
            text = Cow::Owned(text.replace(&found, &format!("{null}{end}")));
        }
    }
    text
}

fn run(document: &Document, note: Option<String>) -> Result<FioRun, FioError> {
    if let Some(job) = document.entries().find(|job| job.error == WRONG_DATA) {
        let errors = job.total_err.map_or(String::new(), |count| format!(": {count} errors of verify"));
        return Err(FioError::Job(format!("its job '{}' read wrong data{errors}", job.jobname)));
    }
    let failed = document.entries().find(|job| job.error != 0 && !job.went_on(document));
    if let Some(job) = failed {
        return Err(FioError::Job(format!("its job '{}' failed with {}", job.jobname, job.cause())));
    }
    sane::check(document).map_err(FioError::Job)?;
    let of_jobs = document.entries().map(|job| {
        let global = document.global.iter().filter(|(key, _)| !job.options.contains_key(*key));
        let options = job.options.iter().chain(global).map(|(key, value)| (key.as_str(), value.as_str()));
        (job.jobname.as_str(), options)
    });
    let mut options = workload::options_of(of_jobs);
    if document.clients() > 1 {
        options.insert("clients".to_string(), document.clients().to_string());
    }
    let mut results = results(document, &mut options).map_err(FioError::Job)?;
    note.into_iter().for_each(|note| results.warn(WarningKind::FigureMissing, note));
    Ok(FioRun { version: document.version.clone(), timestamp: document.timestamp, options, results })
}

impl Job {
    /// Returns whether the job was to go on after errors, and did.
    fn went_on(&self, document: &Document) -> bool {
        self.total_err.is_some() || option(self, document, "continue_on_error").is_some()
    }

    /// The error in words.
    fn cause(&self) -> String {
        let text = std::io::Error::from_raw_os_error(self.error).to_string();
        // The system adds the number itself.
        let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        format!("error {} ({text})", self.error)
    }

    fn direction(&self, role: Role) -> &Direction {
        match role {
            Role::Writer => &self.write,
            Role::Trimmer => &self.trim,
            Role::ReaderWriter => &self.mixed,
            _ => &self.read,
        }
    }

    /// The roles in which it worked; writers before readers, as everywhere. What is reported together counts
    /// only where it is not reported by itself, too.
    fn roles(&self) -> impl Iterator<Item = Role> {
        let each = [Role::Writer, Role::Reader, Role::Trimmer].into_iter();
        let each: Vec<Role> = each.filter(|role| self.direction(*role).operations > 0).collect();
        let mixed = each.is_empty() && self.mixed.operations > 0;
        each.into_iter().chain(mixed.then_some(Role::ReaderWriter))
    }
}

/// The jobs that do the same in one group, each with the number of jobs that it stands for.
type Group<'a> = Vec<(&'a Job, u32)>;

/// Reads the jobs. Those that were added up also count as an option: it matters how many they were.
fn results(document: &Document, options: &mut BTreeMap<String, String>) -> Result<Results, String> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut report = Results::default();
    let place = |job: &Job| (job.jobname.clone(), job.groupid, job.hostname.clone(), job.port);
    let mut listed: BTreeMap<_, usize> = BTreeMap::new();
    document.entries().for_each(|job| *listed.entry(place(job)).or_default() += 1);
    for job in document.entries() {
        let entry = jobs::entry(job, document, listed[&place(job)])
            .map_err(|problem| format!("its job '{}' {problem}", job.jobname))?;
        if let Some(note) = entry.note {
            options.insert(format!("jobs added up in {}", job.jobname), entry.jobs.to_string());
            report.warn(WarningKind::FigureMissing, note);
        }
        if job.error != 0 {
            report.warn(WarningKind::FigureMissing, errors_of(job));
        }
        let alike = |group: &&mut Group<'_>| group[0].0.groupid == job.groupid && alike(group[0].0, job);
        match groups.iter_mut().find(alike) {
            Some(group) => group.push((job, entry.jobs)),
            None => groups.push(vec![(job, entry.jobs)]),
        }
    }
    for group in groups {
        add_phase(&group, document, &mut report);
    }
    Ok(report)
}

/// Returns whether two jobs do the same.
fn alike(one: &Job, other: &Job) -> bool {
    let does = |job: &'_ Job| -> Vec<(String, String)> {
        let kept = job.options.iter().filter(|(key, _)| workload::says_what(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    does(one) == does(other)
}

/// Returns the text about a job that went on after errors.
fn errors_of(job: &Job) -> String {
    let errors = job.total_err.map_or("errors".to_string(), |count| match count {
        1 => "1 error".to_string(),
        count => format!("{count} errors"),
    });
    format!(
        "job '{}' met {errors} and went on (continue_on_error); the first was {}",
        job.jobname,
        job.cause()
    )
}

fn add_phase(group: &Group<'_>, document: &Document, report: &mut Results) {
    let mut name = group_name(group);
    while report.phases.iter().any(|phase| phase.name == name) {
        name = format!("{name} (group {})", group[0].0.groupid);
    }
    const ROLES: [Role; 4] = [Role::Writer, Role::Reader, Role::Trimmer, Role::ReaderWriter];
    let roles: Vec<RoleResult> =
        ROLES.into_iter().filter_map(|role| role_of(role, group, document)).collect();
    if roles.is_empty() {
        let text = format!("the jobs of '{name}' did not read, write or trim, so they have no figures");
        return report.warn(WarningKind::FigureMissing, text);
    }
    let timed = |role: &RoleResult| role.operations.iter().any(|result| result.operation != Operation::Fsync);
    for role in roles.iter().filter(|role| !timed(role)) {
        let text = format!(
            "fio reports no latency distribution for the {}s of '{name}', so they have no latencies; {}",
            role.role,
            why_untimed(group[0].0, document)
        );
        report.warn(WarningKind::FigureMissing, text);
    }
    if roles.iter().any(|role| role.role == Role::ReaderWriter) {
        let text = format!(
            "fio reports the reads and writes of '{name}' together; remove unified_rw_reporting from the job"
        );
        report.warn(WarningKind::FigureMissing, text);
    }
    for role in roles.iter().filter(|role| timed(role) && !adds_up(role.role, group)) {
        let text = format!(
            "each percentile of the {}s of '{name}' is the mean of those of its {} jobs, and not that of all \
             their operations, which plain JSON does not tell; run fio with --output-format=json+",
            role.role,
            group.len()
        );
        report.warn(WarningKind::FigureMissing, text);
    }
    let lasted_ms = group.iter().map(|(job, _)| jobs::lasted(job, document).1).fold(0.0, f64::max);
    report.phases.push(PhaseResult::lasting(name, nanos(lasted_ms / 1e3), roles));
}

/// Returns whether the latencies of all jobs of a role are those of one sample: of a single job, or with
/// bins.
fn adds_up(which: Role, group: &Group<'_>) -> bool {
    let of =
        |role: Role| if OF_NAMES.iter().any(|(_, named, _)| *named == role) { Role::Reader } else { role };
    let worked =
        group.iter().map(|(job, _)| job.direction(of(which)).latencies()).filter(|one| one.count > 0);
    let without_bins = worked.clone().any(|one| one.bins.is_empty());
    worked.count() < 2 || !without_bins
}

/// The option because of which there are no latencies, if it is printed.
fn why_untimed(job: &Job, document: &Document) -> String {
    const OMIT: [(&str, Option<&str>); 5] = [
        ("gtod_reduce", None),
        ("disable_clat", None),
        ("disable_lat", None),
        ("clat_percentiles", Some("0")),
        ("percentile_list", None),
    ];
    let set = OMIT.into_iter().find_map(|(key, omits)| {
        let value = option(job, document, key)?;
        omits.is_none_or(|omits| omits == value).then(|| format!("remove {key}={value} from the job"))
    });
    set.unwrap_or("fio omits it with gtod_reduce, disable_clat or clat_percentiles=0".to_string())
}

fn group_name(group: &Group<'_>) -> String {
    let mut names: Vec<&str> = group.iter().map(|(job, _)| job.jobname.as_str()).collect();
    names.dedup();
    names.join(", ")
}

fn role_of(which: Role, group: &Group<'_>, document: &Document) -> Option<RoleResult> {
    let worked = |(job, _): &&(&Job, u32)| job.roles().any(|role| role == which);
    let group: Vec<&(&Job, u32)> = group.iter().filter(worked).collect();
    let (first, _) = group.first()?;
    let workers = group.iter().map(|(_, jobs)| *jobs).fold(0, u32::saturating_add);
    let mut result = RoleResult::unwatched(which, workers);
    for (job, _) in &group {
        let direction = job.direction(which);
        result.rates.aggregate_bytes_per_s += direction.bytes_per_s;
        result.rates.operations_per_s += direction.operations_per_s;
        // What is trimmed is not moved.
        result.rates.bytes += if which == Role::Trimmer { 0 } else { direction.bytes };
        // The processor time of a job that does several things counts in one role only.
        if let Some(((runtime_ms, user), system)) = job.job_runtime.zip(job.usr_cpu).zip(job.sys_cpu)
            && job.roles().next() == Some(which)
        {
            let of = |percent: f64| nanos(runtime_ms / 1e3 * percent / 100.0);
            result.cpu = result.cpu + CpuTime { user_ns: of(user), system_ns: of(system) };
        }
    }
    let parts: Vec<&Latencies> = group.iter().map(|(job, _)| job.direction(which).latencies()).collect();
    let engine = option(first, document, "ioengine");
    let of_names = OF_NAMES.iter().find(|(name, ..)| which == Role::Reader && engine == Some(name));
    match of_names {
        None => result.operations.extend(operation(operation_of(which, engine), &parts)),
        Some((_, role, step)) => {
            let items = group.iter().map(|(job, _)| job.direction(which).operations).sum();
            let operations_per_s = result.rates.operations_per_s;
            result.role = *role;
            result.rates =
                Rates { operations_per_s, items_per_s: operations_per_s, items, ..Rates::default() };
            result.operations.extend(operation(*step, &parts));
        }
    }
    if which == Role::Writer {
        let syncs = group.iter().map(|(job, _)| &job.sync.lat_ns).filter(|sync| sync.count > 0);
        result.operations.extend(operation(Operation::Fsync, &syncs.collect::<Vec<_>>()));
    }
    result.operations.sort_by_key(|result| result.operation);
    Some(result)
}

fn option<'a>(job: &'a Job, document: &'a Document, key: &str) -> Option<&'a str> {
    job.options.get(key).or(document.global.get(key)).map(String::as_str)
}

/// The system call of an I/O engine; fio's own default is `psync`.
fn operation_of(which: Role, engine: Option<&str>) -> Operation {
    let writes = which == Role::Writer;
    match engine.unwrap_or("psync") {
        _ if which == Role::Trimmer => Operation::Trim,
        _ if which == Role::ReaderWriter => Operation::ReadOrWrite,
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
fn operation(operation: Operation, parts: &[&Latencies]) -> Option<OperationResult> {
    if parts.is_empty() || !parts.iter().all(|part| part.count > 0 && part.knows(Quantile::P50.fraction())) {
        return None;
    }
    let mut histogram = empty_histogram();
    let (mut count, mut mean) = (0_u64, 0.0);
    for part in parts {
        for (value, times) in &part.bins {
            histogram.record_n(value.parse().unwrap_or(u64::MAX), *times);
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
    let has_bins = parts.iter().all(|part| !part.bins.is_empty());
    // Percentiles say nothing about the samples in between, and those of several parts do not add up: their
    // mean is what is known, as for several trials.
    let mean_of_parts = |share: f64| {
        let weighted = parts.iter().map(|part| part.quantile(share) as f64 * part.count as f64);
        (weighted.sum::<f64>() / total).round() as u64
    };
    // 0 marks it as unknown ([`Latency::known`]).
    let quantile = |share: f64| match parts.iter().all(|part| part.knows(share)) {
        true if has_bins => histogram.quantile(share).unwrap_or(0).clamp(min, max),
        true => mean_of_parts(share).clamp(min, max),
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
        histogram: if has_bins { histogram } else { empty_histogram() }.encode().unwrap_or_default(),
        timeline: Timeline::default(),
        slowest: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
