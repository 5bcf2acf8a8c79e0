//! `fsdyno quick DEVICE`: which filesystem is best there, without writing a plan.

use super::source::save;
use super::sweep::{Shown, run_plan, tell_of_resuming};
use super::{Result, Surroundings, overrides, trouble};
use crate::cli::{Elsewhere, Quick as Options};
use crate::exit::{Status, Trouble};
use crate::progress::human;
use crate::say;
use fsdyno_host::quoted;
use fsdyno_store::{Origin, SweepId, SweepState};
use fsdyno_sweep::{
    Plan, QUICK, Quick, QuickError, QuickOptions, SweepError, closed_loop_name, quick, verify_privileges,
};

pub fn run(surroundings: &Surroundings, options: &Options) -> Result {
    let (plan, continued) = if options.resume {
        let (plan, sweep) = interrupted(surroundings, options)?;
        (plan, Some(sweep.into()))
    } else {
        let chosen = chosen(surroundings, options)?;
        let mut lines = chosen.choices();
        lines[0].push_str(&format!("; about {} of {}", human(chosen.time), human(options.time)));
        lines.iter().for_each(|line| say::remark(line));
        if let Some(path) = &options.save {
            save(path, &chosen.plan.text, "name another file")?;
            return Ok(Status::Well);
        }
        (chosen.plan, None)
    };
    let command = format!("quick {}", quoted(&options.device.to_string_lossy()));
    let shown = Shown { format: options.format, screen: false };
    run_plan(surroundings, &plan, continued, (&options.confirmed, Elsewhere::Nowhere), shown, &command)
}

/// The plan for this device and this time.
fn chosen(surroundings: &Surroundings, options: &Options) -> std::result::Result<Quick, Trouble> {
    let set = overrides::settings(&options.overrides)?;
    let mut host = surroundings.host()?;
    let wanted =
        QuickOptions { target: &options.device, time: options.time, set: &set, disks: &options.disk };
    let chosen = quick(&mut host, &mut surroundings.guests()?, &wanted).map_err(trouble)?;
    if options.save.is_none() {
        verify_privileges(&chosen.plan, &mut host).map_err(trouble::of_sweep)?;
    }
    Ok(chosen)
}

/// The latest interrupted quick sweep of the device.
fn interrupted(
    surroundings: &Surroundings,
    options: &Options,
) -> std::result::Result<(Plan, SweepId), Trouble> {
    let store = surroundings.open_store()?;
    let device = std::path::absolute(&options.device).unwrap_or(options.device.to_path_buf());
    for summary in store.sweeps()?.into_iter().rev() {
        let is_open = summary.state == SweepState::Interrupted && summary.origin == Origin::Run;
        if !is_open || !(summary.name == QUICK || summary.name == closed_loop_name(QUICK)) {
            continue;
        }
        let stored = store.sweep(summary.id)?;
        let Ok(plan) = Plan::parse(&stored.plan_toml, QUICK, &stored.overrides) else { continue };
        let path = plan.devices.data.path();
        if path == device || path.parent() == Some(&device) {
            tell_of_resuming(&stored);
            return Ok((plan, summary.id));
        }
    }
    Err(trouble::of_sweep(SweepError::NothingToResume { state: None, candidate: None }))
}

fn trouble(error: QuickError) -> Trouble {
    let status = match error {
        QuickError::NeedsRoot { .. } => Status::Refused,
        _ => Status::Usage,
    };
    let hint = error.hint();
    hint.into_iter().fold(Trouble::new(status, error), Trouble::hint)
}
