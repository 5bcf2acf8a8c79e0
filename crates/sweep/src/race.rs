//! A sweep as a race: what it is expected to be, and which block comes next.

use crate::order::Slot;
use crate::plan::Plan;
use fsdyno_core::{Nanos, RaceBudget, RaceRules, TrialRecord};
use fsdyno_verdict::race::{
    BudgetError, LiveRace, RaceAnswer, RaceBlock, RaceError, Round, Schedule, usable,
};
use serde::Serialize;

/// A race as it is expected to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForeseenRace {
    /// The budget, as the plan says.
    pub budget: Option<String>,
    /// The rounds: how many configurations, and how often each.
    pub rounds: Vec<ForeseenRound>,
    /// `true` if the budget is expected to suffice for all of them.
    pub fits: bool,
    /// The number of configurations that can run on this machine.
    pub configurations: usize,
    /// Trials of these rounds, sentinels included.
    pub trials: u32,
    /// Their estimated time.
    pub time_ns: Nanos,
}

/// A round of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ForeseenRound {
    /// The number of configurations that take part, without the default where it is not among them.
    pub configurations: usize,
    /// The number of times that each is measured.
    pub blocks: u32,
}

impl ForeseenRace {
    /// The race of a plan, given the estimated time of one trial of each configuration that can run; `None`
    /// if the plan is no race, or if fewer than two can run.
    pub(crate) fn of(plan: &Plan, times: &[Nanos]) -> Option<ForeseenRace> {
        let budget = plan.race?;
        let total = times.iter().map(|time| time.0).fold(0, u64::saturating_add);
        let mean = total / (times.len() as u64).max(1);
        let trials = match budget {
            RaceBudget::Time(time) => Some(u32::try_from(usable(time).0 / mean.max(1)).unwrap_or(u32::MAX)),
            counted => counted.trials(),
        };
        let schedule = |trials| Schedule::new(times.len(), trials, None, true);
        let (schedule, fits) = match schedule(trials) {
            Err(BudgetError::TooSmall { least, .. }) => (schedule(Some(least)).ok()?, false),
            found => (found.ok()?, true),
        };
        let round = |round: &Round| ForeseenRound { configurations: round.cells, blocks: round.blocks };
        Some(ForeseenRace {
            budget: budget.limit(),
            rounds: schedule.rounds.iter().map(round).collect(),
            fits,
            configurations: times.len(),
            trials: schedule.trials,
            time_ns: Nanos(mean.saturating_mul(schedule.trials.into())),
        })
    }
}

/// A race that runs.
pub(crate) struct Racing {
    race: LiveRace,
    /// Cases of the trials that are planned after the current block.
    pub later: Vec<u32>,
}

/// The continuation of a race after a block.
pub(crate) struct Followed {
    /// The cases of the next block; none if the race is over.
    pub cases: Vec<u32>,
    /// The number of such blocks that follow at once.
    pub blocks: u32,
    /// The answer of the race after the blocks so far.
    pub answer: Result<RaceAnswer, RaceError>,
    /// The same in a line each.
    pub said: Vec<String>,
}

impl Racing {
    /// The race of a plan, with the trials of an earlier run; `None` if the plan is no race. `runs` are the
    /// cases that can run here.
    pub fn new(plan: &Plan, runs: &[u32], earlier: &[TrialRecord]) -> Option<Self> {
        let budget = plan.race?;
        let configurations = u32::try_from(plan.cases().len()).unwrap_or(u32::MAX);
        let rules = RaceRules { budget, measure: plan.measure.clone(), configurations };
        let mut race = LiveRace::new(rules, plan.rules.seed);
        earlier.iter().for_each(|trial| race.add(trial));
        // What a trial takes here is known after the first block.
        let rounds =
            Schedule::new(runs.len(), budget.trials(), None, true).map_or(Vec::new(), |one| one.rounds);
        // With the default, where it is not certain to be among them, and the sentinel.
        let trials = |round: &Round| round.cells + usize::from(round.cells < runs.len()) + 1;
        let mut blocks =
            rounds.iter().flat_map(|round| std::iter::repeat_n(trials(round), round.blocks as usize));
        blocks.next();
        let later = blocks.flat_map(|trials| runs.iter().cycle().take(trials)).copied().collect();
        Some(Racing { race, later })
    }

    /// Adds a trial.
    pub fn add(&mut self, trial: &TrialRecord) {
        self.race.add(trial);
    }

    /// The block after those of these slots; up to `most`, if several can be measured at once.
    pub fn next(&mut self, slots: &[Slot], most: u32) -> Followed {
        let number = slots.last().map_or(0, |slot| slot.block + 1);
        let (RaceBlock { cases, at_once: blocks, later }, answer) = self.race.block(number, most);
        self.later = later;
        let said = match &answer {
            Ok(answer) => answer.after_block(number),
            Err(error) if cases.is_empty() => vec![format!("the race is over: {error}")],
            Err(error) => vec![error.to_string()],
        };
        Followed { cases, blocks, answer, said }
    }
}
