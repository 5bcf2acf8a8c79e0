//! Numbers as versions of fio print them: whole ones, decimals, and either within quotes.

use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// A number that was read.
enum Number {
    Whole(u64),
    Decimal(f64),
}

struct AnyNumber;

impl Visitor<'_> for AnyNumber {
    type Value = Option<Number>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(Number::Whole(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(Number::Decimal(value as f64)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(Number::Decimal(value)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let whole = text.trim().parse().map(Number::Whole);
        let decimal = |_| text.trim().parse().map(Number::Decimal);
        whole.or_else(decimal).map(Some).map_err(|_| E::invalid_type(serde::de::Unexpected::Str(text), &self))
    }

    /// Returns `None` for a value that was not a number, for example a mean of nothing.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// A number that may be absent.
pub(super) fn decimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(deserializer.deserialize_any(AnyNumber)?.map(|number| match number {
        Number::Whole(whole) => whole as f64,
        Number::Decimal(decimal) => decimal,
    }))
}

/// A whole number that is not negative and may be absent. Decimals are rounded.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match deserializer.deserialize_any(AnyNumber)? {
        None => Ok(None),
        Some(Number::Whole(whole)) => Ok(Some(whole)),
        Some(Number::Decimal(decimal)) if decimal >= 0.0 && decimal <= u64::MAX as f64 => {
            Ok(Some(decimal.round() as u64))
        }
        Some(Number::Decimal(decimal)) => {
            Err(D::Error::custom(format!("invalid value: {decimal}, expected a whole number from 0")))
        }
    }
}
