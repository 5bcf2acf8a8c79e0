//! The beginning of a trial: with a filesystem of its own, or with a copy of one that was prepared for
//! several trials of the block.

use super::{Bench, Stop, cached_by_host, device_bytes, engine_request, load, unmount_between, unproven};
use crate::order::Slot;
use crate::plan::Case;
use crate::preparations::Made;
use fsdyno_core::axis::MEMORY;
use fsdyno_core::environment::DeviceFacts;
use fsdyno_core::protocol::{EnginePart, MemoryGroup};
use fsdyno_core::result::Lifecycle;
use fsdyno_core::workload::Need;
use fsdyno_core::{
    EngineRequest, Failure, Nanos, Progress, Reached, TrialRecord, TrialStep, Warning, WarningKind, Workload,
};
use fsdyno_host::{Command, Host};
use fsdyno_testbed::{Mounted, Prepared, Stack, TestbedError, memory};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A filesystem that the load can go on with.
pub(super) struct Begun {
    pub mounted: Mounted,
    /// The memory cgroup of the load, if the configuration asks for one.
    pub group: Option<MemoryGroup>,
    /// The points that the writers reached in the parts of the load that are done.
    pub reached: Vec<Reached>,
    /// The parts of the load that are done.
    pub parts_done: u32,
}

/// Builds the filesystem, or copies the one that was prepared, and mounts it.
pub(super) fn begin(
    bench: &mut Bench<'_, '_>,
    slot: &Slot,
    case: &Case,
    record: &mut TrialRecord,
) -> Result<Begun, Stop> {
    // The image of a guest is on another machine.
    let in_memory = match bench.site.ends() {
        true => None,
        false => memory::in_memory(bench.host, bench.device),
    };
    let in_memory = in_memory.as_deref();
    let (mounted, reached, parts_done) = match bench.site.preparations() {
        None => {
            record.lifecycle_ns.precondition = condition(bench, case)?;
            bench.begin(TrialStep::Build)?;
            let Bench { host, journal, testbed, stops, .. } = bench;
            let (configuration, seed) = (&case.configuration, slot.seed);
            let stack = fsdyno_testbed::build(*host, journal, testbed, configuration, seed, stops.interrupt)?;
            let mounted = format_and_mount(bench, stack, record)?;
            note_built(record, &mounted);
            (mounted, Vec::new(), 0)
        }
        Some(_) => {
            if ready(bench, slot, case).is_none() {
                prepare(bench, slot, case, in_memory, record)?;
            }
            let (mounted, reached) = copy(bench, slot, case, record)?;
            (mounted, reached, 1)
        }
    };
    record.warnings.extend_from_slice(mounted.warnings());
    record.set_environment(mounted.environment(bench.host));
    record.environment.tools.extend(program(bench.host, &case.workload));
    if let Some(clients) = bench.site.clients() {
        record.environment.clients = clients.facts();
    }
    record.environment.shared_trees = bench.plan.shared_trees;
    // The disks of a guest are files of another machine.
    if !bench.site.ends() {
        record.warnings.extend(mounted.shared_journal(bench.host));
        let cached = cached_by_host(Some(bench.device), in_memory);
        if cached.is_empty() {
            record.warnings.extend(cached_by_loop(bench.host, &record.environment.devices));
        }
        record.warnings.extend(cached);
    }
    let group = memory_group(bench, case, in_memory, record)?;
    Ok(Begun { mounted, group, reached, parts_done })
}

/// Discards or fills the disks for which the plan asks for it; returns how long that took.
fn condition(bench: &mut Bench<'_, '_>, case: &Case) -> Result<Option<Nanos>, Stop> {
    let begin = Instant::now();
    let load = case.workload.load().timing().total();
    let Bench { host, journal, testbed, stops, progress, .. } = bench;
    let on_progress = &mut |done: f64| {
        let left = begin.elapsed().mul_f64((1.0 - done) / done.max(0.001));
        let left_ns = Some(Nanos(load.0.saturating_add(Nanos::from(left).0)));
        progress(&Progress { done: Some(done), left_ns, ..Progress::at(TrialStep::Precondition) });
    };
    Ok(fsdyno_testbed::condition(*host, journal, testbed, &case.configuration, stops.interrupt, on_progress)?)
}

/// The program that the load runs, and its version if it prints one.
fn program(host: &mut dyn Host, workload: &Workload) -> Option<(String, String)> {
    let tool = workload.load().needs().iter().find_map(|need| match need {
        Need::Program(tool) => Some(tool),
        _ => None,
    })?;
    let output = host.run(&Command::new(tool.program).args([tool.version_argument?])).ok()?;
    let line = output.stdout.lines().next()?;
    Some((tool.program.to_string(), line.trim().to_string()))
}

/// A warning about a loop device that reads and writes its file through the page cache. Those of images have
/// direct I/O; one that a user names has what `losetup` was given, which is none by default.
fn cached_by_loop(host: &mut dyn Host, disks: &[DeviceFacts]) -> Option<Warning> {
    let is_cached = |disk: &&DeviceFacts| {
        let name = Path::new(&disk.path).file_name().unwrap_or_default();
        let direct = Path::new("/sys/block").join(name).join("loop/dio");
        host.read_text(&direct).is_ok_and(|direct| direct.trim() == "0")
    };
    let disk = disks.iter().find(is_cached)?;
    let text = format!(
        "'{}' is a loop device without direct I/O: the host caches what is read from it and written to it",
        disk.path
    );
    Some(Warning::new(WarningKind::HostCache, text))
}

/// Creates the memory cgroup of the load, if the configuration asks for one.
fn memory_group(
    bench: &mut Bench<'_, '_>,
    case: &Case,
    in_memory: Option<&Path>,
    record: &mut TrialRecord,
) -> Result<Option<MemoryGroup>, Stop> {
    if bench.plan.clients.is_some() {
        // Each of them makes its own.
        let group = |limit| MemoryGroup { directory: PathBuf::new(), limit };
        return Ok(case.configuration.memory().map(group));
    }
    match memory::group(bench.host, bench.journal, &case.configuration, in_memory) {
        // If memory is what the plan varies, a trial without its limit would be compared as if it had one.
        Err(TestbedError::Unmet { unmet }) if !bench.plan.varies(MEMORY) => {
            record.warnings.push(Warning::new(WarningKind::MemoryNotLimited, unmet.join("; ")));
            Ok(None)
        }
        group => Ok(group?),
    }
}

fn format_and_mount(
    bench: &mut Bench<'_, '_>,
    stack: Stack,
    record: &mut TrialRecord,
) -> Result<Mounted, Stop> {
    bench.begin(TrialStep::Mkfs)?;
    let formatted = stack.format(bench.host)?;
    let precondition = record.lifecycle_ns.precondition;
    record.lifecycle_ns = Lifecycle { precondition, ..formatted.lifecycle().clone() };

    bench.begin(TrialStep::Mount)?;
    let mounted = formatted.mount(bench.host, bench.journal)?;
    record.lifecycle_ns = Lifecycle { precondition, ..mounted.lifecycle().clone() };
    Ok(mounted)
}

fn ready<'b>(bench: &'b mut Bench<'_, '_>, slot: &Slot, case: &Case) -> Option<(&'b Prepared, &'b Made)> {
    bench.site.preparations()?.ready(case, slot)
}

/// Creates the filesystem and runs the part of the load that prepares it, then takes everything down but the
/// images.
fn prepare(
    bench: &mut Bench<'_, '_>,
    slot: &Slot,
    case: &Case,
    in_memory: Option<&Path>,
    record: &mut TrialRecord,
) -> Result<(), Stop> {
    // Of what is said about a trial, only what preparing has reported holds for those that begin with a copy.
    let mut own = unproven(slot, case, bench.device);
    let made = match prepared(bench, slot, case, in_memory, &mut own) {
        Ok(made) => made,
        Err(stop) => {
            *record = own;
            return Err(stop);
        }
    };
    record.lifecycle_ns = own.lifecycle_ns;
    (bench.progress)(&Progress::at(TrialStep::TearDown));
    let left = bench.journal.undo_all(bench.host).left;
    if !left.is_empty() {
        let mut failure = Failure::new("tear down", "cannot take down what the filesystem was prepared with");
        failure.details = left.join("\n");
        return Err(Stop::Failed(Box::new(failure)));
    }
    if let Some(preparations) = bench.site.preparations() {
        preparations.finish(bench.host, made)?;
    }
    Ok(())
}

fn prepared(
    bench: &mut Bench<'_, '_>,
    slot: &Slot,
    case: &Case,
    in_memory: Option<&Path>,
    record: &mut TrialRecord,
) -> Result<Made, Stop> {
    bench.begin(TrialStep::Build)?;
    let Bench { host, journal, testbed, stops, site, .. } = bench;
    let Some(preparations) = site.preparations() else {
        return Err(Stop::Failed(Box::new(Failure::new("build", "nothing is kept to be copied"))));
    };
    let stack = preparations.begin(*host, testbed, case, slot)?.build(*host, journal, stops.interrupt)?;
    let mut mounted = format_and_mount(bench, stack, record)?;
    note_built(record, &mounted);
    record.set_environment(mounted.environment(bench.host));
    let group = memory_group(bench, case, in_memory, record)?;
    bench.begin(TrialStep::StartEngine)?;
    let request = EngineRequest {
        part: EnginePart { number: 0, of: case.workload.load().parts() },
        memory: group,
        device_bytes: device_bytes(bench.device, record),
        ..engine_request(bench, slot, case, &mounted)
    };
    let before = record.warnings.len();
    let loaded = load(bench, &mut mounted, &request, record)?;

    let (_, took) = unmount_between(bench, mounted, loaded.written_back)?;
    record.lifecycle_ns.umount_between = took;
    if took.is_none() {
        let text = "another mount namespace kept the filesystem mounted, so it cannot be copied";
        let mut failure = Failure::new(TrialStep::UmountBetween.name(), text);
        failure.hint = Some("remove reuse from the plan, or create no namespaces meanwhile".to_string());
        return Err(Stop::Failed(Box::new(failure)));
    }
    Ok(Made {
        trial: slot.trial,
        mkfs_command: record.configuration.built.mkfs_command.clone(),
        timer: record.timer.clone(),
        trees: record.trees,
        filled: record.filled,
        warnings: record.warnings.split_off(before),
        reached: loaded.reached,
    })
}

/// Notes the commands of a build and what is in force as a result.
pub(super) fn note_built(record: &mut TrialRecord, mounted: &Mounted) {
    record.configuration.built = mounted.built().clone();
    record.recipe = mounted.recipe().cloned();
}

/// Copies what was prepared, and mounts the copy.
fn copy(
    bench: &mut Bench<'_, '_>,
    slot: &Slot,
    case: &Case,
    record: &mut TrialRecord,
) -> Result<(Mounted, Vec<Reached>), Stop> {
    let step = TrialStep::Copy;
    bench.begin(step)?;
    let Bench { host, journal, stops, progress, site, .. } = bench;
    let Some((prepared, made)) = site.preparations().and_then(|all| all.ready(case, slot)) else {
        return Err(Stop::Failed(Box::new(Failure::new(step.name(), "nothing was prepared"))));
    };
    let begin = Instant::now();
    let mut on_progress = |share| progress(&Progress { done: Some(share), ..Progress::at(step) });
    let formatted = prepared.copy(*host, journal, &case.configuration, stops.interrupt, &mut on_progress)?;
    record.lifecycle_ns.copy = Some(begin.elapsed().into());
    let made = made.clone();

    bench.begin(TrialStep::MountBetween)?;
    let mounted = formatted.mount(bench.host, bench.journal)?;
    let Lifecycle { mount, .. } = mounted.lifecycle();
    record.lifecycle_ns.mount_between = *mount;
    note_built(record, &mounted);
    record.configuration.built.mkfs_command = made.mkfs_command;
    record.prepared_in = Some(made.trial);
    record.timer = made.timer;
    record.trees = made.trees;
    record.filled = made.filled;
    record.warnings.extend(made.warnings);
    Ok((mounted, made.reached))
}
