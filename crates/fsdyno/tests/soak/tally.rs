//! The progress of a soak, kept in a file so that it can continue, and its counts.

use crate::ending::Ending;
use crate::plan::Device;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The default seed.
const SEED: u64 = 20_261_122;

#[derive(Debug, Serialize, Deserialize)]
pub struct Tally {
    pub seed: u64,
    /// Number of the next run.
    pub next: u64,
    pub seconds: f64,
    /// Runs by device.
    devices: BTreeMap<String, u64>,
    /// Runs by ending and exit status.
    endings: BTreeMap<String, BTreeMap<String, u64>>,
    pub findings: Vec<String>,
}

impl Tally {
    pub fn new(seed: u64, next: u64) -> Self {
        let (devices, endings) = Default::default();
        Tally { seed, next, seconds: 0.0, devices, endings, findings: Vec::new() }
    }

    /// Continues where an earlier soak stopped, unless another seed is requested.
    pub fn resume(file: &Path, seed: Option<u64>) -> Self {
        let kept = fs::read(file).ok().and_then(|text| serde_json::from_slice::<Tally>(&text).ok());
        match kept {
            Some(tally) if seed.is_none_or(|seed| seed == tally.seed) => tally,
            _ => Tally::new(seed.unwrap_or(SEED), 0),
        }
    }

    /// Writes a new file and renames it, so that a crash leaves the old one.
    pub fn keep(&self, file: &Path) {
        let new = file.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(self).expect("JSON")).expect("write the state");
        fs::rename(&new, file).expect("rename the state");
    }

    pub fn count(&mut self, device: Device, ending: Ending, status: &str) {
        *self.devices.entry(format!("{device:?}")).or_default() += 1;
        let statuses = self.endings.entry(format!("{ending:?}")).or_default();
        *statuses.entry(status.to_string()).or_default() += 1;
    }

    /// The summary.
    pub fn text(&self, part: &str) -> String {
        let mut text = format!("{part}: seed {}, {} runs in {:.0} s\n", self.seed, self.next, self.seconds);
        let devices: Vec<String> =
            self.devices.iter().map(|(device, runs)| format!("{device} {runs}")).collect();
        text.push_str(&format!("  devices: {}\n", devices.join(", ")));
        for (ending, statuses) in &self.endings {
            let runs: u64 = statuses.values().sum();
            let statuses: Vec<String> =
                statuses.iter().map(|(status, runs)| format!("{status}: {runs}")).collect();
            text.push_str(&format!("  {ending} {runs}: {}\n", statuses.join(", ")));
        }
        match self.findings.len() {
            0 => text.push_str("  found: nothing\n"),
            count => text.push_str(&format!("  found: {count} lines\n{}\n", self.findings.join("\n"))),
        }
        text
    }
}
