//! The outcomes of a sweep's trials: which were measured, and the skipped cases, failures and warnings in
//! groups.

use fsdyno_core::outcome::{Failure, Outcome};
use fsdyno_core::{TrialRecord, WarningKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// All warnings of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WarningGroup {
    /// The kind.
    pub kind: WarningKind,
    /// Trials that carry it.
    pub trials: usize,
    /// The text of the first.
    pub example: String,
}

/// Cases that this machine cannot run for the same reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedCases {
    /// Names of the configurations.
    pub names: Vec<String>,
    /// All unmet requirements.
    pub unmet: Vec<String>,
}

/// Trials of one configuration that failed in the same way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedTrials {
    /// Their numbers.
    pub trials: Vec<u32>,
    /// Name of the configuration.
    pub name: String,
    /// The error.
    pub error: Failure,
}

/// Whether a trial has figures to show.
pub fn is_measured(trial: &TrialRecord) -> bool {
    trial.outcome == Outcome::Measured
}

/// How many kinds of warning these trials carry together.
pub fn warning_kinds(trials: &[&TrialRecord]) -> usize {
    WarningKind::ALL.iter().filter(|kind| trials.iter().any(|trial| carries(trial, **kind).is_some())).count()
}

fn carries(trial: &TrialRecord, kind: WarningKind) -> Option<&str> {
    trial.warnings.iter().find(|warning| warning.kind == kind).map(|warning| warning.text.as_str())
}

/// Every kind of warning that these trials carry.
pub fn warnings<'a>(trials: impl Iterator<Item = &'a TrialRecord> + Clone) -> Vec<WarningGroup> {
    let group = |kind: &WarningKind| {
        let texts: Vec<&str> = trials.clone().filter_map(|trial| carries(trial, *kind)).collect();
        let example = (*texts.first()?).to_string();
        Some(WarningGroup { kind: *kind, trials: texts.len(), example })
    };
    WarningKind::ALL.iter().filter_map(group).collect()
}

/// The skipped cases by their unmet requirements; each case appears once, with those of all its trials.
pub fn skipped(trials: &[TrialRecord]) -> Vec<SkippedCases> {
    let mut cases: BTreeMap<u32, (&str, Vec<String>)> = BTreeMap::new();
    for trial in trials {
        let Outcome::Skipped { unmet } = &trial.outcome else { continue };
        let (_, all) = cases.entry(trial.case).or_insert((&trial.configuration.name, Vec::new()));
        for requirement in unmet {
            if !all.contains(requirement) {
                all.push(requirement.clone());
            }
        }
    }
    let mut groups: Vec<SkippedCases> = Vec::new();
    for (name, unmet) in cases.into_values() {
        match groups.iter_mut().find(|group| group.unmet == unmet) {
            Some(group) => group.names.push(name.to_string()),
            None => groups.push(SkippedCases { names: vec![name.to_string()], unmet }),
        }
    }
    groups
}

/// The failed trials by configuration and error.
pub fn failed(trials: &[TrialRecord]) -> Vec<FailedTrials> {
    let mut groups: Vec<FailedTrials> = Vec::new();
    for trial in trials {
        let Outcome::Failed { error } = &trial.outcome else { continue };
        let name = &trial.configuration.name;
        match groups.iter_mut().find(|group| group.name == *name && group.error == *error) {
            Some(group) => group.trials.push(trial.trial),
            None => groups.push(FailedTrials {
                trials: vec![trial.trial],
                name: name.clone(),
                error: error.clone(),
            }),
        }
    }
    groups
}
