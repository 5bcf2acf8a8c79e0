//! Ends that are known before they come.

use crate::DiskRequest;
use std::cmp::Ordering;

/// The end of a request, known before it comes; ordered by its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub at_ns: f64,
    pub request: DiskRequest,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at_ns.total_cmp(&other.at_ns).then(self.request.id.cmp(&other.request.id))
    }
}
