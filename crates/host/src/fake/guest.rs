//! Fake machines as guests.

use super::FakeHost;
use crate::guest::{Guest, GuestFacts, GuestRequest, Guests, NotStarted};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Guests that were prepared.
#[derive(Debug, Default)]
pub struct FakeGuests {
    /// The results of the next requests.
    pub next: VecDeque<Result<FakeHost, NotStarted>>,
    /// What was requested.
    pub requests: Vec<GuestRequest>,
    /// What every request lacks.
    pub unmet: Vec<String>,
}

impl Guests for FakeGuests {
    fn unmet(&mut self, _request: &GuestRequest) -> Vec<String> {
        self.unmet.clone()
    }

    fn start(
        &mut self,
        request: &GuestRequest,
        disks: &[OwnedFd],
        _: &AtomicBool,
    ) -> Result<Box<dyn Guest>, NotStarted> {
        assert_eq!(disks.len(), request.disks.len(), "a descriptor for each disk");
        self.requests.push(request.clone());
        let next = self.next.pop_front().unwrap_or_else(|| panic!("a guest too many: {request:?}"));
        next.map(|host| Box::new(host) as Box<dyn Guest>)
    }
}

/// Its disks are its block devices; its console shows the steps that it has done.
impl Guest for FakeHost {
    fn facts(&self) -> &GuestFacts {
        &self.facts
    }

    fn disks(&self) -> Vec<PathBuf> {
        self.blocks.keys().cloned().collect()
    }

    fn last_words(&mut self) -> String {
        self.log().last().cloned().unwrap_or_default()
    }

    fn end_now(&mut self) {}
}
