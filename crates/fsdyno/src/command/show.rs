//! `fsdyno show [SWEEP]`: the results of a sweep, as text, JSON or CSV.

use super::{Result, Surroundings, find, header, log, no_such_case, print_json};
use crate::cli::{Detail, Format, Layout, Show};
use crate::exit::{Status, Trouble};
use crate::out;
use anyhow::anyhow;
use fsdyno_core::SweepHeader;
use fsdyno_core::{Study, TrialRecord};
use fsdyno_report::export::{self, Kind, Table};
use fsdyno_report::terminal::{LayoutError, layout};
use fsdyno_report::{Style, json, terminal};
use fsdyno_store::{Sweep, SweepSummary};
use fsdyno_verdict::{View, select};
use std::io::Write;

pub fn run(surroundings: &Surroundings, options: &Show) -> Result {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, options.sweep.as_deref())?;
    let header = header(&sweep, options.measure.as_deref())?;
    let trials = chosen(store.trials(sweep.summary.id)?, options.case.as_deref())?;
    match options.layout {
        Some(Layout::Published) => {
            return as_published(&sweep, &header, &trials, options.format, &surroundings.style);
        }
        Some(Layout::BonnieCsv) => return as_bonnie_csv(&trials, options.format),
        None => {}
    }
    if options.log && options.format == Format::Text {
        log::print(&mut out::text(&surroundings.style), &trials)?;
        return Ok(Status::Well);
    }
    match options.telemetry {
        Some(detail) => print_telemetry(&header, &trials, options.format, detail, &surroundings.style)?,
        None => print(&header, &trials, options.format, options.summary, &surroundings.style)?,
    }
    Ok(Status::Well)
}

/// The trials of the cases that a user requests.
pub(super) fn chosen(
    trials: Vec<TrialRecord>,
    case: Option<&str>,
) -> std::result::Result<Vec<TrialRecord>, Trouble> {
    match case {
        Some(text) => select(trials, text).map_err(no_such_case),
        None => Ok(trials),
    }
}

/// Prints a sweep in the layout of its study.
fn as_published(
    sweep: &Sweep,
    header: &SweepHeader,
    trials: &[TrialRecord],
    format: Format,
    style: &Style,
) -> Result {
    if format != Format::Text {
        return Err(Trouble::new(Status::Usage, anyhow!("the published layout is text only"))
            .hint("fsdyno compare SWEEP published:NAME has the same figures as JSON and CSV"));
    }
    let study = fsdyno_sweep::study(&sweep.plan_toml, &sweep.overrides)?.ok_or_else(|| {
        let SweepSummary { id, name, .. } = &sweep.summary;
        let studies: Vec<&str> = Study::ALL.iter().map(|study| study.name()).collect();
        Trouble::new(
            Status::Usage,
            anyhow!("sweep {id} ('{name}') does not repeat a published study: its plan names none"),
        )
        .hint(format!("set study = \"NAME\" in the plan, where NAME is one of {}", studies.join(", ")))
    })?;
    layout(&mut out::text(style), study, header, trials, style).map_err(|error| match error {
        LayoutError::Io(error) => Trouble::from(error),
        other => Trouble::from(other),
    })?;
    Ok(Status::Well)
}

/// Prints telemetry to stdout. The JSON is the same as without `--telemetry`: it contains everything.
fn print_telemetry(
    header: &SweepHeader,
    trials: &[TrialRecord],
    format: Format,
    detail: Detail,
    style: &Style,
) -> anyhow::Result<()> {
    match format {
        Format::Json => print_json(&json::sweep(header, trials))?,
        Format::Csv => {
            Table::new(Kind::Telemetry, header, trials).write(&mut std::io::stdout(), export::Format::Csv)?
        }
        Format::Text => terminal::telemetry(&mut out::text(style), trials, detail == Detail::Samples, style)?,
    }
    Ok(())
}

/// Prints the lines that bon_csv2html reads.
fn as_bonnie_csv(trials: &[TrialRecord], format: Format) -> Result {
    if !matches!(format, Format::Text | Format::Csv) {
        return Err(Trouble::new(Status::Usage, anyhow!("the layout bonnie-csv has no JSON form"))
            .hint("omit --as; the JSON contains the figures of every trial"));
    }
    if !trials.iter().any(|trial| terminal::is_bonnie(&trial.workload)) {
        return Err(Trouble::new(
            Status::Usage,
            anyhow!("the sweep has no trials of bonnie or the real bonnie++"),
        ));
    }
    terminal::bonnie_csv(&mut std::io::stdout().lock(), trials)?;
    Ok(Status::Well)
}

/// Prints results to stdout: tables case by case, and the summary last, where it is seen first.
pub fn print(
    header: &SweepHeader,
    trials: &[TrialRecord],
    format: Format,
    summary_only: bool,
    style: &Style,
) -> anyhow::Result<()> {
    match format {
        Format::Json => print_json(&json::sweep(header, trials))?,
        Format::Csv => {
            Table::new(Kind::Operations, header, trials).write(&mut std::io::stdout(), export::Format::Csv)?
        }
        Format::Text => {
            let (view, mut out) = (View::new(header, trials)?, out::text(style));
            terminal::drift(&mut out, view.drift.as_ref(), style)?;
            if !summary_only {
                for case in &view.cases {
                    terminal::classic(&mut out, case, style)?;
                    writeln!(out)?;
                    terminal::full(&mut out, case, style)?;
                    writeln!(out)?;
                }
            }
            terminal::summary(&mut out, &view, style)?;
        }
    }
    Ok(())
}
