//! A plan: what to sweep, from a TOML file and the arguments that change it.
//!
//! There are two stages. [`raw`] interprets every key on its own and looks only at the text. [`resolve`]
//! handles the rest: it reads profiles, computes percentages of the device, checks that axes fit filesystems
//! and that journals have devices, multiplies the axes, and rejects a plan that contradicts itself.
//!
//! **Axes nest.** An axis that a filesystem does not have collapses for it, so that no case appears twice.
//! `[axes.xfs]` applies only if the filesystem is xfs, and takes precedence there over the same axis in
//! `[axes]`.
//!
//! **Contradictions.** Settings that no machine can combine are an error in a named configuration, and in a
//! product if every point of it has them. Otherwise the point stays in the plan, and its trials are `skipped`
//! with the contradiction as unmet requirement: nothing is dropped silently.
//!
//! **Kernels.** The axis `kernel` says where a configuration runs, not what it is: a named configuration
//! without a kernel runs on each of them.
//!
//! **The impossible.** Published studies have settings that no current tool supports. A named configuration
//! says so with `impossible = "why"`. Such cases are part of the plan, and their trials are skipped with the
//! reason.

mod clients;
mod device;
mod document;
mod file;
mod fleet;
mod hooks;
mod keys;
mod product;
mod protocol;
mod race;
mod raw;
mod resolve;
mod reuse;
mod tables;
mod workload;
mod write_rate;

pub use file::MOST as MAX_PLAN_BYTES;
pub use fleet::FleetPlan;
pub use hooks::{Hooks, PlanCommand};
pub use keys::{Key, KeyTable};
pub use protocol::Reuse;
pub use race::race_budget;
pub use raw::Rules;
pub use resolve::study;
pub use tables::key_tables;
pub use write_rate::{Slowest, closed_loop_name};

pub(crate) use protocol::{AUTO, AUTO_LEAST, AUTO_MOST};

use fsdyno_core::device::{DiskModelText, Image};
use fsdyno_core::result::ServeProtocol;
use fsdyno_core::{
    Configuration, DeviceSpec, Devices, GuestShape, KernelSpec, Measure, Nanos, RaceBudget, Warning, Workload,
};
use fsdyno_verdict::enough::Enough;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A plan, resolved: everything that is to be swept, and how. Members of a fleet are given what concerns
/// single trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name; that of the file if the plan sets none.
    pub name: String,
    /// The text that it was parsed from.
    #[serde(skip)]
    pub text: String,
    /// The `PATH=VALUE` arguments that changed it.
    #[serde(skip)]
    pub overrides: Vec<String>,
    /// The rules by which all of its trials are run.
    pub rules: Rules,
    /// The number of blocks, which is the number of trials of each case; the minimum if `enough` is set. 1 in
    /// a race, of which only the first block has every case.
    pub repetitions: u32,
    /// When a case has been repeated enough; absent if the number of blocks is fixed.
    #[serde(skip)]
    pub enough: Option<Enough>,
    /// The budget of the plan as a race; `None` if it is no race.
    #[serde(skip)]
    pub race: Option<RaceBudget>,
    /// The measure that the summary ranks by.
    pub measure: Measure,
    /// The number of other machines that run the load; `None` if this one runs it.
    pub clients: Option<u32>,
    /// `true` if all of these machines read the same trees.
    pub shared_trees: bool,
    /// The settings with which a server shows them the filesystem; `None` if no server does.
    pub serve: Option<Serve>,
    /// The machines that share its trials, if the sweep is to run on several.
    #[serde(skip)]
    pub fleet: Option<FleetPlan>,
    /// The devices that filesystems are made on.
    pub devices: Devices,
    /// The disks whose times the device has, one after the other; empty if it has those of the machine.
    pub models: Vec<DiskModelText>,
    /// The workloads that run on them.
    pub workloads: Vec<Workload>,
    /// Indices of the workloads whose write rate must be measured before the sweep.
    #[serde(skip)]
    pub(crate) unmeasured_rates: Vec<usize>,
    /// The commands of the user around trials and phases.
    pub hooks: Hooks,
    /// The machine that guests see.
    pub guest: GuestShape,
    /// The kernels of guests, by the levels of the axis `kernel`.
    pub kernels: BTreeMap<String, KernelSpec>,
    pub(crate) configurations: Vec<Planned>,
}

/// A filesystem that a server shows to clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serve {
    /// The protocol by which they see it.
    pub protocol: ServeProtocol,
    /// Options with which clients mount it, in addition to those of axes.
    pub mount: Vec<String>,
    /// For how long the server is away in each phase, if at all.
    #[serde(default)]
    pub outage: Option<Nanos>,
}

/// A configuration under a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Position in the plan, from 0.
    pub index: u32,
    /// The configuration that is built.
    pub configuration: Configuration,
    /// The device that it is built on: that of the plan, with the times of one of its models.
    pub device: DeviceSpec,
    /// The workload that runs on it.
    pub workload: Workload,
    /// A few words that distinguish the workload, and the disk whose times it has, from others of the plan.
    pub label: Cow<'static, str>,
    /// Notes for the reader of its results: old names that were mapped, and settings that are only close to
    /// what was meant.
    pub warnings: Vec<Warning>,
    /// Settings that no machine can have together; its trials are skipped with them as unmet requirements.
    pub contradictions: Vec<String>,
    /// Why it cannot be built on any machine, as the plan says. Its trials are skipped as well.
    pub impossible: Vec<String>,
    /// The number of cases that begin with copies of the same filesystem, this one included; `None` if each
    /// trial begins with its own.
    pub shared_by: Option<u32>,
}

/// A configuration of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub configuration: Configuration,
    pub warnings: Vec<Warning>,
    pub contradictions: Vec<String>,
    pub impossible: Vec<String>,
}

impl Planned {
    /// Returns whether some machine could run the configuration.
    pub fn makes_sense(&self) -> bool {
        self.contradictions.is_empty() && self.impossible.is_empty()
    }
}

impl Plan {
    /// Returns whether configurations differ in an axis.
    pub(crate) fn varies(&self, axis: &str) -> bool {
        let mut levels = self.configurations.iter().map(|planned| planned.configuration.level(axis));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    }

    /// Returns whether repeating until the answer is decided makes sense for this plan: it compares something
    /// by a measure of a load.
    pub(crate) fn can_decide(&self) -> bool {
        let is_load = self.workloads.iter().any(|workload| !workload.is_recorded());
        let compares = self.configurations.len() > 1;
        self.race.is_none() && is_load && compares && !self.measure.is_often_zero()
    }

    /// Returns the number of cases that each configuration has.
    pub fn loads_of_each(&self) -> usize {
        self.workloads.len() * self.models.len().max(1)
    }

    /// The device in words, with all of the disks whose times it has.
    pub fn device_in_words(&self) -> String {
        let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
        match &self.devices.data {
            DeviceSpec::Image(image) if names.len() > 1 => {
                let all = DiskModelText { name: names.join(", "), text: String::new() };
                DeviceSpec::Image(Image { model: Some(all), ..image.clone() }).to_string()
            }
            data => data.to_string(),
        }
    }

    /// Returns the number of machines that run the load.
    pub(crate) fn machines(&self) -> u64 {
        u64::from(self.clients.unwrap_or(1))
    }

    /// Returns the number of machines that prepare the load.
    pub(crate) fn preparing(&self) -> u64 {
        if self.shared_trees { 1 } else { self.machines() }
    }

    /// Every case: configurations in the order of the axes, the product first, and the workloads innermost.
    pub fn cases(&self) -> Vec<Case> {
        let sharing = self.sharing();
        let labels = Workload::names(&self.workloads);
        let workloads = || self.workloads.iter().zip(&labels);
        let disks = self.disks();
        let loads = || {
            disks.iter().flat_map(|disk| workloads().map(move |(workload, label)| (disk, workload, label)))
        };
        let pairs = self.configurations.iter().flat_map(|planned| loads().map(move |load| (planned, load)));
        (0..)
            .zip(pairs)
            .map(|(index, (planned, (device, workload, label)))| Case {
                index,
                configuration: planned.configuration.clone(),
                device: device.clone(),
                workload: workload.clone(),
                label: match device.model() {
                    Some(model) if disks.len() > 1 => format!("{label} on {}", model.name).into(),
                    _ => label.clone(),
                },
                warnings: [planned.warnings.clone(), workload.idle_parameters()].concat(),
                contradictions: planned.contradictions.clone(),
                impossible: planned.impossible.clone(),
                shared_by: sharing.get(&planned.configuration.traces()).copied(),
            })
            .collect()
    }

    /// The device with the times of each of its models.
    fn disks(&self) -> Vec<DeviceSpec> {
        let with = |model: &DiskModelText| match &self.devices.data {
            DeviceSpec::Image(image) => {
                DeviceSpec::Image(Image { model: Some(model.clone()), ..image.clone() })
            }
            other => other.clone(),
        };
        match &self.models[..] {
            [] => vec![self.devices.data.clone()],
            models => models.iter().map(with).collect(),
        }
    }
}
