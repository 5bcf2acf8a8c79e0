//! Options of `fsdyno plans`.

use super::{DocumentFormat, OutputPath};
use clap::Args;

/// Options of `fsdyno plans`.
#[derive(Debug, Args)]
pub struct Plans {
    /// Print this plan, with its comments.
    pub name: Option<String>,
    /// Write the plan to a file, to edit it [default file: NAME.toml in the current directory].
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, requires = "name")]
    pub save: Option<Option<OutputPath>>,
    /// Output format of the list.
    #[arg(long, default_value = "text", conflicts_with = "name")]
    pub format: DocumentFormat,
}
