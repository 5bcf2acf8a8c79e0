//! The hot loop: one operation between two timestamps, and its record after them.
//!
//! [`timed`] surrounds every timed system call of every workload. Between its timestamps there is the call
//! and one store, which shows the coordinator since when the worker has been in it. Everything else follows
//! after the second timestamp, costs a few dozen instructions, allocates nothing and shares nothing. Paths
//! are assembled only for operations that are among the slowest so far, and for errors.
//!
//! A worker that keeps many operations in flight has a slot for each ([`Meter::depart`], [`Meter::arrive`]):
//! the time of an operation is measured from its submission until its completion is seen.

mod paced;

use crate::error::{EngineError, OperationFailure};
use crate::operations::OperationRecord;
use crate::pace::Follower;
use crate::record::{Crossing, Slot, WorkerRecord};
use crate::window::{Position, Window};
use crate::wrong::{Problem, Wrong};
use fsdyno_core::result::SlowOperation;
use fsdyno_core::workload::StepIndex;
use fsdyno_core::{Operation, Role};
use fsdyno_sys::timer::Timer;
use rustix::io::Errno;
use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a worker ends its loop.
#[derive(Debug)]
pub enum Halt {
    /// The phase is over.
    Over,
    /// A system call failed.
    Failed(OperationFailure),
    /// A system call failed that began after the window, when nothing counted any more.
    Late(OperationFailure),
    /// Data was read that nobody wrote there, whenever that was.
    Wrong(Box<Wrong>),
}

impl Halt {
    /// Why a step that is not a phase did not finish.
    pub(crate) fn error(self, step: &str) -> EngineError {
        match self {
            Halt::Over => EngineError::Stopped,
            Halt::Failed(failure) | Halt::Late(failure) => EngineError::operation(step, failure),
            Halt::Wrong(wrong) => EngineError::Wrong { step: step.to_string(), wrong: *wrong },
        }
    }
}

/// The object of an operation: a name in a directory, as bytes relative to the engine's directory.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// The directory.
    pub directory: &'a [u8],
    /// The name in it, empty for the directory itself.
    pub name: &'a CStr,
}

impl Object<'_> {
    /// Why a worker that has read this ends.
    #[cold]
    pub(crate) fn wrong(&self, problem: Problem) -> Halt {
        Halt::Wrong(Box::new(Wrong { path: self.path(), problem }))
    }

    /// The path as text.
    pub fn path(&self) -> String {
        let mut path = String::from_utf8_lossy(self.directory).into_owned();
        if !self.name.is_empty() {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(&self.name.to_string_lossy());
        }
        path
    }
}

/// The callback by which a worker reports that the window has ended and none of its operations is in flight
/// any more.
pub(crate) struct Settled(Box<dyn FnOnce() + Send>);

impl Settled {
    pub(crate) fn by(tell: impl FnOnce() + Send + 'static) -> Self {
        Settled(Box::new(tell))
    }
}

impl fmt::Debug for Settled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Settled")
    }
}

/// A worker's instruments: the clock, the window, and the record that it fills.
#[derive(Debug)]
pub struct Meter {
    timer: Timer,
    window: Window,
    record: Arc<WorkerRecord>,
    /// Durations that a slow operation must exceed, per step.
    floors_ns: Box<[u64]>,
    /// The interval of the timelines that was written last, and its bounds.
    interval: usize,
    interval_begin_ns: u64,
    interval_ns: u64,
    /// The window has ended. The load goes on so that the operations of others end under the same conditions
    /// as they began, but nothing of it counts.
    over: bool,
    /// Told when nothing of the window is in flight any more.
    settled: Option<Settled>,
    /// When iterations are due, if the role has a rate.
    follower: Option<Box<Follower>>,
}

/// Performs `call` as the operation `step` and records it. `bytes` converts the result to an amount of data.
///
/// # Errors
/// [`Halt::Over`] if the phase is over: the result of the call is dropped then. [`Halt::Failed`] or
/// [`Halt::Late`] if it failed.
#[inline(always)]
pub fn timed<T>(
    meter: &mut Meter,
    step: StepIndex,
    object: Object<'_>,
    bytes: impl FnOnce(&T) -> u64,
    call: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Halt> {
    meter.record.slot.announce(step);
    let start = meter.timer.ticks();
    meter.record.slot.enter(start);
    let result = call();
    let end = meter.timer.ticks();
    meter.record.slot.leave();
    match result {
        Ok(value) => {
            let (start_ns, end_ns) = (meter.timer.to_ns(start), meter.timer.to_ns(end));
            meter.record(step, start_ns, end_ns, bytes(&value), object)?;
            Ok(value)
        }
        Err(errno) => Err(meter.failed(step, object, errno, start)),
    }
}

/// Performs a call that is not part of any operation (opening a directory), so that a worker that hangs in it
/// is noticed. The call is shown as the operation that it resembles, and leaves no trace when it returns.
///
/// # Errors
/// [`Halt::Failed`] or [`Halt::Late`] if it failed.
pub fn watched<T>(
    meter: &mut Meter,
    step: StepIndex,
    object: Object<'_>,
    call: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Halt> {
    meter.record.slot.announce(step);
    let start = meter.timer.ticks();
    meter.record.slot.enter(start);
    let result = call();
    meter.record.slot.leave();
    result.map_err(|errno| meter.failed(step, object, errno, start))
}

impl Meter {
    /// Instruments for one worker outside any phase, with a window of this length from now on: for a single
    /// pass through a tree, and for measuring the cost of measuring.
    pub fn alone(timer: Timer, role: Role, steps: &'static [Operation], window_ns: u64) -> Self {
        let begin_ns = timer.now_ns();
        let window = Window { begin_ns, end_ns: begin_ns.saturating_add(window_ns) };
        Self::new(timer, window, Arc::new(WorkerRecord::new(role, steps, Some(window.length_ns()))), None)
    }

    /// Returns the number of times that each operation was performed inside the window.
    pub fn counts(&self) -> Vec<(Operation, u64)> {
        let record = &self.record;
        record.steps.iter().copied().zip(record.operations.iter().map(OperationRecord::samples)).collect()
    }

    /// Instruments for one phase.
    pub(crate) fn new(
        timer: Timer,
        window: Window,
        record: Arc<WorkerRecord>,
        settled: Option<Settled>,
    ) -> Self {
        record.tally.begin(timer.now_ns().min(window.begin_ns));
        Meter {
            timer,
            window,
            floors_ns: record.steps.iter().map(|_| 0).collect(),
            interval: 0,
            interval_begin_ns: window.begin_ns,
            interval_ns: record.interval_ns.get(),
            over: false,
            settled,
            follower: record.paced.as_ref().map(|paced| Box::new(Follower::of(&paced.schedule))),
            record,
        }
    }

    /// Records which directory the worker works in, relative to the engine's directory.
    pub(crate) fn work_in(&self, directory: &[u8]) {
        self.record.work_in(directory);
    }

    /// Does nothing until a moment, as people do between two requests; that is no stall. The worker has
    /// nothing in flight meanwhile, and says so if the window ends.
    ///
    /// # Errors
    /// [`Halt::Over`] if the phase is over.
    pub(crate) fn rest_until(&mut self, until_ns: u64) -> Result<(), Halt> {
        /// The interval at which the worker checks whether the phase is over.
        const LOOK_UP_NS: u64 = 50_000_000;
        loop {
            let now_ns = self.look_up()?;
            self.record.tally.rested(until_ns.max(now_ns));
            if now_ns >= until_ns {
                return Ok(());
            }
            std::thread::sleep(Duration::from_nanos((until_ns - now_ns).min(LOOK_UP_NS)));
        }
    }

    /// Between two operations, checks whether the phase is over, and says so if the window has ended: the
    /// worker has nothing in flight. Returns the time.
    ///
    /// # Errors
    /// [`Halt::Over`] if the phase is over.
    pub(crate) fn look_up(&mut self) -> Result<u64, Halt> {
        let record = Arc::clone(&self.record);
        let now_ns = self.timer.now_ns();
        {
            let closing = record.closing();
            if closing.sealed || record.deadline_ns.get() == 0 {
                return Err(Halt::Over);
            }
            self.follow(&record);
        }
        if now_ns >= self.window.end_ns {
            self.over = true;
            self.settle();
        }
        Ok(now_ns)
    }

    /// The time now.
    pub(crate) fn now_ns(&self) -> u64 {
        self.timer.now_ns()
    }

    /// Records that a reader has finished its tree, or that a writer starts again.
    pub(crate) fn next_round(&self) {
        if !self.over {
            self.record.rounds.add(1);
        }
    }

    /// Records that the operation that ended last has completed a file, a transaction or whatever the
    /// workload counts.
    #[inline(always)]
    pub(crate) fn item(&self) {
        // Without a ramp, every item counts, even one that took no operation at all.
        if self.window.end_ns == u64::MAX || self.is_inside() {
            self.record.items.add(1);
        }
    }

    /// Returns whether the operation that ended last did so inside the window.
    #[inline(always)]
    fn is_inside(&self) -> bool {
        !self.over && self.record.tally.any(self.window)
    }

    /// The start of an item whose total time counts, for [`Meter::item_since`].
    #[inline(always)]
    pub(crate) fn begin_item(&self) -> u64 {
        self.timer.ticks()
    }

    /// Records that an item is finished, and how long it took since [`Meter::begin_item`].
    #[inline(always)]
    pub(crate) fn item_since(&self, begin_ticks: u64) {
        let end_ticks = self.timer.ticks();
        if self.is_inside() {
            self.record.items.add(1);
            let (begin_ns, end_ns) = (self.timer.to_ns(begin_ticks), self.timer.to_ns(end_ticks));
            self.record.longest_item_ns.raise(end_ns.saturating_sub(begin_ns));
        }
    }

    /// Records an operation that has ended.
    #[inline(always)]
    pub(crate) fn record(
        &mut self,
        step: StepIndex,
        start_ns: u64,
        end_ns: u64,
        bytes: u64,
        object: Object<'_>,
    ) -> Result<(), Halt> {
        if start_ns < self.window.begin_ns || end_ns >= self.record.deadline_ns.get() {
            return self.at_an_edge(Crossing { step, start_ns, end_ns, bytes }, None, object);
        }
        self.sample(step, start_ns, end_ns, bytes, object);
        self.record.tally.completed(self.window, start_ns, end_ns);
        Ok(())
    }

    /// Reads the clock, before a submission or after completions.
    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        self.timer.ticks()
    }

    /// A reading of the clock as nanoseconds.
    #[inline(always)]
    pub(crate) fn to_ns(&self, ticks: u64) -> u64 {
        self.timer.to_ns(ticks)
    }

    /// Gives the worker slots for this many operations in flight at once.
    pub(crate) fn open_slots(&self, count: usize) {
        self.record.open_slots(count);
    }

    /// An operation is about to be submitted in a slot.
    #[inline(always)]
    pub(crate) fn depart(&self, slot: usize, step: StepIndex, start_ticks: u64) {
        let slot = &self.record.slots()[slot];
        slot.announce(step);
        slot.enter(start_ticks);
    }

    /// Records the operation of a slot, which has ended. The slot is cleared only then, so that the
    /// coordinator always sees the operation in one place or the other.
    ///
    /// # Errors
    /// [`Halt::Over`] if the phase is over: nothing more may be submitted, and what is in flight has to be
    /// collected.
    #[inline(always)]
    pub(crate) fn arrive(
        &mut self,
        slot: usize,
        end_ns: u64,
        bytes: u64,
        object: Object<'_>,
    ) -> Result<(), Halt> {
        let (step, start) = self.record.slots()[slot].entered();
        let start_ns = self.timer.to_ns(start);
        if start_ns < self.window.begin_ns || end_ns >= self.record.deadline_ns.get() {
            return self.at_an_edge(Crossing { step, start_ns, end_ns, bytes }, Some(slot), object);
        }
        self.sample(step, start_ns, end_ns, bytes, object);
        self.record.tally.completed(self.window, start_ns, end_ns);
        self.record.slots()[slot].leave();
        Ok(())
    }

    /// Clears a slot whose operation has failed, and returns why the loop ends.
    pub(crate) fn crash(&self, slot: usize, object: Object<'_>, errno: Errno) -> Halt {
        let slot = &self.record.slots()[slot];
        slot.leave();
        let (step, start) = slot.entered();
        self.failed(step, object, errno, start)
    }

    #[inline(always)]
    fn sample(&mut self, step: StepIndex, start_ns: u64, end_ns: u64, bytes: u64, object: Object<'_>) {
        // With many in flight, one that started earlier may end later.
        if start_ns.wrapping_sub(self.interval_begin_ns) >= self.interval_ns {
            self.turn_the_page(start_ns);
        }
        let duration_ns = end_ns.saturating_sub(start_ns);
        let index = step.0 as usize;
        self.record.operations[index].count(self.interval, duration_ns, bytes);
        if duration_ns > self.floors_ns[index] {
            self.keep_slow(index, start_ns, duration_ns, object);
        }
    }

    #[cold]
    #[inline(never)]
    fn turn_the_page(&mut self, start_ns: u64) {
        self.interval = self.record.interval_of(self.window, start_ns);
        self.interval_ns = self.record.interval_ns.get();
        self.interval_begin_ns = self.window.begin_ns + self.interval_ns * self.interval as u64;
    }

    #[cold]
    #[inline(never)]
    fn keep_slow(&mut self, index: usize, start_ns: u64, duration_ns: u64, object: Object<'_>) {
        let start_ns = start_ns - self.window.begin_ns;
        let slow = SlowOperation { start_ns, duration_ns, path: object.path() };
        self.floors_ns[index] = self.record.operations[index].keep_slow(slow);
    }

    /// An operation, of a slot or of the worker itself, that started before the window, or did not end inside
    /// it.
    #[cold]
    #[inline(never)]
    fn at_an_edge(
        &mut self,
        crossing: Crossing,
        slot: Option<usize>,
        object: Object<'_>,
    ) -> Result<(), Halt> {
        let Crossing { step, start_ns, end_ns, bytes } = crossing;
        let record = Arc::clone(&self.record);
        let mut closing = record.closing();
        if closing.sealed {
            return Err(Halt::Over);
        }
        // Under the lock: the coordinator sees an operation either in flight or in the record.
        if let Some(slot) = slot {
            record.slots()[slot].leave();
        }
        if record.deadline_ns.get() == 0 {
            return Err(Halt::Over);
        }
        self.follow(&record);
        if !(self.window.begin_ns..self.window.end_ns).contains(&start_ns) {
            let operation = &record.operations[step.0 as usize];
            operation.unsampled_bytes.add(bytes);
            operation.unsampled.add(1);
        }
        match self.window.position(start_ns, end_ns) {
            Position::Before => record.tally.preceded(end_ns),
            Position::AcrossBegin => {
                closing.at_begin.push(crossing);
                record.tally.completed(self.window, start_ns, end_ns);
            }
            Position::Spanning => {
                closing.at_begin.push(crossing);
                closing.at_end.push(crossing);
                record.tally.occupied(self.window, start_ns, end_ns);
            }
            Position::AcrossEnd => {
                self.sample(step, start_ns, end_ns, bytes, object);
                closing.at_end.push(crossing);
                record.tally.occupied(self.window, start_ns, end_ns);
            }
            // The window has begun earlier than it would have at the latest, or the work was given up a
            // moment ago, and the record is still open.
            Position::Inside => {
                self.sample(step, start_ns, end_ns, bytes, object);
                record.tally.completed(self.window, start_ns, end_ns);
            }
            Position::After => {}
        }
        if end_ns >= self.window.end_ns {
            self.over = true;
            record.tally.concluded(self.window, start_ns, end_ns);
            let of_window = |start: u64| self.timer.to_ns(start) < self.window.end_ns;
            let mut flights = record.slots().iter().filter_map(Slot::look);
            if !flights.any(|(_, start)| of_window(start)) {
                self.settle();
            }
        }
        Ok(())
    }

    /// Learns that the coordinator has ended the ramp. It sets both edges under the lock that the caller has,
    /// and the beginning lies in its future: an operation that starts in the window finds it.
    fn follow(&mut self, record: &WorkerRecord) {
        let begin_ns = record.begin_ns.get();
        if begin_ns < self.window.begin_ns {
            self.window = Window { begin_ns, end_ns: record.deadline_ns.get() };
            self.interval_begin_ns = begin_ns;
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn failed(&self, step: StepIndex, object: Object<'_>, errno: Errno, start: u64) -> Halt {
        let operation = Some(self.record.operation(step));
        let failure = OperationFailure { operation, path: object.path(), errno };
        match self.timer.to_ns(start) < self.window.end_ns {
            true => Halt::Failed(failure),
            false => Halt::Late(failure),
        }
    }
}
