//! IOR: the table of iterations as text, JSON or CSV, and the summary of older versions.
//!
//! Each iteration of a test is a run: what it wrote and what it read. The rates are those of all tasks, from
//! the first open to the last close, as IOR computes them; operations per second are those of the transfers
//! alone from version 3.3 on. Version 2.10 prints only means of all iterations, which are one run. A report
//! is read as a sequence of names and values, because the JSON of version 3.2 is not valid.

use crate::run::{ArgumentWord, Figures, Misread, Report, Run, Runs, after, lines, options, stated};
use fsdyno_core::Role;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::Program;
use std::collections::BTreeMap;

pub(crate) const REPORT: Report = Report {
    program: Program::Ior,
    silent: "filesystem, device, single operations, or stalls",
    recognises: |text| {
        text.contains("IOR-") && text.contains("Command line")
            || text.contains("\"bwMiB\"")
            || text.starts_with(CSV)
    },
    read: runs,
};

/// More iterations than any test has.
const MOST_ITERATIONS: usize = 10_000;

/// The headings of CSV begin with these.
const CSV: &str = "access,bw(MiB/s),";

/// Options that say where it works, how often and what it prints, or that the report states by name.
const ASIDE: &[&str] = &[
    "-a", "-b", "-t", "-s", "-i", "-o", "-v", "-w", "-r", "-k", "-K", "-O", "-F", "-f", "-d", "-N", "-q",
    "-z", "-c",
];

/// The names of the facts that a report states about a test, as text or JSON and as older versions have them,
/// each with the name of the option.
const STATED: &[(&str, &str)] = &[
    ("api", "api"),
    ("access", "access"),
    ("type", "type"),
    ("segments", "segments"),
    ("ordering in a file", "ordering in a file"),
    ("ordering inter file", "ordering inter file"),
    ("nodes", "nodes"),
    ("tasks", "tasks"),
    ("clients", "tasks"),
    ("xfersize", "transfer size"),
    ("blocksize", "block size"),
    ("stonewallingTime", "stonewalling time"),
    ("stonewallTime", "stonewalling time"),
];

/// A name with its value.
type Pair<'t> = (&'t str, ArgumentWord<'t>);

/// A report so far.
struct IorReport {
    version: Option<String>,
    /// Options of the command line.
    command: BTreeMap<String, String>,
    runs: Runs,
    /// The options of the current test.
    stated: BTreeMap<String, String>,
    repetitions: u32,
    /// The iterations of the current test.
    iterations: Vec<Run>,
    /// `true` if any test has a table of iterations.
    has_iterations: bool,
}

fn runs(text: &str) -> Result<Vec<Run>, Misread> {
    let version = after(text, "IOR-").and_then(|rest| rest.split([':', ' ']).next());
    let mut reading = IorReport {
        version: version.and_then(stated),
        command: BTreeMap::new(),
        stated: BTreeMap::new(),
        runs: Runs::default(),
        repetitions: 1,
        iterations: Vec::new(),
        has_iterations: false,
    };
    let last = lines(text).last().unwrap_or(ArgumentWord::line((0, "")));
    match text.contains("\"tests\"") || text.contains("\"bwMiB\"") {
        true => reading.json(text)?,
        false => reading.text(text)?,
    }
    reading.end(last)?;
    reading.runs.all("the table of iterations of IOR (before version 4.0, summaryFormat=CSV omits it)")
}

impl IorReport {
    /// Ends a test.
    fn end(&mut self, at: ArgumentWord<'_>) -> Result<(), Misread> {
        let count = self.iterations.len();
        for (index, mut run) in std::mem::take(&mut self.iterations).into_iter().enumerate() {
            run.part = (count > 1).then(|| format!("iteration {} of {count}", index + 1));
            self.runs.push(run, at)?;
        }
        self.stated = self.command.clone();
        self.repetitions = 1;
        Ok(())
    }

    /// Begins another run of the program.
    fn begin(&mut self, command: &str, at: ArgumentWord<'_>) -> Result<(), Misread> {
        self.command = options(command, ASIDE);
        self.has_iterations = false;
        self.end(at)
    }

    /// Takes note of a statement about the current test.
    fn state(&mut self, (name, value): Pair<'_>) -> Result<(), Misread> {
        match STATED.iter().find(|(known, _)| *known == name) {
            Some((_, "tasks")) => {
                let count = value.text.split_whitespace().next().and_then(stated);
                self.stated.extend(count.map(|count| ("tasks".to_string(), count)));
            }
            // `random offsets` in older versions.
            Some((_, option)) => {
                let value = stated(value.text.trim_end_matches(" offsets"));
                self.stated.extend(value.map(|value| ((*option).to_string(), value)));
            }
            _ if name == "Version" => self.version = stated(value.text),
            _ if name.starts_with("Command line") => self.begin(value.text, value)?,
            _ if name == "repetitions" => self.repetitions = value.number()? as u32,
            _ => {}
        }
        Ok(())
    }

    /// Adds a row of a table of iterations.
    fn row(&mut self, cells: &BTreeMap<&str, ArgumentWord<'_>>, at: ArgumentWord<'_>) -> Result<(), Misread> {
        let figure = |name: &str| cells.get(name).map_or(Ok(None), |cell| cell.figure());
        let Some((name, role)) = access(cells) else { return Ok(()) };
        let Some(mebibytes_per_s) = figure("bw(MiB/s)")? else { return Ok(()) };
        for (column, option) in [("block(KiB)", "block size"), ("xfer(KiB)", "transfer size")] {
            if let Some(kibibytes) = figure(column)?.filter(|_| !self.stated.contains_key(option)) {
                self.stated.insert(option.to_string(), format!("{kibibytes} KiB"));
            }
        }
        if let Some(tasks) = cells.get("numTasks") {
            self.state(("tasks", *tasks))?;
        }
        self.has_iterations = true;
        let bytes_per_s = mebibytes_per_s * Bytes::MIB as f64;
        let seconds = figure("total(s)")?.unwrap_or(0.0);
        let figures = Figures {
            seconds,
            workers: self.tasks(),
            bytes: bytes_per_s * seconds,
            bytes_per_s,
            operations_per_s: figure("IOPS")?.unwrap_or(0.0),
            ..Figures::default()
        };
        let has = |run: &Run| run.phases.iter().any(|phase| phase.name == name);
        let index = self.iterations.iter().position(|run| !has(run)).unwrap_or_else(|| {
            self.iterations.push(self.run());
            self.iterations.len() - 1
        });
        if self.iterations.len() > MOST_ITERATIONS {
            return Err(at.error(format!("a test has at most {MOST_ITERATIONS} iterations")));
        }
        let run = &mut self.iterations[index];
        figures.add(run.phase(name), role);
        let latency_s = figure("Latency(s)")?.or(figure("Latency")?).unwrap_or(0.0);
        run.latency(name, "mean of the fastest task", latency_s * 1e3, "ms");
        Ok(())
    }

    /// Adds a row of a summary, unless the report has the iterations.
    fn mean(&mut self, cells: &BTreeMap<&str, ArgumentWord<'_>>) -> Result<(), Misread> {
        let Some((name, role)) = access(cells).filter(|_| !self.has_iterations) else { return Ok(()) };
        let figure = |name: &str| cells.get(name).map_or(Ok(0.0), |cell| cell.number());
        let bytes_per_s = figure("Mean(MiB)")? * Bytes::MIB as f64;
        let (seconds, operations_per_s) = (figure("Mean(s)")?, figure("Mean(OPs)")?);
        let bytes = bytes_per_s * seconds;
        let workers = self.tasks();
        if self.iterations.is_empty() {
            self.iterations.push(self.run());
        }
        let run = &mut self.iterations[0];
        let figures =
            Figures { seconds, workers, bytes, bytes_per_s, operations_per_s, ..Figures::default() };
        figures.add(run.phase(name), role);
        if self.repetitions > 1 {
            let (min, max) = (figure("Min(MiB)")?, figure("Max(MiB)")?);
            let text = format!("{name} is the mean of {} iterations, {min} to {max} MiB/s", self.repetitions);
            run.missing.push(text);
        }
        Ok(())
    }

    fn run(&self) -> Run {
        Run { version: self.version.clone(), options: self.stated.clone(), ..Run::default() }
    }

    fn tasks(&self) -> u32 {
        self.stated.get("tasks").and_then(|tasks| tasks.parse().ok()).unwrap_or(0)
    }

    fn text(&mut self, text: &str) -> Result<(), Misread> {
        let (mut header, mut summary): (Vec<&str>, bool) = (Vec::new(), false);
        for line in lines(text) {
            let cells = if line.text.contains(',') && !line.text.contains(' ') {
                line.cells(',')
            } else {
                line.words()
            };
            if let Some(rest) = line.text.strip_prefix("IOR-") {
                self.begin("", line)?;
                self.version = rest.split([':', ' ']).next().and_then(stated);
            }
            let first = cells.first().map_or("", |cell| cell.text);
            let is_row = cells.len() > 2 && matches!(first, "write" | "read");
            if line.text.starts_with("access") && line.text.contains("bw(MiB/s)") {
                (header, summary) = (cells.iter().map(|cell| cell.text).collect(), false);
            } else if line.text.starts_with("Operation") {
                header = SUMMARY.to_vec();
                summary = true;
                let has_operations = line.text.contains("(OPs)");
                header.retain(|name| has_operations || !name.ends_with("(OPs)"));
            } else if is_row && !header.is_empty() {
                let row = header.iter().copied().zip(cells).collect();
                if summary { self.mean(&row)? } else { self.row(&row, line)? }
            } else if let Some(pair) = pair(line) {
                // Versions up to 3.0 head the options with `Summary:`.
                if matches!(pair.0, "TestID" | "Summary") {
                    self.end(line)?;
                }
                self.state(pair)?;
            }
        }
        Ok(())
    }

    /// Names and values of JSON in their order, whatever they are nested in.
    fn json(&mut self, text: &str) -> Result<(), Misread> {
        let mut row: BTreeMap<&str, ArgumentWord<'_>> = BTreeMap::new();
        let mut of_summary = false;
        for (name, value) in pairs(text) {
            match name {
                "TestID" if !of_summary => self.end(value)?,
                "operation" => of_summary = true,
                _ if of_summary => {}
                // A result begins with it; among the options it has other values.
                "access" if matches!(value.text, "write" | "read" | "remove") => {
                    row = [("access", value)].into();
                }
                "totalTime" if !row.is_empty() => {
                    row.insert("total(s)", value);
                    self.row(&std::mem::take(&mut row), value)?;
                }
                _ if !row.is_empty() => {
                    let column = JSON.iter().find(|(known, _)| *known == name);
                    row.extend(column.map(|(_, column)| (*column, value)));
                }
                "fsync" | "fsyncperwrite" | "useO_DIRECT" if value.text != "0" => {
                    self.stated.insert(name.to_string(), value.text.to_string());
                }
                _ => self.state((name, value))?,
            }
        }
        Ok(())
    }
}

/// The columns of a summary, as far as they are read.
const SUMMARY: &[&str] = &[
    "access",
    "Max(MiB)",
    "Min(MiB)",
    "Mean(MiB)",
    "StdDev",
    "Max(OPs)",
    "Min(OPs)",
    "Mean(OPs)",
    "StdDev(OPs)",
    "Mean(s)",
];

/// The columns of a row in JSON.
const JSON: &[(&str, &str)] = &[
    ("bwMiB", "bw(MiB/s)"),
    ("blockKiB", "block(KiB)"),
    ("xferKiB", "xfer(KiB)"),
    ("iops", "IOPS"),
    ("latency", "Latency(s)"),
];

/// Returns the access that a row is about, and its role.
fn access(cells: &BTreeMap<&str, ArgumentWord<'_>>) -> Option<(&'static str, Role)> {
    match cells.get("access")?.text {
        "write" => Some(("write", Role::Writer)),
        "read" => Some(("read", Role::Reader)),
        _ => None,
    }
}

/// `tasks : 2`, `clients = 2 (2 per node)`.
fn pair(line: ArgumentWord<'_>) -> Option<Pair<'_>> {
    let (name, value) = line.text.split_once([':', '='])?;
    Some((name.trim(), line.part(value.trim())))
}

/// The names with plain values in JSON.
fn pairs(text: &str) -> impl Iterator<Item = Pair<'_>> {
    lines(text).flat_map(|line| {
        let mut found = Vec::new();
        let mut rest = line.text;
        while let Some((name, value, after)) = member(rest) {
            if !value.is_empty() {
                found.push((name, line.part(value)));
            }
            rest = after;
        }
        found
    })
}

/// The first name in quotes that a colon follows, its value without quotes, and what follows.
fn member(text: &str) -> Option<(&str, &str, &str)> {
    let mut rest = text;
    loop {
        let (_, begin) = rest.split_once('"')?;
        let (name, after) = begin.split_once('"')?;
        let Some(value) = after.trim_start().strip_prefix(':') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        return Some(match value.strip_prefix('"') {
            Some(quoted) => {
                let (value, after) = quoted.split_once('"')?;
                (name, value, after)
            }
            None => {
                let end = value.find([',', '}', ']', '{', '[', ' ']).unwrap_or(value.len());
                (name, &value[..end], &value[end..])
            }
        });
    }
}
