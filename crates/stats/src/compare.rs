//! Compares two configurations: the ratio of their values, its 95 % interval, and the verdict.
//!
//! All arithmetic is on logarithms, where a ratio becomes a difference and it does not matter which side is
//! the base (P. J. Fleming and J. J. Wallace, "How not to lie with statistics", CACM 29(3), 1986). Trials of
//! one block ran under the same conditions, so configurations with common blocks are compared within blocks
//! ([`paired`]), which cancels the differences between blocks. Samples without common blocks are independent
//! ([`independent`]).
//!
//! The interval and the p value are those of Student's t test of the logarithms of the ratios of pairs, or of
//! Welch's for independent samples, so that the p value is below 0.05 exactly if the interval excludes 1. A
//! rank test of 6 pairs cannot be significant after Holm's correction for ten comparisons, whatever the
//! values are. The bootstrap of the module `estimate` cannot leave the range of the ratios: over 6 pairs it
//! contains the true ratio in 93 of 100 cases, over 3 in 75. What this interval contains is simulated in the
//! tests, and stated in `docs/guide/answers.md`: 95 % if the noise is lognormal, and no less if it is skewed
//! or has stalls that are as frequent on both sides.

use crate::any_time;
use crate::estimate::{self, Interval};
use crate::normal;
use crate::student::{p_value, quantile};
use crate::trend::median;

/// The most trials that [`Verdict::CannotTell`] asks for.
const MOST_NEEDED: usize = 1000;
/// The share of cases in which as many trials as it asks for must decide.
const POWER: f64 = 0.8;
/// Trials to ask for if the spread of trials is unknown.
const FIRST_NEEDED: usize = 6;
/// Steps of the integral over the standard deviations that a sample may have.
const STEPS: usize = 100;

/// The ratio of two samples, the second to the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The geometric mean of the ratios.
    pub value: f64,
    /// Its 95 % interval; absent with fewer than 2 pairs, or fewer than 2 trials on either side.
    pub interval: Option<Interval>,
    /// Two-sided p value of the hypothesis that the ratio is 1; absent if the interval is.
    pub p: Option<f64>,
    /// Number of pairs, or of trials of the smaller side.
    pub n: usize,
    /// `true` if it was computed within blocks.
    pub paired: bool,
    /// Standard deviation of the logarithm of the ratio of one pair, or of one trial of each side.
    pub(crate) spread: f64,
    /// Degrees of freedom that each pair, or each trial on both sides, adds to those of the spread.
    freedom_each: f64,
    /// The possible error of its logarithm.
    error: Error,
    /// `true` if interval and p value hold however often the trials are looked at.
    at_any_time: bool,
}

/// The verdict on a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The second is larger by more than the threshold.
    Larger,
    /// The second is smaller by more than the threshold.
    Smaller,
    /// They differ by no more than the threshold.
    NoMaterialDifference,
    /// The trials do not decide. About this many would; `None` if a thousand would not.
    CannotTell(Option<usize>),
}

/// The ratio of pairs (first, second), one per block. `None` without pairs, or if a value is not positive and
/// finite.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Ratio> {
    if pairs.is_empty() || !pairs.iter().all(|(a, b)| positive(*a) && positive(*b)) {
        return None;
    }
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| b / a).collect();
    let moments = LogMoments::of(&ratios);
    let n = pairs.len();
    let error = Error { variance: moments.variance / n as f64, freedom: n as f64 - 1.0 };
    Some(Ratio::new(moments.mean, error, n, true))
}

/// The ratio of two samples that share no blocks. `None` if one is empty, or has a value that is not positive
/// and finite.
pub fn independent(first: &[f64], second: &[f64]) -> Option<Ratio> {
    let samples = [first, second];
    if samples.iter().any(|sample| sample.is_empty() || !sample.iter().all(|value| positive(*value))) {
        return None;
    }
    let [a, b] = samples.map(LogMoments::of);
    let n = first.len().min(second.len());
    let (of_a, of_b) = (a.variance / first.len() as f64, b.variance / second.len() as f64);
    let freedom = welch([of_a, of_b], [first.len() as f64 - 1.0, second.len() as f64 - 1.0]);
    let error = Error { variance: of_a + of_b, freedom: if n > 1 { freedom } else { 0.0 } };
    // The sides may differ in number. More trials would be as many on both.
    Some(Ratio {
        spread: (a.variance + b.variance).sqrt(),
        freedom_each: welch([a.variance, b.variance], [1.0, 1.0]),
        ..Ratio::new(b.mean - a.mean, error, n, false)
    })
}

/// The scatter of trials of one and the same configuration within a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter {
    /// Variance of the logarithm of one trial.
    variance: f64,
    /// Its degrees of freedom.
    freedom: f64,
}

impl Scatter {
    /// From two trials in each block. `None` with fewer than two blocks, or if a value is not positive and
    /// finite.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Scatter> {
        if pairs.len() < 2 || !pairs.iter().all(|(a, b)| positive(*a) && positive(*b)) {
            return None;
        }
        // Differences around 0, whose median is that many standard deviations for normal noise: one trial of
        // many that stalled is no scatter. The mean is known, so that each block is a degree of freedom.
        let mut apart: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln().abs()).collect();
        apart.sort_by(f64::total_cmp);
        let deviation = median(&apart) / 0.674_489_750_196_081_7;
        Some(Scatter { variance: deviation * deviation / 2.0, freedom: pairs.len() as f64 })
    }
}

/// The possible error of the logarithm of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Error {
    pub variance: f64,
    /// Degrees of freedom of the variance; without any there is no interval.
    pub freedom: f64,
}

impl Ratio {
    /// The ratio with this logarithm. Its spread is that of blocks which give one ratio each.
    pub(crate) fn new(logarithm: f64, error: Error, n: usize, paired: bool) -> Ratio {
        let Error { variance, freedom } = error;
        let known = freedom > 0.0;
        let interval = known.then(|| {
            let reach = quantile(0.975, freedom) * variance.sqrt();
            Interval { low: (logarithm - reach).exp(), high: (logarithm + reach).exp() }
        });
        let p = known.then(|| p_value(logarithm, variance, freedom));
        let spread = (variance * n as f64).sqrt();
        let freedom_each = freedom / (n as f64 - 1.0).max(1.0);
        let value = logarithm.exp();
        Ratio { value, interval, p, n, paired, spread, freedom_each, error, at_any_time: false }
    }

    /// The same ratio, if trials of one and the same configuration differ by more than its own spread would
    /// have them: with the variance of both together, each by its degrees of freedom. `per_block` is the
    /// number of trials of each side in a block.
    pub fn with_scatter(self, scatter: Scatter, per_block: [f64; 2]) -> Ratio {
        let Error { variance, freedom } = self.error;
        let of_block: f64 = per_block.iter().map(|trials| scatter.variance / trials).sum();
        let scattered = of_block / self.n as f64;
        if scattered <= variance {
            return self;
        }
        let both = freedom + scatter.freedom;
        let pooled = (freedom * variance + scatter.freedom * scattered) / both;
        Ratio::new(self.value.ln(), Error { variance: pooled, freedom: both }, self.n, self.paired)
    }

    /// Returns whether interval and p value are those of [`Ratio::at_any_time`].
    pub fn holds_at_any_time(&self) -> bool {
        self.at_any_time
    }

    /// The same ratio with the interval and the p value that hold after every look at once, for trials whose
    /// number was decided by looking at them: see [`any_time`]. For samples without common blocks that is an
    /// approximation, as Welch's degrees of freedom are.
    pub fn at_any_time(self) -> Ratio {
        let Error { variance, freedom } = self.error;
        if freedom <= 0.0 {
            return Ratio { at_any_time: true, ..self };
        }
        let logarithm = self.value.ln();
        let size = self.size(self.n);
        let reach = any_time::critical(0.05, size, freedom) * variance.sqrt();
        let interval = Interval { low: (logarithm - reach).exp(), high: (logarithm + reach).exp() };
        let p = match (variance == 0.0, logarithm == 0.0) {
            (true, true) => 1.0,
            (true, false) => any_time::p_value(f64::INFINITY, size, freedom),
            (false, _) => any_time::p_value(logarithm / variance.sqrt(), size, freedom),
        };
        // Without any variance the reach is 0 times something that may be infinite.
        let interval = if reach.is_nan() { Interval { low: 0.0, high: f64::INFINITY } } else { interval };
        Ratio { interval: Some(interval), p: Some(p), at_any_time: true, ..self }
    }

    /// The number of observations that a difference in units of the spread rests on: pairs, or of two samples
    /// of as many trials each, half of them, as their difference has twice the variance.
    fn size(&self, n: usize) -> f64 {
        if self.paired { n as f64 } else { n as f64 / 2.0 }
    }

    /// Returns a line that says what so few trials cannot show; `None` from 6 trials on.
    pub fn note(&self) -> Option<&'static str> {
        match self.n {
            n @ ..=1 => estimate::note(n),
            2..FIRST_NEEDED => Some(
                "fewer than 6 trials on a side may have missed a stall that is rare: the interval rests on \
                 what has occurred",
            ),
            FIRST_NEEDED.. => None,
        }
    }

    /// The verdict if a difference of up to `threshold` (0.05 for 5 %) does not matter. `p` is the p value,
    /// corrected for the number of comparisons.
    pub fn verdict(&self, threshold: f64, p: Option<f64>) -> Verdict {
        self.verdict_among(threshold, p, 1)
    }

    /// The same for one of several comparisons: the number of trials needed takes the correction into
    /// account.
    pub fn verdict_among(&self, threshold: f64, p: Option<f64>, comparisons: usize) -> Verdict {
        let tolerated = threshold.ln_1p();
        let (Some(interval), Some(p)) = (self.interval, p) else {
            return Verdict::CannotTell(Some(FIRST_NEEDED));
        };
        if interval.low.ln() >= -tolerated && interval.high.ln() <= tolerated {
            return Verdict::NoMaterialDifference;
        }
        let difference = self.value.ln();
        if p < 0.05 && difference.abs() >= tolerated {
            return if difference > 0.0 { Verdict::Larger } else { Verdict::Smaller };
        }
        Verdict::CannotTell(self.needed(tolerated, comparisons))
    }

    /// Returns the number of trials that would decide in 4 of 5 cases if ratio and spread are as measured:
    /// J. Cohen, "Statistical power analysis for the behavioral sciences", 1988, on a power of 80 %. `None`
    /// if a thousand would not, as for a ratio next to the threshold. Among several comparisons, a difference
    /// must pass the first step of Holm's procedure.
    fn needed(&self, tolerated: f64, comparisons: usize) -> Option<usize> {
        let difference = self.value.ln().abs();
        let decides = |n: usize| self.decided(difference, tolerated, comparisons, n) >= POWER;
        // More trials never decide less, so bisection finds the smallest number that decides.
        let (mut too_few, mut enough) = (self.n, MOST_NEEDED + 1);
        while too_few + 1 < enough {
            let middle = too_few.midpoint(enough);
            if decides(middle) { enough = middle } else { too_few = middle }
        }
        (enough <= MOST_NEEDED).then_some(enough)
    }

    /// Degrees of freedom with `n` trials. Those of Welch's test are estimated, and the fewer trials there
    /// are, the more one side seems to vary more than the other: the mean of that for normal distributions.
    fn freedom(&self, n: usize) -> f64 {
        let each = (n - 1) as f64;
        let unequal = 1.0 / self.freedom_each;
        if self.paired { each * self.freedom_each } else { each / (unequal + (1.0 - unequal) / (each + 1.0)) }
    }

    /// The share of samples of `n` that lead to the right verdict on this true difference of the logarithms,
    /// by what [`Ratio::verdict_among`] asks for: a mean beyond the threshold whose corrected p value is
    /// below
    /// 0.05; or both ends of the interval within the threshold, each of which is a test of its own (D. J.
    /// Schuirmann, "A comparison of the two one-sided tests procedure", J. Pharmacokin. Biopharm. 15(6),
    /// 1987).
    fn decided(&self, difference: f64, tolerated: f64, comparisons: usize, n: usize) -> f64 {
        let freedom = self.freedom(n);
        let error = self.spread / (n as f64).sqrt();
        let below = |logarithm: f64| normal::cdf((logarithm - difference) / error);
        let tail = match difference >= tolerated {
            true => 0.025 / comparisons.max(1) as f64,
            false => 0.025,
        };
        let critical = match self.at_any_time {
            true => any_time::critical(2.0 * tail, self.size(n), freedom),
            false => quantile(1.0 - tail, freedom),
        };
        let reach = critical * error;
        let share = |deviation: f64| match difference >= tolerated {
            true => 1.0 - below(tolerated.max(reach * deviation)),
            false => {
                let room = tolerated - reach * deviation;
                if room > 0.0 { below(room) - below(-room) } else { 0.0 }
            }
        };
        over_deviations(freedom, share)
    }
}

/// The mean of a function over the standard deviations that samples of a normal distribution with the
/// standard deviation 1 have: the distribution of chi, with as many degrees of freedom, over their square
/// root.
fn over_deviations(freedom: f64, of: impl Fn(f64) -> f64) -> f64 {
    // Six standard deviations of that distribution to either side.
    let width = 6.0 / (2.0 * freedom).sqrt();
    let low = (1.0 - width).max(0.0);
    let step = (1.0 + width - low) / STEPS as f64;
    let (mut sum, mut weights) = (0.0, 0.0);
    for index in 0..STEPS {
        let deviation = low + (index as f64 + 0.5) * step;
        let weight = ((freedom - 1.0) * deviation.ln() + freedom * (1.0 - deviation * deviation) / 2.0).exp();
        sum += weight * of(deviation);
        weights += weight;
    }
    sum / weights
}

/// Corrects the p values of several comparisons, so that in at most 5 of 100 families any nonexistent
/// difference is found: the smallest is multiplied by the number of comparisons, the next by one less, and so
/// on; none becomes smaller than the one before it, or larger than 1. S. Holm, "A simple sequentially
/// rejective multiple test procedure", Scand. J. Stat. 6(2), 1979.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    holm_among(p_values, p_values.len())
}

/// The same for some of `comparisons` comparisons; the others must not be clearer than these. Comparing
/// several things with the best of them counts as comparing every pair, because the same trials decide which
/// one is the best.
pub fn holm_among(p_values: &[f64], comparisons: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max(p_values[index] * comparisons.saturating_sub(rank) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Mean and variance (n - 1) of the logarithms.
struct LogMoments {
    mean: f64,
    variance: f64,
}

impl LogMoments {
    fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().map(|value| value.ln()).sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value.ln() - mean).powi(2)).sum();
        LogMoments { mean, variance: if values.len() > 1 { squares / (n - 1.0) } else { 0.0 } }
    }
}

/// Degrees of freedom of a sum of two variances, each with its own: B. L. Welch, "The generalization of
/// Student's problem when several different population variances are involved", Biometrika 34, 1947. Those of
/// the smaller sample if nothing varies.
fn welch(variances: [f64; 2], freedoms: [f64; 2]) -> f64 {
    let sum = variances[0] + variances[1];
    if sum == 0.0 {
        return freedoms[0].min(freedoms[1]);
    }
    sum * sum / variances.iter().zip(freedoms).map(|(one, freedom)| one * one / freedom).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_distr::{Distribution, LogNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const A: [f64; 6] = [62.1, 48.7, 55.3, 71.9, 51.0, 58.4];
    const B: [f64; 6] = [66.6, 49.9, 53.2, 80.7, 57.5, 69.3];
    const C: [f64; 7] = [75.1, 71.2, 69.9, 83.3, 77.7, 72.4, 70.2];

    fn close(a: f64, b: f64, within: f64) -> bool {
        (a / b - 1.0).abs() < within
    }

    fn pairs(first: &[f64], second: &[f64]) -> Vec<(f64, f64)> {
        first.iter().copied().zip(second.iter().copied()).collect()
    }

    fn agrees(ratio: Option<Ratio>, p: f64, [low, high]: [f64; 2]) {
        let ratio = ratio.unwrap();
        let interval = ratio.interval.unwrap();
        assert!(close(ratio.p.unwrap(), p, 1e-5), "{ratio:?}");
        assert!(close(interval.low, low, 1e-6) && close(interval.high, high, 1e-6), "{ratio:?}");
    }

    /// SciPy 1.10.1: `exp(mean(log(b/a)))`, `ttest_1samp(log(b/a), 0)`; 1.17.1 for its
    /// `confidence_interval()`.
    #[test]
    fn pairs_agree_with_scipy() {
        let ratio = paired(&pairs(&A, &B));
        assert!(close(ratio.unwrap().value, 1.080066682026705, 1e-12));
        agrees(ratio, 0.05426011190276542, [0.9979369777175523, 1.1689556191135997]);
        let two = paired(&pairs(&A[..2], &B));
        agrees(two, 0.2868305015702905, [0.7845407610957315, 1.4006792693939007]);
    }

    /// SciPy 1.10.1: `ttest_ind(log(c), log(a), equal_var=False)`; 1.17.1 for its `confidence_interval()`.
    #[test]
    fn independent_samples_agree_with_scipy() {
        let ratio = independent(&A, &C);
        assert!(close(ratio.unwrap().value, 1.2910797972759476, 1e-12));
        agrees(ratio, 0.005025517467852223, [1.112444221976075, 1.4984005579831676]);
    }

    /// Two pairs with this ratio as their mean, and this standard deviation of the logarithm.
    fn with_spread(ratio: f64, spread: f64) -> Ratio {
        let pair = |way: f64| (1.0, (f64::ln(ratio) + way * spread / 2_f64.sqrt()).exp());
        paired(&[pair(-1.0), pair(1.0)]).unwrap()
    }

    /// Three blocks in which one configuration had 170 and 107, 164 and 67, 64 and 87: `d = log` of their
    /// ratios, `v = (median(abs(d)) / norm.ppf(0.75))**2 / 2 * (1/2 + 1) / 3`, pooled with 2 degrees of
    /// freedom of the ratios' own variance, and `t.ppf(0.975, 5) * sqrt(v)`, in SciPy 1.17.1.
    #[test]
    fn an_interval_knows_the_scatter_of_one_configuration() {
        let scatter = Scatter::of(&[(170.0, 107.0), (164.0, 67.0), (64.0, 87.0)]).unwrap();
        let narrow = paired(&[(100.0, 134.0), (80.0, 107.5), (60.0, 80.2)]).unwrap();
        let wide = narrow.with_scatter(scatter, [2.0, 1.0]);
        let interval = wide.interval.unwrap();
        assert!((wide.value - narrow.value).abs() < 1e-12);
        assert!(close((interval.high / interval.low).ln() / 2.0, 0.6833717964420319, 1e-6), "{interval:?}");
        assert!(wide.p.unwrap() > 0.05);
        // What varies more by itself stays as it is.
        let calm = Scatter::of(&[(100.0, 100.1), (99.9, 100.0)]).unwrap();
        assert_eq!(narrow.with_scatter(calm, [2.0, 1.0]), narrow);
    }

    /// SciPy 1.17.1: `quad` of the share given the standard deviation, weighted by the density of
    /// `chi2(n - 1)`. In the order: ratio, spread, comparisons, trials, and the share of them that decide.
    #[test]
    fn the_share_of_samples_that_decide_agrees_with_scipy() {
        for (ratio, spread, comparisons, n, expected) in DECIDED {
            let found = with_spread(ratio, spread * 2_f64.sqrt()).decided(
                f64::ln(ratio),
                f64::ln(1.05),
                comparisons,
                n,
            );
            assert!((found - expected).abs() < 2e-3, "{ratio} {spread} {comparisons} {n}: {found}");
        }
    }

    const DECIDED: [(f64, f64, usize, usize, f64); 8] = [
        (1.0, 0.02, 1, 6, 0.8381084517596992),
        (1.0, 0.05, 10, 25, 0.8226659091618381),
        (1.02, 0.05, 1, 49, 0.8028388784455859),
        (1.06, 0.02, 10, 9, 0.8324915908484503),
        (1.08, 0.05, 1, 10, 0.8392844926959618),
        (1.08, 0.1, 10, 49, 0.8003729202347017),
        (1.15, 0.05, 10, 8, 0.8775457684586658),
        (1.3, 0.05, 1, 3, 0.8731458429374128),
    ];

    #[test]
    fn next_to_the_threshold_no_number_of_trials_is_promised() {
        let needed = |ratio| match with_spread(ratio, 0.1).verdict(0.05, Some(1.0)) {
            Verdict::CannotTell(needed) => needed,
            decided => panic!("{decided:?}"),
        };
        for ratio in [1.049, 1.05, 1.051, 1.0 / 1.05] {
            assert_eq!(needed(ratio), None, "{ratio}");
        }
        for ratio in [1.0, 1.03, 1.0 / 1.03, 1.07, 1.0 / 1.07] {
            assert!(needed(ratio).is_some_and(|needed| (15..600).contains(&needed)), "{ratio}");
        }
    }

    /// R: `p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.2), "holm")`.
    #[test]
    fn holm_agrees_with_r() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005, 0.2]);
        for (found, expected) in corrected.iter().zip([0.04, 0.09, 0.09, 0.025, 0.2]) {
            assert!(close(*found, expected, 1e-12), "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
        // R: `p.adjust(c(0.01, 0.04, 0.2), "holm", n = 6)`.
        for (found, expected) in holm_among(&[0.01, 0.04, 0.2], 6).iter().zip([0.06, 0.2, 0.8]) {
            assert!(close(*found, expected, 1e-12), "{found}");
        }
    }

    /// Trials of one configuration under two names, with blocks that differ more than trials do.
    fn same_twice(seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (block, trial) = (LogNormal::new(4.0, 0.3).unwrap(), LogNormal::new(0.0, 0.15).unwrap());
        let mut one = || {
            let level = block.sample(&mut random);
            (level * trial.sample(&mut random), level * trial.sample(&mut random))
        };
        (0..6).map(|_| one()).unzip()
    }

    #[test]
    fn identical_configurations_differ_in_at_most_5_percent_of_cases() {
        let differs =
            |ratio: Ratio| matches!(ratio.verdict(0.0, ratio.p), Verdict::Larger | Verdict::Smaller);
        let both = |seed| {
            let (first, second) = same_twice(seed);
            let within = paired(&pairs(&first, &second)).is_some_and(differs);
            (within, independent(&first, &second).is_some_and(differs))
        };
        let found = (0..1000)
            .map(both)
            .fold((0, 0), |sum, (within, between)| (sum.0 + u32::from(within), sum.1 + u32::from(between)));
        assert!(found.0 <= 50 && found.1 <= 50, "{found:?} of 1000");
        assert!(found.0 >= 10, "{found:?}: a test that finds nothing proves nothing");
    }

    #[test]
    fn a_difference_beyond_the_noise_is_found_and_a_small_one_does_not_matter() {
        let slower: Vec<f64> =
            A.iter().zip([0.905, 0.9, 0.895, 0.902, 0.898, 0.9]).map(|(a, f)| a * f).collect();
        let ratio = paired(&pairs(&A, &slower)).unwrap();
        assert_eq!(ratio.verdict(0.05, ratio.p), Verdict::Smaller);
        let alike: Vec<f64> =
            A.iter().zip([1.01, 0.99, 1.005, 1.0, 0.995, 1.002]).map(|(a, f)| a * f).collect();
        let ratio = paired(&pairs(&A, &alike)).unwrap();
        assert_eq!(ratio.verdict(0.05, ratio.p), Verdict::NoMaterialDifference);
        let ratio = independent(&A, &B).unwrap();
        let Verdict::CannotTell(Some(needed)) = ratio.verdict(0.05, ratio.p) else { panic!("{ratio:?}") };
        assert!((10..200).contains(&needed), "{needed}");
        let Verdict::CannotTell(Some(among_ten)) = ratio.verdict_among(0.05, Some(1.0), 10) else {
            panic!("{ratio:?}")
        };
        assert!(among_ten > needed, "{among_ten}");
        let single = paired(&[(1.0, 2.0)]).unwrap();
        assert_eq!((single.interval, single.p), (None, None));
        assert_eq!(single.verdict(0.05, None), Verdict::CannotTell(Some(6)));
        // Both ratios lie within the threshold, but two trials cannot prove that a third one would.
        let two = paired(&[(1.0, 0.98), (1.0, 1.02)]).unwrap();
        assert!(matches!(two.verdict(0.05, two.p), Verdict::CannotTell(Some(3..))), "{two:?}");
    }

    #[test]
    fn fewer_than_6_trials_have_a_note() {
        assert!(paired(&[(1.0, 2.0)]).unwrap().note().is_some_and(|note| note.contains("one trial")));
        for n in 2..=6 {
            let notes =
                [paired(&pairs(&A[..n], &B)), independent(&A[..n], &C)].map(|ratio| ratio.unwrap().note());
            assert_eq!(notes.map(|note| note.is_some()), [n < 6; 2], "{notes:?}");
        }
    }

    #[test]
    fn empty_or_invalid_samples_have_no_ratio() {
        assert_eq!(paired(&[]), None);
        assert_eq!(paired(&[(0.0, 1.0)]), None);
        assert_eq!(independent(&[1.0], &[]), None);
        assert_eq!(independent(&[f64::NAN], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(
            values in prop::collection::vec((1.0..100.0_f64, 1.0..100.0_f64), 2..9),
        ) {
            let turned: Vec<(f64, f64)> = values.iter().map(|(a, b)| (*b, *a)).collect();
            let (there, back) = (paired(&values).unwrap(), paired(&turned).unwrap());
            prop_assert!(close(there.value * back.value, 1.0, 1e-9));
            prop_assert!(close(there.p.unwrap(), back.p.unwrap(), 1e-9));
            let (there, back) = (there.interval.unwrap(), back.interval.unwrap());
            prop_assert!(close(there.low * back.high, 1.0, 1e-9) && close(there.high * back.low, 1.0, 1e-9));
        }

        #[test]
        fn p_is_below_5_percent_exactly_if_the_interval_excludes_1(
            values in prop::collection::vec((1.0..100.0_f64, 1.0..100.0_f64), 2..9),
        ) {
            let (first, second): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
            for ratio in [paired(&values).unwrap(), independent(&first, &second[1..]).unwrap()] {
                let Some((interval, p)) = ratio.interval.zip(ratio.p) else { continue };
                prop_assert!(interval.low <= ratio.value && ratio.value <= interval.high);
                prop_assert_eq!(p < 0.05, interval.low > 1.0 || interval.high < 1.0);
            }
        }

        #[test]
        fn corrected_p_values_keep_their_order(p in prop::collection::vec(0.0..1.0_f64, 0..12)) {
            let corrected = holm(&p);
            for (i, a) in p.iter().enumerate() {
                prop_assert!(corrected[i] >= *a && corrected[i] <= 1.0);
                for (j, b) in p.iter().enumerate() {
                    prop_assert!(a >= b || corrected[i] <= corrected[j]);
                }
            }
        }
    }
}
