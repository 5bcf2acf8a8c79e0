//! A configuration: one point of the space that a plan spans.

use crate::axis::{CACHE, DEFAULT, MEMORY, leaves_trace};
use crate::cache::CacheState;
use crate::kernel::HOST_KERNEL;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The use of a filesystem before it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Precondition {
    /// The percentage of the filesystem's size that is filled.
    pub fill_percent: u32,
    /// The number of times that a random half of its files is replaced.
    pub age_rounds: u32,
}

/// One point of the space that a plan spans: the levels of all its axes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// The name of a named configuration, else the levels that vary in the plan, joined.
    pub name: String,
    /// The filesystem to create; `existing` for a directory that is used as it is.
    pub filesystem: String,
    /// Canonical level of each axis that the plan sets, except `filesystem`. A missing axis means `default`.
    pub settings: BTreeMap<String, String>,
}

/// The filesystem and the settings that determine what a prepared load finds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traces<'a> {
    filesystem: &'a str,
    /// In the order of their axes.
    settings: Vec<(&'a str, &'a str)>,
}

impl Configuration {
    /// The filesystem of a directory that was there before, which nobody built for a trial.
    pub const EXISTING: &str = "existing";

    /// The level of an axis, `None` if the plan leaves it to the defaults.
    pub fn level(&self, axis: &str) -> Option<&str> {
        self.settings.get(axis).map(String::as_str).filter(|level| *level != DEFAULT)
    }

    /// The kernel of the guest that it runs in; `None` for the machine's own.
    pub fn guest_kernel(&self) -> Option<&str> {
        self.level("kernel").filter(|level| *level != HOST_KERNEL)
    }

    /// The state to bring the filesystem into before measuring; `None` for a fresh one.
    pub fn precondition(&self) -> Option<Precondition> {
        let fill_percent = self.level("fill")?.trim_end_matches('%').parse().ok()?;
        let age_rounds = self.level("age").and_then(|rounds| rounds.parse().ok()).unwrap_or(0);
        Some(Precondition { fill_percent, age_rounds })
    }

    /// The memory that the load and the page cache that it fills are limited to; `None`: that of the machine.
    pub fn memory(&self) -> Option<Bytes> {
        self.level(MEMORY)?.parse().ok()
    }

    /// Returns the state of the caches when a phase begins to read.
    pub fn cache(&self) -> CacheState {
        self.level(CACHE).and_then(CacheState::named).unwrap_or_default()
    }

    /// Returns the filesystem and the settings that leave a trace in what a prepared load finds.
    /// Configurations with equal traces can begin with copies of the same filesystem.
    pub fn traces(&self) -> Traces<'_> {
        let leaves = |(axis, level): &(&str, &str)| leaves_trace(axis) && *level != DEFAULT;
        let settings = self.settings.iter().map(|(axis, level)| (axis.as_str(), level.as_str()));
        Traces { filesystem: &self.filesystem, settings: settings.filter(leaves).collect() }
    }

    /// The name in `[device.journals]` that the journal goes to: `Some(None)` for the only one.
    pub fn external_journal(&self) -> Option<Option<&str>> {
        let level = self.level("journal")?.strip_prefix("external")?;
        Some(level.strip_prefix(':'))
    }
}
