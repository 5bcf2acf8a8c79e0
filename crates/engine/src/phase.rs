//! One phase: workers line up, and run through ramp and window; or they work until their work is done, and
//! the window is the time that took.
//!
//! In the drain the load goes on, without being recorded, until every operation of the window has ended or
//! the drain limit has come. If the workers stopped one by one, the last and slowest operations would end on
//! a machine that grows quiet.
//!
//! The coordinator is the calling thread. It never touches what the workers do: it opens the gate, checks the
//! clock ten times a second, and reads the records after the drain, including that of a worker that hangs in
//! the kernel and will never respond. Such a worker is left behind; the engine continues and ends on time.

mod team;
mod wait;

pub(crate) use team::{Job, PhaseLoad, Run, Team, Written};

use crate::error::{EngineError, OperationFailure};
use crate::glance::Glances;
use crate::lineup::{Gate, Lineup, Message, work};
use crate::meter::Halt;
use crate::record::WorkerRecord;
use crate::reporter::Reporter;
use crate::search::Search;
use crate::span::Span;
use crate::summary::{self, Finished};
use crate::throttle::Writers;
use crate::window::Window;
use fsdyno_core::glance::MachineGlance;
use fsdyno_core::result::{CpuTime, WindowClock};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::Ramp;
use fsdyno_core::{PhaseResult, Telemetry, TrialStep};
use fsdyno_sys::thread::Helpers;
use fsdyno_sys::timer::Timer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wait::{Wait, WaitEnd};

/// The interval between checks by the coordinator.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(100);

/// The interval at which the coordinator checks whether the parent lets the phase begin.
pub(crate) const CUE: Duration = Duration::from_millis(5);

/// The time before the moment to begin a phase at which the coordinator stops sleeping.
const SPIN: Duration = Duration::from_micros(100);

/// The time to wait for workers that were asked to stop before they are left behind.
const PATIENCE: Duration = Duration::from_secs(2);

/// Observes the machine while a phase is measured, on the thread that coordinates the phase. The engine
/// decides when it looks, but not at what. It must return quickly: until then nobody watches the workers,
/// which continue meanwhile.
pub trait Observer {
    /// The window begins now. A previous one without an end is dropped: its phase has failed.
    fn begin(&mut self);
    /// The window is in progress. Called several times a second.
    fn look(&mut self);
    /// Returns the latest observations of the window in progress, for somebody who watches.
    fn latest(&self) -> Option<MachineGlance> {
        None
    }
    /// The window has ended just now.
    fn end(&mut self) -> Option<Telemetry>;
}

/// Nobody.
impl Observer for () {
    fn begin(&mut self) {}

    fn look(&mut self) {}

    fn end(&mut self) -> Option<Telemetry> {
        None
    }
}

struct Worker {
    record: Arc<WorkerRecord>,
    thread: Option<JoinHandle<()>>,
    /// It has nothing of the window in flight any more.
    settled: bool,
}

/// Runs a phase until it ends, and adds the number of workers that hang in the kernel to `left_behind`,
/// however the phase ends.
///
/// # Errors
/// [`EngineError::Operation`] if a worker failed, [`EngineError::Stopped`] if the parent wants the engine to
/// stop.
pub(crate) fn run(
    phase: PhaseLoad,
    timer: Timer,
    stop: &AtomicBool,
    reporter: &mut Reporter<'_>,
    observer: &mut dyn Observer,
    left_behind: &mut u32,
) -> Result<Run, EngineError> {
    let PhaseLoad { name, span, teams } = phase;
    let (sender, messages) = channel();
    let gate = Arc::new(Gate::default());
    let mut crew = Crew {
        phase: name.clone(),
        workers: Vec::new(),
        messages,
        ready: 0,
        ended: 0,
        settled: 0,
        cpu: Vec::new(),
        late: None,
        is_given_up: false,
        begins_at_ns: None,
        late_ns: None,
        observer,
        telemetry: None,
        glances: Glances::default(),
    };
    let hired = teams.into_iter().try_for_each(|Team { role, steps, jobs, schedule }| {
        jobs.into_iter().try_for_each(|job| {
            let record = WorkerRecord::new(role, steps, span.window_ns());
            let record = record.paced(schedule.clone(), span.window_ns());
            crew.hire(job, Arc::new(record), timer, &gate, &sender)
        })
    });
    drop(sender);

    let before = timer.reading();
    let outcome = hired.and_then(|()| crew.through(timer, stop, reporter, &gate, span)).and_then(|course| {
        let finished = crew.read(span, course.window, timer, course.given_up_ns);
        let until_ns = course.window.end_ns.saturating_add(span.drain_limit().0);
        let moving = finished.iter().filter(|worker| !worker.hangs()).count();
        crew.release(moving, timer, until_ns, stop, reporter)?;
        Ok((course, finished))
    });
    if outcome.is_err() {
        crew.dismiss(&gate);
    }
    *left_behind += crew.remaining();
    let (PhaseCourse { start_ns, window, found, .. }, finished) = outcome?;
    let given_up = span.patience().filter(|_| crew.is_given_up);
    let bytes = crew.workers.iter().map(|worker| worker.record.written()).sum();
    let written = Written { bytes, since_ns: start_ns };
    let after = timer.reading();
    let on_clock = |moment_ns| before.monotonic_ns(&after, moment_ns);
    let clock = WindowClock { begin_ns: on_clock(window.begin_ns), end_ns: on_clock(window.end_ns) };
    let drain_ns = finished.iter().map(|worker| worker.drain_ns(window)).max().unwrap_or(0);
    let roles = summary::roles(window, finished);
    let result = PhaseResult {
        ramp_ns: Nanos(window.begin_ns - start_ns),
        drain_ns: Nanos(drain_ns),
        clock: Some(clock),
        late_ns: crew.late_ns,
        telemetry: crew.telemetry,
        steady: found.steady,
        ..PhaseResult::lasting(name, Nanos(window.length_ns()), roles)
    };
    let is_unthrottled = found.writers == Some(Writers::Free);
    Ok(Run { result, written, late: crew.late, given_up, is_unthrottled })
}

/// When it began and ended.
struct PhaseCourse {
    start_ns: u64,
    window: Window,
    /// When the last worker was done or given up.
    given_up_ns: u64,
    found: WaitEnd,
}

struct Crew<'o> {
    phase: String,
    workers: Vec<Worker>,
    messages: Receiver<Message>,
    ready: usize,
    ended: usize,
    /// The number of workers that have settled, or ended without settling.
    settled: usize,
    /// Processor time of each worker: at the beginning of the window, and then within it.
    cpu: Vec<CpuTime>,
    /// The first operation that failed when nothing counted any more.
    late: Option<OperationFailure>,
    /// The work was given up because nothing was completed.
    is_given_up: bool,
    /// When the load is to begin, on the timer; at once if absent.
    begins_at_ns: Option<u64>,
    /// The delay with which the load began.
    late_ns: Option<Nanos>,
    observer: &'o mut dyn Observer,
    /// The telemetry of the observer, once the window has ended.
    telemetry: Option<Telemetry>,
    glances: Glances,
}

impl Crew<'_> {
    fn hire(
        &mut self,
        job: Job,
        record: Arc<WorkerRecord>,
        timer: Timer,
        gate: &Arc<Gate>,
        messages: &Sender<Message>,
    ) -> Result<(), EngineError> {
        let worker = self.workers.len();
        let lineup = Lineup {
            timer,
            record: Arc::clone(&record),
            gate: Arc::clone(gate),
            messages: messages.clone(),
            worker,
        };
        let thread = std::thread::Builder::new()
            .name(format!("{} {worker}", record.role))
            .spawn(move || work(job, lineup))
            .map_err(|source| EngineError::Thread { step: self.phase.clone(), source })?;
        self.workers.push(Worker { record, thread: Some(thread), settled: false });
        Ok(())
    }

    /// Lines up and works.
    fn through(
        &mut self,
        timer: Timer,
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
        gate: &Gate,
        span: Span,
    ) -> Result<PhaseCourse, EngineError> {
        while self.ready < self.workers.len() {
            self.listen(LOOK_UP, stop)?;
            reporter.tell(TrialStep::Settle, &self.phase, 1.0, span.longest_ns());
        }
        reporter.ready(&self.phase);
        while reporter.must_wait() {
            self.listen(CUE, stop)?;
        }
        self.begins_at_ns = reporter.begins_at_ns().map(|at_ns| timer.reading().timer_ns_at(at_ns));
        match span {
            Span::Timed { ramp, window, drain_limit } => {
                self.through_window(timer, stop, reporter, gate, ramp, [window, drain_limit])
            }
            Span::Whole { operations, patience } => {
                self.until_done(timer, stop, reporter, gate, operations, patience)
            }
        }
    }

    /// The moment at which the load begins: now, or, if several machines begin together, the one that they
    /// have agreed on. A machine that is late has a shorter ramp, so that windows are the same on all.
    fn start(&mut self, timer: Timer, stop: &AtomicBool) -> Result<u64, EngineError> {
        let Some(at_ns) = self.begins_at_ns else { return Ok(timer.now_ns()) };
        loop {
            let now_ns = timer.now_ns();
            match Duration::from_nanos(at_ns.saturating_sub(now_ns)) {
                Duration::ZERO => {
                    self.late_ns = Some(Nanos(now_ns - at_ns));
                    return Ok(at_ns);
                }
                // The kernel may wake a thread that much late.
                left if left < SPIN => std::hint::spin_loop(),
                left => self.listen((left - SPIN).min(LOOK_UP), stop)?,
            }
        }
    }

    /// Ramps, measures and drains.
    fn through_window(
        &mut self,
        timer: Timer,
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
        gate: &Gate,
        ramp: Ramp,
        [window, drain_limit]: [Nanos; 2],
    ) -> Result<PhaseCourse, EngineError> {
        let start_ns = self.start(timer, stop)?;
        let from = |begin_ns: u64| Window { begin_ns, end_ns: begin_ns + window.0 };
        let mut window = from(start_ns + ramp.longest().0);
        for worker in &self.workers {
            worker.record.deadline_ns.set(window.end_ns);
            worker.record.paced.iter().for_each(|paced| paced.schedule.begin(start_ns));
        }
        let records = self.workers.iter().map(|worker| &worker.record);
        let search = Search::begin(records, start_ns, window.begin_ns);
        gate.open(window);
        let mut wait = Wait::of(ramp, search);
        let mut step_before = None;
        loop {
            let now = timer.now_ns();
            let records = self.workers.iter().map(|worker| &*worker.record);
            if let Some(begin_ns) = wait.look(records, now, window.begin_ns) {
                window = from(begin_ns.min(window.begin_ns));
                self.workers.iter().for_each(|worker| worker.record.begin_early(window));
            }
            let give_up_ns = window.end_ns.saturating_add(drain_limit.0);
            let (step, from, to) = match now {
                _ if now < window.begin_ns => (TrialStep::Ramp, start_ns, window.begin_ns),
                _ if now < window.end_ns => (TrialStep::Measure, window.begin_ns, window.end_ns),
                _ => (TrialStep::Drain, window.end_ns, give_up_ns),
            };
            if step_before != Some(step) {
                match step {
                    TrialStep::Measure => self.begin_window(),
                    // If this thread was kept from running for all of the window, nothing is known about the
                    // machine and the processor time in it.
                    TrialStep::Drain if step_before == Some(TrialStep::Measure) => self.end_window(),
                    _ => {}
                }
                step_before = Some(step);
            } else if step == TrialStep::Measure {
                self.observer.look();
            }
            let settled = step == TrialStep::Drain && self.settled == self.workers.len();
            if settled || self.ended == self.workers.len() || now >= give_up_ns {
                // Workers that are done may all exit early.
                if step == TrialStep::Ramp {
                    self.begin_window();
                }
                if step != TrialStep::Drain {
                    self.end_window();
                }
                return Ok(PhaseCourse { start_ns, window, given_up_ns: now, found: wait.found });
            }
            let done = (now - from) as f64 / (to - from).max(1) as f64;
            self.tell(reporter, step, done, window.end_ns.saturating_sub(now), (window, timer));
            // The check itself has taken time.
            let rest = Duration::from_nanos(to.saturating_sub(timer.now_ns()));
            self.listen(rest.min(LOOK_UP), stop)?;
        }
    }

    /// Works until every worker has finished, or until nothing has been completed for so long that the work
    /// is given up: then the window ends at that moment, with what is in flight.
    fn until_done(
        &mut self,
        timer: Timer,
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
        gate: &Gate,
        operations: u64,
        patience: Option<Nanos>,
    ) -> Result<PhaseCourse, EngineError> {
        self.begin_window();
        let begin_ns = self.start(timer, stop)?;
        gate.open(Window { begin_ns, end_ns: u64::MAX });
        let course = |end_ns| PhaseCourse {
            start_ns: begin_ns,
            window: Window { begin_ns, end_ns },
            given_up_ns: end_ns,
            found: WaitEnd::default(),
        };
        let (mut before, mut since_ns) = (0, begin_ns);
        while self.ended < self.workers.len() {
            let now_ns = timer.now_ns();
            let elapsed_ns = (now_ns - begin_ns) as f64;
            let performed: u64 = self.workers.iter().map(|worker| worker.record.performed()).sum();
            if performed > before {
                (before, since_ns) = (performed, now_ns);
            } else if patience.is_some_and(|patience| now_ns - since_ns > patience.0) {
                // What ends from now on takes the lock, like everything at the edge of a window.
                self.workers.iter().for_each(|worker| worker.record.deadline_ns.set(now_ns));
                self.end_window();
                self.is_given_up = true;
                return Ok(course(now_ns));
            }
            let done = (performed as f64 / operations.max(1) as f64).min(0.999);
            let left_ns = if done > 0.0 { elapsed_ns / done - elapsed_ns } else { 0.0 };
            let window = Window { begin_ns, end_ns: u64::MAX };
            self.tell(reporter, TrialStep::Measure, done, left_ns as u64, (window, timer));
            self.observer.look();
            self.listen(LOOK_UP, stop)?;
        }
        self.end_window();
        let finished = self.workers.iter().map(|worker| worker.record.finished_ns.get()).max();
        let end_ns = finished.unwrap_or(0).max(begin_ns + 1);
        Ok(course(end_ns))
    }

    /// Closes the records of all workers and reads them.
    fn read(&self, span: Span, window: Window, timer: Timer, given_up_ns: u64) -> Vec<Finished> {
        let cpu = self.cpu.iter().copied().chain(std::iter::repeat(CpuTime::default()));
        let read = |(worker, cpu): (&Worker, CpuTime)| {
            Finished::read(&worker.record, span, window, timer, given_up_ns, cpu)
        };
        self.workers.iter().zip(cpu).map(read).collect()
    }

    /// Waits for the workers that go on although nothing counts any more: each stops after the operation that
    /// it is in, which has the same limit as those of the window. Those that hang in one of the window are
    /// not waited for: `moving` is the number of the others.
    fn release(
        &mut self,
        moving: usize,
        timer: Timer,
        until_ns: u64,
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), EngineError> {
        let until_ns = until_ns.max(timer.now_ns() + PATIENCE.as_nanos() as u64);
        while self.ended < moving && timer.now_ns() < until_ns {
            match self.listen(LOOK_UP, stop) {
                // The records are closed.
                Err(EngineError::Operation { failure, .. }) => drop(self.late.get_or_insert(failure)),
                other => other?,
            }
            reporter.tell(TrialStep::Drain, &self.phase, 1.0, 0);
        }
        Ok(())
    }

    /// Reports the step if that is due, with a glance at the workers.
    fn tell(
        &mut self,
        reporter: &mut Reporter<'_>,
        step: TrialStep,
        done: f64,
        left_ns: u64,
        (window, timer): (Window, Timer),
    ) {
        if reporter.is_due(step, &self.phase) {
            let records = self.workers.iter().map(|worker| &*worker.record);
            let glance = self.glances.take(records, (step, window), timer, self.observer.latest());
            reporter.tell_now(step, &self.phase, done, left_ns, glance);
        }
    }

    /// The window begins now.
    fn begin_window(&mut self) {
        let helpers = Helpers::look();
        self.cpu = self.workers.iter().map(|worker| worker.record.cpu(&helpers)).collect();
        self.observer.begin();
    }

    /// The window has ended just now.
    fn end_window(&mut self) {
        let helpers = Helpers::look();
        for (worker, cpu) in self.workers.iter().zip(&mut self.cpu) {
            *cpu = worker.record.cpu(&helpers).since(cpu);
        }
        self.telemetry = self.observer.end();
    }

    /// Waits for a message of a worker.
    fn listen(&mut self, patience: Duration, stop: &AtomicBool) -> Result<(), EngineError> {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::Stopped);
        }
        match self.messages.recv_timeout(patience) {
            Ok(Message::Ready) => self.ready += 1,
            Ok(Message::Settled(worker)) => self.settle(worker),
            Ok(Message::Ended { worker, halt }) => {
                self.ended += 1;
                self.settle(worker);
                // The message was its last one: only the end of the thread is left to wait for.
                self.workers[worker].thread.take().map(JoinHandle::join);
                match halt {
                    Ok(Halt::Over) => {}
                    Ok(Halt::Late(failure)) => drop(self.late.get_or_insert(failure)),
                    Ok(Halt::Failed(failure)) => return Err(EngineError::operation(&self.phase, failure)),
                    Ok(Halt::Wrong(wrong)) => {
                        return Err(EngineError::Wrong { step: self.phase.clone(), wrong: *wrong });
                    }
                    Err(_panic) => return Err(EngineError::Worker { step: self.phase.clone() }),
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(EngineError::Worker { step: self.phase.clone() });
            }
        }
        Ok(())
    }

    fn settle(&mut self, worker: usize) {
        let settled = &mut self.workers[worker].settled;
        self.settled += usize::from(!std::mem::replace(settled, true));
    }

    /// Stops all workers, and waits a short time for them.
    fn dismiss(&mut self, gate: &Gate) {
        self.workers.iter().for_each(|worker| worker.record.stop());
        // Workers that still wait for the others are let through, and find that the deadline has passed.
        gate.open(Window { begin_ns: 0, end_ns: 1 });
        let begin = std::time::Instant::now();
        let never = AtomicBool::new(false);
        while self.ended < self.workers.len() && begin.elapsed() < PATIENCE {
            // Further failures follow from the first.
            let _ = self.listen(LOOK_UP, &never);
        }
    }

    /// Returns the number of threads that remain.
    fn remaining(&self) -> u32 {
        self.workers.iter().filter(|worker| worker.thread.is_some()).count() as u32
    }
}

#[cfg(test)]
mod tests;
