//! The requirements on a plan whose trials begin with copies of a filesystem that was prepared once, and the
//! number of configurations that share it.

use super::Plan;
use super::protocol::Reuse;
use super::raw::RawPlan;
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::configuration::Traces;
use fsdyno_core::device::{Image, Preallocation};
use fsdyno_core::{DeviceSpec, Workload};
use std::collections::BTreeMap;

/// Refuses a plan whose trials cannot begin with copies, or in which no two would begin with the same.
pub(super) fn check(raw: &RawPlan<'_>, plan: &Plan) -> Result<(), PlanError> {
    if plan.rules.reuse == Reuse::None {
        return Ok(());
    }
    let reason = unfit(plan).map(|reason| PlanProblem::NoReuse { reason });
    reason.map_or(Ok(()), |problem| Err(raw.error("reuse", problem)))
}

fn unfit(plan: &Plan) -> Option<String> {
    let plain = |spec: &DeviceSpec| match spec {
        DeviceSpec::Image(Image { preallocate, model, .. }) => {
            *preallocate == Preallocation::None && model.is_none()
        }
        _ => false,
    };
    if let Some(spec) = plan.devices.all().find(|spec| !plain(spec)) {
        return Some(format!("it copies sparse images, and '{spec}' is not one"));
    }
    let mut planned = plan.configurations.iter().filter(|one| one.makes_sense());
    if let Some(kernel) = planned.find_map(|one| one.configuration.guest_kernel()) {
        return Some(format!("disks of guests are new in each trial, and kernel '{kernel}' runs in one"));
    }
    if let Some(other) = plan.workloads.iter().find(|workload| !workload.load().prepares_apart()) {
        let without = match other {
            Workload::Streaming(_) => "; with stages that do not begin with \"write\" it has one",
            _ => "",
        };
        return Some(format!(
            "workload '{}' has no part that only creates files, so there is nothing to prepare{without}",
            other.name()
        ));
    }
    let sharing = plan.sharing();
    if sharing.values().sum::<u32>() < 2 {
        return Some("the plan has a single configuration, so nothing would be used twice".to_string());
    }
    let shared = sharing.values().any(|configurations| *configurations > 1);
    (!shared).then(|| {
        "each configuration has its own mkfs settings, or others that decide where files are written, so no \
         two could begin with the same"
            .to_string()
    })
}

impl Plan {
    /// Returns the number of configurations that begin with copies of the same filesystem under a workload,
    /// for each such filesystem; empty if trials do not begin with copies.
    pub(super) fn sharing(&self) -> BTreeMap<Traces<'_>, u32> {
        let mut sharing = BTreeMap::new();
        for one in
            self.configurations.iter().filter(|one| self.rules.reuse == Reuse::Prepared && one.makes_sense())
        {
            *sharing.entry(one.configuration.traces()).or_default() += 1;
        }
        sharing
    }

    /// The most filesystems that are kept to be copied at any time: those of a block.
    pub(crate) fn kept_to_be_copied(&self) -> u64 {
        (self.sharing().len() * self.workloads.len()) as u64
    }
}
