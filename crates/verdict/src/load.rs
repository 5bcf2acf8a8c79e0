//! What ran on configurations: only under the same load are they compared.

use crate::outcomes::is_measured;
use crate::text::whose_trees;
use fsdyno_core::axis::OF_THE_LOAD;
use fsdyno_core::{TrialRecord, Workload};

/// The loads of the measured trials, in the plan's order.
pub(crate) fn loads(trials: &[TrialRecord]) -> Vec<Load<'_>> {
    let measured: Vec<&TrialRecord> = trials.iter().filter(|trial| is_measured(trial)).collect();
    let mut workloads: Vec<(&Workload, Vec<&TrialRecord>)> = Vec::new();
    for trial in measured {
        match workloads.iter_mut().find(|(workload, _)| **workload == trial.workload) {
            Some((_, own)) => own.push(trial),
            None => workloads.push((&trial.workload, vec![trial])),
        }
    }
    let mut loads: Vec<(u32, Load<'_>)> = Vec::new();
    let all: Vec<&Workload> = workloads.iter().map(|(workload, _)| *workload).collect();
    for (workload, own) in workloads {
        let varied = varied(&own);
        let alike = all.iter().copied().filter(|other| is_alike(workload, other));
        let differences = workload.differences(alike);
        for trial in own.into_iter().filter(|trial| !trial.sentinel) {
            let conditions = varied.iter().map(|axis| (*axis, level(trial, axis))).collect();
            let environment = &trial.environment;
            let load = Load {
                workload,
                conditions,
                clients: environment.clients.len(),
                shared_trees: environment.shared_trees,
                differences: differences.clone(),
            };
            match loads.iter_mut().find(|(_, known)| *known == load) {
                Some((case, _)) => *case = trial.case.min(*case),
                None => loads.push((trial.case, load)),
            }
        }
    }
    loads.sort_by_key(|(case, _)| *case);
    loads.into_iter().map(|(_, load)| load).collect()
}

/// Whether the titles of two workloads do not tell them apart.
fn is_alike(one: &Workload, other: &Workload) -> bool {
    one.kind() == other.kind() && one.load().title() == other.load().title()
}

/// The conditions in which trials of one workload differ.
fn varied(trials: &[&TrialRecord]) -> Vec<&'static str> {
    let differ = |axis: &&str| {
        let mut levels = trials.iter().map(|trial| trial.configuration.level(axis));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    OF_THE_LOAD.into_iter().filter(differ).collect()
}

fn level<'a>(trial: &'a TrialRecord, axis: &str) -> &'a str {
    trial.configuration.level(axis).unwrap_or("default")
}

/// A workload under the conditions that a plan varies with it. How much memory there is and what is in it is
/// nothing that a user could choose by mkfs or mount: such levels are compared within, and not recommended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load<'a> {
    pub workload: &'a Workload,
    /// Axis and level.
    conditions: Vec<(&'static str, &'a str)>,
    /// How many other machines did it.
    clients: usize,
    /// Whether all of these read the same trees.
    shared_trees: bool,
    /// What tells its workload from others that their titles do not tell it from.
    differences: String,
}

impl<'a> Load<'a> {
    /// Whether a trial ran under it.
    pub fn has(&self, trial: &TrialRecord) -> bool {
        trial.workload == *self.workload
            && self.conditions.iter().all(|(axis, found)| level(trial, axis) == *found)
    }

    /// What ran, in one line.
    pub fn title(&self) -> String {
        let conditions = self.conditions.iter().map(|(axis, level)| format!(", {axis}={level}"));
        let clients = match self.clients {
            0 => String::new(),
            // Roles of flows are called clients, too.
            1 => ", on 1 machine".to_string(),
            several => format!(", on each of {several} machines"),
        };
        let trees = whose_trees(self.shared_trees);
        let conditions = conditions.collect::<String>();
        self.workload.load().title() + &self.differences + &clients + trees + &conditions
    }
}
