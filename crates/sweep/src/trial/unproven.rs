//! Records of trials that have not run: what every trial counts as until it was measured.

use crate::order::Slot;
use crate::plan::Case;
use fsdyno_core::{DeviceSpec, Failure, Outcome, TrialRecord};

/// The fault of a trial of which nothing is known yet.
pub(super) const UNPROVEN: &str = "did not finish";

/// The record of a trial of which nothing is known yet.
pub(crate) fn unproven(slot: &Slot, case: &Case, device: &DeviceSpec) -> TrialRecord {
    let now = jiff::Timestamp::now().to_string();
    let outcome = Outcome::Failed { error: Failure::new("trial", UNPROVEN) };
    TrialRecord {
        trial: slot.trial,
        block: slot.block,
        case: slot.case,
        sentinel: slot.sentinel,
        seed: slot.seed,
        started: now.clone(),
        finished: now,
        warnings: case.warnings.clone(),
        ..TrialRecord::new(case.configuration.clone(), device.clone(), case.workload.clone(), outcome)
    }
}

/// The record of a trial that this machine cannot run. No device is touched.
pub(crate) fn skipped(slot: &Slot, case: &Case, device: &DeviceSpec, unmet: &[String]) -> TrialRecord {
    TrialRecord { outcome: Outcome::Skipped { unmet: unmet.to_vec() }, ..unproven(slot, case, device) }
}

/// The record of a trial that was not started because its device is stuck.
pub(crate) fn not_begun(slot: &Slot, case: &Case, device: &DeviceSpec, left: &[String]) -> TrialRecord {
    let mut error = Failure::new("build", "not started: an earlier trial still holds the device");
    error.details = left.join("\n");
    error.hint = Some("stop what holds the device, or reboot; then run the sweep again".to_string());
    TrialRecord { outcome: Outcome::Failed { error }, ..unproven(slot, case, device) }
}
