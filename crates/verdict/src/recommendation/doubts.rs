//! The reasons to doubt a judgement, in the order in which they could change it: trials that failed, a
//! machine that drifted, what explains a difference, what bears on the deciding measure, too few trials, and
//! configurations that could not be measured.
//!
//! What every trial carries and what is harmless is no reason; nothing is left out of the notes.

use super::answer::Answer;
use super::words;
use crate::doubt;
use crate::drift::Drift;
use crate::judgement::Class;
use crate::outcomes::{self, WarningGroup, carriers};
use crate::text;
use fsdyno_core::measure::Measure;
use fsdyno_core::outcome::Outcome;
use fsdyno_core::{TrialRecord, WarningKind};

/// The most that one reads before deciding.
const MOST: usize = 3;
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

/// The text of a warning without the phase that it was seen in.
fn without_phase(text: &str) -> &str {
    let of_phase = text.strip_prefix("phase '").and_then(|rest| rest.split_once("': "));
    of_phase.map_or(text, |(_, rest)| rest)
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
        let is_rare = !measure.is_of_the_slowest() && carriers(own, group.kind) * RARE <= own.len();
        let is_said = is_invalid && from_memory.contains(&group.kind);
        explains && !(is_rare || is_said || group.is_note(own.len()))
    };
    let mut groups: Vec<&WarningGroup> = answer.warnings.iter().filter(bears).collect();
    groups.sort_by_key(|group| group.trials >= own.len());
    let trials = text::plural(own.len() as u64, "trial");
    let in_words = |group: &WarningGroup| {
        let carriers = carriers(own, group.kind);
        let one_of_them = if group.example.of_trial.is_some() { "for example, " } else { "" };
        format!(
            "{} in {carriers} of {trials}: {one_of_them}{}",
            group.kind,
            without_phase(&group.example.text)
        )
    };
    groups.into_iter().map(in_words).collect()
}
