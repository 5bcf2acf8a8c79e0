//! The sources of a page.

use crate::error::ReportError;
use fsdyno_core::SweepHeader;
use fsdyno_core::TrialRecord;

/// The data from which a page is made.
pub struct Sources<'a> {
    /// The sweep.
    pub header: SweepHeader,
    /// All of its trials; their timelines, histograms and samples of telemetry are not used.
    pub trials: &'a [TrialRecord],
    /// The complete trials of a case.
    pub details: &'a dyn Fn(u32) -> Result<Vec<TrialRecord>, ReportError>,
}
