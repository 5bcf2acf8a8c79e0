//! Which plans other machines can carry out (`[clients]`).

use super::Plan;
use super::document::Document;
use super::raw::RawPlan;
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::workload::Ramp;
use fsdyno_core::{DeviceSpec, Workload};

/// Refuses a plan that clients cannot carry out.
pub(super) fn check(document: &Document, raw: &RawPlan, plan: &Plan) -> Result<(), PlanError> {
    let reason = plan.clients.and_then(|_| unfit(plan)).map(|reason| PlanProblem::NotOnClients { reason });
    reason.map_or(Ok(()), |problem| Err(document.error(&raw.clients_at, problem)))
}

fn unfit(plan: &Plan) -> Option<String> {
    if !matches!(plan.devices.data, DeviceSpec::Directory { .. }) {
        return Some(format!(
            "they share a directory, and device '{}' is of this machine alone",
            plan.devices.data
        ));
    }
    if plan.quiesce.is_some() {
        return Some("`quiesce` watches devices of this machine only".to_string());
    }
    plan.workloads.iter().find_map(of_workload)
}

fn of_workload(workload: &Workload) -> Option<String> {
    let name = workload.name();
    let load = workload.load();
    match workload {
        Workload::External(_) => {
            return Some(format!("'{name}' is a program, which cannot begin with others"));
        }
        Workload::DeviceRead(_) => return Some(format!("'{name}' reads a device of this machine")),
        Workload::Flow(flow) if flow.rate_search().is_some() => {
            return Some("rate = \"auto\": each client would find a rate of its own".to_string());
        }
        _ => {}
    }
    match load.timing().ramp {
        Ramp::For(_) => None,
        ramp => Some(format!("ramp = \"{ramp}\": windows of clients begin together, after a fixed time")),
    }
}
