//! Hand-made trials, and their sweep.

pub use fsdyno_testkit::*;

use crate::{Header, View};
use fsdyno_core::TrialRecord;

/// The view of some trials, ranked by a measure.
pub fn view(measure: &str, trials: &[TrialRecord]) -> View {
    View::new(&header(measure), trials).unwrap()
}

/// The sweep of the trials.
pub fn header(measure: &str) -> Header {
    Header {
        id: "7".to_string(),
        name: "demo".to_string(),
        plan_toml: "name = \"demo\"\n".to_string(),
        overrides: vec!["device.size=4G".to_string()],
        started: "2026-02-03T04:05:06Z".to_string(),
        finished: Some("2026-02-03T04:35:06Z".to_string()),
        seed: 42,
        measure: measure.parse().unwrap(),
    }
}
