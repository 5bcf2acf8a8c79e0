//! The trade-offs between measures: the Pareto front of configurations that no other one beats in everything.
//!
//! The front is based on means, without intervals: where means are close, so are the points. Safety is an
//! objective, too: a durable configuration is never beaten by one that is not.

use super::contender::{Contender, of_case};
use crate::ranking;
use fsdyno_core::measure::{Direction, Goal, Measure};
use fsdyno_core::{TrialRecord, Workload};
use fsdyno_stats::on_front;
use serde::Serialize;

/// The configurations in all objectives.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ParetoFront {
    /// The measures that the configurations are judged by besides safety; the first decides the ranking.
    pub objectives: Vec<Objective>,
    /// The configurations that have a value of each, in the order of the ranking.
    pub points: Vec<ParetoPoint>,
}

/// A measure that configurations are judged by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Objective {
    /// The measure.
    pub measure: String,
    /// Its unit in words: `bytes_per_s`, `ns`.
    pub unit: &'static str,
    /// `true` if more of the measure is better.
    pub higher_is_better: bool,
}

/// A configuration in all objectives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParetoPoint {
    /// Index of the case in the plan.
    pub case: u32,
    /// Its name.
    pub name: String,
    /// One value for each objective, in its base unit.
    pub values: Vec<f64>,
    /// Which of them are only lower bounds.
    pub at_least: Vec<bool>,
    /// The number of trials that have each value.
    pub trials: Vec<usize>,
    /// `true` if the configuration weakens nothing.
    pub durable: bool,
    /// `true` if no other configuration is at least as good in everything and better in something.
    pub on_front: bool,
}

impl ParetoPoint {
    /// `5 of 6`, if a value is that of fewer trials than another one of the same configuration.
    pub fn only(&self, index: usize) -> Option<String> {
        let all = self.trials.iter().copied().max()?;
        (self.trials[index] < all).then(|| format!("{} of {all}", self.trials[index]))
    }
}

/// The front of the configurations of a workload.
pub(super) fn front(
    workload: &Workload,
    decides: &Measure,
    standings: &[Contender],
    trials: &[&TrialRecord],
    seed: u64,
) -> ParetoFront {
    let mut measures = vec![decides.clone()];
    let decided = |one: &Contender| one.value.map(|value| (value, one.at_least, one.with_value));
    let mut columns = vec![standings.iter().map(decided).collect::<Vec<_>>()];
    let goals = Goal::words().filter_map(|(_, goal)| goal.measure(workload));
    for measure in goals.chain(Measure::columns_of(trials.iter().copied())) {
        if measures.contains(&measure) {
            continue;
        }
        let values = column(&measure, standings, trials, seed);
        if values.iter().zip(standings).all(|(value, one)| value.is_some() || one.value.is_none()) {
            measures.push(measure);
            columns.push(values);
        }
    }
    let mut points: Vec<ParetoPoint> = standings
        .iter()
        .enumerate()
        .filter_map(|(row, one)| {
            let figures: Option<Vec<_>> = columns.iter().map(|values| values[row]).collect();
            let (values, at_least, trials): (Vec<_>, Vec<_>, Vec<usize>) = figures?.into_iter().collect();
            Some(ParetoPoint {
                case: one.case,
                name: one.name.clone(),
                values,
                at_least,
                trials,
                durable: one.is_durable(),
                on_front: true,
            })
        })
        .collect();
    let merits: Vec<Vec<f64>> = points.iter().map(|point| merits(point, &measures)).collect();
    points.iter_mut().zip(on_front(&merits)).for_each(|(point, is)| point.on_front = is);
    let objectives = measures.iter().map(|measure| Objective {
        measure: measure.name().to_string(),
        unit: measure.unit().name(),
        higher_is_better: measure.direction() == Direction::HigherIsBetter,
    });
    ParetoFront { objectives: objectives.collect(), points }
}

/// The value of a measure for each configuration, whether it is only a lower bound, and how many trials have
/// it.
fn column(
    measure: &Measure,
    standings: &[Contender],
    trials: &[&TrialRecord],
    seed: u64,
) -> Vec<Option<(f64, bool, usize)>> {
    let value = |one: &Contender| {
        let own: Vec<&TrialRecord> = of_case(trials, one.case).collect();
        let figure = ranking::figure(measure, seed, &own)?;
        Some((figure.estimate.value, figure.at_least, figure.estimate.n))
    };
    standings.iter().map(value).collect()
}

/// A point with larger being better in everything, safety included.
fn merits(point: &ParetoPoint, measures: &[Measure]) -> Vec<f64> {
    let oriented = point.values.iter().zip(measures).map(|(value, measure)| match measure.direction() {
        Direction::HigherIsBetter => *value,
        Direction::LowerIsBetter => -*value,
    });
    oriented.chain([if point.durable { 1.0 } else { 0.0 }]).collect()
}
