//! A sweep: restore, guards, overhead, then trial after trial, each stored at once.
//!
//! A failing, hanging or impossible case never ends the sweep. Ctrl-C does: the running trial is undone and counts for
//! nothing, the finished ones are kept, and the sweep can go on later. A trial that leaves something behind keeps its
//! undo journal for `fsdyno restore`; the next one takes images of other names, so that it cannot meet the remains. A
//! block device has no other name: its remaining trials are failed, with the reason.

use crate::cases::Case;
use crate::enough::Tally;
use crate::error::SweepError;
use crate::estimate::{self, trial_time};
use crate::guest::{self, InGuest};
use crate::order::{Slot, further, order};
use crate::overhead::Overhead;
use crate::plan::Plan;
use crate::trial::{self, Bench};
use fsdyno_core::kernel::HOST_KERNEL;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Nanos, Outcome, TrialRecord};
use fsdyno_host::Host;
use fsdyno_host::guest::Guests;
use fsdyno_store::{NewSweep, Store, SweepId};
use fsdyno_testbed::undo::{self, UndoReport};
use fsdyno_testbed::{Confirmation, Testbed, UndoJournal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How a sweep is to be run.
#[derive(Debug)]
pub struct RunOptions<'a> {
    /// Directory of the undo journals.
    pub state_dir: &'a Path,
    /// What the user has confirmed.
    pub confirmation: &'a Confirmation,
    /// Set by Ctrl-C: stop, undo everything, keep what is finished.
    pub interrupt: &'a AtomicBool,
    /// Go on with this sweep instead of beginning one.
    pub resume: Option<SweepId>,
}

/// Where trials run.
pub struct Machines<'a> {
    /// This machine.
    pub host: &'a mut dyn Host,
    /// Where guests come from.
    pub guests: &'a mut dyn Guests,
}

/// How a sweep ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepOutcome {
    /// Its number in the store.
    pub sweep: SweepId,
    /// Whether it came to its end.
    pub end: SweepEnd,
    /// Trials stored by this run that were measured.
    pub measured: u32,
    /// Trials stored by this run that were skipped.
    pub skipped: u32,
    /// Trials stored by this run that failed.
    pub failed: u32,
    /// What is left on the machine, of this sweep or of earlier ones, one line each.
    pub left: Vec<String>,
}

/// Whether a sweep came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepEnd {
    /// Every planned trial is stored, and the machine is as it was.
    Finished,
    /// The user stopped it; the machine is as it was.
    Interrupted,
    /// Finished or interrupted, and something is left on the machine.
    NotRestored,
}

/// What a running sweep tells.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Something that an earlier sweep had left was undone, or could not be.
    Restored(&'a UndoReport),
    /// A trial is on its way; several times a second at most.
    Running(&'a Position),
    /// A trial has ended and is stored.
    Stored(&'a Position, &'a TrialRecord),
    /// Cases are repeated once more, because their figures are not known well enough.
    Further {
        /// The block, from 1.
        block: u32,
        /// Names of their configurations with the kinds of their workloads.
        cases: &'a [(&'a str, &'static str)],
        /// Trials in all with those of the block.
        trials: u32,
    },
}

/// Where a sweep is.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The trial, from 1; trials of an earlier run of the same sweep count.
    pub trial: u32,
    /// Trials in all.
    pub trials: u32,
    /// Name of the configuration.
    pub configuration: String,
    /// Kind of the workload.
    pub workload: &'static str,
    /// Whether it is the sentinel.
    pub sentinel: bool,
    /// What is being done: `mkfs`, `prepare`, `measure`.
    pub stage: &'static str,
    /// Share of the trial that is done, 0 to 1; an estimate that never goes back.
    pub fraction: f64,
    /// Estimated time until the sweep ends; until the end of the block where more may follow.
    pub left: Nanos,
    /// Whether blocks may follow that are not planned yet.
    pub more_may_follow: bool,
}

/// Runs a plan, or what is missing of it.
///
/// # Errors
/// [`SweepError`]; everything that was changed is undone then, too.
pub fn run(
    plan: &Plan,
    machines: &mut Machines<'_>,
    store: &mut Store,
    options: &RunOptions<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<SweepOutcome, SweepError> {
    let host = &mut *machines.host;
    let restored = undo::restore(host, options.state_dir)?.report;
    if restored != UndoReport::default() {
        observer(Progress::Restored(&restored));
    }
    let cases = plan.cases();
    // A device that cannot be looked at is refused below.
    let size = estimate::size_to_fill(host, plan, &cases).ok();
    let unmet = unmet(plan, host, machines.guests, &cases, size);
    let mut slots = order(plan);
    let stored = match options.resume {
        Some(sweep) => stored_trials(plan, store, sweep)?,
        None => Default::default(),
    };
    let runnable = runnable(&cases, &unmet);
    let testbed = Testbed::verify(host, &plan.devices, &runnable, tree_space(plan), options.confirmation)?;
    let journal = UndoJournal::create(host, options.state_dir)?;
    let mut overheads = BTreeMap::new();
    if runnable.iter().any(|configuration| configuration.guest_kernel().is_none()) {
        let overhead = Overhead::measure(plan, host, options.state_dir, options.interrupt)
            .map_err(|failure| SweepError::Engine { failure })?;
        overheads.insert(HOST_KERNEL.to_string(), overhead);
    }
    let sweep = match options.resume {
        Some(sweep) => {
            store.resume_sweep(sweep)?;
            sweep
        }
        None => store.create_sweep(&new_sweep(plan, &cases, &slots))?,
    };
    let mut sweeping = Sweeping {
        plan,
        options,
        runnable,
        ground: Ground { testbed, devices: plan.devices.clone(), journal, stuck: Vec::new(), blocked: None },
        overheads,
        clock: Clock::new(&cases, &unmet, size),
        tally: tally(plan, store, options.resume)?,
        outcome: SweepOutcome {
            sweep,
            end: SweepEnd::Finished,
            measured: 0,
            skipped: 0,
            failed: 0,
            left: restored.left,
        },
    };
    let mut result = Ok(());
    let mut index = 0;
    loop {
        if index == slots.len() {
            match sweeping.further(store, &cases, &mut slots, observer) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let slot = &slots[index];
        index += 1;
        if stored.contains(&slot.trial) {
            continue;
        }
        if options.interrupt.load(Ordering::Relaxed) {
            sweeping.outcome.end = SweepEnd::Interrupted;
            break;
        }
        let case = &cases[slot.case as usize];
        let rest: Vec<u32> = slots[index..]
            .iter()
            .filter(|slot| !stored.contains(&slot.trial))
            .map(|slot| slot.case)
            .collect();
        let place = Place { slot, case, unmet: &unmet[slot.case as usize], rest: &rest, trials: slots.len() };
        result = sweeping.step(machines, store, &place, observer);
        if result.is_err() || sweeping.outcome.end == SweepEnd::Interrupted {
            break;
        }
    }
    sweeping.end(machines.host, store, result)
}

/// Everything that changes while a sweep runs.
struct Sweeping<'a> {
    plan: &'a Plan,
    options: &'a RunOptions<'a>,
    runnable: Vec<Configuration>,
    ground: Ground,
    /// What the tool itself costs, by kernel: that of the machine itself, those of guests once each has run.
    overheads: BTreeMap<String, Overhead>,
    clock: Clock,
    /// The trials so far, where their number hangs on them.
    tally: Tally,
    outcome: SweepOutcome,
}

/// What trials stand on, and what earlier ones have left there.
struct Ground {
    testbed: Testbed,
    devices: Devices,
    journal: UndoJournal,
    /// Journals of trials that could not be taken down.
    stuck: Vec<UndoJournal>,
    /// Why no trial can begin any more: what is left on a device that has no substitute.
    blocked: Option<Vec<String>>,
}

/// A trial within its sweep.
struct Place<'a> {
    slot: &'a Slot,
    case: &'a Case,
    unmet: &'a [String],
    /// Cases of the trials that follow.
    rest: &'a [u32],
    trials: usize,
}

impl Sweeping<'_> {
    /// One trial: skipped, refused for a stuck device, or run; then stored.
    fn step(
        &mut self,
        machines: &mut Machines<'_>,
        store: &mut Store,
        place: &Place<'_>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), SweepError> {
        let Place { slot, case, unmet, .. } = *place;
        let mut position = self.position(place);
        let device = self.ground.devices.data.clone();
        let record = if !unmet.is_empty() {
            trial::skipped(slot, case, &device, unmet)
        } else if let Some(left) = &self.ground.blocked {
            trial::not_begun(slot, case, &device, left)
        } else {
            let start = Instant::now();
            let ended = self.run_trial(machines, place, &device, &mut position, observer);
            let stuck = !ended.left.is_empty();
            if ended.interrupted {
                self.outcome.end = SweepEnd::Interrupted;
            }
            if stuck {
                self.step_aside(machines.host, &ended.left)?;
            }
            // An interrupted trial is run again later, unless it has left something that must be told.
            if ended.interrupted && !stuck {
                return Ok(());
            }
            self.clock.took(slot.case, start.elapsed().into());
            ended.record
        };
        let record = self.counted(record);
        store.add_trial(self.outcome.sweep, &record)?;
        match record.outcome {
            Outcome::Measured => self.outcome.measured += 1,
            Outcome::Skipped { .. } => self.outcome.skipped += 1,
            Outcome::Failed { .. } => self.outcome.failed += 1,
        }
        position.fraction = 1.0;
        position.left = self.clock.left(place.rest);
        observer(Progress::Stored(&position, &record));
        Ok(())
    }

    /// Plans a further block, if some case needs one and there may be one.
    fn further(
        &mut self,
        store: &mut Store,
        cases: &[Case],
        slots: &mut Vec<Slot>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, SweepError> {
        let Plan { enough: Some(enough), measure, seed, .. } = self.plan else { return Ok(false) };
        let block = slots.last().map_or(0, |slot| slot.block + 1);
        let wanting = self.tally.wanting(enough, measure, *seed, block);
        if block >= enough.max || wanting.is_empty() {
            return Ok(false);
        }
        let count = |slots: &[Slot]| u32::try_from(slots.len()).unwrap_or(u32::MAX);
        slots.extend(further(self.plan, block, &wanting, count(slots)));
        let names: Vec<(&str, &'static str)> = wanting
            .iter()
            .map(|case| &cases[*case as usize])
            .map(|case| (case.configuration.name.as_str(), case.workload.kind()))
            .collect();
        let trials = count(slots);
        store.plan_trials(self.outcome.sweep, trials)?;
        observer(Progress::Further { block: block + 1, cases: &names, trials });
        Ok(true)
    }

    /// Counts a trial where the number of trials hangs on it; the last of a case that is given up says so.
    fn counted(&mut self, mut record: TrialRecord) -> TrialRecord {
        if let Plan { enough: Some(enough), measure, seed, .. } = self.plan {
            self.tally.add(&record);
            record.warnings.extend(self.tally.given_up(&record, enough, measure, *seed));
        }
        record
    }

    fn run_trial(
        &mut self,
        machines: &mut Machines<'_>,
        place: &Place<'_>,
        device: &DeviceSpec,
        position: &mut Position,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> trial::Ended {
        let start = Instant::now();
        let expected = self.clock.expected(place.slot.case);
        let rest = self.clock.left(place.rest);
        let mut progress = |stage: &'static str, load_left: Option<Nanos>| {
            let elapsed = Nanos::from(start.elapsed());
            let left = load_left.map_or(expected.0.saturating_sub(elapsed.0), |left| left.0);
            let share = elapsed.0 as f64 / (elapsed.0.saturating_add(left)).max(1) as f64;
            position.stage = stage;
            position.fraction = position.fraction.max(share.min(0.99));
            position.left = Nanos(left.saturating_add(rest.0));
            observer(Progress::Running(position));
        };
        if let Some(request) = guest::request_for(self.plan, place.case, &self.ground.devices) {
            let mut trial = InGuest {
                plan: self.plan,
                machines,
                devices: &self.ground.devices,
                device,
                journal: &mut self.ground.journal,
                interrupt: self.options.interrupt,
                overheads: &mut self.overheads,
                progress: &mut progress,
            };
            return guest::run(&mut trial, &request, place.slot, place.case);
        }
        let mut bench = Bench {
            plan: self.plan,
            host: machines.host,
            testbed: &self.ground.testbed,
            device,
            journal: &mut self.ground.journal,
            host_ends: false,
            interrupt: self.options.interrupt,
            overhead: self.overheads.get(HOST_KERNEL).copied().unwrap_or_default(),
            progress: &mut progress,
        };
        trial::run(&mut bench, place.slot, place.case)
    }

    /// After a trial that left something behind: a new journal, and images of other names.
    fn step_aside(&mut self, host: &mut dyn Host, left: &[String]) -> Result<(), SweepError> {
        let fresh = UndoJournal::create(host, self.options.state_dir)?;
        self.ground.stuck.push(std::mem::replace(&mut self.ground.journal, fresh));
        self.outcome.left.extend_from_slice(left);
        match substitute(&self.plan.devices, self.ground.stuck.len()) {
            None => self.ground.blocked = Some(left.to_vec()),
            Some(devices) => {
                let space = tree_space(self.plan);
                let confirmation = self.options.confirmation;
                match Testbed::verify(host, &devices, &self.runnable, space, confirmation) {
                    Ok(testbed) => {
                        self.ground.testbed = testbed;
                        self.ground.devices = devices;
                    }
                    // No room for another image, say: the sweep goes on in telling so for each remaining trial.
                    Err(error) => {
                        let mut reasons = left.to_vec();
                        reasons.push(error.to_string());
                        self.ground.blocked = Some(reasons);
                    }
                }
            }
        }
        Ok(())
    }

    fn position(&self, place: &Place<'_>) -> Position {
        let own = if place.unmet.is_empty() { self.clock.expected(place.slot.case).0 } else { 0 };
        Position {
            trial: place.slot.trial + 1,
            trials: u32::try_from(place.trials).unwrap_or(u32::MAX),
            configuration: place.case.configuration.name.clone(),
            workload: place.case.workload.kind(),
            sentinel: place.slot.sentinel,
            stage: "build",
            fraction: 0.0,
            left: Nanos(self.clock.left(place.rest).0.saturating_add(own)),
            more_may_follow: self.plan.enough.is_some_and(|enough| place.slot.block + 1 < enough.max),
        }
    }

    /// Tries once more to take down what was stuck, and notes how the sweep ended.
    fn end(
        mut self,
        host: &mut dyn Host,
        store: &mut Store,
        result: Result<(), SweepError>,
    ) -> Result<SweepOutcome, SweepError> {
        let sweep = self.outcome.sweep;
        let noted = match (&result, self.outcome.end) {
            (Ok(()), SweepEnd::Finished) => store.finish_sweep(sweep),
            _ => store.interrupt_sweep(sweep),
        };
        host.limit_steps(Some(self.plan.watchdog.into()));
        for mut journal in std::mem::take(&mut self.ground.stuck) {
            journal.undo_all(host);
            journal.close()?;
        }
        self.ground.journal.close()?;
        result?;
        noted?;
        if !self.outcome.left.is_empty() {
            self.outcome.end = SweepEnd::NotRestored;
        }
        Ok(self.outcome)
    }
}

/// Estimates the time that is left, from the plan at first and from the trials so far as they end.
struct Clock {
    /// Estimate of each case, nothing where it is skipped.
    estimates: Vec<Nanos>,
    estimated: u64,
    taken: u64,
}

impl Clock {
    fn new(cases: &[Case], unmet: &[Vec<String>], size: Option<Bytes>) -> Self {
        let estimate = |(case, unmet): (&Case, &Vec<String>)| {
            if unmet.is_empty() { trial_time(case, size) } else { Nanos(0) }
        };
        Clock { estimates: cases.iter().zip(unmet).map(estimate).collect(), estimated: 0, taken: 0 }
    }

    fn took(&mut self, case: u32, duration: Nanos) {
        self.estimated = self.estimated.saturating_add(self.estimates[case as usize].0);
        self.taken = self.taken.saturating_add(duration.0);
    }

    fn expected(&self, case: u32) -> Nanos {
        let scale = if self.estimated == 0 { 1.0 } else { self.taken as f64 / self.estimated as f64 };
        Nanos((self.estimates[case as usize].0 as f64 * scale) as u64)
    }

    fn left(&self, cases: &[u32]) -> Nanos {
        Nanos(cases.iter().map(|case| self.expected(*case).0).fold(0, u64::saturating_add))
    }
}

/// For each case everything that keeps it from running here; workloads share what is asked of their configuration.
fn unmet(
    plan: &Plan,
    host: &mut dyn Host,
    guests: &mut dyn Guests,
    cases: &[Case],
    size: Option<Bytes>,
) -> Vec<Vec<String>> {
    let mut of_last: Vec<String> = Vec::new();
    let unmet = cases.iter().enumerate().map(|(index, case)| {
        if index == 0 || cases[index - 1].configuration != case.configuration {
            of_last = estimate::of_configuration(host, guests, plan, case);
        }
        let of_case = [estimate::of_workload(host, plan, case), estimate::of_fill(case, size)].concat();
        of_last.iter().cloned().chain(of_case).collect()
    });
    unmet.collect()
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

/// What the files that workloads make beforehand occupy at least.
pub(crate) fn tree_space(plan: &Plan) -> Bytes {
    let sizes = plan.workloads.iter().map(|workload| workload.load().prepares());
    sizes.max().unwrap_or_default()
}

/// The trials that a resumed sweep has, where the number of further ones hangs on them.
fn tally(plan: &Plan, store: &Store, resume: Option<SweepId>) -> Result<Tally, SweepError> {
    let mut tally = Tally::default();
    if let (Some(sweep), Some(_)) = (resume, plan.enough) {
        store.outlines(sweep)?.iter().for_each(|trial| tally.add(trial));
    }
    Ok(tally)
}

/// The trials that are stored of a sweep, which must be of the same plan.
fn stored_trials(
    plan: &Plan,
    store: &Store,
    sweep: SweepId,
) -> Result<std::collections::BTreeSet<u32>, SweepError> {
    let stored = store.sweep(sweep)?;
    if stored.plan_toml != plan.text || stored.overrides != plan.overrides {
        return Err(SweepError::PlanDiffers { sweep, name: stored.summary.name });
    }
    Ok(store.trial_numbers(sweep)?)
}

fn new_sweep(plan: &Plan, cases: &[Case], slots: &[Slot]) -> NewSweep {
    NewSweep {
        name: plan.name.clone(),
        plan_toml: plan.text.clone(),
        overrides: plan.overrides.clone(),
        seed: plan.seed,
        measure: plan.measure.name().to_string(),
        environment: None,
        cases: u32::try_from(cases.len()).unwrap_or(u32::MAX),
        trials: u32::try_from(slots.len()).unwrap_or(u32::MAX),
    }
}

/// The same devices with images of other names; none where a block device or a directory has no substitute.
fn substitute(devices: &Devices, generation: usize) -> Option<Devices> {
    let other = |disk: &DeviceSpec| match disk {
        DeviceSpec::Image { path, size, direct_io } => {
            let mut name = path.as_os_str().to_os_string();
            name.push(format!(".{generation}"));
            Ok(DeviceSpec::Image { path: PathBuf::from(name), size: *size, direct_io: *direct_io })
        }
        _ => Err(()),
    };
    let renamed = |spec: &DeviceSpec| spec.on_other_disks(&mut { other }).ok();
    let journals = devices.journals.iter().map(|(name, spec)| Some((name.clone(), renamed(spec)?)));
    Some(Devices { data: renamed(&devices.data)?, journals: journals.collect::<Option<_>>()? })
}
