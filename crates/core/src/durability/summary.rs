//! The contents of a log.

use super::Promise;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// The recorded log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// Writes.
    pub writes: u64,
    /// Bytes in them.
    pub written_bytes: u64,
    /// Discards, and writes of zeros without data.
    pub discards: u64,
    /// Flushes.
    pub flushes: u64,
    /// From the first entry to the last.
    pub duration_ns: Nanos,
    /// The number of acknowledged promises of each kind in the whole log, for those that were acknowledged.
    pub promises: Vec<(Promise, u64)>,
}
