//! A plan: what to sweep, from a TOML file and the arguments that change it.
//!
//! Two stages. [`crate::raw`] types every key by itself and looks at nothing but the text. This module resolves what is
//! left: it reads profiles, takes shares of the device, checks that axes fit filesystems and that journals have devices,
//! multiplies the axes, and refuses a plan that contradicts itself.
//!
//! **Axes nest.** An axis that a filesystem does not have collapses for it: no case is there twice. `[axes.xfs]` holds
//! only where the filesystem is xfs, and there takes precedence over the same axis in `[axes]`.
//!
//! **Contradictions.** Settings that no machine can have together are an error in a named configuration, and in a product
//! when every one of its points has such. Otherwise the point stays in the plan, and its trials are `skipped` with the
//! contradiction as unmet requirement: nothing is dropped silently.
//!
//! **Kernels.** The axis `kernel` says where a configuration runs, not what it is: a named configuration that names none runs
//! on each of them.
//!
//! **The impossible.** Published studies have settings that no tool knows any more. A named configuration says so by
//! `impossible = "why"`. Such cases are part of the plan, and their trials are skipped with the reason.

use crate::cases::{self, Planned};
use crate::document::{Document, Origin, Section};
use crate::error::{PlanError, PlanProblem};
use crate::file;
use crate::raw::{self, RawAxis, RawConfiguration, RawLevel, RawPlan};
use crate::workload;
use fsdyno_core::axis::DEFAULT;
use fsdyno_core::kernel::{DEBIAN_PREFIX, HOST_KERNEL};
use fsdyno_core::{
    Configuration, DeviceSpec, Devices, GuestShape, KernelSpec, Measure, Nanos, Study, Warning, WarningKind,
    Workload,
};
use fsdyno_testbed::contradictions;
use fsdyno_verdict::enough::Enough;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most cases that a plan may have; a day has time for about a thousand trials.
const MAX_CASES: u128 = 100_000;
/// Most trials that a plan may have.
const MAX_TRIALS: u128 = 1_000_000;
/// The axis of what a configuration runs on.
const KERNEL: &str = "kernel";
/// The filesystem of a configuration that is used as it stands.
const EXISTING: &str = "existing";

/// A plan, resolved: everything that is to be swept, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name; the file's when the plan gives none.
    pub name: String,
    /// The text that it was parsed from.
    pub text: String,
    /// The `PATH=VALUE` arguments that changed it.
    pub overrides: Vec<String>,
    /// The published study that it runs again.
    pub study: Option<Study>,
    /// Blocks: trials of each case, the least where `enough` says how many more.
    pub repetitions: u32,
    /// When a case has been repeated enough; absent where the number of blocks is fixed.
    pub enough: Option<Enough>,
    /// Seed of the order, the trees, the contents and the filesystem UUIDs.
    pub seed: u64,
    /// What the summary ranks by.
    pub measure: Measure,
    /// How long an engine may show no progress beyond what its stage should take, and a step of taking a trial down once
    /// something hangs.
    pub watchdog: Nanos,
    /// Time between samples of telemetry while a phase is measured; none are taken when absent.
    pub telemetry: Option<Nanos>,
    /// What filesystems are made on.
    pub devices: Devices,
    /// What runs on them.
    pub workloads: Vec<Workload>,
    /// The machine that guests see.
    pub guest: GuestShape,
    /// The kernels of guests, by the levels of the axis `kernel`.
    pub kernels: BTreeMap<String, KernelSpec>,
    pub(crate) configurations: Vec<Planned>,
}

impl Plan {
    /// Reads and resolves a plan. `overrides` are `PATH=VALUE`, applied in their order before anything is checked.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Plan, PlanError> {
        let name = path.display().to_string();
        let text = file::read(path).map_err(|error| PlanError {
            problem: Box::new(PlanProblem::Read { reason: error.to_string() }),
            location: Box::new(crate::error::Location::File { file: name.clone() }),
        })?;
        Plan::parse(&text, &name, overrides)
    }

    /// Resolves a plan from its text. `file` is its name in messages; paths of profiles are relative to its directory.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn parse(text: &str, file: &str, overrides: &[String]) -> Result<Plan, PlanError> {
        let (document, root) = Document::parse(file, text, overrides, raw::takes_key)?;
        let stem = Path::new(file).file_stem().map_or("plan".into(), |stem| stem.to_string_lossy());
        let raw = RawPlan::read(&document, &root, &stem)?;
        let base = Path::new(file).parent().unwrap_or(Path::new(""));
        resolve(&document, raw, text, overrides, base)
    }
}

/// The published study that a plan runs again, from the text and the arguments of a stored sweep. Nothing else of the plan
/// is looked at: what it refers to may be gone.
///
/// # Errors
/// When the text is no TOML, or names a study that is none.
pub fn study(text: &str, overrides: &[String]) -> Result<Option<Study>, PlanError> {
    let (document, root) = Document::parse("the stored plan", text, overrides, raw::takes_key)?;
    raw::study(&Section::new(&document, &root, "the plan")?)
}

fn resolve(
    document: &Document,
    raw: RawPlan,
    text: &str,
    overrides: &[String],
    base: &Path,
) -> Result<Plan, PlanError> {
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
    let measure = match (raw.measure, workloads.first()) {
        (Some(measure), _) => measure,
        (None, Some(workload)) => workload
            .load()
            .default_measure()
            .parse()
            .map_err(|error| document.error(&Origin::Document, PlanProblem::Measure(error)))?,
        (None, None) => return Err(document.error(&Origin::Document, PlanProblem::NoWorkload)),
    };
    Ok(Plan {
        guest: raw.guest,
        kernels,
        name: raw.name,
        text: text.to_string(),
        overrides: overrides.to_vec(),
        study: raw.study,
        repetitions: raw.repetitions,
        enough: raw.enough,
        seed: raw.seed,
        measure,
        watchdog: raw.watchdog,
        telemetry: raw.telemetry,
        devices,
        workloads,
        configurations,
    })
}

/// The kernels that the levels of the axis `kernel` mean. Paths are relative to `base`.
fn kernels(
    document: &Document,
    raw: &RawPlan,
    base: &Path,
) -> Result<BTreeMap<String, KernelSpec>, PlanError> {
    let of_axes = raw.axes.iter().filter(|axis| axis.name == KERNEL).flat_map(|axis| &axis.levels);
    let of_configurations = raw.configurations.iter().flat_map(|configuration| &configuration.settings);
    let named = of_configurations.filter(|(name, _, _)| name == KERNEL).map(|(_, _, level)| level);
    let guests = of_axes.chain(named).filter(|level| ![HOST_KERNEL, DEFAULT].contains(&level.text.as_str()));
    guests
        .map(|level| {
            let spec = match raw.kernels.get(&level.text) {
                Some(KernelSpec::Image { name, image, modules }) => KernelSpec::Image {
                    name: name.clone(),
                    image: base.join(image),
                    modules: modules.as_ref().map(|modules| base.join(modules)),
                },
                _ => kernel(&level.text).ok_or_else(|| {
                    let known = raw.kernels.keys().map(String::as_str).chain([HOST_KERNEL]);
                    let nearest = fsdyno_core::nearest(&level.text, known).map(str::to_string);
                    let name = level.text.clone();
                    document.error(&level.at, PlanProblem::UnknownKernel { name, nearest })
                })?,
            };
            Ok((level.text.clone(), spec))
        })
        .collect()
}

/// A kernel by what its level says: a package, or a release.
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

fn devices(document: &Document, raw: &RawPlan) -> Result<Devices, PlanError> {
    let mut paths: BTreeSet<&Path> = raw.device.disks().into_iter().map(DeviceSpec::path).collect();
    for journal in raw.journals.values() {
        if !paths.insert(journal.spec.path()) {
            let path = journal.spec.path().display().to_string();
            return Err(document.error(&journal.at, PlanProblem::SameDevice { path }));
        }
    }
    let journals = raw.journals.iter().map(|(name, journal)| (name.clone(), journal.spec.clone())).collect();
    Ok(Devices { data: raw.device.clone(), journals })
}

/// The one configuration of a plan that uses a directory as it stands.
fn existing(document: &Document, raw: &RawPlan) -> Result<Vec<Planned>, PlanError> {
    let pointless =
        |key: &str| PlanProblem::Pointless { key: key.to_string(), beside: "directory".to_string() };
    if let Some(axis) = raw.axes.first() {
        return Err(document.error(&axis.at, pointless(&axis.name)));
    }
    if let Some(configuration) = raw.configurations.first() {
        return Err(document.error(&configuration.at, pointless("configurations")));
    }
    if let Some(journal) = raw.journals.values().next() {
        return Err(document.error(&journal.at, pointless("journals")));
    }
    let configuration = Configuration {
        name: raw.device.path().display().to_string(),
        filesystem: EXISTING.to_string(),
        settings: Default::default(),
    };
    let planned = vec![Planned {
        configuration,
        warnings: Vec::new(),
        contradictions: Vec::new(),
        impossible: Vec::new(),
    }];
    check_counts(document, raw, 1)?;
    Ok(planned)
}

/// The product of the axes and the named configurations beside it, each with its contradictions.
fn configurations(document: &Document, raw: &RawPlan, devices: &Devices) -> Result<Vec<Planned>, PlanError> {
    let filesystems = raw.axes.iter().find(|axis| axis.name == "filesystem");
    if filesystems.is_none() && raw.configurations.is_empty() {
        return Err(document.error(&raw.axes_at, PlanProblem::NoFilesystem));
    }
    check_axes(document, raw, filesystems)?;
    for axis in &raw.axes {
        for level in &axis.levels {
            check_journal(document, &axis.name, level, devices)?;
        }
    }
    check_counts(document, raw, cases::product_size(&raw.axes))?;
    let mut planned = cases::product(&raw.axes);
    for one in planned.iter_mut().filter(|one| one.impossible.is_empty()) {
        one.contradictions = contradictions(&one.configuration, devices);
    }
    if let Some(first) = planned.first()
        && planned.iter().all(|one| !one.contradictions.is_empty())
    {
        return Err(document.error(&blamed(raw, &first.contradictions), contradiction(first)));
    }
    for one in &raw.configurations {
        let kernels = kernel_levels(raw, &one.filesystem);
        for kernel in kernels_of(one, kernels) {
            let mut named = named(document, one, devices)?;
            if let Some(RawLevel { text, .. }) = kernel {
                named.configuration.settings.insert(KERNEL.to_string(), text.clone());
                if kernels.len() > 1 {
                    named.configuration.name.push_str(&format!(" {text}"));
                }
            }
            add_named(document, one, named, devices, &mut planned)?;
        }
    }
    Ok(planned)
}

/// Adds a named configuration, which must make sense and have a name of its own.
fn add_named(
    document: &Document,
    raw: &RawConfiguration,
    mut named: Planned,
    devices: &Devices,
    planned: &mut Vec<Planned>,
) -> Result<(), PlanError> {
    if named.impossible.is_empty() {
        named.contradictions = contradictions(&named.configuration, devices);
    }
    if !named.contradictions.is_empty() {
        return Err(document.error(&raw.at, contradiction(&named)));
    }
    if planned.iter().any(|other| other.configuration.name == named.configuration.name) {
        let name = named.configuration.name;
        return Err(document.error(&raw.at, PlanProblem::NameTwice { name }));
    }
    planned.push(named);
    Ok(())
}

/// The levels of the axis `kernel` for a filesystem: its own before the general ones.
fn kernel_levels<'a>(raw: &'a RawPlan, filesystem: &str) -> &'a [RawLevel] {
    let axis = |within| raw.axes.iter().find(|axis| axis.name == KERNEL && axis.within == within);
    axis(Some(filesystem)).or_else(|| axis(None)).map_or(&[], |axis| &axis.levels)
}

/// The kernels that a named configuration runs on: the axis `kernel` is no setting of what is built but says where, so that
/// one that names none of its own runs on each.
fn kernels_of<'a>(
    raw: &RawConfiguration,
    kernels: &'a [RawLevel],
) -> impl Iterator<Item = Option<&'a RawLevel>> + use<'a> {
    let own = raw.settings.iter().any(|(name, _, _)| name == KERNEL);
    let each = if own { &[] } else { kernels };
    each.iter().map(Some).chain(each.is_empty().then_some(None))
}

/// Every axis must be one of at least one filesystem that it is asked for.
fn check_axes(document: &Document, raw: &RawPlan, filesystems: Option<&RawAxis>) -> Result<(), PlanError> {
    let names: Vec<&str> = match filesystems {
        Some(axis) => axis.levels.iter().map(|level| level.text.as_str()).collect(),
        None => Vec::new(),
    };
    for axis in &raw.axes {
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

/// An external journal needs a device of the plan, named or the only one.
fn check_journal(
    document: &Document,
    axis: &str,
    level: &RawLevel,
    devices: &Devices,
) -> Result<(), PlanError> {
    let Some(rest) = (axis == "journal").then(|| level.text.strip_prefix("external")).flatten() else {
        return Ok(());
    };
    let known: Vec<String> = devices.journals.keys().cloned().collect();
    let problem = match rest.strip_prefix(':') {
        _ if known.is_empty() => PlanProblem::NoJournalDevice { level: level.text.clone() },
        None if known.len() == 1 => return Ok(()),
        None => PlanProblem::AmbiguousJournal { known },
        Some(name) if devices.journals.contains_key(name) => return Ok(()),
        Some(name) => PlanProblem::UnknownJournal {
            name: name.to_string(),
            nearest: fsdyno_core::nearest(name, known.iter().map(String::as_str)).map(str::to_string),
            known,
        },
    };
    Err(document.error(&level.at, problem))
}

fn check_counts(document: &Document, raw: &RawPlan, product: u128) -> Result<(), PlanError> {
    let named = raw.configurations.iter().map(|one| kernel_levels(raw, &one.filesystem).len().max(1));
    let configurations = product.saturating_add(named.sum::<usize>() as u128);
    let count = configurations.saturating_mul(raw.workloads.len() as u128);
    if count > MAX_CASES {
        return Err(document.error(&raw.axes_at, PlanProblem::TooManyCases { count, limit: MAX_CASES }));
    }
    let trials = count
        .saturating_add(1)
        .saturating_mul(raw.enough.map_or(raw.repetitions, |enough| enough.max).into());
    if trials > MAX_TRIALS {
        let problem = PlanProblem::TooManyTrials { count: trials, limit: MAX_TRIALS };
        return Err(document.error(&raw.repetitions_at, problem));
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
    let mapped = raw.settings.iter().filter_map(|(_, _, level)| level.note.as_deref().map(cases::mapped));
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

/// The axis that a contradiction speaks of, the last one in the file where it speaks of several.
fn blamed(raw: &RawPlan, reasons: &[String]) -> Origin {
    let spoken_of = |axis: &&RawAxis| {
        reasons.iter().any(|reason| {
            reason.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == axis.name)
        })
    };
    let last = raw.axes.iter().filter(spoken_of).max_by_key(|axis| match &axis.at {
        Origin::Text(range) => range.start,
        Origin::Argument(_) | Origin::Document => usize::MAX,
    });
    last.map_or(raw.axes_at.clone(), |axis| axis.at.clone())
}
