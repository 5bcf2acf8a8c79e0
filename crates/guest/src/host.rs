//! A guest as a host: its agent's answers, its engine's messages, and its end if either is late.
//!
//! A guest that does not answer in time is given up as a whole. A machine with a hung kernel cannot be asked
//! anything, and nothing in it is worth saving: QEMU is killed, and every later step fails with the guest's
//! last output.

use crate::initramfs::BINARY;
use crate::machine::{Machine, Ports};
use crate::member::GuestMember;
use crate::port::{EnginePort, NoEngine, Silence};
use crate::wire::{Awake, GuestReady, Time, Wake, line};
use fsdyno_core::result::LogEntry;
use fsdyno_core::{Bytes, EngineRequest};
use fsdyno_host::guest::{Guest, GuestFacts, NotStarted, disk_nodes};
use fsdyno_host::lines::{Excess, Heard, LINE_MAX};
use fsdyno_host::log::StepLog;
use fsdyno_host::remote::{Member, News, Order};
use fsdyno_host::wire::{Hello, VERSION, question, understand};
use fsdyno_host::{Channel, EngineOutput, EngineProcess, Host, HostError, Limits, Request, Result};
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time that an engine has to exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// The interval at which to check whether anybody is still waiting for a guest.
const GLANCE: Duration = Duration::from_millis(100);

/// A running guest.
pub(crate) struct GuestHost {
    machine: Arc<Mutex<Machine>>,
    agent: UnixStream,
    engine: EnginePort,
    facts: GuestFacts,
    name: String,
    disks: usize,
    limits: Limits,
    limit: Option<Duration>,
    /// Set if somebody does not want to wait for it any longer.
    hurry: Arc<AtomicBool>,
    log: StepLog,
}

impl GuestHost {
    /// A guest that has not said anything yet.
    pub fn new(
        machine: Machine,
        ports: Ports,
        facts: GuestFacts,
        name: &str,
        disks: usize,
    ) -> std::result::Result<Self, NotStarted> {
        let lost =
            |error: std::io::Error| HostError::Lost { host: name.to_string(), reason: error.to_string() };
        Ok(GuestHost {
            machine: Arc::new(Mutex::new(machine)),
            agent: ports.agent,
            engine: EnginePort::new(ports.engine).map_err(lost)?,
            facts,
            name: name.to_string(),
            disks,
            limits: Limits::default(),
            limit: None,
            hurry: Arc::default(),
            log: StepLog::default(),
        })
    }

    /// Waits until it has booted, at most `limit`, and only until `interrupt` is set.
    pub fn boot(
        &mut self,
        limit: Duration,
        interrupt: &AtomicBool,
    ) -> std::result::Result<GuestReady, NotStarted> {
        let first = read_line(&mut self.agent, Instant::now() + limit, Some(interrupt));
        let ready = self.heard(first, &"starting the agent", limit, Some(interrupt));
        let ready = ready.and_then(|line| self.parsed(&line));
        ready.map_err(|error| self.not_started(error))
    }

    /// Makes a guest of its own of one that has booted, and waits until its agent answers, likewise.
    pub fn wake(&mut self, limit: Duration, interrupt: &AtomicBool) -> std::result::Result<(), NotStarted> {
        self.woken(limit, interrupt).map_err(|error| self.not_started(error))?;
        let boot = self.machine().age();
        self.facts.boot = boot.into();
        Ok(())
    }

    fn woken(&mut self, limit: Duration, interrupt: &AtomicBool) -> Result<()> {
        self.tell(line(&Wake::anew()), limit, interrupt)?;
        self.tell(line(&Time::now()), limit, interrupt)?;
        let hello = Hello { version: VERSION, protected: Vec::new(), first_handle: 1 };
        let answer = self.exchange_line(&question(&hello)?, &hello, limit, Some(interrupt))?;
        understand::<u32>(&self.name, &answer).map(drop)
    }

    /// Tells a guest what makes it one of its own.
    fn tell(
        &mut self,
        line: std::io::Result<Vec<u8>>,
        limit: Duration,
        interrupt: &AtomicBool,
    ) -> Result<()> {
        let line = line.map_err(|error| self.lost(error))?;
        let answer = self.exchange_line(&line, &"waking up", limit, Some(interrupt))?;
        let awake: Awake = self.parsed(&answer)?;
        awake.map_err(|reason| self.lost(format!("it cannot be woken: {reason}")))
    }

    fn parsed<T: DeserializeOwned>(&self, line: &[u8]) -> Result<T> {
        serde_json::from_slice(line).map_err(|error| self.lost(error))
    }

    fn lost(&self, reason: impl ToString) -> HostError {
        HostError::Lost { host: self.name.clone(), reason: reason.to_string() }
    }

    fn not_started(&mut self, error: HostError) -> NotStarted {
        NotStarted { error: Box::new(error), last_words: self.last_words() }
    }

    /// Returns the amount of memory that QEMU uses.
    pub fn resident(&self) -> Bytes {
        self.machine().resident()
    }

    /// The same for a user who may lose patience.
    pub fn hurried_by(self, hurry: Arc<AtomicBool>) -> Self {
        GuestHost { hurry, ..self }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        lock(&self.machine)
    }

    /// Sends a line and returns the next one.
    fn exchange_line(
        &mut self,
        line: &[u8],
        what: &dyn Display,
        limit: Duration,
        interrupt: Option<&AtomicBool>,
    ) -> Result<Vec<u8>> {
        let answer = self
            .agent
            .write_all(line)
            .map_err(|_| Silence::Ended)
            .and_then(|()| read_line(&mut self.agent, Instant::now() + limit, interrupt));
        self.heard(answer, what, limit, interrupt)
    }

    /// Returns the line that was heard; a guest that owes one is given up.
    fn heard(
        &mut self,
        heard: std::result::Result<Vec<u8>, Silence>,
        what: &dyn Display,
        limit: Duration,
        interrupt: Option<&AtomicBool>,
    ) -> Result<Vec<u8>> {
        heard.map_err(|silence| match silence {
            Silence::Late => {
                self.machine().kill();
                match interrupt.is_some_and(is_set) {
                    true => self.lost("nobody is waiting for it any longer"),
                    false => HostError::Hung {
                        action: format!("{what} in guest {}", self.name),
                        seconds: limit.as_secs(),
                    },
                }
            }
            Silence::Ended => self.ended(&what.to_string()),
            Silence::TooMuch(excess) => self.babbles(&what.to_string(), excess),
        })
    }

    /// A guest that floods the host is given up.
    fn babbles(&self, what: &str, excess: Excess) -> HostError {
        self.machine().kill();
        self.lost(format!("the guest sent an invalid answer while {what}: {excess}"))
    }

    fn ended(&self, what: &str) -> HostError {
        let mut machine = self.machine();
        machine.settle();
        machine.kill();
        drop(machine);
        self.lost(format!("the guest exited while {what}"))
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the error means that a guest is gone, for whatever reason.
pub(crate) fn is_lost(error: &HostError) -> bool {
    matches!(error, HostError::Lost { .. })
}

pub(crate) fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

/// One line, including its newline. Questions and answers alternate, so nothing follows it.
fn read_line(
    stream: &mut UnixStream,
    deadline: Instant,
    interrupt: Option<&AtomicBool>,
) -> std::result::Result<Vec<u8>, Silence> {
    let mut line = Vec::new();
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        if interrupt.is_some_and(is_set) {
            return Err(Silence::Late);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // If the wait can be interrupted, check for that now and then; otherwise there is no reason to wake
        // up.
        let left = if interrupt.is_some() { left.min(GLANCE) } else { left };
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Silence::Late);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(Silence::Ended),
            Ok(length) if line.len() + length > LINE_MAX => return Err(Silence::TooMuch(Excess::Line)),
            Ok(length) => line.extend_from_slice(&buffer[..length]),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => continue,
                _ => return Err(Silence::Ended),
            },
        }
        if line.last() == Some(&b'\n') {
            return Ok(line);
        }
    }
}

impl Channel for GuestHost {
    fn end(&self) -> String {
        self.name.clone()
    }

    fn exchange(&mut self, request: &Request) -> Result<Vec<u8>> {
        let limit = self.limits.of(request, self.limit);
        let hurry = Arc::clone(&self.hurry);
        self.exchange_line(&question(request)?, request, limit, Some(&hurry))
    }

    fn note(&mut self, request: &Request, took: Duration, failure: Option<String>) {
        self.log.note(request, took, failure);
    }
}

impl Host for GuestHost {
    fn name(&self) -> String {
        self.end()
    }

    fn has_ended(&mut self) -> bool {
        self.machine().has_exited()
    }

    fn limit_steps(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }

    fn take_log(&mut self) -> Vec<LogEntry> {
        self.log.take()
    }

    fn own_binary(&self) -> std::io::Result<PathBuf> {
        Ok(PathBuf::from(BINARY))
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        let started = self.engine.start(request, self.limits.step).map_err(|silence| match silence {
            NoEngine::Silence(Silence::Late) => {
                self.machine().kill();
                let action = format!("starting the engine in guest {}", self.name);
                HostError::Hung { action, seconds: self.limits.step.as_secs() }
            }
            NoEngine::Silence(Silence::Ended) => self.ended("the engine was started"),
            NoEngine::Silence(Silence::TooMuch(excess)) => self.babbles("the engine was started", excess),
            NoEngine::Refused(error) => error,
        })?;
        Ok(Box::new(GuestEngine {
            machine: Arc::clone(&self.machine),
            port: self.engine.clone(),
            pid: started,
            over: false,
        }))
    }
}

impl Guest for GuestHost {
    fn facts(&self) -> &GuestFacts {
        &self.facts
    }

    fn disks(&self) -> Vec<PathBuf> {
        disk_nodes(self.disks)
    }

    fn last_words(&mut self) -> String {
        self.machine().last_words()
    }

    fn end_now(&mut self) {
        self.machine().kill();
    }

    fn member(
        &self,
        name: String,
        number: usize,
        news: SyncSender<(usize, News)>,
    ) -> std::io::Result<Arc<dyn Member>> {
        Ok(GuestMember::listen(name, number, self.engine.clone(), news)?)
    }
}

/// An engine in a guest.
struct GuestEngine {
    machine: Arc<Mutex<Machine>>,
    port: EnginePort,
    pid: u32,
    /// `true` if the engine has closed its output.
    over: bool,
}

impl EngineProcess for GuestEngine {
    fn next(&mut self, timeout: Duration) -> EngineOutput {
        match self.port.hear(timeout) {
            Heard::Line(line) => match News::understand(&line) {
                News::Event(event) => EngineOutput::Event(event),
                News::Garbage(text) => EngineOutput::Garbage(text),
                News::Closed(complaints) => {
                    self.over = true;
                    EngineOutput::End(complaints)
                }
                News::Started { .. } | News::NotStarted { .. } | News::Ended { .. } | News::Clock { .. } => {
                    EngineOutput::Silence
                }
            },
            Heard::Silence => EngineOutput::Silence,
            Heard::TooMuch(excess) => EngineOutput::Garbage(excess.to_string()),
            Heard::End => {
                self.over = true;
                let mut machine = lock(&self.machine);
                machine.settle();
                EngineOutput::End("the guest exited".to_string())
            }
        }
    }

    fn proceed(&mut self, at_ns: Option<u64>) {
        // One that is gone is noticed by the end of its output.
        let _ = self.port.order(&Order::Proceed { at_ns });
    }

    fn ask_to_stop(&mut self) {
        // A guest that is gone need not be told.
        let _ = self.port.order(&Order::Stop);
    }

    /// An engine that does not exit takes its guest with it, so that nothing of it remains.
    fn stop(&mut self, limit: Duration) -> bool {
        self.ask_to_stop();
        let deadline = Instant::now() + GRACE.min(limit);
        while !self.over && Instant::now() < deadline {
            self.next(deadline.saturating_duration_since(Instant::now()));
        }
        if !self.over && !self.killed(limit) {
            lock(&self.machine).kill();
        }
        true
    }

    fn pid(&self) -> u32 {
        self.pid
    }
}

impl GuestEngine {
    /// Makes the guest kill it; returns whether it is gone.
    fn killed(&mut self, limit: Duration) -> bool {
        if self.port.order(&Order::Kill).is_err() {
            return true;
        }
        let deadline = Instant::now() + limit;
        loop {
            match self.port.news(deadline) {
                Ok(News::Ended { gone }) => return gone,
                Ok(_) => {}
                Err(Silence::Late | Silence::TooMuch(_)) => return false,
                Err(Silence::Ended) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_until_nobody_wants_it() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("two ends");
        let interrupt = AtomicBool::new(false);
        let deadline = Instant::now() + Duration::from_hours(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(GLANCE * 2);
                theirs.write_all(b"here\n").expect("somebody listens");
            });
            assert_eq!(read_line(&mut ours, deadline, Some(&interrupt)), Ok(b"here\n".to_vec()));
            scope.spawn(|| {
                std::thread::sleep(GLANCE * 2);
                interrupt.store(true, Ordering::Relaxed);
            });
            assert_eq!(read_line(&mut ours, deadline, Some(&interrupt)), Err(Silence::Late));
        });
    }

    /// Writes the same for as long as somebody reads.
    fn flood(mut stream: UnixStream, what: &'static [u8]) {
        std::thread::spawn(move || while stream.write_all(what).is_ok() {});
    }

    #[test]
    fn an_answer_without_an_end_is_given_up() {
        let (mut ours, theirs) = UnixStream::pair().expect("two ends");
        flood(theirs, &[b'a'; 4096]);
        let deadline = Instant::now() + Duration::from_hours(1);
        assert_eq!(read_line(&mut ours, deadline, None), Err(Silence::TooMuch(Excess::Line)));
    }

    #[test]
    fn a_guest_that_never_falls_silent_moves_no_deadline() {
        let (ours, theirs) = UnixStream::pair().expect("two ends");
        flood(theirs, b"{\"garbage\":\"\"}\n");
        let port = EnginePort::new(ours).expect("a port");
        let request = EngineRequest::new("/", fsdyno_core::Workload::Null(Default::default()), 1);
        let silence = port.start(&request, Duration::from_millis(200)).expect_err("nothing was started");
        assert!(matches!(silence, NoEngine::Silence(Silence::Late)));
    }

    #[test]
    fn news_that_make_no_sense_are_garbage() {
        for line in [&b"nonsense\n"[..], b"\xff\xfe\n", b"{\"event\":{}}\n", b""] {
            assert!(matches!(News::understand(line), News::Garbage(_)), "{line:?}");
        }
    }
}
