//! The facts about a sweep besides its trials.

use crate::looks::Looks;
use crate::measure::Measure;
use crate::race::RaceRules;
use serde::Serialize;

/// The facts that a report states about a sweep besides its trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepHeader {
    /// Identifier in the store.
    pub id: String,
    /// Name of the plan.
    pub name: String,
    /// The plan as executed.
    pub plan_toml: String,
    /// The changes that the command line made to the plan: `path=value`.
    pub overrides: Vec<String>,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC; `None` while it runs, and if it was interrupted.
    pub finished: Option<String>,
    /// Seed of the sweep.
    pub seed: u64,
    /// The measure that the summary ranks by.
    pub measure: Measure,
    /// The rules of the race, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub race: Option<RaceRules>,
    /// The looks at its trials that decided how many there are, if they did.
    #[serde(skip_serializing_if = "Looks::is_empty")]
    pub looks: Looks,
    /// The text that selected the cases that are shown, if not all of them are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
}
