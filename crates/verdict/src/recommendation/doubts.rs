//! The reasons to doubt a judgement, in the order in which they could change it: trials that failed, a
//! machine that drifted, what explains a difference, what bears on the deciding measure, too few trials, and
//! configurations that could not be measured.
//!
//! A harmless warning that every trial carries is no reason; nothing is left out of the notes.

use super::answer::Answer;
use super::words;
use crate::doubt;
use crate::drift::Drift;
use crate::judgement::Class;
use crate::outcomes::{self, WarningGroup, carries_in};
use crate::text;
use fsdyno_core::measure::Measure;
use fsdyno_core::outcome::Outcome;
use fsdyno_core::{TrialRecord, Warning, WarningKind};

/// The most that one reads before deciding.
pub(super) const MOST: usize = 3;
/// A warning in fewer than one of so many trials hardly changes a mean.
const RARE: usize = 20;

/// The reasons to doubt what an answer says of its `own` trials, of all trials of the sweep.
pub(super) fn doubts(
    answer: &Answer,
    measure: &Measure,
    drift: Option<&Drift>,
    trials: &[TrialRecord],
    own: &[&TrialRecord],
) -> Vec<String> {
    let mut doubts: Vec<String> = always_failed(answer, trials).collect();
    doubts.extend(words::partly_failed(answer));
    doubts.extend(drift.filter(|drift| drift.measure == measure.name()).and_then(Drift::warning));
    // A judgement that names one as its reason need not repeat it.
    let headline = &answer.judgement.headline;
    let says_more = |doubt: &String| answer.judgement.class != Class::Invalid && !doubt.contains(" failed");
    let mut in_doubt = words::in_doubt(answer).into_iter().filter(says_more);
    doubts.extend(in_doubt.next().map(|first| match in_doubt.count() {
        0 => first,
        more => format!("{first} (and {more} more)"),
    }));
    let ran: Vec<&TrialRecord> = own.iter().copied().filter(|trial| !is_skipped(trial)).collect();
    doubts.extend(
        carried(answer, measure, &ran).into_iter().filter(|doubt| !headline.contains(doubt.as_str())),
    );
    doubts.extend(words::few(answer));
    doubts.extend(
        outcomes::skipped(trials).into_iter().map(|group| {
            format!("not measured: {}: {}", text::several(&group.names), group.unmet.join("; "))
        }),
    );
    doubts.truncate(MOST);
    doubts
}

fn is_skipped(trial: &TrialRecord) -> bool {
    matches!(trial.outcome, Outcome::Skipped { .. })
}

/// Why configurations have no figures at all: the first error of each.
fn always_failed<'a>(answer: &'a Answer, trials: &'a [TrialRecord]) -> impl Iterator<Item = String> + 'a {
    let failed = outcomes::failed(trials);
    answer.failed_always.iter().filter_map(move |name| {
        let first = failed.iter().find(|failed| failed.name == *name)?;
        Some(format!("{name} failed: {}", first.error))
    })
}

/// The warnings that bear on what decides: first those that few trials carry, which make them unlike others.
/// Warnings in very few trials are left to the notes.
fn carried(answer: &Answer, measure: &Measure, own: &[&TrialRecord]) -> Vec<String> {
    let from_memory = [WarningKind::PageCache, WarningKind::CachesNotDropped];
    let is_invalid = answer.judgement.class == Class::Invalid;
    // Telemetry knows what the device delivered. Without it, a tree that fits into memory says that reads may
    // have been from there.
    let is_watched = own.iter().any(|trial| trial.phases.iter().any(|phase| phase.telemetry.is_some()));
    let hides = (!is_watched).then_some(WarningKind::TreeSmallerThanMemory);
    let bears = |group: &&WarningGroup| {
        let explains = doubt::may_explain(group.kind, measure)
            || hides == Some(group.kind) && doubt::bears_on(WarningKind::PageCache, measure);
        let is_said = is_invalid && from_memory.contains(&group.kind);
        explains && !(is_said || group.is_note(own.len()))
    };
    let carried = |group: &WarningGroup| {
        let found: Vec<&Warning> =
            own.iter().filter_map(|trial| carries_in(trial, group.kind, measure)).collect();
        let is_rare = !measure.is_of_the_slowest() && found.len() * RARE <= own.len();
        (!is_rare).then_some((group.kind, found))
    };
    let mut kinds: Vec<(WarningKind, Vec<&Warning>)> =
        answer.warnings.iter().filter(bears).filter_map(carried).collect();
    kinds.sort_by_key(|(_, found)| found.len() >= own.len());
    let trials = text::plural(own.len() as u64, "trial");
    let in_words = |(kind, found): (WarningKind, Vec<&Warning>)| {
        let first = found.first()?;
        let one_of_them =
            if found.iter().any(|other| other.text != first.text) { "for example, " } else { "" };
        Some(format!("{kind} in {} of {trials}: {one_of_them}{}", found.len(), first.text))
    };
    kinds.into_iter().filter_map(in_words).collect()
}
