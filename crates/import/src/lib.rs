//! Results that were measured elsewhere, as trials: the tables of FsOpBench, the JSON of fio, the CSV of bonnie++.
//!
//! What a file tells is kept in the phases, roles and operations that a trial of ours would have, so that measures find it
//! and everything that shows trials shows it. What it does not tell is absent, never filled in; a warning of each trial
//! names its file and says what that is. A file that is not understood to its last character is an error with line and
//! column, and then nothing of any file is imported.
//!
//! Nothing is known of the order in which such trials ran, so that each is a block by itself: two cases of one import are
//! independent samples.

mod bonnie;
mod fio;
mod fsopbench;

use fsdyno_core::environment::Environment;
use fsdyno_core::measure::Measure;
use fsdyno_core::outcome::Outcome;
use fsdyno_core::result::{Built, Lifecycle, PhaseResult, TreeSummary, TrialRecord};
use fsdyno_core::{Configuration, DeviceSpec, Warning, WarningKind, Workload, figures};
use std::io::{self, Read};
use std::path::PathBuf;

/// Who wrote the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Tables of FsOpBench, 2009.
    FsOpBench,
    /// fio with `--output-format=json` or `json+`.
    Fio,
    /// Lines of bonnie++, 1.03 to 2.00.
    BonnieCsv,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// As the user names it.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// Why a file is not imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It is not what it should be, and where.
    #[error("'{file}', line {line}, column {column}: {problem}")]
    Syntax {
        /// Which file.
        file: String,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// It is larger than any result.
    #[error("'{file}': it has more than {} MiB", File::MOST >> 20)]
    TooLarge {
        /// Which file.
        file: String,
    },
    /// It is well-formed and yet no result.
    #[error("'{file}': {problem}")]
    NoResult {
        /// Which file.
        file: String,
        /// Why.
        problem: String,
    },
}

impl ImportError {
    fn at(file: &File, line: usize, column: usize, problem: impl Into<String>) -> Self {
        ImportError::Syntax { file: file.path.clone(), line, column, problem: problem.into() }
    }
}

impl File {
    /// The most bytes that a file may have: a result of fio with a thousand jobs has a few MiB.
    pub const MOST: u64 = 256 << 20;

    /// Reads a file, from a pipe as well.
    ///
    /// # Errors
    /// Those of `input`; what was read is refused with [`ImportError::TooLarge`], or as [`File::new`] does.
    pub fn read(path: impl Into<String>, input: impl Read) -> io::Result<Result<File, ImportError>> {
        let (path, mut bytes) = (path.into(), Vec::new());
        input.take(File::MOST + 1).read_to_end(&mut bytes)?;
        Ok(match bytes.len() as u64 > File::MOST {
            true => Err(ImportError::TooLarge { file: path }),
            false => File::new(path, bytes),
        })
    }

    /// The text of a file.
    ///
    /// # Errors
    /// [`ImportError::Syntax`] with the first byte that is no UTF-8.
    pub fn new(path: impl Into<String>, bytes: Vec<u8>) -> Result<File, ImportError> {
        let path = path.into();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(File { path, text }),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let (line, column) = place(&before);
                let problem = format!("the byte 0x{:02x} is not UTF-8", error.as_bytes()[valid]);
                Err(ImportError::Syntax { file: path, line, column, problem })
            }
        }
    }

    /// The name without directory and ending.
    fn stem(&self) -> String {
        let path = PathBuf::from(&self.path);
        path.file_stem().map_or(self.path.clone(), |stem| stem.to_string_lossy().into_owned())
    }
}

/// Line and column of the character behind a text, from 1.
fn place(before: &str) -> (usize, usize) {
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// A trial as far as its file tells of it.
struct Draft {
    configuration: Configuration,
    workload: Workload,
    environment: Environment,
    scheduler: String,
    phases: Vec<PhaseResult>,
    warnings: Vec<Warning>,
    /// When it had ended, RFC 3339; empty where that is not told.
    finished: String,
}

impl Draft {
    fn names(&self) -> impl Iterator<Item = &str> {
        let fixed = [&self.configuration.name, &self.scheduler].map(String::as_str);
        fixed.into_iter().chain(self.phases.iter().map(|phase| phase.name.as_str()))
    }
}

/// Bytes of a name; tables are laid out by names, and no person reads longer ones.
pub const LONGEST_NAME: usize = 256;

/// The trials of some files, in their order. Those of one configuration under one workload are trials of one case.
///
/// `configuration` names the configuration of all of them; else the files do, as far as they can.
///
/// # Errors
/// [`ImportError`] of the first file that is not understood.
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
        };
        if let Some(long) = of_file.iter().flat_map(Draft::names).find(|name| name.len() > LONGEST_NAME) {
            let begin: String = long.chars().take(20).collect();
            let problem =
                format!("the name '{begin}...' has {} bytes; {LONGEST_NAME} are the most", long.len());
            return Err(ImportError::NoResult { file: file.path.clone(), problem });
        }
        if !of_file.iter().all(|draft| is_possible(&draft.phases)) {
            let problem = "it has figures that nothing can measure".to_string();
            return Err(ImportError::NoResult { file: file.path.clone(), problem });
        }
        drafts.extend(of_file);
    }
    if format == Format::FsOpBench {
        fsopbench::name(&mut drafts);
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

/// Whether figures are such as a measurement can have; infinities are not, and JSON has none.
fn is_possible(phases: &[PhaseResult]) -> bool {
    serde_json::to_vec(phases).is_ok_and(|json| {
        figures::impossible(&json).is_none() && serde_json::from_slice::<Vec<PhaseResult>>(&json).is_ok()
    })
}

fn record(number: u32, case: u32, draft: Draft) -> TrialRecord {
    let Draft { configuration, workload, environment, scheduler, phases, warnings, finished } = draft;
    TrialRecord {
        trial: number,
        block: number,
        case,
        sentinel: false,
        seed: 0,
        configuration,
        device: DeviceSpec::Directory { path: "(not known)".into() },
        workload,
        outcome: Outcome::Measured,
        warnings,
        timer: None,
        lifecycle_ns: Lifecycle::default(),
        built: Built { scheduler_in_force: scheduler, ..Built::default() },
        environment,
        trees: TreeSummary::default(),
        filled: None,
        layout: None,
        phases,
        started: String::new(),
        finished,
    }
}

/// What a summary of these trials can rank by: what their workload is ranked by, else the last rate that one of them has.
pub fn measure(trials: &[TrialRecord]) -> Option<Measure> {
    let usual = trials.first()?.workload.load().default_measure().parse::<Measure>().ok();
    let usual = usual.filter(|usual| trials.iter().any(|trial| usual.value(trial).is_some()));
    usual.or_else(|| Measure::last_rate(trials.iter()))
}

/// That a trial comes from a file, and what that does not tell.
fn warning(file: &File, what: &str, unknown: &str) -> Warning {
    Warning::new(WarningKind::Imported, format!("from '{}', {what}: {unknown}", file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_refused_with_its_place() {
        let error = File::new("a.txt", b"ab\ncd\xff\n".to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "'a.txt', line 2, column 3: the byte 0xff is not UTF-8");
        let error = File::new("a.txt", "\u{e9}".repeat(3).into_bytes()[..5].to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "'a.txt', line 1, column 3: the byte 0xc3 is not UTF-8");
    }

    #[test]
    fn figures_that_nothing_can_measure_are_refused() {
        let line = |rate: &str| format!("host,300M,{rate},10,200,20,,,,,,,,,,,,,,,,,,,,,\n");
        for rate in ["9".repeat(400).as_str(), "99999999999999", "0.00000000001"] {
            let file = File { path: "a".to_string(), text: line(rate) };
            let error = trials(Format::BonnieCsv, &[file], None).unwrap_err().to_string();
            assert_eq!(error, "'a': it has figures that nothing can measure");
        }
        let file = File { path: "a".to_string(), text: line("100") };
        assert!(trials(Format::BonnieCsv, &[file], None).is_ok());
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let error = File::read("-", io::repeat(b' ')).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "'-': it has more than 256 MiB");
        assert_eq!(File::read("a", &b"text"[..]).unwrap().unwrap().text, "text");
    }

    #[test]
    fn a_name_that_nobody_can_read_is_refused() {
        let named = |length: usize| {
            let text = format!("{},300M,100,10,200,20,,,,,,,,,,,,,,,,,,,,,\n", "a".repeat(length));
            trials(Format::BonnieCsv, &[File { path: "bonnie".to_string(), text }], None)
        };
        assert!(named(LONGEST_NAME - 32).is_ok());
        let error = named(1 << 20).unwrap_err().to_string();
        assert!(error.contains("the name 'aaaaaaaaaaaaaaaaaaaa...' has") && error.len() < 200, "{error}");
    }

    #[test]
    fn one_broken_file_keeps_the_others_out() {
        let line = "host,300M,100,10,200,20,,,,,,,,,,,,,,,,,,,,,\n";
        let good = File { path: "good".to_string(), text: line.to_string() };
        assert_eq!(trials(Format::BonnieCsv, &[good.clone(), good.clone()], None).unwrap().len(), 2);
        let bad = File { path: "bad".to_string(), text: String::new() };
        assert!(trials(Format::BonnieCsv, &[good, bad], None).is_err());
    }
}
