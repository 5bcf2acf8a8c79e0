//! A plan as a race: what must hold for it, and what a stored one was.

use super::document::{Document, Section};
use super::protocol::{self, Protocol};
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
    let plan = Section::new(&document, &root, raw::PLAN).ok()?;
    let protocol = plan.word("protocol").ok()?.unwrap_or(Protocol::Exhaustive);
    protocol::race(&plan, protocol, protocol::budget(&plan, "budget").ok()?).ok()?
}

/// Refuses a plan that cannot be a race.
pub(super) fn check(document: &Document, raw: &RawPlan<'_>, plan: &Plan) -> Result<(), PlanError> {
    let Some(budget) = plan.race else { return Ok(()) };
    let error = |key: &str, problem| Err(raw.error(key, problem));
    if raw.enough.is_some_and(|enough| !enough.is_auto()) {
        return error("repetitions", PlanProblem::NotInRace { key: "until" });
    }
    if raw.rules.time_limit.is_some() {
        return error("time_limit", PlanProblem::NotInRace { key: "time_limit" });
    }
    if let Some(second) = raw.workloads.get(1) {
        let problem = PlanProblem::RaceOfWorkloads { count: raw.workloads.len() };
        return Err(document.error(&second.node.origin, problem));
    }
    if plan.models.len() > 1 {
        let problem = PlanProblem::RaceOfLoads { what: "model" };
        return Err(raw.error("device", problem));
    }
    if let Some(axis) = CONDITIONS.into_iter().find(|axis| plan.varies(axis)) {
        let own = raw.parts.axes.iter().find(|one| one.name == axis);
        let at = own.map_or(raw.at("axes"), |one| &one.at);
        return Err(document.error(at, PlanProblem::RaceOfLoads { what: axis }));
    }
    if plan.measure.is_often_zero() {
        return error("measure", PlanProblem::RaceForZeros { measure: plan.measure.name().to_string() });
    }
    let configurations = plan.configurations.iter().filter(|one| Planned::makes_sense(one)).count();
    let trials = budget.trials();
    let least = match Schedule::new(configurations, trials, None, true) {
        Ok(_) => Schedule::least(configurations, true),
        Err(found) => {
            let key = if trials.is_some() && configurations > 1 { "budget" } else { "axes" };
            return error(key, PlanProblem::Race(found));
        }
    };
    if let RaceBudget::Time(time) = budget {
        let needed = Nanos(least_time(plan).0.saturating_mul(least.into()));
        if needed > usable(time) {
            return error("budget", PlanProblem::RaceTooShort { time, configurations, least, needed });
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
