//! What can be typed: the one definition from which parsing, help and the reference documentation come.

use clap::{Args, Parser, Subcommand, ValueEnum};
use fsdyno_core::units::{Size, UnitError};
use fsdyno_core::{Bytes, Nanos};
use std::path::PathBuf;

/// Which Linux filesystem, with which settings, serves best on this machine, how sure is that, and what does it cost?
///
/// fsdyno builds every candidate on a device that it may destroy, runs competing readers and writers on it, times each
/// single operation, and prints what came out. It never writes to a device that you did not name and confirm.
#[derive(Debug, Parser)]
#[command(name = "fsdyno", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// Where results and undo journals are kept [default: /var/lib/fsdyno for root, else $XDG_STATE_HOME/fsdyno]. Root obeys
    /// only a directory that nobody else can write to.
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// The database of results [default: results.db in the directory of --state].
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// When to use colour.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The shape of what goes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// One document, versioned.
    Json,
    /// Tidy rows with a header.
    Csv,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure a directory as it stands: no root, nothing formatted, an answer in a minute.
    Bench(Bench),
    /// Execute a plan: build every configuration, measure it, store the results.
    Sweep(Sweep),
    /// Show what a plan would do: every case, every command, time and space, and what a sweep would be refused for.
    Plan(Plan),
    /// List the stored sweeps.
    List(List),
    /// Show the results of a sweep.
    Show(Show),
    /// Write the results of a sweep as a page: one HTML file that needs nothing else.
    Report(Report),
    /// Compare two sweeps, two cases, or a sweep with published figures; exit code 1 when the second is slower.
    Compare(Compare),
    /// Say what to take: the best configuration, how sure that is, what it costs, and the commands that build it.
    Recommend(Recommend),
    /// Read results that were measured elsewhere into the store, as a sweep.
    Import(Import),
    /// Write the results of a sweep as tidy tables, for data frames and databases.
    Export(Export),
    /// Scan a directory into a model of file sizes and directories that a plan can name.
    Profile(Profile),
    /// Tell what this machine can run, and what to install for the rest.
    Doctor(Doctor),
    /// Undo what an interrupted sweep left on the machine.
    Restore(Restore),
    /// Write the reference documentation into a directory.
    #[command(hide = true)]
    Reference(Reference),
    /// The engine: a request on stdin, events on stdout.
    #[command(hide = true)]
    Engine,
    /// The agent: steps on this machine, requested on stdin.
    #[command(hide = true)]
    Agent,
    /// The first process of a virtual machine.
    #[command(hide = true)]
    Guest,
}

/// Options of `fsdyno bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// An existing directory on the filesystem to measure.
    pub directory: PathBuf,
    /// All trees together [default: from the free space].
    #[arg(long, value_name = "SIZE")]
    pub tree_size: Option<Bytes>,
    /// The measured part of each phase [default: 8s].
    #[arg(long, value_name = "DURATION")]
    pub window: Option<Nanos>,
    /// The load before each window [default: 4s].
    #[arg(long, value_name = "DURATION")]
    pub ramp: Option<Nanos>,
    /// Any parameter of the workload, as in a plan: `readers=8`, `tree=impressions`, `direct=true`.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Options of `fsdyno sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// The plan, a TOML file.
    pub plan: PathBuf,
    /// Changes a key of the plan: `device.size=1G`, `repetitions=1`, `workloads.window=2s`.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub kernels: Kernels,
    /// Confirms a block device that the plan names: everything on it is lost.
    #[arg(long, value_name = "DEVICE")]
    pub destroy: Vec<PathBuf>,
    /// Confirms that this kind of signature on this device may be overwritten: `/dev/sdb=ext4`, `/dev/sdb=LVM2_member`, or
    /// `/dev/sdb=unknown-data` for data without a known signature. What fsdyno itself made there needs no such word.
    #[arg(long, value_name = "DEVICE=KIND")]
    pub overwrite: Vec<String>,
    /// Lets the plan set this sysctl although it is none of those that filesystem benchmarks vary. A plan from a stranger
    /// may take over the machine with one: `kernel.core_pattern` names a program that root runs.
    #[arg(long, value_name = "KEY")]
    pub allow_sysctl: Vec<String>,
    /// Go on with an interrupted sweep of the same plan: the latest, or the one named.
    #[arg(long, value_name = "SWEEP", num_args = 0..=1, default_missing_value = "latest")]
    pub resume: Option<String>,
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Kernels that take the place of the plan's.
#[derive(Debug, Args)]
pub struct Kernels {
    /// A kernel to run the plan on, in a virtual machine unless it is `host`: `debian:6.1`, the release of an installed one,
    /// or the image of a build, `NAME=arch/x86/boot/bzImage`. Given several times, the kernel is an axis.
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Vec<String>,
    /// The modules of an image, a directory that `make modules_install INSTALL_MOD_PATH=DIR` has filled; the first is that
    /// of the first image, and so on.
    #[arg(long, value_name = "DIR", requires = "kernel")]
    pub modules: Vec<PathBuf>,
}

/// Options of `fsdyno plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// The plan, a TOML file.
    pub plan: PathBuf,
    /// Changes a key of the plan, as in `fsdyno sweep`.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub kernels: Kernels,
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Options of `fsdyno list`.
#[derive(Debug, Args)]
pub struct List {
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Options of `fsdyno show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Number or name of a sweep [default: the latest].
    pub sweep: Option<String>,
    /// Only these cases: the name of a configuration, levels such as `scheduler=bfq`, or a text that names contain.
    #[arg(long, value_name = "CASE")]
    pub case: Option<String>,
    /// Only the summary across cases.
    #[arg(long)]
    pub summary: bool,
    /// What the machine did meanwhile, as `iostat -x` and `top` show it: averages over the windows, or every sample.
    #[arg(
        long,
        value_name = "DETAIL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "averages",
        conflicts_with = "summary"
    )]
    pub telemetry: Option<Detail>,
    /// Rank by this measure instead of the plan's: `read`, `first-byte-p999`, `phase/role/operation/statistic`.
    #[arg(long, value_name = "MEASURE")]
    pub measure: Option<String>,
    /// In this layout instead: `published` is that of the study which the plan names with `study = "..."`; `bonnie-csv`
    /// is what bon_csv2html reads.
    #[arg(long = "as", value_name = "LAYOUT", conflicts_with_all = ["summary", "measure", "telemetry"])]
    pub layout: Option<Layout>,
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Another layout of the results of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// As its study printed them.
    Published,
    /// The lines of 50 fields that bon_csv2html reads, one for each trial of the workload bonnie.
    BonnieCsv,
}

/// Options of `fsdyno report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Number or name of a sweep [default: the latest].
    pub sweep: Option<String>,
    /// Where to write it; `-` is stdout [default: NAME-NUMBER.html, here].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Rank by this measure instead of the plan's: `read`, `first-byte-p999`, `phase/role/operation/statistic`.
    #[arg(long, value_name = "MEASURE")]
    pub measure: Option<String>,
}

/// Options of `fsdyno compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The base: SWEEP, SWEEP/CASE, or published:NAME. SWEEP is a number, a name or `latest`; CASE is the name of a
    /// configuration, levels such as `kernel=6.12`, or a text that names contain.
    #[arg(value_name = "A", default_value = "latest")]
    pub first: String,
    /// What is held against it, in the same words. Two cases of one sweep are compared within its blocks.
    #[arg(value_name = "B", required_unless_present = "with")]
    second: Option<String>,
    /// B as an option, for the latest sweep: `fsdyno compare --with published:NAME`.
    #[arg(long, value_name = "B", conflicts_with = "second")]
    with: Option<String>,
    /// Only this measure; may be given several times [default: the named measures that both sides have, those of making,
    /// mounting, unmounting and checking left out]. The fewer, the smaller the differences that can be found.
    #[arg(long, value_name = "MEASURE")]
    pub measure: Vec<String>,
    /// A difference of up to this share does not matter.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    pub threshold: f64,
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

impl Compare {
    /// What is held against the base, however it was given.
    pub fn second(&self) -> &str {
        self.second.as_ref().or(self.with.as_ref()).map_or("", String::as_str)
    }
}

/// Options of `fsdyno export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Number or name of a sweep [default: the latest].
    pub sweep: Option<String>,
    /// Only these cases: the name of a configuration, levels such as `scheduler=bfq`, or a text that names contain.
    #[arg(long, value_name = "CASE")]
    pub case: Option<String>,
    /// Which table. Without it, and without --directory, JSON is the one document of `show --format json`.
    #[arg(long, value_name = "TABLE")]
    pub kind: Option<TableKind>,
    /// How the table is written.
    #[arg(long, default_value = "csv")]
    pub format: TableFormat,
    /// Writes a file for each table (or for the one of --kind) into this directory, instead of stdout; it is made where it
    /// is missing.
    #[arg(short, long, value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

/// A tidy table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableKind {
    /// A row for each trial, with every named measure.
    Trials,
    /// A row for each operation of each role of each phase.
    Operations,
    /// A row for each interval of each operation's timeline.
    Timeline,
    /// A row for each device in each sample of the machine.
    Telemetry,
}

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// With a header.
    Csv,
    /// An array of objects, a line each.
    Json,
    /// Typed columns; in an fsdyno that was built with `--features parquet`.
    Parquet,
}

/// Options of `fsdyno import`.
#[derive(Debug, Args)]
pub struct Import {
    /// Who wrote the files.
    pub format: ImportFormat,
    /// The files; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Name of the sweep [default: that of the first file].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Name of the configuration that all files are trials of [default: what the files say, else their own names].
    #[arg(long, value_name = "NAME")]
    pub configuration: Option<String>,
}

/// Who wrote the files to import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Tables in the layout of FsOpBench (2009), also those that fsdyno prints.
    #[value(name = "fsopbench")]
    FsOpBench,
    /// fio with --output-format=json or json+; a trial for each file.
    Fio,
    /// Lines of bonnie++ 1.03 to 2.00; a trial for each line.
    BonnieCsv,
}

/// A percentage as a share from 0 to 1.
fn share(text: &str) -> Result<f64, UnitError> {
    match text.parse::<Size>() {
        Ok(Size::Percent(percent)) => Ok(percent / 100.0),
        _ => Err(UnitError::Percent(text.to_string())),
    }
}

/// Options of `fsdyno recommend`.
#[derive(Debug, Args)]
pub struct Recommend {
    /// Number or name of a sweep [default: the latest].
    pub sweep: Option<String>,
    /// What the choice is for: `throughput`, `latency`, `stalls`, `cpu`, or a measure such as `read-under-write` [default:
    /// the plan's measure].
    #[arg(long = "for", value_name = "GOAL")]
    pub goal: Option<String>,
    /// A difference up to this does not matter.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    pub threshold: f64,
    /// Only the cases whose configuration contains this text.
    #[arg(long, value_name = "TEXT")]
    pub case: Option<String>,
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// How much of the telemetry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Detail {
    /// Averages over the windows.
    Averages,
    /// Every sample of every trial.
    Samples,
}

/// Options of `fsdyno profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// The directory to scan.
    pub directory: PathBuf,
    /// Where to write the model [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `fsdyno doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The shape of what goes to stdout.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Options of `fsdyno reference`.
#[derive(Debug, Args)]
pub struct Reference {
    /// An existing directory; its pages are written anew.
    pub directory: PathBuf,
}

/// Options of `fsdyno restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// Shows the systemd unit that does this whenever the machine starts, and writes it once that is confirmed; nothing is
    /// restored now.
    #[arg(long)]
    pub install_unit: bool,
    /// Confirms writing the unit.
    #[arg(long, requires = "install_unit")]
    pub yes: bool,
}
