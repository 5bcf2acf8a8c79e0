//! The standard normal distribution.

use statrs::distribution::{ContinuousCDF, Normal};

/// Returns the probability of a value of at most `value`.
pub(crate) fn cdf(value: f64) -> f64 {
    Normal::standard().cdf(value)
}

/// Returns the value that this share of all is at most, 0 to 1.
pub(crate) fn quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By SciPy 1.17: `norm.cdf([-8, -1.96, 0, 3])`, `norm.ppf([0.975, 1e-9])`.
    #[test]
    fn values_are_those_of_scipy() {
        for (value, below) in [
            (-8.0, 6.220_960_574_271_74e-16),
            (-1.96, 0.024997895148220435),
            (0.0, 0.5),
            (3.0, 0.9986501019683699),
        ] {
            assert!((cdf(value) / below - 1.0).abs() < 1e-10, "{value}: {}", cdf(value));
        }
        for (share, value) in [(0.975, 1.959963984540054), (1e-9, -5.9978070150076865)] {
            assert!((quantile(share) / value - 1.0).abs() < 1e-9, "{share}: {}", quantile(share));
        }
    }
}
