//! The clock of another machine against this one's, by round trips.

use fsdyno_core::Nanos;
use fsdyno_core::result::ClockOffset;
use fsdyno_sys::timer::monotonic_ns;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The number of times that a clock is read; the fastest round trip counts.
const READINGS: u32 = 20;
/// The time that one reading may take.
const READING_LIMIT: Duration = Duration::from_secs(2);

/// Reads the clock at the other end of a stream.
#[derive(Debug)]
pub struct ClockReader(Mutex<Readings>);

#[derive(Debug)]
struct Readings {
    answers: Receiver<ClockReading>,
    /// The number of the last question.
    asked: u32,
}

/// The time that the clock showed, and the time at which the answer arrived here.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    /// Which question it answers.
    pub number: u32,
    /// `CLOCK_MONOTONIC` of the other machine.
    pub at_ns: u64,
    /// That of this one.
    pub arrived_ns: u64,
}

impl ClockReader {
    /// With the end for those who listen to the stream.
    pub fn new() -> (Self, Sender<ClockReading>) {
        let (sender, answers) = channel();
        (ClockReader(Mutex::new(Readings { answers, asked: 0 })), sender)
    }

    /// The other clock; nothing if nobody answers. `ask` sends a question with this number.
    pub fn read(&self, ask: impl Fn(u32)) -> Option<ClockOffset> {
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut best: Option<ClockOffset> = None;
        for _ in 0..READINGS {
            readings.asked = readings.asked.wrapping_add(1);
            let (number, sent_ns) = (readings.asked, monotonic_ns());
            ask(number);
            let reading = loop {
                match readings.answers.recv_timeout(READING_LIMIT) {
                    Ok(reading) if reading.number == number => break reading,
                    // The late answer to an earlier question.
                    Ok(_) => {}
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return best,
                }
            };
            let offset = offset(sent_ns, reading.at_ns, reading.arrived_ns);
            if best.is_none_or(|best| offset.uncertainty_ns < best.uncertainty_ns) {
                best = Some(offset);
            }
        }
        best
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
