//! The loads that ran on configurations: only under the same load are they compared.

use crate::outcomes::is_measured;
use crate::text::whose_trees;
use fsdyno_core::axis::CONDITIONS;
use fsdyno_core::device::DiskModelText;
use fsdyno_core::measure::{Direction, Measure};
use fsdyno_core::{Bytes, Nanos, Role, TrialRecord, Workload};
use std::borrow::Cow;

/// The loads of the measured trials, in the plan's order.
pub(crate) fn loads(trials: &[TrialRecord]) -> Vec<Load<'_>> {
    let measured: Vec<&TrialRecord> = trials.iter().filter(|trial| is_measured(trial)).collect();
    let titles = Workloads::of(measured.iter().copied());
    let mut workloads: Vec<(&Workload, Vec<&TrialRecord>)> = Vec::new();
    for trial in measured {
        match workloads.iter_mut().find(|(workload, _)| **workload == trial.workload) {
            Some((_, own)) => own.push(trial),
            None => workloads.push((&trial.workload, vec![trial])),
        }
    }
    let mut loads: Vec<(u32, Load<'_>)> = Vec::new();
    for (workload, own) in workloads {
        let varied = varied(&own);
        let title = titles.title(workload);
        for trial in own {
            let conditions = varied.iter().map(|axis| (*axis, level(trial, axis))).collect();
            let environment = &trial.environment;
            let load = Load {
                workload,
                conditions,
                clients: environment.clients.len(),
                shared_trees: environment.shared_trees,
                outage: outage(trial),
                model: trial.configuration.device.model(),
                title: title.clone(),
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

/// The workloads of some trials, which are called so that they can be told apart.
pub struct Workloads<'a> {
    /// Each once, with its own title.
    all: Vec<(&'a Workload, String)>,
}

impl<'a> Workloads<'a> {
    /// Those of these trials, measured or not.
    pub fn of(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Self {
        let mut all: Vec<(&Workload, String)> = Vec::new();
        for trial in trials {
            if !all.iter().any(|(known, _)| **known == trial.workload) {
                all.push((&trial.workload, trial.workload.load().title()));
            }
        }
        Workloads { all }
    }

    /// The name of one of them, with what tells it from the others of that name.
    pub fn name(&self, workload: &Workload) -> Cow<'static, str> {
        workload.name_among(self.all.iter().map(|(other, _)| *other))
    }

    /// Returns a line that describes one of them and distinguishes it from the others.
    pub fn title(&self, workload: &Workload) -> String {
        let title = workload.load().title();
        let is_alike =
            |(other, of_other): &&(&Workload, String)| other.kind() == workload.kind() && *of_other == title;
        let differences = workload.differences(self.all.iter().filter(is_alike).map(|(other, _)| *other));
        title + &differences
    }
}

/// The conditions in which trials of one workload differ.
fn varied(trials: &[&TrialRecord]) -> Vec<&'static str> {
    let differ = |axis: &&str| {
        let mut levels = trials.iter().map(|trial| trial.configuration.level(axis));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    CONDITIONS.into_iter().filter(differ).collect()
}

fn level<'a>(trial: &'a TrialRecord, axis: &str) -> &'a str {
    trial.configuration.level(axis).unwrap_or("default")
}

/// A workload under the conditions that a plan varies with it. How full a filesystem is, or how much memory
/// there is, is nothing that a user could choose by mkfs or mount: such levels are compared within, and not
/// recommended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load<'a> {
    pub workload: &'a Workload,
    /// Axis and level.
    conditions: Vec<(&'static str, &'a str)>,
    /// The number of other machines that did the load.
    clients: usize,
    /// `true` if all of these read the same trees.
    shared_trees: bool,
    /// For how long their server was to be away in each phase.
    outage: Option<Nanos>,
    /// The model of the disk, if it was modelled.
    model: Option<&'a DiskModelText>,
    /// The line that describes the workload and distinguishes it from the others.
    title: String,
}

impl<'a> Load<'a> {
    /// Returns whether a trial ran under this load.
    pub fn has(&self, trial: &TrialRecord) -> bool {
        trial.workload == *self.workload
            && self.model == trial.configuration.device.model()
            && self.conditions.iter().all(|(axis, found)| level(trial, axis) == *found)
    }

    /// Returns the advice on what to set so that reads come from the device; `None` if only the workload's
    /// user can say.
    pub fn remedy_for_memory(&self, trials: &[&TrialRecord]) -> Option<String> {
        let trial = trials.first()?;
        let memory = Bytes(trial.environment.memory_bytes);
        Some(self.workload.load().rereads()?.remedy(trial.configuration.memory(), memory))
    }

    /// Returns a line that describes the load.
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
        let outage =
            self.outage.map(|outage| format!(", with the server away for {outage}")).unwrap_or_default();
        let model = self.model.map(|model| format!(", modelled: {}", model.name)).unwrap_or_default();
        self.title.clone() + &clients + trees + &outage + &model + &conditions
    }
}

/// For how long the server of a trial was to be away in each phase.
pub(crate) fn outage(trial: &TrialRecord) -> Option<Nanos> {
    trial.served.as_ref()?.outage
}

/// Returns the files a second at which this load holds all writers, if a measure is about nothing but how
/// much they write.
pub(crate) fn held_rate(workload: &Workload, measure: &Measure) -> Option<f64> {
    let Workload::Fileserver(load) = workload else { return None };
    let is_amount = measure.role() == Some(Role::Writer) && measure.direction() == Direction::HigherIsBetter;
    (is_amount || measure.is_durable()).then_some(load.write_rate?.per_second)
}

/// Says that writers are held.
pub(crate) fn held_at(rate: f64) -> String {
    format!("writers were held at {rate:.0} files a second (`write_rate`)")
}
