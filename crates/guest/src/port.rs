//! The port of a guest's engines: commands there, messages back.

use crate::wire::line;
use fsdyno_core::EngineRequest;
use fsdyno_host::HostError;
use fsdyno_host::lines::{Excess, Heard, Lines};
use fsdyno_host::remote::{News, Order};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The stream of commands to engines, and of their messages.
#[derive(Clone)]
pub(crate) struct EnginePort {
    orders: Arc<Mutex<UnixStream>>,
    news: Arc<Lines>,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The answer is late, or nobody is waiting for it any longer.
    Late,
    Ended,
    /// It sends more than an answer may contain.
    TooMuch(Excess),
}

/// Why an engine was not started.
pub(crate) enum NoEngine {
    Silence(Silence),
    Refused(HostError),
}

impl EnginePort {
    /// Reads in a separate thread.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let news = Lines::listen(stream.try_clone()?)?;
        Ok(EnginePort { orders: Arc::new(Mutex::new(stream)), news: Arc::new(news) })
    }

    /// The next message before a deadline. A guest that never falls silent does not extend the deadline.
    pub fn news(&self, deadline: Instant) -> Result<News, Silence> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.news.next(left) {
            _ if left.is_zero() => Err(Silence::Late),
            Heard::Line(line) => Ok(News::understand(&line)),
            Heard::Silence => Err(Silence::Late),
            Heard::TooMuch(excess) => Err(Silence::TooMuch(excess)),
            Heard::End => Err(Silence::Ended),
        }
    }

    /// Returns the next line, or the reason why none was heard within the timeout.
    pub fn hear(&self, timeout: Duration) -> Heard {
        self.news.next(timeout)
    }

    /// Sends a command.
    pub fn order(&self, order: &Order) -> Result<(), Silence> {
        let line = line(order).map_err(|_| Silence::Ended)?;
        self.orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&line)
            .map_err(|_| Silence::Ended)
    }

    pub fn start(&self, request: &EngineRequest, limit: Duration) -> Result<u32, NoEngine> {
        self.order(&Order::Start(Box::new(request.clone()))).map_err(NoEngine::Silence)?;
        let deadline = Instant::now() + limit;
        loop {
            match self.news(deadline).map_err(NoEngine::Silence)? {
                News::Started { pid } => return Ok(pid),
                News::NotStarted { error } => return Err(NoEngine::Refused(error)),
                // Remaining messages of a previous engine.
                _ => {}
            }
        }
    }
}
