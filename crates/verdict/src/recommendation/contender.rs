//! A configuration, compared with the best.

use crate::durability::{Basis, Losses};
use crate::levels::name_of_kept;
use fsdyno_core::{Configuration, TrialRecord};
use fsdyno_stats::Ratio;
use serde::Serialize;

/// One configuration, compared with the best.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contender {
    /// Index of the case in the plan.
    pub case: u32,
    /// Name of the configuration.
    #[serde(skip)]
    pub name: String,
    /// The configuration.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// Number of measured trials.
    pub trials: usize,
    /// Number of other trials of it that failed.
    pub failed: usize,
    /// The number of measured trials that have a value of the measure.
    pub with_value: usize,
    /// In how many of these more would be better, and the value is 0: nothing was achieved.
    pub zero: usize,
    /// Mean of the measure in its base unit; absent if no trial has a value.
    pub value: Option<f64>,
    /// Its 95 % interval; absent with a single trial.
    pub interval: Option<[f64; 2]>,
    /// `true` if the value of some trial is only a lower bound.
    pub at_least: bool,
    /// `true` if the lower end of the interval is only a lower bound.
    pub low_at_least: bool,
    /// Ratio to the best; absent for the best itself, and if there is no ratio.
    pub to_best: Option<Compared>,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: ContenderVerdict,
    /// The ways in which it weakens what survives a power cut, or may, one line each; empty if it is durable.
    pub risks: Vec<String>,
    /// The basis for saying whether it is durable.
    #[serde(rename = "durable")]
    pub basis: Basis,
    /// The losses of these trials in power cuts; absent under other workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<Losses>,
    /// Number of settings that differ from their defaults.
    pub changes: usize,
    /// The reason, other than the configuration, that may explain the difference to the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// A ratio to something else.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// Above 1, the value of the measure is larger.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// The p value, corrected for the number of comparisons if a verdict is based on it.
    pub p: Option<f64>,
    /// `true` if it was computed within blocks.
    pub paired: bool,
    /// Number of blocks or trials that it is based on.
    pub n: usize,
}

/// The verdict on a configuration compared with the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum ContenderVerdict {
    /// It is the best; among those that weaken nothing, if there are any.
    Best,
    /// The pick of a race, with which the others are compared in place of the best.
    Pick,
    /// As good as the best, within the threshold.
    AsGood,
    /// The trials do not decide.
    CannotTell {
        /// About how many trials of each would decide; absent if 99 would not, and for lower bounds
        /// and doubts.
        needed: Option<usize>,
    },
    /// Worse, by more than the threshold.
    Worse,
    /// The trials do not tell it from the best, but it is worse than the default by more than the threshold,
    /// so that it is not the best.
    WorseThanDefault,
    /// Better than the best, but less safe.
    BetterAndWeaker,
    /// No trial has a value.
    Unknown,
}

impl Compared {
    pub(super) fn new(ratio: &Ratio, p: Option<f64>) -> Self {
        Compared {
            ratio: ratio.value,
            interval: ratio.interval.map(|interval| [interval.low, interval.high]),
            p,
            paired: ratio.paired,
            n: ratio.n,
        }
    }
}

impl Contender {
    /// Returns whether none of its settings weakens what survives a power cut, or may.
    pub fn is_durable(&self) -> bool {
        self.risks.is_empty()
    }

    /// Returns whether it may win against the best: it has a value, is as safe in a power cut, and achieved
    /// something in every trial if the best did.
    pub(crate) fn is_rival_of(&self, best: &Contender) -> bool {
        self.case != best.case
            && self.value.is_some()
            && (self.is_durable() || !best.is_durable())
            && (self.zero == 0 || best.zero > 0)
    }

    /// Returns whether it worked in every trial: none failed, has no value, or achieved nothing. A missing
    /// trial may have been the worst.
    pub fn is_complete(&self) -> bool {
        self.failed == 0 && self.with_value == self.trials && self.zero == 0
    }
}

/// The trials of a case.
pub(super) fn of_case<'a>(trials: &[&'a TrialRecord], case: u32) -> impl Iterator<Item = &'a TrialRecord> {
    trials.iter().copied().filter(move |trial| trial.case == case)
}

/// The number of pairs of these things, any of which could have been the best.
pub(crate) fn pairs(things: usize) -> usize {
    things * things.saturating_sub(1) / 2
}

/// The default: of those with a value that weaken nothing, if there are any, the one with the fewest settings
/// changed, the first of the plan among equals.
pub(super) fn default(standings: &[Contender]) -> Option<usize> {
    let valued = standings.iter().enumerate().filter(|(_, one)| one.value.is_some());
    valued.min_by_key(|(_, one)| (!one.is_durable(), one.changes, one.case)).map(|(index, _)| index)
}

/// The name of the default: `default`, or `baseline` ([`name_of_kept`]).
pub(super) fn called(standings: &[Contender], default: usize) -> &'static str {
    name_of_kept(&standings[default].configuration, standings.iter().map(|one| &one.configuration))
}
