//! The result lines that bonnie++ prints: how much each of its tests did, and how fast.
//!
//! The layouts differ in their number of fields: 27 (version 1.03 and before, which begins with the name of
//! the machine), 48 (1.93 to 1.97, with latencies), 50 (1.98, which 2.00 prints, with the number of seeks),
//! and 47, which 1.97 and before print without a large file (`-s 0`): one comma too few for its fields. How
//! long a test took follows from its rate and from how much it did, if that is known. The percentage of a
//! processor is one figure for both modes, so it is kept as it is and not as times of each.
//! `+++++` means less than half a second: such a test has no window and no rate, only a latency. The latency
//! of a test is that of its longest operation, and so its longest stall.
//!
//! [`lines`] finds them in what the program prints: tables, progress, and with `-x` a heading.

use super::LARGE;
use crate::nanos;
use fsdyno_core::result::RoleResult;
use fsdyno_core::units::{Bytes, Nanos};
use fsdyno_core::workload::PhaseSpec;
use fsdyno_core::workload::bonnie::{FILE_UNIT, READ_CHAR, SEEKS, TESTS, WRITE_CHAR};
use fsdyno_core::{PhaseResult, Role};

/// The positions of fields in a layout, from 0.
#[derive(Debug)]
struct Layout {
    fields: usize,
    /// The version that prints it, if the first two fields do not say that.
    version: Option<&'static str>,
    name: usize,
    copies: Option<usize>,
    size: Option<usize>,
    chunk: Option<usize>,
    seeks: Option<usize>,
    seekers: Option<usize>,
    /// The first field with figures of the large file: rate and percentage of each test. Without it, all
    /// fields from the seed to those of the small files are empty.
    large: Option<usize>,
    files: usize,
    /// The first of the fields for largest size, smallest size and directories, if there are any.
    shape: Option<usize>,
    /// The first field with figures of the small files: rate and percentage of each test.
    small: usize,
    latencies: Option<usize>,
    /// `true` if the whole file is moved one byte at a time; otherwise the line does not say how much of it
    /// is.
    whole_file_by_character: bool,
}

/// The seed in the layouts that have one.
const SEED: usize = 4;

const LAYOUTS: &[Layout] = &[
    Layout {
        fields: 27,
        version: Some("1.03"),
        name: 0,
        copies: None,
        size: Some(1),
        chunk: None,
        seeks: None,
        seekers: None,
        large: Some(2),
        files: 14,
        shape: None,
        small: 15,
        latencies: None,
        whole_file_by_character: true,
    },
    Layout {
        fields: 47,
        version: None,
        name: 2,
        copies: Some(3),
        size: None,
        chunk: None,
        seeks: None,
        seekers: None,
        large: None,
        files: 18,
        shape: Some(19),
        small: 23,
        latencies: Some(35),
        whole_file_by_character: false,
    },
    Layout {
        fields: 48,
        version: None,
        name: 2,
        copies: Some(3),
        size: Some(5),
        chunk: Some(6),
        seeks: None,
        seekers: None,
        large: Some(7),
        files: 19,
        shape: Some(20),
        small: 24,
        latencies: Some(36),
        whole_file_by_character: false,
    },
    Layout {
        fields: 50,
        version: None,
        name: 2,
        copies: Some(3),
        size: Some(5),
        chunk: Some(6),
        seeks: Some(7),
        seekers: Some(8),
        large: Some(9),
        files: 21,
        shape: Some(22),
        small: 26,
        latencies: Some(38),
        whole_file_by_character: false,
    },
];

/// The beginnings of the headings that `-x` prints, from 1.03 and from later versions.
const HEADINGS: [&str; 2] = ["name,file_size,", "format_version,bonnie_version,"];

/// The result lines among all lines that bonnie++ prints, each with its number from 1.
///
/// Lines without a comma are its tables and its progress, and so are those in which a space follows a comma:
/// no field of a result begins with one, unless somebody has added it.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Result<Line<'_>, LineError>)> {
    let numbered = (1..).zip(text.lines().map(str::trim_end));
    numbered.filter(|(_, line)| !HEADINGS.iter().any(|heading| line.starts_with(heading))).filter_map(
        |(number, line)| {
            let is_text = !line.contains(',') || (line.contains(", ") && layout_of(line).is_none());
            (!is_text).then(|| (number, Line::new(line)))
        },
    )
}

fn layout_of(text: &str) -> Option<&'static Layout> {
    let fields = text.split(',').count();
    LAYOUTS.iter().find(|layout| layout.fields == fields)
}

/// A line of one of the layouts.
#[derive(Debug)]
pub struct Line<'t> {
    fields: Vec<&'t str>,
    layout: &'static Layout,
}

/// A test as reported in a line.
#[derive(Debug, Clone, PartialEq)]
pub struct TestResult {
    /// Its figures, as far as the line has them.
    pub phase: PhaseResult,
    /// `true` if the test was too quick for a rate.
    pub too_quick: bool,
}

/// Why a line cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// No layout has this number of fields.
    #[error("its result line has {found} fields instead of 27, 47, 48 or 50")]
    Fields {
        /// The number of fields that the line has.
        found: usize,
    },
    /// A field is not valid.
    #[error("field {number} of its result line is '{found}'")]
    Field {
        /// Its number, from 1.
        number: usize,
        /// The column where it begins, in characters, from 1.
        column: usize,
        /// The expected kind of value.
        expected: &'static str,
        /// The text that was found.
        found: String,
    },
}

impl<'t> Line<'t> {
    /// Parses a line, without its line end.
    ///
    /// # Errors
    /// [`LineError`] if it has none of the layouts.
    pub fn new(text: &'t str) -> Result<Self, LineError> {
        let fields: Vec<&str> = text.split(',').collect();
        let layout = layout_of(text).ok_or(LineError::Fields { found: fields.len() })?;
        let line = Line { fields, layout };
        if layout.version.is_none() && !line.fields[0].starts_with(|c: char| c.is_ascii_digit()) {
            return Err(line.error(0, "the version of the layout, such as 1.98"));
        }
        // A line that was cut short has as many fields.
        let blank = if layout.large.is_none() { SEED + 1..layout.files } else { 0..0 };
        if let Some(at) = blank.into_iter().find(|at| !line.fields[*at].trim().is_empty()) {
            return Err(line.error(at, "nothing, as in a line of 47 fields without a large file"));
        }
        Ok(line)
    }

    /// The version that printed it.
    pub fn version(&self) -> &'t str {
        self.layout.version.unwrap_or(self.fields[1].trim())
    }

    /// The name of the machine; may be empty.
    pub fn name(&self) -> &'t str {
        self.fields[self.layout.name].trim()
    }

    /// The arguments that bonnie++ must have been given: `-s 64M:8192 -n 16:100000:16:64 -c 2`.
    pub fn arguments(&self) -> String {
        let layout = self.layout;
        let size = self.field(layout.size).map_or("0", |(_, size)| size);
        let chunk = self.field(layout.chunk).map(|(_, chunk)| format!(":{chunk}")).unwrap_or_default();
        let files = self.field(Some(layout.files)).map_or("0", |(_, files)| files);
        let shape = layout.shape.into_iter().flat_map(|first| first..first + 3);
        let shape = shape.map_while(|at| self.field(Some(at))).map(|(_, part)| part);
        let parts: Vec<&str> = std::iter::once(files).chain(shape).collect();
        let mut words =
            vec![format!("-s {size}{chunk}"), format!("-n {}", parts.join(":").replace('/', ":"))];
        let copies = self.field(layout.copies).filter(|(_, copies)| *copies != "1");
        words.extend(copies.map(|(_, copies)| format!("-c {copies}")));
        words.join(" ")
    }

    /// The tests that were run, in order. `characters`: how much of the file was moved one byte at a time, if
    /// that is known and was not all of it.
    ///
    /// # Errors
    /// [`LineError::Field`].
    pub fn tests(&self, characters: Option<Bytes>) -> Result<Vec<TestResult>, LineError> {
        let file = self.file_bytes()?;
        let by_character = match self.layout.whole_file_by_character {
            true => file,
            false => characters.map(|characters| characters.0 as f64),
        };
        let whole = Amounts {
            copies: self.whole(self.layout.copies, "a number of copies")?.unwrap_or(1).max(1) as f64,
            by_character,
            file,
            seeks: self.whole(self.layout.seeks, "a number of seeks")?.map(|seeks| seeks as f64),
            seekers: self.whole(self.layout.seekers, "a number of seekers")?.unwrap_or(1).max(1) as f64,
            files: self.files()?,
        };
        let tests = TESTS.into_iter().enumerate().map(|(index, test)| self.test(index, test, &whole));
        tests.filter_map(Result::transpose).collect()
    }

    fn test(&self, index: usize, test: PhaseSpec, whole: &Amounts) -> Result<Option<TestResult>, LineError> {
        let Layout { large, small, latencies, .. } = *self.layout;
        let at = match (index < LARGE, large) {
            (true, None) => return Ok(None),
            (true, Some(large)) => large + 2 * index,
            (false, _) => small + 2 * (index - LARGE),
        };
        let rate = match self.figure(at, "a rate above 0, +++++ or nothing", |rate| rate > 0.0)? {
            Field::Absent => return Ok(None),
            Field::TooQuick => None,
            Field::Value(rate) => Some(rate),
        };
        let percent = self.figure(at + 1, "a percentage, +++ or nothing", |_| true)?;
        let workers = if test == SEEKS { whole.copies * whole.seekers } else { whole.copies };
        let mut result = RoleResult::unwatched(test.role, workers as u32);
        let amount = whole.amount(test).map(|amount| amount * whole.copies);
        let seconds = if index < LARGE && test != SEEKS {
            let bytes_per_s = rate.map(|kib_per_s| kib_per_s * Bytes::KIB as f64);
            result.rates.aggregate_bytes_per_s = bytes_per_s.unwrap_or(0.0);
            result.rates.bytes = amount.unwrap_or(0.0) as u64;
            amount.zip(bytes_per_s).map(|(bytes, bytes_per_s)| bytes / bytes_per_s)
        } else {
            result.rates.items_per_s = rate.unwrap_or(0.0);
            result.rates.items = amount.unwrap_or(0.0) as u64;
            amount.zip(rate).map(|(items, items_per_s)| items / items_per_s)
        };
        if let Field::Value(percent) = percent {
            result.reported_cpu_share = Some(percent / 100.0);
        }
        let longest = self.latency(latencies.map(|first| first + index))?;
        result.longest_stall_ns = Some(longest).filter(|longest_ns| *longest_ns > Nanos(0));
        result.longest_item_ns = result.longest_stall_ns;
        let took = seconds.map(nanos).unwrap_or_default();
        let phase = PhaseResult::lasting(test.name, took, vec![result]);
        Ok(Some(TestResult { phase, too_quick: rate.is_none() }))
    }

    fn error(&self, at: usize, expected: &'static str) -> LineError {
        let column = self.fields[..at].iter().map(|field| field.chars().count() + 1).sum::<usize>() + 1;
        LineError::Field { number: at + 1, column, expected, found: self.fields[at].to_string() }
    }

    /// A field that the layout has and that is not empty, with its position.
    fn field(&self, at: Option<usize>) -> Option<(usize, &'t str)> {
        at.map(|at| (at, self.fields[at].trim())).filter(|(_, text)| !text.is_empty())
    }

    fn figure(
        &self,
        at: usize,
        expected: &'static str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<Field, LineError> {
        let Some((_, text)) = self.field(Some(at)) else { return Ok(Field::Absent) };
        if text.bytes().all(|byte| byte == b'+') {
            return Ok(Field::TooQuick);
        }
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value = text.parse::<f64>().ok().filter(|value| plain && fits(*value));
        value.map(Field::Value).ok_or_else(|| self.error(at, expected))
    }

    fn whole(&self, at: Option<usize>, expected: &'static str) -> Result<Option<u64>, LineError> {
        let Some((at, text)) = self.field(at) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.error(at, expected))
    }

    /// `300M`, `2G`, `2G:8k`; in MiB without a suffix.
    fn file_bytes(&self) -> Result<Option<f64>, LineError> {
        let Some((at, text)) = self.field(self.layout.size) else { return Ok(None) };
        let size = text.split(':').next().unwrap_or_default().trim();
        let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match size[digits.len()..].to_ascii_uppercase().as_str() {
            "K" => Some(Bytes::KIB),
            "" | "M" => Some(Bytes::MIB),
            "G" => Some(Bytes::GIB),
            _ => None,
        };
        let bytes = digits.parse::<u64>().ok().zip(unit).map(|(size, unit)| size as f64 * unit as f64);
        bytes.map(Some).ok_or_else(|| self.error(at, "the size of a file, such as 300M or 2G"))
    }

    /// In units of 1024; in version 1.03, sizes may follow (`16:100000:16/64`).
    fn files(&self) -> Result<Option<f64>, LineError> {
        let Some((at, text)) = self.field(Some(self.layout.files)) else { return Ok(None) };
        let number = text.split([':', '/']).next().unwrap_or_default().trim();
        let units: u64 = number.parse().map_err(|_| self.error(at, "a number of files in units of 1024"))?;
        Ok(Some(units as f64 * FILE_UNIT as f64))
    }

    /// `15828us`, `834ms`, `3s`; 0 if the layout has no latencies or the test has none
    /// (`BonTimer::print_latency`).
    fn latency(&self, at: Option<usize>) -> Result<Nanos, LineError> {
        let Some((at, text)) = self.field(at) else { return Ok(Nanos(0)) };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "us" => Some(1_000),
            "ms" => Some(1_000_000),
            "s" => Some(1_000_000_000),
            _ => None,
        };
        let ns = digits.parse::<u64>().ok().zip(unit).and_then(|(value, unit)| value.checked_mul(unit));
        ns.map(Nanos).ok_or_else(|| self.error(at, "a latency such as 834ms"))
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Field {
    Absent,
    TooQuick,
    Value(f64),
}

/// The amount of work of each copy, as far as it is known.
struct Amounts {
    copies: f64,
    /// Bytes moved one at a time.
    by_character: Option<f64>,
    /// Bytes of the large file.
    file: Option<f64>,
    seeks: Option<f64>,
    seekers: f64,
    files: Option<f64>,
}

impl Amounts {
    fn amount(&self, test: PhaseSpec) -> Option<f64> {
        match test {
            WRITE_CHAR | READ_CHAR => self.by_character,
            SEEKS => self.seeks,
            PhaseSpec { role: Role::Creator | Role::Examiner | Role::Deleter, .. } => self.files,
            _ => self.file,
        }
    }
}
