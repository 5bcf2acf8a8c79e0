//! A race on the stored trials of a sweep.
//!
//! Each block of the race draws one stored trial of each configuration that is left, none twice, from the
//! blocks of the sweep in random order. So the figures are real, and only their choice is replayed.
//!
//! A configuration that weakens what survives a power cut does not take part if a durable one does: it could
//! not win.

use super::rivals::{Rival, Wanted, cells, default, oriented, rivals};
use super::{RaceAnswer, RaceError, RaceQuestion, RaceState, Raced, RacedTrials, WholeSweep, words};
use crate::durability::Safety;
use crate::load::{Load, loads};
use crate::machines::SharedPairs;
use crate::race::procedure::{Budget, NextStep, Race, RaceProgress, RacedTrial, RunningRace, Schedule};
use fsdyno_core::{Nanos, SweepHeader, TrialRecord};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

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
    let measure = match &question.goal {
        None => header.measure.deciding(load.workload, own.iter().copied()),
        Some(goal) => {
            goal.measure(load.workload).ok_or_else(|| RaceError::NoValue { measure: goal.to_string() })?
        }
    };
    let wanted = Wanted::new(measure, &own, &load)?;
    let (rivals, not_entered) = entered(&own, &Safety::new(trials));
    let sentinel = trials.iter().any(|trial| trial.sentinel);
    let race = race(&rivals, question, sentinel)?;
    let (outcomes, drawn, progress) = run(&race, &rivals, &wanted, question.seed)?;
    let blocks = outcomes.iter().map(|one| one.block).collect::<BTreeSet<u32>>().len();
    let found = RacedTrials {
        rivals: &rivals,
        wanted: &wanted,
        race: &race,
        outcomes: &outcomes,
        records: &drawn,
        progress: &progress,
    };
    let (mut answer, nothing_differs) = found.answer(&load, question.threshold)?;
    let pick = rivals.iter().position(|one| one.raced.case == answer.pick.case);
    (answer.sweep, answer.name) = (header.id.clone(), header.name.clone());
    answer.state = RaceState::Replayed;
    answer.trials = outcomes.len() + if sentinel { blocks } else { 0 };
    answer.time_ns = time(drawn.iter().copied());
    answer.sweep_trials = trials.iter().filter(|trial| load.has(trial)).count();
    answer.sweep_time_ns = time(own.iter().copied());
    answer.not_entered = not_entered;
    answer.whole_sweep = pick.and_then(|pick| whole_sweep(&rivals, &wanted, pick));
    answer.judgement = words::judgement(&answer, &wanted.measure, nothing_differs);
    answer.sentences = words::sentences(&answer);
    Ok(answer)
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

/// The configurations that take part, and those that do not.
fn entered<'a>(trials: &[&'a TrialRecord], safety: &Safety) -> (Vec<Rival<'a>>, Vec<Raced>) {
    let is_durable = |one: &Rival<'_>| safety.judge(&one.trials).risks.is_empty();
    let (durable, weak): (Vec<_>, Vec<_>) = rivals(trials).into_iter().partition(is_durable);
    if durable.is_empty() {
        return (weak, Vec::new());
    }
    (durable, weak.into_iter().map(|one| one.raced).collect())
}

fn race(rivals: &[Rival<'_>], question: &RaceQuestion, sentinel: bool) -> Result<Race, RaceError> {
    let stored = rivals.iter().map(|one| one.trials.len()).max().unwrap_or(0);
    let blocks = u32::try_from(stored).unwrap_or(u32::MAX);
    let budget = question.budget.map(|limit| Budget {
        limit: limit.into(),
        sentinels: if sentinel { (0..blocks).map(|block| (block, 1)).collect() } else { Vec::new() },
        blocks: Some(blocks),
    });
    Ok(Race {
        cells: cells(rivals),
        default: default(rivals).ok_or(RaceError::Nothing)?,
        schedule: Schedule::new(rivals.len(), question.budget, Some(blocks), sentinel)?,
        budget,
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
) -> Result<(Vec<RacedTrial>, Vec<&'a TrialRecord>, RaceProgress), RaceError> {
    let mut blocks: Vec<u32> =
        rivals.iter().flat_map(|one| one.trials.iter().map(|trial| trial.block)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let mut left: Vec<Vec<&TrialRecord>> = rivals.iter().map(|one| one.trials.clone()).collect();
    let all: Vec<&TrialRecord> = left.iter().flatten().copied().collect();
    let shared = SharedPairs::of_trials(&all);
    let (mut outcomes, mut drawn) = (Vec::new(), Vec::new());
    let mut running = RunningRace::new(race);
    loop {
        let progress = running.after(&outcomes);
        let NextStep::Block { number, cells, .. } = progress.step else {
            return Ok((outcomes, drawn, progress));
        };
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
            outcomes.push(wanted.outcome((number, shared.of(trial)), cell, trial, 1));
            drawn.push(trial);
        }
    }
}

fn time<'a>(trials: impl Iterator<Item = &'a TrialRecord>) -> Option<Nanos> {
    let took: Option<Vec<u64>> = trials.map(|trial| Some(trial.lifecycle_ns.total?.0)).collect();
    took.map(|took| Nanos(fsdyno_core::figures::total(took)))
}

/// By the means of all trials, which are those of every other table.
fn whole_sweep(rivals: &[Rival<'_>], wanted: &Wanted, pick: usize) -> Option<WholeSweep> {
    let mean = |one: &Rival<'_>| {
        let values: Vec<f64> =
            one.trials.iter().filter_map(|trial| Some(wanted.measure.value(trial)?.value)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean > 0.0).then(|| oriented(&wanted.measure, mean.ln()))
    };
    let means: Vec<Option<f64>> = rivals.iter().map(mean).collect();
    let known = (0..rivals.len()).filter_map(|cell| Some((cell, means[cell]?)));
    let (best, value) = known.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(WholeSweep { best: rivals[best].raced.clone(), pick_behind: wanted.worse(value - means[pick]?) })
}
