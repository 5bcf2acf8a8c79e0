//! Runs as the reports of other programs describe them, and what their readers share.

use crate::nanos;
use fsdyno_core::result::RoleResult;
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::Program;
use fsdyno_core::{PhaseResult, Role};
use std::collections::BTreeMap;

/// More runs than anybody makes of one configuration and keeps in one file: each is a trial with memory of
/// its own.
pub const MOST_RUNS: usize = 50_000;

/// More words than any command line has.
const MOST_WORDS: usize = 500;

/// One run of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// The version of the program, if the report states it.
    pub version: Option<String>,
    /// The facts that the report states about the work, by name. Where the work was done, and what was
    /// printed about it, is not part of them.
    pub options: BTreeMap<String, String>,
    /// Its configuration, if the report has a name for it.
    pub label: Option<String>,
    /// Which part of a report it is, such as `iteration 2 of 3`.
    pub part: Option<String>,
    /// Its phases.
    pub phases: Vec<PhaseResult>,
    /// Figures that phases have no place for, by heading and unit: `write latency mean (us)`.
    pub columns: BTreeMap<String, f64>,
    /// Figures that the program prints coarsely or not at all.
    pub missing: Vec<String>,
}

impl Run {
    /// A phase, unless the run has it already.
    pub(crate) fn phase(&mut self, name: &str) -> &mut PhaseResult {
        let at = self.phases.iter().position(|phase| phase.name == name).unwrap_or_else(|| {
            self.phases.push(PhaseResult::lasting(name, Nanos(0), Vec::new()));
            self.phases.len() - 1
        });
        &mut self.phases[at]
    }

    /// Adds a latency of a step. One that is printed as 0 is shorter than the program can tell, so unknown.
    pub(crate) fn latency(&mut self, step: &str, statistic: &str, value: f64, unit: &str) {
        if value > 0.0 {
            self.columns.insert(format!("{step} latency {statistic} ({unit})"), value);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.phases.is_empty() && self.columns.is_empty()
    }
}

/// The figures of a role; 0 is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) seconds: f64,
    pub(crate) workers: u32,
    pub(crate) bytes: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) operations_per_s: f64,
    pub(crate) items: f64,
    pub(crate) items_per_s: f64,
}

impl Figures {
    /// Gives a role of a phase these figures, writers before readers, as everywhere.
    pub(crate) fn add(self, phase: &mut PhaseResult, role: Role) {
        phase.window_ns = phase.window_ns.max(nanos(self.seconds));
        let mut result = RoleResult::unwatched(role, self.workers);
        result.rates.bytes = self.bytes.round() as u64;
        result.rates.aggregate_bytes_per_s = self.bytes_per_s;
        result.rates.operations_per_s = self.operations_per_s;
        result.rates.items = self.items.round() as u64;
        result.rates.items_per_s = self.items_per_s;
        phase.roles.retain(|known| known.role != role);
        let at = if role == Role::Writer { 0 } else { phase.roles.len() };
        phase.roles.insert(at, result);
    }
}

/// Why a text is not a report of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misread {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The problem at this place.
    pub problem: String,
}

/// A part of a line of a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgumentWord<'t> {
    pub(crate) text: &'t str,
    /// From 1.
    line: usize,
    /// Its first byte in the line, from 0.
    begin: usize,
    whole: &'t str,
}

impl<'t> ArgumentWord<'t> {
    /// A whole line, with its number from 0.
    pub(crate) fn line((index, text): (usize, &'t str)) -> Self {
        ArgumentWord { text, line: index + 1, begin: 0, whole: text }
    }

    /// A part of it.
    pub(crate) fn part(self, text: &'t str) -> Self {
        let begin = self.begin + text.as_ptr() as usize - self.text.as_ptr() as usize;
        ArgumentWord { text, begin, ..self }
    }

    /// Returns the parts between white space.
    pub(crate) fn words(self) -> Vec<ArgumentWord<'t>> {
        self.text.split_whitespace().map(|text| self.part(text)).collect()
    }

    /// Returns the parts between separators.
    pub(crate) fn cells(self, separator: char) -> Vec<ArgumentWord<'t>> {
        self.text.split(separator).map(|text| self.part(text.trim())).collect()
    }

    /// The column of its last character in bytes, from 1.
    pub(crate) fn end(self) -> usize {
        self.begin + self.text.len()
    }

    pub(crate) fn error(self, problem: impl Into<String>) -> Misread {
        let column = self.whole[..self.begin].chars().count() + 1;
        Misread { line: self.line, column, problem: problem.into() }
    }

    /// A figure, which is neither negative nor endless.
    pub(crate) fn number(self) -> Result<f64, Misread> {
        let plain = self.text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+'));
        let value = self.text.parse::<f64>().ok().filter(|value| plain && value.is_finite());
        value.ok_or_else(|| {
            let begin: String = self.text.chars().take(20).collect();
            self.error(format!("expected a number, found '{begin}'"))
        })
    }

    /// A figure, or nothing where the program prints nothing or a dash.
    pub(crate) fn figure(self) -> Result<Option<f64>, Misread> {
        if matches!(self.text, "" | "-" | "NA") { Ok(None) } else { self.number().map(Some) }
    }
}

/// The lines of a text.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = ArgumentWord<'_>> + Clone {
    text.trim_start_matches('\u{feff}').lines().enumerate().map(ArgumentWord::line)
}

/// Returns the text that a report states, unless it is longer than anything that people state.
pub(crate) fn stated(text: &str) -> Option<String> {
    (1..=200).contains(&text.len()).then(|| text.to_string())
}

/// The rest of the first line that begins with a label, without white space around it.
pub(crate) fn after<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
}

/// The runs of a report so far.
#[derive(Debug, Default)]
pub(crate) struct Runs(Vec<Run>);

impl Runs {
    /// Adds a run that has figures; `at` is where they are.
    pub(crate) fn push(&mut self, run: Run, at: ArgumentWord<'_>) -> Result<(), Misread> {
        if self.0.len() == MOST_RUNS {
            return Err(at.error(format!("a report has at most {MOST_RUNS} runs")));
        }
        if !run.is_empty() {
            self.0.push(run);
        }
        Ok(())
    }

    /// All of them, of which there is at least one.
    pub(crate) fn all(self, expected: &str) -> Result<Vec<Run>, Misread> {
        match self.0.is_empty() {
            true => Err(Misread { line: 1, column: 1, problem: format!("expected {expected}, found none") }),
            false => Ok(self.0),
        }
    }
}

/// The options of a command line by name. A word after one belongs to it unless it is a path. Those in
/// `aside` say where the work is done or how it is reported, or the report states them elsewhere.
pub(crate) fn options(command: &str, aside: &[&str]) -> BTreeMap<String, String> {
    let words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    let mut options: BTreeMap<String, String> = BTreeMap::new();
    let mut last: Option<String> = None;
    for word in words.skip(1).take(MOST_WORDS).filter(|word| stated(word).is_some()) {
        if word.len() > 1 && word.starts_with('-') && !word[1..].starts_with(|c: char| c.is_ascii_digit()) {
            let (name, value) = attached(word);
            let known = !aside.contains(&name);
            last = Some(name.to_string()).filter(|_| known && value.is_empty());
            if known {
                options.insert(name.to_string(), value.to_string());
            }
        } else if let Some(name) = last.take()
            && !word.contains('/')
        {
            options.insert(name, word.to_string());
        }
    }
    options
}

/// `-n200` and `--size=4k` as name and value.
fn attached(word: &str) -> (&str, &str) {
    if let Some((name, value)) = word.split_once('=') {
        return (name, value);
    }
    match word.char_indices().nth(2) {
        Some((at, letter)) if !word.starts_with("--") && letter.is_ascii_digit() => word.split_at(at),
        _ => (word, ""),
    }
}

/// A program whose reports are read.
pub struct Report {
    /// The program.
    pub program: Program,
    /// The subjects that its reports do not mention.
    pub silent: &'static str,
    /// Returns whether a text looks like one of its reports.
    pub recognises: fn(&str) -> bool,
    /// The runs in a report.
    pub read: fn(&str) -> Result<Vec<Run>, Misread>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_however_they_are_written() {
        let same = [
            "mdtest -n 200 -F -d /mnt/a -i 3",
            "/opt/mdtest '-n200' '-F' '-i' '3' '-d' '/mnt/b'",
            "mdtest \"-F\" \"-n=200\"",
        ];
        for command in same {
            let options = options(command, &["-d", "-i"]);
            assert_eq!(
                options,
                [("-F".into(), String::new()), ("-n".into(), "200".into())].into(),
                "{command}"
            );
        }
    }

    #[test]
    fn figures_are_finite_and_not_negative() {
        let word = |text| ArgumentWord::line((3, text)).words()[1];
        assert_eq!(word("a 1.5e+3").number(), Ok(1500.0));
        assert_eq!(word("a -").figure(), Ok(None));
        for bad in
            ["a -3", "a inf", "a nan", "a 0x10", "a 1,5", "a \u{1b}[31m7", &format!("a {}", "9".repeat(400))]
        {
            let error = word(bad).number().unwrap_err();
            assert_eq!((error.line, error.column), (4, 3), "{bad}");
        }
    }
}
