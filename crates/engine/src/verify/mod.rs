//! Judges what a power cut has left: which promises of `durability` were kept, and how much of the work that
//! nothing synced is still there.
//!
//! What workers have done follows from the seed, and how far they had come from the marks before the cut;
//! so only names are looked at that must or may exist, no directory is listed, and no more of a file is read
//! than was written to it, plus one sector. The filesystem may be damaged and answer anything. An error of
//! the kernel about a file is a loss.

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
        /// What the kernel said.
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
    let script = Script::new(seed);
    let mut reader = Reader::new(script);
    let mut notes = Notes::default();
    let mut verified = Verified::default();
    for promise in Promise::ALL {
        let counts = record.counts(Some(promise));
        let place = open_directory(base.as_ref(), script::directory(Some(promise)));
        let mut look = promises::Look::new(promise, counts, &mut reader, &mut notes);
        match place {
            Ok(place) => look.at(&place),
            Err(errno) => look.at_nothing(errno),
        }
        let (mut lost, wrong) = look.found();
        lost.sort_unstable();
        lost.dedup();
        if counts.acknowledged > 0 || wrong.total() > 0 {
            verified.promises.push(VerifiedPromise { promise, made: counts.acknowledged, lost, wrong });
        }
    }
    let place = open_directory(base.as_ref(), script::directory(None)).ok();
    let unsynced = unsynced::look(&record, place.as_ref(), cut_ns, &mut reader, &mut notes);
    Ok(Verified {
        files: unsynced.files,
        names: unsynced.names,
        survival: unsynced.survival,
        found: notes.lines(),
        ..verified
    })
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
