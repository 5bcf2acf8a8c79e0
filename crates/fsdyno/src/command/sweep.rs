//! `fsdyno sweep PLAN`: build every configuration, measure it, store and print the results.

use super::fitting::{choice, fitted};
use super::plans::source;
use super::show::{self, Details};
use super::{Result, Surroundings, header, image, is_dumb, log, not_found, overrides};
use crate::cli::{Confirmed, Format, Sweep};
use crate::exit::{Status, Trouble};
use crate::interrupt::Interrupt;
use crate::lock::SweepLock;
use crate::progress::{Display, human};
use crate::publish::Publisher;
use crate::say;
use crate::screen::OwnScreen;
use anyhow::anyhow;
use fsdyno_core::sweep_name::LATEST;
use fsdyno_core::{AfterTrial, DeviceSpec, Outcome, TrialRecord};
use fsdyno_host::quoted;
use fsdyno_store::{Added, Store, Sweep as Stored, SweepId, SweepSummary};
use fsdyno_sweep::{
    Asked, Machines, Plan, PlanError, Position, Progress, RunOptions, SweepEnd, SweepError, SweepOutcome,
    order, run as execute, unfinished, verify_privileges,
};
use fsdyno_testbed::Refusal;
use fsdyno_testbed::guard::{Overwrite, OverwriteError};
use fsdyno_testbed::{Confirmation, TestbedError};
use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;
use std::sync::Arc;

pub fn run(surroundings: &Surroundings, options: &Sweep) -> Result {
    if options.watch {
        verify_terminal()?;
    }
    let set = overrides::with_race(&options.overrides, &options.racing)?;
    let (plan, resume) = match &options.resume {
        None => (asked_for(surroundings, options, &set)?, None),
        Some(selector) => {
            let (plan, sweep) = resumed(surroundings, &options.plan, selector, &set)?;
            (plan, Some(sweep))
        }
    };
    verify_privileges(&plan, &mut surroundings.host()?).map_err(trouble)?;
    let command = format!("sweep {}", quoted(&options.plan.to_string_lossy()));
    let shown = Shown { format: options.format, screen: options.watch };
    run_plan(surroundings, &plan, resume, &options.confirmed, shown, &command)
}

/// Refuses a screen where there is none.
fn verify_terminal() -> std::result::Result<(), Trouble> {
    if stdin().is_terminal() && stdout().is_terminal() && !is_dumb() {
        return Ok(());
    }
    let error = anyhow!("--watch needs a terminal that can show more than lines, on stdin and stdout");
    Err(Trouble::new(Status::Usage, error)
        .hint("leave it out: progress is shown in lines, and fsdyno watch shows the sweep elsewhere"))
}

/// How a sweep is shown while it runs and when it has ended.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The format of the results.
    pub format: Format,
    /// Whether it has a screen of its own.
    pub screen: bool,
}

/// The plan of a new sweep, fitted to a time if the user sets one.
fn asked_for(
    surroundings: &Surroundings,
    options: &Sweep,
    set: &[String],
) -> std::result::Result<Plan, Trouble> {
    let source = source(&options.plan)?;
    let plan = source.parse(set)?;
    let Some(time) = options.time else { return Ok(plan) };
    // An ordinary user learns that first.
    verify_privileges(&plan, &mut surroundings.host()?).map_err(trouble)?;
    let fit = fitted(surroundings, &source, set, time)?;
    say::remark(&choice(time, &fit));
    Ok(fit.plan)
}

/// Runs a plan with what the user has confirmed, prints the results, and says how to continue. `command` is
/// what the user has run, without options.
pub fn run_plan(
    surroundings: &Surroundings,
    plan: &Plan,
    resume: Option<SweepId>,
    confirmed: &Confirmed,
    shown: Shown,
    command: &str,
) -> Result {
    let overwrite = confirmed.overwrite.iter().map(|text| overwrite(text, plan));
    let overwrite = overwrite.collect::<std::result::Result<_, _>>()?;
    let confirmation = Confirmation {
        destroy: confirmed.destroy.clone(),
        overwrite,
        sysctls: confirmed.allow_sysctl.clone(),
        hooks: confirmed.allow_hooks,
    };
    let ended = measure(surroundings, plan, &confirmation, resume, (shown, Details::None))?;
    if matches!(ended.end, SweepEnd::Interrupted | SweepEnd::Broken) {
        say::remark(&format!("hint: to continue, run {}", to_continue(surroundings, confirmed, command)));
    }
    Ok(status(&ended))
}

/// The plan of an interrupted sweep with the changes that it was begun with, and its number.
pub fn resumed(
    surroundings: &Surroundings,
    plan: &Path,
    selector: &str,
    set: &[String],
) -> std::result::Result<(Plan, SweepId), Trouble> {
    let source = source(plan)?;
    let named = (selector != LATEST).then_some(selector);
    let found = unfinished(&surroundings.open_store()?, named, &source.text, set);
    let stored = found.map_err(|error| match error {
        SweepError::Store(error) => not_found(surroundings, error),
        other => trouble(other),
    })?;
    let plan = source.parse(&stored.overrides)?;
    tell_of_resuming(&stored);
    Ok((plan, stored.summary.id))
}

/// Says which sweep continues, and what it was begun with.
pub fn tell_of_resuming(stored: &Stored) {
    let SweepSummary { id, name, started, trials, .. } = &stored.summary;
    let done = stored.summary.done();
    let sets: String = stored.overrides.iter().map(|set| format!(" --set {}", quoted(set))).collect();
    let with = if sets.is_empty() { String::new() } else { format!(", with{sets}") };
    say::note(&format!(
        "resuming sweep {id} ('{name}', begun {started}{with}): {done} of {trials} trials done"
    ));
}

/// The command that continues a sweep: its changes of the plan are stored, but what may be destroyed is
/// confirmed each time.
fn to_continue(surroundings: &Surroundings, options: &Confirmed, command: &str) -> String {
    let confirmed = |name: &str, value: &str| format!(" --{name} {}", quoted(value));
    let mut line = format!("{} {command} --resume", surroundings.program);
    line.extend(options.destroy.iter().map(|device| confirmed("destroy", &device.to_string_lossy())));
    line.extend(options.overwrite.iter().map(|device| confirmed("overwrite", device)));
    line.extend(options.allow_sysctl.iter().map(|key| confirmed("allow-sysctl", key)));
    line.push_str(if options.allow_hooks { " --allow-hooks" } else { "" });
    line
}

/// What an `--overwrite` confirms. A kind alone would apply to every device of the plan, whatever is on it.
fn overwrite(text: &str, plan: &Plan) -> std::result::Result<Overwrite, Trouble> {
    text.parse().map_err(|error: OverwriteError| {
        let mut disks = plan.devices.all().flat_map(DeviceSpec::disks);
        let block = disks.find(|disk| matches!(disk, DeviceSpec::Block { .. }));
        let device = block.map_or(Path::new("/dev/sdb"), |disk| disk.path());
        let device = match error {
            OverwriteError::NoDevice(_) => device,
            OverwriteError::NoKind(_) => Path::new(text.trim_end_matches('=')),
        };
        let kind =
            if matches!(error, OverwriteError::NoDevice(_)) { text.trim_start_matches('=') } else { "" };
        let kind = if kind.is_empty() { "ext4" } else { kind };
        let right = Overwrite { device: device.to_path_buf(), kind: kind.to_string() };
        Trouble::new(Status::Usage, error).hint(format!("write --overwrite {right}, once for each device"))
    })
}

/// An error of a plan for the user.
pub fn plan_trouble(error: PlanError) -> Trouble {
    let hint = error.hint();
    let trouble = Trouble::new(Status::Usage, error);
    match hint {
        Some(hint) => trouble.hint(hint),
        None => trouble,
    }
}

/// Executes a plan with progress on stderr, and prints the results.
pub fn measure(
    surroundings: &Surroundings,
    plan: &Plan,
    confirmation: &Confirmation,
    resume: Option<SweepId>,
    (shown, details): (Shown, Details),
) -> std::result::Result<SweepOutcome, Trouble> {
    let interrupt = Interrupt::listen()?;
    let mut store = surroundings.open_store()?;
    let display = Display::new(order(plan).len() as u64);
    let request = SweepRequest { plan, confirmation, resume, display: &display, screen: shown.screen };
    let ended = carry_out(surroundings, &request, &mut store, &interrupt, &mut |_| {})?;
    // What was measured is stored: whether anybody reads it does not change how the sweep ended.
    if let Err(trouble) = show_results(surroundings, &store, ended.sweep, (shown.format, details)) {
        trouble.tell();
    }
    let (program, sweep) = (&surroundings.program, ended.sweep);
    let race = match plan.race {
        Some(_) => format!("\nwhat was dropped, and why: {program} race {sweep}"),
        None => String::new(),
    };
    say::remark(&format!(
        "sweep {sweep} is in {}\nevery operation: {program} show {sweep} --full{race}\nhow to build it: {program} recommend {sweep}",
        surroundings.store.display()
    ));
    Ok(ended)
}

/// A sweep to carry out.
pub struct SweepRequest<'a> {
    pub plan: &'a Plan,
    pub confirmation: &'a Confirmation,
    pub resume: Option<SweepId>,
    pub display: &'a Display,
    /// Whether it has a screen of its own.
    pub screen: bool,
}

/// Executes a plan with progress on stderr. `stored` is called with each trial.
pub fn carry_out(
    surroundings: &Surroundings,
    request: &SweepRequest<'_>,
    store: &mut Store,
    interrupt: &Interrupt,
    stored: &mut dyn FnMut(&TrialRecord),
) -> std::result::Result<SweepOutcome, Trouble> {
    let _lock = SweepLock::take(&surroundings.state, store, &request.plan.name)?;
    add_kept(surroundings, store);
    let SweepRequest { plan, confirmation, resume, display, screen } = *request;
    let (directory, asked) = (surroundings.state.directory(), Asked::default());
    let mut publisher = Publisher::begin(directory, store.path(), &plan.name);
    let options = RunOptions {
        state_dir: &surroundings.state.undo(),
        keep: &surroundings.keep(),
        confirmation,
        known: &image::warnings(surroundings.state.directory(), plan),
        interrupt: &interrupt.stop,
        hurry: &interrupt.hurry,
        asked: &asked,
        resume,
    };
    let mut host = surroundings.host()?.hurried_by(Arc::clone(&interrupt.hurry));
    let mut guests = surroundings.guests()?.hurried_by(Arc::clone(&interrupt.hurry));
    let mut machines = Machines { host: &mut host, guests: &mut guests };
    let begin = || OwnScreen::begin(directory, store.path(), surroundings.style.colour, display);
    let mut screen = screen.then(begin).transpose()?;
    let ended = execute(plan, &mut machines, store, &options, &mut |progress| {
        if let Progress::Stored(_, trial) = &progress {
            stored(trial);
        }
        if let Some(wish) = publisher.tell(&progress, &asked) {
            display.line(wished(wish));
        }
        if let Some(screen) = &mut screen {
            screen.look(display, &interrupt.stop);
        }
        tell(display, plan, &progress);
    });
    publisher.end();
    if let Some(screen) = screen {
        screen.end(display);
    }
    display.finish();
    let mut ended = ended.map_err(trouble)?;
    if let Some(error) = ended.broken.take() {
        trouble(error).tell();
    }
    for line in &ended.left {
        say::note(&format!("left behind: {line}"));
    }
    if !ended.left.is_empty() {
        say::note("hint: stop what still uses it, then run fsdyno restore");
    }
    Ok(ended)
}

/// Adds the records of earlier trials that could not be stored then.
pub fn add_kept(surroundings: &Surroundings, store: &mut Store) -> Added {
    let kept = store.add_kept(&surroundings.keep());
    for line in kept.added.iter().chain(&kept.left).chain(&kept.orphaned) {
        say::note(line);
    }
    if !kept.orphaned.is_empty() {
        say::note("hint: put back the store that it belongs to, or remove the file");
    }
    kept
}

fn show_results(
    surroundings: &Surroundings,
    store: &Store,
    sweep: SweepId,
    (format, details): (Format, Details),
) -> std::result::Result<(), Trouble> {
    let trials = store.trials(sweep)?;
    show::print(&header(&store.sweep(sweep)?, None)?, &trials, format, details, &surroundings.style)?;
    Ok(())
}

/// The exit code of a sweep that ran.
pub fn status(ended: &SweepOutcome) -> Status {
    match ended.end {
        SweepEnd::NotRestored => Status::NotRestored,
        SweepEnd::Interrupted => Status::Interrupted,
        SweepEnd::Broken => Status::TrialFailed,
        SweepEnd::Finished if ended.failed > 0 => Status::TrialFailed,
        SweepEnd::Finished => Status::Well,
    }
}

/// What somebody who watches has asked for.
fn wished(wish: AfterTrial) -> &'static str {
    match wish {
        AfterTrial::Pause => "asked to pause after this trial",
        AfterTrial::Continue => "asked to go on",
        AfterTrial::Stop => "asked to stop after this trial",
    }
}

fn tell(display: &Display, plan: &Plan, progress: &Progress<'_>) {
    match progress {
        Progress::Restored(report) => {
            for line in &report.undone {
                display.line(&format!("restored: {line}"));
            }
            for line in &report.foreign {
                display.line(&format!("left unchanged: {line}"));
            }
            for line in &report.left {
                display.line(&format!("left behind: {line}"));
            }
        }
        Progress::Began(_) => {}
        Progress::Paused { next, first } => {
            let done = f64::from(next - 1) * 1000.0;
            display.update(done as u64, &format!("before trial {next}"), "PAUSED".to_string());
            if *first {
                display.line(&format!(
                    "paused before trial {next}; fsdyno watch --then continue goes on, Ctrl-C ends the sweep"
                ));
            }
        }
        Progress::Continued(paused) => display.line(&format!("goes on after a pause of {}", human(*paused))),
        Progress::Running(at) => {
            let done = (f64::from(at.trial - 1) + at.fraction) * 1000.0;
            display.update(done as u64, &format!("{}: {}", name(plan, at), at.stage), left(at));
        }
        Progress::Stored(at, trial) => {
            let left = if at.trial < at.trials { format!(", {}", left(at)) } else { String::new() };
            display.line(&format!("{}: {}{left}", name(plan, at), ended(trial)));
            if say::is_verbose() {
                trial.built.log.iter().for_each(|step| display.line(&log::line(step)));
            }
        }
        Progress::Further { block, cases, trials } => {
            display.extend(u64::from(*trials));
            let names: Vec<String> =
                cases.iter().map(|(name, workload)| format!("{name} ({workload})")).collect();
            display.line(&format!("block {block}: intervals still too wide: {}", names.join(", ")));
        }
        Progress::Raced { lines, trials, .. } => {
            display.extend(u64::from(*trials));
            lines.iter().for_each(|line| display.line(line));
        }
        Progress::LongBlock { block, limit } => display.line(&format!(
            "the first block takes about {}, longer than the {} that the sweep may take; Ctrl-C stops it, and \
             smaller sizes or fewer cases make it shorter",
            human(*block),
            human(*limit)
        )),
        Progress::TimeIsUp { blocks, planned, limit } => display.line(&format!(
            "the sweep ends after {blocks} of {planned} repetitions: another one would not fit into {}",
            human(*limit)
        )),
    }
}

/// The remaining time, as far as it is planned.
fn left(at: &Position) -> String {
    let more = if at.more_may_follow { ", more may follow" } else { "" };
    format!("{} left{more}", human(at.left))
}

/// A trial by its configuration, and by its workload where the plan has several.
fn name(plan: &Plan, at: &Position) -> String {
    let workload = (plan.workloads.len() > 1).then_some(&*at.workload);
    let details: Vec<&str> = workload.into_iter().chain(at.sentinel.then_some("sentinel")).collect();
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    format!("trial {} of {}: {}{details}", at.trial, at.trials, at.configuration)
}

fn ended(trial: &TrialRecord) -> String {
    match &trial.outcome {
        Outcome::Measured => "measured".to_string(),
        Outcome::Skipped { unmet } => format!("skipped: {}", unmet.join("; ")),
        Outcome::Failed { error } => format!("failed: {error}"),
    }
}

/// Everything that is in the way of a sweep, each with its next step.
pub fn refused(refusals: &[Refusal]) -> String {
    let line = |refusal: &Refusal| {
        format!("'{}' {}\n  hint: {}", refusal.device.display(), refusal.reason, refusal.hint)
    };
    refusals.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub fn trouble(error: SweepError) -> Trouble {
    match error {
        SweepError::Testbed(TestbedError::Refused { refusals }) => {
            let error = anyhow!("refused, nothing was written\n{}", refused(&refusals));
            Trouble::new(Status::Refused, error)
        }
        other => {
            let hint = other.hint();
            let status = match other {
                SweepError::NeedsRoot | SweepError::HooksNotAllowed { .. } => Status::Refused,
                _ => Status::Usage,
            };
            let trouble = Trouble::new(status, other);
            match hint {
                Some(hint) => trouble.hint(hint),
                None => trouble,
            }
        }
    }
}
