//! Trials of a flow that is measured with several numbers of clients.

use crate::{configuration, readers, trial};
use fsdyno_core::result::{PhaseResult, TrialRecord};
use fsdyno_core::workload::{Flow, FlowRole, Workload, flow};
use fsdyno_core::{Nanos, Role};

/// Iterations per second of 1, 2, 4 and 8 clients: one trial each of ext4, whose knee is at 4, and of xfs,
/// which has none yet.
pub fn scaled_trials() -> Vec<TrialRecord> {
    let cases = [("ext4", [100.0, 195.0, 350.0, 380.0]), ("xfs", [90.0, 180.0, 360.0, 720.0])];
    let scaled = |(case, (filesystem, rates)): (u32, (&str, [f64; 4]))| {
        let stages = scaled_flow().stages().into_iter().zip(rates);
        let phase = |((name, stage), rate): ((String, Flow), f64)| {
            let mut role = readers(stage.roles.0[0].workers, 50.0);
            role.role = Role::Client;
            role.rates.items_per_s = rate;
            role.rates.items = (rate * 30.0) as u64;
            PhaseResult::lasting(name, Nanos::from_secs(30), vec![role])
        };
        TrialRecord {
            workload: Workload::Flow(scaled_flow()),
            phases: stages.map(phase).collect(),
            ..trial(case, 0, case, configuration(filesystem, "none"), 50.0)
        }
    };
    (0..).zip(cases).map(scaled).collect()
}

fn scaled_flow() -> Flow {
    let client = FlowRole { workers: 8, counts: vec![1, 2, 4, 8], ..FlowRole::of(Role::Client) };
    Flow { roles: flow::FlowRoles(vec![client]), ..Flow::default() }
}
