//! Ranks configurations, best first.
//!
//! An estimate takes one value per trial, without sentinels. The order is that of the estimates; only their
//! intervals show whether the first two really differ.

use crate::durability::{Basis, DurabilityJudgement, Losses, Safety};
use crate::faults::Faults;
use crate::load::{Load, loads};
use crate::outcomes::{self, is_measured};
use fsdyno_core::measure::{Direction, Measure, Value};
use fsdyno_core::{TrialRecord, WarningKind, Workload};
use fsdyno_stats::{Better, Estimate, MeanKind, best_first, estimate, median};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// All configurations that were measured under one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The workload.
    pub workload: Workload,
    /// It in one line, with the conditions that the plan varies.
    pub title: String,
    /// The columns. The first decides the order: the plan's measure if some trial has a value of it, else the
    /// workload's own, else the last rate. Other measures are left out if no configuration has them.
    pub measures: Vec<Measure>,
    /// The configurations, best first.
    pub rows: Vec<RankedCase>,
}

/// One configuration in a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedCase {
    /// Index of the case in the plan.
    pub case: u32,
    /// Name of the configuration.
    pub name: String,
    /// Number of measured trials, without sentinels.
    pub trials: usize,
    /// Number of kinds of warning that these trials carry.
    pub warning_kinds: usize,
    /// The ways in which it weakens what survives a power cut, or may; empty if it is durable.
    pub risks: Vec<String>,
    /// The basis for saying whether it is durable.
    pub basis: Basis,
    /// The losses of these trials in power cuts; absent under other workloads.
    pub losses: Option<Losses>,
    /// The outcomes of requests that failed; absent under other workloads.
    pub faults: Option<Faults>,
    /// One for each measure; `None` if no trial has a value.
    pub figures: Vec<Option<CaseEstimate>>,
}

/// A measure over the trials of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaseEstimate {
    /// Mean and interval; the mean is geometric where it has a ratio to others.
    pub estimate: Estimate,
    /// The median of the trials, of two in the middle their mean: if it is far from the mean, few trials
    /// decide the mean. With fewer than three trials it says nothing new, and is absent.
    pub median: Option<f64>,
    /// The largest value of any trial.
    pub max: f64,
    /// `true` if some value, and thus the mean and the maximum, is only a lower bound. A trial that is stuck
    /// and has no value is one, too, where less is better.
    pub at_least: bool,
    /// `true` if the lower end of the interval is only a lower bound.
    pub low_at_least: bool,
}

impl RankedCase {
    /// Returns the number of its trials that have a value of the measure that decides the order.
    pub fn with_value(&self) -> usize {
        self.figures[0].map_or(0, |figure| figure.estimate.n)
    }

    /// `5 of 6`, if a figure in a column beside the deciding one is that of fewer trials than were measured.
    pub fn only(&self, column: usize) -> Option<String> {
        let n = self.figures[column]?.estimate.n;
        (column > 0 && n < self.trials).then(|| format!("{n} of {}", self.trials))
    }
}

impl Ranking {
    /// The measure that decides the order.
    pub fn measure(&self) -> &Measure {
        &self.measures[0]
    }

    /// The figure of a configuration in a column: the mean over its trials, or the longest of all of them.
    pub fn shown(&self, column: usize, figure: CaseEstimate) -> f64 {
        if self.is_longest(column) { figure.max } else { figure.estimate.value }
    }

    /// Returns whether a column shows the longest of all trials, which is another figure than their mean.
    pub fn is_longest(&self, column: usize) -> bool {
        column > 0 && self.measures[column].name() == LONGEST
    }

    /// The heading of a column: the measure, and what of it is shown unless it is the mean.
    pub fn heading(&self, column: usize) -> String {
        heading(&self.measures[column], self.is_longest(column))
    }

    /// The configurations with a value of that measure, best first.
    pub fn ranked(&self) -> impl Iterator<Item = (&RankedCase, CaseEstimate)> {
        self.rows.iter().filter_map(|row| Some((row, row.figures[0]?)))
    }
}

/// The name of a measure over the trials of a configuration: their mean, or the longest of all.
pub fn heading(measure: &Measure, longest: bool) -> String {
    if longest { format!("{measure} (max)") } else { measure.to_string() }
}

/// A ranking for each load, in the plan's order. The seed is that of the bootstrap.
pub fn rankings(measure: &Measure, seed: u64, trials: &[TrialRecord]) -> Vec<Ranking> {
    by_load(measure, seed, trials, true)
}

/// The same by the deciding measure alone, with no other columns: for somebody who watches, and would
/// otherwise wait for them after each trial.
pub fn standings(measure: &Measure, seed: u64, trials: &[TrialRecord]) -> Vec<Ranking> {
    by_load(measure, seed, trials, false)
}

fn by_load(measure: &Measure, seed: u64, trials: &[TrialRecord], others: bool) -> Vec<Ranking> {
    let safety = Safety::new(trials);
    let of = |load: &Load<'_>| {
        let own = trials.iter().filter(|trial| is_measured(trial) && load.has(trial));
        let own = own.collect::<Vec<_>>();
        let measures = measures(load, measure, &own, others);
        ranked(load, measures, seed, &own, &safety)
    };
    loads(trials).iter().map(of).collect()
}

/// Except as the measure that ranks, this one is shown as the longest of all trials: a mean of maxima means
/// nothing to a user who waits.
pub(crate) const LONGEST: &str = "longest-stall";

/// The ranking under one load by a measure, from its measured trials.
pub(crate) fn ranking_of(
    load: &Load<'_>,
    measure: &Measure,
    seed: u64,
    trials: &[&TrialRecord],
    safety: &Safety,
) -> Ranking {
    ranked(load, measures(load, measure, trials, true), seed, trials, safety)
}

/// The measure that decides under a load, then, if asked for, the others that some of its trials have.
fn measures(load: &Load<'_>, measure: &Measure, trials: &[&TrialRecord], others: bool) -> Vec<Measure> {
    let some_has = |measure: &Measure| trials.iter().any(|trial| measure.value(trial).is_some());
    let measure = measure.deciding(load.workload, trials.iter().copied());
    let all = if others { Measure::all_of(trials.iter().copied()) } else { Vec::new() };
    let others = all
        .into_iter()
        .filter(|other| other.is_shown_beside() && other.name() != measure.name())
        .filter(some_has);
    std::iter::once(measure.clone()).chain(others).collect()
}

fn ranked(
    load: &Load<'_>,
    measures: Vec<Measure>,
    seed: u64,
    trials: &[&TrialRecord],
    safety: &Safety,
) -> Ranking {
    let mut by_case: BTreeMap<u32, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in trials {
        by_case.entry(trial.case).or_default().push(trial);
    }
    let notes = outcomes::notes(trials);
    let rows: Vec<RankedCase> =
        by_case.values().map(|own| ranked_case(&measures, seed, own, &notes, safety)).collect();
    let values: Vec<Option<f64>> =
        rows.iter().map(|row| row.figures[0].map(|figure| figure.estimate.value)).collect();
    let better = match measures[0].direction() {
        Direction::HigherIsBetter => Better::Higher,
        Direction::LowerIsBetter => Better::Lower,
    };
    let mut rows: Vec<RankedCase> =
        best_first(&values, better).into_iter().map(|index| rows[index].clone()).collect();
    if let Some(second) = measures[0].tie_breaker() {
        let columns = [Some(0), measures.iter().position(|one| *one == second)];
        let keys = |row: &RankedCase| columns.map(|at| row.figures[at?].map(|one| one.estimate.value));
        rows.sort_by(|a, b| keys(a).partial_cmp(&keys(b)).unwrap_or(Ordering::Equal));
    }
    Ranking { workload: load.workload.clone(), title: load.title(), measures, rows }
}

fn ranked_case(
    measures: &[Measure],
    seed: u64,
    trials: &[&TrialRecord],
    notes: &BTreeSet<WarningKind>,
    safety: &Safety,
) -> RankedCase {
    let DurabilityJudgement { risks, basis } = safety.judge(trials);
    RankedCase {
        case: trials[0].case,
        name: trials[0].configuration.name.clone(),
        trials: trials.len(),
        warning_kinds: outcomes::warning_kinds(trials, notes),
        risks,
        basis,
        losses: Losses::of(trials),
        faults: Faults::of(trials),
        figures: measures.iter().map(|measure| figure(measure, seed, trials)).collect(),
    }
}

/// A measure over trials of one case; `None` if none has a value. The seed is that of the bootstrap.
pub fn figure(measure: &Measure, seed: u64, trials: &[&TrialRecord]) -> Option<CaseEstimate> {
    let values: Vec<Value> = trials.iter().filter_map(|trial| measure.value(trial)).collect();
    let estimate = estimate_of(measure, &values, seed)?;
    let max = values.iter().map(|value| value.value).fold(f64::MIN, f64::max);
    let mut sorted: Vec<f64> = values.iter().map(|value| value.value).collect();
    sorted.sort_by(f64::total_cmp);
    let median = (sorted.len() > 2).then(|| median(&sorted));
    let at_least = is_bound(measure, trials);
    // Of few trials, the lower end is the smallest value itself, which may be exact beside bounds.
    let low = estimate.interval.map_or(estimate.value, |interval| interval.low);
    let is_lowest = |value: &&Value| !value.at_least && (value.value - low).abs() <= low * 1e-9;
    let low_at_least = at_least && !values.iter().any(|value| is_lowest(&value));
    Some(CaseEstimate { estimate, median, max, at_least, low_at_least })
}

/// Returns whether the figure of these trials is only a lower bound: a value is one, or a stuck trial without
/// a value may hide one that is worse.
pub(crate) fn is_bound(measure: &Measure, trials: &[&TrialRecord]) -> bool {
    let less_is_better = measure.direction() == Direction::LowerIsBetter;
    trials.iter().any(|trial| match measure.value(trial) {
        Some(value) => value.at_least,
        None => less_is_better && is_stuck(trial),
    })
}

/// Returns whether something in a trial had not ended at the drain limit.
fn is_stuck(trial: &TrialRecord) -> bool {
    let mut roles = trial.phases.iter().flat_map(|phase| &phase.roles);
    roles.any(|role| {
        !role.blocked_at_start.is_empty() || role.operations.iter().any(|result| result.censored > 0)
    })
}

/// The mean of a measure over trials.
pub(crate) fn estimate_of(measure: &Measure, values: &[Value], seed: u64) -> Option<Estimate> {
    let plain: Vec<f64> = values.iter().map(|value| value.value).collect();
    estimate(&plain, kind_of_mean(measure, values), seed)
}

/// Geometric, so that the ratio of two configurations equals the ratio of their means. Counts of faults and
/// losses, and measures that were 0 in some trial, have no ratio and use the arithmetic mean.
pub(crate) fn kind_of_mean(measure: &Measure, values: &[Value]) -> MeanKind {
    let is_count = measure.is_of_faults() || measure.is_often_zero();
    let has_ratio = !is_count && values.iter().all(|value| value.value > 0.0);
    if has_ratio { MeanKind::Geometric } else { MeanKind::Arithmetic }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::Operation;

    fn rank(measure: &str) -> Vec<String> {
        let rankings = rankings(&measure.parse().unwrap(), 42, &fixture::trials());
        rankings[0].rows.iter().map(|row| row.name.clone()).collect()
    }

    #[test]
    fn the_measure_decides_the_order_in_its_own_direction() {
        assert_eq!(rank("read-under-write"), ["ext4 bfq", "xfs bfq"]);
        assert_eq!(rank("longest-stall"), ["xfs bfq", "ext4 bfq"]);
    }

    #[test]
    fn a_lower_bound_in_one_trial_marks_the_mean() {
        let rankings = rankings(&"longest-stall".parse().unwrap(), 42, &fixture::trials());
        let [xfs, ext4] = &rankings[0].rows[..] else { panic!("two rows") };
        assert!(ext4.figures[0].unwrap().at_least && !xfs.figures[0].unwrap().at_least);
        let mean = ext4.figures[0].unwrap().estimate.value;
        assert!((mean / (30e9_f64 * 40e6).sqrt() - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn the_lower_end_of_an_interval_is_a_bound_unless_an_exact_value_is_there() {
        let of = |stalls: &[(u64, bool)]| {
            let trial = |(stall, at_least): &(u64, bool)| {
                let mut trial = fixture::trial(0, 0, 0, fixture::configuration("ext4", "bfq"), 50.0);
                for role in trial.phases.iter_mut().flat_map(|phase| &mut phase.roles) {
                    role.longest_stall_ns = Some(fsdyno_core::Nanos(*stall));
                    role.longest_stall_at_least = *at_least;
                }
                trial
            };
            let trials: Vec<TrialRecord> = stalls.iter().map(trial).collect();
            let figure = figure(&"longest-stall".parse().unwrap(), 42, &trials.iter().collect::<Vec<_>>());
            figure.map(|figure| (figure.at_least, figure.low_at_least)).unwrap()
        };
        assert_eq!(of(&[(10, false), (20, false)]), (false, false));
        assert_eq!(of(&[(10, false), (20, true)]), (true, false));
        assert_eq!(of(&[(10, true), (20, false)]), (true, true));
        assert_eq!(of(&[(10, true), (10, false)]), (true, false));
        let many: Vec<(u64, bool)> = (0..8).map(|index| (1_000 + index * 100, index == 7)).collect();
        assert_eq!(of(&many), (true, true));
    }

    #[test]
    fn a_stuck_trial_without_a_value_does_not_make_a_side_column_look_better() {
        let side = |stuck: bool| {
            let mut trials = fixture::blocks(0, "a", 6, 1.0);
            for role in trials[5].phases.iter_mut().flat_map(|phase| &mut phase.roles) {
                let missing =
                    role.operations.iter_mut().find(|one| one.operation == Operation::ReadFirstByte);
                missing.into_iter().for_each(|one| one.lat_ns.count = 0);
                role.operations.iter_mut().for_each(|one| one.lat_ns.max *= u64::from(one.lat_ns.count > 0));
                role.operations.iter_mut().for_each(|one| one.censored = u64::from(stuck));
            }
            let ranking = rankings(&"write".parse().unwrap(), 42, &trials).remove(0);
            let column = ranking.measures.iter().position(|one| one.name() == "first-byte-p999").unwrap();
            let row = &ranking.rows[0];
            (row.only(column), row.figures[column].unwrap().at_least, row.only(0))
        };
        assert_eq!(side(true), (Some("5 of 6".to_string()), true, None));
        assert_eq!(side(false), (Some("5 of 6".to_string()), false, None));
    }

    #[test]
    fn standings_are_rankings_without_the_other_columns() {
        let (measure, trials) = ("read-under-write".parse().unwrap(), fixture::trials());
        let mut all = rankings(&measure, 42, &trials);
        let standings = standings(&measure, 42, &trials);
        assert!(all[0].measures.len() > 1);
        for ranking in &mut all {
            ranking.measures.truncate(1);
            ranking.rows.iter_mut().for_each(|row| row.figures.truncate(1));
        }
        assert_eq!(all, standings);
    }

    #[test]
    fn one_trial_does_not_move_the_median() {
        let rate = |reads: f64| fixture::trial(0, 0, 0, fixture::configuration("ext4", "bfq"), reads);
        let of = |rates: &[f64]| {
            let trials: Vec<TrialRecord> = rates.iter().copied().map(rate).collect();
            let trials: Vec<&TrialRecord> = trials.iter().collect();
            figure(&"read".parse().unwrap(), 42, &trials).unwrap()
        };
        let usual = of(&[100.0, 101.0, 102.0]);
        let stalled = of(&[100.0, 101.0, 1.0]);
        assert!(stalled.estimate.value < 0.7 * usual.estimate.value, "{stalled:?}");
        assert!(stalled.median > usual.median.map(|median| 0.98 * median), "{stalled:?} {usual:?}");
        assert_eq!(of(&[1.0, 2.0]).median, None);
    }

    #[test]
    fn each_workload_has_its_own_ranking() {
        let mut trials = fixture::trials();
        let mut null = fixture::trial(6, 0, 3, fixture::configuration("ext4", "bfq"), 10.0);
        null.workload = Workload::Null(fsdyno_core::workload::Null::default());
        null.phases.clear();
        trials.push(null);
        let rankings = rankings(&"read".parse().unwrap(), 42, &trials);
        assert_eq!(rankings.iter().map(|r| r.workload.kind()).collect::<Vec<_>>(), ["fileserver", "null"]);
        assert_eq!(rankings[1].measures.len(), 1);
        assert_eq!(rankings[1].ranked().count(), 0);
    }

    /// The size of each read is not in the title of a file server.
    #[test]
    fn rankings_of_workloads_of_one_kind_have_titles_of_their_own() {
        let mut trials = fixture::trials();
        let mut other = fixture::trial(6, 0, 3, fixture::configuration("ext4", "bfq"), 10.0);
        let Workload::Fileserver(parameters) = &mut other.workload else { panic!("a file server") };
        parameters.io_size = fsdyno_core::Bytes(4096);
        trials.push(other);
        let rankings = rankings(&"read".parse().unwrap(), 42, &trials);
        let [usual, small] = &rankings[..] else { panic!("{}", rankings.len()) };
        assert_eq!(small.title, format!("{}, io_size = 4k", usual.title));
        let cases = crate::view::cases(&trials).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| &*case.workload_name).collect();
        assert_eq!(names[names.len() - 2..], ["fileserver", "fileserver, io_size = 4k"]);
        assert_eq!(cases.last().unwrap().workload_title, small.title);
    }

    #[test]
    fn a_workload_without_the_measure_of_the_plan_is_ranked_by_its_own() {
        let mut trials = fixture::trials();
        let mut null = fixture::trial(6, 0, 3, fixture::configuration("ext4", "bfq"), 10.0);
        null.workload = Workload::Null(fsdyno_core::workload::Null::default());
        null.phases.truncate(1);
        trials.push(null);
        let rankings = rankings(&"read-under-write".parse().unwrap(), 42, &trials);
        let by: Vec<&str> = rankings.iter().map(|ranking| ranking.measure().name()).collect();
        assert_eq!(by, ["read-under-write", "longest-stall"]);
        assert_eq!(rankings[1].ranked().count(), 1);
    }

    #[test]
    fn jobs_written_by_users_are_ranked_by_their_last_rate() {
        let mut fio = fixture::trial(0, 0, 0, fixture::configuration("ext4", "bfq"), 10.0);
        let program = fsdyno_core::workload::Program::Fio;
        fio.workload = Workload::External(fsdyno_core::workload::External { program, ..Default::default() });
        fio.phases.iter_mut().for_each(|phase| phase.name = format!("job of {}", phase.name));
        let measure = fio.workload.load().default_measure().parse().unwrap();
        let rankings = rankings(&measure, 42, &[fio]);
        assert!(rankings[0].measure().name().starts_with("job of "), "{}", rankings[0].measure().name());
        assert_eq!(rankings[0].ranked().count(), 1);
    }

    #[test]
    fn a_sentinel_is_a_trial_of_its_configuration() {
        let mut trials = fixture::trials();
        let mut sentinel = fixture::trial(6, 1, 0, fixture::configuration("ext4", "bfq"), 30.0);
        sentinel.sentinel = true;
        trials.push(sentinel);
        let ranking = rankings(&"read".parse().unwrap(), 42, &trials).remove(0);
        let row = ranking.rows.iter().find(|row| row.case == 0).unwrap();
        assert_eq!((row.trials, row.figures[0].unwrap().estimate.n), (3, 3));
    }
}
