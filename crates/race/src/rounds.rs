//! A race from its trials: which configurations the next block has, what was dropped, and what the answer is.

use crate::design::Cells;
use crate::posterior::{Logarithm, Posterior};
use crate::schedule::Schedule;
use std::cmp::Ordering;

/// The quantile that is taken as the 95 % bound. In simulations whose configurations are not drawn from the
/// model's own prior, its 95 % quantile held in 92 to 98 % of races, this one in 97 % or more.
const QUANTILE: f64 = 0.975;
/// The default is kept, up to the whole threshold, if it is more probable than this that nothing differs.
const SURE_OF_NOTHING: f64 = 0.5;
/// Draws from the posterior: the error of the bound's probability is below 1 %.
const DRAWS: usize = 2000;

/// What a race is about.
#[derive(Debug, Clone)]
pub struct Race {
    /// The configurations.
    pub cells: Cells,
    /// The one that is never dropped, and that is kept unless another is worth the change.
    pub default: usize,
    /// The rounds.
    pub schedule: Schedule,
    /// Differences up to this do not matter, as a difference of logarithms.
    pub threshold: f64,
    /// Of the draws.
    pub seed: u64,
}

/// A trial of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The block of the race, from 0.
    pub block: u32,
    /// What the trial shares with others: in a replay, the block of the sweep that it was taken from.
    pub shared: u32,
    /// The configuration.
    pub cell: usize,
    /// Logarithm of the measure, larger is better; `None` if it has no value.
    pub value: Option<f64>,
    /// Further measures, larger is better.
    pub others: Vec<Option<f64>>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A block is not complete.
    Block {
        /// Its number.
        number: u32,
        /// Its configurations.
        cells: Vec<usize>,
        /// Whether it measures the last few again.
        fresh: bool,
    },
    /// Every round is complete.
    Over,
}

/// A configuration that was dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropped {
    /// Which one.
    pub cell: usize,
    /// After this round, from 0.
    pub round: usize,
    /// After so many trials of the race.
    pub trials: usize,
    /// Why.
    pub why: Why,
}

/// Why a configuration was dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// Others were better.
    Rank {
        /// Its rank in the round, from 1.
        rank: usize,
        /// How many took part.
        of: usize,
        /// How far it was behind the best of the round, as a difference of logarithms.
        behind: f64,
    },
    /// It has no value to rank.
    NotMeasured,
}

/// Where a race is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What comes next.
    pub step: Step,
    /// In the order in which it happened.
    pub dropped: Vec<Dropped>,
    /// Those that are left, best first.
    pub left: Vec<usize>,
    /// The first block that measures the last few again, once it is known.
    pub fresh_from: Option<u32>,
}

/// What a race says.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The pick.
    pub pick: usize,
    /// Whether the default was kept because nothing is shown to be worth the change.
    pub default_kept: bool,
    /// With 95 % probability, no configuration is better than the pick by more than this, as a difference of
    /// logarithms.
    pub bound: f64,
    /// The same for the default.
    pub default_bound: f64,
    /// How much better than the default the pick is expected to be, as a difference of logarithms.
    pub gain: f64,
    /// The configurations that are worse than the pick by more than the threshold with less than even odds,
    /// best first; without the pick.
    pub as_good: Vec<usize>,
    /// The expected logarithm of each configuration; only differences have a meaning.
    pub means: Vec<f64>,
    /// How probable it is that all configurations are the same, if that and the opposite were equally
    /// probable before the race.
    pub nothing_differs: f64,
    /// What the check of the model found.
    pub doubts: crate::Doubts,
}

/// A race with the rounds that are complete so far, which later trials do not change.
#[derive(Debug, Clone)]
pub struct Running<'a> {
    race: &'a Race,
    /// The round that is not complete.
    round: usize,
    /// Its first block.
    first: u32,
    dropped: Vec<Dropped>,
    left: Vec<usize>,
    over: bool,
}

impl<'a> Running<'a> {
    /// Before the first trial.
    pub fn new(race: &'a Race) -> Running<'a> {
        let left = (0..race.cells.count()).collect();
        Running { race, round: 0, first: 0, dropped: Vec::new(), left, over: false }
    }

    /// Where the race is after these trials, which include the earlier ones; in any order.
    pub fn after(&mut self, outcomes: &[Outcome]) -> Progress {
        while !self.over {
            let blocks = self.first..self.first + self.race.schedule.rounds[self.round].blocks;
            let lacks = |block: &u32| {
                let done = |cell: &usize| outcomes.iter().any(|one| (one.block, one.cell) == (*block, *cell));
                !self.left.iter().all(done)
            };
            if let Some(number) = blocks.clone().find(lacks) {
                let mut cells = self.left.clone();
                cells.sort_unstable();
                return self.progress(Step::Block { number, cells, fresh: self.is_last() });
            }
            let so_far: Vec<&Outcome> = outcomes.iter().filter(|one| one.block < blocks.end).collect();
            self.end_round(&so_far);
            if !self.over {
                (self.round, self.first) = (self.round + 1, blocks.end);
            }
        }
        self.progress(Step::Over)
    }

    fn is_last(&self) -> bool {
        self.round + 1 == self.race.schedule.rounds.len()
    }

    fn progress(&self, step: Step) -> Progress {
        let fresh_from = self.is_last().then_some(self.first);
        Progress { step, dropped: self.dropped.clone(), left: self.left.clone(), fresh_from }
    }

    /// Drops those that do not go on.
    fn end_round(&mut self, so_far: &[&Outcome]) {
        let ranked = self.race.ranked(&self.left, so_far);
        if self.is_last() {
            self.left = ranked.iter().map(|(cell, _)| *cell).collect();
            self.over = true;
            return;
        }
        let rounds = &self.race.schedule.rounds;
        let all_measures = (self.round + 2 == rounds.len()).then_some(so_far);
        let kept = self.race.kept(&ranked, rounds[self.round + 1].cells, all_measures);
        let best = ranked.first().and_then(|(_, value)| *value).unwrap_or_default();
        for (rank, (cell, value)) in ranked.iter().enumerate().filter(|(_, (cell, _))| !kept.contains(cell)) {
            let why = match value {
                None => Why::NotMeasured,
                Some(value) => Why::Rank { rank: rank + 1, of: ranked.len(), behind: best - value },
            };
            self.dropped.push(Dropped { cell: *cell, round: self.round, trials: so_far.len(), why });
        }
        self.left = kept;
    }
}

impl Race {
    /// Where the race is after these trials, in any order.
    pub fn progress(&self, outcomes: &[Outcome]) -> Progress {
        Running::new(self).after(outcomes)
    }

    /// Configurations with their expected logarithms, best first; those without a value last.
    fn ranked(&self, cells: &[usize], outcomes: &[&Outcome]) -> Vec<(usize, Option<f64>)> {
        let posterior = self.posterior(outcomes.iter().copied());
        let value = |cell: usize| {
            let known = outcomes.iter().any(|one| one.cell == cell && one.value.is_some());
            let mean = posterior.as_ref().map_or(0.0, |posterior| posterior.means()[cell]);
            known.then_some(mean)
        };
        let mut ranked: Vec<(usize, Option<f64>)> = cells.iter().map(|cell| (*cell, value(*cell))).collect();
        ranked.sort_by(|(a, one), (b, other)| match (one, other) {
            (Some(one), Some(other)) => other.total_cmp(one).then(a.cmp(b)),
            (one, other) => other.is_some().cmp(&one.is_some()).then(a.cmp(b)),
        });
        ranked
    }

    /// Which configurations go on: the best, the default and, before the last round, those that no other one
    /// beats in all measures.
    fn kept(
        &self,
        ranked: &[(usize, Option<f64>)],
        best: usize,
        all_measures: Option<&[&Outcome]>,
    ) -> Vec<usize> {
        let front = all_measures.map(|outcomes| front(ranked, outcomes)).unwrap_or_default();
        let goes_on = |(rank, (cell, value)): &(usize, &(usize, Option<f64>))| {
            let among = *rank < best || front.contains(cell);
            *cell == self.default || (value.is_some() && among)
        };
        ranked.iter().enumerate().filter(goes_on).map(|(_, (cell, _))| *cell).collect()
    }

    fn posterior<'o>(&self, outcomes: impl IntoIterator<Item = &'o Outcome>) -> Option<Posterior> {
        let trial = |one: &Outcome| Some(Logarithm { cell: one.cell, block: one.shared, value: one.value? });
        let trials: Vec<Logarithm> = outcomes.into_iter().filter_map(trial).collect();
        Posterior::new(&self.cells, &trials)
    }

    /// The answer after these trials, at any moment, given those that are left; `None` while there are too
    /// few for any.
    ///
    /// The pick is the one of those left that is expected to be best. If the default is expected to be worse
    /// by no more than half of the threshold, it is kept: a setting has to earn its place.
    pub fn answer(&self, outcomes: &[Outcome], left: &[usize]) -> Option<Answer> {
        let posterior = self.posterior(outcomes)?;
        let draws = posterior.draws(DRAWS, self.seed);
        let means = posterior.means().to_vec();
        let has_value = |cell: &usize| posterior.trials_of(*cell) > 0;
        let by_mean = |a: &usize, b: &usize| means[*a].total_cmp(&means[*b]).then(b.cmp(a));
        let best = left.iter().copied().filter(has_value).max_by(by_mean)?;
        let nothing_differs = posterior.nothing_differs();
        let gain = means[best] - means[self.default];
        let default_kept = best != self.default
            && has_value(&self.default)
            && (gain <= self.threshold / 2.0
                || (gain <= self.threshold && nothing_differs > SURE_OF_NOTHING));
        let pick = if default_kept { self.default } else { best };
        let mut as_good: Vec<usize> = (0..means.len())
            .filter(|cell| *cell != pick && has_value(cell))
            .filter(|cell| draws.probability_within(*cell, pick, self.threshold) > 0.5)
            .collect();
        as_good.sort_by(|a, b| by_mean(b, a));
        Some(Answer {
            pick,
            default_kept,
            bound: draws.bound(pick, QUANTILE),
            default_bound: draws.bound(self.default, QUANTILE),
            gain: if default_kept { 0.0 } else { gain },
            as_good,
            means,
            nothing_differs,
            doubts: draws.doubts(),
        })
    }
}

/// Those that no other one beats in all measures, by means over the trials so far. Which measures a
/// configuration lacks does not count for it.
fn front(ranked: &[(usize, Option<f64>)], outcomes: &[&Outcome]) -> Vec<usize> {
    let measures = outcomes.iter().map(|one| one.others.len()).max().unwrap_or(0);
    let mean = |cell: usize, measure: usize| {
        let own = outcomes.iter().filter(|one| one.cell == cell);
        let values: Vec<f64> = own.filter_map(|one| one.others.get(measure).copied().flatten()).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let merits = |(cell, value): &(usize, Option<f64>)| {
        let others = (0..measures).map(|measure| mean(*cell, measure).unwrap_or(f64::NEG_INFINITY));
        Some((*cell, [(*value)?].into_iter().chain(others).collect::<Vec<f64>>()))
    };
    let points: Vec<(usize, Vec<f64>)> = ranked.iter().filter_map(merits).collect();
    let beats = |one: &[f64], other: &[f64]| {
        let order = |(a, b): (&f64, &f64)| a.total_cmp(b);
        let orders: Vec<Ordering> = one.iter().zip(other).map(order).collect();
        orders.iter().all(|order| order.is_ge()) && orders.iter().any(|order| order.is_gt())
    };
    if measures == 0 {
        return Vec::new();
    }
    let on_front = |own: &[f64]| !points.iter().any(|(_, other)| beats(other, own));
    points.iter().filter(|(_, own)| on_front(own)).map(|(cell, _)| *cell).collect()
}

#[cfg(test)]
mod tests;
