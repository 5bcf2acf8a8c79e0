//! Why a parameter was rejected, and where in its value.

use crate::units::UnitError;

/// Why a literal was rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterError {
    /// There is no such parameter.
    Unknown,
    /// Something else is expected; a phrase such as `a whole number from 1 to 9`.
    Expected(String),
    /// Something else is expected of this key inside the value.
    ExpectedInside(&'static str, String),
    /// A key inside the value that is not supported.
    UnknownInside(String, &'static [&'static str]),
    /// An unknown word: its kind, the word, and the known words.
    UnknownWord(&'static str, String, Vec<&'static str>),
    /// An invalid size, duration or percentage.
    Unit(UnitError),
    /// A percentage of a device whose size is not known beforehand.
    ShareOfUnknown,
    /// A file that cannot be used: its path and why.
    File(String, String),
    /// One of these about a part of the value.
    Within(Vec<Inside>, Box<ParameterError>),
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inside {
    /// To what a table has under this key.
    Key(String),
    /// To the element at this position of a list.
    Item(usize),
}

impl Inside {
    /// A place as text, as `--set` would name it.
    pub fn path(parameter: &str, place: &[Inside]) -> String {
        place.iter().fold(parameter.to_string(), |path, inside| match inside {
            Inside::Key(key) => format!("{path}.{key}"),
            Inside::Item(position) => format!("{path}.{position}"),
        })
    }
}

impl ParameterError {
    /// The same about what a table has under this key.
    #[must_use]
    pub fn within(self, key: &str) -> Self {
        self.inside(Inside::Key(key.to_string()))
    }

    pub(super) fn inside(self, outer: Inside) -> Self {
        match self {
            ParameterError::Within(mut place, error) => {
                place.insert(0, outer);
                ParameterError::Within(place, error)
            }
            error => ParameterError::Within(vec![outer], Box::new(error)),
        }
    }
}

/// Why parameters that are valid individually do not fit together, or are out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The parameter to blame.
    pub parameter: &'static str,
    /// The requirement, as a phrase such as `a multiple of 4k for direct I/O`; if `within` is not empty, a
    /// sentence that states the problem.
    pub expected: String,
    /// The part of its value that is to blame.
    pub within: Vec<Inside>,
}

impl Refusal {
    /// An error unless the condition holds.
    ///
    /// # Errors
    /// The parameter, and what it must be.
    pub fn unless(holds: bool, parameter: &'static str, expected: impl Into<String>) -> Result<(), Refusal> {
        if holds { Ok(()) } else { Err(Refusal::of(parameter, expected)) }
    }

    /// A parameter, and what it must be.
    pub fn of(parameter: &'static str, expected: impl Into<String>) -> Refusal {
        Refusal { parameter, expected: expected.into(), within: Vec::new() }
    }

    /// Returns the refusal of a part of a parameter, with a sentence that states the problem.
    pub(crate) fn sentence(parameter: &'static str, within: Vec<Inside>, text: impl Into<String>) -> Refusal {
        Refusal { parameter, expected: text.into(), within }
    }
}
