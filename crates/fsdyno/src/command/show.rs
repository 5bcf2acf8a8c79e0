//! `fsdyno show [SWEEP]`: the results of a sweep, as text, JSON or CSV.

use super::{Result, Surroundings, counted, find, header, log, no_such_case, print_json, verify_measured};
use crate::cli::{Detail, Format, Layout, Show};
use crate::exit::{Status, Trouble};
use crate::out;
use anyhow::anyhow;
use fsdyno_core::SweepHeader;
use fsdyno_core::{Study, TrialRecord};
use fsdyno_report::export::{self, ExportKind, ExportTable};
use fsdyno_report::terminal::{Extent, LayoutError, layout};
use fsdyno_report::{Style, json, junit, markdown, terminal};
use fsdyno_store::{Sweep, SweepSummary};
use fsdyno_verdict::{View, select};
use std::io::Write;

pub fn run(surroundings: &Surroundings, options: &Show) -> Result {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, options.sweep.as_deref())?;
    shelves.tell_of_unfinished(&sweep.summary);
    let header = header(&sweep, options.measure.as_deref())?;
    let more = match &options.sweep {
        None => format!("{} show", surroundings.program),
        Some(_) => format!("{} show {}", surroundings.program, sweep.summary.selector),
    };
    let extent = match options {
        Show { full: true, .. } | Show { case: Some(_), .. } => Extent::Full,
        Show { notes: true, .. } => Extent::Notes,
        _ => Extent::Page(&more),
    };
    let cases = options.tables || extent == Extent::Full;
    // A summary needs neither histograms nor timelines.
    let summary = !cases && options.layout.is_none() && options.telemetry.is_none();
    let trials = match options.format {
        Format::Text | Format::Markdown | Format::Junit if summary => store.outlines(sweep.summary.id)?,
        _ => store.trials(sweep.summary.id)?,
    };
    let (header, trials) = match &options.case {
        None => (header, trials),
        // A race is judged as a whole.
        Some(case) => {
            let trials = chosen(counted(&header, trials), Some(case))?;
            (SweepHeader { race: None, selected: Some(case.clone()), ..header }, trials)
        }
    };
    verify_measured(&header, &trials, options.measure.as_deref())?;
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
        None => print(&header, &trials, options.format, (extent, cases), &surroundings.style)?,
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
) -> std::result::Result<(), Trouble> {
    match format {
        Format::Json => print_json(&json::sweep(header, trials))?,
        Format::Csv => ExportTable::new(ExportKind::Telemetry, header, trials)
            .write(&mut out::plain(), export::ExportFormat::Csv)?,
        Format::Markdown | Format::Junit => {
            return Err(Trouble::new(
                Status::Usage,
                anyhow!("telemetry has only the formats text, json and csv"),
            )
            .hint("omit --telemetry, or use --format csv"));
        }
        Format::Text => terminal::telemetry(&mut out::text(style), trials, detail == Detail::Samples, style)?,
    }
    Ok(())
}

/// Prints the lines that bon_csv2html reads.
fn as_bonnie_csv(trials: &[TrialRecord], format: Format) -> Result {
    if !matches!(format, Format::Text | Format::Csv) {
        return Err(Trouble::new(Status::Usage, anyhow!("the layout bonnie-csv is text only"))
            .hint("omit --as; the JSON contains the figures of every trial"));
    }
    if !trials.iter().any(|trial| terminal::is_bonnie(&trial.workload)) {
        return Err(Trouble::new(
            Status::Usage,
            anyhow!("the sweep has no trials of bonnie or the real bonnie++"),
        ));
    }
    terminal::bonnie_csv(&mut out::plain(), trials)?;
    Ok(Status::Well)
}

/// Prints results to stdout: the answer, and with `cases` the table of each case as its study or program
/// prints it, in full with every operation.
pub fn print(
    header: &SweepHeader,
    trials: &[TrialRecord],
    format: Format,
    (extent, cases): (Extent<'_>, bool),
    style: &Style,
) -> anyhow::Result<()> {
    let mut out = out::text(style);
    match format {
        Format::Json => print_json(&json::sweep(header, trials))?,
        Format::Csv => ExportTable::new(ExportKind::Operations, header, trials)
            .write(&mut out::plain(), export::ExportFormat::Csv)?,
        Format::Markdown => markdown::summary(&mut out, &View::without_cases(header, trials))?,
        Format::Junit => junit::sweep(&mut out, header, trials)?,
        Format::Text => {
            let view = match cases {
                true => View::new(header, trials)?,
                false => View::without_cases(header, trials),
            };
            terminal::summary(&mut out, &view, extent, style)?;
            let one_load = view.cases.windows(2).all(|pair| pair[0].workload == pair[1].workload);
            for case in &view.cases {
                // Some workloads have no table of their own.
                let mut classic = Vec::new();
                terminal::classic(&mut classic, case, style)?;
                if !classic.is_empty() {
                    writeln!(out)?;
                    if !one_load {
                        // The tables as published do not say it.
                        writeln!(out, "{}:", case.workload_name)?;
                    }
                    out.write_all(&classic)?;
                }
                if extent == Extent::Full {
                    writeln!(out)?;
                    terminal::full(&mut out, case, style)?;
                }
            }
        }
    }
    Ok(())
}
