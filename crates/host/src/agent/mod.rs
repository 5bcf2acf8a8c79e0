//! This machine, by system calls in a process that can be abandoned.
//!
//! A filesystem under test may hang any system call that touches it, and a thread that hangs in the kernel
//! cannot be killed. So a child process, `<binary> agent`, carries out the steps of a
//! [`LocalHost`](crate::local::LocalHost) one by one and answers over a pipe. If an answer is late, the child
//! is killed and abandoned, the step fails with [`HostError::Hung`], and the next step goes to a new child.
//! Devices that the old child held open are closed with it, or stay open and locked for as long as it hangs;
//! their handles mean nothing to the new child.
//!
//! The parent starts engines itself: they have their own pipe and their own watchdog.

mod process;
mod serve;

pub use serve::serve;

use crate::guardian::Guardian;
use crate::lines::Excess;
use crate::local::{LocalGuardian, start_engine, start_recorder, take_image};
use crate::log::StepLog;
use crate::probe::FileIdentity;
use crate::recorder::Recorder;
use crate::wire::{self, Hello, question, understand};
use crate::{Channel, EngineProcess, Host, HostError, ImageHandle, Limits, Request, Result, Steps};
use fsdyno_core::EngineRequest;
use fsdyno_core::result::LogEntry;
use process::{Agent, Answer};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NAME: &str = "this machine";
/// The time that a step may take once somebody is in a hurry.
const HURRIED: Duration = Duration::from_secs(5);

/// This machine, in a process that can be abandoned. The agent dies with the thread whose call started it, so
/// all calls should come from a thread that lives as long as this.
pub struct AgentHost {
    binary: PathBuf,
    protected: Vec<(String, PathBuf)>,
    limits: Limits,
    /// A limit shorter than those of `limits`, if set.
    limit: Option<Duration>,
    /// Set by somebody who does not want to wait any longer.
    hurry: Arc<AtomicBool>,
    /// `true` once the step that was running when `hurry` was set has been given up.
    hurried: bool,
    agent: Option<Agent>,
    /// The descriptors that every process of this host inherits.
    held: Vec<Arc<OwnedFd>>,
    /// Agents that did not answer; some may still hang.
    given_up: Vec<Agent>,
    started: u64,
    log: StepLog,
}

impl AgentHost {
    /// `binary` is the fsdyno binary, which serves as agent and engine; `protected` are things that no device
    /// under test may carry, each with its name (`the store`), in addition to the system's own directories
    /// and the binary.
    pub fn new(binary: PathBuf, protected: Vec<(String, PathBuf)>) -> Self {
        AgentHost {
            binary,
            protected,
            limits: Limits::default(),
            limit: None,
            hurry: Arc::default(),
            hurried: false,
            agent: None,
            held: Vec::new(),
            given_up: Vec::new(),
            started: 0,
            log: StepLog::default(),
        }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        AgentHost { limits, ..self }
    }

    /// The same for a user who may lose patience: when the flag is set, the current step is given up, and
    /// each later one gets a few seconds.
    #[must_use]
    pub fn hurried_by(self, hurry: Arc<AtomicBool>) -> Self {
        AgentHost { hurry, ..self }
    }

    /// Processes of abandoned agents that still hang, for a person who has to deal with them.
    pub fn hanging(&mut self) -> Vec<u32> {
        self.given_up.retain_mut(|agent| !agent.is_gone());
        self.given_up.iter().map(Agent::pid).collect()
    }

    fn start(&mut self) -> Result<Agent> {
        let mut agent = Agent::start(&self.binary, self.held.clone())?;
        self.started += 1;
        let hello = Hello {
            version: wire::VERSION,
            protected: self.protected.clone(),
            // No two agents give out the same handle.
            first_handle: self.started << 32,
        };
        match agent.ask(&question(&hello)?, self.limits.step, None) {
            Answer::Line(line) => {
                understand::<u32>(NAME, &line)?;
                Ok(agent)
            }
            Answer::Late => {
                self.give_up(agent);
                Err(lost("the agent did not start in time".to_string()))
            }
            Answer::TooLong => {
                self.give_up(agent);
                Err(lost(Excess::Line.to_string()))
            }
            Answer::Ended(how) => Err(lost(format!("the agent exited immediately: {how}"))),
        }
    }

    fn give_up(&mut self, mut agent: Agent) {
        agent.kill();
        if !agent.is_gone() {
            self.given_up.push(agent);
        }
    }
}

fn lost(reason: String) -> HostError {
    HostError::Lost { host: NAME.to_string(), reason }
}

impl Channel for AgentHost {
    fn end(&self) -> String {
        NAME.to_string()
    }

    /// Asks the agent, and waits no longer than the request allows.
    fn exchange(&mut self, request: &Request) -> Result<Vec<u8>> {
        let in_a_hurry = self.hurry.load(Ordering::Relaxed);
        let most = if in_a_hurry {
            Some(self.limit.map_or(HURRIED, |limit| limit.min(HURRIED)))
        } else {
            self.limit
        };
        let limit = self.limits.of(request, most);
        // A step that starts in a hurry is not the one that somebody was waiting for.
        self.hurried |= in_a_hurry;
        let question = question(request)?;
        let mut agent = match self.agent.take() {
            Some(agent) => agent,
            None => self.start()?,
        };
        let begun = Instant::now();
        let hurry = if self.hurried { None } else { Some(&*self.hurry) };
        match agent.ask(&question, limit, hurry) {
            Answer::Line(line) => {
                self.agent = Some(agent);
                Ok(line)
            }
            Answer::Late => {
                let seconds = limit.min(begun.elapsed()).as_secs();
                let error = HostError::Hung { action: request.to_string(), seconds };
                self.give_up(agent);
                Err(error)
            }
            Answer::TooLong => {
                let reason = format!("the agent sent an invalid answer while {request}: {}", Excess::Line);
                self.give_up(agent);
                Err(HostError::Lost { host: NAME.to_string(), reason })
            }
            Answer::Ended(how) => {
                let reason = format!("the agent exited while {request}: {how}");
                self.give_up(agent);
                Err(lost(reason))
            }
        }
    }

    fn note(&mut self, request: &Request, took: Duration, failure: Option<String>) {
        self.log.note(request, took, failure);
    }
}

impl Host for AgentHost {
    fn name(&self) -> String {
        self.end()
    }

    fn image_descriptor(&mut self, image: ImageHandle, expected: &FileIdentity) -> Result<OwnedFd> {
        let number = self.image_number(image)?;
        // It has just answered, and until it is reaped nobody else gets its number.
        let agent = self.agent.as_ref().ok_or_else(|| lost("the agent has exited".to_string()))?;
        take_image(agent.pid(), number, expected)
    }

    fn limit_steps(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }

    fn take_log(&mut self) -> Vec<LogEntry> {
        self.log.take()
    }

    fn hold(&mut self, lock: Arc<OwnedFd>) {
        self.held.push(lock);
        // Running processes can no longer inherit it: the next step starts a new agent.
        self.agent = None;
    }

    fn guardian(&self) -> Box<dyn Guardian> {
        Box::new(LocalGuardian::new(&self.binary, self.held.clone()))
    }

    fn start_recorder(&mut self) -> Result<Box<dyn Recorder>> {
        start_recorder(&self.binary, self.held.clone())
    }

    /// An agent of its own, which is started by the thread that takes the first step.
    fn another(&self) -> Option<Box<dyn Host + Send>> {
        Some(Box::new(AgentHost {
            limits: self.limits,
            hurry: Arc::clone(&self.hurry),
            held: self.held.clone(),
            ..AgentHost::new(self.binary.clone(), self.protected.clone())
        }))
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        start_engine(&self.binary, request, self.held.clone())
    }
}
