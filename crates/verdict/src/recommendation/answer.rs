//! What a recommendation says.

use super::axis::{AxisAnswer, InteractionAnswer};
use super::pareto::ParetoFront;
use super::recipe::RecipeText;
use super::standing::Contender;
use crate::drift::Drift;
use crate::outcomes::{FailedTrials, SkippedCases, WarningGroup};
use serde::Serialize;

/// What to take, for each workload of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// Identifier of the sweep in the store.
    pub sweep: String,
    /// Name of its plan.
    pub name: String,
    /// What the choice is for, as asked.
    pub goal: String,
    /// A difference up to this does not matter.
    pub threshold: f64,
    /// What the sentinel shows of the machine.
    pub drift: Option<Drift>,
    /// One for each workload with a measured trial, in the plan's order.
    pub answers: Vec<Answer>,
    /// Cases that this machine cannot run: nothing is known of them.
    pub skipped: Vec<SkippedCases>,
    /// Trials that went wrong.
    pub failed: Vec<FailedTrials>,
}

/// What to take for one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Kind of the workload.
    pub workload: &'static str,
    /// One line about it.
    pub title: String,
    /// The name of the measure that decides.
    pub measure: String,
    /// Its unit in words: `bytes_per_s`, `ns`.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub higher_is_better: bool,
    /// The answer: what to take, and how sure that is.
    pub sentences: Vec<String>,
    /// Index of the recommended configuration in `standings`; absent when no trial has a value.
    pub winner: Option<usize>,
    /// Index of what the winner is held against: what is there by itself, or the next best.
    pub baseline: Option<usize>,
    /// Every configuration, best mean first.
    pub standings: Vec<Contender>,
    /// What each setting does by itself, the one with the largest share of the variance first.
    pub axes: Vec<AxisAnswer>,
    /// Settings that do together what neither does by itself.
    pub interactions: Vec<InteractionAnswer>,
    /// Share of the variance between blocks, which is the machine's own; absent without effects.
    pub block_share: Option<f64>,
    /// Share of the variance that nothing explains; absent without effects.
    pub residual_share: Option<f64>,
    /// What is gained in one measure and lost in another.
    pub pareto: ParetoFront,
    /// How to build the winner; absent where nothing is made, and for sweeps of earlier versions.
    pub recipe: Option<RecipeText>,
    /// What a reader must know of this answer, one line each.
    pub notes: Vec<String>,
    /// Warnings of its trials.
    pub warnings: Vec<WarningGroup>,
}

impl Answer {
    /// The recommended configuration.
    pub fn winner(&self) -> Option<&Contender> {
        self.standings.get(self.winner?)
    }

    /// What it is held against.
    pub(crate) fn baseline(&self) -> Option<&Contender> {
        self.standings.get(self.baseline?)
    }
}
