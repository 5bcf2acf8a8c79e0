//! The schedule of a race: rounds that fit into a budget.

/// So many configurations are measured again at the end, besides the default.
pub const FINALISTS: usize = 4;
/// Blocks of the last round without which there is no interval of its figures.
pub(crate) const LEAST_FRESH: u32 = 2;
/// More blocks than this do not make a figure much more precise.
pub(crate) const MOST_BLOCKS: u32 = 12;
/// The divisors by which a round may reduce the number of configurations: halving if the budget allows it.
const DIVISORS: [usize; 8] = [2, 3, 4, 6, 8, 12, 16, usize::MAX];

/// The rounds of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The rounds that drop configurations, then the one with fresh blocks of the last few.
    pub rounds: Vec<Round>,
    /// Trials of all rounds at most, sentinels included; more if several measures keep more configurations.
    pub trials: u32,
}

/// A round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// The number of configurations that take part; the default comes in addition where it is not among them.
    pub cells: usize,
    /// The number of times that each is measured.
    pub blocks: u32,
}

/// Why there is no schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Not even the shortest race fits.
    #[error(
        "a budget of {budget} trial{} is too small: a race of {cells} configurations needs {least}",
        if *budget == 1 { "" } else { "s" }
    )]
    TooSmall {
        /// Trials that may be spent.
        budget: u32,
        /// The number of configurations.
        cells: usize,
        /// Trials of the shortest race.
        least: u32,
    },
    /// Not enough blocks for the shortest race.
    #[error("a race needs at least {} blocks, but the sweep has {blocks}", LEAST_FRESH + 1)]
    TooFewBlocks {
        /// The number of blocks that the sweep has.
        blocks: u32,
    },
    /// A single configuration.
    #[error("a race needs at least two configurations")]
    NoRivals,
}

impl Schedule {
    /// The schedule for this many configurations and trials. Later rounds have about as many trials as each
    /// other: fewer configurations, each more often. By default it halves, and a later round has half as many
    /// trials as there are configurations. `blocks` limits how often a configuration can be measured. With a
    /// sentinel, each block has one more trial.
    ///
    /// # Errors
    /// [`BudgetError`].
    pub fn new(
        cells: usize,
        budget: Option<u32>,
        blocks: Option<u32>,
        sentinel: bool,
    ) -> Result<Schedule, BudgetError> {
        if cells < 2 {
            return Err(BudgetError::NoRivals);
        }
        let most = blocks.unwrap_or(u32::MAX);
        let shape = |divisor, each| Schedule::of(cells, divisor, each, sentinel);
        let fits = |schedule: &Schedule| {
            schedule.blocks() <= most && budget.is_none_or(|budget| schedule.trials <= budget)
        };
        let Some(divisor) = DIVISORS.into_iter().find(|divisor| fits(&shape(*divisor, 0))) else {
            let least = shape(usize::MAX, 0);
            return Err(match (budget, least.blocks() > most) {
                (Some(budget), false) => BudgetError::TooSmall { budget, cells, least: least.trials },
                _ => BudgetError::TooFewBlocks { blocks: most },
            });
        };
        // By default a later round costs half as much as the first.
        let widest = budget.map_or(cells / 2, |budget| budget as usize);
        let each = (0..=widest).rev().find(|each| fits(&shape(divisor, *each))).unwrap_or(0);
        let even = shape(divisor, each);
        Ok(if budget.is_some() { even.filled(cells, sentinel, fits) } else { even })
    }

    /// A block of many configurations may be what does not fit any more: what is left of a budget is given to
    /// the rounds one after the other, the one with the most configurations first.
    fn filled(mut self, cells: usize, sentinel: bool, fits: impl Fn(&Schedule) -> bool) -> Schedule {
        for index in 1..self.rounds.len() {
            let mut more = self.clone();
            more.rounds[index].blocks += 1;
            more.trials += more.rounds[index].trials_of_block(cells, sentinel);
            if more.rounds[index].blocks <= MOST_BLOCKS && fits(&more) {
                self = more;
            }
        }
        self
    }

    /// Trials of the shortest race of this many configurations.
    pub fn least(cells: usize, sentinel: bool) -> u32 {
        Schedule::of(cells, usize::MAX, 0, sentinel).trials
    }

    /// Each later round has about `each` trials.
    fn of(cells: usize, divisor: usize, each: usize, sentinel: bool) -> Schedule {
        let mut rounds = Vec::new();
        let mut left = cells;
        let blocks = |left: usize| ((each / left) as u32).min(MOST_BLOCKS);
        while left > FINALISTS + 1 {
            rounds
                .push(Round { cells: left, blocks: if rounds.is_empty() { 1 } else { blocks(left).max(1) } });
            left = left.div_ceil(divisor).max(FINALISTS);
        }
        let last = if rounds.is_empty() { cells } else { FINALISTS };
        rounds.push(Round { cells: last, blocks: blocks(last).max(LEAST_FRESH) });
        let trials = |round: &Round| round.trials_of_block(cells, sentinel) * round.blocks;
        let trials = rounds.iter().map(trials).sum();
        Schedule { rounds, trials }
    }

    /// Returns the number of blocks of all rounds.
    pub fn blocks(&self) -> u32 {
        self.rounds.iter().map(|round| round.blocks).sum()
    }
}

impl Round {
    /// Trials of one block in a race of so many configurations: with the default where it is not among those
    /// of the round, and with the sentinel.
    fn trials_of_block(&self, cells: usize, sentinel: bool) -> u32 {
        let default = usize::from(self.cells < cells);
        (self.cells + default + usize::from(sentinel)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(cells: usize, budget: Option<u32>, blocks: Option<u32>) -> Vec<(usize, u32)> {
        let schedule = Schedule::new(cells, budget, blocks, false).unwrap();
        schedule.rounds.iter().map(|round| (round.cells, round.blocks)).collect()
    }

    #[test]
    fn a_budget_decides_how_many_rounds_there_are_and_how_long() {
        assert_eq!(rounds(72, None, None), [(72, 1), (36, 1), (18, 2), (9, 4), (4, 9)]);
        assert_eq!(rounds(72, None, Some(6)), [(72, 1), (36, 1), (18, 1), (9, 1), (4, 2)]);
        assert_eq!(rounds(72, Some(90), None), [(72, 1), (6, 1), (4, 2)]);
        assert_eq!(rounds(4, Some(20), None), [(4, 5)]);
        // What the even rounds leave of it.
        assert_eq!(rounds(72, Some(360), None), [(72, 1), (36, 2), (18, 4), (9, 7), (4, 12)]);
        for budget in 82..600 {
            let schedule = Schedule::new(72, Some(budget), None, true);
            assert!(schedule.is_ok_and(|one| one.trials <= budget) || budget < 86, "{budget}");
        }
    }

    #[test]
    fn a_race_that_cannot_be_run_is_refused() {
        let refused = |cells, budget, blocks| Schedule::new(cells, budget, blocks, false).unwrap_err();
        assert_eq!(refused(72, Some(50), None), BudgetError::TooSmall { budget: 50, cells: 72, least: 82 });
        assert_eq!(refused(72, None, Some(2)), BudgetError::TooFewBlocks { blocks: 2 });
        assert_eq!(refused(1, None, None), BudgetError::NoRivals);
    }
}
