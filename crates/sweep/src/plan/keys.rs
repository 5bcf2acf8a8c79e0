//! The tables of a plan. Each is declared once, by [`table!`]: its keys, each with its type, its default, the
//! function that reads it, and one line of help. Parsing, the refusal of unknown keys, and the reference
//! follow from that. Keys of a workload are its parameters, and those of `[axes]` the axes; both are declared
//! in the crate `core`.

use super::document::Section;
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::device::{Bitmap, Conditioning, Preallocation, RaidLevel};
use fsdyno_core::result::ServeProtocol;
use fsdyno_core::{Bytes, DiskCache, Nanos, Study};
use std::collections::BTreeMap;

/// A key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    /// The value that it has if the plan does not set it; empty if there is none.
    pub default: String,
    /// One line of help, in Markdown.
    pub help: &'static str,
}

/// A table of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTable {
    /// As written: `[device]`.
    pub name: &'static str,
    /// The purpose of the table, in a sentence.
    pub about: &'static str,
    /// Its keys, in the order of importance.
    pub keys: Vec<Key>,
}

/// A declared table of a plan.
pub(super) trait Keys: Sized {
    /// The names of its keys.
    const NAMES: &'static [&'static str];

    /// Its description, for the reference.
    fn table() -> KeyTable;

    /// Reads its keys. Others are not looked at; see [`Section::read`].
    ///
    /// # Errors
    /// The first value that its key does not accept, or a required key that is missing.
    fn read(section: &Section<'_>) -> Result<Self, PlanError>;
}

/// Declares a table of a plan as a struct with a field for each key.
///
/// A key is `name: type, reader, help`. The reader gets the table and the name, and returns `None` if the
/// table does not have the key, which leaves the field absent. With `type = default` the field has the
/// default then; `type as required` must be written; `type as "words"` says where the value comes from
/// otherwise.
macro_rules! table {
    (
        $title:literal, $about:literal;
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($field:ident: $type:ty $(as $kind:tt)? $(= $default:expr)?, $read:expr, $help:literal;)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $(
                #[doc = $help]
                pub $field: $crate::plan::keys::table!(@type $type $(, as $kind)? $(, = $default)?),
            )*
        }

        impl $crate::plan::keys::Keys for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            fn table() -> $crate::plan::keys::KeyTable {
                let keys = vec![$($crate::plan::keys::Key {
                    name: stringify!($field),
                    default: $crate::plan::keys::table!(@default $type $(, as $kind)? $(, = $default)?),
                    help: $help,
                }),*];
                $crate::plan::keys::KeyTable { name: $title, about: $about, keys }
            }

            fn read(
                section: &$crate::plan::document::Section<'_>,
            ) -> Result<Self, $crate::error::PlanError> {
                Ok($name {
                    $($field: {
                        let key = stringify!($field);
                        let found: Option<$type> = $crate::plan::keys::read(section, key, $read)?;
                        $crate::plan::keys::table!(@value section, key, found $(, as $kind)? $(, = $default)?)
                    },)*
                })
            }
        }
    };
    (@type $type:ty) => { Option<$type> };
    (@type $type:ty, as required) => { $type };
    (@type $type:ty, as $words:literal) => { Option<$type> };
    (@type $type:ty, = $default:expr) => { $type };
    (@default $type:ty) => { String::new() };
    (@default $type:ty, as required) => { String::new() };
    (@default $type:ty, as $words:literal) => { $words.to_string() };
    (@default $type:ty, = $default:expr) => {{
        let default: $type = $default;
        $crate::plan::keys::Written::written(&default)
    }};
    (@value $section:ident, $key:ident, $found:ident) => { $found };
    (@value $section:ident, $key:ident, $found:ident, as required) => { $section.required($key, $found)? };
    (@value $section:ident, $key:ident, $found:ident, as $words:literal) => { $found };
    (@value $section:ident, $key:ident, $found:ident, = $default:expr) => {
        $found.unwrap_or_else(|| $default)
    };
}
pub(super) use table;

/// Reads a key. Its signature gives closures their types.
pub(super) fn read<'s, 'd, T>(
    section: &'s Section<'d>,
    key: &'static str,
    reader: impl FnOnce(&'s Section<'d>, &'static str) -> Result<Option<T>, PlanError>,
) -> Result<Option<T>, PlanError> {
    reader(section, key)
}

/// A default as a plan would write it.
pub(super) trait Written {
    /// Its text.
    fn written(&self) -> String;
}

/// A value that is one of several words.
pub(super) trait Word: Copy + 'static {
    /// Every one.
    const ALL: &'static [Self];

    /// Its text.
    fn name(self) -> &'static str;
}

impl<T: Word> Written for T {
    fn written(&self) -> String {
        self.name().to_string()
    }
}

macro_rules! written {
    ($($type:ty),*) => {
        $(impl Written for $type {
            fn written(&self) -> String {
                self.to_string()
            }
        })*
    };
}
written!(bool, u32, u64, Bytes, Nanos);

impl<T> Written for Vec<T> {
    /// Nothing is written for an empty list.
    fn written(&self) -> String {
        String::new()
    }
}

impl<K, V> Written for BTreeMap<K, V> {
    /// Nor for an empty table.
    fn written(&self) -> String {
        String::new()
    }
}

impl Written for Option<Nanos> {
    fn written(&self) -> String {
        self.map_or("none".to_string(), |time| time.to_string())
    }
}

/// Declares a [`Word`] with the text of each choice.
macro_rules! choice {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$choice_meta:meta])* $choice:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$choice_meta])* $choice,)*
        }

        impl $crate::plan::keys::Word for $name {
            const ALL: &'static [Self] = &[$($name::$choice),*];

            fn name(self) -> &'static str {
                match self { $($name::$choice => $word,)* }
            }
        }
    };
}
pub(super) use choice;

macro_rules! words {
    ($($type:ty),*) => {
        $(impl Word for $type {
            const ALL: &'static [Self] = <$type>::ALL;

            fn name(self) -> &'static str {
                <$type>::name(self)
            }
        })*
    };
}
words!(Bitmap, Conditioning, DiskCache, Preallocation, RaidLevel, ServeProtocol, Study);

impl<'d> Section<'d> {
    /// Reads a declared table, whose keys must be the only ones.
    pub fn read<T: Keys>(&self) -> Result<T, PlanError> {
        self.only(T::NAMES)?;
        T::read(self)
    }

    /// The declared table of a key, if there is one.
    pub fn read_table<T: Keys>(&self, key: &str, name: &str) -> Result<Option<T>, PlanError> {
        self.table(key, name)?.map(|table| table.read()).transpose()
    }

    /// One of several words.
    pub fn word<T: Word>(&self, key: &'static str) -> Result<Option<T>, PlanError> {
        let Some(text) = self.string(key)? else { return Ok(None) };
        let known = T::ALL.iter().copied().find(|one| one.name() == text);
        let names = || T::ALL.iter().map(|one| one.name()).collect::<Vec<_>>();
        known.map(Some).ok_or_else(|| self.error(key, PlanProblem::unknown_word(key, text, &names())))
    }
}
