//! What a reader must know before trusting the figures of a trial: what influenced them besides the
//! configuration.
//!
//! A pure function of the record: what was measured, what the machine did meanwhile, and what the machine is.
//! Each confounder is reported once, for the phase in which it was worst. Others are reported where they are
//! detected: the engine reports trees smaller than memory, readers that started their tree again, and a slow
//! timer; the testbed reports options that are not in force and settings that weaken what survives a power
//! cut.
//!
//! The thresholds separate what any healthy run shows from what changes its figures by several percent.

use fsdyno_core::environment::DeviceFacts;
use fsdyno_core::figures::total;
use fsdyno_core::filesystem;
use fsdyno_core::operation::Moves;
use fsdyno_core::result::{CpuTime, RoleResult, WHOLE_RUN, Watched};
use fsdyno_core::telemetry::{DeviceActivity, TaskKind};
use fsdyno_core::workload::device_read::CACHED;
use fsdyno_core::{Bytes, DeviceSpec, Nanos, Role, TrialRecord, Warning, WarningKind, Workload};

/// Share of the bytes read that may come from the page cache.
const CACHED_SHARE: f64 = 0.2;
/// With fewer bytes than this, a share of them means nothing.
const FEW_BYTES: u64 = 16 * Bytes::MIB;
/// Share of all processors that workers may use.
const WORKERS_SHARE: f64 = 0.9;
/// Share of all processors that a hypervisor may take away.
const STEAL_SHARE: f64 = 0.02;
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
    let found = [
        page_cache(record, &seen),
        lazy_initialisation(&seen),
        processors_saturated(&seen),
        steal_time(&seen),
        other_io(record, &seen),
        compression(record),
        write_cache(record),
    ];
    found.into_iter().flatten().collect()
}

/// Bytes per second over the time in which the machine was watched.
fn rate(one: &Watched<'_>, bytes: u64) -> f64 {
    bytes as f64 / one.telemetry.window.length_ns.as_secs_f64().max(1e-9)
}

/// The phase with the largest weight, if that exceeds the limit.
fn worst<'s, 'a>(
    seen: &'s [Watched<'a>],
    limit: f64,
    weight: impl Fn(&Watched<'a>) -> Option<f64>,
) -> Option<(&'s Watched<'a>, f64)> {
    let weighed = seen.iter().filter_map(|one| Some((one, weight(one)?)));
    weighed.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, weight)| *weight > limit)
}

fn warning(kind: WarningKind, one: &Watched<'_>, text: &str) -> Option<Warning> {
    let text = match one.name {
        WHOLE_RUN => format!("{WHOLE_RUN}: {text}"),
        name => format!("phase '{name}': {text}"),
    };
    Some(Warning::new(kind, text))
}

/// Bytes that workers read but the device did not deliver. A filesystem that compresses returns more than it
/// reads, so it cannot be judged. Phases that are meant to read from memory get no warning.
fn page_cache(record: &TrialRecord, seen: &[Watched<'_>]) -> Option<Warning> {
    if compresses(record) {
        return None;
    }
    let read = |one: &Watched<'_>| -> u64 { total(one.roles.iter().map(|role| bytes_read(role))) };
    let meant =
        |one: &Watched<'_>| matches!(record.workload, Workload::DeviceRead(_)) && one.name == CACHED.name;
    let (one, share) = worst(seen, CACHED_SHARE, |one| {
        if meant(one) {
            return None;
        }
        let bytes = read(one);
        let from_device = one.telemetry.filesystem_device()?.read_bytes;
        (bytes >= FEW_BYTES).then(|| 1.0 - from_device.min(bytes) as f64 / bytes as f64)
    })?;
    let device = one.telemetry.devices.first()?;
    let text = format!(
        "{:.0} % of the {:.0} MB read came from the page cache: device '{device}' delivered {:.0} MB",
        share * 100.0,
        megabytes(read(one)),
        megabytes(one.telemetry.filesystem_device()?.read_bytes)
    );
    warning(WarningKind::PageCache, one, &text)
}

/// A program's own report does not say what it read.
fn bytes_read(role: &RoleResult) -> u64 {
    match role.role {
        Role::Reader => role.rates.bytes,
        _ => {
            let reads = role.operations.iter().filter(|result| result.operation.moves() == Moves::Reads);
            total(reads.flat_map(|result| result.timeline.bytes.iter().copied()))
        }
    }
}

/// Work that mkfs left to the kernel. The thread serves every ext4 filesystem of the machine.
fn lazy_initialisation(seen: &[Watched<'_>]) -> Option<Warning> {
    let (one, time_ns) = worst(seen, LAZY_INIT.0 as f64, |one| {
        one.telemetry.window.task_ns.get(&TaskKind::LazyInit).map(|time_ns| *time_ns as f64)
    })?;
    let text = format!(
        "ext4lazyinit used {:.0} ms of processor time to initialise inode tables, of this or another filesystem \
         of the machine",
        time_ns / 1e6
    );
    warning(WarningKind::LazyInitialisation, one, &text)
}

/// Workers that leave no processor idle measure the processors. `null` does so by design.
fn processors_saturated(seen: &[Watched<'_>]) -> Option<Warning> {
    let (one, share) = worst(seen, WORKERS_SHARE, |one| {
        let roles = || one.roles.iter().filter(|role| role.role != Role::Null);
        let used = roles().fold(CpuTime::default(), |sum, role| sum + role.cpu).total().0 as f64;
        let all = one.window_ns.0 as f64 * f64::from(one.telemetry.processors);
        (all > 0.0).then(|| used / all)
    })?;
    let processors = one.telemetry.processors;
    let text = format!(
        "workers used {:.0} % of {processors} processor{}: processor time is the limit, not the device",
        share.min(1.0) * 100.0,
        if processors == 1 { "" } else { "s" }
    );
    warning(WarningKind::ProcessorsSaturated, one, &text)
}

fn steal_time(seen: &[Watched<'_>]) -> Option<Warning> {
    let (one, share) = worst(seen, STEAL_SHARE, |one| {
        let cpu = one.telemetry.window.cpu?;
        Some(cpu.share(cpu.steal_ns))
    })?;
    let text =
        format!("the hypervisor gave {:.1} % of the processors' time to others (steal)", share * 100.0);
    warning(WarningKind::StealTime, one, &text)
}

/// Other processes that read and write during the measurement. The kernel does not report on which device. If
/// the filesystem is ours alone, they can only have used the disk below it, and moved at most what that disk
/// moved beyond our own I/O. In a directory, what the workers moved counts as that, wherever it went.
fn other_io(record: &TrialRecord, seen: &[Watched<'_>]) -> Option<Warning> {
    let others = |one: &Watched<'_>| -> u64 {
        total(one.telemetry.other_processes.iter().flat_map(|other| [other.read_bytes, other.write_bytes]))
    };
    let moved = |disk: &DeviceActivity| disk.read_bytes.saturating_add(disk.write_bytes);
    let on_disk = |one: &Watched<'_>| -> Option<(u64, u64)> {
        let disk = moved(one.telemetry.window.devices.iter().flatten().last()?);
        let own = match record.device {
            DeviceSpec::Directory { .. } => total(one.roles.iter().map(|role| role.rates.bytes)),
            _ => moved(one.telemetry.filesystem_device()?),
        };
        Some((others(one).min(disk.saturating_sub(own)), disk))
    };
    let (one, share) = worst(seen, OTHERS_SHARE, |one| {
        let (bytes, disk) = on_disk(one)?;
        (rate(one, bytes) > OTHERS_RATE).then(|| bytes as f64 / disk.max(1) as f64)
    })?;
    let first = one.telemetry.other_processes.first()?;
    let more = match one.telemetry.other_processes.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "process '{}' ({}){more} read and wrote up to {:.0} MB on block devices, {:.0} % of what '{}' moved",
        first.name,
        first.pid,
        megabytes(on_disk(one)?.0),
        share * 100.0,
        one.telemetry.devices.last()?
    );
    warning(WarningKind::OtherIo, one, &text)
}

/// A filesystem that compresses moves fewer bytes than it was given, if the content compresses well.
fn compression(record: &TrialRecord) -> Option<Warning> {
    let content = record.workload.list().into_iter().find(|listed| listed.name == "content")?.value;
    if !compresses(record) || content == "random" {
        return None;
    }
    let text = format!(
        "compression is on and the content of files is {content}: rates count bytes that never reach the device"
    );
    Some(Warning::new(WarningKind::Compression, text))
}

fn compresses(record: &TrialRecord) -> bool {
    let mut options = record.built.mount_options_in_force.split(',');
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
    let options = record.built.mount_options_in_force.split(',');
    let unflushed = filesystem::switches_barriers_off(&record.configuration.filesystem, options);
    let volatile =
        record.environment.devices.iter().find(|device| state(device).as_deref() == Some("write back"));
    if let Some(device) = volatile.filter(|_| unflushed) {
        let text = format!(
            "'{}' has a volatile write cache and the filesystem never flushes it: writes are fast because they are not \
             safe",
            device.path
        );
        return Some(Warning::new(WarningKind::WriteCache, text));
    }
    // For a directory only the filesystem is known, and for an image the file: neither has a cache of its
    // own.
    let asked = record.device.is_of_blocks();
    let silent = record.environment.devices.iter().find(|device| state(device).is_none());
    let device = silent.filter(|_| asked)?;
    let text = format!("'{}' does not report whether it has a volatile write cache", device.path);
    Some(Warning::new(WarningKind::WriteCache, text))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::result::Rates;
    use fsdyno_core::telemetry::{CpuSplit, ProcessIo, Sample, Telemetry};
    use fsdyno_core::workload::{Content, Fileserver};
    use fsdyno_core::{Environment, Operation, PhaseResult};

    const SECOND: u64 = 1_000_000_000;

    /// A trial without confounders: in 10 s on two processors a reader got 1 GB, all of it from the device.
    fn healthy() -> TrialRecord {
        let mut record = fixture::trial(0, 0, 0, fixture::configuration("btrfs", "bfq"), 0.0);
        record.built.mount_options_in_force = "rw,relatime,space_cache=v2".to_string();
        record.environment = Environment { devices: vec![device("write back")], ..Environment::default() };
        record.phases = vec![phase()];
        record
    }

    fn with_content(content: Content) -> TrialRecord {
        let workload = Workload::Fileserver(Fileserver { content, ..Fileserver::default() });
        TrialRecord { workload, ..healthy() }
    }

    fn device(write_cache: &str) -> DeviceFacts {
        let queue = [("write_cache".to_string(), write_cache.to_string())].into();
        DeviceFacts { path: "/dev/loop0".to_string(), queue, ..DeviceFacts::default() }
    }

    fn phase() -> PhaseResult {
        let reader = RoleResult {
            role: Role::Reader,
            workers: 1,
            longest_stall_ns: Nanos(0),
            time_over_100ms: 0.0,
            time_over_1s: 0.0,
            blocked_at_start: Vec::new(),
            rates: Rates { bytes: 1_000_000_000, ..Rates::default() },
            cpu: CpuTime { user_ns: Nanos(SECOND), system_ns: Nanos(3 * SECOND) },
            counts: Default::default(),
            longest_item_ns: None,
            worker_results: Vec::new(),
            operations: Vec::new(),
        };
        let disk = DeviceActivity { read_bytes: 1_010_000_000, ..DeviceActivity::default() };
        let window = Sample {
            length_ns: Nanos(10 * SECOND),
            devices: vec![Some(disk), Some(disk)],
            cpu: Some(CpuSplit { user_ns: 2 * SECOND, idle_ns: 18 * SECOND, ..CpuSplit::default() }),
            ..Sample::default()
        };
        PhaseResult {
            name: "1 reader".to_string(),
            ramp_ns: Nanos(0),
            window_ns: Nanos(10 * SECOND),
            drain_ns: Nanos(0),
            roles: vec![reader],
            telemetry: Some(Telemetry {
                devices: vec!["loop0".to_string(), "vda".to_string()],
                processors: 2,
                window,
                ..Telemetry::default()
            }),
        }
    }

    fn window(record: &mut TrialRecord) -> &mut Sample {
        &mut record.phases[0].telemetry.as_mut().expect("telemetry").window
    }

    /// The only confounder of a trial.
    fn only(record: &TrialRecord) -> (WarningKind, String) {
        let mut found = confounders(record);
        assert_eq!(found.len(), 1, "{found:?}");
        let Warning { kind, text } = found.remove(0);
        (kind, text)
    }

    #[test]
    fn neither_a_healthy_trial_nor_one_without_data_has_confounders() {
        assert_eq!(confounders(&healthy()), []);
        let mut unwatched = healthy();
        unwatched.phases[0].telemetry = None;
        assert_eq!(confounders(&unwatched), []);
        let mut blind = healthy();
        *window(&mut blind) = Sample::default();
        assert_eq!(confounders(&blind), []);
        let mut failed = with_content(Content::Zeros);
        failed.built.mount_options_in_force = "rw,compress=zstd:3".to_string();
        failed.phases.clear();
        assert_eq!(confounders(&failed), []);
    }

    #[test]
    fn reads_that_the_device_never_saw_came_from_the_page_cache() {
        let mut record = healthy();
        // The worst phase is reported.
        record.phases.push(PhaseResult { name: "3 readers".to_string(), ..phase() });
        for (index, read_bytes) in [(0, 700_000_000), (1, 250_000_000)] {
            let telemetry = record.phases[index].telemetry.as_mut().expect("telemetry");
            telemetry.window.devices[0] = Some(DeviceActivity { read_bytes, ..DeviceActivity::default() });
        }
        let (kind, text) = only(&record);
        assert_eq!(kind, WarningKind::PageCache);
        assert_eq!(
            text,
            "phase '3 readers': 75 % of the 1000 MB read came from the page cache: device 'loop0' delivered 250 MB"
        );
        // Whoever reads: the steps of a transactor say what it read.
        let mut transactions = healthy();
        let mut read = fixture::operation(Operation::Read, &[1000]);
        read.timeline.bytes = vec![400_000_000, 600_000_000];
        transactions.phases[0].roles[0].role = Role::Transactor;
        transactions.phases[0].roles[0].operations = vec![read];
        assert_eq!(confounders(&transactions), []);
        window(&mut transactions).devices[0] = Some(DeviceActivity::default());
        let (kind, text) = only(&transactions);
        assert!(kind == WarningKind::PageCache && text.contains("100 % of the 1000 MB read"), "{text}");
        // Too few bytes to judge, and a filesystem that compresses.
        for phase in &mut record.phases {
            phase.roles[0].rates.bytes = 1_000_000;
        }
        assert_eq!(confounders(&record), []);
        let mut compressed = healthy();
        window(&mut compressed).devices[0] = Some(DeviceActivity::default());
        compressed.built.mount_options_in_force = "rw,compress=zstd:3".to_string();
        assert_eq!(confounders(&compressed), []);
    }

    #[test]
    fn reads_that_are_meant_to_come_from_memory_get_no_warning() {
        let mut record = healthy();
        window(&mut record).devices[0] = Some(DeviceActivity::default());
        record.phases[0].name = CACHED.name.to_string();
        assert_eq!(only(&record).0, WarningKind::PageCache, "the same phase in another workload");
        record.workload = Workload::DeviceRead(Default::default());
        assert_eq!(confounders(&record), []);
        record.phases[0].name = "buffered reads".to_string();
        assert_eq!(only(&record).0, WarningKind::PageCache);
    }

    #[test]
    fn phases_that_a_program_does_not_separate_are_judged_together() {
        let mut record = healthy();
        let telemetry = record.phases[0].telemetry.take();
        record.phases.push(PhaseResult { name: "second".to_string(), telemetry: None, ..phase() });
        let whole = PhaseResult { name: WHOLE_RUN.to_string(), roles: Vec::new(), telemetry, ..phase() };
        record.phases.push(whole);
        let (kind, text) = only(&record);
        assert_eq!(kind, WarningKind::PageCache);
        assert_eq!(
            text,
            "whole run: 50 % of the 2000 MB read came from the page cache: device 'loop0' delivered 1010 MB"
        );
    }

    #[test]
    fn lazy_initialisation_is_reported_but_an_idle_thread_is_not() {
        let mut record = healthy();
        window(&mut record).task_ns = [(TaskKind::LazyInit, 40_000)].into();
        assert_eq!(confounders(&record), []);
        window(&mut record).task_ns = [(TaskKind::LazyInit, 37_000_000)].into();
        let (kind, text) = only(&record);
        assert_eq!(kind, WarningKind::LazyInitialisation);
        assert!(text.contains("used 37 ms"), "{text}");
    }

    #[test]
    fn workers_that_use_all_processors_are_reported_except_for_null() {
        let mut record = healthy();
        let cpu = CpuTime { user_ns: Nanos(10 * SECOND), system_ns: Nanos(9 * SECOND) };
        record.phases[0].roles[0].cpu = cpu;
        let (kind, text) = only(&record);
        assert_eq!(kind, WarningKind::ProcessorsSaturated);
        assert!(text.contains("used 95 % of 2 processors"), "{text}");
        record.phases[0].roles[0].role = Role::Null;
        assert_eq!(confounders(&record), []);
    }

    #[test]
    fn steal_time_is_reported() {
        let mut record = healthy();
        window(&mut record).cpu =
            Some(CpuSplit { steal_ns: SECOND, idle_ns: 19 * SECOND, ..CpuSplit::default() });
        let (kind, text) = only(&record);
        assert_eq!(kind, WarningKind::StealTime);
        assert!(text.contains("5.0 %"), "{text}");
    }

    #[test]
    fn other_processes_are_reported_unless_they_do_little_io() {
        let mut record = healthy();
        let other =
            |pid, read_bytes| ProcessIo { pid, name: "rsync".to_string(), read_bytes, write_bytes: 0 };
        let mut others = |others: Vec<ProcessIo>, beyond_ours: u64| {
            let telemetry = record.phases[0].telemetry.as_mut().expect("telemetry");
            telemetry.other_processes = others;
            let disk =
                DeviceActivity { write_bytes: beyond_ours, ..telemetry.window.devices[0].expect("a device") };
            telemetry.window.devices[1] = Some(disk);
            confounders(&record)
        };
        // Less than 5 % of two gigabytes, less than 1 MB/s, and all of it on other disks.
        assert_eq!(others(vec![other(1, 40_000_000)], 990_000_000), []);
        assert_eq!(others(vec![other(1, 9_000_000)], 9_000_000), []);
        assert_eq!(others(vec![other(1, 900_000_000)], 0), []);
        // What the workers moved in a directory is theirs, not the others'.
        let mut directory = healthy();
        directory.device = DeviceSpec::Directory { path: "/data".into() };
        let telemetry = directory.phases[0].telemetry.as_mut().expect("telemetry");
        telemetry.other_processes = vec![other(1, 900_000_000)];
        telemetry.devices.truncate(1);
        telemetry.window.devices.truncate(1);
        assert_eq!(confounders(&directory), []);
        let found = others(vec![other(77, 200_000_000), other(78, 100_000_000)], 990_000_000);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].kind, WarningKind::OtherIo);
        assert_eq!(
            found[0].text,
            "phase '1 reader': process 'rsync' (77) and 1 more read and wrote up to 300 MB on block devices, 15 % of \
             what 'vda' moved"
        );
    }

    #[test]
    fn compression_is_reported_if_the_content_compresses() {
        for (content, reported) in
            [(Content::Random, false), (Content::Zeros, true), (Content::Compressible(0.5), true)]
        {
            let mut record = with_content(content);
            assert_eq!(confounders(&record), [], "{content:?}: nothing compresses");
            record.built.mount_options_in_force = "rw,compress=zstd:3".to_string();
            let kinds: Vec<WarningKind> = confounders(&record).iter().map(|warning| warning.kind).collect();
            assert_eq!(
                kinds,
                if reported { vec![WarningKind::Compression] } else { Vec::new() },
                "{content:?}"
            );
            record.built.mount_options_in_force = "rw,compress=no".to_string();
            assert_eq!(confounders(&record), [], "{content:?}: switched off");
        }
    }

    #[test]
    fn an_unflushed_cache_and_a_silent_device_are_reported() {
        let mut record = healthy();
        for filesystem in filesystem::all() {
            record.configuration.filesystem = filesystem.name.to_string();
            for option in filesystem.barrier_off {
                record.built.mount_options_in_force = format!("rw,{option}");
                assert_eq!(only(&record).0, WarningKind::WriteCache, "{option}");
            }
        }
        record.environment.devices = vec![device("write through")];
        assert_eq!(confounders(&record), []);
        record.environment.devices =
            vec![DeviceFacts { path: "/dev/sda".to_string(), ..DeviceFacts::default() }];
        assert_eq!(confounders(&record), [], "an image has no cache of its own");
        record.device = DeviceSpec::Block { path: "/dev/sda".into(), identity: None };
        let (kind, text) = only(&record);
        assert_eq!(kind, WarningKind::WriteCache);
        assert_eq!(text, "'/dev/sda' does not report whether it has a volatile write cache");
    }
}
