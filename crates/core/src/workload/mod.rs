//! Workloads as a plan describes them and the engine executes them: one file each, and a line in
//! `workloads!`.

pub mod bonnie;
pub mod collection;
pub mod commit_log;
pub mod device_read;
pub mod durability;
pub mod external;
pub mod fault;
mod fields;
pub mod fileserver;
pub mod flow;
pub mod io_errors;
pub(crate) mod measures;
mod naming;
pub mod null;
pub mod parameter;
pub mod part;
pub mod postmark;
pub mod ramp;
pub mod rereads;
pub mod scan;
pub mod steady;
pub mod steps;
pub mod streaming;
pub mod table;

pub use bonnie::Bonnie;
pub use collection::{Collection, CollectionSize};
pub use commit_log::CommitLog;
pub use device_read::DeviceRead;
pub use durability::Durability;
pub use external::{External, JobFile, Program};
pub use fileserver::Fileserver;
pub use flow::{
    Act, Arrivals, Choice, FileSet, FileSize, Flags, Flow, FlowRole, FlowStep, LatencyTarget, Pace, Rate,
    RateSearch,
};
pub use io_errors::IoErrors;
pub use measures::OwnMeasure;
pub use null::Null;
pub use postmark::{Postmark, SizeRange};
pub use ramp::Ramp;
pub use rereads::Rereads;
pub use scan::Scan;
pub use steady::{Excursion, Steady};
pub use steps::{PhaseSpec, StepIndex};
pub use streaming::{IoEngine, Stage, Streaming};
pub use table::Table;

use crate::units::{Bytes, Nanos};
use crate::warning::{Warning, WarningKind};
use parameter::{Listed, Literal, ParameterError, Parameters, Refusal, Shorthand, Surroundings};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of workers in one role.
pub(crate) const MAX_WORKERS: u32 = 1024;
/// The longest ramp, window or wait: a week.
const LONGEST: Nanos = Nanos::from_secs(7 * 24 * 3600);
/// Largest buffer of one read or write.
pub(crate) const MAX_IO_SIZE: Bytes = Bytes(64 * Bytes::MIB);
/// Direct I/O must be aligned to this.
pub(crate) const DIRECT_ALIGNMENT: u64 = 4 * Bytes::KIB;

/// The facts that a sweep must know about a workload in order to check, plan and monitor it.
pub trait Load {
    /// Checks that the parameters are valid, individually and in combination.
    ///
    /// # Errors
    /// The first that is not.
    fn check(&self) -> Result<(), Refusal>;
    /// Total size of the files created before the phases.
    fn prepares(&self) -> Bytes;
    /// The files that its readers go through again within a phase, and that must therefore not be in memory;
    /// `None` if there are none.
    fn rereads(&self) -> Option<Rereads> {
        None
    }
    /// The most space that the phases use in addition; `u64::MAX` if only the free space limits it.
    fn writes(&self) -> Bytes;
    /// The space that it is certain to need on its device: a device with less is too small. What only the
    /// free space limits is not part of it.
    fn least_space(&self) -> Bytes {
        match (self.prepares(), self.writes()) {
            (prepared, Bytes(u64::MAX)) => prepared,
            (prepared, written) => Bytes(prepared.0.saturating_add(written.0)),
        }
    }
    /// Bytes moved by the phases that last until their work is done.
    fn moves(&self) -> Bytes {
        Bytes(0)
    }
    /// The same if its memory is limited, which decides about sizes that follow from the memory.
    fn moves_within(&self, _memory: Option<Bytes>) -> Bytes {
        self.moves()
    }
    /// The phases that last for a given time.
    fn timing(&self) -> Timing;
    /// Returns the time that it takes besides, on an assumed machine: work that follows the load.
    fn follows(&self) -> Nanos {
        Nanos(0)
    }
    /// Of its phases in their order, whether each begins to read what was there before, so that the state of
    /// the caches decides what it measures. Empty if none does.
    fn cold(&self) -> Vec<bool> {
        Vec::new()
    }
    /// The number of parts, between which the filesystem is unmounted and mounted again if possible.
    fn parts(&self) -> u32 {
        1 + self.cold().into_iter().filter(|cold| *cold).count() as u32
    }
    /// Returns whether the first part only prepares what the others use, and measures nothing.
    fn prepares_apart(&self) -> bool {
        self.cold().first() == Some(&true)
    }
    /// One line for the head of a table, beginning with the kind.
    fn title(&self) -> String;
    /// Parameters of short runs, as a plan has them, whose operations `selfcheck` compares with those that
    /// the kernel saw; empty if there are none to compare.
    fn short_runs(&self) -> &'static [&'static str];
    /// A plan key that sets several parameters.
    fn shorthand(&self) -> Option<Shorthand> {
        None
    }
    /// The measure that a plan ranks by unless it sets one.
    fn default_measure(&self) -> &'static str;
    /// The measures with a short name that only it has, and the program that it is modelled on.
    fn measures(&self) -> Vec<OwnMeasure> {
        Vec::new()
    }
    /// The measure of the amount of work done.
    fn throughput(&self) -> &'static str {
        "throughput"
    }
    /// The measure of worst-case operation latency: p99.9 of the operations that people wait for; `None` if
    /// no operation is timed.
    fn latency(&self) -> Option<String> {
        None
    }
    /// The measures that must not become worse unnoticed while another one is ranked.
    fn guards(&self) -> Vec<String> {
        self.latency().into_iter().collect()
    }
    /// Returns the description of the work, a line for each part, if the kind does not say that already.
    fn in_words(&self) -> Vec<String> {
        Vec::new()
    }
    /// Parameters that have no effect as the others are, and what they would need.
    fn without_effect(&self) -> Vec<(&'static [&'static str], &'static str)> {
        Vec::new()
    }
    /// Returns whether the data that it reads is compared with what was written, and everything is read again
    /// at its end.
    fn verifies(&self) -> bool {
        false
    }
    /// The memory that its workers allocate for data and lists, without what the kernel keeps in its caches.
    fn memory(&self) -> Bytes {
        Bytes(0)
    }
    /// Returns the requirements on the machine besides a filesystem.
    fn needs(&self) -> &'static [Need] {
        &[]
    }
}

/// A requirement that a machine may not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Requests through io_uring(7).
    IoUring,
    /// A block device below the filesystem.
    Device,
    /// A device of its own that records every write, so one that fsdyno makes on this machine.
    Recorder,
    /// An external program.
    Program(crate::Tool),
}

/// The phases that last for a given time, as opposed to those that last until their work is done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// The number of these phases.
    pub windows: u32,
    /// Load before each window.
    pub ramp: Ramp,
    /// The measured part.
    pub window: Nanos,
    /// The time to wait for operations in flight at the end of the window.
    pub drain_limit: Nanos,
}

impl Timing {
    /// A ramp and its window, at most.
    pub const fn each(&self) -> Nanos {
        Nanos(self.ramp.longest().0.saturating_add(self.window.0))
    }

    /// Ramps and windows together, at most.
    pub fn total(&self) -> Nanos {
        Nanos(self.each().0.saturating_mul(self.windows.into()))
    }
}

/// The statements of an imported result that decide what its figures can be compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stated {
    /// The version of the program.
    pub version: Option<String>,
    /// The options of the work by name, without those that say where it was done; empty if unknown.
    pub options: BTreeMap<String, String>,
}

/// Declares the workloads once: variant, and name in plans and results. A plan cannot name imported ones.
macro_rules! workloads {
    (
        $($(#[$doc:meta])* $variant:ident = $name:literal,)*;
        imported $($(#[$other_doc:meta])* $other:ident = $other_name:literal,)*
    ) => {
        /// A workload with all its parameters.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", content = "parameters")]
        pub enum Workload {
            $($(#[$doc])* #[serde(rename = $name)] $variant($variant),)*
            $($(#[$other_doc])* #[serde(rename = $other_name)] $other($other),)*
        }

        impl Workload {
            /// The kinds that a plan may name.
            pub const KINDS: &'static [&'static str] = &[$($name),*];

            /// A workload of this kind with its default parameters.
            pub fn of_kind(kind: &str) -> Option<Workload> {
                match kind {
                    $($name => Some(Workload::$variant($variant::default())),)*
                    _ => None,
                }
            }

            /// The name in plans and results.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Workload::$variant(_) => $name,)*
                    $(Workload::$other(_) => $other_name,)*
                }
            }

            /// Returns the facts that a sweep must know about it.
            pub fn load(&self) -> &dyn Load {
                match self {
                    $(Workload::$variant(parameters) => parameters,)*
                    $(Workload::$other(parameters) => parameters,)*
                }
            }

            fn parameters(&self) -> &dyn Parameters {
                match self {
                    $(Workload::$variant(parameters) => parameters,)*
                    $(Workload::$other(parameters) => parameters,)*
                }
            }

            fn parameters_mut(&mut self) -> &mut dyn Parameters {
                match self {
                    $(Workload::$variant(parameters) => parameters,)*
                    $(Workload::$other(parameters) => parameters,)*
                }
            }
        }
    };
}

workloads! {
    /// Readers of trees of small files, then writers alongside them (FsOpBench, 2009).
    Fileserver = "fileserver",
    /// Large files written and read sequentially, and blocks of them in random order (aiod, aio-stress).
    Streaming = "streaming",
    /// A large file in chunks and at random positions, then many small files (bonnie++ 2.00).
    Bonnie = "bonnie",
    /// A pool of small files, transactions on it, and its removal (PostMark 1.5).
    Postmark = "postmark",
    /// A benchmark program or an application: bonnie++, postmark, fio and others.
    External = "external",
    /// A collection of files, written, read, copied and deleted (RAID 1 study, 2008).
    Collection = "collection",
    /// Records written to log files and synced one by one (what databases do).
    CommitLog = "commit-log",
    /// Reads of the block device below the filesystem (`hdparm -tT`).
    DeviceRead = "device-read",
    /// A tree that is walked again and again (what a backup or `du` does when nothing has changed).
    Scan = "scan",
    /// Promises made on a disk that records every write, and what power cuts leave of them.
    Durability = "durability",
    /// Requests to a disk that fail, and what applications are told and read.
    IoErrors = "io-errors",
    /// A load that is data: file sets, and roles that perform lists of steps on them.
    Flow = "flow",
    /// Everything that a workload does except the syscall: the cost of the tool itself.
    Null = "null",
    ;
    imported
    /// Whatever a table has the figures of.
    Table = "table",
}

impl Workload {
    /// Returns the kind of work that its figures are about: its own kind, and for an external program the
    /// workload that is modelled on it.
    pub const fn model(&self) -> &'static str {
        match self {
            Workload::External(external) => external.program.model(),
            own => own.kind(),
        }
    }

    /// Returns the statements in the file of an imported result.
    pub const fn stated(&self) -> Option<&Stated> {
        match self {
            Workload::External(external) => external.imported.as_ref(),
            Workload::Fileserver(fileserver) => fileserver.imported.as_ref(),
            _ => None,
        }
    }

    /// Returns whether both do the same work: external programs with the same options, whatever their
    /// versions and the names of their job files; other workloads with the same parameters.
    pub fn does_same_as(&self, other: &Workload) -> bool {
        match (self, other) {
            (Workload::External(a), Workload::External(b)) if a.options().is_some() => {
                a.program == b.program && a.options() == b.options()
            }
            _ => self == other,
        }
    }

    /// Checks that the parameters are valid: each workload's own rules, and those of all.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), Refusal> {
        self.load().check()?;
        let Timing { ramp, window, drain_limit, .. } = self.load().timing();
        for (parameter, time) in [("ramp", ramp.longest()), ("window", window), ("drain_limit", drain_limit)]
        {
            Refusal::unless(time <= LONGEST, parameter, format!("at most {LONGEST}"))?;
        }
        Ok(())
    }

    /// Sets a parameter from a value in a plan.
    ///
    /// # Errors
    /// Why the value was rejected.
    pub fn set(
        &mut self,
        name: &str,
        literal: &Literal,
        surroundings: &dyn Surroundings,
    ) -> Result<(), ParameterError> {
        self.parameters_mut().set(name, literal, surroundings)
    }

    /// One warning for each parameter that was changed and has no effect as the others are.
    pub fn idle_parameters(&self) -> Vec<Warning> {
        let usual = Workload::of_kind(self.kind()).map(|usual| usual.list()).unwrap_or_default();
        let changed: BTreeSet<&str> = self
            .list()
            .iter()
            .zip(&usual)
            .filter(|(own, usual)| own.value != usual.value)
            .map(|(own, _)| own.name)
            .collect();
        let idle = self.load().without_effect().into_iter();
        let idle = idle.flat_map(|(names, needs)| names.iter().map(move |name| (name, needs)));
        idle.filter(|(name, _)| changed.contains(**name))
            .map(|(name, needs)| {
                let text = format!("'{name}' of workload '{}' has no effect: it needs {needs}", self.kind());
                Warning::new(WarningKind::NoEffect, text)
            })
            .collect()
    }

    /// Every parameter with its value, in the order of declaration.
    pub fn list(&self) -> Vec<Listed> {
        self.parameters().list()
    }
}

/// The parameters whose need is not met.
fn unmet_needs(
    rules: impl IntoIterator<Item = (bool, &'static [&'static str], &'static str)>,
) -> Vec<(&'static [&'static str], &'static str)> {
    rules.into_iter().filter(|(is_met, ..)| !is_met).map(|(_, names, needs)| (names, needs)).collect()
}

fn plural(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn check_workers(parameter: &'static str, workers: u32) -> Result<(), Refusal> {
    let expected = format!("a whole number from 1 to {MAX_WORKERS}");
    Refusal::unless((1..=MAX_WORKERS).contains(&workers), parameter, expected)
}

fn check_io_size(parameter: &'static str, size: Bytes, direct: bool) -> Result<(), Refusal> {
    let sensible = size > Bytes(0) && size <= MAX_IO_SIZE;
    Refusal::unless(sensible, parameter, format!("a size from 1 to {MAX_IO_SIZE}"))?;
    let aligned = !direct || size.0.is_multiple_of(DIRECT_ALIGNMENT);
    Refusal::unless(aligned, parameter, "a multiple of 4k for direct I/O")
}

/// Assumed rate at which files are read again, in bytes per second.
const ASSUMED_READ_RATE: u64 = 200_000_000;

/// Returns the time that it takes to read this many bytes again at the end of a verified load.
const fn reread_time(bytes: Bytes) -> Nanos {
    Nanos::from_secs(bytes.0 / ASSUMED_READ_RATE)
}

/// Returns the description of a verified load in a plan.
fn verified_in_words(verify: bool, also: &str) -> Vec<String> {
    let words = format!(
        "verify: every byte that is read is compared with what was written; at the end, after unmounting and \
         mounting, {also} is read again; a wrong byte fails the trial"
    );
    if verify { vec![words] } else { Vec::new() }
}

/// The same for a load that removes everything that it has created.
fn verified_and_gone_in_words(verify: bool) -> Vec<String> {
    let words = "verify: every byte that is read is compared with what was written; at the end, after \
                 unmounting and mounting, every file must be gone; a wrong byte fails the trial";
    if verify { vec![words.to_string()] } else { Vec::new() }
}

/// Blocks of zeros look the same whoever wrote them, and even if nobody did.
fn check_verify(verify: bool, content: &Content) -> Result<(), Refusal> {
    let tells = !verify || *content != Content::Zeros;
    Refusal::unless(tells, "verify", "false with content = \"zeros\", which looks the same wherever it is")
}

fn check_content(content: &Content) -> Result<(), Refusal> {
    let sensible = !matches!(content, Content::Compressible(share) if !(0.0..=1.0).contains(share));
    Refusal::unless(sensible, "content", "compressible by a factor from 0 to 1")
}

/// File contents. No two files share a block, unless they contain only zeros.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Incompressible.
    Random,
    /// Zeros only.
    Zeros,
    /// This share of each block, 0 to 1, is zeros.
    Compressible(f64),
}

/// The source of file sizes and directory shapes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeModel {
    /// Home directories as the 2009 tables imply them: mean 38 KB, 10.8 files per directory.
    Home,
    /// Agrawal et al., "Generating Realistic Impressions for File-System Benchmarking", FAST 2009.
    Impressions,
    /// Scanned from a real directory by `fsdyno profile`.
    Profile(Box<Profile>),
}

impl TreeModel {
    /// The name in plans and results.
    pub fn name(&self) -> &str {
        match self {
            TreeModel::Home => "home",
            TreeModel::Impressions => "impressions",
            TreeModel::Profile(_) => "profile",
        }
    }
}

/// The shape of a real directory tree: four histograms, nothing that identifies its owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Regular files scanned.
    pub files: u64,
    /// Directories scanned, the top one included.
    pub directories: u64,
    /// Sum of the sizes of regular files, in bytes.
    pub bytes: u64,
    /// Names and directories that could not be read and so are missing.
    #[serde(default)]
    pub unreadable: u64,
    /// Files by size in bytes.
    pub file_size_bytes: Vec<Bin>,
    /// Directories by the number of regular files in them.
    pub files_per_directory: Vec<Bin>,
    /// Directories by the number of directories in them.
    pub directories_per_directory: Vec<Bin>,
    /// Regular files by depth below the top (1: directly in it).
    pub depth: Vec<Bin>,
    /// Regular files by the length of their names in bytes.
    pub name_length_bytes: Vec<Bin>,
    /// The compressibility of the files; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressible: Option<Compressibility>,
}

/// The compressibility of files, estimated from a sample of their blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compressibility {
    /// The share of the bytes that compressing saves, as in `content = { compressible = SHARE }`.
    pub share: f64,
    /// The standard error of the share.
    pub standard_error: f64,
    /// The number of blocks that were read.
    pub blocks: u64,
}

/// One bin of a histogram: values from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bin {
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
    /// The number of values in the bin.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_have_a_measure() {
        for kind in Workload::KINDS {
            let workload = Workload::of_kind(kind).unwrap();
            assert_eq!(workload.kind(), *kind);
            // A flow is nothing before a plan says what it is.
            assert_eq!(workload.check().is_ok(), *kind != "flow", "{kind}");
            assert!(workload.load().default_measure().parse::<crate::Measure>().is_ok(), "{kind}");
        }
    }

    #[test]
    fn every_parameter_is_listed_and_stored_under_its_name() {
        for kind in Workload::KINDS {
            let workload = Workload::of_kind(kind).unwrap();
            let value = serde_json::to_value(&workload).unwrap();
            let parameters = value["parameters"].as_object().unwrap();
            let mut stored: Vec<&str> = parameters.keys().map(String::as_str).collect();
            let mut listed: Vec<&str> = workload.list().iter().map(|listed| listed.name).collect();
            stored.sort_unstable();
            listed.sort_unstable();
            assert_eq!(stored, listed);
            assert_eq!(serde_json::from_value::<Workload>(value).unwrap(), workload);
        }
    }
}
