//! A sweep in the layout of its study: the published rows and columns with our figures in them.
//!
//! The rows of the study come first, in its order, then configurations that it did not have. A row that was
//! not measured has `-` in its columns and the reason below the table. Like the compatible table, these
//! tables have a width of their own.

use super::classic;
use super::style::Style;
use crate::published::{
    CounterpartTrials, PublishedColumn, PublishedError, PublishedTable, emulation, find, of_study,
    unpublished,
};
use fsdyno_core::measure::PrintedUnit;
use fsdyno_core::{Configuration, PhaseResult, Study, SweepHeader, TrialRecord, Workload};
use fsdyno_verdict::UnreadableHistogram;
use fsdyno_verdict::outcomes::{self, SkippedCases, is_measured};
use fsdyno_verdict::ranking::{CaseEstimate, figure};
use fsdyno_verdict::text::plural;
use fsdyno_verdict::view;
use std::io::{self, Write};

/// Why a sweep could not be laid out.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The built-in figures of the study are invalid.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The trials cannot be merged.
    #[error(transparent)]
    Histogram(#[from] UnreadableHistogram),
    /// The output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

type Result = std::result::Result<(), LayoutError>;

/// Writes a sweep in the layout of its study.
///
/// # Errors
/// [`LayoutError`].
pub fn layout(
    out: &mut dyn Write,
    study: Study,
    header: &SweepHeader,
    trials: &[TrialRecord],
    style: &Style,
) -> Result {
    if study == Study::FsOpBench2009 {
        return fsopbench(out, trials, style);
    }
    let kernel =
        trials.iter().find(|trial| is_measured(trial)).map(|trial| trial.environment.kernel.as_str());
    let kernel = kernel.and_then(|kernel| kernel.split_whitespace().next());
    let kernel = kernel.map(|kernel| format!(", Linux {kernel}")).unwrap_or_default();
    writeln!(out, "{}: {}\nsweep {} '{}'{kernel}", study, study.title(), header.id, header.name)?;
    if let Some(emulation) = emulation(trials) {
        paragraph(out, &format!("warning: {emulation}"))?;
    }
    match study {
        Study::FsOpBench2009 => {}
        Study::XfsTweaks2003 => xfs_tweaks(out, header, trials)?,
        Study::StreamingExt42008 => streaming(out, header, trials)?,
        Study::Schedulers2009 => schedulers(out, header, trials)?,
        Study::Raid12008 => raid1(out, trials)?,
    }
    let counts: Vec<usize> = view::cases(trials)?.iter().map(|case| case.trials.len()).collect();
    let (fewest, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
    if *most > 1 {
        let fewest = if fewest < most { format!("{fewest} to ") } else { String::new() };
        writeln!(out, "\nmeans over {fewest}{} of each configuration", plural(*most as u64, "trial"))?;
    }
    Ok(())
}

fn fsopbench(out: &mut dyn Write, trials: &[TrialRecord], style: &Style) -> Result {
    for (index, case) in view::cases(trials)?.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        classic(out, case, style)?;
    }
    for group in skipped(trials) {
        writeln!(out, "\n{group}")?;
    }
    Ok(())
}

/// One line for each reason: the configurations that were skipped for it.
fn skipped(trials: &[TrialRecord]) -> Vec<String> {
    let line = |mut group: SkippedCases| {
        // A configuration has a case for each workload, one after the other.
        group.names.dedup();
        format!("{}: skipped: {}", group.names.join(", "), group.unmet.join("; "))
    };
    outcomes::skipped(trials).into_iter().map(line).collect()
}

/// A row of a published layout: its label, and our figures in its columns.
struct Line {
    label: Vec<String>,
    cells: Vec<String>,
}

/// The rows of a study with our figures, then configurations that the study did not have, and remarks.
struct Sheet {
    lines: Vec<Line>,
    /// Each remark, and the rows it applies to.
    remarks: Vec<(String, Vec<String>)>,
}

impl Sheet {
    fn new(table: &PublishedTable, header: &SweepHeader, trials: &[TrialRecord]) -> Self {
        let mut sheet = Sheet { lines: Vec::new(), remarks: Vec::new() };
        for row in &table.rows {
            let found = CounterpartTrials::of(row, trials);
            let cells = cells(&table.columns, header.seed, &found.measured);
            if cells.iter().all(|cell| cell == NONE) {
                sheet.remark(&found.reason(), &row.title());
            }
            for note in found.notes() {
                sheet.remark(&note, &row.title());
            }
            sheet.lines.push(Line { label: row.label.clone(), cells });
        }
        for name in unpublished(table, trials) {
            let own: Vec<&TrialRecord> =
                measured(trials).filter(|trial| trial.configuration.name == name).collect();
            let cells = cells(&table.columns, header.seed, &own);
            // A configuration that only another workload of the sweep measured is left out.
            if cells.iter().any(|cell| cell != NONE) {
                let mut label = vec![String::new(); table.keys.len() - 1];
                label.push(name);
                sheet.lines.push(Line { label, cells });
            }
        }
        sheet
    }

    /// Adds a row to those that a remark applies to.
    fn remark(&mut self, text: &str, row: &str) {
        match self.remarks.iter_mut().find(|(known, _)| known == text) {
            Some((_, rows)) => rows.push(row.to_string()),
            None => self.remarks.push((text.to_string(), vec![row.to_string()])),
        }
    }

    fn write_remarks(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.remarks.is_empty() {
            writeln!(out)?;
        }
        let remarks = self.remarks.iter().map(|(text, rows)| format!("{text} ({})", rows.join(", ")));
        remarks.into_iter().try_for_each(|remark| paragraph(out, &remark))
    }
}

fn paragraph(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let options = textwrap::Options::new(REMARK_WIDTH).subsequent_indent("  ");
    textwrap::wrap(text, &options).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Width of the remarks below a table.
const REMARK_WIDTH: usize = 100;
/// Shown where nothing was measured.
const NONE: &str = "-";

fn measured(trials: &[TrialRecord]) -> impl Iterator<Item = &TrialRecord> {
    trials.iter().filter(|trial| is_measured(trial))
}

fn cells(columns: &[PublishedColumn], seed: u64, trials: &[&TrialRecord]) -> Vec<String> {
    let cell = |column: &PublishedColumn| {
        figure(&column.measure, seed, trials).map_or(NONE.to_string(), |figure| cell(&figure, column.unit))
    };
    columns.iter().map(cell).collect()
}

/// A figure with as many decimals as the studies printed for its unit.
fn cell(figure: &CaseEstimate, unit: PrintedUnit) -> String {
    let value = figure.estimate.value / unit.factor();
    let decimals = match unit {
        PrintedUnit::KibibytesPerSecond | PrintedUnit::Percent | PrintedUnit::Operations => 0,
        PrintedUnit::PerSecond => 1,
        PrintedUnit::MegabytesPerSecond | PrintedUnit::MebibytesPerSecond => 2,
        _ => 3,
    };
    format!("{}{value:.decimals$}", if figure.at_least { ">=" } else { "" })
}

/// Columns of bonnie's first table: the headings above each pair of figure and %CPU.
const INPUT_OUTPUT: &[(&str, &[&str])] = &[
    ("Sequential Output", &["Per Chr", "Block", "Rewrite"]),
    ("Sequential Input", &["Per Chr", "Block"]),
    ("Random", &["Seeks"]),
];
/// Those of its second table.
const FILES: &[(&str, &[&str])] =
    &[("Sequential Create", &["Create", "Read", "Delete"]), ("Random Create", &["Create", "Read", "Delete"])];
/// Width of a pair: blank, figure, blank, %CPU.
const PAIR: usize = 13;

/// bonnie's two tables, a block for each experiment.
fn xfs_tweaks(out: &mut dyn Write, header: &SweepHeader, trials: &[TrialRecord]) -> Result {
    let Ok(published) = find(Study::XfsTweaks2003.name()) else { return Ok(()) };
    let table = published.table()?;
    let sheet = Sheet::new(&table, header, trials);
    let width = sheet.lines.iter().map(|line| line.label[1].len()).max().unwrap_or(0).max(12);
    let pairs = |groups: &[(&str, &[&str])]| groups.iter().map(|(_, names)| names.len()).sum::<usize>();
    let split = 2 * pairs(INPUT_OUTPUT);
    for (groups, unit, cells) in
        [(INPUT_OUTPUT, "K/sec", 0..split), (FILES, "/sec", split..table.columns.len())]
    {
        writeln!(out)?;
        let (mut first, mut second, mut third) = (" ".repeat(width), " ".repeat(width), " ".repeat(width));
        for (group, names) in groups {
            first.push_str(&format!(" {:-^1$}", group, names.len() * PAIR - 1));
            for name in *names {
                second.push_str(&format!(" {:-^1$}", name, PAIR - 1));
                let unit = if *name == "Seeks" { "/sec" } else { unit };
                third.push_str(&format!(" {unit:>8} {:>3}", "%CP"));
            }
        }
        writeln!(out, "{first}\n{second}\n{third}")?;
        let mut experiment = None;
        for line in &sheet.lines {
            if experiment != Some(&line.label[0]) {
                let name = if line.label[0].is_empty() { "not in the study" } else { line.label[0].as_str() };
                writeln!(out, "{name}")?;
                experiment = Some(&line.label[0]);
            }
            write!(out, "{:<width$}", line.label[1])?;
            for pair in line.cells[cells.clone()].chunks(2) {
                write!(out, " {:>8} {:>3}", pair[0], pair[1])?;
            }
            writeln!(out)?;
        }
    }
    Ok(sheet.write_remarks(out)?)
}

/// A table for each of the study's two benchmarks.
fn schedulers(out: &mut dyn Write, header: &SweepHeader, trials: &[TrialRecord]) -> Result {
    for published in of_study(Study::Schedulers2009) {
        let table = published.table()?;
        let sheet = Sheet::new(&table, header, trials);
        let benchmark = published.name.split('-').next().unwrap_or_default();
        let headings = table.columns.iter().map(|column| {
            let name = column.name.split("_per_s").next().unwrap_or_default();
            let name = name.trim_end_matches("_kb").trim_end_matches("_mb").replace('_', " ");
            format!("{name} {}", column.unit)
        });
        let mut rows = vec![std::iter::once(benchmark.to_string()).chain(headings).collect::<Vec<_>>()];
        rows.extend(sheet.lines.iter().map(|line| [&line.label[..], &line.cells[..]].concat()));
        writeln!(out)?;
        columns(out, &rows)?;
        sheet.write_remarks(out)?;
    }
    Ok(())
}

/// Rows in columns with two blanks between them; the first is left-aligned, the others are right-aligned.
fn columns(out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, width))| match index {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        writeln!(out, "{}", cells.collect::<String>().trim_end())?;
    }
    Ok(())
}

/// Filesystem, kernel, mount options, readahead in sectors, operation, MB/s: a line for each operation of
/// each of our configurations.
fn streaming(out: &mut dyn Write, header: &SweepHeader, trials: &[TrialRecord]) -> Result {
    let Ok(published) = find(Study::StreamingExt42008.name()) else { return Ok(()) };
    let table = published.table()?;
    let names = ["Filesystem", "Kernel", "Mount options", "Readahead", "Operation", "MB/s"];
    let mut rows = vec![names.map(str::to_string).to_vec()];
    for configuration in configurations(trials) {
        let own: Vec<&TrialRecord> =
            measured(trials).filter(|trial| *trial.configuration == *configuration).collect();
        let kernel = own[0].environment.kernel.split_whitespace().next().unwrap_or(NONE);
        for (column, operation) in table.columns.iter().zip(["read", "write"]) {
            let Some(figure) = figure(&column.measure, header.seed, &own) else { continue };
            // The study gives no readahead for writes, which do not use it.
            let readahead = if operation == "read" { sectors(configuration) } else { String::new() };
            rows.push(vec![
                configuration.filesystem.clone(),
                kernel.to_string(),
                mount_options(configuration),
                readahead,
                operation.to_string(),
                cell(&figure, column.unit),
            ]);
        }
    }
    writeln!(out)?;
    columns(out, &rows)?;
    let remarks = Sheet::new(&table, header, trials);
    Ok(remarks.write_remarks(out)?)
}

/// The configurations with a measured trial, each once, in the plan's order.
fn configurations(trials: &[TrialRecord]) -> Vec<&Configuration> {
    let mut all: Vec<(u32, &Configuration)> = Vec::new();
    for trial in measured(trials) {
        if !all.iter().any(|(_, known)| **known == *trial.configuration) {
            all.push((trial.case, &trial.configuration));
        }
    }
    all.sort_by_key(|(case, _)| *case);
    all.into_iter().map(|(_, configuration)| configuration).collect()
}

/// Readahead in sectors of 512 bytes, as for `blockdev --setra`.
fn sectors(configuration: &Configuration) -> String {
    let size = configuration.level("readahead").and_then(|level| level.parse::<fsdyno_core::Bytes>().ok());
    size.map_or("default".to_string(), |size| (size.0 / 512).to_string())
}

/// The settings that are mount options, spelt as such.
fn mount_options(configuration: &Configuration) -> String {
    let mut words = Vec::new();
    for axis in ["delalloc", "journal_async_commit"] {
        match configuration.level(axis) {
            Some("1") => words.push(axis.to_string()),
            Some(_) => words.push(format!("no{axis}")),
            None => {}
        }
    }
    words.extend(configuration.level("data").map(|data| format!("data={data}")));
    words.extend(configuration.level("mount").map(str::to_string));
    if words.is_empty() { "defaults".to_string() } else { words.join(",") }
}

/// Seconds for each collection and test, filesystems and block sizes side by side.
fn raid1(out: &mut dyn Write, trials: &[TrialRecord]) -> Result {
    let configurations = configurations(trials);
    let mut workloads: Vec<&Workload> = Vec::new();
    for trial in measured(trials) {
        if !workloads.contains(&&trial.workload) {
            workloads.push(&trial.workload);
        }
    }
    let names = configurations.iter().map(|configuration| configuration.name.clone());
    let mut rows = vec![std::iter::once("seconds".to_string()).chain(names).collect::<Vec<_>>()];
    for workload in &workloads {
        let own: Vec<&TrialRecord> = measured(trials).filter(|trial| trial.workload == **workload).collect();
        let Some(first) = own.first() else { continue };
        for phase in &first.phases {
            let label = format!("{} {}", distinction(workload, &workloads), phase.name);
            let mut row = vec![label.trim().to_string()];
            for configuration in &configurations {
                let of_cell = own.iter().filter(|trial| *trial.configuration == **configuration);
                let phases = of_cell.filter_map(|trial| phase_named(trial, &phase.name));
                let seconds: Vec<f64> = phases.map(|phase| phase.window_ns.as_secs_f64()).collect();
                row.push(match seconds.len() {
                    0 => NONE.to_string(),
                    count => format!("{:.3}", seconds.iter().sum::<f64>() / count as f64),
                });
            }
            rows.push(row);
        }
    }
    writeln!(out)?;
    columns(out, &rows)?;
    let skipped = skipped(trials);
    if !skipped.is_empty() {
        writeln!(out)?;
    }
    Ok(skipped.iter().try_for_each(|line| writeln!(out, "{line}"))?)
}

fn phase_named<'t>(trial: &'t TrialRecord, name: &str) -> Option<&'t PhaseResult> {
    trial.phases.iter().find(|phase| phase.name == name)
}

/// The values of the parameters by which a workload differs from the others.
fn distinction(workload: &Workload, all: &[&Workload]) -> String {
    let differs = |name: &str, value: &str| {
        all.iter().any(|other| other.list().iter().any(|listed| listed.name == name && listed.value != value))
    };
    let values = workload.list().into_iter().filter(|listed| differs(listed.name, &listed.value));
    values.map(|listed| listed.value.trim_matches('"').to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
