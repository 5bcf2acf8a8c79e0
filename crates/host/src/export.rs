//! The directories that a server shows to clients.

use crate::nfs::NfsExport;
use crate::smb::SmbShare;
use fsdyno_core::result::ServeProtocol;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Returns the commands that stop a server, as a user would type them.
pub fn end_of(protocol: ServeProtocol) -> &'static str {
    match protocol {
        ServeProtocol::Nfs => "rpc.nfsd 0; exportfs -ua",
        ServeProtocol::Smb => "pkill smbd",
    }
}

/// A directory, and how clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Export {
    /// By NFS.
    Nfs(NfsExport),
    /// By SMB.
    Smb(SmbShare),
}

impl Export {
    /// The directory.
    pub fn directory(&self) -> &Path {
        match self {
            Export::Nfs(export) => &export.directory,
            Export::Smb(share) => &share.directory,
        }
    }

    /// The options, in the words of exports(5) or smb.conf(5).
    pub fn options(&self) -> String {
        match self {
            Export::Nfs(export) => export.options(),
            Export::Smb(share) => share.options().join(", "),
        }
    }

    /// Returns the number of threads that serve, if it is fixed.
    pub fn threads(&self) -> Option<u32> {
        match self {
            Export::Nfs(export) => Some(export.threads),
            Export::Smb(_) => None,
        }
    }

    /// Returns the commands that a user would type.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Export::Nfs(export) => export.lines(),
            Export::Smb(share) => share.lines(),
        }
    }
}
