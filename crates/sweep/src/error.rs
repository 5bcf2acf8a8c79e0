//! The problems that a plan can have, and where they are.
//!
//! Only the first problem is reported: its place in the file or on the command line, the line itself, what
//! was expected, the nearest known word, and the next step in [`PlanError::hint`]. Nothing here looks at the
//! system.

use fsdyno_core::Nanos;
use fsdyno_core::axis::AxisError;
use fsdyno_core::measure::MeasureError;
use fsdyno_core::units::UnitError;
use fsdyno_core::workload::parameter::ShorthandError;
use fsdyno_verdict::race::BudgetError;
use fsdyno_verdict::text::{plural, rough};
use std::fmt;

/// Where a plan is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In the file as a whole: something is missing.
    File {
        /// Name of the file.
        file: String,
    },
    /// At a place in the file.
    Line {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The line as written.
        text: String,
        /// The number of characters from the column that are wrong, at least 1.
        width: usize,
    },
    /// In an argument of `--set`.
    Argument {
        /// As typed.
        argument: String,
    },
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File { file } => f.write_str(file),
            Location::Line { file, line, column, .. } => write!(f, "{file}:{line}:{column}"),
            Location::Argument { argument } => write!(f, "--set '{argument}'"),
        }
    }
}

impl Location {
    /// The line with a mark below the wrong word; empty if there is no line.
    fn excerpt(&self) -> String {
        let Location::Line { line, column, text, width, .. } = self else { return String::new() };
        let number = line.to_string();
        let blank = " ".repeat(number.len());
        let before = " ".repeat(column - 1);
        format!("\n  {number} | {text}\n  {blank} | {before}{}", "^".repeat(*width))
    }
}

/// Why a plan was rejected.
///
/// The text is one line that begins with the place, followed by the wrong line if there is one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{location}: {problem}{}", location.excerpt())]
pub struct PlanError {
    /// The problem.
    pub problem: Box<PlanProblem>,
    /// Where.
    pub location: Box<Location>,
}

impl PlanError {
    /// The next step for the user, if there is an obvious one.
    pub fn hint(&self) -> Option<&'static str> {
        match *self.problem {
            PlanProblem::Read { .. } => Some("fsdyno plans lists the plans that come with fsdyno"),
            PlanProblem::NoDevice => {
                Some("add a scratch image: [device] with image = \"/var/tmp/fsdyno.img\" and size = \"8G\"")
            }
            PlanProblem::NoWorkload => Some("add a [[workloads]] table with kind = \"fileserver\""),
            PlanProblem::NoFilesystem => Some(
                "add filesystem = [\"ext4\", \"xfs\"] to [axes], or a [[configurations]] table with a \
                 filesystem",
            ),
            PlanProblem::NoJournalDevice { .. } | PlanProblem::UnknownJournal { .. } => Some(
                "define one: [device.journals] with disk = { image = \"/var/tmp/fsdyno-journal.img\", size = \
                 \"128M\" }",
            ),
            PlanProblem::AmbiguousJournal { .. } => Some("write external:NAME to choose one"),
            PlanProblem::TooManyCases { .. } | PlanProblem::TooManyTrials { .. } => Some(
                "vary fewer axes, use fewer levels, or list only the configurations of interest as \
                 [[configurations]]",
            ),
            PlanProblem::OverrideSyntax => {
                Some("write PATH=VALUE, for example --set device.size=1G or --set workloads.window=2s")
            }
            PlanProblem::ShareOfUnknown { .. } => Some("write an absolute size, for example 20G"),
            PlanProblem::UnknownKernel { .. } => Some(
                "use host, debian:6.1 or the release of an installed kernel, or define it: [kernels] mine = \
                 { image = \"bzImage\", modules = \"DIR\" }",
            ),
            PlanProblem::NotElsewhere { .. } => Some("change it, or remove the table of other machines"),
            PlanProblem::NotServed { .. } => {
                Some("see docs/guide/clients.md; nfs-server is a plan that has it")
            }
            PlanProblem::NoReuse { .. } => Some("remove reuse, or keep what fits it in a plan of its own"),
            PlanProblem::NotInGuests { .. } => Some(
                "remove it, or the kernels other than host; before_trial and after_trial run on this machine \
                 for trials in guests, too",
            ),
            PlanProblem::KernelName { .. } => Some("choose another name"),
            PlanProblem::Contradiction { .. } => Some("remove one of the settings"),
            PlanProblem::BudgetWithoutRace => Some("add protocol = \"race\", or --race on the command line"),
            PlanProblem::MostWithoutAuto => {
                Some("write repetitions = \"auto\", or the number of repetitions itself")
            }
            PlanProblem::AutoOfRecorded => Some("write a number, such as repetitions = 3"),
            PlanProblem::AutoForZeros { .. } => {
                Some("write a number, such as repetitions = 6, or name another measure")
            }
            PlanProblem::NotInRace { key: "time_limit" } => Some("write budget = \"24h\" instead"),
            PlanProblem::NotInRace { .. } => Some(
                "a race decides itself how often each configuration is measured; budget = 200 limits its \
                 trials",
            ),
            PlanProblem::RaceOfWorkloads { .. } => {
                Some("keep one of them, and race for each in a plan of its own")
            }
            PlanProblem::RaceForZeros { .. } => {
                Some("name another measure, or leave out protocol = \"race\"")
            }
            PlanProblem::RaceOfLoads { .. } => {
                Some("keep one of its levels, and race for each in a plan of its own")
            }
            PlanProblem::Race(BudgetError::TooSmall { .. }) | PlanProblem::RaceTooShort { .. } => {
                Some("allow more, or use fewer levels in [axes]")
            }
            PlanProblem::Race(_) => Some("add levels to [axes], or more [[configurations]]"),
            PlanProblem::Axis(AxisError::SysctlKey { .. }) => {
                Some("write the name as sysctl(8) prints it, for example \"sysctl.vm.dirty_ratio\" = [5, 20]")
            }
            _ => None,
        }
    }
}

/// A problem of a plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanProblem {
    /// A name that a sweep cannot have.
    #[error("{0}")]
    SweepName(#[from] fsdyno_core::sweep_name::NameError),
    /// A command of the user at phases that run in a virtual machine.
    #[error("'{key}' does not run in a guest, which trials on kernel '{kernel}' need")]
    NotInGuests {
        /// The key.
        key: &'static str,
        /// The kernel of the first guest.
        kernel: String,
    },
    /// Something that only this machine can do, with `[clients]` or `[fleet]`.
    #[error("not possible {place}: {reason}")]
    NotElsewhere {
        /// `on clients`, `in a fleet`.
        place: &'static str,
        /// What, and why.
        reason: String,
    },
    /// `[serve]` with a plan whose filesystem cannot be shown to clients.
    #[error("[serve] is not possible: {reason}")]
    NotServed {
        /// Why.
        reason: String,
    },
    /// `reuse` where nothing can be prepared once for several trials.
    #[error("reuse = \"prepared\" is not possible: {reason}")]
    NoReuse {
        /// Why.
        reason: String,
    },
    /// A reserved name in `[kernels]`.
    #[error("kernel name '{name}' is reserved")]
    KernelName {
        /// The name.
        name: String,
    },
    /// An unknown level of the axis `kernel`.
    #[error(
        "unknown kernel '{name}'{}",
        nearest.as_ref().map(|word| format!("; did you mean '{word}'?")).unwrap_or_default()
    )]
    UnknownKernel {
        /// As written.
        name: String,
        /// The nearest known one.
        nearest: Option<String>,
    },
    /// The file cannot be read.
    #[error("cannot read the plan: {reason}")]
    Read {
        /// The operating system's words.
        reason: String,
    },
    /// Not valid TOML.
    #[error("{message}")]
    Syntax {
        /// The parser's words.
        message: String,
    },
    /// `--set` without a path or a value.
    #[error("expected PATH=VALUE")]
    OverrideSyntax,
    /// `--set` with a path through something that is not a table.
    #[error("cannot set '{path}': '{at}' is {found}")]
    OverridePath {
        /// The path.
        path: String,
        /// The part of it that could be followed.
        at: String,
        /// A description of the value there.
        found: String,
    },
    /// No such key.
    #[error("unknown key '{key}' in {section}{}", did_you_mean(nearest, known))]
    UnknownKey {
        /// As written.
        key: String,
        /// The table it stands in.
        section: String,
        /// The keys that it may have.
        known: Vec<String>,
        /// The nearest of them.
        nearest: Option<String>,
    },
    /// A value of another type than expected, or out of its range.
    #[error("'{key}' must be {expected}{}", instead(found))]
    Value {
        /// The key.
        key: String,
        /// A description of the values that it may have.
        expected: String,
        /// A description of the value that was found.
        found: String,
    },
    /// An unknown word.
    #[error("unknown {what} '{word}'{}", did_you_mean(nearest, known))]
    UnknownWord {
        /// The kind of word.
        what: &'static str,
        /// As written.
        word: String,
        /// The known ones.
        known: Vec<String>,
        /// The nearest of them.
        nearest: Option<String>,
    },
    /// An invalid size or duration.
    #[error("'{key}': {error}")]
    Unit {
        /// The key.
        key: String,
        /// The problem with the value.
        error: UnitError,
    },
    /// Invalid words of another program.
    #[error("'{key}': {error}")]
    Shorthand {
        /// The key.
        key: String,
        /// The problem with the words.
        error: ShorthandError,
    },
    /// A parameter that two keys set, or that one sets twice.
    #[error("'{parameter}' is set twice, by '{first}' and by '{second}'")]
    GivenTwice {
        /// The parameter.
        parameter: String,
        /// The key that comes first in the order of the alphabet.
        first: String,
        /// The other one; the same when it sets the parameter twice.
        second: String,
    },
    /// An unknown axis or level.
    #[error("{0}")]
    Axis(AxisError),
    /// An unknown measure.
    #[error("{0}")]
    Measure(MeasureError),
    /// A missing key.
    #[error("missing key '{key}' in {section}")]
    Missing {
        /// The table.
        section: String,
        /// The key.
        key: &'static str,
    },
    /// No device.
    #[error("the plan defines no device")]
    NoDevice,
    /// No workload.
    #[error("the plan defines no workload")]
    NoWorkload,
    /// Neither `axes.filesystem` nor a configuration.
    #[error("the plan defines no filesystem and no configuration")]
    NoFilesystem,
    /// Keys that exclude each other, or none of those of which one is needed.
    #[error(
        "{section} needs exactly one of {}; found {}",
        known.join(", "),
        if found.is_empty() { "none".to_string() } else { found.join(" and ") }
    )]
    ExactlyOne {
        /// The table.
        section: String,
        /// The keys of which one is needed.
        known: Vec<String>,
        /// Those that are there.
        found: Vec<String>,
    },
    /// A key that does not apply in combination with another one.
    #[error("'{key}' does not apply to '{beside}'")]
    Pointless {
        /// The key.
        key: String,
        /// The other one.
        beside: String,
    },
    /// An axis that none of the relevant filesystems has.
    #[error("axis '{axis}' applies to {takes}, not to {filesystems}")]
    AxisNotForFilesystem {
        /// The axis.
        axis: String,
        /// The filesystems that have it.
        takes: String,
        /// The filesystems of the plan, the nested table or the configuration.
        filesystems: String,
    },
    /// An axis without levels.
    #[error("axis '{axis}' has no levels")]
    NoLevels {
        /// The axis.
        axis: String,
    },
    /// Two levels that mean the same.
    #[error("axis '{axis}' lists level '{level}' twice")]
    LevelTwice {
        /// The axis.
        axis: String,
        /// The level, in canonical form.
        level: String,
    },
    /// Two configurations with the same name.
    #[error("two configurations are named '{name}'")]
    NameTwice {
        /// The name.
        name: String,
    },
    /// An external journal and no device for it.
    #[error("journal '{level}' needs a device in [device.journals], but none is defined")]
    NoJournalDevice {
        /// The level.
        level: String,
    },
    /// An external journal on a device that the plan does not name.
    #[error("unknown journal device '{name}'{}", did_you_mean(nearest, known))]
    UnknownJournal {
        /// As written.
        name: String,
        /// Those that the plan names.
        known: Vec<String>,
        /// The nearest of them.
        nearest: Option<String>,
    },
    /// An external journal, and several devices for it.
    #[error("journal 'external' is ambiguous: it could be on any of {}", known.join(", "))]
    AmbiguousJournal {
        /// Those that the plan names.
        known: Vec<String>,
    },
    /// Two devices of the plan are the same.
    #[error("'{path}' is used for two devices")]
    SameDevice {
        /// The path.
        path: String,
    },
    /// Settings that no machine can have together.
    #[error("configuration '{name}' contradicts itself: {}", reasons.join("; "))]
    Contradiction {
        /// The configuration.
        name: String,
        /// Every contradiction.
        reasons: Vec<String>,
    },
    /// A percentage of a device whose size the plan does not state.
    #[error("'{key}' is a percentage of the device, but the plan does not say how large the device is")]
    ShareOfUnknown {
        /// The key.
        key: String,
    },
    /// Too many cases.
    #[error("the plan has {count} cases; the limit is {limit}")]
    TooManyCases {
        /// The number of cases.
        count: u128,
        /// The limit.
        limit: u128,
    },
    /// Too many trials.
    #[error("the plan has {count} trials; the limit is {limit}")]
    TooManyTrials {
        /// The number of trials.
        count: u128,
        /// The limit.
        limit: u128,
    },
    /// A file that cannot be used.
    #[error("cannot use file '{path}': {reason}")]
    Profile {
        /// Its path.
        path: String,
        /// Why.
        reason: String,
    },
    /// A `budget` in a plan that is not a race.
    #[error("'budget' requires 'protocol = \"race\"'")]
    BudgetWithoutRace,
    /// A maximum of what is not counted by the answer.
    #[error("'max_repetitions' requires 'repetitions = \"auto\"'")]
    MostWithoutAuto,
    /// The losses from power cuts and errors are a share of cuts, judged by other rules.
    #[error("'repetitions = \"auto\"' needs a load that is measured, and the plan has none")]
    AutoOfRecorded,
    /// A measure that is often 0 has no ratios to decide by.
    #[error("'repetitions = \"auto\"' cannot decide by '{measure}', which is 0 in good configurations")]
    AutoForZeros {
        /// The measure.
        measure: String,
    },
    /// A key that says how often to measure what a race decides itself.
    #[error("'{key}' does not apply to 'protocol = \"race\"'")]
    NotInRace {
        /// The key.
        key: &'static str,
    },
    /// A race over several workloads, each of which has an answer of its own.
    #[error("a race has one workload, but the plan has {count}")]
    RaceOfWorkloads {
        /// The number of workloads.
        count: usize,
    },
    /// A race in which a condition of the load varies.
    #[error("a race has one load, but '{what}' has several values")]
    RaceOfLoads {
        /// The axis, or the key.
        what: &'static str,
    },
    /// A race for a measure that is often 0, which has no logarithm.
    #[error("a race cannot be for '{measure}', which is 0 in good configurations")]
    RaceForZeros {
        /// The measure.
        measure: String,
    },
    /// A budget that is too small, or too few configurations.
    #[error("{0}")]
    Race(BudgetError),
    /// A budget of time in which not even the windows of the shortest race fit.
    #[error(
        "a budget of {time} is too short: a race of {configurations} configurations needs {}, whose windows \
         alone take {}",
        plural(u64::from(*least), "trial"), rough(*needed)
    )]
    RaceTooShort {
        /// The budget.
        time: Nanos,
        /// The number of configurations.
        configurations: usize,
        /// Trials of the shortest race.
        least: u32,
        /// The time of its ramps and windows.
        needed: Nanos,
    },
    /// A flow that cannot be performed.
    #[error("{message}")]
    Flow {
        /// A description of the problem.
        message: String,
    },
}

/// The end of an error about a value: what the plan has instead, if anything.
fn instead(found: &str) -> String {
    if found.is_empty() { String::new() } else { format!(", not {found}") }
}

/// The nearest known word as a question, or else all of them.
fn did_you_mean(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(word) => format!("; did you mean '{word}'?"),
        None if known.is_empty() => String::new(),
        None => format!("; expected one of {}", known.join(", ")),
    }
}

impl PlanProblem {
    /// A word that is not among the known ones.
    pub(crate) fn unknown_word(what: &'static str, word: &str, known: &[&str]) -> Self {
        PlanProblem::UnknownWord {
            what,
            word: word.to_string(),
            known: known.iter().map(|word| (*word).to_string()).collect(),
            nearest: fsdyno_core::nearest(word, known.iter().copied()).map(str::to_string),
        }
    }
}
