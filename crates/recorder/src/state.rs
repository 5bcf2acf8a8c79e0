//! A disk after a power cut, which can be read and written like any other.

use crate::Result;
use crate::base::Base;
use crate::extents::{ByteSource, Extents};
use crate::files::NamedFile;
use crate::log::RecordedLog;
use crate::survivors::{Survivors, survivors};
use fsdyno_core::Bytes;
use fsdyno_core::durability::StateRequest;
use std::ops::Range;
use std::path::Path;

/// A disk in one state at a time. What is written to it goes into a file of its own, and is forgotten with
/// the state.
#[derive(Debug)]
pub struct DiskState {
    base: Base,
    extents: Extents,
    overlay: NamedFile,
    size: Bytes,
}

impl DiskState {
    /// A disk on which nothing is.
    ///
    /// # Errors
    /// [`crate::RecorderError::File`], also if `directory` has one already.
    pub fn create(directory: &Path, size: Bytes) -> Result<DiskState> {
        let overlay = NamedFile::create(&directory.join("overlay"))?;
        let base = Base::create(&directory.join("base"), size)?;
        Ok(DiskState { base, extents: Extents::default(), overlay, size })
    }

    /// Brings it into a state. States in ascending order of their cuts cost the least.
    ///
    /// # Errors
    /// [`crate::RecorderError::NoSuchCut`]; those of reading the log and writing the files.
    pub fn enter(&mut self, log: &RecordedLog, request: &StateRequest) -> Result<()> {
        self.overlay.clear(self.size.0)?;
        let Survivors { flushed, extents } = survivors(log, request)?;
        self.base.go_to(log, &flushed)?;
        self.extents = extents;
        Ok(())
    }

    /// Reads from a place.
    ///
    /// # Errors
    /// [`crate::RecorderError::File`].
    pub fn read_at(&self, log: &RecordedLog, buffer: &mut [u8], at: u64) -> Result<()> {
        for (range, source) in self.extents.parts(at..at + buffer.len() as u64) {
            let part = &mut buffer[(range.start - at) as usize..(range.end - at) as usize];
            match source {
                None => self.base.read_at(part, range.start)?,
                Some(ByteSource::Log(place)) => log.data().read_at(part, place)?,
                Some(ByteSource::Zeros) => part.fill(0),
                Some(ByteSource::Overlay) => self.overlay.read_at(part, range.start)?,
            }
        }
        Ok(())
    }

    /// Writes to a place.
    ///
    /// # Errors
    /// [`crate::RecorderError::File`].
    pub fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.overlay.write_at(bytes, at)?;
        self.extents.insert(at..at + bytes.len() as u64, ByteSource::Overlay);
        Ok(())
    }

    /// Makes a range of zeros.
    pub fn zero(&mut self, range: Range<u64>) {
        self.extents.insert(range, ByteSource::Zeros);
    }

    /// The disk after the whole log, for a comparison.
    pub(crate) fn replayed(&mut self, log: &RecordedLog) -> Result<&Base> {
        self.extents = Extents::default();
        self.base.go_to(log, &log.all_before(log.count()))?;
        Ok(&self.base)
    }
}
