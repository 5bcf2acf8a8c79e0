//! The outcomes of a sweep's trials: which were measured, and the skipped cases, failures and warnings in
//! groups.

use crate::text;
use fsdyno_core::measure::Measure;
use fsdyno_core::outcome::{Failure, Outcome};
use fsdyno_core::{TrialRecord, Warning, WarningKind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// All warnings of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WarningGroup {
    /// The kind.
    pub kind: WarningKind,
    /// Trials that carry it.
    pub trials: usize,
    /// The text of the first, and which one that is.
    #[serde(flatten)]
    pub example: Text,
}

impl WarningGroup {
    /// Returns whether the warning is no more than a note: harmless, and carried by each of so many measured
    /// trials.
    pub fn is_note(&self, measured: usize) -> bool {
        self.kind.is_harmless() && self.trials >= measured
    }
}

/// The text of a warning that several trials carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text {
    /// The text of the first.
    #[serde(rename = "example")]
    pub text: String,
    /// Number of that trial if others say something else, such as other figures.
    #[serde(rename = "example_trial", skip_serializing_if = "Option::is_none")]
    pub of_trial: Option<u32>,
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.of_trial {
            Some(trial) => write!(f, "for example in trial {}, {}", text::nth(trial), self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The text of a kind of warning; `None` if no trial carries it.
pub(crate) fn text_of<'a>(
    trials: impl Iterator<Item = &'a TrialRecord> + Clone,
    kind: WarningKind,
) -> Option<Text> {
    let mut found = trials.filter_map(|trial| Some((trial.trial, carries(trial, kind)?)));
    let (trial, warning) = found.next()?;
    let same = found.all(|(_, other)| other == warning);
    Some(Text { text: warning.to_string(), of_trial: (!same).then_some(trial) })
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

/// Returns whether a trial has figures that count: those of a disturbed block that was measured again do not.
pub fn is_measured(trial: &TrialRecord) -> bool {
    trial.outcome == Outcome::Measured && !trial.is_measured_again()
}

/// Returns whether a trial has failed, and counts.
pub(crate) fn has_failed(trial: &TrialRecord) -> bool {
    matches!(trial.outcome, Outcome::Failed { .. }) && !trial.is_measured_again()
}

/// Returns the number of other trials of the cases of these that have failed.
pub(crate) fn failed_beside(trials: &[&TrialRecord], whole: &[TrialRecord]) -> usize {
    let of_case = |one: &&TrialRecord| trials.iter().any(|trial| trial.case == one.case);
    whole.iter().filter(|trial| has_failed(trial)).filter(of_case).count()
}

/// Returns the kinds of warning that are no more than notes, because all of these trials carry them.
pub(crate) fn notes(trials: &[&TrialRecord]) -> BTreeSet<WarningKind> {
    let kinds = WarningKind::ALL.iter().copied();
    kinds.filter(|kind| kind.is_harmless() && carriers(trials, *kind) == trials.len()).collect()
}

/// Returns the number of kinds of warning that these trials carry together, besides notes.
pub(crate) fn warning_kinds(trials: &[&TrialRecord], notes: &BTreeSet<WarningKind>) -> usize {
    let kinds = trials.iter().flat_map(|trial| &trial.warnings).map(|warning| warning.kind);
    kinds.filter(|kind| !notes.contains(kind)).collect::<BTreeSet<_>>().len()
}

/// The risks of some trials, as their warnings of durability describe them: what weakens it, and what may.
pub(crate) fn risks<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Vec<String> {
    let mut risks: Vec<String> = Vec::new();
    for warning in trials.into_iter().flat_map(|trial| &trial.warnings) {
        let of_durability = matches!(warning.kind, WarningKind::Durability | WarningKind::DurabilityUnknown);
        if of_durability && !risks.contains(&warning.text) {
            risks.push(warning.text.clone());
        }
    }
    risks
}

/// Returns the number of these trials that carry a warning of this kind.
pub(crate) fn carriers(trials: &[&TrialRecord], kind: WarningKind) -> usize {
    trials.iter().filter(|trial| carries(trial, kind).is_some()).count()
}

/// The warning of this kind that a trial carries: that of its worst phase, if several do.
pub(crate) fn carries(trial: &TrialRecord, kind: WarningKind) -> Option<&Warning> {
    trial.warnings.iter().find(|warning| warning.kind == kind)
}

/// The same of the phases that a measure covers.
pub(crate) fn carries_in<'t>(
    trial: &'t TrialRecord,
    kind: WarningKind,
    measure: &Measure,
) -> Option<&'t Warning> {
    let concerns = |warning: &&Warning| match &warning.phase {
        Some(phase) => measure.covers(trial, phase),
        None => true,
    };
    trial.warnings.iter().filter(|warning| warning.kind == kind).find(concerns)
}

/// Returns the number of these trials that carry a warning of this kind in the phases that a measure covers.
pub(crate) fn carriers_in(trials: &[&TrialRecord], kind: WarningKind, measure: &Measure) -> usize {
    trials.iter().filter(|trial| carries_in(trial, kind, measure).is_some()).count()
}

/// Every kind of warning that these trials carry.
pub fn warnings<'a>(trials: impl Iterator<Item = &'a TrialRecord> + Clone) -> Vec<WarningGroup> {
    let group = |kind: &WarningKind| {
        let example = text_of(trials.clone(), *kind)?;
        let count = trials.clone().filter(|trial| carries(trial, *kind).is_some()).count();
        Some(WarningGroup { kind: *kind, trials: count, example })
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
            // A configuration has a case for each workload.
            Some(group) if group.names.iter().any(|known| known == name) => {}
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
