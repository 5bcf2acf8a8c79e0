//! The first lines of a connection, with which both ends find out that they belong together.

use crate::sealed::{Receiver, Seal, Sender};
use crate::token::{Side, Token, nonce};
use crate::wire::{
    About, Answer, Challenge, Greeting, HANDSHAKE_LIMIT, HANDSHAKE_LINE_MAX, VERSION, Verdict,
};
use fsdyno_core::protocol::PROTOCOL_VERSION;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

type Input = BufReader<TcpStream>;

/// A connection whose other end is known.
pub(crate) struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
}

impl Connection {
    fn new(input: Input, sending: Seal, receiving: Seal) -> io::Result<Self> {
        input.get_ref().set_read_timeout(None)?;
        let stream = input.get_ref().try_clone()?;
        let sender = Sender { stream, seal: sending };
        Ok(Connection { sender, receiver: Receiver::new(input, receiving) })
    }
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    /// The other end says nothing that belongs to a handshake, or nothing more.
    #[error("the handshake failed: {0}")]
    Connection(#[from] io::Error),
    /// The other end does not know the token.
    #[error("it does not know the token of this launch")]
    Stranger,
    /// The coordinator does not want this agent.
    #[error("{0}")]
    Refused(String),
}

/// The coordinator's part.
pub(crate) fn receive(stream: TcpStream, token: &Token) -> Result<(Connection, About), Rejection> {
    let deadline = Instant::now() + HANDSHAKE_LIMIT;
    let mut connection = BufReader::new(prepared(stream)?);
    let Greeting { nonce: theirs } = read(&mut connection, deadline)?;
    let ours = nonce();
    let proof = token.proof(Side::Coordinator, [&theirs, &ours]);
    write(&connection, &Challenge { nonce: ours.clone(), proof })?;
    let Answer { proof, about } = read(&mut connection, deadline)?;
    if !token.verify(&proof, Side::Agent, [&theirs, &ours]) {
        return Err(Rejection::Stranger);
    }
    let judged = same_versions(&about);
    let verdict = judged.clone().map_or_else(Verdict::Refused, |()| Verdict::Welcome);
    write(&connection, &verdict)?;
    judged.map_err(Rejection::Refused)?;
    let [sending, receiving] =
        [Side::Coordinator, Side::Agent].map(|side| token.seal(side, [&theirs, &ours]));
    Ok((Connection::new(connection, sending, receiving)?, about))
}

fn same_versions(about: &About) -> Result<(), String> {
    let ours = (VERSION, PROTOCOL_VERSION);
    if about.versions == ours {
        return Ok(());
    }
    Err(format!(
        "fsdyno on '{}' is release {} with protocol {:?}, here it is {} with {ours:?}: install the same on all",
        about.host,
        about.release,
        about.versions,
        env!("CARGO_PKG_VERSION")
    ))
}

/// The agent's part.
pub(crate) fn introduce(stream: TcpStream, token: &Token, about: About) -> Result<Connection, Rejection> {
    let deadline = Instant::now() + HANDSHAKE_LIMIT;
    let mut connection = BufReader::new(prepared(stream)?);
    let ours = nonce();
    write(&connection, &Greeting { nonce: ours.clone() })?;
    let Challenge { nonce: theirs, proof } = read(&mut connection, deadline)?;
    if !token.verify(&proof, Side::Coordinator, [&ours, &theirs]) {
        return Err(Rejection::Stranger);
    }
    write(&connection, &Answer { proof: token.proof(Side::Agent, [&ours, &theirs]), about })?;
    match read(&mut connection, deadline)? {
        Verdict::Welcome => {}
        Verdict::Refused(reason) => return Err(Rejection::Refused(reason)),
    }
    let [sending, receiving] =
        [Side::Agent, Side::Coordinator].map(|side| token.seal(side, [&ours, &theirs]));
    Ok(Connection::new(connection, sending, receiving)?)
}

/// Returns the facts about this machine.
pub(crate) fn about(rank: Option<u32>) -> About {
    let system = rustix::system::uname();
    let memory = rustix::system::sysinfo();
    About {
        versions: (VERSION, PROTOCOL_VERSION),
        release: env!("CARGO_PKG_VERSION").to_string(),
        host: system.nodename().to_string_lossy().into_owned(),
        rank,
        pid: std::process::id(),
        kernel: system.release().to_string_lossy().into_owned(),
        processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_bytes: memory.totalram as u64 * u64::from(memory.mem_unit.max(1)),
    }
}

/// A line must not wait for the next one (Nagle's algorithm), nor forever for the other end.
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(HANDSHAKE_LIMIT))?;
    Ok(stream)
}

fn write(connection: &Input, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    connection.get_ref().write_all(&line)
}

/// Reads a short line, however slowly it arrives, until the deadline.
fn read<T: DeserializeOwned>(connection: &mut Input, deadline: Instant) -> io::Result<T> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        connection.get_ref().set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let arrived = connection.fill_buf()?;
        let length = match arrived.iter().position(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None => arrived.len(),
        };
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        line.extend_from_slice(&arrived[..length]);
        connection.consume(length);
        if line.len() > HANDSHAKE_LINE_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "a line is too long"));
        }
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (listener.accept().expect("a connection").0, client)
    }

    fn shaken(coordinator: Token, agent: Token, about: About) -> [Result<(), Rejection>; 2] {
        let (here, there) = pair();
        let thread = thread::spawn(move || introduce(there, &agent, about).map(drop));
        let received = receive(here, &coordinator).map(drop);
        [received, thread.join().expect("no panic")]
    }

    #[test]
    fn those_who_share_a_token_find_each_other() {
        let token = Token::random();
        let [here, there] = shaken(token.clone(), token, about(Some(1)));
        here.and(there).expect("both agree");
    }

    #[test]
    fn an_agent_of_another_launch_turns_away_before_it_says_who_it_is() {
        let [here, there] = shaken(Token::random(), Token::random(), about(None));
        assert!(matches!(there, Err(Rejection::Stranger)), "{there:?}");
        assert!(matches!(here, Err(Rejection::Connection(_))), "{here:?}");
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let token = Token::random();
        let other =
            About { versions: (VERSION + 1, PROTOCOL_VERSION), host: "x2".to_string(), ..about(None) };
        let [here, there] = shaken(token.clone(), token, other);
        for end in [here, there] {
            let text = end.expect_err("refused").to_string();
            assert!(text.contains("fsdyno on 'x2'") && text.contains("install the same on all"), "{text}");
        }
    }

    #[test]
    fn a_stranger_gets_nothing_that_depends_on_the_token() {
        for said in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"{}\n", b"\xff\xff\n", &[b'a'; 8192], b""] {
            let (here, mut there) = pair();
            there.write_all(said).expect("sent");
            there.shutdown(std::net::Shutdown::Write).expect("shut down");
            assert!(receive(here, &Token::random()).is_err());
            let mut answer = Vec::new();
            // A connection that is closed with something unread is reset.
            let _ = there.read_to_end(&mut answer);
            assert!(answer.is_empty(), "{said:?} was answered");
        }
    }

    #[test]
    fn a_proof_of_the_coordinator_is_no_proof_of_an_agent() {
        let (here, there) = pair();
        let thread = thread::spawn(move || receive(here, &Token::random()).map(drop));
        let mut connection = BufReader::new(there);
        write(&connection, &Greeting { nonce: "n".to_string() }).expect("sent");
        let challenge: Challenge = read(&mut connection, Instant::now() + HANDSHAKE_LIMIT).expect("a line");
        write(&connection, &Answer { proof: challenge.proof, about: about(None) }).expect("sent");
        let end = thread.join().expect("no panic");
        assert!(matches!(end, Err(Rejection::Stranger)), "{end:?}");
    }
}
