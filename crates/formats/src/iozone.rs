//! iozone: the table of its tests, its throughput mode, and the reports for spreadsheets.
//!
//! Each row of the table, which is one size of file and of record, is a run; so is each number of processes
//! of the throughput mode, of which the rates that the children see count. The reports of `-R` are read if
//! the table is not there. Its kilobytes are of 1,024 bytes. Columns of tests that were not run are empty,
//! and the widths of columns depend on the version, so a figure belongs to the heading that ends closest to
//! it.

use crate::run::{ArgumentWord, Figures, MOST_RUNS, Misread, Report, Run, Runs, lines, options, stated};
use fsdyno_core::Role;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::Program;
use std::collections::BTreeMap;

pub(crate) const REPORT: Report = Report {
    program: Program::Iozone,
    silent: "filesystem, device, latencies, or stalls",
    recognises: |text| text.contains("Iozone: Performance Test") || text.contains("\"Writer report\""),
    read: runs,
};

/// Its tests: the phase, the report for spreadsheets, the name in throughput mode, and who performs them. The
/// first ones are the columns of the table, in their order.
const TESTS: &[(&str, &str, &str, Role)] = &[
    ("write", "Writer report", "initial writers", Role::Writer),
    ("rewrite", "Re-writer report", "rewriters", Role::Writer),
    ("read", "Reader report", "readers", Role::Reader),
    ("reread", "Re-reader report", "re-readers", Role::Reader),
    ("random read", "Random read report", "random readers", Role::Reader),
    ("random write", "Random write report", "random writers", Role::Writer),
    ("backward read", "Backward read report", "reverse readers", Role::Reader),
    ("record rewrite", "Record rewrite report", "", Role::Writer),
    ("stride read", "Stride read report", "stride readers", Role::Reader),
    ("fwrite", "Fwrite report", "fwriters", Role::Writer),
    ("frewrite", "Re-fwrite report", "", Role::Writer),
    ("fread", "Fread report", "freaders", Role::Reader),
    ("freread", "Re-fread report", "", Role::Reader),
    ("pwrite", "Pwrite report", "pwrite writers", Role::Writer),
    ("repwrite", "Re-pwrite report", "", Role::Writer),
    ("pread", "Pread report", "pread readers", Role::Reader),
    ("repread", "Re-pread report", "", Role::Reader),
];

/// The columns of the table that have figures.
const COLUMNS: usize = 13;

/// Options that say where it works and what it prints, or that each run states.
const ASIDE: &[&str] = &[
    "-a", "-A", "-b", "-f", "-F", "-g", "-i", "-l", "-n", "-N", "-O", "-q", "-Q", "-r", "-R", "-s", "-t",
    "-u", "-w", "-x", "-y", "-z", "-+u", "-C",
];

/// The unit of the figures that iozone prints.
#[derive(Clone, Copy, Default, PartialEq)]
enum Unit {
    #[default]
    Kibibytes,
    Operations,
    Microseconds,
}

/// A report so far.
#[derive(Default)]
struct IozoneReport {
    runs: Runs,
    /// The facts known about every run.
    known: Run,
    unit: Unit,
    /// Where the headings of the table end: sizes and records, then the tests.
    edges: Vec<usize>,
    /// The number of processes, and their run so far.
    processes: u32,
    run: Run,
    has_table: bool,
    /// The runs of the reports for spreadsheets, each with its sizes of file and record.
    reports: BTreeMap<(String, String), Run>,
    /// The current one of them, and its sizes of records.
    report: Option<usize>,
    records: Vec<String>,
}

fn runs(text: &str) -> Result<Vec<Run>, Misread> {
    let mut reading = IozoneReport::default();
    let mut last = ArgumentWord::line((0, ""));
    for line in lines(text) {
        last = line;
        reading.line(line)?;
    }
    reading.end(last)?;
    reading.runs.all("a table of iozone")
}

impl IozoneReport {
    fn line(&mut self, line: ArgumentWord<'_>) -> Result<(), Misread> {
        let text = line.text.trim();
        let words: Vec<&str> = text.split_whitespace().collect();
        if let Some(revision) = text.strip_prefix("Version $Revision:") {
            self.end(line)?;
            let known =
                Run { version: revision.split_whitespace().next().and_then(stated), ..Run::default() };
            *self = IozoneReport { runs: std::mem::take(&mut self.runs), known, ..IozoneReport::default() };
        } else if let Some(command) = text.strip_prefix("Command line used:") {
            self.known.options = options(command, ASIDE);
        } else if text.starts_with("OPS Mode.") {
            self.unit = Unit::Operations;
        } else if text.starts_with("Microseconds/op Mode.") {
            self.unit = Unit::Microseconds;
        } else if text.starts_with("Throughput test with") {
            self.end(line)?;
            let count = line
                .words()
                .into_iter()
                .nth(3)
                .ok_or_else(|| line.error("expected a number of processes"))?;
            self.processes = count.number()? as u32;
            self.run = self.known.clone();
            self.run.options.insert("processes".to_string(), self.processes.to_string());
        } else if let ["Each", _, "writes", "a", size, _, "file", "in", record, ..] = words[..] {
            self.sized(size, record);
        } else if let Some(rest) = text.strip_prefix("Children see throughput for") {
            self.throughput(line.part(rest))?;
        } else if words.get(1) == Some(&"reclen") {
            self.edges = line.words().into_iter().map(ArgumentWord::end).collect();
        } else if let Some(title) = title(text) {
            self.heading(title);
        } else if text.starts_with('"') {
            self.report_row(line)?;
        } else if !self.edges.is_empty() && text.starts_with(|letter: char| letter.is_ascii_digit()) {
            self.row(line)?;
        }
        Ok(())
    }

    /// Ends what belongs together.
    fn end(&mut self, at: ArgumentWord<'_>) -> Result<(), Misread> {
        self.runs.push(std::mem::take(&mut self.run), at)?;
        let reports = std::mem::take(&mut self.reports);
        for run in reports.into_values().filter(|_| !self.has_table) {
            self.runs.push(run, at)?;
        }
        Ok(())
    }

    fn sized(&mut self, size: &str, record: &str) {
        self.run.options.insert("file size".to_string(), format!("{size} kB"));
        self.run.options.insert("record size".to_string(), format!("{record} kB"));
    }

    /// A row of the table: two sizes, and a figure for each test that was run.
    fn row(&mut self, line: ArgumentWord<'_>) -> Result<(), Misread> {
        let words = line.words();
        let [size, record, figures @ ..] = &words[..] else { return Ok(()) };
        if figures.len() > COLUMNS || self.edges.len() != COLUMNS + 2 {
            return Err(line.error(format!("expected at most {COLUMNS} figures below as many headings")));
        }
        size.number()?;
        record.number()?;
        self.has_table = true;
        self.run = self.known.clone();
        self.sized(size.text, record.text);
        let mut next = 0;
        for (index, figure) in figures.iter().enumerate() {
            let left = figures.len() - index;
            let possible = next..=COLUMNS - left;
            let closest =
                possible.min_by_key(|test| self.edges[test + 2].abs_diff(figure.end())).unwrap_or(next);
            self.figure(closest, *figure, self.unit)?;
            next = closest + 1;
        }
        self.runs.push(std::mem::take(&mut self.run), line)
    }

    /// ` 2 initial writers  = 2795836.00 kB/sec`
    fn throughput(&mut self, line: ArgumentWord<'_>) -> Result<(), Misread> {
        let Some((what, value)) = line.text.split_once('=') else { return Ok(()) };
        let name = what.trim().trim_start_matches(|letter: char| letter.is_ascii_digit()).trim();
        let [figure, unit, ..] = line.part(value).words()[..] else {
            return Err(line.part(value).error("expected a rate"));
        };
        let unit = match unit.text {
            "kB/sec" | "KB/sec" | "Kbytes/sec" => Unit::Kibibytes,
            "ops/sec" => Unit::Operations,
            _ => return Err(unit.error("expected kB/sec or ops/sec")),
        };
        if name == "mixed workload" {
            self.run.missing.push("the mixed workload has one rate for reads and writes".to_string());
            return Ok(());
        }
        let test = TESTS.iter().position(|(_, _, threads, _)| *threads == name);
        let test = test.ok_or_else(|| line.error("expected a test of iozone, such as 'initial writers'"))?;
        self.figure(test, figure, unit)
    }

    /// Adds the figure of a test to the current run.
    fn figure(&mut self, test: usize, figure: ArgumentWord<'_>, unit: Unit) -> Result<(), Misread> {
        let (name, _, _, role) = TESTS[test];
        let (value, workers) = (figure.number()?, self.processes.max(1));
        let figures = Figures { workers, ..Figures::default() };
        match unit {
            // A test that was not run, in a report for spreadsheets.
            _ if value == 0.0 => {}
            Unit::Microseconds => self.run.latency(name, "mean", value, "us"),
            Unit::Kibibytes => {
                let bytes_per_s = value * Bytes::KIB as f64;
                Figures { bytes_per_s, ..figures }.add(self.run.phase(name), role);
            }
            Unit::Operations => {
                Figures { operations_per_s: value, ..figures }.add(self.run.phase(name), role);
            }
        }
        Ok(())
    }

    fn heading(&mut self, title: &str) {
        self.report = TESTS.iter().position(|(_, report, ..)| report.eq_ignore_ascii_case(title));
        self.records.clear();
    }

    /// A row of a report: sizes of records, or a size of files with a figure for each.
    fn report_row(&mut self, line: ArgumentWord<'_>) -> Result<(), Misread> {
        let Some(test) = self.report.filter(|_| !self.has_table) else { return Ok(()) };
        let words = line.words();
        let unquoted = |word: &ArgumentWord<'_>| word.text.trim_matches('"').to_string();
        if words.iter().all(|word| word.text.starts_with('"')) {
            self.records = words.iter().map(unquoted).collect();
            return Ok(());
        }
        for (figure, record) in words[1..].iter().zip(self.records.clone()) {
            let key = (unquoted(&words[0]), record);
            if self.reports.len() > MOST_RUNS {
                return Err(line.error(format!("a report has at most {MOST_RUNS} runs")));
            }
            self.run = self.reports.remove(&key).unwrap_or_else(|| self.known.clone());
            self.sized(&key.0, &key.1);
            self.figure(test, *figure, self.unit)?;
            self.reports.insert(key, std::mem::take(&mut self.run));
        }
        Ok(())
    }
}

/// `"Writer report"`; the rows below it begin with sizes.
fn title(text: &str) -> Option<&str> {
    let title = text.strip_prefix('"')?.strip_suffix('"')?;
    title.starts_with(|letter: char| letter.is_ascii_alphabetic()).then_some(title)
}
