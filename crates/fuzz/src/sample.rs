//! Trials to start from.

use fsdyno_core::TrialRecord;
use std::sync::LazyLock;

/// A trial of the fileserver workload, cut down to one phase with one operation for each role: small, so that a million
/// variations of it are soon shown.
static SAMPLE: LazyLock<TrialRecord> =
    LazyLock::new(|| serde_json::from_str(include_str!("sample.json")).expect("a record"));

/// The trial, in each of three blocks: three of the largest numbers of a column are more than 64 bits hold.
pub fn repeated() -> Vec<TrialRecord> {
    (0..3).map(|block| TrialRecord { trial: block, block, ..SAMPLE.clone() }).collect()
}

/// A trial that was measured, and of which nothing else is known.
pub fn empty() -> TrialRecord {
    TrialRecord {
        phases: Vec::new(),
        warnings: Vec::new(),
        timer: None,
        filled: None,
        layout: None,
        ..SAMPLE.clone()
    }
}
