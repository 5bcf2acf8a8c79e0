//! The contents of a recommendation.

use super::axis::{AxisAnswer, InteractionAnswer};
use super::contender::Contender;
use super::pareto::ParetoFront;
use super::recipe::RecipeText;
use crate::drift::Drift;
use crate::judgement::Judgement;
use crate::outcomes::{FailedTrials, SkippedCases, WarningGroup};
use crate::race::RaceAnswer;
use serde::{Serialize, Serializer};

/// The configuration to use, for each workload of a sweep.
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
    /// The drift of the machine that the sentinel shows.
    pub drift: Option<Drift>,
    /// The same in words, one line each, besides the warning of a trend.
    pub notes: Vec<String>,
    /// The answer of the race, if the sweep was one and its first block is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub race: Option<RaceAnswer>,
    /// One for each workload with a measured trial, in the plan's order.
    pub answers: Vec<Answer>,
    /// Workloads without a measured trial, so that they have no answer, with the first error of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<String>,
    /// Cases that this machine cannot run.
    pub skipped: Vec<SkippedCases>,
    /// Trials that failed.
    pub failed: Vec<FailedTrials>,
}

/// The configuration to use for one workload.
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
    /// `true` if more of the measure is better.
    pub higher_is_better: bool,
    /// The judgement of the trials.
    pub judgement: Judgement,
    /// Further sentences: what a winner costs, and what would be faster but less safe.
    pub sentences: Vec<String>,
    /// The reasons to doubt the judgement, at most three, first what could change it most.
    pub doubts: Vec<String>,
    /// The winner; absent if there is none.
    pub winner: Option<Chosen>,
    /// The default, which is kept without a winner; absent if no trial has a value.
    pub default: Option<Chosen>,
    /// `default`, or `baseline` if it has settings that are not known to be the default.
    pub default_called: &'static str,
    /// The configuration that is ahead: the winner, or what might be one.
    pub leader: Option<Chosen>,
    /// The configuration that this one is compared with: the default, or the next best.
    pub baseline: Option<Chosen>,
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
    /// The recipe for the winner, or for the configuration that was asked for; absent if there is none, if
    /// nothing has to be built, and for sweeps of earlier versions.
    pub recipe: Option<RecipeText>,
    /// The recipe for the default, which is kept; absent where `recipe` is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_recipe: Option<RecipeText>,
    /// The notes that a reader must know about this answer, one line each.
    pub notes: Vec<String>,
    /// Warnings of its trials.
    pub warnings: Vec<WarningGroup>,
}

/// One of the standings. Formats have its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its place among them.
    pub index: usize,
    name: String,
}

impl Chosen {
    pub(super) fn of(standings: &[Contender], index: Option<usize>) -> Option<Chosen> {
        let index = index?;
        Some(Chosen { index, name: standings.get(index)?.name.clone() })
    }
}

impl Serialize for Chosen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl Answer {
    /// The headline and what else there is to say, a paragraph each.
    pub fn paragraphs(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.judgement.headline).chain(&self.sentences).map(String::as_str)
    }

    /// The winner.
    pub fn winner(&self) -> Option<&Contender> {
        self.standings.get(self.winner.as_ref()?.index)
    }

    /// The default.
    pub fn default(&self) -> Option<&Contender> {
        self.standings.get(self.default.as_ref()?.index)
    }

    /// The configuration that is ahead.
    pub fn leader(&self) -> Option<&Contender> {
        self.standings.get(self.leader.as_ref()?.index)
    }

    /// The configuration that this one is compared with.
    pub(crate) fn baseline(&self) -> Option<&Contender> {
        self.standings.get(self.baseline.as_ref()?.index)
    }
}
