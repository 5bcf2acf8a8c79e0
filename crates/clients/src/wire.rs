//! The messages between the coordinator and an agent over TCP: a handshake, then lines of JSON both ways.
//!
//! Both prove that they know the token of the launch before either says anything about itself: a stranger who
//! connects gets no answer to anything but a well-formed greeting, and then one that shows nothing without
//! the token. The token itself never crosses the connection (challenge and response with HMAC, RFC 2104), and
//! each later line is sealed with a key that both derive from it ([`crate::sealed`]).

use fsdyno_host::remote::{News, Order};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Version of this protocol, of which the handshake up to [`Answer`] stays the same in all versions.
pub(crate) const VERSION: u32 = 4;

/// The interval at which each end reports that it is alive.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// An end that has said nothing for so long is lost. A link that is down gives no end of file.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The time that a handshake may take.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// The longest line of a handshake.
pub(crate) const HANDSHAKE_LINE_MAX: usize = 4096;

/// First line, from the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub nonce: String,
}

/// Second line, from the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Challenge {
    pub nonce: String,
    pub proof: String,
}

/// Third line, from the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub proof: String,
    pub about: About,
}

/// The facts that an agent states about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// [`VERSION`], and that of the engine.
    pub versions: (u32, u32),
    /// The release of fsdyno, for a person.
    pub release: String,
    /// Name of its host.
    pub host: String,
    /// Its number, as the launcher has told it.
    pub rank: Option<u32>,
    pub pid: u32,
    pub kernel: String,
    pub processors: u32,
    pub memory_bytes: u64,
}

/// Fourth line, from the coordinator; after a refusal nothing follows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Welcome,
    Refused(String),
}

/// To an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToAgent {
    /// For its engine.
    Order(Order),
    /// Create this file, which does not exist.
    Mark { path: PathBuf },
    /// Does this file exist?
    Look { path: PathBuf },
    /// Remove it.
    Unmark { path: PathBuf },
    /// For a member of a fleet; whoever runs its trials understands it.
    Member(String),
    /// Stop the trial in progress; the second time, do not wait for what hangs.
    Interrupt,
    /// A sign of life.
    Alive,
    /// There is nothing more to do.
    Bye,
}

/// From an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromAgent {
    /// Of its engine.
    News(News),
    /// The answer to [`ToAgent::Mark`], [`ToAgent::Look`] and [`ToAgent::Unmark`].
    Done(Result<(), String>),
    /// Of a member of a fleet.
    Member(String),
    /// A sign of life.
    Alive,
}
