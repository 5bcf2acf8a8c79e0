//! A recorder process on this machine.

use crate::lines::{Heard, Lines};
use crate::recorder::Recorder;
use crate::{HostError, Result};
use fsdyno_core::durability::{RecorderReply, RecorderRequest};
use fsdyno_sys::child;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a recorder has to unmount itself and exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Starts a recorder: a copy of this binary, which is killed when the calling thread ends.
pub(crate) fn start(binary: &Path, inherited: Vec<Arc<OwnedFd>>) -> Result<Box<dyn Recorder>> {
    let failed = |error: std::io::Error| HostError::system("start a recorder with", binary, error);
    let mut command = Command::new(binary);
    command.arg("recorder").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    child::set_up(&mut command, inherited);
    let mut child = command.spawn().map_err(failed)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        unreachable!("both were asked for as pipes");
    };
    let mut process = Process { child, stdin: Some(stdin) };
    match Lines::listen(stdout) {
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
}

struct LocalRecorder {
    process: Process,
    lines: Lines,
}

impl Process {
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
        stdin.write_all(&line).map_err(|error| lost(&error.to_string()))?;
        let reply = match self.lines.next(limit) {
            Heard::Line(line) => serde_json::from_slice(&line).map_err(|error| lost(&error.to_string()))?,
            Heard::Silence => {
                let action = "the recorder of the disk".to_string();
                return Err(HostError::Hung { action, seconds: limit.as_secs() });
            }
            Heard::TooMuch(_) => return Err(lost("it said more than expected")),
            Heard::End => return Err(lost("its process has ended")),
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
