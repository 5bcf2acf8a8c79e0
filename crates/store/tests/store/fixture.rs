//! Trials with random values in every field, and a store for them.

mod losses;
mod phases;

use fsdyno_core::device::{Block, Conditioning, DiskModelText, Image, Preallocation};
use fsdyno_core::durability::PaceKept;
use fsdyno_core::environment::{DeviceFacts, Environment, Swap};
use fsdyno_core::result::*;
use fsdyno_core::warning::{Warning, WarningKind};
use fsdyno_core::workload::{
    Arrivals, Bin, Content, Fileserver, Null, Profile, Ramp, Rate, Stated, TreeModel,
};
use fsdyno_core::{Bytes, Failure, Nanos, Operation, Outcome, ReadAgain, Role, Workload};
use fsdyno_core::{Configuration, DeviceSpec};
use fsdyno_store::{NewSweep, Store, SweepId};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;
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

    #[expect(clippy::too_many_lines, reason = "a list of fields")]
    fn trial(&mut self) -> TrialRecord {
        TrialRecord {
            trial: self.small(),
            block: self.small(),
            case: self.small(),
            sentinel: self.coin(),
            machine: self.maybe(Dice::text),
            seed: self.0.random(),
            configuration: BuiltConfiguration {
                asked: Configuration {
                    name: self.text(),
                    filesystem: self.text(),
                    settings: self.some(3, |dice| (dice.text(), dice.text())).into_iter().collect(),
                },
                kernel: self.text(),
                device: self.device(),
                built: Built {
                    mkfs_command: self.text(),
                    mount_command: self.text(),
                    mount_options_in_force: self.text(),
                    scheduler_in_force: self.text(),
                },
            },
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
            pace: self.maybe(|dice| PaceKept {
                requests: dice.0.random(),
                service_mean_ns: dice.ns(),
                late_mean_ns: dice.ns(),
                late_p99_ns: dice.ns(),
                late_max_ns: dice.ns(),
            }),
            columns: [("p99 (ms)".to_string(), f64::from(self.small()))].into(),
            others: self
                .maybe(|dice| ("of another version".to_string(), json!([dice.text()])))
                .into_iter()
                .collect(),
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
            read_again: self.maybe(|dice| ReadAgain {
                files: dice.int(),
                bytes: dice.int(),
                left_out: dice.int(),
                gone: dice.int(),
                remounted: dice.coin(),
            }),
            lifecycle_ns: Lifecycle {
                boot: self.maybe(Dice::ns),
                precondition: self.maybe(Dice::ns),
                mkfs: self.maybe(Dice::ns),
                mount: self.maybe(Dice::ns),
                prepare: self.maybe(Dice::ns),
                umount_between: self.maybe(Dice::ns),
                copy: self.maybe(Dice::ns),
                mount_between: self.maybe(Dice::ns),
                umount: self.maybe(Dice::ns),
                read_again: self.maybe(Dice::ns),
                check: self.maybe(Dice::ns),
                total: self.maybe(Dice::ns),
            },
            check: self.maybe(|dice| CheckResult {
                command: dice.text(),
                clean: dice.coin(),
                output: dice.text(),
            }),
            prepared_in: self.maybe(Dice::small),
            served: self.maybe(|dice| Served {
                protocol: if dice.coin() { ServeProtocol::Nfs } else { ServeProtocol::Smb },
                export: dice.text(),
                threads: dice.maybe(Dice::small),
                mount_command: dice.text(),
                mount_options_in_force: dice.text(),
                outage: dice.maybe(Dice::ns),
            }),
            recipe: self.maybe(|dice| Recipe {
                device: dice.some(2, Dice::text),
                mkfs: dice.some(2, Dice::text),
                filesystem: dice.text(),
                mount_options: dice.some(3, Dice::text),
                check_order: 2,
                queue: dice.some(2, |dice| (dice.text(), dice.text())),
                sysctl: dice.some(2, |dice| (dice.text(), dice.text())),
                serve: dice.maybe(|dice| ServeRecipe {
                    protocol: if dice.coin() { ServeProtocol::Nfs } else { ServeProtocol::Smb },
                    export_options: dice.some(2, Dice::text),
                    threads: dice.maybe(Dice::small),
                    mount_options: dice.some(2, Dice::text),
                }),
            }),
            log: self.some(3, |dice| LogEntry {
                step: dice.text(),
                took_ns: dice.ns(),
                error: dice.maybe(Dice::text),
            }),
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
                model: self.maybe(|dice| DiskModelText { name: dice.text(), text: dice.text() }),
            }),
            1 => DeviceSpec::Block(Block {
                path,
                identity: self.maybe(Dice::text),
                precondition: Conditioning::ALL[usize::from(self.coin())],
            }),
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
            readers_alone: self.0.random(),
            write_rate: self.maybe(|dice| Rate {
                per_second: dice.float(),
                arrivals: dice.pick(&[Arrivals::Constant, Arrivals::Poisson]),
            }),
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
            verify: self.coin(),
            writer_space: self.maybe(|dice| Bytes(dice.int())),
            imported: self.maybe(|dice| Stated {
                version: dice.maybe(Dice::text),
                options: dice.some(2, |dice| (dice.text(), dice.text())).into_iter().collect(),
            }),
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
}
