//! `fsdyno list`: the stored sweeps.

use super::{Result, Surroundings, print_json};
use crate::cli::{Format, List};
use crate::exit::{Status, Trouble};
use crate::out;
use anyhow::anyhow;
use fsdyno_report::terminal::{self, SweepRow};
use fsdyno_store::{SweepState, SweepSummary};

pub fn run(surroundings: &Surroundings, options: &List) -> Result {
    let sweeps = surroundings.open_store()?.sweeps()?;
    match options.format {
        Format::Text => {
            let rows: Vec<SweepRow> = sweeps.iter().map(row).collect();
            terminal::sweep_list(&mut out::text(&surroundings.style), &rows, &surroundings.style)?
        }
        Format::Json => print_json(&sweeps)?,
        Format::Csv => {
            return Err(Trouble::new(Status::Usage, anyhow!("list has no CSV output"))
                .hint("use fsdyno list --format json, or fsdyno show SWEEP --format csv"));
        }
    }
    Ok(Status::Well)
}

fn row(sweep: &SweepSummary) -> SweepRow {
    SweepRow {
        id: sweep.id.0,
        name: sweep.name.clone(),
        started: sweep.started.clone(),
        state: sweep.state.name(),
        is_unfinished: sweep.state == SweepState::Interrupted,
        cases: sweep.cases,
        trials: sweep.trials,
        done: sweep.done(),
        skipped: sweep.skipped,
        failed: sweep.failed,
    }
}
