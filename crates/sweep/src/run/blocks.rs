//! Which blocks a sweep has: those of its plan, those that fit into its time, and those that its trials ask
//! for.

use super::Sweeping;
use crate::order::{Slot, further};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::sweep_error::SweepError;
use fsdyno_core::TrialRecord;
use fsdyno_store::Store;
use fsdyno_verdict::enough::Tally;
use std::borrow::Cow;

/// The trials of a resumed sweep, if the number of further ones depends on them.
pub(super) fn tally(plan: &Plan, earlier: &[TrialRecord]) -> Tally {
    let mut tally = Tally::default();
    if plan.enough.is_some() {
        earlier.iter().for_each(|trial| tally.add(trial));
    }
    tally
}

impl Sweeping<'_> {
    /// Cases of trials that a race plans beyond its current block.
    pub(super) fn later(&self) -> &[u32] {
        self.racing.as_ref().map_or(&[], |racing| &racing.later)
    }

    /// Ends the sweep before a block that does not fit into its time.
    pub(super) fn is_out_of_time(
        &self,
        store: &mut Store,
        slots: &[Slot],
        index: usize,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, SweepError> {
        let Some(limit) = &self.limit else { return Ok(false) };
        if !limit.forbids(slots, index, self.stored, &self.clock) {
            return Ok(false);
        }
        store.plan_trials(self.outcome.sweep, u32::try_from(index).unwrap_or(u32::MAX))?;
        let planned = self.plan.enough.map_or(self.plan.repetitions, |enough| enough.max);
        observer(Progress::TimeIsUp { blocks: slots[index].block, planned, limit: limit.limit() });
        Ok(true)
    }

    /// Says once, as soon as it is known, that the first block takes longer than the whole sweep may.
    pub(super) fn tell_of_a_long_block(
        &mut self,
        block: u32,
        rest: &[u32],
        observer: &mut dyn FnMut(Progress<'_>),
    ) {
        let limit = self.limit.as_mut().or(self.race_limit.as_mut());
        let Some(limit) = limit.filter(|limit| block == 0 && !limit.is_exceeded) else { return };
        let block = limit.with(self.clock.left(rest));
        if block > limit.limit() {
            limit.is_exceeded = true;
            observer(Progress::LongBlock { block, limit: limit.limit() });
        }
    }

    /// Plans another block, if some case needs one and the maximum is not reached.
    pub(super) fn further(
        &mut self,
        store: &mut Store,
        slots: &mut Vec<Slot>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, SweepError> {
        if self.racing.is_some() {
            return self.further_in_race(store, slots, observer);
        }
        let Plan { enough: Some(enough), measure, seed, .. } = self.plan else { return Ok(false) };
        let block = slots.last().map_or(0, |slot| slot.block + 1);
        let wanting = self.tally.wanting(enough, measure, *seed, block);
        if block >= enough.max || wanting.is_empty() {
            return Ok(false);
        }
        slots.extend(further(self.plan, block, &wanting, count(slots.len())));
        let names: Vec<(&str, Cow<'static, str>)> = wanting
            .iter()
            .map(|case| &self.cases[*case as usize])
            .map(|case| (case.configuration.name.as_str(), case.workload.name()))
            .collect();
        let trials = count(slots.len());
        store.plan_trials(self.outcome.sweep, trials)?;
        observer(Progress::Further { block: block + 1, cases: &names, trials });
        Ok(true)
    }

    /// Plans the next block of a race, and tells what the blocks before it say.
    fn further_in_race(
        &mut self,
        store: &mut Store,
        slots: &mut Vec<Slot>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, SweepError> {
        let Some(racing) = &mut self.racing else { return Ok(false) };
        let block = slots.last().map_or(0, |slot| slot.block);
        let followed = racing.next(slots);
        let is_new = slots.iter().any(|slot| slot.block == block && !self.stored.contains(&slot.trial));
        let is_over = followed.cases.is_empty();
        if !is_over {
            slots.extend(further(self.plan, block + 1, &followed.cases, count(slots.len())));
        }
        let trials = count(slots.len() + racing.later.len());
        store.plan_trials(self.outcome.sweep, trials)?;
        // What was told before an interruption is not told again.
        let lines = if is_new { &followed.said[..] } else { &[] };
        observer(Progress::Raced { answer: &followed.answer, lines, trials });
        Ok(!is_over)
    }

    /// Counts a trial if the number of trials depends on it; the last trial of a case that is given up says
    /// so.
    pub(super) fn counted(&mut self, mut record: TrialRecord) -> TrialRecord {
        if let Some(racing) = &mut self.racing {
            racing.add(&record);
        }
        if let Plan { enough: Some(enough), measure, seed, .. } = self.plan {
            self.tally.add(&record);
            record.warnings.extend(self.tally.given_up(&record, enough, measure, *seed));
        }
        record
    }
}

/// As the store counts.
pub(super) fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}
