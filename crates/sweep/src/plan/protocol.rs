//! How the trials of a plan are spent: the keys `protocol`, `budget` and `reuse`.

use super::document::{Node, Section};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::RaceBudget;

/// The names of protocols.
const PROTOCOLS: [&str; 2] = ["exhaustive", "race"];
/// The values of `reuse`.
const REUSE: [&str; 2] = ["none", "prepared"];

/// What the sweep may spend if it is a race; `None` if it is none.
pub(super) fn asked(plan: &Section<'_>) -> Result<Option<RaceBudget>, PlanError> {
    let is_race = match plan.string("protocol")? {
        None => false,
        Some(name) if PROTOCOLS.contains(&name) => name == PROTOCOLS[1],
        Some(name) => {
            return Err(plan.error("protocol", PlanProblem::unknown_word("protocol", name, &PROTOCOLS)));
        }
    };
    let budget = match plan.get("budget").map(Node::scalar) {
        None => None,
        Some(text) => match text.as_deref().map(str::parse::<RaceBudget>) {
            Some(Ok(budget)) => Some(budget),
            _ => return Err(plan.refuse("budget", "a number of trials or a time, such as 200 or 24h")),
        },
    };
    match (is_race, budget) {
        (false, Some(_)) => Err(plan.error("budget", PlanProblem::BudgetWithoutRace)),
        (false, None) => Ok(None),
        (true, budget) => Ok(Some(budget.unwrap_or_default())),
    }
}

/// Whether trials begin with copies of what was prepared once.
pub(super) fn reuses(plan: &Section<'_>) -> Result<bool, PlanError> {
    match plan.string("reuse")? {
        None => Ok(false),
        Some(word) if REUSE.contains(&word) => Ok(word == REUSE[1]),
        Some(word) => Err(plan.error("reuse", PlanProblem::unknown_word("reuse", word, &REUSE))),
    }
}
