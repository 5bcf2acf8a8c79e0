//! The common start of the workers of a phase: each prepares, reports that it is ready, and waits at a gate
//! until the coordinator knows the window. [`work`] is the life of its thread.

use crate::error::OperationFailure;
use crate::meter::{Halt, Meter, Settled};
use crate::record::WorkerRecord;
use crate::window::Window;
use fsdyno_sys::thread;
use fsdyno_sys::timer::Timer;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Where workers wait until the window is known.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    window: Mutex<Option<Window>>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn open(&self, window: Window) {
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
    pub(crate) timer: Timer,
    pub(crate) record: Arc<WorkerRecord>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) messages: Sender<Message>,
    pub(crate) worker: usize,
}

impl Lineup {
    /// Reports that everything is prepared, waits for the others, and takes the instruments.
    pub(crate) fn start(self) -> Meter {
        if self.record.paced.is_some() {
            // Else the kernel may wake the worker 50 us late to save energy (PR_SET_TIMERSLACK in prctl(2)).
            // If it refuses, that is part of the lateness in the result.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        // The coordinator is gone only if the phase is over, and then the deadline has passed.
        let _ = self.messages.send(Message::Ready);
        let Lineup { timer, record, gate, messages, worker } = self;
        let settled = Settled::by(move || {
            // Nobody listens once the phase is over.
            let _ = messages.send(Message::Settled(worker));
        });
        Meter::new(timer, gate.wait(), record, Some(settled))
    }
}

/// A message from a worker to the coordinator.
pub(crate) enum Message {
    /// Everything is prepared.
    Ready,
    /// This one has nothing of the window in flight any more.
    Settled(usize),
    /// `Err`: it panicked.
    Ended { worker: usize, halt: std::thread::Result<Halt> },
}

/// The life of a worker's thread.
pub(crate) fn work(job: impl FnOnce(Lineup) -> Halt, lineup: Lineup) {
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
