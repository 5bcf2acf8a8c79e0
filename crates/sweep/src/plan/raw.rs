//! The first stage of a plan: every key and value is interpreted, but nothing is looked up on the system.
//!
//! A [`RawPlan`] keeps the place of everything that a later stage may still reject. It treats each key on its
//! own; [`super::resolve`] handles the combination of axes, contradictions and the content of profiles.

use super::Serve;
use super::device::{self, RawJournal};
use super::document::{Document, Entry, Node, Origin, Section, Table, Value};
use super::fleet::{self, RawFleet};
use super::hooks::{self, Hooks};
use super::keys::{self, RAMP, STEADY, names};
use super::protocol::{self, RawClients};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::axis::{self, Axis, SYSCTL_PREFIX};
use fsdyno_core::filesystem;
use fsdyno_core::kernel::{DEBIAN_PREFIX, HOST_KERNEL};
use fsdyno_core::sweep_name::{self, NameError};
use fsdyno_core::workload::Durability;
use fsdyno_core::{
    AXES, Bytes, CacheState, DeviceSpec, DiskCache, GuestShape, KernelSpec, Measure, Nanos, RaceBudget,
    Study, Workload,
};
use fsdyno_testbed::memory::{LEAST, MOST};
use fsdyno_verdict::enough::Enough;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The time that an engine may be silent beyond the expected duration of its stage, unless the plan sets it.
pub(super) const DEFAULT_WATCHDOG: Nanos = Nanos::from_secs(60);
const SHORTEST_QUIESCE: Nanos = Nanos::from_secs(1);
/// Time between telemetry samples, unless the plan sets it.
pub(super) const DEFAULT_TELEMETRY: Nanos = Nanos::from_secs(1);
/// The shortest time between samples: how often the engine checks.
const SHORTEST_TELEMETRY: Nanos = Nanos::from_millis(100);
/// The maximum number of processors of a guest.
const MAX_PROCESSORS: u32 = 255;
/// The minimum memory of a guest: enough for fsdyno and a distribution kernel.
const LEAST_MEMORY: Bytes = Bytes(256 * Bytes::MIB);
/// A plan as written.
#[derive(Debug)]
pub(crate) struct RawPlan {
    pub name: String,
    pub study: Option<Study>,
    pub repetitions: u32,
    pub enough: Option<Enough>,
    pub repetitions_at: Origin,
    /// The budget of the sweep as a race, if it is one.
    pub race: Option<RaceBudget>,
    pub budget_at: Origin,
    pub time_limit_at: Origin,
    pub time_limit: Option<Nanos>,
    pub seed: u64,
    pub measure: Option<Measure>,
    pub measure_at: Origin,
    pub watchdog: Nanos,
    pub quiesce: Option<Nanos>,
    pub reuse: bool,
    pub reuse_at: Origin,
    pub telemetry: Option<Nanos>,
    /// The level of the axis `memory` wherever no other is set.
    pub memory: Option<String>,
    /// The same for the axis `cache`.
    pub cache: Option<String>,
    pub device: DeviceSpec,
    pub journals: BTreeMap<String, RawJournal>,
    pub axes: Vec<RawAxis>,
    pub axes_at: Origin,
    pub configurations: Vec<RawConfiguration>,
    pub workloads: Vec<RawWorkload>,
    /// Kernels that the plan names itself.
    pub kernels: BTreeMap<String, KernelSpec>,
    pub guest: GuestShape,
    /// The machines that do the load, if they are others.
    pub clients: Option<RawClients>,
    pub clients_at: Origin,
    pub serve: Option<Serve>,
    pub serve_at: Origin,
    pub fleet: Option<RawFleet>,
    pub hooks: Hooks,
    /// Where the first command is that runs at phases.
    pub hooks_at: Origin,
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

/// The keys of a workload's table.
fn workload_keys(workload: &Workload) -> Vec<&'static str> {
    let shorthand = workload.load().shorthand().map(|shorthand| shorthand.name);
    let parameters: Vec<&str> = workload.list().into_iter().map(|listed| listed.name).collect();
    let steady = parameters.contains(&RAMP).then_some(STEADY);
    std::iter::once("kind").chain(shorthand).chain(parameters).chain(steady).collect()
}

impl RawPlan {
    /// Types a parsed document.
    pub fn read(document: &Document, root: &Node, file_stem: &str) -> Result<RawPlan, PlanError> {
        let plan = Section::new(document, root, "the plan")?;
        plan.only(&names(&[keys::PLAN]))?;
        let device = match plan.get("device") {
            Some(node) => Section::new(document, node, "[device]")?,
            None => return Err(document.error(&Origin::Document, PlanProblem::NoDevice)),
        };
        let (data, journals) = device::devices(document, &device)?;
        let measure = plan.string("measure")?.map(|measure| {
            measure.parse().map_err(|error| plan.error("measure", PlanProblem::Measure(error)))
        });
        let (repetitions, enough) = protocol::repetitions(document, &plan)?;
        let hooks = hooks::hooks(document, &plan)?;
        let clients = protocol::clients(document, &plan)?;
        let serve = protocol::serve(document, &plan, clients.as_ref())?;
        Ok(RawPlan {
            name: name(&plan, file_stem)?,
            hooks_at: hooks.at_phases().map_or(Origin::Document, |one| hooks::place_of(&plan, one.kind)),
            hooks,
            clients,
            clients_at: plan.at("clients").clone(),
            serve,
            serve_at: plan.at("serve").clone(),
            fleet: fleet::fleet(document, &plan)?,
            study: study(&plan)?,
            repetitions,
            enough,
            repetitions_at: plan.at("repetitions").clone(),
            race: protocol::asked(&plan)?,
            budget_at: plan.at("budget").clone(),
            time_limit_at: plan.at("time_limit").clone(),
            time_limit: time_limit(&plan)?,
            seed: plan.integer("seed", 0..=u64::MAX)?.unwrap_or(42),
            measure: measure.transpose()?,
            measure_at: plan.at("measure").clone(),
            watchdog: plan.time("watchdog", Nanos(1), "greater than zero")?.unwrap_or(DEFAULT_WATCHDOG),
            quiesce: plan.time("quiesce", SHORTEST_QUIESCE, "at least 1s")?,
            reuse: protocol::reuses(&plan)?,
            reuse_at: plan.at("reuse").clone(),
            telemetry: telemetry(&plan)?,
            memory: memory(&plan)?,
            cache: cache(&plan)?,
            device: data,
            journals,
            axes: axes(document, &plan)?,
            axes_at: plan.at("axes").clone(),
            configurations: configurations(document, &plan)?,
            workloads: workloads(document, &plan)?,
            kernels: kernels(document, &plan)?,
            guest: guest(document, &plan)?,
        })
    }
}

/// Returns the time that the sweep may take.
fn time_limit(plan: &Section<'_>) -> Result<Option<Nanos>, PlanError> {
    match plan.unit("time_limit")? {
        Some(Nanos(0)) => Err(plan.refuse("time_limit", "greater than zero")),
        limit => Ok(limit),
    }
}

/// The memory of all loads, as a level of the axis.
fn memory(plan: &Section<'_>) -> Result<Option<String>, PlanError> {
    let memory = plan.unit::<Bytes>("memory")?;
    if memory.is_some_and(|memory| !(LEAST..=MOST).contains(&memory)) {
        return Err(plan.refuse("memory", format!("a size from {LEAST} to {MOST}")));
    }
    Ok(memory.map(|memory| memory.to_string()))
}

/// Returns the state of the cache when any load begins to read, as a level of the axis.
fn cache(plan: &Section<'_>) -> Result<Option<String>, PlanError> {
    let cache = plan.string("cache")?;
    if cache.is_some_and(|cache| CacheState::named(cache).is_none()) {
        return Err(plan.refuse("cache", format!("one of {}", CacheState::NAMES.join(", "))));
    }
    Ok(cache.map(str::to_string))
}

/// The published study that a plan repeats.
pub(crate) fn study(plan: &Section<'_>) -> Result<Option<Study>, PlanError> {
    let Some(name) = plan.string("study")? else { return Ok(None) };
    let names: Vec<&str> = Study::ALL.iter().map(|study| study.name()).collect();
    let known = name.parse::<Study>();
    known.map(Some).map_err(|_| plan.error("study", PlanProblem::unknown_word("study", name, &names)))
}

/// The name of the sweep. A file may be called what a sweep cannot be.
fn name(plan: &Section<'_>, file_stem: &str) -> Result<String, PlanError> {
    let valid = match plan.string("name")? {
        Some(name) => sweep_name::check(name).map_err(|error| plan.error("name", error.into()))?,
        None => sweep_name::check(file_stem).unwrap_or("plan"),
    };
    Ok(valid.to_string())
}

/// The plan's own kernels, by their names on the axis `kernel`.
fn kernels(document: &Document, plan: &Section<'_>) -> Result<BTreeMap<String, KernelSpec>, PlanError> {
    let Some(node) = plan.get("kernels") else { return Ok(BTreeMap::new()) };
    let mut kernels = BTreeMap::new();
    for (name, entry) in Section::new(document, node, "[kernels]")?.entries() {
        let table = Section::new(document, &entry.node, format!("[kernels] {name}"))?;
        table.only(&names(&[keys::KERNEL]))?;
        if name == HOST_KERNEL || name.starts_with(DEBIAN_PREFIX) {
            return Err(document.error(&entry.key, PlanProblem::KernelName { name: name.to_string() }));
        }
        let image = PathBuf::from(table.required_string("image")?);
        let modules = table.string("modules")?.map(PathBuf::from);
        let name = name.to_string();
        kernels.insert(name.clone(), KernelSpec::Image { name, image, modules });
    }
    Ok(kernels)
}

/// The machine that guests see.
fn guest(document: &Document, plan: &Section<'_>) -> Result<GuestShape, PlanError> {
    let usual = GuestShape::default();
    let Some(node) = plan.get("guest") else { return Ok(usual) };
    let table = Section::new(document, node, "[guest]")?;
    table.only(&names(&[keys::GUEST]))?;
    let memory = table.unit("memory")?.unwrap_or(usual.memory);
    if memory < LEAST_MEMORY {
        return Err(table.refuse("memory", format!("at least {LEAST_MEMORY}")));
    }
    let cache = match table.string("cache")? {
        None => usual.cache,
        Some(word) => {
            let names: Vec<&str> = DiskCache::ALL.iter().map(|cache| cache.name()).collect();
            let known = DiskCache::ALL.iter().copied().find(|cache| cache.name() == word);
            known
                .ok_or_else(|| table.error("cache", PlanProblem::unknown_word("cache mode", word, &names)))?
        }
    };
    let processors = table.integer("processors", 1..=MAX_PROCESSORS)?.unwrap_or(usual.processors);
    let snapshot = table.boolean("snapshot")?.unwrap_or(usual.snapshot);
    Ok(GuestShape { processors, memory, cache, snapshot })
}

/// Every axis; nested ones with the filesystem that they apply to.
fn axes(document: &Document, plan: &Section<'_>) -> Result<Vec<RawAxis>, PlanError> {
    let Some(node) = plan.get("axes") else { return Ok(Vec::new()) };
    let table = Section::new(document, node, "[axes]")?;
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
    Ok(axes)
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

fn configurations(document: &Document, plan: &Section<'_>) -> Result<Vec<RawConfiguration>, PlanError> {
    let mut configurations: Vec<RawConfiguration> = Vec::new();
    let mut seen = BTreeSet::new();
    // Those that are not axes.
    let own_keys = names(&[keys::CONFIGURATION]);
    for node in plan.tables("configurations")? {
        let table = Section::new(document, node, "[[configurations]]")?;
        let name = table.required_string("name")?.trim().to_string();
        if name.chars().any(char::is_control) {
            return Err(table.error("name", NameError::Control.into()));
        }
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
        configurations.push(RawConfiguration {
            name,
            filesystem,
            settings,
            note: sentence(&table, "note")?,
            impossible: sentence(&table, "impossible")?,
            at: table.at("name").clone(),
        });
    }
    Ok(configurations)
}

/// Text for a person, not empty, in one line.
fn sentence(table: &Section<'_>, key: &str) -> Result<Option<String>, PlanError> {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match table.string(key)?.map(one_line) {
        Some(text) if text.is_empty() => Err(table.refuse(key, "a sentence")),
        text => Ok(text),
    }
}

fn workloads(document: &Document, plan: &Section<'_>) -> Result<Vec<RawWorkload>, PlanError> {
    const ARRAY: &str = "[[workloads]]";
    let nodes = plan.tables("workloads")?;
    let listed = nodes.iter().map(|node| workload(&Section::new(document, node, ARRAY)?, node, ARRAY));
    let asked = plan.get("durability").filter(|node| !matches!(node.value, Value::Boolean(false)));
    let cuts = asked.map(|node| durability(document, node));
    let workloads = listed.chain(cuts).collect::<Result<Vec<_>, _>>()?;
    match workloads.is_empty() {
        true => Err(document.error(&Origin::Document, PlanProblem::NoWorkload)),
        false => Ok(workloads),
    }
}

/// `[durability]`: the workload of that name, after the others. `durability = false` is as good as none.
fn durability(document: &Document, node: &Node) -> Result<RawWorkload, PlanError> {
    const TABLE: &str = "[durability]";
    let workload = Workload::Durability(Durability::default());
    let parameters: Vec<&str> = workload.list().into_iter().map(|listed| listed.name).collect();
    Section::new(document, node, TABLE)?.only(&parameters)?;
    Ok(RawWorkload { workload, node: node.clone(), table: TABLE })
}

fn workload(table: &Section<'_>, node: &Node, name: &'static str) -> Result<RawWorkload, PlanError> {
    let kind = table.required_string("kind")?;
    let workload = Workload::of_kind(kind)
        .ok_or_else(|| table.error("kind", PlanProblem::unknown_word("workload", kind, Workload::KINDS)))?;
    table.only(&workload_keys(&workload))?;
    Ok(RawWorkload { workload, node: node.clone(), table: name })
}

/// Time between samples; none for `false`.
fn telemetry(plan: &Section<'_>) -> Result<Option<Nanos>, PlanError> {
    let expected = "an interval of at least 100ms, or false";
    match plan.get("telemetry").map(|node| &node.value) {
        None | Some(Value::Boolean(true)) => Ok(Some(DEFAULT_TELEMETRY)),
        Some(Value::Boolean(false)) => Ok(None),
        Some(_) => plan.time("telemetry", SHORTEST_TELEMETRY, expected),
    }
}
