//! Measures of flows as a whole.

use super::{Statistic, Unit, Value, role_in};
use crate::figures::Quotient;
use crate::operation::Operation;
use crate::result::{PhaseResult, Quantile, TrialRecord};
use crate::workload::measures::FlowFigure;
use crate::workload::{Workload, flow};

impl FlowFigure {
    pub(super) const fn unit(self) -> Unit {
        match self {
            FlowFigure::Iterations | FlowFigure::Capacity => Unit::ItemsPerSecond,
            FlowFigure::Response(_) => Unit::Nanoseconds,
        }
    }

    pub(super) fn of(self, trial: &TrialRecord) -> Option<Value> {
        let phase = trial.phases.iter().find(|phase| phase.name == flow::PHASE)?;
        match self {
            FlowFigure::Iterations => {
                let rate: f64 = phase.roles.iter().map(|role| role.rates.items_per_s).sum();
                Some(Quotient::over(rate, phase.window_ns.as_secs_f64()).into())
            }
            FlowFigure::Capacity => {
                let mut searches =
                    phase.roles.iter().filter_map(|role| role.open_loop.as_ref()?.search.as_ref());
                let found = searches.next()?;
                // A configuration that met the target at no rate has no capacity; without a value it would
                // leave the ranking to those that did, whatever they cost.
                Some(match found.highest_per_s {
                    Some(highest) => Value::bound(highest, !found.has_limit),
                    None => Value::exact(0.0),
                })
            }
            FlowFigure::Response(quantile) => response(quantile, &trial.workload, phase),
        }
    }
}

/// Roles in the background are not what the flow is measured by.
fn response(quantile: Quantile, workload: &Workload, phase: &PhaseResult) -> Option<Value> {
    let Workload::Flow(flow) = workload else { return None };
    let paced = flow.roles.0.iter().filter(|role| role.rate.is_some() && !role.background);
    let each = paced.filter_map(|role| {
        let operations = &role_in(phase, role.role)?.operations;
        let response = operations.iter().find(|result| result.operation == Operation::ResponseTime)?;
        Statistic::Quantile(quantile).of(&response.lat_ns, response.censored)
    });
    // One that is only a lower bound may have become the longest.
    each.reduce(|a, b| Value::bound(a.value.max(b.value), a.at_least || b.at_least))
}
