//! A race that a sweep runs: what the next block is, and what the trials so far say.
//!
//! Both are functions of the rules and of the trials so far, so that a sweep that was killed goes on with the
//! same blocks, and a stored race needs nothing besides its trials.
//!
//! The first block has every configuration once. Those that could not be measured are dropped after it, and
//! so are those that weaken what survives a power cut if a durable one was measured: they could not win. The
//! rest of the budget is then divided into rounds. Trials that were skipped cost nothing.

use super::rivals::{Rival, Wanted, cells, default, rivals};
use super::{BudgetError, Elimination, RaceAnswer, RaceError, Raced, RacedTrials, words};
use crate::durability::Safety;
use crate::enough::light;
use crate::levels::THRESHOLD;
use crate::load::{Load, loads};
use crate::machines::SharedPairs;
use crate::race::procedure::{Budget, NextStep, Race, RaceProgress, RacedTrial, RunningRace, Schedule};
use fsdyno_core::{Nanos, Outcome, RaceBudget, RaceRules, SweepHeader, TrialRecord};
use std::collections::BTreeSet;

/// The share of a time that trials may take, in percent: what a sweep does between them takes time as well.
const USABLE_PERCENT: u64 = 95;

/// The part of a budget of time that trials may take.
pub fn usable(time: Nanos) -> Nanos {
    Nanos((u128::from(time.0) * u128::from(USABLE_PERCENT) / 100) as u64)
}

/// A race that a sweep runs, as far as it has come.
#[derive(Debug)]
pub struct LiveRace {
    rules: RaceRules,
    seed: u64,
    trials: Vec<TrialRecord>,
}

/// A block of a race.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RaceBlock {
    /// Its cases in the plan's order; none if the race is over.
    pub cases: Vec<u32>,
    /// The number of blocks of these cases that may be measured at once.
    pub at_once: u32,
    /// The cases of the trials that are planned after these, sentinels included. Which they will be is not
    /// known; how many, and about how long they take, is.
    pub later: Vec<u32>,
}

impl LiveRace {
    /// Before the first trial. The seed is that of the sweep.
    pub fn new(rules: RaceRules, seed: u64) -> Self {
        LiveRace { rules, seed, trials: Vec::new() }
    }

    /// Adds a trial, whether it was measured or not.
    pub fn add(&mut self, trial: &TrialRecord) {
        self.trials.push(light(trial));
    }

    /// The block of this number, from 1 on, given the trials of all blocks before it; later trials change
    /// nothing. On several machines, `most` blocks of a round may be measured at once. The second part is
    /// what those before it say, without the sweep's name.
    pub fn block(&self, number: u32, most: u32) -> (RaceBlock, Result<RaceAnswer, RaceError>) {
        let before = before(&self.trials, number);
        match RaceSoFar::new(&self.rules, self.seed, THRESHOLD, &before) {
            Ok(course) => (course.next(most), course.answer(THRESHOLD)),
            Err(error) => (RaceBlock::default(), Err(error)),
        }
    }
}

/// The trials of all blocks before this one.
fn before(trials: &[TrialRecord], number: u32) -> Vec<&TrialRecord> {
    trials.iter().filter(|trial| trial.block < number).collect()
}

/// Returns the answers that a stored race gave after each of its latest complete blocks, at most `most` of
/// them, the earliest first. Each is computed from the trials, which takes as long as one [`answer`].
///
/// # Errors
/// [`RaceError`], [`RaceError::FirstBlock`] if no block is complete.
pub fn history(
    header: &SweepHeader,
    rules: &RaceRules,
    trials: &[TrialRecord],
    most: u32,
) -> Result<Vec<RaceAnswer>, RaceError> {
    let all: Vec<&TrialRecord> = trials.iter().collect();
    let complete = RaceSoFar::new(rules, header.seed, THRESHOLD, &all)?.complete();
    let answer =
        |number| RaceSoFar::new(rules, header.seed, THRESHOLD, &before(trials, number))?.answer(THRESHOLD);
    (complete.saturating_sub(most) + 1..=complete).map(answer).collect()
}

/// Returns the answer that the stored trials of a race give, whether it is over or not.
///
/// # Errors
/// [`RaceError`].
pub fn answer(
    header: &SweepHeader,
    rules: &RaceRules,
    trials: &[TrialRecord],
    threshold: f64,
) -> Result<RaceAnswer, RaceError> {
    let all: Vec<&TrialRecord> = trials.iter().collect();
    let answer = RaceSoFar::new(rules, header.seed, threshold, &all)?.answer(threshold)?;
    Ok(RaceAnswer { sweep: header.id.clone(), name: header.name.clone(), ..answer })
}

/// A race with the trials that have run.
struct RaceSoFar<'a> {
    rules: &'a RaceRules,
    /// Those that were measured in the first block and can win.
    rivals: Vec<Rival<'a>>,
    /// The others, with what is said of them.
    out: Vec<(Raced, String)>,
    /// All trials, those of sentinels and of the others included.
    trials: Vec<&'a TrialRecord>,
    first: Vec<TrialRecord>,
    wanted: Wanted,
    race: Race,
    outcomes: Vec<RacedTrial>,
    /// The trial of each outcome.
    records: Vec<&'a TrialRecord>,
    progress: RaceProgress,
}

impl<'a> RaceSoFar<'a> {
    fn new(
        rules: &'a RaceRules,
        seed: u64,
        threshold: f64,
        trials: &[&'a TrialRecord],
    ) -> Result<Self, RaceError> {
        let of_first = trials.iter().filter(|trial| trial.block == 0 && !trial.sentinel);
        let first: Vec<TrialRecord> = of_first.map(|trial| (*trial).clone()).collect();
        let measured = first.iter().map(|trial| trial.case).collect::<BTreeSet<u32>>().len();
        if measured < rules.configurations as usize {
            return Err(RaceError::FirstBlock { measured, configurations: rules.configurations });
        }
        let loads = loads(&first);
        let [load] = &loads[..] else {
            let titles: Vec<String> = loads.iter().map(Load::title).collect();
            return Err(if titles.is_empty() {
                RaceError::Nothing
            } else {
                RaceError::SeveralWorkloads { titles }
            });
        };
        let of_load: Vec<&TrialRecord> = first.iter().filter(|trial| load.has(trial)).collect();
        let measure = rules.measure.deciding(load.workload, of_load.iter().copied());
        let wanted = Wanted::new(measure, &of_load, load)?;
        let own: Vec<&TrialRecord> = trials.iter().copied().filter(|trial| !trial.sentinel).collect();
        let (rivals, out) = split(rivals(&own), &wanted, &Safety::new(&first));
        let default = default(&rivals)
            .ok_or_else(|| RaceError::NoAnswer { measure: wanted.measure.name().to_string() })?;
        let budget = RivalsBudget::new(rules, &rivals, trials);
        let (schedule, budget) = budget.divide(&rivals)?;
        let race = Race {
            cells: cells(&rivals),
            default,
            schedule,
            budget: Some(budget),
            threshold: threshold.ln_1p(),
            seed,
        };
        let shared = SharedPairs::of_trials(trials);
        let (mut outcomes, mut records) = (Vec::new(), Vec::new());
        for (cell, rival) in rivals.iter().enumerate() {
            for trial in &rival.trials {
                let place = (trial.block, shared.of(trial));
                outcomes.push(wanted.outcome(place, cell, trial, cost(rules, trial)));
                records.push(*trial);
            }
        }
        let progress = RunningRace::new(&race).after(&outcomes);
        let trials = trials.to_vec();
        Ok(RaceSoFar { rules, rivals, out, trials, first, wanted, race, outcomes, records, progress })
    }

    /// Returns the number of complete blocks.
    fn complete(&self) -> u32 {
        match self.progress.step {
            NextStep::Block { number, .. } => number,
            NextStep::Over => self.progress.rounds.iter().map(|round| round.blocks).sum(),
        }
    }

    /// The next block.
    fn next(&self, most: u32) -> RaceBlock {
        let NextStep::Block { number, cells, at_once, .. } = &self.progress.step else {
            return RaceBlock::default();
        };
        let at_once = (*at_once).clamp(1, most.max(1));
        let case = |cell: &usize| self.rivals[*cell].raced.case;
        let sentinel = self.trials.iter().find(|trial| trial.sentinel).map(|trial| trial.case);
        let mut later = Vec::new();
        let mut first = 0;
        for round in &self.progress.rounds {
            let blocks = (first..first + round.blocks).filter(|block| *block >= number + at_once);
            first += round.blocks;
            let best = self.progress.left.iter().take(round.cells);
            let default =
                Some(&self.race.default).filter(|default| !best.clone().any(|cell| cell == *default));
            let of_block: Vec<u32> = best.chain(default).map(case).chain(sentinel).collect();
            later.extend(blocks.flat_map(|_| of_block.iter().copied()));
        }
        RaceBlock { cases: cells.iter().map(case).collect(), at_once, later }
    }

    fn answer(&self, threshold: f64) -> Result<RaceAnswer, RaceError> {
        let found = RacedTrials {
            rivals: &self.rivals,
            wanted: &self.wanted,
            race: &self.race,
            outcomes: &self.outcomes,
            records: &self.records,
            progress: &self.progress,
        };
        let loads = loads(&self.first);
        let load = loads.first().ok_or(RaceError::Nothing)?;
        let (mut answer, nothing_differs) = found.answer(load, threshold)?;
        for one in &mut answer.eliminations {
            one.after_trials += self.out.len();
        }
        let out = self.out.iter().map(|(raced, why)| Elimination {
            raced: raced.clone(),
            round: 1,
            after_trials: self.first.len(),
            rank: None,
            of: None,
            behind: None,
            why: why.clone(),
        });
        answer.eliminations.splice(..0, out);
        answer.budget = self.rules.budget.limit();
        let ran = self.trials.iter().filter(|trial| ran(trial));
        answer.trials = ran.clone().count();
        answer.sweep_trials = self.trials.len();
        answer.time_ns = Some(Nanos(ran.map(|trial| trial.duration().0).fold(0, u64::saturating_add)));
        answer.judgement = words::judgement(&answer, &self.wanted.measure, nothing_differs);
        answer.sentences = words::sentences(&answer);
        Ok(answer)
    }
}

/// Those that go on racing after the first block, and the others with what is said of them.
fn split<'a>(
    all: Vec<Rival<'a>>,
    wanted: &Wanted,
    safety: &Safety,
) -> (Vec<Rival<'a>>, Vec<(Raced, String)>) {
    let first = |one: &Rival<'a>| one.trials.iter().copied().find(|trial| trial.block == 0);
    let has_value = |one: &Rival<'_>| first_value(one, wanted).is_some();
    let (measured, unmeasured): (Vec<_>, Vec<_>) = all.into_iter().partition(has_value);
    let why = |one: &Rival<'a>| match first(one).map(|trial| &trial.outcome) {
        Some(Outcome::Skipped { unmet }) => format!("skipped: {}", unmet.join("; ")),
        Some(Outcome::Failed { error }) => format!("failed: {error}"),
        _ => words::why(None, None, None),
    };
    let mut out: Vec<(Raced, String)> = unmeasured.iter().map(|one| (one.raced.clone(), why(one))).collect();
    let is_durable = |one: &Rival<'_>| {
        let first: Vec<&TrialRecord> = one.trials.iter().copied().filter(|trial| trial.block == 0).collect();
        safety.judge(&first).risks.is_empty()
    };
    let (durable, weak): (Vec<_>, Vec<_>) = measured.into_iter().partition(is_durable);
    if durable.is_empty() {
        return (weak, out);
    }
    let cannot_win = "it weakens what survives a power cut, or may, so it cannot win";
    out.extend(weak.into_iter().map(|one| (one.raced, cannot_win.to_string())));
    (durable, out)
}

fn first_value(one: &Rival<'_>, wanted: &Wanted) -> Option<f64> {
    one.trials.iter().filter(|trial| trial.block == 0).find_map(|trial| wanted.logarithm(trial))
}

fn ran(trial: &TrialRecord) -> bool {
    !matches!(trial.outcome, Outcome::Skipped { .. })
}

/// Returns the cost of a trial in the unit of the budget.
fn cost(rules: &RaceRules, trial: &TrialRecord) -> u64 {
    match rules.budget {
        _ if !ran(trial) => 0,
        RaceBudget::Time(_) => trial.duration().0,
        RaceBudget::Trials(_) | RaceBudget::Halving => 1,
    }
}

/// The part of a budget that is left for the configurations that race.
struct RivalsBudget<'a> {
    rules: &'a RaceRules,
    /// The cost of the other trials of the first block.
    others: u64,
    /// The cost of the first trials of the configurations that race and of the sentinel, and their number.
    first: (u64, u64),
    sentinels: Vec<(u32, u64)>,
}

impl<'a> RivalsBudget<'a> {
    fn new(rules: &'a RaceRules, rivals: &[Rival<'_>], trials: &[&TrialRecord]) -> Self {
        let races = |trial: &&&TrialRecord| rivals.iter().any(|one| one.raced.case == trial.case);
        let in_first = |trial: &&&TrialRecord| trial.block == 0;
        let total = |trials: &mut dyn Iterator<Item = u64>| trials.fold(0, u64::saturating_add);
        let cost = |trial: &&TrialRecord| cost(rules, trial);
        let own = |trial: &&&TrialRecord| trial.sentinel || races(trial);
        let first: Vec<u64> = trials.iter().filter(in_first).filter(own).map(cost).collect();
        let others = trials.iter().filter(in_first).filter(|trial| !own(trial)).map(cost);
        let sentinels = trials.iter().filter(|trial| trial.sentinel);
        RivalsBudget {
            rules,
            others: total(&mut { others }),
            first: (total(&mut first.iter().copied()), first.len() as u64),
            sentinels: sentinels.map(|trial| (trial.block, cost(trial))).collect(),
        }
    }

    /// The rounds that fit, and what they may cost.
    fn divide(self, rivals: &[Rival<'_>]) -> Result<(Schedule, Budget), RaceError> {
        let trials = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let limit = match self.rules.budget {
            RaceBudget::Halving => None,
            RaceBudget::Trials(trials) => Some(u64::from(trials).saturating_sub(self.others)),
            RaceBudget::Time(time) => Some(usable(time).0.saturating_sub(self.others)),
        };
        let affordable = limit.map(|limit| match self.rules.budget {
            RaceBudget::Time(_) => trials(limit / (self.first.0 / self.first.1.max(1)).max(1)),
            _ => trials(limit),
        });
        let schedule = |budget| Schedule::new(rivals.len(), budget, None, !self.sentinels.is_empty());
        let schedule = match schedule(affordable) {
            // The time was used up by the first block, or nearly: what is not affordable will be left out.
            Err(BudgetError::TooSmall { least, .. }) => schedule(Some(least)),
            found => found,
        };
        let schedule = schedule.map_err(|error| match (error, rivals) {
            (BudgetError::NoRivals, [only]) => {
                RaceError::OnlyOne { name: only.raced.configuration.name.clone() }
            }
            (error, _) => error.into(),
        })?;
        let limit = limit.unwrap_or_else(|| u64::from(schedule.trials));
        Ok((schedule, Budget { limit, sentinels: self.sentinels, blocks: None }))
    }
}
