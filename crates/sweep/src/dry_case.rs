//! The dry run of one case of a plan.

use fsdyno_core::{Configuration, Nanos, Warning, Workload};
use serde::Serialize;
use std::borrow::Cow;

/// The dry run of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DryCase {
    /// Position in the plan, from 0.
    pub case: u32,
    /// The configuration that would be built.
    pub configuration: Configuration,
    /// The workload that would run on it.
    pub workload: Workload,
    /// See [`Case::label`](crate::plan::Case::label).
    #[serde(skip)]
    pub label: Cow<'static, str>,
    /// The exact commands; steps that are syscalls are shown as equivalent commands.
    pub commands: Vec<String>,
    /// Requirements that this machine does not meet; the trials of the case would be skipped.
    pub unmet: Vec<String>,
    /// Old names that were mapped, and what cannot be known beforehand.
    pub notes: Vec<String>,
    /// Warnings about what its settings weaken, or may weaken, of what survives a power cut.
    pub risks: Vec<Warning>,
    /// Estimated time of one trial.
    pub time_ns: Nanos,
}

impl DryCase {
    /// Estimated time of one trial; none if it is skipped.
    pub(crate) fn trial_time(&self) -> Nanos {
        if self.unmet.is_empty() { self.time_ns } else { Nanos(0) }
    }
}
