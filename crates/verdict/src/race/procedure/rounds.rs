//! A race from its trials: which configurations the next block has, what was dropped, and what the answer is.

use super::design::Cells;
use super::posterior::{Logarithm, Posterior};
use super::schedule::{LEAST_FRESH, MOST_BLOCKS, Round, Schedule};
use fsdyno_stats::on_front;

/// The quantile that is taken as the 95 % bound. In simulations whose configurations are not drawn from the
/// model's own prior, its 95 % quantile held in 92 to 98 % of races, this one in 97 % or more.
const QUANTILE: f64 = 0.975;
/// The default is kept, up to the whole threshold, if it is more probable than this that nothing differs.
const SURE_OF_NOTHING: f64 = 0.5;
/// Draws from the posterior: the error of the bound's probability is below 1 %.
const DRAWS: usize = 2000;

/// The definition of a race.
#[derive(Debug, Clone)]
pub struct Race {
    /// The configurations.
    pub cells: Cells,
    /// The one that is never dropped, and that is kept unless another is worth the change.
    pub default: usize,
    /// The rounds.
    pub schedule: Schedule,
    /// The budget; `None` if the schedule alone decides.
    pub budget: Option<Budget>,
    /// Differences up to this do not matter, as a difference of logarithms.
    pub threshold: f64,
    /// Of the draws.
    pub seed: u64,
}

/// The budget of a race: trials, or time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The most that all trials may cost together.
    pub limit: u64,
    /// The block and the cost of each sentinel so far; empty if there are no sentinels.
    pub sentinels: Vec<(u32, u64)>,
    /// The most blocks that there can be; absent if as many as are wanted.
    pub blocks: Option<u32>,
}

/// A trial of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct RacedTrial {
    /// The block of the race, from 0.
    pub block: u32,
    /// The block that the trial shares with others: in a replay, the block of the sweep that it was taken
    /// from.
    pub shared: u32,
    /// The configuration.
    pub cell: usize,
    /// Logarithm of the measure, larger is better; `None` if it has no value.
    pub value: Option<f64>,
    /// Further measures, larger is better.
    pub others: Vec<Option<f64>>,
    /// The cost of the trial, in the unit of the budget.
    pub cost: u64,
}

/// The next step of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// A block is not complete.
    Block {
        /// Its number.
        number: u32,
        /// Its configurations.
        cells: Vec<usize>,
        /// `true` if the block measures the last few configurations again.
        fresh: bool,
        /// The number of blocks of these configurations that may be measured at once, this one included:
        /// those of the round that are expected to be affordable.
        at_once: u32,
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
        /// The number of configurations that took part.
        of: usize,
        /// The distance from the best of the round, as a difference of logarithms.
        behind: f64,
    },
    /// It has no value to rank.
    NotMeasured,
}

/// Where a race is.
#[derive(Debug, Clone, PartialEq)]
pub struct RaceProgress {
    /// The next step.
    pub step: NextStep,
    /// In the order in which it happened.
    pub dropped: Vec<Dropped>,
    /// Those that are left, best first.
    pub left: Vec<usize>,
    /// The first block that measures the last few again, once it is known.
    pub fresh_from: Option<u32>,
    /// The rounds so far and those to come.
    pub rounds: Vec<Round>,
    /// `true` if a block was left out because the budget did not suffice for it.
    pub cut: bool,
}

/// The answer of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Picked {
    /// The pick.
    pub pick: usize,
    /// `true` if the default was kept because nothing is shown to be worth the change.
    pub default_kept: bool,
    /// With 95 % probability, no configuration is better than the pick by more than this, as a difference of
    /// logarithms.
    pub bound: f64,
    /// The same for the default.
    pub default_bound: f64,
    /// The expected advantage of the pick over the default, as a difference of logarithms.
    pub gain: f64,
    /// The configurations that are worse than the pick by more than the threshold with less than even odds,
    /// best first; without the pick.
    pub as_good: Vec<usize>,
    /// The expected logarithm of each configuration; only differences have a meaning.
    pub means: Vec<f64>,
    /// The probability that all configurations are the same, if that and the opposite were equally probable
    /// before the race.
    pub nothing_differs: f64,
    /// The findings of the check of the model.
    pub doubts: super::Doubts,
}

/// A race with the rounds that are complete so far, which later trials do not change.
#[derive(Debug, Clone)]
pub struct RunningRace<'a> {
    race: &'a Race,
    /// As planned, and from the current one on as the budget allows.
    rounds: Vec<Round>,
    /// The round that is not complete.
    round: usize,
    /// Its first block.
    first: u32,
    dropped: Vec<Dropped>,
    left: Vec<usize>,
    cut: bool,
    over: bool,
}

/// The state of the current round.
enum RoundState {
    /// This block is not complete.
    Lacks(u32),
    /// The budget does not suffice for this block.
    TooDear(u32),
    Complete,
}

impl<'a> RunningRace<'a> {
    /// Before the first trial.
    pub fn new(race: &'a Race) -> RunningRace<'a> {
        let left = (0..race.cells.count()).collect();
        let rounds = race.schedule.rounds.clone();
        RunningRace { race, rounds, round: 0, first: 0, dropped: Vec::new(), left, cut: false, over: false }
    }

    /// Where the race is after these trials, which include the earlier ones; in any order.
    pub fn after(&mut self, outcomes: &[RacedTrial]) -> RaceProgress {
        while !self.over {
            let end = match self.look(outcomes) {
                RoundState::Lacks(number) => {
                    let mut cells = self.left.clone();
                    cells.sort_unstable();
                    let at_once = self.at_once(number, outcomes);
                    return self.progress(NextStep::Block { number, cells, fresh: self.is_last(), at_once });
                }
                RoundState::TooDear(number) => {
                    self.cut_before(number);
                    number
                }
                RoundState::Complete => self.first + self.rounds[self.round].blocks,
            };
            let so_far: Vec<&RacedTrial> = outcomes.iter().filter(|one| one.block < end).collect();
            self.end_round(&so_far, end);
            if !self.over {
                (self.round, self.first) = (self.round + 1, end);
            }
        }
        self.progress(NextStep::Over)
    }

    /// Returns the state of the current round. Whether a block is affordable depends on the blocks before it
    /// alone, so that an interrupted race comes to the same end.
    fn look(&self, outcomes: &[RacedTrial]) -> RoundState {
        let blocks = self.first..self.first + self.rounds[self.round].blocks;
        for number in blocks {
            let done = |cell: &usize| outcomes.iter().any(|one| (one.block, one.cell) == (number, *cell));
            // Of blocks that were measured at once, a later one is paid for, whatever the first has cost.
            if self.left.iter().all(done) {
                continue;
            }
            return match self.affords(1, number, outcomes) {
                true => RoundState::Lacks(number),
                false => RoundState::TooDear(number),
            };
        }
        RoundState::Complete
    }

    /// Before a round's costs are known, its blocks are expected to cost what their configurations have cost
    /// so far. The first block of all says what anything costs.
    fn at_once(&self, number: u32, outcomes: &[RacedTrial]) -> u32 {
        if number == 0 {
            return 1;
        }
        let rest = self.first + self.rounds[self.round].blocks - number;
        (2..=rest).take_while(|count| self.affords(*count, number, outcomes)).last().unwrap_or(1)
    }

    fn is_last(&self) -> bool {
        self.round + 1 == self.rounds.len()
    }

    fn progress(&self, step: NextStep) -> RaceProgress {
        RaceProgress {
            step,
            dropped: self.dropped.clone(),
            left: self.left.clone(),
            fresh_from: self.is_last().then_some(self.first),
            rounds: self.rounds.clone(),
            cut: self.cut,
        }
    }

    /// Returns whether the budget suffices for so many blocks from this one on, and before the last round
    /// also for the minimum of that round. Without the first block there is nothing to go by.
    fn affords(&self, count: u32, number: u32, outcomes: &[RacedTrial]) -> bool {
        let Some(budget) = self.race.budget.as_ref().filter(|_| number > 0) else { return true };
        let before: Vec<&RacedTrial> = outcomes.iter().filter(|one| one.block < number).collect();
        let cost = |cells: &[usize]| self.race.cost_of_block(budget, cells, &before, number);
        let mut needed = cost(&self.left).saturating_mul(count.into());
        if let (false, Some(last)) = (self.is_last(), self.rounds.last()) {
            let best = self.left.iter().copied().take(last.cells);
            let mut cells: Vec<usize> = best.chain([self.race.default]).collect();
            cells.dedup();
            needed = needed.saturating_add(cost(&cells).saturating_mul(LEAST_FRESH.into()));
        }
        budget.spent(&before, number).saturating_add(needed) <= budget.limit
    }

    /// Leaves out this block and what would follow it, except for the last round: that one costs less.
    fn cut_before(&mut self, number: u32) {
        self.cut = true;
        self.rounds[self.round].blocks = number - self.first;
        let last = self.rounds.len() - 1;
        if self.round < last {
            self.rounds.drain(self.round + 1..last);
        }
    }

    /// Drops those that do not go on. `end` is the block after the round.
    fn end_round(&mut self, so_far: &[&RacedTrial], end: u32) {
        let ranked = self.race.ranked(&self.left, so_far);
        if self.is_last() {
            self.left = ranked.iter().map(|(cell, _)| *cell).collect();
            self.over = true;
            return;
        }
        let is_before_last = self.round + 2 == self.rounds.len();
        let all_measures = is_before_last.then_some(so_far);
        let best = self.rounds[self.round + 1].cells;
        let mut kept = self.race.kept(&ranked, best, all_measures);
        if let (true, Some(budget)) = (is_before_last, &self.race.budget) {
            self.rounds[self.round + 1].blocks = self.race.last_blocks(budget, &mut kept, best, so_far, end);
        }
        let top = ranked.first().and_then(|(_, value)| *value).unwrap_or_default();
        for (rank, (cell, value)) in ranked.iter().enumerate().filter(|(_, (cell, _))| !kept.contains(cell)) {
            let why = match value {
                None => Why::NotMeasured,
                Some(value) => Why::Rank { rank: rank + 1, of: ranked.len(), behind: top - value },
            };
            self.dropped.push(Dropped { cell: *cell, round: self.round, trials: so_far.len(), why });
        }
        self.left = kept;
    }
}

impl Budget {
    /// Returns the cost of the trials of the blocks before this one.
    fn spent(&self, before: &[&RacedTrial], number: u32) -> u64 {
        let sentinels = self.sentinels.iter().filter(|(block, _)| *block < number).map(|(_, cost)| *cost);
        before.iter().map(|one| one.cost).chain(sentinels).fold(0, u64::saturating_add)
    }
}

impl Race {
    /// Where the race is after these trials, in any order.
    pub fn progress(&self, outcomes: &[RacedTrial]) -> RaceProgress {
        RunningRace::new(self).after(outcomes)
    }

    /// Returns the expected cost of another block of these configurations: the mean of their trials so far.
    fn cost_of_block(&self, budget: &Budget, cells: &[usize], before: &[&RacedTrial], number: u32) -> u64 {
        let sentinels = budget.sentinels.iter().filter(|(block, _)| *block < number).map(|(_, cost)| *cost);
        let of = |cell: usize| mean(before.iter().filter(|one| one.cell == cell).map(|one| one.cost));
        cells.iter().map(|cell| of(*cell)).chain([mean(sentinels)]).fold(0, u64::saturating_add)
    }

    /// Returns the number of blocks of the last round: as many as the rest of the budget allows. If it does
    /// not allow the minimum, the configurations that are kept for another measure give way, the worst first.
    fn last_blocks(
        &self,
        budget: &Budget,
        kept: &mut Vec<usize>,
        best: usize,
        so_far: &[&RacedTrial],
        end: u32,
    ) -> u32 {
        let rest = budget.limit.saturating_sub(budget.spent(so_far, end));
        let most = budget.blocks.map_or(MOST_BLOCKS, |blocks| blocks.saturating_sub(end).min(MOST_BLOCKS));
        loop {
            let block = self.cost_of_block(budget, kept, so_far, end);
            let blocks = u32::try_from(rest / block.max(1)).unwrap_or(u32::MAX);
            let extra = (best..kept.len()).rev().find(|index| kept[*index] != self.default);
            match extra {
                Some(index) if blocks < LEAST_FRESH => drop(kept.remove(index)),
                _ => return blocks.clamp(LEAST_FRESH, most.max(LEAST_FRESH)),
            }
        }
    }

    /// Configurations with their expected logarithms, best first; those without a value last.
    fn ranked(&self, cells: &[usize], outcomes: &[&RacedTrial]) -> Vec<(usize, Option<f64>)> {
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
        all_measures: Option<&[&RacedTrial]>,
    ) -> Vec<usize> {
        let front = all_measures.map(|outcomes| front(ranked, outcomes)).unwrap_or_default();
        let goes_on = |(rank, (cell, value)): &(usize, &(usize, Option<f64>))| {
            let among = *rank < best || front.contains(cell);
            *cell == self.default || (value.is_some() && among)
        };
        ranked.iter().enumerate().filter(goes_on).map(|(_, (cell, _))| *cell).collect()
    }

    fn posterior<'o>(&self, outcomes: impl IntoIterator<Item = &'o RacedTrial>) -> Option<Posterior> {
        let trial =
            |one: &RacedTrial| Some(Logarithm { cell: one.cell, block: one.shared, value: one.value? });
        let trials: Vec<Logarithm> = outcomes.into_iter().filter_map(trial).collect();
        Posterior::new(&self.cells, &trials)
    }

    /// The answer after these trials, at any moment, given those that are left; `None` while there are too
    /// few for any.
    ///
    /// The pick is the one of those left that is expected to be best; one with a trial without a value, which
    /// may have been its worst, only if all of them have such a trial. If the default is expected to be worse
    /// by no more than half of the threshold, it is kept: a setting has to earn its place.
    pub fn answer(&self, outcomes: &[RacedTrial], left: &[usize]) -> Option<Picked> {
        let posterior = self.posterior(outcomes)?;
        let draws = posterior.draws(DRAWS, self.seed);
        let means = posterior.means().to_vec();
        let has_value = |cell: &usize| posterior.trials_of(*cell) > 0;
        let by_mean = |a: &usize, b: &usize| means[*a].total_cmp(&means[*b]).then(b.cmp(a));
        let is_complete = |cell: &usize| outcomes.iter().all(|one| one.cell != *cell || one.value.is_some());
        let none_is = !left.iter().filter(|cell| has_value(cell)).any(is_complete);
        let may_win = |cell: &usize| has_value(cell) && (none_is || is_complete(cell));
        let best = left.iter().copied().filter(may_win).max_by(by_mean)?;
        let nothing_differs = posterior.nothing_differs();
        let gain = means[best] - means[self.default];
        let default_kept = best != self.default
            && may_win(&self.default)
            && (gain <= self.threshold / 2.0
                || (gain <= self.threshold && nothing_differs > SURE_OF_NOTHING));
        let pick = if default_kept { self.default } else { best };
        let mut as_good: Vec<usize> = (0..means.len())
            .filter(|cell| *cell != pick && may_win(cell))
            .filter(|cell| draws.probability_within(*cell, pick, self.threshold) > 0.5)
            .collect();
        as_good.sort_by(|a, b| by_mean(b, a));
        Some(Picked {
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

/// Rounded down; 0 of nothing.
fn mean(costs: impl Iterator<Item = u64>) -> u64 {
    let (sum, count) = costs.fold((0_u64, 0), |(sum, count), cost| (sum.saturating_add(cost), count + 1));
    sum / count.max(1)
}

/// Those that no other one beats in all measures, by means over the trials so far. Which measures a
/// configuration lacks does not count for it.
fn front(ranked: &[(usize, Option<f64>)], outcomes: &[&RacedTrial]) -> Vec<usize> {
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
    let (cells, points): (Vec<usize>, Vec<Vec<f64>>) = ranked.iter().filter_map(merits).unzip();
    match measures {
        0 => Vec::new(),
        _ => cells.into_iter().zip(on_front(&points)).filter(|(_, is)| *is).map(|(cell, _)| cell).collect(),
    }
}

#[cfg(test)]
mod tests;
