//! The outcome of a trial.

use crate::operation::Operation;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The outcome of a trial. A trial counts as failed until it has been measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Ending", into = "Ending")]
pub enum Outcome {
    /// Every phase was measured.
    Measured,
    /// This machine cannot run the configuration.
    Skipped {
        /// Every requirement that is not met, not only the first.
        unmet: Vec<String>,
    },
    /// Something went wrong.
    Failed {
        /// The failure and its place.
        error: Failure,
    },
}

/// An outcome as it is serialised, the same keys for each.
#[derive(Serialize, Deserialize)]
struct Ending {
    outcome: OutcomeWord,
    unmet: Vec<String>,
    error: Option<Failure>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    Measured,
    Skipped,
    Failed,
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        let (outcome, unmet, error) = match outcome {
            Outcome::Measured => (OutcomeWord::Measured, Vec::new(), None),
            Outcome::Skipped { unmet } => (OutcomeWord::Skipped, unmet, None),
            Outcome::Failed { error } => (OutcomeWord::Failed, Vec::new(), Some(error)),
        };
        Ending { outcome, unmet, error }
    }
}

impl TryFrom<Ending> for Outcome {
    type Error = &'static str;

    fn try_from(Ending { outcome, unmet, error }: Ending) -> Result<Self, &'static str> {
        Ok(match outcome {
            OutcomeWord::Measured => Outcome::Measured,
            OutcomeWord::Skipped => Outcome::Skipped { unmet },
            OutcomeWord::Failed => Outcome::Failed { error: error.ok_or("a trial failed without an error")? },
        })
    }
}

impl Outcome {
    /// `measured`, `skipped` or `failed`.
    pub const fn word(&self) -> &'static str {
        match self {
            Outcome::Measured => "measured",
            Outcome::Skipped { .. } => "skipped",
            Outcome::Failed { .. } => "failed",
        }
    }
}

/// An error as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The step of the trial (`mkfs`, `mount`, `prepare`) or the phase.
    pub step: String,
    /// The operation that failed, if there was one.
    pub operation: Option<Operation>,
    /// The path that it was applied to.
    pub path: Option<String>,
    /// The error number, if the kernel gave one.
    pub errno: Option<i32>,
    /// One line: the chain of causes.
    pub message: String,
    /// The output of the tool, and anything that was left behind.
    pub details: String,
    /// The next step for the user.
    pub hint: Option<String>,
}

/// The step of a failure that means that data was read which nobody wrote there. What such a trial measured
/// says nothing about the filesystem.
pub const VERIFICATION: &str = "verification";

impl Failure {
    /// A failure of a step of which only the message is known.
    pub fn new(step: impl Into<String>, message: impl Into<String>) -> Self {
        Failure {
            step: step.into(),
            operation: None,
            path: None,
            errno: None,
            message: message.into(),
            details: String::new(),
            hint: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.step)?;
        if let Some(operation) = self.operation {
            write!(f, "{operation} ")?;
        }
        if let Some(path) = &self.path {
            write!(f, "'{path}': ")?;
        }
        f.write_str(&self.message)
    }
}

/// An error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}
