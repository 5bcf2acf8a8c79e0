//! Why there may be no witness.

use rustix::io::Errno;

/// Why the kernel cannot be listened to.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// There is no tracefs, or it may not be mounted.
    #[error("tracefs cannot be used: {0}")]
    Tracefs(Errno),
    /// The kernel has no such tracepoint.
    #[error("the kernel has no tracepoint '{0}'")]
    Tracepoint(String),
    /// A setting of tracing was refused.
    #[error("cannot write '{value}' to '{file}' of tracefs: {errno}")]
    Setting {
        /// The file.
        file: String,
        /// The value that was to be written.
        value: String,
        /// The error that the kernel returned.
        errno: Errno,
    },
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}
