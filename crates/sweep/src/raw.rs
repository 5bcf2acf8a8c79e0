//! The first stage of a plan: every key and value typed, nothing looked up on the system.
//!
//! A [`RawPlan`] keeps the place of whatever a later stage may still refuse. It knows each key by itself; how axes
//! combine, what contradicts what, and what a profile contains is the business of [`crate::plan`].

use crate::document::{Document, Entry, Node, Origin, Section, Table, Value};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::axis::{self, Axis, FILESYSTEMS, SYSCTL_PREFIX};
use fsdyno_core::units::Size;
use fsdyno_core::workload::{Content, Fileserver, Null, TreeModel};
use fsdyno_core::{AXES, Bytes, DeviceSpec, Measure, Nanos, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How long an engine may be silent beyond what its stage should take, when the plan does not say.
const DEFAULT_WATCHDOG: Nanos = Nanos::from_secs(60);
/// Measure when the plan does not say.
const DEFAULT_MEASURE: &str = "read-under-write";
/// Most repetitions that a plan may ask for.
const MAX_REPETITIONS: u32 = 100_000;
/// Most workers of one role.
const MAX_WORKERS: u32 = 1024;
/// Largest buffer of one read or write.
const MAX_IO_SIZE: Bytes = Bytes(64 * Bytes::MIB);
/// Direct I/O is aligned to this.
const DIRECT_ALIGNMENT: u64 = 4 * Bytes::KIB;

const PLAN_KEYS: &[&str] =
    &["name", "repetitions", "seed", "measure", "watchdog", "device", "axes", "configurations", "workloads"];
const DEVICE_KEYS: &[&str] = &["image", "size", "direct_io", "block", "identity", "directory", "journals"];
const JOURNAL_KEYS: &[&str] = &["image", "size", "direct_io", "block", "identity"];
const FILESERVER_KEYS: &[&str] = &[
    "kind",
    "tree_size",
    "tree",
    "readers",
    "writers",
    "ramp",
    "window",
    "drain_limit",
    "io_size",
    "direct",
    "content",
    "writer_space",
];
const NULL_KEYS: &[&str] = &["kind", "workers", "ramp", "window"];

/// A plan as written.
#[derive(Debug)]
pub(crate) struct RawPlan {
    pub name: String,
    pub repetitions: u32,
    pub repetitions_at: Origin,
    pub seed: u64,
    pub measure: Measure,
    pub watchdog: Nanos,
    pub device: DeviceSpec,
    pub journals: BTreeMap<String, RawJournal>,
    pub axes: Vec<RawAxis>,
    pub axes_at: Origin,
    pub configurations: Vec<RawConfiguration>,
    pub workloads: Vec<RawWorkload>,
}

/// A device for journals.
#[derive(Debug)]
pub(crate) struct RawJournal {
    pub spec: DeviceSpec,
    pub at: Origin,
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
    pub at: Origin,
}

/// A setting of a named configuration.
pub(crate) type RawSetting = (String, &'static Axis, RawLevel);

/// A workload whose tree and size may hang on things outside the plan.
#[derive(Debug)]
pub(crate) struct RawWorkload {
    pub workload: Workload,
    /// Where the tree's profile is, if it has one.
    pub profile: Option<PathBuf>,
    pub profile_at: Origin,
    /// The size of the trees, which may be a share of the device.
    pub tree_size: Option<Size>,
    pub tree_size_at: Origin,
}

/// Whether `--set ARRAY.KEY=VALUE` means this table of the array: only workloads of a kind that has the key.
pub(crate) fn takes_key(array: &str, table: &Table, key: &str) -> bool {
    let kind = table.get("kind").and_then(|entry| match &entry.node.value {
        Value::String(kind) => Some(kind.as_str()),
        _ => None,
    });
    match (array, kind) {
        ("workloads", Some("fileserver")) => FILESERVER_KEYS.contains(&key),
        ("workloads", Some("null")) => NULL_KEYS.contains(&key),
        _ => true,
    }
}

impl RawPlan {
    /// Types a parsed document.
    pub fn read(document: &Document, root: &Node, file_stem: &str) -> Result<RawPlan, PlanError> {
        let plan = Section::new(document, root, "the plan")?;
        plan.only(PLAN_KEYS)?;
        let device = match plan.get("device") {
            Some(node) => Section::new(document, node, "[device]")?,
            None => return Err(document.error(&Origin::Document, PlanProblem::NoDevice)),
        };
        device.only(DEVICE_KEYS)?;
        let measure = plan.string("measure")?.unwrap_or(DEFAULT_MEASURE);
        Ok(RawPlan {
            name: plan.string("name")?.unwrap_or(file_stem).to_string(),
            repetitions: plan.integer("repetitions", 1..=MAX_REPETITIONS)?.unwrap_or(1),
            repetitions_at: plan.at("repetitions").clone(),
            seed: plan.integer("seed", 0..=u64::MAX)?.unwrap_or(42),
            measure: measure.parse().map_err(|error| plan.error("measure", PlanProblem::Measure(error)))?,
            watchdog: watchdog(&plan)?,
            device: device_spec(&device, &["image", "block", "directory"])?,
            journals: journals(document, &device)?,
            axes: axes(document, &plan)?,
            axes_at: plan.at("axes").clone(),
            configurations: configurations(document, &plan)?,
            workloads: workloads(document, &plan)?,
        })
    }
}

/// The device that a table names: exactly one of `kinds`.
fn device_spec(table: &Section<'_>, kinds: &[&str]) -> Result<DeviceSpec, PlanError> {
    let found: Vec<&str> = kinds.iter().copied().filter(|kind| table.get(kind).is_some()).collect();
    let [kind] = found[..] else {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_string()).collect();
        let problem = PlanProblem::ExactlyOne {
            section: table.name.clone(),
            known: words(kinds),
            found: words(&found),
        };
        let at = found.last().map_or(table.origin, |last| table.at(last));
        return Err(table.document().error(at, problem));
    };
    let belongs: &[&str] = match kind {
        "image" => &["size", "direct_io"],
        "block" => &["identity"],
        _ => &[],
    };
    for key in ["size", "direct_io", "identity"] {
        if table.get(key).is_some() && !belongs.contains(&key) {
            let problem = PlanProblem::Pointless { key: key.to_string(), beside: kind.to_string() };
            return Err(table.error(key, problem));
        }
    }
    let text = table.string(kind)?.unwrap_or_default();
    if text.is_empty() || (kind != "directory" && !text.starts_with('/')) {
        return Err(table.refuse(kind, "an absolute path"));
    }
    let path = PathBuf::from(text);
    match kind {
        "image" => {
            let size: Bytes = table.unit("size")?.ok_or_else(|| {
                let problem = PlanProblem::Missing { section: table.name.clone(), key: "size" };
                table.document().error(table.origin, problem)
            })?;
            if size.0 == 0 {
                return Err(table.refuse("size", "more than nothing"));
            }
            Ok(DeviceSpec::Image { path, size, direct_io: table.boolean("direct_io")?.unwrap_or(true) })
        }
        "block" => {
            let identity = table.string("identity")?.map(str::to_string);
            Ok(DeviceSpec::Block { path, identity })
        }
        _ => Ok(DeviceSpec::Directory { path }),
    }
}

fn journals(document: &Document, device: &Section<'_>) -> Result<BTreeMap<String, RawJournal>, PlanError> {
    let Some(node) = device.get("journals") else { return Ok(BTreeMap::new()) };
    let mut journals = BTreeMap::new();
    for (name, entry) in Section::new(document, node, "[device.journals]")?.entries() {
        let table = Section::new(document, &entry.node, format!("[device.journals] {name}"))?;
        table.only(JOURNAL_KEYS)?;
        let spec = device_spec(&table, &["image", "block"])?;
        journals.insert(name.to_string(), RawJournal { spec, at: entry.key.clone() });
    }
    Ok(journals)
}

/// Every axis, the nested ones with the filesystem within which they hold.
fn axes(document: &Document, plan: &Section<'_>) -> Result<Vec<RawAxis>, PlanError> {
    let Some(node) = plan.get("axes") else { return Ok(Vec::new()) };
    let table = Section::new(document, node, "[axes]")?;
    let mut axes = Vec::new();
    for (key, entry) in table.entries() {
        match FILESYSTEMS.iter().find(|name| **name == key) {
            Some(filesystem) => {
                let nested = Section::new(document, &entry.node, format!("[axes.{filesystem}]"))?;
                for (key, entry) in nested.entries() {
                    for (name, axis, entry) in settings(document, key, entry, &[])? {
                        let levels = levels(document, &name, axis, &entry.node)?;
                        let within = Some(*filesystem);
                        axes.push(RawAxis { name, axis, within, levels, at: entry.key.clone() });
                    }
                }
            }
            None => {
                for (name, axis, entry) in settings(document, key, entry, FILESYSTEMS)? {
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
    also_known: &[&str],
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
            let known = AXES.iter().map(|axis| axis.name).chain(also_known.iter().copied());
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
    for node in nodes {
        let level = level(document, name, axis, node)?;
        if levels.iter().any(|other| other.text == level.text) {
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
    for node in plan.tables("configurations")? {
        let table = Section::new(document, node, "[[configurations]]")?;
        let name = table.required_string("name")?.trim().to_string();
        if configurations.iter().any(|other| other.name == name) {
            return Err(table.error("name", PlanProblem::NameTwice { name }));
        }
        table.required_string("filesystem")?;
        let mut settings_of = Vec::new();
        for (key, entry) in table.entries().filter(|(key, _)| *key != "name") {
            for (name, axis, entry) in settings(document, key, entry, &["name"])? {
                settings_of.push((name.clone(), axis, level(document, &name, axis, &entry.node)?));
            }
        }
        let (filesystem, settings): (Vec<_>, Vec<_>) =
            settings_of.into_iter().partition(|(name, _, _): &RawSetting| name == "filesystem");
        let filesystem = filesystem.into_iter().map(|(_, _, level)| level.text).collect();
        configurations.push(RawConfiguration { name, filesystem, settings, at: table.at("name").clone() });
    }
    Ok(configurations)
}

fn workloads(document: &Document, plan: &Section<'_>) -> Result<Vec<RawWorkload>, PlanError> {
    let nodes = plan.tables("workloads")?;
    if nodes.is_empty() {
        return Err(document.error(&Origin::Document, PlanProblem::NoWorkload));
    }
    nodes.iter().map(|node| workload(&Section::new(document, node, "[[workloads]]")?)).collect()
}

fn workload(table: &Section<'_>) -> Result<RawWorkload, PlanError> {
    match table.required_string("kind")? {
        "fileserver" => {
            table.only(FILESERVER_KEYS)?;
            fileserver(table)
        }
        "null" => {
            table.only(NULL_KEYS)?;
            let default = Null::default();
            let null = Null {
                workers: table.integer("workers", 1..=MAX_WORKERS)?.unwrap_or(default.workers),
                ramp: table.unit("ramp")?.unwrap_or(default.ramp),
                window: window(table, default.window)?,
            };
            Ok(RawWorkload {
                workload: Workload::Null(null),
                profile: None,
                profile_at: Origin::Document,
                tree_size: None,
                tree_size_at: Origin::Document,
            })
        }
        other => Err(table.error("kind", unknown_word("workload", other, Workload::KINDS))),
    }
}

fn fileserver(table: &Section<'_>) -> Result<RawWorkload, PlanError> {
    let default = Fileserver::default();
    let (tree, profile) = tree(table)?;
    let fileserver = Fileserver {
        tree_size: default.tree_size,
        tree,
        readers: table.integer("readers", 1..=MAX_WORKERS)?.unwrap_or(default.readers),
        writers: table.integer("writers", 0..=MAX_WORKERS)?.unwrap_or(default.writers),
        ramp: table.unit("ramp")?.unwrap_or(default.ramp),
        window: window(table, default.window)?,
        drain_limit: table.unit("drain_limit")?.unwrap_or(default.drain_limit),
        io_size: table.unit("io_size")?.unwrap_or(default.io_size),
        direct: table.boolean("direct")?.unwrap_or(default.direct),
        content: content(table)?.unwrap_or(default.content),
        writer_space: table.unit("writer_space")?,
    };
    if fileserver.io_size.0 == 0 || fileserver.io_size > MAX_IO_SIZE {
        return Err(table.refuse("io_size", format!("a size from 1 to {MAX_IO_SIZE}")));
    }
    if fileserver.direct && !fileserver.io_size.0.is_multiple_of(DIRECT_ALIGNMENT) {
        return Err(table.refuse("io_size", "a multiple of 4k with direct I/O"));
    }
    if fileserver.writer_space == Some(Bytes(0)) {
        return Err(table.refuse("writer_space", "more than nothing"));
    }
    let tree_size = table.unit("tree_size")?;
    if matches!(tree_size, Some(Size::Absolute(Bytes(0)) | Size::Percent(0.0))) {
        return Err(table.refuse("tree_size", "more than nothing"));
    }
    Ok(RawWorkload {
        workload: Workload::Fileserver(fileserver),
        profile,
        profile_at: table.at("tree").clone(),
        tree_size,
        tree_size_at: table.at("tree_size").clone(),
    })
}

fn window(table: &Section<'_>, default: Nanos) -> Result<Nanos, PlanError> {
    match table.unit("window")? {
        Some(Nanos(0)) => Err(table.refuse("window", "more than nothing")),
        window => Ok(window.unwrap_or(default)),
    }
}

fn watchdog(plan: &Section<'_>) -> Result<Nanos, PlanError> {
    match plan.unit("watchdog")? {
        Some(Nanos(0)) => Err(plan.refuse("watchdog", "more than nothing")),
        watchdog => Ok(watchdog.unwrap_or(DEFAULT_WATCHDOG)),
    }
}

/// The tree by name; a profile is only named here, and read when the plan is resolved.
fn tree(table: &Section<'_>) -> Result<(TreeModel, Option<PathBuf>), PlanError> {
    match table.string("tree")? {
        None | Some("home") => Ok((TreeModel::Home, None)),
        Some("impressions") => Ok((TreeModel::Impressions, None)),
        Some(other) => {
            match other.strip_prefix("profile:").map(str::trim) {
                Some(path) if !path.is_empty() => Ok((TreeModel::Home, Some(Path::new(path).to_path_buf()))),
                _ => Err(table
                    .error("tree", unknown_word("tree", other, &["home", "impressions", "profile:PATH"]))),
            }
        }
    }
}

fn content(table: &Section<'_>) -> Result<Option<Content>, PlanError> {
    let expected = "\"random\", \"zeros\" or { compressible = 0.5 }";
    let Some(node) = table.get("content") else { return Ok(None) };
    match &node.value {
        Value::String(word) if word == "random" => Ok(Some(Content::Random)),
        Value::String(word) if word == "zeros" => Ok(Some(Content::Zeros)),
        Value::String(word) => {
            Err(table.error("content", unknown_word("content", word, &["random", "zeros"])))
        }
        Value::Table(_) => {
            let inner = Section::new(table.document(), node, "content")?;
            inner.only(&["compressible"])?;
            let share = match inner.get("compressible").map(|node| &node.value) {
                Some(Value::Float(share)) => *share,
                Some(Value::Integer(share)) => *share as f64,
                _ => return Err(table.refuse("content", expected)),
            };
            if !(0.0..=1.0).contains(&share) {
                return Err(inner.refuse("compressible", "a share from 0 to 1"));
            }
            Ok(Some(Content::Compressible(share)))
        }
        _ => Err(table.refuse("content", expected)),
    }
}

fn unknown_word(what: &'static str, word: &str, known: &[&str]) -> PlanProblem {
    PlanProblem::UnknownWord {
        what,
        word: word.to_string(),
        known: known.iter().map(|word| (*word).to_string()).collect(),
        nearest: fsdyno_core::nearest(word, known.iter().copied()).map(str::to_string),
    }
}
