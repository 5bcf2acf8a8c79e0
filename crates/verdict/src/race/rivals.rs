//! The configurations of a race, what they have in common, and what they race for.

use super::{RaceError, Raced};
use crate::levels::{FILESYSTEM, changes, level};
use crate::load::Load;
use crate::race::procedure::{Cells, RacedTrial};
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::{Direction, Goal, Measure};
use std::collections::BTreeSet;

/// A configuration with its trials.
pub(super) struct Rival<'a> {
    pub raced: Raced,
    pub trials: Vec<&'a TrialRecord>,
}

/// The configurations of some trials, in the plan's order.
pub(super) fn rivals<'a>(trials: &[&'a TrialRecord]) -> Vec<Rival<'a>> {
    let cases: BTreeSet<u32> = trials.iter().map(|trial| trial.case).collect();
    let rival = |case: u32| {
        let own: Vec<&TrialRecord> = trials.iter().copied().filter(|trial| trial.case == case).collect();
        Rival { raced: Raced { case, configuration: own[0].configuration.asked.clone() }, trials: own }
    };
    cases.into_iter().map(rival).collect()
}

/// Returns the levels of all axes, which show what configurations have in common.
pub(super) fn cells(rivals: &[Rival<'_>]) -> Cells {
    let axes: BTreeSet<&str> = rivals
        .iter()
        .flat_map(|one| one.raced.configuration.settings.keys().map(String::as_str))
        .chain([FILESYSTEM])
        .collect();
    let mut known: Vec<(&str, String)> = Vec::new();
    let mut number = |axis, level: String| {
        let found = known.iter().position(|one| (one.0, &one.1) == (axis, &level));
        found.unwrap_or_else(|| {
            known.push((axis, level));
            known.len() - 1
        })
    };
    let mut levels: Vec<Vec<usize>> = Vec::new();
    for one in rivals {
        let configuration = &one.raced.configuration;
        levels.push(axes.iter().map(|axis| number(axis, level(configuration, axis))).collect());
    }
    Cells::new(&levels)
}

/// The configuration that changes the fewest settings.
pub(super) fn default(rivals: &[Rival<'_>]) -> Option<usize> {
    (0..rivals.len()).min_by_key(|cell| changes(&rivals[*cell].raced.configuration))
}

/// The measure that is raced for, with the others that make trade-offs.
pub(super) struct Wanted {
    pub measure: Measure,
    pub others: Vec<Measure>,
}

impl Wanted {
    /// The measure that ranks, with the others that make trade-offs: those that some trial has.
    ///
    /// # Errors
    /// [`RaceError::NoValue`].
    pub fn new(measure: Measure, trials: &[&TrialRecord], load: &Load<'_>) -> Result<Wanted, RaceError> {
        let has_value = |measure: &Measure| trials.iter().any(|trial| measure.value(trial).is_some());
        if !has_value(&measure) {
            return Err(RaceError::NoValue { measure: measure.name().to_string() });
        }
        let goals = Goal::words().filter_map(|(_, goal)| goal.measure(load.workload));
        let mut others: Vec<Measure> = Vec::new();
        for other in goals.chain(Measure::columns_of(trials.iter().copied())) {
            if other != measure && !others.contains(&other) && has_value(&other) {
                others.push(other);
            }
        }
        Ok(Wanted { measure, others })
    }

    /// The logarithm, larger is better; `None` without a value above 0.
    pub fn logarithm(&self, trial: &TrialRecord) -> Option<f64> {
        let value = self.measure.value(trial)?.value;
        (value > 0.0).then(|| oriented(&self.measure, value.ln()))
    }

    /// Of a trial with what it shares with others ([`SharedPairs`]).
    pub fn outcome(
        &self,
        (block, shared): (u32, u32),
        cell: usize,
        trial: &TrialRecord,
        cost: u64,
    ) -> RacedTrial {
        let other = |measure: &Measure| Some(oriented(measure, measure.value(trial)?.value));
        RacedTrial {
            block,
            shared,
            cell,
            value: self.logarithm(trial),
            others: self.others.iter().map(other).collect(),
            cost,
        }
    }

    /// A difference of logarithms as a share: how much more of what is good, or less of what is not.
    pub fn share(&self, difference: f64) -> f64 {
        match self.measure.direction() {
            Direction::HigherIsBetter => difference.exp_m1(),
            Direction::LowerIsBetter => -(-difference).exp_m1(),
        }
    }

    /// By how much the other side of a difference is worse: the inverse of [`Wanted::share`].
    pub fn worse(&self, difference: f64) -> f64 {
        match self.measure.direction() {
            Direction::HigherIsBetter => -(-difference).exp_m1(),
            Direction::LowerIsBetter => difference.exp_m1(),
        }
    }
}

pub(super) fn oriented(measure: &Measure, value: f64) -> f64 {
    match measure.direction() {
        Direction::HigherIsBetter => value,
        Direction::LowerIsBetter => -value,
    }
}
