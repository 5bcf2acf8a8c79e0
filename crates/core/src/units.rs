//! Bytes and nanoseconds, and how a user writes them.
//!
//! Sizes are base 1024 and case-insensitive (`4k`, `64M`, `1GiB`), or a share of something (`50%`). A bare
//! duration is seconds (`30`), others carry their unit (`500ms`, `5m`). On the wire and in the store both are
//! plain integers.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a size or a duration could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a number with a size unit.
    #[error("'{0}' is not a valid size; examples: 4k, 64M, 1GiB")]
    Size(String),
    /// Not a number with a time unit.
    #[error("'{0}' is not a valid duration; examples: 500ms, 30s, 5m")]
    Duration(String),
    /// A percentage outside 0 to 100.
    #[error("'{0}' is not a percentage from 0% to 100%")]
    Percent(String),
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// 1024 bytes.
    pub const KIB: u64 = 1 << 10;
    /// 1024 KiB.
    pub const MIB: u64 = 1 << 20;
    /// 1024 MiB.
    pub const GIB: u64 = 1 << 30;
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_size::Config::new()
            .with_binary()
            .parse_size(text.trim())
            .map(Bytes)
            .map_err(|_| UnitError::Size(text.to_string()))
    }
}

/// The shortest exact form that parses back to the same number: `4k`, `64M`, `1G`, or plain bytes.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(Self::GIB << 10, "T"), (Self::GIB, "G"), (Self::MIB, "M"), (Self::KIB, "k")];
        match units.iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, suffix)) => write!(f, "{}{suffix}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A size, or a percentage of something that is known only later, such as the device or the free space.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// A number of bytes.
    Absolute(Bytes),
    /// A percentage of the whole, 0 to 100.
    Percent(f64),
}

impl Size {
    /// The number of bytes if the whole is `whole`.
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Size::Absolute(bytes) => bytes,
            Size::Percent(percent) => Bytes((whole.0 as f64 * percent / 100.0) as u64),
        }
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some(number) = text.trim().strip_suffix('%') else {
            return text.parse().map(Size::Absolute);
        };
        match number.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Size::Percent(percent)),
            _ => Err(UnitError::Percent(text.to_string())),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Absolute(bytes) => bytes.fmt(f),
            Size::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A number of nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A number of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Nanos(millis * 1_000_000)
    }

    /// A number of seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Nanos(seconds * 1_000_000_000)
    }

    /// The same time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Duration::from_nanos(nanos.0)
    }
}

impl FromStr for Nanos {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::Duration(text.to_string());
        let trimmed = text.trim();
        if let Ok(seconds) = trimmed.parse::<f64>() {
            let duration = Duration::try_from_secs_f64(seconds).map_err(|_| error())?;
            return u64::try_from(duration.as_nanos()).map(Nanos).map_err(|_| error());
        }
        let duration = humantime::parse_duration(trimmed).map_err(|_| error())?;
        u64::try_from(duration.as_nanos()).map(Nanos).map_err(|_| error())
    }
}

/// Compound units, exact: `30s`, `1m 30s`, `500ms`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration((*self).into()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_base_1024_and_case_insensitive() {
        for (text, bytes) in
            [("4k", 4096), ("4K", 4096), ("64M", 64 << 20), ("1GiB", 1 << 30), ("512", 512), ("1.5k", 1536)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        assert!("4 potatoes".parse::<Bytes>().is_err());
        assert!("-4k".parse::<Bytes>().is_err());
        assert!("".parse::<Bytes>().is_err());
    }

    #[test]
    fn durations_without_a_unit_are_seconds() {
        for (text, nanos) in
            [("30", 30_000_000_000), ("0.5", 500_000_000), ("500ms", 500_000_000), ("5m", 300_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
        for bad in ["", "-1", "NaN", "3 parsecs", "1e300"] {
            assert!(bad.parse::<Nanos>().is_err(), "{bad}");
        }
    }

    #[test]
    fn percentages_are_shares_of_the_whole() {
        assert_eq!("50%".parse::<Size>().map(|size| size.of(Bytes(1000))), Ok(Bytes(500)));
        assert!("150%".parse::<Size>().is_err());
    }

    proptest! {
        #[test]
        fn printed_sizes_parse_back(bytes in any::<u64>()) {
            prop_assert_eq!(Bytes(bytes).to_string().parse::<Bytes>(), Ok(Bytes(bytes)));
        }

        #[test]
        fn printed_durations_parse_back(nanos in any::<u64>()) {
            prop_assert_eq!(Nanos(nanos).to_string().parse::<Nanos>(), Ok(Nanos(nanos)));
        }
    }
}
