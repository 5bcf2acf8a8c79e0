//! The options of `fsdyno application`.

use super::OutputPath;
use clap::{Args, ValueEnum};
use fsdyno_core::durability::Act;

/// Options of `fsdyno application`.
#[derive(Debug, Args)]
pub struct Application {
    /// The step to carry out.
    pub step: ApplicationStep,
    /// Where the filesystem is mounted.
    pub directory: OutputPath,
    /// The action of the application: `overwrite`, `append` or `read`.
    #[arg(value_parser = act)]
    pub act: Act,
    /// Decides what is written.
    pub seed: u64,
}

/// Steps, between which the filesystem is mounted anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ApplicationStep {
    /// Creates the file.
    Prepare,
    /// Writes or reads while requests fail.
    Act,
    /// Looks at what is there afterwards.
    Look,
}

fn act(text: &str) -> Result<Act, String> {
    let known = [Act::Overwrite, Act::Append, Act::Read];
    let found = known.into_iter().find(|act| act.name() == text);
    found.ok_or_else(|| format!("expected one of {}", known.map(Act::name).join(", ")))
}
