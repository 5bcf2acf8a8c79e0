//! Means over trials: each kind of number has the one that is right for it.

/// The way in which numbers are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeanKind {
    /// Times, counts, and rates. The weight of a rate is the time that it was measured over, so that the mean
    /// is total work over total time: the arithmetic mean of rates over equal times, the harmonic mean of
    /// rates of equal work. J. E. Smith, "Characterizing computer performance with a single number", CACM
    /// 31(10),
    /// 1988.
    Arithmetic,
    /// Ratios: the mean that does not depend on which of the two is the base. P. J. Fleming and J. J.
    /// Wallace, "How not to lie with statistics: the correct way to summarize benchmark results", CACM 29(3),
    /// 1986.
    Geometric,
}

/// A number, and how much it counts in a mean: not at all with 0, twice as much as another one with twice its
/// weight. A number alone has the weight 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighted {
    /// The number.
    pub value: f64,
    /// Its weight, positive and finite.
    pub weight: f64,
}

impl From<f64> for Weighted {
    fn from(value: f64) -> Self {
        Weighted { value, weight: 1.0 }
    }
}

impl MeanKind {
    /// The scale on which this mean is an arithmetic one.
    pub(crate) fn scaled(self, value: f64) -> f64 {
        match self {
            MeanKind::Arithmetic => value,
            MeanKind::Geometric => value.ln(),
        }
    }

    /// The inverse of [`MeanKind::scaled`].
    pub(crate) fn unscaled(self, value: f64) -> f64 {
        match self {
            MeanKind::Arithmetic => value,
            MeanKind::Geometric => value.exp(),
        }
    }

    /// Returns whether this mean is defined for these numbers: all finite, their weights positive, and none
    /// negative if it is geometric.
    fn accepts(self, values: &[Weighted]) -> bool {
        let signed = self == MeanKind::Arithmetic;
        values.iter().all(|Weighted { value, weight }| {
            value.is_finite() && weight.is_finite() && *weight > 0.0 && (signed || *value >= 0.0)
        })
    }
}

/// The mean of some numbers; `None` if there are none, or if this kind of mean is not defined for them (a
/// number that is not finite; a weight that is not positive; a negative number for the geometric mean).
///
/// A zero makes the geometric mean zero, which is its limit. The result never leaves the range of the
/// numbers, so the mean of equal numbers is exactly that number.
pub fn mean<T: Copy + Into<Weighted>>(values: &[T], kind: MeanKind) -> Option<f64> {
    let values: Vec<Weighted> = values.iter().map(|value| (*value).into()).collect();
    if values.is_empty() || !kind.accepts(&values) {
        return None;
    }
    if kind == MeanKind::Geometric && values.iter().any(|one| one.value == 0.0) {
        return Some(0.0);
    }
    let low = values.iter().map(|one| one.value).fold(f64::INFINITY, f64::min);
    let high = values.iter().map(|one| one.value).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = values.iter().map(|one| one.weight * kind.scaled(one.value)).sum();
    let weights: f64 = values.iter().map(|one| one.weight).sum();
    Some(kind.unscaled(sum / weights).clamp(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rates of equal work: the time that each took.
    fn of_equal_work(rates: &[f64]) -> Vec<Weighted> {
        rates.iter().map(|rate| Weighted { value: *rate, weight: 7.0 / rate }).collect()
    }

    /// Vectors from SciPy 1.17.1: `numpy.mean`, `scipy.stats.gmean`, `scipy.stats.hmean` of
    /// `[62.1, 48.7, 55.3, 71.9]`.
    #[test]
    fn means_agree_with_scipy() {
        let values = [62.1, 48.7, 55.3, 71.9];
        let close = |mean: Option<f64>, expected: f64| {
            let mean = mean.unwrap();
            assert!((mean - expected).abs() < 1e-12 * expected, "{mean} is not {expected}");
        };
        close(mean(&values, MeanKind::Arithmetic), 59.5);
        close(mean(&values, MeanKind::Geometric), 58.886893700050976);
        close(mean(&of_equal_work(&values), MeanKind::Arithmetic), 58.28496861636016);
    }

    #[test]
    fn a_trial_that_moved_nothing_counts_by_its_time() {
        assert_eq!(mean(&[0.0, 100.0], MeanKind::Geometric), Some(0.0));
        assert_eq!(mean(&[0.0, 100.0], MeanKind::Arithmetic), Some(50.0));
        let stalled = Weighted { value: 0.0, weight: 3.0 };
        assert_eq!(mean(&[stalled, 100.0.into()], MeanKind::Arithmetic), Some(25.0));
    }

    #[test]
    fn some_numbers_have_no_mean() {
        assert_eq!(mean::<f64>(&[], MeanKind::Arithmetic), None);
        assert_eq!(mean(&[1.0, f64::NAN], MeanKind::Arithmetic), None);
        assert_eq!(mean(&[1.0, -1.0], MeanKind::Geometric), None);
        assert_eq!(mean(&[1.0, -1.0], MeanKind::Arithmetic), Some(0.0));
        for weight in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            assert_eq!(mean(&[Weighted { value: 1.0, weight }], MeanKind::Arithmetic), None, "{weight}");
        }
    }

    proptest! {
        /// The inequality of the means.
        #[test]
        fn harmonic_is_at_most_geometric_is_at_most_arithmetic(values in prop::collection::vec(1e-3..1e12, 1..20)) {
            let slack = 1.0 + 1e-12;
            let harmonic = mean(&of_equal_work(&values), MeanKind::Arithmetic).unwrap();
            let geometric = mean(&values, MeanKind::Geometric).unwrap();
            prop_assert!(harmonic <= geometric * slack);
            prop_assert!(geometric <= mean(&values, MeanKind::Arithmetic).unwrap() * slack);
        }

        /// Total work over total time.
        #[test]
        fn a_mean_of_rates_is_total_work_over_total_time(
            trials in prop::collection::vec((1.0..1e9, 1e-3..1e6), 1..20),
        ) {
            let rates: Vec<Weighted> =
                trials.iter().map(|(work, time)| Weighted { value: work / time, weight: *time }).collect();
            let work: f64 = trials.iter().map(|(work, _)| work).sum();
            let time: f64 = trials.iter().map(|(_, time)| time).sum();
            let mean = mean(&rates, MeanKind::Arithmetic).unwrap();
            prop_assert!((mean / (work / time) - 1.0).abs() < 1e-9);
        }

        #[test]
        fn equal_numbers_are_their_own_mean(value in 1e-6..1e15, count in 1usize..40) {
            for kind in [MeanKind::Arithmetic, MeanKind::Geometric] {
                prop_assert_eq!(mean(&vec![value; count], kind), Some(value));
            }
        }
    }
}
