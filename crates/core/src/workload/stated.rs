//! The statements in a file of another program about the work behind its figures.

use super::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The statements of an imported result that decide what its figures can be compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stated {
    /// The version of the program.
    pub version: Option<String>,
    /// The options of the work by name, without those that say where it was done; empty if unknown.
    pub options: BTreeMap<String, String>,
}

impl Workload {
    /// Returns the statements in the file of an imported result.
    pub const fn stated(&self) -> Option<&Stated> {
        match self {
            Workload::External(external) => external.imported.as_ref(),
            Workload::Fileserver(fileserver) => fileserver.imported.as_ref(),
            _ => None,
        }
    }

    /// Returns whether both do the same work: external programs with the same options, whatever their
    /// versions and the names of their job files; other workloads with the same parameters.
    pub fn does_same_as(&self, other: &Workload) -> bool {
        match (self, other) {
            (Workload::External(a), Workload::External(b)) if a.options().is_some() => {
                a.program == b.program && a.options() == b.options()
            }
            _ => self == other,
        }
    }
}
