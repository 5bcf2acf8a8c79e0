//! A stream: one worker on one file, sequentially or at random positions, with one system call at a time or
//! many requests in a ring.

use super::versions::{self, Drawn, Versions};
use crate::compare::Comparer;
use crate::content::{AlignedBuffer, Content, FileIdentity, Held};
use crate::error::OperationFailure;
use crate::meter::{Halt, Meter, Object, timed, watched};
use crate::queue::{self, Piece, Supply};
use crate::session::Ledger;
use crate::wrong::Problem;
use fsdyno_core::workload::steps::{StepIndex, up_to};
use fsdyno_core::workload::streaming::{pread, pwrite, read, uring_read, uring_write, write};
use fsdyno_core::workload::{self};
use fsdyno_core::{Operation, Role};
use fsdyno_sys::ring::Ring;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::ffi::CString;
use std::path::Path;

/// Every list begins with the operation that moves data; a writer's second one syncs.
const MOVE: StepIndex = write::MOVE;
const SYNC: StepIndex = write::SYNC;

/// The way in which a worker goes through its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileCourse {
    /// Sequentially, once.
    Once,
    /// Sequentially, again and again.
    Around,
    /// This many blocks, chosen at random, again and again.
    Random {
        /// Seed of the choice.
        seed: u64,
        /// `None`: until the phase is over.
        count: Option<u64>,
    },
}

/// The task of one worker with one file.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) name: String,
    /// Which of the workload's files it is.
    pub(crate) number: u32,
    pub(crate) writes: bool,
    pub(crate) course: FileCourse,
    /// Bytes of the file, and of each request.
    pub(crate) file_bytes: u64,
    pub(crate) block: usize,
    pub(crate) direct: bool,
    /// Requests in flight at once, in a ring; `None`: one system call at a time.
    pub(crate) depth: Option<u32>,
    /// The number of requests to wait for each time.
    pub(crate) batch: u32,
    /// `true` if the file is synced at the end.
    pub(crate) fsync: bool,
    /// The content that is written.
    pub(crate) content: workload::Content,
    pub(crate) seed: u64,
    pub(crate) identity: FileIdentity,
    /// The version of the file that it begins to write.
    pub(super) version: u32,
    /// The expected versions, for comparison with what is read.
    pub(super) expects: Option<Versions>,
    /// Where it notes how far it came.
    pub(super) ledger: Option<Ledger>,
}

impl Stream {
    pub(crate) fn role(&self) -> Role {
        if self.writes { Role::Writer } else { Role::Reader }
    }

    /// The operations that the worker performs.
    pub(crate) fn steps(&self) -> &'static [Operation] {
        let random = matches!(self.course, FileCourse::Random { .. });
        let steps = match (self.depth.is_some(), self.writes, random) {
            (true, false, _) => uring_read::STEPS,
            (true, true, _) => uring_write::STEPS,
            (false, false, false) => read::STEPS,
            (false, false, true) => pread::STEPS,
            (false, true, false) => write::STEPS,
            (false, true, true) => pwrite::STEPS,
        };
        if self.writes && self.fsync { steps } else { up_to(steps, MOVE) }
    }

    /// Returns the number of operations of the course; `None` if it has no end.
    pub(crate) fn operations(&self) -> Option<u64> {
        match self.course {
            FileCourse::Once => Some(self.file_bytes.div_ceil(self.block as u64) + u64::from(self.fsync)),
            FileCourse::Around => None,
            FileCourse::Random { count, .. } => count,
        }
    }

    fn failure(&self, operation: Operation) -> impl FnOnce(Errno) -> OperationFailure {
        let path = self.name.clone();
        move |errno| OperationFailure { operation: Some(operation), path, errno }
    }

    fn open_file(&self, base: &Path) -> Result<OwnedFd, OperationFailure> {
        let access = if self.writes { OFlags::WRONLY | OFlags::CREATE } else { OFlags::RDONLY };
        let direct = if self.direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = access | direct | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(base.join(&self.name), flags, Mode::RUSR | Mode::WUSR)
            .map_err(self.failure(Operation::Openat))
    }

    /// Opens the file and prepares everything.
    pub(crate) fn open(self, base: &Path) -> Result<ReadyStream, OperationFailure> {
        let file = self.open_file(base)?;
        let ring = self.depth.map(|depth| {
            let mut ring = Ring::new(depth, self.block)?;
            ring.use_file(file.as_fd())?;
            Ok(ring)
        });
        let ring = ring.transpose().map_err(self.failure(self.steps()[0]))?;
        let source = Pieces::new(&self);
        Ok(ReadyStream { stream: self, file, ring, source })
    }

    /// Creates the file without timing, unless cancelled. Reports the bytes as they are written.
    pub(crate) fn make(
        &self,
        base: &Path,
        cancelled: impl Fn() -> bool,
        wrote: impl Fn(u64),
    ) -> Result<(), OperationFailure> {
        let file = self.open_file(base)?;
        let mut content = Content::new(self.content, self.seed, self.block);
        let mut position = 0;
        while position < self.file_bytes && !cancelled() {
            let length = (self.block as u64).min(self.file_bytes - position) as usize;
            let bytes = content.bytes(self.identity.version(self.version), position, length);
            let written =
                rustix::io::pwrite(&file, bytes, position).map_err(self.failure(Operation::Write))?;
            position += written as u64;
            wrote(written as u64);
        }
        Ok(())
    }
}

/// A stream that can start at once.
#[derive(Debug)]
pub(crate) struct ReadyStream {
    stream: Stream,
    file: OwnedFd,
    ring: Option<Ring>,
    source: Pieces,
}

impl ReadyStream {
    /// Goes through the file, to the end of its course or of the phase.
    pub(crate) fn run(mut self, meter: &mut Meter) -> Halt {
        meter.work_in(self.stream.name.as_bytes());
        let name = CString::default();
        let object = Object { directory: self.stream.name.as_bytes(), name: &name };
        let batch = self.stream.batch as usize;
        let result = match &mut self.ring {
            Some(ring) if self.stream.writes => {
                queue::run(meter, ring, batch, MOVE, object, &mut Writing(&mut self.source))
            }
            Some(ring) => queue::run(meter, ring, batch, MOVE, object, &mut ReadingRing(&mut self.source)),
            None => one_by_one(meter, &self.file, object, &self.stream, &mut self.source),
        };
        let synced = result.and_then(|()| match self.stream.fsync && self.stream.writes {
            true => timed(meter, SYNC, object, |()| 0, || rustix::fs::fsync(&self.file)),
            false => Ok(()),
        });
        if let Some(ledger) = &self.stream.ledger {
            self.source.drawn.reached(&self.stream.name).into_iter().for_each(|reached| ledger.note(reached));
        }
        synced.err().unwrap_or(Halt::Over)
    }
}

/// One system call at a time.
fn one_by_one(
    meter: &mut Meter,
    file: &OwnedFd,
    object: Object<'_>,
    stream: &Stream,
    source: &mut Pieces,
) -> Result<(), Halt> {
    let random = matches!(stream.course, FileCourse::Random { .. });
    let count = |moved: &usize| *moved as u64;
    // Where the next `read` or `write` would begin.
    let mut at = 0;
    while let Some(mut piece) = source.next(meter) {
        loop {
            if !random && at != piece.position {
                watched(meter, MOVE, object, || rustix::fs::seek(file, SeekFrom::Start(piece.position)))?;
            }
            let Piece { position, length } = piece;
            let moved = if stream.writes {
                let identity = source.identity.version(source.version);
                let bytes = source.content.bytes(identity, position, length);
                match random {
                    true => timed(meter, MOVE, object, count, || rustix::io::pwrite(file, bytes, position)),
                    false => timed(meter, MOVE, object, count, || rustix::io::write(file, bytes)),
                }
            } else {
                let bytes = &mut source.buffer.as_mut_slice()[..length];
                match random {
                    true => timed(meter, MOVE, object, count, || rustix::io::pread(file, bytes, position)),
                    false => timed(meter, MOVE, object, count, || rustix::io::read(file, bytes)),
                }
            }?;
            if moved == 0 {
                if !stream.writes {
                    source.check_buffer(position, 0).map_err(|problem| object.wrong(problem))?;
                }
                return Err(meter.failed(MOVE, object, queue::NOTHING_MOVED, meter.ticks()));
            }
            if !stream.writes {
                source.check_buffer(position, moved).map_err(|problem| object.wrong(problem))?;
            }
            at = position + moved as u64;
            match piece.rest(moved) {
                Some(rest) => piece = rest,
                None => break,
            }
        }
    }
    Ok(())
}

/// The positions and the content of a stream's pieces.
#[derive(Debug)]
struct Pieces {
    course: FileCourse,
    reads: bool,
    file_bytes: u64,
    block: u64,
    random: Xoshiro256PlusPlus,
    /// Where the next sequential piece begins.
    next: u64,
    /// The number of random pieces left.
    left: u64,
    /// Which version of the file the piece drawn last belongs to, if it is written.
    version: u32,
    drawn: Drawn,
    content: Content,
    identity: FileIdentity,
    /// The contents of the buffers of a ring, by slot.
    held: Box<[Held]>,
    /// The buffer of single system calls; a ring has its own buffers.
    buffer: AlignedBuffer,
    /// For a reader that compares.
    expected: Option<(Versions, Comparer)>,
}

impl Pieces {
    fn new(stream: &Stream) -> Self {
        let (seed, count) = match stream.course {
            FileCourse::Random { seed, count } => (seed, count),
            FileCourse::Once | FileCourse::Around => (0, None),
        };
        let (reads, depth) = (!stream.writes, stream.depth.unwrap_or(0) as usize);
        Pieces {
            course: stream.course,
            reads,
            file_bytes: stream.file_bytes,
            block: stream.block as u64,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            next: 0,
            left: count.unwrap_or(u64::MAX),
            version: stream.version,
            drawn: Drawn::new(if reads { 0 } else { depth }, stream.ledger.is_some()),
            content: Content::new(stream.content, stream.seed, if reads { 0 } else { stream.block }),
            identity: stream.identity,
            held: vec![Held::default(); depth].into_boxed_slice(),
            buffer: AlignedBuffer::new(if reads && depth == 0 { stream.block } else { 0 }),
            expected: stream
                .expects
                .clone()
                .map(|versions| (versions, Comparer::new(stream.content, stream.seed, stream.block))),
        }
    }

    /// The next piece; the last one of a file may be shorter.
    #[inline(always)]
    fn next(&mut self, meter: &Meter) -> Option<Piece> {
        if let FileCourse::Random { .. } = self.course {
            self.left = self.left.checked_sub(1)?;
            if !self.reads {
                // As much as the file has: from then on most blocks are written over.
                if self.next >= self.file_bytes {
                    meter.next_round();
                    self.next = 0;
                }
                self.next += self.block;
                self.version = versions::over(self.drawn.blocks);
                self.drawn.blocks += 1;
            }
            let position = self.random.random_range(0..self.file_bytes / self.block) * self.block;
            return Some(Piece { position, length: self.block as usize });
        }
        if self.next >= self.file_bytes {
            if self.course == FileCourse::Once {
                return None;
            }
            // A repeated read may come from memory, and what is written over may never reach the device: the
            // result must say so.
            meter.next_round();
            self.next = 0;
            self.version = self.version.wrapping_add(1);
        }
        self.drawn.blocks += 1;
        let position = self.next;
        self.next += self.block;
        Some(Piece { position, length: self.block.min(self.file_bytes - position) as usize })
    }
}

/// Compares what was read from a position on, if it is verified. Nothing was read where the file ends.
#[inline(always)]
fn check(
    expected: &mut Option<(Versions, Comparer)>,
    (file, file_bytes): (FileIdentity, u64),
    position: u64,
    found: &[u8],
) -> Result<(), Problem> {
    match expected {
        Some(_) if found.is_empty() => Err(Problem::Size { expected: file_bytes, found: position }),
        Some((versions, comparer)) => versions.check(comparer, file, position, found),
        None => Ok(()),
    }
}

impl Pieces {
    /// The same with what is in the buffer of single system calls.
    #[inline(always)]
    fn check_buffer(&mut self, position: u64, length: usize) -> Result<(), Problem> {
        let file = (self.identity, self.file_bytes);
        check(&mut self.expected, file, position, &self.buffer.as_slice()[..length])
    }
}

/// For a ring that reads.
struct ReadingRing<'a>(&'a mut Pieces);

impl Supply for ReadingRing<'_> {
    const WRITES: bool = false;

    #[inline(always)]
    fn next(&mut self, meter: &Meter) -> Option<Piece> {
        self.0.next(meter)
    }

    fn fill(&mut self, _: usize, _: Piece, _: &mut [u8]) {}

    #[inline(always)]
    fn check(&mut self, position: u64, found: &[u8]) -> Result<(), Problem> {
        let Pieces { expected, identity, file_bytes, .. } = &mut *self.0;
        check(expected, (*identity, *file_bytes), position, found)
    }
}

/// For a ring that writes.
struct Writing<'a>(&'a mut Pieces);

impl Supply for Writing<'_> {
    const WRITES: bool = true;

    #[inline(always)]
    fn next(&mut self, meter: &Meter) -> Option<Piece> {
        self.0.next(meter)
    }

    #[inline(always)]
    fn fill(&mut self, slot: usize, piece: Piece, buffer: &mut [u8]) {
        let Pieces { content, identity, held, drawn, block, version, .. } = &mut *self.0;
        // Where a short write goes on is not where a block begins.
        if piece.position.is_multiple_of(*block) {
            drawn.begin(slot, piece.position, *version);
        }
        let file = identity.version(drawn.version(slot));
        content.fill(file, piece.position, buffer, &mut held[slot]);
    }

    fn check(&mut self, _: u64, _: &[u8]) -> Result<(), Problem> {
        Ok(())
    }
}
