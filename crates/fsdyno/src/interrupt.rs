//! Signals that ask a command to end: Ctrl-C, SIGTERM, SIGQUIT, and the loss of the terminal.
//!
//! The first one asks it to stop and to undo everything. A second one means that the user does not want to
//! wait: the current step is abandoned, and what is left on the machine is reported.

use fsdyno_sys::inherited::is_ignored;
use signal_hook::consts::{SIGHUP, SIGXFSZ, TERM_SIGNALS};
use signal_hook::iterator::Signals;
use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time that stopping may take before a message says how to end it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The requests that the user has made by signals.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    /// Stop, and undo everything.
    pub stop: Arc<AtomicBool>,
    /// Stop waiting.
    pub hurry: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the signals cannot be handled, or no thread can be started.
    pub fn listen() -> std::io::Result<Self> {
        Self::start(false)
    }

    /// The same, for work that may take long to stop: a user at a terminal is then told how to end it.
    ///
    /// # Errors
    /// Those of [`Interrupt::listen`].
    pub fn listen_and_explain() -> std::io::Result<Self> {
        Self::start(stderr().is_terminal())
    }

    fn start(explains: bool) -> std::io::Result<Self> {
        let interrupt = Interrupt::default();
        // nohup(1) makes SIGHUP ignored on purpose.
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        let mut signals = Signals::new(TERM_SIGNALS.iter().copied().chain(hangup))?;
        let Interrupt { stop, hurry } = interrupt.clone();
        std::thread::Builder::new().spawn(move || {
            for _ in signals.forever() {
                if stop.swap(true, Ordering::Relaxed) {
                    hurry.store(true, Ordering::Relaxed);
                } else if explains {
                    let hurry = Arc::clone(&hurry);
                    // If no thread can be started, the user only misses this message.
                    let _ = std::thread::Builder::new().spawn(move || explain_after_a_while(&hurry));
                }
            }
        })?;
        Ok(interrupt)
    }
}

fn explain_after_a_while(hurry: &AtomicBool) {
    std::thread::sleep(PATIENCE);
    if !hurry.load(Ordering::Relaxed) {
        let text = "stopping and undoing changes to the machine; press Ctrl-C again to stop waiting";
        let _ = writeln!(stderr(), "{text}");
    }
}

/// From now on, a write beyond the limit on the size of files (`ulimit -f`) fails instead of ending this
/// process. Programs that it starts are not affected (execve(2)).
///
/// # Errors
/// If the signal cannot be handled.
pub fn outlive_the_limit_of_files() -> std::io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}
