//! `bonnie` (bonnie++ 2.00): one large file, then many small ones, in twelve phases that last until their
//! work is done.
//!
//! Each phase does what the original does between its two readings of the clock (`TestFileOps` and
//! `TestDirOps` in bonnie++.cpp, with bon_io.cpp and bon_file.cpp): in the same order, with the same system
//! calls, including the `fsync` before every `close` of the large file and the `sync` after creating and
//! removing the small ones. Like the original it empties no cache between the phases: that is the purpose of
//! a file of twice the memory.
//!
//! It differs where the original measures itself or keeps lists:
//! - Names, sizes and places follow from the seed and a number, so that memory does not grow with the files.
//!   The random orders are permutations of the numbers ([`names::Shuffle`]) instead of shuffled lists.
//! - Seekers take the next seek from a counter; the original's read tickets from a pipe.
//! - `syncfs` on this filesystem replaces `sync` on the whole machine.
//! - The directory of small files is opened; the original changes into it, but workers are threads and share
//!   the working directory.
//! - The plan chooses the data; the original writes chunks of zeros with a few ones.

mod large;
mod names;
mod reread;
mod rewritten;
mod small;

use crate::background;
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter, Object, timed};
use crate::phase::{Job, PhaseLoad};
use crate::plant::DIRECTORY;
use crate::session::Session;
use crate::span::Span;
use crate::workload::Work;
use crate::wrong::Problem;
use fsdyno_core::workload::{Bonnie, PhaseSpec, StepIndex};
use fsdyno_core::{Bytes, Operation, TrialStep, WarningKind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::path::Path;

impl Work for Bonnie {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let base = session.make_base()?;
        let memory = session.memory();
        let size = self.size_on(memory);
        if size > Bytes(0) && size.0 / 2 < memory.0 {
            let text = format!(
                "the large file has {} MB, memory {} MB: unless the file is at least twice as large, it may be \
             read from memory",
                size.0 / 1_000_000,
                memory.0 / 1_000_000
            );
            session.warn(WarningKind::TreeSmallerThanMemory, text);
        }
        session.settle("start", 0)?;
        if size > Bytes(0) {
            let large = large::Large::new(self, size, &base, session.request.seed);
            large.phases().into_iter().try_for_each(|phase| session.phase(phase))?;
            remove(session, &base)?;
        }
        if self.files > 0 {
            let small = small::Small::new(self, &base, session.request.seed);
            small.phases().into_iter().try_for_each(|phase| session.phase(phase))?;
        }
        Ok(())
    }

    fn read_again(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        reread::read_again(session)
    }
}

/// A phase of one of the tests: about this many operations, shared by these workers.
fn phase(test: PhaseSpec, operations: u64, jobs: Vec<Job>) -> PhaseLoad {
    PhaseLoad::of(test, Span::whole(operations), jobs)
}

/// A worker that prepares, lines up, and works. What it has prepared is released after the end of the phase.
fn job<T>(
    prepare: impl FnOnce() -> Result<T, OperationFailure> + Send + 'static,
    work: impl FnOnce(&mut Meter, &mut T) -> Result<(), Halt> + Send + 'static,
) -> Job {
    Box::new(move |lineup| {
        let mut prepared = match prepare() {
            Ok(prepared) => prepared,
            Err(failure) => return Halt::Failed(failure),
        };
        let mut meter = lineup.start();
        work(&mut meter, &mut prepared).err().unwrap_or(Halt::Over)
    })
}

/// Removes the large file, outside of all phases as in the original.
fn remove(session: &mut Session<'_, '_>, base: &Path) -> Result<(), EngineError> {
    let directory = base.to_path_buf();
    let work = move |_: &background::Gauge| -> Result<(), EngineError> {
        let base = open_base(&directory).map_err(EngineError::system("open the directory", &directory))?;
        rustix::fs::unlinkat(&base, large::NAME, AtFlags::empty())
            .map_err(EngineError::system("remove the large file in", &directory))
    };
    let reporter = &mut *session.reporter;
    background::run("remove the large file", session.bounds, work, |_| {
        reporter.tell(TrialStep::Settle, "remove the large file", 0.0, 0);
        true
    })?
}

fn open_base(base: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(base, DIRECTORY, Mode::empty())
}

/// The kernel's error for a call that is not part of a phase.
fn failure(operation: Operation, object: Object<'_>) -> impl FnOnce(Errno) -> OperationFailure {
    let path = object.path();
    move |errno| OperationFailure { operation: Some(operation), path, errno }
}

/// Writes all of it: with one call, unless the kernel accepts less at a time.
#[inline(always)]
fn write_all(
    meter: &mut Meter,
    step: StepIndex,
    object: Object<'_>,
    file: impl AsFd,
    mut bytes: &[u8],
) -> Result<(), Halt> {
    while !bytes.is_empty() {
        let count = |written: &usize| *written as u64;
        let written = timed(meter, step, object, count, || some(rustix::io::write(&file, bytes)))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Fills the buffer: with one call, unless the kernel returns less at a time. `counts`: what the bytes count
/// as; `size`: that of the file, if what is read is verified.
#[inline(always)]
fn read_all(
    meter: &mut Meter,
    step: StepIndex,
    object: Object<'_>,
    file: impl AsFd,
    mut buffer: &mut [u8],
    counts: fn(&usize) -> u64,
    size: Option<u64>,
) -> Result<(), Halt> {
    while !buffer.is_empty() {
        let read = timed(meter, step, object, counts, || rustix::io::read(&file, &mut *buffer))?;
        if read == 0 {
            return Err(ended(object, file, size));
        }
        buffer = &mut buffer[read..];
    }
    Ok(())
}

/// A file that has ended where more was written to it.
#[cold]
fn ended(object: Object<'_>, file: impl AsFd, size: Option<u64>) -> Halt {
    match (size, rustix::fs::tell(file)) {
        (Some(expected), Ok(found)) => object.wrong(Problem::Size { expected, found }),
        _ => Halt::Failed(failure(Operation::Read, object)(Errno::IO)),
    }
}

/// No progress without an error would loop forever.
fn some(moved: Result<usize, Errno>) -> Result<usize, Errno> {
    match moved {
        Ok(0) => Err(Errno::IO),
        other => other,
    }
}

#[inline(always)]
fn close(meter: &mut Meter, step: StepIndex, object: Object<'_>, descriptor: OwnedFd) -> Result<(), Halt> {
    timed(meter, step, object, |()| 0, || fsdyno_sys::thread::close(descriptor))
}
