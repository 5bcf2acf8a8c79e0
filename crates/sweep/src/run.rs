//! A sweep on this machine: restore, guards, overhead, then trial after trial, each stored immediately.
//!
//! A failing, hanging or impossible case never ends the sweep. Ctrl-C does: the running trial is undone and
//! does not count, the finished ones are kept, and the sweep can be continued later. `runner.rs` runs the
//! trials, `run/blocks.rs` decides which there are.

pub(crate) mod blocks;
mod deciding;
pub(crate) mod keeping;

use crate::estimate;
use crate::options::{Machines, RunOptions};
use crate::order::Slot;
use crate::plan::{Case, Plan, PlanCommand};
use crate::progress::{Position, SweepEvent, TrialCourse};
use crate::runner::{Here, Ran, Runner};
use crate::sweep_error::SweepError;
use crate::trial::hooks::TrialHooks;
use blocks::Blocks;
use fsdyno_core::{AfterTrial, Nanos, Progress};
use fsdyno_host::Host;
use fsdyno_store::{Store, SweepId};
use fsdyno_testbed::MissingPrivilege;
use fsdyno_testbed::undo::{self, UndoReport};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// The outcome of a sweep.
#[derive(Debug)]
pub struct SweepOutcome {
    /// Its number in the store.
    pub sweep: SweepId,
    /// The way in which it ended.
    pub end: SweepEnd,
    /// Trials stored by this run that were measured.
    pub measured: u32,
    /// Trials stored by this run that were skipped.
    pub skipped: u32,
    /// Trials stored by this run that failed.
    pub failed: u32,
    /// The leftovers on the machine, of this sweep or of earlier ones, one line each.
    pub left: Vec<String>,
    /// Why it could not continue, if that ended it.
    pub broken: Option<SweepError>,
    /// `true` if its results have been copied elsewhere, because somebody has removed the store.
    pub is_elsewhere: bool,
}

/// The way in which a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepEnd {
    /// Every planned trial is stored, or all that fit into the time limit, and the machine is as it was.
    Finished,
    /// The user stopped it; the machine is as it was.
    Interrupted,
    /// It could not continue ([`SweepOutcome::broken`]); the machine is as it was.
    Broken,
    /// However it ended, something is left on the machine.
    NotRestored,
}

/// Refuses a plan that needs root to an ordinary user, before anything is read or written for it.
///
/// # Errors
/// [`SweepError::NeedsRoot`].
pub fn verify_privileges(plan: &Plan, host: &mut dyn Host) -> Result<(), SweepError> {
    match estimate::lack(plan, host) {
        Some(lack) => Err(SweepError::NeedsRoot { lack }),
        None => Ok(()),
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
    observer: &mut dyn FnMut(SweepEvent<'_>),
) -> Result<SweepOutcome, SweepError> {
    let host = &mut *machines.host;
    verify_privileges(plan, host)?;
    verify_number_of_clients(plan, host)?;
    if !plan.hooks.is_empty() && !options.confirmation.hooks {
        let as_root = MissingPrivilege::of(host) != Some(MissingPrivilege::Root);
        let commands = plan.hooks.commands.iter().map(PlanCommand::line).collect();
        return Err(SweepError::HooksNotAllowed { commands, as_root });
    }
    let restored = undo::restore(host, options.state_dir)?.report;
    if restored != UndoReport::default() {
        observer(SweepEvent::Restored(&restored));
    }
    store.check_room()?;
    let cases = plan.cases();
    let here = Here::of(plan, machines, &cases);
    let earlier = keeping::earlier(plan, Some(machines.host), store, options)?;
    let runs = here.unmet.iter().filter(|unmet| unmet.is_empty()).count();
    if options.resume.is_none() && plan.race.is_some() && runs < 2 {
        return Err(SweepError::NoRace { configurations: cases.len(), runs });
    }
    let blocks = Blocks::new(plan, &cases, &here, &earlier, 1);
    let runner = Runner::new(plan, machines, options, &cases, &here.unmet)?;
    let sweep = keeping::begin(plan, store, options.resume, (cases.len(), blocks.trials()))?;
    earlier.record(store, sweep)?;
    let kernels = earlier.kernels();
    observer(SweepEvent::Began(sweep));
    let mut sweeping = Sweeping {
        hooks: TrialHooks::new(plan, options, store, sweep),
        options,
        cases: &cases,
        unmet: &here.unmet,
        runner,
        blocks,
        kernels,
        outcome: SweepOutcome::new(sweep, restored.left),
    };
    let result = sweeping.trials(machines, store, observer);
    let Sweeping { runner, mut outcome, .. } = sweeping;
    outcome.left.extend(runner.leave(machines));
    Ok(outcome.end(store, options, result))
}

/// Refuses a plan for another number of clients.
fn verify_number_of_clients(plan: &Plan, host: &dyn Host) -> Result<(), SweepError> {
    // Those of a server are guests, made for each trial.
    let launched = plan.clients.filter(|_| plan.serve.is_none());
    let (planned, clients) = (launched.unwrap_or(0), host.clients().len());
    match planned as usize == clients {
        true => Ok(()),
        false => Err(SweepError::Clients { planned, clients }),
    }
}

/// Ends the sweep once a client is lost: without it, nothing that follows could be measured.
fn verify_all_clients(host: &dyn Host) -> Result<(), SweepError> {
    host.lost_client().map_or(Ok(()), |reason| Err(SweepError::ClientLost { reason }))
}

/// A sweep that runs.
struct Sweeping<'a> {
    options: &'a RunOptions<'a>,
    cases: &'a [Case],
    /// For each case, the reasons why it cannot run here.
    unmet: &'a [Vec<String>],
    hooks: TrialHooks<'a>,
    runner: Runner<'a>,
    blocks: Blocks<'a>,
    /// The kernels that its cases have run on, if blocks are added to a sweep that had ended.
    kernels: BTreeMap<u32, String>,
    outcome: SweepOutcome,
}

impl Sweeping<'_> {
    /// Trial after trial, and more blocks as long as one is needed.
    fn trials(
        &mut self,
        machines: &mut Machines<'_>,
        store: &mut Store,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<(), SweepError> {
        let sweep = self.outcome.sweep;
        let mut index = 0;
        while index < self.blocks.slots.len() || self.blocks.further(store, sweep, observer)? {
            if self.blocks.is_out_of_time(store, sweep, index, observer)? {
                break;
            }
            let slot = self.blocks.slots[index];
            index += 1;
            if self.blocks.stored.contains(&slot.trial) {
                continue;
            }
            if !self.is_to_go_on(&slot, observer) {
                self.outcome.end = SweepEnd::Interrupted;
                break;
            }
            let next = &self.blocks.slots[index..];
            let next = match &self.blocks.limit {
                Some(limit) => limit.fitting(&slot, next, &self.blocks.clock),
                None => next,
            };
            let next = next.iter().filter(|slot| !self.blocks.stored.contains(&slot.trial));
            let mut rest: Vec<u32> = next.map(|slot| slot.case).collect();
            let in_block = rest.len();
            rest.extend(self.blocks.later());
            let stored = self.step(machines, store, (&slot, &rest), observer);
            self.runner.keep_for(machines, &self.blocks.slots[index..]);
            stored?;
            self.blocks.tell_of_a_long_block(slot.block, &rest[..in_block], observer);
            if self.outcome.end == SweepEnd::Interrupted {
                break;
            }
        }
        Ok(())
    }

    /// Waits before a trial for as long as somebody who watches wants it, which does not count towards the
    /// time limit. Returns whether the sweep goes on.
    fn is_to_go_on(&mut self, next: &Slot, observer: &mut dyn FnMut(SweepEvent<'_>)) -> bool {
        let interrupt = self.options.interrupt;
        let on_pause = &mut |first| observer(SweepEvent::Paused { next: next.trial + 1, first });
        if let Some(paused) = self.options.asked.wait(interrupt, on_pause) {
            self.blocks.rest(paused);
            observer(SweepEvent::Continued(paused));
        }
        !interrupt.load(Ordering::Relaxed) && self.options.asked.get() != AfterTrial::Stop
    }

    /// One trial, and its record into the store. `rest` are the cases of the following ones.
    fn step(
        &mut self,
        machines: &mut Machines<'_>,
        store: &mut Store,
        (slot, rest): (&Slot, &[u32]),
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<(), SweepError> {
        store.check_room()?;
        verify_all_clients(machines.host)?;
        let left = self.blocks.clock.left(rest);
        let mut course = TrialCourse::new(self.position(slot, rest), self.blocks.clock.expected(slot.case));
        let mut progress = |now: &Progress| {
            course.come_to(now, left);
            observer(SweepEvent::Running(&course.position));
        };
        let ran = self.runner.run(machines, &self.hooks, slot, &mut progress)?;
        let Ran::Ended { mut record, took, interrupted, broken } = ran else {
            self.outcome.end = SweepEnd::Interrupted;
            return Ok(());
        };
        if interrupted {
            self.outcome.end = SweepEnd::Interrupted;
        }
        if let Some(took) = took {
            self.blocks.clock.took(slot.case, took);
        }
        keeping::verify_kernel(&self.kernels, self.outcome.sweep, &record)?;
        self.blocks.counted(&mut record);
        self.outcome.store(store, self.options, &record)?;
        self.runner.scratch.verify_journal()?;
        let left = self.blocks.clock.left(rest);
        let position = Position { fraction: 1.0, left, ..course.position };
        observer(SweepEvent::Stored(&position, &record));
        broken
    }

    fn position(&self, slot: &Slot, rest: &[u32]) -> Position {
        let clock = &self.blocks.clock;
        let runs = self.unmet[slot.case as usize].is_empty();
        let own = if runs { clock.expected(slot.case).0 } else { 0 };
        Position {
            left: Nanos(clock.left(rest).0.saturating_add(own)),
            more_may_follow: self.blocks.more_may_follow(slot.block),
            ..Position::new(slot, &self.cases[slot.case as usize], self.blocks.trials())
        }
    }
}
