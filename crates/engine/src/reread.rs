//! Reads whole files again and passes each piece on to be compared.

use crate::background::Gauge;
use crate::error::OperationFailure;
use crate::meter::{Halt, Object};
use crate::plant::DIRECTORY;
use crate::wrong::Problem;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// The name of this step in errors.
pub(crate) const STEP: &str = "read again";

/// Bytes per read.
pub(crate) const PIECE: usize = 1 << 20;

/// The kernel's error about a file or directory that is looked at again.
pub(crate) fn failure(path: String, errno: Errno) -> Halt {
    Halt::Failed(OperationFailure { operation: None, path, errno })
}

/// Opens a directory that the load has used.
///
/// # Errors
/// [`Halt::Failed`].
pub(crate) fn open(path: &Path) -> Result<OwnedFd, Halt> {
    rustix::fs::open(path, DIRECTORY, Mode::empty())
        .map_err(|errno| failure(path.display().to_string(), errno))
}

/// Reads one file after the other.
pub(crate) struct Rereader<'a> {
    buffer: Vec<u8>,
    /// Counts bytes.
    gauge: &'a Gauge,
}

impl<'a> Rereader<'a> {
    pub(crate) fn new(gauge: &'a Gauge) -> Self {
        Rereader { buffer: vec![0; PIECE], gauge }
    }

    /// Reads a file of this size, or of any if `None`; returns its size. `check` gets every piece with its
    /// position.
    ///
    /// # Errors
    /// [`Halt::Wrong`] if something is wrong, [`Halt::Failed`] if the kernel does not give it back,
    /// [`Halt::Over`] if the engine is to stop.
    pub(crate) fn read(
        &mut self,
        directory: impl AsFd,
        object: Object<'_>,
        size: Option<u64>,
        mut check: impl FnMut(u64, &[u8]) -> Result<(), Problem>,
    ) -> Result<u64, Halt> {
        let failed = |errno| match errno {
            Errno::NOENT => object.wrong(Problem::Missing),
            errno => failure(object.path(), errno),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, object.name, flags, Mode::empty()).map_err(failed)?;
        let found = u64::try_from(rustix::fs::fstat(&file).map_err(failed)?.st_size).unwrap_or(0);
        let expected = size.unwrap_or(found);
        if found != expected {
            return Err(object.wrong(Problem::Size { expected, found }));
        }
        // What is still in memory proves nothing about the device. Not every filesystem can drop it.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        let mut position = 0;
        while position < expected {
            if self.gauge.cancelled() {
                return Err(Halt::Over);
            }
            let length = (expected - position).min(PIECE as u64) as usize;
            let read = rustix::io::pread(&file, &mut self.buffer[..length], position).map_err(failed)?;
            if read == 0 {
                return Err(object.wrong(Problem::Size { expected, found: position }));
            }
            check(position, &self.buffer[..read]).map_err(|problem| object.wrong(problem))?;
            position += read as u64;
            self.gauge.advance(read as u64);
        }
        Ok(expected)
    }
}

/// Looks for what was removed.
///
/// # Errors
/// [`Halt::Wrong`] if it is there, [`Halt::Failed`] if the kernel does not say.
pub(crate) fn absent(directory: impl AsFd, object: Object<'_>) -> Result<(), Halt> {
    match rustix::fs::statat(directory, object.name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Ok(_) => Err(object.wrong(Problem::Present)),
        Err(errno) => Err(failure(object.path(), errno)),
    }
}
