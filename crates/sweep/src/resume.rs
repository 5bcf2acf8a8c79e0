//! Which sweep `--resume` continues, and what it must have in common with its beginning: the plan and the
//! disks.

use crate::plan::Plan;
use crate::sweep_error::{Differs, SweepError};
use fsdyno_core::environment::DeviceFacts;
use fsdyno_core::{Outcome, TrialRecord, Workload};
use fsdyno_host::Host;
use fsdyno_store::{Origin, Store, Sweep, SweepId, SweepState, SweepSummary};
use std::collections::BTreeSet;

/// The interrupted sweep of a plan, given as its text: the latest one, or the one that is named. `overrides`
/// are the `PATH=VALUE` arguments that the user gives; without any, those that the sweep was begun with
/// count.
///
/// # Errors
/// [`SweepError::PlanDiffers`]; [`SweepError::MeasuredElsewhere`]; [`SweepError::NothingToResume`] with the
/// sweep that the user may have meant; [`SweepError::Store`].
pub fn unfinished(
    store: &Store,
    named: Option<&str>,
    text: &str,
    overrides: &[String],
) -> Result<Sweep, SweepError> {
    if let Some(selector) = named {
        let sweep = store.find(Some(selector))?;
        return match difference(&sweep, text, overrides) {
            None => Ok(sweep),
            Some(differs) => Err(differs),
        };
    }
    // Of those that cannot be continued, the latest that is most like what is wanted.
    let (mut other_arguments, mut over, mut elsewhere, mut other_text) = (None, None, None, None);
    for summary in store.sweeps()?.into_iter().rev() {
        let sweep = store.sweep(summary.id)?;
        let open = summary.state == SweepState::Interrupted;
        match (difference(&sweep, text, overrides), open) {
            (None, true) => return Ok(sweep),
            (None, false) => over = over.or(Some(summary)),
            (Some(error @ SweepError::PlanDiffers { differs: Differs::Overrides { .. }, .. }), true) => {
                other_arguments = other_arguments.or(Some(error));
            }
            (Some(error @ SweepError::MeasuredElsewhere { .. }), _) => elsewhere = elsewhere.or(Some(error)),
            (Some(_), true) if is_named_like(&sweep, text) => other_text = other_text.or(Some(summary)),
            (Some(_), _) => {}
        }
    }
    let (state, candidate) = match (other_arguments, over, elsewhere, other_text) {
        (Some(error), ..) | (None, None, Some(error), _) => return Err(error),
        (None, Some(summary), ..) => (Some(summary.state), Some(summary)),
        (None, None, None, Some(summary)) => (None, Some(summary)),
        (None, None, None, None) => (None, None),
    };
    let candidate = candidate.map(|SweepSummary { id, name, .. }| (id, name));
    Err(SweepError::NothingToResume { state, candidate })
}

/// The interrupted sweep that is named, or the latest one, whatever its plan is.
///
/// # Errors
/// [`SweepError::NothingToResume`]; [`SweepError::MeasuredElsewhere`]; [`SweepError::Store`].
pub fn interrupted(store: &Store, named: Option<&str>) -> Result<Sweep, SweepError> {
    let found = match named {
        Some(selector) => Some(store.find(Some(selector))?),
        None => {
            let sweeps = store.sweeps()?.into_iter().rev();
            let mut open =
                sweeps.filter(|sweep| sweep.state == SweepState::Interrupted && sweep.origin == Origin::Run);
            open.next().map(|sweep| store.sweep(sweep.id)).transpose()?
        }
    };
    match found {
        None => Err(SweepError::NothingToResume { state: None, candidate: None }),
        Some(sweep) => run_here(&sweep).map(|()| sweep),
    }
}

/// Refuses a sweep that was run elsewhere.
fn run_here(sweep: &Sweep) -> Result<(), SweepError> {
    let SweepSummary { id, name, origin, .. } = &sweep.summary;
    match origin {
        Origin::Run => Ok(()),
        _ => Err(SweepError::MeasuredElsewhere { sweep: *id, name: name.clone() }),
    }
}

/// Refuses to add blocks to a sweep that has not ended, to a race, and to trials of another kernel than the
/// one that runs here.
///
/// # Errors
/// [`SweepError::NotEnded`]; [`SweepError::MoreOfRace`]; [`SweepError::KernelDiffers`].
pub(crate) fn verify_can_have_more(
    plan: &Plan,
    sweep: &Sweep,
    trials: &[TrialRecord],
    kernel: Option<&str>,
) -> Result<(), SweepError> {
    let SweepSummary { id, name, state, .. } = &sweep.summary;
    if plan.race.is_some() {
        return Err(SweepError::MoreOfRace { sweep: *id, name: name.clone() });
    }
    if *state != SweepState::Finished {
        return Err(SweepError::NotEnded { sweep: *id, name: name.clone() });
    }
    let on_host = |trial: &&TrialRecord| {
        trial.outcome == Outcome::Measured && trial.configuration.guest_kernel().is_none()
    };
    let then = trials.iter().filter(on_host).map(|trial| trial.environment.kernel.as_str()).next_back();
    match then.zip(kernel).filter(|(then, now)| !then.is_empty() && then != now) {
        None => Ok(()),
        Some((then, now)) => Err(SweepError::KernelDiffers {
            sweep: *id,
            configuration: None,
            then: then.to_string(),
            now: now.to_string(),
        }),
    }
}

/// Why a sweep cannot go on with this plan: how what it was begun with differs, or that it was run elsewhere.
fn difference(sweep: &Sweep, text: &str, overrides: &[String]) -> Option<SweepError> {
    let SweepSummary { id, name, origin, .. } = &sweep.summary;
    let differs = if sweep.plan_toml != text {
        Differs::Text
    } else if !overrides.is_empty() && sweep.overrides != overrides {
        Differs::Overrides { then: sweep.overrides.clone() }
    } else if *origin != Origin::Run {
        return Some(SweepError::MeasuredElsewhere { sweep: *id, name: name.clone() });
    } else {
        return None;
    };
    Some(SweepError::PlanDiffers { sweep: *id, name: name.clone(), differs })
}

/// Returns whether a plan sets the name that a sweep has.
fn is_named_like(sweep: &Sweep, text: &str) -> bool {
    let table: Option<toml::Table> = toml::from_str(text).ok();
    let name = table.as_ref().and_then(|table| table.get("name")?.as_str());
    name == Some(&sweep.summary.name)
}

/// The numbers of the stored trials.
///
/// # Errors
/// [`SweepError::PlanDiffers`] if the sweep was started with another plan, other overrides, or other files
/// than the plan names, and
/// [`SweepError::DiskDiffers`] if a disk of the plan is not one of those that its trials were measured on.
/// Without a host, disks are those of others, who verify them.
pub(crate) fn stored_trials(
    plan: &Plan,
    host: Option<&mut dyn Host>,
    store: &Store,
    sweep: SweepId,
) -> Result<BTreeSet<u32>, SweepError> {
    let stored = store.sweep(sweep)?;
    if let Some(error) = difference(&stored, &plan.text, &plan.overrides) {
        return Err(error);
    }
    if stored.overrides != plan.overrides {
        let differs = Differs::Overrides { then: stored.overrides };
        return Err(SweepError::PlanDiffers { sweep, name: stored.summary.name, differs });
    }
    if let Some(case) = other_load(plan, &store.outlines(sweep)?) {
        let differs = Differs::Files { case };
        return Err(SweepError::PlanDiffers { sweep, name: stored.summary.name, differs });
    }
    if let Some(host) = host {
        let trials = store.trials(sweep)?;
        let known: Vec<DeviceFacts> =
            trials.into_iter().flat_map(|trial| trial.environment.devices).collect();
        verify_disks(plan, host, sweep, &known)?;
    }
    Ok(store.trial_numbers(sweep)?)
}

/// The first case whose stored trials ran another load than the plan has now: the plan may be the same text,
/// but the flow or the jobs in a file that it names may not.
fn other_load(plan: &Plan, stored: &[TrialRecord]) -> Option<u32> {
    // As it comes back from the store, where a number may lose its last digit.
    let as_stored = |workload: &Workload| -> Option<Workload> {
        serde_json::from_str(&serde_json::to_string(workload).ok()?).ok()
    };
    let other = plan.cases().into_iter().find(|case| {
        let now = as_stored(&case.workload);
        let mut trials = stored.iter().filter(|trial| trial.case == case.index);
        trials.any(|trial| now.as_ref().is_some_and(|now| trial.workload != *now))
    });
    other.map(|case| case.index)
}

/// A name such as /dev/sdb may refer to another disk after a reboot, and figures of two disks must not be
/// mixed.
///
/// # Errors
/// [`SweepError::DiskDiffers`]; `known` are those on which trials of this sweep ran.
pub(crate) fn verify_disks(
    plan: &Plan,
    host: &mut dyn Host,
    sweep: SweepId,
    known: &[DeviceFacts],
) -> Result<(), SweepError> {
    if known.is_empty() {
        return Ok(());
    }
    for path in plan.devices.named_disks() {
        // The guards reject a disk that cannot be examined, and say why.
        let Ok(found) = host.probe_device(path) else { continue };
        let now = DeviceFacts {
            path: found.canonical.display().to_string(),
            model: found.model,
            serial: found.identity.serial,
            size_bytes: found.identity.size_bytes,
            queue: Default::default(),
        };
        let same = |then: &DeviceFacts| {
            (&then.model, &then.serial, then.size_bytes) == (&now.model, &now.serial, now.size_bytes)
        };
        if !known.iter().any(same) {
            // The one with the same name says most.
            let then = known.iter().find(|then| then.path == now.path).or(known.first());
            return Err(SweepError::DiskDiffers {
                sweep,
                path: path.to_path_buf(),
                then: then.map_or_else(String::new, described),
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
