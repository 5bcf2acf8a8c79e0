//! Lines that nobody on the way can change, leave out or repeat: each carries its number and its content
//! under HMAC, with a key of its own for each direction of each connection. They can be read on the way.

use fsdyno_host::lines::read_line;
use hmac::{Hmac, Mac};
use serde::Serialize;
use sha2::Sha256;
use std::io::{self, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};

/// Hexadecimal digits of a seal.
const DIGITS: usize = 64;

/// One direction of a connection, with the number of the next line.
#[derive(Clone)]
pub(crate) struct Seal {
    keyed: Hmac<Sha256>,
    number: u64,
}

impl Seal {
    pub fn new(keyed: Hmac<Sha256>) -> Self {
        Seal { keyed, number: 0 }
    }

    /// Returns the authentication code that precedes the next line.
    fn next(&mut self, line: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(&self.number.to_be_bytes());
        mac.update(line);
        self.number += 1;
        mac
    }
}

/// The end that sends.
pub(crate) struct Sender {
    pub stream: TcpStream,
    pub seal: Seal,
}

impl Sender {
    /// Sends a value as a line.
    pub fn send(&mut self, value: &impl Serialize) -> io::Result<()> {
        let content = serde_json::to_vec(value)?;
        let seal = self.seal.next(&content).finalize().into_bytes();
        let mut line = Vec::with_capacity(DIGITS + content.len() + 2);
        for byte in seal {
            write!(line, "{byte:02x}")?;
        }
        line.push(b' ');
        line.extend_from_slice(&content);
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    /// Ends the connection.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The end that receives.
pub(crate) struct Receiver {
    pub input: BufReader<TcpStream>,
    pub seal: Seal,
    line: Vec<u8>,
}

impl Receiver {
    pub fn new(input: BufReader<TcpStream>, seal: Seal) -> Self {
        Receiver { input, seal, line: Vec::new() }
    }

    /// The content of the next line; nothing at the end of the connection.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        read_line(&mut self.input, &mut self.line)?;
        if self.line.is_empty() {
            return Ok(None);
        }
        let foreign = || io::Error::new(ErrorKind::InvalidData, "a line was changed or lost on the way");
        let line = self.line.strip_suffix(b"\n").ok_or_else(foreign)?;
        let (seal, content) = line.split_at_checked(DIGITS).ok_or_else(foreign)?;
        let content = content.strip_prefix(b" ").ok_or_else(foreign)?;
        let seal = bytes(seal).ok_or_else(foreign)?;
        // In the same time for all that are wrong.
        self.seal.next(content).verify_slice(&seal).map_err(|_| foreign())?;
        Ok(Some(content))
    }
}

/// Bytes from hexadecimal digits.
pub(crate) fn bytes(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.chunks(2);
    pairs.map(|pair| Some((value(*pair.first()?)? * 16 + value(*pair.get(1)?)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmac::KeyInit;
    use std::io::Read;
    use std::net::TcpListener;

    fn seal() -> Seal {
        Seal::new(Hmac::new_from_slice(b"key").expect("any length"))
    }

    /// Returns the results of a receiver for lines that somebody on the way has changed.
    fn received(change: impl FnOnce(Vec<String>) -> Vec<String>) -> Vec<Result<String, ErrorKind>> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let connect = || TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let accept = || listener.accept().expect("a connection").0;
        let (sending, mut on_the_way) = (connect(), accept());
        let mut sender = Sender { stream: sending, seal: seal() };
        (1..4).for_each(|number| sender.send(&number).expect("sent"));
        sender.close();
        let mut text = String::new();
        on_the_way.read_to_string(&mut text).expect("text");
        let lines = change(text.lines().map(|line| format!("{line}\n")).collect());
        let (mut further, arriving) = (connect(), accept());
        lines.iter().for_each(|line| further.write_all(line.as_bytes()).expect("sent"));
        drop(further);
        let mut receiver = Receiver::new(BufReader::new(arriving), seal());
        std::iter::from_fn(|| {
            let next = receiver.receive().map_err(|error| error.kind()).transpose()?;
            Some(next.map(|content| String::from_utf8_lossy(content).into_owned()))
        })
        .take(4)
        .collect()
    }

    fn numbers(all: &[&str]) -> Vec<Result<String, ErrorKind>> {
        all.iter().map(|number| Ok(number.to_string())).collect()
    }

    #[test]
    fn lines_arrive_as_they_were_sent() {
        assert_eq!(received(|lines| lines), numbers(&["1", "2", "3"]));
    }

    #[test]
    fn what_was_changed_repeated_left_out_or_added_is_noticed() {
        let foreign = |all: Vec<Result<String, ErrorKind>>, before: &[&str]| {
            assert_eq!(all[..before.len()], numbers(before));
            assert_eq!(all[before.len()], Err(ErrorKind::InvalidData), "{all:?}");
        };
        foreign(received(|lines| vec![lines[0].clone(), lines[1].replace(" 2", " 9")]), &["1"]);
        foreign(received(|lines| vec![lines[0].clone(), lines[0].clone()]), &["1"]);
        foreign(received(|lines| vec![lines[1].clone()]), &[]);
        foreign(received(|_| vec!["3\n".to_string()]), &[]);
        foreign(received(|_| vec![format!("{} 3\n", "é".repeat(32))]), &[]);
        foreign(received(|lines| vec![lines[0].trim_end().to_string()]), &[]);
    }
}
