//! How workloads are called where there is room for a few words.

use super::Workload;
use super::parameter::Listed;
use std::borrow::Cow;
use std::collections::BTreeMap;

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

    /// What tells it from all of these: its name, followed by its [`differences`](Self::differences) from
    /// those of the same name.
    pub fn name_among<'a>(&self, all: impl Iterator<Item = &'a Workload>) -> Cow<'static, str> {
        let name = self.name();
        match self.differences(all.filter(|other| other.name() == name)) {
            differences if differences.is_empty() => name,
            differences => format!("{name}{differences}").into(),
        }
    }

    /// What tells each of these from the others.
    pub fn names(all: &[Workload]) -> Vec<Cow<'static, str>> {
        all.iter().map(|workload| workload.name_among(all.iter())).collect()
    }

    /// The parameters in which others of its kind differ from it and that do not have their default, as far
    /// as their values are short: `, readers = 5, writers = 0`. If there are none, the options and the
    /// version of its program in which they differ.
    pub fn differences<'a>(&self, others: impl Iterator<Item = &'a Workload>) -> String {
        let others: Vec<&Workload> = others.collect();
        match self.different_parameters(&others) {
            differences if differences.is_empty() => self.different_options(&others),
            differences => differences,
        }
    }

    fn different_options(&self, others: &[&Workload]) -> String {
        let others: Vec<BTreeMap<String, String>> = others.iter().map(|other| other.terms()).collect();
        let is_shown = |(name, value): &(String, String)| {
            (1..=VALUE_MAX).contains(&value.len())
                && others.iter().any(|other| other.get(name) != Some(value))
        };
        let shown = self.terms().into_iter().filter(is_shown);
        shown.map(|(name, value)| format!(", {name} = {value}")).collect()
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

    fn different_parameters(&self, others: &[&Workload]) -> String {
        let usual: Vec<Vec<Listed>> = Workload::of_kind(self.kind()).iter().map(Workload::list).collect();
        let others: Vec<Vec<Listed>> = others.iter().map(|other| other.list()).collect();
        let differs = |from: &[Vec<Listed>], index: usize, value: &str| {
            from.iter().any(|list| list.get(index).is_some_and(|listed| listed.value != value))
        };
        let shown = |(index, Listed { name, value, .. }): (usize, Listed)| {
            let is_shown = differs(&others, index, &value) && differs(&usual, index, &value);
            (is_shown && (1..=VALUE_MAX).contains(&value.len())).then(|| format!(", {name} = {value}"))
        };
        (0..).zip(self.list()).filter_map(shown).collect()
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
