//! Engines at the other end of a stream: a guest's, or a client's.
//!
//! Orders go there and news come back, each a line of JSON. The other end runs one engine at a time, as a
//! process of its own ([`Engines`]), so that a load that hangs does not keep it from answering. Several such
//! ends can do a load together ([`Member`]).

pub mod clock;
pub mod sign;

use crate::lines::excerpt;
use crate::local::LocalHost;
use crate::{EngineOutput, EngineProcess, Host, HostError};
use fsdyno_core::result::ClockOffset;
use fsdyno_core::{EngineEvent, EngineRequest, figures};
use fsdyno_sys::timer::monotonic_ns;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The time that an engine may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The time to wait once more for an engine that was given `STOP_LIMIT` before.
const AGAIN: Duration = Duration::from_millis(100);

/// An order to the other end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Start an engine; a running one is ended.
    Start(Box<EngineRequest>),
    /// Let it begin a phase that it is ready for.
    Proceed {
        /// When, on `CLOCK_MONOTONIC` of the machine with the engine; at once if absent.
        at_ns: Option<u64>,
    },
    /// Ask it to end.
    Stop,
    /// End it.
    Kill,
    /// Report the time there.
    Clock {
        /// The answer has the same.
        number: u32,
    },
}

impl Order {
    /// The answer to an order that whoever reads it carries out at once, without waiting for an engine.
    pub fn answered_at_once(&self) -> Option<News> {
        match self {
            Order::Clock { number } => Some(News::Clock { number: *number, at_ns: monotonic_ns() }),
            Order::Start(_) | Order::Proceed { .. } | Order::Stop | Order::Kill => None,
        }
    }
}

/// A report from the other end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
        error: HostError,
    },
    /// An event.
    Event(Box<EngineEvent>),
    /// A line that is not a valid event.
    Garbage(String),
    /// It has closed its output; the end of its stderr.
    Closed(String),
    /// It was told to exit.
    Ended {
        /// `true` if the engine is gone.
        gone: bool,
    },
    /// The time there.
    Clock {
        /// That of the order.
        number: u32,
        /// `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
}

/// One of several machines whose engines do a load together. Its news go to whoever listens to all of them.
pub trait Member: Send + Sync {
    /// Unique among them.
    fn name(&self) -> &str;
    /// Sends an order. A failure is the end of the member, which [`Member::lost`] then says.
    fn order(&self, order: Order);
    /// Its clock against this machine's; nothing if it does not answer.
    fn clock(&self) -> Option<ClockOffset>;
    /// Why it is lost, if it is.
    fn lost(&self) -> Option<String>;
    /// When something was last heard of it.
    fn heard(&self) -> Instant;
}

impl News {
    /// Parses a line from the other end; an invalid one is garbage.
    pub fn understand(line: &[u8]) -> News {
        match serde_json::from_slice::<News>(line) {
            Ok(news) => news.verified(line),
            Err(error) => News::Garbage(excerpt(line, &error.to_string())),
        }
    }

    /// Garbage in place of results with a figure that nothing can measure. `line` is what this was read from.
    #[must_use]
    pub fn verified(self, line: &[u8]) -> News {
        let is_phase = matches!(&self, News::Event(event) if matches!(**event, EngineEvent::Phase(_)));
        match figures::impossible(line).filter(|_| is_phase) {
            Some(figure) => News::Garbage(excerpt(line, &format!("impossible figure: {figure}"))),
            None => self,
        }
    }

    fn of(output: EngineOutput) -> Option<News> {
        match output {
            EngineOutput::Silence => None,
            EngineOutput::Event(event) => Some(News::Event(event)),
            EngineOutput::Garbage(text) => Some(News::Garbage(text)),
            EngineOutput::End(text) => Some(News::Closed(text)),
        }
    }
}

/// The engine of this end. Engines die with the thread that has created this.
pub struct Engines {
    host: LocalHost,
    engine: Option<Box<dyn EngineProcess>>,
    /// It has closed its output, but a worker that hangs in the kernel keeps it.
    is_over: bool,
}

impl Engines {
    /// `binary` is the fsdyno binary.
    pub fn new(binary: PathBuf) -> Self {
        Engines { host: LocalHost::new(binary, Vec::new()), engine: None, is_over: false }
    }

    /// Returns whether there is an engine to listen to.
    pub fn is_busy(&self) -> bool {
        self.engine.is_some() && !self.is_over
    }

    /// Carries out an order; the answer, if it has one.
    pub fn carry_out(&mut self, order: Order) -> Option<News> {
        match order {
            Order::Clock { .. } => order.answered_at_once(),
            Order::Start(request) => {
                // The previous engine dies when it is dropped.
                (self.engine, self.is_over) = (None, false);
                Some(match self.host.start_engine(&request) {
                    Ok(started) => {
                        let pid = started.pid();
                        self.engine = Some(started);
                        News::Started { pid }
                    }
                    Err(error) => News::NotStarted { error },
                })
            }
            Order::Proceed { at_ns } => {
                self.engine.iter_mut().for_each(|engine| engine.proceed(at_ns));
                None
            }
            Order::Stop => {
                self.engine.iter_mut().for_each(|engine| engine.ask_to_stop());
                None
            }
            Order::Kill => {
                // One that has closed its output was killed then, and given that time.
                let limit = if self.is_over { AGAIN } else { STOP_LIMIT };
                let gone = self.engine.as_mut().is_none_or(|engine| engine.stop(limit));
                self.engine = None;
                Some(News::Ended { gone })
            }
        }
    }

    /// Returns the engine's next report, waiting this long for it.
    pub fn news(&mut self, timeout: Duration) -> Option<News> {
        let engine = self.engine.as_mut().filter(|_| !self.is_over)?;
        let news = News::of(engine.next(timeout));
        if matches!(news, Some(News::Closed(_))) {
            // Remaining output is dropped. Whoever ends it learns whether it is gone.
            self.is_over = true;
            if engine.stop(STOP_LIMIT) {
                self.engine = None;
            }
        }
        news
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
