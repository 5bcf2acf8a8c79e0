//! Ratios of several configurations that ran in the same blocks, with variances that borrow from each other.
//!
//! Six trials say little about how much a configuration varies, but ten configurations of six trials say much
//! about how much configurations vary: the variance of each is moved toward the common one, by as much as the
//! variances themselves agree (G. K. Smyth, "Linear models and empirical Bayes methods for assessing
//! differential expression in microarray experiments", Stat. Appl. Genet. Mol. Biol. 3(1), 2004, section
//! 6.2). It is never moved below what a configuration itself shows, because the one that seems best of many
//! is often the one that varies most. Simulations of that are in the tests.

use crate::compare::{Error, Ratio};
use statrs::function::gamma::digamma;

/// The fewest samples that have anything to borrow from.
const FEWEST: usize = 3;

/// Samples with a value in each of the same blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Moderated {
    /// Means of the logarithms.
    means: Vec<f64>,
    /// Variances of the logarithms within blocks, with their degrees of freedom.
    variances: Vec<(f64, f64)>,
    blocks: usize,
}

impl Moderated {
    /// Looks at samples that have as many values, in the same order of blocks. `None` for fewer than three
    /// samples or two blocks, if a value is not positive and finite, or if a sample does not vary at all.
    pub fn of(samples: &[Vec<f64>]) -> Option<Moderated> {
        let blocks = samples.first()?.len();
        let is_usable = |value: &f64| value.is_finite() && *value > 0.0;
        let usable = samples.iter().all(|values| values.len() == blocks && values.iter().all(is_usable));
        if samples.len() < FEWEST || blocks < 2 || !usable {
            return None;
        }
        let logarithms: Vec<Vec<f64>> =
            samples.iter().map(|values| values.iter().map(|value| value.ln()).collect()).collect();
        let means: Vec<f64> = logarithms.iter().map(|values| mean(values.iter().copied())).collect();
        let whole = mean(means.iter().copied());
        let of_blocks: Vec<f64> =
            (0..blocks).map(|block| mean(logarithms.iter().map(|values| values[block])) - whole).collect();
        // The residuals of each sample, of which blocks and samples together take their share.
        let freedom = (blocks - 1) as f64 * (1.0 - 1.0 / samples.len() as f64);
        let own: Vec<f64> = logarithms
            .iter()
            .zip(&means)
            .map(|(values, mean)| {
                let residuals = values.iter().zip(&of_blocks).map(|(value, block)| value - block - mean);
                residuals.map(|residual| residual * residual).sum::<f64>() / freedom
            })
            .collect();
        let variances = moderated(&own, freedom)?;
        Some(Moderated { means, variances, blocks })
    }

    /// The ratio of sample `to` to sample `from`.
    pub fn ratio(&self, from: usize, to: usize) -> Ratio {
        let [(a, of_a), (b, of_b)] = [from, to].map(|index| self.variances[index]);
        // Welch and Satterthwaite; no more than all samples together have.
        let freedom = (a + b).powi(2) / (a * a / of_a + b * b / of_b);
        let whole = ((self.blocks - 1) * (self.means.len() - 1)) as f64;
        let error = Error { variance: (a + b) / self.blocks as f64, freedom: freedom.min(whole) };
        Ratio::new(self.means[to] - self.means[from], error, self.blocks, true)
    }
}

/// Variances of so many degrees of freedom each, moderated, with the degrees of freedom that they then have.
fn moderated(own: &[f64], freedom: f64) -> Option<Vec<(f64, f64)>> {
    if own.iter().any(|variance| *variance <= 0.0) {
        return None;
    }
    let shift = (freedom / 2.0).ln() - digamma(freedom / 2.0);
    let logarithms: Vec<f64> = own.iter().map(|variance| variance.ln() + shift).collect();
    let common = mean(logarithms.iter().copied());
    let squares: f64 = logarithms.iter().map(|one| (one - common).powi(2)).sum();
    let beyond_chance = squares / (own.len() - 1) as f64 - trigamma(freedom / 2.0);
    let whole = freedom * own.len() as f64;
    let (prior, moved): (f64, Box<dyn Fn(f64) -> f64>) = if beyond_chance <= 0.0 {
        let pooled = mean(own.iter().copied());
        (f64::INFINITY, Box::new(move |_| pooled))
    } else {
        let prior = 2.0 * inverse_trigamma(beyond_chance);
        let expected = (common + digamma(prior / 2.0) - (prior / 2.0).ln()).exp();
        (prior, Box::new(move |one| (prior * expected + freedom * one) / (prior + freedom)))
    };
    let of = |one: &f64| match moved(*one) {
        moved if moved >= *one => (moved, (prior + freedom).min(whole)),
        _ => (*one, freedom),
    };
    Some(own.iter().map(of).collect())
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

/// The second derivative of the logarithm of the gamma function: its recurrence and asymptotic series
/// (M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 6.4.6 and 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 12.0 {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0));
    below + 1.0 / x + square / 2.0 + square / x * series
}

/// Where trigamma, which falls from infinity to 0, has this value.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6_f64, 1e9_f64);
    while high / low > 1.0 + 1e-12 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, LogNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// SciPy 1.10.1: `polygamma(1, x)`.
    #[test]
    fn trigamma_agrees_with_scipy() {
        for (x, expected) in [
            (0.1, 101.43329915079276),
            (0.5, 4.93480220054468),
            (2.0833, 0.6129036873656706),
            (30.0, 0.033895060357739946),
        ] {
            assert!((trigamma(x) / expected - 1.0).abs() < 1e-9, "{x}: {}", trigamma(x));
            assert!((inverse_trigamma(expected) / x - 1.0).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn the_ratio_is_the_one_of_pairs() {
        let samples = [vec![1.0, 2.0, 3.0], vec![2.0, 4.4, 5.5], vec![3.0, 6.0, 10.0]];
        let pairs: Vec<(f64, f64)> = samples[0].iter().copied().zip(samples[2].iter().copied()).collect();
        let (own, all) = (paired(&pairs).unwrap(), Moderated::of(&samples).unwrap().ratio(0, 2));
        assert!((all.value / own.value - 1.0).abs() < 1e-12);
        assert_eq!((all.n, all.paired), (own.n, own.paired));
    }

    #[test]
    fn without_anything_to_borrow_from_there_is_nothing() {
        assert_eq!(Moderated::of(&[vec![1.0, 2.0], vec![2.0, 3.0]]), None);
        assert_eq!(Moderated::of(&[vec![1.0], vec![2.0], vec![3.0]]), None);
        assert_eq!(Moderated::of(&[vec![1.0, 1.0], vec![2.0, 2.0], vec![3.0, 3.0]]), None);
        assert_eq!(Moderated::of(&[vec![1.0, 2.0], vec![2.0, 0.0], vec![3.0, 3.1]]), None);
        assert_eq!(Moderated::of(&[vec![1.0, 2.0], vec![2.0], vec![3.0, 3.1]]), None);
    }

    /// Returns whether the best of samples with these deviations beats every other one by more than 5 %.
    fn one_wins(random: &mut Xoshiro256PlusPlus, deviations: &[f64], first: f64) -> bool {
        let mut draw = |deviation: f64| LogNormal::new(0.0, deviation).unwrap().sample(random);
        let mut samples: Vec<Vec<f64>> =
            deviations.iter().map(|deviation| (0..6).map(|_| draw(*deviation)).collect()).collect();
        samples[0].iter_mut().for_each(|value| *value *= first);
        let all = Moderated::of(&samples).unwrap();
        let best = (0..samples.len()).max_by(|a, b| all.means[*a].total_cmp(&all.means[*b])).unwrap();
        (first == 1.0 || best == 0)
            && (0..samples.len()).filter(|other| *other != best).all(|other| {
                let ratio = all.ratio(other, best);
                ratio.value > 1.05 && ratio.p.is_some_and(|p| p < 0.05)
            })
    }

    #[test]
    fn a_single_noisy_one_among_steady_ones_does_not_win_by_luck() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for count in [3, 4, 6, 12] {
            let mut deviations = vec![0.03; count];
            deviations[count / 2] = 0.4;
            let won = (0..1000).filter(|_| one_wins(&mut random, &deviations, 1.0)).count();
            assert!(won <= 50, "{won} of 1000 with {count}");
            let any: Vec<f64> =
                (0..count).map(|_| 0.03 * 12_f64.powf(random.random_range(0.0..1.0))).collect();
            let won = (0..1000).filter(|_| one_wins(&mut random, &any, 1.0)).count();
            assert!(won <= 50, "{won} of 1000 with {count} of any noise");
        }
    }

    #[test]
    fn what_is_15_percent_better_wins_among_many() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        for (count, least) in [(3, 950), (6, 930), (12, 880), (40, 800)] {
            let won = (0..1000).filter(|_| one_wins(&mut random, &vec![0.05; count], 1.15)).count();
            assert!(won >= least, "{won} of 1000 with {count}");
        }
    }
}
