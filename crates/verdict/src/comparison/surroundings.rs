//! The surroundings of a comparison that bear on its answer: the behaviour of the machine during the sweeps
//! of both sides, and the warnings of the compared trials.

use super::{ComparisonQuestion, Side};
use crate::drift::{Drift, drift};
use crate::outcomes::{Text, carriers, text_of};
use crate::text;
use fsdyno_core::measure::Measure;
use fsdyno_core::{TrialRecord, WarningKind};

/// A kind of warning that trials of either side carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedWarning {
    /// The kind.
    pub kind: WarningKind,
    /// Compared trials that carry it, on each side.
    pub trials: [usize; 2],
    /// All compared trials, on each side.
    pub of: [usize; 2],
    /// The text of the first, and whether the others say the same.
    pub example: Text,
}

impl SharedWarning {
    /// Returns whether the warning is no more than a note: harmless, and carried by each compared trial.
    pub fn is_note(&self) -> bool {
        self.kind.is_harmless() && self.trials == self.of
    }

    /// Returns the text of the warning, and the trial that it is from if others say something else.
    pub fn text(&self) -> String {
        let side = if self.trials[0] > 0 { "A" } else { "B" };
        match self.example.of_trial {
            Some(trial) => {
                format!("for example in trial {} of {side}, {}", text::nth(trial), self.example.text)
            }
            None => self.example.text.clone(),
        }
    }
}

/// The note on a sweep that was looked at to decide how many trials it has.
const JUDGED_AGAIN: &str = "the sweep was judged again and again to decide whether it goes on: intervals and p \
                            values of ratios are those that hold after every look at once";
/// Kinds that say nothing about the figures.
const OF_NO_FIGURE: &[WarningKind] =
    &[WarningKind::NameMapped, WarningKind::NearestEquivalent, WarningKind::NotChecked];

/// Every kind of warning that bears on the figures.
pub(super) fn warnings(sides: [&[&TrialRecord]; 2]) -> Vec<SharedWarning> {
    let kinds = WarningKind::ALL.iter().filter(|kind| !OF_NO_FIGURE.contains(kind));
    let shared = |kind: &WarningKind| {
        let example = text_of(sides.into_iter().flatten().copied(), *kind)?;
        let trials = sides.map(|trials| carriers(trials, *kind));
        Some(SharedWarning { kind: *kind, trials, of: sides.map(<[_]>::len), example })
    };
    kinds.filter_map(shared).collect()
}

/// Returns the notes on what the sentinels of each side's sweep show, and on looks that decided its number of
/// trials.
pub(super) fn notes(sides: [Side<'_>; 2], question: &ComparisonQuestion) -> [Vec<String>; 2] {
    let one_sweep = sides[0].shares_sweep_with(&sides[1]);
    let of = |side: Side<'_>| {
        let measure = question.measures.first().cloned().or_else(|| default_measure(side.whole));
        let drift = measure.and_then(|measure| drift(&measure, side.whole));
        let mut notes: Vec<String> = drift
            .map_or(Vec::new(), |drift: Drift| drift.warning().into_iter().chain(drift.notes()).collect());
        notes.extend(side.repeated_looks.then(|| JUDGED_AGAIN.to_string()));
        notes
    };
    [of(sides[0]), if one_sweep { Vec::new() } else { of(sides[1]) }]
}

fn default_measure(trials: &[TrialRecord]) -> Option<Measure> {
    let sentinel = trials.iter().find(|trial| trial.sentinel)?;
    sentinel.workload.load().default_measure().parse().ok()
}
