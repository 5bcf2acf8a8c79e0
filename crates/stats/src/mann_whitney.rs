//! The rank test of H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
//! stochastically larger than the other", Ann. Math. Stat. 18(1), 1947: whether the values of one sample tend
//! to lie above those of the other.
//!
//! It assumes nothing about the distribution of the values, at a price: with 3 against 3 trials the two-sided
//! p cannot go below 0.10, with 4 against 4 not below 0.029. It is therefore only a second opinion that no
//! outlier can sway, and has no influence on the verdict. It also ignores pairing: if trials share blocks, it
//! treats the differences between blocks as noise.
//!
//! For small samples p is exact for the given values: the share of all ways to split them in two in which the
//! rank sum is at least as far from its mean as the one observed. Equal values get the mean of their ranks,
//! so ties need no correction. (SciPy and the statrs crate have the exact distribution only for samples
//! without ties.)

use crate::normal;

/// Up to this many values in both samples together, every split is counted.
const COUNTED_MAX: usize = 60;

/// The two-sided p value of the hypothesis that both samples have one distribution; `None` if a sample is
/// empty or a value is NaN.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<f64> {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    if first.is_empty() || second.is_empty() || all.iter().any(|value| value.is_nan()) {
        return None;
    }
    let ranks = doubled_ranks(&all);
    Some(match all.len() {
        ..=COUNTED_MAX => exact(&ranks, first.len()),
        _ => asymptotic(&ranks, first.len()),
    })
}

/// Twice the rank of each value, which is an integer even for the mean rank of equal values.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count();
    let equal = |value: f64| values.iter().filter(|other| **other == value).count();
    values.iter().map(|value| 2 * below(*value) + equal(*value) + 1).collect()
}

/// Counts the splits by the rank sum of the first sample, adding one value at a time.
fn exact(ranks: &[usize], first: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // `ways[k][s]`: in how many ways k of the values seen so far have the rank sum s.
    let mut ways = vec![vec![0.0_f64; total + 1]; first + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for chosen in (1..=first).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            for (sum, ways) in more[0].iter_mut().enumerate().skip(*rank) {
                *ways += fewer[chosen - 1][sum - rank];
            }
        }
    }
    // Distance from the mean `first * total / n`, times n, to stay an integer.
    let distance = |sum: usize| (sum * ranks.len()).abs_diff(first * total);
    let found = distance(ranks[..first].iter().sum());
    let as_far = |(sum, _): &(usize, &f64)| distance(*sum) >= found;
    let extreme: f64 = ways[first].iter().enumerate().filter(as_far).map(|(_, ways)| ways).sum();
    extreme / ways[first].iter().sum::<f64>()
}

/// The normal approximation, corrected for ties and for continuity.
fn asymptotic(ranks: &[usize], first: usize) -> f64 {
    let n = ranks.len() as f64;
    let (of_first, of_second) = (first as f64, n - first as f64);
    let rank_sum = ranks[..first].iter().sum::<usize>() as f64 / 2.0;
    let expected = of_first * (n + 1.0) / 2.0;
    // The variance of the ranks of all values, including ties, with the finite population correction.
    let mean = (n + 1.0) / 2.0;
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64 / 2.0 - mean).powi(2)).sum();
    let deviation = (of_first * of_second / (n * (n - 1.0)) * squares).sqrt();
    let beyond = ((rank_sum - expected).abs() - 0.5).max(0.0);
    if deviation == 0.0 { 1.0 } else { (2.0 * normal::cdf(-beyond / deviation)).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-9
    }

    /// SciPy 1.17.1: `mannwhitneyu(x, y, method='exact').pvalue`.
    #[test]
    fn without_ties_it_agrees_with_scipy() {
        let a = [62.1, 48.7, 55.3, 71.9, 51.0, 58.4];
        let b = [66.6, 49.9, 53.2, 80.7, 57.5, 69.3];
        let c = [75.1, 71.2, 69.9, 83.3, 77.7, 72.4, 70.2];
        assert!(close(mann_whitney(&a, &b).unwrap(), 0.5887445887445888));
        assert!(close(mann_whitney(&a, &c).unwrap(), 0.008158508158508158));
        assert!(close(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap(), 0.1));
    }

    /// Counted with NumPy: `t = abs(r[:n].sum() - mu)` with `r = scipy.stats.rankdata(x + y)`, and the share
    /// of `itertools.combinations(range(len(r)), n)` whose rank sum is at least as far from
    /// `mu = n * r.mean()`.
    #[test]
    fn with_ties_it_agrees_with_counting() {
        let p = mann_whitney(&[1.0, 2.0, 2.0, 3.0, 5.0], &[2.0, 4.0, 5.0, 5.0, 6.0, 7.0]).unwrap();
        assert!(close(p, 0.08874458874458875), "{p}");
        let p = mann_whitney(&[1.0; 4], &[1.0, 1.0, 2.0, 2.0, 2.0]).unwrap();
        assert!(close(p, 1.0 / 6.0), "{p}");
        assert_eq!(mann_whitney(&[5.0; 6], &[5.0; 6]), Some(1.0));
    }

    /// SciPy 1.17.1: `mannwhitneyu(x, y, method='asymptotic', use_continuity=True).pvalue`.
    #[test]
    fn large_samples_agree_with_scipy() {
        let values = |n: i32, of: &dyn Fn(i32) -> f64| (0..n).map(of).collect::<Vec<f64>>();
        let x = values(40, &|i| f64::from(i * 37 % 101) / 7.0);
        let y = values(45, &|i| f64::from(i * 53 % 103) / 7.0 + 1.5);
        assert!((mann_whitney(&x, &y).unwrap() - 0.2887156505175844).abs() < 1e-7);
        let x = values(40, &|i| f64::from(i * 37 % 11));
        let y = values(45, &|i| f64::from(i * 53 % 13));
        assert!((mann_whitney(&x, &y).unwrap() - 0.4421134313493478).abs() < 1e-7);
        assert_eq!(mann_whitney(&[1.0; 40], &[1.0; 40]), Some(1.0));
    }

    #[test]
    fn samples_without_an_order_have_no_p() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn swapping_the_sides_changes_nothing(
            first in prop::collection::vec(0..20_i32, 1..9), second in prop::collection::vec(0..20_i32, 1..9),
        ) {
            let [first, second] = [first, second].map(|side| side.into_iter().map(f64::from).collect::<Vec<_>>());
            let (there, back) = (mann_whitney(&first, &second).unwrap(), mann_whitney(&second, &first).unwrap());
            prop_assert!(close(there, back) && there > 0.0 && there <= 1.0 + 1e-12);
        }

        /// Where both methods apply, they nearly agree.
        #[test]
        fn the_approximation_is_close_to_the_exact_value(values in prop::collection::vec(0.0..1.0_f64, 40)) {
            let ranks = doubled_ranks(&values);
            prop_assert!((exact(&ranks, 20) - asymptotic(&ranks, 20)).abs() < 0.01);
        }
    }
}
