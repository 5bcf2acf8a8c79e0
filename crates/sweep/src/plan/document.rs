//! A plan as text: TOML with the place of every key and value, and the arguments that change it.
//!
//! This layer knows TOML, places and `PATH=VALUE`, but not the meaning of keys. Changes are applied here,
//! before values are interpreted, so that a changed plan is checked exactly like a written one.

use crate::error::{Location, PlanError, PlanProblem};
use fsdyno_core::Nanos;
use fsdyno_core::units::UnitError;
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a key or value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Bytes of the text.
    Text(Range<usize>),
    /// The argument of this index.
    Argument(usize),
    /// Nowhere: the document as a whole.
    Document,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub origin: Origin,
    pub value: Value,
}

/// A TOML value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    String(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Table),
}

/// A TOML table.
pub(crate) type Table = BTreeMap<String, Entry>;

/// A key's place, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: Origin,
    pub node: Node,
}

/// The text of a plan, the arguments that change it, and the tree that results.
#[derive(Debug)]
pub(crate) struct Document {
    file: String,
    text: String,
    arguments: Vec<String>,
}

impl Document {
    /// Parses the text and applies the arguments in order. `takes_key` decides which elements of an array of
    /// tables an argument without an index refers to.
    pub fn parse(
        file: &str,
        text: &str,
        arguments: &[String],
        takes_key: impl Fn(&str, &Table, &str) -> bool,
    ) -> Result<(Document, Node), PlanError> {
        let document =
            Document { file: file.to_string(), text: text.to_string(), arguments: arguments.to_vec() };
        let table = DeTable::parse(text).map_err(|error| {
            let origin = error.span().map_or(Origin::Document, Origin::Text);
            // The parser's message may have several lines, the most general one first.
            let message = error.message().replace('\n', "; ");
            document.error(&origin, PlanProblem::Syntax { message })
        })?;
        let mut root = Node { origin: Origin::Document, value: from_table(table.get_ref(), &Origin::Text) };
        for index in 0..document.arguments.len() {
            document.apply(index, &mut root, &takes_key)?;
        }
        Ok((document, root))
    }

    /// An error at a place.
    pub fn error(&self, origin: &Origin, problem: PlanProblem) -> PlanError {
        let location = match origin {
            Origin::Text(range) => self.locate(range),
            Origin::Argument(index) => Location::Argument { argument: self.arguments[*index].clone() },
            Origin::Document => Location::File { file: self.file.clone() },
        };
        PlanError { problem: Box::new(problem), location: Box::new(location) }
    }

    fn locate(&self, range: &Range<usize>) -> Location {
        // A missing value at the end of a line has an empty range just after it.
        let start = range.start.min(self.text.len());
        let before = self.text.get(..start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        let column = self.text[line_start..before.len()].chars().count() + 1;
        let width = self
            .text
            .get(start..range.end)
            .and_then(|meant| meant.lines().next())
            .map_or(1, |meant| meant.chars().count().max(1));
        Location::Line {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column,
            text: line.to_string(),
            width,
        }
    }

    /// Applies `PATH=VALUE`. A value that is not valid TOML is a string, so that `device.size=1G` needs no
    /// quotes.
    fn apply(
        &self,
        index: usize,
        root: &mut Node,
        takes_key: &impl Fn(&str, &Table, &str) -> bool,
    ) -> Result<(), PlanError> {
        let origin = Origin::Argument(index);
        let malformed = || self.error(&origin, PlanProblem::OverrideSyntax);
        let (path, value) = self.arguments[index].split_once('=').ok_or_else(malformed)?;
        let keys = key_path(path).ok_or_else(malformed)?;
        let constant = |_| origin.clone();
        let value = match DeValue::parse(value.trim()) {
            Ok(value) => from_value(&value, &constant),
            Err(_) if value.trim().is_empty() => return Err(malformed()),
            Err(_) => Node { origin: origin.clone(), value: Value::String(value.trim().to_string()) },
        };
        set(root, &keys, &value, &origin, takes_key).map_err(|stop| {
            let at = keys[..stop.depth].join(".");
            let problem = match stop.found {
                Some(found) => PlanProblem::OverridePath { path: path.trim().to_string(), at, found },
                None => PlanProblem::UnknownKey {
                    key: keys[stop.depth].clone(),
                    section: format!("any of [[{at}]]"),
                    known: Vec::new(),
                    nearest: None,
                },
            };
            self.error(&origin, problem)
        })
    }
}

/// The keys of a dotted path, quoted ones included, by TOML's own rules.
fn key_path(path: &str) -> Option<Vec<String>> {
    let text = format!("{path} = 0");
    let table = DeTable::parse(&text).ok()?;
    let mut keys = Vec::new();
    let mut table = table.get_ref().clone();
    loop {
        let (key, value) = table.into_iter().next()?;
        keys.push(key.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(keys),
        }
    }
}

/// Why a path could not be followed: how many keys could, and what was found there (`None`: tables without
/// the key).
struct Stop {
    depth: usize,
    found: Option<String>,
}

fn set(
    root: &mut Node,
    keys: &[String],
    value: &Node,
    origin: &Origin,
    takes_key: &impl Fn(&str, &Table, &str) -> bool,
) -> Result<(), Stop> {
    let mut node = root;
    for (depth, key) in keys.iter().enumerate() {
        let last = depth + 1 == keys.len();
        let found = node.describe();
        match &mut node.value {
            Value::Table(table) if last => {
                // A key that was written keeps its place, so that an error about the key itself points to the
                // plan.
                table.insert(key.clone(), Entry { key: origin.clone(), node: value.clone() });
                return Ok(());
            }
            Value::Table(table) => {
                let entry = table.entry(key.clone()).or_insert_with(|| Entry {
                    key: origin.clone(),
                    node: Node { origin: origin.clone(), value: Value::Table(Table::new()) },
                });
                node = &mut entry.node;
            }
            Value::Array(nodes) => match key.parse::<usize>() {
                Ok(position) if last && position < nodes.len() => {
                    nodes[position] = value.clone();
                    return Ok(());
                }
                Ok(position) => {
                    let count = nodes.len();
                    node = nodes
                        .get_mut(position)
                        .ok_or(Stop { depth, found: Some(format!("an array of length {count}")) })?;
                }
                Err(_) => {
                    return set_in_each(nodes, keys, depth, value, origin, takes_key);
                }
            },
            _ => return Err(Stop { depth, found: Some(found) }),
        }
    }
    Ok(())
}

/// Sets a key in every table of an array that accepts it.
fn set_in_each(
    nodes: &mut [Node],
    keys: &[String],
    depth: usize,
    value: &Node,
    origin: &Origin,
    takes_key: &impl Fn(&str, &Table, &str) -> bool,
) -> Result<(), Stop> {
    let mut any = false;
    for node in nodes {
        let Value::Table(table) = &node.value else {
            return Err(Stop { depth, found: Some("an array of values".to_string()) });
        };
        if takes_key(&keys[depth - 1], table, &keys[depth]) {
            any = true;
            set(node, &keys[depth..], value, origin, takes_key)
                .map_err(|stop| Stop { depth: depth + stop.depth, ..stop })?;
        }
    }
    if any { Ok(()) } else { Err(Stop { depth, found: None }) }
}

fn from_table(table: &DeTable<'_>, place: &impl Fn(Range<usize>) -> Origin) -> Value {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<toml::de::DeString<'_>> = key;
        (key.get_ref().to_string(), Entry { key: place(key.span()), node: from_value(value, place) })
    };
    Value::Table(table.iter().map(entry).collect())
}

fn from_value(value: &Spanned<DeValue<'_>>, place: &impl Fn(Range<usize>) -> Origin) -> Node {
    let converted = match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::String(integer.to_string()),
        },
        DeValue::Float(float) => match float.as_str().parse() {
            Ok(number) => Value::Float(number),
            Err(_) => Value::String(float.to_string()),
        },
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Datetime(datetime) => Value::Datetime(datetime.to_string()),
        DeValue::Array(array) => Value::Array(array.iter().map(|node| from_value(node, place)).collect()),
        DeValue::Table(table) => from_table(table, place),
    };
    Node { origin: place(value.span()), value: converted }
}

impl Node {
    /// Describes it for an error message.
    pub fn describe(&self) -> String {
        match &self.value {
            // A line break would forge a line of the message.
            Value::String(text) => {
                let letter = |c: char| match c.is_control() {
                    true => c.escape_default().to_string(),
                    false => c.to_string(),
                };
                format!("'{}'", text.chars().map(letter).collect::<String>())
            }
            Value::Integer(number) => format!("{number}"),
            Value::Float(number) => format!("{number}"),
            Value::Boolean(boolean) => format!("{boolean}"),
            Value::Datetime(text) => format!("the date {text}"),
            Value::Array(_) => "an array".to_string(),
            Value::Table(_) => "a table".to_string(),
        }
    }

    /// A string, number or boolean as text.
    pub fn scalar(&self) -> Option<String> {
        match &self.value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            // A version such as 4.0 keeps its last digit.
            Value::Float(number) => Some(format!("{number:?}")),
            Value::Boolean(boolean) => Some(boolean.to_string()),
            Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
        }
    }
}

/// A table that is being read, with the keys that it may have.
pub(crate) struct Section<'d> {
    document: &'d Document,
    table: &'d Table,
    /// The place of the table.
    pub origin: &'d Origin,
    /// Its name in messages: `[device]`.
    pub name: String,
}

impl<'d> Section<'d> {
    /// A table, if `node` is one.
    pub fn new(document: &'d Document, node: &'d Node, name: impl Into<String>) -> Result<Self, PlanError> {
        let name = name.into();
        match &node.value {
            Value::Table(table) => Ok(Section { document, table, origin: &node.origin, name }),
            _ => Err(document.error(
                &node.origin,
                PlanProblem::Value { key: name, expected: "a table".to_string(), found: node.describe() },
            )),
        }
    }

    /// The table of a key, if there is one.
    pub fn table(&self, key: &str, name: impl Into<String>) -> Result<Option<Section<'d>>, PlanError> {
        self.get(key).map(|node| Section::new(self.document, node, name)).transpose()
    }

    /// Rejects unknown keys.
    pub fn only(&self, known: &[&str]) -> Result<(), PlanError> {
        match self.table.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, entry)) => Err(self.unknown_key(key, &entry.key, known)),
            None => Ok(()),
        }
    }

    /// The error for an unknown key.
    pub fn unknown_key(&self, key: &str, at: &Origin, known: &[&str]) -> PlanError {
        let problem = PlanProblem::UnknownKey {
            key: key.to_string(),
            section: self.name.clone(),
            known: known.iter().map(|word| (*word).to_string()).collect(),
            nearest: fsdyno_core::nearest(key, known.iter().copied()).map(str::to_string),
        };
        self.document.error(at, problem)
    }

    /// Every key with its value.
    pub fn entries(&self) -> impl Iterator<Item = (&'d str, &'d Entry)> + use<'d> {
        self.table.iter().map(|(key, entry)| (key.as_str(), entry))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'d Node> {
        self.table.get(key).map(|entry| &entry.node)
    }

    /// The place of the key, or else of the table.
    pub fn at(&self, key: &str) -> &'d Origin {
        self.table.get(key).map_or(self.origin, |entry| &entry.node.origin)
    }

    /// An error at the value of a key.
    pub fn error(&self, key: &str, problem: PlanProblem) -> PlanError {
        self.document.error(self.at(key), problem)
    }

    /// An error at a key of one of its tables.
    pub fn error_in(&self, table: &str, key: &str, problem: PlanProblem) -> PlanError {
        match self.get(table).map(|node| &node.value) {
            Some(Value::Table(inner)) if inner.contains_key(key) => {
                self.document.error(&inner[key].node.origin, problem)
            }
            _ => self.error(table, problem),
        }
    }

    /// The error for a value that the key does not accept.
    pub fn refuse(&self, key: &str, expected: impl Into<String>) -> PlanError {
        let found = self.get(key).map(Node::describe).unwrap_or_default();
        self.error(key, PlanProblem::Value { key: key.to_string(), expected: expected.into(), found })
    }

    /// A string.
    pub fn string(&self, key: &str) -> Result<Option<&'d str>, PlanError> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.refuse(key, "a string")),
        }
    }

    /// The value of a key that the table must have.
    pub fn required<T>(&self, key: &'static str, value: Option<T>) -> Result<T, PlanError> {
        value.ok_or_else(|| {
            self.document.error(self.origin, PlanProblem::Missing { section: self.name.clone(), key })
        })
    }

    /// A required string.
    pub fn required_string(&self, key: &'static str) -> Result<&'d str, PlanError> {
        self.required(key, self.string(key)?)
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, PlanError> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Boolean(boolean)) => Ok(Some(*boolean)),
            Some(_) => Err(self.refuse(key, "true or false")),
        }
    }

    /// A whole number within a range.
    pub fn integer<T>(&self, key: &str, range: std::ops::RangeInclusive<T>) -> Result<Option<T>, PlanError>
    where
        T: TryFrom<i128> + PartialOrd + std::fmt::Display,
    {
        let Some(node) = self.get(key) else { return Ok(None) };
        let number = match &node.value {
            Value::Integer(number) => T::try_from(*number).ok(),
            _ => None,
        };
        number.filter(|number| range.contains(number)).map(Some).ok_or_else(|| {
            self.refuse(key, format!("a whole number from {} to {}", range.start(), range.end()))
        })
    }

    /// A size, a duration or a percentage: a string with a unit, or a bare number.
    pub fn unit<T: FromStr<Err = UnitError>>(&self, key: &str) -> Result<Option<T>, PlanError> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let text = match &node.value {
            Value::String(_) | Value::Integer(_) | Value::Float(_) => node.scalar().unwrap_or_default(),
            _ => return Err(self.refuse(key, "a number or a string with a unit")),
        };
        let unit =
            text.parse().map_err(|error| self.error(key, PlanProblem::Unit { key: key.to_string(), error }));
        unit.map(Some)
    }

    /// A time that is long enough.
    pub fn time(&self, key: &str, least: Nanos, expected: &str) -> Result<Option<Nanos>, PlanError> {
        match self.unit(key)? {
            Some(time) if time < least => Err(self.refuse(key, expected)),
            time => Ok(time),
        }
    }

    /// The elements of an array of tables, each with its place.
    pub fn tables(&self, key: &str) -> Result<&'d [Node], PlanError> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(&[]),
            Some(Value::Array(nodes)) => Ok(nodes),
            Some(_) => Err(self.refuse(key, format!("an array of tables ([[{key}]])"))),
        }
    }

    /// The document it is part of.
    pub fn document(&self) -> &'d Document {
        self.document
    }
}
