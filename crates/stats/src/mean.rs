//! The three means, each the right one for its kind of number.

/// How numbers are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeanKind {
    /// Times and counts.
    Arithmetic,
    /// Rates: the rate at which equal amounts of work were done. J. E. Smith, "Characterizing computer
    /// performance with a single number", CACM 31(10), 1988.
    Harmonic,
    /// Ratios: the mean that does not depend on which of the two is the base. P. J. Fleming and J. J.
    /// Wallace, "How not to lie with statistics: the correct way to summarize benchmark results", CACM 29(3),
    /// 1986.
    Geometric,
}

impl MeanKind {
    /// The scale on which this mean is an arithmetic one.
    pub(crate) fn scaled(self, value: f64) -> f64 {
        match self {
            MeanKind::Arithmetic => value,
            MeanKind::Harmonic => value.recip(),
            MeanKind::Geometric => value.ln(),
        }
    }

    /// The inverse of [`MeanKind::scaled`].
    pub(crate) fn unscaled(self, value: f64) -> f64 {
        match self {
            MeanKind::Arithmetic => value,
            MeanKind::Harmonic => value.recip(),
            MeanKind::Geometric => value.exp(),
        }
    }

    /// Whether this mean is defined for these numbers: all finite, and none negative if it is harmonic or
    /// geometric.
    pub(crate) fn accepts(self, values: &[f64]) -> bool {
        let signed = self == MeanKind::Arithmetic;
        values.iter().all(|value| value.is_finite() && (signed || *value >= 0.0))
    }
}

/// The mean of some numbers; `None` if there are none, or if this kind of mean is not defined for them (a
/// number that is not finite; a negative one for the harmonic and the geometric mean).
///
/// A zero makes the harmonic and the geometric mean zero, which is their limit: a trial that moved nothing is
/// not ignored. The result never leaves the range of the numbers, so the mean of equal numbers is exactly
/// that number.
pub fn mean(values: &[f64], kind: MeanKind) -> Option<f64> {
    if values.is_empty() || !kind.accepts(values) {
        return None;
    }
    if kind != MeanKind::Arithmetic && values.contains(&0.0) {
        return Some(0.0);
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = values.iter().map(|value| kind.scaled(*value)).sum();
    Some(kind.unscaled(sum / values.len() as f64).clamp(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Vectors from SciPy 1.17.1: `numpy.mean`, `scipy.stats.hmean`, `scipy.stats.gmean` of
    /// `[62.1, 48.7, 55.3, 71.9]`.
    #[test]
    fn means_agree_with_scipy() {
        let values = [62.1, 48.7, 55.3, 71.9];
        for (kind, expected) in [
            (MeanKind::Arithmetic, 59.5),
            (MeanKind::Harmonic, 58.28496861636016),
            (MeanKind::Geometric, 58.886893700050976),
        ] {
            let mean = mean(&values, kind).unwrap();
            assert!((mean - expected).abs() < 1e-12 * expected, "{kind:?}: {mean} is not {expected}");
        }
    }

    #[test]
    fn a_trial_that_moved_nothing_makes_the_rate_zero() {
        assert_eq!(mean(&[0.0, 100.0], MeanKind::Harmonic), Some(0.0));
        assert_eq!(mean(&[0.0, 100.0], MeanKind::Geometric), Some(0.0));
    }

    #[test]
    fn some_numbers_have_no_mean() {
        assert_eq!(mean(&[], MeanKind::Arithmetic), None);
        assert_eq!(mean(&[1.0, f64::NAN], MeanKind::Arithmetic), None);
        assert_eq!(mean(&[1.0, -1.0], MeanKind::Harmonic), None);
        assert_eq!(mean(&[1.0, -1.0], MeanKind::Arithmetic), Some(0.0));
    }

    proptest! {
        /// The inequality of the means.
        #[test]
        fn harmonic_is_at_most_geometric_is_at_most_arithmetic(values in prop::collection::vec(1e-3..1e12, 1..20)) {
            let of = |kind| mean(&values, kind).unwrap();
            let slack = 1.0 + 1e-12;
            prop_assert!(of(MeanKind::Harmonic) <= of(MeanKind::Geometric) * slack);
            prop_assert!(of(MeanKind::Geometric) <= of(MeanKind::Arithmetic) * slack);
        }

        #[test]
        fn equal_numbers_are_their_own_mean(value in 1e-6..1e15, count in 1usize..40) {
            for kind in [MeanKind::Arithmetic, MeanKind::Harmonic, MeanKind::Geometric] {
                prop_assert_eq!(mean(&vec![value; count], kind), Some(value));
            }
        }
    }
}
