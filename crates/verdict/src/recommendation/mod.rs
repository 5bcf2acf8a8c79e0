//! The recommendation: which configuration to use, how certain that is, what it costs, and how to build it.
//!
//! Pure, like the view: it needs a header and trials. Each workload gets one [`Answer`]. Its parts have a
//! file each: the configurations compared with the best ([`standing`]), the effect of each setting
//! ([`axis`]), the trade-offs between measures ([`pareto`]), the commands ([`recipe`]), the judgement that
//! sums it up ([`judging`]), and what else there is to say ([`words`]).
//!
//! **Who wins.** Every configuration is compared with the one with the best mean. It wins if it is shown to
//! be better than all others; of those that are as good, the one that changes the fewest settings from their
//! defaults, because a setting has to earn its place.
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
mod doubts;
mod faults;
mod judging;
mod losses;
mod pareto;
mod price;
mod raced;
mod recipe;
mod standing;
mod words;

pub use answer::{Answer, Chosen, Recommendation};
pub use axis::{AxisAnswer, InteractionAnswer, LevelAnswer};
pub use contender::{Compared, Contender, ContenderVerdict};
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
use crate::judgement::{Class, Judgement};
use crate::levels::THRESHOLD;
use crate::load::{Load, Workloads, loads};
use crate::looks;
use crate::machines;
use crate::outcomes::{carriers, failed, has_failed, is_measured, skipped, warnings};
use crate::race::RaceAnswer;
use crate::ranking::{self, Ranking};
use crate::ratios::Ratios;
use fsdyno_core::axis::DEFAULT;
use fsdyno_core::measure::{Direction, Goal, Measure};
use fsdyno_core::outcome::Outcome;
use fsdyno_core::{SweepHeader, TrialRecord, WarningKind, Workload};
use judging::{Decided, Evidence};
use price::Trials;

/// The question that a recommendation answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The goal of the choice; if absent, the plan's measure.
    pub goal: Option<Goal>,
    /// A difference of up to this does not matter: 0.05 for 5 %.
    pub threshold: f64,
    /// The name of the configuration that the recipe is for; if absent, the winner's.
    pub recipe: Option<String>,
}

impl Default for Question {
    fn default() -> Self {
        Question { goal: None, threshold: THRESHOLD, recipe: None }
    }
}

impl Recommendation {
    /// Makes the recommendation of a sweep from its trials.
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
        notes.extend(begun_with(header));
        let race = race.and_then(Result::ok);
        let asked = AnswerBasis { header, trials, question, safety: &safety, race: race.as_ref() };
        let mut answers: Vec<Answer> = loads.iter().map(|load| asked.answer(load)).collect();
        say_once(&mut answers);
        // Of other cases, the answer may be another.
        if let Some(text) = &header.selected {
            for Answer { judgement, .. } in &mut answers {
                judgement.headline = format!("Of '{text}' alone: {}", judgement.headline);
            }
        }
        let drifted = drift.as_ref().and_then(Drift::warning);
        let is_said = |drifted: &String| answers.iter().any(|answer| answer.doubts.contains(drifted));
        notes.splice(..0, drifted.filter(|drifted| !is_said(drifted)));
        Recommendation {
            sweep: header.id.clone(),
            name: header.name.clone(),
            goal,
            threshold: question.threshold,
            notes,
            drift,
            answers,
            race,
            unanswered: unanswered_workloads(trials, &loads),
            skipped: skipped(trials),
            failed: failed(trials),
        }
    }
}

/// The changes that the command line made to the plan.
fn begun_with(header: &SweepHeader) -> Option<String> {
    let sets: Vec<String> = header.overrides.iter().map(|set| format!("--set '{set}'")).collect();
    (!sets.is_empty()).then(|| format!("the sweep was begun with {}", sets.join(" ")))
}

/// The workloads of which every trial failed, with the first error of each.
fn unanswered_workloads(trials: &[TrialRecord], loads: &[Load<'_>]) -> Vec<String> {
    let titles = Workloads::of(trials);
    let mut found: Vec<(&Workload, String)> = Vec::new();
    for trial in trials {
        let Outcome::Failed { error } = &trial.outcome else { continue };
        let is_known = found.iter().any(|(workload, _)| **workload == trial.workload);
        if !is_known && !loads.iter().any(|load| *load.workload == trial.workload) {
            let title = titles.title(&trial.workload);
            found.push((&trial.workload, format!("{title}: no trial was measured: {error}")));
        }
    }
    found.into_iter().map(|(_, text)| text).collect()
}

/// The next step that all of these trials that failed have in common.
fn common_hint<'t>(trials: &[&'t TrialRecord]) -> Option<&'t str> {
    let mut hints = trials.iter().filter_map(|trial| match &trial.outcome {
        Outcome::Failed { error } => Some(error.hint.as_deref()),
        _ => None,
    });
    let first = hints.next()??;
    hints.all(|hint| hint == Some(first)).then_some(first)
}

/// Removes the notes of an answer that an earlier one has.
fn say_once(answers: &mut [Answer]) {
    let mut said: Vec<String> = Vec::new();
    for answer in answers {
        answer.notes.retain(|note| !said.contains(note));
        said.extend(answer.notes.iter().cloned());
    }
}

/// The basis of the answers for all workloads of a sweep.
struct AnswerBasis<'a> {
    header: &'a SweepHeader,
    trials: &'a [TrialRecord],
    question: &'a Question,
    safety: &'a Safety,
    race: Option<&'a RaceAnswer>,
}

/// The other measures that must not become worse unnoticed.
fn guards(workload: &Workload, measure: &Measure) -> Vec<Measure> {
    let all = workload.load().guards().into_iter().filter_map(|name| name.parse().ok());
    all.filter(|guard| guard != measure).collect()
}

impl<'a> AnswerBasis<'a> {
    fn answer(&self, load: &Load<'a>) -> Answer {
        let AnswerBasis { header, trials, question, .. } = *self;
        let own: Vec<&TrialRecord> = trials.iter().filter(|trial| load.has(trial)).collect();
        let all: Vec<&TrialRecord> = own.iter().copied().filter(|trial| is_measured(trial)).collect();
        let parts = self.race.map(|race| raced::parts(race, &all));
        let [measured, complete] = parts.unwrap_or_else(|| [all.clone(), all]);
        let Some(ranking) = self.ranking(load, &measured) else {
            return unanswered(header, question, load, &measured);
        };
        let measure = ranking.measure().clone();
        let (threshold, seed, looks) = (question.threshold, header.seed, header.looks.are_repeated());
        let pick = self.race_for(&measure).map(|race| race.pick.case);
        let ratios = Ratios::new(&measure, &measured, looks);
        let standings = standing::standings(&ranking, &measured, trials, threshold, seed, &ratios, pick);
        let failed_always = failed_always(&own);
        let guards = guards(load.workload, &measure);
        let with = Trials { trials: &measured, threshold, seed, looks };
        let evidence = Evidence {
            sweep: &header.id,
            measure: &measure,
            load,
            standings: &standings,
            whole: trials,
            guards: &guards,
            ratios: &ratios,
            failed_always: &failed_always,
            hint: common_hint(&own),
            with,
            can_add: header.race.is_none() && carriers(&measured, WarningKind::Imported) == 0,
        };
        let Decided { judgement, winner, default, leader, baseline } = match self.race_for(&measure) {
            None => evidence.judge(),
            Some(race) => evidence.judge_race(race),
        };
        let effects = axis::effects(&measure, &complete, trials, (threshold, looks), self.safety);
        let [recipe, default_recipe] = self.recipes(&standings, [winner, default], &measured);
        let mut answer = Answer {
            workload: load.workload.kind(),
            title: load.title(),
            instead_of: instead_of(header, question, &measure, trials),
            measure: measure.name().to_string(),
            unit: measure.unit().name(),
            higher_is_better: measure.direction() == Direction::HigherIsBetter,
            judgement,
            sentences: Vec::new(),
            doubts: Vec::new(),
            winner: Chosen::of(&standings, winner),
            default: Chosen::of(&standings, default),
            default_called: default.map_or(DEFAULT, |default| contender::called(&standings, default)),
            leader: Chosen::of(&standings, leader),
            baseline: Chosen::of(&standings, baseline),
            pareto: pareto::front(load.workload, &measure, &standings, &measured, seed),
            standings,
            failed_always,
            axes: effects.axes,
            interactions: effects.interactions,
            block_share: effects.block_share,
            residual_share: effects.residual_share,
            recipe,
            default_recipe,
            notes: effects.notes,
            warnings: warnings(own.iter().copied()),
        };
        answer.notes.splice(..0, words::notes(&answer));
        answer.doubts =
            doubts::doubts(&answer, &measure, drift::drift(&measure, trials).as_ref(), trials, &own);
        if self.race_for(&measure).is_some() {
            raced::doubt(&mut answer.doubts, &measure, &measured);
        }
        answer.sentences = self.sentences(&answer, &measure, with, &guards, own.len());
        answer
    }

    /// The configurations by the wanted measure; `None` if no trial has a value of it. Who asks for latency
    /// must not get an answer about throughput because the workload has no latency.
    fn ranking(&self, load: &Load<'a>, measured: &[&TrialRecord]) -> Option<Ranking> {
        let wanted = match &self.question.goal {
            None => self.header.measure.clone(),
            Some(goal) => goal.measure(load.workload)?,
        };
        let ranking = ranking::ranking_of(load, &wanted, self.header.seed, measured, self.safety);
        let is_asked = self.question.goal.is_none() || *ranking.measure() == wanted;
        (is_asked && ranking.ranked().next().is_some()).then_some(ranking)
    }

    /// The race, if it decided by this measure.
    fn race_for(&self, measure: &Measure) -> Option<&'a RaceAnswer> {
        self.race.filter(|race| race.measure == measure.name())
    }

    /// Returns the recipe for the winner or the configuration that was asked for, and else for the default.
    fn recipes(
        &self,
        standings: &[Contender],
        [winner, default]: [Option<usize>; 2],
        measured: &[&TrialRecord],
    ) -> [Option<RecipeText>; 2] {
        let built = match &self.question.recipe {
            // What is alone is what the question was about.
            None => winner.or((standings.len() == 1).then_some(0)).map(|index| &standings[index]),
            Some(name) => standings.iter().find(|one| one.name == *name),
        };
        let recipe = built.and_then(|one| recipe::text(one, measured));
        let kept = default.filter(|_| recipe.is_none()).map(|index| &standings[index]);
        [recipe, kept.and_then(|one| recipe::text(one, measured))]
    }

    /// Returns the sentences after the headline.
    fn sentences(
        &self,
        answer: &Answer,
        measure: &Measure,
        with: Trials<'_, '_>,
        guards: &[Measure],
        own: usize,
    ) -> Vec<String> {
        let race = self.race_for(measure);
        let other = self.race.filter(|_| race.is_none());
        let mut sentences: Vec<String> = words::missed(answer, with.trials).into_iter().collect();
        sentences.extend(words::sentences(answer, measure, with, guards));
        sentences.extend(race.into_iter().flat_map(|race| race.sentences.iter().cloned()));
        sentences.extend(words::never_synced(answer, with.trials));
        sentences.extend(words::wrong_inside(answer));
        sentences.extend(measure.is_of_faults().then(|| words::FALSE_SUCCESS.to_string()));
        sentences.extend(self.header.finished.is_none().then(|| words::so_far(own)));
        sentences.extend(other.map(|race| raced::for_another(race, measure)));
        sentences
    }
}

/// The names of configurations of which every trial failed.
fn failed_always(trials: &[&TrialRecord]) -> Vec<String> {
    let is_of = |trial: &TrialRecord, case: u32| trial.case == case && is_measured(trial);
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

/// ` (1000 operations in each would be needed, and there were 250 at most)` for a measure of a high
/// percentile that no trial has for that reason.
fn too_few_operations(measure: Option<&Measure>, trials: &[&TrialRecord]) -> String {
    let most = measure.and_then(|measure| trials.iter().filter_map(|trial| measure.too_few(trial)).max());
    most.map_or(String::new(), |(seen, needed)| {
        format!(" ({needed} operations in each would be needed, and there were {seen} at most)")
    })
}

/// The answer for a workload without a value of the requested measure: it lists the measures that there are.
fn unanswered(header: &SweepHeader, question: &Question, load: &Load<'_>, trials: &[&TrialRecord]) -> Answer {
    let workload = load.workload;
    let goal = question.goal.as_ref().map_or(header.measure.name().to_string(), Goal::to_string);
    let known = Measure::all_of(trials.iter().copied()).into_iter();
    let known = known.filter(|measure| trials.iter().any(|trial| measure.value(trial).is_some()));
    let known: Vec<String> = known.map(|measure| measure.name().to_string()).collect();
    let wanted = match &question.goal {
        None => Some(header.measure.clone()),
        Some(goal) => goal.measure(workload),
    };
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
        judgement: Judgement {
            class: Class::Invalid,
            headline: format!(
                "No trial of {} has a value of {goal}{}, so nothing can be recommended for it.{how}",
                workload.name(),
                too_few_operations(wanted.as_ref(), trials),
            ),
            next: Some(match known.is_empty() {
                true => "It has no value of any named measure.".to_string(),
                false => format!("It has values of: {}.", known.join(", ")),
            }),
        },
        sentences: Vec::new(),
        doubts: Vec::new(),
        winner: None,
        default: None,
        default_called: DEFAULT,
        leader: None,
        baseline: None,
        standings: Vec::new(),
        failed_always: Vec::new(),
        axes: Vec::new(),
        interactions: Vec::new(),
        block_share: None,
        residual_share: None,
        pareto: ParetoFront::default(),
        recipe: None,
        default_recipe: None,
        notes: Vec::new(),
        warnings: warnings(trials.iter().copied()),
    }
}

#[cfg(test)]
mod tests;
