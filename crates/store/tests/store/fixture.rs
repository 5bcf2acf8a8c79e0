//! Trials with random values in every field, and a store for them.

mod losses;

use fsdyno_core::device::{Image, Preallocation};
use fsdyno_core::environment::{DeviceFacts, Environment, Swap};
use fsdyno_core::result::*;
use fsdyno_core::telemetry::{
    CpuSplit, DeviceActivity, JournalActivity, Log, Memory, Pressure, Sample, TaskKind, TaskTime, Telemetry,
    XfsLog,
};
use fsdyno_core::warning::{Warning, WarningKind};
use fsdyno_core::workload::{Arrivals, Bin, Content, Excursion, Fileserver, Null, Profile, Ramp, TreeModel};
use fsdyno_core::{Bytes, CacheState, Failure, Nanos, Operation, Outcome, Role, Workload};
use fsdyno_core::{Configuration, DeviceSpec};
use fsdyno_store::{NewSweep, Store, SweepId};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tempfile::TempDir;

/// A new store in its own directory.
pub fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("results.db")).unwrap();
    (directory, store)
}

/// A store with a sweep.
pub fn store_with_sweep() -> (TempDir, Store, SweepId) {
    let (directory, mut store) = store();
    let id = store.create_sweep(&sweep("demo")).unwrap();
    (directory, store, id)
}

pub fn sweep(name: &str) -> NewSweep {
    NewSweep {
        name: name.to_string(),
        plan_toml: "name = \"demo\"\n".to_string(),
        overrides: vec!["seed=7".to_string(), "device.size='1G'".to_string()],
        seed: u64::MAX,
        measure: "read-under-write".to_string(),
        environment: Some(Dice::new(3).environment()),
        cases: 6,
        trials: 36,
    }
}

/// A trial with every field derived from the seed, including all variants and extremes.
pub fn trial(number: u32, seed: u64) -> TrialRecord {
    TrialRecord { trial: number, ..Dice::new(seed).trial() }
}

/// A trial of the usual size: three phases, six workers in the last, windows of 30 s.
pub fn usual_trial(number: u32) -> TrialRecord {
    let mut dice = Dice::new(u64::from(number));
    let mut trial = dice.trial();
    trial.trial = number;
    trial.outcome = Outcome::Measured;
    trial.phases = [&[(Role::Reader, 1)][..], &[(Role::Reader, 3)], &[(Role::Writer, 3), (Role::Reader, 3)]]
        .iter()
        .map(|roles| PhaseResult {
            roles: roles.iter().map(|(role, workers)| dice.usual_role(*role, *workers)).collect(),
            ..dice.phase()
        })
        .collect();
    trial
}

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// All magnitudes, up to the largest that the store can hold.
    fn int(&mut self) -> u64 {
        let magnitude = self.0.random_range(0..=63);
        if magnitude == 63 { i64::MAX as u64 } else { self.0.random_range(0..=1 << magnitude) }
    }

    fn small(&mut self) -> u32 {
        self.0.random_range(0..1000)
    }

    fn float(&mut self) -> f64 {
        let float = f64::from_bits(self.0.random());
        if float.is_finite() { float } else { self.0.random() }
    }

    fn coin(&mut self) -> bool {
        self.0.random()
    }

    fn ns(&mut self) -> Nanos {
        Nanos(self.int())
    }

    fn text(&mut self) -> String {
        let words =
            ["", "mkfs.ext4 -q", "größer", "a\nb\t\"c\" 'd'", "; DROP TABLE trials", "\u{1f980}", "\\"];
        (0..self.0.random_range(0..3)).map(|_| self.pick(&words)).collect()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.random_range(0..from.len())]
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.coin().then(|| make(self))
    }

    fn some<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.random_range(0..=most)).map(|_| make(self)).collect()
    }

    fn trial(&mut self) -> TrialRecord {
        TrialRecord {
            trial: self.small(),
            block: self.small(),
            case: self.small(),
            sentinel: self.coin(),
            seed: self.0.random(),
            configuration: Configuration {
                name: self.text(),
                filesystem: self.text(),
                settings: self.some(3, |dice| (dice.text(), dice.text())).into_iter().collect(),
            },
            device: self.device(),
            workload: self.workload(),
            outcome: self.outcome(),
            warnings: self.some(3, |dice| Warning::new(dice.pick(WarningKind::ALL), dice.text())),
            timer: self.maybe(|dice| TimerFacts {
                source: dice.text(),
                read_ns: dice.float(),
                overhead_ns_per_op: dice.maybe(Dice::float),
                overhead_with_telemetry_ns_per_op: dice.maybe(Dice::float),
            }),
            commands: self.some(3, |dice| CommandRun {
                kind: CommandKind::Monitor,
                phase: dice.maybe(Dice::text),
                command: dice.text(),
                took_ns: dice.ns(),
                failure: dice.maybe(Dice::text),
                output: dice.text(),
                files: dice.maybe(|dice| dice.text().into()),
            }),
            durability: self.maybe(Dice::durability),
            io_errors: self.io_errors(),
            columns: [("p99 (ms)".to_string(), f64::from(self.small()))].into(),
            filled: Some(Filled { used_bytes: 7, rounds: 3, ..Filled::default() }),
            layout: Some(Layout {
                size_bytes: u64::MAX,
                files: 3,
                sampled: 2,
                extents: 5,
                fragmented: 1,
                complete: true,
                unknown: Some("why".to_string()),
                ..Layout::default()
            }),
            lifecycle_ns: Lifecycle {
                boot: self.maybe(Dice::ns),
                mkfs: self.maybe(Dice::ns),
                mount: self.maybe(Dice::ns),
                prepare: self.maybe(Dice::ns),
                umount_between: self.maybe(Dice::ns),
                mount_between: self.maybe(Dice::ns),
                umount: self.maybe(Dice::ns),
                check: self.maybe(Dice::ns),
                total: self.maybe(Dice::ns),
            },
            built: Built {
                mkfs_command: self.text(),
                mount_command: self.text(),
                mount_options_in_force: self.text(),
                scheduler_in_force: self.text(),
                check: self.maybe(|dice| CheckResult {
                    command: dice.text(),
                    clean: dice.coin(),
                    output: dice.text(),
                }),
                recipe: self.maybe(|dice| Recipe {
                    device: dice.some(2, Dice::text),
                    mkfs: dice.some(2, Dice::text),
                    filesystem: dice.text(),
                    mount_options: dice.some(3, Dice::text),
                    check_order: 2,
                    queue: dice.some(2, |dice| (dice.text(), dice.text())),
                    sysctl: dice.some(2, |dice| (dice.text(), dice.text())),
                }),
                log: self.some(3, |dice| Step {
                    step: dice.text(),
                    took_ns: dice.ns(),
                    error: dice.maybe(Dice::text),
                }),
            },
            environment: self.environment(),
            trees: TreeSummary { files: self.int(), directories: self.int(), bytes: self.int() },
            phases: self.some(3, Dice::phase),
            started: self.text(),
            finished: self.text(),
        }
    }

    fn device(&mut self) -> DeviceSpec {
        let path = self.text().into();
        match self.small() % 3 {
            0 => DeviceSpec::Image(Image {
                path,
                size: Bytes(self.0.random()),
                direct_io: self.coin(),
                sector: Bytes(self.0.random()),
                preallocate: Preallocation::ALL[usize::from(self.coin())],
            }),
            1 => DeviceSpec::Block { path, identity: self.maybe(Dice::text) },
            _ => DeviceSpec::Directory { path },
        }
    }

    fn workload(&mut self) -> Workload {
        if self.coin() {
            return Workload::Null(Null {
                workers: self.small(),
                ramp: Ramp::For(self.ns()),
                window: self.ns(),
            });
        }
        Workload::Fileserver(Fileserver {
            tree_size: Bytes(self.int()),
            tree: match self.small() % 3 {
                0 => TreeModel::Home,
                1 => TreeModel::Impressions,
                _ => TreeModel::Profile(Box::new(Profile {
                    files: self.int(),
                    depth: self.some(2, |dice| Bin { low: dice.int(), high: dice.int(), count: dice.int() }),
                    ..Profile::default()
                })),
            },
            readers: self.small(),
            writers: self.small(),
            ramp: Ramp::For(self.ns()),
            window: self.ns(),
            drain_limit: self.ns(),
            io_size: Bytes(self.int()),
            direct: self.coin(),
            content: match self.small() % 3 {
                0 => Content::Random,
                1 => Content::Zeros,
                _ => Content::Compressible(self.float()),
            },
            writer_space: self.maybe(|dice| Bytes(dice.int())),
        })
    }

    fn outcome(&mut self) -> Outcome {
        match self.small() % 3 {
            0 => Outcome::Measured,
            1 => Outcome::Skipped { unmet: self.some(3, Dice::text) },
            _ => Outcome::Failed {
                error: Failure {
                    step: self.text(),
                    operation: self.maybe(|dice| dice.pick(Operation::ALL)),
                    path: self.maybe(Dice::text),
                    errno: self.maybe(|dice| dice.small() as i32),
                    message: self.text(),
                    details: self.text(),
                    hint: self.maybe(Dice::text),
                },
            },
        }
    }

    fn environment(&mut self) -> Environment {
        Environment {
            fsdyno: self.text(),
            kernel: self.text(),
            cpus: self.small(),
            memory_bytes: self.0.random(),
            virtualisation: self.maybe(Dice::text),
            tools: self.some(3, |dice| (dice.text(), dice.text())).into_iter().collect(),
            devices: self.some(2, |dice| DeviceFacts {
                path: dice.text(),
                serial: dice.maybe(Dice::text),
                size_bytes: dice.int(),
                queue: dice.some(3, |dice| (dice.text(), dice.text())).into_iter().collect(),
                ..DeviceFacts::default()
            }),
            geometry: self.text(),
            governor: self.maybe(Dice::text),
            turbo: self.maybe(Dice::coin),
            numa_nodes: self.maybe(Dice::small),
            swap: self.maybe(|dice| Swap { size_bytes: dice.int(), used_bytes: dice.int() }),
            load: self.maybe(|dice| [dice.int() as f64, 0.25, 1.0]),
            ..Environment::default()
        }
    }

    fn phase(&mut self) -> PhaseResult {
        PhaseResult {
            name: self.text(),
            ramp_ns: self.ns(),
            steady: self.maybe(|dice| Steadiness {
                reached: dice.coin(),
                rounds: dice.small(),
                excursion: dice.maybe(|dice| Excursion { range: dice.float(), slope: dice.float() }),
            }),
            window_ns: self.ns(),
            drain_ns: self.ns(),
            clock: self.maybe(|dice| WindowClock { begin_ns: dice.int(), end_ns: dice.int() }),
            roles: self.some(2, Dice::role),
            telemetry: self.maybe(Dice::telemetry),
            memory: self.maybe(Dice::group_memory),
            cache: self.maybe(Dice::cache),
            durable: self.maybe(|dice| Durable { bytes: dice.int(), duration_ns: dice.ns() }),
        }
    }

    fn cache(&mut self) -> CacheAtStart {
        CacheAtStart {
            state: self.pick(&CacheState::ALL),
            remounted: self.coin(),
            drops: self.small(),
            left: self.maybe(|dice| Bytes(dice.int())),
            loaded: self.maybe(|dice| Bytes(dice.int())),
            missed: self.maybe(|dice| Bytes(dice.int())),
        }
    }

    fn group_memory(&mut self) -> GroupMemory {
        GroupMemory {
            limit: Bytes(self.int()),
            peak: self.maybe(|dice| Bytes(dice.int())),
            reclaims: self.int(),
        }
    }

    fn telemetry(&mut self) -> Telemetry {
        let device = DeviceActivity { reads: self.int(), queued_ns: self.int(), ..Default::default() };
        let task = TaskTime {
            pid: self.maybe(Dice::small),
            name: self.text(),
            kind: TaskKind::Writeback,
            cpu_ns: self.int(),
        };
        let log = Log::Xfs(XfsLog { writes: self.int(), ..Default::default() });
        let sample = Sample {
            start_ns: self.int(),
            length_ns: self.ns(),
            devices: vec![Some(device), None],
            cpu: self.maybe(|dice| CpuSplit { steal_ns: dice.int(), ..Default::default() }),
            memory: self.maybe(|dice| Memory { dirty_bytes: dice.int(), ..Default::default() }),
            pressure: Pressure::default(),
            task_ns: [(TaskKind::Writeback, self.int()), (TaskKind::LazyInit, 1)].into(),
            tasks: vec![task],
            journals: vec![JournalActivity { name: self.text(), log }],
        };
        Telemetry {
            devices: vec![self.text(), self.text()],
            window: sample.clone(),
            samples: vec![sample],
            ..Telemetry::default()
        }
    }

    /// Without watched workers, the time that they spent in operations is unknown.
    fn role(&mut self) -> RoleResult {
        let watched = self.some(3, Dice::worker);
        let share = |dice: &mut Dice| if watched.is_empty() { 0.0 } else { dice.float() };
        RoleResult {
            role: self.pick(Role::ALL),
            workers: self.small(),
            longest_stall_ns: self.ns(),
            longest_stall_at_least: self.coin(),
            time_over_100ms: share(self),
            time_over_1s: share(self),
            blocked_at_start: self.some(2, Dice::in_flight),
            rates: Rates {
                data_bytes_per_s: self.maybe(Dice::float),
                with_overhead_bytes_per_s: self.maybe(Dice::float),
                aggregate_bytes_per_s: self.float(),
                operations_per_s: self.float(),
                bytes: self.int(),
                items_per_s: self.float(),
                items: self.int(),
            },
            cpu: self.cpu(),
            counts: self.some(3, |dice| (dice.text(), dice.int())).into_iter().collect(),
            longest_item_ns: self.maybe(Dice::ns),
            open_loop: self.maybe(Dice::open_loop),
            worker_results: watched,
            operations: self.some(3, Dice::operation),
        }
    }

    fn usual_role(&mut self, role: Role, workers: u32) -> RoleResult {
        let usual = |dice: &mut Dice, operation| OperationResult {
            operation,
            histogram: "HISTFAAA".repeat(500),
            timeline: Timeline {
                interval_ns: Nanos::from_millis(100),
                count: (0..300).map(|_| u64::from(dice.small())).collect(),
                sum_ns: (0..300).map(|_| 1000 * u64::from(dice.small())).collect(),
                max_ns: (0..300).map(|_| 1000 * u64::from(dice.small())).collect(),
                bytes: (0..300).map(|_| 4096 * u64::from(dice.small())).collect(),
            },
            slowest: (0..64)
                .map(|rank| SlowOperation {
                    start_ns: dice.int(),
                    duration_ns: dice.int(),
                    path: format!("r0/d{rank}/d1/f17"),
                })
                .collect(),
            ..dice.operation()
        };
        RoleResult {
            role,
            workers,
            worker_results: (0..workers).map(|_| self.worker()).collect(),
            operations: Operation::ALL[..6].iter().map(|operation| usual(self, *operation)).collect(),
            ..self.role()
        }
    }

    fn worker(&mut self) -> WorkerResult {
        WorkerResult {
            completed: self.int(),
            spanning: self.int(),
            longest_stall_ns: self.ns(),
            longest_stall_at_least: self.coin(),
            time_over_100ms: self.float(),
            time_over_1s: self.float(),
            rounds: self.int(),
            bytes: self.int(),
            active_ns: self.ns(),
            cpu: self.cpu(),
            unfinished: self.maybe(Dice::in_flight),
        }
    }

    fn cpu(&mut self) -> CpuTime {
        CpuTime { user_ns: self.ns(), system_ns: self.ns() }
    }

    fn open_loop(&mut self) -> OpenLoop {
        OpenLoop {
            intended_per_s: self.float(),
            arrivals: self.pick(&[Arrivals::Constant, Arrivals::Poisson]),
            due: self.int(),
            achieved_per_s: self.float(),
            never_begun: self.int(),
            backlog_max: self.int(),
            backlog_at_end: self.int(),
            backlog: Backlog { interval_ns: self.ns(), max: self.some(3, Dice::int) },
            late_ns_mean: self.float(),
            late_ns_max: self.int(),
            search: self.maybe(Dice::curve),
        }
    }

    fn curve(&mut self) -> RateCurve {
        let point = |dice: &mut Dice| RatePoint {
            intended_per_s: dice.float(),
            due: dice.int(),
            achieved_per_s: dice.float(),
            backlog_at_end: dice.int(),
            unfinished: dice.int(),
            kept: dice.coin(),
            lat_ns: dice.latency(),
        };
        RateCurve {
            until: "p99 <= 20ms".parse().unwrap(),
            closed_per_s: self.float(),
            highest_per_s: self.maybe(Dice::float),
            has_limit: self.coin(),
            points: self.some(2, point),
        }
    }

    fn in_flight(&mut self) -> InFlight {
        InFlight {
            worker: self.small(),
            operation: self.pick(Operation::ALL),
            start_ns: self.0.random(),
            duration_ns: self.ns(),
            at_least: self.coin(),
        }
    }

    /// Either every quantile is known, or only the median.
    fn latency(&mut self) -> Latency {
        let (mut least, known) = (self.int(), self.coin());
        let mut quantiles = Quantiles::default();
        for quantile in Quantile::ALL {
            quantiles[*quantile] = if known || *quantile == Quantile::P50 { least } else { 0 };
            least += self.int() / 8;
        }
        Latency {
            count: self.int(),
            min: self.int(),
            max: self.int(),
            mean: self.float(),
            stddev: self.float(),
            quantiles,
            at_least_from: self.maybe(Dice::int),
        }
    }

    fn operation(&mut self) -> OperationResult {
        OperationResult {
            operation: self.pick(Operation::ALL),
            censored: self.int(),
            lat_ns: self.latency(),
            histogram: self.pick(&["", "AA==", "AAE=", "HISTFAAA"]).to_string(),
            timeline: Timeline {
                interval_ns: self.ns(),
                count: self.some(3, Dice::int),
                sum_ns: self.some(3, Dice::int),
                max_ns: self.some(3, Dice::int),
                bytes: self.some(3, Dice::int),
            },
            slowest: self.some(2, |dice| SlowOperation {
                start_ns: dice.int(),
                duration_ns: dice.int(),
                path: dice.text(),
            }),
        }
    }
}
