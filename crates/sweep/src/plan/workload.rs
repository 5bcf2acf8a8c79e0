//! A workload of a plan, resolved: its values set, with what they refer to outside the plan.

use super::document::{Document, Node, Origin, Section, Value};
use super::raw::{self, RAMP, RawPlan, RawWorkload, STEADY};
use super::write_rate::{self, WRITE_RATE};
use crate::error::{PlanError, PlanProblem};
use crate::flows;
use fsdyno_core::workload::Flow;
use fsdyno_core::workload::parameter::{
    Inside, Literal, ParameterError, Refusal, Setting, Shorthand, Surroundings,
};
use fsdyno_core::{Bytes, DeviceSpec, Workload};
use std::collections::BTreeMap;
use std::path::Path;

/// The key that says which flow the others change.
const FLOW: &str = "flow";
/// The maximum number of references that are followed from flow to flow; more than that is a circle.
const MAX_REFERENCES: u32 = 8;

/// Sets every parameter that the plan gives, and checks them together.
pub(crate) fn resolve(
    document: &Document,
    raw: &RawWorkload,
    device: &DeviceSpec,
    base: &Path,
) -> Result<Workload, PlanError> {
    resolve_within(document, raw, device, base, 0)
}

fn resolve_within(
    document: &Document,
    raw: &RawWorkload,
    device: &DeviceSpec,
    base: &Path,
    references: u32,
) -> Result<Workload, PlanError> {
    let table = Section::new(document, &raw.node, raw.table)?;
    let mut workload = raw.workload.clone();
    let around = PlanSurroundings { device, base };
    if let Workload::Flow(flow) = &mut workload
        && let Some(name) = table.string(FLOW)?
    {
        *flow = referred(&table, name, &around, references)?;
    }
    let shorthand = workload.load().shorthand();
    // Which key sets a parameter.
    let mut given: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, entry) in table.entries().filter(|(key, _)| *key != "kind") {
        let literal = literal(&entry.node).ok_or_else(|| table.refuse(key, "a value other than a date"))?;
        let settings = match shorthand.filter(|shorthand| shorthand.name == key) {
            Some(shorthand) => spelt_out(&table, shorthand, &literal)?,
            None if key == WRITE_RATE && is_file_server(&workload) => match literal {
                Literal::Text(word) if write_rate::is_closed(&word) => Vec::new(),
                Literal::Table(_) | Literal::Integer(_) | Literal::Float(_) => vec![(key, literal)],
                _ => return Err(table.refuse(key, write_rate::EXPECTED)),
            },
            None if key == STEADY => match literal {
                Literal::Table(_) => vec![(RAMP, literal)],
                _ => return Err(table.refuse(key, "a table such as { within = \"10%\", over = 5 }")),
            },
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
        if let Some(error) = inside(&table, &refusal) {
            return error;
        }
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

fn is_file_server(workload: &Workload) -> bool {
    matches!(workload, Workload::Fileserver(_))
}

/// Returns the settings that a key for several parameters stands for, one for each of them.
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

/// The flow that another one changes: one that comes with fsdyno, or that of a plan.
fn referred(
    table: &Section<'_>,
    name: &str,
    around: &PlanSurroundings<'_>,
    references: u32,
) -> Result<Flow, PlanError> {
    let problem = |message: String| table.error(FLOW, PlanProblem::Flow { message });
    if references >= MAX_REFERENCES {
        let most = MAX_REFERENCES;
        let text = format!(
            "'{name}' is too deep: flows may refer to each other at most {most} deep and never in a circle"
        );
        return Err(problem(text));
    }
    let (text, file) = match flows::named(name) {
        Some(shipped) => (shipped.text.to_string(), format!("{name}.toml")),
        None if name.contains('/') || name.ends_with(".toml") => match around.read_file(name) {
            Ok(text) => (text, around.base.join(name).display().to_string()),
            Err((path, reason)) => return Err(problem(format!("cannot read '{path}': {reason}"))),
        },
        None => {
            let names: Vec<&str> = flows::FLOWS.iter().map(|flow| flow.name).collect();
            return Err(table.error(FLOW, PlanProblem::unknown_word("flow", name, &names)));
        }
    };
    let (document, root) = Document::parse(&file, &text, &[], raw::takes_key)?;
    let plan = RawPlan::read(&document, &root)?;
    let base = Path::new(&file).parent().unwrap_or(Path::new(""));
    let is_flow = |raw: &&RawWorkload| matches!(raw.workload, Workload::Flow(_));
    let Some(raw) = plan.workloads.iter().find(is_flow) else {
        return Err(problem(format!("'{file}' has no workload of the kind flow")));
    };
    match resolve_within(&document, raw, &plan.parts.device.data, base, references + 1)? {
        Workload::Flow(flow) => Ok(flow),
        _ => Err(problem(format!("'{file}' has no workload of the kind flow"))),
    }
}

/// The error about a part of a value, at its place if the plan has it.
fn inside(table: &Section<'_>, refusal: &Refusal) -> Option<PlanError> {
    if refusal.within.is_empty() {
        return None;
    }
    let message = refusal.expected.clone();
    let place = Inside::path(refusal.parameter, &refusal.within);
    let Some(node) = table.get(refusal.parameter) else {
        let problem = PlanProblem::Flow { message: format!("{place}: {message}") };
        return Some(table.error(FLOW, problem));
    };
    let (found, is_whole) = follow(node, &refusal.within);
    let message = if is_whole { message } else { format!("{place}: {message}") };
    Some(table.document().error(&found.origin, PlanProblem::Flow { message }))
}

/// The part of a value at a place, or the innermost one around it that exists; and whether it is the place.
fn follow<'n>(node: &'n Node, place: &[Inside]) -> (&'n Node, bool) {
    let mut node = node;
    for inside in place {
        let next = match (&node.value, inside) {
            (Value::Table(entries), Inside::Key(key)) => entries.get(key).map(|entry| &entry.node),
            (Value::Array(nodes), Inside::Item(position)) => nodes.get(*position),
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => return (node, false),
        }
    }
    (node, true)
}

struct PlanSurroundings<'a> {
    device: &'a DeviceSpec,
    base: &'a Path,
}

impl Surroundings for PlanSurroundings<'_> {
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

/// The error about a value, at the part of it that is to blame.
fn refused(table: &Section<'_>, key: &str, node: &Node, error: ParameterError) -> PlanError {
    let (place, error) = match error {
        ParameterError::Within(place, error) => (place, *error),
        error => (Vec::new(), error),
    };
    let (found, _) = follow(node, &place);
    let (document, path) = (table.document(), Inside::path(key, &place));
    let inside = |refuse: &dyn Fn(Section<'_>) -> PlanError| {
        Section::new(document, found, path.clone()).map_or_else(|error| error, refuse)
    };
    let problem = match error {
        ParameterError::Expected(expected) => {
            PlanProblem::Value { key: path, expected, found: found.describe() }
        }
        ParameterError::ExpectedInside(inner, expected) => {
            return inside(&|section| section.refuse(inner, expected.clone()));
        }
        ParameterError::UnknownInside(inner, known) => {
            let at = match &found.value {
                Value::Table(entries) => entries.get(&inner).map_or(&found.origin, |entry| &entry.key),
                _ => &found.origin,
            };
            return inside(&|section| section.unknown_key(&inner, at, known));
        }
        ParameterError::Unknown | ParameterError::Within(..) => {
            return table.unknown_key(key, &Origin::Document, &[]);
        }
        // The word may be the name of a table instead of a value.
        ParameterError::UnknownWord(what, word, known) => {
            let at = match place.last() {
                Some(Inside::Key(name)) if *name == word => key_of(node, &place).unwrap_or(&found.origin),
                _ => &found.origin,
            };
            return document.error(at, PlanProblem::unknown_word(what, &word, &known));
        }
        ParameterError::Unit(error) => PlanProblem::Unit { key: path, error },
        ParameterError::ShareOfUnknown => PlanProblem::ShareOfUnknown { key: path },
        ParameterError::File(path, reason) => PlanProblem::Profile { path, reason },
    };
    document.error(&found.origin, problem)
}

/// Where the key at the end of a place is written.
fn key_of<'n>(node: &'n Node, place: &[Inside]) -> Option<&'n Origin> {
    let (Inside::Key(last), around) = place.split_last()? else { return None };
    match follow(node, around) {
        (Node { value: Value::Table(entries), .. }, true) => entries.get(last).map(|entry| &entry.key),
        _ => None,
    }
}
