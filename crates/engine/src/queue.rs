//! The other hot loop: many reads or writes of one file in flight at once, each timed.
//!
//! One reading of the clock before the system call that carries requests to the kernel, one after it, when the
//! completions that it brought are looked at: the time of a request is that from the submission that carried it to the
//! look that found it done. The call returns as soon as one request is done, so that none waits for another beside it; or,
//! where the workload asks for batches, when so many are, and then their time has that wait in it. What comes next is
//! found, and a buffer filled, outside of both.
//!
//! When the phase is over nothing is submitted any more, and what is in flight is waited for and recorded as the window
//! rule says. A request that never comes back keeps the worker here; the coordinator finds it in its slot.

use crate::meter::{Halt, Meter, Place};
use crate::record::Step;
use fsdyno_sys::ring::Ring;
use rustix::io::Errno;

/// Nothing was moved, where something had to be: the file has become shorter than it was made.
pub(crate) const NOTHING_MOVED: Errno = Errno::NODATA;

/// A part of the file that one request reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where it begins.
    pub(crate) position: u64,
    /// Its bytes.
    pub(crate) length: usize,
}

impl Piece {
    /// What is left when so many bytes are done; none when that is all.
    #[inline(always)]
    pub(crate) fn rest(self, done: usize) -> Option<Piece> {
        let length = self.length.saturating_sub(done);
        (length > 0).then(|| Piece { position: self.position + done as u64, length })
    }
}

/// What the requests of a worker are.
pub(crate) trait Supply {
    /// Whether they write.
    const WRITES: bool;

    /// The next piece; none: there is nothing more to do.
    fn next(&mut self, meter: &Meter) -> Option<Piece>;

    /// Puts the content of a piece into the buffer of this slot, before it is written.
    fn fill(&mut self, slot: usize, piece: Piece, buffer: &mut [u8]);
}

/// Keeps the ring full until the supply has nothing more or the phase is over, and waits for what is in flight, each time
/// for `batch` requests or as many as there are. Every request is the operation `step`.
///
/// # Errors
/// [`Halt::Over`] when the phase is over, [`Halt::Failed`] for the first request that failed: others may then still be in
/// flight, and the ring must not be used again.
pub(crate) fn run<S: Supply>(
    meter: &mut Meter,
    ring: &mut Ring,
    batch: usize,
    step: Step,
    place: Place<'_>,
    supply: &mut S,
) -> Result<(), Halt> {
    meter.open_slots(ring.depth());
    let mut queue = Queue {
        pieces: vec![Piece { position: 0, length: 0 }; ring.depth()].into_boxed_slice(),
        fresh: Vec::with_capacity(ring.depth()),
        ring,
        supply,
    };
    for slot in 0..queue.ring.depth() {
        let Some(piece) = queue.supply.next(meter) else { break };
        queue.put(slot, piece);
    }
    let mut result = Ok(());
    while queue.ring.occupied() > 0 {
        let start = meter.ticks();
        for slot in queue.fresh.drain(..) {
            meter.depart(slot, step, start);
        }
        // In the end each is waited for by itself, so that one that hangs does not hide the others.
        let submitted = queue.ring.submit_and_wait(if result.is_ok() { batch } else { 1 });
        let end_ns = meter.to_ns(meter.ticks());
        submitted.map_err(|errno| meter.failed(step, place, errno))?;
        while let Some(completion) = queue.ring.reap() {
            let slot = completion.slot;
            let moved = match completion.result {
                Ok(0) => return Err(meter.crash(slot, place, NOTHING_MOVED)),
                Ok(moved) => moved,
                Err(errno) => return Err(meter.crash(slot, place, errno)),
            };
            if let Err(halt) = meter.arrive(slot, end_ns, moved as u64, place) {
                result = Err(halt);
            }
            if result.is_ok() {
                queue.go_on(slot, moved, meter);
            }
        }
    }
    result
}

struct Queue<'a, S> {
    ring: &'a mut Ring,
    supply: &'a mut S,
    /// By slot.
    pieces: Box<[Piece]>,
    /// Slots whose requests go with the next submission.
    fresh: Vec<usize>,
}

impl<S: Supply> Queue<'_, S> {
    /// Puts a request into a free slot.
    #[inline(always)]
    fn put(&mut self, slot: usize, piece: Piece) {
        self.pieces[slot] = piece;
        if S::WRITES {
            self.supply.fill(slot, piece, &mut self.ring.buffer(slot)[..piece.length]);
            self.ring.write(slot, piece.position, piece.length);
        } else {
            self.ring.read(slot, piece.position, piece.length);
        }
        self.fresh.push(slot);
    }

    /// What a slot does after so many bytes: the rest of its piece, or the next one.
    #[inline(always)]
    fn go_on(&mut self, slot: usize, moved: usize, meter: &Meter) {
        let rest = self.pieces[slot].rest(moved);
        if let Some(piece) = rest.or_else(|| self.supply.next(meter)) {
            self.put(slot, piece);
        }
    }
}
