//! The record of what a worker has done, in memory that the coordinator can read while the worker runs, or
//! hangs in the kernel.
//!
//! Everything is allocated before the phase begins and has a fixed size, however many operations follow. The
//! worker is the only writer. What happens at the edges of the window is rare and takes a lock ([`Closing`]),
//! which also resolves the only race: an operation that ends just when the coordinator gives it up counts
//! either as ended or as censored, never as both.

use crate::counter::Counter;
use crate::operations::{OperationRecord, SHORTEST_INTERVAL_NS, TIMELINE_INTERVALS, timeline_interval};
use crate::pace::{Paced, Schedule};
use crate::window::{Tally, Window};
use fsdyno_core::operation::Moves;
use fsdyno_core::result::CpuTime;
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::StepIndex;
use fsdyno_core::{Operation, Role};
use fsdyno_sys::thread::{self, Helpers};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The operation that a worker is in.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    step: AtomicU32,
    /// Raw timer reading; 0 if it is in no operation.
    start_ticks: AtomicU64,
}

impl Slot {
    /// Stores the next operation.
    #[inline(always)]
    pub(crate) fn announce(&self, step: StepIndex) {
        self.step.store(step.0, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn enter(&self, start_ticks: u64) {
        self.start_ticks.store(start_ticks, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.start_ticks.store(0, Ordering::Release);
    }

    /// The operation that it was entered with; for the worker itself.
    #[inline(always)]
    pub(crate) fn entered(&self) -> (StepIndex, u64) {
        (StepIndex(self.step.load(Ordering::Relaxed)), self.start_ticks.load(Ordering::Relaxed))
    }

    /// The worker's current operation, and since when it has been in it.
    pub(crate) fn look(&self) -> Option<(StepIndex, u64)> {
        loop {
            let start = self.start_ticks.load(Ordering::Acquire);
            let step = self.step.load(Ordering::Acquire);
            // The step is stored before the start: when the start has not changed, the step belongs to it.
            if self.start_ticks.load(Ordering::Acquire) == start {
                return (start != 0).then_some((StepIndex(step), start));
            }
        }
    }
}

/// An operation that crossed an edge of the window and has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crossing {
    pub(crate) step: StepIndex,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) bytes: u64,
}

/// The operations that crossed the edges of the window.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// The coordinator has read the record; nothing may be added.
    pub(crate) sealed: bool,
    /// In flight when the window began: one, or as many as the worker has slots.
    pub(crate) at_begin: Vec<Crossing>,
    /// In flight when the window ended; those that covered the window are in both.
    pub(crate) at_end: Vec<Crossing>,
}

impl Closing {
    /// Room for what this many slots can contain.
    fn reserve(&mut self, slots: usize) {
        self.at_begin.reserve_exact(slots);
        self.at_end.reserve_exact(slots);
    }
}

/// Everything that one worker leaves behind. Aligned so that no two workers share a cache line or its
/// neighbour.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerRecord {
    pub(crate) role: Role,
    /// The operations that [`StepIndex`] counts.
    pub(crate) steps: &'static [Operation],
    pub(crate) operations: Box<[OperationRecord]>,
    /// The worker's own current operation.
    pub(crate) slot: Slot,
    /// The operations in flight in addition to the worker's own, if it keeps many at once.
    slots: OnceLock<Box<[Slot]>>,
    /// The end of the window, or 0: stop now.
    pub(crate) deadline_ns: Counter,
    /// The beginning of the window, if the coordinator has moved it forward.
    pub(crate) begin_ns: Counter,
    pub(crate) tally: Tally,
    /// Trees finished (a reader) or rounds started again (a writer).
    pub(crate) rounds: Counter,
    /// Files, transactions or seeks finished inside the window.
    pub(crate) items: Counter,
    /// The longest time of one of them; 0 if the workload does not measure that.
    pub(crate) longest_item_ns: Counter,
    /// Its iterations, if its role has a rate.
    pub(crate) paced: Option<Paced>,
    /// Length of the intervals of all timelines.
    pub(crate) interval_ns: Counter,
    /// The worker's thread; 0 before it runs.
    pub(crate) thread: Counter,
    /// When the worker had finished its work; 0 before.
    pub(crate) finished_ns: Counter,
    /// Its processor time by then.
    user_ns_at_end: Counter,
    system_ns_at_end: Counter,
    /// Where it works, in case it never returns.
    directory: Mutex<String>,
    closing: Mutex<Closing>,
}

impl WorkerRecord {
    /// A record for a window of this length; `None` for one that lasts until the work is done.
    pub(crate) fn new(role: Role, steps: &'static [Operation], window_ns: Option<u64>) -> Self {
        let interval_ns = window_ns.map_or(SHORTEST_INTERVAL_NS, timeline_interval);
        let intervals = window_ns.map_or(TIMELINE_INTERVALS, |window_ns| window_ns.div_ceil(interval_ns));
        let intervals = intervals.max(1) as usize;
        let mut closing = Closing::default();
        closing.reserve(1);
        WorkerRecord {
            role,
            steps,
            operations: steps.iter().map(|_| OperationRecord::new(intervals)).collect(),
            slot: Slot::default(),
            slots: OnceLock::new(),
            deadline_ns: Counter::new(u64::MAX),
            begin_ns: Counter::new(u64::MAX),
            tally: Tally::new(),
            rounds: Counter::default(),
            items: Counter::default(),
            longest_item_ns: Counter::default(),
            paced: None,
            interval_ns: Counter::new(interval_ns),
            thread: Counter::default(),
            finished_ns: Counter::default(),
            user_ns_at_end: Counter::default(),
            system_ns_at_end: Counter::default(),
            directory: Mutex::default(),
            closing: Mutex::new(closing),
        }
    }

    /// The same for a worker whose iterations are due by a schedule, in a window of this length.
    pub(crate) fn paced(self, schedule: Option<Arc<Schedule>>, window_ns: Option<u64>) -> Self {
        let window_ns = window_ns.unwrap_or(0);
        let intervals = window_ns.div_ceil(timeline_interval(window_ns)).max(1) as usize;
        WorkerRecord { paced: schedule.map(|schedule| Paced::new(schedule, intervals)), ..self }
    }

    /// Gives the worker slots for this many simultaneous operations; only once, and before the phase begins.
    pub(crate) fn open_slots(&self, count: usize) {
        self.slots.get_or_init(|| (0..count).map(|_| Slot::default()).collect());
        self.closing().reserve(count);
    }

    /// Operations in flight in addition to the worker's own.
    #[inline(always)]
    pub(crate) fn slots(&self) -> &[Slot] {
        self.slots.get().map_or(&[], |slots| slots)
    }

    /// Returns the number of operations that can be in flight at once.
    pub(crate) fn depth(&self) -> u64 {
        self.slots().len().max(1) as u64
    }

    /// Sets where the worker works from now on.
    pub(crate) fn work_in(&self, directory: &[u8]) {
        let mut current = lock(&self.directory);
        current.clear();
        current.push_str(&String::from_utf8_lossy(directory));
    }

    /// Where the worker works.
    pub(crate) fn directory(&self) -> String {
        lock(&self.directory).clone()
    }

    /// The edges of the window, under their lock.
    pub(crate) fn closing(&self) -> MutexGuard<'_, Closing> {
        lock(&self.closing)
    }

    /// Moves the window forward. Whoever ends an operation at an edge finds both, or neither.
    pub(crate) fn begin_early(&self, window: Window) {
        let _edges = self.closing();
        self.deadline_ns.set(window.end_ns);
        self.begin_ns.set(window.begin_ns);
    }

    /// Asks the worker to stop after its current operation, whatever the time.
    pub(crate) fn stop(&self) {
        self.deadline_ns.set(0);
    }

    /// Returns the number of operations counted so far.
    pub(crate) fn performed(&self) -> u64 {
        self.operations.iter().map(OperationRecord::samples).sum()
    }

    /// Operations that it has completed since it started, whether inside the window or not.
    pub(crate) fn completed(&self) -> u64 {
        self.operations.iter().map(|record| record.samples() + record.unsampled.get()).sum()
    }

    /// Bytes that it has written since it started, whether inside the window or not.
    pub(crate) fn written(&self) -> u64 {
        let writes = |index: usize| self.operation(StepIndex(index as u32)).moves() == Moves::Writes;
        let operations = self.operations.iter().enumerate().filter(|(index, _)| writes(*index));
        operations.map(|(_, record)| record.bytes() + record.unsampled_bytes.get()).sum()
    }

    pub(crate) fn operation(&self, step: StepIndex) -> Operation {
        self.steps[step.0 as usize]
    }

    /// The interval of the timeline in which an operation started. Timelines that are too short for it are
    /// extended.
    pub(crate) fn interval_of(&self, window: Window, start_ns: u64) -> usize {
        let intervals = self.operations.first().map_or(1, |operation| operation.timeline.len());
        let since_begin_ns = start_ns.saturating_sub(window.begin_ns);
        loop {
            let interval = (since_begin_ns / self.interval_ns.get()) as usize;
            if interval < intervals {
                return interval;
            }
            self.operations.iter().for_each(OperationRecord::double);
            self.interval_ns.set(self.interval_ns.get().saturating_mul(2));
        }
    }

    /// Records that the worker has finished its work.
    pub(crate) fn finish(&self, now_ns: u64) {
        // Only who has requests in flight has helpers.
        let helpers = if self.slots().is_empty() { Helpers::default() } else { Helpers::look() };
        let (user_ns, system_ns) = thread::cpu_time(self.thread.get() as u32, &helpers).unwrap_or_default();
        self.user_ns_at_end.set(user_ns);
        self.system_ns_at_end.set(system_ns);
        self.finished_ns.set(now_ns);
    }

    /// Processor time of the worker so far; for the coordinator.
    pub(crate) fn cpu(&self, helpers: &Helpers) -> CpuTime {
        let (user_ns, system_ns) = match (self.finished_ns.get(), self.thread.get()) {
            (0, 0) => (0, 0),
            (0, number) => thread::cpu_time(number as u32, helpers).unwrap_or_default(),
            _ => (self.user_ns_at_end.get(), self.system_ns_at_end.get()),
        };
        CpuTime { user_ns: Nanos(user_ns), system_ns: Nanos(system_ns) }
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
    fn a_timeline_that_grows_loses_nothing() {
        const STEPS: &[Operation] = &[Operation::Read];
        const SECOND: u64 = 1_000_000_000;
        let record = WorkerRecord::new(Role::Reader, STEPS, None);
        let window = Window { begin_ns: 5, end_ns: u64::MAX };
        // An operation every second for two hours: twelve times what the first intervals hold.
        for second in 0..7200 {
            let interval = record.interval_of(window, 5 + second * SECOND);
            record.operations[0].count(interval, 1000 + second, 7);
        }
        let timeline = &record.operations[0].timeline;
        assert_eq!(timeline.len(), TIMELINE_INTERVALS as usize);
        assert_eq!((record.operations[0].samples(), record.operations[0].bytes()), (7200, 7 * 7200));
        let interval_ns = record.interval_ns.get();
        assert_eq!(interval_ns, 1_600_000_000);
        for (index, interval) in (0..).zip(timeline) {
            let seconds: Vec<u64> =
                (0..7200).filter(|second| second * SECOND / interval_ns == index).collect();
            assert_eq!(interval.count.get(), seconds.len() as u64, "interval {index}");
            assert_eq!(interval.sum_ns.get(), seconds.iter().map(|second| 1000 + second).sum::<u64>());
            assert_eq!(interval.max_ns.get(), seconds.last().map_or(0, |second| 1000 + second));
        }
    }
}
