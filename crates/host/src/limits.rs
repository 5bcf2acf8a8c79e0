//! The times that steps may take.

use crate::{Limit, Request};
use std::time::Duration;

/// The times that steps may take before they are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A step that reads or changes little: 60 s.
    pub step: Duration,
    /// A step that may have to write back cached data to a slow device, especially an unmount: 300 s.
    pub flush: Duration,
    /// Removing whatever an engine left in a directory, possibly millions of files: an hour.
    pub tree: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            step: Duration::from_secs(60),
            flush: Duration::from_secs(300),
            tree: Duration::from_secs(3600),
        }
    }
}

impl Limits {
    /// Returns the time that a request may take; at most `most`, if given.
    pub fn of(&self, request: &Request, most: Option<Duration>) -> Duration {
        let usual = match request.limit() {
            Limit::Step => self.step,
            Limit::Flush => self.flush,
            Limit::Tree => self.tree,
            Limit::Program(limit) => limit,
        };
        most.map_or(usual, |most| most.min(usual))
    }
}
