//! The answer in two parts: what to use and how certain that is; what it costs, and what would be faster but
//! less safe.

use super::answer::Answer;
use super::contender::{Compared, Contender, Verdict};
use super::losses;
use super::pareto::ParetoPoint;
use crate::durability::Basis;
use crate::outcomes::carries;
use crate::text;
use fsdyno_core::measure::{Direction, Measure};
use fsdyno_core::{TrialRecord, WarningKind};
use fsdyno_stats::Estimate;

/// The measure of searches for the highest rate.
const CAPACITY: &str = "flow-capacity";

/// The answer.
pub(super) fn sentences(answer: &Answer, measure: &Measure, threshold: f64) -> Vec<String> {
    let Some(winner) = answer.winner() else { return Vec::new() };
    let first = match answer.baseline() {
        _ if answer.measure == CAPACITY && winner.value == Some(0.0) => nothing_met(answer),
        None => {
            let rest = match answer.failed_always.is_empty() {
                true => "there is nothing to compare it with",
                false => "nothing else was measured",
            };
            format!("'{}' has {} ({measure}), and {rest}.", winner.name, quantity(measure, winner))
        }
        Some(baseline) => choice(answer, winner, baseline, measure, threshold),
    };
    let failed: Vec<String> = answer.failed_always.iter().map(|name| format!("'{name}'")).collect();
    let first = match failed.is_empty() {
        true => first,
        false => format!("{first} Every trial of {} failed.", listed(&failed)),
    };
    let mut sentences = vec![first, price(answer, winner, measure, threshold)];
    sentences.extend(weaker_ahead(answer).filter_map(|one| bought(answer, winner, one, measure)));
    sentences
}

/// Says that no configuration has a capacity.
fn nothing_met(answer: &Answer) -> String {
    let which = if weaker_ahead(answer).next().is_some() { " that is safe in a power cut" } else { "" };
    format!("No configuration{which} met the target at any rate that was tried.")
}

/// Says that the sweep is still going on.
pub(super) fn so_far(trials: usize) -> String {
    let trials = text::plural(trials as u64, "trial");
    format!("The sweep is not finished; this answer is based on its first {trials}.")
}

/// Says if the winner did not sustain its capacity: a search tries each rate briefly, and the window after
/// it is longer.
pub(super) fn missed(answer: &Answer, trials: &[&TrialRecord]) -> Option<String> {
    let winner = answer.winner().filter(|one| answer.measure == CAPACITY && one.value != Some(0.0))?;
    let own = || trials.iter().filter(|trial| trial.case == winner.case);
    let has_missed = |trial: &&&TrialRecord| {
        trial.warnings.iter().any(|warning| warning.kind == WarningKind::TargetMissed)
    };
    let missed = own().filter(has_missed).count();
    (missed > 0).then(|| {
        format!(
            "At that rate, however, the window missed the target in {missed} of {}: the sustained rate is lower.",
            text::plural(own().count() as u64, "trial")
        )
    })
}

/// Says what a power cut of the server may lose, although the winner is as durable as its protocol allows.
pub(super) fn never_synced(answer: &Answer, trials: &[&TrialRecord]) -> Option<String> {
    let winner = answer.winner().filter(|one| one.is_durable())?;
    let mut own = trials.iter().filter(|trial| trial.case == winner.case);
    let text = own.find_map(|trial| carries(trial, WarningKind::DirectoriesNotSynced))?;
    Some(format!("Its protocol weakens it, whatever the settings: {text}."))
}

/// Says what power cuts have left inside files of a winner that kept its promises.
pub(super) fn wrong_inside(answer: &Answer) -> Option<String> {
    let winner = answer.winner().filter(|one| one.is_durable())?;
    let models = winner.losses.as_ref()?.models.iter();
    let (wrong, right): (Vec<_>, Vec<_>) = models.partition(|one| one.wrong.total() > 0);
    let most = wrong.iter().map(|one| one.wrong.total()).max()?;
    let under = match (&wrong[..], right.is_empty()) {
        (_, true) => "every cache model".to_string(),
        ([only], _) => format!("the cache model '{}'", only.model.name()),
        (several, _) => {
            let names: Vec<String> = several.iter().map(|one| format!("'{}'", one.model.name())).collect();
            format!("the cache models {}", listed(&names))
        }
    };
    let up_to = if wrong.len() > 1 { "up to " } else { "" };
    let files = text::plural(most, "file");
    Some(format!(
        "It kept its promises, but under {under}, {up_to}{files} had something wrong inside after a cut; \
         `fsdyno show --full` says what."
    ))
}

/// What a configuration that is ahead would gain, and what it was seen to lose.
fn bought(answer: &Answer, winner: &Contender, one: &Contender, measure: &Measure) -> Option<String> {
    let losses = losses::measured(one)?;
    let by = one.to_best.map(|compared| difference(&compared))?;
    let gives = if one.verdict == Verdict::BetterAndWeaker { "gives" } else { "may give" };
    Some(format!(
        "'{}' {gives} {by} {measure} here{}; {}.",
        one.name,
        than(answer, winner),
        losses.sentence()
    ))
}

/// Names the best if that is not the winner, because ratios are those to the best.
fn than(answer: &Answer, winner: &Contender) -> String {
    let best = answer.standings.iter().find(|one| one.verdict == Verdict::Best);
    let other = best.filter(|best| best.case != winner.case);
    other.map_or(String::new(), |best| format!(" compared with '{}'", best.name))
}

/// What to use, and how certain that is.
fn choice(
    answer: &Answer,
    winner: &Contender,
    baseline: &Contender,
    measure: &Measure,
    threshold: f64,
) -> String {
    let name = &winner.name;
    let has = format!("{} ({measure})", quantity(measure, winner));
    let within = hundredths(threshold);
    if winner.verdict != Verdict::Best {
        let Some(best) = answer.standings.iter().find(|one| one.verdict == Verdict::Best) else {
            return format!("Use '{name}': {has}.");
        };
        if measure.is_often_zero() && winner.verdict == Verdict::AsGood {
            return format!(
                "Use '{name}', which changes fewer settings: {has}. '{}' lost nothing, either.",
                best.name
            );
        }
        let why = match winner.verdict {
            Verdict::AsGood => format!("but the difference is within {within}, which does not matter"),
            _ => format!("but {}", too_few(winner, best, winner, "to tell them apart")),
        };
        let better = quantity(measure, best);
        return format!(
            "Use '{name}', which changes fewer settings: {has}. '{}' has the better mean ({better}), {why}.",
            best.name
        );
    }
    let mut ahead = answer.standings.iter().take(answer.winner.unwrap_or(0));
    let best = match (weaker_ahead(answer).next(), ahead.any(|one| !one.is_complete())) {
        (Some(_), _) => "the best of those that are safe in a power cut",
        (None, true) => "the best of those that worked in every trial",
        (None, false) => "the best measured",
    };
    // Its true value may be the larger one if it is only a lower bound.
    let smaller = match measure.direction() {
        Direction::HigherIsBetter => baseline,
        Direction::LowerIsBetter => winner,
    };
    let certain = match baseline.verdict {
        _ if !baseline.is_durable() && winner.is_durable() => match safe(answer) {
            1 => ", the only safe configuration measured.".into(),
            _ => ", the only safe configuration that has a value.".into(),
        },
        Verdict::Worse | Verdict::BetterAndWeaker if measure.is_often_zero() => {
            let other = quantity(measure, baseline);
            format!(", less than '{}' ({other}) after {}.", baseline.name, trials(winner, baseline))
        }
        Verdict::AsGood if measure.is_often_zero() => {
            format!(", {best}. '{}' lost nothing, either.", baseline.name)
        }
        Verdict::Worse | Verdict::BetterAndWeaker => {
            let by = baseline.to_best.map(|compared| difference(&turned(&compared))).unwrap_or_default();
            format!(", {by} compared with '{}' after {}.", baseline.name, trials(winner, baseline))
        }
        Verdict::AsGood => {
            format!(", {best}. '{}' is just as good (within {within}).", baseline.name)
        }
        _ if baseline.doubt.is_some() => {
            let doubt = baseline.doubt.as_deref().unwrap_or_default();
            let other = quantity(measure, baseline);
            // Where there is no ratio, more trials would not make one.
            let again = if baseline.to_best.is_some() { ": measure both again" } else { "" };
            format!(", {best}. '{}' has {other}, but {doubt}{again}.", baseline.name)
        }
        _ if smaller.at_least => {
            format!(
                ", {best}. '{}' has {}, but of '{}' only a lower bound is known.",
                baseline.name,
                quantity(measure, baseline),
                smaller.name
            )
        }
        _ => {
            let other = format!("to tell it from '{}' ({})", baseline.name, quantity(measure, baseline));
            format!(", {best}. {}.", capitalised(&too_few(winner, baseline, baseline, &other)))
        }
    };
    let others = answer.standings.iter().filter(|one| {
        let is_other = one.case != winner.case && one.case != baseline.case;
        is_other && one.may_be_best() && one.is_durable() && may_be_as_good(one, winner, measure, threshold)
    });
    let others = match others.count() {
        0 => String::new(),
        1 => " 1 other may be as good.".to_string(),
        count => format!(" {count} others may be as good."),
    };
    format!("Use '{name}': {has}{certain}{others}")
}

/// Whether the interval of its ratio to the best has room for being as good. The verdict also takes into
/// account that many were compared, and calls nothing worse after few trials; that does not make it as good.
/// Without a ratio, the intervals of both means must meet.
fn may_be_as_good(one: &Contender, winner: &Contender, measure: &Measure, threshold: f64) -> bool {
    let ends = |one: &Contender| one.interval.or(one.value.map(|value| [value; 2]));
    let interval = match one.to_best {
        Some(compared) => compared.interval,
        None => ends(one).zip(ends(winner)).map(|([low, high], [least, most])| [low / most, high / least]),
    };
    interval.is_none_or(|[low, high]| match measure.direction() {
        Direction::HigherIsBetter => high >= 1.0 - threshold,
        Direction::LowerIsBetter => low <= 1.0 + threshold,
    })
}

/// `2 trials of each are too few to tell it from 'xfs'; about 46 would be enough`.
fn too_few(one: &Contender, other: &Contender, undecided: &Contender, purpose: &str) -> String {
    let enough = match undecided.verdict {
        // A single trial shows nothing of how much trials vary.
        Verdict::CannotTell { needed: Some(needed) } if undecided.with_value == 1 => {
            format!("; begin with {needed}")
        }
        Verdict::CannotTell { needed: Some(needed) } if needed > undecided.with_value => {
            format!("; about {needed} would be enough")
        }
        _ => String::new(),
    };
    let trials = trials(one, other);
    let are = if trials.starts_with("1 trial ") { "is" } else { "are" };
    format!("{trials} {are} too few {purpose}{enough}")
}

/// What the choice costs in other measures, and what would be better at the price of safety.
pub(super) fn price(answer: &Answer, winner: &Contender, measure: &Measure, threshold: f64) -> String {
    let mut parts = Vec::new();
    if let Some(baseline) = answer.baseline() {
        let Costs { worse, not_worse, unknown } = costs(answer, winner, threshold);
        if !worse.is_empty() {
            parts.push(format!(
                "Compared with '{}', {} in these trials.",
                baseline.name,
                worse.join(" and ")
            ));
        } else if !not_worse.is_empty() && winner.is_complete() {
            parts.push(format!(
                "In {} it is better than '{}', or at most {} worse.",
                listed(&not_worse),
                baseline.name,
                hundredths(threshold)
            ));
        }
        if !unknown.is_empty() {
            parts.push(format!(
                "Whether it is worse in {} is unknown, because only lower bounds are known.",
                listed(&unknown)
            ));
        }
    }
    if !winner.is_durable() {
        let which = match safe(answer) {
            0 => "Every configuration measured",
            _ => "Every configuration that has a value",
        };
        let risks = winner.risks.join("; ");
        parts.push(match winner.basis {
            Basis::Unknown => {
                format!("{which} is unsafe in a power cut, or may be, including this one: {risks}.")
            }
            _ => format!("{which} is unsafe in a power cut, including this one: {risks}."),
        });
    }
    // What those with measured losses gain and lose has a sentence of its own.
    // Of two zeros neither is ahead.
    let weaker = weaker_ahead(answer).filter(|one| losses::measured(one).is_none() && one.to_best.is_some());
    match weaker.min_by_key(|one| one.verdict != Verdict::BetterAndWeaker) {
        Some(weaker) => {
            let by = weaker.to_best.map(|compared| difference(&compared)).unwrap_or_default();
            let by = by + &than(answer, winner);
            let would = if weaker.verdict == Verdict::BetterAndWeaker { "would" } else { "might" };
            let than = match weaker.basis {
                Basis::Unknown => "it is not known to be as safe",
                _ => "it is less safe",
            };
            parts.push(format!(
                "'{}' {would} change {measure} by {by}, but {than} in a power cut: {}.",
                weaker.name,
                weaker.risks.join("; ")
            ));
        }
        None if winner.is_durable() => parts.push(match &winner.basis {
            Basis::Measured(losses) => format!("It is durable, {}.", losses.summary()),
            Basis::Unknown => {
                "What its settings lose at a power cut is unknown, because it was imported.".to_string()
            }
            Basis::Declared => "None of its settings weakens what survives a power cut.".to_string(),
        }),
        None => {}
    }
    parts.join(" ")
}

/// How many configurations are safe in a power cut, with a value or without.
fn safe(answer: &Answer) -> usize {
    answer.standings.iter().filter(|one| one.is_durable()).count()
}

/// The configurations with a better mean than the winner that are less safe.
fn weaker_ahead(answer: &Answer) -> impl Iterator<Item = &Contender> {
    answer.standings.iter().take(answer.winner.unwrap_or(0)).filter(|one| !one.is_durable())
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

/// How the winner compares with the baseline in the measures that do not decide.
#[derive(Default)]
struct Costs {
    /// Where it is worse by more than the threshold: both values.
    worse: Vec<String>,
    /// The measures in which it is not.
    not_worse: Vec<String>,
    /// Those in which lower bounds hide it.
    unknown: Vec<String>,
}

fn costs(answer: &Answer, winner: &Contender, threshold: f64) -> Costs {
    let mut costs = Costs::default();
    let point = |case: u32| answer.pareto.points.iter().find(|point| point.case == case);
    let Some((own, other)) = point(winner.case).zip(answer.baseline().and_then(|one| point(one.case))) else {
        return costs;
    };
    for (index, objective) in answer.pareto.objectives.iter().enumerate().skip(1) {
        let Ok(measure) = objective.measure.parse::<Measure>() else { continue };
        let of = |point: &ParetoPoint| (point.values[index], point.at_least[index]);
        let ((value, bound), (of_other, bound_of_other)) = (of(own), of(other));
        let worse = match objective.higher_is_better {
            true => value < of_other / (1.0 + threshold),
            false => value > of_other * (1.0 + threshold),
        };
        // The true value of the side that looks smaller may be larger than that of the other.
        let hidden = if worse == objective.higher_is_better { bound } else { bound_of_other };
        let heading = objective.heading();
        if hidden {
            costs.unknown.push(heading);
        } else if worse {
            let amount = |(value, bound)| text::quantity(&measure, value, bound);
            costs.worse.push(format!("{heading} is {} instead of {}", amount(of(own)), amount(of(other))));
        } else {
            costs.not_worse.push(heading);
        }
    }
    costs
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The ratio in the other direction.
fn turned(compared: &Compared) -> Compared {
    Compared {
        ratio: 1.0 / compared.ratio,
        interval: compared.interval.map(|[low, high]| [1.0 / high, 1.0 / low]),
        ..*compared
    }
}

/// A ratio as a difference: `+12 % [+8, +15]`.
pub fn difference(compared: &Compared) -> String {
    match compared.interval {
        Some([low, high]) => {
            format!("{} % [{}, {}]", signed(compared.ratio), signed(low), signed(high))
        }
        None => format!("{} %", signed(compared.ratio)),
    }
}

/// A ratio as a percentage with a sign, and one decimal below 10 %.
fn signed(ratio: f64) -> String {
    let hundredths = (ratio - 1.0) * 100.0;
    match hundredths.abs() {
        small if small < 9.95 => format!("{hundredths:+.1}"),
        _ => format!("{hundredths:+.0}"),
    }
}

fn hundredths(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

fn quantity(measure: &Measure, one: &Contender) -> String {
    one.value.map_or("no value".to_string(), |value| text::quantity(measure, value, one.at_least))
}

fn trials(one: &Contender, other: &Contender) -> String {
    match (one.with_value, other.with_value) {
        (1, 1) => "1 trial of each".to_string(),
        (a, b) if a == b => format!("{a} trials of each"),
        (a, b) => format!("{a} and {b} trials"),
    }
}

/// What a reader must know besides the answer: notes on its figures, without those on effects.
pub(crate) fn notes(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(answer.instead_of.as_ref().map(|wanted| {
        format!("no trial has a value of {wanted}, by which the plan ranks: {} decides here", answer.measure)
    }));
    let valued = || answer.standings.iter().filter(|one| one.value.is_some());
    let fewest = valued().map(|one| one.with_value).min().unwrap_or(0);
    let few = Estimate { value: 0.0, interval: None, n: fewest };
    notes.extend(few.note().map(str::to_string));
    notes.extend(bases(answer));
    let mut doubts: Vec<(&str, Vec<&str>)> = Vec::new();
    for (one, doubt) in answer.standings.iter().filter_map(|one| Some((one, one.doubt.as_deref()?))) {
        match doubts.iter_mut().find(|(known, _)| *known == doubt) {
            Some((_, names)) => names.push(&one.name),
            None => doubts.push((doubt, vec![&one.name])),
        }
    }
    let doubts = doubts.into_iter();
    notes.extend(doubts.map(|(why, of)| format!("the difference of {} to the best: {why}", of.join(", "))));
    let ahead = || answer.standings.iter().take(answer.winner.unwrap_or(0));
    let turned: Vec<&str> =
        ahead().filter(|one| one.verdict == Verdict::Worse).map(|one| one.name.as_str()).collect();
    if !turned.is_empty() {
        notes.push(format!(
            "better by their means, which also have blocks that only one side has, and worse within the common \
             ones: {}",
            turned.join(", ")
        ));
    }
    if valued().any(|one| one.at_least) {
        let why = match answer.measure == CAPACITY {
            true => "every rate that was tried met the target",
            false => "operations never ended",
        };
        notes.push(format!(
            "some values of {} are lower bounds, because {why}; ratios to them are bounds, too",
            answer.measure
        ));
    }
    let without: Vec<&str> =
        answer.standings.iter().filter(|one| one.value.is_none()).map(|one| one.name.as_str()).collect();
    if !without.is_empty() {
        notes.push(format!("no trial of {} has a value of {}", without.join(", "), answer.measure));
    }
    notes.extend(answer.standings.iter().filter(|one| one.failed > 0).map(|one| {
        let all = text::plural((one.trials + one.failed) as u64, "trial");
        format!("{} of {all} of {} failed; its figures are those of the others", one.failed, one.name)
    }));
    notes.extend(valued().filter(|one| one.with_value < one.trials).map(|one| {
        format!(
            "{} has no value in {} of {} of {}: too little of it ended there, or it was not recorded",
            answer.measure,
            one.trials - one.with_value,
            text::plural(one.trials as u64, "trial"),
            one.name,
        )
    }));
    notes
}

/// What says which configurations are durable, if it is not the same for all.
fn bases(answer: &Answer) -> Option<String> {
    // In the order of the plan, so that the answers for several workloads say the same.
    let mut standings: Vec<&Contender> = answer.standings.iter().collect();
    standings.sort_by_key(|one| one.case);
    let (measured, declared): (Vec<&Contender>, Vec<&Contender>) =
        standings.into_iter().partition(|one| matches!(one.basis, Basis::Measured(_)));
    let names = |of: &[&Contender]| of.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    (!measured.is_empty() && !declared.is_empty()).then(|| {
        format!(
            "whether a configuration is durable was measured for {}, and is declared for {}",
            names(&measured),
            names(&declared)
        )
    })
}
