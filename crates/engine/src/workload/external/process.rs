//! A program as a child of the engine: started in the engine's directory, watched, and ended with the engine.
//!
//! The child is the first process of a PID namespace of its own wherever the kernel allows it (as root), so that whatever
//! it starts ends with it, and it ends with the thread that has started it: by the kernel's hand, also when the engine is
//! killed. Without privilege the processes below it are looked up and killed one by one when the engine stops.
//!
//! How far a program is nobody knows but the program. What the engine tells as progress is that it works: processor time
//! and bytes of all its processes. A program that hangs in the kernel uses neither, and then the watchdog of the sweep
//! does what it is there for.

use super::cut::{Cutter, Edge, Part, Voice};
use crate::aside;
use crate::error::EngineError;
use crate::observer::Observer;
use crate::session::Session;
use fsdyno_core::Telemetry;
use fsdyno_core::protocol::Stage;
use fsdyno_core::result::CpuTime;
use fsdyno_core::units::{Bytes, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of what a program prints on stderr is kept: the end.
const KEPT: usize = 64 << 10;
/// Most that a program may print on stdout; a result of fio with a thousand jobs has a few MiB.
const MOST: usize = 256 << 20;
/// How often its output is looked at.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How often it is looked whether it works.
const PULSE: Duration = Duration::from_millis(500);
/// How long a killed program is waited for.
const PATIENCE: Duration = Duration::from_millis(1500);
/// A tick of processor time counts as much as these bytes.
const TICK: u64 = Bytes::MIB;
/// Rate at which programs are assumed to move what they move, for the estimate of what is left.
const ASSUMED_RATE: u64 = 200_000_000;

/// How to start a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<String>,
    /// What it reads from its standard input.
    pub(super) input: String,
    /// Which parts of its work it announces, and where.
    pub(super) parts: &'static [Part],
    pub(super) voice: Voice,
}

/// What a program left behind when it had ended well.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) stdout: String,
    stderr: String,
}

impl Output {
    /// The error of output that is not understood, with all that was printed.
    pub(super) fn failure(&self, program: &'static str, problem: String) -> EngineError {
        EngineError::Program { program, problem, printed: end_of(&format!("{}{}", self.stdout, self.stderr)) }
    }
}

/// What was seen of a program while it ran.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) parts: Vec<Seen>,
    /// What the machine did meanwhile, where the program announced no part.
    pub(super) whole: Option<Telemetry>,
}

/// What was seen of one part.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) phase: &'static str,
    pub(super) telemetry: Option<Telemetry>,
    /// Processor time of the program, as the kernel counts it.
    pub(super) cpu: CpuTime,
}

/// What follows the program and what watches the machine are on two threads.
struct Heard {
    edge: Edge,
    /// Processor time of the program up to here.
    cpu: CpuTime,
}

/// Watches the machine, part by part.
struct Watcher<'a> {
    observer: &'a mut dyn Observer,
    /// The part in which the program is, and its processor time when it began.
    within: Option<(&'static str, CpuTime)>,
    seen: Vec<Seen>,
    announced: bool,
}

impl<'a> Watcher<'a> {
    /// Watches the whole run, as long as no part is announced.
    fn begin(observer: &'a mut dyn Observer) -> Self {
        observer.begin();
        Watcher { observer, within: None, seen: Vec::new(), announced: false }
    }

    fn hear(&mut self, heard: &Heard) {
        match heard.edge {
            Edge::Begin(phase) => {
                self.announced = true;
                self.within = Some((phase, heard.cpu));
                self.observer.begin();
            }
            Edge::End => {
                if let Some((phase, before)) = self.within.take() {
                    let telemetry = self.observer.end();
                    self.seen.push(Seen { phase, telemetry, cpu: heard.cpu.since(&before) });
                }
            }
        }
    }

    fn look(&mut self) {
        if self.within.is_some() || !self.announced {
            self.observer.look();
        }
    }

    fn end(self) -> Watch {
        let whole = if self.announced { None } else { self.observer.end() };
        Watch { parts: self.seen, whole }
    }
}

/// Runs a program to its end.
///
/// # Errors
/// [`EngineError::Program`] when it cannot be started or does not end well, [`EngineError::Stopped`].
pub(super) fn run(
    invocation: Invocation,
    directory: &Path,
    moves: Bytes,
    session: &mut Session<'_, '_>,
) -> Result<(Output, Watch), EngineError> {
    let program = invocation.program;
    let directory = directory.to_path_buf();
    let (teller, heard) = channel();
    let work = move |gauge: &aside::Gauge| follow(&invocation, &directory, gauge, &teller);
    let begin = Instant::now();
    let expected_ns = moves.0.saturating_mul(1_000_000_000 / ASSUMED_RATE);
    let mut watcher = Watcher::begin(&mut *session.observer);
    let progress = &mut *session.progress;
    let output = aside::run(program, session.stop, work, |gauge| {
        heard.try_iter().for_each(|heard| watcher.hear(&heard));
        watcher.look();
        // The share of a whole that nobody knows: it moves while the program works, and never arrives.
        let worked = gauge.done() as f64;
        let done = worked / (worked + moves.0.max(Bytes::GIB) as f64);
        let elapsed_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        progress.tell(Stage::Measure, program, done, expected_ns.saturating_sub(elapsed_ns));
        true
    })??;
    Ok((output, watcher.end()))
}

/// The life of the program, on a thread of its own. Tells the edges of its parts at once.
fn follow(
    invocation: &Invocation,
    directory: &Path,
    gauge: &aside::Gauge,
    teller: &Sender<Heard>,
) -> Result<Output, EngineError> {
    let program = invocation.program;
    let failed = |problem: String| EngineError::Program { program, problem, printed: String::new() };
    let mut running = Running::start(invocation, directory)
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    let (mut pulse, mut last) = (HashMap::new(), Instant::now());
    let mut cutter = Cutter::new(invocation.parts);
    let mut listen = |running: &mut Running| -> Result<(), EngineError> {
        let said = running.listen(invocation.voice);
        let said = said.map_err(|error| failed(format!("its output cannot be read: {error}")))?;
        let edges = cutter.hear(&said);
        if !edges.is_empty() {
            let cpu = running.cpu();
            // Nobody listens any more when the engine is about to stop.
            edges.into_iter().for_each(|edge| drop(teller.send(Heard { edge, cpu })));
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
        if let Some(status) = running.child.try_wait().map_err(|error| failed(error.to_string()))? {
            break status;
        }
        if running.stdout.text.len() > MOST {
            running.kill();
            return Err(failed(format!("it printed more than {} MiB", MOST >> 20)));
        }
        if last.elapsed() >= PULSE {
            last = Instant::now();
            let now = processes_below(running.child.id());
            gauge.advance(work_between(&pulse, &now));
            pulse = now;
        }
    };
    listen(&mut running)?;
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

/// A running program. Dropped, it is killed.
struct Running {
    child: Child,
    /// Whether what it starts ends with it.
    enclosed: bool,
    stdout: Stream,
    stderr: Stream,
}

impl Running {
    fn start(invocation: &Invocation, directory: &Path) -> std::io::Result<Running> {
        let input = rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?;
        let mut rest = invocation.input.as_bytes();
        while !rest.is_empty() {
            let written = rustix::io::write(&input, rest)?;
            rest = &rest[written..];
        }
        rustix::fs::seek(&input, SeekFrom::Start(0))?;
        let mut command = Command::new(invocation.program);
        command.args(&invocation.arguments).current_dir(directory);
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env("HOME", directory);
        command.stdin(Stdio::from(input)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let enclosed = fsdyno_sys::child::enclose(&mut command)?;
        let mut child = command.spawn()?;
        let stdout = Stream::new(child.stdout.take().map(OwnedFd::from), usize::MAX)?;
        let stderr = Stream::new(child.stderr.take().map(OwnedFd::from), KEPT)?;
        Ok(Running { child, enclosed, stdout, stderr })
    }

    /// Waits a little for something to read, and reads what there is. Gives what was said with this voice.
    fn listen(&mut self, voice: Voice) -> Result<Vec<u8>, Errno> {
        let open = [&self.stdout, &self.stderr].into_iter().filter_map(|stream| stream.pipe.as_ref());
        let mut watched: Vec<PollFd<'_>> = open.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        // With nothing open this is only the wait.
        match poll(&mut watched, Some(&GLANCE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let (stdout, stderr) = (self.stdout.drain()?, self.stderr.drain()?);
        Ok(match voice {
            Voice::Stdout => stdout,
            Voice::Stderr => stderr,
        })
    }

    /// Processor time of the program and of what it has waited for, in ticks of 10 ms; nothing once it is gone.
    fn cpu(&self) -> CpuTime {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        cpu_of(&stat, 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
    }

    fn kill(&mut self) {
        let below = if self.enclosed { HashMap::new() } else { processes_below(self.child.id()) };
        // It has not been reaped, so its number is still its own.
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

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.kill();
        }
    }
}

/// What comes out of a pipe.
struct Stream {
    pipe: Option<OwnedFd>,
    text: Vec<u8>,
    /// How much of its end is kept.
    keeps: usize,
}

impl Stream {
    fn new(pipe: Option<OwnedFd>, keeps: usize) -> Result<Stream, Errno> {
        if let Some(pipe) = &pipe {
            rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        Ok(Stream { pipe, text: Vec::new(), keeps })
    }

    /// Reads what there is, and gives it.
    fn drain(&mut self) -> Result<Vec<u8>, Errno> {
        let mut buffer = [0_u8; 64 << 10];
        let mut new = Vec::new();
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe.as_fd(), &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    new.extend_from_slice(&buffer[..length]);
                    self.text.extend_from_slice(&buffer[..length]);
                    let excess = self.text.len().saturating_sub(self.keeps);
                    self.text.drain(..excess);
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

/// The end of a text, as much as is kept with an error.
fn end_of(text: &str) -> String {
    let mut begin = text.len().saturating_sub(KEPT);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    text[begin..].to_string()
}

/// What each process has done so far, in bytes: its own, and that of its children that have ended.
type Pulse = HashMap<u32, u64>;

/// A process and all below it.
fn processes_below(top: u32) -> Pulse {
    let all: HashMap<u32, (u32, u64)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let (parent, ticks) =
                parent_and_ticks(&std::fs::read_to_string(entry.path().join("stat")).ok()?)?;
            Some((pid, (parent, ticks)))
        })
        .collect();
    let is_below = |mut pid: u32| {
        // A process that is read while it ends may have been given another parent: no chain is longer than there are
        // processes.
        for _ in 0..all.len() {
            match all.get(&pid) {
                Some(_) if pid == top => return true,
                Some((parent, _)) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let below = all.iter().filter(|(pid, _)| is_below(**pid));
    below
        .map(|(pid, (_, ticks))| {
            let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            (*pid, ticks.saturating_mul(TICK).saturating_add(bytes(&io)))
        })
        .collect()
}

/// Parent, and ticks of processor time with those of children that were waited for: fields 4 and 14 to 17 of
/// `/proc/PID/stat` (proc_pid_stat(5)).
fn parent_and_ticks(stat: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().unwrap_or(0)).sum();
    Some((fields.get(1)?.parse().ok()?, ticks))
}

/// User and system time of the same fields, children that were waited for included.
fn cpu_of(stat: &str, tick_ns: u64) -> CpuTime {
    let Some((_, rest)) = stat.rsplit_once(')') else { return CpuTime::default() };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let time = |own, children| Nanos((ticks(own) + ticks(children)).saturating_mul(tick_ns));
    CpuTime { user_ns: time(11, 13), system_ns: time(12, 14) }
}

/// All bytes of `/proc/PID/io` (proc_pid_io(5)): what was read and written, from the page cache and from devices.
fn bytes(io: &str) -> u64 {
    let wanted = ["rchar", "wchar", "read_bytes", "write_bytes"];
    io.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(key, _)| wanted.contains(key))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

/// What was done between two looks. A process that has ended has done nothing since.
fn work_between(before: &Pulse, now: &Pulse) -> u64 {
    now.iter().map(|(pid, done)| done.saturating_sub(before.get(pid).copied().unwrap_or(0))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn shell(script: &str) -> Invocation {
        Invocation {
            program: "sh",
            arguments: vec!["-c".into(), script.into()],
            input: "from outside\n".into(),
            parts: PARTS,
            voice: Voice::Stderr,
        }
    }

    const PARTS: &[Part] =
        &[Part { phase: "first", announced: "One..." }, Part { phase: "second", announced: "Two..." }];

    /// Runs a script, stopped when `stop` says so, and gives what it did last to the gauge.
    fn run_shell(script: &str, stop: &AtomicBool) -> (Result<Output, EngineError>, u64) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_path_buf();
        let invocation = shell(script);
        let mut worked = 0;
        let (teller, _heard) = channel();
        let result = aside::run(
            "test",
            stop,
            move |gauge| follow(&invocation, &path, gauge, &teller),
            |gauge| {
                worked = gauge.done();
                true
            },
        );
        (result.and_then(|inner| inner), worked)
    }

    #[test]
    fn a_program_gets_its_input_and_gives_its_output() {
        let (output, _) =
            run_shell("read line; echo \"$line in $LC_ALL\"; echo aside >&2; pwd", &AtomicBool::new(false));
        let output = output.unwrap();
        assert!(output.stdout.starts_with("from outside in C\n/"), "{}", output.stdout);
        assert_eq!(output.stderr, "aside\n");
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_what_it_said() {
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
    fn a_program_that_works_shows_it() {
        let (_, worked) =
            run_shell("i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 1", &AtomicBool::new(false));
        assert!(worked > TICK, "{worked}");
    }

    #[test]
    fn whatever_a_stopped_program_has_started_is_gone() {
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
            while find(&wanted) < 2 && since.elapsed() < Duration::from_secs(20) {
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
        while find(&marker) > 0 && since.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(find(&marker), 0);
    }

    /// Tells when it was called.
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

    /// Runs a script as [`run`] does, and gives what was seen of its parts.
    fn watched(script: &str) -> (Watch, String) {
        let mut calls = Calls::default();
        let (teller, heard) = channel();
        let (directory, invocation) = (tempfile::tempdir().unwrap(), shell(script));
        let path = directory.path().to_path_buf();
        let mut watcher = Watcher::begin(&mut calls);
        let work = move |gauge: &aside::Gauge| follow(&invocation, &path, gauge, &teller);
        let output = aside::run("test", &AtomicBool::new(false), work, |_| {
            heard.try_iter().for_each(|heard| watcher.hear(&heard));
            watcher.look();
            true
        });
        output.unwrap().unwrap();
        let watch = watcher.end();
        (watch, calls.0)
    }

    #[test]
    fn each_part_that_is_announced_is_watched_by_itself() {
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (watch, calls) = watched(&format!(
            "printf One... >&2; {work}; printf 'done\n' >&2; sleep .3; echo 'Two...done' >&2"
        ));
        let parts: Vec<&str> = watch.parts.iter().map(|seen| seen.phase).collect();
        assert_eq!((parts, &watch.whole), (vec!["first", "second"], &None));
        assert!(watch.parts.iter().all(|seen| seen.telemetry.is_some()));
        assert!(watch.parts[0].cpu.total() > Nanos(0) && watch.parts[1].cpu.total() == Nanos(0), "{watch:?}");
        // The window of the whole run is forgotten when the first part begins, and nobody looks between the parts.
        assert_eq!(calls, "(.(.)()");
    }

    #[test]
    fn a_program_that_announces_nothing_is_watched_as_a_whole() {
        let (watch, calls) = watched("echo working >&2");
        assert!(watch.parts.is_empty() && watch.whole.is_some());
        assert_eq!(calls, "(.)");
    }

    #[test]
    fn work_is_counted_where_it_is_done() {
        let stat = "42 (a) b) S 7 42 42 0 -1 4194560 1 2 3 4 57 6 10 20 20 0 1 0 98765";
        assert_eq!(parent_and_ticks(stat), Some((7, 93)));
        let cpu = CpuTime { user_ns: Nanos(670), system_ns: Nanos(260) };
        assert_eq!((cpu_of(stat, 10), cpu_of("", 10)), (cpu, CpuTime::default()));
        let io = "rchar: 1\nwchar: 20\nsyscr: 5\nsyscw: 6\nread_bytes: 300\nwrite_bytes: 4000\ncancelled_write_bytes: 9\n";
        assert_eq!(bytes(io), 4321);
        let before = Pulse::from([(1, 10), (2, 50)]);
        assert_eq!(work_between(&before, &Pulse::from([(1, 15), (3, 7)])), 12);
    }

    #[test]
    fn the_end_of_a_long_text_is_kept_whole() {
        let text = "ä".repeat(KEPT);
        let end = end_of(&text);
        assert!(end.len() <= KEPT && end.len() > KEPT - 4 && text.ends_with(&end));
    }
}
