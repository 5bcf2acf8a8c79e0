//! Items that the tests of several crates share: handmade trials, small loads, what tests need from the
//! machine ([`Requirement`]), a machine in memory ([`fake`]), and a directory to work in ([`in_memory`]).
//!
//! [`trials`] has three configurations in two blocks. In trial 4, `ext4 bfq` has a writer that is blocked
//! from before the window until after it; `btrfs bfq` cannot run here; the second trial of `xfs bfq` fails.

pub mod captured;
mod durability;
pub mod fake;
mod faults;
mod loads;
mod open_loop;
mod requirement;
mod scaling;
mod scratch;

pub use durability::{MADE, durability_side, durability_trials, durable_trial, losing_trial};
pub use faults::faulty_trials;
pub use loads::{STREAMED_BLOCK, STREAMED_BLOCKS, file_set, flow_role, small_streaming};
pub use open_loop::searched_trials;
pub use requirement::Requirement;
pub use scaling::scaled_trials;
pub use scratch::in_memory;

use fsdyno_core::environment::{DeviceFacts, Environment};
use fsdyno_core::outcome::{Failure, Outcome};
use fsdyno_core::result::*;
use fsdyno_core::telemetry::{
    CpuSplit, DeviceActivity, Jbd2, JournalActivity, Log, Memory, Pressure, ProcessIo, Sample, SamplingCost,
    Stalls, TaskKind, TaskTime, Telemetry,
};
use fsdyno_core::warning::{Warning, WarningKind};
use fsdyno_core::workload::{Fileserver, Workload};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Nanos, Operation, Role, SweepHeader};
use fsdyno_stats::Distribution;

const WINDOW: Nanos = Nanos::from_secs(30);

/// The sweep that the trials are part of.
pub fn header(measure: &str) -> SweepHeader {
    SweepHeader {
        id: "7".to_string(),
        name: "demo".to_string(),
        plan_toml: "name = \"demo\"\n".to_string(),
        overrides: vec!["device.size=4G".to_string()],
        started: "2026-02-03T04:05:06Z".to_string(),
        finished: Some("2026-02-03T04:35:06Z".to_string()),
        seed: 42,
        measure: measure.parse().expect("a measure"),
        race: None,
        looks: Default::default(),
        selected: None,
    }
}

/// The result of an operation with each of `values_ns` once, as the engine reports it.
pub fn operation(operation: Operation, values_ns: &[u64]) -> OperationResult {
    counted(operation, &values_ns.iter().map(|value| (*value, 1)).collect::<Vec<_>>())
}

/// The same with each value as often as its number says.
fn counted(operation: Operation, values_ns: &[(u64, u64)]) -> OperationResult {
    let mut distribution = Distribution::empty();
    values_ns.iter().for_each(|(value, times)| distribution.record_n(*value, *times));
    let count = values_ns.iter().map(|(_, times)| times).sum::<u64>();
    let sum = values_ns.iter().map(|(value, times)| value * times).sum::<u64>();
    let (of, mean) = (count.max(1) as f64, sum as f64 / count.max(1) as f64);
    let squares = values_ns.iter().map(|(value, times)| (*value as f64 - mean).powi(2) * *times as f64);
    let variance = squares.sum::<f64>() / of;
    let values = || values_ns.iter().map(|(value, _)| *value);
    let max = values().max().unwrap_or(0);
    let quantile = |share: f64| distribution.quantile(share).unwrap_or(0).min(max);
    OperationResult {
        operation,
        censored: 0,
        lat_ns: Latency {
            count,
            min: values().min().unwrap_or(0),
            max,
            mean,
            stddev: variance.sqrt(),
            quantiles: Quantiles::of(|each| quantile(each.fraction())),
            at_least_from: None,
        },
        histogram: distribution.encode().expect("memory"),
        timeline: Timeline {
            interval_ns: Nanos::from_millis(100),
            count: vec![count],
            sum_ns: vec![sum],
            max_ns: vec![max],
            bytes: Vec::new(),
        },
        slowest: vec![SlowOperation { start_ns: 17, duration_ns: max, path: "r0/d3/f12".to_string() }],
    }
}

/// `n` values around `center_ns`, each with its number; the slowest is a hundred times as long.
fn spread(center_ns: u64, n: u64) -> Vec<(u64, u64)> {
    const VALUES: u64 = 41;
    let usual = n.saturating_sub(1);
    let times = |i| usual / VALUES + u64::from(i < usual % VALUES);
    let values = (0..VALUES).map(|i| (center_ns * (80 + i) / 100, times(i)));
    values.chain((n > 0).then_some((center_ns * 100, 1))).filter(|(_, times)| *times > 0).collect()
}

/// `n` values around `center_ns`, the slowest a hundred times as long.
pub fn around(center_ns: u64, n: u64) -> Vec<u64> {
    spread(center_ns, n).into_iter().flat_map(|(value, times)| (0..times).map(move |_| value)).collect()
}

/// The result of an operation whose values are [`around`] this one. Simulations make thousands of them.
fn operation_around(operation: Operation, center_ns: u64, n: u64) -> OperationResult {
    counted(operation, &spread(center_ns, n))
}

fn worker(completed: u64) -> WorkerResult {
    WorkerResult {
        completed,
        longest_stall_ns: Nanos::from_millis(40),
        bytes: completed * 4096,
        active_ns: WINDOW,
        cpu: CpuTime { user_ns: Nanos::from_millis(300), system_ns: Nanos::from_millis(900) },
        ..WorkerResult::default()
    }
}

fn role(role: Role, workers: u32, mb_per_s: f64, operations: Vec<OperationResult>) -> RoleResult {
    let completed = operations.iter().map(|operation| operation.lat_ns.count).sum::<u64>();
    RoleResult {
        role,
        workers,
        longest_stall_ns: Some(Nanos::from_millis(40)),
        longest_stall_at_least: false,
        time_over_100ms: Some(0.004),
        time_over_1s: Some(0.0),
        blocked_at_start: Vec::new(),
        rates: Rates {
            data_bytes_per_s: Some(mb_per_s * 2.5e6),
            with_overhead_bytes_per_s: Some(mb_per_s * 1.1e6),
            aggregate_bytes_per_s: mb_per_s * 1e6,
            operations_per_s: completed as f64 / 30.0,
            bytes: (mb_per_s * 30e6) as u64,
            items_per_s: completed as f64 / 90.0,
            items: completed / 3,
        },
        cpu: CpuTime { user_ns: Nanos::from_millis(900), system_ns: Nanos::from_millis(2700) },
        reported_cpu_share: None,
        counts: Default::default(),
        longest_item_ns: None,
        removing_ns: None,
        open_loop: None,
        worker_results: (0..workers).map(|_| worker(completed / u64::from(workers))).collect(),
        operations,
    }
}

/// Readers at `mb_per_s` in all.
pub fn readers(workers: u32, mb_per_s: f64) -> RoleResult {
    let files = (mb_per_s * 100.0) as u64;
    role(
        Role::Reader,
        workers,
        mb_per_s,
        vec![
            operation_around(Operation::Readdir, 4_000, files + files / 3),
            operation_around(Operation::Statx, 9_000, files + files / 4),
            operation_around(Operation::Openat, 17_000, files),
            operation_around(Operation::ReadFirstByte, 290_000, files),
            operation_around(Operation::Read, 61_000, 2 * files),
            operation_around(Operation::Close, 2_000, files),
        ],
    )
}

/// Writers at `mb_per_s` in all.
pub fn writers(workers: u32, mb_per_s: f64) -> RoleResult {
    let files = (mb_per_s * 100.0) as u64;
    role(
        Role::Writer,
        workers,
        mb_per_s,
        vec![
            operation_around(Operation::Openat, 41_000, files),
            operation_around(Operation::WriteFirstByte, 7_000, files),
            operation_around(Operation::Write, 52_000, 2 * files),
            operation_around(Operation::Close, 16_000, files),
            operation_around(Operation::Mkdirat, 26_000, files / 11),
        ],
    )
}

/// Blocks one writer of `role` in `mkdirat` from before the window until after the drain.
pub fn block_writer(role: &mut RoleResult) {
    let blocked = InFlight {
        worker: 0,
        operation: Operation::Mkdirat,
        start_ns: -2_000_000_000,
        duration_ns: Nanos::from_secs(62),
        at_least: true,
    };
    role.longest_stall_ns = Some(WINDOW);
    role.time_over_100ms = Some(1.0 / 3.0);
    role.time_over_1s = Some(1.0 / 3.0);
    role.blocked_at_start = vec![blocked.clone()];
    role.worker_results[0] = WorkerResult {
        completed: 0,
        spanning: 1,
        longest_stall_ns: WINDOW,
        longest_stall_at_least: false,
        time_over_100ms: 1.0,
        time_over_1s: 1.0,
        rounds: 0,
        bytes: 0,
        items: 0,
        active_ns: WINDOW,
        cpu: CpuTime::default(),
        unfinished: Some(blocked),
    };
    for result in role.operations.iter_mut().filter(|result| result.operation == Operation::Mkdirat) {
        result.lat_ns.max = 62_000_000_000;
        result.lat_ns.at_least_from = Some(62_000_000_000);
    }
}

fn phase(name: &str, roles: Vec<RoleResult>) -> PhaseResult {
    PhaseResult {
        ramp_ns: WINDOW,
        drain_ns: Nanos::from_millis(12),
        ..PhaseResult::lasting(name, WINDOW, roles)
    }
}

/// The three phases of the fileserver workload, all rates in proportion to `mb_per_s`.
pub fn phases(mb_per_s: f64) -> Vec<PhaseResult> {
    vec![
        phase("1 reader", vec![readers(1, mb_per_s)]),
        phase("3 readers", vec![readers(3, mb_per_s * 1.4)]),
        phase("3 readers, 3 writers", vec![writers(3, mb_per_s * 0.8), readers(3, mb_per_s * 0.6)]),
    ]
}

/// A configuration of a filesystem and a scheduler, named after both.
pub fn configuration(filesystem: &str, scheduler: &str) -> Configuration {
    Configuration {
        name: format!("{filesystem} {scheduler}"),
        filesystem: filesystem.to_string(),
        settings: [("scheduler".to_string(), scheduler.to_string())].into(),
    }
}

const KERNEL: &str = "6.18.44 #1 SMP PREEMPT_DYNAMIC";

/// A measured trial with all parts.
pub fn trial(trial: u32, block: u32, case: u32, configuration: Configuration, mb_per_s: f64) -> TrialRecord {
    let filesystem = configuration.filesystem.clone();
    let scheduler = configuration.level("scheduler").unwrap_or("none").to_string();
    let device = DeviceSpec::image("/var/tmp/fsdyno.img", Bytes(8 * Bytes::GIB));
    let workload = Workload::Fileserver(Fileserver::default());
    let whole = TrialRecord::new(configuration, device, workload, Outcome::Measured);
    TrialRecord {
        trial,
        block,
        case,
        seed: 42,
        warnings: vec![Warning::new(
            WarningKind::TreeSmallerThanMemory,
            "the trees (20 GiB) are smaller than the memory (64 GiB)",
        )],
        timer: Some(TimerFacts {
            source: "tsc".to_string(),
            read_ns: 23.0,
            overhead_ns_per_op: Some(61.5),
            overhead_with_telemetry_ns_per_op: Some(61.9),
        }),
        lifecycle_ns: Lifecycle {
            mkfs: Some(Nanos::from_millis(71)),
            mount: Some(Nanos::from_millis(4)),
            prepare: Some(Nanos::from_secs(80)),
            umount: Some(Nanos::from_millis(900)),
            check: Some(Nanos::from_secs(2)),
            total: Some(Nanos::from_secs(280)),
            ..Lifecycle::default()
        },
        configuration: BuiltConfiguration {
            kernel: KERNEL.to_string(),
            built: Built {
                mkfs_command: format!("mkfs.{filesystem} /proc/self/fd/7"),
                mount_command: format!("mount -t {filesystem} /dev/loop3 /run/fsdyno/mount"),
                mount_options_in_force: "rw,relatime".to_string(),
                scheduler_in_force: scheduler.clone(),
            },
            ..whole.configuration
        },
        log: vec![LogEntry {
            step: format!("mkfs.{filesystem} /dev/loop3"),
            took_ns: Nanos::from_millis(71),
            error: None,
        }],
        recipe: Some(Recipe {
            mkfs: vec![format!("mkfs.{filesystem} DEVICE")],
            filesystem,
            check_order: 2,
            queue: vec![("scheduler".to_string(), scheduler)],
            ..Recipe::default()
        }),
        environment: Environment {
            kernel: KERNEL.to_string(),
            memory_bytes: 64 << 30,
            devices: vec![DeviceFacts { path: "/dev/loop3".to_string(), ..DeviceFacts::default() }],
            ..Environment::default()
        },
        trees: TreeSummary { files: 550_000, directories: 51_000, bytes: 20 << 30 },
        phases: phases(mb_per_s),
        started: "2026-02-03T04:05:06Z".to_string(),
        finished: "2026-02-03T04:09:46Z".to_string(),
        ..whole
    }
}

/// The trials described above.
pub fn trials() -> Vec<TrialRecord> {
    let ext4 = |number, block, rate| trial(number, block, 0, configuration("ext4", "bfq"), rate);
    let xfs = |number, block, rate| trial(number, block, 1, configuration("xfs", "bfq"), rate);
    let mut skipped = trial(2, 0, 2, configuration("btrfs", "bfq"), 0.0);
    skipped.outcome = Outcome::Skipped {
        unmet: vec!["program 'mkfs.btrfs' is not installed".into(), "the kernel has no btrfs".into()],
    };
    skipped.phases.clear();
    skipped.timer = None;
    let mut blocked = ext4(4, 1, 55.0);
    block_writer(&mut blocked.phases[2].roles[0]);
    blocked
        .warnings
        .push(Warning::new(WarningKind::Censored, "1 operation had not ended when the drain was over"));
    let mut failed = xfs(5, 1, 0.0);
    failed.outcome = Outcome::Failed {
        error: Failure {
            operation: Some(Operation::Write),
            path: Some("w1/d0/f3".to_string()),
            errno: Some(28),
            hint: Some("make the image larger".to_string()),
            ..Failure::new("3 readers, 3 writers", "no space left on device (ENOSPC)")
        },
    };
    failed.phases.clear();
    vec![ext4(0, 0, 60.0), xfs(1, 0, 48.0), skipped, xfs(3, 1, 50.0), blocked, failed]
}

/// A sweep of configurations with long names and wide numbers, one of them without any interval.
pub fn wide_trials() -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for (case, name) in (0..).zip([
        "ext4 mq-deadline data=journal noatime journal=external:memory barrier=0",
        "ext4 bfq",
        "xfs-with-a-name-that-cannot-be-wrapped-anywhere-at-all",
    ]) {
        for block in 0..7 {
            let mut configuration = configuration("ext4", "mq-deadline");
            configuration.name = name.to_string();
            let rate = 1234.5 + f64::from(case * 100 + block * 3);
            let mut trial = trial(case * 7 + block, block, case, configuration, rate / 10.0);
            for result in
                trial.phases.iter_mut().flat_map(|phase| &mut phase.roles).flat_map(|r| &mut r.operations)
            {
                result.lat_ns.count *= 1000;
            }
            if block == 6 && case == 0 {
                block_writer(&mut trial.phases[2].roles[0]);
            }
            if case == 2 && block > 0 {
                continue;
            }
            trials.push(trial);
        }
    }
    trials
}

/// A phase with one role that has only rates.
pub fn rated(name: &str, role_name: Role, bytes_per_s: f64, items_per_s: f64) -> PhaseResult {
    let mut result = role(role_name, 1, 0.0, Vec::new());
    result.rates.aggregate_bytes_per_s = bytes_per_s;
    result.rates.items_per_s = items_per_s;
    phase(name, vec![result])
}

/// Filesystems with schedulers: bonnie on `xfs bfq` twice, without its rewrite; `xfs mq-deadline` with
/// another workload; `jfs bfq`, which is skipped; `btrfs bfq`, which no study measured.
pub fn scheduler_trials() -> Vec<TrialRecord> {
    let bonnie = |number: u32, filesystem: &str, kib_per_s: f64| {
        let mut trial = trial(number, number, 0, configuration(filesystem, "bfq"), 1.0);
        trial.phases = vec![
            rated("write block", Role::Writer, kib_per_s * 1024.0, 0.0),
            rated("random seeks", Role::Seeker, 0.0, 942.0),
        ];
        trial
    };
    let mut jfs = bonnie(3, "jfs", 1.0);
    jfs.outcome = Outcome::Skipped { unmet: vec!["the kernel has no jfs".into()] };
    jfs.phases.clear();
    let mut btrfs = bonnie(4, "btrfs", 50.0);
    btrfs.case = 3;
    vec![
        bonnie(0, "xfs", 100.0),
        bonnie(1, "xfs", 200.0),
        trial(2, 0, 1, configuration("xfs", "mq-deadline"), 10.0),
        TrialRecord { case: 2, ..jfs },
        btrfs,
    ]
}

/// The same trials with telemetry in every phase: 30 equal samples of a second.
pub fn with_telemetry(mut trials: Vec<TrialRecord>) -> Vec<TrialRecord> {
    for phase in trials.iter_mut().flat_map(|trial| &mut trial.phases) {
        phase.telemetry = Some(telemetry());
    }
    trials
}

fn telemetry() -> Telemetry {
    let mut telemetry = Telemetry {
        devices: vec!["loop0".to_string(), "vda".to_string()],
        processors: 2,
        interval_ns: Nanos::from_secs(1),
        other_processes: vec![ProcessIo {
            pid: 77,
            name: "cron".to_string(),
            read_bytes: 4 * Bytes::MIB,
            write_bytes: 0,
        }],
        cost: SamplingCost { readings: 31, cpu_ns: 62_000_000, wall_ns: 93_000_000, wall_ns_max: 9_000_000 },
        ..Telemetry::default()
    };
    let task = |pid, name: &str, kind, cpu_ns| TaskTime { pid, name: name.to_string(), kind, cpu_ns };
    for second in 0..30_u64 {
        telemetry.push(Sample {
            start_ns: second * 1_000_000_000,
            length_ns: Nanos::from_secs(1),
            devices: vec![Some(activity()); 2],
            cpu: Some(CpuSplit {
                user_ns: 250_000_000,
                system_ns: 500_000_000,
                iowait_ns: 250_000_000,
                idle_ns: 1_000_000_000,
                ..CpuSplit::default()
            }),
            memory: Some(Memory {
                dirty_bytes: 64 * Bytes::MIB,
                dirty_bytes_max: if second == 7 { 128 * Bytes::MIB } else { 64 * Bytes::MIB },
                cached_bytes: 4 * Bytes::GIB,
                available_bytes: 32 * Bytes::GIB,
                ..Memory::default()
            }),
            pressure: Pressure {
                io: Some(Stalls { some_ns: 250_000_000, full_ns: 100_000_000 }),
                ..Pressure::default()
            },
            task_ns: [(TaskKind::Own, 500_000_000), (TaskKind::Writeback, 50_000_000)].into(),
            tasks: vec![task(Some(4711), "fsdyno", TaskKind::Own, 500_000_000)],
            journals: vec![JournalActivity {
                name: "loop0-8".to_string(),
                log: Log::Jbd2(Jbd2 {
                    transactions: u64::from(second % 5 == 0),
                    requested: u64::from(second % 15 == 0),
                    commit_ns_mean: 5_203_000,
                    running_ns_mean: 208_000_000,
                    handles_mean: 326,
                    blocks_mean: 12,
                    ..Jbd2::default()
                }),
            }],
        });
    }
    telemetry.window.tasks = vec![
        task(Some(4711), "fsdyno", TaskKind::Own, 15_000_000_000),
        task(None, "kworker flush-7:0", TaskKind::Writeback, 1_500_000_000),
    ];
    telemetry
}

fn activity() -> DeviceActivity {
    DeviceActivity {
        reads: 100,
        read_bytes: 4 * Bytes::MIB,
        read_ns: 50_000_000,
        writes: 20,
        write_bytes: 80 * Bytes::KIB,
        write_ns: 20_000_000,
        flushes: 2,
        flush_ns: 1_000_000,
        busy_ns: 500_000_000,
        queued_ns: 71_000_000,
        ..DeviceActivity::default()
    }
}

/// `count` blocks of one configuration, each block at its own level.
pub fn blocks(case: u32, name: &str, count: u32, factor: f64) -> Vec<TrialRecord> {
    let of_block = |block: u32| {
        let mut configuration = configuration("ext4", "bfq");
        configuration.name = name.to_string();
        let level = 40.0 + 7.0 * f64::from(block * 5 % 6);
        let noise = 1.0 + 0.004 * (f64::from((block * 7 + case) % 5) - 2.0);
        trial(case * 10 + block, block, case, configuration, level * factor * noise)
    };
    (0..count).map(of_block).collect()
}
