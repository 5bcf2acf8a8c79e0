//! Signals that end a command in its own time: Ctrl-C, SIGTERM, SIGQUIT, and the loss of the terminal.
//!
//! The first asks it to stop and to undo everything. A second one is from somebody who does not want to wait: what is under
//! way is given up, and what is left on the machine is told.

use signal_hook::consts::{SIGHUP, TERM_SIGNALS};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the user has asked for by signals.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    /// Stop, and undo everything.
    pub stop: Arc<AtomicBool>,
    /// Wait for nothing any more.
    pub hurry: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the signals cannot be taken over.
    pub fn listen() -> std::io::Result<Self> {
        let interrupt = Interrupt::default();
        // nohup(1) has SIGHUP ignored, and means it.
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        let mut signals = Signals::new(TERM_SIGNALS.iter().copied().chain(hangup))?;
        let Interrupt { stop, hurry } = interrupt.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                if stop.swap(true, Ordering::Relaxed) {
                    hurry.store(true, Ordering::Relaxed);
                }
            }
        });
        Ok(interrupt)
    }
}

/// Whether this process was started with a signal ignored (`SigIgn` in proc_pid_status(5), bit N-1 for signal N).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_known() {
        // Rust's start-up code has the one ignored and lets the other be.
        assert!(is_ignored(signal_hook::consts::SIGPIPE));
        assert!(!is_ignored(signal_hook::consts::SIGSEGV));
    }
}
