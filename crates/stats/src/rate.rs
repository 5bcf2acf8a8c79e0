//! Mean rates of things that come in clusters: promises lost, of those made, log by log.
//!
//! The survival of one promise of a log says much about that of the next one of the same log: they share its
//! writes, and each cut looks at most of them again. So the cluster is the unit: whole clusters are drawn, as
//! in the module `estimate`, with as much weight in the mean as they have members (W. G. Cochran, "Sampling
//! techniques", 3rd edition, 1977, section 9A.1 on the ratio to size). The difference of two rates is the
//! bootstrap for independent samples of the module `compare`, without logarithms: a rate is often 0.

use crate::estimate::{Estimate, Interval, estimate};
use crate::mean::{MeanKind, Weighted};
use crate::normal;
use crate::student::quantile;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DRAWS: usize = 10_000;

/// With fewer clusters on a side, the interval of a difference decides nothing: it is little more than the
/// range of the clusters, and often has no width at all.
pub const CLUSTERS_ENOUGH: usize = 6;

/// The number of the members of a cluster that have a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// Those that have it.
    pub part: u64,
    /// All of them.
    pub whole: u64,
}

/// The difference of two rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateDifference {
    /// The second rate minus the first, from -1 to 1.
    pub value: f64,
    /// Its interval.
    pub interval: Interval,
}

impl RateDifference {
    /// Returns whether the interval excludes 0.
    pub fn is_shown(&self) -> bool {
        self.interval.low > 0.0 || self.interval.high < 0.0
    }
}

/// The rate of the property over all members, with its 95 % interval over the clusters. The seed decides the
/// draws. `None` if no cluster has a member.
pub fn rate(clusters: &[Cluster], seed: u64) -> Option<Estimate> {
    estimate(&weighted(clusters), MeanKind::Arithmetic, seed)
}

/// The difference of two rates, with an interval that misses it with the probability `misses`. `None` with
/// fewer than [`CLUSTERS_ENOUGH`] clusters on a side.
pub fn rate_difference(
    first: &[Cluster],
    second: &[Cluster],
    misses: f64,
    seed: u64,
) -> Option<RateDifference> {
    let sides = [weighted(first), weighted(second)];
    if sides.iter().any(|side| side.len() < CLUSTERS_ENOUGH) {
        return None;
    }
    let [a, b] = [RateMoments::of(&sides[0]), RateMoments::of(&sides[1])];
    let value = b.mean - a.mean;
    // With equal clusters on both sides, nothing varies.
    if a.error + b.error == 0.0 {
        return Some(RateDifference { value, interval: Interval { low: value, high: value } });
    }
    let freedom = |moments: &RateMoments| moments.error.powi(2) / (moments.count - 1.0);
    let freedom = (a.error + b.error).powi(2) / (freedom(&a) + freedom(&b));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut drawn = |side: &[Weighted], moments: &RateMoments| {
        let (mut values, mut weights) = (0.0, 0.0);
        for _ in 0..side.len() {
            let one = side[random.random_range(0..side.len())];
            values += one.value * one.weight;
            weights += one.weight;
        }
        // Draws vary less than samples by this factor.
        let spread = (moments.count / (moments.count - 1.0)).sqrt();
        moments.mean + (values / weights - moments.mean) * spread
    };
    let mut differences: Vec<f64> = (0..DRAWS).map(|_| drawn(&sides[1], &b) - drawn(&sides[0], &a)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let tail = normal::cdf(-quantile(1.0 - misses / 2.0, freedom));
    let rank = ((tail * DRAWS as f64).ceil() as usize).clamp(1, DRAWS) - 1;
    let interval = Interval {
        low: differences[rank].min(value).max(-1.0),
        high: differences[DRAWS - 1 - rank].max(value).min(1.0),
    };
    Some(RateDifference { value, interval })
}

/// The rate of each cluster that has members, with their number as its weight.
fn weighted(clusters: &[Cluster]) -> Vec<Weighted> {
    let some = clusters.iter().filter(|cluster| cluster.whole > 0);
    let rate = |cluster: &Cluster| cluster.part.min(cluster.whole) as f64 / cluster.whole as f64;
    some.map(|cluster| Weighted { value: rate(cluster), weight: cluster.whole as f64 }).collect()
}

/// A rate and the square of its standard error, by linearisation (Cochran, section 2.11).
struct RateMoments {
    mean: f64,
    error: f64,
    count: f64,
}

impl RateMoments {
    fn of(side: &[Weighted]) -> RateMoments {
        let count = side.len() as f64;
        let weights: f64 = side.iter().map(|one| one.weight).sum();
        let mean = side.iter().map(|one| one.value * one.weight).sum::<f64>() / weights;
        let squares: f64 = side.iter().map(|one| (one.weight / weights * (one.value - mean)).powi(2)).sum();
        RateMoments { mean, error: squares * count / (count - 1.0), count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(parts: &[u64], whole: u64) -> Vec<Cluster> {
        parts.iter().map(|part| Cluster { part: *part, whole }).collect()
    }

    #[test]
    fn the_rate_is_all_parts_over_all_wholes() {
        let logs = [Cluster { part: 1, whole: 10 }, Cluster { part: 9, whole: 30 }];
        let estimate = rate(&logs, 1).unwrap();
        assert_eq!((estimate.value, estimate.n), (0.25, 2));
        assert_eq!(estimate.interval.map(|interval| [interval.low, interval.high]), Some([0.1, 0.3]));
    }

    #[test]
    fn clusters_without_members_count_as_nothing() {
        assert_eq!(rate(&[], 1), None);
        assert_eq!(rate(&clusters(&[0, 0], 0), 1), None);
        let estimate = rate(&[Cluster { part: 0, whole: 0 }, Cluster { part: 1, whole: 4 }], 1).unwrap();
        assert_eq!((estimate.value, estimate.interval, estimate.n), (0.25, None, 1));
    }

    #[test]
    fn no_losses_at_all_have_no_width() {
        let estimate = rate(&clusters(&[0; 6], 720), 1).unwrap();
        assert_eq!(estimate.value, 0.0);
        assert_eq!(estimate.interval, Some(Interval { low: 0.0, high: 0.0 }));
        let none = rate_difference(&clusters(&[0; 6], 720), &clusters(&[0; 6], 720), 0.05, 1).unwrap();
        assert!(none.value == 0.0 && !none.is_shown());
    }

    #[test]
    fn a_difference_is_shown_only_by_enough_clusters() {
        let (none, all) = (clusters(&[0; 6], 113), clusters(&[113; 6], 113));
        let shown = rate_difference(&none, &all, 0.05, 1).unwrap();
        assert!(shown.value == 1.0 && shown.is_shown());
        assert_eq!(rate_difference(&none[..5], &all, 0.05, 1), None);
        let few = clusters(&[0, 0, 0, 0, 0, 2], 113);
        assert!(!rate_difference(&none, &few, 0.05, 1).unwrap().is_shown());
        let back = rate_difference(&all, &none, 0.05, 1).unwrap();
        assert_eq!((back.value, back.is_shown()), (-1.0, true));
    }

    /// Rates of clusters with the mean 0.3 that differ more than their members' chance: the number of parts
    /// is uniform from 0 to 60 of 100 in each.
    #[test]
    fn equal_rates_differ_in_about_as_many_cases_as_the_interval_may_miss() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let mut side = || (0..8).map(|_| Cluster { part: random.random_range(0..=60), whole: 100 }).collect();
        let found = (0..400).filter(|seed| {
            let sides: [Vec<Cluster>; 2] = [side(), side()];
            rate_difference(&sides[0], &sides[1], 0.05, *seed).unwrap().is_shown()
        });
        let found = found.count();
        assert!((5..=36).contains(&found), "{found} of 400");
    }
}
