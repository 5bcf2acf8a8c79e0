//! `fsdyno durability PLAN`: what the configurations of a plan lose at a power cut, and `--show`, which
//! shows a disk after one.

use super::source::{PlanText, source};
use super::sweep::{Shown, resumed, run_plan};
use super::trouble::of_sweep;
use super::{Result, Surroundings, find, overrides};
use crate::cli::{Confirmed, Durability as Options, Elsewhere, StateName};
use crate::exit::{Status, Trouble};
use crate::interrupt::Interrupt;
use crate::say;
use anyhow::anyhow;
use fsdyno_core::durability::CacheModel;
use fsdyno_core::workload::{Durability, IoErrors, Workload};
use fsdyno_core::{DeviceSpec, TrialRecord};
use fsdyno_host::quoted;
use fsdyno_sweep::{Plan, ShownState, show_state, verify_privileges};
use fsdyno_verdict::text;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The interval at which to check whether a state is to be unmounted.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Where disks are recorded if the plan names no image.
const USUAL: &str = "/var/tmp/fsdyno-recorded.img";
/// As many as the plans of losses that come with fsdyno have, where the plan says `auto`.
const USUAL_REPETITIONS: u32 = 3;

pub fn run(surroundings: &Surroundings, options: &Options) -> Result {
    let Some(path) = &options.plan else {
        let Some(state) = &options.show else { unreachable!("clap requires one of both") };
        return show(surroundings, state);
    };
    let set = overrides::settings(&options.overrides)?;
    let (plan, continued) = match &options.resume {
        None => (of_plan(&source(path)?, options, set)?, None),
        Some(selector) => {
            let (plan, sweep) = resumed(surroundings, path, selector, &set)?;
            (plan, Some(sweep.into()))
        }
    };
    verify_privileges(&plan, &mut surroundings.host()?).map_err(of_sweep)?;
    let command = format!("durability {}", quoted(&path.to_string_lossy()));
    let shown = Shown { format: options.format, screen: false };
    run_plan(surroundings, &plan, continued, (&Confirmed::default(), Elsewhere::Nowhere), shown, &command)
}

/// The configurations of a plan under the workload `durability` or `io-errors`: its own, if it has one.
fn of_plan(source: &PlanText, options: &Options, set: Vec<String>) -> std::result::Result<Plan, Trouble> {
    // What the user sets may be about the workload that is put in below.
    let plan = source.parse(&set).or_else(|_| source.parse(&[]))?;
    if plan.race.is_some() {
        let error = anyhow!(
            "the plan has protocol = \"race\", and a race cannot rank losses, because good configurations \
             all lose 0"
        );
        return Err(Trouble::new(Status::Usage, error).hint("use a plan without protocol and budget"));
    }
    let asks = |workload: &Workload| matches!(workload, Workload::IoErrors(_));
    let load = match options.io_errors || plan.workloads.iter().all(asks) {
        true => Workload::IoErrors(IoErrors::default()),
        false => Workload::Durability(Durability::default()),
    };
    let (kind, measure) = (load.kind(), load.load().default_measure());
    let is_own = |workload: &&Workload| workload.kind() == kind;
    let own = plan.workloads.iter().filter(is_own).count();
    // Without its list of workloads, a plan has one only by its table `[durability]`.
    let has_table = source.parse(&["workloads=[]".to_string()]).is_ok();
    let mut changes = Vec::new();
    // What is lost is a share of cuts, which no number of repetitions decides by the rules of loads.
    if plan.enough.is_some_and(|enough| enough.is_auto()) {
        changes.push(format!("repetitions={USUAL_REPETITIONS}"));
    }
    match (own, plan.workloads.len()) {
        (own, all) if has_table && own == 1 && all > 1 => {
            changes.push("workloads=[]".to_string());
            changes.push(format!("measure=\"{measure}\""));
        }
        (0, _) => {
            changes.extend(has_table.then(|| "durability=false".to_string()));
            changes.push(format!("workloads=[{{ kind = \"{kind}\" }}]"));
            changes.push(format!("measure=\"{measure}\""));
        }
        (own, all) if own == all => {}
        _ => {
            let error = anyhow!("the plan has the workload '{kind}' and others");
            return Err(Trouble::new(Status::Usage, error).hint(
                "`fsdyno sweep PLAN` runs all of them; remove the others to run it alone with `fsdyno \
                 durability`",
            ));
        }
    }
    // Nothing is written to the plan's disks, so nobody has to confirm any.
    if !plan.devices.data.is_of_images() {
        changes.push(on_images(&plan.devices.data));
    }
    let table = if has_table { "durability" } else { "workloads" };
    changes.extend(options.cuts.map(|cuts| format!("{table}.cuts={cuts}")));
    changes.extend(set);
    source.parse(&changes)
}

/// Sets a device of the same shape, of images.
fn on_images(device: &DeviceSpec) -> String {
    let image = format!("image = \"{USUAL}\", size = \"1G\"");
    let stack = match device {
        DeviceSpec::Md(_) => "md",
        DeviceSpec::Lvm(_) => "lvm",
        DeviceSpec::Pool(_) => "pool",
        _ => return format!("device={{ {image} }}"),
    };
    format!("device.{stack}.disks={{ {image}, count = {} }}", device.disks().len())
}

/// Shows a disk after a cut until Enter is pressed, or stdin ends.
fn show(surroundings: &Surroundings, name: &StateName) -> Result {
    let shelves = surroundings.results()?;
    let (store, sweep) = find(surroundings, &shelves, Some(&name.sweep))?;
    let id = sweep.summary.id;
    let trial = store.trials(id)?.into_iter().find(|trial| text::nth(trial.trial) == name.trial);
    let usage = |error| Trouble::new(Status::Usage, error);
    let trial = trial.ok_or_else(|| usage(anyhow!("sweep {id} has no trial {}", name.trial)))?;
    let Workload::Durability(parameters) = &trial.workload else {
        return Err(usage(anyhow!("trial {} is not one of the workload 'durability'", name.trial)));
    };
    if !trial.configuration.device.below().is_empty() {
        let number = name.trial;
        return Err(usage(anyhow!("trial {number} ran on several disks, and only single ones can be shown")));
    }
    let log = store.files_of(id).join(trial.trial.to_string()).join("log");
    if !log.join("entries").exists() {
        return Err(usage(anyhow!("trial {} has not kept its log", name.trial))
            .hint("run it again with --set workloads.keep_log=true"));
    }
    let state = shown(name, &trial, parameters, log)?;
    let interrupt = Interrupt::listen().map_err(|error| anyhow!("cannot handle signals: {error}"))?;
    let mut host = surroundings.host()?;
    let journals = surroundings.state.undo();
    let ended = show_state(&mut host, &journals, &state, &mut |directory| {
        say::remark(&format!(
            "cut {} of trial {} under the model '{}' is mounted at {}\npress Enter to unmount it",
            state.cut,
            trial.trial,
            state.model.name(),
            directory.display()
        ));
        wait(&interrupt);
    });
    let left = ended.map_err(|failure| Trouble::new(Status::TrialFailed, anyhow!("{failure}")))?;
    match left.is_empty() {
        true => Ok(Status::Well),
        false => Err(Trouble::new(Status::NotRestored, anyhow!("left behind: {}", left.join("; ")))
            .hint("stop what uses it, then run `fsdyno restore`")),
    }
}

/// Waits for a line on stdin, its end, or a signal.
fn wait(interrupt: &Interrupt) {
    let line = std::thread::spawn(|| io::stdin().lock().read_line(&mut String::new()));
    while !line.is_finished() && !interrupt.stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_UP);
    }
}

/// The state that a name means.
fn shown(
    name: &StateName,
    trial: &TrialRecord,
    parameters: &Durability,
    log: PathBuf,
) -> std::result::Result<ShownState, Trouble> {
    let usage = |text: String| Trouble::new(Status::Usage, anyhow!(text));
    let models = &parameters.models;
    let model = match &name.model {
        None => models.first().copied().unwrap_or(CacheModel::Completed),
        Some(word) => models.iter().copied().find(|model| model.name() == word).ok_or_else(|| {
            let known: Vec<&str> = models.iter().map(|model| model.name()).collect();
            usage(format!("trial {} has the cache models {}, not '{word}'", name.trial, known.join(", ")))
        })?,
    };
    if name.cut >= parameters.cuts {
        return Err(usage(format!("trial {} has cuts 0 to {}", name.trial, parameters.cuts - 1)));
    }
    if name.subset >= parameters.subsets_of(model) {
        let most = parameters.subsets_of(model) - 1;
        return Err(usage(format!("the model '{}' has subsets 0 to {most}", model.name())));
    }
    Ok(ShownState {
        log,
        configuration: trial.configuration.asked.clone(),
        parameters: parameters.clone(),
        seed: trial.seed,
        cut: name.cut,
        model,
        subset: name.subset,
    })
}
