//! Trials to start from.

use fsdyno_core::TrialRecord;
use std::sync::LazyLock;

/// A trial of the fileserver workload, reduced to one phase with one operation for each role, so that showing
/// a million variations of it takes little time; and what power cuts have left, which no such trial has.
static SAMPLE: LazyLock<TrialRecord> =
    LazyLock::new(|| serde_json::from_str(include_str!("sample.json")).expect("a record"));

/// The trial in each of three blocks: three times the largest number of a column does not fit 64 bits.
pub fn repeated() -> Vec<TrialRecord> {
    (0..3).map(|block| TrialRecord { trial: block, block, ..SAMPLE.clone() }).collect()
}

/// A measured trial about which nothing else is known.
pub fn empty() -> TrialRecord {
    TrialRecord {
        phases: Vec::new(),
        warnings: Vec::new(),
        timer: None,
        filled: None,
        commands: Vec::new(),
        layout: None,
        read_again: None,
        durability: None,
        io_errors: Vec::new(),
        columns: Default::default(),
        ..SAMPLE.clone()
    }
}
