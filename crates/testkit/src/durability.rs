//! Handmade trials of the workload `durability`.

use crate::trial;
use fsdyno_core::durability::{CacheModel, Promise, PromiseBasis};
use fsdyno_core::result::*;
use fsdyno_core::workload::{Durability as Parameters, Workload};
use fsdyno_core::{Configuration, Nanos};

/// The number of promises of each kind that are acknowledged before the cuts of a trial, summed over its 60
/// states.
pub const MADE: u64 = 432;

/// A trial that lost nothing: 60 cuts, with one state of each cache model.
pub fn durable_trial(number: u32, block: u32, case: u32, configuration: Configuration) -> TrialRecord {
    losing_trial(number, block, case, configuration, |_| 0)
}

/// A trial that lost this many of the [`MADE`] acknowledged promises of each kind, by cache model. Whoever
/// loses also has files with zeros, a state that cannot be mounted, and one that is damaged.
pub fn losing_trial(
    number: u32,
    block: u32,
    case: u32,
    configuration: Configuration,
    lost: fn(CacheModel) -> u64,
) -> TrialRecord {
    let models: Vec<ModelResult> =
        CacheModel::ALL.into_iter().map(|model| model_result(model, lost(model), number)).collect();
    let losing = models.iter().filter(|one| one.acknowledged().1 > 0).map(|one| LosingState {
        cut: 7,
        model: one.model,
        subset: 0,
        found: vec!["append 3: 4096 of 8192 bytes".to_string(), "create 9: no such file".to_string()],
    });
    TrialRecord {
        workload: Workload::Durability(Parameters::default()),
        phases: Vec::new(),
        warnings: Vec::new(),
        durability: Some(Durability {
            log: LogSummary {
                writes: 12_345,
                written_bytes: 160_000_000,
                discards: 3,
                flushes: 700,
                duration_ns: Nanos::from_secs(16),
                promises: Promise::ALL.into_iter().map(|promise| (promise, 60)).collect(),
            },
            cuts: 60,
            losing: losing.collect(),
            models,
        }),
        ..trial(number, block, case, configuration, 0.0)
    }
}

fn model_result(model: CacheModel, lost: u64, number: u32) -> ModelResult {
    let loses = u32::from(lost > 0);
    let promises = Promise::ALL.into_iter().map(|promise| {
        let lost = if promise.source() == PromiseBasis::Standard { lost } else { 0 };
        PromiseResult {
            promise,
            made: MADE,
            lost,
            wrong: WrongInside { zeros: lost / 10, ..WrongInside::default() },
            states: 58,
            losing: u32::try_from(lost).unwrap_or(u32::MAX).min(58),
            lost_once: lost.min(60),
        }
    });
    let late = if model == CacheModel::Completed { 0 } else { u64::from(number) * 10_000_000 };
    let unsynced = |seconds: u64| UnsyncedResult {
        states: 55,
        lost: Spread { p50: 12 * seconds, max: 40 * seconds },
        lost_ns: Spread { p50: seconds * 1_000_000_000 + late, max: seconds * 3_000_000_000 + late },
        lost_bytes: Spread { p50: 196_608 * seconds, max: 655_360 * seconds },
        wrong: WrongInside::default(),
    };
    let bin = |power: u32, survived: u64| AgeBin {
        up_to_ns: Nanos(1_000_000 << power),
        made: 1000,
        survived: survived.min(1000),
    };
    ModelResult {
        model,
        states: 60,
        mounted: 60 - loses,
        hung: 0,
        mount_errors: (lost > 0)
            .then(|| ("mount: bad superblock (EUCLEAN)".to_string(), 1))
            .into_iter()
            .collect(),
        checked: 60 - loses,
        damaged: loses,
        recovery_ns: Spread { p50: 12_000_000, max: 34_000_000 },
        promises: promises.collect(),
        unsynced_files: unsynced(if model == CacheModel::Completed { 0 } else { 4 }),
        unsynced_names: unsynced(if model == CacheModel::Completed { 0 } else { 5 }),
        survival: (0..14).map(|power| bin(power, u64::from(power) * 60 + 250)).collect(),
    }
}

/// The trials of one case of [`durability_trials`], as a side of a comparison.
pub fn durability_side(blocks: u32, case: u32) -> Vec<TrialRecord> {
    let own = durability_trials(blocks, false).into_iter().filter(|trial| trial.case == case);
    own.map(|trial| TrialRecord { case: 0, ..trial }).collect()
}

/// A sweep of `ext4` and `ext4 barrier=0` in some blocks, three trials of each if there are three. Without
/// barriers, everything is lost under `flushed`, some under `subset`, and nothing under `completed`. With
/// `speed`, each configuration is also measured under the fileserver, where `barrier=0` is faster.
pub fn durability_trials(blocks: u32, speed: bool) -> Vec<TrialRecord> {
    use fsdyno_core::warning::{Warning, WarningKind};
    let lost = |model: CacheModel| match model {
        CacheModel::Completed => 0,
        CacheModel::Flushed => MADE,
        CacheModel::Subset => 40,
        CacheModel::Window => 2,
    };
    let (safe, mut unsafe_one) = (crate::configuration("ext4", "none"), crate::configuration("ext4", "none"));
    unsafe_one.name = "ext4 none barrier=0".to_string();
    unsafe_one.settings.insert("barrier".to_string(), "0".to_string());
    let declared = || Warning::new(WarningKind::Durability, "barrier = 0: a power cut may corrupt it");
    let mut trials = Vec::new();
    for block in 0..blocks {
        let next = |trials: &Vec<TrialRecord>| u32::try_from(trials.len()).unwrap_or(u32::MAX);
        trials.push(durable_trial(next(&trials), block, 0, safe.clone()));
        let mut losing = losing_trial(next(&trials), block, 1, unsafe_one.clone(), lost);
        losing.warnings.push(declared());
        trials.push(losing);
        if speed {
            let rate = 50.0 + f64::from(block) + 0.1 * f64::from(block * 7 % 5);
            trials.push(trial(next(&trials), block, 2, safe.clone(), rate));
            let mut fast = trial(next(&trials), block, 3, unsafe_one.clone(), rate * 1.12);
            fast.warnings.push(declared());
            trials.push(fast);
        }
    }
    trials
}
