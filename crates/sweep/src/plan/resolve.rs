//! The second stage of a plan: what its parts mean together.

use super::document::{Document, Origin, Section};
use super::fleet::FleetKeys;
use super::hooks::Hooks;
use super::product::{mapped, name_conditions, product, product_size};
use super::protocol::ClientKeys;
use super::raw::{self, RawAxis, RawConfiguration, RawLevel, RawPlan};
use super::{Plan, Planned, clients, file, fleet, race, reuse, workload, write_rate};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::axis::{CACHE, DEFAULT, MEMORY};
use fsdyno_core::kernel::{DEBIAN_PREFIX, HOST_KERNEL};
use fsdyno_core::result::CommandKind;
use fsdyno_core::sweep_name;
use fsdyno_core::{Configuration, DeviceSpec, Devices, KernelSpec, Study, Warning, WarningKind};
use fsdyno_testbed::{contradictions, serve};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The maximum number of cases in a plan; a day has time for about a thousand trials.
const MAX_CASES: u128 = 100_000;
/// The maximum number of trials in a plan.
const MAX_TRIALS: u128 = 1_000_000;
/// The axis that says what a configuration runs on.
const KERNEL: &str = "kernel";

impl Plan {
    /// Reads and resolves a plan. `overrides` are `PATH=VALUE`, applied in their order before anything is
    /// checked.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Plan, PlanError> {
        Plan::parse(&Plan::text(path)?, &path.display().to_string(), overrides)
    }

    /// Reads the text of a plan.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn text(path: &Path) -> Result<String, PlanError> {
        file::read(path).map_err(|error| PlanError {
            problem: Box::new(PlanProblem::Read { reason: error.to_string() }),
            location: Box::new(crate::error::Location::File { file: path.display().to_string() }),
        })
    }

    /// Resolves a plan from its text. `file` is its name in messages; paths of profiles are relative to its
    /// directory.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn parse(text: &str, file: &str, overrides: &[String]) -> Result<Plan, PlanError> {
        let (document, root) = Document::parse(file, text, overrides, raw::takes_key)?;
        let raw = RawPlan::read(&document, &root)?;
        resolve(&document, raw, text, overrides, Path::new(file))
    }
}

/// The published study that a plan repeats, from the text and the arguments of a stored sweep. Nothing else
/// in the plan is evaluated: what it refers to may no longer exist.
///
/// # Errors
/// If the text is not valid TOML, or names an unknown study.
pub fn study(text: &str, overrides: &[String]) -> Result<Option<Study>, PlanError> {
    let (document, root) = Document::parse("the stored plan", text, overrides, raw::takes_key)?;
    Section::new(&document, &root, raw::PLAN)?.word("study")
}

fn resolve(
    document: &Document,
    raw: RawPlan<'_>,
    text: &str,
    overrides: &[String],
    file: &Path,
) -> Result<Plan, PlanError> {
    let base = file.parent().unwrap_or(Path::new(""));
    let devices = devices(document, &raw)?;
    let workloads = raw
        .workloads
        .iter()
        .map(|workload| workload::resolve(document, workload, &devices.data, base))
        .collect::<Result<Vec<_>, _>>()?;
    let configurations = match devices.data {
        DeviceSpec::Directory { .. } => existing(document, &raw)?,
        _ => configurations(document, &raw, &devices)?,
    };
    let kernels = kernels(document, &raw, base)?;
    let hooks = Hooks::of_plan(raw.parts.hooks.as_ref(), &raw.parts.monitor);
    if let Some(command) = hooks.at_phases()
        && let Some(kernel) = configurations.iter().find_map(|one| one.configuration.guest_kernel())
    {
        let (key, kernel) = (command.kind.name(), kernel.to_string());
        let table = if command.kind == CommandKind::Monitor { "monitor" } else { "hooks" };
        return Err(raw.error(table, PlanProblem::NotInGuests { key, kernel }));
    }
    let default = workloads.first().map_or("", |workload| workload.load().default_measure());
    let measure = match &raw.parts.measure {
        Some(measure) => measure.clone(),
        None => {
            default.parse().map_err(|error| document.error(&Origin::Document, PlanProblem::Measure(error)))?
        }
    };
    let compares = configurations.len() > 1 && (raw.repetitions > 1 || raw.enough.is_some());
    let unmeasured_rates = write_rate::unmeasured(document, &raw, &workloads, compares)?;
    let parts = &raw.parts;
    let plan = Plan {
        hooks: hooks.relative_to(base),
        guest: parts.guest.unwrap_or_default(),
        kernels,
        name: parts.name.clone().unwrap_or_else(|| name_of(file)),
        text: text.to_string(),
        overrides: overrides.to_vec(),
        repetitions: if raw.race.is_some() { 1 } else { raw.repetitions },
        // A race decides itself how often each configuration is measured.
        enough: raw.enough.filter(|enough| raw.race.is_none() || !enough.is_auto()),
        race: raw.race,
        rules: raw.rules.clone(),
        measure,
        clients: parts.clients.as_ref().map(|clients| clients.count),
        shared_trees: parts.clients.as_ref().is_some_and(ClientKeys::shares_trees),
        serve: raw.serve.clone(),
        fleet: parts.fleet.as_ref().map(FleetKeys::plan),
        models: raw.parts.device.models.clone(),
        devices,
        workloads,
        unmeasured_rates,
        configurations,
    };
    race::check(document, &raw, &plan)?;
    check_auto(&raw, &plan)?;
    reuse::check(&raw, &plan)?;
    clients::check(&raw, &plan)?;
    fleet::check(&raw.section, raw.parts.fleet.as_ref(), &plan)?;
    Ok(plan)
}

/// Refuses a plan that repeats until its answer is decided, and that no number of repetitions decides by its
/// rules.
fn check_auto(raw: &RawPlan<'_>, plan: &Plan) -> Result<(), PlanError> {
    if !plan.enough.is_some_and(|enough| enough.is_auto()) {
        return Ok(());
    }
    let error = |problem| Err(raw.error("repetitions", problem));
    if plan.workloads.iter().all(|workload| workload.is_recorded()) {
        return error(PlanProblem::AutoOfRecorded);
    }
    match plan.measure.is_often_zero() {
        true => error(PlanProblem::AutoForZeros { measure: plan.measure.name().to_string() }),
        false => Ok(()),
    }
}

/// The name of a sweep that its plan does not name. A file may be called what a sweep cannot be.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    sweep_name::check(&stem).unwrap_or("plan").to_string()
}

/// The kernels behind the levels of the axis `kernel`. Paths are relative to `base`.
fn kernels(
    document: &Document,
    raw: &RawPlan<'_>,
    base: &Path,
) -> Result<BTreeMap<String, KernelSpec>, PlanError> {
    let of_axes = raw.parts.axes.iter().filter(|axis| axis.name == KERNEL).flat_map(|axis| &axis.levels);
    let of_configurations = raw.parts.configurations.iter().flat_map(|configuration| &configuration.settings);
    let named = of_configurations.filter(|(name, _, _)| name == KERNEL).map(|(_, _, level)| level);
    let guests = of_axes.chain(named).filter(|level| ![HOST_KERNEL, DEFAULT].contains(&level.text.as_str()));
    guests
        .map(|level| {
            let spec = match raw.parts.kernels.get(&level.text) {
                Some(KernelSpec::Image { name, image, modules }) => KernelSpec::Image {
                    name: name.clone(),
                    image: base.join(image),
                    modules: modules.as_ref().map(|modules| base.join(modules)),
                },
                _ => kernel(&level.text).ok_or_else(|| {
                    let known = raw.parts.kernels.keys().map(String::as_str).chain([HOST_KERNEL]);
                    let nearest = fsdyno_core::nearest(&level.text, known).map(str::to_string);
                    let name = level.text.clone();
                    document.error(&level.at, PlanProblem::UnknownKernel { name, nearest })
                })?,
            };
            Ok((level.text.clone(), spec))
        })
        .collect()
}

/// A kernel by its level: a package, or a release.
fn kernel(level: &str) -> Option<KernelSpec> {
    let begins_with_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    match level.strip_prefix(DEBIAN_PREFIX) {
        Some(version) => {
            let numbers =
                begins_with_number(version) && version.split('.').all(|part| part.parse::<u32>().is_ok());
            numbers.then(|| KernelSpec::Debian { version: version.to_string() })
        }
        None => begins_with_number(level).then(|| KernelSpec::Installed { release: level.to_string() }),
    }
}

fn devices(document: &Document, raw: &RawPlan<'_>) -> Result<Devices, PlanError> {
    let mut paths: BTreeSet<&Path> =
        raw.parts.device.data.disks().into_iter().map(DeviceSpec::path).collect();
    for journal in raw.parts.device.journals.values() {
        if !paths.insert(journal.spec.path()) {
            let path = journal.spec.path().display().to_string();
            return Err(document.error(&journal.at, PlanProblem::SameDevice { path }));
        }
    }
    let journals = raw
        .parts
        .device
        .journals
        .iter()
        .map(|(name, journal)| (name.clone(), journal.spec.clone()))
        .collect();
    Ok(Devices { data: raw.parts.device.data.clone(), journals })
}

/// The single configuration of a plan that uses a directory as it is.
fn existing(document: &Document, raw: &RawPlan<'_>) -> Result<Vec<Planned>, PlanError> {
    let pointless =
        |key: &str| PlanProblem::Pointless { key: key.to_string(), beside: "directory".to_string() };
    if let Some(axis) = raw.parts.axes.first() {
        return Err(document.error(&axis.at, pointless(&axis.name)));
    }
    if let Some(configuration) = raw.parts.configurations.first() {
        return Err(document.error(&configuration.at, pointless("configurations")));
    }
    if let Some(journal) = raw.parts.device.journals.values().next() {
        return Err(document.error(&journal.at, pointless("journals")));
    }
    let mut configuration = Configuration {
        name: raw.parts.device.data.path().display().to_string(),
        filesystem: Configuration::EXISTING.to_string(),
        settings: Default::default(),
    };
    set_general(raw, &mut configuration);
    let planned = vec![Planned {
        configuration,
        warnings: Vec::new(),
        contradictions: Vec::new(),
        impossible: Vec::new(),
    }];
    check_counts(raw, 1)?;
    Ok(planned)
}

/// The product of the axes plus the named configurations, each with its contradictions.
fn configurations(
    document: &Document,
    raw: &RawPlan<'_>,
    devices: &Devices,
) -> Result<Vec<Planned>, PlanError> {
    let filesystems = raw.parts.axes.iter().find(|axis| axis.name == "filesystem");
    if filesystems.is_none() && raw.parts.configurations.is_empty() {
        return Err(raw.error("axes", PlanProblem::NoFilesystem));
    }
    check_axes(document, raw, filesystems)?;
    for axis in &raw.parts.axes {
        for level in &axis.levels {
            check_journal(document, &axis.name, level, devices)?;
        }
    }
    check_counts(raw, product_size(&raw.parts.axes))?;
    let mut planned = product(&raw.parts.axes);
    for one in planned.iter_mut().filter(|one| one.impossible.is_empty()) {
        set_general(raw, &mut one.configuration);
        one.contradictions = all_contradictions(raw, &one.configuration, devices);
    }
    name_conditions(&raw.parts.axes, &mut planned);
    if let Some(first) = planned.first()
        && planned.iter().all(|one| !one.contradictions.is_empty())
    {
        return Err(document.error(&blamed(raw, &first.contradictions), contradiction(first)));
    }
    let mut names: BTreeSet<String> = planned.iter().map(|one| one.configuration.name.clone()).collect();
    for one in &raw.parts.configurations {
        let kernels = kernel_levels(raw, &one.filesystem);
        for kernel in kernels_of(one, kernels) {
            let mut named = named(document, one, devices)?;
            set_general(raw, &mut named.configuration);
            if let Some(RawLevel { text, .. }) = kernel {
                named.configuration.settings.insert(KERNEL.to_string(), text.clone());
                if kernels.len() > 1 {
                    named.configuration.name.push_str(&format!(" {text}"));
                }
            }
            let named = consistent(document, raw, one, named, devices)?;
            if !names.insert(named.configuration.name.clone()) {
                let name = named.configuration.name;
                return Err(document.error(&one.at, PlanProblem::NameTwice { name }));
            }
            planned.push(named);
        }
    }
    Ok(planned)
}

fn all_contradictions(raw: &RawPlan<'_>, configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let mut found = contradictions(configuration, devices);
    let served = raw.serve.as_ref().map(|serve| serve.protocol);
    found.extend(serve::contradictions(configuration, served));
    found
}

/// Applies the levels that the plan sets for all configurations to one that has no level of its own.
fn set_general(raw: &RawPlan<'_>, configuration: &mut Configuration) {
    for (axis, level) in [(MEMORY, &raw.parts.memory), (CACHE, &raw.parts.cache)] {
        if let Some(level) = level {
            configuration.settings.entry(axis.to_string()).or_insert_with(|| level.clone());
        }
    }
}

/// A named configuration, which must not contradict itself.
fn consistent(
    document: &Document,
    plan: &RawPlan<'_>,
    raw: &RawConfiguration,
    mut named: Planned,
    devices: &Devices,
) -> Result<Planned, PlanError> {
    if named.impossible.is_empty() {
        named.contradictions = all_contradictions(plan, &named.configuration, devices);
    }
    match named.contradictions.is_empty() {
        true => Ok(named),
        false => Err(document.error(&raw.at, contradiction(&named))),
    }
}

/// The levels of the axis `kernel` for a filesystem: its own take precedence over the general ones.
fn kernel_levels<'a>(raw: &'a RawPlan<'_>, filesystem: &str) -> &'a [RawLevel] {
    let axis = |within| raw.parts.axes.iter().find(|axis| axis.name == KERNEL && axis.within == within);
    axis(Some(filesystem)).or_else(|| axis(None)).map_or(&[], |axis| &axis.levels)
}

/// The kernels that a named configuration runs on. The axis `kernel` says where a configuration runs rather
/// than what is built, so a configuration without a kernel of its own runs on each of them.
fn kernels_of<'a>(
    raw: &RawConfiguration,
    kernels: &'a [RawLevel],
) -> impl Iterator<Item = Option<&'a RawLevel>> + use<'a> {
    let own = raw.settings.iter().any(|(name, _, _)| name == KERNEL);
    let each = if own { &[] } else { kernels };
    each.iter().map(Some).chain(each.is_empty().then_some(None))
}

/// Every axis must apply to at least one of the filesystems that it is set for.
fn check_axes(
    document: &Document,
    raw: &RawPlan<'_>,
    filesystems: Option<&RawAxis>,
) -> Result<(), PlanError> {
    let names: Vec<&str> = match filesystems {
        Some(axis) => axis.levels.iter().map(|level| level.text.as_str()).collect(),
        None => Vec::new(),
    };
    for axis in &raw.parts.axes {
        let asked = axis.within.map_or(names.clone(), |filesystem| vec![filesystem]);
        if axis.within.is_some() && axis.name == "filesystem" {
            let problem = PlanProblem::Pointless {
                key: axis.name.clone(),
                beside: format!("[axes.{}]", axis.within.unwrap_or_default()),
            };
            return Err(document.error(&axis.at, problem));
        }
        if filesystems.is_none() && axis.name == KERNEL {
            continue;
        }
        if filesystems.is_none() {
            return Err(document.error(&axis.at, PlanProblem::NoFilesystem));
        }
        if !asked.iter().any(|filesystem| axis.axis.applies_to(filesystem)) {
            let problem = not_for(&axis.name, axis.axis, &asked.join(", "));
            return Err(document.error(&axis.at, problem));
        }
    }
    Ok(())
}

fn not_for(name: &str, axis: &fsdyno_core::Axis, filesystems: &str) -> PlanProblem {
    PlanProblem::AxisNotForFilesystem {
        axis: name.to_string(),
        takes: axis.filesystems().collect::<Vec<_>>().join(", "),
        filesystems: filesystems.to_string(),
    }
}

/// An external journal needs a device in the plan: the one it names, or the only one.
fn check_journal(
    document: &Document,
    axis: &str,
    level: &RawLevel,
    devices: &Devices,
) -> Result<(), PlanError> {
    let Some(rest) = (axis == "journal").then(|| level.text.strip_prefix("external")).flatten() else {
        return Ok(());
    };
    let journals = &devices.journals;
    let known = || journals.keys().cloned().collect();
    let problem = match rest.strip_prefix(':') {
        _ if journals.is_empty() => PlanProblem::NoJournalDevice { level: level.text.clone() },
        None if journals.len() == 1 => return Ok(()),
        None => PlanProblem::AmbiguousJournal { known: known() },
        Some(name) if journals.contains_key(name) => return Ok(()),
        Some(name) => PlanProblem::UnknownJournal {
            name: name.to_string(),
            nearest: fsdyno_core::nearest(name, journals.keys().map(String::as_str)).map(str::to_string),
            known: known(),
        },
    };
    Err(document.error(&level.at, problem))
}

fn check_counts(raw: &RawPlan<'_>, product: u128) -> Result<(), PlanError> {
    let named = raw.parts.configurations.iter().map(|one| kernel_levels(raw, &one.filesystem).len().max(1));
    let configurations = product.saturating_add(named.sum::<usize>() as u128);
    let loads = raw.workloads.len() * raw.parts.device.models.len().max(1);
    let count = configurations.saturating_mul(loads as u128);
    if count > MAX_CASES {
        return Err(raw.error("axes", PlanProblem::TooManyCases { count, limit: MAX_CASES }));
    }
    let trials = count
        .saturating_add(1)
        .saturating_mul(raw.enough.map_or(raw.repetitions, |enough| enough.max).into());
    if trials > MAX_TRIALS {
        let problem = PlanProblem::TooManyTrials { count: trials, limit: MAX_TRIALS };
        return Err(raw.error("repetitions", problem));
    }
    Ok(())
}

fn named(document: &Document, raw: &RawConfiguration, devices: &Devices) -> Result<Planned, PlanError> {
    for (name, axis, level) in &raw.settings {
        if !axis.applies_to(&raw.filesystem) {
            return Err(document.error(&level.at, not_for(name, axis, &raw.filesystem)));
        }
        check_journal(document, name, level, devices)?;
    }
    let configuration = Configuration {
        name: raw.name.clone(),
        filesystem: raw.filesystem.clone(),
        settings: raw.settings.iter().map(|(name, _, level)| (name.clone(), level.text.clone())).collect(),
    };
    let mapped = raw.settings.iter().filter_map(|(_, _, level)| level.note.as_deref().map(mapped));
    let note = raw.note.iter().map(|note| Warning::new(WarningKind::NearestEquivalent, note));
    Ok(Planned {
        configuration,
        warnings: mapped.chain(note).collect(),
        contradictions: Vec::new(),
        impossible: raw.impossible.iter().cloned().collect(),
    })
}

fn contradiction(planned: &Planned) -> PlanProblem {
    PlanProblem::Contradiction {
        name: planned.configuration.name.clone(),
        reasons: planned.contradictions.clone(),
    }
}

/// The axis that a contradiction refers to; the last one in the file if there are several.
fn blamed(raw: &RawPlan<'_>, reasons: &[String]) -> Origin {
    let spoken_of = |axis: &&RawAxis| {
        reasons.iter().any(|reason| {
            reason.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == axis.name)
        })
    };
    let last = raw.parts.axes.iter().filter(spoken_of).max_by_key(|axis| match &axis.at {
        Origin::Text(range) => range.start,
        Origin::Argument(_) | Origin::Document => usize::MAX,
    });
    last.map_or(raw.at("axes").clone(), |axis| axis.at.clone())
}
