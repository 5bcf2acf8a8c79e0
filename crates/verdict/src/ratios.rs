//! The ratio of two configurations of a sweep under one load: the same wherever it is shown.
//!
//! It is computed within blocks if both have trials in the same ones, else from all trials. Three or more
//! configurations with trials in the same blocks know their variances from each other ([`Moderated`]), unless
//! trials were looked at to decide how many there are: that a level holds after every look is known of
//! variances that each pair shows itself.
//!
//! **Scatter.** A block has two trials of one configuration, the sentinel's and its own. They differ although
//! nothing was changed, and no comparison within blocks cancels that. Where they differ by more than the
//! spread of a ratio would have them, its interval is by both.

use crate::looks::under_looks;
use crate::machines::{by_block, together};
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::Measure;
use fsdyno_stats::{Moderated, Ratio, Scatter, independent, paired};
use std::collections::BTreeMap;

/// A block, on one of several machines.
type PairPlace<'a> = (u32, Option<&'a str>);

/// The values of a measure of all configurations.
pub(crate) struct Ratios<'a> {
    values: BTreeMap<u32, BTreeMap<PairPlace<'a>, f64>>,
    trials: BTreeMap<u32, usize>,
    looks: bool,
    twice: BTreeMap<PairPlace<'a>, (f64, f64)>,
    /// The configurations that ran in the same blocks and in no others, with variances from all of them; none
    /// if trials were looked at.
    alike: Vec<(Vec<u32>, Moderated)>,
}

impl<'a> Ratios<'a> {
    /// Of these trials of one load. `looks` says whether trials were looked at to decide how many there are.
    pub fn new(measure: &Measure, trials: &[&'a TrialRecord], looks: bool) -> Self {
        let mut of_case: BTreeMap<u32, Vec<&'a TrialRecord>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| measure.value(trial).is_some()) {
            of_case.entry(trial.case).or_default().push(trial);
        }
        let value = |trial: &TrialRecord| measure.value(trial).map(|value| value.value);
        let sentinels = trials.iter().filter(|trial| trial.sentinel);
        let twice = sentinels.filter_map(|sentinel| {
            let own = of_case.get(&sentinel.case)?;
            let other = own.iter().find(|one| !one.sentinel && together(one) == together(sentinel))?;
            Some((together(sentinel), (value(sentinel)?, value(other)?)))
        });
        let values: BTreeMap<u32, BTreeMap<PairPlace<'a>, f64>> =
            of_case.iter().map(|(case, own)| (*case, by_block(measure, own.iter().copied()))).collect();
        Ratios {
            twice: twice.collect(),
            trials: of_case.iter().map(|(case, own)| (*case, own.len())).collect(),
            alike: if looks { Vec::new() } else { alike(&values) },
            values,
            looks,
        }
    }

    /// Returns whether trials were looked at to decide how many there are.
    pub fn looks(&self) -> bool {
        self.looks
    }

    /// The ratio of case `to` to case `from`; `None` without values, or if one is not positive.
    pub fn of(&self, from: u32, to: u32) -> Option<Ratio> {
        let [a, b] = [self.values.get(&from)?, self.values.get(&to)?];
        let pairs: Vec<(f64, f64)> = a.iter().filter_map(|(place, a)| Some((*a, *b.get(place)?))).collect();
        let all = |values: &BTreeMap<_, f64>| values.values().copied().collect::<Vec<_>>();
        let ratio = match pairs.len() {
            0 | 1 => independent(&all(a), &all(b)),
            _ => self.moderated(from, to).or_else(|| paired(&pairs)),
        }?;
        let ratio = match self.scatter().filter(|_| ratio.paired) {
            Some(scatter) => ratio.with_scatter(scatter, [from, to].map(|case| self.per_block(case))),
            None => ratio,
        };
        under_looks(Some(ratio), self.looks)
    }

    /// The two values of one and the same configuration in one block that differ most.
    pub fn furthest_apart(&self) -> Option<(f64, f64)> {
        let pairs = self.twice.values().copied().filter(|(a, b)| *a > 0.0 && *b > 0.0);
        let ordered = pairs.map(|(a, b)| (a.min(b), a.max(b)));
        ordered.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))
    }

    fn scatter(&self) -> Option<Scatter> {
        Scatter::of(&self.twice.values().copied().collect::<Vec<_>>())
    }

    /// The number of trials of a case in each of its blocks, on average.
    fn per_block(&self, case: u32) -> f64 {
        let blocks = self.values.get(&case).map_or(1, BTreeMap::len).max(1);
        self.trials.get(&case).map_or(1.0, |trials| *trials as f64 / blocks as f64)
    }

    /// The ratio by variances from all configurations that ran in the blocks of both, and in no others.
    fn moderated(&self, from: u32, to: u32) -> Option<Ratio> {
        self.alike.iter().find_map(|(cases, moderated)| {
            let index = |case| cases.binary_search(&case).ok();
            Some(moderated.ratio(index(from)?, index(to)?))
        })
    }
}

/// The groups of cases, in ascending order, that have values above 0 in exactly the same blocks.
fn alike(values: &BTreeMap<u32, BTreeMap<PairPlace<'_>, f64>>) -> Vec<(Vec<u32>, Moderated)> {
    let mut groups: BTreeMap<Vec<&PairPlace<'_>>, Vec<u32>> = BTreeMap::new();
    for (case, own) in values.iter().filter(|(_, own)| own.values().all(|value| *value > 0.0)) {
        groups.entry(own.keys().collect()).or_default().push(*case);
    }
    let sample = |case: &u32| values[case].values().copied().collect::<Vec<f64>>();
    let moderated = |cases: &[u32]| Moderated::of(&cases.iter().map(sample).collect::<Vec<_>>());
    groups
        .into_values()
        .filter_map(|cases| {
            let moderated = moderated(&cases)?;
            Some((cases, moderated))
        })
        .collect()
}
