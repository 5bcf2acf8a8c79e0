//! What a file of another program states about the work behind its figures.

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
