//! Where workers note that they begin a promise and that it was acknowledged.

use crate::content::AlignedBuffer;
use crate::error::EngineError;
use fsdyno_core::durability::{MARK_BYTES, Mark, Moment, Promise};
use fsdyno_core::units::Nanos;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;

const ACTION: &str = "write a mark to";

/// Puts a sector at its place in the log of the device, and returns when it is there.
pub(crate) type Put = Arc<dyn Fn(&[u8]) -> Result<(), EngineError> + Send + Sync>;

/// Opens a file or device that takes marks at offset 0. A block device is opened with `O_DIRECT`: through the
/// page cache, marks would reach it when everything is over.
pub(crate) fn open(path: &Path) -> Result<Put, EngineError> {
    let fail = |errno| EngineError::system("open for marks", path)(errno);
    let found = rustix::fs::stat(path).map_err(fail)?;
    let is_device = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
    let direct = if is_device { OFlags::DIRECT } else { OFlags::empty() };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | direct;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?;
    let path = path.to_path_buf();
    Ok(Arc::new(move |sector| match rustix::io::pwrite(&file, sector, 0) {
        Ok(written) if written == sector.len() => Ok(()),
        Ok(_) => Err(EngineError::system(ACTION, &path)(Errno::IO)),
        Err(errno) => Err(EngineError::system(ACTION, &path)(errno)),
    }))
}

/// One worker's marks.
pub(crate) struct Marker {
    promise: Option<Promise>,
    put: Put,
    /// For `O_DIRECT`.
    buffer: AlignedBuffer,
}

impl Marker {
    pub(crate) fn new(promise: Option<Promise>, put: Put) -> Self {
        Marker { promise, put, buffer: AlignedBuffer::new(MARK_BYTES) }
    }

    /// Notes that something happens now.
    pub(crate) fn note(&mut self, number: u64, moment: Moment) -> Result<(), EngineError> {
        let mark = Mark { promise: self.promise, number, moment, time_ns: now() };
        self.buffer.as_mut_slice().copy_from_slice(&mark.to_bytes());
        (self.put)(self.buffer.as_slice())
    }
}

/// The time of `CLOCK_MONOTONIC`.
fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
