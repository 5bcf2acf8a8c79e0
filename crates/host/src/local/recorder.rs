//! A recorder process on this machine.
//!
//! Whoever uses its disk waits in the kernel for its answers, and nothing ends such a wait but the end of the
//! recorder. One that dies fails what waits for it. One that is stopped (SIGSTOP) would hold everything until
//! somebody lets it continue, so it is watched, and killed if it stays stopped.

use super::wait_readable;
use crate::lines::{Heard, Lines};
use crate::recorder::Recorder;
use crate::{HostError, Result};
use fsdyno_core::durability::{RecorderReply, RecorderRequest};
use fsdyno_sys::child;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that a recorder has to unmount itself and exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// The time that a recorder may be stopped before it is killed.
const STOPPED_MOST: Duration = Duration::from_secs(5);
/// The interval at which to check whether a recorder is stopped.
const GLANCE: Duration = Duration::from_millis(250);

/// Starts a recorder: a copy of this binary, which is killed when the calling thread ends.
pub(crate) fn start(binary: &Path, inherited: Vec<Arc<OwnedFd>>) -> Result<Box<dyn Recorder>> {
    let failed = |error: io::Error| HostError::system("start a recorder with", binary, error);
    let mut command = Command::new(binary);
    command.arg("recorder").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    child::set_up(&mut command, inherited);
    let mut child = command.spawn().map_err(failed)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        unreachable!("both were asked for as pipes");
    };
    let mut process = Process { child, stdin: Some(stdin), was_stopped: Arc::default() };
    match process.watch().and_then(|()| Lines::listen(stdout)) {
        Ok(lines) => Ok(Box::new(LocalRecorder { process, lines })),
        Err(error) => {
            process.end(Duration::ZERO);
            Err(failed(error))
        }
    }
}

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    /// True if it was killed because it was stopped.
    was_stopped: Arc<AtomicBool>,
}

struct LocalRecorder {
    process: Process,
    lines: Lines,
}

impl Process {
    /// Has a thread see to it that it does not stay stopped. The thread ends with the process.
    fn watch(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let was_stopped = Arc::clone(&self.was_stopped);
        let watch = move || {
            let mut since = None;
            // It can be read once the process has ended (pidfd_open(2)).
            while !wait_readable(process.as_fd(), GLANCE) {
                since = if is_stopped(pid) { since.or(Some(Instant::now())) } else { None };
                if since.is_some_and(|since: Instant| since.elapsed() >= STOPPED_MOST) {
                    was_stopped.store(true, Ordering::Release);
                    // One that is gone is not stopped.
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                    return;
                }
            }
        };
        std::thread::Builder::new().spawn(watch).map(drop)
    }

    /// The reason why it does not answer any more.
    fn end_in_words(&self) -> String {
        match self.was_stopped.load(Ordering::Acquire) {
            true => format!(
                "it was stopped by a signal for {} s, and killed so that nothing waits for it",
                STOPPED_MOST.as_secs()
            ),
            false => "its process has ended".to_string(),
        }
    }

    /// Closes its stdin, and kills it if it is not gone in time.
    fn end(&mut self, grace: Duration) {
        self.stdin = None;
        let deadline = Instant::now() + grace;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.child.kill().and_then(|()| self.child.wait());
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Returns whether a signal has stopped a process (`T` in proc_pid_stat(5)); one that a debugger looks at is
/// not.
fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name before it may contain anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(GRACE);
    }
}

impl Recorder for LocalRecorder {
    fn ask(&mut self, request: &RecorderRequest, limit: Duration) -> Result<RecorderReply> {
        let lost =
            |reason: &str| HostError::Lost { host: "recorder".to_string(), reason: reason.to_string() };
        let mut line = serde_json::to_vec(request).map_err(|error| lost(&error.to_string()))?;
        line.push(b'\n');
        let stdin = self.process.stdin.as_mut().ok_or_else(|| lost("it was told to end"))?;
        stdin.write_all(&line).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => lost(&self.process.end_in_words()),
            _ => lost(&error.to_string()),
        })?;
        let reply = match self.lines.next(limit) {
            Heard::Line(line) => serde_json::from_slice(&line).map_err(|error| lost(&error.to_string()))?,
            Heard::Silence => {
                let action = "the recorder of the disk".to_string();
                return Err(HostError::Hung { action, seconds: limit.as_secs() });
            }
            Heard::TooMuch(_) => return Err(lost("it said more than expected")),
            Heard::End => return Err(lost(&self.process.end_in_words())),
        };
        match reply {
            RecorderReply::Failed { reason } => Err(HostError::System {
                action: "use".to_string(),
                object: "the recorded disk".to_string(),
                errno: 0,
                reason,
            }),
            reply => Ok(reply),
        }
    }
}
