//! A check of whether the trials look as the model predicts.
//!
//! Posterior predictive checks with discrepancies that depend on the parameters (A. Gelman, X.-L. Meng and
//! H. Stern, "Posterior predictive assessment of model fitness via realized discrepancies", Statistica Sinica
//! 6, 1996): for each draw, the largest and the fourth moment of the noise, and of the deviations of
//! configurations, are compared with those of as many numbers that are really normal. Outliers are what makes
//! a bound from a normal model too narrow.

/// The check of a discrepancy fails if so few of the predicted ones are as large.
const ALPHA: f64 = 0.01;
/// The minimum factor by which a bound is widened if a check fails.
const LEAST_WIDENING: f64 = 1.5;

/// The findings of the check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubts {
    /// `true` if the noise has outliers that the model does not expect.
    pub noise: bool,
    /// `true` if configurations deviate from what their levels predict in a way that the model does not
    /// expect.
    pub deviations: bool,
    /// The factor by which the regret bound is multiplied: 1 without doubts.
    pub widening: f64,
}

impl Doubts {
    /// Returns whether there is any doubt.
    pub fn any(&self) -> bool {
        self.noise || self.deviations
    }
}

/// Discrepancies over the draws so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    noise: Discrepancies,
    deviations: Discrepancies,
}

/// Pairs of what was found and what was predicted.
#[derive(Debug, Default)]
struct Discrepancies {
    largest: Vec<(f64, f64)>,
    fourth: Vec<(f64, f64)>,
}

impl Checks {
    /// Adds a draw: standardised noise and deviations, compared with as many from `normal`.
    pub fn add(
        &mut self,
        noise: impl Iterator<Item = f64>,
        deviations: impl Iterator<Item = f64>,
        mut normal: impl FnMut() -> f64,
    ) {
        self.noise.add(noise, &mut normal);
        self.deviations.add(deviations, &mut normal);
    }

    pub fn doubts(&self) -> Doubts {
        let [noise, deviations] = [&self.noise, &self.deviations].map(Discrepancies::fail);
        let ratio = |fails: bool, of: &Discrepancies| if fails { of.ratio() } else { 1.0 };
        let widest = ratio(noise, &self.noise).max(ratio(deviations, &self.deviations));
        let widening = if noise || deviations { widest.max(LEAST_WIDENING) } else { 1.0 };
        Doubts { noise, deviations, widening }
    }
}

impl Discrepancies {
    fn add(&mut self, found: impl Iterator<Item = f64>, normal: &mut impl FnMut() -> f64) {
        let (mut largest, mut fourth) = ((0.0_f64, 0.0_f64), (0.0, 0.0));
        for value in found {
            let predicted = normal();
            largest = (largest.0.max(value.abs()), largest.1.max(predicted.abs()));
            fourth = (fourth.0 + value.powi(4), fourth.1 + predicted.powi(4));
        }
        self.largest.push(largest);
        self.fourth.push(fourth);
    }

    fn fail(&self) -> bool {
        let share = |pairs: &[(f64, f64)]| {
            let such = pairs.iter().filter(|(found, predicted)| predicted >= found).count();
            (such + 1) as f64 / (pairs.len() + 1) as f64
        };
        share(&self.largest) < ALPHA || share(&self.fourth) < ALPHA
    }

    /// Returns the median ratio of the largest discrepancy to the predicted one.
    fn ratio(&self) -> f64 {
        let mut ratios: Vec<f64> =
            self.largest.iter().map(|(found, predicted)| found / predicted.max(f64::MIN_POSITIVE)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
    }
}
