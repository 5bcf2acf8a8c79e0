//! `fsdyno list`: the stored sweeps.

use super::{Result, Surroundings, print_json};
use crate::cli::{DocumentFormat, List};
use crate::exit::Status;
use crate::out;
use fsdyno_report::terminal::{self, SweepRow};
use fsdyno_store::{SweepState, SweepSummary};

pub fn run(surroundings: &Surroundings, options: &List) -> Result {
    let sweeps = surroundings.results()?.sweeps()?;
    match options.format {
        DocumentFormat::Text => {
            let rows: Vec<SweepRow> = sweeps.iter().map(row).collect();
            terminal::sweep_list(&mut out::text(&surroundings.style), &rows, &surroundings.style)?
        }
        DocumentFormat::Json => print_json(&sweeps)?,
    }
    Ok(Status::Well)
}

fn row(sweep: &SweepSummary) -> SweepRow {
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
    }
}
