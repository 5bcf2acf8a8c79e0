//! Workload parameters: declared once, for parsing, checking, the reference and the store.
//!
//! A plan contains [`Literal`]s, which the type of a parameter interprets ([`Parameter`]). Whatever a literal
//! refers to outside the plan (the device size, a file next to the plan) comes from its [`Surroundings`], so
//! that nothing here touches a machine. The caller adds places in the plan and suggestions for mistyped
//! words.

mod rejection;

pub use rejection::{Inside, ParameterError, Refusal};

use super::{Content, Profile, TreeModel};
use crate::units::{Bytes, Nanos, Size};
use std::collections::BTreeMap;

/// A value from a plan, without its place.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A list.
    Array(Vec<Literal>),
    /// A table.
    Table(BTreeMap<String, Literal>),
}

impl Literal {
    /// A string or a number as text, as sizes and durations are written.
    fn scalar(&self) -> Option<String> {
        match self {
            Literal::Text(text) => Some(text.clone()),
            Literal::Integer(number) => Some(number.to_string()),
            Literal::Float(number) => Some(number.to_string()),
            Literal::Boolean(_) | Literal::Array(_) | Literal::Table(_) => None,
        }
    }
}

/// The things outside the plan that a literal may refer to.
pub trait Surroundings {
    /// Size of the device that filesystems are created on, if it is known beforehand.
    fn device_size(&self) -> Option<Bytes>;

    /// The text of a file; a relative path is relative to the plan's directory.
    ///
    /// # Errors
    /// The full path, and why it cannot be read.
    fn read_file(&self, path: &str) -> Result<String, (String, String)>;
}

/// A type of parameters.
pub trait Parameter: Sized {
    /// Interprets a literal.
    ///
    /// # Errors
    /// Why it is not valid.
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError>;

    /// Changes a value by a literal: takes its place, unless the type says otherwise.
    ///
    /// # Errors
    /// Why the literal is not valid.
    fn amend(&mut self, literal: &Literal, surroundings: &dyn Surroundings) -> Result<(), ParameterError> {
        *self = Self::read(literal, surroundings)?;
        Ok(())
    }

    /// The text as in a plan, for reports. Empty if the value is decided later.
    fn written(&self) -> String;
}

macro_rules! whole_numbers {
    ($($type:ty)*) => {$(
        impl Parameter for $type {
            fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
                let number = match literal {
                    Literal::Integer(number) => <$type>::try_from(*number).ok(),
                    _ => None,
                };
                number.ok_or_else(|| {
                    // The key itself may allow less, but its check never sees this value.
                    let expected = match literal {
                        Literal::Integer(number) if *number > 0 => {
                            format!("a whole number up to {}", <$type>::MAX)
                        }
                        _ if <$type>::MIN == 0 => "a whole number, 0 or more".to_string(),
                        _ => "a whole number".to_string(),
                    };
                    ParameterError::Expected(expected)
                })
            }

            fn written(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

whole_numbers!(u32 u64 i32);

impl Parameter for f64 {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Float(number) => Ok(*number),
            Literal::Integer(number) => Ok(*number as f64),
            _ => Err(ParameterError::Expected("a number".to_string())),
        }
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Parameter for bool {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Boolean(boolean) => Ok(*boolean),
            _ => Err(ParameterError::Expected("true or false".to_string())),
        }
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Parameter for String {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Text(text) => Ok(text.clone()),
            _ => Err(ParameterError::Expected("a string".to_string())),
        }
    }

    fn written(&self) -> String {
        self.clone()
    }
}

/// A number or a string with its unit, as text.
fn with_unit(literal: &Literal) -> Result<String, ParameterError> {
    let expected = || ParameterError::Expected("a number or a string with a unit".to_string());
    literal.scalar().ok_or_else(expected)
}

/// A size, or a percentage of the device.
impl Parameter for Bytes {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        match with_unit(literal)?.parse().map_err(ParameterError::Unit)? {
            Size::Absolute(bytes) => Ok(bytes),
            share @ Size::Percent(_) => {
                surroundings.device_size().map(|whole| share.of(whole)).ok_or(ParameterError::ShareOfUnknown)
            }
        }
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Parameter for Nanos {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        with_unit(literal)?.parse().map_err(ParameterError::Unit)
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

/// A parameter that is decided later if the plan does not set it.
impl<T: Parameter> Parameter for Option<T> {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        T::read(literal, surroundings).map(Some)
    }

    fn written(&self) -> String {
        self.as_ref().map(T::written).unwrap_or_default()
    }
}

/// A list; a single value is a list of one.
impl<T: Parameter> Parameter for Vec<T> {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Array(items) => {
                let read = |(position, item)| {
                    T::read(item, surroundings).map_err(|error| error.inside(Inside::Item(position)))
                };
                items.iter().enumerate().map(read).collect()
            }
            single => T::read(single, surroundings).map(|item| vec![item]),
        }
    }

    fn written(&self) -> String {
        self.iter().map(T::written).collect::<Vec<_>>().join(", ")
    }
}

impl Parameter for Content {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        const KEYS: &[&str] = &["compressible"];
        let expected =
            || ParameterError::Expected("\"random\", \"zeros\" or { compressible = 0.5 }".to_string());
        match literal {
            Literal::Text(word) if word == "random" => Ok(Content::Random),
            Literal::Text(word) if word == "zeros" => Ok(Content::Zeros),
            Literal::Text(word) => {
                Err(ParameterError::UnknownWord("content", word.clone(), vec!["random", "zeros"]))
            }
            Literal::Table(table) => {
                if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
                    return Err(ParameterError::UnknownInside(key.clone(), KEYS));
                }
                let share = match table.get("compressible") {
                    Some(Literal::Float(share)) => *share,
                    Some(Literal::Integer(share)) => *share as f64,
                    _ => return Err(expected()),
                };
                let inside =
                    || ParameterError::ExpectedInside("compressible", "a number from 0 to 1".to_string());
                (0.0..=1.0).contains(&share).then_some(Content::Compressible(share)).ok_or_else(inside)
            }
            _ => Err(expected()),
        }
    }

    fn written(&self) -> String {
        match self {
            Content::Random => "random".to_string(),
            Content::Zeros => "zeros".to_string(),
            Content::Compressible(share) => format!("{{ compressible = {share} }}"),
        }
    }
}

impl Parameter for TreeModel {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let Literal::Text(text) = literal else {
            return Err(ParameterError::Expected("a string".to_string()));
        };
        match (text.as_str(), text.strip_prefix("profile:").map(str::trim)) {
            ("home", _) => Ok(TreeModel::Home),
            ("impressions", _) => Ok(TreeModel::Impressions),
            (_, Some(path)) if !path.is_empty() => {
                let (path, text) = match surroundings.read_file(path) {
                    Ok(text) => (path.to_string(), text),
                    Err((path, reason)) => return Err(ParameterError::File(path, reason)),
                };
                let profile: Profile = serde_json::from_str(&text)
                    .map_err(|error| ParameterError::File(path.clone(), error.to_string()))?;
                if profile.files == 0 || profile.file_size_bytes.iter().all(|bin| bin.count == 0) {
                    return Err(ParameterError::File(path, "it contains no files".to_string()));
                }
                Ok(TreeModel::Profile(Box::new(profile)))
            }
            (other, _) => {
                let known = vec!["home", "impressions", "profile:PATH"];
                Err(ParameterError::UnknownWord("tree", other.to_string(), known))
            }
        }
    }

    fn written(&self) -> String {
        self.name().to_string()
    }
}

/// A key that sets several parameters, in the syntax of the program that the workload is modelled on.
#[derive(Debug, Clone, Copy)]
pub struct Shorthand {
    /// Its key in plans.
    pub name: &'static str,
    /// One line for the reference.
    pub help: &'static str,
    /// The parameters that a text sets, with their literals.
    pub read: fn(&str) -> Result<Vec<Setting>, ShorthandError>,
}

/// A parameter and what it is set to.
pub type Setting = (&'static str, Literal);

/// Why a text in the syntax of another program was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShorthandError {
    /// The other program does not know this word either.
    #[error("unknown word '{0}'")]
    Unknown(String),
    /// Close to a word that the other program knows.
    #[error(
        "unknown {what} '{word}'{}",
        nearest.as_ref().map(|nearest| format!("; did you mean '{nearest}'?")).unwrap_or_default()
    )]
    UnknownWord {
        /// The kind of word.
        what: &'static str,
        /// As written.
        word: String,
        /// The nearest known one.
        nearest: Option<&'static str>,
    },
    /// The other program knows it, but it is not supported here.
    #[error("'{word}' is not supported: {reason}")]
    Refused {
        /// As written.
        word: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// A missing value, or one that the word does not accept.
    #[error(
        "'{word}' takes {expected}, {}",
        found.as_ref().map_or("but no value is given".to_string(), |found| format!("not '{found}'"))
    )]
    Value {
        /// As written.
        word: String,
        /// The value that the word accepts.
        expected: &'static str,
        /// The value that was found.
        found: Option<String>,
    },
}

/// Declares the parameters of a workload: each with its type, its default and one line for the reference. A
/// workload that is also imported has what its file states besides, which no plan can set.
macro_rules! parameters {
    (
        $(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $default:expr, $help:literal;)* }
        $($imported:ident: $stated:ty)?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(#[doc = $help] pub $field: $type,)*
            $(
                /// The statements of the file, if the result is imported.
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $imported: Option<$stated>,
            )?
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* $($imported: None::<$stated>,)? }
            }
        }

        impl $crate::workload::parameter::Parameters for $name {
            fn set(
                &mut self,
                name: &str,
                literal: &$crate::workload::parameter::Literal,
                surroundings: &dyn $crate::workload::parameter::Surroundings,
            ) -> Result<(), $crate::workload::parameter::ParameterError> {
                match name {
                    $(stringify!($field) => {
                        $crate::workload::parameter::Parameter::amend(
                            &mut self.$field,
                            literal,
                            surroundings,
                        )?;
                    })*
                    _ => return Err($crate::workload::parameter::ParameterError::Unknown),
                }
                Ok(())
            }

            fn list(&self) -> Vec<$crate::workload::parameter::Listed> {
                vec![$($crate::workload::parameter::Listed {
                    name: stringify!($field),
                    help: $help,
                    value: $crate::workload::parameter::Parameter::written(&self.$field),
                },)*]
            }
        }
    };
}
pub(super) use parameters;

/// Declares a parameter whose value is one of several words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $crate::workload::parameter::Parameter for $name {
            fn read(
                literal: &$crate::workload::parameter::Literal,
                _: &dyn $crate::workload::parameter::Surroundings,
            ) -> Result<Self, $crate::workload::parameter::ParameterError> {
                use $crate::workload::parameter::{Literal, ParameterError};
                match literal {
                    $(Literal::Text(word) if word == $word => Ok($name::$variant),)*
                    Literal::Text(word) => {
                        Err(ParameterError::UnknownWord($what, word.clone(), vec![$($word),*]))
                    }
                    _ => Err(ParameterError::Expected(format!("one of {}", [$($word),*].join(", ")))),
                }
            }

            fn written(&self) -> String {
                self.name().to_string()
            }
        }

        impl $name {
            /// The word in plans and results.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }
    };
}
pub(crate) use words;

/// One parameter with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key in plans.
    pub name: &'static str,
    /// One line for the reference.
    pub help: &'static str,
    /// The text as in a plan; empty if the value is decided later.
    pub value: String,
}

/// The parameters of a workload by their names.
pub trait Parameters {
    /// Sets one parameter.
    ///
    /// # Errors
    /// Why the literal was rejected; the parameter then keeps its old value.
    fn set(
        &mut self,
        name: &str,
        literal: &Literal,
        surroundings: &dyn Surroundings,
    ) -> Result<(), ParameterError>;

    /// Every parameter, in the order of declaration.
    fn list(&self) -> Vec<Listed>;
}

/// The surroundings of command lines, which refer to nothing: no device of known size, and no files.
pub(crate) struct Nowhere;

impl Surroundings for Nowhere {
    fn device_size(&self) -> Option<Bytes> {
        None
    }

    fn read_file(&self, path: &str) -> Result<String, (String, String)> {
        Err((path.to_string(), "files are not available here".to_string()))
    }
}
