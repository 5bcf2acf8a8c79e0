//! The result of a race, in words.

use super::{Elimination, Finalist, NextBlock, RaceAnswer, RaceState};
use crate::judgement::{Class, Judgement};
use crate::race::procedure::Doubts;
use crate::text;
use fsdyno_core::measure::Measure;

/// The judgement: what to use, and how certain that is.
pub(super) fn judgement(found: &RaceAnswer, measure: &Measure, nothing_differs: f64) -> Judgement {
    let name = &found.pick.configuration.name;
    let pick = found.finalists.iter().find(|one| one.raced.case == found.pick.case);
    let figure = pick.and_then(|one| Some((one, one.value?))).map_or(String::new(), |(one, value)| {
        let again = text::plural(one.trials as u64, "fresh trial");
        format!(": {} ({}) in {again}", text::quantity(measure, value, false), measure.in_words())
    });
    let bound = text::bound(found.regret_bound);
    let within = text::at_most(found.threshold);
    let is_sure = found.regret_bound <= found.threshold;
    let sure = match is_sure {
        true => format!("With 95 % probability, no configuration is more than {bound} better."),
        false => format!("Another may be up to {bound} better than '{name}' (95 %)."),
    };
    let called = found.default_called;
    // The default may also be the best by chance.
    let stays = found.pick.case == found.default.case;
    let (class, first) = match (found.state, found.default_kept) {
        (RaceState::Unfinished, _) => {
            (Class::Undecided, format!("So far, '{name}' is expected to be the best choice{figure}."))
        }
        _ if !is_sure => {
            let of_default = found.finalists.iter().find(|one| one.raced.case == found.default.case);
            let of_default = of_default.and_then(|one| one.value).map(|value| {
                let default = &found.default.configuration.name;
                format!("; the {called}, '{default}', has {}", text::quantity(measure, value, false))
            });
            let than = of_default.filter(|_| !stays).unwrap_or_default();
            (Class::Undecided, format!("No winner yet: '{name}' is the most likely{figure}{than}."))
        }
        _ if stays && nothing_differs > 0.5 => (
            Class::NoDifference,
            format!("No material difference: keep '{name}', which changes the fewest settings{figure}."),
        ),
        (_, true) => (
            Class::NoDifference,
            format!(
                "Keep '{name}', which changes the fewest settings{figure}. No other is expected to be better by \
                 more than half of the threshold ({within})."
            ),
        ),
        (_, false) => (Class::Winner, format!("Use '{name}'{figure}.")),
    };
    let others = match &found.as_good[..] {
        [] if is_sure => format!(" No other is likely to be as good (within {within})."),
        [] => String::new(),
        [only] => format!(" '{}' may be as good.", only.configuration.name),
        several => format!(" {} others may be as good (within {within}).", several.len()),
    };
    let missing = pick.and_then(missing).map_or(String::new(), |missing| format!(" However, {missing}."));
    let next = next(class, found.state);
    let keep = match next {
        None => String::new(),
        Some(_) if stays => format!(" Keep it: it is the {called}."),
        Some(_) => format!(" Keep the {called} until that is decided."),
    };
    Judgement { class, headline: format!("{first}{missing} {sure}{others}{keep}"), next }
}

/// Returns the step that would decide.
fn next(class: Class, state: RaceState) -> Option<String> {
    (class == Class::Undecided && state != RaceState::Unfinished)
        .then(|| "To decide: a larger `budget`, or a sweep of only those that are left.".to_string())
}

/// Returns the sentences on how far the race has come, and what it took.
pub(super) fn sentences(found: &RaceAnswer) -> Vec<String> {
    vec![if found.state == RaceState::Replayed { replayed(found) } else { run(found) }]
}

/// Returns the text on what a replay took compared with its sweep.
fn replayed(found: &RaceAnswer) -> String {
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
    cost
}

/// Returns the text on how far a race has come, and what it took.
fn run(found: &RaceAnswer) -> String {
    let trials = text::plural(found.trials as u64, "trial");
    let configurations = found.eliminations.len() + found.finalists.len();
    let time = found.time_ns.map_or(String::new(), |time| format!(" and {}", text::rough(time)));
    let budget = found.budget.as_ref().map_or(String::new(), |budget| format!(" of {budget}"));
    let fresh = found.finalists.iter().any(|one| one.trials > 0);
    match (found.state, &found.next) {
        (RaceState::Unfinished, Some(next)) => {
            format!("The race is not over: {}. So far it took {trials}{time}.", next_in_words(next))
        }
        (RaceState::OutOfBudget, _) if !fresh => format!(
            "The race ended before its last round because its budget{budget} was used up: the last few were \
             not measured again, so no figures are reported as theirs. It took {trials}{time} for \
             {configurations} configurations."
        ),
        (RaceState::OutOfBudget, _) => format!(
            "The race took {trials}{time} for {configurations} configurations. It left out blocks because \
             its budget{budget} did not suffice for them."
        ),
        _ => format!("The race took {trials}{time} for {configurations} configurations."),
    }
}

/// `block 3 of 9 is next, with 36 configurations`.
fn next_in_words(next: &NextBlock) -> String {
    let NextBlock { block, blocks, configurations, fresh } = next;
    let again = if *fresh { ", which are measured again" } else { "" };
    format!("block {block} of {blocks} is next, with {configurations} configurations{again}")
}

/// Returns the lines about a race after this many complete blocks.
pub(super) fn after_block(found: &RaceAnswer, blocks: u32) -> Vec<String> {
    let mut end = 0;
    let ended = found.rounds.iter().zip(1..).filter_map(|(round, number)| {
        end += round.blocks;
        (end == blocks).then_some(number)
    });
    let drops: Vec<String> = ended.filter_map(|round| dropped_after(found, round)).collect();
    let bound = format!(
        "after block {blocks}: no configuration is more than {} better than '{}', 95 %",
        text::bound(found.regret_bound),
        found.pick.configuration.name
    );
    let next = match &found.next {
        Some(next) => next_in_words(next),
        None => "the race is over".to_string(),
    };
    drops.into_iter().chain([bound, next]).collect()
}

/// `after round 1 (72 trials) 36 dropped: 'a' (number 37 of 72, 8.1 % behind the best), ... and 33 more`.
pub(super) fn dropped_after(found: &RaceAnswer, round: usize) -> Option<String> {
    let dropped: Vec<&Elimination> = found.eliminations.iter().filter(|one| one.round == round).collect();
    let after = dropped.last()?.after_trials;
    let named = |one: &&Elimination| format!("'{}' ({})", one.raced.configuration.name, one.why);
    let mut names: Vec<String> = dropped.iter().take(1).map(named).collect();
    if dropped.len() > 1 {
        names.push(format!("{} more", dropped.len() - 1));
    }
    Some(format!("after round {round} ({after} trials) {} dropped: {}", dropped.len(), names.join(", ")))
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

/// Says if trials of a configuration say nothing.
pub(super) fn missing(one: &Finalist) -> Option<String> {
    let trials = text::plural(one.all as u64, "trial");
    (one.missing > 0).then(|| {
        format!(
            "{} of {trials} of '{}' failed or have no value above 0, and the bound leaves them out",
            one.missing, one.raced.configuration.name
        )
    })
}

/// Returns the reasons to doubt the bound.
pub(super) fn doubts(doubts: &Doubts) -> Vec<String> {
    let widened = format!("the bound is {:.1} times as wide as without this", doubts.widening);
    let noise =
        "some trials are further from the others of their configuration than the model expects of noise";
    let deviations =
        "some configurations are further from what their settings predict than the model expects";
    let found = [(doubts.noise, noise), (doubts.deviations, deviations)];
    found.into_iter().filter(|(is, _)| *is).map(|(_, text)| format!("{text}; {widened}")).collect()
}
