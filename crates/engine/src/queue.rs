//! The other hot loop: many reads or writes of one file in flight at once, each timed.
//!
//! The clock is read once before the system call that submits requests, and once after the call that waits,
//! when its completions are examined: the time of a request is measured from its submission until its
//! completion is seen. The call returns as soon as one request is done, so that none waits for another; or,
//! if the workload uses batches, when a whole batch is, and then the time of a request includes that wait.
//! Finding the next piece, filling its buffer and comparing what was read happen outside of both.
//!
//! Slots that become free are used again while the other completions are examined: each at once, and the last
//! of them with the next wait. If all were submitted together in the end, a worker that wakes slowly would
//! alternate with the device. After a batch, when many are free, only the first is submitted alone, because
//! the device may have nothing left to do, and the others in groups: so many system calls would take the time
//! of small requests. What the kernel completes before the submission returns, from the page cache, keeps no
//! device busy; such requests are submitted together, with one system call for all.
//!
//! When the phase is over nothing more is submitted, and what is in flight is waited for and recorded
//! according to the window rule. A request that never completes keeps the worker here; the coordinator finds
//! it in its slot.

use crate::meter::{Halt, Meter, Object};
use crate::wrong::Problem;
use fsdyno_core::workload::StepIndex;
use fsdyno_sys::ring::{Completion, Ring};
use rustix::io::Errno;

/// So many slots are handed on with one system call, after the first of those that a batch has freed. Groups
/// of 2, 3, 6 and 8 were slower in some batches, or needed more processor time (decision 0018).
const GROUP: usize = 4;

/// A result of zero bytes where more were expected: the file has become shorter.
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
    /// Returns the rest of the piece after this many bytes; `None` if nothing is left.
    #[inline(always)]
    pub(crate) fn rest(self, done: usize) -> Option<Piece> {
        let length = self.length.saturating_sub(done);
        (length > 0).then(|| Piece { position: self.position + done as u64, length })
    }
}

/// The supply of a worker's requests.
pub(crate) trait Supply {
    /// `true` if the requests write.
    const WRITES: bool;

    /// The next piece; `None` if there is nothing more to do.
    fn next(&mut self, meter: &Meter) -> Option<Piece>;

    /// Puts the content of a piece into the buffer of this slot, before it is written.
    fn fill(&mut self, slot: usize, piece: Piece, buffer: &mut [u8]);

    /// Looks at what was read from this position on: nothing if the file ends there.
    ///
    /// # Errors
    /// The problem with the data read.
    fn check(&mut self, position: u64, found: &[u8]) -> Result<(), Problem>;
}

/// Keeps the ring full until the supply is exhausted or the phase is over, and waits for what is in flight,
/// each time for `batch` requests or as many as there are. Every request is the operation `step`.
///
/// # Errors
/// [`Halt::Over`] if the phase is over, [`Halt::Failed`] for the first request that failed and
/// [`Halt::Wrong`] for the first that read what nobody wrote: others may then still be in flight, and the
/// ring must not be used again.
pub(crate) fn run<S: Supply>(
    meter: &mut Meter,
    ring: &mut Ring,
    batch: usize,
    step: StepIndex,
    object: Object<'_>,
    supply: &mut S,
) -> Result<(), Halt> {
    let depth = ring.depth();
    meter.open_slots(depth);
    let mut queue = Queue {
        pieces: vec![Piece { position: 0, length: 0 }; depth].into_boxed_slice(),
        fresh: Vec::with_capacity(depth),
        ring,
        supply,
    };
    for slot in 0..depth {
        let Some(piece) = queue.supply.next(meter) else { break };
        queue.put(slot, piece);
    }
    let usual_group = if batch == 1 { 1 } else { GROUP };
    let mut found = Vec::with_capacity(depth);
    // Whether requests complete before their submission returns.
    let mut at_once = false;
    let mut result = Ok(());
    while queue.ring.occupied() > 0 {
        // In the end each one is waited for separately, so that one that hangs does not hide the others.
        let want = if result.is_ok() { batch } else { 1 };
        let submitted = match at_once {
            false => queue.submit(meter, step, want),
            // A call that waits for none would leave those that the device completes uncollected.
            true => queue.submit(meter, step, 1).and_then(|()| {
                at_once = queue.ring.ended() == queue.ring.occupied();
                queue.ring.submit_and_wait(want)
            }),
        };
        let end_ns = meter.to_ns(meter.ticks());
        submitted.map_err(|errno| meter.failed(step, object, errno, meter.ticks()))?;
        found.extend(std::iter::from_fn(|| queue.ring.reap()));
        let mut group = 1;
        let mut completions = found.drain(..);
        while let Some(Completion { slot, result: moved }) = completions.next() {
            let moved = match moved {
                Ok(0) => {
                    queue.check(slot, 0).map_err(|problem| object.wrong(problem))?;
                    return Err(meter.crash(slot, object, NOTHING_MOVED));
                }
                Ok(moved) => moved,
                Err(errno) => return Err(meter.crash(slot, object, errno)),
            };
            if let Err(halt) = meter.arrive(slot, end_ns, moved as u64, object) {
                result = Err(halt);
            }
            if !S::WRITES {
                queue.check(slot, moved).map_err(|problem| object.wrong(problem))?;
            }
            if result.is_ok() {
                queue.go_on(slot, moved, meter);
                // The last ones are submitted with the next wait.
                if !at_once && queue.fresh.len() >= group && completions.len() > 0 {
                    queue
                        .submit(meter, step, 0)
                        .map_err(|errno| meter.failed(step, object, errno, meter.ticks()))?;
                    at_once = queue.ring.ended() > 0;
                    group = usual_group;
                }
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
    /// Slots whose requests are part of the next submission.
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

    /// Looks at what a slot has read.
    #[inline(always)]
    fn check(&mut self, slot: usize, moved: usize) -> Result<(), Problem> {
        let found = &self.ring.buffer(slot)[..moved];
        self.supply.check(self.pieces[slot].position, found)
    }

    /// Submits new requests, and waits for this many completions.
    #[inline(always)]
    fn submit(&mut self, meter: &Meter, step: StepIndex, want: usize) -> Result<(), Errno> {
        let start = meter.ticks();
        for slot in self.fresh.drain(..) {
            meter.depart(slot, step, start);
        }
        self.ring.submit_and_wait(want)
    }

    /// Continues a slot after this many bytes: with the rest of its piece, or with the next one.
    #[inline(always)]
    fn go_on(&mut self, slot: usize, moved: usize, meter: &Meter) {
        let rest = self.pieces[slot].rest(moved);
        if let Some(piece) = rest.or_else(|| self.supply.next(meter)) {
            self.put(slot, piece);
        }
    }
}
