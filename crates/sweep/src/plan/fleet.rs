//! `[fleet]`: machines that share the trials of a plan, and the disks that they have.

use super::Plan;
use super::device::disk_of;
use super::document::{Origin, Section};
use super::keys::table;
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::{DeviceSpec, Devices};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// The maximum number of machines.
const MAX_MACHINES: u32 = 10_000;

/// Machines that share the trials of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetPlan {
    /// The number of machines.
    pub count: u32,
    /// By the name of a machine: what it has in place of the plan's disks, by their paths.
    pub disks: BTreeMap<String, BTreeMap<PathBuf, DeviceSpec>>,
}

table! {
    "[fleet]",
    "Machines that share the trials of the sweep: each block runs on one of them, on its own device. `--fleet \
     --launch` on the command line starts them; see [Fleets](../guide/fleet.md).";
    /// `[fleet]`.
    #[derive(Debug)]
    pub(super) struct FleetKeys {
        count: u32 as required, |table, key| table.integer(key, 1..=MAX_MACHINES), "required: how many";
        disks: Vec<OwnDisk> = Vec::new(), own_disks,
            "disks that a machine has in place of those in `[device]`: `[fleet.disks.NAME]` with lines such as \
             `\"/dev/sdb\" = { block = \"/dev/nvme0n1\" }`";
    }
}

/// A disk that a machine has in place of another.
#[derive(Debug, Clone)]
pub(super) struct OwnDisk {
    machine: String,
    replaced: PathBuf,
    disk: DeviceSpec,
    at: Origin,
}

fn own_disks(fleet: &Section<'_>, key: &'static str) -> Result<Option<Vec<OwnDisk>>, PlanError> {
    let Some(table) = fleet.table(key, "[fleet.disks]")? else { return Ok(None) };
    let mut disks = Vec::new();
    for (machine, entry) in table.entries() {
        if machine.is_empty() || machine.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(fleet.refuse(key, "a table for each machine, by the name that `hostname` prints"));
        }
        let of_machine = Section::new(fleet.document(), &entry.node, format!("[fleet.disks.{machine}]"))?;
        for (path, entry) in of_machine.entries() {
            let name = format!("[fleet.disks.{machine}] {path}");
            disks.push(OwnDisk {
                machine: machine.to_string(),
                replaced: PathBuf::from(path),
                disk: disk_of(&Section::new(fleet.document(), &entry.node, name)?)?,
                at: entry.key.clone(),
            });
        }
    }
    Ok(Some(disks))
}

impl FleetKeys {
    /// The machines, with the disks of each.
    pub fn plan(&self) -> FleetPlan {
        let mut disks: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
        for OwnDisk { machine, replaced, disk, .. } in &self.disks {
            disks.entry(machine.clone()).or_default().insert(replaced.clone(), disk.clone());
        }
        FleetPlan { count: self.count, disks }
    }
}

/// Refuses a plan that no fleet can carry out, and disks in place of none.
pub(super) fn check(section: &Section<'_>, fleet: Option<&FleetKeys>, plan: &Plan) -> Result<(), PlanError> {
    let Some(fleet) = fleet else { return Ok(()) };
    let problem = |reason| PlanProblem::NotElsewhere { place: "in a fleet", reason };
    if let Some(reason) = unfit(plan) {
        return Err(section.error("fleet", problem(reason)));
    }
    let disks: BTreeSet<&Path> =
        plan.devices.all().flat_map(DeviceSpec::disks).map(DeviceSpec::path).collect();
    match fleet.disks.iter().find(|own| !disks.contains(&*own.replaced)) {
        None => Ok(()),
        Some(OwnDisk { replaced, at, .. }) => {
            let reason = format!("[device] has no disk '{}' to replace", replaced.display());
            Err(section.document().error(at, problem(reason)))
        }
    }
}

/// Why no fleet can carry out the plan.
fn unfit(plan: &Plan) -> Option<String> {
    if !plan.hooks.is_empty() {
        return Some("hooks and monitors write their files beside the store".to_string());
    }
    if plan.clients.is_some() && plan.serve.is_none() {
        return Some("[clients] on other machines and a fleet both need --launch".to_string());
    }
    let recorded = plan.workloads.iter().find(|load| load.is_recorded());
    recorded.map(|load| format!("'{}' keeps its logs beside the store", load.name()))
}

impl Plan {
    /// The devices on a machine of the fleet.
    pub(crate) fn devices_on(&self, machine: &str) -> Devices {
        let own = self.fleet.as_ref().and_then(|fleet| fleet.disks.get(machine));
        let mut replace = |disk: &DeviceSpec| {
            let other = own.and_then(|own| own.get(disk.path()));
            Ok::<_, Infallible>(other.unwrap_or(disk).clone())
        };
        let mut on = |spec: &DeviceSpec| {
            let Ok(spec) = spec.on_other_disks(&mut replace);
            spec
        };
        let journals = self.devices.journals.iter();
        Devices {
            data: on(&self.devices.data),
            journals: journals.map(|(name, spec)| (name.clone(), on(spec))).collect(),
        }
    }
}
