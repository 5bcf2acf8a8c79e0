//! Student's t distribution, for intervals and p values of means.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The quantile of the distribution with these degrees of freedom; NaN without any.
pub(crate) fn quantile(share: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |distribution| distribution.inverse_cdf(share))
}

/// Two-sided p value of the hypothesis that a mean with this variance is 0.
pub(crate) fn p_value(mean: f64, variance: f64, freedom: f64) -> f64 {
    if variance == 0.0 {
        return if mean == 0.0 { 1.0 } else { 0.0 };
    }
    let tail = |distribution: StudentsT| distribution.cdf(-(mean / variance.sqrt()).abs());
    2.0 * StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SciPy 1.10.1: `t.ppf(0.975, f)` and `2 * t.cdf(-x, f)`.
    #[test]
    fn quantiles_and_p_values_agree_with_scipy() {
        for (freedom, expected) in QUANTILES {
            assert!(
                (quantile(0.975, freedom) / expected - 1.0).abs() < 1e-9,
                "{freedom}: {}",
                quantile(0.975, freedom)
            );
        }
        for (t, freedom, expected) in P_VALUES {
            assert!(
                (p_value(t, 1.0, freedom) / expected - 1.0).abs() < 1e-9,
                "{t} {freedom}: {}",
                p_value(t, 1.0, freedom)
            );
        }
        assert_eq!((p_value(0.0, 0.0, 3.0), p_value(1.0, 0.0, 3.0)), (1.0, 0.0));
    }

    const QUANTILES: [(f64, f64); 9] = [
        (1.0, 12.706204736432095),
        (1.7, 5.118838989314295),
        (2.0, 4.302652729911275),
        (3.0, 3.182446305284263),
        (5.0, 2.5705818366147395),
        (14.0, 2.1447866879169273),
        (33.3, 2.0338192241340525),
        (198.0, 1.9720174778338955),
        (1998.0, 1.9611520148367056),
    ];
    const P_VALUES: [(f64, f64, f64); 8] = [
        (0.3, 5.0, 0.7762490422632745),
        (2.1, 1.0, 0.282926056243018),
        (3.7, 1.6, 0.0915381889425253),
        (5.0, 14.0, 0.00019451530625726592),
        (12.0, 14.0, 9.353330739367854e-09),
        (4.5, 150.0, 1.3543608923629278e-05),
        (25.0, 199.0, 2.5848168756040225e-63),
        (2.5, 400.0, 0.012818866763431575),
    ];
}
