//! The time limit of a sweep: it ends after the last block that fits, so that every case has been measured
//! equally often. The first block is always run, because nothing can be compared without it.
//!
//! Only blocks that have begun in an earlier run of the sweep are continued in any case. The time between two
//! runs does not count, and neither does a pause.

use crate::order::Slot;
use crate::progress::Clock;
use fsdyno_core::{Nanos, TrialRecord};
use std::collections::BTreeSet;
use std::time::Instant;

/// The time limit of a sweep, and the time that it has used.
pub(crate) struct TimeLimit {
    limit: Nanos,
    /// By earlier runs of the sweep.
    earlier: Nanos,
    since: Instant,
    /// For how long the sweep has paused since then.
    paused: Nanos,
    /// `true` if the first block is known to take longer.
    pub is_exceeded: bool,
}

impl TimeLimit {
    /// For a run that begins now; `trials` are those of earlier runs, of which so many machines ran one at a
    /// time.
    pub fn new(limit: Nanos, trials: &[TrialRecord], machines: u32) -> Self {
        let trials = trials.iter().map(|trial| trial.duration().0).fold(0, u64::saturating_add);
        let earlier = trials / u64::from(machines.max(1));
        TimeLimit {
            limit,
            earlier: Nanos(earlier),
            since: Instant::now(),
            paused: Nanos(0),
            is_exceeded: false,
        }
    }

    /// The limit itself.
    pub fn limit(&self) -> Nanos {
        self.limit
    }

    /// The sweep has paused for so long.
    pub fn rest(&mut self, paused: Nanos) {
        self.paused.0 = self.paused.0.saturating_add(paused.0);
    }

    /// Returns whether so much more time fits.
    fn allows(&self, more: Nanos) -> bool {
        self.with(more) <= self.limit
    }

    /// Returns the time that the sweep will have taken after so much more.
    pub fn with(&self, more: Nanos) -> Nanos {
        let worked = Nanos::from(self.since.elapsed()).0.saturating_sub(self.paused.0);
        Nanos(self.earlier.0.saturating_add(worked).saturating_add(more.0))
    }

    /// Returns whether the trial at an index begins a block that no longer fits. `stored` are the trials of
    /// earlier runs.
    pub fn forbids(&self, slots: &[Slot], index: usize, stored: &BTreeSet<u32>, clock: &Clock) -> bool {
        let Some(block) = slots[index..].chunk_by(|one, other| one.block == other.block).next() else {
            return false;
        };
        let begins = index > 0 && slots[index - 1].block != slots[index].block;
        let is_new = block.iter().all(|slot| !stored.contains(&slot.trial));
        begins && is_new && !self.allows(clock.left(&cases(block)))
    }

    /// Of the trials that are still to come after the one in progress, those that will fit.
    pub fn fitting<'s>(&self, current: &Slot, next: &'s [Slot], clock: &Clock) -> &'s [Slot] {
        let mut end = 0;
        let mut time = clock.expected(current.case).0;
        for block in next.chunk_by(|one, other| one.block == other.block) {
            time = time.saturating_add(clock.left(&cases(block)).0);
            if block[0].block != current.block && !self.allows(Nanos(time)) {
                break;
            }
            end += block.len();
        }
        &next[..end]
    }
}

fn cases(slots: &[Slot]) -> Vec<u32> {
    slots.iter().map(|slot| slot.case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_pause_does_not_count() {
        let since =
            Instant::now().checked_sub(Duration::from_secs(100)).expect("a clock that has run so long");
        let limit = Nanos::from_secs(60);
        let mut limit = TimeLimit { limit, earlier: Nanos(0), since, paused: Nanos(0), is_exceeded: false };
        assert!(!limit.allows(Nanos(0)));
        limit.rest(Nanos::from_secs(90));
        assert!(limit.allows(Nanos::from_secs(40)) && !limit.allows(Nanos::from_secs(51)));
    }
}
