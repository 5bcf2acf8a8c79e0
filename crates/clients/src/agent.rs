//! The agent of a client: connects back to the coordinator that has launched it, runs engines for it, and
//! ends with it. The agent of a member of a fleet is the same, and runs whole trials ([`Membership`]).
//!
//! A reader answers what the time is at once, whatever the engine does; the main thread starts engines,
//! which die with it. If nothing is heard of the coordinator for [`SILENCE_MAX`], the agent is an orphan: it
//! asks its engine to stop, which removes what it has created, and exits.

use crate::handshake::{Connection, Rejection, about, introduce};
use crate::sealed;
use crate::token::Token;
use crate::wire::{FromAgent, HEARTBEAT, SILENCE_MAX, ToAgent};
use fsdyno_core::protocol::MemoryGroup;
use fsdyno_core::{Bytes, EngineEvent, Warning, WarningKind};
use fsdyno_host::remote::{Engines, News, Order};
use std::fs::OpenOptions;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time for which an agent tries to reach its coordinator.
const JOIN_LIMIT: Duration = Duration::from_secs(30);
/// The time that one address may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// The pause between attempts.
const RETRY: Duration = Duration::from_millis(100);
/// The interval at which to look for orders while an engine runs.
const TURN: Duration = Duration::from_millis(20);
/// The time that an orphan may take to remove what it has created.
const CLEAN_UP_LIMIT: Duration = Duration::from_secs(60);

/// Why an agent could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// None of the addresses leads to the coordinator.
    #[error("cannot reach the coordinator at {addresses}: {reason}")]
    Unreachable {
        /// The addresses.
        addresses: String,
        /// The last attempt.
        reason: String,
    },
    /// The coordinator does not want it.
    #[error("the coordinator refuses this agent: {0}")]
    Refused(String),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// Who limits the memory of engines on a client.
pub trait MemoryLimiter {
    /// Creates a group with this limit for the next engine.
    ///
    /// # Errors
    /// Why there can be none.
    fn limit(&mut self, limit: Bytes) -> Result<MemoryGroup, String>;

    /// Removes the group; its engine is gone.
    fn release(&mut self);
}

/// The orders to a member of a fleet, and the way to answer them.
pub struct Membership<'a> {
    link: &'a Link,
    orders: &'a Receiver<ToAgent>,
}

impl Membership<'_> {
    /// The next order; nothing once there is nothing more to do, whatever the reason.
    pub fn next(&self) -> Option<String> {
        while !self.link.is_over() && !self.link.stop.load(Ordering::Relaxed) {
            match self.orders.recv_timeout(TURN) {
                Ok(ToAgent::Member(order)) => return Some(order),
                Ok(ToAgent::Bye) | Err(RecvTimeoutError::Disconnected) => return None,
                // An engine of a client cannot be meant.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
        None
    }

    /// Says something.
    pub fn say(&self, news: String) {
        self.link.say(&FromAgent::Member(news));
    }
}

/// The work of a member of a fleet from its first order on.
pub type MemberTask<'a> = dyn FnMut(&str, &Membership<'_>) + 'a;

/// Joins the coordinator at one of the addresses and serves it until it says that there is nothing more to
/// do, is gone, or `stop` is set, which it also is if the coordinator wants the trial in progress to stop.
/// `hurry` is set when nobody waits any longer for what hangs.
///
/// # Errors
/// [`JoinError`].
pub fn serve(
    addresses: &[SocketAddr],
    token: &Token,
    binary: PathBuf,
    memory: &mut dyn MemoryLimiter,
    member: &mut MemberTask<'_>,
    [stop, hurry]: [&Arc<AtomicBool>; 2],
) -> Result<(), JoinError> {
    let connection = join(addresses, token, stop)?;
    let Connection { sender: output, receiver } = connection;
    let link = Arc::new(Link {
        output: Mutex::new(output),
        heard: Mutex::new(Instant::now()),
        over: AtomicBool::new(false),
        stop: Arc::clone(stop),
        hurry: Arc::clone(hurry),
    });
    let (sender, orders) = channel();
    let reading = Arc::clone(&link);
    thread::Builder::new().spawn(move || reading.read(receiver, &sender)).map_err(JoinError::Thread)?;
    let living = Arc::clone(&link);
    thread::Builder::new().spawn(move || living.live()).map_err(JoinError::Thread)?;
    let mut engines = Engines::new(binary);
    work(&link, &orders, &mut engines, memory, member);
    leave(&link, &mut engines);
    memory.release();
    Ok(())
}

/// Does what the coordinator wants.
fn work(
    link: &Link,
    orders: &Receiver<ToAgent>,
    engines: &mut Engines,
    memory: &mut dyn MemoryLimiter,
    member: &mut MemberTask<'_>,
) {
    while !link.is_over() && !link.stop.load(Ordering::Relaxed) {
        let patience = if engines.is_busy() { Duration::ZERO } else { TURN };
        match orders.recv_timeout(patience) {
            Ok(ToAgent::Order(order)) => {
                let (order, unlimited) = limited(order, memory);
                link.tell_all(unlimited);
                link.tell_all(engines.carry_out(order));
            }
            Ok(ToAgent::Mark { path }) => link.say(&FromAgent::Done(mark(&path))),
            Ok(ToAgent::Look { path }) => {
                link.say(&FromAgent::Done(answer_of(path.symlink_metadata().map(drop))))
            }
            Ok(ToAgent::Unmark { path }) => {
                link.say(&FromAgent::Done(answer_of(std::fs::remove_file(&path))))
            }
            Ok(ToAgent::Member(order)) => member(&order, &Membership { link, orders }),
            Ok(ToAgent::Bye) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(ToAgent::Alive | ToAgent::Interrupt) | Err(RecvTimeoutError::Timeout) => {}
        }
        if engines.is_busy() {
            link.tell_all(engines.news(TURN));
            if !engines.is_busy() {
                memory.release();
            }
        }
    }
}

/// Gives an engine whose memory is to be limited a group on this machine; or a warning in its place.
fn limited(order: Order, memory: &mut dyn MemoryLimiter) -> (Order, Option<News>) {
    let Order::Start(mut request) = order else { return (order, None) };
    let mut unlimited = None;
    if let Some(wanted) = request.memory.take() {
        match memory.limit(wanted.limit) {
            Ok(group) => request.memory = Some(group),
            Err(reason) => {
                let warning = Warning::new(WarningKind::MemoryNotLimited, reason);
                unlimited = Some(News::Event(Box::new(EngineEvent::Warning(warning))));
            }
        }
    }
    (Order::Start(request), unlimited)
}

/// Ends the engine, which gets the time to remove what it has created.
fn leave(link: &Link, engines: &mut Engines) {
    link.tell_all(engines.carry_out(Order::Stop));
    let deadline = Instant::now() + CLEAN_UP_LIMIT;
    while engines.is_busy() && Instant::now() < deadline {
        engines.news(TURN);
    }
    engines.carry_out(Order::Kill);
}

fn mark(path: &Path) -> Result<(), String> {
    answer_of(OpenOptions::new().write(true).create_new(true).open(path).map(drop))
}

fn answer_of(result: io::Result<()>) -> Result<(), String> {
    result.map_err(|error| error.to_string())
}

/// The connection to the coordinator.
struct Link {
    output: Mutex<sealed::Sender>,
    /// When something was last heard of it.
    heard: Mutex<Instant>,
    over: AtomicBool,
    /// `true` if the work on this machine is to stop, as it is when the connection is over, too.
    stop: Arc<AtomicBool>,
    /// `true` if the work is not to wait for anything.
    hurry: Arc<AtomicBool>,
}

impl Link {
    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn read(&self, mut receiver: sealed::Receiver, orders: &Sender<ToAgent>) {
        while let Ok(Some(line)) = receiver.receive() {
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            match serde_json::from_slice(line) {
                Ok(ToAgent::Alive) => {}
                Ok(ToAgent::Interrupt) => {
                    if self.stop.swap(true, Ordering::Relaxed) {
                        self.hurry.store(true, Ordering::Relaxed);
                    }
                }
                Ok(ToAgent::Order(order)) if matches!(order, Order::Clock { .. }) => {
                    self.tell_all(order.answered_at_once());
                }
                Ok(other) => {
                    if orders.send(other).is_err() {
                        break;
                    }
                }
                // It has the same version: then something is broken.
                Err(_) => break,
            }
        }
        self.end();
    }

    /// Says that this end lives, and watches the other.
    fn live(&self) {
        while !self.is_over() {
            self.say(&FromAgent::Alive);
            thread::sleep(HEARTBEAT);
            if self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > SILENCE_MAX {
                self.end();
            }
        }
        // Whoever is alone does not wait for what hangs, either.
        thread::sleep(CLEAN_UP_LIMIT);
        self.hurry.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn tell_all(&self, news: Option<News>) {
        news.into_iter().for_each(|news| self.say(&FromAgent::News(news)));
    }

    fn say(&self, what: &FromAgent) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if output.send(what).is_err() {
            self.end();
        }
    }
}

/// Tries the addresses one after the other until one of them is the coordinator's.
fn join(addresses: &[SocketAddr], token: &Token, stop: &AtomicBool) -> Result<Connection, JoinError> {
    let deadline = Instant::now() + JOIN_LIMIT;
    let mut reason = "there are no addresses".to_string();
    while Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        for address in addresses {
            let joined = TcpStream::connect_timeout(address, CONNECT_LIMIT)
                .map_err(Rejection::from)
                .and_then(|stream| introduce(stream, token, about(rank())));
            match joined {
                Ok(connection) => return Ok(connection),
                Err(Rejection::Refused(reason)) => return Err(JoinError::Refused(reason)),
                Err(Rejection::Connection(error)) => reason = error.to_string(),
                Err(Rejection::Stranger) => reason = format!("{address}: {}", Rejection::Stranger),
            }
        }
        thread::sleep(RETRY);
    }
    let addresses = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    Err(JoinError::Unreachable { addresses, reason })
}

/// The number that the launcher has given this agent: Open MPI, PMIx, PMI (MPICH), Slurm.
fn rank() -> Option<u32> {
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}
