//! The guardian of a command: the process that starts it, and its parent's end of the connection.
//!
//! The kernel gives orphans to the nearest ancestor that is a subreaper (prctl(2)), so whatever a command
//! leaves behind becomes a child of its guardian, whichever session or process group it is in. A child cannot
//! disappear before its parent reaps it, so no number is ever that of somebody else's process.
//!
//! A PID namespace would end everything as well, but `perf` and `bpftrace` attribute nothing to the processes
//! outside of theirs.

use super::command::{keep_ends, search_path};
use crate::guardian::{Cause, Ending, Guarded, GuardedCommand, Guardian};
use crate::lines::{Heard, Lines};
use crate::{HostError, Result};
use fsdyno_core::Nanos;
use fsdyno_core::process_stat::ProcessStat;
use fsdyno_sys::child;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, kill_process,
    kill_process_group, pidfd_open, set_child_subreaper, setrlimit, wait,
};
use std::ffi::OsString;
use std::fs;
use std::io::{PipeReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The line that a parent writes to end its command.
const END: &[u8] = b"end\n";
/// The time that a command has after SIGINT: perf writes its data then.
const AFTER_INT: Duration = Duration::from_secs(10);
/// The time that a command has after SIGTERM.
const AFTER_TERM: Duration = Duration::from_secs(2);
/// The time to wait for killed processes to be gone.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// The interval at which limits are checked.
const GLANCE: Duration = Duration::from_millis(500);
/// The most reads of the output that is left at the end.
const LAST_READS: usize = 64;

/// Starts guardians: copies of this binary.
#[derive(Debug, Clone)]
pub(crate) struct LocalGuardian {
    binary: PathBuf,
    inherited: Vec<Arc<OwnedFd>>,
}

impl LocalGuardian {
    /// The descriptors stay open in each guardian, but not in what it starts.
    pub(crate) fn new(binary: &Path, inherited: Vec<Arc<OwnedFd>>) -> Self {
        LocalGuardian { binary: binary.to_path_buf(), inherited }
    }
}

impl Guardian for LocalGuardian {
    fn start(&self, command: &GuardedCommand) -> Result<Box<dyn Guarded>> {
        let failed = |error: std::io::Error| HostError::system("start a guardian with", &self.binary, error);
        let mut line = serde_json::to_vec(command).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut prepared = process::Command::new(&self.binary);
        prepared.arg("guardian").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        child::set_up_outliving(&mut prepared, self.inherited.clone());
        let mut child = prepared.spawn().map_err(failed)?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for as pipes");
        };
        // A guardian that is gone by now is noticed when its answer is missing.
        let _ = stdin.write_all(&line);
        let lines = Lines::listen(stdout).map_err(failed);
        let guarded = LocalGuarded { child, stdin: Some(stdin), words: command.words.join(" ") };
        // Without a listener, dropping it ends everything.
        Ok(Box::new(Listened { guarded, lines: lines? }))
    }
}

/// A guardian that runs. It ends everything once its stdin is closed.
struct LocalGuarded {
    child: Child,
    stdin: Option<ChildStdin>,
    words: String,
}

struct Listened {
    guarded: LocalGuarded,
    lines: Lines,
}

impl Guarded for Listened {
    fn ending(&mut self, patience: Duration) -> Result<Option<Ending>> {
        let lost = |reason: String| HostError::System {
            action: "run".to_string(),
            object: self.guarded.words.clone(),
            errno: 0,
            reason,
        };
        match self.lines.next(patience) {
            Heard::Silence => Ok(None),
            Heard::Line(line) => {
                let answer: std::result::Result<Ending, String> =
                    serde_json::from_slice(&line).map_err(|error| lost(error.to_string()))?;
                answer.map(Some).map_err(lost)
            }
            Heard::TooMuch(_) | Heard::End => Err(lost("its guardian was killed".to_string())),
        }
    }

    fn ask_to_end(&mut self) {
        if let Some(stdin) = &mut self.guarded.stdin {
            // One that is gone needs no asking.
            let _ = stdin.write_all(END);
        }
    }

    fn kill(&mut self) {
        self.guarded.stdin = None;
    }
}

impl Drop for LocalGuarded {
    fn drop(&mut self) {
        self.stdin = None;
        let deadline = Instant::now() + AFTER_KILL + Duration::from_secs(1);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A guardian: a command as a line on stdin, its ending as a line on stdout. Returns the exit code.
pub fn serve() -> i32 {
    let mut inbox = Inbox::default();
    let Some(line) = inbox.first_line() else { return 1 };
    let ending = serde_json::from_slice(&line)
        .map_err(|error| error.to_string())
        .and_then(|command| guard(&command, &mut inbox).map_err(|error| in_words(&error)));
    let Ok(mut line) = serde_json::to_vec(&ending) else { return 1 };
    line.push(b'\n');
    // Nobody listens if the parent is gone.
    let _ = std::io::stdout().write_all(&line);
    0
}

fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such program".to_string(),
        _ => error.to_string(),
    }
}

/// The input from the parent.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl Inbox {
    /// One read, which waits for input.
    fn read(&mut self) {
        let mut buffer = [0_u8; 4096];
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.is_closed = true,
            Ok(length) => self.bytes.extend_from_slice(&buffer[..length]),
        }
    }

    fn first_line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                return Some(self.bytes.drain(..=end).collect());
            }
            if self.is_closed {
                return None;
            }
            self.read();
        }
    }

    fn asks_to_end(&self) -> bool {
        self.bytes.contains(&b'\n')
    }
}

/// A command that this process has started.
struct StartedCommand {
    pid: Pid,
    /// Readable as soon as it has ended.
    ended: OwnedFd,
    pipe: Option<PipeReader>,
    output: Vec<u8>,
    status: Option<WaitStatus>,
}

fn guard(command: &GuardedCommand, inbox: &mut Inbox) -> std::io::Result<Ending> {
    set_child_subreaper(Some(getpid()))?;
    if let Some(limit) = command.file_limit {
        let limit = Some(limit.0);
        setrlimit(Resource::Fsize, Rlimit { current: limit, maximum: limit })?;
    }
    let start = Instant::now();
    let mut running = StartedCommand::start(command)?;
    let cause = running.follow(inbox, command.limit.map(|limit| start + limit));
    let (killed, stuck) = running.end_all();
    running.read_the_rest();
    let status = running.status.and_then(|status| {
        status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal))
    });
    Ok(Ending {
        cause,
        status: status.unwrap_or(128 + Signal::KILL.as_raw()),
        took: Nanos::from(start.elapsed()),
        output: String::from_utf8_lossy(&running.output).into_owned(),
        killed,
        stuck,
    })
}

impl StartedCommand {
    fn start(command: &GuardedCommand) -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        let words = command.words.split_first();
        let (program, arguments) = words.ok_or(std::io::ErrorKind::NotFound)?;
        let found = super::command::find(program).ok_or(std::io::ErrorKind::NotFound)?;
        let mut prepared = process::Command::new(found);
        prepared
            .arg0(program)
            .args(arguments)
            .current_dir("/")
            .env_clear()
            .env("LC_ALL", "C")
            .env(
                "PATH",
                std::env::join_paths(search_path()).unwrap_or_else(|_| OsString::from("/usr/bin:/bin")),
            )
            .envs(command.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        child::set_up(&mut prepared, Vec::new());
        let child = prepared.spawn()?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(StartedCommand { pid, ended, pipe: Some(reader), output: Vec::new(), status: None })
    }

    /// Collects output until the command has ended or must be killed.
    fn follow(&mut self, inbox: &mut Inbox, deadline: Option<Instant>) -> Cause {
        let mut asked: Option<Instant> = None;
        let mut has_sent_term = false;
        loop {
            let now = Instant::now();
            let left = deadline.map_or(GLANCE, |deadline| deadline.saturating_duration_since(now));
            let (ended, spoke, ordered) = self.ready(left.min(GLANCE));
            if spoke {
                self.read_some();
            }
            if ordered {
                inbox.read();
            }
            match asked {
                _ if ended && asked.is_none() => return Cause::Itself,
                _ if ended => return Cause::Asked,
                _ if inbox.is_closed => return Cause::Abandoned,
                _ if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Cause::Limit,
                None if inbox.asks_to_end() => {
                    asked = Some(Instant::now());
                    let _ = kill_process_group(self.pid, Signal::INT);
                }
                Some(since) if since.elapsed() >= AFTER_INT + AFTER_TERM => return Cause::Asked,
                Some(since) if since.elapsed() >= AFTER_INT && !has_sent_term => {
                    has_sent_term = true;
                    let _ = kill_process_group(self.pid, Signal::TERM);
                }
                _ => {}
            }
        }
    }

    /// Returns whether the command has ended, whether it has printed something, and whether the parent has
    /// sent something.
    fn ready(&self, timeout: Duration) -> (bool, bool, bool) {
        let stdin = rustix::stdio::stdin();
        let mut polled =
            vec![PollFd::new(&self.ended, PollFlags::IN), PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
        polled.extend(self.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        if poll(&mut polled, Some(&timeout)).is_err() {
            return (false, false, false);
        }
        let is_ready = |one: &PollFd<'_>| !one.revents().is_empty();
        (is_ready(&polled[0]), polled.get(2).is_some_and(is_ready), is_ready(&polled[1]))
    }

    /// One read. Returns whether there may be more.
    fn read_some(&mut self) -> bool {
        let mut buffer = [0_u8; 16 * 1024];
        let Some(pipe) = &self.pipe else { return false };
        match rustix::io::read(pipe.as_fd(), &mut buffer) {
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => false,
            Ok(0) | Err(_) => {
                self.pipe = None;
                false
            }
            Ok(length) => {
                keep_ends(&mut self.output, &buffer[..length]);
                true
            }
        }
    }

    fn read_the_rest(&mut self) {
        for _ in 0..LAST_READS {
            if !self.read_some() {
                return;
            }
        }
    }

    /// Kills everything that is left, and returns how many processes that were and which do not go away.
    fn end_all(&mut self) -> (u32, Vec<u32>) {
        // All of a group at once, so that none of them can start another one meanwhile.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let deadline = Instant::now() + AFTER_KILL;
        let mut killed = std::collections::BTreeSet::new();
        loop {
            loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) if pid == self.pid => self.status = Some(status),
                    Ok(Some((pid, status))) => {
                        // One of the group may never have been seen as a child.
                        if status.terminating_signal() == Some(Signal::KILL.as_raw()) {
                            killed.insert(pid.as_raw_nonzero());
                        }
                    }
                    Err(Errno::INTR) => {}
                    Ok(None) => break,
                    Err(_none_left) => return (killed.len() as u32, Vec::new()),
                }
            }
            let left = children();
            for pid in &left {
                let _ = kill_process(*pid, Signal::KILL);
                if *pid != self.pid {
                    killed.insert(pid.as_raw_nonzero());
                }
            }
            if Instant::now() >= deadline {
                let stuck = left.iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect();
                return (killed.len() as u32, stuck);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let own = getpid();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|pid| parent(*pid) == Some(own)).filter_map(Pid::from_raw).collect()
}

/// The parent of a process.
fn parent(pid: i32) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let parent = ProcessStat::parse(&String::from_utf8_lossy(&stat))?.parent;
    Pid::from_raw(parent.cast_signed())
}
