//! Commands to QEMU itself, by its protocol QMP: lines of JSON (docs/interop/qmp-spec.rst in QEMU).
//!
//! Descriptors are passed beside the lines (unix(7), `SCM_RIGHTS`), which the crates for QMP cannot do.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The time that QEMU may take to answer, which it normally does at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that QEMU may take to save a guest.
const SAVING: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);
/// More bytes per second than any file takes; the default is what a network takes.
const UNLIMITED: u64 = 1 << 40;
/// The name of the file among QEMU's descriptors.
const SNAPSHOT: &str = "snapshot";

/// QEMU, listening.
pub(crate) struct Monitor {
    commands: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Monitor {
    pub fn new(commands: UnixStream) -> io::Result<Monitor> {
        commands.set_read_timeout(Some(PATIENCE))?;
        let answers = BufReader::new(commands.try_clone()?);
        let mut monitor = Monitor { commands, answers };
        // A greeting comes first, and nothing but this command is accepted after it.
        monitor.line()?;
        monitor.execute("qmp_capabilities", json!({}), None)?;
        Ok(monitor)
    }

    /// Saves the guest, without its disks, to an empty file. It stands still afterwards.
    pub fn save(&mut self, file: &File) -> io::Result<()> {
        self.execute("migrate-set-parameters", json!({ "max-bandwidth": UNLIMITED }), None)?;
        self.execute("getfd", json!({ "fdname": SNAPSHOT }), Some(file.as_fd()))?;
        self.execute("migrate", json!({ "uri": format!("fd:{SNAPSHOT}") }), None)?;
        let deadline = Instant::now() + SAVING;
        loop {
            let state = self.execute("query-migrate", json!({}), None)?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => return Err(io::Error::other(state.to_string())),
                _ if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    fn execute(
        &mut self,
        command: &str,
        arguments: Value,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments }).to_string();
        match descriptor {
            None => self.commands.write_all(line.as_bytes())?,
            Some(descriptor) => {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut beside = SendAncillaryBuffer::new(&mut space);
                let descriptors = [descriptor];
                if !beside.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                let sent = [IoSlice::new(line.as_bytes())];
                let length = sendmsg(&self.commands, &sent, &mut beside, SendFlags::NOSIGNAL)?;
                self.commands.write_all(&line.as_bytes()[length..])?;
            }
        }
        loop {
            let mut answer = self.line()?;
            if let Some(found) = answer.get_mut("return") {
                return Ok(found.take());
            }
            if let Some(error) = answer.get("error") {
                return Err(io::Error::other(error.to_string()));
            }
            // Events come in between.
        }
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(serde_json::from_str(&line)?),
        }
    }
}
