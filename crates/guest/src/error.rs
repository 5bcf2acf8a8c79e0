//! Why a guest could not be created.

use fsdyno_host::HostError;
use std::io;
use std::path::PathBuf;

/// Result of a step of creating a guest.
pub(crate) type Result<T> = std::result::Result<T, GuestError>;

/// Why a guest could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    /// A file operation.
    #[error("cannot {action} '{}': {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// A host program that is needed to create a guest.
    #[error("'{command}' failed: {said}")]
    Tool { command: String, said: String },
    /// The kernel is not available.
    #[error("kernel {kernel}: {reason}")]
    Kernel { kernel: String, reason: String },
    /// A file that is not a module, or not for this architecture.
    #[error("'{}' is not a kernel module: {reason}", path.display())]
    Module { path: PathBuf, reason: String },
    /// The host does not have enough memory.
    #[error("{lacking}")]
    Memory { lacking: String },
    /// QEMU is not there.
    #[error("program '{program}' is not installed")]
    NotInstalled { program: &'static str },
    /// The disks should bypass a page cache, but the filesystem does not support that.
    #[error(
        "'{}' is on a filesystem without direct I/O (set `cache = \"writeback\"` in [guest], or use another \
         directory)",
        path.display()
    )]
    NoDirectIo { path: PathBuf },
    /// A program that the guest needs.
    #[error("program '{program}' for the guest: {reason}")]
    Program { program: String, reason: String },
}

impl GuestError {
    /// A file operation, for `map_err`.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| GuestError::File { action, path, source }
    }

    /// The same for whoever requested the guest of this name.
    pub fn not_started(&self, name: &str) -> HostError {
        HostError::System {
            action: "start the guest".to_string(),
            object: name.to_string(),
            errno: 0,
            reason: self.to_string(),
        }
    }
}
