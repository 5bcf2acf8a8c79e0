//! Options of the commands that show, watch and compare results, and the formats of all output.

use clap::{Args, ValueEnum};
use fsdyno_core::units::{Size, UnitError};

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// One JSON document with a schema version.
    Json,
    /// Tidy rows with a header line.
    Csv,
    /// Markdown, to paste into an issue or a wiki.
    Markdown,
    /// JUnit's XML, which CI systems show as test results.
    Junit,
}

/// The output format of what has no table of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// Text for people.
    Text,
    /// One JSON document with a schema version.
    Json,
}

/// Options of `fsdyno show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Number or name of the sweep [default: the latest].
    pub sweep: Option<String>,
    /// Only these cases, in full: the name of a configuration, levels such as `scheduler=bfq`, or part of a
    /// name.
    #[arg(long, value_name = "CASE")]
    pub case: Option<String>,
    /// Print every configuration, note and warning, and after them every case in full: its table, and every
    /// operation with its percentiles.
    #[arg(long)]
    pub full: bool,
    /// Print every configuration, note and warning.
    #[arg(long)]
    pub notes: bool,
    /// After the summary, print the table of every case as its study or program prints it.
    #[arg(long)]
    pub tables: bool,
    /// Print only the summary, which is the default.
    #[arg(long, hide = true, conflicts_with_all = ["full", "tables", "notes"])]
    pub summary: bool,
    /// Print what the machine did during the run, as `iostat -x` and `top` show it: averages over the
    /// windows, or every sample.
    #[arg(
        long,
        value_name = "DETAIL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "averages",
        conflicts_with_all = ["summary", "full", "tables"]
    )]
    pub telemetry: Option<Detail>,
    /// Print what each trial did to the machine: commands, mounts and settings, with how long each took. The
    /// JSON always contains it (`log`).
    #[arg(long, conflicts_with_all = ["summary", "full", "tables", "telemetry"])]
    pub log: bool,
    /// Rank by this measure instead of the plan's: `read`, `first-byte-p999`,
    /// `phase/role/operation/statistic`.
    #[arg(long, value_name = "MEASURE")]
    pub measure: Option<String>,
    /// Use another layout: `published` is that of the study that the plan names with `study = "..."`;
    /// `bonnie-csv` is the input of bon_csv2html.
    #[arg(long = "as", value_name = "LAYOUT", conflicts_with_all = ["summary", "full", "tables", "measure", "telemetry", "log"])]
    pub layout: Option<Layout>,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

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

/// Another layout of the results of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// The layout of the published study.
    Published,
    /// One line for each trial of the workload bonnie, in the format of bon_csv2html.
    BonnieCsv,
}

/// Options of `fsdyno compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The baseline: SWEEP, SWEEP/CASE or published:NAME. SWEEP is a number, a name or `latest`; CASE is the
    /// name of a configuration, levels such as `kernel=6.12`, or part of a name.
    #[arg(value_name = "A", default_value = "latest")]
    pub first: String,
    /// The side to compare with the baseline, in the same form. Two cases of one sweep are compared within
    /// its blocks.
    #[arg(value_name = "B", required_unless_present = "with")]
    second: Option<String>,
    /// B as an option, to compare with the latest sweep: `fsdyno compare --with published:NAME`.
    #[arg(long, value_name = "B", conflicts_with = "second")]
    with: Option<String>,
    /// Compare only this measure; can be repeated [default: the named measures that both sides have, except
    /// the times of mkfs, mount, unmount and check]. With fewer measures, smaller differences can be
    /// detected.
    #[arg(long, value_name = "MEASURE")]
    pub measure: Vec<String>,
    /// The largest difference that does not matter.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    pub threshold: f64,
    /// Print the notes and warnings of both sides.
    #[arg(long)]
    pub notes: bool,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: Format,
}

impl Compare {
    /// Side B, however it was given.
    pub fn second(&self) -> &str {
        self.second.as_ref().or(self.with.as_ref()).map_or("", String::as_str)
    }
}

/// The amount of telemetry to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Detail {
    /// Averages over each window.
    Averages,
    /// Every sample of every trial.
    Samples,
}

/// A percentage as a share from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, UnitError> {
    match text.parse::<Size>() {
        Ok(Size::Percent(percent)) => Ok(percent / 100.0),
        _ => Err(UnitError::Percent(text.to_string())),
    }
}
