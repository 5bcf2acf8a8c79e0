//! The beginning of the sweep of a fleet: what is confirmed for which machine, and whether all can run
//! trials.

use super::machine::{Machine, TURN};
use super::wire::{FromMember, MemberReady};
use crate::options::RunOptions;
use crate::plan::{FleetPlan, Plan};
use crate::progress::SweepEvent;
use crate::runner::Here;
use crate::sizes::Sizes;
use crate::sweep_error::SweepError;
use fsdyno_clients::ClientPool;
use fsdyno_core::TrialRecord;
use fsdyno_core::environment::DeviceFacts;
use fsdyno_testbed::Confirmation;
use fsdyno_testbed::guard::Overwrite;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The requirements of each case of the plan that a machine does not meet, and the sizes of its devices.
type Looked = (Vec<Vec<String>>, Sizes);

/// Returns the confirmations for each machine: `--destroy NAME:DEVICE`.
pub(super) fn confirmations(
    plan: &Plan,
    names: &[String],
    confirmation: &Confirmation,
) -> Result<Vec<Confirmation>, SweepError> {
    let unknown = |what: String| SweepError::NoMachine { what, machines: names.to_vec() };
    // With fewer machines than the plan has, some of those that it names are not there.
    if let Some(FleetPlan { disks, count }) = &plan.fleet
        && names.len() >= *count as usize
        && let Some(name) = disks.keys().find(|name| !names.contains(name))
    {
        return Err(unknown(format!("[fleet.disks.{name}]")));
    }
    let mut all = vec![Confirmation::default(); names.len()];
    let place = |device: &Path, option: &str| {
        let text = device.to_string_lossy();
        let found = names.iter().position(|name| {
            text.strip_prefix(&**name).is_some_and(|rest| rest.starts_with(':') && rest.len() > 1)
        });
        let number = found.ok_or_else(|| unknown(format!("--{option} {text}")))?;
        Ok::<_, SweepError>((number, text[names[number].len() + 1..].to_string()))
    };
    for device in &confirmation.destroy {
        let (number, device) = place(device, "destroy")?;
        all[number].destroy.push(device.into());
    }
    for one in &confirmation.overwrite {
        let (number, device) = place(&one.device, "overwrite")?;
        all[number].overwrite.push(Overwrite { device: device.into(), kind: one.kind.clone() });
    }
    for one in &mut all {
        (one.sysctls, one.hooks) = (confirmation.sysctls.clone(), confirmation.hooks);
    }
    Ok(all)
}

/// The devices on which each machine has run trials.
pub(super) fn known_devices(trials: &[TrialRecord]) -> BTreeMap<String, Vec<DeviceFacts>> {
    let mut known: BTreeMap<String, Vec<DeviceFacts>> = BTreeMap::new();
    for trial in trials {
        let Some(machine) = &trial.machine else { continue };
        known.entry(machine.clone()).or_default().extend(trial.environment.devices.iter().cloned());
    }
    for devices in known.values_mut() {
        devices.sort_by(|a, b| (&a.path, &a.serial).cmp(&(&b.path, &b.serial)));
        devices.dedup_by(|a, b| (&a.path, &a.serial, a.size_bytes) == (&b.path, &b.serial, b.size_bytes));
    }
    known
}

/// A disk that another machine has as well, such as a LUN that both see.
fn twice(
    known: &mut BTreeMap<String, String>,
    machine: &str,
    serials: Vec<(PathBuf, String)>,
) -> Option<String> {
    serials.into_iter().find_map(|(path, serial)| {
        let path = path.display();
        let before = known.insert(serial.clone(), format!("'{path}' on {machine}"))?;
        Some(format!("'{path}' has the serial number of {before}, {serial}: is it the same disk?"))
    })
}

/// Returns a member's reason about its own devices, with the options as they are written here.
fn of_machine(reason: &str, name: &str) -> String {
    let reason = reason.strip_prefix("refused, nothing was written\n").unwrap_or(reason);
    let here = ["destroy", "overwrite"].map(|option| format!("--{option} "));
    here.iter().fold(reason.to_string(), |text, option| text.replace(option, &format!("{option}{name}:")))
}

/// Waits until all members can run trials. Returns what no machine has, and what is left of earlier sweeps.
pub(super) fn await_all(
    plan: &Plan,
    pool: &ClientPool,
    machines: &[Machine],
    options: &RunOptions<'_>,
    observer: &mut dyn FnMut(SweepEvent<'_>),
) -> Result<(Here, Vec<String>), SweepError> {
    let mut found: Vec<Option<Result<Looked, String>>> = vec![None; machines.len()];
    let (mut left_before, mut disks) = (Vec::new(), BTreeMap::new());
    while found.iter().any(Option::is_none) {
        if options.interrupt.load(Ordering::Relaxed) {
            (0..machines.len()).for_each(|number| pool.interrupt(number));
            return Err(SweepError::Interrupted);
        }
        if let Some((number, text)) = pool.report(TURN) {
            let name = &machines[number].name;
            found[number] = match serde_json::from_str(&text) {
                Ok(FromMember::Ready(ready)) => {
                    let MemberReady { unmet, sizes, serials, restored, left } = *ready;
                    let undone = restored.iter().map(|line| format!("restored: {line}"));
                    for line in undone.chain(left.iter().map(|line| format!("left behind: {line}"))) {
                        observer(SweepEvent::Machine { name, line: &line });
                    }
                    left_before.extend(left.iter().map(|line| format!("on {name}: {line}")));
                    match twice(&mut disks, name, serials) {
                        Some(reason) => Some(Err(reason)),
                        None => Some(Ok((unmet, sizes))),
                    }
                }
                Ok(FromMember::Refused(reason)) => Some(Err(of_machine(&reason, name))),
                _ => Some(Err("it answered something else than was asked".to_string())),
            };
        }
        for (number, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            *found = pool.lost_member(number).map(|reason| Err(format!("it was lost: {reason}")));
        }
    }
    let refused = machines.iter().zip(&found);
    let refused = refused.filter_map(|(machine, found)| match found {
        Some(Err(reason)) => Some((machine.name.clone(), reason.clone())),
        _ => None,
    });
    let refused: Vec<(String, String)> = refused.collect();
    if !refused.is_empty() {
        return Err(SweepError::RefusedByMachines { refused });
    }
    let ready: Vec<Looked> = found.into_iter().flatten().flatten().collect();
    let sizes = ready.first().map_or_else(|| Sizes::of_plan(plan), |(_, sizes)| *sizes);
    let cases = ready.first().map_or(0, |(unmet, _)| unmet.len());
    // A case is planned if some machine can run it.
    let unmet = (0..cases).map(|case| {
        let mut of_case = ready.iter().map(|(unmet, _)| unmet.get(case).cloned().unwrap_or_default());
        let first = of_case.next().unwrap_or_default();
        of_case.fold(first, |so_far, unmet| if unmet.is_empty() { unmet } else { so_far })
    });
    Ok((Here { unmet: unmet.collect(), sizes }, left_before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_says_of_its_devices_is_said_of_the_machine() {
        let output = "refused, nothing was written\n'/dev/sdb' would be destroyed\n  hint: confirm with --destroy \
                    /dev/sdb and --overwrite /dev/sdb=ext4";
        let here = "'/dev/sdb' would be destroyed\n  hint: confirm with --destroy n3:/dev/sdb and --overwrite \
                    n3:/dev/sdb=ext4";
        assert_eq!(of_machine(output, "n3"), here);
    }

    #[test]
    fn a_disk_that_two_machines_have_is_noticed() {
        let mut known = BTreeMap::new();
        let disk = |path: &str, serial: &str| vec![(PathBuf::from(path), serial.to_string())];
        assert_eq!(twice(&mut known, "n1", disk("/dev/sdb", "A1")), None);
        assert_eq!(twice(&mut known, "n2", disk("/dev/sdb", "A2")), None);
        let reason = twice(&mut known, "n3", disk("/dev/sdc", "A1")).expect("the same disk");
        assert!(reason.contains("'/dev/sdc' has the serial number of '/dev/sdb' on n1, A1"), "{reason}");
    }
}
