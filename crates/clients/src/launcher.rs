//! The process of the launcher. It only starts agents: while they work, nobody asks it anything.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number of bytes of the launcher's output that are kept.
const OUTPUT_KEPT: usize = 4096;
/// The time that a launcher whose agents are gone may take to exit, and again after it was asked to.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// The interval at which to check whether it has exited.
const TURN: Duration = Duration::from_millis(5);

/// The launcher's process.
pub(crate) struct Launcher {
    child: Child,
    program: String,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Launcher {
    /// Runs it. `program` is what to call it.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn start(mut command: Command, program: &str) -> io::Result<Self> {
        // Ctrl-C on the terminal reaches only the coordinator, which then decides.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let output = Arc::<Mutex<Vec<u8>>>::default();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        if let Some(pipe) = stdout {
            listen(pipe, &output)?;
        }
        if let Some(pipe) = stderr {
            listen(pipe, &output)?;
        }
        Ok(Launcher { child, program: program.to_string(), output })
    }

    /// Returns the exit status of the launcher, if it has exited.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of what it and its agents have printed.
    pub fn output(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&output).trim().to_string()
    }

    /// Waits for it to exit if its agents are about to, asks it to, and kills it. Returns what is left of it.
    pub fn end(&mut self, is_done: bool) -> Option<String> {
        let group = Pid::from_raw(self.child.id() as i32);
        let signals = [None, Some(Signal::TERM), Some(Signal::KILL)];
        for signal in signals.into_iter().skip(usize::from(!is_done)) {
            // It has not been reaped, so its number is still its own.
            if let (Some(signal), Some(group)) = (signal, group) {
                let _ = kill_process_group(group, signal);
            }
            let deadline = Instant::now() + EXIT_LIMIT;
            while Instant::now() < deadline {
                if self.exited().is_some() {
                    return None;
                }
                std::thread::sleep(TURN);
            }
        }
        Some(format!(
            "process {} of the launcher '{}', which cannot be killed",
            self.child.id(),
            self.program
        ))
    }
}

/// A last resort: whoever is done with it has ended it.
impl Drop for Launcher {
    fn drop(&mut self) {
        if self.exited().is_none()
            && let Some(group) = Pid::from_raw(self.child.id() as i32)
        {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

/// Reads a pipe in a thread until it is closed, and keeps the last of it.
fn listen(mut pipe: impl Read + Send + 'static, kept: &Arc<Mutex<Vec<u8>>>) -> io::Result<()> {
    let kept = Arc::clone(kept);
    let listen = move || {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..length]);
            let excess = kept.len().saturating_sub(OUTPUT_KEPT);
            kept.drain(..excess);
        }
    };
    std::thread::Builder::new().name("launcher".to_string()).spawn(listen).map(drop)
}
