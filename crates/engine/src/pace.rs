//! Iterations of roles with a rate: when each is due, which worker takes it, and how late it was.
//!
//! Iterations are due at moments that follow from the rate and the seed alone, whatever the filesystem does:
//! whoever would send a request does not wait for the answers to others. Any free worker takes the next one,
//! as the threads of a server do, so that what waits is served in its order. The only thing that workers
//! share is the number of the next one, a single atomic counter between two iterations: each computes all
//! moments for itself.

use crate::counter::Counter;
use crate::operations::{OperationRecord, timeline_interval};
use crate::tree::derive_seed;
use crate::window::Window;
use fsdyno_core::workload::{Arrivals, Rate};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the moments of a role derive from.
const MOMENTS: u64 = 9;

/// The moments at which iterations are due, one after the other, in nanoseconds from the first possible one.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    rate: Rate,
    random: Xoshiro256PlusPlus,
    /// The number of the next one, from 0, and its moment.
    next: u64,
    next_ns: u64,
}

impl Moments {
    fn new(rate: Rate, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let next_ns = match rate.arrivals {
            Arrivals::Constant => 0,
            Arrivals::Poisson => distance_ns(rate, &mut random),
        };
        Moments { rate, random, next: 0, next_ns }
    }

    fn advance(&mut self) {
        self.next += 1;
        self.next_ns = match self.rate.arrivals {
            // Not a sum, whose error would grow.
            Arrivals::Constant => (self.next as f64 * self.rate.interval_ns()).round() as u64,
            Arrivals::Poisson => self.next_ns.saturating_add(distance_ns(self.rate, &mut self.random)),
        };
    }

    /// When the one with this number is due; the number may not be smaller than in an earlier call.
    fn due_ns(&mut self, number: u64) -> u64 {
        while self.next < number {
            self.advance();
        }
        self.next_ns
    }

    /// How many are due until a moment, that moment included; it may not be before that of an earlier call.
    fn due_until(&mut self, moment_ns: u64) -> u64 {
        while self.next_ns <= moment_ns {
            self.advance();
        }
        self.next
    }
}

/// The distance to the next arrival of a Poisson process.
fn distance_ns(rate: Rate, random: &mut Xoshiro256PlusPlus) -> u64 {
    let distance: f64 = Exp1.sample(random);
    (distance * rate.interval_ns()).round() as u64
}

/// The iterations of a role that are due, which its workers share.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) rate: Rate,
    seed: u64,
    /// When the load began; set before the workers are let through their gate.
    begin_ns: AtomicU64,
    /// The number of the next iteration that nobody has taken.
    next: AtomicU64,
}

impl Schedule {
    /// The schedule of a role, which differs from those of the others under the same seed.
    pub(crate) fn new(rate: Rate, seed: u64, role: u64) -> Self {
        let seed = derive_seed(seed, &[MOMENTS, role]);
        Schedule { rate, seed, begin_ns: AtomicU64::new(0), next: AtomicU64::new(0) }
    }

    /// The load begins.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.begin_ns.store(now_ns, Ordering::Relaxed);
    }

    fn moments(&self) -> Moments {
        Moments::new(self.rate, self.seed)
    }

    /// How many have been taken.
    pub(crate) fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// Reads the moments of a schedule one after the other, and takes no iteration.
#[derive(Debug)]
pub(crate) struct Calendar {
    begin_ns: u64,
    moments: Moments,
}

impl Calendar {
    pub(crate) fn of(schedule: &Schedule) -> Self {
        Calendar { begin_ns: schedule.begin_ns.load(Ordering::Relaxed), moments: schedule.moments() }
    }

    /// When the one with this number is due. Neither this nor a moment may be earlier than in a call before.
    pub(crate) fn due_ns(&mut self, number: u64) -> u64 {
        self.begin_ns.saturating_add(self.moments.due_ns(number))
    }

    /// How many are due before a moment.
    pub(crate) fn due_before(&mut self, moment_ns: u64) -> u64 {
        match moment_ns.checked_sub(self.begin_ns + 1) {
            Some(until_ns) => self.moments.due_until(until_ns),
            None => 0,
        }
    }
}

/// A schedule as one worker follows it.
#[derive(Debug)]
pub(crate) struct Follower {
    /// As far as the worker has taken them, and as far as they are due.
    taken: Calendar,
    due: Calendar,
}

impl Follower {
    pub(crate) fn of(schedule: &Schedule) -> Self {
        Follower { taken: Calendar::of(schedule), due: Calendar::of(schedule) }
    }

    /// Takes the next iteration: its number, and when it is due.
    pub(crate) fn take(&mut self, schedule: &Schedule) -> (u64, u64) {
        let number = schedule.next.fetch_add(1, Ordering::Relaxed);
        (number, self.taken.due_ns(number))
    }

    /// How many are due at a moment that come after the one with this number.
    pub(crate) fn behind(&mut self, number: u64, now_ns: u64) -> u64 {
        self.due.due_before(now_ns + 1).saturating_sub(number + 1)
    }
}

/// The iterations that began in an interval of the window, and the most that were due then.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    pub(crate) count: Counter,
    pub(crate) backlog: Counter,
}

/// The iterations of one worker of a role with a rate. The worker is the only writer; what the coordinator
/// must see as a whole is written under the lock of the worker's record.
#[derive(Debug)]
pub(crate) struct Paced {
    pub(crate) schedule: Arc<Schedule>,
    /// From when they were due, and from when the worker began them.
    pub(crate) response: OperationRecord,
    pub(crate) service: OperationRecord,
    /// When the iteration that the worker has taken is due; 0 if it has none.
    due_ns: Counter,
    /// When the worker began it; 0 if it has not.
    begun_ns: Counter,
    /// How many began before the window, and in each interval of it.
    pub(crate) begun_before: Counter,
    pub(crate) begun: Box<[Begun]>,
    /// How many ended inside the window.
    pub(crate) ended: Counter,
    /// When the last one of the sample ended, if that was after the window; else 0.
    pub(crate) last_ended_ns: Counter,
    /// How many of the sample the worker had waited for, and how late it began them.
    pub(crate) awaited: Counter,
    pub(crate) late_sum_ns: Counter,
    pub(crate) late_max_ns: Counter,
}

/// An iteration that a worker has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) due_ns: u64,
    pub(crate) begun_ns: Option<u64>,
}

impl Paced {
    pub(crate) fn new(schedule: Arc<Schedule>, intervals: usize) -> Self {
        Paced {
            schedule,
            response: OperationRecord::new(intervals),
            service: OperationRecord::new(intervals),
            due_ns: Counter::default(),
            begun_ns: Counter::default(),
            begun_before: Counter::default(),
            begun: (0..intervals).map(|_| Begun::default()).collect(),
            ended: Counter::default(),
            last_ended_ns: Counter::default(),
            awaited: Counter::default(),
            late_sum_ns: Counter::default(),
            late_max_ns: Counter::default(),
        }
    }

    /// The worker has taken the iteration that is due then.
    pub(crate) fn take(&self, due_ns: u64) {
        self.begun_ns.set(0);
        self.due_ns.set(due_ns);
    }

    /// The worker begins the iteration that it has taken, while so many others are due.
    pub(crate) fn begin(&self, window: Window, begun_ns: u64, has_waited: bool, backlog: u64) {
        self.begun_ns.set(begun_ns);
        if begun_ns < window.begin_ns {
            self.begun_before.add(1);
        } else if begun_ns < window.end_ns {
            let begun = &self.begun[interval_of(window, begun_ns, self.begun.len())];
            begun.count.add(1);
            begun.backlog.raise(backlog);
        }
        let due_ns = self.due_ns.get();
        if has_waited && (window.begin_ns..window.end_ns).contains(&due_ns) {
            let late_ns = begun_ns.saturating_sub(due_ns);
            self.awaited.add(1);
            self.late_sum_ns.add(late_ns);
            self.late_max_ns.raise(late_ns);
        }
    }

    /// The iteration has ended.
    pub(crate) fn end(&self, window: Window, end_ns: u64) {
        let (due_ns, begun_ns) = (self.due_ns.get(), self.begun_ns.get());
        if (window.begin_ns..window.end_ns).contains(&due_ns) {
            let interval = interval_of(window, due_ns, self.begun.len());
            self.response.count(interval, end_ns.saturating_sub(due_ns), 0);
            self.service.count(interval, end_ns.saturating_sub(begun_ns), 0);
            if end_ns >= window.end_ns {
                self.last_ended_ns.raise(end_ns);
            }
        }
        if (window.begin_ns..window.end_ns).contains(&end_ns) {
            self.ended.add(1);
        }
        self.due_ns.set(0);
    }

    /// Whether it was due, and ended, inside the window: nothing else needs the lock.
    pub(crate) fn is_inside(&self, window: Window, end_ns: u64) -> bool {
        self.due_ns.get() >= window.begin_ns && end_ns < window.end_ns
    }

    /// Whether all iterations that are due before the end of the window have been taken, and this worker has
    /// none of them: it has taken a later one.
    pub(crate) fn is_done_with(&self, window: Window) -> bool {
        self.due_ns.get() >= window.end_ns
    }

    /// The iteration that the worker has taken; for the coordinator.
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        let (due_ns, begun_ns) = (self.due_ns.get(), self.begun_ns.get());
        (due_ns > 0).then_some(UnderWay { due_ns, begun_ns: (begun_ns > 0).then_some(begun_ns) })
    }
}

/// The interval of a window, of so many, with a moment in it.
fn interval_of(window: Window, moment_ns: u64, intervals: usize) -> usize {
    let interval_ns = timeline_interval(window.length_ns());
    (((moment_ns - window.begin_ns) / interval_ns) as usize).min(intervals.saturating_sub(1))
}

#[cfg(test)]
mod tests;
