//! One phase: workers line up, run through ramp and window, and are waited for in the drain.
//!
//! The coordinator is the calling thread. It never touches what the workers do: it opens the gate, looks at the clock ten
//! times a second, and after the drain reads the records, also that of a worker that hangs in the kernel and will never
//! answer. Such a worker is left behind; the engine goes on and ends on time.

use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter};
use crate::progress::Progress;
use crate::record::WorkerRecord;
use crate::summary::{self, Finished};
use crate::window::Window;
use fsdyno_core::protocol::Stage;
use fsdyno_core::units::Nanos;
use fsdyno_core::{Operation, PhaseResult, Role};
use fsdyno_sys::thread;
use fsdyno_sys::timer::Timer;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the coordinator looks up.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(100);

/// How long workers that were told to stop are waited for before they are left behind.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one worker does: prepares, lines up, and works until it is halted.
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
    pub(crate) ramp: Nanos,
    pub(crate) window: Nanos,
    pub(crate) drain_limit: Nanos,
    /// In the order of the result.
    pub(crate) teams: Vec<Team>,
}

/// Where workers wait for the window to be known.
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
    /// Says that everything is prepared, waits for the others, and takes the instruments.
    pub(crate) fn start(self) -> Meter {
        // The coordinator is gone only when the phase is over, and then the deadline has passed.
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

/// Runs a phase to its end. Adds to `left_behind` the workers that hang in the kernel, however the phase ends.
///
/// # Errors
/// [`EngineError::Operation`] when a worker failed, [`EngineError::Stopped`] when the parent wants the engine to stop.
pub(crate) fn run(
    phase: Phase,
    timer: Timer,
    stop: &AtomicBool,
    progress: &mut Progress<'_>,
    left_behind: &mut u32,
) -> Result<PhaseResult, EngineError> {
    let Phase { name, ramp, window, drain_limit, teams } = phase;
    let (sender, messages) = channel();
    let gate = Arc::new(Gate::default());
    let mut crew = Crew { phase: name.clone(), workers: Vec::new(), messages, ready: 0, ended: 0 };
    let hired = teams.into_iter().try_for_each(|Team { role, steps, jobs }| {
        jobs.into_iter().try_for_each(|job| {
            crew.hire(job, Arc::new(WorkerRecord::new(role, steps, window.0)), timer, &gate, &sender)
        })
    });
    drop(sender);

    let outcome =
        hired.and_then(|()| crew.through(timer, stop, progress, &gate, [ramp, window, drain_limit]));
    if outcome.is_err() {
        crew.dismiss(&gate);
    }
    *left_behind += crew.remaining();
    let (window, given_up_ns) = outcome?;
    let finished: Vec<Finished> = crew
        .workers
        .iter()
        .map(|worker| Finished::read(&worker.record, window, timer, given_up_ns))
        .collect();
    let drain_ns = finished.iter().map(|worker| worker.drain_ns(window)).max().unwrap_or(0);
    let roles = summary::roles(window, finished);
    let length = Nanos(window.length_ns());
    Ok(PhaseResult { name, ramp_ns: ramp, window_ns: length, drain_ns: Nanos(drain_ns), roles })
}

struct Crew {
    phase: String,
    workers: Vec<Worker>,
    messages: Receiver<Message>,
    ready: usize,
    ended: usize,
}

impl Crew {
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
            .map_err(|_| EngineError::Worker { step: self.phase.clone() })?;
        self.workers.push(Worker { record, thread: Some(thread) });
        Ok(())
    }

    /// Lines up, ramps, measures and drains. Returns the window and the moment at which the drain was over.
    fn through(
        &mut self,
        timer: Timer,
        stop: &AtomicBool,
        progress: &mut Progress<'_>,
        gate: &Gate,
        [ramp, window, drain_limit]: [Nanos; 3],
    ) -> Result<(Window, u64), EngineError> {
        while self.ready < self.workers.len() {
            self.listen(LOOK_UP, stop)?;
            progress.tell(Stage::Settle, &self.phase, 1.0, ramp.0 + window.0);
        }
        let start_ns = timer.now_ns();
        let begin_ns = start_ns + ramp.0;
        let window = Window { begin_ns, end_ns: begin_ns + window.0 };
        for worker in &self.workers {
            worker.record.deadline_ns.set(window.end_ns);
        }
        gate.open(window);
        let give_up_ns = window.end_ns.saturating_add(drain_limit.0);
        loop {
            let now = timer.now_ns();
            let (stage, from, to) = match now {
                _ if now < window.begin_ns => (Stage::Ramp, start_ns, window.begin_ns),
                _ if now < window.end_ns => (Stage::Measure, window.begin_ns, window.end_ns),
                _ => (Stage::Drain, window.end_ns, give_up_ns),
            };
            if self.ended == self.workers.len() || now >= give_up_ns {
                return Ok((window, now));
            }
            let done = (now - from) as f64 / (to - from).max(1) as f64;
            progress.tell(stage, &self.phase, done, window.end_ns.saturating_sub(now));
            self.listen(Duration::from_nanos(to - now).min(LOOK_UP), stop)?;
        }
    }

    /// Waits for what a worker has to say.
    fn listen(&mut self, patience: Duration, stop: &AtomicBool) -> Result<(), EngineError> {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::Stopped);
        }
        match self.messages.recv_timeout(patience) {
            Ok(Message::Ready) => self.ready += 1,
            Ok(Message::Ended { worker, halt }) => {
                self.ended += 1;
                // The message was its last word: there is nothing to wait for but the end of the thread.
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

    /// Stops everybody, and waits a little until they have.
    fn dismiss(&mut self, gate: &Gate) {
        self.workers.iter().for_each(|worker| worker.record.stop());
        // Whoever still waits for the others is let through, to find that the deadline has passed.
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
    thread::block_signals();
    let set_up = thread::unshare_files().and_then(|()| thread::release_standard_streams());
    let halt = match set_up {
        Ok(()) => catch_unwind(AssertUnwindSafe(|| job(lineup))),
        Err(errno) => {
            let path = "descriptor table of a worker".to_string();
            Ok(Halt::Failed(OperationFailure { operation: None, path, errno }))
        }
    };
    // Nobody listens when the worker was left behind.
    let _ = messages.send(Message::Ended { worker, halt });
}
