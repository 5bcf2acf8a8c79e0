//! From a command to connected clients: the coordinator listens, runs the site's own launcher with agents to
//! start, and takes in those that know the token.
//!
//! The launcher (srun, mpirun, mpiexec, pdsh) only starts processes. Nothing is passed through it but
//! addresses; the token goes by the environment, or by a file that only its owner can read where a launcher
//! does not forward the environment. It is never waited for without a limit.

use crate::client::Client;
use crate::handshake::{Connection, Rejection, receive};
use crate::launcher::Launcher;
use crate::members::{Members, NewsOfAll};
use crate::pool::{ClientPool, Reports};
use crate::token::Token;
use crate::wire::{About, HEARTBEAT, ToAgent};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The variable in which agents find the token.
pub const TOKEN: &str = "FSDYNO_TOKEN";

/// The time that the launcher may take until all agents have joined.
const GATHER_LIMIT: Duration = Duration::from_secs(60);
/// The time that agents may take to join after the launcher has exited successfully.
const AFTER_LAUNCHER: Duration = Duration::from_secs(10);
/// The interval at which to look for connections and for the end of the launcher.
const TURN: Duration = Duration::from_millis(5);
/// The number of connections that may be in their handshake: from one address, and in all.
const STRANGERS_OF_ONE: usize = 32;
const STRANGERS: usize = 256;

/// The parameters of a launch.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The launcher with its arguments, as for a shell without its expansions.
    pub command: String,
    /// The number of agents that the launcher starts.
    pub count: u32,
    /// The address to listen on; all of this machine if absent.
    pub listen: Option<IpAddr>,
    /// The port; any free one if 0.
    pub port: u16,
    /// The file for the token, on all machines; absent where the launcher forwards the environment.
    pub token_file: Option<PathBuf>,
    /// The fsdyno binary, on all machines.
    pub binary: PathBuf,
}

/// Why there are no clients.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The command cannot be split into words.
    #[error("the launcher '{0}' is not a command: a quote is not closed, or it is empty")]
    Command(String),
    /// Nobody can connect.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The token cannot be left for the agents.
    #[error("cannot write the token to '{path}'")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The launcher cannot be run.
    #[error("cannot run the launcher '{program}'")]
    Run {
        /// Its program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// Not all agents have joined.
    #[error("{joined} of {count} machines joined: {reason}")]
    Missing {
        /// The number of machines that joined.
        joined: usize,
        /// The number of machines that were expected.
        count: u32,
        /// The facts known about the others.
        reason: String,
        /// The end of the launcher's output.
        output: String,
    },
    /// The user does not want to wait.
    #[error("interrupted")]
    Interrupted,
    /// Something of this machine failed.
    #[error("cannot serve the clients")]
    System(#[from] io::Error),
}

/// Runs a launcher and waits until all of its agents have joined.
///
/// # Errors
/// [`LaunchError`]; then nothing of the launch is left.
pub fn launch(launch: &Launch, interrupt: &AtomicBool) -> Result<ClientPool, LaunchError> {
    let words = shlex::split(&launch.command).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| LaunchError::Command(launch.command.clone()))?;
    let token = Token::random();
    let (listener, address) = listen(launch)?;
    let addresses = addresses(launch.listen, address)?;
    // Removed when it is dropped, at the latest when all have joined.
    let file = launch.token_file.as_deref().map(|path| TokenFile::create(path, &token)).transpose()?;
    let command = command(&words, launch, &addresses, &token);
    let run = |source| LaunchError::Run { program: words[0].clone(), source };
    let mut launcher = Launcher::start(command, &words[0]).map_err(run)?;
    let door = Door::open(listener, token)?;
    let joined = gather(launch, &door, &mut launcher, interrupt);
    drop((door, file));
    match joined {
        Ok(joined) => Ok(ClientPool::new(clients(joined)?, launcher)?),
        Err(error) => {
            launcher.end(false);
            Err(match error {
                LaunchError::Missing { joined, count, reason, .. } => {
                    LaunchError::Missing { joined, count, reason, output: launcher.output() }
                }
                other => other,
            })
        }
    }
}

fn listen(launch: &Launch) -> Result<(TcpListener, SocketAddr), LaunchError> {
    // One socket takes IPv4 as well, unless the machine has no IPv6.
    let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from([0, 0, 0, 0])];
    let wanted = launch.listen.map_or(any.to_vec(), |address| vec![address]);
    let mut failed = None;
    for address in wanted {
        let address = SocketAddr::new(address, launch.port);
        match TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener))) {
            Ok((bound, listener)) => return Ok((listener, bound)),
            Err(source) => {
                failed.get_or_insert(LaunchError::Listen { address, source });
            }
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::from(ErrorKind::AddrNotAvailable).into()))
}

/// Where agents can reach the listener: all addresses of this machine, and its own last.
fn addresses(listen: Option<IpAddr>, bound: SocketAddr) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = listen {
        return Ok(vec![SocketAddr::new(address, bound.port())]);
    }
    let mut interfaces = if_addrs::get_if_addrs()?;
    interfaces.sort_by_key(if_addrs::Interface::is_loopback);
    let usable = interfaces.iter().map(if_addrs::Interface::ip).filter(|ip| match ip {
        IpAddr::V4(_) => true,
        // Addresses of a link mean nothing without an interface.
        IpAddr::V6(ip) => bound.is_ipv6() && !ip.is_unicast_link_local(),
    });
    Ok(usable.map(|ip| SocketAddr::new(ip, bound.port())).collect())
}

/// The launcher with an agent as the program to start.
fn command(words: &[String], launch: &Launch, addresses: &[SocketAddr], token: &Token) -> Command {
    let addresses = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(&launch.binary).args(["agent", "--join", &addresses]);
    match &launch.token_file {
        Some(path) => command.arg("--token-file").arg(path),
        // Open MPI forwards only what it is told to, here without an argument on its command line.
        None => command.env(TOKEN, token.text()).env("OMPI_MCA_mca_base_env_list", TOKEN),
    };
    command
}

/// An agent that has joined.
struct Joined {
    connection: Connection,
    about: About,
}

/// Waits for all agents.
fn gather(
    launch: &Launch,
    door: &Door,
    launcher: &mut Launcher,
    interrupt: &AtomicBool,
) -> Result<Vec<Joined>, LaunchError> {
    let deadline = Instant::now() + GATHER_LIMIT;
    let mut greeted = Instant::now();
    let mut exited: Option<Instant> = None;
    loop {
        let mut here = door.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = here.len();
        if joined >= launch.count as usize {
            return Ok(std::mem::take(&mut *here));
        }
        // Those who wait for the others must not think that they are alone.
        if greeted.elapsed() >= HEARTBEAT {
            greeted = Instant::now();
            here.retain_mut(|one| one.connection.sender.send(&ToAgent::Alive).is_ok());
        }
        drop(here);
        if interrupt.load(Ordering::Relaxed) {
            return Err(LaunchError::Interrupted);
        }
        let refused = door.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended = launcher.exited();
        // One that ends well may have left its agents in the background.
        let since = ended.map(|_| exited.get_or_insert_with(Instant::now).elapsed());
        let ended = ended.filter(|status| !status.success() || since > Some(AFTER_LAUNCHER));
        let reason = match (refused, ended) {
            (Some(refused), _) => refused,
            (None, Some(status)) => format!("the launcher ended ({status})"),
            (None, None) if Instant::now() >= deadline => {
                format!("not all of them did within {} s", GATHER_LIMIT.as_secs())
            }
            (None, None) => {
                thread::sleep(TURN);
                continue;
            }
        };
        return Err(LaunchError::Missing { joined, count: launch.count, reason, output: String::new() });
    }
}

/// Names the clients by their hosts, in an order that does not depend on who was first.
fn clients(mut joined: Vec<Joined>) -> io::Result<(Vec<Client>, NewsOfAll, Reports)> {
    joined.sort_by_key(|one| (one.about.host.clone(), one.about.rank, one.about.pid));
    let mut hosts: BTreeMap<String, u32> = BTreeMap::new();
    for one in &joined {
        *hosts.entry(one.about.host.clone()).or_default() += 1;
    }
    let (sender, news) = Members::line();
    let (reporter, reports) = channel();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let clients = joined.into_iter().enumerate().map(|(number, Joined { connection, about })| {
        let of_host = seen.entry(about.host.clone()).or_default();
        *of_host += 1;
        let name = match hosts[&about.host] {
            1 => about.host.clone(),
            _ => format!("{}#{of_host}", about.host),
        };
        Client::new(name, number, connection, about, sender.clone(), reporter.clone())
    });
    Ok((clients.collect::<io::Result<_>>()?, news, reports))
}

/// Where agents come in.
struct Door {
    joined: Arc<Mutex<Vec<Joined>>>,
    /// Why one that knows the token was not let in.
    refused: Arc<Mutex<Option<String>>>,
    closed: Arc<AtomicBool>,
}

impl Door {
    fn open(listener: TcpListener, token: Token) -> io::Result<Self> {
        let door = Door { joined: Arc::default(), refused: Arc::default(), closed: Arc::default() };
        let (joined, refused, closed) =
            (Arc::clone(&door.joined), Arc::clone(&door.refused), Arc::clone(&door.closed));
        listener.set_nonblocking(true)?;
        thread::Builder::new().name("door".to_string()).spawn(move || {
            let strangers = Strangers::default();
            while !closed.load(Ordering::Relaxed) {
                let Ok((stream, peer)) = listener.accept() else {
                    thread::sleep(TURN);
                    continue;
                };
                // Whoever is turned away may try again.
                let Some(place) = strangers.admit(peer.ip()) else { continue };
                let (joined, refused, token) = (Arc::clone(&joined), Arc::clone(&refused), token.clone());
                let _ = thread::Builder::new().spawn(move || {
                    let _place = place;
                    greet(stream, &token, &joined, &refused);
                });
            }
        })?;
        Ok(door)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

fn greet(stream: TcpStream, token: &Token, joined: &Mutex<Vec<Joined>>, refused: &Mutex<Option<String>>) {
    let shaken = stream.set_nonblocking(false).map_err(Rejection::from).and_then(|()| receive(stream, token));
    match shaken {
        Ok((connection, about)) => {
            joined.lock().unwrap_or_else(PoisonError::into_inner).push(Joined { connection, about });
        }
        Err(Rejection::Refused(reason)) => {
            refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        }
        Err(Rejection::Connection(_) | Rejection::Stranger) => {}
    }
}

/// Connections in their handshake: few of each address, so that one cannot keep out all others.
#[derive(Default)]
struct Strangers {
    all: Arc<AtomicUsize>,
    by_address: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// The place of one of them.
struct LaunchPlace {
    all: Arc<AtomicUsize>,
    by_address: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Strangers {
    fn admit(&self, address: IpAddr) -> Option<LaunchPlace> {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let of_this = by_address.get(&address).copied().unwrap_or(0);
        if of_this >= STRANGERS_OF_ONE || self.all.load(Ordering::Relaxed) >= STRANGERS {
            return None;
        }
        by_address.insert(address, of_this + 1);
        self.all.fetch_add(1, Ordering::Relaxed);
        Some(LaunchPlace { all: Arc::clone(&self.all), by_address: Arc::clone(&self.by_address), address })
    }
}

impl Drop for LaunchPlace {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        match by_address.get_mut(&self.address) {
            Some(of_this) if *of_this > 1 => *of_this -= 1,
            _ => drop(by_address.remove(&self.address)),
        }
    }
}

/// A file with the token, for its owner only.
struct TokenFile(fsdyno_path::Place);

impl TokenFile {
    fn create(path: &Path, token: &Token) -> Result<Self, LaunchError> {
        let failed = |source| LaunchError::Token { path: path.to_path_buf(), source };
        let place = fsdyno_path::Place::of(path).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(place.through()).map_err(failed)?;
        let file_of_ours = TokenFile(place);
        writeln!(file, "{}", token.text()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(file_of_ours)
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // It is useless once the launch is over.
        let _ = std::fs::remove_file(self.0.through());
    }
}
