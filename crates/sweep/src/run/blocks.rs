//! Which blocks a sweep has: those of its plan, those that fit into its time, and those that its trials ask
//! for.

use super::deciding::Deciding;
use super::keeping::Earlier;
use crate::order::{Slot, count, further, order_with, sentinel};
use crate::plan::{Case, Plan};
use crate::progress::{Clock, SweepEvent};
use crate::race::Racing;
use crate::runner::Here;
use crate::sweep_error::SweepError;
use crate::time_limit::TimeLimit;
use fsdyno_core::{More, Nanos, RaceBudget, TrialRecord};
use fsdyno_store::{Store, SweepId};
use fsdyno_verdict::enough::Tally;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The trials of a sweep, as far as they are planned, and what decides about further ones.
pub(crate) struct Blocks<'a> {
    plan: &'a Plan,
    cases: &'a [Case],
    pub slots: Vec<Slot>,
    /// The case of the trials that each block begins with.
    sentinel: Option<u32>,
    /// Trials of an earlier run of it.
    pub stored: BTreeSet<u32>,
    pub clock: Clock,
    /// The time that it may take.
    pub limit: Option<TimeLimit>,
    /// The time that it may take as a race. Whether a block fits into it is up to the race.
    race_limit: Option<TimeLimit>,
    /// The race that it is.
    racing: Option<Racing>,
    /// The decisions about further blocks, if all trials together make them.
    deciding: Option<Deciding>,
    /// The trials so far, if their number depends on them.
    tally: Tally,
    /// The number of blocks that are planned at a time beyond the minimum.
    at_a_time: u32,
}

impl<'a> Blocks<'a> {
    /// Those of a plan, of which these trials are stored. So many machines run a block each.
    pub fn new(
        plan: &'a Plan,
        cases: &'a [Case],
        here: &Here,
        Earlier { stored, trials: earlier, looks, more }: &Earlier,
        machines: u32,
    ) -> Self {
        let limit = match more {
            None => plan.rules.time_limit.map(|limit| TimeLimit::new(limit, earlier, machines)),
            Some(More { from, time_ns, .. }) => {
                let added: Vec<TrialRecord> =
                    earlier.iter().filter(|trial| trial.block >= *from).cloned().collect();
                time_ns.map(|limit| TimeLimit::new(limit, &added, machines))
            }
        };
        let race_limit = match plan.race {
            Some(RaceBudget::Time(limit)) => Some(TimeLimit::new(limit, earlier, machines)),
            _ => None,
        };
        let runs: Vec<u32> =
            (0..).zip(&here.unmet).filter(|(_, unmet)| unmet.is_empty()).map(|(case, _)| case).collect();
        let of_earlier = earlier.iter().find(|trial| trial.sentinel).map(|trial| trial.case);
        let sentinel = of_earlier.or_else(|| sentinel(here.unmet.iter().map(Vec::is_empty)));
        let known = earlier.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
        let deciding = Deciding::new(plan, looks.clone(), *more, known);
        let mut tally = Tally::default();
        if plan.enough.is_some() || deciding.is_some() {
            earlier.iter().for_each(|trial| tally.add(trial));
        }
        let mut slots = order_with(plan, sentinel);
        // It may have ended before, because its time was up.
        slots.retain(|slot| more.is_none_or(|more| slot.block < more.from));
        Blocks {
            plan,
            cases,
            slots,
            sentinel,
            stored: stored.clone(),
            clock: Clock::new(cases, &here.unmet, here.sizes).after(earlier),
            limit,
            race_limit,
            racing: Racing::new(plan, &runs, earlier),
            deciding,
            tally,
            // Of the plan, so that a sweep has the same blocks wherever it goes on.
            at_a_time: plan.fleet.as_ref().map_or(1, |fleet| fleet.count),
        }
    }

    /// Cases of trials that a race plans beyond its current block.
    pub fn later(&self) -> &[u32] {
        self.racing.as_ref().map_or(&[], |racing| &racing.later)
    }

    /// Trials in all, as far as they are planned.
    pub fn trials(&self) -> u32 {
        count(self.slots.len() + self.later().len())
    }

    /// Returns whether more blocks may be planned after this one.
    pub fn more_may_follow(&self, block: u32) -> bool {
        match &self.deciding {
            Some(deciding) => deciding.more_may_follow(self.plan, block),
            None => self.plan.enough.is_some_and(|enough| block + 1 < enough.max),
        }
    }

    /// The sweep has waited for so long, which does not count towards its time.
    pub fn rest(&mut self, paused: Nanos) {
        self.limit.iter_mut().chain(&mut self.race_limit).for_each(|limit| limit.rest(paused));
    }

    /// Returns whether the trial at an index begins a block that does not fit into the time of the sweep.
    pub fn forbids(&self, index: usize) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| limit.forbids(&self.slots, index, &self.stored, &self.clock))
    }

    /// Ends the sweep before a block that does not fit into its time.
    pub fn is_out_of_time(
        &self,
        store: &mut Store,
        sweep: SweepId,
        index: usize,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<bool, SweepError> {
        let Some(limit) = self.limit.as_ref().filter(|_| self.forbids(index)) else { return Ok(false) };
        store.plan_trials(sweep, u32::try_from(index).unwrap_or(u32::MAX))?;
        let blocks = self.slots[index].block;
        let planned = self.plan.enough.map_or(self.plan.repetitions, |enough| enough.max).max(blocks);
        observer(SweepEvent::TimeIsUp { blocks, planned, limit: limit.limit() });
        Ok(true)
    }

    /// Says once, as soon as it is known, that the first block takes longer than the whole sweep may.
    pub fn tell_of_a_long_block(
        &mut self,
        block: u32,
        rest: &[u32],
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) {
        let limit = self.limit.as_mut().or(self.race_limit.as_mut());
        let Some(limit) = limit.filter(|limit| block == 0 && !limit.is_exceeded) else { return };
        let block = limit.with(self.clock.left(rest));
        if block > limit.limit() {
            limit.is_exceeded = true;
            observer(SweepEvent::LongBlock { block, limit: limit.limit() });
        }
    }

    /// Plans more blocks, if some case needs one and the maximum is not reached. All trials of the blocks
    /// before are stored.
    pub fn further(
        &mut self,
        store: &mut Store,
        sweep: SweepId,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<bool, SweepError> {
        if self.racing.is_some() {
            return self.further_in_race(store, sweep, observer);
        }
        if self.deciding.is_some() {
            return self.further_if_undecided(store, sweep, observer);
        }
        let Plan { enough: Some(enough), measure, rules, .. } = self.plan else { return Ok(false) };
        let Some(half_width) = enough.half_width() else { return Ok(false) };
        let first = self.slots.last().map_or(0, |slot| slot.block + 1);
        let wanting = self.tally.wanting(half_width, measure, rules.seed, first);
        if first >= enough.max || wanting.is_empty() {
            return Ok(false);
        }
        let names: Vec<(&str, Cow<'static, str>)> = wanting
            .iter()
            .map(|case| &self.cases[*case as usize])
            .map(|case| (case.configuration.name.as_str(), case.label.clone()))
            .collect();
        for block in first..enough.max.min(first + self.at_a_time) {
            self.slots.extend(further(self.plan, self.sentinel, (block, &wanting), count(self.slots.len())));
            let trials = count(self.slots.len());
            store.plan_trials(sweep, trials)?;
            observer(SweepEvent::Further { block: block + 1, cases: &names, trials });
        }
        Ok(true)
    }

    /// Plans the next block of a sweep that its trials decide about, or several for the machines of a fleet,
    /// and tells what the blocks before it say.
    fn further_if_undecided(
        &mut self,
        store: &mut Store,
        sweep: SweepId,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<bool, SweepError> {
        let Some(deciding) = &mut self.deciding else { return Ok(false) };
        let first = self.slots.last().map_or(0, |slot| slot.block + 1);
        let before = deciding.looks().clone();
        let following = deciding.next(self.plan, &self.tally, first);
        if *deciding.looks() != before {
            store.record_looks(sweep, deciding.looks())?;
        }
        let is_over = following.cases.is_empty();
        let at_once = match following.is_repeat || is_over || following.said.is_empty() {
            true => u32::from(!is_over),
            false => self.at_a_time,
        };
        for block in first..first.saturating_add(at_once) {
            if block > first && !deciding.more_may_follow(self.plan, block - 1) {
                break;
            }
            let cases = &following.cases;
            self.slots.extend(further(self.plan, self.sentinel, (block, cases), count(self.slots.len())));
        }
        let trials = count(self.slots.len());
        store.plan_trials(sweep, trials)?;
        observer(SweepEvent::Judged { lines: &following.said, trials });
        Ok(!is_over)
    }

    /// Plans the next block of a race, or several of its round for the machines of a fleet, and tells what
    /// the blocks before it say.
    fn further_in_race(
        &mut self,
        store: &mut Store,
        sweep: SweepId,
        observer: &mut dyn FnMut(SweepEvent<'_>),
    ) -> Result<bool, SweepError> {
        let Some(racing) = &mut self.racing else { return Ok(false) };
        let block = self.slots.last().map_or(0, |slot| slot.block);
        let followed = racing.next(&self.slots, self.at_a_time);
        let is_new = self.slots.iter().any(|slot| slot.block == block && !self.stored.contains(&slot.trial));
        let is_over = followed.cases.is_empty();
        if !is_over {
            for next in block + 1..=block + followed.blocks {
                self.slots.extend(further(
                    self.plan,
                    self.sentinel,
                    (next, &followed.cases),
                    count(self.slots.len()),
                ));
            }
        }
        let trials = count(self.slots.len() + racing.later.len());
        store.plan_trials(sweep, trials)?;
        // What was printed before an interruption is not printed again.
        let lines = if is_new { &followed.said[..] } else { &[] };
        observer(SweepEvent::Raced { answer: &followed.answer, lines, trials });
        Ok(!is_over)
    }

    /// Counts a trial if the number of trials depends on it; the last trial of a case that is given up says
    /// so.
    pub fn counted(&mut self, record: &mut TrialRecord) {
        if let Some(racing) = &mut self.racing {
            racing.add(record);
        }
        if self.deciding.is_some() {
            self.tally.add(record);
        } else if let Plan { enough: Some(enough), measure, rules, .. } = self.plan {
            self.tally.add(record);
            record.warnings.extend(self.tally.given_up(record, enough, measure, rules.seed));
        }
    }
}
