//! Student's t test for trials that are looked at again and again: interval and p value that hold after every
//! look at once, so that a sweep may end as soon as they decide, and may be continued later.
//!
//! A test at 5 % after each of 17 blocks finds a nonexistent difference in more than 20 of 100 sweeps. Here
//! the evidence is the ratio of two likelihoods of all trials so far: under a true difference that is drawn
//! from a normal distribution of [`SPREAD`] standard deviations of one pair, and under no difference, both
//! with the standard deviation integrated out by its right Haar prior. Without a difference this ratio is a
//! nonnegative martingale with mean 1, however large the noise is, so it ever exceeds 20 with a probability
//! of at most 1 in 20 (J. Ville, "Étude critique de la notion de collectif", 1939). Inverted, that is a
//! confidence sequence: intervals of which all contain the true difference with a probability of 95 %.
//!
//! T. L. Lai, "On confidence sequences", Ann. Statist. 4(2), 1976; S. R. Howard, A. Ramdas, J. McAuliffe and
//! J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Ann. Statist. 49(2), 2021;
//! H. Wang and A. Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
//! variance", Sequential Analysis 44(1), 2025. The closed form is that of the Bayes factor in M. Gönen, W. O.
//! Johnson, Y. Lu and P. H. Westfall, "The Bayesian two-sample t test", Am. Stat. 59(3), 2005.
//!
//! A plan of looks that is made beforehand (K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries
//! for clinical trials", Biometrika 70(3), 1983) has narrower intervals at its last look, and none after it:
//! a sweep that is continued because it has not decided would have no level left.

/// The expected size of differences, in standard deviations of one pair. It changes after how many blocks a
/// difference is found, and never how often a nonexistent one is: with 2, the interval is narrowest for about
/// 4 to 12 blocks.
const SPREAD: f64 = 2.0;

/// Returns the factor by which the variance of a mean of so many observations is larger under the
/// alternative.
fn inflation(size: f64) -> f64 {
    1.0 + size * SPREAD * SPREAD
}

/// The p value of this t statistic that holds after every look: the inverse of the evidence.
pub(crate) fn p_value(t: f64, size: f64, freedom: f64) -> f64 {
    let inflation = inflation(size);
    let square = t * t / freedom;
    // The ratio of (1 + s) to (1 + s / inflation).
    let base = if square.is_finite() { (1.0 + square) / (1.0 + square / inflation) } else { inflation };
    let log_evidence = (freedom + 1.0) / 2.0 * base.ln() - inflation.ln() / 2.0;
    (-log_evidence).exp().min(1.0)
}

/// The t statistic beyond which that p value is below `level`; infinite if so few observations cannot show a
/// difference at this level.
pub(crate) fn critical(level: f64, size: f64, freedom: f64) -> f64 {
    let inflation = inflation(size);
    let base = (2.0 / (freedom + 1.0) * (inflation.ln() / 2.0 - level.ln())).exp();
    if base >= inflation {
        return f64::INFINITY;
    }
    ((base - 1.0) / (1.0 - base / inflation) * freedom).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired;
    use rand::SeedableRng;
    use rand_distr::{Distribution, LogNormal, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn the_critical_value_is_where_the_p_value_reaches_the_level() {
        for level in [0.05, 0.05 / 3.0, 0.05 / 66.0] {
            for n in [5.0, 6.0, 8.0, 20.0, 200.0] {
                let t = critical(level, n, n - 1.0);
                let p = p_value(t, n, n - 1.0);
                assert!(t.is_infinite() || (p / level - 1.0).abs() < 1e-9, "{level} {n}: {t}, {p}");
            }
        }
        assert!(critical(0.05, 3.0, 2.0).is_infinite() || critical(0.05, 3.0, 2.0) > 20.0);
        assert_eq!(p_value(0.0, 6.0, 5.0), 1.0);
    }

    /// The likelihoods, integrated over the logarithm of the standard deviation by Simpson's rule.
    #[test]
    fn the_evidence_is_the_ratio_of_the_integrated_likelihoods() {
        for (t, n, expected) in EVIDENCE {
            let found = 1.0 / p_value(t, n, n - 1.0);
            assert!((found / expected - 1.0).abs() < 1e-6, "{t} {n}: {found}");
        }
    }

    const EVIDENCE: [(f64, f64, f64); 4] = [
        (2.5, 4.0, 1.8298094473005915),
        (4.8, 6.0, 21.234733764683128),
        (7.0, 8.0, 330.30775652581633),
        (3.6, 20.0, 18.529775156863774),
    ];

    /// The share of sequences that some look from the fourth block to the last calls different.
    fn called_different(sequences: u64, blocks: usize, is_different: impl Fn(&[(f64, f64)]) -> bool) -> f64 {
        let some = |seed: &u64| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(*seed);
            let mut noise = || LogNormal::new(0.0, 0.1).expect("a spread").sample(&mut random);
            let pairs: Vec<(f64, f64)> = (0..blocks).map(|_| (noise(), noise())).collect();
            (4..=blocks).any(|look| is_different(&pairs[..look]))
        };
        (0..sequences).filter(some).count() as f64 / sequences as f64
    }

    #[test]
    fn with_nothing_different_no_look_of_95_percent_of_sequences_says_so() {
        let once = |pairs: &[(f64, f64)]| paired(pairs).and_then(|ratio| ratio.p).is_some_and(|p| p < 0.05);
        let naive = called_different(2000, 20, once);
        assert!(naive > 0.12, "{naive}: looking again and again matters");
        let at_any_time = |pairs: &[(f64, f64)]| {
            let ratio = paired(pairs).map(crate::Ratio::at_any_time);
            ratio.and_then(|ratio| ratio.p).is_some_and(|p| p < 0.05)
        };
        let found = called_different(2000, 20, at_any_time);
        assert!((0.003..=0.05).contains(&found), "{found}");
        // However long it goes on.
        let found = called_different(300, 400, at_any_time);
        assert!(found <= 0.05, "{found}");
    }

    #[test]
    fn the_interval_excludes_1_exactly_if_the_p_value_is_below_5_percent() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for n in 2..40 {
            let mut noise = || -> f64 { StandardNormal.sample(&mut random) };
            let pairs: Vec<(f64, f64)> = (0..n).map(|_| (noise().exp(), (noise() + 1.0).exp())).collect();
            let once = paired(&pairs).unwrap();
            let ratio = once.at_any_time();
            let interval = ratio.interval.unwrap();
            assert_eq!(ratio.p.unwrap() < 0.05, interval.low > 1.0 || interval.high < 1.0, "{ratio:?}");
            let before = once.interval.unwrap();
            assert!(interval.low <= before.low && interval.high >= before.high, "{ratio:?}");
        }
    }

    #[test]
    fn pairs_that_agree_to_the_last_digit_are_no_more_certain_than_their_number() {
        let four = paired(&[(1.0, 2.0); 4]).unwrap().at_any_time();
        assert!(four.p.is_some_and(|p| p > 0.0 && p < 0.05), "{four:?}");
        let two = paired(&[(1.0, 2.0); 2]).unwrap().at_any_time();
        assert!(two.p.is_some_and(|p| p > 0.05), "{two:?}");
        let same = paired(&[(1.0, 1.0); 6]).unwrap().at_any_time();
        assert_eq!(same.p, Some(1.0));
    }
}
