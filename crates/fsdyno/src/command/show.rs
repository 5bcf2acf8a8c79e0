//! `fsdyno show [SWEEP]`: the results of a sweep, as text, JSON or CSV.

use super::{Result, Surroundings, find, header, print_json};
use crate::cli::{Format, Show};
use crate::exit::{Status, Trouble};
use anyhow::anyhow;
use fsdyno_core::TrialRecord;
use fsdyno_report::{Header, Style, View, csv, json, terminal};
use std::io::Write;

pub fn run(surroundings: &Surroundings, options: &Show) -> Result {
    let store = surroundings.open_store()?;
    let sweep = find(&store, options.sweep.as_deref())?;
    let header = header(&sweep, options.measure.as_deref())?;
    let mut trials = store.trials(sweep.summary.id)?;
    if let Some(text) = &options.case {
        let names: Vec<String> = trials.iter().map(|trial| trial.configuration.name.clone()).collect();
        trials.retain(|trial| trial.configuration.name.contains(text.as_str()));
        if trials.is_empty() {
            return Err(no_such_case(text, &names));
        }
    }
    print(&header, &trials, options.format, options.summary, &surroundings.style)?;
    Ok(Status::Well)
}

/// Prints results to stdout: tables case by case and the summary last, where the eye rests.
pub fn print(
    header: &Header,
    trials: &[TrialRecord],
    format: Format,
    summary_only: bool,
    style: &Style,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => print_json(&json::sweep(header, trials)?)?,
        Format::Csv => csv::operations(&mut out, trials)?,
        Format::Text => {
            let view = View::new(header, trials)?;
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

fn no_such_case(text: &str, names: &[String]) -> Trouble {
    let error = anyhow!("no case of the sweep contains '{text}'");
    let nearest = fsdyno_core::nearest(text, names.iter().map(String::as_str));
    match nearest.or(names.first().map(String::as_str)) {
        Some(name) => {
            Trouble::new(Status::Usage, error).hint(format!("one of its configurations is '{name}'"))
        }
        None => Trouble::new(Status::Usage, error).hint("the sweep has no stored trial"),
    }
}
