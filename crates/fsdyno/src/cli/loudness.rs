//! The amount of output of every command on stderr.

use crate::say;
use clap::Args;

/// Options for the amount of output on stderr.
#[derive(Debug, Clone, Copy, Args)]
pub struct Loudness {
    /// Print results, errors and what is left on the machine, but no progress and no notes.
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Also print what is done to the machine: every command, mount and setting of a trial.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
}

impl Loudness {
    /// Returns the amount of output that these options ask for.
    pub fn asked(self) -> say::Loudness {
        match self {
            Loudness { quiet: true, .. } => say::Loudness::Quiet,
            Loudness { verbose: true, .. } => say::Loudness::Verbose,
            _ => say::Loudness::Usual,
        }
    }
}
