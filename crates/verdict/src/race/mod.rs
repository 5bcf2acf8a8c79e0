//! Races: what a sweep that drops configurations as evidence grows has found, or would have found.
//!
//! The procedure and its model are those of [`procedure`]; here they meet trials: what configurations have
//! in common ([`rivals`]), what the next block of a running race is ([`live`]), what a race on the trials of
//! an exhaustive sweep would have done ([`replay`](mod@replay)), and what the result means in words and
//! figures.

mod live;
pub mod procedure;
mod replay;
mod rivals;
mod words;

pub use crate::race::procedure::{BudgetError, Round, Schedule};
pub use live::{LiveRace, RaceBlock, answer, history, usable};
pub use replay::replay;

use crate::judgement::{Class, Judgement};
use crate::levels::name_of_kept;
use crate::load::Load;
use crate::race::procedure::{Dropped, NextStep, Race, RaceProgress, RacedTrial, Why};
use crate::ranking::estimate_of;
use fsdyno_core::measure::{Direction, Goal, Value};
use fsdyno_core::{Configuration, Nanos, TrialRecord};
use rivals::{Rival, Wanted};
use serde::Serialize;

/// The race to replay.
#[derive(Debug, Clone, PartialEq)]
pub struct RaceQuestion {
    /// Trials that it may take; if absent, as many as halving needs.
    pub budget: Option<u32>,
    /// The goal of the race; if absent, the plan's measure.
    pub goal: Option<Goal>,
    /// A difference of up to this does not matter: 0.05 for 5 %.
    pub threshold: f64,
    /// Part of the title of the workload; needed if the sweep has several.
    pub workload: Option<String>,
    /// Which trials are drawn.
    pub seed: u64,
}

/// Why a race cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RaceError {
    /// Nothing was measured.
    #[error("the sweep has no measured trials")]
    Nothing,
    /// Configurations of different workloads do not compete.
    #[error("the sweep has several workloads: {}", titles.join("; "))]
    SeveralWorkloads {
        /// Each in one line.
        titles: Vec<String>,
    },
    /// No workload has this in its title.
    #[error("no workload of the sweep has '{wanted}' in its title; it has {}", titles.join("; "))]
    NoSuchWorkload {
        /// As written.
        wanted: String,
        /// Each in one line.
        titles: Vec<String>,
    },
    /// The workload has no such measure.
    #[error("no trial has a value of '{measure}'")]
    NoValue {
        /// Its name.
        measure: String,
    },
    /// It does not fit.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The stored trials do not suffice.
    #[error("configuration '{name}' has no trial left to draw: it has {trials}, and the race needs another")]
    NoTrialLeft {
        /// Its name.
        name: String,
        /// The number of stored trials.
        trials: usize,
    },
    /// Not every configuration was measured once.
    #[error(
        "the race is in its first block: {measured} of {configurations} configurations have run, and none is \
         dropped before all have"
    )]
    FirstBlock {
        /// The number of configurations that have run.
        measured: usize,
        /// The number of all configurations.
        configurations: u32,
    },
    /// All others failed or were skipped.
    #[error("only configuration '{name}' could be measured, so there is nothing to race")]
    OnlyOne {
        /// Its name.
        name: String,
    },
    /// No trial has a value.
    #[error("none of the trials has a value of '{measure}' above 0")]
    NoAnswer {
        /// The name of the measure.
        measure: String,
    },
}

/// The result of a race.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RaceAnswer {
    /// Version of this document.
    pub schema_version: u32,
    /// The sweep whose trials it used.
    pub sweep: String,
    /// Its name.
    pub name: String,
    /// The workload in one line.
    pub workload: String,
    /// The measure that ranks.
    pub measure: String,
    /// Its unit in words: `bytes_per_s`, `ns`.
    pub unit: &'static str,
    /// `true` if more of the measure is better.
    pub higher_is_better: bool,
    /// Differences up to this do not matter.
    pub threshold: f64,
    /// The state of the race.
    pub state: RaceState,
    /// The budget that it may spend, if a sweep ran it within one.
    pub budget: Option<String>,
    /// The next block, if the race is not over.
    pub next: Option<NextBlock>,
    /// The judgement.
    pub judgement: Judgement,
    /// The progress of the race and what it took, in sentences.
    pub sentences: Vec<String>,
    /// Trials that it took, sentinels included.
    pub trials: usize,
    /// The time that these trials took when they were measured; absent if that is unknown.
    pub time_ns: Option<Nanos>,
    /// Trials of the sweep, sentinels included.
    pub sweep_trials: usize,
    /// The time that these trials took.
    pub sweep_time_ns: Option<Nanos>,
    /// The rounds, as planned.
    pub rounds: Vec<PlannedRound>,
    /// The configuration to use.
    pub pick: Raced,
    /// `true` if that is the default because nothing is shown to be worth the change.
    pub default_kept: bool,
    /// The default: the configuration with the fewest settings changed.
    pub default: Raced,
    /// `default`, or `baseline` if it has settings that are not known to be the default.
    pub default_called: &'static str,
    /// With 95 % probability, no configuration is better than the pick by more than this share.
    pub regret_bound: f64,
    /// The same for the default.
    pub default_regret_bound: f64,
    /// The configurations that are at least as likely as not to be within the threshold of the pick, best
    /// first.
    pub as_good: Vec<Raced>,
    /// The first block, from 0, whose figures count as those of the finalists; absent before it is known.
    pub fresh_from: Option<u32>,
    /// Those that were measured again, best first, with their fresh figures only; before that, all that are
    /// left.
    pub finalists: Vec<Finalist>,
    /// The configurations that were dropped, in order.
    pub eliminations: Vec<Elimination>,
    /// The configurations that did not take part, because they weaken what survives a power cut.
    pub not_entered: Vec<Raced>,
    /// The reasons to doubt the bound, one line each. It is widened then, except for trials without a value.
    pub doubts: Vec<String>,
    /// The result of all trials of the sweep.
    pub whole_sweep: Option<WholeSweep>,
}

/// The state of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RaceState {
    /// It was replayed on the trials of another sweep.
    Replayed,
    /// Blocks are missing.
    Unfinished,
    /// Every round is complete.
    Over,
    /// It is over, and some blocks were left out because the budget did not suffice for them.
    OutOfBudget,
}

/// The block that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NextBlock {
    /// Its number, from 1.
    pub block: u32,
    /// The number of planned blocks.
    pub blocks: u32,
    /// The number of configurations in it.
    pub configurations: usize,
    /// `true` if it measures the last few configurations again.
    pub fresh: bool,
}

/// A round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlannedRound {
    /// The number of configurations that take part, without a default that comes in addition.
    pub configurations: usize,
    /// The number of times that each configuration is measured.
    pub blocks: u32,
}

/// A configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Raced {
    /// Index of the case in the sweep.
    pub case: u32,
    /// The configuration.
    #[serde(flatten)]
    pub configuration: Configuration,
}

/// A configuration that was measured again at the end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finalist {
    /// Which one.
    #[serde(flatten)]
    pub raced: Raced,
    /// Fresh trials with a value.
    pub trials: usize,
    /// All of its trials, those that it was selected by included.
    pub all: usize,
    /// The number of all its trials that failed, or have no value above 0.
    pub missing: usize,
    /// The mean of the fresh ones; absent if none has a value.
    pub value: Option<f64>,
    /// Their 95 % interval, or range if there are few.
    pub interval: Option<[f64; 2]>,
}

/// A configuration that was dropped.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Elimination {
    /// Which one.
    #[serde(flatten)]
    pub raced: Raced,
    /// After this round, from 1.
    pub round: usize,
    /// After so many trials, without sentinels.
    pub after_trials: usize,
    /// Its rank in the round, from 1; absent if it had no value.
    pub rank: Option<usize>,
    /// The number of configurations that took part in the round.
    pub of: Option<usize>,
    /// The share by which it was expected to be worse than the best of the round.
    pub behind: Option<f64>,
    /// The reason in words.
    pub why: String,
}

/// The result of all trials of the sweep, by their means.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WholeSweep {
    /// The best of those that took part.
    pub best: Raced,
    /// By how much the pick is worse than that, as a share.
    pub pick_behind: f64,
}

impl RaceAnswer {
    /// Returns whether a trial counts for the figures of its configuration: of those that were measured
    /// again, only the fresh ones do. The sentinel's do not: a race gives all that are left the same number
    /// of trials.
    pub fn counts(&self, trial: &TrialRecord) -> bool {
        let of = |one: &&Finalist| one.raced.case == trial.case && one.trials > 0;
        let is_fresh = || self.fresh_from.is_none_or(|fresh_from| trial.block >= fresh_from);
        !trial.sentinel && (!self.finalists.iter().any(|one| of(&one)) || is_fresh())
    }

    /// Returns whether a configuration is still in the race, or was at its end.
    pub fn is_left(&self, case: u32) -> bool {
        self.finalists.iter().any(|one| one.raced.case == case)
    }

    /// Returns the lines that a sweep reports after this many complete blocks: the dropped configurations,
    /// the bound, and the next block.
    pub fn after_block(&self, blocks: u32) -> Vec<String> {
        words::after_block(self, blocks)
    }

    /// Returns the number of complete blocks.
    pub fn complete_blocks(&self) -> u32 {
        self.next.map_or_else(|| self.blocks(), |next| next.block - 1)
    }

    /// Returns the number of planned blocks, those that are complete included.
    pub fn blocks(&self) -> u32 {
        self.blocks_until(self.rounds.len())
    }

    /// Returns the number of blocks that the first rounds have together.
    pub fn blocks_until(&self, round: usize) -> u32 {
        self.rounds.iter().take(round).map(|round| round.blocks).sum()
    }

    /// Returns a line about the configurations that were dropped after each round: the first few with their
    /// reasons.
    pub fn drops(&self) -> Vec<String> {
        (1..=self.rounds.len()).filter_map(|round| words::dropped_after(self, round)).collect()
    }
}

/// A race and its trials, of which [`RaceAnswer`] is what a reader needs.
struct RacedTrials<'f, 'a> {
    rivals: &'f [Rival<'a>],
    wanted: &'f Wanted,
    race: &'f Race,
    outcomes: &'f [RacedTrial],
    /// The trial of each outcome.
    records: &'f [&'a TrialRecord],
    progress: &'f RaceProgress,
}

impl RacedTrials<'_, '_> {
    /// The answer without its sentences, its sweep and what depends on where the trials come from; and how
    /// probable it is that nothing differs.
    fn answer(&self, load: &Load<'_>, threshold: f64) -> Result<(RaceAnswer, f64), RaceError> {
        let RacedTrials { rivals, wanted, race, outcomes, progress, .. } = self;
        let answer = race.answer(outcomes, &progress.left);
        let answer =
            answer.ok_or_else(|| RaceError::NoAnswer { measure: wanted.measure.name().to_string() })?;
        let raced = |cell: &usize| rivals[*cell].raced.clone();
        let blocks = progress.rounds.iter().map(|round| round.blocks).sum();
        let next = match &progress.step {
            NextStep::Block { number, cells, fresh, .. } => {
                Some(NextBlock { block: number + 1, blocks, configurations: cells.len(), fresh: *fresh })
            }
            NextStep::Over => None,
        };
        let finalists: Vec<Finalist> = progress.left.iter().map(|cell| self.finalist(*cell)).collect();
        let found = RaceAnswer {
            schema_version: 1,
            sweep: String::new(),
            name: String::new(),
            workload: load.title(),
            measure: wanted.measure.name().to_string(),
            unit: wanted.measure.unit().name(),
            higher_is_better: wanted.measure.direction() == Direction::HigherIsBetter,
            threshold,
            state: match (&progress.step, progress.cut) {
                (NextStep::Block { .. }, _) => RaceState::Unfinished,
                (NextStep::Over, false) => RaceState::Over,
                (NextStep::Over, true) => RaceState::OutOfBudget,
            },
            budget: None,
            next,
            judgement: Judgement { class: Class::Undecided, headline: String::new(), next: None },
            sentences: Vec::new(),
            trials: outcomes.len(),
            time_ns: None,
            sweep_trials: outcomes.len(),
            sweep_time_ns: None,
            rounds: progress
                .rounds
                .iter()
                .map(|round| PlannedRound { configurations: round.cells, blocks: round.blocks })
                .collect(),
            pick: raced(&answer.pick),
            default_kept: answer.default_kept,
            default: raced(&race.default),
            default_called: name_of_kept(
                &rivals[race.default].raced.configuration,
                rivals.iter().map(|rival| &rival.raced.configuration),
            ),
            regret_bound: wanted.share(answer.bound),
            default_regret_bound: wanted.share(answer.default_bound),
            as_good: answer.as_good.iter().map(raced).collect(),
            fresh_from: progress.fresh_from,
            doubts: finalists
                .iter()
                .filter_map(words::missing)
                .chain(words::doubts(&answer.doubts))
                .collect(),
            finalists,
            eliminations: progress.dropped.iter().map(|one| elimination(one, rivals, wanted)).collect(),
            not_entered: Vec::new(),
            whole_sweep: None,
        };
        Ok((found, answer.nothing_differs))
    }

    /// One of those that are left, by its fresh trials.
    fn finalist(&self, cell: usize) -> Finalist {
        let fresh_from = self.progress.fresh_from.unwrap_or(u32::MAX);
        let own = || self.outcomes.iter().zip(self.records).filter(|(one, _)| one.cell == cell);
        let fresh = own().filter(|(one, _)| one.block >= fresh_from);
        let values: Vec<Value> = fresh.filter_map(|(_, trial)| self.wanted.measure.value(trial)).collect();
        let estimate = estimate_of(&self.wanted.measure, &values, self.race.seed);
        Finalist {
            raced: self.rivals[cell].raced.clone(),
            trials: values.len(),
            all: own().count(),
            missing: own().filter(|(one, _)| one.value.is_none()).count(),
            value: estimate.map(|estimate| estimate.value),
            interval: estimate.and_then(|estimate| estimate.interval).map(|one| [one.low, one.high]),
        }
    }
}

fn elimination(dropped: &Dropped, rivals: &[Rival<'_>], wanted: &Wanted) -> Elimination {
    let (rank, of, behind) = match dropped.why {
        Why::Rank { rank, of, behind } => (Some(rank), Some(of), Some(wanted.worse(behind))),
        Why::NotMeasured => (None, None, None),
    };
    Elimination {
        raced: rivals[dropped.cell].raced.clone(),
        round: dropped.round + 1,
        after_trials: dropped.trials,
        rank,
        of,
        behind,
        why: words::why(rank, of, behind),
    }
}

#[cfg(test)]
mod tests;
