//! The confounders of a trial: influences on its figures besides the configuration, which a reader must know
//! before trusting them.
//!
//! A pure function of the record: what was measured, what the machine did meanwhile, and what the machine is.
//! Each confounder is reported for every phase that it was seen in, the worst first. Others are reported
//! where they are detected: the engine reports trees smaller than memory, readers that started their tree
//! again, and a slow timer; the testbed reports options that are not in force and settings that weaken what
//! survives a power cut.
//!
//! The thresholds separate what any healthy run shows from what changes its figures by several percent.

use crate::text;
use fsdyno_core::environment::DeviceFacts;
use fsdyno_core::figures::total;
use fsdyno_core::filesystem;
use fsdyno_core::measure::Measure;
use fsdyno_core::operation::Moves;
use fsdyno_core::profile;
use fsdyno_core::result::{CpuTime, RoleResult, WHOLE_RUN, Watched};
use fsdyno_core::telemetry::{DeviceActivity, TaskKind, TaskTime};
use fsdyno_core::workload::device_read::CACHED;
use fsdyno_core::{Bytes, CacheState, DeviceSpec, Nanos, Role, TrialRecord, Warning, WarningKind, Workload};

/// Share of the bytes read that may come from the page cache.
const CACHED_SHARE: f64 = 0.2;
/// Share of the bytes written that need not reach the device in the window.
const ABSORBED_SHARE: f64 = 0.2;
/// Share of the bytes read that may come from the device if all of it should be in memory: filesystems read
/// some metadata again.
const COLD_SHARE: f64 = 0.05;
/// Bytes that a device delivers for a name and its inode, at least: an inode of ext2 in its smallest form.
const LEAST_OF_A_NAME: f64 = 128.0;
/// With fewer names than this, a share of them means nothing.
const FEW_NAMES: f64 = 1000.0;
/// Share of all processors that other processes may use.
pub(crate) const FOREIGN_SHARE: f64 = 0.05;
/// With fewer bytes than this, a share of them means nothing.
const FEW_BYTES: u64 = 16 * Bytes::MIB;
/// Share of all processors that workers may use.
const WORKERS_SHARE: f64 = 0.9;
/// Share of all processors that a hypervisor may take away.
pub(crate) const STEAL_SHARE: f64 = 0.02;
/// Bytes per second that other processes may read and write on our disk...
const OTHERS_RATE: f64 = 1e6;
/// ...and their share of what it moved.
const OTHERS_SHARE: f64 = 0.05;
/// With more processor time than this, lazy initialisation has written more than a few blocks.
const LAZY_INIT: Nanos = Nanos::from_millis(1);

/// All confounders of a trial.
pub fn confounders(record: &TrialRecord) -> Vec<Warning> {
    if record.phases.is_empty() {
        return Vec::new();
    }
    let seen = Watched::of(&record.phases);
    let of_phases = [
        page_cache(record, &seen),
        names_from_memory(record, &seen),
        write_cache_absorbed(record, &seen),
        cache_not_warm(record, &seen),
        foreign_load(&seen),
        lazy_initialisation(&seen),
        processors_saturated(&seen),
        steal_time(&seen),
        other_io(record, &seen),
    ];
    let of_trial = [compression(record), write_cache(record)];
    of_phases.into_iter().flatten().chain(of_trial.into_iter().flatten()).collect()
}

/// Bytes per second over the time in which the machine was watched.
fn rate(one: &Watched<'_>, bytes: u64) -> f64 {
    bytes as f64 / one.telemetry.window.length_ns.as_secs_f64().max(1e-9)
}

/// A warning for each phase whose weight exceeds the limit, the largest first, with the text that its weight
/// has.
fn beyond<'a>(
    kind: WarningKind,
    seen: &[Watched<'a>],
    limit: f64,
    weight: impl Fn(&Watched<'a>) -> Option<f64>,
    text: impl Fn(&Watched<'a>, f64) -> Option<String>,
) -> Vec<Warning> {
    let weighed = seen.iter().filter_map(|one| Some((one, weight(one)?)));
    let mut heavy: Vec<(&Watched<'a>, f64)> = weighed.filter(|(_, weight)| *weight > limit).collect();
    heavy.sort_by(|a, b| b.1.total_cmp(&a.1));
    let warning = |(one, weight): (&Watched<'a>, f64)| {
        let text = text(one, weight)?;
        Some(match one.name {
            WHOLE_RUN => Warning::new(kind, format!("{WHOLE_RUN}: {text}")),
            name => Warning::new(kind, text).in_phase(name),
        })
    };
    heavy.into_iter().filter_map(warning).collect()
}

/// Bytes that workers read but the device did not deliver. A filesystem that compresses returns more than it
/// reads, so it cannot be judged. Phases that are meant to read from memory get no warning.
fn page_cache(record: &TrialRecord, seen: &[Watched<'_>]) -> Vec<Warning> {
    if compresses(record) || record.configuration.cache() == CacheState::Warm {
        return Vec::new();
    }
    let read = |one: &Watched<'_>| -> u64 { total(one.roles.iter().map(|role| bytes_read(role))) };
    let meant =
        |one: &Watched<'_>| matches!(record.workload, Workload::DeviceRead(_)) && one.name == CACHED.name;
    let share = |one: &Watched<'_>| {
        if meant(one) {
            return None;
        }
        let bytes = read(one);
        let from_device = one.telemetry.filesystem_device(members(record))?.read_bytes;
        (bytes >= FEW_BYTES).then(|| 1.0 - from_device.min(bytes) as f64 / bytes as f64)
    };
    beyond(WarningKind::PageCache, seen, CACHED_SHARE, share, |one, share| {
        let device = one.telemetry.devices.first()?;
        Some(format!(
            "{:.0} % of the {:.0} MB read came from the page cache: device '{device}' delivered {:.0} MB",
            share * 100.0,
            megabytes(read(one)),
            megabytes(one.telemetry.filesystem_device(members(record))?.read_bytes)
        ))
    })
}

/// Names of a walk that the device did not deliver: they were in memory since the walk before.
fn names_from_memory(record: &TrialRecord, seen: &[Watched<'_>]) -> Vec<Warning> {
    if record.configuration.cache() == CacheState::Warm {
        return Vec::new();
    }
    let names = |one: &Watched<'_>| -> f64 {
        let scanners = one.roles.iter().filter(|role| role.role == Role::Scanner);
        scanners.map(|role| role.rates.items_per_s).sum::<f64>() * one.window_ns.as_secs_f64()
    };
    let share = |one: &Watched<'_>| {
        let least = names(one) * LEAST_OF_A_NAME;
        let from_device = one.telemetry.filesystem_device(members(record))?.read_bytes as f64;
        (names(one) >= FEW_NAMES).then(|| 1.0 - from_device.min(least) / least)
    };
    beyond(WarningKind::PageCache, seen, CACHED_SHARE, share, |one, share| {
        Some(format!(
            "at least {:.0} % of the {:.0} names that were looked at came from memory: device '{}' delivered \
             {:.1} MB",
            share * 100.0,
            names(one),
            one.telemetry.devices.first()?,
            megabytes(one.telemetry.filesystem_device(members(record))?.read_bytes)
        ))
    })
}

/// Returns the number of bytes that are written to the devices for each byte of file data.
fn written_per_byte(record: &TrialRecord) -> f64 {
    let profile = record.configuration.level("data_profile").and_then(profile::find);
    profile.map_or(1.0, |profile| profile.written_per_byte(members(record)))
}

/// Over how many devices the filesystem spreads.
fn members(record: &TrialRecord) -> usize {
    record.configuration.device.members().len()
}

/// Bytes that workers wrote but the device did not receive in the window: the page cache absorbed them. A
/// filesystem that compresses writes fewer bytes than it is given, and one that journals data may have it on
/// the device of its journal, so neither can be judged.
fn write_cache_absorbed(record: &TrialRecord, seen: &[Watched<'_>]) -> Vec<Warning> {
    let mut options = record.configuration.built.mount_options_in_force.split(',');
    if compresses(record) || options.any(|option| option == "data=journal") {
        return Vec::new();
    }
    let written = |one: &Watched<'_>| -> u64 { total(one.roles.iter().map(|role| bytes_written(role))) };
    let share = |one: &Watched<'_>| {
        let bytes = written(one);
        let on_device = one.telemetry.filesystem_device(members(record))?.write_bytes;
        let to_device = (on_device as f64 / written_per_byte(record)) as u64;
        (bytes >= FEW_BYTES).then(|| 1.0 - to_device.min(bytes) as f64 / bytes as f64)
    };
    beyond(WarningKind::WriteCacheAbsorbed, seen, ABSORBED_SHARE, share, |one, share| {
        Some(format!(
            "{:.0} % of the {:.0} MB written did not reach device '{}' in that time; see write-durable",
            share * 100.0,
            megabytes(written(one)),
            one.telemetry.devices.first()?
        ))
    })
}

/// Bytes that came from the device although the plan wants everything in memory.
fn cache_not_warm(record: &TrialRecord, seen: &[Watched<'_>]) -> Vec<Warning> {
    if record.configuration.cache() != CacheState::Warm {
        return Vec::new();
    }
    let is_warmed =
        |one: &Watched<'_>| record.phases.iter().any(|phase| phase.name == one.name && phase.cache.is_some());
    let read = |one: &Watched<'_>| -> u64 { total(one.roles.iter().map(|role| bytes_read(role))) };
    let from_device = |one: &Watched<'_>| Some(one.telemetry.filesystem_device(members(record))?.read_bytes);
    let share = |one: &Watched<'_>| {
        let (bytes, from_device) = (read(one), from_device(one)?);
        (is_warmed(one) && bytes >= FEW_BYTES).then(|| from_device as f64 / bytes as f64)
    };
    beyond(WarningKind::CacheNotWarm, seen, COLD_SHARE, share, |one, share| {
        Some(format!(
            "cache = \"warm\", but {:.0} MB were read from the device, {:.0} % of what was read; look for what \
             else uses memory or drops caches",
            megabytes(from_device(one)?),
            share * 100.0
        ))
    })
}

/// Share of all processors that other processes used during the phases of a measure.
pub(crate) fn foreign_share(record: &TrialRecord, measure: &Measure) -> f64 {
    over_phases(record, measure, foreign)
}

/// Share of all processors that the hypervisor took away during the phases of a measure.
pub(crate) fn steal_share(record: &TrialRecord, measure: &Measure) -> f64 {
    over_phases(record, measure, stolen)
}

/// Returns the mean of a share over the phases of a measure, by their lengths.
fn over_phases(record: &TrialRecord, measure: &Measure, share: fn(&Watched<'_>) -> Option<f64>) -> f64 {
    let seen = Watched::of(&record.phases);
    let of_measure = seen.iter().filter(|one| one.name == WHOLE_RUN || measure.covers(record, one.name));
    let (mut taken, mut all) = (0.0, 0.0);
    for (one, share) in of_measure.filter_map(|one| Some((one, share(one)?))) {
        let length = one.telemetry.window.length_ns.as_secs_f64();
        (taken, all) = (taken + share * length, all + length);
    }
    if all > 0.0 { taken / all } else { 0.0 }
}

/// Returns the number of processors of the machine that was watched.
pub(crate) fn processors(record: &TrialRecord) -> u32 {
    Watched::of(&record.phases).first().map_or(1, |one| one.telemetry.processors)
}

fn foreign(one: &Watched<'_>) -> Option<f64> {
    let all = one.telemetry.window.length_ns.0 as f64 * f64::from(one.telemetry.processors);
    let of = |kind: TaskKind| one.telemetry.window.task_ns.get(&kind).copied();
    let others = of(TaskKind::Process)?;
    // A process that inherits an orphan seems to have used the orphan's whole life, also before the window.
    let busy = one.telemetry.window.cpu.map(|cpu| total([cpu.user_ns, cpu.nice_ns, cpu.system_ns]));
    let most = busy.map_or(u64::MAX, |busy| busy.saturating_sub(of(TaskKind::Own).unwrap_or(0)));
    (all > 0.0).then_some(others.min(most) as f64 / all)
}

fn stolen(one: &Watched<'_>) -> Option<f64> {
    let cpu = one.telemetry.window.cpu?;
    Some(cpu.share(cpu.steal_ns))
}

/// Processor time of processes that are neither fsdyno's nor the kernel's.
fn foreign_load(seen: &[Watched<'_>]) -> Vec<Warning> {
    // What the one that measures used is not among them.
    let name = |task: &TaskTime| match &*task.name {
        "fsdyno" => "another 'fsdyno'".to_string(),
        name => format!("'{name}'"),
    };
    beyond(WarningKind::ForeignLoad, seen, FOREIGN_SHARE, foreign, |one, share| {
        let busiest = one.telemetry.window.tasks.iter().find(|task| task.kind == TaskKind::Process);
        let busiest = busiest.map(|task| format!(", {} the most", name(task))).unwrap_or_default();
        let processors = text::plural(u64::from(one.telemetry.processors), "processor");
        Some(format!("other processes used {:.0} % of {processors}{busiest}", share * 100.0))
    })
}

/// Returns the number of bytes that a role wrote. A writer does nothing else that moves data.
fn bytes_written(role: &RoleResult) -> u64 {
    match role.role {
        Role::Writer => role.rates.bytes,
        _ => bytes_moved(role, Moves::Writes),
    }
}

/// Returns the number of bytes that a role read. A reader does nothing else; of the others, the operations
/// say which bytes they read.
fn bytes_read(role: &RoleResult) -> u64 {
    match role.role {
        Role::Reader => role.rates.bytes,
        _ => bytes_moved(role, Moves::Reads),
    }
}

fn bytes_moved(role: &RoleResult, way: Moves) -> u64 {
    let moving = role.operations.iter().filter(|result| result.operation.moves() == way);
    total(moving.flat_map(|result| result.timeline.bytes.iter().copied()))
}

/// Work that mkfs left to the kernel. The thread serves every ext4 filesystem of the machine.
fn lazy_initialisation(seen: &[Watched<'_>]) -> Vec<Warning> {
    let used = |one: &Watched<'_>| {
        one.telemetry.window.task_ns.get(&TaskKind::LazyInit).map(|time_ns| *time_ns as f64)
    };
    beyond(WarningKind::LazyInitialisation, seen, LAZY_INIT.0 as f64, used, |_, time_ns| {
        Some(format!(
            "ext4lazyinit used {:.0} ms of processor time to initialise inode tables, of this or another \
             filesystem of the machine",
            time_ns / 1e6
        ))
    })
}

/// Workers that leave no processor idle measure the processors. `null` does so by design. Those of clients
/// have other processors than the server that is watched.
fn processors_saturated(seen: &[Watched<'_>]) -> Vec<Warning> {
    let used = |one: &Watched<'_>| {
        if one.is_server {
            return None;
        }
        let roles = || one.roles.iter().filter(|role| role.role != Role::Null);
        let used = roles().fold(CpuTime::default(), |sum, role| sum + role.cpu).total().0 as f64;
        let all = one.window_ns.0 as f64 * f64::from(one.telemetry.processors);
        (all > 0.0).then(|| used / all)
    };
    beyond(WarningKind::ProcessorsSaturated, seen, WORKERS_SHARE, used, |one, share| {
        Some(format!(
            "workers used {:.0} % of {}: processor time is the limit, not the device",
            share.min(1.0) * 100.0,
            text::plural(u64::from(one.telemetry.processors), "processor")
        ))
    })
}

fn steal_time(seen: &[Watched<'_>]) -> Vec<Warning> {
    beyond(WarningKind::StealTime, seen, STEAL_SHARE, stolen, |_, share| {
        Some(format!("the hypervisor gave {:.1} % of the processors' time to others (steal)", share * 100.0))
    })
}

/// Other processes that read and write during the measurement. The kernel does not report on which device. If
/// the filesystem is ours alone, they can only have used the disk below it, and moved at most what that disk
/// moved beyond our own I/O. In a directory, what the workers moved counts as that, wherever it went.
fn other_io(record: &TrialRecord, seen: &[Watched<'_>]) -> Vec<Warning> {
    let others = |one: &Watched<'_>| -> u64 {
        total(one.telemetry.other_processes.iter().flat_map(|other| [other.read_bytes, other.write_bytes]))
    };
    let moved = |disk: &DeviceActivity| disk.read_bytes.saturating_add(disk.write_bytes);
    let on_disk = |one: &Watched<'_>| -> Option<(u64, u64)> {
        let disk = moved(one.telemetry.window.devices.iter().flatten().last()?);
        let own = match record.configuration.device {
            DeviceSpec::Directory { .. } => total(one.roles.iter().map(|role| role.rates.bytes)),
            _ => moved(&one.telemetry.filesystem_device(members(record))?),
        };
        Some((others(one).min(disk.saturating_sub(own)), disk))
    };
    let share = |one: &Watched<'_>| {
        let (bytes, disk) = on_disk(one)?;
        (rate(one, bytes) > OTHERS_RATE).then(|| bytes as f64 / disk.max(1) as f64)
    };
    beyond(WarningKind::OtherIo, seen, OTHERS_SHARE, share, |one, share| {
        let first = one.telemetry.other_processes.first()?;
        let more = match one.telemetry.other_processes.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "'{}' (process {}){more} moved up to {:.0} MB, {:.0} % of what '{}' moved",
            first.name,
            first.pid,
            megabytes(on_disk(one)?.0),
            share * 100.0,
            one.telemetry.devices.last()?
        ))
    })
}

/// A filesystem that compresses moves fewer bytes than it was given, if the content compresses well. If it
/// does not compress at all, compression only costs processor time.
fn compression(record: &TrialRecord) -> Option<Warning> {
    let content = record.workload.list().into_iter().find(|listed| listed.name == "content")?.value;
    if !compresses(record) {
        return None;
    }
    if content == "random" {
        let text = "compression is on, but the content of files is random, which does not compress: what \
            real data would gain is not measured";
        return Some(Warning::new(WarningKind::Incompressible, text));
    }
    let text = format!(
        "compression is on and the content of files is {content}: rates count bytes that never reach the \
         device"
    );
    Some(Warning::new(WarningKind::Compression, text))
}

fn compresses(record: &TrialRecord) -> bool {
    let mut options = record.configuration.built.mount_options_in_force.split(',');
    let off = ["no", "none"];
    options.any(|option| match option.split_once('=') {
        Some(("compress" | "compress-force", level)) => !off.contains(&level),
        None => matches!(option, "compress" | "compress-force"),
        Some(_) => false,
    })
}

/// A volatile write cache that the filesystem never flushes, or a device that does not report whether it has
/// one.
fn write_cache(record: &TrialRecord) -> Option<Warning> {
    let state = |device: &DeviceFacts| device.queue.get("write_cache").map(|state| state.trim().to_string());
    let options = record.configuration.built.mount_options_in_force.split(',');
    let unflushed = filesystem::switches_barriers_off(&record.configuration.filesystem, options);
    let volatile =
        record.environment.devices.iter().find(|device| state(device).as_deref() == Some("write back"));
    if let Some(device) = volatile.filter(|_| unflushed) {
        let text = format!(
            "'{}' has a volatile write cache and the filesystem never flushes it: writes are fast because \
             they are not safe",
            device.path
        );
        return Some(Warning::new(WarningKind::WriteCache, text));
    }
    // For a directory only the filesystem is known, and for an image the file: neither has a cache of its
    // own.
    let asked = record.configuration.device.is_of_blocks();
    let silent = record.environment.devices.iter().find(|device| state(device).is_none());
    let device = silent.filter(|_| asked)?;
    let text = format!("'{}' does not report whether it has a volatile write cache", device.path);
    Some(Warning::new(WarningKind::WriteCache, text))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests;
