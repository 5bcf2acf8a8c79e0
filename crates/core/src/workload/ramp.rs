//! The duration of the load before a window.

use super::parameter::{Literal, Parameter, ParameterError, Surroundings};
use super::steady::Steady;
use crate::units::Nanos;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The duration of the load before a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ramp {
    /// For this time.
    For(Nanos),
    /// Until the device keeps up with the writers, because page cache and dirty limits hold them to its rate;
    /// [`Ramp::LIMIT`] at most. If nothing is written for [`Ramp::UNWRITTEN`], there is nothing to wait for.
    UntilThrottled,
    /// Until the rate of all operations together is steady, or the limit of that has come.
    UntilSteady(Steady),
}

const UNTIL_THROTTLED: &str = "until-throttled";

impl Ramp {
    /// The longest ramp until writers are throttled.
    pub const LIMIT: Nanos = Nanos::from_secs(120);
    /// The ramp of phases without writers, where others last until writers are throttled.
    pub const UNWRITTEN: Nanos = Nanos::from_secs(5);

    /// For this many seconds.
    pub const fn secs(seconds: u64) -> Self {
        Ramp::For(Nanos::from_secs(seconds))
    }

    /// The longest that it can take.
    pub const fn longest(self) -> Nanos {
        match self {
            Ramp::For(time) => time,
            Ramp::UntilThrottled => Ramp::LIMIT,
            Ramp::UntilSteady(steady) => steady.limit,
        }
    }

    /// Returns whether the duration depends on the load.
    pub const fn is_open_ended(self) -> bool {
        !matches!(self, Ramp::For(_))
    }
}

impl Default for Ramp {
    fn default() -> Self {
        Ramp::For(Nanos(0))
    }
}

impl fmt::Display for Ramp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ramp::For(time) => time.fmt(f),
            Ramp::UntilThrottled => f.write_str(UNTIL_THROTTLED),
            Ramp::UntilSteady(steady) => steady.fmt(f),
        }
    }
}

impl FromStr for Ramp {
    type Err = <Nanos as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            UNTIL_THROTTLED => Ok(Ramp::UntilThrottled),
            time => time.parse().map(Ramp::For),
        }
    }
}

impl Parameter for Ramp {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Text(word) if word.trim() == UNTIL_THROTTLED => Ok(Ramp::UntilThrottled),
            Literal::Table(_) => Steady::read(literal, surroundings).map(Ramp::UntilSteady),
            // A word is more likely this one than a number without its digits.
            Literal::Text(word) if word.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                Err(ParameterError::UnknownWord("ramp", word.clone(), vec![UNTIL_THROTTLED]))
            }
            time => Nanos::read(time, surroundings).map(Ramp::For),
        }
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Serialize for Ramp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ramp::For(time) => time.serialize(serializer),
            Ramp::UntilThrottled => serializer.serialize_str(UNTIL_THROTTLED),
            Ramp::UntilSteady(steady) => steady.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ramp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Time(Nanos),
            Word(String),
            Steady(Steady),
        }
        match Form::deserialize(deserializer)? {
            Form::Time(time) => Ok(Ramp::For(time)),
            Form::Word(word) if word == UNTIL_THROTTLED => Ok(Ramp::UntilThrottled),
            Form::Steady(steady) => Ok(Ramp::UntilSteady(steady)),
            Form::Word(word) => Err(D::Error::custom(format!("unknown ramp '{word}'"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameter::Nowhere;
    use super::*;

    #[test]
    fn a_ramp_is_a_time_or_a_condition() {
        for (literal, ramp) in [
            (Literal::Integer(30), Ramp::secs(30)),
            (Literal::Text("500ms".into()), Ramp::For(Nanos::from_millis(500))),
            (Literal::Text("until-throttled".into()), Ramp::UntilThrottled),
            (Literal::Table([].into()), Ramp::UntilSteady(Steady::default())),
        ] {
            let read = Ramp::read(&literal, &Nowhere).unwrap();
            assert_eq!(read, ramp);
            if !matches!(ramp, Ramp::UntilSteady(_)) {
                assert_eq!(read.written().parse::<Ramp>().unwrap(), ramp);
            }
            let json = serde_json::to_string(&ramp).unwrap();
            assert_eq!(serde_json::from_str::<Ramp>(&json).unwrap(), ramp, "{json}");
        }
        let error = Ramp::read(&Literal::Text("untill-throttled".into()), &Nowhere);
        assert!(matches!(error, Err(ParameterError::UnknownWord("ramp", ..))), "{error:?}");
        assert!(Ramp::read(&Literal::Text("-1s".into()), &Nowhere).is_err());
        assert!(serde_json::from_str::<Ramp>("\"soon\"").is_err());
    }

    #[test]
    fn stored_ramps_are_read_as_they_were_written() {
        assert_eq!(serde_json::from_str::<Ramp>("30000000000").unwrap(), Ramp::secs(30));
        assert_eq!(serde_json::to_string(&Ramp::secs(30)).unwrap(), "30000000000");
    }
}
