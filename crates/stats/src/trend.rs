//! The trend of something over time: whether it goes up or down, and by how much.
//!
//! The test is that of H. B. Mann ("Nonparametric tests against trend", Econometrica 13, 1945) and M. G.
//! Kendall, which asks for every pair whether the later value is larger. It assumes no shape of the trend and
//! no distribution of the values, and no single outlier can decide the result. The slope is the median of the
//! slopes of all pairs, with the interval of P. K. Sen ("Estimates of the regression coefficient based on
//! Kendall's tau", JASA 63, 1968).
//!
//! Without ties the p value is exact, counted from the permutations with each number of inversions; with ties
//! it is that of the normal approximation. Fewer than 5 values cannot reach 5 %, whatever they are.

use crate::estimate::Interval;
use crate::normal;

/// Up to this many values, all permutations are counted.
const COUNTED_MAX: usize = 60;

/// A trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Two-sided p value of the hypothesis that there is no trend.
    pub p: f64,
    /// The change of the value per unit of time.
    pub slope: f64,
    /// Its 95 % interval.
    pub interval: Interval,
}

/// The trend of points (time, value), whose times must all differ. `None` with fewer than 3, or if one is not
/// finite.
pub fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let n = points.len();
    if n < 3 || !points.iter().all(|(time, value)| time.is_finite() && value.is_finite()) {
        return None;
    }
    let pairs = || points.iter().enumerate().flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (a, b)));
    let mut slopes: Vec<f64> = pairs().map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let sign = |slope: &f64| if *slope == 0.0 { 0 } else { slope.signum() as i64 };
    let score: i64 = slopes.iter().map(sign).sum();
    let ties = ties(points.iter().map(|(_, value)| *value).collect());
    let cubic = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let deviation = ((cubic(n as f64) - ties.iter().map(|t| cubic(*t as f64)).sum::<f64>()) / 18.0).sqrt();
    let p = match ties.iter().all(|count| *count == 1) && n <= COUNTED_MAX {
        true => counted(n, score),
        false if score == 0 => 1.0,
        false => 2.0 * normal::cdf(-(score.abs() as f64) / deviation),
    };
    let reach = normal::quantile(0.975) * deviation;
    let all = slopes.len() as f64;
    let low = (((all - reach) / 2.0).round_ties_even() - 1.0).max(0.0) as usize;
    let high = (((all + reach) / 2.0).round_ties_even() as usize).min(slopes.len() - 1);
    Some(Trend { p, slope: median(&slopes), interval: Interval { low: slopes[low], high: slopes[high] } })
}

/// Returns the number of times that each value occurs.
fn ties(mut values: Vec<f64>) -> Vec<usize> {
    values.sort_unstable_by(f64::total_cmp);
    values.chunk_by(|a, b| a == b).map(<[f64]>::len).collect()
}

/// The median of sorted values, of which there must be one; of two in the middle, their mean.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The share of all permutations of `n` values whose score is at least as far from 0.
fn counted(n: usize, score: i64) -> f64 {
    // Shares of the permutations with 0, 1, ... inversions: the `i`th value adds 0 to `i` of them.
    let mut shares = vec![1.0];
    for i in 1..n {
        let mut longer = vec![0.0; shares.len() + i];
        for (inversions, share) in shares.iter().enumerate() {
            for more in 0..=i {
                longer[inversions + more] += share / (i + 1) as f64;
            }
        }
        shares = longer;
    }
    let pairs = (n * (n - 1) / 2) as i64;
    let far = |inversions: usize| (pairs - 2 * inversions as i64).abs() >= score.abs();
    let sum: f64 =
        shares.iter().enumerate().filter(|(inversions, _)| far(*inversions)).map(|(_, share)| share).sum();
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9 * expected.abs().max(1e-6)
    }

    /// SciPy 1.10.1: `kendalltau(x, y, method='exact')` and `theilslopes(log(y), x, 0.95)`.
    #[test]
    fn a_trend_without_ties_agrees_with_scipy() {
        let times = [0.0, 1.0, 7.0, 8.0, 14.0, 15.0, 21.0, 22.0];
        let values = [62.1_f64, 60.0, 58.4, 59.3, 55.1, 54.2, 55.9, 51.0];
        let points: Vec<_> = times.into_iter().zip(values.map(f64::ln)).collect();
        let trend = trend(&points).unwrap();
        assert!(close(trend.p, 0.005505952380952381), "{trend:?}");
        assert!(close(trend.slope, -0.008426022147542449), "{trend:?}");
        assert!(close(trend.interval.low, -0.010770262377096726), "{trend:?}");
        assert!(close(trend.interval.high, -0.0035390091030523597), "{trend:?}");
    }

    /// SciPy 1.10.1: `kendalltau(x, y, method='asymptotic')` and `theilslopes(log(y), x, 0.95)`.
    #[test]
    fn a_trend_with_ties_agrees_with_scipy() {
        let times = [0.0, 3.0, 5.0, 9.0, 12.0, 20.0];
        let points: Vec<_> = times.into_iter().zip([5.0_f64, 5.0, 7.0, 6.0, 7.0, 9.0].map(f64::ln)).collect();
        let trend = trend(&points).unwrap();
        assert!((trend.p / 0.0320665267910481 - 1.0).abs() < 1e-6, "{trend:?}");
        assert!(close(trend.slope, 0.03038692613232578), "{trend:?}");
        assert!(
            close(trend.interval.low, 0.0) && close(trend.interval.high, 0.06729444732424258),
            "{trend:?}"
        );
    }

    #[test]
    fn values_that_never_change_have_no_trend() {
        let trend = trend(&[(0.0, 5.0), (1.0, 5.0), (2.0, 5.0)]).unwrap();
        assert_eq!((trend.p, trend.slope), (1.0, 0.0));
        assert_eq!(super::trend(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(super::trend(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]), None);
    }

    #[test]
    fn four_values_cannot_show_a_trend_and_five_can() {
        let rising = |n: usize| trend(&(0..n).map(|i| (i as f64, i as f64)).collect::<Vec<_>>()).unwrap().p;
        assert!(rising(4) > 0.05 && rising(5) < 0.05);
        assert!(close(rising(5), 2.0 / 120.0));
    }

    proptest! {
        #[test]
        fn reversing_time_reverses_the_slope(values in prop::collection::vec(1.0..100.0_f64, 3..12)) {
            let there: Vec<_> = values.iter().enumerate().map(|(i, value)| (i as f64, *value)).collect();
            let back: Vec<_> = values.iter().rev().enumerate().map(|(i, value)| (i as f64, *value)).collect();
            let (there, back) = (trend(&there).unwrap(), trend(&back).unwrap());
            prop_assert!(close(there.slope, -back.slope) && close(there.p, back.p));
            prop_assert!(there.interval.low <= there.slope && there.slope <= there.interval.high);
        }

        #[test]
        fn a_straight_line_is_found_exactly(slope in -5.0..5.0_f64, n in 5..20_usize) {
            let points: Vec<_> = (0..n).map(|i| (i as f64, 3.0 + slope * i as f64)).collect();
            prop_assert!((trend(&points).unwrap().slope - slope).abs() < 1e-9);
        }
    }
}
