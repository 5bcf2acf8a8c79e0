//! A plan that repeats until its answer is decided: what must hold for it.

use super::Plan;
use super::raw::RawPlan;
use crate::error::{PlanError, PlanProblem};

/// Refuses a plan that no number of repetitions decides by its rules.
pub(super) fn check(raw: &RawPlan<'_>, plan: &Plan) -> Result<(), PlanError> {
    if !plan.enough.is_some_and(|enough| enough.is_auto()) {
        return Ok(());
    }
    let error = |problem| Err(raw.error("repetitions", problem));
    if plan.workloads.iter().all(|workload| workload.is_recorded()) {
        return error(PlanProblem::AutoOfRecorded);
    }
    match plan.measure.is_often_zero() {
        true => error(PlanProblem::AutoForZeros { measure: plan.measure.name().to_string() }),
        false => Ok(()),
    }
}

impl Plan {
    /// Returns whether repeating until the answer is decided makes sense for this plan: it compares something
    /// by a measure of a load.
    pub(crate) fn can_decide(&self) -> bool {
        let is_load = self.workloads.iter().any(|workload| !workload.is_recorded());
        let compares = self.configurations.len() > 1;
        self.race.is_none() && is_load && compares && !self.measure.is_often_zero()
    }
}
