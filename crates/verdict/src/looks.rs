//! The effect on the figures of a sweep of the looks that decided how many trials it has: the level of its
//! ratios, and the notes on them.

use crate::outcomes::is_measured;
use crate::text;
use fsdyno_core::{Looks, TrialRecord};
use fsdyno_stats::Ratio;

/// A ratio with the interval and the p value that it has if the trials were looked at to decide how many
/// there are.
pub(crate) fn under_looks(ratio: Option<Ratio>, repeated: bool) -> Option<Ratio> {
    if repeated { ratio.map(Ratio::at_any_time) } else { ratio }
}

/// Returns the notes that a reader must know about the looks at a sweep, one line each.
pub fn notes(looks: &Looks, trials: &[TrialRecord]) -> Vec<String> {
    let mut notes = Vec::new();
    if looks.are_repeated() {
        let blocks: Vec<String> = ranges(&looks.after);
        notes.push(format!(
            "the sweep was judged {} (after {} blocks) to decide whether it goes on: intervals and p values of \
             ratios are those that hold after every look at once, wider than those of a fixed number of trials",
            times(looks.after.len()),
            blocks.join(", ")
        ));
    }
    for repeated in looks.repeated.iter().filter(|one| one.counts) {
        let own = |trial: &&TrialRecord| trial.block == repeated.block && !is_measured(trial);
        let count = trials.iter().filter(own).filter(|trial| trial.is_measured_again()).count();
        let why: Vec<&str> = repeated.why.iter().map(|kind| kind.name()).collect();
        notes.push(format!(
            "{} of block {} do not count: the machine was disturbed ({}), and block {} was measured in its place",
            text::plural(count as u64, "trial"),
            repeated.block + 1,
            why.join(", "),
            repeated.by + 1
        ));
    }
    notes
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_string() } else { format!("{count} times") }
}

/// `4 to 9`, `12`.
fn ranges(numbers: &[u32]) -> Vec<String> {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let words = runs.filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first} to {last}")),
    });
    words.collect()
}
