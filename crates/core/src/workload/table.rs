//! The load that was measured for an imported table.

use super::parameter::{Refusal, parameters};
use super::{Load, Timing};
use crate::units::Bytes;

parameters! {
    /// A load that only its table knows. No plan can run it.
    Table {
        load: String = String::new(), "what ran, as the column `workload` says";
    }
}

impl Load for Table {
    fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    fn writes(&self) -> Bytes {
        Bytes(0)
    }

    fn timing(&self) -> Timing {
        Timing::default()
    }

    fn title(&self) -> String {
        if self.load.is_empty() { "a table".to_string() } else { format!("a table: {}", self.load) }
    }

    /// It cannot be run.
    fn short_runs(&self) -> &'static [&'static str] {
        &[]
    }

    fn default_measure(&self) -> &'static str {
        "throughput"
    }
}
