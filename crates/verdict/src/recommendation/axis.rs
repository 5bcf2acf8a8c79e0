//! The effect of each setting over all configurations: levels with intervals, and shares of the variance.
//!
//! An axis with the same levels in every filesystem has one effect; any other axis has an effect within each
//! filesystem. An unset axis counts as its default level, if that is known: `commit = 5` and no `commit` are
//! the same.
//!
//! All levels of all axes, and all interactions, are one family: Holm's procedure corrects their p values
//! together ([`Family`]), so that the whole answer calls one level better than an equal one in at most 5 of
//! 100 cases, however many axes it has.

use super::contender::{Compared, pairs};
use super::standing::corrected;
use crate::comparison::proven;
use crate::doubt::{Doubt, DoubtfulSide};
use crate::durability::Safety;
use crate::levels::{FILESYSTEM, level};
use crate::looks::under_looks;
use crate::machines::SharedPairs;
use crate::text;
use fsdyno_core::axis::{self, AXES};
use fsdyno_core::measure::{Direction, Measure};
use fsdyno_core::{Configuration, TrialRecord};
use fsdyno_stats::{Effects, Factor, FactorEffects, Observation, Ratio, Verdict};
use serde::Serialize;
use std::collections::BTreeSet;

/// An interaction with a smaller share of the variance is not listed.
const SHARE_WORTH_A_LINE: f64 = 0.01;

/// The effect of one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AxisAnswer {
    /// The axis.
    pub axis: String,
    /// The filesystem that this applies to, if the axis has other levels in other filesystems.
    pub within: Option<String>,
    /// Share of the variance, 0 to 1; absent if there are as many effects as trials, which leaves nothing to
    /// chance.
    pub share: Option<f64>,
    /// Its levels, best first; those without a known effect last.
    pub levels: Vec<LevelAnswer>,
    /// The level to use: the best of those that weaken nothing, or the default if that may be as good. Absent
    /// if there is no clear indication.
    pub best: Option<String>,
    /// The answer in words.
    pub text: String,
}

/// The effect of one level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelAnswer {
    /// The level.
    pub level: String,
    /// `true` if the level is the default.
    pub is_default: bool,
    /// The ways in which the level weakens what survives a power cut, or may.
    pub risks: Vec<String>,
    /// Ratio to the mean of all levels, not used for verdicts; absent if the trials cannot separate it from
    /// something else.
    pub effect: Option<Compared>,
    /// Ratio to the best level that weakens nothing.
    pub to_best: Option<Compared>,
    /// `true` if the level is worse than the best one, by more than the threshold.
    pub worse: bool,
    /// Why it is not called worse although the trials show that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// Two settings whose effects depend on each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InteractionAnswer {
    /// The axis on which the best level of the other depends.
    pub axis: String,
    /// The other axis.
    pub other: String,
    /// Share of the variance, 0 to 1.
    pub share: f64,
    /// For each level of the first, the best of the second.
    pub best: Vec<(String, String)>,
}

/// The effects of all settings.
#[derive(Debug, Default)]
pub(super) struct AxisEffects {
    pub axes: Vec<AxisAnswer>,
    pub interactions: Vec<InteractionAnswer>,
    pub block_share: Option<f64>,
    pub residual_share: Option<f64>,
    pub notes: Vec<String>,
}

/// An axis, in all filesystems or within one.
struct Varied {
    axis: String,
    within: Option<String>,
    levels: Vec<String>,
}

impl Varied {
    fn name(&self) -> String {
        match &self.within {
            Some(filesystem) => format!("{} ({filesystem})", self.axis),
            None => self.axis.clone(),
        }
    }

    fn level_of(&self, configuration: &Configuration) -> Option<usize> {
        if self.within.as_ref().is_some_and(|filesystem| *filesystem != configuration.filesystem) {
            return None;
        }
        let level = level(configuration, &self.axis);
        self.levels.iter().position(|other| *other == level)
    }
}

/// The effects of the settings that vary among these trials, which are some of the whole sweep.
pub(super) fn effects(
    measure: &Measure,
    trials: &[&TrialRecord],
    whole: &[TrialRecord],
    (threshold, looks): (f64, bool),
    safety: &Safety,
) -> AxisEffects {
    let valued: Vec<(&TrialRecord, f64)> =
        trials.iter().filter_map(|trial| Some((*trial, measure.value(trial)?.value))).collect();
    let varied = varied(&valued.iter().map(|(trial, _)| &*trial.configuration).collect::<Vec<_>>());
    // The levels of a single axis are the configurations, which have been compared.
    if varied.len() < 2 {
        return AxisEffects::default();
    }
    // A block that two machines share is two.
    let shared = SharedPairs::of_trials(&valued.iter().map(|(trial, _)| *trial).collect::<Vec<_>>());
    let observations: Vec<Observation> = valued
        .iter()
        .map(|(trial, value)| Observation {
            block: shared.of(trial),
            levels: varied.iter().map(|one| one.level_of(&trial.configuration)).collect(),
            value: *value,
        })
        .collect();
    let Some(effects) = fsdyno_stats::effects(&factors(&varied), &observations) else {
        return without_effects(measure, &valued);
    };
    let judged = EffectBasis { measure, trials, whole, threshold, safety, looks };
    let family = Family::of(&varied, &effects, &judged);
    let answers = varied.iter().zip(&family.axes).zip(&effects.factors);
    let mut axes: Vec<AxisAnswer> = answers
        .map(|((one, compared), found)| {
            let share = (effects.freedom > 0).then_some(found.share);
            axis_answer(one, compared, share, &judged)
        })
        .collect();
    axes.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    // Bounds would decide which level is the best of a pair.
    let bounded = trials.iter().any(|trial| is_bound(measure, trial));
    let (interactions, unknown, others) = match interactions(&varied, &effects, &family, &judged) {
        (found, unknown, others) if bounded => {
            (Vec::new(), unknown, others + found.iter().map(|one| one.share).sum::<f64>())
        }
        found => found,
    };
    // One trial of each does not show how much trials vary, so no share of the variance is that of chance.
    let cases: BTreeSet<u32> = valued.iter().map(|(trial, _)| trial.case).collect();
    let is_repeated = valued.len() > cases.len();
    AxisEffects {
        axes,
        interactions,
        block_share: is_repeated.then_some(effects.block_share),
        residual_share: is_repeated.then_some(effects.residual_share),
        notes: notes(&varied, &effects, &unknown, (others, bounded)),
    }
}

/// The settings that vary, as the analysis of variance takes them.
fn factors(varied: &[Varied]) -> Vec<Factor> {
    let filesystems = varied.iter().position(|one| one.axis == FILESYSTEM);
    let factor = |one: &Varied| {
        let parent = filesystems.zip(one.within.as_ref()).and_then(|(index, filesystem)| {
            Some((index, varied[index].levels.iter().position(|level| level == filesystem)?))
        });
        Factor { levels: one.levels.len(), within: parent }
    };
    varied.iter().map(factor).collect()
}

/// Why no effect can be estimated, unless it says nothing about the trials.
fn without_effects(measure: &Measure, valued: &[(&TrialRecord, f64)]) -> AxisEffects {
    // That nothing was lost is no lack of the trials.
    if measure.is_often_zero() {
        return AxisEffects::default();
    }
    let zero = valued.iter().find(|(_, value)| *value <= 0.0).map(|(trial, _)| text::nth(trial.trial));
    let which = zero.map_or(String::new(), |trial| format!(", but trial {trial} has {measure} = 0"));
    let note = format!("no effect can be estimated: effects are ratios and need values above 0{which}");
    AxisEffects { notes: vec![note], ..AxisEffects::default() }
}

/// Returns what cannot be estimated. `others` is the share of the variance of pairs that are not listed,
/// `bounded` says that some values are lower bounds.
fn notes(
    varied: &[Varied],
    effects: &Effects,
    unknown: &[String],
    (others, bounded): (f64, bool),
) -> Vec<String> {
    let mut notes = Vec::new();
    if others >= SHARE_WORTH_A_LINE {
        let why = match bounded {
            true => "some values are lower bounds",
            false => "they are within the threshold, or may be chance",
        };
        notes.push(format!(
            "pairs of settings whose effects may depend on each other explain {} of the variance and are not \
             listed: {why}",
            text::percent(others)
        ));
    }
    let is_entangled = |found: &FactorEffects| found.levels.iter().any(Option::is_none);
    let with_effects = varied.iter().zip(&effects.factors);
    let entangled: Vec<String> =
        with_effects.filter(|(_, found)| is_entangled(found)).map(|(one, _)| one.name()).collect();
    if !entangled.is_empty() {
        notes.push(format!(
            "no effect can be estimated for {}, which only ever changed together with something else",
            entangled.join(", ")
        ));
    }
    if !unknown.is_empty() {
        notes.push(format!(
            "no interaction can be estimated for {}: that needs every combination of their levels in at \
             least two blocks",
            several(unknown)
        ));
    }
    notes
}

fn several(names: &[String]) -> String {
    match names {
        [first, second, third, _, ..] => {
            let more = text::plural(names.len() as u64 - 3, "more pair");
            format!("{first}; {second}; {third} and {more}")
        }
        all => all.join("; "),
    }
}

/// The axes with more than one level, in the order of their declaration.
fn varied(configurations: &[&Configuration]) -> Vec<Varied> {
    let filesystems: Vec<String> = distinct(configurations.iter().map(|one| one.filesystem.clone()));
    let mut names: BTreeSet<&str> =
        configurations.iter().flat_map(|one| one.settings.keys().map(String::as_str)).collect();
    names.insert(FILESYSTEM);
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| AXES.iter().position(|axis| axis.name == *name).unwrap_or(AXES.len()));
    let levels_in = |name: &str, filesystem: Option<&String>| {
        let of =
            configurations.iter().filter(|one| filesystem.is_none_or(|wanted| one.filesystem == *wanted));
        distinct(of.map(|one| level(one, name)))
    };
    let mut varied = Vec::new();
    for name in names {
        let all = levels_in(name, None);
        let sorted = |mut levels: Vec<String>| {
            levels.sort_unstable();
            levels
        };
        let same = filesystems
            .iter()
            .all(|filesystem| sorted(levels_in(name, Some(filesystem))) == sorted(all.clone()));
        if name == FILESYSTEM || same {
            varied.push(Varied { axis: name.to_string(), within: None, levels: all });
        } else {
            varied.extend(filesystems.iter().map(|filesystem| Varied {
                axis: name.to_string(),
                within: Some(filesystem.clone()),
                levels: levels_in(name, Some(filesystem)),
            }));
        }
    }
    varied.retain(|one| one.levels.len() > 1);
    varied
}

fn distinct(levels: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for level in levels {
        if !found.contains(&level) {
            found.push(level);
        }
    }
    found
}

/// The basis on which effects are judged.
struct EffectBasis<'a, 't> {
    measure: &'a Measure,
    trials: &'a [&'t TrialRecord],
    whole: &'t [TrialRecord],
    threshold: f64,
    safety: &'a Safety,
    /// `true` if trials were looked at to decide how many there are.
    looks: bool,
}

impl EffectBasis<'_, '_> {
    /// Why a level is not called worse than the best although this says so.
    fn doubt(&self, one: &Varied, [best, level]: [usize; 2], ratio: &Ratio, said: Verdict) -> Option<String> {
        let of = |level: usize| -> Vec<&TrialRecord> {
            let has = |trial: &&TrialRecord| one.level_of(&trial.configuration) == Some(level);
            self.trials.iter().copied().filter(has).collect()
        };
        let (a, b) = (of(best), of(level));
        let bounds = [&a, &b].map(|trials| trials.iter().any(|trial| is_bound(self.measure, trial)));
        if !proven(said, ratio, bounds) {
            return Some("only lower bounds are known".to_string());
        }
        let names = [best, level].map(|level| match &*one.axis {
            FILESYSTEM => one.levels[level].clone(),
            axis => format!("{axis} = {}", one.levels[level]),
        });
        let sides = [&a, &b].map(|trials| DoubtfulSide { trials, whole: self.whole });
        // Effects leave out what differs between blocks, and with it the drift of the machine.
        let mut within = *ratio;
        within.paired = true;
        Doubt::of(self.measure, &within, sides, [&names[0], &names[1]]).about(said).cloned()
    }
}

fn is_bound(measure: &Measure, trial: &TrialRecord) -> bool {
    measure.value(trial).is_some_and(|value| value.at_least)
}

/// Everything that an answer compares.
struct Family {
    axes: Vec<ComparedAxis>,
    /// For each interaction, whether it is more than chance and the threshold.
    is_clear: Vec<bool>,
}

/// The levels of an axis, each compared with the best.
struct ComparedAxis {
    /// Best first.
    levels: Vec<ComparedLevel>,
    best: Option<usize>,
}

struct ComparedLevel {
    level: usize,
    risks: Vec<String>,
    effect: Option<Ratio>,
    to_best: Option<Ratio>,
    /// The p value of that ratio, corrected for the family.
    p: Option<f64>,
}

impl Family {
    fn of(varied: &[Varied], effects: &Effects, judged: &EffectBasis<'_, '_>) -> Family {
        let mut axes: Vec<ComparedAxis> = varied
            .iter()
            .enumerate()
            .map(|(index, one)| ComparedAxis::of(one, index, effects, judged))
            .collect();
        let cells: Vec<Vec<Option<Ratio>>> = effects
            .interactions
            .iter()
            .map(|pair| pair.found.as_ref().map_or(Vec::new(), distinct_cells))
            .map(|cells| cells.into_iter().map(|cell| under_looks(cell, judged.looks)).collect())
            .collect();
        let contrasts = || axes.iter().flat_map(|axis| axis.levels.iter().map(|level| level.to_best));
        let all: Vec<Option<Ratio>> = contrasts().chain(cells.iter().flatten().copied()).collect();
        // Which level is the best of its axis depends on the same trials.
        let of_axes: usize = axes.iter().map(ComparedAxis::pairs).sum();
        let comparisons = of_axes + cells.iter().map(Vec::len).sum::<usize>();
        let mut p_values = corrected(&all, comparisons).into_iter();
        for (level, p) in axes.iter_mut().flat_map(|axis| &mut axis.levels).zip(&mut p_values) {
            level.p = p;
        }
        let differs = |(cell, p): (&Option<Ratio>, Option<f64>)| {
            let said = cell.map(|cell| cell.verdict(judged.threshold, p));
            matches!(said, Some(Verdict::Larger | Verdict::Smaller))
        };
        let is_clear = cells.iter().map(|cells| {
            // All of them are looked at, because each takes its p value.
            cells.iter().zip(&mut p_values).map(differs).filter(|differs| *differs).count() > 0
        });
        let is_clear = is_clear.collect();
        Family { axes, is_clear }
    }
}

/// The combinations of an interaction that are a comparison of their own: of two levels, one deviates by as
/// much as the other in the opposite direction.
fn distinct_cells((_, cells): &(f64, Vec<Vec<Ratio>>)) -> Vec<Option<Ratio>> {
    let skipped = |levels: usize| usize::from(levels == 2);
    let rows = cells.iter().skip(skipped(cells.len()));
    rows.flat_map(|row| row.iter().skip(skipped(row.len()))).copied().map(Some).collect()
}

impl ComparedAxis {
    fn of(one: &Varied, index: usize, effects: &Effects, judged: &EffectBasis<'_, '_>) -> ComparedAxis {
        let found = &effects.factors[index].levels;
        let better = |ratio: &Ratio| match judged.measure.direction() {
            Direction::HigherIsBetter => -ratio.value,
            Direction::LowerIsBetter => ratio.value,
        };
        let mut levels: Vec<ComparedLevel> = found
            .iter()
            .enumerate()
            .map(|(level, effect)| ComparedLevel {
                level,
                risks: risks_of_level(one, level, judged.trials, judged.safety),
                effect: under_looks(*effect, judged.looks),
                to_best: None,
                p: None,
            })
            .collect();
        let rank = |one: &ComparedLevel| one.effect.as_ref().map_or(f64::INFINITY, better);
        levels.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        let known = || levels.iter().filter(|one| one.effect.is_some());
        let best = known().find(|one| one.risks.is_empty()).or(known().next()).map(|one| one.level);
        for other in levels.iter_mut().filter(|other| Some(other.level) != best) {
            let to_best = best.and_then(|best| effects.contrast(index, best, other.level));
            other.to_best = under_looks(to_best, judged.looks);
        }
        ComparedAxis { levels, best }
    }

    /// The number of pairs of levels, any of which could have been the best.
    fn pairs(&self) -> usize {
        pairs(self.levels.iter().filter(|one| one.to_best.is_some()).count() + 1)
    }
}

fn axis_answer(
    one: &Varied,
    compared: &ComparedAxis,
    share: Option<f64>,
    judged: &EffectBasis<'_, '_>,
) -> AxisAnswer {
    let EffectBasis { measure, trials, threshold, .. } = *judged;
    let filesystem = |level: usize| {
        let trial = trials.iter().find(|trial| one.level_of(&trial.configuration) == Some(level));
        trial.map_or("", |trial| trial.configuration.filesystem.as_str())
    };
    let is_default = |level: usize| {
        one.axis != FILESYSTEM && axis::is_default(&one.axis, filesystem(level), &one.levels[level])
    };
    let worse = match measure.direction() {
        Direction::HigherIsBetter => Verdict::Smaller,
        Direction::LowerIsBetter => Verdict::Larger,
    };
    let levels: Vec<LevelAnswer> = compared
        .levels
        .iter()
        .map(|found| {
            let worse_than = compared
                .best
                .zip(found.to_best)
                .filter(|(_, ratio)| ratio.verdict(threshold, found.p) == worse);
            let doubt =
                worse_than.and_then(|(best, ratio)| judged.doubt(one, [best, found.level], &ratio, worse));
            LevelAnswer {
                level: one.levels[found.level].clone(),
                is_default: is_default(found.level),
                risks: found.risks.clone(),
                effect: found.effect.as_ref().map(|ratio| Compared::new(ratio, ratio.p)),
                to_best: found.to_best.as_ref().map(|ratio| Compared::new(ratio, found.p)),
                worse: worse_than.is_some() && doubt.is_none(),
                doubt,
            }
        })
        .collect();
    let (best, text) = indication(&levels);
    AxisAnswer { axis: one.axis.clone(), within: one.within.clone(), share, levels, best, text }
}

/// The level to use, and why.
fn indication(levels: &[LevelAnswer]) -> (Option<String>, String) {
    if levels.iter().any(|level| level.effect.is_none()) {
        return (None, "only ever changed together with something else".to_string());
    }
    let (worse, may): (Vec<&LevelAnswer>, Vec<&LevelAnswer>) = levels.iter().partition(|level| level.worse);
    if worse.is_empty() {
        let why = levels.iter().find_map(|level| level.doubt.as_ref());
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        return (None, format!("no clear indication{why}"));
    }
    let durable: Vec<&LevelAnswer> = may.iter().copied().filter(|level| level.risks.is_empty()).collect();
    let candidates = if durable.is_empty() { &may } else { &durable };
    let chosen = candidates.iter().find(|level| level.is_default).or(candidates.first());
    let Some(chosen) = chosen else { return (None, "no clear indication".to_string()) };
    let names = |levels: &[&LevelAnswer]| {
        levels.iter().map(|level| level.level.as_str()).collect::<Vec<_>>().join(", ")
    };
    let text = match candidates.len() {
        1 => format!("{} is better than {}", chosen.level, names(&worse)),
        _ => format!(
            "{} are better than {}; no clear indication which of them is best",
            names(candidates),
            names(&worse)
        ),
    };
    (Some(chosen.level.clone()), text)
}

/// The risks of every configuration with a level that no configuration without it has.
fn risks_of_level(one: &Varied, level: usize, trials: &[&TrialRecord], safety: &Safety) -> Vec<String> {
    let with = |wanted: bool| {
        trials.iter().copied().filter(move |trial| {
            one.level_of(&trial.configuration).is_some_and(|found| (found == level) == wanted)
        })
    };
    let elsewhere = safety.kinds(with(false));
    let mut found = safety.kinds(with(true));
    found.retain(|risk| {
        let always = with(true).all(|trial| safety.kinds([trial].into_iter()).contains(risk));
        always && !elsewhere.contains(risk)
    });
    found
}

/// The interactions that matter, the pairs for which that is unknown, and the share of the variance of all
/// other interactions.
fn interactions(
    varied: &[Varied],
    effects: &Effects,
    family: &Family,
    judged: &EffectBasis<'_, '_>,
) -> (Vec<InteractionAnswer>, Vec<String>, f64) {
    let mut answers = Vec::new();
    let mut unknown = Vec::new();
    let mut others = 0.0;
    for (pair, is_clear) in effects.interactions.iter().zip(&family.is_clear) {
        let (a, b) = pair.factors;
        let Some((share, cells)) = &pair.found else {
            // Settings without a known effect have a note of their own.
            if [a, b].iter().any(|one| effects.factors[*one].levels.iter().any(Option::is_none)) {
                continue;
            }
            unknown.push(format!("{} and {}", varied[a].name(), varied[b].name()));
            continue;
        };
        if !is_clear || *share < SHARE_WORTH_A_LINE {
            others += share;
            continue;
        }
        let together = |i: usize, j: usize| {
            let main = effects.factors[b].levels[j].map_or(1.0, |ratio| ratio.value);
            let value = main * cells[i][j].value;
            if judged.measure.direction() == Direction::HigherIsBetter { -value } else { value }
        };
        let best_of = |i: usize| {
            (0..varied[b].levels.len())
                .min_by(|x, y| together(i, *x).total_cmp(&together(i, *y)))
                .unwrap_or(0)
        };
        answers.push(InteractionAnswer {
            axis: varied[a].name(),
            other: varied[b].name(),
            share: *share,
            best: (0..varied[a].levels.len())
                .map(|i| (varied[a].levels[i].clone(), varied[b].levels[best_of(i)].clone()))
                .collect(),
        });
    }
    answers.sort_by(|x, y| y.share.total_cmp(&x.share));
    (answers, unknown, others)
}

#[cfg(test)]
mod tests {
    //! Simulated sweeps of up to five axes. `scripts/soak statistics` has more of them, and prints what it
    //! finds.

    use super::*;
    use crate::fixture;
    use rand::SeedableRng;
    use rand_distr::{Distribution, LogNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const BLOCKS: u32 = 3;
    const VARIED: [(&str, &[&str]); 5] = [
        ("scheduler", &["bfq", "kyber", "none"]),
        ("atime", &["relatime", "noatime"]),
        ("readahead", &["128k", "1M"]),
        ("nr_requests", &["64", "256"]),
        ("block_size", &["1k", "4k"]),
    ];

    /// By how many times the number of simulated sweeps exceeds that of the suite.
    fn times() -> u64 {
        std::env::var("FSDYNO_SIMULATIONS").map_or(1, |times| times.parse().unwrap())
    }

    /// A sweep of the product of the first few axes. Trials vary by a tenth, and blocks by a fifth.
    fn sweep(axes: usize, seed: u64, factor: impl Fn(&Configuration) -> f64) -> Vec<TrialRecord> {
        let mut configurations = vec![fixture::configuration("ext4", "bfq")];
        for (axis, levels) in &VARIED[..axes] {
            let with = |one: &Configuration, level: &str| {
                let mut one = one.clone();
                one.settings.insert(axis.to_string(), level.into());
                one
            };
            configurations =
                configurations.iter().flat_map(|one| levels.iter().map(|level| with(one, level))).collect();
        }
        let mut template = fixture::trial(0, 0, 0, configurations[0].clone(), 60.0);
        template.phases.truncate(1);
        template.phases[0].roles[0].operations.clear();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = |sigma| LogNormal::new(0.0, sigma).unwrap().sample(&mut random);
        let mut trials = Vec::new();
        for block in 0..BLOCKS {
            let level = draw(0.2);
            for (case, configuration) in (0..).zip(&configurations) {
                let mut trial = template.clone();
                (trial.block, trial.case, trial.configuration.asked) = (block, case, configuration.clone());
                let rate = 60e6 * level * draw(0.1) * factor(configuration);
                trial.phases[0].roles[0].rates.aggregate_bytes_per_s = rate;
                trials.push(trial);
            }
        }
        trials
    }

    fn answers(axes: usize, seed: u64, factor: impl Fn(&Configuration) -> f64) -> AxisEffects {
        let trials = sweep(axes, seed, factor);
        let own: Vec<&TrialRecord> = trials.iter().collect();
        effects(&"read".parse().unwrap(), &own, &trials, (0.0, false), &Safety::new(&trials))
    }

    /// With a threshold of 0, so that nothing but chance is in the way.
    #[test]
    fn of_axes_of_nothing_at_most_5_percent_of_answers_call_any_level_better() {
        let repeats = 400 * times();
        // What chance adds to 5 % of so many: two standard deviations.
        let chance = (repeats as f64 * 0.05 * 0.95).sqrt() * 2.0;
        let most = repeats as f64 / 20.0 + chance;
        for axes in 2..=5 {
            let claims = |seed: &u64| {
                let found = answers(axes, *seed, |_| 1.0);
                assert_eq!(found.axes.len(), axes, "{:?}", found.notes);
                found.axes.iter().any(|axis| axis.best.is_some()) || !found.interactions.is_empty()
            };
            let found = (0..repeats).filter(claims).count() as f64;
            println!("{axes} axes of nothing: {found} of {repeats} answers call a level better");
            assert!((repeats as f64 / 100.0..=most).contains(&found), "{axes} axes: {found} of {repeats}");
        }
    }

    #[test]
    fn an_effect_of_8_percent_is_still_found_among_five_axes() {
        let repeats = 100 * times();
        let (axis, levels) = VARIED[4];
        let slowed = |one: &Configuration| if one.level(axis) == Some(levels[1]) { 0.92 } else { 1.0 };
        let finds = |seed: &u64| {
            let found = answers(5, *seed, slowed);
            found.axes.iter().any(|one| one.axis == axis && one.best.as_deref() == Some(levels[0]))
        };
        let found = (0..repeats).filter(finds).count() as u64;
        println!("among 5 axes, an effect of 8 % is found in {found} of {repeats} answers");
        assert!(found * 100 >= repeats * 95, "{found} of {repeats}");
    }
}
