//! The command line: the one definition that parsing, help and the reference documentation come from.

#[cfg(test)]
mod examples;

mod durability;
mod hidden;
mod launching;
mod paths;
mod plans;
mod race;
mod results;
mod stored;

pub use durability::{Durability, StateName};
pub use hidden::{Application, ApplicationStep, Verify};
pub use launching::{Agent, Elsewhere, Launching, Sharing};
pub use paths::{InputPath, OutputPath};
pub use plans::{Disks, Plans, Profile, Quick};
pub use race::{Race, Racing};
pub use results::{Compare, Detail, DocumentFormat, Format, Layout, Show, Then, Watch};
pub use stored::{Better, Delete, Import, ImportFormat, Note, Pack, Rename, Results, TableKind, Unpack};

use crate::say;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use fsdyno_core::workload::Ramp;
use fsdyno_core::{Bytes, Nanos};
use fsdyno_sweep::MoreBlocks;
use results::share;

/// Benchmark Linux filesystems on this machine: which one, with which settings, works best for a workload?
///
/// fsdyno builds every candidate on a scratch device, runs competing readers and writers on it, times every
/// single operation, and reports the results with confidence intervals. It never writes to a block device
/// that you did not name and confirm.
#[derive(Debug, Parser)]
#[command(
    name = "fsdyno",
    version = env!("FSDYNO_VERSION"),
    propagate_version = true,
    arg_required_else_help = true,
    after_help = START_HERE
)]
pub struct Cli {
    /// Directory for results and undo journals [default: $XDG_STATE_HOME/fsdyno if that is set, else
    /// /var/lib/fsdyno for root]. Root accepts only a directory that nobody else can write to.
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<OutputPath>,

    /// The results database [default: results.db in the --state directory].
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<OutputPath>,

    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,

    #[command(flatten)]
    pub loudness: Loudness,

    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The first steps of a new user.
const START_HERE: &str = "\
Start here:
  fsdyno doctor             what this machine can run, and what to install for the rest
  fsdyno bench DIR          measure a directory as it is; needs no root
  sudo fsdyno quick DIR     which filesystem is best here, in 15 minutes; or a block device
  fsdyno plans              the plans that come with fsdyno, ready to run or to edit
  fsdyno plan PLAN          what a sweep would do, without doing it
  sudo fsdyno sweep PLAN    do it; then fsdyno recommend says what to choose";

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

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

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure a directory as it is: needs no root, formats nothing, takes about a minute.
    #[command(after_help = "\
Examples:
  fsdyno bench /srv/data
  fsdyno bench /srv/mail --flow varmail
  fsdyno bench /srv/data --window 30s --format json")]
    Bench(Bench),
    /// Run a plan: build every configuration, measure it and store the results.
    #[command(after_help = "\
Examples:
  fsdyno plan demo && sudo fsdyno sweep demo              a plan that comes with fsdyno
  sudo fsdyno sweep PLAN --destroy /dev/disk/by-id/...    the plan names a real disk
  sudo fsdyno sweep PLAN --for 15m                        fitted to a quarter of an hour
  sudo fsdyno sweep PLAN --race --budget 24h              a race: drops configurations early
  sudo fsdyno sweep PLAN --resume                         continue after an interruption
  sudo fsdyno sweep --more 1h                             add blocks to the latest sweep until it decides
  sudo fsdyno sweep --more 10 SWEEP                       add ten blocks to a sweep in the store")]
    Sweep(Sweep),
    /// Watch the running sweep from another terminal: where it is, what leads, what stalls now.
    #[command(after_help = "\
Examples:
  fsdyno watch                      the running sweep; q leaves, and the sweep goes on
  fsdyno watch --then pause         asks it to pause after the trial in progress
  fsdyno watch 3                    how sweep 3 ended")]
    Watch(Watch),
    /// Find out in a given time which of the usual filesystems is best on a device, without writing a plan.
    #[command(after_help = "\
Examples:
  sudo fsdyno quick /var/tmp                            on an image that is created there
  sudo fsdyno quick /dev/sdb --destroy /dev/sdb         on a disk: everything on it is lost
  sudo fsdyno quick /var/tmp --for 1h --save mine.toml  writes the plan, to edit it")]
    Quick(Quick),
    /// Measure what the configurations of a plan lose at a power cut, on a disk that records every write.
    #[command(after_help = "\
Examples:
  sudo fsdyno durability durability        a plan that comes with fsdyno
  sudo fsdyno durability PLAN --cuts 300   your own plan; its device is not touched
  sudo fsdyno durability --show 3/1/12     mounts the disk after cut 12 of sweep 3, trial 1")]
    Durability(Durability),
    /// Show what a plan would do: every case and command, the time and space needed, and what is in the way.
    #[command(after_help = "\
Examples:
  fsdyno plan demo
  fsdyno plan mine.toml --set repetitions=6 --format json
  fsdyno plan mine.toml --race --budget 200")]
    Plan(Plan),
    /// List the plans that come with fsdyno, print one, or save it to edit it.
    #[command(after_help = "\
Examples:
  fsdyno plans
  fsdyno plans which-filesystem --save       writes which-filesystem.toml
  sudo fsdyno sweep which-filesystem         runs it as it is")]
    Plans(Plans),
    /// List the models of disks that come with fsdyno, explain one, or save it to edit it.
    #[command(after_help = "\
Examples:
  fsdyno disks
  fsdyno disks sata-7200-2009                what it consists of, and who says so
  sudo fsdyno sweep which-filesystem --set device.model=sata-7200-2009")]
    Disks(Disks),
    /// List the stored sweeps.
    #[command(after_help = "\
Examples:
  fsdyno list
  fsdyno list --check               whether every trial of every sweep can be read")]
    List(List),
    /// Show the results of a sweep.
    #[command(after_help = "\
Examples:
  fsdyno show                       the latest sweep
  fsdyno show 3 --format csv        sweep 3, for a spreadsheet")]
    Show(Show),
    /// Write the results of a sweep as one self-contained HTML file.
    #[command(
        after_help = "Examples:\n  fsdyno report                     writes one HTML file and prints its name"
    )]
    Report(Report),
    /// Compare two sweeps, two cases, or a sweep with published figures; exit code 1 if the second is slower.
    #[command(after_help = "\
Examples:
  fsdyno compare 3 4                sweep 4 against sweep 3; exit code 1 if it is slower")]
    Compare(Compare),
    /// Recommend a configuration: what to choose, how certain that is, what it costs and how to build it.
    #[command(after_help = "\
Examples:
  fsdyno recommend                  for the latest sweep, by the plan's measure
  fsdyno recommend 3 --for stalls")]
    Recommend(Recommend),
    /// Show a race, finished or not: its pick, how much better any other can be, and what was dropped when
    /// and why. Or replay one on the trials of a sweep.
    #[command(after_help = "\
Examples:
  fsdyno race 4                                 a sweep that was a race
  fsdyno race --replay 3                        what a race would have cost and picked
  fsdyno race --replay mine --budget 90 --format json")]
    Race(Race),
    /// Commands that change stored results.
    #[command(flatten)]
    Results(Results),
    /// Export the results of a sweep as tidy tables, for data frames and databases.
    #[command(after_help = "Examples:\n  fsdyno export 3 --directory tables")]
    Export(Export),
    /// Scan a directory into a model of its file sizes and shape, for use in a plan.
    #[command(after_help = "Examples:\n  fsdyno profile /srv/data -o data.json")]
    Profile(Profile),
    /// List what this machine can run, and what to install for the rest.
    #[command(after_help = "Examples:\n  fsdyno doctor")]
    Doctor(Doctor),
    /// Check fsdyno's own figures against the kernel's tracepoints: one short run of each load.
    #[command(after_help = "Examples:\n  sudo fsdyno selfcheck")]
    Selfcheck(Selfcheck),
    /// Undo what an interrupted sweep left on this machine.
    #[command(after_help = "Examples:\n  sudo fsdyno restore")]
    Restore(Restore),
    /// Print a script that completes fsdyno's command line in a shell.
    #[command(after_help = "\
Examples:
  fsdyno completions bash > ~/.local/share/bash-completion/completions/fsdyno")]
    Completions(Completions),
    /// Write the man pages, completions and the boot unit of an installation.
    #[command(hide = true)]
    Package(Package),
    /// Write the reference documentation into a directory.
    #[command(hide = true)]
    Reference(Reference),
    /// The engine: a request on stdin, events on stdout.
    #[command(hide = true)]
    Engine,
    /// The application of the workload `io-errors`: what it is told, as one line of JSON.
    #[command(hide = true)]
    Application(Application),
    /// The verifier: what a power cut has left of the workload `durability`, as one line of JSON.
    #[command(hide = true)]
    Verify(Verify),
    /// The agent: steps on this machine, requested on stdin, or the load of a client.
    #[command(hide = true)]
    Agent(Agent),
    /// The process that records a disk.
    #[command(hide = true)]
    Recorder,
    /// The guardian of a command of a plan, which is requested on stdin.
    #[command(hide = true)]
    Guardian,
    /// The first process of a virtual machine.
    #[command(hide = true)]
    Guest,
}

/// Options of `fsdyno bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// An existing directory on the filesystem to measure.
    pub directory: OutputPath,
    /// Measure a flow instead of `fileserver`: one that `fsdyno plans` lists, or a plan that has one.
    #[arg(long, value_name = "FLOW", conflicts_with = "tree_size")]
    pub flow: Option<String>,
    /// Total size of all trees [default: depends on the free space].
    #[arg(long, value_name = "SIZE")]
    pub tree_size: Option<Bytes>,
    /// Length of the measured part of each phase [default: 8s].
    #[arg(long, value_name = "DURATION")]
    pub window: Option<Nanos>,
    /// Duration of the load before each window, or `until-throttled` [default: 4s].
    #[arg(long, value_name = "DURATION")]
    pub ramp: Option<Ramp>,
    /// Limit the memory of the load and of the page cache that it fills [default: 64M as root, none for a
    /// flow].
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Set any parameter of the workload, as in a plan: `readers=8`, `tree=impressions`, `direct=true`.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Number of machines that --launch starts; each has workers and trees of its own.
    #[arg(long, value_name = "COUNT", requires = "launch", value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: Option<u32>,
    #[command(flatten)]
    pub launching: Launching,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Options of `fsdyno sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// The plan: a TOML file, `-` for stdin, or the name of one that `fsdyno plans` lists. With --more, a
    /// sweep in the store instead: its number or name; the latest one if absent.
    #[arg(required_unless_present_any = ["resume", "more"])]
    pub plan: Option<InputPath>,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub racing: Racing,
    #[command(flatten)]
    pub confirmed: Confirmed,
    #[command(flatten)]
    pub sharing: Sharing,
    /// Fit the plan to this time: the number of repetitions, then windows and trees. `fsdyno plan PLAN --for
    /// TIME` shows what is chosen.
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with_all = ["resume", "race", "budget"])]
    pub time: Option<Nanos>,
    /// Continue an interrupted sweep of the plan, with the changes (--set and the like) that it was begun
    /// with: the latest one, or the one named. Without a plan, the sweep's own is used.
    #[arg(long, value_name = "SWEEP", num_args = 0..=1, default_missing_value = "latest")]
    pub resume: Option<String>,
    /// Add blocks to a sweep that has ended: so many (`10`), or those that fit into a time (`1h`), which then
    /// ends as soon as the answer is decided. Its plan, its devices and its kernel must be the same.
    #[arg(
        long,
        value_name = "BLOCKS|TIME",
        conflicts_with_all = ["resume", "time", "race", "budget", "set", "memory", "kernel", "modules"]
    )]
    pub more: Option<MoreBlocks>,
    /// Show the sweep as `fsdyno watch` does instead of progress lines. Leaving that screen leaves the sweep
    /// running; Ctrl-C stops it.
    #[arg(long)]
    pub watch: bool,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

/// Options that confirm what may be destroyed or set.
#[derive(Debug, Default, Args)]
pub struct Confirmed {
    /// Confirm that everything on this block device, which the plan names, will be lost.
    #[arg(long, value_name = "DEVICE")]
    pub destroy: Vec<InputPath>,
    /// Confirm that this kind of signature on this device may be overwritten: `/dev/sdb=ext4`,
    /// `/dev/sdb=LVM2_member`, or `/dev/sdb=unknown-data` for data without a known signature. What fsdyno
    /// itself created needs no confirmation.
    #[arg(long, value_name = "DEVICE=KIND")]
    pub overwrite: Vec<String>,
    /// Allow the plan to set this sysctl, although filesystem benchmarks do not usually vary it. Do not allow
    /// what you do not know in a plan from a stranger: `kernel.core_pattern`, for example, names a program
    /// that root runs.
    #[arg(long, value_name = "KEY")]
    pub allow_sysctl: Vec<String>,
    /// Allow the commands of the plan, `[hooks]` and `monitor`, to run. They may do anything that you may:
    /// read them first. A sweep of a plan that has any is refused without this option, and shows them.
    #[arg(long)]
    pub allow_hooks: bool,
}

/// Options that change the plan.
#[derive(Debug, Args)]
pub struct Overrides {
    /// Change a key of the plan: `device.size=1G`, `repetitions=1`, `workloads.window=2s`.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Limit the memory of the load and of the page cache that it fills: `512M`. Needs root.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Kernel to run the plan on, in a virtual machine unless it is `host`: `debian:6.1`, the release of an
    /// installed kernel, or the image of your own build, `NAME=arch/x86/boot/bzImage`. Repeat the option to
    /// compare kernels.
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Vec<String>,
    /// Modules of a kernel image: the directory filled by `make modules_install INSTALL_MOD_PATH=DIR`. The
    /// first --modules belongs to the first image, and so on.
    #[arg(long, value_name = "DIR", requires = "kernel")]
    pub modules: Vec<InputPath>,
}

/// Options of `fsdyno plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// The plan: a TOML file, `-` for stdin, or the name of one that `fsdyno plans` lists.
    pub plan: InputPath,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub racing: Racing,
    /// Assume that the sweep is given this option, too; nothing is run now.
    #[arg(long)]
    pub allow_hooks: bool,
    /// Fit the plan to this time, as `fsdyno sweep` would.
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with_all = ["race", "budget"])]
    pub time: Option<Nanos>,
    /// Print the plan with sizes and memory with which its sweep would answer, and its comments; what is
    /// changed, and why, is on stderr.
    #[arg(long, conflicts_with_all = ["set", "memory", "kernel", "modules", "race", "budget", "time", "format"])]
    pub fix: bool,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: DocumentFormat,
}

/// A time that something may take.
fn time(text: &str) -> Result<Nanos, String> {
    match text.parse() {
        Ok(Nanos(0)) => Err("no time at all; examples: 15m, 1h".to_string()),
        Ok(time) => Ok(time),
        Err(_) => Err(format!("'{text}' is not a valid duration; examples: 15m, 1h")),
    }
}

/// Options of `fsdyno list`.
#[derive(Debug, Args)]
pub struct List {
    /// Read every trial, and name the damaged ones.
    #[arg(long)]
    pub check: bool,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: DocumentFormat,
}

/// Options of `fsdyno report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Number or name of the sweep [default: the latest].
    pub sweep: Option<String>,
    /// Output file; `-` is stdout [default: NAME-NUMBER.html in the current directory].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OutputPath>,
    /// Rank by this measure instead of the plan's: `read`, `first-byte-p999`,
    /// `phase/role/operation/statistic`.
    #[arg(long, value_name = "MEASURE")]
    pub measure: Option<String>,
}

/// Options of `fsdyno export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Number or name of the sweep [default: the latest].
    pub sweep: Option<String>,
    /// Only these cases: the name of a configuration, levels such as `scheduler=bfq`, or part of a name.
    #[arg(long, value_name = "CASE")]
    pub case: Option<String>,
    /// Table to export. Without this option and --directory, JSON is the same document as `show --format
    /// json`.
    #[arg(long, value_name = "TABLE")]
    pub kind: Option<TableKind>,
    /// Output format.
    #[arg(long, default_value = "csv")]
    pub format: TableFormat,
    /// Write one file per table (or only that of --kind) to this directory instead of stdout; the directory
    /// is created if necessary.
    #[arg(short, long, value_name = "DIRECTORY")]
    pub directory: Option<OutputPath>,
}

/// The format of an exported table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// CSV with a header line.
    Csv,
    /// An array of objects, one per line.
    Json,
    /// Typed columns.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// Options of `fsdyno recommend`.
#[derive(Debug, Args)]
pub struct Recommend {
    /// Number or name of the sweep [default: the latest].
    pub sweep: Option<String>,
    /// The goal: `throughput`, `latency`, `stalls`, `cpu`, or a measure such as `read-under-write` [default:
    /// the plan's measure].
    #[arg(long = "for", visible_alias = "measure", value_name = "GOAL")]
    pub goal: Option<String>,
    /// The largest difference that does not matter.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    pub threshold: f64,
    /// Only cases whose configuration contains this text.
    #[arg(long, value_name = "TEXT")]
    pub case: Option<String>,
    /// Print every configuration, note and warning, and after them the effect of each setting and the
    /// trade-offs.
    #[arg(long)]
    pub full: bool,
    /// Print every configuration, note and warning.
    #[arg(long)]
    pub notes: bool,
    /// Print how to build this configuration [default: the winner, if there is one].
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: DocumentFormat,
}

/// Options of `fsdyno doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Measure, in about a minute, whether it matters how the images of this plan are made.
    #[arg(long, value_name = "PLAN")]
    pub device: Option<InputPath>,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: DocumentFormat,
}

/// Options of `fsdyno selfcheck`.
#[derive(Debug, Args)]
pub struct Selfcheck {
    /// Where to create the scratch image, of 512 MiB, which is removed at the end.
    #[arg(long, value_name = "FILE", default_value = "/var/tmp/fsdyno-selfcheck.img")]
    pub image: OutputPath,
    /// Show every row, not only those that disagree and a summary of each phase.
    #[arg(long)]
    pub all: bool,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: DocumentFormat,
}

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

/// Options of `fsdyno reference`.
#[derive(Debug, Args)]
pub struct Reference {
    /// An existing directory; its pages are overwritten.
    pub directory: OutputPath,
}

/// Options of `fsdyno restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// Show a systemd unit that runs restore at every boot, and install it after confirmation; nothing is
    /// restored now.
    #[arg(long)]
    pub install_unit: bool,
    /// Install the unit without asking.
    #[arg(long, requires = "install_unit")]
    pub yes: bool,
}
