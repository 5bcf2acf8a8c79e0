//! Latency distributions and the quantiles that are kept from them.

use crate::quantile::Quantile;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Index, IndexMut};

/// The value of each [`Quantile`] in nanoseconds, with three digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quantiles([u64; Quantile::ALL.len()]);

impl Quantiles {
    /// The quantiles as a function computes them.
    pub fn of(value_ns: impl Fn(Quantile) -> u64) -> Self {
        let mut quantiles = Quantiles::default();
        for quantile in Quantile::ALL {
            quantiles[*quantile] = value_ns(*quantile);
        }
        quantiles
    }
}

impl Index<Quantile> for Quantiles {
    type Output = u64;

    fn index(&self, quantile: Quantile) -> &u64 {
        &self.0[quantile as usize]
    }
}

impl IndexMut<Quantile> for Quantiles {
    fn index_mut(&mut self, quantile: Quantile) -> &mut u64 {
        &mut self.0[quantile as usize]
    }
}

/// A latency distribution in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Read")]
pub struct Latency {
    /// Sample size.
    pub count: u64,
    /// Exact.
    pub min: u64,
    /// Exact, or the longest time seen so far if [`Latency::is_bound`]. An operation that covered the whole
    /// window counts here, although it is not part of the sample.
    pub max: u64,
    /// Exact.
    pub mean: f64,
    /// Exact; the standard deviation of the population.
    pub stddev: f64,
    /// From the histogram, 3 digits. One that is unknown is 0 ([`Latency::known`]).
    pub quantiles: Quantiles,
    /// Values from this one upwards are lower bounds, because they depend on operations whose end was not
    /// seen.
    pub at_least_from: Option<u64>,
}

impl Latency {
    /// From the histogram, 3 digits.
    pub fn median(&self) -> u64 {
        self.quantiles[Quantile::P50]
    }

    /// A quantile, if it is known. A result from elsewhere may lack some; the stored value is then 0,
    /// although the maximum is not. The median is always known, and may be rounded to 0.
    pub fn known(&self, quantile: Quantile) -> Option<u64> {
        let value_ns = self.quantiles[quantile];
        (value_ns > 0 || self.max == 0 || quantile == Quantile::P50).then_some(value_ns)
    }

    /// A quantile, if it is known and the sample can show it: at least one operation must lie beyond it, so
    /// that p99.99 takes 10,000. With fewer it is the maximum under another name. The median is always shown.
    pub fn shown(&self, quantile: Quantile) -> Option<u64> {
        self.known(quantile).filter(|_| self.count >= Self::least(quantile))
    }

    /// The smallest number of operations that shows a quantile.
    pub fn least(quantile: Quantile) -> u64 {
        match quantile {
            Quantile::P50 => 0,
            _ => (1.0 / (1.0 - quantile.fraction())).round() as u64,
        }
    }

    /// Returns whether a statistic with this value is only a lower bound, printed with `>=`.
    pub fn is_bound(&self, value_ns: u64) -> bool {
        self.at_least_from.is_some_and(|bound_ns| value_ns >= bound_ns)
    }
}

/// Has the structure of fio's `lat_ns`, so that parsers written for fio work: `percentile` contains the known
/// quantiles, and `median` the one that fio also has there.
impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Latency { count, min, max, mean, stddev, quantiles: _, at_least_from } = self;
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("N", count)?;
        map.serialize_entry("min", min)?;
        map.serialize_entry("max", max)?;
        map.serialize_entry("mean", mean)?;
        map.serialize_entry("stddev", stddev)?;
        map.serialize_entry("median", &self.median())?;
        map.serialize_entry("percentile", &Known(self))?;
        map.serialize_entry("at_least_from", at_least_from)?;
        map.end()
    }
}

/// The quantiles that are known, by name.
struct Known<'a>(&'a Latency);

impl Serialize for Known<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            Quantile::ALL.iter().filter_map(|quantile| Some((quantile.name(), self.0.known(*quantile)?))),
        )
    }
}

/// The document from which a [`Latency`] is read.
#[derive(Deserialize)]
struct Read {
    #[serde(rename = "N")]
    count: u64,
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "percentile")]
    quantiles: Quantiles,
    at_least_from: Option<u64>,
}

impl From<Read> for Latency {
    fn from(read: Read) -> Self {
        let Read { count, min, max, mean, stddev, quantiles, at_least_from } = read;
        let mut latency = Latency { count, min, max, mean, stddev, quantiles, at_least_from };
        // Unknown quantiles are all stored the same way, so that writing the result again changes nothing.
        latency.quantiles = Quantiles::of(|quantile| latency.known(quantile).unwrap_or(0));
        latency
    }
}

/// Quantiles of another release are ignored; absent ones are unknown.
impl<'de> Deserialize<'de> for Quantiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByName;

        impl<'de> Visitor<'de> for ByName {
            type Value = Quantiles;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("quantiles by percentage")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Quantiles, A::Error> {
                let mut quantiles = Quantiles::default();
                while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    match Quantile::named(&name) {
                        Some(quantile) => quantiles[quantile] = map.next_value()?,
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(quantiles)
            }
        }

        deserializer.deserialize_map(ByName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_label_and_fraction_agree() {
        assert!(Quantile::ALL.is_sorted_by(|a, b| a.fraction() < b.fraction()));
        for quantile in Quantile::ALL {
            let percent: f64 = quantile.label().strip_prefix('p').unwrap().parse().unwrap();
            assert_eq!(quantile.name(), format!("{percent:.6}"));
            assert!((quantile.fraction() - percent / 100.0).abs() < 1e-12, "{quantile}");
        }
    }

    #[test]
    fn a_quantile_is_shown_if_an_operation_lies_beyond_it() {
        let shown = |count| {
            let latency = Latency { count, max: 9, quantiles: Quantiles::of(|_| 9), ..Latency::default() };
            Quantile::ALL.iter().copied().rfind(|of| latency.shown(*of).is_some())
        };
        let last = [1, 9, 10, 99, 100, 999, 1_000, 9_999, 10_000].map(|count| shown(count).unwrap().label());
        assert_eq!(last, ["p50", "p50", "p90", "p90", "p99", "p99", "p99.9", "p99.9", "p99.99"]);
    }

    /// A published median may be rounded to 0.
    #[test]
    fn a_quantile_of_zero_below_a_maximum_is_unknown() {
        let rounded = Latency { max: 12_937_000, ..Latency::default() };
        let known: Vec<Quantile> =
            Quantile::ALL.iter().copied().filter(|quantile| rounded.known(*quantile).is_some()).collect();
        assert_eq!(known, [Quantile::P50]);
        assert_eq!(Latency::default().known(Quantile::P999), Some(0));
    }

    #[test]
    fn the_structure_is_that_of_fio() {
        let mut latency = Latency { count: 3, min: 1, max: 9, mean: 4.5, ..Latency::default() };
        latency.quantiles = Quantiles::of(|quantile| if quantile == Quantile::P90 { 0 } else { 5 });
        let json = r#"{"N":3,"min":1,"max":9,"mean":4.5,"stddev":0.0,"median":5,"#.to_string()
            + r#""percentile":{"50.000000":5,"99.000000":5,"99.900000":5,"99.990000":5},"at_least_from":null}"#;
        assert_eq!(serde_json::to_string(&latency).unwrap(), json);
        assert_eq!(serde_json::from_str::<Latency>(&json).unwrap(), latency);
        let later = json.replace("\"99.990000\":5", "\"99.999000\":7");
        assert_eq!(serde_json::from_str::<Latency>(&later).unwrap().known(Quantile::P9999), None);
    }
}
