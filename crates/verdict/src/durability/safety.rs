//! The durability of a configuration: as power cuts have shown it, else as its settings declare it.
//!
//! The testbed declares which settings weaken what survives a power cut, or may because nobody has classified
//! them, and stores that with each trial. If
//! the same configuration was also measured in the sweep, its losses decide: one lost acknowledged promise is
//! enough to call it unsafe. That nothing was lost proves less. A setting that is declared unsafe is unsafe
//! with a volatile cache, so it is only cleared by enough states under the models that have one.

use super::{Losses, ModelLosses};
use crate::outcomes::{carries, risks};
use crate::text;
use fsdyno_core::axis::OF_THE_LOAD;
use fsdyno_core::durability::CacheModel;
use fsdyno_core::{Configuration, TrialRecord, WarningKind, Workload};
use serde::Serialize;
use std::collections::BTreeMap;

/// So many states without a loss count as evidence: at 95 %, at most 1 in 20 such states loses something.
const STATES_ENOUGH: u64 = 60;

/// The models that clear a setting that is declared unsafe.
const VOLATILE: [CacheModel; 2] = [CacheModel::Flushed, CacheModel::Subset];

/// The basis for saying whether a configuration is durable.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Basis {
    /// Its settings, by what is known of them.
    Declared,
    /// Nothing: the figures were imported, or nobody has classified what it uses.
    Unknown,
    /// Power cuts in this sweep.
    Measured(MeasuredLosses),
}

/// The losses that power cuts have shown of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredLosses {
    /// Each cache model, in the order of [`CacheModel::ALL`].
    pub models: Vec<MeasuredModel>,
    /// The model under which most is lost, as an index of `models`.
    pub worst: usize,
}

/// The losses under one cache model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredModel {
    /// Which writes survived.
    pub model: CacheModel,
    /// Promises that were acknowledged.
    pub acknowledged: u64,
    /// Those that were lost.
    pub lost: u64,
    /// Logs.
    pub logs: u64,
    /// Logs that lost any.
    pub losing_logs: u64,
    /// The exact 95 % interval of their share; one-sided if none or all of them lose.
    pub losing_logs_interval: Option<[f64; 2]>,
    /// States.
    pub states: u64,
}

impl MeasuredModel {
    fn of(losses: &ModelLosses) -> MeasuredModel {
        let lost = &losses.acknowledged;
        MeasuredModel {
            model: losses.model,
            acknowledged: lost.made,
            lost: lost.lost,
            logs: lost.logs,
            losing_logs: lost.losing_logs,
            losing_logs_interval: lost.losing_logs_interval,
            states: losses.states,
        }
    }
}

impl MeasuredLosses {
    fn of(losses: &Losses) -> MeasuredLosses {
        let models = losses.models.iter().map(MeasuredModel::of).collect();
        MeasuredLosses { models, worst: losses.worst }
    }

    /// Returns whether an acknowledged promise was lost under any model.
    pub fn loses(&self) -> bool {
        self.models.iter().any(|one| one.lost > 0)
    }

    /// Returns the losses without a verb before them: `113 of 113 acknowledged promises lost in 3 of 3 logs`.
    pub fn summary(&self) -> String {
        let worst = &self.models[self.worst];
        match self.loses() {
            true => format!(
                "measured: {} of {} acknowledged promises lost in {} of {}, {}",
                text::count(worst.lost),
                text::count(worst.acknowledged),
                worst.losing_logs,
                text::plural(worst.logs, "log"),
                cache(worst.model)
            ),
            false => {
                let at_most = worst.losing_logs_interval.map_or(String::new(), |[_, high]| {
                    let logs = text::plural(worst.logs, "log");
                    format!(" ({logs} may miss a loss that fewer than {} of logs have)", text::at_most(high))
                });
                format!(
                    "measured: no acknowledged promise lost in {} of {}{at_most}",
                    text::plural(self.models.iter().map(|one| one.states).sum(), "state"),
                    text::plural(worst.logs, "log"),
                )
            }
        }
    }

    /// Returns a sentence about the losses of the configuration: `with a volatile cache it loses 113 of 113
    /// acknowledged promises; with every completed write surviving (model completed) none in 60 states`.
    pub fn sentence(&self) -> String {
        let worst = &self.models[self.worst];
        let loses = format!(
            "{} it loses {} of {} acknowledged promises",
            cache(worst.model),
            text::count(worst.lost),
            text::count(worst.acknowledged)
        );
        let completed = self.models.iter().find(|one| one.model == CacheModel::Completed);
        let completed = completed.filter(|one| one.model != worst.model && one.lost == 0);
        completed.map_or(loses.clone(), |one| {
            format!("{loses}; {} none in {}", cache(one.model), text::plural(one.states, "state"))
        })
    }
}

/// The cache of a model.
fn cache(model: CacheModel) -> &'static str {
    match model {
        CacheModel::Completed => "with every completed write surviving (model completed)",
        CacheModel::Flushed => "with a volatile cache",
        CacheModel::Subset => "with a volatile cache that keeps some writes (model subset)",
        CacheModel::Window => "with a small volatile cache (model window)",
    }
}

/// The judgement of whether a configuration is durable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DurabilityJudgement {
    /// The ways in which it weakens what survives a power cut, or may; empty if it is durable.
    pub risks: Vec<String>,
    pub basis: Basis,
}

/// The losses that the sweep shows of its configurations, apart for power cuts alone and for those along with
/// which a disk was lost: an array that keeps its promises as long as it has all disks is not unsafe.
pub(crate) struct Safety {
    measured: BTreeMap<(WayOfKeeping, bool), Losses>,
}

/// The way in which a configuration keeps data: its filesystem and settings, not the memory that a load had.
type WayOfKeeping = (String, BTreeMap<String, String>);

fn kept(configuration: &Configuration) -> WayOfKeeping {
    let mut settings = configuration.settings.clone();
    settings.retain(|axis, _| !OF_THE_LOAD.contains(&axis.as_str()));
    (configuration.filesystem.clone(), settings)
}

impl Safety {
    /// Reads all trials of a sweep.
    pub fn new(whole: &[TrialRecord]) -> Safety {
        let mut groups: BTreeMap<(WayOfKeeping, bool), Vec<&TrialRecord>> = BTreeMap::new();
        for trial in whole.iter().filter(|trial| trial.durability.is_some()) {
            let group = (kept(&trial.configuration), is_degraded(trial).unwrap_or(false));
            groups.entry(group).or_default().push(trial);
        }
        let losses = groups.into_iter().filter_map(|(group, trials)| Some((group, Losses::of(&trials)?)));
        Safety { measured: losses.collect() }
    }

    /// Judges the configuration of some trials.
    pub fn judge(&self, trials: &[&TrialRecord]) -> DurabilityJudgement {
        let declared = risks(trials.iter().copied());
        let losses = trials.first().and_then(|trial| self.losses(trial));
        let Some(losses) = losses else {
            return DurabilityJudgement { risks: declared, basis: basis(trials) };
        };
        let measured = MeasuredLosses::of(losses);
        if losses.loses() {
            let risks = std::iter::once(measured.summary()).chain(declared).collect();
            return DurabilityJudgement { risks, basis: Basis::Measured(measured) };
        }
        let states: u64 = losses.models.iter().map(|one| one.states).sum();
        match declared.is_empty() {
            true if states >= STATES_ENOUGH => {
                DurabilityJudgement { risks: Vec::new(), basis: Basis::Measured(measured) }
            }
            false if is_cleared(losses) => {
                DurabilityJudgement { risks: Vec::new(), basis: Basis::Measured(measured) }
            }
            _ => DurabilityJudgement { risks: declared, basis: basis(trials) },
        }
    }

    /// Returns the ways in which trials of any configurations weaken what survives, in words without figures:
    /// they are the same for every configuration that weakens it in the same way.
    pub fn kinds<'a>(&self, trials: impl Iterator<Item = &'a TrialRecord>) -> Vec<String> {
        let mut kinds: Vec<String> = Vec::new();
        for trial in trials {
            let judged = self.judge(&[trial]);
            let declared = risks([trial]);
            for risk in judged.risks {
                let kind = match declared.contains(&risk) {
                    true => risk,
                    false => "measured: acknowledged promises lost".to_string(),
                };
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        kinds
    }

    /// Those of the same kind of power cuts; under another load, of power cuts alone if there were any.
    fn losses(&self, trial: &TrialRecord) -> Option<&Losses> {
        let kept = kept(&trial.configuration);
        let kinds = is_degraded(trial).map_or(vec![false, true], |degraded| vec![degraded]);
        kinds.into_iter().find_map(|degraded| self.measured.get(&(kept.clone(), degraded)))
    }
}

/// Returns the basis for saying whether the configuration of some trials is durable if no power cut does.
fn basis(trials: &[&TrialRecord]) -> Basis {
    let all = |kind| trials.iter().all(|trial| carries(trial, kind).is_some());
    let any = |kind| trials.iter().any(|trial| carries(trial, kind).is_some());
    let unknown = all(WarningKind::Imported) || any(WarningKind::DurabilityUnknown);
    if unknown && !any(WarningKind::Durability) { Basis::Unknown } else { Basis::Declared }
}

/// Returns whether a disk was lost along with power; `None` under any other load.
fn is_degraded(trial: &TrialRecord) -> Option<bool> {
    match &trial.workload {
        Workload::Durability(parameters) => Some(parameters.degraded),
        _ => None,
    }
}

/// Returns whether enough states with a volatile cache lost nothing, and could all be used.
fn is_cleared(losses: &Losses) -> bool {
    let enough = |model: CacheModel| losses.model(model).is_some_and(|one| one.states >= STATES_ENOUGH);
    // What was never promised may still show what others had deleted.
    let whole = |one: &ModelLosses| {
        one.not_mounted() == 0 && one.damaged == 0 && one.wrong.plus(&one.unpromised).total() == 0
    };
    VOLATILE.into_iter().all(enough) && losses.models.iter().all(whole)
}
