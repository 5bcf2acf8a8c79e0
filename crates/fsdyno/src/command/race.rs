//! `fsdyno race --replay SWEEP`: what a race on stored trials would have cost, and what it would have picked.

use super::{Result, Surroundings, find, header, print_json, recommend};
use crate::cli::{DocumentFormat, Race};
use crate::exit::{Status, Trouble};
use crate::out;
use fsdyno_report::terminal;
use fsdyno_verdict::race::{BudgetError, RaceError, RaceQuestion, replay};

pub fn run(surroundings: &Surroundings, options: &Race) -> Result {
    let goal = options.goal.as_deref().map(recommend::goal).transpose()?;
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, Some(&options.replay))?;
    let trials = store.outlines(sweep.summary.id)?;
    let question = RaceQuestion {
        budget: options.budget,
        goal,
        threshold: options.threshold,
        workload: options.workload.clone(),
        seed: options.seed.unwrap_or(sweep.seed),
    };
    let answer = replay(&header(&sweep, None)?, &trials, &question).map_err(refused)?;
    match options.format {
        DocumentFormat::Text => {
            terminal::race(&mut out::text(&surroundings.style), &answer, &surroundings.style)?;
        }
        DocumentFormat::Json => print_json(&answer)?,
    }
    Ok(Status::Well)
}

fn refused(error: RaceError) -> Trouble {
    let hint = match &error {
        RaceError::SeveralWorkloads { .. } | RaceError::NoSuchWorkload { .. } => {
            Some("--workload TEXT takes the one with this in its title")
        }
        RaceError::NoTrialLeft { .. } => Some(
            "a smaller --budget has fewer rounds; another --seed draws in another order; or leave out the \
             configuration",
        ),
        RaceError::Budget(BudgetError::TooSmall { .. }) => Some("give a larger --budget"),
        RaceError::Budget(BudgetError::TooFewBlocks { .. }) => {
            Some("a sweep with more repetitions can be replayed")
        }
        RaceError::NoValue { .. } => Some("fsdyno show lists the measures that the sweep has"),
        RaceError::Budget(BudgetError::NoRivals) | RaceError::Nothing | RaceError::NoAnswer { .. } => None,
    };
    let trouble = Trouble::new(Status::Usage, error);
    match hint {
        Some(hint) => trouble.hint(hint),
        None => trouble,
    }
}
