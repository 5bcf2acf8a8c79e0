//! The directories that a server shows to clients, by NFS or by SMB.

use crate::quoted;
use fsdyno_core::Nanos;
use fsdyno_core::result::ServeProtocol;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where clients of version 3 find the mount protocol, which gives them the handle of the directory.
pub const MOUNT_PORT: u16 = 20048;

/// The time in which clients may claim the state that they had before the server started.
pub const GRACE: Nanos = Nanos::from_secs(10);

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

/// An export of the kernel's NFS server, which is the root of what the server shows (`fsid=0`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsExport {
    /// The root of a mounted filesystem.
    pub directory: PathBuf,
    /// `true` if an answer means that the data is on the disk (exports(5), `sync`); otherwise the server
    /// answers before that (`async`).
    pub sync: bool,
    /// The number of threads that serve.
    pub threads: u32,
    /// The addresses of the clients, which may all be root there.
    pub clients: Vec<String>,
    /// `true` if clients may claim the state that they had before the server went away (RFC 8881, 8.4.2), for
    /// which it gives them some time before it serves anything else.
    pub reclaims: bool,
    /// `true` if clients may use version 3 of the protocol, too.
    pub version_3: bool,
}

impl NfsExport {
    /// The options in the words of exports(5).
    pub fn options(&self) -> String {
        let sync = if self.sync { "sync" } else { "async" };
        format!("rw,{sync},insecure,no_root_squash,no_subtree_check,fsid=0")
    }

    /// Returns the commands that a user would type.
    pub fn lines(&self) -> Vec<String> {
        let directory = self.directory.to_string_lossy();
        let exports = self.clients.iter().map(|client| {
            format!("exportfs -o {} {}", self.options(), quoted(&format!("{client}:{directory}")))
        });
        let (version, mountd) = match self.version_3 {
            true => ("-V 3 ", Some("rpc.mountd".to_string())),
            false => ("", None),
        };
        exports.chain([format!("rpc.nfsd {version}{}", self.threads)]).chain(mountd).collect()
    }
}

/// A share of Samba's server, which clients may read and write, whoever they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmbShare {
    /// The directory.
    pub directory: PathBuf,
    /// `true` if a client that syncs waits until the data is on the disk (smb.conf(5), `strict sync`).
    pub strict_sync: bool,
}

impl SmbShare {
    /// Its name, which clients mount.
    pub const NAME: &str = "fsdyno";

    /// The options that say what a sync promises, in the words of smb.conf(5).
    pub fn options(&self) -> Vec<String> {
        vec![format!("strict sync = {}", if self.strict_sync { "yes" } else { "no" })]
    }

    /// Returns the commands that a user would type.
    pub fn lines(&self) -> Vec<String> {
        let directory = self.directory.to_string_lossy();
        let options = self.options().into_iter().map(|option| option.replace(" = ", "="));
        let options = options.map(|option| format!(" --option={}", quoted(&option))).collect::<String>();
        vec![format!("smbd{options} --option={}", quoted(&format!("path={directory}")))]
    }
}
