//! A running engine: its events as they arrive, the end of its stderr, and its exit.

use super::command::keep_ends;
use crate::lines::{Heard, Lines, excerpt};
use crate::{EngineOutput, EngineProcess, HostError, Plight, Result};
use fsdyno_core::{EngineEvent, EngineRequest, figures};
use fsdyno_sys::child;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time that an engine has to exit before it is killed.
const GRACE: Duration = Duration::from_secs(1);

/// Starts an engine, which begins its work at once. It is killed when the calling thread ends.
///
/// The request is one line of JSON on its stdin, which then stays open: closing it tells the engine to exit.
pub(crate) fn start(
    binary: &Path,
    request: &EngineRequest,
    inherited: Vec<Arc<OwnedFd>>,
) -> Result<Box<dyn EngineProcess>> {
    let failed = |error: std::io::Error| HostError::system("start the engine with", binary, error);
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
    // An engine that exits before it has read its request says why on stderr, which the first `next` returns.
    let _ = stdin.write_all(&line);
    let listened = Lines::listen(stdout).and_then(|lines| Ok((lines, Complaints::listen(stderr)?)));
    match listened {
        Ok((lines, complaints)) => Ok(Box::new(LocalEngine { child, stdin: Some(stdin), lines, complaints })),
        Err(error) => {
            // It has done nothing yet, and without a listener its end would go unnoticed.
            let _ = child.kill().and_then(|()| child.wait());
            Err(failed(error))
        }
    }
}

struct LocalEngine {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines,
    complaints: Complaints,
}

/// The end of what a process writes to stderr, and the thread that reads it.
struct Complaints {
    kept: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
}

impl Complaints {
    fn listen(stderr: ChildStderr) -> std::io::Result<Self> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let its_own = Arc::clone(&kept);
        let listener = std::thread::Builder::new().spawn(move || read_complaints(stderr, &its_own))?;
        Ok(Complaints { kept, listener })
    }

    fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl LocalEngine {
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
        match self.lines.next(timeout) {
            Heard::Line(line) => match understand_event(&line) {
                EngineOutput::Garbage(text) => {
                    EngineOutput::Garbage(format!("{text}\n{}", self.complaints.text()))
                }
                output => output,
            },
            Heard::Silence => EngineOutput::Silence,
            Heard::TooMuch(excess) => EngineOutput::Garbage(format!("{excess}\n{}", self.complaints.text())),
            Heard::End => {
                // The last output on stderr arrives at the same moment as the end of stdout.
                let deadline = Instant::now() + Duration::from_millis(200);
                while !self.complaints.listener.is_finished() && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(1));
                }
                EngineOutput::End(self.complaints.text())
            }
        }
    }

    fn proceed(&mut self, at_ns: Option<u64>) {
        if let Some(stdin) = &mut self.stdin {
            let cue = at_ns.map(|ns| ns.to_string()).unwrap_or_default() + "\n";
            // One that is gone is noticed by the end of its output.
            let _ = stdin.write_all(cue.as_bytes());
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

    fn plight(&self) -> Plight {
        Plight::of(self.pid())
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

/// Parses a line of an engine's output: an event, or garbage.
pub fn understand_event(line: &[u8]) -> EngineOutput {
    let garbage = |problem: String| EngineOutput::Garbage(excerpt(line, &problem));
    match serde_json::from_slice(line) {
        Ok(EngineEvent::Phase(phase)) => match figures::impossible(line) {
            Some(figure) => garbage(format!("impossible figure: {figure}")),
            None => EngineOutput::Event(Box::new(EngineEvent::Phase(phase))),
        },
        Ok(event) => EngineOutput::Event(Box::new(event)),
        Err(error) => garbage(error.to_string()),
    }
}

fn read_complaints(mut stderr: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0_u8; 8192];
    while let Ok(length) = stderr.read(&mut buffer) {
        if length == 0 {
            return;
        }
        keep_ends(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), &buffer[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_nothing_can_measure_is_garbage() {
        let phase = |ns: u64| {
            format!(
                "{{\"event\":\"phase\",\"name\":\"a\",\"ramp_ns\":0,\"window_ns\":{ns},\"drain_ns\":0,\"roles\":[]}}"
            )
        };
        let event = understand_event(phase(figures::LARGEST).as_bytes());
        assert!(matches!(event, EngineOutput::Event(_)), "{event:?}");
        let garbage = understand_event(phase(u64::MAX).as_bytes());
        let EngineOutput::Garbage(text) = garbage else { panic!("{garbage:?}") };
        assert!(text.ends_with("(impossible figure: 18446744073709551615)"), "{text}");
    }

    /// A parser quotes the word that it does not know, which can have any length.
    #[test]
    fn garbage_is_told_in_a_few_words_however_long_it_is() {
        let word = "x".repeat(1 << 20);
        let EngineOutput::Garbage(text) = understand_event(format!("{{\"event\":\"{word}\"}}").as_bytes())
        else {
            panic!("no event is called that");
        };
        assert!(text.len() < 1000, "{} bytes", text.len());
        assert!(text.starts_with("{\"event\":\"xxx") && text.contains("unknown variant"), "{text}");
    }
}
