//! `fsdyno list`: the stored sweeps, and whether their trials can be read.

use super::results::{Checked, Shelves};
use super::{Result, Surroundings, print_json};
use crate::cli::{DocumentFormat, List};
use crate::exit::Status;
use crate::out;
use crate::say;
use fsdyno_report::terminal::{self, SweepRow};
use fsdyno_store::{DamagedTrial, SweepState, SweepSummary};
use fsdyno_verdict::text::plural;

pub fn run(surroundings: &Surroundings, options: &List) -> Result {
    let shelves = surroundings.results()?;
    if options.check {
        return check(surroundings, options.format, &shelves);
    }
    let sweeps = shelves.sweeps()?;
    match options.format {
        DocumentFormat::Text => print(surroundings, sweeps.iter().map(|sweep| row(sweep, &[])))?,
        DocumentFormat::Json => print_json(&sweeps)?,
    }
    Ok(Status::Well)
}

/// Reads every trial of every sweep.
fn check(surroundings: &Surroundings, format: DocumentFormat, shelves: &Shelves) -> Result {
    let sweeps = shelves.checked()?;
    match format {
        DocumentFormat::Text => print(surroundings, sweeps.iter().map(|one| row(&one.sweep, &one.damaged)))?,
        DocumentFormat::Json => print_json(&sweeps)?,
    }
    let damaged: Vec<&Checked> = sweeps.iter().filter(|one| !one.damaged.is_empty()).collect();
    if damaged.is_empty() {
        if shelves.has_damaged_sweeps() {
            return Ok(Status::Usage);
        }
        let trials: u32 = sweeps.iter().map(|one| one.sweep.done()).sum();
        say::remark(&format!("checked {}: every one can be read", plural(u64::from(trials), "trial")));
        return Ok(Status::Well);
    }
    let selectors: Vec<&str> = damaged.iter().map(|one| one.sweep.selector.as_str()).collect();
    say::note(&format!(
        "hint: put back a copy of the results, or delete what is damaged: fsdyno delete {} --damaged",
        selectors.join(" ")
    ));
    Ok(Status::Usage)
}

fn print(surroundings: &Surroundings, rows: impl Iterator<Item = SweepRow>) -> std::io::Result<()> {
    let rows: Vec<SweepRow> = rows.collect();
    terminal::sweep_list(&mut out::text(&surroundings.style), &rows, &surroundings.style)
}

fn row(sweep: &SweepSummary, damaged: &[DamagedTrial]) -> SweepRow {
    SweepRow {
        id: sweep.selector.clone(),
        name: sweep.name.clone(),
        started: sweep.started.clone(),
        state: sweep.state.name(),
        is_unfinished: sweep.state == SweepState::Interrupted,
        cases: sweep.cases,
        trials: sweep.trials,
        done: sweep.done(),
        skipped: sweep.skipped,
        failed: sweep.failed,
        note: sweep.note.clone(),
        damaged: damaged.iter().map(DamagedTrial::to_string).collect(),
    }
}
