//! Reads the output of FsOpBench: one or more tables.
//!
//! Rules and blanks may have any length, as in the published files. Nothing is skipped: a line that is not
//! part of a table is an error with its position.

use super::{LatencyRow, Number, ROWS, RowValues, STATISTICS, Table, TablePhase, Title};
use fsdyno_core::Operation;

/// Why a text is not a table of FsOpBench, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The syntax that was expected.
    pub expected: String,
    /// The text that was found.
    pub found: String,
}

/// More lines than the tables of any study have, each of which takes memory.
const MOST_LINES: usize = 1_000_000;

/// Reads every table of a text.
///
/// # Errors
/// [`ParseError`] for the first thing that does not belong there.
pub fn parse(text: &str) -> Result<Vec<Table>, ParseError> {
    if let Some(beyond) = text.lines().nth(MOST_LINES) {
        return Err(ParseError::at(MOST_LINES + 1, 1, "the end of so long a text", describe(beyond)));
    }
    let mut lines = Lines { lines: text.lines().collect(), at: 0 };
    let mut tables = Vec::new();
    lines.skip_blank();
    while lines.peek().is_some() {
        tables.push(table(&mut lines)?);
        lines.skip_blank();
    }
    match tables.is_empty() {
        true => Err(ParseError::at(1, 1, "a line that names a configuration", "nothing")),
        false => Ok(tables),
    }
}

/// The lines of a text, and how many of them have been read.
struct Lines<'t> {
    lines: Vec<&'t str>,
    /// The index of the next line.
    at: usize,
}

impl<'t> Lines<'t> {
    fn peek(&self) -> Option<&'t str> {
        self.lines.get(self.at).copied()
    }

    /// The next line, which must exist.
    fn next(&mut self, expected: &str) -> Result<Words<'t>, ParseError> {
        let text =
            self.peek().ok_or_else(|| ParseError::at(self.at + 1, 1, expected, "the end of the text"))?;
        self.at += 1;
        Ok(Words { line: self.at, text, at: 0 })
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    /// Reads a rule, a line of one repeated character.
    fn rule(&mut self, character: char) -> Result<(), ParseError> {
        let expected = format!("a rule of '{character}'");
        let words = self.next(&expected)?;
        let rule = words.text.trim_end();
        match rule.len() >= 3 && rule.chars().all(|c| c == character) {
            true => Ok(()),
            false => Err(ParseError::at(words.line, 1, expected, describe(words.text))),
        }
    }
}

fn describe(text: &str) -> String {
    if text.trim().is_empty() { "nothing".to_string() } else { format!("'{}'", text.trim_end()) }
}

impl ParseError {
    fn at(line: usize, column: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        ParseError { line, column, expected: expected.into(), found: found.into() }
    }
}

fn table(lines: &mut Lines<'_>) -> Result<Table, ParseError> {
    let expected = "a line that names a configuration: Linux ..., with fs=...";
    let title = lines.next(expected)?;
    let mut table = Table { title: title_line(&title, expected)?, phases: Vec::new() };
    lines.rule('*')?;
    lines.skip_blank();
    while lines.peek().is_some_and(|line| !line.starts_with("Linux ")) {
        table.phases.push(phase(lines)?);
        lines.skip_blank();
    }
    match table.phases.is_empty() {
        true => Err(ParseError::at(title.line + 2, 1, "a phase such as '3 readers (30s)'", "none")),
        false => Ok(table),
    }
}

/// `Linux 2.6.31.2-test relatime barrier=0 fs=ext3 disk=areca RAID6 journal=ext`: values may contain blanks.
fn title_line(words: &Words<'_>, expected: &str) -> Result<Title, ParseError> {
    let refuse = || ParseError::at(words.line, 1, expected, describe(words.text));
    let mut rest = words.text.split_whitespace();
    let kernel = rest.next().filter(|word| *word == "Linux").and_then(|_| rest.next()).ok_or_else(refuse)?;
    let mut flags = Vec::new();
    let mut settings: Vec<(String, String)> = Vec::new();
    for word in rest {
        match (word.split_once('='), settings.last_mut()) {
            (Some((name, value)), _) => settings.push((name.to_string(), value.to_string())),
            (None, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            (None, None) => flags.push(word.to_string()),
        }
    }
    if !settings.iter().any(|(name, _)| name == "fs") {
        return Err(refuse());
    }
    Ok(Title { kernel: kernel.to_string(), flags, settings })
}

/// `3 readers, 3 writers (30s)`, a rule, and blocks of rows.
fn phase(lines: &mut Lines<'_>) -> Result<TablePhase, ParseError> {
    let expected = "a phase such as '3 readers, 3 writers (30s)'";
    let title = lines.next(expected)?;
    let refuse = || ParseError::at(title.line, 1, expected, describe(title.text));
    let (name, window) = title.text.trim().split_once(" (").ok_or_else(refuse)?;
    let window = window.strip_suffix(')').ok_or_else(refuse)?;
    let groups = name.split(", ").all(|group| {
        group.split_once(' ').is_some_and(|(count, role)| {
            count.parse::<u32>().is_ok() && ["reader", "readers", "writer", "writers"].contains(&role)
        })
    });
    if !groups {
        return Err(refuse());
    }
    lines.rule('-')?;
    let mut phase = TablePhase { name: name.to_string(), window: window.to_string(), rows: Vec::new() };
    loop {
        match lines.peek() {
            Some(line) if line.trim().is_empty() => lines.skip_blank(),
            Some(line) if begins_row(line) => phase.rows.push(row(lines.next("a row")?)?),
            _ if phase.rows.is_empty() => {
                return Err(ParseError::at(title.line + 2, 1, "a row such as 'A read dir ...'", "none"));
            }
            _ => return Ok(phase),
        }
    }
}

/// Returns whether a line begins like a row, with a capital letter and a blank; `Linux` and `3 readers` do
/// not.
pub(super) fn begins_row(line: &str) -> bool {
    let mut characters = line.chars();
    characters.next().is_some_and(|c| c.is_ascii_uppercase()) && characters.next() == Some(' ')
}

fn row(mut words: Words<'_>) -> Result<LatencyRow, ParseError> {
    for rows in &ROWS {
        let role = rows.role;
        for (label, operation) in rows.latencies {
            if words.take(label) {
                return Ok(LatencyRow { label, role, values: latency(&mut words, operation)? });
            }
        }
        if words.take(rows.rate) {
            return Ok(LatencyRow { label: rows.rate, role, values: rates(&mut words, rows.overhead)? });
        }
    }
    let latencies = ROWS.iter().flat_map(|rows| rows.latencies).map(|(label, _)| label);
    let labels: Vec<&str> = latencies.chain(ROWS.iter().map(|rows| rows.rate)).collect();
    Err(words.error(format!("one of the rows {}", labels.join(", "))))
}

/// `cnt  31375   min 0.002 ms   max   78.354 ms   avg  0.061 ms   med 0.005 ms   std   0.779`
fn latency(words: &mut Words<'_>, operation: Operation) -> Result<RowValues, ParseError> {
    words.word("cnt")?;
    let count = words.number("a count", |word| word.parse::<u64>().ok())?;
    let mut milliseconds = [None; STATISTICS.len()];
    for (index, name) in STATISTICS.into_iter().enumerate() {
        words.word(name)?;
        milliseconds[index] = words.figure()?;
        // The standard deviation has no unit.
        if index + 1 < STATISTICS.len() {
            words.word("ms")?;
        }
    }
    words.end()?;
    Ok(RowValues::Latency { operation, count, milliseconds })
}

/// `57.529 MB/s (data)  21.947 MB/s (readdir + open + 1st byte + data)`
fn rates(words: &mut Words<'_>, parts: &str) -> Result<RowValues, ParseError> {
    let data = words.figure()?;
    words.word("MB/s")?;
    words.word("(data)")?;
    let with_overhead = words.figure()?;
    words.word("MB/s")?;
    words.word(&format!("({parts})"))?;
    words.end()?;
    Ok(RowValues::Rate { data, with_overhead })
}

/// A line and how much of it has been read.
struct Words<'t> {
    line: usize,
    text: &'t str,
    /// In bytes.
    at: usize,
}

impl<'t> Words<'t> {
    fn rest(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    /// Consumes `expected` if it comes next.
    fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn word(&mut self, expected: &str) -> Result<(), ParseError> {
        if self.take(expected) { Ok(()) } else { Err(self.error(format!("'{expected}'"))) }
    }

    fn number<T>(&mut self, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, ParseError> {
        let word = self.rest().split_whitespace().next().unwrap_or_default();
        let value = read(word).ok_or_else(|| self.error(expected))?;
        self.at += word.len();
        Ok(value)
    }

    /// A number, a lower bound, or `-` for none.
    fn figure(&mut self) -> Result<Option<Number>, ParseError> {
        self.number("a number such as 0.061, a lower bound such as >=30000.000, or -", |word| {
            if word == "-" {
                return Some(None);
            }
            let (word, at_least) = word.strip_prefix(">=").map_or((word, false), |bound| (bound, true));
            let plain = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let value = word.parse::<f64>().ok().filter(|_| plain)?;
            Some(Some(Number { value, at_least }))
        })
    }

    fn end(&mut self) -> Result<(), ParseError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("the end of the line")) }
    }

    /// The error that something else was expected here.
    fn error(&mut self, expected: impl Into<String>) -> ParseError {
        let rest = self.rest();
        let found = rest.split_whitespace().next().map_or("the end of the line".into(), |w| format!("'{w}'"));
        let column = self.text[..self.at].chars().count() + 1;
        ParseError::at(self.line, column, expected, found)
    }
}
