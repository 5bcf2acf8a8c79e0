//! Options of the commands that provide a plan, or what goes into one.

use super::{Confirmed, DocumentFormat, Format, InputPath, OutputPath, Overrides, time};
use clap::Args;
use fsdyno_core::Nanos;

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

/// Options of `fsdyno disks`.
#[derive(Debug, Args)]
pub struct Disks {
    /// Explain this model: each parameter with its source, and what it leaves out.
    pub name: Option<String>,
    /// Write the model to a file, to edit it [default file: NAME.toml in the current directory].
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, requires = "name")]
    pub save: Option<Option<OutputPath>>,
    /// Output format.
    #[arg(long, default_value = "text", conflicts_with = "save")]
    pub format: DocumentFormat,
}

/// Options of `fsdyno quick`.
#[derive(Debug, Args)]
pub struct Quick {
    /// A block device, everything on which is lost; or, for an image that is created and removed, a directory
    /// such as /var/tmp, or a path where nothing is.
    #[arg(value_name = "DEVICE")]
    pub device: OutputPath,
    /// The time that it may take: sizes, windows and repetitions follow from it.
    #[arg(long = "for", value_name = "TIME", default_value = "15m", value_parser = time)]
    pub time: Nanos,
    /// Other disks than the one here: names of `fsdyno disks`, separated by commas. The image has the times
    /// of each while a load runs, and each has an answer of its own.
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    pub disk: Vec<String>,
    /// Write the plan to a file, to edit it, and run nothing.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["set", "memory", "kernel", "modules", "destroy", "overwrite", "allow_sysctl", "resume"]
    )]
    pub save: Option<OutputPath>,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub confirmed: Confirmed,
    /// Continue the latest interrupted quick sweep of this device, as it was begun.
    #[arg(long, conflicts_with_all = ["time", "disk", "set", "memory", "kernel", "modules"])]
    pub resume: bool,
    /// Output format.
    #[arg(long, default_value = "text", conflicts_with = "save")]
    pub format: Format,
}

/// Options of `fsdyno profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// The directory to scan.
    pub directory: InputPath,
    /// Output file for the model [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OutputPath>,
}
