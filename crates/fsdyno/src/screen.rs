//! The screen of a sweep itself, `sweep --watch`: `fsdyno watch` as a child on the same terminal.
//!
//! A process of its own, so that nothing that happens to the screen happens to the sweep. Meanwhile nothing
//! else is written to the terminal; it is kept until the screen is gone.

use crate::exit::Status;
use crate::progress::Display;
use crate::say;
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that the screen may take to leave when the sweep has ended.
const PATIENCE: Duration = Duration::from_secs(3);

/// The screen, as long as the user looks at it.
pub struct OwnScreen {
    child: Option<Child>,
}

impl OwnScreen {
    /// Shows the sweep that this process is about to run.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn begin(state: &Path, store: &Path, colour: bool, display: &Display) -> anyhow::Result<Self> {
        let binary = std::env::current_exe().context("cannot find fsdyno's own binary")?;
        let mut command = Command::new(binary);
        command.arg("--state").arg(state).arg("--store").arg(store);
        command.args(["--color", if colour { "always" } else { "never" }, "watch", "--until-end"]);
        display.cover();
        say::hold();
        match command.spawn() {
            Ok(child) => Ok(OwnScreen { child: Some(child) }),
            Err(error) => {
                uncover(display);
                Err(error).context("cannot start the screen")
            }
        }
    }

    /// Notices that the user has left it. Ctrl-C on it stops the sweep, as on any other terminal.
    pub fn look(&mut self, display: &Display, stop: &AtomicBool) {
        let Some(child) = &mut self.child else { return };
        let Ok(Some(status)) = child.try_wait() else { return };
        self.child = None;
        uncover(display);
        if status.code() == Some(Status::Interrupted.code().into()) {
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// The sweep has ended, which the screen sees by itself.
    pub fn end(mut self, display: &Display) {
        let Some(mut child) = self.child.take() else { return };
        let begin = Instant::now();
        while let Ok(None) = child.try_wait() {
            if begin.elapsed() > PATIENCE {
                let _ = Pid::from_raw(child.id().cast_signed()).map(|pid| kill_process(pid, Signal::TERM));
                let _ = child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        uncover(display);
    }
}

fn uncover(display: &Display) {
    display.uncover();
    say::release();
}
