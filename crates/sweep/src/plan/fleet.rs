//! `[fleet]`: machines that share the trials of a plan, and the disks that they have.

use super::Plan;
use super::device::disk_of;
use super::document::{Document, Origin, Section};
use super::keys::{self, names};
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

/// `[fleet]`, with the place of each path.
#[derive(Debug)]
pub(super) struct RawFleet {
    pub plan: FleetPlan,
    pub at: Origin,
    paths: Vec<(PathBuf, Origin)>,
}

/// Reads the table.
pub(super) fn fleet(document: &Document, plan: &Section<'_>) -> Result<Option<RawFleet>, PlanError> {
    let Some(node) = plan.get("fleet") else { return Ok(None) };
    let table = Section::new(document, node, "[fleet]")?;
    table.only(&names(&[keys::FLEET]))?;
    let count = table.required("count", table.integer("count", 1..=MAX_MACHINES)?)?;
    let (mut disks, mut paths) = (BTreeMap::new(), Vec::new());
    if let Some(node) = table.get("disks") {
        for (machine, entry) in Section::new(document, node, "[fleet.disks]")?.entries() {
            if machine.is_empty() || machine.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err(
                    table.refuse("disks", "a table for each machine, by the name that `hostname` prints")
                );
            }
            let of_machine = Section::new(document, &entry.node, format!("[fleet.disks.{machine}]"))?;
            let mut own = BTreeMap::new();
            for (path, entry) in of_machine.entries() {
                let name = format!("[fleet.disks.{machine}] {path}");
                own.insert(PathBuf::from(path), disk_of(document, &entry.node, name)?);
                paths.push((PathBuf::from(path), entry.key.clone()));
            }
            disks.insert(machine.to_string(), own);
        }
    }
    Ok(Some(RawFleet { plan: FleetPlan { count, disks }, at: plan.at("fleet").clone(), paths }))
}

/// Refuses a plan that no fleet can carry out, and disks in place of none.
pub(super) fn check(document: &Document, fleet: Option<&RawFleet>, plan: &Plan) -> Result<(), PlanError> {
    let Some(fleet) = fleet else { return Ok(()) };
    let refuse = |at: &Origin, reason: String| {
        Err(document.error(at, PlanProblem::NotElsewhere { place: "in a fleet", reason }))
    };
    if let Some(reason) = unfit(plan) {
        return refuse(&fleet.at, reason);
    }
    let disks: BTreeSet<&Path> =
        plan.devices.all().flat_map(DeviceSpec::disks).map(DeviceSpec::path).collect();
    match fleet.paths.iter().find(|(path, _)| !disks.contains(&**path)) {
        None => Ok(()),
        Some((path, at)) => refuse(at, format!("[device] has no disk '{}' to replace", path.display())),
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
