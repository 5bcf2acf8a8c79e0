//! Hand-made trials, and their sweep.

pub use fsdyno_testkit::*;

use crate::View;
use fsdyno_core::TrialRecord;

/// The view of some trials, ranked by a measure.
pub fn view(measure: &str, trials: &[TrialRecord]) -> View {
    View::new(&header(measure), trials).unwrap()
}
