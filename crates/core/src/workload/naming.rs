//! The names of workloads where there is room for a few words.

use super::Workload;
use super::parameter::Listed;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The longest value of a parameter that is part of a name.
const VALUE_MAX: usize = 32;

impl Workload {
    /// Its kind, and which flow it is.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Workload::Flow(flow) if !flow.flow.is_empty() => format!("{} {}", self.kind(), flow.flow).into(),
            _ => self.kind().into(),
        }
    }

    /// Returns the name that distinguishes the workload from all of these: its own, followed by its
    /// [`differences`](Self::differences) from those of the same name.
    pub fn name_among<'a>(&self, all: impl Iterator<Item = &'a Workload>) -> Cow<'static, str> {
        let name = self.name();
        match self.differences(all.filter(|other| other.name() == name)) {
            differences if differences.is_empty() => name,
            differences => format!("{name}{differences}").into(),
        }
    }

    /// Returns the names that distinguish each of these from the others.
    pub fn names(all: &[Workload]) -> Vec<Cow<'static, str>> {
        let mut namesakes: BTreeMap<Cow<'static, str>, Varying> = BTreeMap::new();
        for workload in all {
            namesakes.entry(workload.name()).or_default().add(workload);
        }
        let name = |workload: &Workload| {
            let name = workload.name();
            let differences = namesakes.get(&name).map(|varying| varying.of(workload)).unwrap_or_default();
            if differences.is_empty() { name } else { format!("{name}{differences}").into() }
        };
        all.iter().map(name).collect()
    }

    /// The parameters in which others of its kind differ from it and that do not have their default, as far
    /// as their values are short: `, readers = 5, writers = 0`. If there are none, the options and the
    /// version of its program in which they differ.
    pub fn differences<'a>(&self, others: impl Iterator<Item = &'a Workload>) -> String {
        let mut varying = Varying::default();
        varying.add(self);
        others.for_each(|other| varying.add(other));
        varying.of(self)
    }

    /// The options of an external program, and its version if the file of its result states that.
    fn terms(&self) -> BTreeMap<String, String> {
        let options = match self {
            Workload::External(external) => external.options(),
            _ => None,
        };
        let version = self.stated().and_then(|stated| stated.version.clone());
        let version = version.map(|version| ("version".to_string(), version));
        options.unwrap_or_default().into_iter().chain(version).collect()
    }
}

/// Which parameters differ within some workloads, in the order of their lists, and which options of external
/// programs.
#[derive(Debug, Default)]
struct Varying {
    /// The values of the first one.
    first: Vec<String>,
    varies: Vec<bool>,
    /// The terms of the first one.
    terms: BTreeMap<String, String>,
    /// The names of the terms that others have with other values, or not at all.
    other_terms: BTreeSet<String>,
}

impl Varying {
    fn add(&mut self, workload: &Workload) {
        let values = workload.list().into_iter().map(|listed| listed.value);
        let terms = workload.terms();
        if self.first.is_empty() {
            self.first = values.collect();
            self.varies = vec![false; self.first.len()];
            self.terms = terms;
            return;
        }
        for (index, value) in values.enumerate() {
            if self.first.get(index).is_some_and(|first| *first != value) {
                self.varies[index] = true;
            }
        }
        let names = self.terms.keys().chain(terms.keys());
        let differ = names.filter(|name| self.terms.get(*name) != terms.get(*name));
        self.other_terms.extend(differ.cloned());
    }

    /// Those of one of the workloads that do not have their default.
    fn of(&self, workload: &Workload) -> String {
        let is_short = |value: &str| (1..=VALUE_MAX).contains(&value.len());
        let usual = Workload::of_kind(workload.kind()).map(|usual| usual.list()).unwrap_or_default();
        let shown = |(index, Listed { name, value, .. }): (usize, Listed)| {
            let is_usual = usual.get(index).is_none_or(|usual| usual.value == value);
            let is_shown = self.varies.get(index) == Some(&true) && !is_usual;
            (is_shown && is_short(&value)).then(|| format!(", {name} = {value}"))
        };
        let parameters: String = (0..).zip(workload.list()).filter_map(shown).collect();
        if !parameters.is_empty() {
            return parameters;
        }
        let terms = workload.terms().into_iter();
        let terms = terms.filter(|(name, value)| self.other_terms.contains(name) && is_short(value));
        terms.map(|(name, value)| format!(", {name} = {value}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Content, Durability, Fileserver, Null};

    #[test]
    fn workloads_of_one_name_are_told_apart_by_what_differs() {
        let whole = Workload::Durability(Durability::default());
        let degraded = Workload::Durability(Durability { degraded: true, ..Durability::default() });
        let other = Workload::Null(Null::default());
        let names = Workload::names(&[whole, other.clone(), degraded]);
        assert_eq!(names, ["durability", "null", "durability, degraded = true"]);
        assert_eq!(Workload::names(&[other.clone(), other]), ["null", "null"]);
        let readers =
            |readers, writers| Workload::Fileserver(Fileserver { readers, writers, ..Fileserver::default() });
        let names = Workload::names(&[readers(1, 0), readers(5, 0), readers(5, 5)]);
        assert_eq!(names[2], "fileserver, readers = 5, writers = 5");
        let contents = [Content::Random, Content::Zeros, Content::Compressible(0.5)]
            .map(|content| Workload::Fileserver(Fileserver { content, ..Fileserver::default() }));
        assert_eq!(
            Workload::names(&contents)[1..],
            ["fileserver, content = zeros", "fileserver, content = { compressible = 0.5 }"]
        );
    }
}
