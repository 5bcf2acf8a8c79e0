//! Configurations as the posterior draws them: probabilities and bounds are shares and quantiles of draws.

use super::check::Doubts;

/// Draws from a posterior.
#[derive(Debug, Clone)]
pub struct Draws {
    /// For each draw, the logarithm of each configuration.
    drawn: Vec<Vec<f64>>,
    /// For each configuration, `true` if it has trials.
    measured: Vec<bool>,
    doubts: Doubts,
}

impl Draws {
    pub(crate) fn new(drawn: Vec<Vec<f64>>, measured: Vec<bool>, doubts: Doubts) -> Draws {
        Draws { drawn, measured, doubts }
    }

    /// Returns the findings of the check.
    pub fn doubts(&self) -> Doubts {
        self.doubts
    }

    /// The regret bound of a pick: with this probability, no configuration that was measured is better by
    /// more than this, as a difference of logarithms. Widened if the check found something.
    pub fn bound(&self, pick: usize, probability: f64) -> f64 {
        let regret = |cells: &Vec<f64>| {
            let measured = cells.iter().zip(&self.measured).filter(|(_, measured)| **measured);
            (measured.map(|(cell, _)| *cell).fold(f64::NEG_INFINITY, f64::max) - cells[pick]).max(0.0)
        };
        self.quantile(probability, regret) * self.doubts.widening
    }

    /// The probability that a configuration is worse than another by at most this difference of logarithms.
    pub fn probability_within(&self, cell: usize, other: usize, difference: f64) -> f64 {
        let such = self.drawn.iter().filter(|cells| cells[cell] >= cells[other] - difference).count();
        such as f64 / self.drawn.len().max(1) as f64
    }

    fn quantile(&self, probability: f64, of: impl Fn(&Vec<f64>) -> f64) -> f64 {
        let mut values: Vec<f64> = self.drawn.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = (probability * values.len() as f64).ceil() as usize;
        values.get(at.clamp(1, values.len().max(1)) - 1).copied().unwrap_or(f64::INFINITY)
    }
}
