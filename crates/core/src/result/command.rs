//! Commands of a plan that ran around a trial: its hooks and monitors.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// When a command of a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandKind {
    /// Before anything of the trial is built.
    BeforeTrial,
    /// When the workers of a phase are ready, before its ramp.
    BeforePhase,
    /// After everything of the trial was taken down.
    AfterTrial,
    /// From before the ramp of a phase until its drain has ended.
    Monitor,
}

impl CommandKind {
    /// The key in a plan.
    pub const fn name(self) -> &'static str {
        match self {
            CommandKind::BeforeTrial => "before_trial",
            CommandKind::BeforePhase => "before_phase",
            CommandKind::AfterTrial => "after_trial",
            CommandKind::Monitor => "monitor",
        }
    }
}

impl fmt::Display for CommandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A command of the plan that has run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// When it ran.
    pub kind: CommandKind,
    /// The phase, for what belongs to one.
    pub phase: Option<String>,
    /// The command line, with `{out}` replaced.
    pub command: String,
    /// The time for which it ran.
    pub took_ns: Nanos,
    /// Why it counts as failed, if it does.
    pub failure: Option<String>,
    /// The end of what it printed.
    pub output: String,
    /// The directory with the files that it wrote, if it wrote any.
    pub files: Option<PathBuf>,
}
