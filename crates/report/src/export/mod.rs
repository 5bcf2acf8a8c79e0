//! Results as tidy tables, for data frames and databases: one row for each observation, nothing nested.
//!
//! Every row repeats what identifies it (sweep, trial, block, case, configuration, workload, and one column
//! `setting_...` for each axis that any trial sets), so that a row makes sense on its own and tables can be
//! joined. Names end in the unit: times are nanoseconds, rates bytes per second, shares 0 to 1; the columns
//! of `iostat -x` keep its names. A missing figure is empty (CSV) or null (JSON), never 0.
//!
//! In CSV, text that a spreadsheet would take for a formula gets a leading `'`, and control characters are
//! escaped.
//!
//! A table is declared once, column by column, in [`columns`]; the formats only deal with cells.

mod columns;
#[cfg(feature = "parquet")]
mod parquet;

use crate::visible::csv_text;
use columns::{Column, Row};
use fsdyno_core::SweepHeader;
use fsdyno_core::TrialRecord;
use fsdyno_core::result::{OperationResult, PhaseResult};
use fsdyno_core::telemetry::Telemetry;
use fsdyno_verdict::view::ClientsView;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportKind {
    /// A row for each trial, measured or not, with every named measure.
    Trials,
    /// A row for each operation of each role of each phase of each trial.
    Operations,
    /// A row for each interval of the timeline of each operation.
    Timeline,
    /// A row for each device in each sample of the machine and in each whole window; if there is no device,
    /// one row without it.
    Telemetry,
    /// A row for each client in each role of each phase; none if this machine did the load itself.
    Clients,
}

impl ExportKind {
    /// Every kind.
    pub const ALL: &'static [ExportKind] = &[
        ExportKind::Trials,
        ExportKind::Operations,
        ExportKind::Timeline,
        ExportKind::Telemetry,
        ExportKind::Clients,
    ];

    /// The name, which is also that of the file.
    pub const fn name(self) -> &'static str {
        match self {
            ExportKind::Trials => "trials",
            ExportKind::Operations => "operations",
            ExportKind::Timeline => "timeline",
            ExportKind::Telemetry => "telemetry",
            ExportKind::Clients => "clients",
        }
    }
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// CSV with a header.
    Csv,
    /// An array of objects, one per line.
    Json,
    /// Typed columns.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// The value in one cell.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Absent,
    Whole(u64),
    Number(f64),
    Text(String),
    Truth(bool),
}

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Whole,
    Number,
    Text,
    Truth,
}

impl Cell {
    fn value_type(&self) -> Option<Type> {
        match self {
            Cell::Absent => None,
            Cell::Whole(_) => Some(Type::Whole),
            Cell::Number(_) => Some(Type::Number),
            Cell::Text(_) => Some(Type::Text),
            Cell::Truth(_) => Some(Type::Truth),
        }
    }
}

/// The results of a sweep as one table.
pub struct ExportTable<'a> {
    kind: ExportKind,
    header: &'a SweepHeader,
    trials: &'a [TrialRecord],
    columns: Vec<Column>,
}

impl<'a> ExportTable<'a> {
    /// The table of a kind.
    pub fn new(kind: ExportKind, header: &'a SweepHeader, trials: &'a [TrialRecord]) -> Self {
        ExportTable { kind, header, trials, columns: columns::of(kind, trials) }
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut (dyn Write + Send), format: ExportFormat) -> io::Result<()> {
        match format {
            ExportFormat::Csv => self.write_csv(out),
            ExportFormat::Json => self.write_json(out),
            #[cfg(feature = "parquet")]
            ExportFormat::Parquet => parquet::write(self, out),
        }
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer
            .write_record(self.columns.iter().map(|column| csv_text(&column.name)))
            .map_err(output_error)?;
        self.each(&mut |cells| writer.write_record(cells.iter().map(text)).map_err(output_error))?;
        writer.flush()
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = io::BufWriter::new(out);
        let mut before = "[\n";
        self.each(&mut |cells| {
            out.write_all(before.as_bytes())?;
            before = ",\n";
            serde_json::to_writer(&mut out, &Object(&self.columns, cells)).map_err(io::Error::from)
        })?;
        writeln!(out, "{}", if before == "[\n" { "[]" } else { "\n]" })?;
        out.flush()
    }

    /// Calls `take` for each row.
    fn each(&self, take: &mut dyn FnMut(&[Cell]) -> io::Result<()>) -> io::Result<()> {
        self.rows(&mut |row| {
            let cells: Vec<Cell> = self.columns.iter().map(|column| column.cell(row)).collect();
            take(&cells)
        })
    }

    fn rows(&self, take: &mut dyn FnMut(&Row<'_>) -> io::Result<()>) -> io::Result<()> {
        for trial in self.trials {
            let row = Row::of(self.header, trial);
            match self.kind {
                ExportKind::Trials => take(&row)?,
                // Skipped and failed trials do not vanish.
                ExportKind::Operations if trial.phases.is_empty() => take(&row)?,
                ExportKind::Operations => operations(&row, trial, &mut |row, _| take(row))?,
                ExportKind::Timeline => operations(&row, trial, &mut |row, result| {
                    let intervals = result.map_or(0, |result| result.timeline.count.len());
                    (0..intervals).try_for_each(|interval| take(&Row { interval: Some(interval), ..*row }))
                })?,
                ExportKind::Telemetry => {
                    for phase in &trial.phases {
                        let Some(telemetry) = &phase.telemetry else { continue };
                        samples(&Row { phase: Some(phase), ..row }, telemetry, take)?;
                    }
                }
                ExportKind::Clients => {
                    trial.phases.iter().try_for_each(|phase| clients(&row, phase, take))?;
                }
            }
        }
        Ok(())
    }
}

type TakeOperation<'t> = dyn FnMut(&Row<'_>, Option<&OperationResult>) -> io::Result<()> + 't;

/// The operations of a trial. A role without known operations has one row.
fn operations(row: &Row<'_>, trial: &TrialRecord, take: &mut TakeOperation<'_>) -> io::Result<()> {
    let each = |phase: &PhaseResult, take: &mut TakeOperation<'_>| -> io::Result<()> {
        for role in &phase.roles {
            let row = Row { phase: Some(phase), role: Some(role), ..*row };
            if role.operations.is_empty() {
                take(&row, None)?;
            }
            role.operations
                .iter()
                .try_for_each(|result| take(&Row { operation: Some(result), ..row }, Some(result)))?;
        }
        Ok(())
    };
    trial.phases.iter().try_for_each(|phase| each(phase, take))
}

/// Each client in each role of a phase.
fn clients(
    row: &Row<'_>,
    phase: &PhaseResult,
    take: &mut dyn FnMut(&Row<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let Some(views) = ClientsView::of(&[phase]) else { return Ok(()) };
    for view in &views.roles {
        let role = phase.roles.iter().find(|role| role.role == view.role);
        for client in &phase.clients {
            let own = client.roles.iter().find(|own| own.role == view.role);
            let client = own.map(|own| columns::Client { client, own, view });
            take(&Row { phase: Some(phase), role, client, ..*row })?;
        }
    }
    Ok(())
}

/// Each device in each sample, and then in the whole window; without a device, the machine's figures.
fn samples(
    row: &Row<'_>,
    telemetry: &Telemetry,
    take: &mut dyn FnMut(&Row<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let numbered = telemetry.samples.iter().enumerate().map(|(index, sample)| (Some(index), sample));
    for (index, sample) in numbered.chain([(None, &telemetry.window)]) {
        for device in 0..telemetry.devices.len().min(sample.devices.len()).max(1) {
            take(&Row { sample: Some(columns::Sampled { telemetry, sample, index, device }), ..*row })?;
        }
    }
    Ok(())
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Absent => String::new(),
        Cell::Whole(value) => value.to_string(),
        Cell::Number(value) => value.to_string(),
        Cell::Text(value) => csv_text(value),
        Cell::Truth(value) => value.to_string(),
    }
}

/// A row as an object, its keys in the order of the columns.
struct Object<'a>(&'a [Column], &'a [Cell]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|column| &column.name).zip(self.1))
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Absent => serializer.serialize_none(),
            Cell::Whole(value) => serializer.serialize_u64(*value),
            Cell::Number(value) => serializer.serialize_f64(*value),
            Cell::Text(value) => serializer.serialize_str(value),
            Cell::Truth(value) => serializer.serialize_bool(*value),
        }
    }
}

/// The I/O error of the output itself, so that a closed pipe is recognised.
pub(crate) fn output_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests;
