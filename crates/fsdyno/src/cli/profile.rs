//! Options of `fsdyno profile`.

use clap::Args;
use std::path::PathBuf;

/// Options of `fsdyno profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// The directory to scan.
    pub directory: PathBuf,
    /// Output file for the model [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
