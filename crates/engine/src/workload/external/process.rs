//! A program as a child of the engine: started in the engine's directory, watched, and ended with the engine.
//!
//! If the kernel allows it (as root), the child is the first process of its own PID namespace, so that
//! everything it starts ends with it. The kernel ends it with the thread that started it, even if the engine
//! is killed. Without privileges, the engine looks up the processes below it and kills them one by one when
//! it stops.
//!
//! It is unknown how much of its work a program has done. The progress that the engine reports only shows
//! that the program is working: processor time and bytes of all its processes. If a program hangs in the
//! kernel, neither increases, and the watchdog of the sweep intervenes.

use super::cut::{AnnouncedPhase, PhaseCutter, Stream};
use super::pulse;
use super::watch::{Announcement, Watch, Watcher};
use crate::background;
use crate::error::EngineError;
use crate::session::Session;
use fsdyno_core::TrialStep;
use fsdyno_core::printed;
use fsdyno_core::result::CpuTime;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::external::ASSUMED_RATE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Where to look for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The number of bytes of a program's stderr that are kept, from both ends.
const KEPT: usize = 64 << 10;
/// The most that a program may print on stdout; a result of fio with a thousand jobs has a few MiB.
const MOST: usize = 256 << 20;
/// The interval at which the output of a program is read.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The interval between checks whether a program is working.
const PULSE: Duration = Duration::from_millis(500);
/// The time to wait for a killed program.
const PATIENCE: Duration = Duration::from_millis(1500);

/// The command line and the input that start a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    /// The name of the program in errors.
    pub(super) program: &'static str,
    /// The file that is executed: the program, or the shell of its script.
    pub(super) executable: &'static str,
    pub(super) arguments: Vec<String>,
    /// The text on its standard input.
    pub(super) input: String,
    /// Which parts of its work it announces, and where.
    pub(super) parts: &'static [AnnouncedPhase],
    pub(super) stream: Stream,
}

/// The output of a program that has exited successfully.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) stdout: String,
    stderr: String,
}

impl Output {
    /// The error for output that could not be parsed, with everything that was printed.
    pub(super) fn failure(&self, program: &'static str, problem: String) -> EngineError {
        EngineError::Program { program, problem, printed: ends_of(format!("{}{}", self.stdout, self.stderr)) }
    }
}

/// Runs a program until it ends.
///
/// # Errors
/// [`EngineError::Program`] if it cannot be started or does not succeed, [`EngineError::Stopped`].
pub(super) fn run(
    invocation: Invocation,
    directory: &Path,
    moves: Bytes,
    session: &mut Session<'_, '_>,
) -> Result<(Output, Watch), EngineError> {
    let program = invocation.program;
    let directory = directory.to_path_buf();
    let (announcements, heard) = channel();
    let work = move |gauge: &background::Gauge| follow(&invocation, &directory, gauge, &announcements);
    let begin = Instant::now();
    let expected_ns = moves.0.saturating_mul(1_000_000_000 / ASSUMED_RATE);
    let mut watcher = Watcher::begin(&mut *session.observer);
    let reporter = &mut *session.reporter;
    let output = background::run(program, session.bounds, work, |gauge| {
        heard.try_iter().for_each(|heard| watcher.hear(&heard));
        watcher.look();
        // The total is unknown, so this share grows while the program works and never reaches 1.
        let worked = gauge.done() as f64;
        let done = worked / (worked + moves.0.max(Bytes::GIB) as f64);
        let elapsed_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        reporter.tell(TrialStep::Measure, program, done, expected_ns.saturating_sub(elapsed_ns));
        true
    })??;
    Ok((output, watcher.end()))
}

/// Runs the program, on a separate thread, and reports the edges of its parts at once.
fn follow(
    invocation: &Invocation,
    directory: &Path,
    gauge: &background::Gauge,
    announcements: &Sender<Announcement>,
) -> Result<Output, EngineError> {
    let program = invocation.program;
    let failed = |problem: String| EngineError::Program { program, problem, printed: String::new() };
    let mut running = RunningProgram::start(invocation, directory)
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    let (mut before, mut last) = (pulse::Pulse::new(), Instant::now());
    let mut cutter = PhaseCutter::new(invocation.parts);
    let mut listen = |running: &mut RunningProgram| -> Result<(), EngineError> {
        let said = running.listen(invocation.stream);
        let said = said.map_err(|error| failed(format!("its output cannot be read: {error}")))?;
        let edges = cutter.hear(&said);
        if !edges.is_empty() {
            let cpu = running.cpu();
            // Nobody is listening any more if the engine is about to stop.
            edges.into_iter().for_each(|edge| drop(announcements.send(Announcement { edge, cpu })));
            gauge.wake();
        }
        Ok(())
    };
    let status = loop {
        if gauge.cancelled() {
            running.kill();
            return Err(EngineError::Stopped);
        }
        listen(&mut running)?;
        if running.ended().map_err(|errno| failed(errno.to_string()))? {
            // Its last output gets the processor time that can be read until it is reaped.
            listen(&mut running)?;
            break running.child.wait().map_err(|error| failed(error.to_string()))?;
        }
        if running.stdout.text.len() > MOST {
            running.kill();
            return Err(failed(format!("it printed more than {} MiB", MOST >> 20)));
        }
        if last.elapsed() >= PULSE {
            last = Instant::now();
            let now = pulse::below(running.child.id());
            gauge.advance(pulse::work_between(&before, &now));
            before = now;
        }
    };
    let output = Output { stdout: running.stdout.text(), stderr: running.stderr.text() };
    if status.success() { Ok(output) } else { Err(output.failure(program, ending(status))) }
}

fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended in an unknown way".to_string(),
    }
}

/// A running program. It is killed when dropped.
struct RunningProgram {
    child: Child,
    /// `true` if the processes that the program starts end with it.
    enclosed: bool,
    stdout: Pipe,
    stderr: Pipe,
}

impl RunningProgram {
    fn start(invocation: &Invocation, directory: &Path) -> std::io::Result<RunningProgram> {
        let input = rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?;
        let mut rest = invocation.input.as_bytes();
        while !rest.is_empty() {
            let written = rustix::io::write(&input, rest)?;
            rest = &rest[written..];
        }
        rustix::fs::seek(&input, SeekFrom::Start(0))?;
        let mut command = Command::new(invocation.executable);
        command.args(&invocation.arguments).current_dir(directory);
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env("HOME", directory);
        command.stdin(Stdio::from(input)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let enclosed = fsdyno_sys::child::enclose(&mut command)?;
        let mut child = command.spawn()?;
        let stdout = Pipe::new(child.stdout.take().map(OwnedFd::from), usize::MAX)?;
        let stderr = Pipe::new(child.stderr.take().map(OwnedFd::from), KEPT)?;
        Ok(RunningProgram { child, enclosed, stdout, stderr })
    }

    /// Waits briefly for output, and reads what is available. Returns the output on the stream of the
    /// announcements.
    fn listen(&mut self, stream: Stream) -> Result<Vec<u8>, Errno> {
        let open = [&self.stdout, &self.stderr].into_iter().filter_map(|stream| stream.pipe.as_ref());
        let mut watched: Vec<PollFd<'_>> = open.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        // With no pipe open this only waits.
        match poll(&mut watched, Some(&GLANCE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let (stdout, stderr) = (self.stdout.drain()?, self.stderr.drain()?);
        Ok(match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        })
    }

    /// Processor time of the program and of the children that it has waited for, in ticks of 10 ms; zero once
    /// it is gone.
    fn cpu(&self) -> CpuTime {
        pulse::cpu(self.child.id())
    }

    /// Returns whether the program has ended. It is not reaped, so its processor time can still be read.
    fn ended(&self) -> Result<bool, Errno> {
        let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) else { return Err(Errno::SRCH) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(pid), options)?.is_some())
    }

    fn kill(&mut self) {
        let below = if self.enclosed { pulse::Pulse::new() } else { pulse::below(self.child.id()) };
        // It has not been reaped, so its PID has not been reused.
        let _ = self.child.kill();
        for pid in below.keys().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let since = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.kill();
        }
    }
}

/// The output of a pipe.
struct Pipe {
    pipe: Option<OwnedFd>,
    text: Vec<u8>,
    /// The number of bytes that are kept, from both ends.
    keeps: usize,
}

impl Pipe {
    fn new(pipe: Option<OwnedFd>, keeps: usize) -> Result<Pipe, Errno> {
        if let Some(pipe) = &pipe {
            rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        Ok(Pipe { pipe, text: Vec::new(), keeps })
    }

    /// Reads what is available, and returns it.
    fn drain(&mut self) -> Result<Vec<u8>, Errno> {
        let mut buffer = [0_u8; 64 << 10];
        let mut new = Vec::new();
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe.as_fd(), &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    new.extend_from_slice(&buffer[..length]);
                    self.text.extend_from_slice(&buffer[..length]);
                    printed::keep_both_ends(&mut self.text, self.keeps);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(new)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}

/// Both ends of a text: as much as is kept with an error.
fn ends_of(text: String) -> String {
    let mut kept = text.into_bytes();
    printed::keep_both_ends(&mut kept, KEPT);
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Observer;
    use fsdyno_core::{Nanos, Telemetry};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn shell(script: &str) -> Invocation {
        Invocation {
            program: "sh",
            executable: "sh",
            arguments: vec!["-c".into(), script.into()],
            input: "from outside\n".into(),
            parts: PARTS,
            stream: Stream::Stderr,
        }
    }

    const PARTS: &[AnnouncedPhase] = &[
        AnnouncedPhase { phase: "first", announced: "One..." },
        AnnouncedPhase { phase: "second", announced: "Two..." },
    ];

    /// Runs a script until it ends or `stop` is set. Also returns the last value of the gauge.
    fn run_shell(script: &str, stop: &AtomicBool) -> (Result<Output, EngineError>, u64) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_path_buf();
        let invocation = shell(script);
        let mut worked = 0;
        let (announcements, _heard) = channel();
        let result = background::run(
            "test",
            stop,
            move |gauge| follow(&invocation, &path, gauge, &announcements),
            |gauge| {
                worked = gauge.done();
                true
            },
        );
        (result.and_then(|inner| inner), worked)
    }

    #[test]
    fn a_program_gets_input_and_returns_output() {
        let (output, _) =
            run_shell("read line; echo \"$line in $LC_ALL\"; echo aside >&2; pwd", &AtomicBool::new(false));
        let output = output.unwrap();
        assert!(output.stdout.starts_with("from outside in C\n/"), "{}", output.stdout);
        assert_eq!(output.stderr, "aside\n");
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_output() {
        let (output, _) = run_shell("echo so far; echo no more >&2; exit 3", &AtomicBool::new(false));
        match output.unwrap_err() {
            EngineError::Program { problem, printed, .. } => {
                assert_eq!(problem, "it ended with exit code 3");
                assert_eq!(printed, "so far\nno more\n");
            }
            other => panic!("{other}"),
        }
        let (output, _) = run_shell("kill -SEGV $$; sleep 1; exit 7", &AtomicBool::new(false));
        assert!(output.is_err());
    }

    #[test]
    fn a_program_that_works_makes_progress() {
        let (_, worked) =
            run_shell("i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 1", &AtomicBool::new(false));
        assert!(worked > pulse::TICK, "{worked}");
    }

    #[test]
    fn the_children_of_a_stopped_program_are_gone() {
        let marker = format!("31{:05}", std::process::id() % 100_000);
        let stop = Arc::new(AtomicBool::new(false));
        let stopper = Arc::clone(&stop);
        let find = move |marker: &str| -> usize {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
                .filter(|line| {
                    line.starts_with(b"sleep\0") && line.ends_with(format!("{marker}\0").as_bytes())
                })
                .count()
        };
        let wanted = marker.clone();
        let watcher = std::thread::spawn(move || {
            let since = Instant::now();
            while find(&wanted) < 2 && since.elapsed() < Duration::from_secs(600) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let seen = find(&wanted);
            stopper.store(true, Ordering::Relaxed);
            seen
        });
        // One of the two has left the process group, as the jobs of fio do.
        let (result, _) = run_shell(&format!("setsid sleep {marker} & sleep {marker} & wait"), &stop);
        assert!(matches!(result, Err(EngineError::Stopped)));
        assert_eq!(watcher.join().unwrap(), 2);
        let since = Instant::now();
        while find(&marker) > 0 && since.elapsed() < Duration::from_secs(600) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(find(&marker), 0);
    }

    /// Records when it is called.
    #[derive(Default)]
    struct Calls(String);

    impl Observer for Calls {
        fn begin(&mut self) {
            self.0.push('(');
        }

        fn look(&mut self) {
            if !self.0.ends_with('.') {
                self.0.push('.');
            }
        }

        fn end(&mut self) -> Option<Telemetry> {
            self.0.push(')');
            Some(Telemetry::default())
        }
    }

    /// Runs a script as [`run`] does, and returns what was seen of its parts.
    fn watched(script: &str) -> (Watch, String) {
        let mut calls = Calls::default();
        let (announcements, heard) = channel();
        let (directory, invocation) = (tempfile::tempdir().unwrap(), shell(script));
        let path = directory.path().to_path_buf();
        let mut watcher = Watcher::begin(&mut calls);
        let work = move |gauge: &background::Gauge| follow(&invocation, &path, gauge, &announcements);
        let output = background::run("test", &AtomicBool::new(false), work, |_| {
            heard.try_iter().for_each(|heard| watcher.hear(&heard));
            watcher.look();
            true
        });
        output.unwrap().unwrap();
        let watch = watcher.end();
        (watch, calls.0)
    }

    #[test]
    fn each_announced_part_is_watched_separately() {
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (watch, calls) = watched(&format!(
            "printf One... >&2; {work}; printf 'done\n' >&2; sleep .3; echo 'Two...done' >&2"
        ));
        let parts: Vec<&str> = watch.parts.iter().map(|seen| seen.phase).collect();
        assert_eq!((parts, &watch.whole), (vec!["first", "second"], &None));
        assert!(watch.parts.iter().all(|seen| seen.telemetry.is_some()));
        assert!(watch.parts[0].cpu.total() > Nanos(0) && watch.parts[1].cpu.total() == Nanos(0), "{watch:?}");
        // The window of the whole run is discarded when the first part begins, and nothing is sampled between
        // the parts.
        assert_eq!(calls, "(.(.)()");
    }

    #[test]
    fn processor_time_is_known_even_if_a_program_ends_with_its_last_part() {
        let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        for _ in 0..5 {
            // Both edges would have one time if they were heard at once.
            let (watch, _) = watched(&format!("printf One... >&2; sleep .3; {work}; printf 'done\n' >&2"));
            assert!(watch.parts[0].cpu.total() > Nanos(0), "{watch:?}");
        }
    }

    #[test]
    fn a_program_that_announces_nothing_is_watched_as_a_whole() {
        let (watch, calls) = watched("echo working >&2");
        assert!(watch.parts.is_empty() && watch.whole.is_some());
        assert_eq!(calls, "(.)");
    }

    #[test]
    fn both_ends_of_a_long_text_are_kept_whole() {
        let ends = ends_of(format!("first{}last", "ä".repeat(KEPT)));
        assert!(ends.len() <= KEPT + 8 && ends.starts_with("firstä") && ends.ends_with("älast"));
    }
}
