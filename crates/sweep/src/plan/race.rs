//! A plan as a race: what must hold for it, and what a stored one was.

use super::document::{Document, Origin, Section};
use super::protocol::asked;
use super::raw::{self, RawPlan};
use super::{Plan, Planned};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::axis::CONDITIONS;
use fsdyno_core::workload::Ramp;
use fsdyno_core::{Nanos, RaceBudget, Workload};
use fsdyno_verdict::race::{Schedule, usable};

/// Returns the budget that a stored sweep had as a race, from the text and the arguments of its plan; `None`
/// if it was no race, or if the text is no plan.
pub fn race_budget(text: &str, overrides: &[String]) -> Option<RaceBudget> {
    let (document, root) = Document::parse("the stored plan", text, overrides, raw::takes_key).ok()?;
    asked(&Section::new(&document, &root, "the plan").ok()?).ok()?
}

/// Refuses a plan that cannot be a race.
pub(super) fn check(document: &Document, raw: &RawPlan, plan: &Plan) -> Result<(), PlanError> {
    let Some(budget) = plan.race else { return Ok(()) };
    let error = |at: &Origin, problem| Err(document.error(at, problem));
    if raw.enough.is_some_and(|enough| !enough.is_auto()) {
        return error(&raw.repetitions_at, PlanProblem::NotInRace { key: "until" });
    }
    if raw.time_limit.is_some() {
        return error(&raw.time_limit_at, PlanProblem::NotInRace { key: "time_limit" });
    }
    if let Some(second) = raw.workloads.get(1) {
        return error(&second.node.origin, PlanProblem::RaceOfWorkloads { count: raw.workloads.len() });
    }
    if let Some(axis) = CONDITIONS.into_iter().find(|axis| plan.varies(axis)) {
        let at = raw.axes.iter().find(|one| one.name == axis).map_or(&raw.axes_at, |one| &one.at);
        return error(at, PlanProblem::RaceOfLoads { axis });
    }
    if plan.measure.is_often_zero() {
        return error(
            &raw.measure_at,
            PlanProblem::RaceForZeros { measure: plan.measure.name().to_string() },
        );
    }
    let configurations = plan.configurations.iter().filter(|one| Planned::makes_sense(one)).count();
    let trials = budget.trials();
    let least = match Schedule::new(configurations, trials, None, true) {
        Ok(_) => Schedule::least(configurations, true),
        Err(found) => {
            let at = if trials.is_some() && configurations > 1 { &raw.budget_at } else { &raw.axes_at };
            return error(at, PlanProblem::Race(found));
        }
    };
    if let RaceBudget::Time(time) = budget {
        let needed = Nanos(least_time(plan).0.saturating_mul(least.into()));
        if needed > usable(time) {
            return error(&raw.budget_at, PlanProblem::RaceTooShort { time, configurations, least, needed });
        }
    }
    Ok(())
}

/// Returns the time that any trial takes at least: its windows, and their ramps if these have a length.
fn least_time(plan: &Plan) -> Nanos {
    let least = |workload: &Workload| {
        let timing = workload.load().timing();
        let ramp = match timing.ramp {
            Ramp::For(ramp) => ramp,
            // How long it lasts is up to the device.
            _ => Nanos(0),
        };
        Nanos(timing.window.0.saturating_add(ramp.0).saturating_mul(timing.windows.into()))
    };
    plan.workloads.first().map_or(Nanos(0), least)
}
