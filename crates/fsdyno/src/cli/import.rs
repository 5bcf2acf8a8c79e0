//! Options of `fsdyno import`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `fsdyno import`.
#[derive(Debug, Args)]
pub struct Import {
    /// Format of the files.
    pub format: ImportFormat,
    /// The files; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Name for the sweep [default: the name of the first file].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Name of one configuration for all files [default: as the files say, else the name of each file].
    #[arg(long, value_name = "NAME")]
    pub configuration: Option<String>,
}

/// The format of files to import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Tables in the layout of FsOpBench (2009), including those that fsdyno prints.
    #[value(name = "fsopbench")]
    FsOpBench,
    /// Output of fio with --output-format=json or json+; one trial per file.
    Fio,
    /// CSV lines of bonnie++ 1.03 to 2.00; one trial per line.
    BonnieCsv,
}
