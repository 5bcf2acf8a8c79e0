//! One phase: workers line up, run through ramp and window, and are waited for in the drain; or they work
//! until their work is done, and the window is the time that took.
//!
//! The coordinator is the calling thread. It never touches what the workers do: it opens the gate, checks the
//! clock ten times a second, and reads the records after the drain, including that of a worker that hangs in
//! the kernel and will never respond. Such a worker is left behind; the engine continues and ends on time.

use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter};
use crate::observer::Observer;
use crate::progress::Progress;
use crate::record::WorkerRecord;
use crate::span::Span;
use crate::summary::{self, Finished};
use crate::window::Window;
use fsdyno_core::protocol::Stage;
use fsdyno_core::result::CpuTime;
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::PhaseSpec;
use fsdyno_core::{Operation, PhaseResult, Role, Telemetry};
use fsdyno_sys::thread;
use fsdyno_sys::timer::Timer;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the coordinator checks.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(100);

/// How long to wait for workers that were told to stop before they are left behind.
const PATIENCE: Duration = Duration::from_secs(2);

/// The work of one worker: it prepares, lines up, and works until it is halted or done ([`Halt::Over`] in
/// both cases).
pub(crate) type Job = Box<dyn FnOnce(Lineup) -> Halt + Send>;

/// The workers of one role.
pub(crate) struct Team {
    pub(crate) role: Role,
    pub(crate) steps: &'static [Operation],
    pub(crate) jobs: Vec<Job>,
}

/// A phase to run.
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// In the order of the result.
    pub(crate) teams: Vec<Team>,
}

impl Phase {
    /// A phase of one role.
    pub(crate) fn of(spec: PhaseSpec, span: Span, jobs: Vec<Job>) -> Self {
        let PhaseSpec { name, role, steps } = spec;
        Phase { name: name.to_string(), span, teams: vec![Team { role, steps, jobs }] }
    }
}

/// Where workers wait until the window is known.
#[derive(Debug, Default)]
struct Gate {
    window: Mutex<Option<Window>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, window: Window) {
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = Some(window);
        self.opened.notify_all();
    }

    fn wait(&self) -> Window {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(window) = *window {
                return window;
            }
            window = self.opened.wait(window).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A worker's place at the start.
pub(crate) struct Lineup {
    timer: Timer,
    record: Arc<WorkerRecord>,
    gate: Arc<Gate>,
    messages: Sender<Message>,
    worker: usize,
}

impl Lineup {
    /// Reports that everything is prepared, waits for the others, and takes the instruments.
    pub(crate) fn start(self) -> Meter {
        // The coordinator is gone only if the phase is over, and then the deadline has passed.
        let _ = self.messages.send(Message::Ready);
        Meter::new(self.timer, self.gate.wait(), self.record)
    }
}

enum Message {
    Ready,
    /// `Err`: it panicked.
    Ended {
        worker: usize,
        halt: std::thread::Result<Halt>,
    },
}

struct Worker {
    record: Arc<WorkerRecord>,
    thread: Option<JoinHandle<()>>,
}

/// Runs a phase until it ends, and adds the number of workers that hang in the kernel to `left_behind`,
/// however the phase ends.
///
/// # Errors
/// [`EngineError::Operation`] if a worker failed, [`EngineError::Stopped`] if the parent wants the engine to
/// stop.
pub(crate) fn run(
    phase: Phase,
    timer: Timer,
    stop: &AtomicBool,
    progress: &mut Progress<'_>,
    observer: &mut dyn Observer,
    left_behind: &mut u32,
) -> Result<PhaseResult, EngineError> {
    let Phase { name, span, teams } = phase;
    let (sender, messages) = channel();
    let gate = Arc::new(Gate::default());
    let mut crew = Crew {
        phase: name.clone(),
        workers: Vec::new(),
        messages,
        ready: 0,
        ended: 0,
        cpu: Vec::new(),
        observer,
        telemetry: None,
    };
    let hired = teams.into_iter().try_for_each(|Team { role, steps, jobs }| {
        jobs.into_iter().try_for_each(|job| {
            let record = Arc::new(WorkerRecord::new(role, steps, span.window_ns()));
            crew.hire(job, record, timer, &gate, &sender)
        })
    });
    drop(sender);

    let outcome = hired.and_then(|()| crew.through(timer, stop, progress, &gate, span));
    if outcome.is_err() {
        crew.dismiss(&gate);
    }
    *left_behind += crew.remaining();
    let (window, given_up_ns) = outcome?;
    let finished: Vec<Finished> = crew
        .workers
        .iter()
        .zip(&crew.cpu)
        .map(|(worker, cpu)| Finished::read(&worker.record, span, window, timer, given_up_ns, *cpu))
        .collect();
    let drain_ns = finished.iter().map(|worker| worker.drain_ns(window)).max().unwrap_or(0);
    let roles = summary::roles(window, finished);
    let length = Nanos(window.length_ns());
    Ok(PhaseResult {
        name,
        ramp_ns: span.ramp(),
        window_ns: length,
        drain_ns: Nanos(drain_ns),
        roles,
        telemetry: crew.telemetry,
        memory: None,
    })
}

struct Crew<'o> {
    phase: String,
    workers: Vec<Worker>,
    messages: Receiver<Message>,
    ready: usize,
    ended: usize,
    /// Processor time of each worker: at the beginning of the window, and then within it.
    cpu: Vec<CpuTime>,
    observer: &'o mut dyn Observer,
    /// What the observer saw, once the window has ended.
    telemetry: Option<Telemetry>,
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
        self.workers.push(Worker { record, thread: Some(thread) });
        Ok(())
    }

    /// Lines up and works. Returns the window and the moment at which the last worker was done or given up.
    fn through(
        &mut self,
        timer: Timer,
        stop: &AtomicBool,
        progress: &mut Progress<'_>,
        gate: &Gate,
        span: Span,
    ) -> Result<(Window, u64), EngineError> {
        while self.ready < self.workers.len() {
            self.listen(LOOK_UP, stop)?;
            progress.tell(Stage::Settle, &self.phase, 1.0, span.ramp().0 + span.window_ns().unwrap_or(0));
        }
        match span {
            Span::Timed { ramp, window, drain_limit } => {
                self.through_window(timer, stop, progress, gate, [ramp, window, drain_limit])
            }
            Span::Whole { operations } => self.until_done(timer, stop, progress, gate, operations),
        }
    }

    /// Ramps, measures and drains.
    fn through_window(
        &mut self,
        timer: Timer,
        stop: &AtomicBool,
        progress: &mut Progress<'_>,
        gate: &Gate,
        [ramp, window, drain_limit]: [Nanos; 3],
    ) -> Result<(Window, u64), EngineError> {
        let start_ns = timer.now_ns();
        let begin_ns = start_ns + ramp.0;
        let window = Window { begin_ns, end_ns: begin_ns + window.0 };
        for worker in &self.workers {
            worker.record.deadline_ns.set(window.end_ns);
        }
        gate.open(window);
        let give_up_ns = window.end_ns.saturating_add(drain_limit.0);
        let mut stage_before = None;
        loop {
            let now = timer.now_ns();
            let (stage, from, to) = match now {
                _ if now < window.begin_ns => (Stage::Ramp, start_ns, window.begin_ns),
                _ if now < window.end_ns => (Stage::Measure, window.begin_ns, window.end_ns),
                _ => (Stage::Drain, window.end_ns, give_up_ns),
            };
            if stage_before != Some(stage) {
                match stage {
                    Stage::Measure => self.begin_window(),
                    Stage::Drain => self.end_window(),
                    _ => {}
                }
                stage_before = Some(stage);
            } else if stage == Stage::Measure {
                self.observer.look();
            }
            if self.ended == self.workers.len() || now >= give_up_ns {
                // Workers that are done may all exit early.
                if stage == Stage::Ramp {
                    self.begin_window();
                }
                if stage != Stage::Drain {
                    self.end_window();
                }
                return Ok((window, now));
            }
            let done = (now - from) as f64 / (to - from).max(1) as f64;
            progress.tell(stage, &self.phase, done, window.end_ns.saturating_sub(now));
            // The check itself has taken time.
            let rest = Duration::from_nanos(to.saturating_sub(timer.now_ns()));
            self.listen(rest.min(LOOK_UP), stop)?;
        }
    }

    /// Works until every worker has finished.
    fn until_done(
        &mut self,
        timer: Timer,
        stop: &AtomicBool,
        progress: &mut Progress<'_>,
        gate: &Gate,
        operations: u64,
    ) -> Result<(Window, u64), EngineError> {
        self.begin_window();
        let begin_ns = timer.now_ns();
        gate.open(Window { begin_ns, end_ns: u64::MAX });
        while self.ended < self.workers.len() {
            let elapsed_ns = (timer.now_ns() - begin_ns) as f64;
            let performed: u64 = self.workers.iter().map(|worker| worker.record.performed()).sum();
            let done = (performed as f64 / operations.max(1) as f64).min(0.999);
            let left_ns = if done > 0.0 { elapsed_ns / done - elapsed_ns } else { 0.0 };
            progress.tell(Stage::Measure, &self.phase, done, left_ns as u64);
            self.observer.look();
            self.listen(LOOK_UP, stop)?;
        }
        self.end_window();
        let finished = self.workers.iter().map(|worker| worker.record.finished_ns.get()).max();
        let end_ns = finished.unwrap_or(0).max(begin_ns + 1);
        Ok((Window { begin_ns, end_ns }, end_ns))
    }

    /// The window begins now.
    fn begin_window(&mut self) {
        self.cpu = self.workers.iter().map(|worker| worker.record.cpu()).collect();
        self.observer.begin();
    }

    /// The window has ended just now.
    fn end_window(&mut self) {
        for (worker, cpu) in self.workers.iter().zip(&mut self.cpu) {
            *cpu = worker.record.cpu().since(cpu);
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
            Ok(Message::Ended { worker, halt }) => {
                self.ended += 1;
                // The message was its last one: only the end of the thread is left to wait for.
                self.workers[worker].thread.take().map(JoinHandle::join);
                match halt {
                    Ok(Halt::Over) => {}
                    Ok(Halt::Failed(failure)) => return Err(EngineError::operation(&self.phase, failure)),
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

    /// How many threads are still there.
    fn remaining(&self) -> u32 {
        self.workers.iter().filter(|worker| worker.thread.is_some()).count() as u32
    }
}

/// The life of a worker's thread.
fn work(job: Job, lineup: Lineup) {
    let (messages, worker) = (lineup.messages.clone(), lineup.worker);
    let (record, timer) = (Arc::clone(&lineup.record), lineup.timer);
    record.thread.set(thread::id().into());
    thread::block_signals();
    let set_up = thread::unshare_files()
        .and_then(|()| thread::release_standard_streams())
        .and_then(|()| thread::drop_capabilities_beyond_files());
    let halt = match set_up {
        Ok(()) => catch_unwind(AssertUnwindSafe(|| job(lineup))),
        Err(errno) => {
            let path = "set-up of a worker".to_string();
            Ok(Halt::Failed(OperationFailure { operation: None, path, errno }))
        }
    };
    record.finish(timer.now_ns());
    // Nobody listens if the worker was left behind.
    let _ = messages.send(Message::Ended { worker, halt });
}

#[cfg(test)]
mod tests;
