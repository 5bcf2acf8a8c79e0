//! Imports results from other programs as trials: the tables of FsOpBench, the JSON of fio, the CSV of
//! bonnie++, reports of mdtest, IOR, elbencho, iozone and sysbench, and tables of anybody's own measurements.
//!
//! The contents of a file go into the same phases, roles and operations as in our own trials, so measures and
//! everything that shows trials work on them. What a file does not contain is absent, never filled in; a
//! warning of each trial names the file and says what is missing. A file that cannot be parsed completely is
//! an error with line and column, and then nothing is imported from any file.
//!
//! The order in which such trials ran is unknown, so each is its own block: two cases of one import are
//! independent samples. Only a table may say which trials ran together.

mod bonnie;
mod fio;
mod fsopbench;
mod report;
mod table;

pub use table::{Imported, TableOptions, table};

use crate::REPORTS;
use fsdyno_core::environment::Environment;
use fsdyno_core::measure::Measure;
use fsdyno_core::outcome::Outcome;
use fsdyno_core::result::{PhaseResult, TrialRecord};
use fsdyno_core::workload::Program;
use fsdyno_core::{Configuration, DeviceSpec, Warning, WarningKind, Workload, figures};
use std::borrow::BorrowMut;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::PathBuf;

/// The format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Tables of FsOpBench, 2009.
    FsOpBench,
    /// fio with `--output-format=json` or `json+`, 2.x or 3.
    Fio,
    /// Lines of bonnie++, 1.03 to 2.00.
    BonnieCsv,
    /// A report that one of the [`REPORTS`] reads.
    Report(Program),
}

impl Format {
    /// The format that a text looks like.
    pub fn of(text: &str) -> Option<Format> {
        let report = REPORTS.iter().find(|report| (report.recognises)(text));
        let is_fio = || text.contains("\"fio version\"");
        let is_bonnie = || text.lines().any(|line| crate::bonnie::Line::new(line).is_ok());
        report
            .map(|report| Format::Report(report.program))
            .or_else(|| is_fio().then_some(Format::Fio))
            .or_else(|| is_bonnie().then_some(Format::BonnieCsv))
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path, as the user wrote it.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// Why a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It does not have the expected format.
    #[error("'{file}', line {line}, column {column}: {problem}")]
    Syntax {
        /// Which file.
        file: String,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// The problem at this place.
        problem: String,
    },
    /// It is too large for a result.
    #[error("'{file}' is larger than {} MiB", File::MOST >> 20)]
    TooLarge {
        /// Which file.
        file: String,
    },
    /// It is well-formed, but not a valid result.
    #[error("'{file}': {problem}")]
    NoResult {
        /// Which file.
        file: String,
        /// Why.
        problem: String,
    },
}

impl ImportError {
    /// The file that cannot be imported.
    pub fn file(&self) -> &str {
        match self {
            ImportError::Syntax { file, .. }
            | ImportError::TooLarge { file }
            | ImportError::NoResult { file, .. } => file,
        }
    }

    fn at(file: &File, line: usize, column: usize, problem: impl Into<String>) -> Self {
        ImportError::Syntax { file: file.path.clone(), line, column, problem: problem.into() }
    }
}

impl File {
    /// The maximum size of a file in bytes: a result of fio with a thousand jobs has a few MiB.
    pub const MOST: u64 = 64 << 20;

    /// Reads a file or a pipe.
    ///
    /// # Errors
    /// The outer error is that of `input`; the inner one is [`ImportError::TooLarge`] or that of
    /// [`File::new`].
    pub fn read(path: impl Into<String>, input: impl Read) -> io::Result<Result<File, ImportError>> {
        let (path, mut bytes) = (path.into(), Vec::new());
        input.take(File::MOST + 1).read_to_end(&mut bytes)?;
        Ok(match bytes.len() as u64 > File::MOST {
            true => Err(ImportError::TooLarge { file: path }),
            false => File::new(path, bytes),
        })
    }

    /// The text of a file in UTF-8 or UTF-16, without the mark of its byte order.
    ///
    /// # Errors
    /// [`ImportError::Syntax`] at the first byte that is not valid.
    pub fn new(path: impl Into<String>, bytes: Vec<u8>) -> Result<File, ImportError> {
        let path = path.into();
        // All that is imported begins with an ASCII character, so one byte of the first two is zero in
        // UTF-16.
        let from_bytes: Option<fn([u8; 2]) -> u16> = match bytes[..] {
            [0xff, 0xfe, ..] | [1..=u8::MAX, 0, ..] => Some(u16::from_le_bytes),
            [0xfe, 0xff, ..] | [0, 1..=u8::MAX, ..] => Some(u16::from_be_bytes),
            _ => None,
        };
        if let Some(from_bytes) = from_bytes {
            return utf16(path, &bytes, from_bytes);
        }
        match String::from_utf8(bytes) {
            Ok(text) if text.starts_with('\u{feff}') => {
                Ok(File { path, text: text.trim_start_matches('\u{feff}').to_string() })
            }
            Ok(text) => Ok(File { path, text }),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let (line, column) = place(&before);
                let problem = format!("the byte 0x{:02x} is not valid UTF-8", error.as_bytes()[valid]);
                Err(ImportError::Syntax { file: path, line, column, problem })
            }
        }
    }

    /// The name without directory and extension.
    fn stem(&self) -> String {
        let path = PathBuf::from(&self.path);
        path.file_stem().map_or(self.path.clone(), |stem| stem.to_string_lossy().into_owned())
    }
}

/// A file in UTF-16, as PowerShell and Windows' editors write it.
fn utf16(path: String, bytes: &[u8], from_bytes: fn([u8; 2]) -> u16) -> Result<File, ImportError> {
    let (units, rest) = bytes.as_chunks::<2>();
    let mut text = String::new();
    // Half a unit at the end is one that is not valid.
    let last = rest.first().map(|_| 0xdc00);
    for unit in char::decode_utf16(units.iter().map(|unit| from_bytes(*unit)).chain(last)) {
        match unit {
            Ok(letter) => text.push(letter),
            Err(_) => {
                let (line, column) = place(&text);
                let problem = "what follows is not valid UTF-16".to_string();
                return Err(ImportError::Syntax { file: path, line, column, problem });
            }
        }
    }
    Ok(File { path, text: text.trim_start_matches('\u{feff}').to_string() })
}

/// Line and column of the character after a text, from 1.
fn place(before: &str) -> (usize, usize) {
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// Axes whose levels are clear without the name of the axis.
const SELF_EXPLAINING: &[&str] = &["kernel", "scheduler", "atime", "disk"];

/// A trial, as far as its file describes it.
struct Draft {
    configuration: Configuration,
    workload: Workload,
    environment: Environment,
    scheduler: String,
    phases: Vec<PhaseResult>,
    /// Figures that phases have no place for.
    columns: BTreeMap<String, f64>,
    warnings: Vec<Warning>,
    /// When it ended, RFC 3339; empty if unknown.
    finished: String,
}

impl Draft {
    fn is_possible(&self) -> bool {
        is_possible(&self.phases) && self.columns.values().copied().all(figures::is_possible)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let fixed = [&self.configuration.name, &self.scheduler].map(String::as_str);
        fixed.into_iter().chain(self.phases.iter().map(|phase| phase.name.as_str()))
    }
}

/// The maximum length of a name in bytes: names determine the layout of tables, and nobody reads longer ones.
pub const LONGEST_NAME: usize = fsdyno_core::sweep_name::LONGEST;

/// Imports the trials of files, in order. Those with the same configuration and the same workload are trials
/// of one case.
///
/// `configuration` names the configuration of all trials; without it, the names come from the files as far as
/// possible.
///
/// # Errors
/// [`ImportError`] for the first file that cannot be imported.
pub fn trials(
    format: Format,
    files: &[File],
    configuration: Option<&str>,
) -> Result<Vec<TrialRecord>, ImportError> {
    let mut drafts = Vec::new();
    for file in files {
        let of_file = match format {
            Format::FsOpBench => fsopbench::drafts(file)?,
            Format::Fio => fio::drafts(file)?,
            Format::BonnieCsv => bonnie::drafts(file)?,
            Format::Report(program) => {
                let report = REPORTS.iter().find(|report| report.program == program);
                let unread = || ImportError::NoResult {
                    file: file.path.clone(),
                    problem: format!("reports of {} are not read", program.name()),
                };
                report::drafts(report.ok_or_else(unread)?, file)?
            }
        };
        if let Some(long) = of_file.iter().flat_map(Draft::names).find(|name| name.len() > LONGEST_NAME) {
            let begin: String = long.chars().take(20).collect();
            let problem =
                format!("the name '{begin}...' has {} bytes; the limit is {LONGEST_NAME}", long.len());
            return Err(ImportError::NoResult { file: file.path.clone(), problem });
        }
        if !of_file.iter().all(Draft::is_possible) {
            let problem = "it contains impossible figures".to_string();
            return Err(ImportError::NoResult { file: file.path.clone(), problem });
        }
        drafts.extend(of_file);
    }
    if format == Format::FsOpBench {
        name(&mut drafts);
    }
    if let Some(name) = configuration {
        drafts.iter_mut().for_each(|draft| draft.configuration.name = name.to_string());
    }
    let mut cases: Vec<(Configuration, Workload)> = Vec::new();
    let numbered = (0..).zip(drafts).map(|(number, draft)| {
        let case = (draft.configuration.clone(), draft.workload.clone());
        let index = cases.iter().position(|known| *known == case).unwrap_or_else(|| {
            cases.push(case);
            cases.len() - 1
        });
        record(number, u32::try_from(index).unwrap_or(u32::MAX), draft)
    });
    Ok(numbered.collect())
}

/// Names configurations as a plan does: by what varies among them.
fn name<D: BorrowMut<Draft>>(drafts: &mut [D]) {
    let levels = |axis: &str| -> BTreeSet<Option<String>> {
        let level = |draft: &Draft| match axis {
            "filesystem" => Some(draft.configuration.filesystem.clone()),
            _ => draft.configuration.settings.get(axis).cloned(),
        };
        drafts.iter().map(|draft| level(draft.borrow())).collect()
    };
    let axes: BTreeSet<String> =
        drafts.iter().flat_map(|draft| draft.borrow().configuration.settings.keys().cloned()).collect();
    let varying: Vec<String> = axes.into_iter().filter(|axis| levels(axis).len() > 1).collect();
    let filesystem_varies = levels("filesystem").len() > 1;
    for draft in drafts {
        let Configuration { name, filesystem, settings } = &mut draft.borrow_mut().configuration;
        let word = |axis: &String| {
            let level = settings.get(axis)?;
            let is_clear = SELF_EXPLAINING.contains(&axis.as_str());
            Some(if is_clear { level.clone() } else { format!("{axis}={level}") })
        };
        let mut words: Vec<String> = varying.iter().filter_map(word).collect();
        if filesystem_varies || words.is_empty() {
            words.insert(0, filesystem.clone());
        }
        *name = words.join(" ");
    }
}

/// Returns whether a measurement can produce these figures. Infinities are impossible, and JSON has none.
fn is_possible(phases: &[PhaseResult]) -> bool {
    serde_json::to_vec(phases).is_ok_and(|json| {
        figures::impossible(&json).is_none() && serde_json::from_slice::<Vec<PhaseResult>>(&json).is_ok()
    })
}

fn record(number: u32, case: u32, draft: Draft) -> TrialRecord {
    let Draft { configuration, workload, environment, scheduler, phases, columns, warnings, finished } =
        draft;
    let device = DeviceSpec::Directory { path: "(not known)".into() };
    let mut record = TrialRecord {
        trial: number,
        block: number,
        case,
        warnings,
        columns,
        phases,
        finished,
        ..TrialRecord::new(configuration, device, workload, Outcome::Measured)
    };
    record.configuration.built.scheduler_in_force = scheduler;
    record.set_environment(environment);
    record
}

/// The measure that a summary can rank these trials by: the usual one of their workload, otherwise the last
/// rate that one of them has, otherwise whatever figure one has.
pub fn measure(trials: &[TrialRecord]) -> Option<Measure> {
    let exists = |measure: &Measure| trials.iter().any(|trial| measure.value(trial).is_some());
    let usual = trials.first()?.workload.load().default_measure().parse::<Measure>().ok();
    let others = || {
        let phases = trials.iter().flat_map(|trial| &trial.phases);
        let roles = phases.flat_map(|phase| phase.roles.iter().map(move |role| (phase, role)));
        let operations = roles.map(|(phase, role)| format!("{}/{}/operation-rate", phase.name, role.role));
        let columns = trials.iter().flat_map(|trial| trial.columns.keys().cloned());
        operations.chain(columns).filter_map(|name| name.parse::<Measure>().ok()).find(exists)
    };
    usual.filter(exists).or_else(|| Measure::last_rate(trials.iter())).or_else(others)
}

/// Says that a trial comes from a file, and what the file does not describe.
fn warning(file: &File, what: &str, unknown: &str) -> Warning {
    Warning::new(
        WarningKind::Imported,
        format!("from '{}' ({what}), which says nothing about {unknown}", file.path),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_rejected_with_its_position() {
        let error = File::new("a.txt", b"ab\ncd\xff\n".to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "'a.txt', line 2, column 3: the byte 0xff is not valid UTF-8");
        let error = File::new("a.txt", "\u{e9}".repeat(3).into_bytes()[..5].to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "'a.txt', line 1, column 3: the byte 0xc3 is not valid UTF-8");
    }

    #[test]
    fn utf_16_and_marks_of_the_byte_order_are_read() {
        let units = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect();
        let text = "a\u{e9}\r\n\u{1f600}\n";
        let marked = format!("\u{feff}{text}");
        let little: Vec<u8> = units(&marked, u16::to_le_bytes);
        let big: Vec<u8> = units(&marked, u16::to_be_bytes);
        for bytes in [little[2..].to_vec(), big[2..].to_vec(), little.clone(), big, marked.into_bytes()] {
            assert_eq!(File::new("a.csv", bytes).unwrap().text, text);
        }
        let error = File::new("a.csv", little[..little.len() - 1].to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "'a.csv', line 2, column 2: what follows is not valid UTF-16");
        assert_eq!(File::new("a.csv", Vec::new()).unwrap().text, "");
    }

    #[test]
    fn impossible_figures_are_rejected() {
        let line = |rate: &str| format!("host,300M,{rate},10,200,20,,,,,,,,,,,,,,,,,,,,,\n");
        for rate in ["9".repeat(400).as_str(), "99999999999999", "0.00000000001"] {
            let file = File { path: "a".to_string(), text: line(rate) };
            let error = trials(Format::BonnieCsv, &[file], None).unwrap_err().to_string();
            assert_eq!(error, "'a': it contains impossible figures");
        }
        let file = File { path: "a".to_string(), text: line("100") };
        assert!(trials(Format::BonnieCsv, &[file], None).is_ok());
    }

    #[test]
    fn an_endless_file_is_rejected() {
        let error = File::read("-", io::repeat(b' ')).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "'-' is larger than 64 MiB");
        assert_eq!(File::read("a", &b"text"[..]).unwrap().unwrap().text, "text");
    }

    #[test]
    fn a_name_that_is_too_long_is_rejected() {
        let named = |length: usize| {
            let text = format!("{},300M,100,10,200,20,,,,,,,,,,,,,,,,,,,,,\n", "a".repeat(length));
            trials(Format::BonnieCsv, &[File { path: "bonnie".to_string(), text }], None)
        };
        assert!(named(LONGEST_NAME - 32).is_ok());
        let error = named(1 << 20).unwrap_err().to_string();
        assert!(error.contains("the name 'aaaaaaaaaaaaaaaaaaaa...' has") && error.len() < 200, "{error}");
    }

    #[test]
    fn nothing_is_imported_if_one_file_is_broken() {
        let line = "host,300M,100,10,200,20,,,,,,,,,,,,,,,,,,,,,\n";
        let good = File { path: "good".to_string(), text: line.to_string() };
        assert_eq!(trials(Format::BonnieCsv, &[good.clone(), good.clone()], None).unwrap().len(), 2);
        let bad = File { path: "bad".to_string(), text: String::new() };
        assert!(trials(Format::BonnieCsv, &[good, bad], None).is_err());
    }
}
