//! Options of the commands that an installation needs.

use super::{InputPath, OutputPath};
use clap::Args;
use clap_complete::Shell;

/// Options of `fsdyno completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    pub shell: Shell,
}

/// Options of `fsdyno package`.
#[derive(Debug, Args)]
pub struct Package {
    /// Directory to fill; created if necessary.
    pub directory: OutputPath,
    /// Where the program will be.
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/fsdyno")]
    pub binary: InputPath,
}
