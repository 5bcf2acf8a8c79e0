//! `fsdyno race [SWEEP]`: what a race has found so far; `--replay`: what one on the trials of a sweep would
//! have found.

use super::{Result, Surroundings, find, header, print_json, recommend};
use crate::cli::{DocumentFormat, Race};
use crate::exit::{Status, Trouble};
use crate::out;
use anyhow::anyhow;
use fsdyno_report::terminal;
use fsdyno_verdict::race::{BudgetError, RaceAnswer, RaceError, RaceQuestion, answer, replay};

pub fn run(surroundings: &Surroundings, options: &Race) -> Result {
    let found = match &options.replay {
        Some(sweep) => replayed(surroundings, options, sweep)?,
        None => raced(surroundings, options)?,
    };
    match options.format {
        DocumentFormat::Text => {
            terminal::race(&mut out::text(&surroundings.style), &found, &surroundings.style)?;
        }
        DocumentFormat::Json => print_json(&found)?,
    }
    Ok(Status::Well)
}

/// A sweep that was a race.
fn raced(surroundings: &Surroundings, options: &Race) -> std::result::Result<RaceAnswer, Trouble> {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, options.sweep.as_deref())?;
    shelves.tell_of_unfinished(&sweep.summary);
    let header = header(&sweep, None)?;
    let Some(rules) = &header.race else {
        let (selector, name) = (&sweep.summary.selector, &sweep.summary.name);
        let error = anyhow!("sweep {selector} ('{name}') was not a race");
        let hint = format!("fsdyno race --replay {selector} replays one on its trials");
        return Err(Trouble::new(Status::Usage, error).hint(hint));
    };
    answer(&header, rules, &store.outlines(sweep.summary.id)?, options.threshold).map_err(refused)
}

/// A replay on the trials of a sweep.
fn replayed(
    surroundings: &Surroundings,
    options: &Race,
    sweep: &str,
) -> std::result::Result<RaceAnswer, Trouble> {
    let goal = options.goal.as_deref().map(recommend::goal).transpose()?;
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, Some(sweep))?;
    let header = header(&sweep, None)?;
    if header.race.is_some() {
        let (selector, name) = (&sweep.summary.selector, &sweep.summary.name);
        let error =
            anyhow!("sweep {selector} ('{name}') was a race itself: most configurations have few trials");
        return Err(Trouble::new(Status::Usage, error).hint(format!("fsdyno race {selector} shows it")));
    }
    let question = RaceQuestion {
        budget: options.budget,
        goal,
        threshold: options.threshold,
        workload: options.workload.clone(),
        seed: options.seed.unwrap_or(sweep.seed),
    };
    replay(&header, &store.outlines(sweep.summary.id)?, &question).map_err(refused)
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
        RaceError::FirstBlock { .. } => Some("fsdyno show SWEEP shows what has been measured"),
        RaceError::Budget(BudgetError::NoRivals)
        | RaceError::Nothing
        | RaceError::NoAnswer { .. }
        | RaceError::OnlyOne { .. } => None,
    };
    let trouble = Trouble::new(Status::Usage, error);
    match hint {
        Some(hint) => trouble.hint(hint),
        None => trouble,
    }
}
