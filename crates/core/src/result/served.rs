//! The export of a filesystem by a server, and its mount by clients.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// The protocol by which clients see a filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServeProtocol {
    /// NFS 4, by the kernel's own server.
    #[default]
    Nfs,
    /// SMB 3, by Samba's smbd.
    Smb,
}

impl ServeProtocol {
    /// Every one.
    pub const ALL: &'static [ServeProtocol] = &[ServeProtocol::Nfs, ServeProtocol::Smb];

    /// Its name in plans.
    pub const fn name(self) -> &'static str {
        match self {
            ServeProtocol::Nfs => "nfs",
            ServeProtocol::Smb => "smb",
        }
    }
}

/// An export, and how clients mounted it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The protocol by which clients see it.
    #[serde(default)]
    pub protocol: ServeProtocol,
    /// The options of the export, in the words of exports(5) or smb.conf(5).
    pub export: String,
    /// The number of threads that served, if it is fixed.
    pub threads: Option<u32>,
    /// The mount of the first client, as an equivalent command line.
    pub mount_command: String,
    /// From its `/proc/self/mountinfo`, with what both ends have agreed on.
    pub mount_options_in_force: String,
    /// For how long the server was to be away in each phase; absent if it was to stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<Nanos>,
}

/// When a server was away in a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// When it began to stop serving, after the beginning of the window.
    pub start_ns: Nanos,
    /// From then until it served again.
    pub duration_ns: Nanos,
}

/// The recipe for showing a filesystem to clients by a server of one's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeRecipe {
    /// The protocol by which clients see it.
    #[serde(default)]
    pub protocol: ServeProtocol,
    /// Options in the words of exports(5) or smb.conf(5).
    pub export_options: Vec<String>,
    /// The number of threads that serve, if it is fixed.
    pub threads: Option<u32>,
    /// Options with which clients mount.
    pub mount_options: Vec<String>,
}
