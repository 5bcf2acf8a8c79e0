//! What passes between a guest and the host in addition to the agent's requests: commands to its engine, and
//! messages from it.
//!
//! A guest has two ports, each a stream of lines of JSON: one for the agent, with the protocol of
//! [`fsdyno_host::wire`], and one for engines, so that an event never waits behind an answer. A guest runs
//! one engine at a time.

use fsdyno_core::{EngineEvent, EngineRequest, figures};
use fsdyno_host::lines::excerpt;
use serde::{Deserialize, Serialize};

/// The name of the agent's port, as `/sys/class/virtio-ports/*/name` has it.
pub(crate) const AGENT_PORT: &str = "fsdyno.agent";
/// The name of the engines' port.
pub(crate) const ENGINE_PORT: &str = "fsdyno.engine";

/// To the guest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Start an engine; a running one is ended.
    Start(Box<EngineRequest>),
    /// Ask it to end.
    Stop,
    /// End it.
    Kill,
}

/// From the guest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// An engine runs.
    Started {
        /// Its process number.
        pid: u32,
    },
    /// It could not be started.
    NotStarted {
        /// Why.
        error: fsdyno_host::HostError,
    },
    /// An event.
    Event(Box<EngineEvent>),
    /// A line that is not a valid event.
    Garbage(String),
    /// It has closed its output; the end of its stderr.
    Closed(String),
    /// It was told to exit.
    Ended {
        /// Whether it is gone.
        gone: bool,
    },
}

impl News {
    /// Parses a line from the guest; an invalid one is garbage.
    pub fn understand(line: &[u8]) -> News {
        let garbage = |problem: String| News::Garbage(excerpt(line, &problem));
        let news = serde_json::from_slice(line).unwrap_or_else(|error| garbage(error.to_string()));
        let is_phase = matches!(&news, News::Event(event) if matches!(**event, EngineEvent::Phase(_)));
        match figures::impossible(line).filter(|_| is_phase) {
            Some(figure) => garbage(format!("impossible figure: {figure}")),
            None => news,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_told_in_a_few_words_however_long_it_is() {
        let word = "x".repeat(1 << 20);
        let News::Garbage(text) = News::understand(format!("{{\"{word}\":1}}").as_bytes()) else {
            panic!("no news is called that");
        };
        assert!(text.len() < 1000 && text.contains("unknown variant"), "{} bytes", text.len());
    }
}
