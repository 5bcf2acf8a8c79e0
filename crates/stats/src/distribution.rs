//! Latency distributions: HdrHistogram in its V2 compressed form, merged over trials.
//!
//! The format is described at <https://github.com/HdrHistogram/HdrHistogram>; in text it is base64, as in
//! HdrHistogram's log files. The histograms of several trials add up exactly to the histogram of all their
//! operations.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    DeserializeError, Deserializer, Serializer, V2DeflateSerializeError, V2DeflateSerializer,
};
use std::io::Read;

/// The start of the compressed form; the number of compressed bytes follows.
const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
/// Bytes before the counts: cookie, length of the counts, offset, digits, lowest and highest value, ratio.
const HEADER: usize = 40;
/// Maximum size of the counts in bytes. All values to [`DIGITS`] digits in the longest encoding take half of
/// that.
const COUNTS_MAX: u32 = 1 << 20;
/// Significant digits of a value; more would waste memory.
const DIGITS: u32 = 3;

/// Why a distribution could not be read, merged or written.
#[derive(Debug, thiserror::Error)]
pub enum DistributionError {
    /// The text is not base64.
    #[error("histogram is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are not a histogram.
    #[error("histogram is not in the V2 compressed form of HdrHistogram")]
    Format(#[source] DeserializeError),
    /// The histogram contains values that the other cannot hold.
    #[error("histograms cover different ranges")]
    Range(#[source] hdrhistogram::errors::AdditionError),
    /// The histogram could not be encoded.
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
    /// Number of values in that share.
    pub count: u64,
}

impl Distribution {
    /// An empty distribution.
    pub fn empty() -> Self {
        Self::up_to(i64::MAX as u64)
    }

    /// An empty distribution in which longer operations count as `longest_ns`, which is at least 2.
    pub fn up_to(longest_ns: u64) -> Self {
        let histogram =
            Histogram::new_with_bounds(1, longest_ns.max(2), 3).expect("3 digits are within 0 to 5");
        Distribution { histogram }
    }

    /// Decodes base64 of the V2 compressed form.
    ///
    /// # Errors
    /// [`DistributionError::Base64`] and [`DistributionError::Format`].
    pub fn decode(text: &str) -> Result<Self, DistributionError> {
        Self::from_bytes(&BASE64_STANDARD.decode(text)?)
    }

    /// Decodes the V2 compressed form itself.
    ///
    /// # Errors
    /// [`DistributionError::Format`].
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, DistributionError> {
        check_size(bytes).map_err(DistributionError::Format)?;
        let mut histogram: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes).map_err(DistributionError::Format)?;
        histogram.auto(true);
        Ok(Distribution { histogram })
    }

    /// Encodes it as base64 of the V2 compressed form.
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

    /// Adds several operations with the same latency.
    pub fn record_n(&mut self, value_ns: u64, times: u64) {
        self.histogram.saturating_record_n(value_ns, times);
    }

    /// Adds all operations of another distribution.
    ///
    /// # Errors
    /// [`DistributionError::Range`] if this one cannot grow far enough.
    pub fn merge(&mut self, other: &Distribution) -> Result<(), DistributionError> {
        self.histogram.add(&other.histogram).map_err(DistributionError::Range)
    }

    /// The number of operations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that a share of the operations, 0 to 1, does not exceed; `None` if the distribution is
    /// empty.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        (!self.histogram.is_empty()).then(|| self.histogram.value_at_quantile(share))
    }

    /// The percentile curve: one point for every latency that occurs, in ascending order.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let total = self.count() as f64;
        let mut count = 0;
        let points = self.histogram.iter_recorded().map(|step| {
            count = step.count_at_value().saturating_add(count);
            CurvePoint { quantile: count as f64 / total, value_ns: step.value_iterated_to(), count }
        });
        points.collect()
    }
}

/// Rejects a histogram that claims to be larger than any of ours. The `hdrhistogram` crate trusts the header
/// and allocates memory before it looks at the counts: 60 bytes could make it allocate 4 GiB.
fn check_size(bytes: &[u8]) -> Result<(), DeserializeError> {
    let mut header = [0; HEADER];
    match bytes.strip_prefix(&COMPRESSED) {
        Some(rest) => ZlibDecoder::new(rest.get(4..).unwrap_or_default()).read_exact(&mut header),
        None => (&mut &*bytes).read_exact(&mut header),
    }
    .map_err(DeserializeError::IoError)?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    match word(4) <= COUNTS_MAX && word(12) <= DIGITS {
        true => Ok(()),
        false => Err(DeserializeError::InvalidParameters),
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

    /// Written by HdrHistogram's Python port (hdrhistogram 0.10.8): `HdrHistogram(1, 3600000000000, 3)`,
    /// values `1000 * k` for k from 1 to 1000 and once `2_000_000_000`, `encode()`.
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
    fn data_other_than_a_histogram_is_rejected() {
        assert!(matches!(Distribution::decode("not base64!"), Err(DistributionError::Base64(_))));
        assert!(matches!(Distribution::decode("AAAA"), Err(DistributionError::Format(_))));
        assert!(matches!(Distribution::decode(""), Err(DistributionError::Format(_))));
        assert!(matches!(Distribution::decode(&FROM_PYTHON[..40]), Err(DistributionError::Format(_))));
    }

    /// A few bytes that claimed 4 GiB of counts, or 5 digits, made the decoder allocate that much memory.
    #[test]
    fn a_histogram_that_claims_to_be_large_is_rejected() {
        let header = |length: u32, digits: u32| {
            let words = [0x1c84_9313, length, 0, digits];
            let bytes = words.iter().flat_map(|word: &u32| word.to_be_bytes());
            let bounds = [1_u64.to_be_bytes(), (i64::MAX as u64).to_be_bytes(), 1_f64.to_be_bytes()];
            bytes.chain(bounds.concat()).collect::<Vec<u8>>()
        };
        assert_eq!(Distribution::from_bytes(&header(0, 3)).unwrap().count(), 0);
        for (length, digits) in [(u32::MAX, 3), (COUNTS_MAX + 1, 3), (0, 5)] {
            let plain = header(length, digits);
            let mut encoder = flate2::read::ZlibEncoder::new(plain.as_slice(), flate2::Compression::best());
            let mut compressed = [COMPRESSED, [0; 4]].concat();
            encoder.read_to_end(&mut compressed).unwrap();
            let size = u32::try_from(compressed.len() - 8).unwrap();
            compressed[4..8].copy_from_slice(&size.to_be_bytes());
            for bytes in [plain, compressed] {
                let error = Distribution::from_bytes(&bytes).unwrap_err();
                assert!(matches!(error, DistributionError::Format(DeserializeError::InvalidParameters)));
            }
        }
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
