//! elbencho: the tables of its console, the files of `--csvfile` and `--jsonfile`, and its live statistics.
//!
//! The figures that are read are those of the moment when the last thread was done. A run is a sequence of
//! phases with the same options; a phase that comes again, or other options, begin the next one, because
//! elbencho appends to its files. Rates in MiB/s are whole numbers except in JSON. Live statistics
//! (`--livecsv`) are those of moments: the last line of a phase has its totals so far.

use crate::run::{ArgumentWord, Figures, Misread, Report, Run, Runs, lines, options};
use fsdyno_core::Role;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::Program;
use std::collections::BTreeMap;

pub(crate) const REPORT: Report = Report {
    program: Program::Elbencho,
    silent: "filesystem, device, or stalls",
    recognises: |text| {
        let head = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
        head.starts_with("ISO ") && head.contains(",label,") | head.contains(",Label,")
            || text.contains("\"phase_type\"")
            || text.contains("RESULT TYPE") && text.contains("LAST DONE")
    },
    read: runs,
};

/// Phases by the beginning of their name, and who does what they count.
const PHASES: &[(&str, Role)] = &[
    ("MK", Role::Creator),
    ("WRITE", Role::Writer),
    ("RWMIX", Role::Writer),
    ("READ", Role::Reader),
    ("STAT", Role::Examiner),
    ("RM", Role::Deleter),
];

/// More phases than any run has.
const MOST_PHASES: usize = 100;

/// Phases that only take time.
const TIMED: &[&str] = &["SYNC", "DROPCACHE"];

/// The columns and keys that state what a run does.
const STATED: &[(&str, &str)] = &[
    ("path type", "path_type"),
    ("paths", "paths"),
    ("hosts", "hosts"),
    ("threads", "threads"),
    ("dirs", "dirs"),
    ("files", "files"),
    ("file size", "file_size"),
    ("block size", "block_size"),
    ("direct IO", "direct_io"),
    ("random", "random_offsets"),
    ("random aligned", "random_aligned"),
    ("IO depth", "io_depth"),
    ("shared paths", "shared_service_paths"),
    ("truncate", "truncate_files"),
];

/// Options of the command line that say where it works and what it prints, or that have a column.
const ASIDE: &[&str] = &[
    "-t",
    "-n",
    "-N",
    "-s",
    "-b",
    "-d",
    "-w",
    "-r",
    "-F",
    "-D",
    "--threads",
    "--dirs",
    "--files",
    "--size",
    "--block",
    "--direct",
    "--rand",
    "--iodepth",
    "--mkdirs",
    "--write",
    "--read",
    "--stat",
    "--delfiles",
    "--deldirs",
    "--hosts",
    "--csvfile",
    "--jsonfile",
    "--resfile",
    "--label",
    "--lat",
    "--latpercent",
    "--lathisto",
    "--cpu",
    "--allelapsed",
    "--nolive",
    "--live1",
    "--livecsv",
    "--livecsvex",
    "--liveint",
    "--trunc",
    "--nosvcshare",
    "--norandalign",
    "--log",
    "--dryrun",
];

/// Figures of a phase: the heading in the CSV, the key in JSON, and how many units of the key one of the CSV
/// is.
const FIGURES: &[(&str, &str, f64)] = &[
    ("time ms [last]", "elapsed_time_ms", 1.0),
    ("entries/s [last]", "entries/s", 1.0),
    ("IOPS [last]", "iops", 1.0),
    ("MiB/s [last]", "bytes/s", Bytes::MIB as f64),
    ("entries [last]", "entries", 1.0),
    ("MiB [last]", "bytes", Bytes::MIB as f64),
];

/// The prefixes of names: none, and that of the reads in a phase that mixes reads and writes.
const MIXES: [&str; 2] = ["", "rwmix read "];

/// Latencies are those of whole entries and of single requests: the name in the CSV and in JSON.
const LATENCIES: &[(&str, &str)] = &[("Ent", "entries"), ("IO", "IO")];

/// Their statistics: the name, and what it is called here.
const STATISTICS: &[(&str, &str)] = &[("min", "min"), ("avg", "mean"), ("max", "max")];

/// Labels of the console without the kind of entries: the figure, and how many of its units one is.
const LABELS: &[(&str, &str, f64)] = &[
    ("Elapsed ms", "elapsed_time_ms", 1.0),
    ("/s", "entries/s", 1.0),
    ("/s write", "entries/s", 1.0),
    ("/s read", "rwmix read entries/s", 1.0),
    ("IOPS", "iops", 1.0),
    ("IOPS write", "iops", 1.0),
    ("IOPS read", "rwmix read iops", 1.0),
    ("Throughput MiB/s", "bytes/s", Bytes::MIB as f64),
    ("MiB/s write", "bytes/s", Bytes::MIB as f64),
    ("MiB/s read", "rwmix read bytes/s", Bytes::MIB as f64),
    ("Throughput MB/s", "bytes/s", 1e6),
    ("MB/s write", "bytes/s", 1e6),
    ("MB/s read", "rwmix read bytes/s", 1e6),
    ("Total MiB", "bytes", Bytes::MIB as f64),
    ("MiB write", "bytes", Bytes::MIB as f64),
    ("MiB read", "rwmix read bytes", Bytes::MIB as f64),
    (" total", "entries", 1.0),
    (" write", "entries", 1.0),
    (" read", "rwmix read entries", 1.0),
];

fn runs(text: &str) -> Result<Vec<Run>, Misread> {
    let head = text.trim_start_matches('\u{feff}').trim_start();
    let mut reading = ElbenchoReport::default();
    if head.starts_with('{') {
        reading.json(text)?;
    } else if head.starts_with("ISO ") {
        reading.csv(text)?;
    } else {
        reading.console(text)?;
    }
    let ElbenchoReport { mut runs, run, .. } = reading;
    runs.push(run, lines(text).last().unwrap_or(ArgumentWord::line((0, ""))))?;
    runs.all("results of elbencho")
}

/// A phase as any of the formats has it.
struct Phase<'t> {
    operation: ArgumentWord<'t>,
    /// By key, for requests that are read in a mix after [`MIXES`].
    figures: BTreeMap<String, f64>,
}

/// A report so far.
#[derive(Default)]
struct ElbenchoReport {
    runs: Runs,
    run: Run,
    /// The phases of the current run, with those that have no figures.
    seen: Vec<String>,
}

impl ElbenchoReport {
    /// Makes sure that the current run is the one that a phase with these options belongs to.
    fn begin(&mut self, next: &Run, operation: ArgumentWord<'_>) -> Result<(), Misread> {
        let Run { options, label, version, .. } = &self.run;
        let same = (options, label, version) == (&next.options, &next.label, &next.version);
        if !same || self.seen.iter().any(|seen| seen == operation.text) {
            self.runs.push(std::mem::replace(&mut self.run, next.clone()), operation)?;
            self.seen.clear();
        } else if self.seen.len() == MOST_PHASES {
            return Err(operation.error(format!("a run has at most {MOST_PHASES} phases")));
        }
        self.seen.push(operation.text.to_string());
        Ok(())
    }

    fn phase(&mut self, phase: &Phase<'_>, next: &Run) -> Result<(), Misread> {
        let Phase { operation, figures } = phase;
        self.begin(next, *operation)?;
        let name = operation.text.to_lowercase();
        let seconds = figures.get("elapsed_time_ms").copied().unwrap_or(0.0) / 1e3;
        let timed = TIMED.iter().any(|timed| operation.text.starts_with(timed));
        if timed && seconds > 0.0 {
            self.run.columns.insert(format!("{name} time (ms)"), seconds * 1e3);
        }
        if timed {
            return Ok(());
        }
        let role = role_of(*operation)?;
        for (mix, role) in MIXES.into_iter().zip([role, Role::Reader]) {
            let get = |key: &str| figures.get(&format!("{mix}{key}")).copied().unwrap_or(0.0);
            let figures = Figures {
                seconds,
                workers: workers(&next.options),
                bytes: get("bytes"),
                bytes_per_s: get("bytes/s"),
                operations_per_s: get("iops"),
                items: get("entries"),
                items_per_s: get("entries/s"),
            };
            if figures.bytes + figures.bytes_per_s + figures.operations_per_s + figures.items_per_s > 0.0 {
                figures.add(self.run.phase(&name), role);
            }
        }
        for (key, value) in figures {
            if let Some((of, statistic)) = key.strip_suffix(']').and_then(|key| key.split_once(" lat us [")) {
                let statistic =
                    STATISTICS.iter().find(|(name, _)| *name == statistic).map_or(statistic, |one| one.1);
                let step = of.replace("rwmix read ", "read ").replace("Ent", "entry");
                self.run.latency(&format!("{name} {step}"), statistic, *value, "us");
            }
        }
        Ok(())
    }

    /// A table with a heading for each column.
    fn csv<'t>(&mut self, text: &'t str) -> Result<(), Misread> {
        let mut lines = lines(text).filter(|line| !line.text.trim().is_empty());
        let Some(head) = lines.next() else { return Ok(()) };
        let headings_of =
            |line: ArgumentWord<'t>| line.cells(',').iter().map(|cell| cell.text).collect::<Vec<_>>();
        let mut headings = headings_of(head);
        if headings.contains(&"RuntimeMS") {
            return self.live(&headings, lines);
        }
        for line in lines {
            let cells = line.cells(',');
            // In joined files.
            if cells[0].text.starts_with("ISO ") {
                headings = headings_of(line);
                continue;
            }
            if cells.len() < headings.len() {
                let problem = format!("expected {} columns, found {}", headings.len(), cells.len());
                return Err(cells[cells.len() - 1].error(problem));
            }
            let cell = |name: &str| {
                let at = headings.iter().position(|heading| *heading == name)?;
                Some(cells[at]).filter(|cell| !cell.text.is_empty())
            };
            let Some(operation) = cell("operation") else {
                return Err(line.error("expected the column 'operation'"));
            };
            let mut figures = BTreeMap::new();
            for mix in MIXES {
                for (heading, key, factor) in FIGURES {
                    if let Some(cell) = cell(&format!("{mix}{heading}")) {
                        figures.insert(format!("{mix}{key}"), cell.number()? * factor);
                    }
                }
                for heading in latencies(mix) {
                    if let Some(cell) = cell(&heading) {
                        figures.insert(heading, cell.number()?);
                    }
                }
            }
            let text = |name: &str| cell(name).map(|cell| cell.text.to_string());
            let stated = STATED.iter().filter_map(|(name, _)| Some((*name, text(name)?)));
            let next = described(stated, text("label"), text("version"), text("command"));
            self.phase(&Phase { operation, figures }, &next)?;
        }
        Ok(())
    }

    /// The last line of each phase of live statistics, which has its totals so far.
    fn live<'t>(
        &mut self,
        headings: &[&str],
        lines: impl Iterator<Item = ArgumentWord<'t>>,
    ) -> Result<(), Misread> {
        let mut before_ms = 0.0;
        for line in lines {
            let cells = line.cells(',');
            let cell = |name: &str| {
                let at = headings.iter().position(|heading| *heading == name);
                at.and_then(|at| cells.get(at))
                    .copied()
                    .ok_or_else(|| line.error(format!("expected '{name}'")))
            };
            if cell("Rank")?.text != "Total" {
                continue;
            }
            let (operation, elapsed_ms) = (cell("Phase")?, cell("RuntimeMS")?.number()?);
            let mut next = described([], Some(cell("Label")?.text.to_string()), None, None);
            let goes_on = self.seen.last().is_some_and(|seen| seen == operation.text);
            if !goes_on || elapsed_ms < before_ms || self.run.label != next.label {
                self.begin(&next, operation)?;
                next.missing.push("live statistics end before the work does".to_string());
                self.run.missing = next.missing;
            }
            before_ms = elapsed_ms;
            let seconds = elapsed_ms / 1e3;
            let (bytes, items) = (cell("DoneBytes")?.number()?, cell("Entries")?.number()?);
            let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
            let (bytes_per_s, items_per_s) = (rate(bytes), rate(items));
            let figures = Figures { seconds, bytes, bytes_per_s, items, items_per_s, ..Figures::default() };
            let role = if cell("MixType")?.text == "Read" { Role::Reader } else { role_of(operation)? };
            if bytes_per_s + items_per_s > 0.0 {
                figures.add(self.run.phase(&operation.text.to_lowercase()), role);
            }
        }
        Ok(())
    }

    /// Documents, one after the other.
    fn json(&mut self, text: &str) -> Result<(), Misread> {
        let text = text.trim_start_matches('\u{feff}');
        let mut documents = serde_json::Deserializer::from_str(text).into_iter();
        let (mut line, mut counted) = (0, 0);
        while let Some(document) = documents.next() {
            let document: serde_json::Value = document.map_err(|error: serde_json::Error| {
                let text = error.to_string();
                let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
                let (line, column) = (error.line().max(1), error.column().max(1));
                Misread { line, column, problem: problem.to_string() }
            })?;
            let end = documents.byte_offset();
            line += text.as_bytes()[counted..end].iter().filter(|byte| **byte == b'\n').count();
            counted = end;
            let find = |path: &[&str]| {
                let found = path.iter().try_fold(&document, |value, key| value.get(key))?;
                Some(found.as_str().map_or_else(|| found.to_string(), str::to_string))
            };
            let number = |path: &[&str]| match find(path) {
                Some(text) => ArgumentWord::line((line, &text)).number().map(Some),
                None => Ok(None),
            };
            let mut figures = BTreeMap::new();
            for mix in MIXES {
                let inside: &[&str] = if mix.is_empty() { &[] } else { &["rwmix_read"] };
                for (_, key, _) in FIGURES {
                    let value = number(&[&["last_done"], inside, &[key]].concat())?;
                    figures.extend(value.map(|value| (format!("{mix}{key}"), value)));
                }
                for (name, key) in LATENCIES {
                    for (statistic, _) in STATISTICS {
                        let leaf = format!("{statistic}_us");
                        let value = number(&[&["last_done", "latency", key], inside, &[&leaf]].concat())?;
                        figures
                            .extend(value.map(|value| (format!("{mix}{name} lat us [{statistic}]"), value)));
                    }
                }
            }
            let stated = STATED.iter().filter_map(|(name, key)| Some((*name, find(&["config", key])?)));
            let (version, command) = (find(&["config", "version"]), find(&["config", "command"]));
            let next = described(stated, find(&["label"]), version, command);
            let operation = find(&["phase_type"]).unwrap_or_default();
            let operation = ArgumentWord::line((line, &operation));
            self.phase(&Phase { operation, figures }, &next)?;
        }
        Ok(())
    }

    /// The tables on the console, which say nothing about the work.
    fn console(&mut self, text: &str) -> Result<(), Misread> {
        let next = Run::default();
        let mut phase: Option<Phase<'_>> = None;
        for line in lines(text) {
            let Some((label, value)) = line.text.split_once(':') else { continue };
            let (mut label, value) = (label.trim(), line.part(value));
            if !line.text.starts_with(' ')
                && let Some((operation, rest)) = label.split_once(' ')
                && rest.trim_start().starts_with("Elapsed")
            {
                label = rest.trim_start();
                let next_phase = Phase { operation: line.part(operation), figures: BTreeMap::new() };
                if let Some(phase) = phase.replace(next_phase) {
                    self.phase(&phase, &next)?;
                }
            }
            if let Some(phase) = &mut phase {
                for (key, value) in labelled(label, value)? {
                    // With --dirstats, a count of directories follows that of files.
                    phase.figures.entry(key).or_insert(value);
                }
            }
        }
        phase.map_or(Ok(()), |phase| self.phase(&phase, &next))
    }
}

/// The headings of latencies.
fn latencies(mix: &str) -> impl Iterator<Item = String> {
    let of = move |(name, _): &(&str, &str)| {
        let name = name.to_string();
        STATISTICS.iter().map(move |(statistic, _)| format!("{mix}{name} lat us [{statistic}]"))
    };
    LATENCIES.iter().flat_map(of)
}

/// A run of which only the circumstances are known.
fn described<'t>(
    stated: impl IntoIterator<Item = (&'t str, String)>,
    label: Option<String>,
    version: Option<String>,
    command: Option<String>,
) -> Run {
    let mut options = options(&command.unwrap_or_default(), ASIDE);
    options.extend(stated.into_iter().map(|(name, value)| (name.to_string(), value)));
    Run { options, label: label.filter(|label| !label.is_empty()), version, ..Run::default() }
}

/// The threads of all hosts.
fn workers(options: &BTreeMap<String, String>) -> u32 {
    let number = |name: &str| options.get(name).and_then(|text| text.parse::<u32>().ok());
    number("threads").unwrap_or(0).saturating_mul(number("hosts").unwrap_or(1))
}

fn role_of(operation: ArgumentWord<'_>) -> Result<Role, Misread> {
    let role = PHASES.iter().find(|(begin, _)| operation.text.starts_with(begin)).map(|one| one.1);
    role.ok_or_else(|| operation.error("expected a phase of elbencho, such as WRITE"))
}

/// The figures of a line of the console.
fn labelled(label: &str, value: ArgumentWord<'_>) -> Result<Vec<(String, f64)>, Misread> {
    let words = value.words();
    let Some(last) = words.last() else { return Ok(Vec::new()) };
    if label == "Elapsed time" {
        return Ok(vec![("elapsed_time_ms".to_string(), milliseconds(*last)?)]);
    }
    let entries = ["Files", "Dirs", "Entries", "Objects", "Buckets"];
    let kind = entries.into_iter().find(|kind| label.starts_with(kind));
    let known = |text: &str| LABELS.iter().find(|(known, ..)| *known == text);
    if let Some((_, key, factor)) = known(&label[kind.map_or(0, str::len)..]) {
        return Ok(vec![(key.to_string(), last.number()? * factor)]);
    }
    // `IO latency`, `Files rd lat % us`
    let Some((of, what)) = label.split_once(" lat") else { return Ok(Vec::new()) };
    let mix = MIXES[usize::from(of.ends_with(" rd"))];
    let of = if kind.is_some() { "Ent" } else { "IO" };
    let mut found = Vec::new();
    for word in &words {
        if let Some((statistic, time)) = word.text.split_once('=').filter(|_| what.starts_with("ency")) {
            let time = word.part(time);
            // Without units up to version 2.2: `IO latency us`.
            let us = if what.ends_with(" us") { time.number()? } else { milliseconds(time)? * 1e3 };
            found.push((format!("{mix}{of} lat us [{statistic}]"), us));
        } else if let Some((percent, time)) = word.text.split_once("%<=").filter(|_| what.starts_with(" %")) {
            found.push((format!("{mix}{of} lat us [p{percent}]"), word.part(time).number()?));
        }
    }
    Ok(found)
}

/// `812us`, `5ms`, `2.784s`, `1m2.345s`, `1h2m3s`
fn milliseconds(word: ArgumentWord<'_>) -> Result<f64, Misread> {
    let mut rest = word.text;
    let mut total_ms = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(tail.len());
        let factor = match &tail[..unit] {
            "us" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 60e3,
            "h" => 3600e3,
            _ => return Err(word.error("expected a time such as 2.784s")),
        };
        total_ms += word.part(number).number()? * factor;
        rest = &tail[unit..];
    }
    Ok(total_ms)
}
