//! Commands of a user that run beside a trial, and whoever starts them and ends what they have started.
//!
//! Such a command is not a step of the testbed: it may do anything, and it may leave processes that no longer
//! belong to its group. So each gets a guardian, a process of its own that inherits what the command leaves
//! behind and kills it. The guardian ends everything as well when its parent is gone.

use crate::{HostError, Result};
use fsdyno_core::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A command to run. It starts in `/` with an empty stdin, with `PATH`, the C locale and the variables below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardedCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Further environment variables.
    pub environment: Vec<(String, String)>,
    /// The time that the command may run; unlimited if absent.
    pub limit: Option<Duration>,
    /// The size to which a file may grow by the command's writes; unlimited if absent.
    pub file_limit: Option<Bytes>,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// By itself.
    Itself,
    /// It was asked to.
    Asked,
    /// It was killed at its limit.
    Limit,
    /// Its guardian lost its parent, or was told to end everything at once.
    Abandoned,
}

/// The outcome of a command, and of everything that it had started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Why.
    pub cause: Cause,
    /// Its exit status, or 128 + the signal that ended it.
    pub status: i32,
    /// From its start until nothing of it was left.
    pub took: Nanos,
    /// Its output, invalid UTF-8 replaced; of a long one, 64 KiB: the beginning and the end.
    pub output: String,
    /// Processes that it had started and that were killed.
    pub killed: u32,
    /// Processes that could not be killed, because they hang in the kernel.
    pub stuck: Vec<u32>,
}

impl fmt::Display for Ending {
    /// Writes the outcome, to follow `the command`: `ended with status 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cause, self.status) {
            (Cause::Limit, _) => f.write_str("was killed at its time limit"),
            (Cause::Abandoned, _) => f.write_str("was killed"),
            (_, signal @ 129..) => write!(f, "was ended by signal {}", signal - 128),
            (_, status) => write!(f, "ended with status {status}"),
        }
    }
}

/// A command that runs. Dropping it ends the command and everything that it has started.
pub trait Guarded {
    /// Returns the outcome, waiting this long for it; `None` if the command still runs.
    ///
    /// # Errors
    /// The command could not be started, or its guardian died.
    fn ending(&mut self, patience: Duration) -> Result<Option<Ending>>;
    /// Asks it to end, by SIGINT, then SIGTERM, then SIGKILL, and does not wait.
    fn ask_to_end(&mut self);
    /// Kills it and everything that it has started, and does not wait.
    fn kill(&mut self);
}

/// Starts commands on a machine.
pub trait Guardian {
    /// Starts a command.
    ///
    /// # Errors
    /// No guardian could be started.
    fn start(&self, command: &GuardedCommand) -> Result<Box<dyn Guarded>>;
}

/// For machines on which no command of a user runs.
#[derive(Debug)]
pub(crate) struct NoGuardian(pub String);

impl Guardian for NoGuardian {
    fn start(&self, command: &GuardedCommand) -> Result<Box<dyn Guarded>> {
        Err(HostError::System {
            action: format!("run on {}", self.0),
            object: command.words.join(" "),
            errno: 0,
            reason: "commands of a plan run only on the machine itself".to_string(),
        })
    }
}
