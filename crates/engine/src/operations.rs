//! The sample of one operation of one worker: a histogram, a timeline and the slowest ones, in memory of a
//! fixed size that the coordinator can read while the worker writes.

use crate::buckets;
use crate::counter::Counter;
use fsdyno_core::result::{SLOWEST, SlowOperation};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of intervals in a timeline; longer windows have longer intervals.
pub(crate) const TIMELINE_INTERVALS: u64 = 6000;

/// Length of the intervals of a timeline before it has to grow.
pub(crate) const SHORTEST_INTERVAL_NS: u64 = 100_000_000;

/// Length of the intervals of a timeline: 100 ms, doubled until no more than 6000 of them fill the window.
pub(crate) fn timeline_interval(window_ns: u64) -> u64 {
    let mut interval_ns = SHORTEST_INTERVAL_NS;
    while window_ns.div_ceil(interval_ns) > TIMELINE_INTERVALS {
        interval_ns = interval_ns.saturating_mul(2);
    }
    interval_ns
}

/// One interval of a timeline.
#[derive(Debug, Default)]
pub(crate) struct Interval {
    pub(crate) count: Counter,
    pub(crate) sum_ns: Counter,
    pub(crate) max_ns: Counter,
    pub(crate) bytes: Counter,
}

impl Interval {
    /// Takes the content of another one, and leaves it empty.
    fn absorb(&self, other: &Interval) {
        self.count.add(other.count.take());
        self.sum_ns.add(other.sum_ns.take());
        self.max_ns.raise(other.max_ns.take());
        self.bytes.add(other.bytes.take());
    }
}

/// The sample of one operation of one worker. Count, sum, maximum and bytes are those of the timeline.
#[derive(Debug)]
pub(crate) struct OperationRecord {
    pub(crate) buckets: Box<[Counter]>,
    pub(crate) timeline: Box<[Interval]>,
    pub(crate) min_ns: Counter,
    /// Bytes of operations that began outside the window.
    pub(crate) unsampled_bytes: Counter,
    /// The number of operations that began outside the window.
    pub(crate) unsampled: Counter,
    squares_low: Counter,
    squares_high: Counter,
    slowest: Mutex<Vec<SlowOperation>>,
}

impl OperationRecord {
    pub(crate) fn new(intervals: usize) -> Self {
        OperationRecord {
            buckets: (0..buckets::COUNT).map(|_| Counter::default()).collect(),
            timeline: (0..intervals).map(|_| Interval::default()).collect(),
            min_ns: Counter::new(u64::MAX),
            unsampled_bytes: Counter::default(),
            unsampled: Counter::default(),
            squares_low: Counter::default(),
            squares_high: Counter::default(),
            slowest: Mutex::new(Vec::with_capacity(SLOWEST)),
        }
    }

    /// Counts one operation of the sample.
    #[inline(always)]
    pub(crate) fn count(&self, interval: usize, duration_ns: u64, bytes: u64) {
        self.buckets[buckets::index(duration_ns)].add(1);
        let interval = &self.timeline[interval];
        interval.count.add(1);
        interval.sum_ns.add(duration_ns);
        interval.max_ns.raise(duration_ns);
        interval.bytes.add(bytes);
        self.min_ns.lower(duration_ns);
        let squares = self.squares() + u128::from(duration_ns) * u128::from(duration_ns);
        self.squares_low.set(squares as u64);
        self.squares_high.set((squares >> 64) as u64);
    }

    /// Returns the number of operations counted.
    pub(crate) fn samples(&self) -> u64 {
        self.timeline.iter().map(|interval| interval.count.get()).sum()
    }

    /// Returns the total time of the operations counted.
    pub(crate) fn sum_ns(&self) -> u64 {
        self.timeline.iter().map(|interval| interval.sum_ns.get()).sum()
    }

    /// Bytes that they moved.
    pub(crate) fn bytes(&self) -> u64 {
        self.timeline.iter().map(|interval| interval.bytes.get()).sum()
    }

    /// Makes each interval of the timeline twice as long.
    pub(crate) fn double(&self) {
        for (index, interval) in self.timeline.iter().enumerate() {
            for source in [2 * index, 2 * index + 1] {
                match self.timeline.get(source) {
                    Some(source) if !std::ptr::eq(source, interval) => interval.absorb(source),
                    _ => {}
                }
            }
        }
    }

    /// Sum of the squares of all durations, in ns^2.
    pub(crate) fn squares(&self) -> u128 {
        u128::from(self.squares_high.get()) << 64 | u128::from(self.squares_low.get())
    }

    /// Keeps a slow operation, replacing the least slow one if the list is full. Returns the duration that
    /// the next one must exceed.
    #[cold]
    pub(crate) fn keep_slow(&self, operation: SlowOperation) -> u64 {
        let mut slowest = lock(&self.slowest);
        if slowest.len() < SLOWEST {
            slowest.push(operation);
        } else if let Some(least) = slowest.iter_mut().min_by_key(|slow| slow.duration_ns)
            && least.duration_ns < operation.duration_ns
        {
            *least = operation;
        }
        if slowest.len() < SLOWEST {
            return 0;
        }
        slowest.iter().map(|slow| slow.duration_ns).min().unwrap_or(0)
    }

    /// The slow operations, in no order.
    pub(crate) fn slowest(&self) -> Vec<SlowOperation> {
        lock(&self.slowest).clone()
    }
}

/// A lock that survives a panic elsewhere: the data is valid between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept() {
        let record = OperationRecord::new(1);
        let slow = |duration_ns| SlowOperation { start_ns: 0, duration_ns, path: String::new() };
        let mut floor = 0;
        for duration in (0..1000).map(|n| n * 7919 % 1000) {
            if duration > floor {
                floor = record.keep_slow(slow(duration));
            }
        }
        let mut kept: Vec<u64> = record.slowest().iter().map(|slow| slow.duration_ns).collect();
        kept.sort_unstable();
        assert_eq!(kept, (1000 - SLOWEST as u64..1000).collect::<Vec<_>>());
    }

    #[test]
    fn squares_do_not_overflow() {
        let record = OperationRecord::new(1);
        let hour = 3600 * 1_000_000_000_u64;
        for _ in 0..100 {
            record.count(0, hour, 0);
        }
        assert_eq!(record.squares(), 100 * u128::from(hour) * u128::from(hour));
    }

    #[test]
    fn long_windows_have_longer_intervals() {
        assert_eq!(timeline_interval(30_000_000_000), 100_000_000);
        assert_eq!(timeline_interval(600_000_000_000), 100_000_000);
        assert_eq!(timeline_interval(600_000_000_001), 200_000_000);
        assert_eq!(timeline_interval(1), 100_000_000);
    }
}
