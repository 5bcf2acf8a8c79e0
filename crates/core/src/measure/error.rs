//! Why a text does not name a measure.

use super::named::NAMED;
use crate::alternatives;
use std::fmt;

/// Why a text does not name a measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// Neither a short name nor a full one.
    #[error("unknown measure '{name}'{}", alternatives(nearest, NAMED.iter().map(|named| named.name)))]
    UnknownName {
        /// As written.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// One part of a full name is unknown.
    #[error("unknown {part} '{word}' in measure '{name}'{}", alternatives(nearest, known.iter().copied()))]
    UnknownPart {
        /// As written.
        name: String,
        /// Which part: `role`, `operation`, `statistic`, `figure`.
        part: &'static str,
        /// The part as written.
        word: String,
        /// The nearest known word.
        nearest: Option<String>,
        /// All of them.
        known: Box<[&'static str]>,
    },
    /// A column of a table whose unit implies no direction.
    #[error(
        "'{name}' {}, so nothing says whether more is better; write '{name} ({}more)' or '{name} ({}less)', \
         or use one of the units {}",
        unit_in_words(unit),
        prefix(unit),
        prefix(unit),
        known.join(", ")
    )]
    NoDirection {
        /// The name without parentheses.
        name: String,
        /// The unit as written; may be empty.
        unit: String,
        /// The units that imply a direction.
        known: Box<[&'static str]>,
    },
    /// An invalid text before or after `<=`.
    #[error("'{text}' is not {}", crate::workload::flow::NoTarget)]
    NoTarget {
        /// As written.
        text: String,
    },
    /// A full name with too few or too many parts.
    #[error("measure '{name}' has {parts} parts; write phase/role/operation/statistic or phase/role/figure")]
    Parts {
        /// As written.
        name: String,
        /// The number of its parts.
        parts: usize,
    },
}

/// Returns the text that precedes the direction in parentheses.
fn prefix(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!("{unit}, ") }
}

/// The unit in an error: `has no unit`, `is in 'points'`.
fn unit_in_words(unit: &str) -> impl fmt::Display {
    if unit.is_empty() { "has no unit".to_string() } else { format!("is in '{unit}'") }
}
