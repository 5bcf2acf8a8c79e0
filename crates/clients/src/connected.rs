//! The connections to all clients, which stay alive whether or not a load runs.

use crate::member::Member;
use crate::wire::{HEARTBEAT, ToAgent};
use fsdyno_host::remote::News;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;

/// News with the number of the client.
pub(crate) type NewsOfAll = Receiver<(usize, News)>;

/// What a running load needs of the clients.
pub(crate) struct Connected {
    pub members: Vec<Member>,
    pub news: Mutex<NewsOfAll>,
    over: AtomicBool,
}

impl Connected {
    /// Says from now on, from time to time, that the coordinator lives.
    pub fn new(members: Vec<Member>, news: NewsOfAll) -> io::Result<Arc<Self>> {
        let clients = Arc::new(Connected { members, news: Mutex::new(news), over: AtomicBool::new(false) });
        let living = Arc::clone(&clients);
        thread::Builder::new().name("heartbeat".to_string()).spawn(move || living.live())?;
        Ok(clients)
    }

    /// Ends all connections.
    pub fn close(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.members.iter().for_each(Member::close);
    }

    fn live(&self) {
        while !self.over.load(Ordering::Relaxed) {
            self.members.iter().filter(|member| member.lost().is_none()).for_each(|member| {
                member.say(&ToAgent::Alive);
            });
            thread::sleep(HEARTBEAT);
        }
    }
}
