//! Fake machines as guests.

use super::FakeHost;
use fsdyno_host::guest::{Download, Guest, GuestFacts, GuestRequest, Guests, NotStarted, Wanted};
use fsdyno_host::remote::{Member, News};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

/// Guests that were prepared.
#[derive(Debug, Default)]
pub struct FakeGuests {
    /// The results of the next requests.
    pub next: VecDeque<Result<FakeHost, NotStarted>>,
    /// The requests so far.
    pub requests: Vec<GuestRequest>,
    /// The unmet requirements of every request.
    pub unmet: Vec<String>,
    /// The downloads that every request needs.
    pub downloads: Vec<Download>,
    /// `true` if a processor executes the guests.
    pub by_kvm: bool,
}

impl Guests for FakeGuests {
    fn unmet(&mut self, _request: &GuestRequest) -> Vec<String> {
        self.unmet.clone()
    }

    fn are_emulated(&mut self) -> bool {
        !self.by_kvm
    }

    fn downloads(&mut self, _request: &GuestRequest) -> Vec<Download> {
        self.downloads.clone()
    }

    fn start_all(
        &mut self,
        wanted: &[Wanted<'_>],
        _: &AtomicBool,
    ) -> Result<Vec<Box<dyn Guest>>, NotStarted> {
        let mut start = |one: &Wanted<'_>| {
            let request = one.request;
            assert_eq!(one.disks.len(), request.disks.len(), "a descriptor for each disk");
            self.requests.push(request.clone());
            let next = self.next.pop_front().unwrap_or_else(|| panic!("a guest too many: {request:?}"));
            next.map(|host| Box::new(host) as Box<dyn Guest>)
        };
        wanted.iter().map(&mut start).collect()
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

    fn member(&self, _: String, _: usize, _: SyncSender<(usize, News)>) -> io::Result<Arc<dyn Member>> {
        Err(io::Error::other("a fake machine does no load together with others"))
    }
}
