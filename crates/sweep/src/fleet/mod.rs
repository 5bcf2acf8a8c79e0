//! A sweep over a fleet: machines that share its trials.
//!
//! Each block runs on one machine, so that differences between machines are differences between blocks, which
//! ratios within blocks do not see. A machine that is idle gets the next block; one that is lost loses the
//! trial in progress, and what is left of its block goes to another one. Members ([`FleetMember`]) run whole
//! trials; this end plans and stores.

mod beginning;
mod machine;
mod member;
mod queue;
mod wire;

pub use member::FleetMember;

use crate::options::RunOptions;
use crate::order::Slot;
use crate::plan::{Case, Plan};
use crate::progress::{Position, SweepEvent, TrialCourse};
use crate::run::blocks::Blocks;
use crate::run::{SweepEnd, SweepOutcome, keeping};
use crate::sweep_error::SweepError;
use beginning::{await_all, confirmations, known_devices};
use fsdyno_clients::ClientPool;
use fsdyno_core::{AfterTrial, Nanos, TrialRecord, Warning, WarningKind};
use fsdyno_store::Store;
use machine::{Machine, RunningTrial, TURN};
use queue::Queue;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::{FromMember, Task, ToMember, line};

/// The time that members may take to take down what is stuck, once there is nothing more to do.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);
/// The same if the user does not want to wait.
const HURRY_LIMIT: Duration = Duration::from_secs(10);
/// After this time, a message says what is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a plan, or the missing trials of it, on the machines of a launch.
///
/// # Errors
/// [`SweepError`] if it does not start; nothing has been changed then. Later causes are in the outcome.
pub fn run_fleet(
    plan: &Plan,
    pool: &ClientPool,
    store: &mut Store,
    options: &RunOptions<'_>,
    observer: &mut dyn FnMut(SweepEvent<'_>),
) -> Result<SweepOutcome, SweepError> {
    let names = pool.names();
    let confirmed = confirmations(plan, &names, options.confirmation)?;
    store.check_room()?;
    let cases = plan.cases();
    let earlier = keeping::earlier(plan, None, store, options)?;
    let known = match options.resume {
        Some(sweep) => known_devices(&store.trials(sweep)?),
        None => BTreeMap::new(),
    };
    let mut machines: Vec<Machine> = names.into_iter().map(Machine::new).collect();
    for (number, (machine, confirmation)) in machines.iter().zip(confirmed).enumerate() {
        let own = || known.get(&machine.name).cloned().unwrap_or_default();
        let task = Task {
            plan: Plan { devices: plan.devices_on(&machine.name), ..plan.clone() },
            confirmation,
            resumed: options.resume.map(|sweep| (sweep.0, own())),
        };
        pool.tell(number, line(&ToMember::Begin(Box::new(task))));
    }
    let (here, left) = match await_all(plan, pool, &machines, options, observer) {
        Ok(ready) => ready,
        Err(error) => {
            (0..machines.len()).for_each(|number| pool.tell(number, line(&ToMember::End)));
            return Err(error);
        }
    };
    let count = u32::try_from(machines.len()).unwrap_or(u32::MAX);
    let blocks = Blocks::new(plan, &cases, &here, &earlier, count);
    let queue = Queue::new(&blocks.stored, &earlier.trials);
    let sweep = keeping::begin(plan, store, options.resume, (cases.len(), blocks.trials()))?;
    earlier.record(store, sweep)?;
    observer(SweepEvent::Began(sweep));
    machines.iter_mut().for_each(|machine| machine.ready = true);
    let mut fleet = Fleet {
        cases: &cases,
        pool,
        options,
        machines,
        blocks,
        queue,
        is_out_of_time: false,
        paused: None,
        gone: Vec::new(),
        outcome: SweepOutcome::new(sweep, left),
    };
    let result = fleet.trials(store, observer);
    fleet.leave(observer);
    Ok(fleet.outcome.end(store, options, result))
}

/// A sweep over a fleet that runs.
struct Fleet<'a> {
    cases: &'a [Case],
    pool: &'a ClientPool,
    options: &'a RunOptions<'a>,
    machines: Vec<Machine>,
    blocks: Blocks<'a>,
    queue: Queue,
    /// `true` if no further block fits into the time of the sweep.
    is_out_of_time: bool,
    /// Since when no trial is begun because somebody who watches wants that.
    paused: Option<Instant>,
    /// The warnings that no stored trial has yet: which machines have left, and why.
    gone: Vec<Warning>,
    outcome: SweepOutcome,
}

impl Fleet<'_> {
    /// Gives trials to idle machines and stores what comes back, until there is nothing more to do.
    fn trials(
        &mut self,
        store: &mut Store,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<(), SweepError> {
        let (mut asked, mut has_said) = (None::<Instant>, false);
        loop {
            let interrupted = self.options.interrupt.load(Ordering::Relaxed);
            let wish = self.options.asked.get();
            if interrupted || wish == AfterTrial::Stop {
                self.outcome.end = SweepEnd::Interrupted;
            }
            if interrupted && asked.is_none() {
                asked = Some(Instant::now());
                (0..self.machines.len()).for_each(|number| self.pool.interrupt(number));
            }
            if !has_said && asked.is_some_and(|asked| asked.elapsed() > PATIENCE) {
                has_said = true;
                for machine in self.machines.iter().filter(|machine| machine.is_busy()) {
                    let line = "it is still undoing its trial; another Ctrl-C ends the wait";
                    observer(SweepEvent::Machine { name: &machine.name, line });
                }
            }
            let stops = self.outcome.end == SweepEnd::Interrupted;
            let pauses = wish == AfterTrial::Pause && !stops;
            self.rest(pauses, observer);
            if !stops && !pauses {
                self.hand_out(store, observer)?;
            }
            let is_busy = self.machines.iter().any(Machine::is_busy);
            if !is_busy && stops {
                return Ok(());
            }
            if !is_busy && !pauses {
                // Nobody has taken one: there is none.
                let is_left = self.queue.is_left(&self.blocks.slots);
                if is_left && !self.machines.iter().any(|machine| machine.ready) {
                    return Err(SweepError::NoMachineLeft { lost: self.reasons() });
                }
                let sweep = self.outcome.sweep;
                if !is_left && (self.is_out_of_time || !self.blocks.further(store, sweep, observer)?) {
                    return Ok(());
                }
                continue;
            }
            if self.options.hurry.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Some((number, text)) = self.pool.report(TURN) {
                self.hear(number, &text, store, observer)?;
            }
            self.look_for_the_lost(store, observer)?;
        }
    }

    /// Says that the sweep pauses, and that it goes on.
    fn rest(&mut self, pauses: bool, observer: &mut dyn FnMut(SweepEvent<'_>)) {
        match (pauses, self.paused) {
            (true, since) if !self.machines.iter().any(Machine::is_busy) => {
                self.paused = since.or_else(|| Some(Instant::now()));
                let next = self.queue.first(&self.blocks.slots).map_or(0, |slot| slot.trial + 1);
                observer(SweepEvent::Paused { next, first: since.is_none() });
                std::thread::sleep(TURN);
            }
            (false, Some(since)) => {
                let paused = Nanos::from(since.elapsed());
                self.paused = None;
                self.blocks.rest(paused);
                observer(SweepEvent::Continued(paused));
            }
            _ => {}
        }
    }

    /// A trial for each machine that is idle.
    fn hand_out(
        &mut self,
        store: &mut Store,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<(), SweepError> {
        let sweep = self.outcome.sweep;
        for number in 0..self.machines.len() {
            if !self.machines[number].is_idle() {
                continue;
            }
            let alive: Vec<&str> =
                self.machines.iter().filter(|one| one.ready).map(|one| &*one.name).collect();
            let name = self.machines[number].name.clone();
            let Some(index) = self.queue.next(&self.blocks.slots, &name, &alive) else { continue };
            let slot = self.blocks.slots[index];
            if self.queue.is_new(slot.block) && self.blocks.forbids(index) {
                // What trials take here is known once some have ended: until then, it waits.
                if !self.machines.iter().any(Machine::is_busy) {
                    self.blocks.is_out_of_time(store, sweep, index, observer)?;
                    self.blocks.slots.truncate(index);
                    self.is_out_of_time = true;
                }
                continue;
            }
            store.check_room()?;
            self.queue.give(&slot, &name);
            let rest = self.queue.rest_of_block(&self.blocks.slots, &slot);
            self.pool.tell(number, line(&ToMember::Run { slot, rest }));
            let position = Position {
                machine: Some(name),
                more_may_follow: self.blocks.more_may_follow(slot.block),
                ..Position::new(&slot, &self.cases[slot.case as usize], self.blocks.trials())
            };
            let expected = self.blocks.clock.expected(slot.case);
            self.machines[number].running =
                Some(RunningTrial { slot, course: TrialCourse::new(position, expected) });
        }
        Ok(())
    }

    fn hear(
        &mut self,
        number: usize,
        text: &str,
        store: &mut Store,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<(), SweepError> {
        match serde_json::from_str(text) {
            Ok(FromMember::At(at)) => {
                if let Some(running) = &mut self.machines[number].running {
                    running.course.come_to(&at, Nanos(0));
                }
                // One of them is shown.
                if let Some(first) = self.machines.iter().position(Machine::is_busy)
                    && first == number
                    && let Some(position) = self.position(number)
                {
                    observer(SweepEvent::Running(&position));
                }
            }
            Ok(FromMember::Ended { record, took }) => self.ended(number, *record, took, store, observer)?,
            Ok(FromMember::Interrupted) => {
                let reason = "it was stopped there".to_string();
                self.end_machine(
                    number,
                    (self.outcome.end != SweepEnd::Interrupted).then_some(reason),
                    observer,
                );
            }
            Ok(FromMember::Broken(reason)) => self.end_machine(number, Some(reason), observer),
            Ok(FromMember::Left(lines)) => self.left(number, lines),
            Ok(FromMember::Refused(reason)) => self.end_machine(number, Some(reason), observer),
            Ok(FromMember::Ready(_)) => {}
            Err(error) => {
                self.end_machine(number, Some(format!("it said what nobody understands: {error}")), observer)
            }
        }
        Ok(())
    }

    /// A trial has ended.
    fn ended(
        &mut self,
        number: usize,
        mut record: TrialRecord,
        took: Option<Nanos>,
        store: &mut Store,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<(), SweepError> {
        let left = self.time_left();
        let position = self.position(number);
        let Some(running) = self.machines[number].running.take() else { return Ok(()) };
        let slot = running.slot;
        let of_record = Slot {
            trial: record.trial,
            block: record.block,
            case: record.case,
            sentinel: record.sentinel,
            seed: record.seed,
        };
        if of_record != slot {
            self.queue.take_back(&slot);
            self.end_machine(number, Some("it sent another trial than was asked for".to_string()), observer);
            return Ok(());
        }
        // As the plan has it here: on the way, a number may have lost its last digit.
        record.workload = self.cases[slot.case as usize].workload.clone();
        record.machine = Some(self.machines[number].name.clone());
        record.warnings.append(&mut self.gone);
        if let Some(took) = took {
            self.blocks.clock.took(slot.case, took);
        }
        self.blocks.counted(&mut record);
        self.outcome.store(store, self.options, &record)?;
        self.queue.done(&slot);
        if let Some(position) = position {
            observer(SweepEvent::Stored(&Position { fraction: 1.0, left, ..position }, &record));
        }
        Ok(())
    }

    /// A machine that runs no further trials; with a reason if nobody has asked it to stop.
    fn end_machine(
        &mut self,
        number: usize,
        reason: Option<String>,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) {
        let machine = &mut self.machines[number];
        machine.ready = false;
        let lost = machine.running.take().map(|running| running.slot);
        if let Some(slot) = &lost {
            self.queue.take_back(slot);
        }
        let Some(reason) = reason.filter(|_| machine.lost.is_none()) else { return };
        let again =
            lost.map(|slot| format!("; trial {} is queued again", slot.trial + 1)).unwrap_or_default();
        observer(SweepEvent::Machine {
            name: &machine.name,
            line: &format!("runs no further trials: {reason}{again}"),
        });
        let text = format!("before this trial ended, {} left the fleet: {reason}", machine.name);
        self.gone.push(Warning::new(WarningKind::MachineLost, text));
        machine.lost = Some(reason);
    }

    fn look_for_the_lost(
        &mut self,
        store: &mut Store,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<(), SweepError> {
        let ready = (0..self.machines.len()).filter(|number| self.machines[*number].ready);
        let lost: Vec<(usize, String)> =
            ready.filter_map(|number| Some((number, self.pool.lost_member(number)?))).collect();
        if lost.is_empty() {
            return Ok(());
        }
        // What they have said before counts: a trial that has ended, or that nothing is left.
        while let Some((number, text)) = self.pool.report(Duration::ZERO) {
            self.hear(number, &text, store, observer)?;
        }
        for (number, reason) in lost {
            if !self.machines[number].ready {
                continue;
            }
            // Whoever was asked to stop leaves.
            let stops = self.outcome.end == SweepEnd::Interrupted;
            let reason = format!(
                "it was lost ({reason}); if fsdyno was killed there, fsdyno restore puts it back in order"
            );
            self.end_machine(number, (!stops).then_some(reason), observer);
        }
        Ok(())
    }

    /// Records the leftovers of a member.
    fn left(&mut self, number: usize, lines: Vec<String>) {
        let machine = &mut self.machines[number];
        (machine.ready, machine.has_left) = (false, true);
        self.outcome.left.extend(lines.into_iter().map(|line| format!("on {}: {line}", machine.name)));
    }

    /// Tells members that there is nothing more to do, and waits for what they have left.
    fn leave(&mut self, observer: &mut dyn FnMut(SweepEvent<'_>)) {
        // After an error, or if the user does not want to wait: then they are asked for the second time.
        let busy = (0..self.machines.len()).filter(|number| self.machines[*number].is_busy());
        busy.for_each(|number| self.pool.interrupt(number));
        (0..self.machines.len()).for_each(|number| self.pool.tell(number, line(&ToMember::End)));
        let begun = Instant::now();
        let waits = |fleet: &Self, number: usize| {
            !fleet.machines[number].has_left && fleet.pool.lost_member(number).is_none()
        };
        loop {
            // What those have said that are gone is there already.
            let is_waiting = (0..self.machines.len()).any(|number| waits(self, number));
            let hurries = self.options.hurry.load(Ordering::Relaxed);
            let is_over = begun.elapsed() > if hurries { HURRY_LIMIT } else { LEAVE_LIMIT };
            let patience = if is_waiting && !is_over { TURN } else { Duration::ZERO };
            let Some((number, text)) = self.pool.report(patience) else {
                match is_waiting && !is_over {
                    true => continue,
                    false => break,
                }
            };
            match serde_json::from_str(&text) {
                Ok(FromMember::Left(lines)) => self.left(number, lines),
                Ok(FromMember::Broken(reason)) => {
                    observer(SweepEvent::Machine { name: &self.machines[number].name, line: &reason });
                }
                _ => {}
            }
        }
        for number in 0..self.machines.len() {
            if waits(self, number) {
                let name = &self.machines[number].name;
                self.outcome.left.push(format!("on {name}: what it is still undoing"));
            }
        }
    }

    /// Where a trial is, in view of all.
    fn position(&self, number: usize) -> Option<Position> {
        let own = &self.machines[number].running.as_ref()?.course.position;
        let others = self.machines.iter().enumerate().filter(|(other, _)| *other != number);
        let others: f64 =
            others.filter_map(|(_, one)| Some(one.running.as_ref()?.course.position.fraction)).sum();
        let left = self.time_left();
        Some(Position { behind: self.queue.number_done() as f64 + others, left, ..own.clone() })
    }

    /// Time until the sweep ends, with all machines that are there.
    fn time_left(&self) -> Nanos {
        let clock = &self.blocks.clock;
        let waiting: Vec<u32> = self.queue.waiting(&self.blocks.slots).map(|slot| slot.case).collect();
        let running = self.machines.iter().filter_map(|machine| machine.running.as_ref());
        let running = running.map(|running| running.course.left().0).fold(0, u64::saturating_add);
        let machines = self.machines.iter().filter(|machine| machine.ready).count().max(1) as u64;
        Nanos(clock.left(&waiting).0.saturating_add(running) / machines)
    }

    fn reasons(&self) -> Vec<(String, String)> {
        let lost = |machine: &Machine| Some((machine.name.clone(), machine.lost.clone()?));
        self.machines.iter().filter_map(lost).collect()
    }
}
