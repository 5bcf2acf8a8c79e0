//! A client as the coordinator sees it: one connection, what was last heard on it, and how its clock runs.

use crate::handshake::Connection;
use crate::sealed;
use crate::wire::{About, FromAgent, SILENCE_MAX, ToAgent};
use fsdyno_core::result::ClockOffset;
use fsdyno_host::remote::clock::{ClockReader, ClockReading};
use fsdyno_host::remote::sign::SignOfLife;
use fsdyno_host::remote::{Member, News, Order};
use fsdyno_sys::timer::monotonic_ns;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A client.
pub(crate) struct Client {
    /// Unique among the clients.
    pub name: String,
    pub about: About,
    output: Mutex<sealed::Sender>,
    sign: Arc<SignOfLife>,
    done: Mutex<Receiver<Result<(), String>>>,
    clock: ClockReader,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Listens to a connection in a thread, which passes on the news with the client's number.
    pub fn new(
        name: String,
        number: usize,
        connection: Connection,
        about: About,
        news: SyncSender<(usize, News)>,
        reports: Sender<(usize, String)>,
    ) -> io::Result<Self> {
        let Connection { sender: output, receiver } = connection;
        // An agent that reads nothing is as good as gone.
        output.stream.set_write_timeout(Some(SILENCE_MAX))?;
        let sign = Arc::<SignOfLife>::default();
        let (clock, times) = ClockReader::new();
        let (done, replies) = channel();
        let listener = Listener { number, sign: Arc::clone(&sign), news, reports, times, done };
        thread::Builder::new().name(format!("client {number}")).spawn(move || listener.listen(receiver))?;
        Ok(Client { name, about, output: Mutex::new(output), sign, done: Mutex::new(replies), clock })
    }

    /// Sends a line. A failure ends the connection, which [`Client::lost`] then says.
    pub fn say(&self, what: &ToAgent) {
        let mut output = lock(&self.output);
        if let Err(error) = output.send(what) {
            output.close();
            self.sign.end(format!("cannot reach it: {error}"));
        }
    }

    /// Asks for something that only succeeds or fails.
    pub fn ask(&self, what: &ToAgent, limit: Duration) -> Result<(), String> {
        let done = lock(&self.done);
        self.say(what);
        done.recv_timeout(limit).unwrap_or_else(|_| {
            Err(self.lost().unwrap_or_else(|| format!("it did not answer within {} s", limit.as_secs())))
        })
    }

    /// Ends the connection.
    pub fn close(&self) {
        lock(&self.output).close();
    }
}

impl Member for Client {
    fn name(&self) -> &str {
        &self.name
    }

    fn order(&self, order: Order) {
        self.say(&ToAgent::Order(order));
    }

    fn clock(&self) -> Option<ClockOffset> {
        self.clock.read(|number| self.order(Order::Clock { number }))
    }

    fn lost(&self) -> Option<String> {
        let silent = self.sign.heard().elapsed();
        let silence = || format!("nothing was heard of it for {} s", silent.as_secs());
        self.sign.over().or_else(|| (silent > SILENCE_MAX).then(silence))
    }

    fn heard(&self) -> Instant {
        self.sign.heard()
    }
}

struct Listener {
    number: usize,
    sign: Arc<SignOfLife>,
    news: SyncSender<(usize, News)>,
    reports: Sender<(usize, String)>,
    times: Sender<ClockReading>,
    done: Sender<Result<(), String>>,
}

impl Listener {
    fn listen(self, mut receiver: sealed::Receiver) {
        let over = loop {
            let line = match receiver.receive() {
                Err(error) => break format!("the connection broke: {error}"),
                Ok(None) => break "it closed the connection".to_string(),
                Ok(Some(line)) => line,
            };
            let arrived_ns = monotonic_ns();
            self.sign.note();
            // Whoever no longer listens does not need it.
            let _ = match serde_json::from_slice(line) {
                Ok(FromAgent::Alive) => Ok(()),
                Ok(FromAgent::News(News::Clock { number, at_ns })) => {
                    self.times.send(ClockReading { number, at_ns, arrived_ns }).map_err(drop)
                }
                Ok(FromAgent::Member(report)) => self.reports.send((self.number, report)).map_err(drop),
                Ok(FromAgent::Done(result)) => self.done.send(result).map_err(drop),
                Ok(FromAgent::News(news)) => self.news.send((self.number, news.verified(line))).map_err(drop),
                Err(_) => self.news.send((self.number, News::understand(line))).map_err(drop),
            };
        };
        self.sign.end(over);
    }
}
