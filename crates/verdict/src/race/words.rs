//! What a race found, in words.

use super::RaceAnswer;
use crate::text;
use fsdyno_core::measure::Measure;
use fsdyno_race::Doubts;

/// The answer: what to use, how certain that is, and what it cost.
pub(super) fn sentences(found: &RaceAnswer, measure: &Measure, nothing_differs: f64) -> Vec<String> {
    let name = &found.pick.configuration.name;
    let figure = found.finalists.iter().find(|one| one.raced.case == found.pick.case);
    let figure = figure.and_then(|one| Some((one, one.value?))).map_or(String::new(), |(one, value)| {
        let again = text::plural(one.trials as u64, "fresh trial");
        format!(": {} ({measure}) in {again}", text::quantity(measure, value, false))
    });
    let bound = text::at_most(found.regret_bound);
    let sure = format!("With 95 % probability, no configuration is more than {bound} better.");
    // The default may also be the best by chance.
    let stays = found.pick.case == found.default.case;
    let first = match (found.default_kept, stays && nothing_differs > 0.5) {
        (_, true) => {
            format!("No material difference: keep '{name}', which changes the fewest settings{figure}.")
        }
        (true, false) => format!(
            "Keep '{name}', which changes the fewest settings{figure}. No other is expected to be better by more than \
             half of the threshold ({}).",
            text::at_most(found.threshold)
        ),
        (false, false) => format!("Use '{name}'{figure}."),
    };
    let others = match &found.as_good[..] {
        [] => "No other is as good.".to_string(),
        [only] => format!("'{}' may be as good.", only.configuration.name),
        several => {
            let within = text::at_most(found.threshold);
            format!("{} others may be as good (within {within}).", several.len())
        }
    };
    let share = found.trials as f64 / found.sweep_trials.max(1) as f64;
    let mut cost = format!(
        "The race took {} of the {} trials of the sweep ({}).",
        found.trials,
        found.sweep_trials,
        text::percent(share)
    );
    if let Some(whole) = &found.whole_sweep {
        cost += &match whole.best.case == found.pick.case {
            true => " All of them together say the same.".to_string(),
            false => format!(
                " By the means of all of them, '{}' is the best, and the pick is {} worse.",
                whole.best.configuration.name,
                text::percent(whole.pick_behind)
            ),
        };
    }
    vec![format!("{first} {sure} {others}"), cost]
}

/// Why a configuration was dropped.
pub(super) fn why(rank: Option<usize>, of: Option<usize>, behind: Option<f64>) -> String {
    match (rank, of, behind) {
        (Some(rank), Some(of), Some(behind)) => {
            format!("number {rank} of {of}, {} behind the best", text::percent(behind))
        }
        _ => "no trial has a value above 0".to_string(),
    }
}

/// What makes the bound doubtful.
pub(super) fn doubts(doubts: &Doubts) -> Vec<String> {
    let widened = format!("the bound is {:.1} times as wide as without this", doubts.widening);
    let noise =
        "some trials are further from the others of their configuration than the model expects of noise";
    let deviations =
        "some configurations are further from what their settings predict than the model expects";
    let found = [(doubts.noise, noise), (doubts.deviations, deviations)];
    found.into_iter().filter(|(is, _)| *is).map(|(_, text)| format!("{text}; {widened}")).collect()
}
