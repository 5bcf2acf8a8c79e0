//! Latency distributions: HdrHistogram in its V2 compressed form, merged over trials.
//!
//! The format is described at <https://github.com/HdrHistogram/HdrHistogram>; in text it is base64, as HdrHistogram's own
//! log files have it. Histograms of several trials add up exactly to that of all their operations together.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    DeserializeError, Deserializer, Serializer, V2DeflateSerializeError, V2DeflateSerializer,
};

/// Why a distribution could not be read, merged or written.
#[derive(Debug, thiserror::Error)]
pub enum DistributionError {
    /// The text is no base64.
    #[error("histogram is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are no histogram.
    #[error("histogram is not in the V2 compressed form of HdrHistogram")]
    Format(#[source] DeserializeError),
    /// The histogram holds values that the other cannot.
    #[error("histograms cover different ranges")]
    Range(#[source] hdrhistogram::errors::AdditionError),
    /// It could not be written.
    #[error("cannot encode a histogram")]
    Encode(#[source] V2DeflateSerializeError),
}

/// A distribution of latencies in nanoseconds, to 3 digits.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    histogram: Histogram<u64>,
}

/// A point of a percentile curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Share of the sample that is at most `value_ns`, 0 to 1.
    pub quantile: f64,
    /// The latency.
    pub value_ns: u64,
    /// Size of that share of the sample.
    pub count: u64,
}

impl Distribution {
    /// An empty distribution.
    pub fn empty() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, i64::MAX as u64, 3).expect("3 digits are within 0 to 5");
        Distribution { histogram }
    }

    /// A distribution from base64 of the V2 compressed form.
    ///
    /// # Errors
    /// [`DistributionError::Base64`] and [`DistributionError::Format`].
    pub fn decode(text: &str) -> Result<Self, DistributionError> {
        Self::from_bytes(&BASE64_STANDARD.decode(text)?)
    }

    /// A distribution from the V2 compressed form itself.
    ///
    /// # Errors
    /// [`DistributionError::Format`].
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, DistributionError> {
        let mut histogram: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes).map_err(DistributionError::Format)?;
        histogram.auto(true);
        Ok(Distribution { histogram })
    }

    /// Base64 of the V2 compressed form.
    ///
    /// # Errors
    /// [`DistributionError::Encode`].
    pub fn encode(&self) -> Result<String, DistributionError> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .map_err(DistributionError::Encode)?;
        Ok(BASE64_STANDARD.encode(bytes))
    }

    /// Adds one operation.
    pub fn record(&mut self, value_ns: u64) {
        self.histogram.saturating_record(value_ns);
    }

    /// Adds all operations of another distribution.
    ///
    /// # Errors
    /// [`DistributionError::Range`] when this one cannot grow as far.
    pub fn merge(&mut self, other: &Distribution) -> Result<(), DistributionError> {
        self.histogram.add(&other.histogram).map_err(DistributionError::Range)
    }

    /// Operations in it.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that a share of the operations, 0 to 1, does not exceed; `None` when it is empty.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        (!self.histogram.is_empty()).then(|| self.histogram.value_at_quantile(share))
    }

    /// The percentile curve: one point for every latency that occurs, in rising order.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let total = self.count() as f64;
        let mut count = 0;
        let points = self.histogram.iter_recorded().map(|step| {
            count += step.count_at_value();
            CurvePoint { quantile: count as f64 / total, value_ns: step.value_iterated_to(), count }
        });
        points.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distribution(values: &[u64]) -> Distribution {
        let mut distribution = Distribution::empty();
        for value in values {
            distribution.record(*value);
        }
        distribution
    }

    /// Written by HdrHistogram's own port for Python (hdrhistogram 0.10.8): `HdrHistogram(1, 3600000000000, 3)`, values
    /// `1000 * k` for k from 1 to 1000 and once `2_000_000_000`, `encode()`.
    const FROM_PYTHON: &str = "HISTFAAAAI54nJNpmSzMwMB+ngECmKE0I5DpZrBjAYP9B4jAeX6ms/xMUzmYnrIzLWRh+sgMRcuZmL4zYkErGZmqmSrx4GwmayC0BZPk0bpM0kyyQIgg6c/nZ+Jl4gZiCESwsIsOV3l2JlYwZIbSqJB40VH9Q18/MxMjGsQQwAWJVkgLM0ctH7V8ZFi+cD0jEwAdrUCq";

    #[test]
    fn a_histogram_of_another_implementation_is_read() {
        let distribution = Distribution::decode(FROM_PYTHON).unwrap();
        assert_eq!(distribution.count(), 1001);
        let median_ns = distribution.quantile(0.5).unwrap();
        assert!((500_000..=502_000).contains(&median_ns), "{median_ns}");
        let longest_ns = distribution.quantile(1.0).unwrap();
        assert!((2_000_000_000..=2_002_000_000).contains(&longest_ns), "{longest_ns}");
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        assert!(matches!(Distribution::decode("not base64!"), Err(DistributionError::Base64(_))));
        assert!(matches!(Distribution::decode("AAAA"), Err(DistributionError::Format(_))));
        assert!(matches!(Distribution::decode(""), Err(DistributionError::Format(_))));
        assert!(matches!(Distribution::decode(&FROM_PYTHON[..40]), Err(DistributionError::Format(_))));
    }

    #[test]
    fn an_empty_distribution_has_no_quantiles() {
        assert_eq!(Distribution::empty().quantile(0.5), None);
        assert!(Distribution::empty().curve().is_empty());
    }

    proptest! {
        #[test]
        fn merged_trials_are_all_their_operations_together(
            a in prop::collection::vec(1u64..4_000_000_000_000, 0..60),
            b in prop::collection::vec(1u64..1_000_000, 0..60),
        ) {
            let mut merged = Distribution::decode(&distribution(&b).encode().unwrap()).unwrap();
            merged.merge(&distribution(&a)).unwrap();
            let together = distribution(&[a, b].concat());
            prop_assert_eq!(merged.curve(), together.curve());
            prop_assert_eq!(merged.quantile(0.99), together.quantile(0.99));
        }

        /// The rank definition: the quantile is the value of rank ceil(share * N), to 3 digits.
        #[test]
        fn quantiles_are_within_three_digits_of_the_sorted_sample(
            mut values in prop::collection::vec(1u64..4_000_000_000_000, 1..200),
            share in 0.01f64..1.0,
        ) {
            let quantile = distribution(&values).quantile(share).unwrap() as f64;
            values.sort_unstable();
            let exact = values[((share * values.len() as f64).ceil() as usize).max(1) - 1] as f64;
            prop_assert!((quantile - exact).abs() <= exact * 1e-3, "{} is not {}", quantile, exact);
        }

        #[test]
        fn the_curve_rises_to_the_whole_sample(values in prop::collection::vec(1u64..1_000_000_000, 1..100)) {
            let curve = distribution(&values).curve();
            prop_assert!(curve.is_sorted_by(|a, b| a.value_ns < b.value_ns && a.count < b.count));
            prop_assert_eq!(curve.last().map(|point| (point.quantile, point.count)), Some((1.0, values.len() as u64)));
        }
    }
}
