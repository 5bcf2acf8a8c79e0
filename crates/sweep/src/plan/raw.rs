//! The first stage of a plan: every key and value is interpreted, but nothing is looked up on the system.
//!
//! Each key is treated on its own; [`super::resolve`] handles the combination of axes, contradictions and the
//! content of profiles. What a later stage may still reject keeps its place, or is found by its key.

use super::Serve;
use super::device::{self, RawDevices};
use super::document::{Document, Entry, Node, Origin, Section, Table, Value};
use super::fleet::FleetKeys;
use super::hooks::{self, HookKeys, PlanCommand};
use super::keys::{KeyTable, Keys, table};
use super::protocol::{self, ClientKeys, Protocol, Repetitions, Reuse, ServeKeys};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::axis::{self, Axis, SYSCTL_PREFIX};
use fsdyno_core::filesystem;
use fsdyno_core::kernel::{DEBIAN_PREFIX, HOST_KERNEL};
use fsdyno_core::sweep_name::{self, NameError};
use fsdyno_core::workload::Durability;
use fsdyno_core::{
    AXES, Bytes, CacheState, DiskCache, GuestShape, KernelSpec, Measure, Nanos, RaceBudget, Study, Workload,
};
use fsdyno_testbed::memory::{LEAST, MOST};
use fsdyno_verdict::enough::Enough;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const SHORTEST_QUIESCE: Nanos = Nanos::from_secs(1);
/// The shortest time between samples: how often the engine checks.
const SHORTEST_TELEMETRY: Nanos = Nanos::from_millis(100);
/// The maximum number of processors of a guest.
const MAX_PROCESSORS: u32 = 255;
/// The minimum memory of a guest: enough for fsdyno and a distribution kernel.
const LEAST_MEMORY: Bytes = Bytes(256 * Bytes::MIB);
/// The plan itself as a table, in messages.
pub(super) const PLAN: &str = "the plan";

/// A plan as written.
pub(crate) struct RawPlan<'d> {
    /// The plan itself, which knows the places of its keys.
    pub section: Section<'d>,
    /// The parts that it consists of.
    pub parts: Parts,
    /// The rules by which its trials are run.
    pub rules: Rules,
    /// The workloads, with that of `[durability]`.
    pub workloads: Vec<RawWorkload>,
    /// The number of blocks; the minimum if `enough` is set.
    pub repetitions: u32,
    /// When a case has been repeated enough, if that is not a fixed number.
    pub enough: Option<Enough>,
    /// The budget of the sweep as a race, if it is one.
    pub race: Option<RaceBudget>,
    /// The settings with which clients are shown the filesystem, if they are.
    pub serve: Option<Serve>,
}

table! {
    "the plan", "The top of the file.";
    /// The parts that the sweep consists of.
    #[derive(Debug)]
    pub(crate) struct Parts {
        name: String as "the name of the file", name, "name of the sweep in `list`, reports and file names";
        device: RawDevices as required, device::devices, "required: the scratch device, see `[device]`";
        axes: Vec<RawAxis> = Vec::new(), axes,
            "settings to vary: every combination of their levels is a configuration; see [Axes](#axes)";
        configurations: Vec<RawConfiguration> = Vec::new(), configurations,
            "single configurations, with names, in addition to the combinations of `[axes]`";
        workloads: Vec<RawWorkload> = Vec::new(), workloads,
            "required: one or more loads, each of which runs on every configuration; see \
             [Workloads](#workloads)";
        durability: RawWorkload, durability,
            "what each configuration loses at a power cut, measured after the other loads: the parameters of \
             the workload [`durability`](#durability), or none for its defaults";
        repetitions: Repetitions = Repetitions::Times(1), protocol::repetitions,
            "trials of each case, one per block. `\"auto\"`: as many as the answer needs, at least 4; see \
             [Sweeps that decide by themselves](../guide/auto.md). Or `{ min, max, until }`: repeat until \
             intervals are narrow enough";
        max_repetitions: u32 as "20", protocol::max_repetitions,
            "the most of them with `repetitions = \"auto\"`, 2 or more";
        protocol: Protocol = Protocol::Exhaustive, Section::word,
            "how trials are spent: `\"exhaustive\"`, every case as often, or `\"race\"`, which drops \
             configurations as evidence grows; see [Races](../guide/race.md)";
        budget: RaceBudget as "as many trials as halving needs", protocol::budget,
            "what a race may spend: trials, such as `200` or `\"200 trials\"`, or time, such as `\"24h\"`";
        measure: Measure as "the workload's own", measure,
            "what the summary ranks by, and what `recommend` optimises; see [Measures](#measures)";
        memory: String, memory,
            "memory of the load and of the page cache that it fills, such as `\"512M\"`, wherever the axis \
             `memory` is not set";
        cache: String, cache,
            "what is in memory when a phase begins to read, wherever the axis `cache` is not set: `\"cold\"`, \
             `\"metadata-warm\"` or `\"warm\"`";
        clients: ClientKeys, |plan, key| plan.read_table(key, "[clients]"),
            "run the loads on other machines; see `[clients]`";
        serve: ServeKeys, |plan, key| plan.read_table(key, "[serve]"),
            "show the filesystem to clients; see `[serve]`";
        fleet: FleetKeys, |plan, key| plan.read_table(key, "[fleet]"),
            "machines that share the trials; see `[fleet]`";
        hooks: HookKeys, |plan, key| plan.read_table(key, "[hooks]"),
            "commands to run around trials and phases; see `[hooks]`";
        monitor: Vec<PlanCommand> = Vec::new(), hooks::monitor,
            "commands to run during each phase, such as `[\"perf record -a -o {out}\"]`; needs `--allow-hooks`";
        kernels: BTreeMap<String, KernelSpec> = BTreeMap::new(), kernels,
            "kernels of your own, by name, for the axis `kernel`; see [Kernels](#kernels)";
        guest: GuestShape, guest,
            "the virtual machine of trials on other kernels; see [Kernels](#kernels)";
    }
}

table! {
    "the plan", "The top of the file.";
    /// The keys of a plan that say how all of its trials are run, whatever it consists of.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Rules {
        time_limit: Nanos, |plan, key| plan.time(key, Nanos(1), "greater than zero"),
            "how long the sweep may take, such as `\"15m\"`: it ends after the last block that fits; the \
             first block is always run";
        seed: u64 = 42, |plan, key| plan.integer(key, 0..=u64::MAX),
            "seed of the order of trials, of trees, of contents and of the UUIDs of filesystems";
        telemetry: Option<Nanos> = Some(Nanos::from_secs(1)), telemetry,
            "time between two looks at the counters of /proc and /sys, at least `\"100ms\"`; `false`: none";
        quiesce: Nanos, |plan, key| plan.time(key, SHORTEST_QUIESCE, "at least 1s"),
            "how long to wait before each phase, at most, until the device serves no request for half a second \
             and at most 1 MiB is dirty, such as `\"30s\"`; no wait if absent";
        cooldown: Nanos, |plan, key| plan.time(key, Nanos(1), "greater than zero"),
            "how long to leave the machine alone before each trial, such as `\"30s\"`, in which a disk tidies \
             up after the trial before and gets cool; no pause if absent";
        reuse: Reuse = Reuse::None, Section::word,
            "`\"prepared\"`: what mkfs makes and the load prepares is made once in a block, and copied for \
             each configuration that differs only in how it is mounted or its disks are driven, instead of \
             `\"none\"`; see [Preparing once](../guide/workloads.md#preparing-once-for-several-trials-reuse)";
        watchdog: Nanos = Nanos::from_secs(60), |plan, key| plan.time(key, Nanos(1), "greater than zero"),
            "how long an engine may make no progress beyond the expected duration of its stage before the \
             trial is given up";
        study: Study, Section::word,
            "the published study that the plan repeats; `show --as published` then uses its layout";
    }
}

table! {
    "[kernels] NAME", "A kernel of your own for `kernel = \"NAME\"`.";
    pub(super) struct KernelKeys {
        image: PathBuf as required, file,
            "required: the file `arch/x86/boot/bzImage` of a kernel build, relative to the plan";
        modules: PathBuf, file, "the directory filled by `make modules_install INSTALL_MOD_PATH=DIR`";
    }
}

table! {
    "[guest]", "The virtual machine in which every kernel except `host` runs.";
    pub(super) struct GuestKeys {
        processors: u32 = GuestShape::default().processors, |table, key| table.integer(key, 1..=MAX_PROCESSORS),
            "number of processors";
        memory: Bytes = GuestShape::default().memory, guest_memory, "memory size, at least 256M";
        cache: DiskCache = GuestShape::default().cache, Section::word,
            "how the virtual machine caches its disks, as QEMU calls it: `none`, `writeback` or `unsafe`";
        snapshot: bool = GuestShape::default().snapshot, Section::boolean,
            "whether an emulated guest resumes from a snapshot of one that has booted, instead of booting \
             itself";
    }
}

table! {
    "[[configurations]]",
    "A single configuration: `filesystem`, any other axis with one level, and these keys.";
    pub(super) struct ConfigurationKeys {
        name: String as required, configuration_name, "required: its name in tables";
        note: String, sentence, "a note that is shown with its results";
        impossible: String, sentence, "why it cannot be built today; its trials are skipped with this reason";
    }
}

/// The keys of the plan itself, for the reference.
pub(super) fn plan_table() -> KeyTable {
    let mut plan = Parts::table();
    plan.keys.extend(Rules::table().keys);
    plan
}

/// An axis with its levels, everywhere or within one filesystem.
#[derive(Debug)]
pub(crate) struct RawAxis {
    pub name: String,
    pub axis: &'static Axis,
    pub within: Option<&'static str>,
    pub levels: Vec<RawLevel>,
    pub at: Origin,
}

/// A level in canonical form.
#[derive(Debug, Clone)]
pub(crate) struct RawLevel {
    pub text: String,
    pub note: Option<String>,
    pub at: Origin,
}

/// A named configuration.
#[derive(Debug)]
pub(crate) struct RawConfiguration {
    pub name: String,
    pub filesystem: String,
    pub settings: Vec<RawSetting>,
    /// A note to show with its results.
    pub note: Option<String>,
    /// Why it cannot be built today.
    pub impossible: Option<String>,
    pub at: Origin,
}

/// A setting of a named configuration.
pub(crate) type RawSetting = (String, &'static Axis, RawLevel);

/// A workload of a known kind with known keys, whose values may depend on things outside the plan.
#[derive(Debug)]
pub(crate) struct RawWorkload {
    /// Its kind with the default parameters.
    pub workload: Workload,
    /// The table.
    pub node: Node,
    /// The name of the table.
    pub table: &'static str,
}

/// Returns whether `--set ARRAY.KEY=VALUE` refers to this table of the array: of workloads, only to those of
/// a kind that has the key.
pub(crate) fn takes_key(array: &str, table: &Table, key: &str) -> bool {
    let kind = table.get("kind").and_then(|entry| match &entry.node.value {
        Value::String(kind) => Some(kind.as_str()),
        _ => None,
    });
    match (array, kind.and_then(Workload::of_kind)) {
        ("workloads", Some(workload)) => workload_keys(&workload).contains(&key),
        _ => true,
    }
}

/// The key of a workload that says how long its load runs before a window.
pub(super) const RAMP: &str = "ramp";
/// The key that says when its load is steady. It takes the place of [`RAMP`], and sets the same parameter.
pub(super) const STEADY: &str = "steady";

/// The keys of a workload's table.
fn workload_keys(workload: &Workload) -> Vec<&'static str> {
    let shorthand = workload.load().shorthand().map(|shorthand| shorthand.name);
    let parameters: Vec<&str> = workload.list().into_iter().map(|listed| listed.name).collect();
    let steady = parameters.contains(&RAMP).then_some(STEADY);
    std::iter::once("kind").chain(shorthand).chain(parameters).chain(steady).collect()
}

impl<'d> RawPlan<'d> {
    /// Types a parsed document.
    pub fn read(document: &'d Document, root: &'d Node) -> Result<Self, PlanError> {
        let plan = Section::new(document, root, PLAN)?;
        plan.only(&[Parts::NAMES, Rules::NAMES].concat())?;
        if plan.get("device").is_none() {
            return Err(plan.error("device", PlanProblem::NoDevice));
        }
        let (mut parts, rules) = (Parts::read(&plan)?, Rules::read(&plan)?);
        let mut workloads = std::mem::take(&mut parts.workloads);
        workloads.extend(parts.durability.take());
        if workloads.is_empty() {
            return Err(document.error(&Origin::Document, PlanProblem::NoWorkload));
        }
        let (repetitions, enough) = protocol::blocks(&plan, parts.repetitions, parts.max_repetitions)?;
        Ok(RawPlan {
            race: protocol::race(&plan, parts.protocol, parts.budget)?,
            serve: protocol::serve(&plan, parts.serve.as_ref(), parts.clients.as_ref())?,
            section: plan,
            parts,
            rules,
            workloads,
            repetitions,
            enough,
        })
    }

    /// The place of the value of a key.
    pub fn at(&self, key: &str) -> &Origin {
        self.section.at(key)
    }

    /// An error at the value of a key.
    pub fn error(&self, key: &str, problem: PlanProblem) -> PlanError {
        self.section.error(key, problem)
    }

    /// An error at the key of a table.
    pub fn error_in(&self, table: &str, key: &str, problem: PlanProblem) -> PlanError {
        self.section.error_in(table, key, problem)
    }
}

/// The memory of all loads, as a level of the axis.
fn memory(plan: &Section<'_>, key: &'static str) -> Result<Option<String>, PlanError> {
    let memory = plan.unit::<Bytes>(key)?;
    if memory.is_some_and(|memory| !(LEAST..=MOST).contains(&memory)) {
        return Err(plan.refuse(key, format!("a size from {LEAST} to {MOST}")));
    }
    Ok(memory.map(|memory| memory.to_string()))
}

/// Returns the state of the cache when any load begins to read, as a level of the axis.
fn cache(plan: &Section<'_>, key: &'static str) -> Result<Option<String>, PlanError> {
    let cache = plan.string(key)?;
    if cache.is_some_and(|cache| CacheState::named(cache).is_none()) {
        return Err(plan.refuse(key, format!("one of {}", CacheState::NAMES.join(", "))));
    }
    Ok(cache.map(str::to_string))
}

fn measure(plan: &Section<'_>, key: &'static str) -> Result<Option<Measure>, PlanError> {
    let measure = plan.string(key)?.map(str::parse);
    measure.transpose().map_err(|error| plan.error(key, PlanProblem::Measure(error)))
}

fn name(plan: &Section<'_>, key: &'static str) -> Result<Option<String>, PlanError> {
    let valid = plan.string(key)?.map(sweep_name::check);
    Ok(valid.transpose().map_err(|error| plan.error(key, error.into()))?.map(str::to_string))
}

fn file(table: &Section<'_>, key: &'static str) -> Result<Option<PathBuf>, PlanError> {
    Ok(table.string(key)?.map(PathBuf::from))
}

/// The plan's own kernels, by their names on the axis `kernel`.
fn kernels(plan: &Section<'_>, key: &'static str) -> Result<Option<BTreeMap<String, KernelSpec>>, PlanError> {
    let Some(table) = plan.table(key, "[kernels]")? else { return Ok(None) };
    let mut kernels = BTreeMap::new();
    for (name, entry) in table.entries() {
        let own = Section::new(plan.document(), &entry.node, format!("[kernels] {name}"))?;
        let KernelKeys { image, modules } = own.read()?;
        if name == HOST_KERNEL || name.starts_with(DEBIAN_PREFIX) {
            let problem = PlanProblem::KernelName { name: name.to_string() };
            return Err(plan.document().error(&entry.key, problem));
        }
        let name = name.to_string();
        kernels.insert(name.clone(), KernelSpec::Image { name, image, modules });
    }
    Ok(Some(kernels))
}

fn guest_memory(table: &Section<'_>, key: &'static str) -> Result<Option<Bytes>, PlanError> {
    match table.unit(key)? {
        Some(memory) if memory < LEAST_MEMORY => Err(table.refuse(key, format!("at least {LEAST_MEMORY}"))),
        memory => Ok(memory),
    }
}

/// The machine that guests see.
fn guest(plan: &Section<'_>, key: &'static str) -> Result<Option<GuestShape>, PlanError> {
    let keys = plan.read_table::<GuestKeys>(key, "[guest]")?;
    Ok(keys.map(|GuestKeys { processors, memory, cache, snapshot }| GuestShape {
        processors,
        memory,
        cache,
        snapshot,
    }))
}

/// Every axis; nested ones with the filesystem that they apply to.
fn axes(plan: &Section<'_>, key: &'static str) -> Result<Option<Vec<RawAxis>>, PlanError> {
    let Some(table) = plan.table(key, "[axes]")? else { return Ok(None) };
    let document = plan.document();
    let mut axes = Vec::new();
    for (key, entry) in table.entries() {
        match filesystem::find(key).map(|filesystem| filesystem.name) {
            Some(filesystem) => {
                let nested = Section::new(document, &entry.node, format!("[axes.{filesystem}]"))?;
                for (key, entry) in nested.entries() {
                    for (name, axis, entry) in settings(document, key, entry, std::iter::empty())? {
                        let levels = levels(document, &name, axis, &entry.node)?;
                        let within = Some(filesystem);
                        axes.push(RawAxis { name, axis, within, levels, at: entry.key.clone() });
                    }
                }
            }
            None => {
                for (name, axis, entry) in settings(document, key, entry, filesystem::names())? {
                    let levels = levels(document, &name, axis, &entry.node)?;
                    axes.push(RawAxis { name, axis, within: None, levels, at: entry.key.clone() });
                }
            }
        }
    }
    let rank = |axis: &RawAxis| AXES.iter().position(|known| known.name == axis.name).unwrap_or(AXES.len());
    axes.sort_by(|a, b| (rank(a), &a.name).cmp(&(rank(b), &b.name)));
    Ok(Some(axes))
}

/// The axes that one key names: itself, or every sysctl below `sysctl`.
fn settings<'d>(
    document: &Document,
    key: &str,
    entry: &'d Entry,
    also_known: impl Iterator<Item = &'static str>,
) -> Result<Vec<(String, &'static Axis, &'d Entry)>, PlanError> {
    let nested_sysctl = key == SYSCTL_PREFIX.trim_end_matches('.');
    if nested_sysctl && let Value::Table(inner) = &entry.node.value {
        let mut found = Vec::new();
        sysctls(SYSCTL_PREFIX, inner, &mut found);
        return found
            .into_iter()
            .map(|(name, entry)| Ok((name.clone(), find_axis(document, &name, &entry.key)?, entry)))
            .collect();
    }
    match axis::find(key) {
        Ok(axis) => Ok(vec![(key.to_string(), axis, entry)]),
        Err(axis::AxisError::UnknownAxis { name, .. }) => {
            let known = AXES.iter().map(|axis| axis.name).chain(also_known);
            let nearest = fsdyno_core::nearest(&name, known).map(str::to_string);
            let error = axis::AxisError::UnknownAxis { name, nearest };
            Err(document.error(&entry.key, PlanProblem::Axis(error)))
        }
        Err(error) => Err(document.error(&entry.key, PlanProblem::Axis(error))),
    }
}

fn find_axis(document: &Document, name: &str, at: &Origin) -> Result<&'static Axis, PlanError> {
    axis::find(name).map_err(|error| document.error(at, PlanProblem::Axis(error)))
}

/// The sysctls of nested tables, `vm = { dirty_ratio = 5 }` as `sysctl.vm.dirty_ratio`.
fn sysctls<'d>(prefix: &str, table: &'d Table, found: &mut Vec<(String, &'d Entry)>) {
    for (key, entry) in table {
        match &entry.node.value {
            Value::Table(inner) => sysctls(&format!("{prefix}{key}."), inner, found),
            _ => found.push((format!("{prefix}{key}"), entry)),
        }
    }
}

/// The levels of an axis: an array, or a single one.
fn levels(
    document: &Document,
    name: &str,
    axis: &'static Axis,
    node: &Node,
) -> Result<Vec<RawLevel>, PlanError> {
    let nodes = match &node.value {
        Value::Array(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if nodes.is_empty() {
        return Err(document.error(&node.origin, PlanProblem::NoLevels { axis: name.to_string() }));
    }
    let mut levels: Vec<RawLevel> = Vec::new();
    let mut seen = BTreeSet::new();
    for node in nodes {
        let level = level(document, name, axis, node)?;
        if !seen.insert(level.text.clone()) {
            let problem = PlanProblem::LevelTwice { axis: name.to_string(), level: level.text };
            return Err(document.error(&node.origin, problem));
        }
        levels.push(level);
    }
    Ok(levels)
}

fn level(document: &Document, name: &str, axis: &'static Axis, node: &Node) -> Result<RawLevel, PlanError> {
    let refuse = |problem| document.error(&node.origin, problem);
    let text = node.scalar().ok_or_else(|| {
        refuse(PlanProblem::Value {
            key: name.to_string(),
            expected: axis.levels.to_string(),
            found: node.describe(),
        })
    })?;
    let level = axis.level(&text).map_err(|error| refuse(PlanProblem::Axis(error)))?;
    Ok(RawLevel { text: level.text, note: level.note, at: node.origin.clone() })
}

fn configurations(plan: &Section<'_>, key: &'static str) -> Result<Option<Vec<RawConfiguration>>, PlanError> {
    let document = plan.document();
    let mut configurations: Vec<RawConfiguration> = Vec::new();
    let mut seen = BTreeSet::new();
    // Those that are not axes.
    let own_keys = ConfigurationKeys::NAMES;
    for node in plan.tables(key)? {
        let table = Section::new(document, node, "[[configurations]]")?;
        let ConfigurationKeys { name, note, impossible } = ConfigurationKeys::read(&table)?;
        if !seen.insert(name.clone()) {
            return Err(table.error("name", PlanProblem::NameTwice { name }));
        }
        table.required_string("filesystem")?;
        let mut settings_of = Vec::new();
        for (key, entry) in table.entries().filter(|(key, _)| !own_keys.contains(key)) {
            for (name, axis, entry) in settings(document, key, entry, own_keys.iter().copied())? {
                settings_of.push((name.clone(), axis, level(document, &name, axis, &entry.node)?));
            }
        }
        let (filesystem, settings): (Vec<_>, Vec<_>) =
            settings_of.into_iter().partition(|(name, _, _): &RawSetting| name == "filesystem");
        let filesystem = filesystem.into_iter().map(|(_, _, level)| level.text).collect();
        let at = table.at("name").clone();
        configurations.push(RawConfiguration { name, filesystem, settings, note, impossible, at });
    }
    Ok(Some(configurations))
}

fn configuration_name(table: &Section<'_>, key: &'static str) -> Result<Option<String>, PlanError> {
    match table.string(key)?.map(str::trim) {
        Some(name) if name.chars().any(char::is_control) => Err(table.error(key, NameError::Control.into())),
        name => Ok(name.map(str::to_string)),
    }
}

/// Text for a person, not empty, in one line.
fn sentence(table: &Section<'_>, key: &'static str) -> Result<Option<String>, PlanError> {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match table.string(key)?.map(one_line) {
        Some(text) if text.is_empty() => Err(table.refuse(key, "a sentence")),
        text => Ok(text),
    }
}

fn workloads(plan: &Section<'_>, key: &'static str) -> Result<Option<Vec<RawWorkload>>, PlanError> {
    const ARRAY: &str = "[[workloads]]";
    let one = |node| workload(&Section::new(plan.document(), node, ARRAY)?, node, ARRAY);
    plan.tables(key)?.iter().map(one).collect::<Result<_, _>>().map(Some)
}

/// `[durability]`: the workload of that name, after the others. `durability = false` is as good as none.
fn durability(plan: &Section<'_>, key: &'static str) -> Result<Option<RawWorkload>, PlanError> {
    const TABLE: &str = "[durability]";
    let asked = plan.get(key).filter(|node| !matches!(node.value, Value::Boolean(false)));
    let Some(node) = asked else { return Ok(None) };
    let workload = Workload::Durability(Durability::default());
    let parameters: Vec<&str> = workload.list().into_iter().map(|listed| listed.name).collect();
    Section::new(plan.document(), node, TABLE)?.only(&parameters)?;
    Ok(Some(RawWorkload { workload, node: node.clone(), table: TABLE }))
}

fn workload(table: &Section<'_>, node: &Node, name: &'static str) -> Result<RawWorkload, PlanError> {
    let kind = table.required_string("kind")?;
    let workload = Workload::of_kind(kind)
        .ok_or_else(|| table.error("kind", PlanProblem::unknown_word("workload", kind, Workload::KINDS)))?;
    table.only(&workload_keys(&workload))?;
    Ok(RawWorkload { workload, node: node.clone(), table: name })
}

/// Time between samples; none for `false`.
fn telemetry(plan: &Section<'_>, key: &'static str) -> Result<Option<Option<Nanos>>, PlanError> {
    match plan.get(key).map(|node| &node.value) {
        // As by default.
        None | Some(Value::Boolean(true)) => Ok(None),
        Some(Value::Boolean(false)) => Ok(Some(None)),
        Some(_) => {
            let time = plan.time(key, SHORTEST_TELEMETRY, "an interval of at least 100ms, or false")?;
            Ok(time.map(Some))
        }
    }
}
