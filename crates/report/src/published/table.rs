//! Published figures as a table: rows that were measured, and columns that are our measures.

use super::counterpart::Counterpart;
use fsdyno_core::measure::{Measure, MeasureError, PrintedUnit};
use fsdyno_core::workload::{PhaseSpec, bonnie, postmark};
use fsdyno_formats::fsopbench::{self, ParseError, RowValues, STATISTICS};

/// A table of published figures.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedTable {
    /// The names of the labels that identify a row: `experiment`, `configuration`.
    pub keys: Vec<String>,
    /// The figures that were measured.
    pub columns: Vec<PublishedColumn>,
    /// The configurations that were measured.
    pub rows: Vec<PublishedRow>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedColumn {
    /// Its published name.
    pub name: String,
    /// The corresponding measure of ours.
    pub measure: Measure,
    /// The unit of the published figures.
    pub unit: PrintedUnit,
}

/// A row of figures.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRow {
    /// The published name, a part for each of [`PublishedTable::keys`].
    pub label: Vec<String>,
    /// The configuration of ours that corresponds to it.
    pub counterpart: Counterpart,
    /// A figure for each column, in the column's unit.
    pub figures: Vec<Option<f64>>,
}

impl PublishedRow {
    /// The label in one line.
    pub fn title(&self) -> String {
        let parts: Vec<&str> =
            self.label.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    }
}

/// A column of a CSV file: its name there, our measure, its unit.
pub(super) type CsvColumn = (&'static str, Of, PrintedUnit);

/// The measure of a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    /// A measure with a name of its own.
    Named(&'static str),
    /// A figure of the only role of a phase.
    Phase(PhaseSpec, &'static str),
}

impl Of {
    fn measure(self) -> Result<Measure, MeasureError> {
        match self {
            Of::Named(name) => name.parse(),
            Of::Phase(spec, figure) => format!("{}/{}/{figure}", spec.name, spec.role).parse(),
        }
    }
}

const fn rate(name: &'static str, phase: PhaseSpec) -> CsvColumn {
    (name, Of::Phase(phase, "rate"), PrintedUnit::KibibytesPerSecond)
}

const fn items(name: &'static str, phase: PhaseSpec) -> CsvColumn {
    (name, Of::Phase(phase, "item-rate"), PrintedUnit::PerSecond)
}

const fn cpu(name: &'static str, phase: PhaseSpec) -> CsvColumn {
    (name, Of::Phase(phase, "cpu-share"), PrintedUnit::Percent)
}

pub(super) const XFS_TWEAKS: &[CsvColumn] = &[
    rate("seq_output_char", bonnie::WRITE_CHAR),
    cpu("seq_output_char_cpu", bonnie::WRITE_CHAR),
    rate("seq_output_block", bonnie::WRITE_BLOCK),
    cpu("seq_output_block_cpu", bonnie::WRITE_BLOCK),
    rate("seq_output_rewrite", bonnie::REWRITE),
    cpu("seq_output_rewrite_cpu", bonnie::REWRITE),
    rate("seq_input_char", bonnie::READ_CHAR),
    cpu("seq_input_char_cpu", bonnie::READ_CHAR),
    rate("seq_input_block", bonnie::READ_BLOCK),
    cpu("seq_input_block_cpu", bonnie::READ_BLOCK),
    items("random_seeks", bonnie::SEEKS),
    cpu("random_seeks_cpu", bonnie::SEEKS),
    items("seq_create", bonnie::SEQ_CREATE),
    cpu("seq_create_cpu", bonnie::SEQ_CREATE),
    items("seq_stat", bonnie::SEQ_STAT),
    cpu("seq_stat_cpu", bonnie::SEQ_STAT),
    items("seq_delete", bonnie::SEQ_DELETE),
    cpu("seq_delete_cpu", bonnie::SEQ_DELETE),
    items("random_create", bonnie::RANDOM_CREATE),
    cpu("random_create_cpu", bonnie::RANDOM_CREATE),
    items("random_stat", bonnie::RANDOM_STAT),
    cpu("random_stat_cpu", bonnie::RANDOM_STAT),
    items("random_delete", bonnie::RANDOM_DELETE),
    cpu("random_delete_cpu", bonnie::RANDOM_DELETE),
];

pub(super) const STREAMING: &[CsvColumn] = &[
    ("read_mb_per_s", Of::Named("streaming-read"), PrintedUnit::MegabytesPerSecond),
    ("write_mb_per_s", Of::Named("streaming-write"), PrintedUnit::MegabytesPerSecond),
];

pub(super) const POSTMARK: &[CsvColumn] = &[
    ("read_mb_per_s", Of::Named("postmark-read"), PrintedUnit::MebibytesPerSecond),
    ("write_mb_per_s", Of::Named("postmark-write"), PrintedUnit::MebibytesPerSecond),
    items("iops", postmark::TRANSACTIONS),
];

pub(super) const BONNIE: &[CsvColumn] = &[
    items("seeks_per_s", bonnie::SEEKS),
    rate("block_write_kb_per_s", bonnie::WRITE_BLOCK),
    rate("rewrite_kb_per_s", bonnie::REWRITE),
];

/// The column between the labels and the figures.
const COUNTERPART: &str = "counterpart";

/// A file that is part of the binary is invalid.
#[derive(Debug, thiserror::Error)]
#[error("the built-in figures of '{name}' are invalid")]
pub struct PublishedError {
    /// The name of the figures.
    pub name: &'static str,
    /// The fault.
    #[source]
    pub problem: TableProblem,
}

/// The fault in a file.
#[derive(Debug, thiserror::Error)]
pub enum TableProblem {
    /// Not CSV, or a row with too few or too many fields.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// Not a table of FsOpBench.
    #[error("run {run}")]
    FsOpBench {
        /// The number of the run.
        run: &'static str,
        /// The fault, and where it is.
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
    Measure(#[from] MeasureError),
}

pub(super) fn from_csv(text: &str, columns: &[CsvColumn]) -> Result<PublishedTable, TableProblem> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers()?.iter().map(str::to_string).collect();
    let refuse = || TableProblem::Columns(header.join(", "));
    let labels = header.iter().position(|name| name == COUNTERPART).ok_or_else(refuse)?;
    if !header[labels + 1..].iter().map(String::as_str).eq(columns.iter().map(|(name, _, _)| *name)) {
        return Err(refuse());
    }
    let columns = columns
        .iter()
        .map(|(name, measure, unit)| {
            Ok(PublishedColumn { name: (*name).to_string(), measure: measure.measure()?, unit: *unit })
        })
        .collect::<Result<Vec<_>, TableProblem>>()?;
    let rows = reader.records().map(|record| {
        let record = record?;
        let fields: Vec<&str> = record.iter().collect();
        let figures = fields[labels + 1..].iter().map(|field| match *field {
            "" => Ok(None),
            field => field.parse::<f64>().map(Some).map_err(|_| TableProblem::Number(field.to_string())),
        });
        Ok(PublishedRow {
            label: fields[..labels].iter().map(|field| (*field).to_string()).collect(),
            counterpart: Counterpart::parse(fields[labels]),
            figures: figures.collect::<Result<_, _>>()?,
        })
    });
    let rows = rows.collect::<Result<Vec<_>, TableProblem>>()?;
    Ok(PublishedTable { keys: header[..labels].to_vec(), columns, rows })
}

/// A row for each table of FsOpBench; its columns are `phase / row / statistic`.
pub(super) fn from_fsopbench(texts: &[(&'static str, &str)]) -> Result<PublishedTable, TableProblem> {
    let mut table =
        PublishedTable { keys: vec!["configuration".to_string()], columns: Vec::new(), rows: Vec::new() };
    for (run, text) in texts {
        let tables = fsopbench::parse(text).map_err(|source| TableProblem::FsOpBench { run, source })?;
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
            table.rows.push(PublishedRow {
                label: vec![label],
                counterpart: fsopbench_counterpart(printed),
                figures,
            });
        }
    }
    Ok(table)
}

fn fsopbench_figures(table: &fsopbench::Table) -> Result<Vec<(PublishedColumn, Option<f64>)>, TableProblem> {
    let mut figures = Vec::new();
    for (phase, row) in table.phases.iter().flat_map(|phase| phase.rows.iter().map(move |row| (phase, row))) {
        let mut add =
            |name: &str, figure: String, unit: PrintedUnit, value: Option<f64>| -> Result<(), TableProblem> {
                let measure = format!("{}/{}/{figure}", phase.name, row.role).parse()?;
                let name = format!("{} / {} / {name}", phase.name, row.label);
                figures.push((PublishedColumn { name, measure, unit }, value));
                Ok(())
            };
        match &row.values {
            RowValues::Latency { operation, count, milliseconds } => {
                add("cnt", format!("{operation}/count"), PrintedUnit::Operations, Some(*count as f64))?;
                for (index, name) in STATISTICS.into_iter().enumerate() {
                    let statistic = ["min", "max", "mean", "median", "stddev"][index];
                    let value = milliseconds[index].map(|figure| figure.value);
                    add(name, format!("{operation}/{statistic}"), PrintedUnit::Milliseconds, value)?;
                }
            }
            RowValues::Rate { data, with_overhead } => {
                let rates = [("data", "data-rate", data), ("with overhead", "overhead-rate", with_overhead)];
                for (name, figure, value) in rates {
                    let value = value.map(|figure| figure.value);
                    add(name, figure.to_string(), PrintedUnit::MegabytesPerSecond, value)?;
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
    use fsdyno_core::measure::Unit;

    #[test]
    fn published_units_fit_our_measures() {
        for published in PUBLISHED {
            for column in published.table().unwrap().columns {
                // Files and seeks are printed like operations.
                let ours = match column.measure.unit() {
                    Unit::OperationsPerSecond => Unit::ItemsPerSecond,
                    unit => unit,
                };
                assert_eq!(column.unit.unit(), ours, "{}: {}", published.name, column.name);
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
        let columns: &[CsvColumn] = &[items("seeks", bonnie::SEEKS)];
        let parse = |text: &str| from_csv(text, columns).map_err(|error| error.to_string());
        assert!(parse("configuration,counterpart,seeks\nXFS,xfs,592\n").is_ok());
        assert!(parse("configuration,seeks\nXFS,592\n").unwrap_err().contains("unexpected columns"));
        assert!(parse("configuration,counterpart,sekes\nXFS,xfs,592\n").unwrap_err().contains("sekes"));
        assert!(parse("configuration,counterpart,seeks\nXFS,xfs,fast\n").unwrap_err().contains("'fast'"));
        assert!(parse("configuration,counterpart,seeks\nXFS,xfs\n").is_err());
    }
}
