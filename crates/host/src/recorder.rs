//! The process that records a disk, as its parent sees it.

use crate::{HostError, Result};
use fsdyno_core::durability::{RecorderReply, RecorderRequest};
use std::time::Duration;

/// A recorder that runs. Dropping it ends it: what it shows can no longer be used then, and its mountpoint
/// has to be unmounted if it did not do so itself.
pub trait Recorder {
    /// Asks for something and waits for the reply.
    ///
    /// # Errors
    /// [`HostError::Hung`] if there is none in time; [`HostError::Lost`] if the process is gone;
    /// [`HostError::System`] with the reason if it could not be done.
    fn ask(&mut self, request: &RecorderRequest, limit: Duration) -> Result<RecorderReply>;
}

/// The error of a machine on which nothing is recorded.
pub(crate) fn not_here(host: &str) -> HostError {
    HostError::System {
        action: "record a disk on".to_string(),
        object: host.to_string(),
        errno: 0,
        reason: "disks are recorded only on the machine itself".to_string(),
    }
}
