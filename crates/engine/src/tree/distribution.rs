//! Distributions that trees are drawn from.

use fsdyno_core::workload::Bin;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Geometric, LogNormal, Pareto, Poisson};

/// Values in bins, uniform within each.
#[derive(Debug, Clone)]
pub(super) struct Bins {
    /// Bins with the sum of all counts up to and including theirs.
    cumulative: Vec<(u64, Bin)>,
}

impl Bins {
    /// `None` if no value can be drawn.
    pub(super) fn new(bins: &[Bin]) -> Option<Self> {
        let mut total = 0_u64;
        let mut cumulative = Vec::with_capacity(bins.len());
        for bin in bins.iter().filter(|bin| bin.count > 0) {
            if bin.low > bin.high {
                return None;
            }
            total = total.checked_add(bin.count)?;
            cumulative.push((total, *bin));
        }
        (total > 0).then_some(Bins { cumulative })
    }

    /// One value per entry of `weights`, from 0.
    pub(super) fn from_weights(weights: impl Iterator<Item = f64>) -> Self {
        const RESOLUTION: f64 = 1e12;
        let bins: Vec<Bin> = weights
            .enumerate()
            .map(|(value, weight)| Bin {
                low: value as u64,
                high: value as u64,
                count: (weight * RESOLUTION) as u64,
            })
            .collect();
        Bins::new(&bins).expect("weights of a known distribution are finite and not all zero")
    }

    fn draw(&self, random: &mut impl Rng) -> u64 {
        let total = self.cumulative.last().map_or(1, |(total, _)| *total);
        let pick = random.random_range(0..total);
        let index = self.cumulative.partition_point(|(up_to, _)| *up_to <= pick);
        let bin = self.cumulative[index].1;
        random.random_range(bin.low..=bin.high)
    }

    pub(super) fn mean(&self) -> f64 {
        let total = self.cumulative.last().map_or(1, |(total, _)| *total);
        let sum: f64 = self.cumulative.iter().map(|(_, bin)| midpoint(bin) * bin.count as f64).sum();
        sum / total as f64
    }
}

fn midpoint(bin: &Bin) -> f64 {
    bin.low as f64 + (bin.high - bin.low) as f64 / 2.0
}

/// Small numbers: files or subdirectories of a directory, lengths of names.
#[derive(Debug, Clone)]
pub(super) enum Count {
    Geometric(Geometric),
    Poisson(Poisson<f64>),
    Bins(Bins),
    Uniform(u64, u64),
}

impl Count {
    /// Geometric from 0 with this mean.
    pub(super) fn geometric(mean: f64) -> Self {
        let distribution = Geometric::new(1.0 / (1.0 + mean)).expect("a mean above 0 gives a probability");
        Count::Geometric(distribution)
    }

    pub(super) fn poisson(mean: f64) -> Self {
        Count::Poisson(Poisson::new(mean).expect("the mean is above 0"))
    }

    pub(super) fn draw(&self, random: &mut impl Rng) -> u64 {
        match self {
            Count::Geometric(distribution) => distribution.sample(random),
            Count::Poisson(distribution) => distribution.sample(random) as u64,
            Count::Bins(bins) => bins.draw(random),
            Count::Uniform(low, high) => random.random_range(*low..=*high),
        }
    }
}

/// Sizes of files in bytes.
#[derive(Debug, Clone)]
pub(super) enum Size {
    LogNormal { body: LogNormal<f64>, tail: Option<Tail> },
    Bins(Bins),
}

/// Few, very large files.
#[derive(Debug, Clone)]
pub(super) struct Tail {
    pub(super) weight: f64,
    pub(super) from_bytes: f64,
    pub(super) alpha: f64,
}

impl Size {
    /// exp(normal(mu, sigma)), with a Pareto tail if there is one.
    pub(super) fn log_normal(mu: f64, sigma: f64, tail: Option<Tail>) -> Self {
        Size::LogNormal { body: LogNormal::new(mu, sigma).expect("sigma is finite"), tail }
    }

    /// A size of at most `largest` bytes.
    pub(super) fn draw(&self, random: &mut impl Rng, largest: u64) -> u64 {
        let size = match self {
            Size::LogNormal { body, tail } => match tail {
                Some(tail) if random.random_bool(tail.weight) => {
                    let pareto =
                        Pareto::new(tail.from_bytes, tail.alpha).expect("constants of the model are valid");
                    pareto.sample(random) as u64
                }
                _ => body.sample(random) as u64,
            },
            Size::Bins(bins) => bins.draw(random),
        };
        size.min(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn draws_have_the_means_of_their_distributions() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let tail = Tail { weight: 0.01, from_bytes: 50_000.0, alpha: 0.91 };
        let with_tail =
            0.99 * log_normal_mean(8.0, 1.0, 200_000.0) + 0.01 * pareto_mean(50_000.0, 0.91, 200_000.0);
        let bins = [Bin { low: 1, high: 9, count: 3 }, Bin { low: 20, high: 20, count: 1 }];
        for (size, largest, mean) in [
            (Size::log_normal(8.0, 1.0, None), 20_000, log_normal_mean(8.0, 1.0, 20_000.0)),
            (Size::log_normal(8.0, 1.0, Some(tail)), 200_000, with_tail),
            (Size::Bins(Bins::new(&bins).unwrap()), 99, 8.75),
        ] {
            let draws = 200_000;
            let sum: u64 = (0..draws).map(|_| size.draw(&mut random, largest)).sum();
            let ratio = sum as f64 / f64::from(draws) / mean;
            assert!((ratio - 1.0).abs() < 0.02, "{size:?}: {ratio}");
        }
        let counts =
            [(Count::geometric(10.8), 10.8), (Count::poisson(1.5), 1.5), (Count::Uniform(4, 20), 12.0)];
        for (count, mean) in counts {
            let draws = 200_000;
            let sum: u64 = (0..draws).map(|_| count.draw(&mut random)).sum();
            let ratio = sum as f64 / f64::from(draws) / mean;
            assert!((ratio - 1.0).abs() < 0.02, "{count:?}: {ratio}");
        }
        assert_eq!(Bins::new(&bins).unwrap().mean(), 8.75);
    }

    /// Mean of min(X, largest), by summing over the normal distribution in small steps.
    fn log_normal_mean(mu: f64, sigma: f64, largest: f64) -> f64 {
        const STEP: f64 = 0.01;
        let density = |z: f64| (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        (-1000..=1000)
            .map(|step| f64::from(step) * STEP)
            .map(|z| (mu + sigma * z).exp().min(largest) * density(z) * STEP)
            .sum()
    }

    /// Mean of min(X, largest): the integral of the survival function.
    fn pareto_mean(from: f64, alpha: f64, largest: f64) -> f64 {
        if largest <= from {
            return largest;
        }
        from + from.powf(alpha) * (largest.powf(1.0 - alpha) - from.powf(1.0 - alpha)) / (1.0 - alpha)
    }
}
