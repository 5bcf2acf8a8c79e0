//! Why a report could not be made.

use fsdyno_verdict::UnreadableHistogram;
use std::error::Error;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A stored histogram is invalid or cannot be merged with the others.
    #[error(transparent)]
    Histogram(#[from] UnreadableHistogram),
    /// The trials cannot be loaded.
    #[error(transparent)]
    Trials(Box<dyn Error + Send + Sync>),
}
