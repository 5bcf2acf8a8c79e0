//! Carries out a sweep: progress on stderr, trials into a store.

use super::{Surroundings, image_shape, launching, log, trouble};
use crate::cli::Elsewhere;
use crate::exit::{Status, Trouble};
use crate::interrupt::Interrupt;
use crate::lock::SweepLock;
use crate::progress::{Display, human};
use crate::publish::Publisher;
use crate::say;
use crate::screen::OwnScreen;
use fsdyno_clients::{ClientHost, ClientPool};
use fsdyno_core::{AfterTrial, Outcome, TrialRecord};
use fsdyno_host::Host;
use fsdyno_store::{Added, Store, SweepId};
use fsdyno_sweep::{
    Asked, Machines, MoreBlocks, Plan, Position, RunOptions, SweepEnd, SweepEvent, SweepOutcome,
    run as execute, run_fleet,
};
use fsdyno_testbed::Confirmation;
use std::sync::Arc;

/// A sweep to carry out.
pub struct SweepRequest<'a> {
    pub plan: &'a Plan,
    pub confirmation: &'a Confirmation,
    pub continued: Option<Continued>,
    pub display: &'a Display,
    /// `true` if the sweep has a screen of its own.
    pub screen: bool,
    /// Which other machines take part.
    pub elsewhere: Elsewhere<'a>,
}

/// A sweep that goes on.
#[derive(Debug, Clone, Copy)]
pub struct Continued {
    pub sweep: SweepId,
    /// The blocks that are added to it, if it has ended.
    pub more: Option<MoreBlocks>,
}

impl From<SweepId> for Continued {
    fn from(sweep: SweepId) -> Self {
        Continued { sweep, more: None }
    }
}

/// Executes a plan with progress on stderr. `stored` is called with each trial.
pub fn carry_out(
    surroundings: &Surroundings,
    request: &SweepRequest<'_>,
    store: &mut Store,
    interrupt: &Interrupt,
    stored: &mut dyn FnMut(&TrialRecord),
) -> Result<SweepOutcome, Trouble> {
    let SweepRequest { plan, confirmation, continued, display, screen, elsewhere } = *request;
    let _lock = match elsewhere {
        Elsewhere::Fleet(..) => SweepLock::take_for_fleet(&surroundings.state, store, &plan.name)?,
        _ => SweepLock::take(&surroundings.state, store, &plan.name)?,
    };
    add_kept(surroundings, store);
    let (directory, asked) = (surroundings.state.directory(), Asked::default());
    let mut publisher = Publisher::begin(directory, store.path(), &plan.name);
    let options = RunOptions {
        state_dir: &surroundings.state.undo(),
        keep: &surroundings.keep(),
        confirmation,
        known: &image_shape::warnings(surroundings.state.directory(), plan),
        interrupt: &interrupt.stop,
        hurry: &interrupt.hurry,
        asked: &asked,
        resume: continued.map(|continued| continued.sweep),
        more: continued.and_then(|continued| continued.more),
    };
    let mut pool = launching::launched(plan, elsewhere, &interrupt.stop, &|line| display.line(line))?;
    let begin = || OwnScreen::begin(directory, store.path(), surroundings.style.colour, display);
    let mut screen = screen.then(begin).transpose()?;
    let observer = &mut |progress: SweepEvent<'_>| {
        if let SweepEvent::Stored(_, trial) = &progress {
            stored(trial);
        }
        if let Some(wish) = publisher.tell(&progress, &asked) {
            display.line(wished(wish));
        }
        if let Some(screen) = &mut screen {
            screen.look(display, &interrupt.stop);
        }
        tell(display, &surroundings.program, plan, &progress);
    };
    let ended = match (elsewhere, &pool) {
        (Elsewhere::Fleet(..), Some(fleet)) => run_fleet(plan, fleet, store, &options, observer),
        _ => {
            let mut host = surroundings.host()?.hurried_by(Arc::clone(&interrupt.hurry));
            let mut guests = surroundings.guests()?.hurried_by(Arc::clone(&interrupt.hurry));
            let mut clients = None;
            let host: &mut dyn Host = match pool.take() {
                None => &mut host,
                Some(pool) => clients.insert(ClientHost::new(host, pool)),
            };
            let ended = execute(plan, &mut Machines { host, guests: &mut guests }, store, &options, observer);
            pool = clients.map(ClientHost::into_pool);
            ended
        }
    };
    publisher.end();
    if let Some(screen) = screen {
        screen.end(display);
    }
    display.finish();
    let left = pool.map(ClientPool::end).unwrap_or_default();
    let mut ended = ended.map_err(trouble::of_sweep)?;
    ended.left.extend(left);
    if let Some(error) = ended.broken.take() {
        trouble::of_sweep(error).tell();
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

/// Returns the words for a request of somebody who watches.
fn wished(wish: AfterTrial) -> &'static str {
    match wish {
        AfterTrial::Pause => "asked to pause after this trial",
        AfterTrial::Continue => "asked to go on",
        AfterTrial::Stop => "asked to stop after this trial",
    }
}

fn tell(display: &Display, program: &str, plan: &Plan, progress: &SweepEvent<'_>) {
    match progress {
        SweepEvent::Restored(report) => {
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
        SweepEvent::Began(_) if plan.before_closed_loop().is_some() => display
            .line(&format!("measuring first how fast each configuration writes (sweep '{}')", plan.name)),
        SweepEvent::Began(_) => {}
        SweepEvent::Machine { name, line } => display.line(&format!("{name}: {line}")),
        SweepEvent::Paused { next, first } => {
            let done = f64::from(next - 1) * 1000.0;
            display.update(done as u64, &format!("before trial {next}"), "PAUSED".to_string());
            if *first {
                display.line(&format!(
                    "paused before trial {next}; {program} watch --then continue goes on, Ctrl-C ends the sweep"
                ));
            }
        }
        SweepEvent::Continued(paused) => {
            display.line(&format!("goes on after a pause of {}", human(*paused)))
        }
        SweepEvent::Running(at) => {
            let done = (at.behind + at.fraction) * 1000.0;
            let share = at.progress.done.map(|done| format!(" {:.0} %", done * 100.0)).unwrap_or_default();
            display.update(
                done as u64,
                &format!("{}: {}{share}", name(plan, at), at.progress.step.name()),
                left(at),
            );
        }
        SweepEvent::Stored(at, trial) => {
            let is_last = at.behind + 1.0 >= f64::from(at.trials);
            let left = if !is_last { format!(", {}", left(at)) } else { String::new() };
            display.line(&format!("{}: {}{left}", name(plan, at), ended(trial)));
            if say::is_verbose() {
                trial.log.iter().for_each(|step| display.line(&log::line(step)));
            }
        }
        SweepEvent::Further { block, cases, trials } => {
            display.extend(u64::from(*trials));
            let names: Vec<String> =
                cases.iter().map(|(name, workload)| format!("{name} ({workload})")).collect();
            display.line(&format!("block {block}: intervals still too wide: {}", names.join(", ")));
        }
        SweepEvent::Judged { lines, trials } | SweepEvent::Raced { lines, trials, .. } => {
            display.extend(u64::from(*trials));
            lines.iter().for_each(|line| display.line(line));
        }
        SweepEvent::LongBlock { block, limit } => display.line(&format!(
            "the first block takes about {}, longer than the {} that the sweep may take; Ctrl-C stops it, \
             and smaller sizes or fewer cases make it shorter",
            human(*block),
            human(*limit)
        )),
        SweepEvent::TimeIsUp { blocks, planned, limit } => display.line(&format!(
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

/// A trial by its configuration, and by its load where the plan has several.
fn name(plan: &Plan, at: &Position) -> String {
    let workload = (plan.loads_of_each() > 1).then_some(&*at.workload);
    let details: Vec<&str> = workload.into_iter().chain(at.sentinel.then_some("sentinel")).collect();
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let machine = at.machine.as_ref().map(|machine| format!(" on {machine}")).unwrap_or_default();
    format!("trial {} of {}: {}{details}{machine}", at.trial, at.trials, at.configuration)
}

fn ended(trial: &TrialRecord) -> String {
    match &trial.outcome {
        Outcome::Measured => "measured".to_string(),
        Outcome::Skipped { unmet } => format!("skipped: {}", unmet.join("; ")),
        Outcome::Failed { error } => format!("failed: {error}"),
    }
}
