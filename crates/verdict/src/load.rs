//! What ran on configurations: only under the same load are they compared.

use crate::outcomes::is_measured;
use fsdyno_core::axis::OF_THE_LOAD;
use fsdyno_core::{TrialRecord, Workload};

/// The loads of the measured trials, in the plan's order.
pub(crate) fn loads(trials: &[TrialRecord]) -> Vec<Load<'_>> {
    let mut measured: Vec<&TrialRecord> =
        trials.iter().filter(|trial| is_measured(trial) && !trial.sentinel).collect();
    measured.sort_by_key(|trial| trial.case);
    let mut loads: Vec<Load<'_>> = Vec::new();
    for trial in measured {
        let load = Load::of(trial, trials);
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    loads
}

/// A workload under the conditions that a plan varies with it. How much memory there is and what is in it is
/// nothing that a user could choose by mkfs or mount: such levels are compared within, and not recommended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load<'a> {
    pub workload: &'a Workload,
    /// Axis and level.
    conditions: Vec<(&'static str, &'a str)>,
}

impl<'a> Load<'a> {
    fn of(trial: &'a TrialRecord, trials: &[TrialRecord]) -> Load<'a> {
        let workload = &trial.workload;
        let level = |trial: &'a TrialRecord, axis| trial.configuration.level(axis).unwrap_or("default");
        let varies = |axis: &&str| {
            let others = trials.iter().filter(|other| is_measured(other) && other.workload == *workload);
            let mut others = others.map(|other| other.configuration.level(axis));
            others.any(|other| other != trial.configuration.level(axis))
        };
        let axes = OF_THE_LOAD.into_iter().filter(varies);
        Load { workload, conditions: axes.map(|axis| (axis, level(trial, axis))).collect() }
    }

    /// Whether a trial ran under it.
    pub fn has(&self, trial: &TrialRecord) -> bool {
        let same =
            |(axis, level): &(&str, &str)| trial.configuration.level(axis).unwrap_or("default") == *level;
        trial.workload == *self.workload && self.conditions.iter().all(same)
    }

    /// What ran, in one line.
    pub fn title(&self) -> String {
        let conditions = self.conditions.iter().map(|(axis, level)| format!(", {axis}={level}"));
        self.workload.load().title() + &conditions.collect::<String>()
    }
}
