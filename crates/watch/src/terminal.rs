//! A terminal in another mode, which is as before however this process ends, except by SIGKILL.
//!
//! It is restored when the guard is dropped, before a panic is reported, and, because SIGTERM, SIGHUP, SIGINT
//! and SIGQUIT only end the loop that draws, after these signals as well.

use ratatui::Terminal as Drawing;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The terminal on stdout, with nothing of its former content visible.
pub(crate) struct Terminal {
    pub(crate) drawing: Drawing<CrosstermBackend<Stdout>>,
    signal: Arc<AtomicUsize>,
}

impl Terminal {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// If stdin and stdout are no terminal, or a signal cannot be handled.
    pub(crate) fn take() -> io::Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
            flag::register_usize(number, Arc::clone(&signal), number.unsigned_abs() as usize)?;
        }
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            report(panic);
        }));
        let begin = || {
            enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen, Hide)?;
            Drawing::new(CrosstermBackend::new(stdout()))
        };
        match begin() {
            Ok(drawing) => Ok(Terminal { drawing, signal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// The signal that wants this process to end, if one came.
    pub(crate) fn signal(&self) -> Option<i32> {
        let number = self.signal.load(Ordering::Relaxed);
        i32::try_from(number).ok().filter(|number| *number > 0)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// The terminal as before. One that is gone needs no restoring.
fn restore() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
