//! A workload of a plan, resolved: its values set, with what they refer to outside the plan.

use super::document::{Document, Node, Origin, Section, Value};
use super::raw::RawWorkload;
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::workload::parameter::{Literal, ParameterError, Setting, Shorthand, Surroundings};
use fsdyno_core::{Bytes, DeviceSpec, Workload};
use std::collections::BTreeMap;
use std::path::Path;

/// Sets every parameter that the plan gives, and checks them together.
pub(crate) fn resolve(
    document: &Document,
    raw: &RawWorkload,
    device: &DeviceSpec,
    base: &Path,
) -> Result<Workload, PlanError> {
    let table = Section::new(document, &raw.node, raw.table)?;
    let mut workload = raw.workload.clone();
    let around = Around { device, base };
    let shorthand = workload.load().shorthand();
    // Which key sets a parameter.
    let mut given: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, entry) in table.entries().filter(|(key, _)| *key != "kind") {
        let literal = literal(&entry.node).ok_or_else(|| table.refuse(key, "a value other than a date"))?;
        let settings = match shorthand.filter(|shorthand| shorthand.name == key) {
            Some(shorthand) => spelt_out(&table, shorthand, &literal)?,
            None => vec![(key, literal)],
        };
        for (parameter, literal) in settings {
            if let Some(first) = given.insert(parameter, key) {
                let (parameter, first) = (parameter.to_string(), first.to_string());
                let problem = PlanProblem::GivenTwice { parameter, first, second: key.to_string() };
                return Err(table.error(key, problem));
            }
            workload
                .set(parameter, &literal, &around)
                .map_err(|error| refused(&table, key, &entry.node, error))?;
        }
    }
    workload.check().map_err(|refusal| {
        // A value that the plan does not set is shown as resolved.
        let written = workload.list().into_iter().find(|listed| listed.name == refusal.parameter);
        let found = match table.get(refusal.parameter) {
            Some(node) => node.describe(),
            None => written.map(|listed| listed.value).unwrap_or_default(),
        };
        let at = given.get(refusal.parameter).copied().unwrap_or(refusal.parameter);
        let key = refusal.parameter.to_string();
        table.error(at, PlanProblem::Value { key, expected: refusal.expected, found })
    })?;
    Ok(workload)
}

/// What a key that sets several parameters means for each of them.
fn spelt_out(
    table: &Section<'_>,
    shorthand: Shorthand,
    literal: &Literal,
) -> Result<Vec<Setting>, PlanError> {
    let line = |literal: &Literal| match literal {
        Literal::Text(text) => Some(text.clone()),
        _ => None,
    };
    let text = match literal {
        Literal::Array(lines) => {
            lines.iter().map(line).collect::<Option<Vec<_>>>().map(|lines| lines.join("\n"))
        }
        one => line(one),
    };
    let Some(text) = text else {
        return Err(table.refuse(shorthand.name, "a string or a list of strings"));
    };
    (shorthand.read)(&text).map_err(|error| {
        table.error(shorthand.name, PlanProblem::Shorthand { key: shorthand.name.to_string(), error })
    })
}

struct Around<'a> {
    device: &'a DeviceSpec,
    base: &'a Path,
}

impl Surroundings for Around<'_> {
    fn device_size(&self) -> Option<Bytes> {
        self.device.size()
    }

    fn read_file(&self, path: &str) -> Result<String, (String, String)> {
        let path = self.base.join(path);
        super::file::read(&path).map_err(|error| (path.display().to_string(), error.to_string()))
    }
}

/// A value without its place; `None` for dates, which no parameter accepts.
fn literal(node: &Node) -> Option<Literal> {
    Some(match &node.value {
        Value::String(text) => Literal::Text(text.clone()),
        Value::Integer(number) => Literal::Integer(*number),
        Value::Float(number) => Literal::Float(*number),
        Value::Boolean(boolean) => Literal::Boolean(*boolean),
        Value::Datetime(_) => return None,
        Value::Array(nodes) => Literal::Array(nodes.iter().map(literal).collect::<Option<_>>()?),
        Value::Table(table) => {
            let entries = table.iter().map(|(key, entry)| Some((key.clone(), literal(&entry.node)?)));
            Literal::Table(entries.collect::<Option<_>>()?)
        }
    })
}

/// The error at its place in the plan.
fn refused(table: &Section<'_>, key: &str, node: &Node, error: ParameterError) -> PlanError {
    let problem = match error {
        ParameterError::Expected(expected) => return table.refuse(key, expected),
        ParameterError::ExpectedInside(inner, expected) => {
            return match Section::new(table.document(), node, key) {
                Ok(section) => section.refuse(inner, expected),
                Err(error) => error,
            };
        }
        ParameterError::UnknownInside(inner, known) => {
            let at = match &node.value {
                Value::Table(entries) => entries.get(&inner).map_or(&node.origin, |entry| &entry.key),
                _ => &node.origin,
            };
            return match Section::new(table.document(), node, key) {
                Ok(section) => section.unknown_key(&inner, at, known),
                Err(error) => error,
            };
        }
        ParameterError::Unknown => {
            return table.unknown_key(key, &Origin::Document, &[]);
        }
        ParameterError::UnknownWord(what, word, known) => PlanProblem::unknown_word(what, &word, &known),
        ParameterError::Unit(error) => PlanProblem::Unit { key: key.to_string(), error },
        ParameterError::ShareOfUnknown => PlanProblem::ShareOfUnknown { key: key.to_string() },
        ParameterError::File(path, reason) => PlanProblem::Profile { path, reason },
    };
    table.error(key, problem)
}
