//! What a resumed sweep must have in common with its beginning: the plan and the disks.

use crate::error::SweepError;
use crate::plan::Plan;
use fsdyno_core::DeviceSpec;
use fsdyno_core::environment::DeviceFacts;
use fsdyno_host::Host;
use fsdyno_store::{Store, SweepId};
use std::collections::BTreeSet;

/// The numbers of the stored trials.
///
/// # Errors
/// [`SweepError::PlanDiffers`] if the sweep was started with another plan or other overrides, and
/// [`SweepError::DiskDiffers`] if a disk of the plan is not one of those that its trials were measured on.
pub(crate) fn stored_trials(
    plan: &Plan,
    host: &mut dyn Host,
    store: &Store,
    sweep: SweepId,
) -> Result<BTreeSet<u32>, SweepError> {
    let stored = store.sweep(sweep)?;
    if stored.plan_toml != plan.text || stored.overrides != plan.overrides {
        return Err(SweepError::PlanDiffers { sweep, name: stored.summary.name });
    }
    verify_disks(plan, host, store, sweep)?;
    Ok(store.trial_numbers(sweep)?)
}

/// A name such as /dev/sdb may refer to another disk after a reboot, and figures of two disks must not be
/// mixed.
fn verify_disks(plan: &Plan, host: &mut dyn Host, store: &Store, sweep: SweepId) -> Result<(), SweepError> {
    let named = |disk: &&DeviceSpec| matches!(disk, DeviceSpec::Block { .. });
    let disks: Vec<&DeviceSpec> = plan.devices.all().flat_map(DeviceSpec::disks).filter(named).collect();
    if disks.is_empty() {
        return Ok(());
    }
    let trials = store.trials(sweep)?;
    let known: Vec<&DeviceFacts> = trials.iter().flat_map(|trial| &trial.environment.devices).collect();
    if known.is_empty() {
        return Ok(());
    }
    for disk in disks {
        // The guards reject a disk that cannot be examined, and say why.
        let Ok(found) = host.probe_device(disk.path()) else { continue };
        let now = DeviceFacts {
            path: found.canonical.display().to_string(),
            model: found.model,
            serial: found.identity.serial,
            size_bytes: found.identity.size_bytes,
            queue: Default::default(),
        };
        let same = |then: &&DeviceFacts| {
            (&then.model, &then.serial, then.size_bytes) == (&now.model, &now.serial, now.size_bytes)
        };
        if !known.iter().any(same) {
            // The one with the same name says most.
            let then = known.iter().find(|then| then.path == now.path).or(known.first());
            return Err(SweepError::DiskDiffers {
                sweep,
                path: disk.path().to_path_buf(),
                then: then.map_or_else(String::new, |then| described(then)),
                now: described(&now),
            });
        }
    }
    Ok(())
}

/// `2147483648 bytes, WDC WD20, serial 123`.
fn described(facts: &DeviceFacts) -> String {
    let serial = facts.serial.as_ref().map(|serial| format!(", serial {serial}")).unwrap_or_default();
    format!("{} bytes, {}{serial}", facts.size_bytes, facts.model)
}
