//! Compares two sets of trials: for each case and measure the ratio, its interval and the verdict.
//!
//! [`matching`] pairs the cases: by name, else by what they have in common apart from the axis that was
//! changed. Trials of one sweep are compared within their blocks, those of different sweeps as independent
//! samples. All rows form one family: Holm's procedure corrects their p values before anything is called
//! faster or slower. The family is therefore kept small: by default it has the named measures that both sides
//! have, except those of the lifecycle and `throughput`, which sums up the others. Only if there are none
//! does it have the rates and mean latencies of each role. Whatever one side lacks is listed.
//!
//! Losses in power cuts have tests of their own ([`crate::durability`]), in a family of their own.
//!
//! A difference that something else may explain ([`crate::doubt`]) is not called faster or slower. What bears
//! on the answer is part of it: the notes on each side's machine, and the warnings of the compared trials.

mod matching;
mod surroundings;
#[cfg(test)]
mod trust;

pub use matching::{Difference, UncomparedCase};
pub use surroundings::SharedWarning;

use crate::doubt::{Doubt, DoubtfulSide};
use crate::durability::{self, Judge, LossRow, Losses};
use crate::levels::worth_asking;
use crate::load::{Load, held_at, held_rate, loads};
use crate::looks::under_looks;
use crate::machines::by_block;
use crate::outcomes::is_measured;
use crate::ranking::{estimate_of, is_bound};
use crate::ratios::Ratios;
use fsdyno_core::measure::{Direction, Measure, Value};
use fsdyno_core::{Operation, TrialRecord, Workload};
use fsdyno_stats::{Estimate, Ratio, Verdict, holm, independent, mann_whitney, paired};
use matching::Case;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

/// One of the two sides.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The name that the user gives it.
    pub name: &'a str,
    /// The sweep of its trials: two sides of one sweep share blocks.
    pub sweep: i64,
    /// The store of that sweep: other stores have other sweeps of the same number.
    pub store: &'a Path,
    /// The name of that sweep.
    pub sweep_name: &'a str,
    /// Its trials.
    pub trials: &'a [TrialRecord],
    /// All trials of its sweep, whose sentinel shows what the machine itself did.
    pub whole: &'a [TrialRecord],
    /// `true` if trials of its sweep were looked at to decide how many there are.
    pub repeated_looks: bool,
}

impl Side<'_> {
    /// Returns whether both sides are from one sweep.
    fn shares_sweep_with(&self, other: &Side<'_>) -> bool {
        (self.store, self.sweep) == (other.store, other.sweep)
    }
}

/// The measures to compare, and the strictness of the comparison.
#[derive(Debug, Clone)]
pub struct ComparisonQuestion {
    /// The measures; if empty, every named one that both sides have, except `throughput` and those of the
    /// lifecycle.
    pub measures: Vec<Measure>,
    /// A difference of up to this share does not matter.
    pub threshold: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The sides.
    pub sides: [SideName; 2],
    /// A difference of up to this share does not matter.
    pub threshold: f64,
    /// The cases that both sides have, in the order of the first.
    pub cases: Vec<ComparedCase>,
    /// Cases without trials to compare on the other side.
    pub alone: [Vec<UncomparedCase>; 2],
    /// The notes on the machine, from the sentinels of each side's sweep; one sweep is described once.
    pub notes: [Vec<String>; 2],
    /// The warnings of the compared trials.
    pub warnings: Vec<SharedWarning>,
}

/// The identity of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideName {
    /// As the user calls it.
    pub name: String,
    /// Number of the sweep.
    pub sweep: i64,
    /// Its name.
    pub sweep_name: String,
}

/// A configuration under a workload, on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedCase {
    /// Its name on each side.
    pub names: [String; 2],
    /// Its workload on the first side.
    pub workload: Workload,
    /// The name of that, with what tells it from the other workloads of that side.
    pub workload_name: Cow<'static, str>,
    /// The line that describes the workload and distinguishes it from the others.
    pub workload_title: String,
    /// The differences between the sides, as far as they are known.
    pub differences: Vec<Difference>,
    /// Trials that were not measured, on each side.
    pub not_measured: [usize; 2],
    /// One row per measure.
    pub rows: Vec<ComparedMeasure>,
    /// The losses in power cuts, one row per cache model; empty under other workloads.
    pub losses: Vec<LossRow>,
    /// Requested measures without a value on one or both sides.
    pub without: Vec<Measure>,
    /// If there are no rows: measures that are 0 in every trial of both sides.
    pub zero: Vec<Measure>,
}

/// A measure of a case on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedMeasure {
    /// Which measure.
    pub measure: Measure,
    /// Means with their intervals, as in every table.
    pub estimates: [Estimate; 2],
    /// Second to first, of the blocks that both sides have if they ran in the same; absent if a value is 0.
    pub ratio: Option<Ratio>,
    /// The p value of that ratio, corrected for all rows of the comparison.
    pub corrected_p: Option<f64>,
    /// The p value of the Mann-Whitney rank test, which ignores pairing; not corrected.
    pub rank_p: Option<f64>,
    /// The verdict.
    pub finding: Finding,
    /// The reason that forbids the verdict that the trials would give.
    pub doubt: Option<String>,
    /// The doubts, by the verdicts that they would forbid.
    doubts: Doubt,
    /// For each side, whether some value is only a lower bound.
    pub at_least: [bool; 2],
    /// True for a side on which nothing was done in any trial: it has 0 in all of them, and more is better.
    is_lost: [bool; 2],
}

/// The verdict on the second side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Worse, by more than the threshold.
    Slower,
    /// Better, by more than the threshold.
    Faster,
    /// Within the threshold.
    NoMaterialDifference,
    /// Undecided.
    CannotTell(Lack),
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// The trials do not decide. About this many on each side would; `None` if 99 would not.
    Trials(Option<usize>),
    /// Some values are only lower bounds, which do not prove what they seem to show.
    Bounds,
    /// A value of zero has no ratio.
    Zero,
    /// Something else may explain the difference.
    Doubt,
}

impl ComparedMeasure {
    /// Number of trials, or of pairs, that the verdict is based on.
    pub fn trials(&self) -> usize {
        self.ratio.map_or(self.estimates[0].n.min(self.estimates[1].n), |ratio| ratio.n)
    }

    /// The verdict in words.
    pub fn verdict(&self) -> String {
        let trials = || crate::text::plural(self.trials() as u64, "trial");
        match self.finding {
            Finding::Faster if self.is_lost[0] => "faster: A has 0 in every trial".to_string(),
            Finding::Slower if self.is_lost[1] => "slower: B has 0 in every trial".to_string(),
            Finding::Faster => "faster".to_string(),
            Finding::Slower => "slower".to_string(),
            Finding::NoMaterialDifference => "no material difference".to_string(),
            Finding::CannotTell(Lack::Trials(Some(needed))) => {
                format!("cannot tell: {}, needs about {needed}", trials())
            }
            Finding::CannotTell(Lack::Trials(None)) => {
                format!("cannot tell: {}, and more would hardly decide it", trials())
            }
            Finding::CannotTell(Lack::Bounds) => {
                format!("cannot tell: {}, only lower bounds are known", trials())
            }
            Finding::CannotTell(Lack::Zero) => {
                format!("cannot tell: {}, a value of 0 has no ratio", trials())
            }
            Finding::CannotTell(Lack::Doubt) => {
                format!("cannot tell: {}", self.doubt.as_deref().unwrap_or("something else may explain it"))
            }
        }
    }
}

impl Comparison {
    /// Compares the second side with the first.
    pub fn new(first: Side<'_>, second: Side<'_>, question: &ComparisonQuestion) -> Self {
        let sides = [first, second];
        let [of_first, of_second] = sides.map(|side| matching::cases(side.trials));
        let found = matching::pairs(&of_first, &of_second);
        let mut cases: Vec<ComparedCase> = found
            .pairs
            .iter()
            .map(|(i, j)| compared([&of_first[*i], &of_second[*j]], sides, question))
            .collect();
        correct(&mut cases, question.threshold);
        let mut losses: Vec<&mut LossRow> = cases.iter_mut().flat_map(|case| &mut case.losses).collect();
        durability::correct(&mut losses, Judge { comparisons: 0, seed: question.seed });
        let trials_of = |side: usize| -> Vec<&TrialRecord> {
            let pairs = found.pairs.iter().map(|(i, j)| [&of_first[*i], &of_second[*j]][side]);
            pairs.flat_map(|case| case.trials.iter().copied()).collect()
        };
        Comparison {
            sides: sides.map(|side| SideName {
                name: side.name.to_string(),
                sweep: side.sweep,
                sweep_name: side.sweep_name.to_string(),
            }),
            threshold: question.threshold,
            cases,
            alone: found.alone,
            notes: surroundings::notes(sides, question),
            warnings: surroundings::warnings([&trials_of(0), &trials_of(1)]),
        }
    }

    /// Returns whether something got worse.
    pub fn regressed(&self) -> bool {
        let loses_more = |row: &LossRow| row.finding == durability::LossFinding::LosesMore;
        self.rows().any(|row| row.finding == Finding::Slower)
            || self.losses().any(loses_more)
            || self.alone[1].iter().any(|case| case.is_lost)
    }

    /// Returns the losses in power cuts, of all cases.
    pub fn losses(&self) -> impl Iterator<Item = &LossRow> {
        self.cases.iter().flat_map(|case| &case.losses)
    }

    /// The rows of all cases.
    pub fn rows(&self) -> impl Iterator<Item = &ComparedMeasure> {
        self.cases.iter().flat_map(|case| &case.rows)
    }
}

fn compared(sides: [&Case<'_>; 2], of: [Side<'_>; 2], question: &ComparisonQuestion) -> ComparedCase {
    let beside = of_common_load(sides, of);
    let row = |measure: &Measure| row(measure, sides, of, beside.as_deref(), question.seed);
    let asked = question.measures.clone();
    let some = |row: &ComparedMeasure| row.estimates.iter().any(|side| side.value != 0.0);
    let (mut rows, zero): (Vec<ComparedMeasure>, Vec<ComparedMeasure>) = match asked.is_empty() {
        true => {
            let of = sides.iter().flat_map(|side| side.trials.iter().copied());
            shown(of).iter().filter(|measure| !measure.is_often_zero()).filter_map(row).partition(some)
        }
        false => (asked.iter().filter_map(row).collect(), Vec::new()),
    };
    let [a, b] = sides.map(|side| Losses::of(&side.trials));
    let losses = a.zip(b).map_or(Vec::new(), |(a, b)| durability::compared([&a, &b]));
    // Figures that an import has no phase for say nothing about its rates.
    let columns = Measure::columns_of(sides.iter().flat_map(|side| side.trials.iter().copied()));
    let only_columns = rows.iter().all(|row| columns.contains(&row.measure));
    if asked.is_empty() && only_columns && losses.is_empty() {
        rows.splice(..0, of_each_role(sides[0].trials[0]).iter().filter_map(row).filter(some));
    }
    let has_row = |measure: &Measure| rows.iter().any(|row| row.measure == *measure);
    ComparedCase {
        names: sides.map(|side| side.name().to_string()),
        workload: sides[0].workload().clone(),
        workload_name: sides[0].called.0.clone(),
        workload_title: sides[0].called.1.clone(),
        differences: matching::differences(sides),
        not_measured: sides.map(|side| side.others.len()),
        losses,
        without: asked.into_iter().filter(|measure| !has_row(measure)).collect(),
        zero: if rows.is_empty() { zero.into_iter().map(|row| row.measure).collect() } else { Vec::new() },
        rows,
    }
}

/// The measures of these trials, except those of the lifecycle and the sum of the others.
fn shown<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Vec<Measure> {
    Measure::all_of(trials).into_iter().filter(Measure::is_shown_beside).collect()
}

/// For trials without these: the rates of each role and the mean latency of each of its operations.
fn of_each_role(trial: &TrialRecord) -> Vec<Measure> {
    let mut names = Vec::new();
    for (phase, role) in trial.phases.iter().flat_map(|phase| phase.roles.iter().map(move |r| (phase, r))) {
        let place = format!("{}/{}", phase.name, role.role);
        let rates = ["rate", "item-rate", "data-rate", "overhead-rate"];
        names.extend(rates.iter().map(|figure| format!("{place}/{figure}")));
        let mean = |operation: Operation| format!("{place}/{operation}/mean");
        names.extend(role.operations.iter().map(|result| mean(result.operation)));
    }
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// The measured trials of the load that two cases of one sweep have in common; `None` for others.
fn of_common_load<'a>(cases: [&Case<'_>; 2], of: [Side<'a>; 2]) -> Option<Vec<&'a TrialRecord>> {
    let whole = of[0].shares_sweep_with(&of[1]).then_some(of[0].whole)?;
    let has = |load: &Load<'_>, case: &Case<'_>| {
        whole.iter().any(|trial| trial.case == case.index() && is_measured(trial) && load.has(trial))
    };
    let has_both = |load: &Load<'_>| cases.iter().all(|case| has(load, case));
    let load = loads(whole).into_iter().find(has_both)?;
    // Of a race, only the blocks in which the last few were measured again are compared.
    let blocks: BTreeSet<u32> = cases.iter().flat_map(|case| &case.trials).map(|trial| trial.block).collect();
    let counts =
        |trial: &&TrialRecord| blocks.contains(&trial.block) && is_measured(trial) && load.has(trial);
    Some(whole.iter().filter(counts).collect())
}

/// `None` if a side has no value. `beside` are the trials of their common load, if they have one.
fn row(
    measure: &Measure,
    cases: [&Case<'_>; 2],
    of: [Side<'_>; 2],
    beside: Option<&[&TrialRecord]>,
    seed: u64,
) -> Option<ComparedMeasure> {
    let same_sweep = of[0].shares_sweep_with(&of[1]);
    let values = |case: &Case<'_>| -> Vec<Value> {
        case.trials.iter().filter_map(|trial| measure.value(trial)).collect()
    };
    let sides = cases.map(values);
    let [a, b] = [0, 1].map(|side| sides[side].iter().map(|value| value.value).collect::<Vec<f64>>());
    let estimates = [estimate_of(measure, &sides[0], seed)?, estimate_of(measure, &sides[1], seed)?];
    let blocks = cases.map(|case| by_block(measure, case.trials.iter().copied()));
    let pairs: Vec<(f64, f64)> =
        blocks[0].iter().filter_map(|(block, a)| Some((*a, *blocks[1].get(block)?))).collect();
    let all = blocks.map(|side| side.into_values().collect::<Vec<f64>>());
    // Two trials of one block are not independent of each other.
    let rank_p = mann_whitney(&all[0], &all[1]);
    let looks = of.iter().any(|side| side.repeated_looks);
    let ratio = match beside {
        Some(trials) => Ratios::new(measure, trials, looks).of(cases[0].index(), cases[1].index()),
        None if same_sweep && pairs.len() > 1 => under_looks(paired(&pairs), looks),
        None => under_looks(independent(&all[0], &all[1]), looks),
    };
    let incomparable = matching::incomparable(cases, measure);
    let doubts = ratio.map_or_else(Doubt::default, |ratio| {
        let sides = [0, 1].map(|side| DoubtfulSide { trials: &cases[side].trials, whole: of[side].whole });
        Doubt::of(measure, &ratio, sides, ["A", "B"])
    });
    Some(ComparedMeasure {
        measure: measure.clone(),
        estimates,
        ratio,
        corrected_p: ratio.and_then(|ratio| ratio.p),
        rank_p,
        finding: Finding::CannotTell(Lack::Zero),
        doubt: None,
        doubts: doubts
            .unless_comparable(incomparable)
            .unless_held(held_rate(cases[0].workload(), measure).map(held_at)),
        is_lost: lost(measure, [&a, &b]),
        at_least: cases.map(|case| is_bound(measure, &case.trials)),
    })
}

/// Returns which side has 0 in all of its trials, although the other has more in all of its own. That is no
/// matter of chance, and no ratio either.
fn lost(measure: &Measure, sides: [&[f64]; 2]) -> [bool; 2] {
    let [a, b] = sides.map(|side| side.iter().all(|value| *value == 0.0));
    let [some_a, some_b] = sides.map(|side| side.iter().all(|value| *value > 0.0));
    match measure.direction() {
        Direction::HigherIsBetter => [a && some_b, b && some_a],
        Direction::LowerIsBetter => [false, false],
    }
}

/// Corrects the p values of all rows together, then sets the verdicts.
fn correct(cases: &mut [ComparedCase], threshold: f64) {
    let tested = cases.iter().flat_map(|case| &case.rows).filter_map(|row| row.corrected_p);
    let corrected = holm(&tested.collect::<Vec<_>>());
    let tested = cases.iter_mut().flat_map(|case| &mut case.rows).filter(|row| row.corrected_p.is_some());
    let comparisons = corrected.len();
    for (row, p) in tested.zip(corrected) {
        row.corrected_p = Some(p);
    }
    for row in cases.iter_mut().flat_map(|case| &mut case.rows) {
        (row.finding, row.doubt) = finding(row, threshold, comparisons);
    }
}

/// The verdict, and the doubt that forbids it.
fn finding(row: &ComparedMeasure, threshold: f64, comparisons: usize) -> (Finding, Option<String>) {
    let zeros = row.estimates.iter().all(|side| side.value == 0.0) && row.at_least == [false; 2];
    let Some(ratio) = row.ratio else {
        let finding = match row.is_lost {
            _ if zeros => Finding::NoMaterialDifference,
            [false, false] => Finding::CannotTell(Lack::Zero),
            _ if row.doubts.about(Verdict::Smaller).is_some() => Finding::CannotTell(Lack::Doubt),
            [true, _] => Finding::Faster,
            [_, true] => Finding::Slower,
        };
        return (finding, row.doubts.about(Verdict::Smaller).cloned());
    };
    let more_is_better = row.measure.direction() == Direction::HigherIsBetter;
    let verdict = ratio.verdict_among(threshold, row.corrected_p, comparisons);
    let doubt = row.doubts.about(verdict).cloned();
    let finding = match verdict {
        _ if doubt.is_some() => Finding::CannotTell(Lack::Doubt),
        _ if !proven(verdict, &ratio, row.at_least) => Finding::CannotTell(Lack::Bounds),
        Verdict::Larger if more_is_better => Finding::Faster,
        Verdict::Larger => Finding::Slower,
        Verdict::Smaller if more_is_better => Finding::Slower,
        Verdict::Smaller => Finding::Faster,
        Verdict::NoMaterialDifference => Finding::NoMaterialDifference,
        Verdict::CannotTell(_) => {
            Finding::CannotTell(Lack::Trials(worth_asking(&ratio, threshold, comparisons)))
        }
    };
    (finding, doubt)
}

/// Returns whether a verdict holds if some values are only lower bounds, or whether more trials can lead to
/// one: such a value can prove that its side is larger, and nothing else.
pub(crate) fn proven(verdict: Verdict, ratio: &Ratio, at_least: [bool; 2]) -> bool {
    match verdict {
        Verdict::Larger => !at_least[0],
        Verdict::Smaller => !at_least[1],
        Verdict::NoMaterialDifference => !at_least.contains(&true),
        Verdict::CannotTell(_) => !at_least[usize::from(ratio.value <= 1.0)],
    }
}

#[cfg(test)]
pub(crate) mod tests;
