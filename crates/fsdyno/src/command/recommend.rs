//! `fsdyno recommend [SWEEP]`: what to choose, how certain that is, what it costs, and how to build it.

use super::{Result, Surroundings, find, header, print_json, show};
use crate::cli::{DocumentFormat, Recommend};
use crate::exit::{Status, Trouble};
use crate::out;
use anyhow::anyhow;
use fsdyno_core::SweepHeader;
use fsdyno_core::measure::{Goal, MeasureError};
use fsdyno_report::terminal::{self, Extent};
use fsdyno_verdict::{Question, Recommendation};
use std::collections::BTreeSet;

pub fn run(surroundings: &Surroundings, options: &Recommend) -> Result {
    let goal = options.goal.as_deref().map(goal).transpose()?;
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, options.sweep.as_deref())?;
    shelves.tell_of_unfinished(&sweep.summary);
    let header = SweepHeader { selected: options.case.clone(), ..header(&sweep, None)? };
    if header.race.is_some() && options.case.is_some() {
        let error = anyhow!("sweep {} was a race, which is judged as a whole", sweep.summary.selector);
        return Err(Trouble::new(Status::Usage, error).hint("omit --case"));
    }
    let trials = show::chosen(store.outlines(sweep.summary.id)?, options.case.as_deref())?;
    if let Some(name) = &options.recipe
        && !trials.iter().any(|trial| trial.configuration.name == *name)
    {
        let names: BTreeSet<&str> = trials.iter().map(|trial| trial.configuration.name.as_str()).collect();
        let names = names.into_iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let error = anyhow!("sweep {} has no configuration '{name}'", sweep.summary.selector);
        return Err(Trouble::new(Status::Usage, error).hint(format!("it has {names}")));
    }
    let question = Question { goal, threshold: options.threshold, recipe: options.recipe.clone() };
    let recommendation = Recommendation::new(&header, &trials, &question);
    match options.format {
        DocumentFormat::Text => {
            let selector =
                options.sweep.as_ref().map_or(String::new(), |_| format!(" {}", sweep.summary.selector));
            let more = format!("{} recommend{selector}", surroundings.program);
            let extent = match (options.full, options.notes) {
                (true, _) => Extent::Full,
                (false, true) => Extent::Notes,
                (false, false) => Extent::Page(&more),
            };
            let style = &surroundings.style;
            terminal::recommendation(&mut out::text(style), &recommendation, extent, style)?
        }
        DocumentFormat::Json => print_json(&recommendation)?,
    }
    Ok(Status::Well)
}

/// The user's goal.
pub(super) fn goal(text: &str) -> std::result::Result<Goal, Trouble> {
    text.parse().map_err(|error: MeasureError| {
        let words: Vec<&str> = Goal::words().map(|(word, _)| word).collect();
        Trouble::new(Status::Usage, error).hint(format!(
            "--for accepts {}, a latency target such as 'p99 <= 20ms', or any measure that fsdyno show \
             --measure accepts",
            words.join(", ")
        ))
    })
}
