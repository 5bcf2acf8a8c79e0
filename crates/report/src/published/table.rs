//! Published figures as a table: rows that were measured, and columns that are our measures.

use super::counterpart::Counterpart;
use fsdyno_core::Measure;
use fsdyno_formats::fsopbench::{self, ParseError, RowValues, STATISTICS};
use std::fmt;

/// A table of published figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What identifies a row: `experiment`, `configuration`.
    pub keys: Vec<String>,
    /// What was measured.
    pub columns: Vec<Column>,
    /// The configurations that were measured.
    pub rows: Vec<Row>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its published name.
    pub name: String,
    /// The corresponding measure of ours.
    pub measure: Measure,
    /// The unit of the published figures.
    pub unit: PublishedUnit,
}

/// A row of figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The published name, a part for each of [`Table::keys`].
    pub label: Vec<String>,
    /// The configuration of ours that corresponds to it.
    pub counterpart: Counterpart,
    /// A figure for each column, in the column's unit.
    pub figures: Vec<Option<f64>>,
}

impl Row {
    /// The label in one line.
    pub fn title(&self) -> String {
        let parts: Vec<&str> =
            self.label.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    }
}

/// The unit of a published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedUnit {
    /// Per second, 1024 bytes: what bonnie++ prints.
    KibibytesPerSecond,
    /// Per second, 10^6 bytes.
    MegabytesPerSecond,
    /// Per second, 2^20 bytes: what postmark prints as megabytes.
    MebibytesPerSecond,
    /// Files, seeks or transactions per second.
    PerSecond,
    /// Percent.
    Percent,
    /// Milliseconds.
    Milliseconds,
    /// Operations.
    Count,
}

impl PublishedUnit {
    /// The symbol after a figure.
    pub const fn symbol(self) -> &'static str {
        match self {
            PublishedUnit::KibibytesPerSecond => "KiB/s",
            PublishedUnit::MegabytesPerSecond => "MB/s",
            PublishedUnit::MebibytesPerSecond => "MiB/s",
            PublishedUnit::PerSecond => "/s",
            PublishedUnit::Percent => "%",
            PublishedUnit::Milliseconds => "ms",
            PublishedUnit::Count => "ops",
        }
    }

    /// The size of the unit in the base unit of our measures: bytes per second, nanoseconds, a share of 1.
    pub const fn base(self) -> f64 {
        match self {
            PublishedUnit::KibibytesPerSecond => 1024.0,
            PublishedUnit::MegabytesPerSecond | PublishedUnit::Milliseconds => 1e6,
            PublishedUnit::MebibytesPerSecond => 1_048_576.0,
            PublishedUnit::PerSecond | PublishedUnit::Count => 1.0,
            PublishedUnit::Percent => 0.01,
        }
    }
}

impl fmt::Display for PublishedUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

/// A column of a CSV file: its name there, our measure, its unit.
pub(super) type CsvColumn = (&'static str, &'static str, PublishedUnit);

pub(super) const XFS_TWEAKS: &[CsvColumn] = &[
    ("seq_output_char", "write per character/writer/rate", PublishedUnit::KibibytesPerSecond),
    ("seq_output_char_cpu", "write per character/writer/cpu-share", PublishedUnit::Percent),
    ("seq_output_block", "write block/writer/rate", PublishedUnit::KibibytesPerSecond),
    ("seq_output_block_cpu", "write block/writer/cpu-share", PublishedUnit::Percent),
    ("seq_output_rewrite", "rewrite/rewriter/rate", PublishedUnit::KibibytesPerSecond),
    ("seq_output_rewrite_cpu", "rewrite/rewriter/cpu-share", PublishedUnit::Percent),
    ("seq_input_char", "read per character/reader/rate", PublishedUnit::KibibytesPerSecond),
    ("seq_input_char_cpu", "read per character/reader/cpu-share", PublishedUnit::Percent),
    ("seq_input_block", "read block/reader/rate", PublishedUnit::KibibytesPerSecond),
    ("seq_input_block_cpu", "read block/reader/cpu-share", PublishedUnit::Percent),
    ("random_seeks", "random seeks/seeker/item-rate", PublishedUnit::PerSecond),
    ("random_seeks_cpu", "random seeks/seeker/cpu-share", PublishedUnit::Percent),
    ("seq_create", "create sequential/creator/item-rate", PublishedUnit::PerSecond),
    ("seq_create_cpu", "create sequential/creator/cpu-share", PublishedUnit::Percent),
    ("seq_stat", "stat sequential/examiner/item-rate", PublishedUnit::PerSecond),
    ("seq_stat_cpu", "stat sequential/examiner/cpu-share", PublishedUnit::Percent),
    ("seq_delete", "delete sequential/deleter/item-rate", PublishedUnit::PerSecond),
    ("seq_delete_cpu", "delete sequential/deleter/cpu-share", PublishedUnit::Percent),
    ("random_create", "create random/creator/item-rate", PublishedUnit::PerSecond),
    ("random_create_cpu", "create random/creator/cpu-share", PublishedUnit::Percent),
    ("random_stat", "stat random/examiner/item-rate", PublishedUnit::PerSecond),
    ("random_stat_cpu", "stat random/examiner/cpu-share", PublishedUnit::Percent),
    ("random_delete", "delete random/deleter/item-rate", PublishedUnit::PerSecond),
    ("random_delete_cpu", "delete random/deleter/cpu-share", PublishedUnit::Percent),
];

pub(super) const STREAMING: &[CsvColumn] = &[
    ("read_mb_per_s", "streaming-read", PublishedUnit::MegabytesPerSecond),
    ("write_mb_per_s", "streaming-write", PublishedUnit::MegabytesPerSecond),
];

pub(super) const POSTMARK: &[CsvColumn] = &[
    ("read_mb_per_s", "postmark-read", PublishedUnit::MebibytesPerSecond),
    ("write_mb_per_s", "postmark-write", PublishedUnit::MebibytesPerSecond),
    ("iops", "transactions/transactor/item-rate", PublishedUnit::PerSecond),
];

pub(super) const BONNIE: &[CsvColumn] = &[
    ("seeks_per_s", "random seeks/seeker/item-rate", PublishedUnit::PerSecond),
    ("block_write_kb_per_s", "write block/writer/rate", PublishedUnit::KibibytesPerSecond),
    ("rewrite_kb_per_s", "rewrite/rewriter/rate", PublishedUnit::KibibytesPerSecond),
];

/// The column between the labels and the figures.
const COUNTERPART: &str = "counterpart";

/// A file that is part of the binary is invalid.
#[derive(Debug, thiserror::Error)]
#[error("the built-in figures of '{name}' are invalid")]
pub struct PublishedError {
    /// The name of the figures.
    pub name: &'static str,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Not CSV, or a row with too few or too many fields.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// Not a table of FsOpBench.
    #[error("run {run}")]
    FsOpBench {
        /// The number of the run.
        run: &'static str,
        /// What is wrong, and where.
        source: ParseError,
    },
    /// Unexpected columns.
    #[error("unexpected columns: {0}")]
    Columns(String),
    /// A figure that is not a number.
    #[error("'{0}' is not a number")]
    Number(String),
    /// A column that is not one of our measures.
    #[error(transparent)]
    Measure(#[from] fsdyno_core::measure::MeasureError),
}

pub(super) fn from_csv(text: &str, columns: &[CsvColumn]) -> Result<Table, Problem> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers()?.iter().map(str::to_string).collect();
    let refuse = || Problem::Columns(header.join(", "));
    let labels = header.iter().position(|name| name == COUNTERPART).ok_or_else(refuse)?;
    if !header[labels + 1..].iter().map(String::as_str).eq(columns.iter().map(|(name, _, _)| *name)) {
        return Err(refuse());
    }
    let columns = columns
        .iter()
        .map(|(name, measure, unit)| {
            Ok(Column { name: (*name).to_string(), measure: measure.parse()?, unit: *unit })
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    let rows = reader.records().map(|record| {
        let record = record?;
        let fields: Vec<&str> = record.iter().collect();
        let figures = fields[labels + 1..].iter().map(|field| match *field {
            "" => Ok(None),
            field => field.parse::<f64>().map(Some).map_err(|_| Problem::Number(field.to_string())),
        });
        Ok(Row {
            label: fields[..labels].iter().map(|field| (*field).to_string()).collect(),
            counterpart: Counterpart::parse(fields[labels]),
            figures: figures.collect::<Result<_, _>>()?,
        })
    });
    let rows = rows.collect::<Result<Vec<_>, Problem>>()?;
    Ok(Table { keys: header[..labels].to_vec(), columns, rows })
}

/// A row for each table of FsOpBench; its columns are `phase / row / statistic`.
pub(super) fn from_fsopbench(texts: &[(&'static str, &str)]) -> Result<Table, Problem> {
    let mut table = Table { keys: vec!["configuration".to_string()], columns: Vec::new(), rows: Vec::new() };
    for (run, text) in texts {
        let tables = fsopbench::parse(text).map_err(|source| Problem::FsOpBench { run, source })?;
        for printed in &tables {
            let mut figures = vec![None; table.columns.len()];
            for (column, value) in fsopbench_figures(printed)? {
                match table.columns.iter().position(|known| known.name == column.name) {
                    Some(index) => figures[index] = value,
                    None => {
                        table.columns.push(column);
                        table.rows.iter_mut().for_each(|row| row.figures.push(None));
                        figures.push(value);
                    }
                }
            }
            let title = printed.title.to_string();
            let label = title.strip_prefix("Linux ").unwrap_or(&title).to_string();
            table.rows.push(Row { label: vec![label], counterpart: fsopbench_counterpart(printed), figures });
        }
    }
    Ok(table)
}

fn fsopbench_figures(table: &fsopbench::Table) -> Result<Vec<(Column, Option<f64>)>, Problem> {
    let mut figures = Vec::new();
    for (phase, row) in table.phases.iter().flat_map(|phase| phase.rows.iter().map(move |row| (phase, row))) {
        let mut add =
            |name: &str, figure: String, unit: PublishedUnit, value: Option<f64>| -> Result<(), Problem> {
                let measure = format!("{}/{}/{figure}", phase.name, row.role).parse()?;
                let name = format!("{} / {} / {name}", phase.name, row.label);
                figures.push((Column { name, measure, unit }, value));
                Ok(())
            };
        match &row.values {
            RowValues::Latency { operation, count, milliseconds } => {
                add("cnt", format!("{operation}/count"), PublishedUnit::Count, Some(*count as f64))?;
                for (index, name) in STATISTICS.into_iter().enumerate() {
                    let statistic = ["min", "max", "mean", "median", "stddev"][index];
                    let value = milliseconds[index].map(|figure| figure.value);
                    add(name, format!("{operation}/{statistic}"), PublishedUnit::Milliseconds, value)?;
                }
            }
            RowValues::Rate { data, with_overhead } => {
                let rates = [("data", "data-rate", data), ("with overhead", "overhead-rate", with_overhead)];
                for (name, figure, value) in rates {
                    let value = value.map(|figure| figure.value);
                    add(name, figure.to_string(), PublishedUnit::MegabytesPerSecond, value)?;
                }
            }
        }
    }
    Ok(figures)
}

/// The combination of axes in the shipped plan. Disk and kernel of the titles have no counterpart there. The
/// titles do not say where an external journal was; the plan's second disk takes its place.
fn fsopbench_counterpart(table: &fsopbench::Table) -> Counterpart {
    let setting = |name: &str| table.title.setting(name).unwrap_or_default();
    let translated = |axis: &str, level: &str| {
        let known = fsdyno_core::axis::find(axis).ok().and_then(|axis| axis.level(level).ok());
        known.map_or(level.to_string(), |level| level.text)
    };
    let journal = match setting("journal") {
        "int" => "internal",
        "ext" => "external:disk",
        other => other,
    };
    let atime = table.title.flags.first().map(String::as_str).unwrap_or_default();
    let settings = [
        ("atime", atime),
        ("barrier", setting("barrier")),
        ("data", setting("data")),
        ("journal", journal),
        ("scheduler", setting("scheduler")),
    ];
    Counterpart::Settings {
        filesystem: setting("fs").to_string(),
        settings: settings
            .into_iter()
            .map(|(axis, level)| (axis.to_string(), translated(axis, level)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{FSOPBENCH, PUBLISHED};

    #[test]
    fn published_units_fit_our_measures() {
        use fsdyno_core::measure::Unit as Base;
        for published in PUBLISHED {
            for column in published.table().unwrap().columns {
                let fits = match column.measure.unit() {
                    Base::BytesPerSecond => {
                        matches!(
                            column.unit,
                            PublishedUnit::KibibytesPerSecond
                                | PublishedUnit::MegabytesPerSecond
                                | PublishedUnit::MebibytesPerSecond
                        )
                    }
                    Base::OperationsPerSecond | Base::ItemsPerSecond => {
                        column.unit == PublishedUnit::PerSecond
                    }
                    Base::Nanoseconds => column.unit == PublishedUnit::Milliseconds,
                    Base::Operations => column.unit == PublishedUnit::Count,
                    Base::Share => column.unit == PublishedUnit::Percent,
                    Base::Extents | Base::FlushesPerSecond | Base::Number => false,
                };
                assert!(fits, "{}: {}", published.name, column.name);
            }
        }
    }

    #[test]
    fn a_table_of_fsopbench_has_a_counterpart_in_the_shipped_plan() {
        let table = from_fsopbench(FSOPBENCH).unwrap();
        assert_eq!(
            table.rows[5].counterpart.to_string(),
            "filesystem=ext4 atime=relatime barrier=0 data=ordered journal=external:disk scheduler=bfq"
        );
    }

    #[test]
    fn a_broken_file_is_refused() {
        let columns: &[CsvColumn] = &[("seeks", "random seeks/seeker/item-rate", PublishedUnit::PerSecond)];
        let parse = |text: &str| from_csv(text, columns).map_err(|error| error.to_string());
        assert!(parse("configuration,counterpart,seeks\nXFS,xfs,592\n").is_ok());
        assert!(parse("configuration,seeks\nXFS,592\n").unwrap_err().contains("unexpected columns"));
        assert!(parse("configuration,counterpart,sekes\nXFS,xfs,592\n").unwrap_err().contains("sekes"));
        assert!(parse("configuration,counterpart,seeks\nXFS,xfs,fast\n").unwrap_err().contains("'fast'"));
        assert!(parse("configuration,counterpart,seeks\nXFS,xfs\n").is_err());
    }
}
