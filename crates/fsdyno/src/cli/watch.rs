//! Options of `fsdyno watch`.

use clap::{Args, ValueEnum};

/// Options of `fsdyno watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// Number or name of a sweep [default: the one that is running]. One that has ended is printed as it
    /// ended.
    pub sweep: Option<String>,
    /// Ask the running sweep for something and return at once; it does that after the trial in progress.
    #[arg(long, value_name = "WHAT")]
    pub then: Option<Then>,
    /// Leave when the sweep ends.
    #[arg(long, conflicts_with = "then")]
    pub until_end: bool,
}

/// A request to a running sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Then {
    /// Wait, until it is asked for something else.
    Pause,
    /// Go on with the next trial.
    Continue,
    /// End as if interrupted between two trials; --resume goes on.
    Stop,
}
