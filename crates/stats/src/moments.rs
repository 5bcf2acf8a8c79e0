//! Count, mean and standard deviation of samples, and of several samples together.

/// The first moments of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// The number of values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, that of a population.
    pub stddev: f64,
}

impl Moments {
    /// The moments of all samples together: exact, for the variance of a mixture is the mean of the variances
    /// plus the variance of the means.
    pub fn pooled(samples: impl Iterator<Item = Moments> + Clone) -> Moments {
        let count = samples.clone().map(|sample| sample.count).fold(0, u64::saturating_add);
        let weighted = |of: &dyn Fn(Moments) -> f64| -> f64 {
            let samples = samples.clone().filter(|sample| sample.count > 0);
            samples.map(|sample| sample.count as f64 / count as f64 * of(sample)).sum()
        };
        let mean = weighted(&|sample| sample.mean);
        let variance = weighted(&|sample| sample.stddev.powi(2) + (sample.mean - mean).powi(2));
        Moments { count, mean, stddev: variance.sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Moments { count: values.len() as u64, mean, stddev: variance.sqrt() }
    }

    #[test]
    fn parts_have_the_moments_of_the_whole() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let parts = [of(&values[..1]), of(&values[1..6]), Moments::default(), of(&values[6..])];
        let (pooled, whole) = (Moments::pooled(parts.into_iter()), of(&values));
        assert_eq!(pooled.count, whole.count);
        assert!((pooled.mean - whole.mean).abs() < 1e-12 && (pooled.stddev - whole.stddev).abs() < 1e-12);
    }

    #[test]
    fn nothing_has_no_moments() {
        assert_eq!(Moments::pooled([].into_iter()), Moments::default());
    }
}
