//! FsOpBench (2009): reads its tables ([`parse`]) and writes them ([`Table`]'s `Display`).
//!
//! A table is a line that names the configuration, a rule of stars, and the phases. Each phase has its name,
//! a rule of dashes, and a block of rows for each role. The reader also accepts the additions of our own
//! tables: `>=` before a lower bound, and `-` for a missing figure.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{ParseError, parse};

use fsdyno_core::{Operation, Role};

/// A table: one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The first line.
    pub title: Title,
    /// The phases, in order.
    pub phases: Vec<TablePhase>,
}

/// The first line: `Linux 2.6.31.2-test relatime barrier=0 fs=ext3 disk=areca RAID6 journal=ext`.
#[derive(Debug, Clone, PartialEq)]
pub struct Title {
    /// `2.6.31.2-test`.
    pub kernel: String,
    /// The words without `=`: `relatime`.
    pub flags: Vec<String>,
    /// The words with `=`, in order: `fs` and `ext3`, `disk` and `areca RAID6`.
    pub settings: Vec<(String, String)>,
}

impl Title {
    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A phase of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TablePhase {
    /// `3 readers, 3 writers`.
    pub name: String,
    /// The measured time, as written: `30s`.
    pub window: String,
    /// The rows, in order.
    pub rows: Vec<LatencyRow>,
}

/// A row of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyRow {
    /// `A read dir`.
    pub label: &'static str,
    /// The role that it belongs to.
    pub role: Role,
    /// Its figures.
    pub values: RowValues,
}

/// The figures of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowValues {
    /// The latency of an operation, in milliseconds.
    Latency {
        /// The operation.
        operation: Operation,
        /// The number of these operations.
        count: u64,
        /// Minimum, maximum, mean, median and standard deviation.
        milliseconds: [Option<Number>; STATISTICS.len()],
    },
    /// Rates in MB/s: of the data alone, and including the operations around it.
    Rate {
        /// The data alone.
        data: Option<Number>,
        /// Including the operations around it.
        with_overhead: Option<Number>,
    },
}

/// One number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// As printed.
    pub value: f64,
    /// `true` if the value is only a lower bound.
    pub at_least: bool,
}

/// The names of the numbers of [`RowValues::Latency`], in order.
pub const STATISTICS: [&str; 5] = ["min", "max", "avg", "med", "std"];

/// The rows of a role.
#[derive(Debug)]
pub struct RoleRows {
    /// The role.
    pub role: Role,
    /// Letter and name as published, and the operation that they stand for.
    pub latencies: [(&'static str, Operation); 4],
    /// Letter and name of the last row, the rates.
    pub rate: &'static str,
    /// The parts that the second rate includes.
    overhead: &'static str,
}

/// The roles that have rows, and their rows.
pub const ROWS: [RoleRows; 2] = [
    RoleRows {
        role: Role::Reader,
        latencies: [
            ("A read dir", Operation::Readdir),
            ("B lstat file", Operation::Statx),
            ("C open file", Operation::Openat),
            ("D rd 1st byte", Operation::ReadFirstByte),
        ],
        rate: "E read rate",
        overhead: "readdir + open + 1st byte + data",
    },
    RoleRows {
        role: Role::Writer,
        latencies: [
            ("F write open", Operation::Openat),
            ("G wr 1st byte", Operation::WriteFirstByte),
            ("H write close", Operation::Close),
            ("I mkdir", Operation::Mkdirat),
        ],
        rate: "J write rate",
        overhead: "open + 1st byte + data + close",
    },
];
