//! `fsdyno compare A B`: compares two sweeps, two cases, or a sweep with published figures.

use super::results::Shelves;
use super::{Result, Surroundings, counted, header, no_such_case, not_found, print_json};
use crate::cli::{Compare, Format};
use crate::exit::{Status, Trouble};
use crate::out;
use anyhow::anyhow;
use fsdyno_core::sweep_name::PUBLISHED_PREFIX;
use fsdyno_core::{Measure, TrialRecord};
use fsdyno_host::quoted;
use fsdyno_report::comparison as written;
use fsdyno_report::published::{self, Published};
use fsdyno_report::terminal::Extent;
use fsdyno_report::{junit, markdown, terminal};
use fsdyno_store::{StoreError, Sweep};
use fsdyno_verdict::comparison::{self, Comparison, ComparisonQuestion, Difference};
use fsdyno_verdict::select;
use std::path::Path;

pub fn run(surroundings: &Surroundings, options: &Compare) -> Result {
    let (first, second) = (options.first.as_str(), options.second());
    match (published(first)?, published(second)?) {
        (None, None) => two_sides(surroundings, options),
        (Some(reference), None) => beside_published(surroundings, options, second, reference),
        (None, Some(reference)) => beside_published(surroundings, options, first, reference),
        (Some(_), Some(_)) => Err(Trouble::new(
            Status::Usage,
            anyhow!("both sides are published figures, so there are no trials to compare"),
        )
        .hint("one side must be a stored sweep; fsdyno list shows them")),
    }
}

/// One of the two sides, from the store.
struct Side<'a> {
    /// As the user calls it.
    name: &'a str,
    store: &'a Path,
    sweep: Sweep,
    trials: Vec<TrialRecord>,
    /// All trials of its sweep.
    whole: Vec<TrialRecord>,
}

impl Side<'_> {
    fn borrowed(&self) -> comparison::Side<'_> {
        let Side { name, store, sweep, trials, whole } = self;
        let repeated_looks = sweep.looks.are_repeated();
        let (sweep, sweep_name) = (sweep.summary.id.0, &sweep.summary.name);
        comparison::Side { name, sweep, store, sweep_name, trials, whole, repeated_looks }
    }

    fn is(&self, other: &Side<'_>) -> bool {
        let numbers = |side: &Side<'_>| side.trials.iter().map(|trial| trial.trial).collect::<Vec<_>>();
        self.sweep.summary.selector == other.sweep.summary.selector && numbers(self) == numbers(other)
    }
}

fn two_sides(surroundings: &Surroundings, options: &Compare) -> Result {
    let measures = options.measure.iter().map(|name| name.parse::<Measure>());
    let measures: Vec<Measure> = measures.collect::<std::result::Result<_, _>>()?;
    let shelves = surroundings.results()?;
    let first = side(surroundings, &shelves, &options.first)?;
    let second = side(surroundings, &shelves, options.second())?;
    if first.is(&second) {
        return Err(Trouble::new(Status::Usage, anyhow!("both sides refer to the same trials"))
            .hint("use SWEEP/CASE to select cases of a sweep; fsdyno show SWEEP lists their names"));
    }
    let question = ComparisonQuestion { measures, threshold: options.threshold, seed: first.sweep.seed };
    let compared = Comparison::new(first.borrowed(), second.borrowed(), &question);
    let is_empty = compared.rows().next().is_none() && compared.losses().next().is_none();
    if is_empty && !compared.regressed() {
        return Err(nothing_in_common(&compared));
    }
    match options.format {
        Format::Text => {
            let more = format!(
                "{} compare {} {}",
                surroundings.program,
                quoted(&options.first),
                quoted(options.second())
            );
            let extent = if options.notes { Extent::Notes } else { Extent::Page(&more) };
            let style = &surroundings.style;
            terminal::comparison(&mut out::text(style), &compared, extent, style)?
        }
        Format::Json => print_json(&written::document(&compared))?,
        Format::Csv => written::csv(&mut out::plain(), &compared)?,
        Format::Markdown => markdown::comparison(&mut out::text(&surroundings.style), &compared)?,
        Format::Junit => junit::comparison(&mut out::text(&surroundings.style), &compared)?,
    }
    Ok(if compared.regressed() { Status::Regression } else { Status::Well })
}

/// The trials that a user means by `SWEEP` or `SWEEP/CASE`. Both may contain slashes: the longest name wins.
fn side<'a>(
    surroundings: &Surroundings,
    shelves: &'a Shelves,
    text: &'a str,
) -> std::result::Result<Side<'a>, Trouble> {
    let splits = text.rmatch_indices('/').map(|(at, _)| (&text[..at], Some(&text[at + 1..])));
    let mut ways = std::iter::once((text, None)).chain(splits).peekable();
    while let Some((selector, case)) = ways.next() {
        let (store, sweep) = match shelves.find(Some(selector)) {
            Err(StoreError::UnknownSweep { .. }) if ways.peek().is_some() => continue,
            found => found.map_err(|error| not_found(surroundings, error))?,
        };
        shelves.tell_of_unfinished(&sweep.summary);
        let whole = counted(&header(&sweep, None)?, store.outlines(sweep.summary.id)?);
        let trials = match case {
            Some(case) => select(whole.clone(), case).map_err(no_such_case)?,
            None => whole.clone(),
        };
        return Ok(Side { name: text, store: store.path(), sweep, trials, whole });
    }
    Err(anyhow!("no sweep is named '{text}'").into())
}

fn nothing_in_common(compared: &Comparison) -> Trouble {
    let Some(case) = compared.cases.first() else {
        let error = anyhow!("nothing to compare: the two sides have no case in common");
        let Some((letter, alone)) = ["A", "B"]
            .into_iter()
            .zip(&compared.alone)
            .find_map(|(letter, side)| Some((letter, side.first()?)))
        else {
            return Trouble::new(Status::Usage, error).hint("one side has no stored trials");
        };
        let hint = format!("{letter} has '{}' under {}: {}", alone.name, alone.workload, alone.reason);
        return Trouble::new(Status::Usage, error).hint(hint);
    };
    let names = |measures: &[Measure]| measures.iter().map(Measure::name).collect::<Vec<_>>().join(", ");
    if !case.zero.is_empty() {
        let error = anyhow!("nothing to compare: both sides have 0 in every trial ({})", names(&case.zero));
        let hint = "fsdyno show SWEEP says what its trials did; neither side has done any work";
        return Trouble::new(Status::Usage, error).hint(hint);
    }
    let error = match case.without.is_empty() {
        true => anyhow!("nothing to compare: the two sides have no measure in common"),
        false => anyhow!("nothing to compare: at least one side lacks {}", names(&case.without)),
    };
    let differs = |one: &Difference| format!("{}: {} -> {}", one.what, one.levels[0], one.levels[1]);
    let differences: Vec<String> = case.differences.iter().map(differs).collect();
    Trouble::new(Status::Usage, error).hint(match differences.is_empty() {
        true => "fsdyno show SWEEP lists the measures; select one with --measure".to_string(),
        false => format!(
            "the sides differ in {}; fsdyno show SWEEP lists the measures of each",
            differences.join("; ")
        ),
    })
}

fn beside_published(
    surroundings: &Surroundings,
    options: &Compare,
    ours: &str,
    reference: &'static Published,
) -> Result {
    if !options.measure.is_empty() {
        return Err(Trouble::new(Status::Usage, anyhow!("published figures cannot be selected by measure"))
            .hint("omit --measure; all published figures are shown"));
    }
    if matches!(options.format, Format::Markdown | Format::Junit) {
        let error = anyhow!("published figures are compared only as text, json and csv");
        return Err(Trouble::new(Status::Usage, error).hint("use --format csv"));
    }
    let shelves = surroundings.results()?;
    let Side { sweep, trials, .. } = side(surroundings, &shelves, ours)?;
    let beside = published::side_by_side(&header(&sweep, None)?, &trials, reference)?;
    match options.format {
        Format::Text => {
            terminal::side_by_side(&mut out::text(&surroundings.style), &beside, &surroundings.style)?
        }
        Format::Json => print_json(&beside)?,
        _ => published::side_by_side_csv(&mut out::plain(), &beside)?,
    }
    Ok(Status::Well)
}

/// The published figures that a user means; `None` for a sweep.
fn published(text: &str) -> std::result::Result<Option<&'static Published>, Trouble> {
    let Some(name) = text.strip_prefix(PUBLISHED_PREFIX) else { return Ok(None) };
    published::find(name).map(Some).map_err(|error| {
        let names: Vec<&str> = published::names().collect();
        Trouble::new(Status::Usage, error)
            .hint(format!("use {PUBLISHED_PREFIX}NAME, where NAME is one of {}", names.join(", ")))
    })
}
