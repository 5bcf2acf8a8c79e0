//! `fsdyno export [SWEEP]`: results as tidy tables, to stdout or into a directory.

use super::{Result, Surroundings, find, header, print_json, show};
use crate::cli::{Export, TableFormat, TableKind};
use crate::exit::{Status, Trouble};
use crate::file;
use crate::out;
use anyhow::anyhow;
use fsdyno_report::export::{ExportFormat, ExportKind, ExportTable};
use fsdyno_report::json;

pub fn run(surroundings: &Surroundings, options: &Export) -> Result {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, options.sweep.as_deref())?;
    let header = header(&sweep, None)?;
    let trials = show::chosen(store.trials(sweep.summary.id)?, options.case.as_deref())?;
    let kind = options.kind.map(|kind| match kind {
        TableKind::Trials => ExportKind::Trials,
        TableKind::Operations => ExportKind::Operations,
        TableKind::Timeline => ExportKind::Timeline,
        TableKind::Telemetry => ExportKind::Telemetry,
        TableKind::Clients => ExportKind::Clients,
    });
    let (format, ending) = match options.format {
        TableFormat::Csv => (ExportFormat::Csv, "csv"),
        TableFormat::Json => (ExportFormat::Json, "json"),
        #[cfg(feature = "parquet")]
        TableFormat::Parquet => (ExportFormat::Parquet, "parquet"),
    };
    match (&options.directory, kind) {
        (Some(directory), kind) => {
            let directory = file::make_directory(directory)?;
            for kind in kind.as_ref().map_or(ExportKind::ALL, std::slice::from_ref) {
                let table = ExportTable::new(*kind, &header, &trials);
                file::write_in(&directory, &format!("{}.{ending}", kind.name()), |out| {
                    Ok(table.write(out, format)?)
                })?;
            }
        }
        (None, Some(kind)) if format == ExportFormat::Json => {
            ExportTable::new(kind, &header, &trials).write(&mut out::json(), format)?
        }
        (None, Some(kind)) => ExportTable::new(kind, &header, &trials).write(&mut out::plain(), format)?,
        (None, None) if format == ExportFormat::Json => print_json(&json::sweep(&header, &trials))?,
        (None, None) => {
            return Err(Trouble::new(
                Status::Usage,
                anyhow!("without --kind there are several tables, but stdout can hold only one"),
            )
            .hint(
                "select one with --kind trials, operations, timeline or telemetry, or write all of them with \
                 --directory DIR",
            ));
        }
    }
    Ok(Status::Well)
}
