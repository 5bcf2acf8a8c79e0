//! Why a report could not be made.

use fsdyno_core::Operation;
use fsdyno_stats::DistributionError;
use fsdyno_store::StoreError;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A stored histogram is not one, or does not fit the others.
    #[error("cannot read the histogram of '{operation}' in trial {trial}")]
    Histogram {
        /// The trial.
        trial: u32,
        /// The operation.
        operation: Operation,
        /// What is wrong with it.
        source: DistributionError,
    },
    /// A trial cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}
