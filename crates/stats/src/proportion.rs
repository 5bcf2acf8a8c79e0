//! Shares of independent things, such as the logs that lost something: exact intervals, and an exact test of
//! whether two shares differ.

use crate::estimate::Interval;
use statrs::distribution::{Beta, ContinuousCDF};
use statrs::function::factorial::ln_factorial;

/// The probability that a 95 % interval misses.
const MISSES: f64 = 0.05;

/// Two tables count as equally likely if they differ by no more than rounding. R's `fisher.test` uses the
/// same tolerance.
const ROUNDING: f64 = 1e-7;

/// The exact 95 % interval of a share of which `part` of `whole` were seen: C. J. Clopper and E. S. Pearson,
/// "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26, 1934.
///
/// Of none and of all, only one end is unknown, so it is the one-sided bound: 0 of n are at most
/// 1 - 0.05^(1/n), which is about 3/n (J. A. Hanley and A. Lippman-Hand, "If nothing goes wrong, is
/// everything all right?", JAMA 249(13), 1983). `None` of nothing, or if the part exceeds the whole.
pub fn proportion(part: u64, whole: u64) -> Option<Interval> {
    let of = whole as f64;
    let quantile = |share: f64, a: f64, b: f64| Beta::new(a, b).ok().map(|beta| beta.inverse_cdf(share));
    match part {
        _ if whole == 0 || part > whole => None,
        0 => Some(Interval { low: 0.0, high: at_most(whole) }),
        part if part == whole => Some(Interval { low: 1.0 - at_most(whole), high: 1.0 }),
        part => {
            let part = part as f64;
            Some(Interval {
                low: quantile(MISSES / 2.0, part, of - part + 1.0)?,
                high: quantile(1.0 - MISSES / 2.0, part + 1.0, of - part)?,
            })
        }
    }
}

/// The largest share that is not refuted, at 95 %, by having been seen in none of `whole`; 1 if nothing was
/// looked at.
pub fn at_most(whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { -(MISSES.ln() / whole as f64).exp_m1() }
}

/// Two-sided p value of the hypothesis that two shares are equal, `[part, whole]` of each: R. A. Fisher,
/// "Statistical methods for research workers", 5th edition, 1934, section 21.02. The sum of the probabilities
/// of all tables with the same margins that are no more likely than the one seen. It is 1 if a side is empty.
pub fn fisher(first: [u64; 2], second: [u64; 2]) -> f64 {
    let ([a, of_a], [b, of_b]) = (first, second);
    if of_a == 0 || of_b == 0 || a > of_a || b > of_b {
        return 1.0;
    }
    let parts = a + b;
    let choose = |n: u64, k: u64| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let all = choose(of_a + of_b, parts);
    let probability = |of_first: u64| (choose(of_a, of_first) + choose(of_b, parts - of_first) - all).exp();
    let seen = probability(a) * (1.0 + ROUNDING);
    let tables = parts.saturating_sub(of_b)..=parts.min(of_a);
    tables.map(probability).filter(|probability| *probability <= seen).sum::<f64>().min(1.0)
}

/// The smallest share of one side, against none of the other, that [`fisher`] would call different below this
/// p value; `None` if these numbers are too small to show any difference.
pub fn least_shown(wholes: [u64; 2], p: f64) -> Option<f64> {
    let against_none = |none: u64, whole: u64| {
        let shown = (1..=whole).find(|part| fisher([0, none], [*part, whole]) < p);
        shown.map(|part| part as f64 / whole as f64)
    };
    let both = [against_none(wholes[0], wholes[1]), against_none(wholes[1], wholes[0])];
    both.into_iter().flatten().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9
    }

    /// Python's `fractions`: the share at which the exact binomial tail is 0.025, by 200 bisections.
    #[test]
    fn intervals_are_those_of_exact_binomial_tails() {
        for (part, whole, low, high) in INTERVALS {
            let interval = proportion(part, whole).unwrap();
            assert!(close(interval.low, low) && close(interval.high, high), "{part}/{whole}: {interval:?}");
        }
        assert_eq!((proportion(0, 0), proportion(2, 1)), (None, None));
    }

    #[test]
    fn none_of_n_has_the_bound_of_three_over_n() {
        for (whole, bound) in [(1, 0.95), (3, 0.6315968501), (59, 0.0495076099), (60, 0.0487029133)] {
            assert!((at_most(whole) - bound).abs() < 1e-9, "{whole}: {}", at_most(whole));
        }
        assert!((at_most(10_000) * 10_000.0 - 3.0).abs() < 0.01);
        assert!(at_most(u64::MAX) > 0.0 && at_most(u64::MAX) < 1e-18);
        let (none, all) = (proportion(0, 6).unwrap(), proportion(6, 6).unwrap());
        assert_eq!((none.low, all.high), (0.0, 1.0));
        assert!(close(none.high, 1.0 - all.low) && close(none.high, 1.0 - 0.05_f64.powf(1.0 / 6.0)));
    }

    /// Python's `fractions` and `math.comb`, by the definition. 1/35 is Fisher's lady tasting tea with all
    /// cups right, two-sided.
    #[test]
    fn tables_have_the_exact_p_value() {
        for (first, second, p) in TABLES {
            let found = fisher(first, second);
            assert!((found / p - 1.0).abs() < 1e-9, "{first:?} {second:?}: {found}");
            assert!((fisher(second, first) / found - 1.0).abs() < 1e-9);
        }
        assert_eq!((fisher([0, 0], [1, 3]), fisher([0, 3], [0, 3])), (1.0, 1.0));
    }

    #[test]
    fn three_logs_can_show_nothing_and_four_only_all_against_none() {
        assert_eq!(least_shown([3, 3], 0.05), None);
        assert_eq!(least_shown([4, 4], 0.05), Some(1.0));
        assert_eq!(least_shown([6, 6], 0.05), Some(5.0 / 6.0));
        assert_eq!(least_shown([20, 20], 0.05), Some(0.25));
        assert_eq!(least_shown([0, 9], 0.05), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_share(part in 0_u64..40, more in 0_u64..40) {
            let whole = (part + more).max(1);
            let interval = proportion(part, whole).unwrap();
            let share = part as f64 / whole as f64;
            prop_assert!(0.0 <= interval.low && interval.low <= share, "{:?}", interval);
            prop_assert!(share <= interval.high && interval.high <= 1.0, "{:?}", interval);
        }

        #[test]
        fn a_p_value_is_a_probability(a in 0_u64..20, b in 0_u64..20, of_a in 1_u64..20, of_b in 1_u64..20) {
            let p = fisher([a.min(of_a), of_a], [b.min(of_b), of_b]);
            prop_assert!(p > 0.0 && p <= 1.0, "{}", p);
        }
    }

    const INTERVALS: [(u64, u64, f64, f64); 6] = [
        (1, 2, 0.01257911709342505, 0.9874208829065749),
        (1, 3, 0.008403758659612636, 0.9057006759497539),
        (2, 3, 0.09429932405024608, 0.9915962413403874),
        (1, 6, 0.004210744514489469, 0.6412345789976749),
        (5, 12, 0.1516522298084301, 0.7233303143178942),
        (3, 40, 0.01574217985104153, 0.20386474873289898),
    ];
    const TABLES: [([u64; 2], [u64; 2], f64); 7] = [
        ([0, 3], [3, 3], 0.1),
        ([4, 4], [0, 4], 0.02857142857142857),
        ([0, 6], [5, 6], 0.015151515151515152),
        ([3, 4], [1, 4], 0.4857142857142857),
        ([1, 10], [8, 10], 0.005477494641581329),
        ([2, 9], [7, 20], 0.6749038068378398),
        ([10, 50], [25, 60], 0.023099779760756643),
    ];
}
