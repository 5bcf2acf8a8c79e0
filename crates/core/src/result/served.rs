//! How a server showed the filesystem to clients.

use serde::{Deserialize, Serialize};

/// An export, and how clients mounted it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The options of the export, in the words of exports(5).
    pub export: String,
    /// How many threads served.
    pub threads: u32,
    /// The mount of the first client, as an equivalent command line.
    pub mount_command: String,
    /// From its `/proc/self/mountinfo`, with what both ends have agreed on.
    pub mount_options_in_force: String,
}

/// How to show a filesystem to clients by a server of one's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeRecipe {
    /// Options in the words of exports(5).
    pub export_options: Vec<String>,
    /// How many threads serve.
    pub threads: u32,
    /// Options with which clients mount.
    pub mount_options: Vec<String>,
}
