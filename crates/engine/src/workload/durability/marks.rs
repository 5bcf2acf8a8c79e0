//! Where workers note that they begin a promise and that it was acknowledged.

use crate::content::AlignedBuffer;
use crate::error::EngineError;
use fsdyno_core::durability::{Mark, Moment, Promise};
use fsdyno_core::units::Nanos;
use fsdyno_sys::timer::monotonic_ns;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;

const ACTION: &str = "write a mark to";

/// Puts a sector at its place in the log of the device, and returns when it is there.
pub(crate) type Put = Arc<dyn Fn(&[u8]) -> Result<(), EngineError> + Send + Sync>;

/// Opens a file that takes marks at offset 0, or, in a guest, a disk that does.
pub(crate) fn open(path: &Path) -> Result<Put, EngineError> {
    let found = rustix::fs::stat(path).map_err(EngineError::system("look at", path))?;
    // A block device collects what is written to it in memory, and would keep only the last mark of many.
    let is_disk = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
    let direct = if is_disk { OFlags::DIRECT } else { OFlags::empty() };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | direct;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = file.map_err(EngineError::system("open for marks", path))?;
    let path = path.to_path_buf();
    Ok(Arc::new(move |sector| {
        let mut aligned = AlignedBuffer::new(sector.len());
        aligned.as_mut_slice().copy_from_slice(sector);
        match rustix::io::pwrite(&file, aligned.as_slice(), 0) {
            Ok(written) if written == sector.len() => Ok(()),
            Ok(_) => Err(EngineError::system(ACTION, &path)(Errno::IO)),
            Err(errno) => Err(EngineError::system(ACTION, &path)(errno)),
        }
    }))
}

/// One worker's marks.
pub(crate) struct Marker {
    promise: Option<Promise>,
    put: Put,
}

impl Marker {
    pub(crate) fn new(promise: Option<Promise>, put: Put) -> Self {
        Marker { promise, put }
    }

    /// Notes that something happens now.
    pub(crate) fn note(&self, number: u64, moment: Moment) -> Result<(), EngineError> {
        let mark = Mark { promise: self.promise, number, moment, time_ns: Nanos(monotonic_ns()) };
        (self.put)(&mark.to_bytes())
    }
}
