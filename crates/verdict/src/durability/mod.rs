//! The losses in power cuts: the trials of a configuration merged, by cache model.
//!
//! A trial records one log and looks at many states of it. The promises of a log share its writes, and every
//! cut looks at most of them again, so the log is the unit of all intervals: those of the share of logs that
//! lost anything are exact, and rates are drawn log by log. [`safety`] turns losses into the answer whether a
//! configuration is durable; [`difference`] compares two configurations.

mod difference;
mod safety;

pub use difference::{LossFinding, LossRow};
pub use safety::{Basis, MeasuredLosses};

pub(crate) use difference::{Judge, compared, correct};
pub(crate) use safety::{DurabilityJudgement, Safety};

use crate::outcomes::is_measured;
use fsdyno_core::TrialRecord;
use fsdyno_core::durability::{CacheModel, Promise, PromiseBasis};
use fsdyno_core::figures::total;
use fsdyno_core::result::{
    AgeBin, Durability, LogSummary, LosingState, ModelResult, PromiseResult, Spread, UnsyncedResult,
    WrongInside,
};
use fsdyno_core::units::Nanos;
use fsdyno_stats::{CLUSTERS_ENOUGH, Cluster, Interval, at_most, proportion, rate};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Seed of the intervals of rates: the same logs have the same interval in every report.
const SEED: u64 = 1;

/// The losses of all logs of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Losses {
    /// The number of logs, one per trial.
    pub logs: usize,
    /// Cuts, over all logs.
    pub cuts: u64,
    /// The summary of everything that was recorded, over all logs.
    pub log: LogSummary,
    /// One for each cache model, in the order of [`CacheModel::ALL`].
    pub models: Vec<ModelLosses>,
    /// The model under which most is lost, as an index of `models`.
    pub worst: usize,
    /// The first states of each log in which something was lost or wrong.
    pub losing: Vec<LosingTrial>,
}

/// A state in which something was lost or wrong, and the trial that found it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LosingTrial {
    /// Number of the trial.
    pub trial: u32,
    /// The state.
    #[serde(flatten)]
    pub state: LosingState,
}

/// The losses under one cache model, over all logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelLosses {
    /// Which writes survived.
    pub model: CacheModel,
    /// Logs that were looked at under this model.
    pub logs: usize,
    /// States that were looked at.
    pub states: u64,
    /// Promises that the standard makes.
    pub acknowledged: Lost,
    /// Each promise that was made, in the order of [`Promise::ALL`].
    pub promises: Vec<PromiseLosses>,
    /// Files of promises that the standard makes which contain what they must not.
    pub wrong: WrongInside,
    /// The same in work that nobody has promised to keep.
    pub unpromised: WrongInside,
    /// Work that nothing synced; absent if no cut came after any.
    pub unsynced: Option<UnsyncedLosses>,
    /// States that could be mounted.
    pub mounted: u64,
    /// States of which the mount, or a later step, did not return.
    pub hung: u64,
    /// Why the others could not be mounted, each reason with its number of states.
    pub mount_errors: BTreeMap<String, u64>,
    /// States that were checked after the mount.
    pub checked: u64,
    /// Those that the check found damaged.
    pub damaged: u64,
    /// The time to mount, recovery included, in nanoseconds; absent if nothing could be mounted.
    pub recovery_ns: Option<Spread>,
    /// The unsynced work that survived, by its age at the cut.
    pub survival: Vec<AgeBin>,
}

/// One promise over all logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PromiseLosses {
    /// Which.
    pub promise: Promise,
    /// The number of such promises that were lost.
    #[serde(flatten)]
    pub lost: Lost,
    /// Files that contain what they must not.
    pub wrong: WrongInside,
}

/// The number of promises that were lost, of those acknowledged before the cuts, summed over all states.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Lost {
    /// Acknowledged.
    pub made: u64,
    /// Not kept.
    pub lost: u64,
    /// Logs in which some were acknowledged before a cut.
    pub logs: u64,
    /// Logs in which some were lost.
    pub losing_logs: u64,
    /// The exact 95 % interval of the share of losing logs; one-sided if none or all of them lose.
    pub losing_logs_interval: Option<[f64; 2]>,
    /// Lost over acknowledged; absent if none were.
    pub rate: Option<f64>,
    /// Its 95 % interval over logs; absent with a single log.
    pub rate_interval: Option<[f64; 2]>,
    /// Cuts after an acknowledgement, over all logs; several states of a cut count once.
    pub cuts: u64,
    #[serde(skip)]
    by_log: Vec<Cluster>,
}

/// The unsynced work that was lost. Of several logs, a median is the median of theirs, and a maximum the
/// largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UnsyncedLosses {
    /// The time that missing work reaches back, in nanoseconds: of files or of names, whichever is more.
    pub lost_ns: Spread,
    /// Files with content.
    pub files: Spread,
    /// Directories, of which only the name can be lost.
    pub names: Spread,
    /// Bytes in the lost files.
    pub bytes: Spread,
}

impl UnsyncedLosses {
    fn worst(self, other: Self) -> Self {
        UnsyncedLosses {
            lost_ns: self.lost_ns.worst(other.lost_ns),
            files: self.files.worst(other.files),
            names: self.names.worst(other.names),
            bytes: self.bytes.worst(other.bytes),
        }
    }
}

impl Lost {
    /// The part of cuts that loses something, of cuts at such places in these same logs, is at most this if
    /// none of them did (95 %). It says nothing about other logs.
    pub fn at_most_of_cuts(&self) -> Option<f64> {
        (self.lost == 0 && self.cuts > 0).then(|| at_most(self.cuts))
    }

    /// Each log on its own.
    pub(crate) fn by_log(&self) -> &[Cluster] {
        &self.by_log
    }

    fn of(logs: &[OfLog]) -> Lost {
        let by_log: Vec<Cluster> =
            logs.iter().map(|log| Cluster { part: log.lost, whole: log.made }).collect();
        let some = by_log.iter().filter(|log| log.whole > 0).count() as u64;
        let losing = by_log.iter().filter(|log| log.whole > 0 && log.part > 0).count() as u64;
        let estimate = rate(&by_log, SEED);
        Lost {
            made: total(logs.iter().map(|log| log.made)),
            lost: total(logs.iter().map(|log| log.lost)),
            logs: some,
            losing_logs: losing,
            losing_logs_interval: proportion(losing, some).map(ends),
            rate: estimate.map(|estimate| estimate.value),
            rate_interval: estimate.and_then(|estimate| estimate.interval).map(ends),
            cuts: total(logs.iter().map(|log| log.cuts)),
            by_log,
        }
    }
}

fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

/// Some promises of one log.
#[derive(Debug, Clone, Copy, Default)]
struct OfLog {
    made: u64,
    lost: u64,
    cuts: u64,
}

impl OfLog {
    fn sum<'p>(promises: impl Iterator<Item = &'p PromiseResult>, cuts: u32) -> OfLog {
        promises.fold(OfLog::default(), |sum, one| OfLog {
            made: sum.made.saturating_add(one.made),
            lost: sum.lost.saturating_add(one.lost),
            cuts: sum.cuts.max(u64::from(one.states.min(cuts))),
        })
    }
}

impl Losses {
    /// With fewer logs on a side, the rates of two sides are not compared.
    pub const ENOUGH: usize = CLUSTERS_ENOUGH;

    /// The losses of trials of one configuration; `None` if none of them has any record of power cuts.
    pub fn of(trials: &[&TrialRecord]) -> Option<Losses> {
        let found: Vec<(u32, &Durability)> = trials
            .iter()
            .filter(|trial| is_measured(trial))
            .filter_map(|trial| Some((trial.trial, trial.durability.as_ref()?)))
            .collect();
        let models: Vec<ModelLosses> =
            CacheModel::ALL.iter().filter_map(|model| ModelLosses::of(*model, &found)).collect();
        // The first of equals.
        let worst = (0..models.len()).reduce(|a, b| match models[b].severity(&models[a]) {
            Ordering::Greater => b,
            _ => a,
        })?;
        let losing = found.iter().flat_map(|(trial, one)| {
            one.losing.iter().map(|state| LosingTrial { trial: *trial, state: state.clone() })
        });
        Some(Losses {
            logs: found.len(),
            cuts: total(found.iter().map(|(_, one)| u64::from(one.cuts))),
            log: log(&found),
            worst,
            losing: losing.collect(),
            models,
        })
    }

    /// The model under which most is lost.
    pub fn worst(&self) -> &ModelLosses {
        &self.models[self.worst]
    }

    /// The worst that any model has found, of each kind on its own: what loses most promises is not what
    /// damages most filesystems. The model is the one under which most is lost.
    pub fn worst_of_each(&self) -> ModelLosses {
        fn share(part: u64, whole: u64) -> f64 {
            part as f64 / whole.max(1) as f64
        }
        let most = |by: fn(&ModelLosses) -> f64| {
            let rivals = self.models.iter().max_by(|a, b| by(a).total_cmp(&by(b)));
            rivals.unwrap_or(self.worst()).clone()
        };
        let unusable = most(|one| share(one.not_mounted(), one.states));
        let damaged = most(|one| share(one.damaged, one.checked));
        ModelLosses {
            wrong: most(|one| one.wrong.total() as f64).wrong,
            unpromised: most(|one| one.unpromised.total() as f64).unpromised,
            unsynced: self.models.iter().filter_map(|one| one.unsynced).reduce(UnsyncedLosses::worst),
            states: unusable.states,
            mounted: unusable.mounted,
            hung: unusable.hung,
            mount_errors: unusable.mount_errors,
            checked: damaged.checked,
            damaged: damaged.damaged,
            // The slowest in the middle and the slowest of all may be those of two models.
            recovery_ns: self.models.iter().filter_map(|one| one.recovery_ns).reduce(Spread::worst),
            ..self.worst().clone()
        }
    }

    /// Returns the losses under one model.
    pub fn model(&self, model: CacheModel) -> Option<&ModelLosses> {
        self.models.iter().find(|one| one.model == model)
    }

    /// Returns whether an acknowledged promise was lost under any model.
    pub fn loses(&self) -> bool {
        self.models.iter().any(|one| one.acknowledged.lost > 0)
    }
}

fn log(found: &[(u32, &Durability)]) -> LogSummary {
    let sum = |figure: fn(&LogSummary) -> u64| total(found.iter().map(|(_, one)| figure(&one.log)));
    let mut promises: BTreeMap<Promise, u64> = BTreeMap::new();
    for (promise, count) in found.iter().flat_map(|(_, one)| &one.log.promises) {
        let sum = promises.entry(*promise).or_default();
        *sum = sum.saturating_add(*count);
    }
    LogSummary {
        writes: sum(|log| log.writes),
        written_bytes: sum(|log| log.written_bytes),
        discards: sum(|log| log.discards),
        flushes: sum(|log| log.flushes),
        duration_ns: Nanos(sum(|log| log.duration_ns.0)),
        promises: promises.into_iter().collect(),
    }
}

impl ModelLosses {
    fn of(model: CacheModel, found: &[(u32, &Durability)]) -> Option<ModelLosses> {
        let logs: Vec<(u32, &ModelResult)> = found
            .iter()
            .filter_map(|(_, one)| Some((one.cuts, one.models.iter().find(|of| of.model == model)?)))
            .collect();
        if logs.is_empty() {
            return None;
        }
        let sum = |figure: fn(&ModelResult) -> u32| total(logs.iter().map(|(_, one)| figure(one).into()));
        let standard = |log: &&PromiseResult| log.promise.source() == PromiseBasis::Standard;
        let acknowledged =
            logs.iter().map(|(cuts, one)| OfLog::sum(one.promises.iter().filter(standard), *cuts));
        let mut mount_errors: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, states) in logs.iter().flat_map(|(_, one)| &one.mount_errors) {
            *mount_errors.entry(reason.clone()).or_default() += u64::from(*states);
        }
        let unsynced = || logs.iter().flat_map(|(_, one)| [&one.unsynced_files, &one.unsynced_names]);
        let (promised, others): (Vec<_>, Vec<_>) =
            logs.iter().flat_map(|(_, one)| &one.promises).partition(standard);
        let others = others.into_iter().map(|one| one.wrong).chain(unsynced().map(|one| one.wrong));
        let mounted = logs.iter().filter(|(_, one)| one.mounted > 0).map(|(_, one)| one.recovery_ns);
        Some(ModelLosses {
            model,
            logs: logs.len(),
            states: sum(|one| one.states),
            acknowledged: Lost::of(&acknowledged.collect::<Vec<_>>()),
            promises: Promise::ALL.iter().filter_map(|promise| of_promise(*promise, &logs)).collect(),
            wrong: promised.into_iter().map(|one| one.wrong).sum(),
            unpromised: others.sum(),
            unsynced: losses_of_unsynced(&logs.iter().map(|(_, one)| *one).collect::<Vec<_>>()),
            mounted: sum(|one| one.mounted),
            hung: sum(|one| one.hung),
            mount_errors,
            checked: sum(|one| one.checked),
            damaged: sum(|one| one.damaged),
            recovery_ns: over_logs(mounted),
            survival: survival(logs.iter().flat_map(|(_, one)| &one.survival)),
        })
    }

    /// States that could not be mounted, or hung.
    pub fn not_mounted(&self) -> u64 {
        self.states.saturating_sub(self.mounted)
    }

    /// Which of two models loses more: by acknowledged promises, then by states that cannot be used, by what
    /// is wrong inside files, promised or not, and by unsynced work.
    fn severity(&self, other: &ModelLosses) -> Ordering {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let key = |one: &ModelLosses| {
            [
                one.acknowledged.rate.unwrap_or(0.0),
                share(one.not_mounted(), one.states),
                share(one.damaged, one.checked),
                share(one.wrong.total(), one.states),
                share(one.unpromised.total(), one.states),
                one.unsynced.map_or(0.0, |unsynced| unsynced.lost_ns.p50 as f64),
            ]
        };
        let keys = key(self).into_iter().zip(key(other));
        keys.map(|(a, b)| a.total_cmp(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// The median of the medians, and the largest maximum, of logs of which only these are stored; `None` of no
/// logs.
fn over_logs(logs: impl Iterator<Item = Spread>) -> Option<Spread> {
    let logs: Vec<Spread> = logs.collect();
    let max = logs.iter().map(|log| log.max).max()?;
    Some(Spread { max, ..Spread::of(logs.iter().map(|log| log.p50).collect()) })
}

/// Returns the losses of unsynced work over several logs.
fn losses_of_unsynced(logs: &[&ModelResult]) -> Option<UnsyncedLosses> {
    let some = |part: &&UnsyncedResult| part.states > 0;
    let farthest = logs.iter().filter_map(|log| {
        let parts = [&log.unsynced_files, &log.unsynced_names].into_iter().filter(some);
        parts.map(|part| part.lost_ns).reduce(|a, b| Spread { p50: a.p50.max(b.p50), max: a.max.max(b.max) })
    });
    let of = |part: fn(&ModelResult) -> &UnsyncedResult, figure: fn(&UnsyncedResult) -> Spread| {
        over_logs(logs.iter().map(|log| part(log)).filter(some).map(figure)).unwrap_or_default()
    };
    Some(UnsyncedLosses {
        lost_ns: over_logs(farthest)?,
        files: of(|log| &log.unsynced_files, |part| part.lost),
        names: of(|log| &log.unsynced_names, |part| part.lost),
        bytes: of(|log| &log.unsynced_files, |part| part.lost_bytes),
    })
}

/// `None` if it was never made.
fn of_promise(promise: Promise, logs: &[(u32, &ModelResult)]) -> Option<PromiseLosses> {
    let own = |one: &&PromiseResult| one.promise == promise;
    let by_log: Vec<OfLog> =
        logs.iter().map(|(cuts, one)| OfLog::sum(one.promises.iter().filter(own), *cuts)).collect();
    let wrong = logs.iter().flat_map(|(_, one)| one.promises.iter().filter(own)).map(|one| one.wrong).sum();
    let lost = Lost::of(&by_log);
    (lost.made > 0).then_some(PromiseLosses { promise, lost, wrong })
}

/// Bins of the same age added up, the youngest work first.
fn survival<'b>(bins: impl Iterator<Item = &'b AgeBin>) -> Vec<AgeBin> {
    let mut sums: BTreeMap<Nanos, AgeBin> = BTreeMap::new();
    for bin in bins {
        let sum = sums.entry(bin.up_to_ns).or_insert(AgeBin { up_to_ns: bin.up_to_ns, ..AgeBin::default() });
        sum.made = sum.made.saturating_add(bin.made);
        sum.survived = sum.survived.saturating_add(bin.survived);
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests;
