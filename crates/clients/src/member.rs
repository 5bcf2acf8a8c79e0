//! A client as the coordinator sees it: one connection, what was last heard on it, and how its clock runs.

use crate::handshake::Connection;
use crate::sealed;
use crate::wire::{About, FromAgent, SILENCE_MAX, ToAgent};
use fsdyno_core::Nanos;
use fsdyno_core::result::ClockOffset;
use fsdyno_host::remote::News;
use fsdyno_sys::timer::monotonic_ns;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a clock is read; the fastest round trip counts.
const PINGS: u32 = 20;
/// How long one reading may take.
const PING_LIMIT: Duration = Duration::from_secs(2);

/// A client.
pub(crate) struct Member {
    /// Unique among the clients.
    pub name: String,
    pub about: About,
    output: Mutex<sealed::Sender>,
    heard: Arc<Mutex<Sign>>,
    replies: Mutex<Replies>,
}

/// The last sign of life.
struct Sign {
    when: Instant,
    /// Why there will be no other.
    over: Option<String>,
}

/// What answers a question.
struct Replies {
    pongs: Receiver<Pong>,
    done: Receiver<Result<(), String>>,
    /// The number of the last ping.
    pinged: u32,
}

/// The answer to a ping, and when it arrived here.
struct Pong {
    number: u32,
    at_ns: u64,
    arrived_ns: u64,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    /// Listens to a connection in a thread, which passes on the news with the member's number.
    pub fn new(
        name: String,
        number: usize,
        connection: Connection,
        about: About,
        news: SyncSender<(usize, News)>,
    ) -> io::Result<Self> {
        let Connection { sender: output, receiver } = connection;
        // An agent that reads nothing is as good as gone.
        output.stream.set_write_timeout(Some(SILENCE_MAX))?;
        let heard = Arc::new(Mutex::new(Sign { when: Instant::now(), over: None }));
        let (pongs, pong_replies) = channel();
        let (done, done_replies) = channel();
        let listener = Listener { number, heard: Arc::clone(&heard), news, pongs, done };
        thread::Builder::new().name(format!("client {number}")).spawn(move || listener.listen(receiver))?;
        let replies = Mutex::new(Replies { pongs: pong_replies, done: done_replies, pinged: 0 });
        Ok(Member { name, about, output: Mutex::new(output), heard, replies })
    }

    /// Why it is lost, if it is.
    pub fn lost(&self) -> Option<String> {
        let sign = lock(&self.heard);
        let silent = sign.when.elapsed();
        let silence = || format!("nothing was heard of it for {} s", silent.as_secs());
        sign.over.clone().or_else(|| (silent > SILENCE_MAX).then(silence))
    }

    /// When something was last heard of it.
    pub fn heard(&self) -> Instant {
        lock(&self.heard).when
    }

    /// Sends a line. A failure ends the connection, which [`Member::lost`] then says.
    pub fn say(&self, what: &ToAgent) {
        let mut output = lock(&self.output);
        if let Err(error) = output.send(what) {
            output.close();
            lock(&self.heard).over.get_or_insert(format!("cannot reach it: {error}"));
        }
    }

    /// Asks for something that only succeeds or fails.
    pub fn ask(&self, what: &ToAgent, limit: Duration) -> Result<(), String> {
        let replies = lock(&self.replies);
        self.say(what);
        replies.done.recv_timeout(limit).unwrap_or_else(|_| {
            Err(self.lost().unwrap_or_else(|| format!("it did not answer within {} s", limit.as_secs())))
        })
    }

    /// Its clock against this machine's; nothing if it does not answer.
    pub fn clock(&self) -> Option<ClockOffset> {
        let mut replies = lock(&self.replies);
        let mut best: Option<ClockOffset> = None;
        for _ in 0..PINGS {
            replies.pinged = replies.pinged.wrapping_add(1);
            let (number, sent_ns) = (replies.pinged, monotonic_ns());
            self.say(&ToAgent::Ping { number });
            let pong = loop {
                match replies.pongs.recv_timeout(PING_LIMIT) {
                    Ok(pong) if pong.number == number => break pong,
                    // The late answer to an earlier ping.
                    Ok(_) => {}
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return best,
                }
            };
            let offset = offset(sent_ns, pong.at_ns, pong.arrived_ns);
            if best.is_none_or(|best| offset.uncertainty_ns < best.uncertainty_ns) {
                best = Some(offset);
            }
        }
        best
    }

    /// Ends the connection.
    pub fn close(&self) {
        lock(&self.output).close();
    }
}

/// A remote clock that was read at an unknown moment between two readings of this one.
fn offset(sent_ns: u64, remote_ns: u64, arrived_ns: u64) -> ClockOffset {
    let round_trip = arrived_ns.saturating_sub(sent_ns);
    let middle = sent_ns + round_trip / 2;
    ClockOffset {
        offset_ns: (i128::from(remote_ns) - i128::from(middle)) as i64,
        uncertainty_ns: Nanos(round_trip.div_ceil(2)),
    }
}

struct Listener {
    number: usize,
    heard: Arc<Mutex<Sign>>,
    news: SyncSender<(usize, News)>,
    pongs: Sender<Pong>,
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
            lock(&self.heard).when = Instant::now();
            // Whoever no longer listens does not need it.
            let _ = match serde_json::from_slice(line) {
                Ok(FromAgent::Alive) => Ok(()),
                Ok(FromAgent::Pong { number, at_ns }) => {
                    self.pongs.send(Pong { number, at_ns, arrived_ns }).map_err(drop)
                }
                Ok(FromAgent::Done(result)) => self.done.send(result).map_err(drop),
                Ok(FromAgent::News(news)) => self.news.send((self.number, news.verified(line))).map_err(drop),
                Err(_) => self.news.send((self.number, News::understand(line))).map_err(drop),
            };
        };
        lock(&self.heard).over.get_or_insert(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_somewhere_inside_the_round_trip() {
        let known = offset(1_000, 501_100, 1_200);
        assert_eq!(known, ClockOffset { offset_ns: 500_000, uncertainty_ns: Nanos(100) });
        // Behind, and a machine that started later.
        assert_eq!(offset(u64::MAX - 10, 5, u64::MAX - 10).offset_ns, 16);
        assert_eq!(offset(2_000, 1_000, 2_000).offset_ns, -1_000);
    }
}
