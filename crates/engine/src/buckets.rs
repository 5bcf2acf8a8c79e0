//! The buckets of an HdrHistogram with 3 significant digits, from 1 ns to over an hour, computed in a handful
//! of instructions.
//!
//! A worker counts into a flat array while it runs; afterwards the array becomes a real [`Histogram`], which
//! provides quantiles, merging and its serial form. The boundaries are those of the HdrHistogram
//! specification for a lowest discernible value of 1 and 2048 sub-buckets; a test compares them with the
//! crate.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// log2 of the sub-buckets that 3 significant digits take.
const SUB_BUCKET_BITS: u32 = 11;
/// log2 of the largest value.
const VALUE_BITS: u32 = fsdyno_core::figures::LATENCY_BITS;
/// Largest value that has a bucket of its own; longer ones are counted in the last bucket.
pub(crate) const LARGEST_NS: u64 = (1 << VALUE_BITS) - 1;
/// The number of buckets.
pub(crate) const COUNT: usize = ((VALUE_BITS - SUB_BUCKET_BITS + 2) << (SUB_BUCKET_BITS - 1)) as usize;

const SIGNIFICANT_DIGITS: u8 = 3;

/// The bucket of a value.
#[inline(always)]
pub(crate) fn index(value_ns: u64) -> usize {
    let value = value_ns.min(LARGEST_NS);
    let magnitude = (u64::BITS - SUB_BUCKET_BITS) - (value | ((1 << SUB_BUCKET_BITS) - 1)).leading_zeros();
    ((u64::from(magnitude) << (SUB_BUCKET_BITS - 1)) + (value >> magnitude)) as usize
}

/// The smallest value of a bucket.
pub(crate) fn lowest_value(index: usize) -> u64 {
    let half = 1 << (SUB_BUCKET_BITS - 1);
    let magnitude = (index as u64 / half).saturating_sub(1);
    (index as u64 - magnitude * half) << magnitude
}

/// A histogram without values.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LARGEST_NS, SIGNIFICANT_DIGITS).expect("the bounds are valid constants")
}

/// The V2 compressed form, in base64.
pub(crate) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail, and 33 thousand counts are far below what the format can hold.
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a histogram fits into memory");
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn equals_the_crate(value: u64) {
        let histogram = histogram();
        let index = index(value);
        assert!(index < COUNT);
        let lowest = lowest_value(index);
        assert_eq!(lowest, histogram.lowest_equivalent(value), "value {value}");
        if index + 1 < COUNT {
            assert_eq!(lowest_value(index + 1), histogram.next_non_equivalent(value), "value {value}");
        }
    }

    #[test]
    fn boundaries_are_those_of_the_crate() {
        for bit in 0..VALUE_BITS {
            for value in [(1 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                equals_the_crate(value);
            }
        }
        equals_the_crate(LARGEST_NS);
        assert_eq!(index(LARGEST_NS), COUNT - 1);
        assert_eq!(index(u64::MAX), COUNT - 1);
        const { assert!(LARGEST_NS > 3600 * 1_000_000_000, "an hour has a bucket of its own") };
    }

    proptest! {
        #[test]
        fn any_value_falls_into_the_bucket_of_the_crate(value in 0..=LARGEST_NS) {
            equals_the_crate(value);
        }
    }
}
