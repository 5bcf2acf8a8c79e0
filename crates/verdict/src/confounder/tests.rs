use super::*;
use crate::fixture;
use fsdyno_core::result::{CacheAtStart, Rates};
use fsdyno_core::telemetry::{CpuSplit, ProcessIo, Sample, Telemetry};
use fsdyno_core::workload::{Content, Fileserver};
use fsdyno_core::{Bytes, Environment, Operation, PhaseResult};

const SECOND: u64 = 1_000_000_000;

/// A trial without confounders: in 10 s on two processors a reader got 1 GB, all of it from the device.
fn healthy() -> TrialRecord {
    let mut record = fixture::trial(0, 0, 0, fixture::configuration("btrfs", "bfq"), 0.0);
    record.configuration.built.mount_options_in_force = "rw,relatime,space_cache=v2".to_string();
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
        rates: Rates { bytes: 1_000_000_000, ..Rates::default() },
        cpu: CpuTime { user_ns: Nanos(SECOND), system_ns: Nanos(3 * SECOND) },
        ..RoleResult::unwatched(Role::Reader, 1)
    };
    let disk = DeviceActivity { read_bytes: 1_010_000_000, ..DeviceActivity::default() };
    let window = Sample {
        length_ns: Nanos(10 * SECOND),
        devices: vec![Some(disk), Some(disk)],
        cpu: Some(CpuSplit { user_ns: 2 * SECOND, idle_ns: 18 * SECOND, ..CpuSplit::default() }),
        ..Sample::default()
    };
    PhaseResult {
        telemetry: Some(Telemetry {
            devices: vec!["loop0".to_string(), "vda".to_string()],
            processors: 2,
            window,
            ..Telemetry::default()
        }),
        ..PhaseResult::lasting("1 reader", Nanos(10 * SECOND), vec![reader])
    }
}

fn window(record: &mut TrialRecord) -> &mut Sample {
    &mut record.phases[0].telemetry.as_mut().expect("telemetry").window
}

/// The only confounder of a trial.
fn only(record: &TrialRecord) -> (WarningKind, String) {
    let found = confounders(record);
    let [only] = &found[..] else { panic!("{found:?}") };
    (only.kind, only.to_string())
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
    failed.configuration.built.mount_options_in_force = "rw,compress=zstd:3".to_string();
    failed.phases.clear();
    assert_eq!(confounders(&failed), []);
}

#[test]
fn writes_that_the_device_never_saw_were_absorbed() {
    let mut record = healthy();
    record.phases[0].roles[0].role = Role::Writer;
    let mut seen_by_device = |write_bytes| {
        window(&mut record).devices[0] = Some(DeviceActivity { write_bytes, ..DeviceActivity::default() });
        confounders(&record)
    };
    assert_eq!(seen_by_device(900_000_000), []);
    let [found] = &seen_by_device(250_000_000)[..] else { panic!() };
    assert_eq!(
        (found.kind, found.to_string().as_str()),
        (
            WarningKind::WriteCacheAbsorbed,
            "phase '1 reader': 75 % of the 1000 MB written did not reach device 'loop0' in that time; see \
             write-durable"
        )
    );
    record.configuration.built.mount_options_in_force = "rw,compress=zstd:3".to_string();
    assert_eq!(only(&record).0, WarningKind::Incompressible);
}

#[test]
fn what_the_plan_wants_in_memory_is_no_confounder() {
    let mut record = healthy();
    window(&mut record).devices[0] = Some(DeviceActivity::default());
    assert_eq!(only(&record).0, WarningKind::PageCache);
    record.configuration.settings.insert("cache".to_string(), "warm".to_string());
    let cache = CacheAtStart {
        state: CacheState::Warm,
        remounted: true,
        drops: 2,
        left: Some(Bytes(1)),
        loaded: Some(Bytes(1 << 30)),
        missed: Some(Bytes(0)),
    };
    record.phases[0].cache = Some(cache);
    assert_eq!(confounders(&record), []);
    // Something has taken a part of it out of memory since.
    window(&mut record).devices[0].as_mut().expect("a device").read_bytes = 400_000_000;
    let (kind, text) = only(&record);
    assert!(kind == WarningKind::CacheNotWarm && text.contains("400 MB") && text.contains("40 %"), "{text}");
}

#[test]
fn the_processor_time_of_others_is_a_confounder() {
    let mut record = healthy();
    window(&mut record).cpu = Some(CpuSplit { user_ns: 16 * SECOND, ..CpuSplit::default() });
    let used = |ns| [(TaskKind::Process, ns), (TaskKind::Own, 10 * SECOND)].into();
    window(&mut record).task_ns = used(SECOND / 2);
    assert_eq!(confounders(&record), []);
    window(&mut record).task_ns = used(5 * SECOND);
    let (kind, text) = only(&record);
    assert_eq!(kind, WarningKind::ForeignLoad);
    assert_eq!(text, "phase '1 reader': other processes used 25 % of 2 processors");
    let busiest = TaskTime { pid: None, name: "fsdyno".to_string(), kind: TaskKind::Process, cpu_ns: 1 };
    window(&mut record).tasks = vec![busiest];
    assert!(only(&record).1.ends_with("25 % of 2 processors, another 'fsdyno' the most"), "{record:?}");
    window(&mut record).tasks.clear();
    // Whoever inherits an orphan seems to have used more than the processors were busy.
    window(&mut record).task_ns = used(500 * SECOND);
    assert_eq!(only(&record).1, "phase '1 reader': other processes used 30 % of 2 processors");
}

#[test]
fn reads_that_the_device_never_saw_came_from_the_page_cache() {
    let mut record = healthy();
    // Every phase is reported, the worst first.
    let names = ["3 readers", "healthy"].map(|name| PhaseResult { name: name.to_string(), ..phase() });
    record.phases.extend(names);
    for (index, read_bytes) in [(0, 700_000_000), (1, 250_000_000)] {
        let telemetry = record.phases[index].telemetry.as_mut().expect("telemetry");
        telemetry.window.devices[0] = Some(DeviceActivity { read_bytes, ..DeviceActivity::default() });
    }
    let found = confounders(&record);
    assert!(found.iter().all(|warning| warning.kind == WarningKind::PageCache), "{found:?}");
    assert_eq!(
        found.iter().map(Warning::to_string).collect::<Vec<_>>(),
        [
            "phase '3 readers': 75 % of the 1000 MB read came from the page cache: device 'loop0' delivered \
             250 MB",
            "phase '1 reader': 30 % of the 1000 MB read came from the page cache: device 'loop0' delivered \
             700 MB"
        ]
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
    compressed.configuration.built.mount_options_in_force = "rw,compress=zstd:3".to_string();
    assert_eq!(only(&compressed).0, WarningKind::Incompressible);
}

#[test]
fn names_that_the_device_never_delivered_came_from_memory() {
    let mut record = healthy();
    record.phases[0].window_ns = Nanos(10 * SECOND);
    let role = &mut record.phases[0].roles[0];
    role.role = Role::Scanner;
    role.rates = Rates { items_per_s: 1000.0, ..Rates::default() };
    let delivered = |read_bytes| Some(DeviceActivity { read_bytes, ..DeviceActivity::default() });
    window(&mut record).devices[0] = delivered(5_000_000);
    assert_eq!(confounders(&record), [], "an inode has up to 512 bytes");
    window(&mut record).devices[0] = delivered(128_000);
    let text = "phase '1 reader': at least 90 % of the 10000 names that were looked at came from memory: \
                device 'loop0' delivered 0.1 MB";
    assert_eq!(only(&record), (WarningKind::PageCache, text.to_string()));
    record.phases[0].roles[0].rates.items_per_s = 99.0;
    assert_eq!(confounders(&record), [], "too few names");
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
    let other = |pid, read_bytes| ProcessIo { pid, name: "rsync".to_string(), read_bytes, write_bytes: 0 };
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
    directory.configuration.device = DeviceSpec::Directory { path: "/data".into() };
    let telemetry = directory.phases[0].telemetry.as_mut().expect("telemetry");
    telemetry.other_processes = vec![other(1, 900_000_000)];
    telemetry.devices.truncate(1);
    telemetry.window.devices.truncate(1);
    assert_eq!(confounders(&directory), []);
    let found = others(vec![other(77, 200_000_000), other(78, 100_000_000)], 990_000_000);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, WarningKind::OtherIo);
    assert_eq!(
        found[0].to_string(),
        "phase '1 reader': 'rsync' (process 77) and 1 more moved up to 300 MB, 15 % of what 'vda' moved"
    );
}

#[test]
fn compression_is_reported_with_what_the_content_makes_of_it() {
    for (content, kind) in [
        (Content::Random, WarningKind::Incompressible),
        (Content::Zeros, WarningKind::Compression),
        (Content::Compressible(0.5), WarningKind::Compression),
    ] {
        let mut record = with_content(content);
        assert_eq!(confounders(&record), [], "{content:?}: nothing compresses");
        record.configuration.built.mount_options_in_force = "rw,compress=zstd:3".to_string();
        let kinds: Vec<WarningKind> = confounders(&record).iter().map(|warning| warning.kind).collect();
        assert_eq!(kinds, [kind], "{content:?}");
        record.configuration.built.mount_options_in_force = "rw,compress=no".to_string();
        assert_eq!(confounders(&record), [], "{content:?}: switched off");
    }
}

#[test]
fn an_unflushed_cache_and_a_silent_device_are_reported() {
    let mut record = healthy();
    for filesystem in filesystem::all() {
        record.configuration.filesystem = filesystem.name.to_string();
        for option in filesystem.barrier_off {
            record.configuration.built.mount_options_in_force = format!("rw,{option}");
            assert_eq!(only(&record).0, WarningKind::WriteCache, "{option}");
        }
    }
    record.environment.devices = vec![device("write through")];
    assert_eq!(confounders(&record), []);
    record.environment.devices = vec![DeviceFacts { path: "/dev/sda".to_string(), ..DeviceFacts::default() }];
    assert_eq!(confounders(&record), [], "an image has no cache of its own");
    record.configuration.device = DeviceSpec::block("/dev/sda");
    let (kind, text) = only(&record);
    assert_eq!(kind, WarningKind::WriteCache);
    assert_eq!(text, "'/dev/sda' does not report whether it has a volatile write cache");
}
