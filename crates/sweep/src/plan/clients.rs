//! Which plans other machines can carry out (`[clients]`), and on what they see (`[serve]`).

use super::Plan;
use super::raw::RawPlan;
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::workload::Ramp;
use fsdyno_core::{DeviceSpec, Nanos, Workload};
use fsdyno_testbed::serve::{self, CLIENTS_MOST};

const SECOND: Nanos = Nanos::from_secs(1);

/// Refuses a plan that clients cannot carry out.
pub(super) fn check(raw: &RawPlan<'_>, plan: &Plan) -> Result<(), PlanError> {
    if let Some(reason) = plan.serve.as_ref().and_then(|_| not_served(plan)) {
        return Err(raw.error("serve", PlanProblem::NotServed { reason }));
    }
    if plan.shared_trees
        && let Some(reason) = plan.workloads.iter().find_map(not_shared)
    {
        let problem = PlanProblem::NotElsewhere { place: "on clients", reason };
        return Err(raw.error_in("clients", "share", problem));
    }
    let reason = plan
        .clients
        .and_then(|_| unfit(plan))
        .map(|reason| PlanProblem::NotElsewhere { place: "on clients", reason });
    reason.map_or(Ok(()), |problem| Err(raw.error("clients", problem)))
}

fn not_served(plan: &Plan) -> Option<String> {
    let Some(count) = plan.clients else {
        return Some("nobody would see it: add [clients] with `count`".to_string());
    };
    if count > CLIENTS_MOST {
        return Some(format!("a server has at most {CLIENTS_MOST} clients, not {count}"));
    }
    if matches!(plan.devices.data, DeviceSpec::Directory { .. }) {
        return Some(format!(
            "what is served is made by fsdyno, and '{}' is a directory; without [serve], --launch starts \
             clients that share it",
            plan.devices.data
        ));
    }
    let on_host = |name: &str| {
        format!(
            "server and clients are guests, and '{name}' has no kernel for them: add kernel = \"debian:6.12\""
        )
    };
    if let Some(reason) = plan.serve.as_ref().and_then(|serve| no_outage(plan, serve.outage?)) {
        return Some(reason);
    }
    let mut configurations = plan.configurations.iter().filter(|planned| planned.impossible.is_empty());
    configurations
        .find(|planned| planned.configuration.guest_kernel().is_none())
        .map(|planned| on_host(&planned.configuration.name))
}

/// Why the server cannot be away in each phase.
fn no_outage(plan: &Plan, outage: Nanos) -> Option<String> {
    let least = plan.least_window()?;
    plan.workloads.iter().find_map(|workload| {
        let (name, timing) = (workload.name(), workload.load().timing());
        match workload {
            Workload::Durability(_) => Some(format!("'{name}' cuts the power itself: remove `outage`")),
            _ if timing.windows > 0 && timing.window < least => Some(format!(
                "with outage = \"{outage}\", the window of '{name}' ({}) would end before clients go on: make it \
                 {least} or longer",
                timing.window
            )),
            _ => None,
        }
    })
}

impl Plan {
    /// The shortest window in which clients go on after an outage of their server, if there is one, in whole
    /// seconds.
    pub(crate) fn least_window(&self) -> Option<Nanos> {
        let serve = self.serve.as_ref()?;
        let outage = serve.outage?;
        let configurations = self.configurations.iter().map(|planned| &planned.configuration);
        let wait = configurations.map(|one| serve::wait_after_outage(serve.protocol, one)).max()?;
        let away = outage.0.saturating_add(wait.0);
        // It begins after a tenth, and a tenth is left for what follows.
        let least = (away / 4).saturating_mul(5).max(outage.0.saturating_mul(2));
        Some(Nanos(least.div_ceil(SECOND.0).saturating_mul(SECOND.0)))
    }
}

/// Why clients cannot read the same trees.
fn not_shared(workload: &Workload) -> Option<String> {
    match workload {
        Workload::Fileserver(load) if load.verify => {
            Some("trees that clients share are not verified: remove `verify` or `share`".to_string())
        }
        Workload::Fileserver(_) => None,
        _ => Some(format!(
            "they can share the trees of fileserver only, not the files of '{}': remove `share`",
            workload.name()
        )),
    }
}

fn unfit(plan: &Plan) -> Option<String> {
    if plan.serve.is_none() && !matches!(plan.devices.data, DeviceSpec::Directory { .. }) {
        return Some(format!(
            "they share a directory, and device '{}' is of this machine alone",
            plan.devices.data
        ));
    }
    if plan.rules.quiesce.is_some() {
        return Some("`quiesce` watches devices of this machine only".to_string());
    }
    plan.workloads.iter().find_map(|workload| of_workload(plan, workload))
}

fn of_workload(plan: &Plan, workload: &Workload) -> Option<String> {
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
        Workload::Durability(_) if plan.serve.is_none() => {
            return Some(format!("'{name}' needs the server's disk, and so [serve]"));
        }
        Workload::Durability(_) if plan.clients != Some(1) => {
            return Some(format!(
                "'{name}' needs a single client that knows what it was promised: count = 1"
            ));
        }
        Workload::IoErrors(_) => return Some(format!("'{name}' runs on the machine that has the disk")),
        _ => {}
    }
    match load.timing().ramp {
        Ramp::For(_) => None,
        ramp => Some(format!("ramp = \"{ramp}\": windows of clients begin together, after a fixed time")),
    }
}
