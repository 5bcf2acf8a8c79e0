//! The machines of a launch, for as long as it lasts: clients that do loads together, or the members of a
//! fleet, each of which runs trials of its own.

use crate::client::Client;
use crate::launcher::Launcher;
use crate::members::{Members, NewsOfAll};
use crate::wire::{HEARTBEAT, ToAgent};
use fsdyno_core::EngineRequest;
use fsdyno_core::environment::ClientFacts;
use fsdyno_host::remote::Member;
use fsdyno_host::{EngineProcess, HostError, Result};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// The time that a client may take to create, find or remove an empty file.
const LOOK_LIMIT: Duration = Duration::from_secs(30);
/// The time that clients may take to leave.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

/// The reports of members of a fleet, with their numbers.
pub(crate) type Reports = Receiver<(usize, String)>;

/// Connected clients, and the launcher that has started them.
pub struct ClientPool {
    reports: Reports,
    clients: Arc<Clients>,
    members: Arc<Members>,
    launcher: Launcher,
}

/// The connections, which stay alive whether or not a load runs.
struct Clients {
    all: Vec<Arc<Client>>,
    over: AtomicBool,
}

impl Clients {
    /// Says, until they are closed, from time to time that the coordinator lives.
    fn live(&self) {
        while !self.over.load(Ordering::Relaxed) {
            self.all.iter().filter(|client| client.lost().is_none()).for_each(|client| {
                client.say(&ToAgent::Alive);
            });
            thread::sleep(HEARTBEAT);
        }
    }

    fn close(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.all.iter().for_each(|client| client.close());
    }
}

impl ClientPool {
    pub(crate) fn new(
        (all, news, reports): (Vec<Client>, NewsOfAll, Reports),
        launcher: Launcher,
    ) -> io::Result<Self> {
        let all: Vec<Arc<Client>> = all.into_iter().map(Arc::new).collect();
        let members = all.iter().map(|client| Arc::clone(client) as Arc<dyn Member>).collect();
        let clients = Arc::new(Clients { all, over: AtomicBool::new(false) });
        let living = Arc::clone(&clients);
        thread::Builder::new().name("heartbeat".to_string()).spawn(move || living.live())?;
        Ok(ClientPool { reports, clients, members: Members::new(members, news), launcher })
    }

    /// Tells the clients that there is nothing more to do, and waits for them and the launcher, with a limit.
    /// Returns what is left of them.
    pub fn end(mut self) -> Vec<String> {
        self.clients.all.iter().for_each(|client| client.say(&ToAgent::Bye));
        let deadline = Instant::now() + LEAVE_LIMIT;
        while self.clients.all.iter().any(|client| client.lost().is_none()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        self.clients.close();
        self.launcher.end(true).into_iter().collect()
    }

    /// Makes sure that a directory is the same on all clients: one creates a file there, the others see it.
    fn verify_shared(&self, directory: &Path) -> Result<()> {
        let Some((first, others)) = self.clients.all.split_first() else { return Ok(()) };
        let path = directory.join(format!(".fsdyno-shared-{}", &crate::token::nonce()[..16]));
        let failed = |member: &Client, action: &str, reason: String| HostError::System {
            action: format!("{action} on client '{}'", member.name),
            object: path.display().to_string(),
            errno: 0,
            reason,
        };
        first
            .ask(&ToAgent::Mark { path: path.clone() }, LOOK_LIMIT)
            .map_err(|reason| failed(first, "create", reason))?;
        let seen = others.iter().try_for_each(|member| {
            member.ask(&ToAgent::Look { path: path.clone() }, LOOK_LIMIT).map_err(|reason| {
                let reason = format!("{reason}; '{}' has just created it there: is it shared?", first.name);
                failed(member, "find", reason)
            })
        });
        let removed = first.ask(&ToAgent::Unmark { path: path.clone() }, LOOK_LIMIT);
        seen?;
        removed.map_err(|reason| failed(first, "remove", reason))
    }
}

impl ClientPool {
    /// Returns the facts about the clients, in the order of results.
    pub fn facts(&self) -> Vec<ClientFacts> {
        let facts = |member: &Arc<Client>| ClientFacts {
            client: member.name.clone(),
            kernel: member.about.kernel.clone(),
            processors: member.about.processors,
            memory_bytes: member.about.memory_bytes,
        };
        self.clients.all.iter().map(facts).collect()
    }

    /// The first that is lost, and why.
    pub(crate) fn lost(&self) -> Option<String> {
        self.members.lost().map(|lost| lost.to_string())
    }

    /// Starts an engine on each, which work as one.
    pub(crate) fn start_engines(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        self.verify_shared(&request.directory)?;
        self.members.start_engines(request, &[])
    }
}

/// As a fleet.
impl ClientPool {
    /// The name of each member.
    pub fn names(&self) -> Vec<String> {
        self.clients.all.iter().map(|member| member.name.clone()).collect()
    }

    /// Sends an order to a member, which understands it as its caller does. A failure is the end of the
    /// member, which [`ClientPool::lost_member`] then says.
    pub fn tell(&self, member: usize, order: String) {
        self.clients.all[member].say(&ToAgent::Member(order));
    }

    /// Asks a member to stop what it is doing.
    pub fn interrupt(&self, member: usize) {
        self.clients.all[member].say(&ToAgent::Interrupt);
    }

    /// Returns the next report of a member, with its number, or `None` if all are silent for `timeout`.
    pub fn report(&self, timeout: Duration) -> Option<(usize, String)> {
        self.reports.recv_timeout(timeout).ok()
    }

    /// Why a member is lost, if it is.
    pub fn lost_member(&self, member: usize) -> Option<String> {
        self.clients.all[member].lost()
    }
}
