//! An export of the kernel's NFS server.

use crate::quoted;
use fsdyno_core::Nanos;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where clients of version 3 find the mount protocol, which gives them the handle of the directory.
pub const MOUNT_PORT: u16 = 20048;

/// The time in which clients may claim the state that they had before the server started.
pub const GRACE: Nanos = Nanos::from_secs(10);

/// A directory for other machines, which is the root of what the server shows (`fsid=0`).
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
