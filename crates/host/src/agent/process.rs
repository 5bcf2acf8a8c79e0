//! The agent as its parent sees it: a child process that answers each line with a line, in time or not.

use crate::lines::LINE_MAX;
use crate::local::wait_readable;
use crate::{HostError, Result};
use fsdyno_sys::child;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that an agent has to exit after it was killed, or its stdin closed, before it counts as hung.
const GRACE: Duration = Duration::from_secs(1);
/// The interval at which to check whether an answer is still wanted.
const GLANCE: Duration = Duration::from_millis(100);

pub(super) struct Agent {
    child: Child,
    /// `None` once it has been told to exit.
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// Not the parent's own, which an agent that hangs would keep open after the parent has gone.
    stderr: ChildStderr,
}

/// The outcome of a question.
pub(super) enum Answer {
    /// A line, newline included.
    Line(Vec<u8>),
    /// Nothing in time.
    Late,
    /// More than a line may contain.
    TooLong,
    /// The process is gone, and how it exited.
    Ended(String),
}

impl Agent {
    /// Starts `<binary> agent`. It dies with the calling thread.
    pub(super) fn start(binary: &Path, inherited: Vec<Arc<OwnedFd>>) -> Result<Self> {
        let mut command = Command::new(binary);
        command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        child::set_up(&mut command, inherited);
        let mut child =
            command.spawn().map_err(|error| HostError::system("start the agent with", binary, error))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => {
                Ok(Agent { child, stdin: Some(stdin), stdout, stderr })
            }
            _ => unreachable!("all three were asked for as pipes"),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line, including its newline, and waits for the answer until it is late or `hurry` is set.
    pub(super) fn ask(&mut self, line: &[u8], limit: Duration, hurry: Option<&AtomicBool>) -> Answer {
        // The agent reads whenever it owes no answer, so this does not block on a full pipe.
        match self.stdin.as_mut().map(|stdin| stdin.write_all(line)) {
            Some(Ok(())) => self.listen(Instant::now() + limit, hurry),
            Some(Err(_)) | None => Answer::Ended(self.last_words()),
        }
    }

    fn listen(&mut self, deadline: Instant, hurry: Option<&AtomicBool>) -> Answer {
        let mut line = Vec::new();
        let mut buffer = [0_u8; 16 * 1024];
        loop {
            if !self.speaks(deadline, hurry) {
                return Answer::Late;
            }
            match rustix::io::read(&self.stdout, &mut buffer) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return Answer::Ended(self.last_words()),
                Ok(length) if line.len() + length > LINE_MAX => return Answer::TooLong,
                Ok(length) => line.extend_from_slice(&buffer[..length]),
            }
            // Questions and answers alternate, so nothing follows the newline.
            if line.last() == Some(&b'\n') {
                return Answer::Line(line);
            }
        }
    }

    /// Waits until there is something to read; `false` if it is late, or nobody is waiting any longer.
    fn speaks(&self, deadline: Instant, hurry: Option<&AtomicBool>) -> bool {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // If somebody may lose patience, check for that now and then.
            let turn = if hurry.is_some() { left.min(GLANCE) } else { left };
            if wait_readable(self.stdout.as_fd(), turn) {
                return true;
            }
            if turn == left || hurry.is_some_and(|hurry| hurry.load(Ordering::Relaxed)) {
                return false;
            }
        }
    }

    fn last_words(&mut self) -> String {
        self.gone_within(GRACE);
        let how = match self.child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            _ => "its pipe is closed".to_string(),
        };
        match self.complaint() {
            complaint if complaint.is_empty() => how,
            complaint => format!("{how}: {complaint}"),
        }
    }

    /// Its output on stderr. It writes nothing there unless it panics, so a pipe can hold it.
    fn complaint(&self) -> String {
        let mut buffer = [0_u8; 4096];
        if !wait_readable(self.stderr.as_fd(), Duration::ZERO) {
            return String::new();
        }
        let length = rustix::io::read(&self.stderr, &mut buffer).unwrap_or(0);
        String::from_utf8_lossy(&buffer[..length]).trim().to_string()
    }

    /// Kills it, and waits a moment. One that is stuck in the kernel stays.
    pub(super) fn kill(&mut self) {
        self.stdin = None;
        // It has not been reaped, so its number is still its own.
        let _ = self.child.kill();
        self.gone_within(GRACE);
    }

    pub(super) fn is_gone(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    fn gone_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            let gone = self.is_gone();
            if gone || Instant::now() >= deadline {
                return gone;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stdin = None;
        if !self.gone_within(GRACE) {
            self.kill();
        }
    }
}
