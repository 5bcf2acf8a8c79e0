//! The commands that change stored results: import, delete, rename, note, pack and unpack.

use super::{InputPath, OutputPath};
use clap::{Args, Subcommand, ValueEnum};

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Results {
    /// Import results that were measured elsewhere as a sweep.
    #[command(after_help = "\
Examples:
  fsdyno import fio fio.json
  fsdyno import mdtest ext4.txt xfs.txt        a configuration for each file
  fsdyno import table mine.csv --unit MB/s     a row for each trial; its columns are settings and `value`")]
    Import(Import),
    /// Delete sweeps with all of their trials. Their numbers are not used again.
    #[command(after_help = "\
Examples:
  fsdyno delete 3
  fsdyno delete 3 4 --yes
  fsdyno delete 3 --damaged         only what cannot be read any more")]
    Delete(Delete),
    /// Give a sweep another name.
    #[command(after_help = "Examples:\n  fsdyno rename 3 new-disk")]
    Rename(Rename),
    /// Show, set or remove the note of a sweep, which list shows.
    #[command(after_help = "\
Examples:
  fsdyno note 3 \"with the new firmware\"
  fsdyno note 3                     show it
  fsdyno note 3 --remove")]
    Note(Note),
    /// Write a sweep as one file that another fsdyno can unpack.
    #[command(after_help = "Examples:\n  fsdyno pack 3 new-disk.fsdyno")]
    Pack(Pack),
    /// Store a sweep from a file that pack wrote, under a number of its own.
    #[command(after_help = "Examples:\n  fsdyno unpack new-disk.fsdyno")]
    Unpack(Unpack),
}

/// Options of `fsdyno import`.
#[derive(Debug, Args)]
pub struct Import {
    /// Format of the files.
    pub format: ImportFormat,
    /// The files; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<InputPath>,
    /// Name for the sweep [default: the name of the first file].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Name of one configuration for all files [default: as the files say, else the name of each file].
    #[arg(long, value_name = "NAME")]
    pub configuration: Option<String>,
    /// Of a table: the column of figures to rank by; can be repeated for further ones [default: value, or the
    /// first with a unit in its heading].
    #[arg(long, value_name = "COLUMN")]
    pub measure: Vec<String>,
    /// Of a table: the unit of figures whose heading has none, such as MB/s, IOPS or ms.
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// Of a table: which way is better, if the unit does not say it.
    #[arg(long, value_name = "WAY")]
    pub better: Option<Better>,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
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
    /// Output of mdtest 1.9 to 4.0; one trial per table.
    Mdtest,
    /// Output of IOR 2.10 to 4.0, text, JSON or CSV; one trial per iteration.
    Ior,
    /// Output of elbencho: console, --csvfile, --jsonfile or --livecsv; one trial per run.
    Elbencho,
    /// Output of iozone 3; one trial per size, or per number of processes.
    Iozone,
    /// Output of sysbench 0.4 to 1.1; one trial per run.
    Sysbench,
    /// CSV with a heading for each column, of anything that was measured; one trial per row.
    Table,
}

/// Options of `fsdyno delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The sweeps: numbers, or names that only one sweep has.
    #[arg(required = true, value_name = "SWEEP")]
    pub sweeps: Vec<String>,
    /// Delete only the trials that are damaged, so that the others can be used.
    #[arg(long)]
    pub damaged: bool,
    /// Delete without asking.
    #[arg(long)]
    pub yes: bool,
}

/// Options of `fsdyno rename`.
#[derive(Debug, Args)]
pub struct Rename {
    /// Number or name of the sweep.
    pub sweep: String,
    /// Its new name.
    pub name: String,
}

/// Options of `fsdyno note`.
#[derive(Debug, Args)]
pub struct Note {
    /// Number or name of the sweep.
    pub sweep: String,
    /// The note [default: show the one that it has].
    pub text: Option<String>,
    /// Remove the note.
    #[arg(long, conflicts_with = "text")]
    pub remove: bool,
}

/// Options of `fsdyno pack`.
#[derive(Debug, Args)]
pub struct Pack {
    /// Number or name of the sweep.
    pub sweep: String,
    /// Output file; `-` is stdout.
    #[arg(required_unless_present = "output")]
    pub file: Option<OutputPath>,
    /// The same as an option, as report and export have it.
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    pub output: Option<OutputPath>,
}

/// Options of `fsdyno unpack`.
#[derive(Debug, Args)]
pub struct Unpack {
    /// A file that fsdyno pack wrote; `-` is stdin.
    pub file: InputPath,
    /// Name for the sweep [default: the name that it was packed with].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// A table to export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableKind {
    /// One row per trial, with every named measure.
    Trials,
    /// One row per operation of each role and phase.
    Operations,
    /// One row per interval of each operation's timeline.
    Timeline,
    /// One row per device and sample.
    Telemetry,
    /// One row per client, role and phase.
    Clients,
}
