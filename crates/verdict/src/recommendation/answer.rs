//! The contents of a recommendation.

use super::axis::{AxisAnswer, InteractionAnswer};
use super::contender::Contender;
use super::pareto::ParetoFront;
use super::recipe::RecipeText;
use crate::drift::Drift;
use crate::outcomes::{FailedTrials, SkippedCases, WarningGroup};
use crate::race::RaceAnswer;
use serde::Serialize;

/// What to use, for each workload of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// Identifier of the sweep in the store.
    pub sweep: String,
    /// Name of its plan.
    pub name: String,
    /// The goal of the choice, as requested.
    pub goal: String,
    /// A difference of up to this does not matter.
    pub threshold: f64,
    /// What the sentinel shows about the machine.
    pub drift: Option<Drift>,
    /// The same in words, one line each, besides the warning of a trend.
    pub notes: Vec<String>,
    /// What the race says, if the sweep was one and its first block is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub race: Option<RaceAnswer>,
    /// One for each workload with a measured trial, in the plan's order.
    pub answers: Vec<Answer>,
    /// Cases that this machine cannot run.
    pub skipped: Vec<SkippedCases>,
    /// Trials that failed.
    pub failed: Vec<FailedTrials>,
}

/// What to use for one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Kind of the workload.
    pub workload: &'static str,
    /// Its description in one line.
    pub title: String,
    /// The name of the measure that decides.
    pub measure: String,
    /// The measure by which the plan ranks, if no trial of the sweep has a value of it, so that this one
    /// decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// Its unit in words: `bytes_per_s`, `ns`.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub higher_is_better: bool,
    /// The answer: what to use, how certain that is, and what it costs.
    pub sentences: Vec<String>,
    /// Index of the recommended configuration in `standings`; absent if no trial has a value.
    pub winner: Option<usize>,
    /// Index of the configuration that the winner is compared with: a simpler one, or the next best.
    pub baseline: Option<usize>,
    /// Every configuration, best mean first.
    pub standings: Vec<Contender>,
    /// Names of configurations of which every trial failed, so that they are not among these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_always: Vec<String>,
    /// The effect of each setting, the largest share of the variance first.
    pub axes: Vec<AxisAnswer>,
    /// Settings whose effects depend on each other.
    pub interactions: Vec<InteractionAnswer>,
    /// Share of the variance between blocks, which is the machine's own variation; absent without effects.
    pub block_share: Option<f64>,
    /// Share of the variance that is not explained; absent without effects.
    pub residual_share: Option<f64>,
    /// The trade-offs between measures.
    pub pareto: ParetoFront,
    /// How to build the winner; absent if nothing has to be built, and for sweeps of earlier versions.
    pub recipe: Option<RecipeText>,
    /// What a reader must know about this answer, one line each.
    pub notes: Vec<String>,
    /// Warnings of its trials.
    pub warnings: Vec<WarningGroup>,
}

impl Answer {
    /// The recommended configuration.
    pub fn winner(&self) -> Option<&Contender> {
        self.standings.get(self.winner?)
    }

    /// The configuration that the winner is compared with.
    pub(crate) fn baseline(&self) -> Option<&Contender> {
        self.standings.get(self.baseline?)
    }
}
