//! Machines that do loads together, whatever connects them.

use fsdyno_core::result::ClockOffset;
use fsdyno_host::HostError;
use fsdyno_host::remote::{Member, News};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// The number of news that may wait to be looked at.
const NEWS_WAITING: usize = 4096;

/// The number of clocks that are read at a time: more would disturb each other's round trips.
const CLOCKS_AT_ONCE: usize = 16;

/// News with the number of the member.
pub type NewsOfAll = Receiver<(usize, News)>;

/// Machines that do loads together, one after the other.
pub struct Members {
    pub(crate) members: Vec<Arc<dyn Member>>,
    pub(crate) news: Mutex<NewsOfAll>,
}

impl Members {
    /// Where news of members go, and where they are heard.
    pub fn line() -> (SyncSender<(usize, News)>, NewsOfAll) {
        sync_channel(NEWS_WAITING)
    }

    /// Members in the order of their numbers, and the news of them.
    pub fn new(members: Vec<Arc<dyn Member>>, news: NewsOfAll) -> Arc<Self> {
        Arc::new(Members { members, news: Mutex::new(news) })
    }

    /// The first that is lost, and why.
    pub fn lost(&self) -> Option<HostError> {
        let lost = |member: &Arc<dyn Member>| {
            Some(HostError::ClientLost { client: member.name().to_string(), reason: member.lost()? })
        };
        self.members.iter().find_map(lost)
    }

    /// The clocks of those that are wanted, by their numbers; several are read at a time, because each
    /// reading is a wait.
    pub(crate) fn clocks(&self, is_wanted: impl Fn(usize) -> bool + Sync) -> Vec<Option<ClockOffset>> {
        let mut clocks = vec![None; self.members.len()];
        let share = self.members.len().div_ceil(CLOCKS_AT_ONCE).max(1);
        thread::scope(|scope| {
            for (part, (members, clocks)) in
                self.members.chunks(share).zip(clocks.chunks_mut(share)).enumerate()
            {
                let is_wanted = &is_wanted;
                scope.spawn(move || {
                    for (index, (member, clock)) in members.iter().zip(clocks).enumerate() {
                        *clock = is_wanted(part * share + index).then(|| member.clock()).flatten();
                    }
                });
            }
        });
        clocks
    }
}
