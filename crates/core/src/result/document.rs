//! The serialised form of a trial: its public JSON, and the part of it that the store keeps.
//!
//! Within a version of the documents that contain trials, keys are only added. Times are nanoseconds, sizes
//! bytes, shares 0 to 1. Fields that are derived from others but that a reader needs (the kernel of the
//! configuration, the columns of iostat) are written, and ignored when read.

use super::{
    Built, CheckResult, CommandRun, Durability, FaultResult, Filled, Layout, Lifecycle, LogEntry,
    PhaseResult, Recipe, RoleResult, Served, TimerFacts, TreeSummary, TrialRecord,
};
use crate::configuration::Configuration;
use crate::device::DeviceSpec;
use crate::environment::Environment;
use crate::outcome::{Failure, Outcome};
use crate::reached::ReadAgain;
use crate::warning::Warning;
use crate::workload::Workload;
use serde::de::{Deserializer, Error as _};
use serde::ser::{Error as _, SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

impl Serialize for TrialRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // All fields by name, so that a new one cannot be forgotten.
        let TrialRecord {
            trial,
            block,
            case,
            sentinel,
            machine,
            seed,
            configuration,
            device,
            workload,
            outcome,
            warnings,
            timer,
            lifecycle_ns,
            built,
            environment,
            commands,
            trees,
            filled,
            layout,
            read_again,
            phases,
            durability,
            io_errors,
            columns,
            started,
            finished,
        } = self;
        let none = Vec::new();
        let (unmet, error) = match outcome {
            Outcome::Measured => (&none, None),
            Outcome::Skipped { unmet } => (unmet, None),
            Outcome::Failed { error } => (&none, Some(error)),
        };
        let mut document = serializer.serialize_struct("TrialRecord", 31)?;
        document.serialize_field("trial", trial)?;
        document.serialize_field("block", block)?;
        document.serialize_field("case", case)?;
        document.serialize_field("sentinel", sentinel)?;
        match machine {
            Some(name) => document.serialize_field("machine", name)?,
            None => document.skip_field("machine")?,
        }
        document.serialize_field("seed", seed)?;
        document.serialize_field("started", started)?;
        document.serialize_field("finished", finished)?;
        document.serialize_field(
            "configuration",
            &Configured::new(configuration, device, built, &environment.kernel),
        )?;
        document.serialize_field("workload", &Parameterised(Cow::Borrowed(workload)))?;
        document.serialize_field("outcome", outcome.word())?;
        document.serialize_field("unmet", unmet)?;
        document.serialize_field("error", &error)?;
        document.serialize_field("warnings", warnings)?;
        document.serialize_field("timer", timer)?;
        document.serialize_field("lifecycle_ns", lifecycle_ns)?;
        document.serialize_field("check", &built.check)?;
        match &built.prepared_in {
            Some(trial) => document.serialize_field("prepared_in", trial)?,
            None => document.skip_field("prepared_in")?,
        }
        match &built.served {
            Some(served) => document.serialize_field("served", served)?,
            None => document.skip_field("served")?,
        }
        document.serialize_field("recipe", &built.recipe)?;
        document.serialize_field("log", &built.log)?;
        document.serialize_field("commands", commands)?;
        document.serialize_field("filled", filled)?;
        document.serialize_field("layout", layout)?;
        match read_again {
            Some(read) => document.serialize_field("read_again", read)?,
            None => document.skip_field("read_again")?,
        }
        document.serialize_field("trees", trees)?;
        document.serialize_field("environment", environment)?;
        document.serialize_field("phases", phases)?;
        match durability {
            Some(found) => document.serialize_field("durability", found)?,
            None => document.skip_field("durability")?,
        }
        match &io_errors[..] {
            [] => document.skip_field("io_errors")?,
            results => document.serialize_field("io_errors", results)?,
        }
        match columns.is_empty() {
            true => document.skip_field("columns")?,
            false => document.serialize_field("columns", columns)?,
        }
        document.end()
    }
}

/// The configuration in one place: as the plan asks for it, and as the tools and the kernel built it.
#[derive(Serialize, Deserialize)]
struct Configured<'a> {
    name: Cow<'a, str>,
    #[serde(default, skip_deserializing)]
    kernel: &'a str,
    device: Cow<'a, DeviceSpec>,
    filesystem: Cow<'a, str>,
    settings: Cow<'a, BTreeMap<String, String>>,
    mkfs_command: Cow<'a, str>,
    mount_command: Cow<'a, str>,
    mount_options_in_force: Cow<'a, str>,
    scheduler_in_force: Cow<'a, str>,
}

impl<'a> Configured<'a> {
    fn new(
        configuration: &'a Configuration,
        device: &'a DeviceSpec,
        built: &'a Built,
        kernel: &'a str,
    ) -> Self {
        let Configuration { name, filesystem, settings } = configuration;
        let Built {
            mkfs_command,
            mount_command,
            mount_options_in_force,
            scheduler_in_force,
            check: _,
            prepared_in: _,
            served: _,
            recipe: _,
            log: _,
        } = built;
        Configured {
            name: name.into(),
            kernel,
            device: Cow::Borrowed(device),
            filesystem: filesystem.into(),
            settings: Cow::Borrowed(settings),
            mkfs_command: mkfs_command.into(),
            mount_command: mount_command.into(),
            mount_options_in_force: mount_options_in_force.into(),
            scheduler_in_force: scheduler_in_force.into(),
        }
    }
}

/// A workload as its kind and its parameters, with the names from plans.
struct Parameterised<'a>(Cow<'a, Workload>);

#[derive(Serialize, Deserialize)]
struct KindAndParameters {
    kind: String,
    parameters: Map<String, Value>,
}

impl Serialize for Parameterised<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parameters = match serde_json::to_value(&self.0).map_err(S::Error::custom)? {
            Value::Object(parameters) => parameters,
            _ => return Err(S::Error::custom("a workload must be an object")),
        };
        parameters.remove("kind");
        KindAndParameters { kind: self.0.kind().to_string(), parameters }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Parameterised<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let KindAndParameters { kind, mut parameters } = KindAndParameters::deserialize(deserializer)?;
        parameters.insert("kind".to_string(), Value::String(kind));
        let workload = serde_json::from_value(Value::Object(parameters)).map_err(D::Error::custom)?;
        Ok(Parameterised(Cow::Owned(workload)))
    }
}

/// The document from which a [`TrialRecord`] is read.
#[derive(Deserialize)]
pub(super) struct Read {
    trial: u32,
    block: u32,
    case: u32,
    sentinel: bool,
    machine: Option<String>,
    seed: u64,
    started: String,
    finished: String,
    #[serde(bound(deserialize = ""))]
    configuration: Configured<'static>,
    workload: Parameterised<'static>,
    outcome: Ending,
    unmet: Vec<String>,
    error: Option<Failure>,
    warnings: Vec<Warning>,
    timer: Option<TimerFacts>,
    lifecycle_ns: Lifecycle,
    check: Option<CheckResult>,
    prepared_in: Option<u32>,
    #[serde(default)]
    served: Option<Served>,
    #[serde(default)]
    recipe: Option<Recipe>,
    #[serde(default)]
    log: Vec<LogEntry>,
    #[serde(default)]
    commands: Vec<CommandRun>,
    filled: Option<Filled>,
    layout: Option<Layout>,
    #[serde(default)]
    read_again: Option<ReadAgain>,
    trees: TreeSummary,
    environment: Environment,
    phases: Vec<PhaseResult>,
    durability: Option<Durability>,
    #[serde(default)]
    io_errors: Vec<FaultResult>,
    #[serde(default)]
    columns: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Measured,
    Skipped,
    Failed,
}

impl TryFrom<Read> for TrialRecord {
    type Error = &'static str;

    fn try_from(read: Read) -> Result<Self, &'static str> {
        let configured = read.configuration;
        Ok(TrialRecord {
            trial: read.trial,
            block: read.block,
            case: read.case,
            sentinel: read.sentinel,
            machine: read.machine,
            seed: read.seed,
            configuration: Configuration {
                name: configured.name.into_owned(),
                filesystem: configured.filesystem.into_owned(),
                settings: configured.settings.into_owned(),
            },
            device: configured.device.into_owned(),
            workload: read.workload.0.into_owned(),
            outcome: match read.outcome {
                Ending::Measured => Outcome::Measured,
                Ending::Skipped => Outcome::Skipped { unmet: read.unmet },
                Ending::Failed => {
                    Outcome::Failed { error: read.error.ok_or("a trial failed without an error")? }
                }
            },
            warnings: read.warnings,
            timer: read.timer,
            lifecycle_ns: read.lifecycle_ns,
            built: Built {
                mkfs_command: configured.mkfs_command.into_owned(),
                mount_command: configured.mount_command.into_owned(),
                mount_options_in_force: configured.mount_options_in_force.into_owned(),
                scheduler_in_force: configured.scheduler_in_force.into_owned(),
                check: read.check,
                prepared_in: read.prepared_in,
                served: read.served,
                recipe: read.recipe,
                log: read.log,
            },
            environment: read.environment,
            commands: read.commands,
            trees: read.trees,
            filled: read.filled,
            layout: read.layout,
            read_again: read.read_again,
            phases: read.phases,
            durability: read.durability,
            io_errors: read.io_errors,
            columns: read.columns,
            started: read.started,
            finished: read.finished,
        })
    }
}

/// Stalls and shares are null if the workers were not watched.
impl Serialize for RoleResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RoleResult {
            role,
            workers,
            longest_stall_ns: _,
            longest_stall_at_least,
            time_over_100ms,
            time_over_1s,
            blocked_at_start,
            rates,
            cpu,
            reported_cpu_share,
            counts,
            longest_item_ns,
            removing_ns,
            open_loop,
            worker_results,
            operations,
        } = self;
        let watched = |share: &f64| self.is_watched().then_some(*share);
        let mut document = serializer.serialize_struct("RoleResult", 16)?;
        document.serialize_field("role", role)?;
        document.serialize_field("workers", workers)?;
        document.serialize_field("longest_stall_ns", &self.known_stall_ns())?;
        document.serialize_field("longest_stall_at_least", longest_stall_at_least)?;
        document.serialize_field("time_over_100ms", &watched(time_over_100ms))?;
        document.serialize_field("time_over_1s", &watched(time_over_1s))?;
        document.serialize_field("blocked_at_start", blocked_at_start)?;
        document.serialize_field("rates", rates)?;
        document.serialize_field("cpu", cpu)?;
        match reported_cpu_share {
            Some(share) => document.serialize_field("reported_cpu_share", share)?,
            None => document.skip_field("reported_cpu_share")?,
        }
        document.serialize_field("counts", counts)?;
        document.serialize_field("longest_item_ns", longest_item_ns)?;
        match removing_ns {
            Some(spent) => document.serialize_field("removing_ns", spent)?,
            None => document.skip_field("removing_ns")?,
        }
        match open_loop {
            Some(kept_up) => document.serialize_field("open_loop", kept_up)?,
            None => document.skip_field("open_loop")?,
        }
        document.serialize_field("worker_results", worker_results)?;
        document.serialize_field("operations", operations)?;
        document.end()
    }
}
