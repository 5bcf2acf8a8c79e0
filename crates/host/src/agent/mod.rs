//! This machine, by system calls in a process that can be given up.
//!
//! A filesystem under test may hang any system call that touches it, and a thread that hangs in the kernel cannot be
//! ended. So a child process, `<binary> agent`, carries out the steps of a [`LocalHost`] one by one and answers over a
//! pipe. When an answer is late, the child is killed and abandoned, the step fails with [`HostError::Hung`], and the next
//! step goes to a fresh child. Devices that the old child held open are closed with it, or stay open and locked for as
//! long as it hangs; their handles mean nothing to the new one.
//!
//! Engines are started by the parent itself: they have their own pipe and their own watchdog.

mod process;
mod serve;

pub use serve::serve;

use crate::local::start_engine;
use crate::probe::{DeviceIdentity, DeviceProbe, FileIdentity, LoopInfo, MountInfo};
use crate::wire::{self, Request};
use crate::{
    Command, DeviceHandle, EngineProcess, Host, HostError, LoopOptions, MountRequest, Output, Result,
};
use fsdyno_core::{Bytes, EngineRequest};
use process::{Agent, Answer};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NAME: &str = "this machine";

/// How long the agent may take beyond the limit of a command, which it keeps itself.
const COMMAND_MARGIN: Duration = Duration::from_secs(10);

/// How long a step may take before it is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A step that reads or changes little: 60 s.
    pub step: Duration,
    /// A step that may have to write back what memory holds for a slow device, an unmount above all: 300 s.
    pub flush: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { step: Duration::from_secs(60), flush: Duration::from_secs(300) }
    }
}

/// This machine, in a process that can be given up. The agent dies with the thread that made the call which started it,
/// so all calls are best made from one that lives as long as this.
pub struct AgentHost {
    binary: PathBuf,
    protected: Vec<(String, PathBuf)>,
    limits: Limits,
    /// Where less patience is asked for than `limits` have.
    limit: Option<Duration>,
    agent: Option<Agent>,
    /// Agents that did not answer; some may still hang.
    given_up: Vec<Agent>,
    started: u64,
}

impl AgentHost {
    /// `binary` is the fsdyno binary, which serves as agent and engine; `protected` are things that no device under test
    /// may carry, each with its name (`the store`), beside the system's own directories and the binary.
    pub fn new(binary: PathBuf, protected: Vec<(String, PathBuf)>) -> Self {
        AgentHost {
            binary,
            protected,
            limits: Limits::default(),
            limit: None,
            agent: None,
            given_up: Vec::new(),
            started: 0,
        }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        AgentHost { limits, ..self }
    }

    /// Processes of agents that were given up and still hang, for a person who has to look after them.
    pub fn hanging(&mut self) -> Vec<u32> {
        self.given_up.retain_mut(|agent| !agent.is_gone());
        self.given_up.iter().map(Agent::pid).collect()
    }

    /// Asks the agent, and waits no longer than the request allows.
    fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        let limit = self.limit(request);
        let question = question(request)?;
        let mut agent = match self.agent.take() {
            Some(agent) => agent,
            None => self.start()?,
        };
        match agent.ask(&question, limit) {
            Answer::Line(line) => {
                self.agent = Some(agent);
                serde_json::from_slice::<Result<T>>(&line).unwrap_or_else(|error| Err(not_understood(&error)))
            }
            Answer::Late => {
                let error = HostError::Hung { action: request.to_string(), seconds: limit.as_secs() };
                self.give_up(agent);
                Err(error)
            }
            Answer::Ended(how) => {
                let reason = format!("the agent ended while {request}: {how}");
                self.give_up(agent);
                Err(HostError::Lost { host: NAME.to_string(), reason })
            }
        }
    }

    fn limit(&self, request: &Request) -> Duration {
        let usual = match request {
            Request::Run { command } => command.limit + COMMAND_MARGIN,
            Request::Unmount { .. }
            | Request::DetachLoop { .. }
            | Request::CloseDevice { .. }
            | Request::CreateImage { .. } => self.limits.flush,
            _ => self.limits.step,
        };
        self.limit.map_or(usual, |limit| limit.min(usual))
    }

    fn start(&mut self) -> Result<Agent> {
        let mut agent = Agent::start(&self.binary)?;
        self.started += 1;
        let hello = Request::Hello {
            version: wire::VERSION,
            protected: self.protected.clone(),
            // No two agents give out the same handle.
            first_handle: self.started << 32,
        };
        let lost = |reason: String| HostError::Lost { host: NAME.to_string(), reason };
        match agent.ask(&question(&hello)?, self.limits.step) {
            Answer::Line(line) => {
                serde_json::from_slice::<Result<u32>>(&line)
                    .unwrap_or_else(|error| Err(not_understood(&error)))?;
                Ok(agent)
            }
            Answer::Late => {
                self.give_up(agent);
                Err(lost("the agent did not start in time".to_string()))
            }
            Answer::Ended(how) => Err(lost(format!("the agent ended at once: {how}"))),
        }
    }

    fn give_up(&mut self, mut agent: Agent) {
        agent.kill();
        if !agent.is_gone() {
            self.given_up.push(agent);
        }
    }
}

fn question(request: &Request) -> Result<Vec<u8>> {
    wire::line(request).map_err(|error| HostError::System {
        action: "send the request".to_string(),
        object: request.to_string(),
        errno: 0,
        reason: error.to_string(),
    })
}

fn not_understood(error: &serde_json::Error) -> HostError {
    HostError::Lost {
        host: NAME.to_string(),
        reason: format!("the agent's answer is not understood: {error}"),
    }
}

impl Host for AgentHost {
    fn name(&self) -> String {
        NAME.to_string()
    }

    fn run(&mut self, command: &Command) -> Result<Output> {
        self.call(&Request::Run { command: command.clone() })
    }

    fn find_program(&mut self, program: &str) -> Result<Option<PathBuf>> {
        self.call(&Request::FindProgram { program: program.to_string() })
    }

    fn read_text(&mut self, path: &Path) -> Result<String> {
        self.call(&Request::ReadText { path: path.to_path_buf() })
    }

    fn write_text(&mut self, path: &Path, text: &str) -> Result<()> {
        self.call(&Request::WriteText { path: path.to_path_buf(), text: text.to_string() })
    }

    fn list_directory(&mut self, path: &Path) -> Result<Vec<String>> {
        self.call(&Request::ListDirectory { path: path.to_path_buf() })
    }

    fn create_directory(&mut self, path: &Path) -> Result<()> {
        self.call(&Request::CreateDirectory { path: path.to_path_buf() })
    }

    fn remove_directory(&mut self, path: &Path) -> Result<()> {
        self.call(&Request::RemoveDirectory { path: path.to_path_buf() })
    }

    fn file_identity(&mut self, path: &Path) -> Result<Option<FileIdentity>> {
        self.call(&Request::FileIdentity { path: path.to_path_buf() })
    }

    fn create_image(&mut self, path: &Path, size: Bytes) -> Result<FileIdentity> {
        self.call(&Request::CreateImage { path: path.to_path_buf(), size })
    }

    fn rename_new(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.call(&Request::RenameNew { from: from.to_path_buf(), to: to.to_path_buf() })
    }

    fn remove_file(&mut self, path: &Path) -> Result<()> {
        self.call(&Request::RemoveFile { path: path.to_path_buf() })
    }

    fn space(&mut self, path: &Path) -> Result<(Bytes, Bytes)> {
        self.call(&Request::Space { path: path.to_path_buf() })
    }

    fn loops(&mut self) -> Result<Vec<LoopInfo>> {
        self.call(&Request::Loops)
    }

    fn attach_loop(&mut self, image: &Path, options: &LoopOptions) -> Result<PathBuf> {
        self.call(&Request::AttachLoop { image: image.to_path_buf(), options: options.clone() })
    }

    fn detach_loop(&mut self, device: &Path) -> Result<()> {
        self.call(&Request::DetachLoop { device: device.to_path_buf() })
    }

    fn probe_device(&mut self, path: &Path) -> Result<DeviceProbe> {
        self.call(&Request::ProbeDevice { path: path.to_path_buf() })
    }

    fn open_device(&mut self, path: &Path, expected: &DeviceIdentity) -> Result<DeviceHandle> {
        self.call(&Request::OpenDevice { path: path.to_path_buf(), expected: expected.clone() })
    }

    fn verify_device(&mut self, handle: DeviceHandle, expected: &DeviceIdentity) -> Result<()> {
        self.call(&Request::VerifyDevice { handle, expected: expected.clone() })
    }

    fn close_device(&mut self, handle: DeviceHandle) -> Result<()> {
        self.call(&Request::CloseDevice { handle })
    }

    fn mount(&mut self, request: &MountRequest) -> Result<()> {
        self.call(&Request::Mount { request: request.clone() })
    }

    fn unmount(&mut self, target: &Path) -> Result<()> {
        self.call(&Request::Unmount { target: target.to_path_buf() })
    }

    fn mounts(&mut self) -> Result<Vec<MountInfo>> {
        self.call(&Request::Mounts)
    }

    fn limit_steps(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        start_engine(&self.binary, request)
    }
}
