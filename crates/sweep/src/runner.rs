//! The runner of the trials on a machine, one after the other: the devices that it may use, the overhead that
//! was measured there, and what earlier trials have left.

use crate::estimate;
use crate::guest_request;
use crate::options::{Machines, RunOptions};
use crate::order::Slot;
use crate::plan::{Case, Plan};
use crate::recorded;
use crate::scratch::ScratchDevices;
use crate::sizes::Sizes;
use crate::sweep_error::SweepError;
use crate::trial::commands::TrialCommands;
use crate::trial::durability::{self, Recording};
use crate::trial::guest::{self, InGuest};
use crate::trial::hooks::TrialHooks;
use crate::trial::report::Overhead;
use crate::trial::watch::Stops;
use crate::trial::{self, Bench, Site, overhead};
use fsdyno_core::kernel::HOST_KERNEL;
use fsdyno_core::{Configuration, DeviceSpec, Nanos, Outcome, Progress, TrialRecord, TrialStep};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The interval at which to check whether anybody still wants the trial.
const GLANCE: Duration = Duration::from_millis(100);

/// The requirements of each case that this machine does not meet, and the sizes of its devices.
pub(crate) struct Here {
    pub unmet: Vec<Vec<String>>,
    pub sizes: Sizes,
}

impl Here {
    /// Looks at this machine.
    pub fn of(plan: &Plan, machines: &mut Machines<'_>, cases: &[Case]) -> Self {
        // A device that cannot be examined is rejected by the guards.
        let sizes = Sizes::of(machines.host, machines.guests, plan, cases);
        let unmet = estimate::unmet(plan, machines.host, machines.guests, cases, sizes.device);
        Here { unmet, sizes }
    }
}

/// Runs trials.
pub(crate) struct Runner<'a> {
    plan: &'a Plan,
    options: &'a RunOptions<'a>,
    cases: &'a [Case],
    /// For each case, the reasons why it cannot run here.
    unmet: &'a [Vec<String>],
    pub scratch: ScratchDevices<'a>,
    /// Overhead of the tool by kernel: of the host, and of guests once each has run.
    overheads: BTreeMap<String, Overhead>,
    /// The leftovers of trials, one line each.
    pub left: Vec<String>,
}

/// The result of running a trial.
pub(crate) enum Ran {
    /// It has ended, and counts.
    Ended {
        record: Box<TrialRecord>,
        /// The time that the trial took; `None` if it was not begun.
        took: Option<Nanos>,
        /// `true` if the trial was stopped, and is only kept because it has left something.
        interrupted: bool,
        /// Why no further trial can run.
        broken: Result<(), SweepError>,
    },
    /// It was stopped, and everything is undone.
    Interrupted,
}

impl<'a> Runner<'a> {
    /// With the devices of the plan, where the guards let them pass, and the overhead on this machine.
    pub fn new(
        plan: &'a Plan,
        machines: &mut Machines<'_>,
        options: &'a RunOptions<'a>,
        cases: &'a [Case],
        unmet: &'a [Vec<String>],
    ) -> Result<Self, SweepError> {
        let runnable = runnable(cases, unmet);
        let on_host = runnable.iter().any(|configuration| configuration.guest_kernel().is_none());
        let scratch = ScratchDevices::new(plan, machines.host, options, runnable)?;
        let mut overheads = BTreeMap::new();
        if on_host {
            let overhead = overhead::measure(plan, machines.host, options.state_dir, options.interrupt)
                .map_err(|failure| SweepError::Engine { failure })?;
            overheads.insert(HOST_KERNEL.to_string(), overhead);
        }
        Ok(Runner { plan, options, cases, unmet, scratch, overheads, left: Vec::new() })
    }

    /// One trial: skipped, refused for a stuck device, or run.
    ///
    /// # Errors
    /// [`SweepError::NoRoom`] if the trial was stopped for lack of space; it does not count.
    pub fn run(
        &mut self,
        machines: &mut Machines<'_>,
        hooks: &TrialHooks<'a>,
        slot: &Slot,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Ran, SweepError> {
        let (case, unmet) = (&self.cases[slot.case as usize], &self.unmet[slot.case as usize]);
        let runs_here = unmet.is_empty() && case.configuration.guest_kernel().is_none();
        if runs_here && self.scratch.blocked.is_none() {
            let on_progress =
                &mut |share| progress(&Progress { done: Some(share), ..Progress::at(TrialStep::Images) });
            if !self.scratch.write_images(machines.host, on_progress)? {
                return Ok(Ran::Interrupted);
            }
        }
        let device = match case.device.model() {
            Some(_) => case.device.clone(),
            None => self.scratch.devices.data.clone(),
        };
        let not_run = |record| {
            Ok(Ran::Ended { record: Box::new(record), took: None, interrupted: false, broken: Ok(()) })
        };
        if !unmet.is_empty() {
            return not_run(trial::skipped(slot, case, &device, unmet));
        }
        if let Some(left) = &self.scratch.blocked {
            return not_run(trial::not_begun(slot, case, &device, left));
        }
        let (start, started) = (Instant::now(), Timestamp::now());
        if !self.cool_down(progress) {
            return Ok(Ran::Interrupted);
        }
        let ended = self.run_between_hooks(machines, hooks, (slot, case), &device, progress);
        let took = start.elapsed();
        let (stuck, interrupted) = (!ended.left.is_empty(), ended.interrupted);
        let mut broken = Ok(());
        // A recorded disk is new in each trial.
        if stuck && recorded::load(case).is_some() {
            self.left.extend(ended.left);
            self.left.extend(ended.stuck);
        } else if stuck {
            broken = self.scratch.step_aside(machines.host, &ended.left);
            self.left.extend(ended.stuck);
        }
        // An interrupted trial is run again later, unless it has left something behind that must be reported.
        if interrupted && !stuck {
            return Ok(Ran::Interrupted);
        }
        if let (true, false, Outcome::Failed { error }) = (ended.no_room, stuck, &ended.record.outcome) {
            return Err(SweepError::NoRoom { failure: Box::new(error.clone()) });
        }
        let mut record = Box::new(ended.record);
        record.started = started.to_string();
        // The clock of the day may be set meanwhile, and what a trial took is the difference of these two.
        record.finished = started.saturating_add(took).unwrap_or(started).to_string();
        record.warnings.extend_from_slice(if runs_here { self.options.known } else { &[] });
        Ok(Ran::Ended { record, took: Some(took.into()), interrupted, broken })
    }

    /// Leaves the machine alone for as long as the plan asks. Returns `false` if it was interrupted.
    fn cool_down(&self, progress: &mut dyn FnMut(&Progress)) -> bool {
        let Some(pause) = self.plan.rules.cooldown else { return true };
        let end = Instant::now() + Duration::from(pause);
        while !self.options.interrupt.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let done = 1.0 - left.as_secs_f64() / pause.as_secs_f64();
            progress(&Progress { done: Some(done), ..Progress::at(TrialStep::Cooldown) });
            std::thread::sleep(left.min(GLANCE));
        }
        false
    }

    /// Removes what was prepared for trials that have run, if none of these needs it.
    pub fn keep_for(&mut self, machines: &mut Machines<'_>, slots: &[Slot]) {
        self.left.extend(self.scratch.keep_for(machines.host, slots, self.cases));
    }

    /// Tries once more to take down what was stuck, and gives up the journals. Returns all that is left.
    pub fn leave(self, machines: &mut Machines<'_>) -> Vec<String> {
        machines.host.limit_steps(Some(self.plan.rules.watchdog.into()));
        let mut left = self.left;
        left.extend(self.scratch.leave(machines.host, self.options.hurry));
        left
    }

    fn run_between_hooks(
        &mut self,
        machines: &mut Machines<'_>,
        hooks: &TrialHooks<'a>,
        (slot, case): (&Slot, &Case),
        device: &DeviceSpec,
        progress: &mut dyn FnMut(&Progress),
    ) -> trial::Ended {
        // What was done before belongs to no trial.
        machines.host.take_log();
        if !self.plan.hooks.is_empty() {
            progress(&Progress::at(TrialStep::BeforeTrial));
        }
        let mut ended = hooks.run(machines, (slot, case), device, |machines, commands| {
            self.run_trial(machines, hooks, (slot, case), device, commands, progress)
        });
        // In a guest, what was done on this machine came first.
        ended.record.log.splice(..0, machines.host.take_log());
        ended
    }

    fn run_trial(
        &mut self,
        machines: &mut Machines<'_>,
        hooks: &TrialHooks<'a>,
        (slot, case): (&Slot, &Case),
        device: &DeviceSpec,
        commands: &mut TrialCommands<'_>,
        progress: &mut dyn FnMut(&Progress),
    ) -> trial::Ended {
        let stops = Stops { interrupt: self.options.interrupt, hurry: self.options.hurry };
        if let Some(load) = recorded::load(case) {
            let mut recording = Recording {
                plan: self.plan,
                machines,
                state_dir: self.options.state_dir,
                stops,
                overheads: &mut self.overheads,
                keep: hooks.log_of(slot.trial),
                progress,
            };
            return durability::run(&mut recording, slot, case, load);
        }
        if let Some(request) = guest_request::request_for(self.plan, case, &self.scratch.devices) {
            let mut trial = InGuest {
                plan: self.plan,
                machines,
                devices: &self.scratch.devices,
                device,
                journal: &mut self.scratch.journal,
                stops,
                overheads: &mut self.overheads,
                progress,
            };
            return guest::run(&mut trial, &request, slot, case);
        }
        let mut bench = Bench {
            plan: self.plan,
            host: machines.host,
            testbed: &self.scratch.testbed,
            device,
            journal: &mut self.scratch.journal,
            stops,
            overhead: self.overheads.get(HOST_KERNEL).copied().unwrap_or_default(),
            site: Site::Machine {
                commands,
                store: &hooks.store,
                preparations: self.scratch.preparations.as_mut(),
            },
            marks: None,
            pacing: None,
            progress,
        };
        trial::run(&mut bench, slot, case)
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
