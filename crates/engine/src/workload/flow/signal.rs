//! Counters that workers of different roles share: one posts, another waits for a number of posts. Who waits
//! first is served first: else a worker could take the answer that another one waits for.

use crate::meter::{Halt, Meter};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The interval at which a worker that waits checks whether the phase is over.
const LOOK_UP: Duration = Duration::from_millis(20);

/// A counter.
#[derive(Debug, Default)]
pub(super) struct Signal {
    state: Mutex<SignalState>,
    posted: Condvar,
    taken: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    value: u64,
    /// The least that a sleeping worker waits for: nobody is woken for less.
    wanted: Option<u64>,
    /// The place in the queue of the next worker that waits, and of the one that is served.
    last: u64,
    first: u64,
    /// The number of workers that wait for the counter to fall below its limit.
    blocked: u32,
}

impl Signal {
    /// Adds one. Waits while the counter has reached the limit. Like every wait for another worker, this is
    /// no stall: whatever that one waits for counts where it does.
    pub(super) fn post(&self, meter: &mut Meter, limit: u64) -> Result<(), Halt> {
        let mut has_waited = false;
        let mut state = self.lock();
        while state.value >= limit {
            has_waited = true;
            let now_ns = meter.now_ns();
            meter.rest_until(now_ns)?;
            state.blocked += 1;
            state = wait(&self.taken, state);
            state.blocked -= 1;
        }
        state.value += 1;
        if state.wanted.is_some_and(|wanted| state.value >= wanted) {
            // Those that go on waiting say so again.
            state.wanted = None;
            self.posted.notify_all();
        }
        drop(state);
        if !has_waited {
            return Ok(());
        }
        let now_ns = meter.now_ns();
        meter.rest_until(now_ns)
    }

    /// Waits until the counter has reached a number, and takes that from it.
    pub(super) fn take(&self, meter: &mut Meter, count: u64) -> Result<(), Halt> {
        let mut has_waited = false;
        let mut state = self.lock();
        let place = state.last;
        state.last += 1;
        while state.first != place || state.value < count {
            has_waited = true;
            let now_ns = meter.now_ns();
            meter.rest_until(now_ns)?;
            state.wanted = Some(state.wanted.map_or(count, |wanted| wanted.min(count)));
            state = wait(&self.posted, state);
        }
        state.value -= count;
        state.first += 1;
        if state.first != state.last && state.value > 0 {
            self.posted.notify_all();
        }
        if state.blocked > 0 {
            self.taken.notify_all();
        }
        drop(state);
        if !has_waited {
            return Ok(());
        }
        let now_ns = meter.now_ns();
        meter.rest_until(now_ns)
    }

    fn lock(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a change. How the wait ends makes no difference: the caller looks again.
fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, SignalState>) -> MutexGuard<'a, SignalState> {
    changed.wait_timeout(state, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0
}
