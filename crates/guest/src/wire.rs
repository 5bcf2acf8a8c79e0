//! The ports of a guest, each a stream of lines of JSON: one for the agent, with the protocol of
//! [`fsdyno_host::wire`], and one for engines ([`fsdyno_host::remote`]), so that an event never waits behind
//! an answer.
//!
//! Before anything else the guest says [`GuestReady`] at the agent's port and waits, for as long as it takes:
//! a snapshot of it is made then. [`Wake`] makes a guest of its own of it, whether it has just booted or
//! goes on from a snapshot.

use fsdyno_sys::random::SEED;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, SystemTime};

/// The name of the agent's port, as `/sys/class/virtio-ports/*/name` has it.
pub(crate) const AGENT_PORT: &str = "fsdyno.agent";
/// The name of the engines' port.
pub(crate) const ENGINE_PORT: &str = "fsdyno.engine";

/// The first line of a guest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuestReady {
    /// `true` if the random number generator of the guest's kernel can be reseeded.
    pub reseeds: bool,
}

/// The first line to a guest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Wake {
    /// The seed of the guest's random numbers.
    pub seed: [u8; SEED],
}

impl Wake {
    /// To wake a guest as one of its own.
    pub fn anew() -> Wake {
        Wake { seed: rand::random() }
    }
}

/// The guest's answer: why it cannot wake up as what it is to be.
pub(crate) type Awake = Result<(), String>;

/// The next line to a guest, once it answers: before that nobody knows when it will read what it is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Time {
    /// The current time, since 1970.
    pub now: Duration,
}

impl Time {
    pub fn now() -> Time {
        Time { now: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() }
    }
}

/// One line.
pub(crate) fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
