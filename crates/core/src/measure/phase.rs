//! The selection of the phase of a trial that a measure is about.

use super::{Measure, MeasureSource};
use crate::operation::Role;
use crate::result::{PhaseResult, TrialRecord};
use crate::workload::measures::PhaseSelector;

impl PhaseSelector {
    pub(super) fn find<'a>(&self, trial: &'a TrialRecord) -> Option<&'a PhaseResult> {
        trial.phases.iter().find(|phase| self.is(phase))
    }

    fn is(&self, phase: &PhaseResult) -> bool {
        // Each client has the workers of the plan.
        let clients = phase.clients.iter().filter(|client| client.lost.is_none()).count().max(1) as u32;
        let mut workers: Vec<_> = phase
            .roles
            .iter()
            .filter(|role| role.workers > 0)
            .map(|role| (role.role, role.workers / clients))
            .collect();
        workers.sort_unstable();
        match self {
            PhaseSelector::OneReader => workers == [(Role::Reader, 1)],
            PhaseSelector::ManyReaders => matches!(workers[..], [(Role::Reader, 2..)]),
            PhaseSelector::ReadersAndWriters => matches!(workers[..], [(Role::Reader, _), (Role::Writer, _)]),
            PhaseSelector::Workers(wanted) => workers == *wanted,
            PhaseSelector::Named(name) => phase.name == *name,
        }
    }
}

impl Measure {
    /// Returns whether what happens in the phase with this name can move it in this trial. The steps outside
    /// the phases, and what counts all phases, can be moved by any.
    pub fn covers(&self, trial: &TrialRecord, phase: &str) -> bool {
        match &self.source {
            MeasureSource::Role(selector, ..) | MeasureSource::Operation(selector, ..) => {
                selector.find(trial).is_none_or(|own| own.name == phase)
            }
            MeasureSource::Durable => {
                trial.phases.iter().any(|own| own.name == phase && own.durable.is_some())
            }
            _ => true,
        }
    }

    /// Returns whether it describes the work of a role in the phase with this name.
    pub fn is_of_phase(&self, name: &str) -> bool {
        match &self.source {
            MeasureSource::Role(PhaseSelector::Named(phase), ..)
            | MeasureSource::Operation(PhaseSelector::Named(phase), ..) => phase == name,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{ClientResult, ClientWork, CpuTime, RoleResult};
    use crate::units::Nanos;

    fn client(lost: Option<&str>) -> ClientResult {
        ClientResult {
            client: "x".to_string(),
            work: ClientWork::default(),
            roles: Vec::new(),
            cpu: CpuTime::default(),
            late_ns: None,
            active_ns: Nanos(1),
            telemetry: None,
            clock_before: None,
            clock_after: None,
            lost: lost.map(str::to_string),
        }
    }

    #[test]
    fn a_phase_of_several_clients_is_that_of_each() {
        let role = RoleResult::unwatched(Role::Reader, 3);
        let mut phase = PhaseResult::lasting("1 reader", Nanos(1), vec![role]);
        assert!(PhaseSelector::ManyReaders.is(&phase));
        phase.clients = vec![client(None), client(Some("gone")), client(None), client(None)];
        assert!(PhaseSelector::OneReader.is(&phase) && !PhaseSelector::ManyReaders.is(&phase));
    }
}
