//! Why a report could not be made.

use fsdyno_verdict::UnreadableHistogram;
use std::error::Error;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A stored histogram is not one, or does not fit the others.
    #[error(transparent)]
    Histogram(#[from] UnreadableHistogram),
    /// Whoever has the trials cannot give them.
    #[error(transparent)]
    Trials(Box<dyn Error + Send + Sync>),
}
