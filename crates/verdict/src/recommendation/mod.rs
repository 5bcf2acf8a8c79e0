//! The recommendation: which configuration to use, how certain that is, what it costs, and how to build it.
//!
//! Pure, like the view: it needs a header and trials. Each workload gets one [`Answer`]. Its parts have a
//! file each: the configurations compared with the best ([`standing`]), the effect of each setting
//! ([`axis`]), the trade-offs between measures ([`pareto`]), the commands ([`recipe`]), and the two sentences
//! that sum it up ([`words`]).
//!
//! **Who wins.** Every configuration is compared with the one with the best mean. Those that the trials do
//! not show to be worse are candidates; of these, the one that changes the fewest settings from their
//! defaults wins, because a setting has to earn its place. Among equals the better mean decides.
//!
//! **Safety.** A configuration that weakens what survives a power cut never wins if a durable one was
//! measured; the answer says what it would gain and at what risk. What power cuts have lost of a
//! configuration decides whether it is durable, if the sweep measured that; else what the testbed declares of
//! its settings, which it stores with each trial as a warning of the kind `durability`
//! ([`crate::durability`]).
//!
//! **Races.** Of a sweep that was a race, only the last few are compared, by the figures that were measured
//! again; the race itself says who wins ([`raced`]).

mod answer;
mod axis;
mod contender;
mod losses;
mod pareto;
mod raced;
mod recipe;
mod standing;
mod words;

pub use answer::{Answer, Recommendation};
pub use axis::{AxisAnswer, InteractionAnswer, LevelAnswer};
pub use contender::{Compared, Contender, Verdict};
pub use pareto::{Objective, ParetoFront, ParetoPoint};
pub use recipe::{RecipeStep, RecipeText};

#[cfg(test)]
pub(crate) use contender::pairs;
#[cfg(test)]
pub(crate) use standing::corrected;
pub use words::difference;
pub(crate) use words::notes as notes_on_figures;

use crate::drift::{self, Drift};
use crate::durability::Safety;
use crate::levels::THRESHOLD;
use crate::load::{Load, loads};
use crate::looks;
use crate::machines;
use crate::outcomes::{failed, has_failed, is_measured, skipped, warnings};
use crate::race::RaceAnswer;
use crate::ranking::{self, Ranking};
use fsdyno_core::SweepHeader;
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::{Direction, Goal, Measure};

/// The question that a recommendation answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The goal of the choice; if absent, the plan's measure.
    pub goal: Option<Goal>,
    /// A difference of up to this does not matter: 0.05 for 5 %.
    pub threshold: f64,
}

impl Default for Question {
    fn default() -> Self {
        Question { goal: None, threshold: THRESHOLD }
    }
}

impl Recommendation {
    /// What the trials of a sweep recommend.
    pub fn new(header: &SweepHeader, trials: &[TrialRecord], question: &Question) -> Recommendation {
        let loads = loads(trials);
        let goal = question.goal.as_ref().map_or(header.measure.name().to_string(), Goal::to_string);
        let drift = drift::drift(&header.measure, trials);
        let safety = Safety::new(trials);
        let race = raced::of(header, trials, question.threshold);
        let mut notes = drift.as_ref().map_or(Vec::new(), Drift::notes);
        notes.extend(machines::notes(&header.measure, trials));
        notes.extend(race.as_ref().map(raced::notes).unwrap_or_default());
        notes.extend(looks::notes(&header.looks, trials));
        let race = race.and_then(Result::ok);
        let judged = |load| answer(header, trials, question, load, &safety, race.as_ref());
        let mut answers: Vec<Answer> = loads.iter().map(judged).collect();
        say_once(&mut answers);
        Recommendation {
            sweep: header.id.clone(),
            name: header.name.clone(),
            goal,
            threshold: question.threshold,
            notes,
            drift,
            answers,
            race,
            skipped: skipped(trials),
            failed: failed(trials),
        }
    }
}

/// Removes the notes of an answer that an earlier one has.
fn say_once(answers: &mut [Answer]) {
    let mut said: Vec<String> = Vec::new();
    for answer in answers {
        answer.notes.retain(|note| !said.contains(note));
        said.extend(answer.notes.iter().cloned());
    }
}

fn answer(
    header: &SweepHeader,
    trials: &[TrialRecord],
    question: &Question,
    load: &Load<'_>,
    safety: &Safety,
    race: Option<&RaceAnswer>,
) -> Answer {
    let workload = load.workload;
    let own: Vec<&TrialRecord> = trials.iter().filter(|trial| load.has(trial)).collect();
    let all: Vec<&TrialRecord> =
        own.iter().copied().filter(|trial| is_measured(trial) && !trial.sentinel).collect();
    let [measured, complete] = match race {
        None => [all.clone(), all],
        Some(race) => raced::parts(race, &all),
    };
    let wanted = match &question.goal {
        None => Some(header.measure.clone()),
        Some(goal) => goal.measure(workload),
    };
    let rank = |measure: &Measure| ranking::ranking_of(load, measure, header.seed, &measured, safety);
    let ranking = wanted.as_ref().map(rank);
    // A user who asks for latency must not get an answer about throughput because the workload has no
    // latency.
    let asked = question.goal.is_none() || ranking.as_ref().map(Ranking::measure) == wanted.as_ref();
    let ranking = ranking.filter(|ranking| asked && ranking.ranked().next().is_some());
    let Some(ranking) = ranking else {
        return unanswered(header, question, load, &measured);
    };
    let measure = ranking.measure().clone();
    let repeated = header.looks.are_repeated();
    let standings =
        standing::standings(&ranking, &measured, trials, question.threshold, header.seed, repeated);
    let (race, other) = match race {
        Some(race) if race.measure == measure.name() => (Some(race), None),
        race => (None, race),
    };
    let winner = match race {
        None => standing::winner(&standings, &measure, question.threshold),
        Some(race) => standings.iter().position(|one| one.case == race.pick.case && one.value.is_some()),
    };
    let baseline = winner.and_then(|winner| standing::baseline(&standings, winner));
    let effects = axis::effects(&measure, &complete, trials, (question.threshold, repeated), safety);
    let pareto = pareto::front(workload, &measure, &standings, &measured, header.seed);
    let recipe = winner.and_then(|winner| recipe::text(&standings[winner], &measured));
    let mut answer = Answer {
        workload: workload.kind(),
        title: load.title(),
        instead_of: instead_of(header, question, &measure, trials),
        measure: measure.name().to_string(),
        unit: measure.unit().name(),
        higher_is_better: measure.direction() == Direction::HigherIsBetter,
        sentences: Vec::new(),
        winner,
        baseline,
        standings,
        failed_always: failed_always(&own),
        axes: effects.axes,
        interactions: effects.interactions,
        block_share: effects.block_share,
        residual_share: effects.residual_share,
        pareto,
        recipe,
        notes: effects.notes,
        warnings: warnings(own.iter().copied()),
    };
    answer.notes.splice(..0, words::notes(&answer));
    answer.sentences = match race {
        None => words::sentences(&answer, &measure, question.threshold),
        Some(race) => raced::sentences(race, &answer, &measure, question.threshold),
    };
    let after_the_first = answer.sentences.len().min(1);
    let missed = words::missed(&answer, &measured);
    answer.sentences.splice(after_the_first..after_the_first, missed);
    answer.sentences.extend(words::never_synced(&answer, &measured));
    answer.sentences.extend(words::wrong_inside(&answer));
    let so_far = header.finished.is_none() && !answer.sentences.is_empty();
    answer.sentences.splice(..0, so_far.then(|| words::so_far(own.len())));
    answer.sentences.extend(other.map(|race| raced::for_another(race, &measure)));
    answer
}

/// The names of configurations of which every trial failed.
fn failed_always(trials: &[&TrialRecord]) -> Vec<String> {
    let is_of = |trial: &TrialRecord, case: u32| trial.case == case && !trial.sentinel && is_measured(trial);
    let mut names: Vec<String> = Vec::new();
    for trial in trials.iter().filter(|trial| has_failed(trial)) {
        let name = &trial.configuration.name;
        if !names.contains(name) && !trials.iter().any(|one| is_of(one, trial.case)) {
            names.push(name.clone());
        }
    }
    names
}

/// The measure by which the plan ranks, if no trial has a value of it.
fn instead_of(
    header: &SweepHeader,
    question: &Question,
    measure: &Measure,
    trials: &[TrialRecord],
) -> Option<String> {
    let wanted = &header.measure;
    let is_other = question.goal.is_none() && measure != wanted;
    let is_nowhere = || !trials.iter().any(|trial| wanted.value(trial).is_some());
    (is_other && is_nowhere()).then(|| wanted.name().to_string())
}

/// The answer for a workload without a value of the requested measure: it lists the measures that there are.
fn unanswered(header: &SweepHeader, question: &Question, load: &Load<'_>, trials: &[&TrialRecord]) -> Answer {
    let workload = load.workload;
    let goal = question.goal.as_ref().map_or(header.measure.name().to_string(), Goal::to_string);
    let known = Measure::all_of(trials.iter().copied()).into_iter();
    let known = known.filter(|measure| trials.iter().any(|trial| measure.value(trial).is_some()));
    let known: Vec<String> = known.map(|measure| measure.name().to_string()).collect();
    let how = match &question.goal {
        Some(Goal::Capacity(target)) => {
            format!(" Flows have one with `rate = {{ until = \"{target}\" }}` in a role.")
        }
        _ => String::new(),
    };
    Answer {
        workload: workload.kind(),
        title: load.title(),
        instead_of: None,
        measure: goal.clone(),
        unit: "",
        higher_is_better: true,
        sentences: vec![
            format!(
                "No trial of {} has a value of {goal}, so nothing can be recommended for it.{how}",
                workload.name()
            ),
            match known.is_empty() {
                true => "It has no value of any named measure.".to_string(),
                false => format!("It has values of: {}.", known.join(", ")),
            },
        ],
        winner: None,
        baseline: None,
        standings: Vec::new(),
        failed_always: Vec::new(),
        axes: Vec::new(),
        interactions: Vec::new(),
        block_share: None,
        residual_share: None,
        pareto: ParetoFront::default(),
        recipe: None,
        notes: Vec::new(),
        warnings: warnings(trials.iter().copied()),
    }
}

#[cfg(test)]
mod tests;
