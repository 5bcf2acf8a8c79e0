//! Iterations of roles with a rate: when each is due, which worker takes it, and how late it was.
//!
//! Iterations are due at moments that follow from the rate and the seed alone, whatever the filesystem does:
//! whoever would send a request does not wait for the answers to others. Any free worker takes the next one,
//! as the threads of a server do, so that what waits is served in its order. The only thing that workers
//! share is the number of the next one, a single atomic counter between two iterations: each computes all
//! moments for itself.
//!
//! A search for the highest rate has one segment of the schedule after the other, each with its own rate.

use crate::buckets;
use crate::counter::Counter;
use crate::operations::{OperationRecord, timeline_interval};
use crate::tree::derive_seed;
use crate::window::Window;
use fsdyno_core::glance::OfferedRate;
use fsdyno_core::result::RateCurve;
use fsdyno_core::workload::{Arrivals, Pace, Rate, RateSearch};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The word that the moments of a role derive from.
const MOMENTS: u64 = 9;

/// The moments at which iterations are due, one after the other, in nanoseconds from the first possible one.
#[derive(Debug, Clone)]
pub(crate) struct ArrivalTimes {
    rate: Rate,
    random: Xoshiro256PlusPlus,
    /// The number of the next one, from 0, and its moment.
    next: u64,
    next_ns: u64,
}

impl ArrivalTimes {
    fn new(rate: Rate, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let next_ns = match rate.arrivals {
            Arrivals::Constant => 0,
            Arrivals::Poisson => distance_ns(rate, &mut random),
        };
        ArrivalTimes { rate, random, next: 0, next_ns }
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

    /// Returns the number of iterations that are due until a moment, that moment included. The moment may not
    /// be before that of an earlier call.
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

/// A part of a schedule, which has one rate.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Absent: an iteration is due whenever a worker is free.
    pub(crate) rate: Option<Rate>,
    seed: u64,
    pub(crate) begin_ns: u64,
    /// Nothing is due from here on.
    pub(crate) end_ns: u64,
    /// `true` if the segment is tried in a search, so that its response times are kept apart.
    is_tried: bool,
    /// The number of the next iteration that nobody has taken.
    next: AtomicU64,
    /// `true` if iterations that nobody has taken are given up.
    is_closed: AtomicBool,
}

impl Segment {
    /// Returns the number of iterations that have been taken, or more if there are no others.
    pub(crate) fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Nothing more is taken from it.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// The iterations of a role that are due, which its workers share: one segment after the other.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) pace: Pace,
    seed: u64,
    current: Mutex<Arc<Segment>>,
    /// The number of segments so far.
    epoch: AtomicU64,
    /// The result of a search.
    pub(crate) curve: OnceLock<RateCurve>,
    /// The time that a worker rests if nothing is due until the search goes on.
    pub(crate) rest_ns: AtomicU64,
}

impl Schedule {
    /// The schedule of a role, which differs from those of the others under the same seed.
    pub(crate) fn new(pace: Pace, seed: u64, role: u64) -> Self {
        let seed = derive_seed(seed, &[MOMENTS, role]);
        // Until the load begins, nothing is due.
        let none = Segment {
            rate: None,
            seed,
            begin_ns: 0,
            end_ns: 0,
            is_tried: false,
            next: AtomicU64::new(0),
            is_closed: AtomicBool::new(true),
        };
        Schedule {
            pace,
            seed,
            current: Mutex::new(Arc::new(none)),
            epoch: AtomicU64::new(0),
            curve: OnceLock::new(),
            rest_ns: AtomicU64::new(0),
        }
    }

    /// The load begins, before the workers are let through their gate. A rate that is searched for is not
    /// known yet.
    pub(crate) fn begin(&self, now_ns: u64) {
        if let Pace::At(rate) = self.pace {
            self.post(Some(rate), now_ns, u64::MAX, false);
        }
    }

    /// From now on, iterations are due as this segment says, and not as those before it.
    pub(crate) fn post(
        &self,
        rate: Option<Rate>,
        begin_ns: u64,
        end_ns: u64,
        is_tried: bool,
    ) -> Arc<Segment> {
        let segment = Arc::new(Segment {
            rate,
            seed: derive_seed(self.seed, &[self.epoch()]),
            begin_ns,
            end_ns,
            is_tried,
            next: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        let mut current = self.lock();
        *current = Arc::clone(&segment);
        self.epoch.fetch_add(1, Ordering::Release);
        segment
    }

    /// The current segment.
    pub(crate) fn current(&self) -> Arc<Segment> {
        Arc::clone(&self.lock())
    }

    /// The rate of the current segment.
    pub(crate) fn offered(&self) -> Option<OfferedRate> {
        let segment = self.current();
        segment.rate.map(|rate| OfferedRate { per_second: rate.per_second, is_tried: segment.is_tried })
    }

    /// The number of the current segment.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Segment>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the moments of a segment one after the other, and takes no iteration.
#[derive(Debug)]
pub(crate) struct Calendar {
    begin_ns: u64,
    moments: ArrivalTimes,
}

impl Calendar {
    /// `None` if there is no rate.
    pub(crate) fn of(segment: &Segment) -> Option<Self> {
        let moments = ArrivalTimes::new(segment.rate?, segment.seed);
        Some(Calendar { begin_ns: segment.begin_ns, moments })
    }

    /// When the one with this number is due. Neither this nor a moment may be earlier than in a call before.
    pub(crate) fn due_ns(&mut self, number: u64) -> u64 {
        self.begin_ns.saturating_add(self.moments.due_ns(number))
    }

    /// Returns the number of iterations that are due before a moment.
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
    /// The number of the segment.
    epoch: u64,
    segment: Arc<Segment>,
    /// As far as the worker has taken them, and as far as they are due; without a rate, there are none.
    taken: Option<Calendar>,
    due: Option<Calendar>,
}

impl Follower {
    pub(crate) fn of(schedule: &Schedule) -> Self {
        // If a segment is posted in between, the next look finds that it has another number.
        let (epoch, segment) = (schedule.epoch(), schedule.current());
        Follower { epoch, taken: Calendar::of(&segment), due: Calendar::of(&segment), segment }
    }

    /// Takes the next iteration: its number, and when it is due. `None` if nothing is due at present, or
    /// before the next segment.
    pub(crate) fn take(&mut self, schedule: &Schedule, now_ns: u64) -> Option<(u64, u64)> {
        if schedule.epoch() != self.epoch {
            *self = Follower::of(schedule);
        }
        let segment = &self.segment;
        if segment.is_closed.load(Ordering::Relaxed) {
            return None;
        }
        let number = segment.next.fetch_add(1, Ordering::Relaxed);
        let due_ns = match &mut self.taken {
            Some(taken) => taken.due_ns(number),
            None => now_ns.max(segment.begin_ns),
        };
        (due_ns < segment.end_ns).then_some((number, due_ns))
    }

    /// Until when a worker rests to whom nothing was given: the end of the segment, if others have what is
    /// left of it.
    pub(crate) fn resting_until(&self, schedule: &Schedule, now_ns: u64) -> u64 {
        let rest_ns = schedule.rest_ns.load(Ordering::Relaxed);
        let end_ns = match self.segment.is_closed.load(Ordering::Relaxed) {
            true => now_ns,
            false => self.segment.end_ns.max(now_ns),
        };
        end_ns.saturating_add(rest_ns)
    }

    /// Returns the number of iterations that are due at a moment and come after the one with this number.
    pub(crate) fn behind(&mut self, number: u64, now_ns: u64) -> u64 {
        let moment_ns = now_ns.saturating_add(1).min(self.segment.end_ns);
        self.due.as_mut().map_or(0, |due| due.due_before(moment_ns)).saturating_sub(number + 1)
    }

    /// The number of the segment.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// When the segment ends, if it is tried in a search.
    pub(crate) fn tried_until_ns(&self) -> Option<u64> {
        self.segment.is_tried.then_some(self.segment.end_ns)
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
    /// The segment that it is of, and how many of that segment began before the window.
    pub(crate) epoch: Counter,
    pub(crate) begun_before: Counter,
    /// The iterations that began in each interval of the window.
    pub(crate) begun: Box<[Begun]>,
    /// The number of iterations that ended inside the window.
    pub(crate) ended: Counter,
    /// When the last one of the sample ended, if that was after the window; else 0.
    pub(crate) last_ended_ns: Counter,
    /// The number of iterations of the sample that the worker had waited for, and how late it began them.
    pub(crate) awaited: Counter,
    pub(crate) late_sum_ns: Counter,
    pub(crate) late_max_ns: Counter,
    /// The response times that a search looks at.
    pub(crate) tried: Option<Tried>,
}

/// Response times of the rates that a search tries, all of them together: the search subtracts what there was
/// before each.
#[derive(Debug)]
pub(crate) struct Tried {
    /// The limit that response times must not exceed.
    within_ns: u64,
    pub(crate) buckets: Box<[Counter]>,
    pub(crate) ended: Counter,
    /// The number of ended iterations that took no longer than the limit.
    pub(crate) in_time: Counter,
    /// The number of ended iterations that ended before their segment did.
    pub(crate) inside: Counter,
    /// When the last one ended.
    pub(crate) last_ended_ns: Counter,
}

impl Tried {
    fn new(search: RateSearch) -> Self {
        Tried {
            within_ns: search.until.within.0,
            buckets: (0..buckets::COUNT).map(|_| Counter::default()).collect(),
            ended: Counter::default(),
            in_time: Counter::default(),
            inside: Counter::default(),
            last_ended_ns: Counter::default(),
        }
    }

    fn count(&self, due_ns: u64, end_ns: u64, segment_end_ns: u64) {
        let response_ns = end_ns.saturating_sub(due_ns);
        self.buckets[buckets::index(response_ns)].add(1);
        self.in_time.add(u64::from(response_ns <= self.within_ns));
        self.inside.add(u64::from(end_ns < segment_end_ns));
        self.last_ended_ns.set(end_ns);
        self.ended.add(1);
    }
}

/// An iteration that a worker has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) due_ns: u64,
    pub(crate) begun_ns: Option<u64>,
}

impl Paced {
    pub(crate) fn new(schedule: Arc<Schedule>, intervals: usize) -> Self {
        let tried = match schedule.pace {
            Pace::Highest(search) => Some(Tried::new(search)),
            Pace::At(_) => None,
        };
        Paced {
            schedule,
            tried,
            epoch: Counter::default(),
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

    /// The worker has taken the iteration of a segment that is due then.
    pub(crate) fn take(&self, epoch: u64, due_ns: u64) {
        if epoch != self.epoch.get() {
            self.epoch.set(epoch);
            self.begun_before.set(0);
        }
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

    /// The iteration has ended. `tried_until_ns`: when its segment does, if that is tried in a search.
    pub(crate) fn end(&self, window: Window, end_ns: u64, tried_until_ns: Option<u64>) {
        let (due_ns, begun_ns) = (self.due_ns.get(), self.begun_ns.get());
        // One that a search has not waited for does not count as one of the next rate.
        if let (Some(segment_end_ns), Some(tried)) = (tried_until_ns, &self.tried)
            && self.epoch.get() == self.schedule.epoch()
        {
            tried.count(due_ns, end_ns, segment_end_ns);
        }
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

    /// Returns whether the iteration was due, and ended, inside the window: nothing else needs the lock.
    pub(crate) fn is_inside(&self, window: Window, end_ns: u64) -> bool {
        self.due_ns.get() >= window.begin_ns && end_ns < window.end_ns
    }

    /// Returns whether all iterations that are due before the end of the window have been taken, and this
    /// worker has none of them: it has taken a later one.
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
