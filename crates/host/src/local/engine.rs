//! A running engine: its events as they come, the end of its complaints, and its end.

use super::command::keep_end;
use crate::{EngineOutput, EngineProcess, HostError, Result};
use fsdyno_core::{EngineEvent, EngineRequest};
use fsdyno_sys::child;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An engine that has been told to end has so long before it is killed.
const GRACE: Duration = Duration::from_secs(1);

/// A result with its histograms takes a few MB; a line longer than this is none of an engine.
const LINE_MAX: u64 = 256 << 20;

/// Starts an engine, which begins its work at once. It is killed when the calling thread ends.
///
/// The request is one line of JSON on its stdin, which then stays open: closing it tells the engine to end.
pub(crate) fn start(
    binary: &Path,
    request: &EngineRequest,
    inherited: Vec<Arc<OwnedFd>>,
) -> Result<Box<dyn EngineProcess>> {
    let failed = |error: std::io::Error| HostError::system("start the engine by", binary, error);
    let mut line = serde_json::to_vec(request).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    let mut command = Command::new(binary);
    command.arg("engine").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    child::set_up(&mut command, inherited);
    let mut child = command.spawn().map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        unreachable!("all three were asked for as pipes");
    };
    // An engine that ends before it has read its request says why on stderr, which the first `next` gives.
    let _ = stdin.write_all(&line);
    Ok(Box::new(LocalEngine::new(child, stdin, stdout, stderr)))
}

struct LocalEngine {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Line>,
    complaints: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
}

/// What the reader of stdout found.
enum Line {
    Event(Box<EngineEvent>),
    Garbage(String),
}

impl LocalEngine {
    fn new(child: Child, stdin: ChildStdin, stdout: ChildStdout, stderr: ChildStderr) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || read_lines(stdout, &sender));
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&complaints);
        let listener = std::thread::spawn(move || read_complaints(stderr, &kept));
        LocalEngine { child, stdin: Some(stdin), lines, complaints, listener }
    }

    fn complaints(&self) -> String {
        let kept = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Waits for the process to be gone.
    fn gone_by(&mut self, deadline: Instant) -> bool {
        loop {
            if let Ok(Some(_)) = self.child.try_wait() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl EngineProcess for LocalEngine {
    fn next(&mut self, timeout: Duration) -> EngineOutput {
        match self.lines.recv_timeout(timeout) {
            Ok(Line::Event(event)) => EngineOutput::Event(event),
            Ok(Line::Garbage(line)) => EngineOutput::Garbage(format!("{line}\n{}", self.complaints())),
            Err(RecvTimeoutError::Timeout) => EngineOutput::Silence,
            Err(RecvTimeoutError::Disconnected) => {
                // The last words on stderr come at the same moment as the end of stdout.
                let deadline = Instant::now() + Duration::from_millis(200);
                while !self.listener.is_finished() && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(1));
                }
                EngineOutput::End(self.complaints())
            }
        }
    }

    fn ask_to_stop(&mut self) {
        self.stdin = None;
    }

    fn stop(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        self.ask_to_stop();
        if self.gone_by(start + GRACE.min(limit)) {
            return true;
        }
        // It has not been reaped, so its number is still its own.
        let _ = self.child.kill();
        self.gone_by(start + limit)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            self.gone_by(Instant::now() + GRACE);
        }
    }
}

/// One line is one event; nobody listening any more is no error.
fn read_lines(stdout: impl Read, events: &Sender<Line>) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = stdout.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).unwrap_or(0);
        if length == 0 || events.send(understand(&line)).is_err() {
            return;
        }
    }
}

fn understand(line: &[u8]) -> Line {
    match serde_json::from_slice(line) {
        Ok(event) => Line::Event(Box::new(event)),
        Err(error) => {
            let start: String = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_string();
            Line::Garbage(format!("{start} ({error})"))
        }
    }
}

fn read_complaints(mut stderr: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0_u8; 8192];
    while let Ok(length) = stderr.read(&mut buffer) {
        if length == 0 {
            return;
        }
        keep_end(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), &buffer[..length]);
    }
}
