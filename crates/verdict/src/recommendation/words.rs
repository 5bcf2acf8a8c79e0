//! The text after the judgement: what a winner costs, what would be faster but less safe, and notes.

use super::answer::Answer;
use super::contender::{Compared, Contender, ContenderVerdict};
use super::losses;
use super::price::Trials;
use crate::durability::Basis;
use crate::judgement::Class;
use crate::levels::BASELINE;
use crate::outcomes::carries;
use crate::text::{self, listed};
use fsdyno_core::measure::Measure;
use fsdyno_core::{Configuration, TrialRecord, WarningKind};
use fsdyno_stats::Estimate;

/// The measure of searches for the highest rate.
pub(super) const CAPACITY: &str = "flow-capacity";

/// Advice on false successes that applies to every filesystem.
pub(super) const FALSE_SUCCESS: &str = "A false success is a second fsync that succeeds although data was lost: \
    programs must take the first error of fsync as final.";

/// Returns the sentences on what the choice costs, and what would be faster but less safe.
pub(super) fn sentences(
    answer: &Answer,
    measure: &Measure,
    with: Trials<'_, '_>,
    guards: &[Measure],
) -> Vec<String> {
    let Some(leader) = answer.leader() else { return Vec::new() };
    let mut sentences = vec![price(answer, leader, measure, with, guards)];
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.extend(weaker_ahead(answer).filter_map(|one| bought(answer, leader, one, measure)));
    sentences
}

/// Says that the sweep is still going on.
pub(super) fn so_far(trials: usize) -> String {
    let trials = text::plural(trials as u64, "trial");
    format!("The sweep is not finished; this answer is based on its first {trials}.")
}

/// Says if the winner did not sustain its capacity: a search tries each rate briefly, and the window after
/// it is longer.
pub(super) fn missed(answer: &Answer, trials: &[&TrialRecord]) -> Option<String> {
    let winner = answer.leader().filter(|one| answer.measure == CAPACITY && one.value != Some(0.0))?;
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
    let winner = answer.leader().filter(|one| one.is_durable())?;
    let mut own = trials.iter().filter(|trial| trial.case == winner.case);
    let warning = own.find_map(|trial| carries(trial, WarningKind::DirectoriesNotSynced))?;
    Some(format!("Its protocol weakens it, whatever the settings: {warning}."))
}

/// Says what power cuts have left inside files of a winner that kept its promises.
pub(super) fn wrong_inside(answer: &Answer) -> Option<String> {
    let winner = answer.leader().filter(|one| one.is_durable())?;
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

/// Returns the sentence on what a configuration that is ahead would gain, and what it was seen to lose.
fn bought(answer: &Answer, winner: &Contender, one: &Contender, measure: &Measure) -> Option<String> {
    let losses = losses::measured(one)?;
    let by = one.to_best.map(|compared| difference(&compared))?;
    let gives = if one.verdict == ContenderVerdict::BetterAndWeaker { "gives" } else { "may give" };
    Some(format!(
        "'{}' {gives} {by} here ({}){}; {}.",
        one.name,
        measure.in_words(),
        than(answer, winner),
        losses.sentence()
    ))
}

/// Names the best if that is not the winner, because ratios are those to the best.
fn than(answer: &Answer, winner: &Contender) -> String {
    let best = answer.standings.iter().find(|one| one.verdict == ContenderVerdict::Best);
    let other = best.filter(|best| best.case != winner.case);
    other.map_or(String::new(), |best| format!(" compared with '{}'", best.name))
}

/// Returns the text on what a winner costs in other measures, how safe it or else the default is, and what
/// would be better at the price of safety.
fn price(
    answer: &Answer,
    leader: &Contender,
    measure: &Measure,
    with: Trials<'_, '_>,
    guards: &[Measure],
) -> String {
    let mut parts = Vec::new();
    let leads = matches!(answer.judgement.class, Class::Winner | Class::TradeOff);
    let winner = if leads { leader } else { answer.default().unwrap_or(leader) };
    let [who, whose] = match leads || answer.standings.len() == 1 {
        true => ["It".to_string(), "its".to_string()],
        false => [format!("The {}", answer.default_called), format!("the {}'s", answer.default_called)],
    };
    if let Some(baseline) = answer.baseline().filter(|_| leads) {
        let objectives = answer.pareto.objectives.iter().skip(1);
        let measures: Vec<Measure> = objectives.filter_map(|one| one.measure.parse().ok()).collect();
        parts.extend(with.sentences(winner, baseline, &measures, guards));
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
    match weaker.min_by_key(|one| one.verdict != ContenderVerdict::BetterAndWeaker) {
        Some(weaker) => {
            let by = weaker.to_best.map(|compared| difference(&compared)).unwrap_or_default();
            let by = by + &than(answer, leader);
            let would = if weaker.verdict == ContenderVerdict::BetterAndWeaker { "would" } else { "might" };
            let than = match weaker.basis {
                Basis::Unknown => "it is not known to be as safe",
                _ => "it is less safe",
            };
            parts.push(format!(
                "'{}' {would} change {} by {by}, but {than} in a power cut: {}.",
                weaker.name,
                measure.in_words(),
                weaker.risks.join("; ")
            ));
        }
        // A directory is as its owner made it, requests that fail are no power cut, and what was not measured
        // needs no more words.
        None if winner.is_durable()
            && (winner.configuration.filesystem == Configuration::EXISTING
                || measure.is_of_faults()
                || answer.judgement.class == Class::Invalid) => {}
        None if winner.is_durable() => parts.push(match &winner.basis {
            Basis::Measured(losses) => format!("{who} is durable, {}.", losses.summary()),
            Basis::Unknown => {
                format!("What {whose} settings lose at a power cut is unknown, because it was imported.")
            }
            Basis::Declared => format!("None of {whose} settings weakens what survives a power cut."),
        }),
        None => {}
    }
    parts.join(" ")
}

/// Returns the number of configurations that are safe in a power cut, with a value or without.
fn safe(answer: &Answer) -> usize {
    answer.standings.iter().filter(|one| one.is_durable()).count()
}

/// The configurations with a better mean than the winner that are less safe.
fn weaker_ahead(answer: &Answer) -> impl Iterator<Item = &Contender> {
    let leader = answer.leader().map(|leader| leader.case);
    answer.standings.iter().take_while(move |one| Some(one.case) != leader).filter(|one| !one.is_durable())
}

/// `38 % more than 'xfs' [29 %, 47 %]`, or from twice as much on `2.4 times as much as 'xfs' [2.1, 2.7]`.
pub(super) fn times_or_percent(compared: &Compared, than: &str) -> String {
    let Compared { ratio, interval, .. } = *compared;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let with =
        |ends: Option<[String; 2]>| ends.map_or(String::new(), |[low, high]| format!(" [{low}, {high}]"));
    if ratio >= 2.0 {
        let ends = interval.map(|ends| ends.map(|end| format!("{end:.1}")));
        return format!("{ratio:.1} times as much as {than}{}", with(ends));
    }
    match ratio >= 1.0 {
        true => {
            let ends = interval.map(|ends| ends.map(|end| percent(end - 1.0)));
            format!("{} more than {than}{}", percent(ratio - 1.0), with(ends))
        }
        false => {
            let ends = interval.map(|[low, high]| [percent(1.0 - high), percent(1.0 - low)]);
            format!("{} less than {than}{}", percent(1.0 - ratio), with(ends))
        }
    }
}

/// The ratio in the other direction.
pub(super) fn turned(compared: &Compared) -> Compared {
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

pub(super) fn quantity(measure: &Measure, one: &Contender) -> String {
    one.value.map_or("no value".to_string(), |value| text::quantity(measure, value, one.at_least))
}

/// `6 trials of each do`.
pub(super) fn trials_do(one: &Contender, others: &[&Contender]) -> String {
    let counts = || others.iter().map(|other| other.with_value).chain([one.with_value]);
    match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
        (1, 1) => "1 trial of each does".to_string(),
        (fewest, most) if fewest == most => format!("{fewest} trials of each do"),
        (fewest, most) => format!("{fewest} to {most} trials of each do"),
    }
}

/// Returns the notes that a reader must know besides the answer: on its figures, without those on effects.
pub(crate) fn notes(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(answer.instead_of.as_ref().map(|wanted| {
        format!("no trial has a value of {wanted}, by which the plan ranks: {} decides here", answer.measure)
    }));
    let valued = || answer.standings.iter().filter(|one| one.value.is_some());
    notes.extend(baseline(answer));
    notes.extend(few(answer));
    notes.extend(bases(answer));
    notes.extend(in_doubt(answer));
    let leader = answer.leader().map(|leader| leader.case);
    let ahead = answer.standings.iter().take_while(|one| Some(one.case) != leader);
    let turned: Vec<&str> =
        ahead.filter(|one| one.verdict == ContenderVerdict::Worse).map(|one| one.name.as_str()).collect();
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
    notes.extend(partly_failed(answer));
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

/// Returns a line that says what the baseline is, if that is no default.
fn baseline(answer: &Answer) -> Option<String> {
    let kept =
        answer.default().filter(|_| answer.default_called == BASELINE && answer.standings.len() > 1)?;
    Some(format!(
        "the baseline, '{}', is the first of those with the fewest settings changed: which of them this machine \
         has by default is not known",
        kept.name
    ))
}

/// Returns a line that says what the interval of so few trials cannot show.
pub(super) fn few(answer: &Answer) -> Option<String> {
    // What failing requests do is no sample, and what power cuts lose has intervals of its own.
    let is_counted = |measure: Measure| measure.is_of_faults() || measure.is_often_zero();
    if answer.measure.parse().is_ok_and(is_counted) {
        return None;
    }
    let fewest = answer.standings.iter().filter(|one| one.value.is_some()).map(|one| one.with_value).min();
    let few = Estimate { value: 0.0, interval: None, n: fewest.unwrap_or(0) };
    few.note().map(str::to_string)
}

/// Returns the explanations for differences to the best, other than the configurations themselves.
pub(super) fn in_doubt(answer: &Answer) -> Vec<String> {
    let mut doubts: Vec<(&str, Vec<&str>)> = Vec::new();
    for (one, doubt) in answer.standings.iter().filter_map(|one| Some((one, one.doubt.as_deref()?))) {
        match doubts.iter_mut().find(|(known, _)| *known == doubt) {
            Some((_, names)) => names.push(&one.name),
            None => doubts.push((doubt, vec![&one.name])),
        }
    }
    let doubts = doubts.into_iter();
    doubts.map(|(why, of)| format!("the difference of {} to the best: {why}", of.join(", "))).collect()
}

/// The configurations of which some trials failed.
pub(super) fn partly_failed(answer: &Answer) -> impl Iterator<Item = String> {
    answer.standings.iter().filter(|one| one.failed > 0).map(|one| {
        let all = text::plural((one.trials + one.failed) as u64, "trial");
        format!("{} of {all} of {} failed; its figures are those of the others", one.failed, one.name)
    })
}

/// Returns the note on the basis for saying which configurations are durable, if it is not the same for all.
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
