//! The text that FsOpBench printed, read back: one or more tables, in the layout of [`crate::terminal::classic`].
//!
//! A table is a line that names the configuration, a rule of stars, and the phases, each with its name, a rule of dashes and
//! one block of rows for each role. The rules of the published files are of any length, and so are blanks. What our own
//! tables added is understood, too: `>=` before a lower bound, and `-` where there is no figure.
//!
//! Nothing is skipped: a line that is none of these is an error with its place.

use crate::terminal::compatible::{READER, READER_RATE, WRITER, WRITER_RATE};
use fsdyno_core::{Operation, Role};
use std::fmt;

/// A table: one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The first line.
    pub title: String,
    /// `2.6.31.2-test`.
    pub kernel: String,
    /// The words of the title that have no `=`: `relatime`.
    pub flags: Vec<String>,
    /// The words of the title that have one, in their order: `fs` and `ext3`, `disk` and `areca RAID6`.
    pub settings: Vec<(String, String)>,
    /// In their order.
    pub phases: Vec<Phase>,
}

impl Table {
    /// What the title says of a setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A phase of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// `3 readers, 3 writers`.
    pub name: String,
    /// How long it was measured, as written: `30s`.
    pub window: String,
    /// In their order.
    pub rows: Vec<Row>,
}

/// A row of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// `A read dir`.
    pub label: &'static str,
    /// Whose row it is.
    pub role: Role,
    /// What it says.
    pub figures: Figures,
}

/// What a row says.
#[derive(Debug, Clone, PartialEq)]
pub enum Figures {
    /// The latency of an operation, in milliseconds.
    Latency {
        /// Which operation.
        operation: Operation,
        /// How many.
        count: u64,
        /// Minimum, maximum, mean, median and standard deviation.
        milliseconds: [Option<Figure>; 5],
    },
    /// Rates in MB/s: of the data alone, and with everything that had to be done for it.
    Rate {
        /// Data alone.
        data: Option<Figure>,
        /// With everything.
        with_overhead: Option<Figure>,
    },
}

/// One number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// As printed.
    pub value: f64,
    /// Whether it is only a lower bound.
    pub at_least: bool,
}

/// The names of [`Figures::Latency`]'s numbers, in their order.
pub const STATISTICS: [&str; 5] = ["min", "max", "avg", "med", "std"];

/// Why a text is no table of FsOpBench, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What should have stood there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

/// Reads every table of a text.
///
/// # Errors
/// The first line that does not belong there.
pub fn parse(text: &str) -> Result<Vec<Table>, ParseError> {
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

/// The lines that are still to be read.
struct Lines<'t> {
    lines: Vec<&'t str>,
    /// Index of the next.
    at: usize,
}

impl<'t> Lines<'t> {
    fn peek(&self) -> Option<&'t str> {
        self.lines.get(self.at).copied()
    }

    /// The next line as words, for a line that must be there.
    fn next(&mut self, expected: &str) -> Result<Words<'t>, ParseError> {
        let text = self.peek().ok_or_else(|| ParseError::at(self.at + 1, 1, expected, "the end"))?;
        self.at += 1;
        Ok(Words { line: self.at, text, at: 0 })
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    /// A rule of one character.
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
    let mut table = title_line(&title, expected)?;
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

/// `Linux 2.6.31.2-test relatime barrier=0 fs=ext3 disk=areca RAID6 journal=ext`: values may have blanks.
fn title_line(words: &Words<'_>, expected: &str) -> Result<Table, ParseError> {
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
    let (title, kernel) = (words.text.trim().to_string(), kernel.to_string());
    Ok(Table { title, kernel, flags, settings, phases: Vec::new() })
}

/// `3 readers, 3 writers (30s)`, a rule, and blocks of rows.
fn phase(lines: &mut Lines<'_>) -> Result<Phase, ParseError> {
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
    let mut phase = Phase { name: name.to_string(), window: window.to_string(), rows: Vec::new() };
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

/// Whether a line begins as a row does: with a letter and a blank. `Linux` and `3 readers` do not.
fn begins_row(line: &str) -> bool {
    let mut characters = line.chars();
    characters.next().is_some_and(|c| c.is_ascii_uppercase()) && characters.next() == Some(' ')
}

fn row(mut words: Words<'_>) -> Result<Row, ParseError> {
    for (role, rows, rate) in [(Role::Reader, READER, READER_RATE), (Role::Writer, WRITER, WRITER_RATE)] {
        for (label, operation) in rows {
            if words.take(label) {
                return Ok(Row { label, role, figures: latency(&mut words, *operation)? });
            }
        }
        let (label, parts) = rate;
        if words.take(label) {
            return Ok(Row { label, role, figures: rates(&mut words, parts)? });
        }
    }
    let labels = READER.iter().chain(WRITER).map(|(label, _)| *label).chain([READER_RATE.0, WRITER_RATE.0]);
    let expected = format!("one of the rows {}", labels.collect::<Vec<_>>().join(", "));
    Err(words.error(expected))
}

/// `cnt  31375   min 0.002 ms   max   78.354 ms   avg  0.061 ms   med 0.005 ms   std   0.779`
fn latency(words: &mut Words<'_>, operation: Operation) -> Result<Figures, ParseError> {
    words.word("cnt")?;
    let count = words.number("a count", |word| word.parse::<u64>().ok())?;
    let mut milliseconds = [None; STATISTICS.len()];
    for (index, name) in STATISTICS.into_iter().enumerate() {
        words.word(name)?;
        milliseconds[index] = words.figure()?;
        // The standard deviation stands without its unit.
        if index + 1 < STATISTICS.len() {
            words.word("ms")?;
        }
    }
    words.end()?;
    Ok(Figures::Latency { operation, count, milliseconds })
}

/// `57.529 MB/s (data)  21.947 MB/s (readdir + open + 1st byte + data)`
fn rates(words: &mut Words<'_>, parts: &str) -> Result<Figures, ParseError> {
    let data = words.figure()?;
    words.word("MB/s")?;
    words.word("(data)")?;
    let with_overhead = words.figure()?;
    words.word("MB/s")?;
    words.word(&format!("({parts})"))?;
    words.end()?;
    Ok(Figures::Rate { data, with_overhead })
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

    /// Goes past `expected` if it stands there.
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
    fn figure(&mut self) -> Result<Option<Figure>, ParseError> {
        self.number("a number such as 0.061, a lower bound such as >=30000.000, or -", |word| {
            if word == "-" {
                return Some(None);
            }
            let (word, at_least) = word.strip_prefix(">=").map_or((word, false), |bound| (bound, true));
            let plain = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let value = word.parse::<f64>().ok().filter(|_| plain)?;
            Some(Some(Figure { value, at_least }))
        })
    }

    fn end(&mut self) -> Result<(), ParseError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("the end of the line")) }
    }

    /// That something else should stand here.
    fn error(&mut self, expected: impl Into<String>) -> ParseError {
        let rest = self.rest();
        let found = rest.split_whitespace().next().map_or("the end of the line".into(), |w| format!("'{w}'"));
        let column = self.text[..self.at].chars().count() + 1;
        ParseError::at(self.line, column, expected, found)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:.3}", if self.at_least { ">=" } else { "" }, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::published::FSOPBENCH;
    use proptest::prelude::*;

    #[test]
    fn every_published_file_is_read_whole() {
        for (name, text) in FSOPBENCH {
            let tables = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let [table] = &tables[..] else { panic!("{name}: one table") };
            let rows: Vec<usize> = table.phases.iter().map(|phase| phase.rows.len()).collect();
            assert_eq!(rows, [5, 5, 10], "{name}");
            assert_eq!(table.setting("barrier"), Some("0"));
            assert_eq!(table.flags, ["relatime"]);
            let printed = text.lines().filter(|line| begins_row(line)).count();
            assert_eq!(printed, 20, "{name}");
        }
    }

    #[test]
    fn figures_and_settings_are_those_of_the_text() {
        let table = &parse(FSOPBENCH[4].1).unwrap()[0];
        assert_eq!((table.kernel.as_str(), table.setting("data")), ("2.6.31.2-test", Some("writeback")));
        let phase = &table.phases[2];
        assert_eq!((phase.name.as_str(), phase.window.as_str()), ("3 readers, 3 writers", "30s"));
        let exact = |value| Some(Figure { value, at_least: false });
        let mkdir = &phase.rows[3];
        assert_eq!((mkdir.label, mkdir.role), ("I mkdir", Role::Writer));
        assert_eq!(
            mkdir.figures,
            Figures::Latency {
                operation: Operation::Mkdirat,
                count: 1004,
                milliseconds: [exact(0.018), exact(19592.233), exact(29.447), exact(0.026), exact(644.768)]
            }
        );
        assert_eq!(
            phase.rows[4].figures,
            Figures::Rate { data: exact(240.950), with_overhead: exact(129.961) }
        );
        assert_eq!(parse(FSOPBENCH[0].1).unwrap()[0].setting("disk"), Some("areca RAID6"));
    }

    #[test]
    fn our_own_tables_are_read_back_with_their_bounds() {
        let cases = crate::view::cases(&fixture::trials()).unwrap();
        let mut out = Vec::new();
        for case in &cases {
            crate::terminal::classic(&mut out, case, &crate::Style::default()).unwrap();
            out.push(b'\n');
        }
        let tables = parse(std::str::from_utf8(&out).unwrap()).unwrap();
        assert_eq!(tables.len(), 2);
        let Figures::Latency { milliseconds, .. } = &tables[0].phases[2].rows[3].figures else { panic!() };
        assert_eq!(milliseconds[1], Some(Figure { value: 62000.0, at_least: true }));
    }

    #[test]
    fn what_does_not_belong_there_is_named_with_its_place() {
        let good = FSOPBENCH[0].1;
        for (old, new, place, expected) in [
            ("cnt  31375", "cnt  many", "line 6, column 24: ", "a count"),
            ("78.354 ms", "78.354 us", "line 6, column 60: ", "'ms'"),
            ("A read dir", "Z read dir", "line 6, column 1: ", "A read dir, B lstat file"),
            ("1 readers (30s)", "1 riders (30s)", "line 4, column 1: ", "3 readers, 3 writers (30s)"),
            ("Linux", "Linnux", "line 1, column 1: ", "Linux"),
            ("*", "#", "line 2, column 1: ", "rule of '*'"),
            ("0.779", "0.779 ms", "line 6, column 108: ", "end of the line"),
            (" 57.529 MB/s", " -57.529 MB/s", "line 10, column 18: ", "lower bound"),
        ] {
            let text = good.replacen(old, new, 1);
            assert_ne!(text, good);
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(place) && error.contains(expected), "{old}: {error}");
        }
        assert!(parse("").is_err() && parse("\n\n").is_err());
        let title = good.lines().next().unwrap();
        assert!(parse(title).unwrap_err().to_string().starts_with("line 2, column 1: "));
    }

    proptest! {
        /// A text that is cut off anywhere is read up to there or refused, and never breaks the reader.
        #[test]
        fn no_text_is_too_strange(cut in 0usize..2600, noise in "\\PC{0,12}") {
            let text: String = FSOPBENCH[1].1.chars().take(cut).chain(noise.chars()).collect();
            if let Err(error) = parse(&text) {
                prop_assert!(error.line >= 1 && error.column >= 1, "{error}");
            }
        }
    }
}
