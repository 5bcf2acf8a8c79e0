//! Judges what a power cut has left: which promises of `durability` were kept, and how much of the work that
//! nothing synced is still there.
//!
//! The work of the workers follows from the seed, and their progress from the marks before the cut; so only
//! names that must or may exist are looked at, no directory is listed, and no more of a file is read than was
//! written to it, plus one sector. The filesystem may be damaged and return anything. An error of the kernel
//! about a file is a loss.

mod file;
mod names;
mod notes;
mod promises;
mod record;
#[cfg(test)]
mod tests;
mod unsynced;

use crate::plant::DIRECTORY;
use crate::session::base_name;
use crate::workload::durability::script::{self, Script};
use file::Reader;
use fsdyno_core::durability::Promise;
use fsdyno_core::result::{Verified, VerifiedPromise};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::Durability;
use notes::Notes;
use record::Record;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

/// Why nothing could be judged.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The marks cannot be read, or there are fewer than expected.
    #[error("cannot read mark {number}")]
    Marks {
        /// Which one, from 0.
        number: u64,
        /// Why.
        source: std::io::Error,
    },
    /// A sector among the marks that is not one, or that does not follow from those before it.
    #[error("mark {number} is not one that a worker writes there")]
    NoMark {
        /// Which one, from 0.
        number: u64,
    },
    /// The directory cannot be opened.
    #[error("cannot open '{}'", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        errno: Errno,
    },
}

/// Looks at the filesystem mounted at `directory` after a cut, and judges everything that was acknowledged
/// before. `marks` has the marks before the cut, `count` of them, and `cut_ns` is when the cut came, by the
/// same clock. The workload had these parameters and this seed. Nothing is written, and no link is followed.
///
/// # Errors
/// Only if nothing can be judged: [`VerifyError`]. What the filesystem does not give back is a loss.
pub fn verify(
    directory: &Path,
    parameters: &Durability,
    seed: u64,
    marks: &mut dyn Read,
    count: u64,
    cut_ns: Nanos,
) -> Result<Verified, VerifyError> {
    let record = Record::read(marks, count, u64::from(parameters.promises))?;
    let base = open_base(directory, seed)?;
    let place = Place { record: &record, base: base.as_ref(), script: Script::new(seed) };
    // Each file is read from the device, so most of the time is spent waiting.
    let (promised, (unsynced, of_unsynced)) = std::thread::scope(|scope| {
        let unsynced = scope.spawn(|| place.unsynced(cut_ns));
        let promised = Promise::ALL.map(|promise| scope.spawn(move || place.promised(promise)));
        (promised.map(joined), joined(unsynced))
    });
    let mut notes = Notes::default();
    let mut verified = Verified::default();
    for (promised, of_promise) in promised {
        verified.promises.extend(promised);
        notes.append(of_promise);
    }
    notes.append(of_unsynced);
    Ok(Verified {
        files: unsynced.files,
        names: unsynced.names,
        survival: unsynced.survival,
        found: notes.lines(),
        ..verified
    })
}

/// Waits for a thread. What it panics with is this thread's panic.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The place that is examined, and the work that was done there.
#[derive(Clone, Copy)]
struct Place<'a> {
    record: &'a Record,
    /// The directory of the workload, if the filesystem has it.
    base: Result<&'a OwnedFd, &'a Errno>,
    script: Script,
}

impl Place<'_> {
    /// Returns the outcome of a promise; nothing if none was made.
    fn promised(self, promise: Promise) -> (Option<VerifiedPromise>, Notes) {
        let (mut reader, mut notes) = (Reader::new(self.script), Notes::default());
        let counts = self.record.counts(Some(promise));
        let mut look = promises::PromiseLook::new(promise, counts, &mut reader, &mut notes);
        match open_directory(self.base, script::directory(Some(promise))) {
            Ok(directory) => look.at(&directory),
            Err(errno) => look.at_nothing(errno),
        }
        let (mut lost, wrong) = look.found();
        lost.sort_unstable();
        lost.dedup();
        let any = counts.acknowledged > 0 || wrong.total() > 0;
        (any.then_some(VerifiedPromise { promise, made: counts.acknowledged, lost, wrong }), notes)
    }

    /// Returns the outcome of the work that nothing synced.
    fn unsynced(self, cut_ns: Nanos) -> (unsynced::Looked, Notes) {
        let (mut reader, mut notes) = (Reader::new(self.script), Notes::default());
        let directory = open_directory(self.base, script::directory(None)).ok();
        let looked = unsynced::look(self.record, directory.as_ref(), cut_ns, &mut reader, &mut notes);
        (looked, notes)
    }
}

/// The directory of the workload; the error if the filesystem does not have it.
fn open_base(directory: &Path, seed: u64) -> Result<Result<OwnedFd, Errno>, VerifyError> {
    match rustix::fs::open(directory, DIRECTORY, Mode::empty()) {
        Ok(root) => Ok(rustix::fs::openat(&root, base_name(seed), DIRECTORY, Mode::empty())),
        // The caller has named something else than a directory.
        Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM)) => {
            Err(VerifyError::Open { path: directory.to_path_buf(), errno })
        }
        // The filesystem does not give back its root.
        Err(errno) => Ok(Err(errno)),
    }
}

fn open_directory(base: Result<&OwnedFd, &Errno>, name: &str) -> Result<OwnedFd, Errno> {
    let base = base.map_err(|errno| *errno)?;
    rustix::fs::openat(base, name, DIRECTORY, Mode::empty())
}
