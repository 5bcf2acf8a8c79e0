//! The values of a model's parameters, and where each was taken from.

use fsdyno_core::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// The way in which a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Somebody has published or measured it; the source says who.
    Published,
    /// It was chosen so that figures come out as published: those figures confirm nothing.
    Fitted,
    /// Nobody publishes it; the source says why this value is plausible.
    Assumed,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Provenance::Published => "published",
            Provenance::Fitted => "fitted",
            Provenance::Assumed => "assumed",
        })
    }
}

/// A parameter as the file of a model has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stated {
    pub value: toml::Value,
    pub basis: Provenance,
    pub source: String,
}

/// A parameter of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelParameter {
    /// Its name in the file.
    pub name: &'static str,
    /// Its meaning, with its unit.
    pub help: &'static str,
    /// Its value as a user writes it.
    pub value: String,
    /// The way in which the value is known.
    pub basis: Provenance,
    /// A data sheet, a measurement, or a reason.
    pub source: String,
}

/// A type of value.
pub(crate) trait Quantity: PartialOrd + fmt::Display + Sized {
    /// An example for messages: `a time such as '8ms'`.
    const KIND: &'static str;

    /// Returns the value that is written here, if it is one of this type.
    fn read(value: &toml::Value) -> Option<Self>;
}

impl Quantity for f64 {
    const KIND: &'static str = "a number";

    fn read(value: &toml::Value) -> Option<f64> {
        value
            .as_float()
            .or_else(|| value.as_integer().map(|number| number as f64))
            .filter(|read| read.is_finite())
    }
}

impl Quantity for u64 {
    const KIND: &'static str = "a whole number";

    fn read(value: &toml::Value) -> Option<u64> {
        u64::try_from(value.as_integer()?).ok()
    }
}

impl Quantity for Nanos {
    const KIND: &'static str = "a time such as '8ms'";

    fn read(value: &toml::Value) -> Option<Nanos> {
        value.as_str()?.parse().ok()
    }
}

impl Quantity for Bytes {
    const KIND: &'static str = "a size such as '8M'";

    fn read(value: &toml::Value) -> Option<Bytes> {
        value.as_str()?.parse().ok()
    }
}

/// Reads a value that has to be in a range; what it has to be is the error.
pub(crate) fn within<Q: Quantity>(value: &toml::Value, range: &RangeInclusive<Q>) -> Result<Q, String> {
    Q::read(value)
        .filter(|read| range.contains(read))
        .ok_or_else(|| format!("{} from {} to {}", Q::KIND, range.start(), range.end()))
}
