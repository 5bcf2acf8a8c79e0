//! Options of `fsdyno profile`.

use super::{InputPath, OutputPath};
use clap::Args;

/// Options of `fsdyno profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// The directory to scan.
    pub directory: InputPath,
    /// Output file for the model [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OutputPath>,
}
