//! What keeps a guest from being made.

use fsdyno_host::HostError;
use std::io;
use std::path::PathBuf;

/// Result of a step of making a guest.
pub(crate) type Result<T> = std::result::Result<T, GuestError>;

/// Why a guest could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    /// A file operation.
    #[error("cannot {action} '{}': {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// A program of this machine that making a guest takes.
    #[error("'{command}' failed: {said}")]
    Tool { command: String, said: String },
    /// The kernel is not to be had.
    #[error("kernel {kernel}: {reason}")]
    Kernel { kernel: String, reason: String },
    /// A file that is no module, or none of this kind of machine.
    #[error("'{}' is not a kernel module: {reason}", path.display())]
    Module { path: PathBuf, reason: String },
    /// This machine has not the memory for it.
    #[error("{lacking}")]
    Memory { lacking: String },
    /// QEMU is not there.
    #[error("program '{program}' is not installed")]
    NotInstalled { program: &'static str },
    /// Disks are to bypass a page cache that the filesystem does not let anybody bypass.
    #[error("'{}' is on a filesystem without direct I/O (set `cache = \"writeback\"` in [guest], or use another directory)", path.display())]
    NoDirectIo { path: PathBuf },
    /// A program that the guest is to have.
    #[error("program '{program}' for the guest: {reason}")]
    Program { program: String, reason: String },
}

impl GuestError {
    /// A file operation, for `map_err`.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| GuestError::File { action, path, source }
    }

    /// The same for those who asked for the guest of this name.
    pub fn not_started(&self, name: &str) -> HostError {
        HostError::System {
            action: "start the guest".to_string(),
            object: name.to_string(),
            errno: 0,
            reason: self.to_string(),
        }
    }
}
