//! A race on the stored trials of a sweep: what it would have cost, and what it would have picked.
//!
//! Each block of the race draws one stored trial of each configuration that is left, none twice, from the
//! blocks of the sweep in random order. So the figures are real, and only their choice is replayed. The
//! procedure and its model are those of [`fsdyno_race`]; this file says what configurations have in common,
//! which ones may win, and what the result means in words and figures.
//!
//! A configuration that weakens what survives a power cut does not take part if a durable one does: it could
//! not win.

mod words;

pub use fsdyno_race::BudgetError;

use crate::durability::Safety;
use crate::load::{Load, loads};
use crate::ranking::estimate_of;
use crate::recommendation::{changes, level};
use fsdyno_core::measure::{Direction, Goal, Measure, Value};
use fsdyno_core::{Configuration, Nanos, SweepHeader, TrialRecord};
use fsdyno_race::{Cells, Dropped, Outcome, Progress, Race, Running, Schedule, Step, Why};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::collections::BTreeSet;

/// What to replay.
#[derive(Debug, Clone, PartialEq)]
pub struct RaceQuestion {
    /// Trials that it may take; if absent, as many as halving needs.
    pub budget: Option<u32>,
    /// What to race for; if absent, the plan's measure.
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
        /// How many are stored.
        trials: usize,
    },
    /// No trial that was drawn has a value.
    #[error("none of the trials that were drawn has a value of '{measure}' above 0")]
    NoAnswer {
        /// The name of the measure.
        measure: String,
    },
}

/// What a race found.
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
    /// Whether more of it is better.
    pub higher_is_better: bool,
    /// Differences up to this do not matter.
    pub threshold: f64,
    /// The answer in sentences.
    pub sentences: Vec<String>,
    /// Trials that it took, sentinels included.
    pub trials: usize,
    /// How long they took when they were measured; absent if that is unknown.
    pub time_ns: Option<Nanos>,
    /// Trials of the sweep, sentinels included.
    pub sweep_trials: usize,
    /// How long they took.
    pub sweep_time_ns: Option<Nanos>,
    /// The rounds, as planned.
    pub rounds: Vec<PlannedRound>,
    /// What to use.
    pub pick: Raced,
    /// Whether that is the default because nothing is shown to be worth the change.
    pub default_kept: bool,
    /// The default: the configuration with the fewest settings changed.
    pub default: Raced,
    /// With 95 % probability, no configuration is better than the pick by more than this share.
    pub regret_bound: f64,
    /// The same for the default.
    pub default_regret_bound: f64,
    /// The configurations that are at least as likely as not to be within the threshold of the pick, best
    /// first.
    pub as_good: Vec<Raced>,
    /// Those that were measured again, best first, with their fresh figures only.
    pub finalists: Vec<Finalist>,
    /// What was dropped, in order.
    pub eliminations: Vec<Elimination>,
    /// What did not take part, because it weakens what survives a power cut.
    pub not_entered: Vec<Raced>,
    /// What makes the bound doubtful, one line each; it is widened then.
    pub doubts: Vec<String>,
    /// What all trials of the sweep say.
    pub whole_sweep: Option<WholeSweep>,
}

/// A round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlannedRound {
    /// How many configurations take part, without a default that comes in addition.
    pub configurations: usize,
    /// How often each is measured.
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
    /// Fresh trials.
    pub trials: usize,
    /// Their mean; absent if none has a value.
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
    /// How many took part in the round.
    pub of: Option<usize>,
    /// How much worse than the best of the round it was expected to be, as a share.
    pub behind: Option<f64>,
    /// The reason in words.
    pub why: String,
}

/// What all trials of the sweep say, by their means.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WholeSweep {
    /// The best of those that took part.
    pub best: Raced,
    /// By how much the pick is worse than that, as a share.
    pub pick_behind: f64,
}

/// A configuration with its stored trials.
struct Rival<'a> {
    raced: Raced,
    trials: Vec<&'a TrialRecord>,
}

/// What is raced for.
struct Wanted {
    measure: Measure,
    others: Vec<Measure>,
}

impl Wanted {
    /// The logarithm, larger is better; `None` without a value above 0.
    fn logarithm(&self, trial: &TrialRecord) -> Option<f64> {
        let value = self.measure.value(trial)?.value;
        (value > 0.0).then(|| oriented(&self.measure, value.ln()))
    }

    fn outcome(&self, block: u32, cell: usize, trial: &TrialRecord) -> Outcome {
        let other = |measure: &Measure| Some(oriented(measure, measure.value(trial)?.value));
        Outcome {
            block,
            shared: trial.block,
            cell,
            value: self.logarithm(trial),
            others: self.others.iter().map(other).collect(),
        }
    }

    /// A difference of logarithms as a share: how much more of what is good, or less of what is not.
    fn share(&self, difference: f64) -> f64 {
        match self.measure.direction() {
            Direction::HigherIsBetter => difference.exp_m1(),
            Direction::LowerIsBetter => -(-difference).exp_m1(),
        }
    }

    /// By how much the other side of a difference is worse: the inverse of [`Wanted::share`].
    fn worse(&self, difference: f64) -> f64 {
        match self.measure.direction() {
            Direction::HigherIsBetter => -(-difference).exp_m1(),
            Direction::LowerIsBetter => difference.exp_m1(),
        }
    }
}

fn oriented(measure: &Measure, value: f64) -> f64 {
    match measure.direction() {
        Direction::HigherIsBetter => value,
        Direction::LowerIsBetter => -value,
    }
}

/// Replays a race on the trials of a sweep.
///
/// # Errors
/// [`RaceError`].
pub fn replay(
    header: &SweepHeader,
    trials: &[TrialRecord],
    question: &RaceQuestion,
) -> Result<RaceAnswer, RaceError> {
    let load = the_load(trials, question)?;
    let own: Vec<&TrialRecord> = trials.iter().filter(|trial| load.has(trial) && !trial.sentinel).collect();
    let wanted = wanted(header, &own, &load, question)?;
    let (rivals, not_entered) = rivals(&own, &Safety::new(trials));
    let sentinel = trials.iter().any(|trial| trial.sentinel);
    let race = race(&rivals, question, sentinel)?;
    let (outcomes, drawn, progress) = run(&race, &rivals, &wanted, question.seed)?;
    let answer = race.answer(&outcomes, &progress.left);
    let answer = answer.ok_or_else(|| RaceError::NoAnswer { measure: wanted.measure.name().to_string() })?;

    let raced = |cell: &usize| rivals[*cell].raced.clone();
    let fresh_from = progress.fresh_from.unwrap_or(0);
    let finalist = |cell: &usize| {
        let fresh =
            outcomes.iter().zip(&drawn).filter(|(one, _)| one.block >= fresh_from && one.cell == *cell);
        let values: Vec<Value> = fresh.filter_map(|(_, trial)| wanted.measure.value(trial)).collect();
        let estimate = estimate_of(&values, question.seed);
        Finalist {
            raced: raced(cell),
            trials: values.len(),
            value: estimate.map(|estimate| estimate.value),
            interval: estimate.and_then(|estimate| estimate.interval).map(|one| [one.low, one.high]),
        }
    };
    let blocks = outcomes.iter().map(|one| one.block).collect::<BTreeSet<u32>>().len();
    let mut found = RaceAnswer {
        schema_version: 1,
        sweep: header.id.clone(),
        name: header.name.clone(),
        workload: load.title(),
        measure: wanted.measure.name().to_string(),
        unit: wanted.measure.unit().name(),
        higher_is_better: wanted.measure.direction() == Direction::HigherIsBetter,
        threshold: question.threshold,
        sentences: Vec::new(),
        trials: outcomes.len() + if sentinel { blocks } else { 0 },
        time_ns: time(drawn.iter().copied()),
        sweep_trials: trials.iter().filter(|trial| load.has(trial)).count(),
        sweep_time_ns: time(own.iter().copied()),
        rounds: race
            .schedule
            .rounds
            .iter()
            .map(|round| PlannedRound { configurations: round.cells, blocks: round.blocks })
            .collect(),
        pick: raced(&answer.pick),
        default_kept: answer.default_kept,
        default: raced(&race.default),
        regret_bound: wanted.share(answer.bound),
        default_regret_bound: wanted.share(answer.default_bound),
        as_good: answer.as_good.iter().map(raced).collect(),
        finalists: progress.left.iter().map(finalist).collect(),
        eliminations: progress.dropped.iter().map(|one| elimination(one, &rivals, &wanted)).collect(),
        not_entered,
        doubts: words::doubts(&answer.doubts),
        whole_sweep: whole_sweep(&rivals, &wanted, answer.pick),
    };
    found.sentences = words::sentences(&found, &wanted.measure, answer.nothing_differs);
    Ok(found)
}

/// The only load, or the one that is wanted.
fn the_load<'a>(trials: &'a [TrialRecord], question: &RaceQuestion) -> Result<Load<'a>, RaceError> {
    let loads = loads(trials);
    let titles = || loads.iter().map(Load::title).collect::<Vec<String>>();
    match &question.workload {
        None if loads.len() > 1 => Err(RaceError::SeveralWorkloads { titles: titles() }),
        None => loads.into_iter().next().ok_or(RaceError::Nothing),
        Some(wanted) => {
            let found = loads.iter().find(|load| load.title().contains(wanted.as_str())).cloned();
            found.ok_or_else(|| RaceError::NoSuchWorkload { wanted: wanted.clone(), titles: titles() })
        }
    }
}

/// The measure that ranks, and the others that make trade-offs.
fn wanted(
    header: &SweepHeader,
    trials: &[&TrialRecord],
    load: &Load<'_>,
    question: &RaceQuestion,
) -> Result<Wanted, RaceError> {
    let has_value = |measure: &Measure| trials.iter().any(|trial| measure.value(trial).is_some());
    let measure = match &question.goal {
        None => header.measure.deciding(load.workload, trials.iter().copied()),
        Some(goal) => {
            goal.measure(load.workload).ok_or_else(|| RaceError::NoValue { measure: goal.to_string() })?
        }
    };
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

/// The configurations that take part, and those that do not.
fn rivals<'a>(trials: &[&'a TrialRecord], safety: &Safety) -> (Vec<Rival<'a>>, Vec<Raced>) {
    let cases: BTreeSet<u32> = trials.iter().map(|trial| trial.case).collect();
    let rival = |case: u32| {
        let own: Vec<&TrialRecord> = trials.iter().copied().filter(|trial| trial.case == case).collect();
        Rival { raced: Raced { case, configuration: own[0].configuration.clone() }, trials: own }
    };
    let all: Vec<Rival<'_>> = cases.into_iter().map(rival).collect();
    let is_durable = |one: &Rival<'_>| safety.judge(&one.trials).risks.is_empty();
    let (durable, weak): (Vec<_>, Vec<_>) = all.into_iter().partition(is_durable);
    if durable.is_empty() {
        return (weak, Vec::new());
    }
    (durable, weak.into_iter().map(|one| one.raced).collect())
}

fn race(rivals: &[Rival<'_>], question: &RaceQuestion, sentinel: bool) -> Result<Race, RaceError> {
    let axes: BTreeSet<&str> = rivals
        .iter()
        .flat_map(|one| one.raced.configuration.settings.keys().map(String::as_str))
        .chain(["filesystem"])
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
    let default = (0..rivals.len()).min_by_key(|cell| changes(&rivals[*cell].raced.configuration));
    let stored = rivals.iter().map(|one| one.trials.len()).max().unwrap_or(0);
    let blocks = u32::try_from(stored).unwrap_or(u32::MAX);
    Ok(Race {
        cells: Cells::new(&levels),
        default: default.ok_or(RaceError::Nothing)?,
        schedule: Schedule::new(rivals.len(), question.budget, Some(blocks), sentinel)?,
        threshold: question.threshold.ln_1p(),
        seed: question.seed,
    })
}

/// Draws trials until the race is over.
fn run<'a>(
    race: &Race,
    rivals: &[Rival<'a>],
    wanted: &Wanted,
    seed: u64,
) -> Result<(Vec<Outcome>, Vec<&'a TrialRecord>, Progress), RaceError> {
    let mut blocks: Vec<u32> =
        rivals.iter().flat_map(|one| one.trials.iter().map(|trial| trial.block)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let mut left: Vec<Vec<&TrialRecord>> = rivals.iter().map(|one| one.trials.clone()).collect();
    let (mut outcomes, mut drawn) = (Vec::new(), Vec::new());
    let mut running = Running::new(race);
    loop {
        let progress = running.after(&outcomes);
        let Step::Block { number, cells, .. } = progress.step else { return Ok((outcomes, drawn, progress)) };
        for cell in cells {
            let own = &mut left[cell];
            // A configuration may lack the block that all others have.
            let order = |trial: &&TrialRecord| {
                let at = blocks.iter().position(|block| *block == trial.block).unwrap_or(usize::MAX);
                let this = blocks.get(number as usize) == Some(&trial.block);
                (!this, at)
            };
            let next = (0..own.len()).min_by_key(|index| order(&own[*index]));
            let next = next.ok_or_else(|| RaceError::NoTrialLeft {
                name: rivals[cell].raced.configuration.name.clone(),
                trials: rivals[cell].trials.len(),
            })?;
            let trial = own.remove(next);
            outcomes.push(wanted.outcome(number, cell, trial));
            drawn.push(trial);
        }
    }
}

fn time<'a>(trials: impl Iterator<Item = &'a TrialRecord>) -> Option<Nanos> {
    let took: Option<Vec<u64>> = trials.map(|trial| Some(trial.lifecycle_ns.total?.0)).collect();
    took.map(|took| Nanos(fsdyno_core::figures::total(took)))
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

/// By the means of the logarithms of all trials, as far as they have one.
fn whole_sweep(rivals: &[Rival<'_>], wanted: &Wanted, pick: usize) -> Option<WholeSweep> {
    let mean = |one: &Rival<'_>| {
        let values: Vec<f64> = one.trials.iter().filter_map(|trial| wanted.logarithm(trial)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let means: Vec<Option<f64>> = rivals.iter().map(mean).collect();
    let known = (0..rivals.len()).filter_map(|cell| Some((cell, means[cell]?)));
    let (best, value) = known.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(WholeSweep { best: rivals[best].raced.clone(), pick_behind: wanted.worse(value - means[pick]?) })
}

#[cfg(test)]
mod tests;
