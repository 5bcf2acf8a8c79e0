//! sysbench: what `fileio` and the scripts for databases print at the end of a run.
//!
//! Reads and writes are roles of one phase. Latencies are those of all requests together, syncs included, so
//! they belong to the run and not to an operation; their mean is the sum over the count, which has more
//! digits than the mean that is printed. Intermediate reports and the histogram are skipped.

use crate::run::{ArgumentWord, Figures, Misread, Report, Run, Runs, lines};
use fsdyno_core::Role;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::Program;

pub(crate) const REPORT: Report = Report {
    program: Program::Sysbench,
    silent: "filesystem, device, latencies of single operations, or stalls",
    recognises: |text| text.lines().take(20).any(|line| line.starts_with("sysbench ")),
    read: runs,
};

/// Lines that say what a run does: how they begin, and the name of the option.
const STATED: &[(&str, &str)] = &[
    ("Number of threads:", "threads"),
    ("Extra file open flags:", "open flags"),
    ("Block size", "block size"),
    ("Read/Write ratio for combined random IO test:", "read/write ratio"),
    ("Periodic FSYNC enabled, calling fsync() each", "requests between syncs"),
    ("Calling fsync() at the end of test,", "sync at the end"),
    ("Calling fsync() after each write operation", "sync after each write"),
    ("Using checksums validation", "validation"),
    ("Merging requests", "merged requests"),
    ("Target transaction rate:", "target rate"),
];

/// A run so far.
#[derive(Default)]
struct SysbenchRun {
    run: Run,
    test: String,
    reads: Figures,
    writes: Figures,
    transactions: Figures,
    seconds: f64,
    events: f64,
    latency_sum_ms: f64,
    /// `true` if the lines of latencies are those of requests: those of threads look alike.
    in_latency: bool,
}

fn runs(text: &str) -> Result<Vec<Run>, Misread> {
    let mut runs = Runs::default();
    let mut reading = SysbenchRun::default();
    let mut last = ArgumentWord::line((0, ""));
    for line in lines(text) {
        last = line;
        if let Some(version) = line.text.strip_prefix("sysbench ") {
            runs.push(std::mem::take(&mut reading).end(), line)?;
            let version = version.split([' ', ':']).next().unwrap_or_default();
            reading.run.version = Some(version.to_string()).filter(|version| !version.is_empty());
        }
        reading.stated(line);
        reading.line(line)?;
    }
    runs.push(reading.end(), last)?;
    runs.all("the result of a run of sysbench")
}

impl SysbenchRun {
    /// Records the facts that a line states about the work.
    fn stated(&mut self, line: ArgumentWord<'_>) {
        let text = line.text.trim();
        let mut state = |name: &str, value: &str| {
            let value = value.trim().trim_end_matches(['.', ',']).trim_end_matches(" requests");
            self.run.options.insert(name.to_string(), value.to_string());
        };
        if let Some((begin, name)) = STATED.iter().find(|(begin, _)| text.starts_with(begin)) {
            state(name, &text[begin.len()..]);
        } else if let Some(mode) = text.strip_prefix("Using ").and_then(|text| text.strip_suffix(" I/O mode"))
        {
            state("I/O mode", mode);
        } else if let Some((files, size)) = text.split_once(" files, ") {
            state("files", files);
            state("file size", size.trim_end_matches(" each"));
        } else if let Some(test) = text.strip_prefix("Doing ").and_then(|text| text.strip_suffix(" test")) {
            state("test", test);
            // A slash separates the parts of a measure.
            self.test = test.replace("r/w", "read and write").replace('/', " ");
        }
    }

    fn line(&mut self, line: ArgumentWord<'_>) -> Result<(), Misread> {
        let Some((label, value)) = line.text.split_once(':') else { return self.unlabelled(line) };
        let words = line.part(value).words();
        let (label, Some(first)) = (label.trim(), words.first().copied()) else {
            self.in_latency =
                matches!(label.trim(), "Latency (ms)" | "response time" | "per-request statistics");
            return Ok(());
        };
        let first = first.part(first.text.trim_end_matches("ms").trim_end_matches('s'));
        match label {
            "reads/s" => self.reads.operations_per_s = first.number()?,
            "writes/s" => self.writes.operations_per_s = first.number()?,
            "fsyncs/s" => self.syncs(first.number()?),
            "read, MiB/s" => self.reads.bytes_per_s = first.number()? * Bytes::MIB as f64,
            "written, MiB/s" => self.writes.bytes_per_s = first.number()? * Bytes::MIB as f64,
            "read" | "write" | "fsync" if first.text.starts_with("IOPS=") => self.newest(label, &words)?,
            "Operations performed" => self.performed(&words)?,
            "transactions" => {
                self.transactions.items = first.number()?;
                if let Some(rate) = words.get(1) {
                    self.transactions.items_per_s = rate.part(rate.text.trim_start_matches('(')).number()?;
                }
            }
            "total time" => self.seconds = first.number()?,
            "total number of events" => self.events = first.number()?,
            "total time taken by event execution" => self.latency_sum_ms = first.number()? * 1e3,
            "sum" if self.in_latency => self.latency_sum_ms = first.number()?,
            "min" | "max" if self.in_latency => self.run.latency("request", label, first.number()?, "ms"),
            "avg" if self.in_latency => self.run.latency("request", "mean", first.number()?, "ms"),
            _ if self.in_latency && label.ends_with("percentile") => {
                let digits = label.trim_start_matches("approx.").trim().split(|c: char| !c.is_ascii_digit());
                if let Some(percent) =
                    digits.into_iter().next().filter(|digits| (1..=3).contains(&digits.len()))
                {
                    self.run.latency("request", &format!("p{percent}"), first.number()?, "ms");
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn syncs(&mut self, per_s: f64) {
        if per_s > 0.0 {
            self.run.columns.insert("syncs (ops/s)".to_string(), per_s);
        }
    }

    /// Version 1.1: `IOPS=15712.95 245.51 MiB/s (257.44 MB/s)`
    fn newest(&mut self, label: &str, words: &[ArgumentWord<'_>]) -> Result<(), Misread> {
        let operations_per_s = words[0].part(words[0].text.trim_start_matches("IOPS=")).number()?;
        let bytes_per_s = words.get(1).map_or(Ok(0.0), |word| word.number())? * Bytes::MIB as f64;
        let figures = Figures { operations_per_s, bytes_per_s, ..Figures::default() };
        match label {
            "read" => self.reads = figures,
            "write" => self.writes = figures,
            _ => self.syncs(operations_per_s),
        }
        Ok(())
    }

    /// Up to version 0.5: `3984 reads, 2656 writes, 8494 Other = 15134 Total`
    fn performed(&mut self, words: &[ArgumentWord<'_>]) -> Result<(), Misread> {
        for pair in words.windows(2) {
            match pair[1].text {
                "reads," | "Read," => self.reads.items = pair[0].number()?,
                "writes," | "Write," => self.writes.items = pair[0].number()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Up to version 0.5: `Read 62.25Mb  Written 41.5Mb  Total transferred 103.75Mb  (1.7287Mb/sec)`
    fn unlabelled(&mut self, line: ArgumentWord<'_>) -> Result<(), Misread> {
        if let [read, read_bytes, written, written_bytes, ..] = line.words()[..]
            && (read.text, written.text) == ("Read", "Written")
        {
            (self.reads.bytes, self.writes.bytes) = (size(read_bytes)?, size(written_bytes)?);
        }
        Ok(())
    }

    fn end(mut self) -> Run {
        let per_s = |amount: f64| if self.seconds > 0.0 { amount / self.seconds } else { 0.0 };
        let workers = self.run.options.get("threads").and_then(|count| count.parse().ok()).unwrap_or(0);
        let of_files =
            [(Role::Writer, self.writes), (Role::Reader, self.reads)].map(|(role, mut figures)| {
                if figures.bytes > 0.0 {
                    figures.bytes_per_s = per_s(figures.bytes);
                    figures.operations_per_s = per_s(std::mem::take(&mut figures.items));
                } else {
                    figures.bytes = figures.bytes_per_s * self.seconds;
                }
                (role, figures)
            });
        for (role, figures) in of_files.into_iter().chain([(Role::Transactor, self.transactions)]) {
            if figures.bytes_per_s + figures.operations_per_s + figures.items_per_s > 0.0 {
                let name = if role == Role::Transactor { "transactions" } else { &self.test };
                Figures { seconds: self.seconds, workers, ..figures }.add(self.run.phase(name), role);
            }
        }
        if self.run.phases.is_empty() {
            return Run::default();
        }
        if self.events > 0.0 && self.latency_sum_ms > 0.0 {
            self.run.latency("request", "mean", self.latency_sum_ms / self.events, "ms");
        }
        self.run
    }
}

/// `62.25Mb`: binary units.
fn size(word: ArgumentWord<'_>) -> Result<f64, Misread> {
    let text = word.text.trim_end_matches(['b', 'B']).trim_end_matches('i');
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return Err(word.error("expected a size such as 62.25Mb")),
    };
    Ok(word.part(digits).number()? * 1024_f64.powi(power))
}
