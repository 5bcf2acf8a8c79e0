//! Which cases are shown in full, and all of their distributions in one chart.
//!
//! A page that can be mailed has no room for everything about a thousand cases. Cases are added in the order
//! in which a reader asks for them (the best by any measure, the longest stall, then down the ranking) until
//! the page is full; it says how many there are and where to find the others. Whole trials are read a few
//! cases at a time, so that memory use stays flat.

use super::case;
use super::chart::{self, Names};
use super::distribution::{self, Curve, Subject};
use super::{ReportError, Sources};
use fsdyno_core::measure::Direction;
use fsdyno_core::parallel::in_parallel;
use fsdyno_core::{Operation, Role, TrialRecord};
use fsdyno_verdict::ranking::Ranking;
use fsdyno_verdict::view::{self, View};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum size of all cases on the page in bytes; the rest stays below 2 MB in ordinary sweeps.
const BYTES_MAX: usize = 4_000_000;

/// The number of cases that are read at once.
const AT_ONCE: usize = 8;

/// The cases of the page.
pub struct Cases {
    /// By number.
    shown: BTreeMap<u32, Markup>,
    curves: BTreeMap<u32, Vec<Curve>>,
    /// The number of cases that were measured.
    all: usize,
}

impl Cases {
    /// Reads as many cases as there is room for.
    ///
    /// # Errors
    /// [`ReportError::Trials`] if a trial cannot be read; [`ReportError::Histogram`].
    pub fn read(sources: &Sources<'_>, view: &View, names: &mut Names) -> Result<Cases, ReportError> {
        let order = by_interest(&view.rankings);
        // In a race, those that were measured again are shown by their fresh trials, as in the tables.
        let counts = |trial: &TrialRecord| view.race().is_none_or(|race| race.counts(trial));
        let of_case = |case| -> Result<Vec<TrialRecord>, ReportError> {
            Ok((sources.details)(case)?.into_iter().filter(counts).collect())
        };
        let mut cases = Cases { shown: BTreeMap::new(), curves: BTreeMap::new(), all: order.len() };
        let mut bytes = 0;
        for some in order.chunks(AT_ONCE) {
            let details = some.iter().map(|number| of_case(*number));
            let trials = details.collect::<Result<Vec<_>, _>>()?;
            let merged = in_parallel(&trials, |trials| -> Result<_, ReportError> {
                let Some(merged) = view::cases(trials)?.pop() else { return Ok(None) };
                let curves = distribution::curves(&merged, trials)?;
                Ok(Some((merged, curves)))
            });
            for (trials, merged) in trials.iter().zip(merged) {
                let Some((merged, curves)) = merged? else { continue };
                let markup =
                    case::case(&merged, trials, &sources.header.measure, cases.shown.is_empty(), names);
                bytes += markup.0.len();
                cases.curves.insert(merged.case, curves);
                cases.shown.insert(merged.case, markup);
                if bytes > BYTES_MAX {
                    return Ok(cases);
                }
            }
        }
        Ok(cases)
    }

    /// Returns whether a case is on the page.
    pub fn has(&self, case: u32) -> bool {
        self.shown.contains_key(&case)
    }

    /// The section, cases in the order of their ranking.
    pub fn section(&self, rankings: &[Ranking], names: &mut Names) -> Markup {
        html! {
            section #cases aria-labelledby="cases-title" {
                h2 #cases-title { "Case by case" }
                @if self.shown.len() < self.all {
                    p.note {
                        "Shown in full: " (self.shown.len()) " of " (self.all) " cases, to keep this page \
                         small: the best by "
                        "each measure, those with the longest stalls, and then by rank. The table above \
                         lists every case; "
                        code { "fsdyno show --case NAME" } " shows the others in full."
                    }
                }
                @for (index, ranking) in rankings.iter().enumerate() {
                    h3 { (ranking.title) }
                    (self.distributions(index, ranking, names))
                    @for row in &ranking.rows {
                        @if let Some(case) = self.shown.get(&row.case) { (case) }
                    }
                }
            }
        }
    }

    /// One chart of all configurations of a workload, for an operation that the reader chooses.
    fn distributions(&self, index: usize, ranking: &Ranking, names: &mut Names) -> Markup {
        let subjects = self.subjects(ranking);
        let Some(first) = most_important(&subjects) else { return html! {} };
        let charts: Vec<(String, &Subject, chart::Chart)> = subjects
            .iter()
            .map(|subject| (names.next(), subject, distribution::chart(subject, &self.of(ranking, subject))))
            .collect();
        let chosen = charts.iter().find(|(_, subject, _)| *subject == first);
        let Some((name, _, _)) = chosen else { return html! {} };
        let left_out = ranking
            .rows
            .iter()
            .filter(|row| self.has(row.case))
            .count()
            .saturating_sub(distribution::CURVES_MAX);
        html! {
            h4 { "Distributions compared" }
            div.tools {
                label for={ "operation-" (index) } { "Operation" }
                select id={ "operation-" (index) } data-chooses={ "distribution-" (index) } {
                    @for phase in phases(&subjects) {
                        optgroup label=(phase) {
                            @for (name, subject, _) in charts.iter().filter(|(_, subject, _)| subject.phase == phase) {
                                option value=(name) selected[*subject == first] { (subject.role) ": " (subject.operation) }
                            }
                        }
                    }
                }
            }
            figure.chart id={ "distribution-" (index) } data-chart=(name) {
                figcaption {
                    strong { "How long one operation takes." }
                    " Lower is better; the rarer, slower operations are on the right. A line combines all \
                     trials of a configuration and ends where its sample ends."
                    @if left_out > 0 { " The best " (distribution::CURVES_MAX) " configurations are drawn; \
                        the table also has the others." }
                }
                div.plot role="img" aria-label="Percentile curves of the configurations; the table below the \
                    chart has the figures"
                    style={ "min-height:" (distribution::HEIGHT) "px" } {}
            }
            @for (name, _, chart) in &charts { (chart::data(name, chart)) }
        }
    }

    fn of(&self, ranking: &Ranking, subject: &Subject) -> Vec<&Curve> {
        let curves = ranking.rows.iter().filter_map(|row| self.curves.get(&row.case)).flatten();
        curves.filter(|curve| curve.subject == *subject).collect()
    }

    /// The operations with distributions, in the order in which they are measured.
    fn subjects(&self, ranking: &Ranking) -> Vec<Subject> {
        let mut subjects: Vec<Subject> = Vec::new();
        for curve in ranking.rows.iter().filter_map(|row| self.curves.get(&row.case)).flatten() {
            if !subjects.contains(&curve.subject) {
                subjects.push(curve.subject.clone());
            }
        }
        subjects
    }
}

fn phases(subjects: &[Subject]) -> Vec<&str> {
    let mut phases: Vec<&str> = Vec::new();
    for subject in subjects {
        if !phases.contains(&subject.phase.as_str()) {
            phases.push(&subject.phase);
        }
    }
    phases
}

/// The operation that is shown first: a reader's first byte, preferably while others write, else the last
/// that moves data.
fn most_important(subjects: &[Subject]) -> Option<&Subject> {
    let first_byte =
        |subject: &&Subject| subject.role == Role::Reader && subject.operation == Operation::ReadFirstByte;
    let moves = |subject: &&Subject| subject.operation.moves() != fsdyno_core::operation::Moves::Nothing;
    let last_of = |wanted: &dyn Fn(&&Subject) -> bool| subjects.iter().rev().find(wanted);
    last_of(&first_byte).or_else(|| last_of(&moves)).or_else(|| subjects.last())
}

/// The cases in the order in which a reader asks for them, each once.
fn by_interest(rankings: &[Ranking]) -> Vec<u32> {
    let mut order: Vec<u32> =
        rankings.iter().filter_map(|ranking| Some(ranking.rows.first()?.case)).collect();
    for ranking in rankings {
        for (column, measure) in ranking.measures.iter().enumerate() {
            let values =
                ranking.rows.iter().filter_map(|row| Some((row.case, row.figures[column]?.estimate.value)));
            let (least, most) = (
                values.clone().min_by(|a, b| a.1.total_cmp(&b.1)),
                values.max_by(|a, b| a.1.total_cmp(&b.1)),
            );
            order.extend(
                match measure.direction() {
                    Direction::HigherIsBetter => most,
                    Direction::LowerIsBetter => least,
                }
                .map(|(case, _)| case),
            );
            if measure.name() == "longest-stall" {
                order.extend(most.map(|(case, _)| case));
            }
        }
    }
    let longest = rankings.iter().map(|ranking| ranking.rows.len()).max().unwrap_or(0);
    for rank in 0..longest {
        order.extend(rankings.iter().filter_map(|ranking| Some(ranking.rows.get(rank)?.case)));
    }
    let mut seen = BTreeSet::new();
    order.retain(|case| seen.insert(*case));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_case_is_listed_once_the_best_first() {
        let view = fixture::view("read-under-write", &fixture::trials());
        assert_eq!(by_interest(&view.rankings), [0, 1]);
        let view = fixture::view("longest-stall", &fixture::trials());
        assert_eq!(by_interest(&view.rankings), [1, 0]);
    }
}
