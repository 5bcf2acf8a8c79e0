//! Why trials could not be merged.

use fsdyno_core::Operation;
use fsdyno_stats::DistributionError;

/// A stored histogram cannot be decoded, or does not fit the others.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the histogram of '{operation}' in trial {}", trial + 1)]
pub struct UnreadableHistogram {
    /// The trial.
    pub trial: u32,
    /// The operation.
    pub operation: Operation,
    /// The cause.
    pub source: DistributionError,
}
