//! A guest as one of several whose engines do a load together.

use crate::port::EnginePort;
use fsdyno_core::result::ClockOffset;
use fsdyno_host::lines::Heard;
use fsdyno_host::remote::clock::{ClockReader, ClockReading};
use fsdyno_host::remote::sign::SignOfLife;
use fsdyno_host::remote::{Member, News, Order};
use fsdyno_sys::timer::monotonic_ns;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which a listening thread checks whether anybody is still interested.
const TURN: Duration = Duration::from_secs(1);

/// Why nothing more is heard of a guest.
const EXITED: &str = "the guest exited";

/// A guest among others.
pub(crate) struct GuestMember {
    name: String,
    port: EnginePort,
    clock: ClockReader,
    sign: SignOfLife,
}

impl GuestMember {
    /// Listens in a thread for as long as the guest or this lives.
    pub fn listen(
        name: String,
        number: usize,
        port: EnginePort,
        news: SyncSender<(usize, News)>,
    ) -> io::Result<Arc<Self>> {
        let (clock, times) = ClockReader::new();
        let member = Arc::new(GuestMember { name, port, clock, sign: SignOfLife::default() });
        let listening = Arc::downgrade(&member);
        thread::Builder::new().name(format!("guest {number}")).spawn(move || {
            while let Some(member) = listening.upgrade() {
                if let Some(over) = member.hear(number, &news, &times) {
                    member.sign.end(over);
                    return;
                }
            }
        })?;
        Ok(member)
    }

    /// Passes on what is heard next; the reason if it is the last.
    fn hear(
        &self,
        number: usize,
        news: &SyncSender<(usize, News)>,
        times: &Sender<ClockReading>,
    ) -> Option<String> {
        let line = match self.port.hear(TURN) {
            Heard::Line(line) => line,
            Heard::Silence => return None,
            Heard::TooMuch(excess) => return Some(excess.to_string()),
            Heard::End => return Some(EXITED.to_string()),
        };
        let arrived_ns = monotonic_ns();
        self.sign.note();
        // Whoever no longer listens does not need it.
        let _ = match News::understand(&line) {
            News::Clock { number, at_ns } => {
                times.send(ClockReading { number, at_ns, arrived_ns }).map_err(drop)
            }
            other => news.send((number, other)).map_err(drop),
        };
        None
    }
}

impl Member for GuestMember {
    fn name(&self) -> &str {
        &self.name
    }

    fn order(&self, order: Order) {
        if self.port.order(&order).is_err() {
            self.sign.end(EXITED);
        }
    }

    fn clock(&self) -> Option<ClockOffset> {
        self.clock.read(|number| self.order(Order::Clock { number }))
    }

    /// One that is silent is as alive as one that computes: the connection to a guest ends with it, and how
    /// long its engine may be silent is up to whoever watches the load.
    fn lost(&self) -> Option<String> {
        self.sign.over()
    }

    fn heard(&self) -> Instant {
        self.sign.heard()
    }
}
