//! The posterior of each configuration, given the trials so far.
//!
//! A trial's logarithm is `block + levels + pairs + deviation + noise`. Blocks have a flat prior. The others
//! are normal with mean 0 and standard deviations that are unknown multiples of that of the noise, whose own
//! prior is Jeffreys'. For given multiples everything is a linear mixed model in closed form (C. E. Rasmussen
//! and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, chapter 2.7, with the deviations
//! integrated out first, which are independent between configurations). The multiples are averaged over a
//! grid with half-Cauchy priors (A. Gelman, "Prior distributions for variance parameters in hierarchical
//! models", Bayesian Analysis 1(3), 2006).

use super::check::Checks;
use super::design::Cells;
use super::draws::Draws;
use fsdyno_stats::{Cholesky, Square};
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_distr::{ChiSquared, Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// The figure of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logarithm {
    /// Which configuration.
    pub cell: usize,
    /// The block, whose trials share the state of the machine.
    pub block: u32,
    /// The natural logarithm of the measure, with the sign that makes larger better.
    pub value: f64,
}

/// Standard deviations of the largest effects, those of levels, in units of the noise; without axes, those of
/// the deviations.
const LARGEST: [f64; 9] = [0.04, 0.1, 0.25, 0.6, 1.5, 3.0, 6.0, 12.0, 25.0];
/// Standard deviations of pairs and of deviations compared with those of levels.
const SHARES: [f64; 5] = [0.05, 0.15, 0.4, 1.0, 2.5];
/// Scale of the half-Cauchy prior of the former: an axis is worth varying because it may matter.
const LARGEST_SCALE: f64 = 2.0;
/// Scale of the prior of shares: an interaction is rarely as large as an effect, and what is left over is
/// smaller still ("hierarchical ordering": C. F. J. Wu and M. Hamada, "Experiments", 2nd edition, 2009,
/// section 4.6).
const SHARE_SCALE: f64 = 0.3;
/// A standard deviation that stands for zero.
const NOTHING: f64 = 1e-3;
/// A point of the grid that weighs less than this, compared with the best, is left out.
const LEAST_WEIGHT: f64 = 1e-4;

/// The posterior distribution of the configurations.
#[derive(Debug, Clone)]
pub struct Posterior {
    cells: Cells,
    trials: Vec<Placed>,
    by_cell: Vec<Vec<usize>>,
    points: Vec<Point>,
    means: Vec<f64>,
    nothing_differs: f64,
}

/// A trial with the number of its block among those that occur.
#[derive(Debug, Clone, Copy)]
struct Placed {
    cell: usize,
    block: usize,
    value: f64,
}

/// A point of the grid.
#[derive(Debug, Clone)]
struct Point {
    weight: f64,
    /// Variance of the deviations in units of that of the noise.
    deviation: f64,
    /// Of levels, pairs and blocks: the inverse covariance in units of the noise.
    precision: Cholesky,
    /// Their means.
    effects: Vec<f64>,
    /// Residual sum of squares of the whole model.
    residual: f64,
    /// Its degrees of freedom.
    freedom: f64,
}

impl Posterior {
    /// The posterior given these trials; `None` if there are no more trials than blocks.
    pub fn new(cells: &Cells, trials: &[Logarithm]) -> Option<Posterior> {
        let mut blocks: BTreeMap<u32, usize> = trials.iter().map(|trial| (trial.block, 0)).collect();
        blocks.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        let freedom = trials.len().checked_sub(blocks.len()).filter(|freedom| *freedom > 0)? as f64;
        let centre = trials.iter().map(|trial| trial.value).sum::<f64>() / trials.len() as f64;
        let placed = |trial: &Logarithm| Placed {
            cell: trial.cell,
            block: blocks[&trial.block],
            value: trial.value - centre,
        };
        let trials: Vec<Placed> = trials.iter().map(placed).collect();
        let mut by_cell = vec![Vec::new(); cells.count()];
        trials.iter().enumerate().for_each(|(index, trial)| by_cell[trial.cell].push(index));
        let mut posterior = Posterior {
            cells: cells.clone(),
            trials,
            by_cell,
            points: Vec::new(),
            means: Vec::new(),
            nothing_differs: 0.0,
        };
        posterior.average(blocks.len(), freedom);
        posterior.means = posterior.average_means()?;
        Some(posterior)
    }

    /// The mean of each configuration's logarithm, apart from blocks: only differences have a meaning.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// Returns the probability that no configuration differs from another, given even odds beforehand.
    pub fn nothing_differs(&self) -> f64 {
        self.nothing_differs
    }

    /// Returns the number of trials of a configuration.
    pub fn trials_of(&self, cell: usize) -> usize {
        self.by_cell[cell].len()
    }

    /// Fills the grid.
    fn average(&mut self, blocks: usize, freedom: f64) {
        let mut found: Vec<(f64, Point)> = Vec::new();
        let (with_axes, with_pairs) = (self.cells.levels() > 0, self.cells.pairs() > 0);
        let mut prior_total = 0.0;
        for largest in LARGEST {
            for share in if with_axes { &SHARES[..] } else { &[1.0] } {
                let sums = Sums::new(self, blocks, (largest * share).powi(2));
                for pairs in if with_pairs { &SHARES[..] } else { &[1.0] } {
                    let of_share =
                        |share: f64, varies: bool| if varies { prior(share, SHARE_SCALE) } else { 1.0 };
                    let prior = prior(largest, LARGEST_SCALE)
                        * of_share(*share, with_axes)
                        * of_share(*pairs, with_pairs);
                    prior_total += prior;
                    let variances = (largest * largest, (largest * pairs).powi(2));
                    let point = sums.point(&self.cells, variances, freedom);
                    found.extend(point.map(|(log, point)| (log + prior.ln(), point)));
                }
            }
        }
        let best = found.iter().map(|(log, _)| *log).fold(f64::NEG_INFINITY, f64::max);
        let evidence: f64 = found.iter().map(|(log, _)| (log - best).exp()).sum::<f64>() / prior_total;
        let null = Sums::new(self, blocks, NOTHING * NOTHING);
        let null = null.point(&self.cells, (NOTHING * NOTHING, NOTHING * NOTHING), freedom);
        let null = null.map_or(0.0, |(log, _)| (log - best).exp());
        self.nothing_differs = null / (null + evidence);
        found.retain(|(log, _)| log - best > LEAST_WEIGHT.ln());
        let total: f64 = found.iter().map(|(log, _)| (log - best).exp()).sum();
        let weighed = |(log, point): (f64, Point)| Point { weight: (log - best).exp() / total, ..point };
        self.points = found.into_iter().map(weighed).collect();
    }

    fn average_means(&self) -> Option<Vec<f64>> {
        let mut means = vec![0.0; self.cells.count()];
        for point in &self.points {
            let own = self.configurations(point, &point.effects, |_| 0.0);
            means.iter_mut().zip(own).for_each(|(mean, own)| *mean += point.weight * own);
        }
        means.iter().all(|mean| mean.is_finite()).then_some(means).filter(|_| !self.points.is_empty())
    }

    /// Returns the value that effects predict for a configuration.
    fn predicted(&self, cell: usize, effects: &[f64]) -> f64 {
        self.cells.of(cell).iter().map(|column| effects[*column]).sum()
    }

    /// Each configuration for given effects: what they predict and its deviation, to which `noise` adds,
    /// given the variance of the deviation in units of the noise.
    fn configurations(&self, point: &Point, effects: &[f64], mut noise: impl FnMut(f64) -> f64) -> Vec<f64> {
        let of = |cell: usize| {
            let predicted = self.predicted(cell, effects);
            let own = &self.by_cell[cell];
            let block = |index: &usize| effects[self.cells.all() + self.trials[*index].block];
            let left: f64 =
                own.iter().map(|index| self.trials[*index].value - block(index) - predicted).sum();
            let shrunk = point.deviation / (1.0 + own.len() as f64 * point.deviation);
            predicted + shrunk * left + noise(shrunk)
        };
        (0..self.cells.count()).map(of).collect()
    }

    /// Draws from the posterior. The same seed gives the same draws.
    pub fn draws(&self, count: usize, seed: u64) -> Draws {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut checks = Checks::default();
        let mut drawn = Vec::with_capacity(count);
        for _ in 0..count {
            let Ok(point) = self.points.choose_weighted(&mut random, |point| point.weight) else { break };
            let chi: f64 = ChiSquared::new(point.freedom).map_or(1.0, |chi| chi.sample(&mut random));
            let sigma = (point.residual / chi).sqrt();
            let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
            let mut effects: Vec<f64> = point.effects.iter().map(|_| normal()).collect();
            point.precision.unscale(&mut effects);
            effects.iter_mut().zip(&point.effects).for_each(|(own, mean)| *own = mean + *own * sigma);
            let cells = self.configurations(point, &effects, |share| normal() * sigma * share.sqrt());
            let noise = self.trials.iter().map(|trial| {
                (trial.value - cells[trial.cell] - effects[self.cells.all() + trial.block]) / sigma
            });
            let spread = sigma * point.deviation.sqrt();
            let deviation = |cell: usize| (cells[cell] - self.predicted(cell, &effects)) / spread;
            let measured = (0..cells.len()).filter(|cell| !self.by_cell[*cell].is_empty());
            checks.add(noise, measured.map(deviation), normal);
            drawn.push(cells);
        }
        let measured = self.by_cell.iter().map(|own| !own.is_empty()).collect();
        Draws::new(drawn, measured, checks.doubts())
    }
}

/// Half-Cauchy, as a density of the logarithm: the grid is about even in it.
fn prior(deviation: f64, scale: f64) -> f64 {
    deviation / (1.0 + (deviation / scale).powi(2))
}

/// The quantities that depend only on the trials and the variance of deviations.
struct Sums {
    deviation: f64,
    /// X' H^-1 X, H the covariance of deviations and noise; its lower triangle is not complete.
    design: Square,
    /// X' H^-1 y.
    response: Vec<f64>,
    /// y' H^-1 y.
    square: f64,
    /// ln |H|.
    log_determinant: f64,
}

impl Sums {
    fn new(posterior: &Posterior, blocks: usize, deviation: f64) -> Sums {
        let Posterior { cells, trials, by_cell, .. } = posterior;
        let columns = cells.all() + blocks;
        let mut design = Square::zero(columns);
        let mut response = vec![0.0; columns];
        let (mut square, mut log_determinant) = (0.0, 0.0);
        for (cell, own) in by_cell.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
            let count = own.len() as f64;
            // H^-1 of a configuration with n trials is 1 - rho 11', by Sherman and Morrison.
            let shrunk = 1.0 / (1.0 + count * deviation);
            let rho = deviation * shrunk;
            let sum: f64 = own.iter().map(|index| trials[*index].value).sum();
            let features = cells.of(cell);
            for one in features {
                features.iter().for_each(|other| *design.at(*one, *other) += count * shrunk);
                response[*one] += sum * shrunk;
            }
            for trial in own.iter().map(|index| trials[*index]) {
                let at = cells.all() + trial.block;
                for one in features {
                    *design.at(*one, at) += shrunk;
                }
                *design.at(at, at) += 1.0;
                for other in own {
                    *design.at(at, cells.all() + trials[*other].block) -= rho;
                }
                response[at] += trial.value - rho * sum;
                square += trial.value * trial.value;
            }
            square -= rho * sum * sum;
            log_determinant += (count * deviation).ln_1p();
        }
        Sums { deviation, design, response, square, log_determinant }
    }

    /// The point of the grid with these variances of levels and pairs, and the logarithm of the probability
    /// of the trials under it; `None` where the arithmetic has no solution.
    fn point(&self, cells: &Cells, (levels, pairs): (f64, f64), freedom: f64) -> Option<(f64, Point)> {
        let mut precision = self.design.clone();
        for column in 0..cells.all() {
            *precision.at(column, column) += 1.0 / if column < cells.levels() { levels } else { pairs };
        }
        let precision = Cholesky::of(precision)?;
        let effects = precision.solve(&self.response);
        let explained: f64 = self.response.iter().zip(&effects).map(|(sum, effect)| sum * effect).sum();
        // Trials that agree to the last digit leave no noise to compare with.
        let least = 1e-14 * self.square.max(1e-14);
        let residual = (self.square - explained).max(least);
        let prior = cells.levels() as f64 * levels.ln() + cells.pairs() as f64 * pairs.ln();
        let log =
            -0.5 * (self.log_determinant + prior + precision.ln_determinant() + freedom * residual.ln());
        let point = Point { weight: 0.0, deviation: self.deviation, precision, effects, residual, freedom };
        log.is_finite().then_some((log, point))
    }
}

#[cfg(test)]
mod tests;
