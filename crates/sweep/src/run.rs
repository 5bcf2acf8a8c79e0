//! A sweep: restore, guards, overhead, then trial after trial, each stored immediately.
//!
//! A failing, hanging or impossible case never ends the sweep. Ctrl-C does: the running trial is undone and
//! does not count, the finished ones are kept, and the sweep can be continued later. `scratch.rs` handles
//! what a trial leaves behind.

mod blocks;
mod clients;
mod outcome;

pub use outcome::{SweepEnd, SweepOutcome};

use crate::estimate;
use crate::guest_request;
use crate::options::{Machines, RunOptions};
use crate::order::{Slot, order};
use crate::plan::{Case, Plan, PlanCommand};
use crate::progress::{Clock, Moment, Position, Progress};
use crate::race::Racing;
use crate::recorded;
use crate::resume;
use crate::scratch::ScratchDevices;
use crate::sweep_error::SweepError;
use crate::time_limit::TimeLimit;
use crate::trial::around::Around;
use crate::trial::commands::TrialCommands;
use crate::trial::durability::{self, Recording};
use crate::trial::guest::{self, InGuest};
use crate::trial::report::Overhead;
use crate::trial::{self, Bench, overhead};
use fsdyno_core::kernel::HOST_KERNEL;
use fsdyno_core::{AfterTrial, Configuration, DeviceSpec, Nanos, Outcome, RaceBudget, TrialRecord};
use fsdyno_host::Host;
use fsdyno_store::{NewSweep, Store};
use fsdyno_testbed::undo::{self, UndoReport};
use fsdyno_verdict::enough::Tally;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Refuses a plan that needs root to an ordinary user, before anything is read or written for it.
///
/// # Errors
/// [`SweepError::NeedsRoot`].
pub fn verify_privileges(plan: &Plan, host: &mut dyn Host) -> Result<(), SweepError> {
    match estimate::lacks_root(plan, host) {
        true => Err(SweepError::NeedsRoot),
        false => Ok(()),
    }
}

/// Runs a plan, or the missing trials of it.
///
/// # Errors
/// [`SweepError`] if it does not start; nothing has been changed then. Later causes are in the outcome.
pub fn run(
    plan: &Plan,
    machines: &mut Machines<'_>,
    store: &mut Store,
    options: &RunOptions<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<SweepOutcome, SweepError> {
    let host = &mut *machines.host;
    verify_privileges(plan, host)?;
    clients::verify_number(plan, host)?;
    if !plan.hooks.is_empty() && !options.confirmation.hooks {
        let as_root = !fsdyno_testbed::is_unprivileged(host);
        let commands = plan.hooks.commands.iter().map(PlanCommand::line).collect();
        return Err(SweepError::HooksNotAllowed { commands, as_root });
    }
    let restored = undo::restore(host, options.state_dir)?.report;
    if restored != UndoReport::default() {
        observer(Progress::Restored(&restored));
    }
    store.check_room()?;
    let cases = plan.cases();
    // A device that cannot be examined is rejected below.
    let sizes = crate::sizes::Sizes::of(host, plan, &cases);
    let unmet = estimate::unmet(plan, host, machines.guests, &cases, sizes.device);
    let slots = order(plan);
    let stored = match options.resume {
        Some(sweep) => resume::stored_trials(plan, host, store, sweep)?,
        None => Default::default(),
    };
    let earlier = match options.resume {
        Some(sweep) => store.outlines(sweep)?,
        None => Vec::new(),
    };
    let limit = plan.time_limit.map(|limit| TimeLimit::new(limit, &earlier));
    let race_limit = match plan.race {
        Some(RaceBudget::Time(limit)) => Some(TimeLimit::new(limit, &earlier)),
        _ => None,
    };
    let runs: Vec<u32> =
        (0..).zip(&unmet).filter(|(_, unmet)| unmet.is_empty()).map(|(case, _)| case).collect();
    if options.resume.is_none() && plan.race.is_some() && runs.len() < 2 {
        return Err(SweepError::NoRace { configurations: cases.len(), runs: runs.len() });
    }
    let racing = Racing::new(plan, &runs, &earlier);
    let runnable = runnable(&cases, &unmet);
    let on_host = runnable.iter().any(|configuration| configuration.guest_kernel().is_none());
    let scratch = ScratchDevices::new(plan, host, options, runnable)?;
    let mut overheads = BTreeMap::new();
    if on_host {
        let overhead = overhead::measure(plan, host, options.state_dir, options.interrupt)
            .map_err(|failure| SweepError::Engine { failure })?;
        overheads.insert(HOST_KERNEL.to_string(), overhead);
    }
    let sweep = match options.resume {
        Some(sweep) => {
            store.resume_sweep(sweep)?;
            sweep
        }
        None => {
            let later = racing.as_ref().map_or(0, |racing| racing.later.len());
            store.create_sweep(&new_sweep(plan, &cases, slots.len() + later))?
        }
    };
    observer(Progress::Began(sweep));
    let mut sweeping = Sweeping {
        around: Around::new(plan, options, store, sweep),
        plan,
        options,
        cases: &cases,
        unmet: &unmet,
        stored: &stored,
        scratch,
        overheads,
        clock: Clock::new(&cases, &unmet, sizes).after(&earlier),
        limit,
        race_limit,
        racing,
        tally: blocks::tally(plan, &earlier),
        outcome: SweepOutcome {
            sweep,
            end: SweepEnd::Finished,
            measured: 0,
            skipped: 0,
            failed: 0,
            left: restored.left,
            broken: None,
            is_elsewhere: false,
        },
    };
    let result = sweeping.trials(machines, store, slots, observer);
    Ok(sweeping.end(machines.host, store, result))
}

/// A sweep that runs.
struct Sweeping<'a> {
    plan: &'a Plan,
    options: &'a RunOptions<'a>,
    cases: &'a [Case],
    /// What keeps each case from running here.
    unmet: &'a [Vec<String>],
    /// Trials of an earlier run of it.
    stored: &'a BTreeSet<u32>,
    scratch: ScratchDevices<'a>,
    /// Overhead of the tool by kernel: of the host, and of guests once each has run.
    overheads: BTreeMap<String, Overhead>,
    around: Around<'a>,
    clock: Clock,
    /// The time that it may take.
    limit: Option<TimeLimit>,
    /// The time that it may take as a race. Whether a block fits into it is up to the race.
    race_limit: Option<TimeLimit>,
    /// The race that it is.
    racing: Option<Racing>,
    /// The trials so far, if their number depends on them.
    tally: Tally,
    outcome: SweepOutcome,
}

/// A trial within its sweep.
struct PlannedTrial<'a> {
    slot: &'a Slot,
    case: &'a Case,
    unmet: &'a [String],
    /// Cases of the following trials.
    rest: &'a [u32],
    trials: usize,
}

impl<'a> Sweeping<'a> {
    /// Trial after trial, and more blocks as long as one is needed.
    fn trials(
        &mut self,
        machines: &mut Machines<'_>,
        store: &mut Store,
        mut slots: Vec<Slot>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), SweepError> {
        let (cases, unmet, stored) = (self.cases, self.unmet, self.stored);
        let mut index = 0;
        while index < slots.len() || self.further(store, &mut slots, observer)? {
            if self.is_out_of_time(store, &slots, index, observer)? {
                break;
            }
            let slot = &slots[index];
            index += 1;
            if stored.contains(&slot.trial) {
                continue;
            }
            if !self.is_to_go_on(slot, observer) {
                self.outcome.end = SweepEnd::Interrupted;
                break;
            }
            let next = match &self.limit {
                Some(limit) => limit.fitting(slot, &slots[index..], &self.clock),
                None => &slots[index..],
            };
            let next = next.iter().filter(|slot| !stored.contains(&slot.trial));
            let mut rest: Vec<u32> = next.map(|slot| slot.case).collect();
            let in_block = rest.len();
            rest.extend(self.later());
            let at = slot.case as usize;
            let trials = slots.len() + self.later().len();
            let planned = PlannedTrial { slot, case: &cases[at], unmet: &unmet[at], rest: &rest, trials };
            let stored = self.step(machines, store, &planned, observer);
            self.outcome.left.extend(self.scratch.keep_for(machines.host, &slots[index..], cases));
            stored?;
            self.tell_of_a_long_block(slot.block, &rest[..in_block], observer);
            if self.outcome.end == SweepEnd::Interrupted {
                break;
            }
        }
        Ok(())
    }

    /// Waits before a trial for as long as somebody who watches wants it, which does not count towards the
    /// time limit. Returns whether the sweep goes on.
    fn is_to_go_on(&mut self, next: &Slot, observer: &mut dyn FnMut(Progress<'_>)) -> bool {
        let interrupt = self.options.interrupt;
        let told = &mut |first| observer(Progress::Paused { next: next.trial + 1, first });
        if let Some(paused) = self.options.asked.wait(interrupt, told) {
            let limits = self.limit.iter_mut().chain(&mut self.race_limit);
            limits.for_each(|limit| limit.rest(paused));
            observer(Progress::Continued(paused));
        }
        !interrupt.load(Ordering::Relaxed) && self.options.asked.get() != AfterTrial::Stop
    }

    /// One trial: skipped, refused for a stuck device, or run; then stored.
    fn step(
        &mut self,
        machines: &mut Machines<'_>,
        store: &mut Store,
        planned: &PlannedTrial<'_>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), SweepError> {
        let PlannedTrial { slot, case, unmet, .. } = *planned;
        store.check_room()?;
        clients::verify_all_there(machines.host)?;
        let mut position = self.position(planned);
        let runs_here = unmet.is_empty() && case.configuration.guest_kernel().is_none();
        if runs_here && self.scratch.blocked.is_none() {
            let told = |share: f64| {
                position.stage = "image";
                position.fraction = share.min(0.99);
                observer(Progress::Running(&position));
            };
            if !self.scratch.write_images(machines.host, &mut { told })? {
                self.outcome.end = SweepEnd::Interrupted;
                return Ok(());
            }
            position = self.position(planned);
        }
        let device = self.scratch.devices.data.clone();
        let mut aside = Ok(());
        let record = if !unmet.is_empty() {
            trial::skipped(slot, case, &device, unmet)
        } else if let Some(left) = &self.scratch.blocked {
            trial::not_begun(slot, case, &device, left)
        } else {
            let start = Instant::now();
            let ended = self.run_trial(machines, planned, &device, &mut position, observer);
            let stuck = !ended.left.is_empty();
            if ended.interrupted {
                self.outcome.end = SweepEnd::Interrupted;
            }
            // A recorded disk is new in each trial.
            if stuck && recorded::load(case).is_some() {
                self.outcome.left.extend(ended.left);
                self.outcome.left.extend(ended.stuck);
            } else if stuck {
                aside = self.scratch.step_aside(machines.host, &ended.left);
                self.outcome.left.extend(ended.stuck);
            }
            // An interrupted trial is run again later, unless it has left something behind that must be
            // reported.
            if ended.interrupted && !stuck {
                return Ok(());
            }
            if let (true, false, Outcome::Failed { error }) = (ended.no_room, stuck, &ended.record.outcome) {
                return Err(SweepError::NoRoom { failure: Box::new(error.clone()) });
            }
            self.clock.took(slot.case, start.elapsed().into());
            let known = if runs_here { self.options.known } else { &[] };
            let mut record = ended.record;
            record.warnings.extend_from_slice(known);
            record
        };
        let record = self.counted(record);
        self.store(store, &record)?;
        match record.outcome {
            Outcome::Measured => self.outcome.measured += 1,
            Outcome::Skipped { .. } => self.outcome.skipped += 1,
            Outcome::Failed { .. } => self.outcome.failed += 1,
        }
        position.fraction = 1.0;
        position.left = self.clock.left(planned.rest);
        observer(Progress::Stored(&position, &record));
        aside
    }

    /// Stores a trial; if that fails, its record is kept elsewhere and the sweep ends.
    fn store(&self, store: &mut Store, record: &TrialRecord) -> Result<(), SweepError> {
        let (sweep, trial) = (self.outcome.sweep, record.trial);
        let Err(source) = store.add_trial(sweep, record) else {
            self.store_in_place(store)?;
            return Ok(self.scratch.verify_journal()?);
        };
        Err(match store.keep(sweep, record, self.options.keep) {
            Ok(kept) => SweepError::NotStored { trial, kept, source: Box::new(source) },
            Err(error) => SweepError::Lost { trial, cause: source.to_string(), source: Box::new(error) },
        })
    }

    /// Ends the sweep if the file of the store has been removed: what has no name is lost with this process.
    fn store_in_place(&self, store: &Store) -> Result<(), SweepError> {
        if store.is_in_place() {
            return Ok(());
        }
        let path = store.path().to_path_buf();
        match store.rescue(self.options.keep) {
            Ok(rescued) => Err(SweepError::StoreRemoved { path, rescued }),
            Err(error) => Err(error.into()),
        }
    }

    fn run_trial(
        &mut self,
        machines: &mut Machines<'_>,
        planned: &PlannedTrial<'_>,
        device: &DeviceSpec,
        position: &mut Position,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> trial::Ended {
        // What was done before belongs to no trial.
        machines.host.take_log();
        if !self.plan.hooks.is_empty() {
            position.stage = "before the trial";
            observer(Progress::Running(position));
        }
        let (around, of) = (self.around.clone(), (planned.slot, planned.case));
        let mut ended = around.run(machines, of, device, |machines, commands| {
            self.run_trial_itself(machines, planned, device, commands, position, observer)
        });
        // In a guest, what was done on this machine came first.
        ended.record.built.log.splice(..0, machines.host.take_log());
        ended
    }

    fn run_trial_itself(
        &mut self,
        machines: &mut Machines<'_>,
        planned: &PlannedTrial<'_>,
        device: &DeviceSpec,
        commands: &mut TrialCommands<'_>,
        position: &mut Position,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> trial::Ended {
        let start = Instant::now();
        let expected = self.clock.expected(planned.slot.case);
        let rest = self.clock.left(planned.rest);
        let mut progress = |moment: &Moment<'_>| {
            let elapsed = Nanos::from(start.elapsed());
            let left = moment.left.unwrap_or(Nanos(expected.0.saturating_sub(elapsed.0)));
            position.come_to(moment, elapsed, left, rest);
            observer(Progress::Running(position));
        };
        if let Some(load) = recorded::load(planned.case) {
            let mut recording = Recording {
                plan: self.plan,
                machines,
                state_dir: self.options.state_dir,
                interrupt: self.options.interrupt,
                hurry: self.options.hurry,
                overheads: &mut self.overheads,
                store: &self.around.store,
                keep: self.around.log_of(planned.slot.trial),
                progress: &mut progress,
            };
            return durability::run(&mut recording, planned.slot, planned.case, load);
        }
        if let Some(request) = guest_request::request_for(self.plan, planned.case, &self.scratch.devices) {
            let mut trial = InGuest {
                plan: self.plan,
                machines,
                devices: &self.scratch.devices,
                device,
                journal: &mut self.scratch.journal,
                interrupt: self.options.interrupt,
                hurry: self.options.hurry,
                overheads: &mut self.overheads,
                progress: &mut progress,
            };
            return guest::run(&mut trial, &request, planned.slot, planned.case);
        }
        let mut bench = Bench {
            plan: self.plan,
            host: machines.host,
            testbed: &self.scratch.testbed,
            device,
            journal: &mut self.scratch.journal,
            host_ends: false,
            interrupt: self.options.interrupt,
            hurry: self.options.hurry,
            preparations: self.scratch.preparations.as_mut(),
            overhead: self.overheads.get(HOST_KERNEL).copied().unwrap_or_default(),
            outer: None,
            commands: Some(commands),
            store: &self.around.store,
            served: None,
            marks: None,
            progress: &mut progress,
        };
        trial::run(&mut bench, planned.slot, planned.case)
    }

    fn position(&self, planned: &PlannedTrial<'_>) -> Position {
        let own = if planned.unmet.is_empty() { self.clock.expected(planned.slot.case).0 } else { 0 };
        Position {
            trial: planned.slot.trial + 1,
            trials: u32::try_from(planned.trials).unwrap_or(u32::MAX),
            configuration: planned.case.configuration.name.clone(),
            workload: planned.case.workload.name(),
            sentinel: planned.slot.sentinel,
            case: planned.slot.case,
            block: planned.slot.block,
            stage: "build",
            phase: String::new(),
            stage_done: None,
            glance: None,
            fraction: 0.0,
            left: Nanos(self.clock.left(planned.rest).0.saturating_add(own)),
            more_may_follow: self.plan.enough.is_some_and(|enough| planned.slot.block + 1 < enough.max),
        }
    }

    /// Tries once more to take down what was stuck, and notes how the sweep ended.
    fn end(mut self, host: &mut dyn Host, store: &mut Store, result: Result<(), SweepError>) -> SweepOutcome {
        let sweep = self.outcome.sweep;
        let noted = match (&result, self.outcome.end) {
            (Ok(()), SweepEnd::Finished) => store.finish_sweep(sweep),
            _ => store.interrupt_sweep(sweep),
        };
        let result = result.and_then(|()| self.store_in_place(store));
        host.limit_steps(Some(self.plan.watchdog.into()));
        self.outcome.left.extend(self.scratch.leave(host, self.options.hurry));
        if let Err(error) = result.and(noted.map_err(SweepError::from)) {
            self.outcome.is_elsewhere = matches!(error, SweepError::StoreRemoved { .. });
            self.outcome.broken = Some(error);
            if self.outcome.end == SweepEnd::Finished {
                self.outcome.end = SweepEnd::Broken;
            }
        }
        if !self.outcome.left.is_empty() {
            self.outcome.end = SweepEnd::NotRestored;
        }
        self.outcome
    }
}

/// The configurations that can run, each once.
fn runnable(cases: &[Case], unmet: &[Vec<String>]) -> Vec<Configuration> {
    let mut configurations: Vec<Configuration> = cases
        .iter()
        .zip(unmet)
        .filter(|(_, unmet)| unmet.is_empty())
        .map(|(case, _)| case.configuration.clone())
        .collect();
    configurations.dedup();
    configurations
}

fn new_sweep(plan: &Plan, cases: &[Case], trials: usize) -> NewSweep {
    NewSweep {
        name: plan.name.clone(),
        plan_toml: plan.text.clone(),
        overrides: plan.overrides.clone(),
        seed: plan.seed,
        measure: plan.measure.name().to_string(),
        environment: None,
        cases: blocks::count(cases.len()),
        trials: blocks::count(trials),
    }
}
