//! Where a load on several clients is: where the last of them is.

use fsdyno_core::glance::{OfferedRate, RoleGlance, Waiting};
use fsdyno_core::{EngineEvent, Glance, Nanos, Progress, TrialStep};

/// Where one client is.
#[derive(Debug, Clone)]
pub(crate) struct ClientProgress {
    /// The number of phases that the client has completed.
    pub phases: u32,
    pub within: Progress,
}

impl ClientProgress {
    /// Grows as the client gets on, within the steps between two phases.
    pub fn order(&self) -> (u32, TrialStep, Option<f64>) {
        (self.phases, self.within.step, self.within.done)
    }
}

/// The progress of all; nothing until each has reported some.
pub(crate) fn combined(clients: &[(&str, Option<&ClientProgress>)]) -> Option<EngineEvent> {
    let all: Vec<(&str, &ClientProgress)> =
        clients.iter().map(|(name, progress)| Some((*name, (*progress)?))).collect::<Option<_>>()?;
    let by_order = |a: &&(&str, &ClientProgress), b: &&(&str, &ClientProgress)| {
        a.1.order().partial_cmp(&b.1.order()).unwrap_or(std::cmp::Ordering::Equal)
    };
    let (_, last) = all.iter().min_by(by_order)?;
    let together = all.iter().filter(|(_, one)| one.within.is_like(&last.within));
    let glances: Vec<(&str, &Glance)> =
        together.filter_map(|(name, one)| Some((*name, one.within.glance.as_deref()?))).collect();
    Some(EngineEvent::Progress(Progress {
        left_ns: all.iter().filter_map(|(_, one)| one.within.left_ns).max(),
        glance: glance(&glances).map(Box::new),
        ..last.within.clone()
    }))
}

/// Returns the activity of the workers of all clients.
fn glance(clients: &[(&str, &Glance)]) -> Option<Glance> {
    let (_, first) = clients.first()?;
    let roles = first.roles.iter().map(|role| {
        let same = clients.iter().flat_map(|(name, glance)| {
            glance.roles.iter().filter(|other| other.role == role.role).map(move |other| (*name, other))
        });
        same.fold(RoleGlance::nothing(role.role), |sum, (name, other)| add(sum, name, other))
    });
    Some(Glance {
        length_ns: clients.iter().map(|(_, glance)| glance.length_ns).max().unwrap_or_default(),
        roles: roles.collect(),
        machine: None,
        cost_ns: Nanos(clients.iter().map(|(_, glance)| glance.cost_ns.0).sum()),
    })
}

fn add(sum: RoleGlance, client: &str, other: &RoleGlance) -> RoleGlance {
    let theirs = other
        .waiting
        .as_ref()
        .map(|waiting| Waiting { directory: format!("{client}:{}", waiting.directory), ..waiting.clone() });
    let waiting = match (sum.waiting, theirs) {
        (Some(a), Some(b)) => {
            let workers = a.workers + b.workers;
            let longest = if a.for_ns >= b.for_ns { a } else { b };
            Some(Waiting { workers, ..longest })
        }
        (one, other) => one.or(other),
    };
    let offered = match (sum.offered, other.offered) {
        (Some(a), Some(b)) => {
            Some(OfferedRate { per_second: a.per_second + b.per_second, is_tried: a.is_tried || b.is_tried })
        }
        (one, other) => one.or(other),
    };
    RoleGlance {
        role: sum.role,
        workers: sum.workers + other.workers,
        operations: sum.operations + other.operations,
        busy_ns: Nanos(sum.busy_ns.0 + other.busy_ns.0),
        slowest_ns: sum.slowest_ns.max(other.slowest_ns),
        bytes: sum.bytes + other.bytes,
        waiting,
        offered,
    }
}
