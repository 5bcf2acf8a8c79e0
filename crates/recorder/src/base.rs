//! The disk as it was at some place in the log.

use crate::Result;
use crate::error::RecorderError;
use crate::files::{NamedFile, PIECE};
use crate::log::{Covered, Entry, Kind, RecordedLog};
use fsdyno_core::Bytes;
use std::path::Path;

/// A file to which the log has been replayed up to some entry of each part. Going forward costs what lies
/// between; going back begins anew.
#[derive(Debug)]
pub struct Base {
    file: NamedFile,
    size: Bytes,
    /// The entries that have been replayed; none if absent.
    replayed: Option<Covered>,
}

impl Base {
    /// A disk to which nothing has been written.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn create(path: &Path, size: Bytes) -> Result<Base> {
        let file = NamedFile::create(path)?;
        file.set_len(size.0)?;
        Ok(Base { file, size, replayed: None })
    }

    /// Makes it the disk after these entries.
    ///
    /// # Errors
    /// Those of reading the log and writing the file.
    pub fn go_to(&mut self, log: &RecordedLog, wanted: &Covered) -> Result<()> {
        let mut replayed = self.replayed.take().unwrap_or_else(|| log.all_before(0));
        if !wanted.includes(&replayed) {
            self.file.clear(self.size.0)?;
            replayed = log.all_before(0);
        }
        let mut buffer = Vec::new();
        let file = &self.file;
        let first = replayed.least();
        log.for_each(first..wanted.most().max(first), |number, entry| {
            match wanted.has(number, &entry) && !replayed.has(number, &entry) {
                true => replay(file, log, &entry, &mut buffer),
                false => Ok(()),
            }
        })?;
        self.replayed = Some(wanted.clone());
        Ok(())
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.file.read_at(buffer, at)
    }

    /// Checks that the disk is the same as another one, where either has data.
    ///
    /// # Errors
    /// [`RecorderError::Differs`] with the first difference; [`RecorderError::File`].
    pub(crate) fn verify_same(&self, other: &NamedFile) -> Result<()> {
        for file in [&self.file, other] {
            let mut at = 0;
            while let Some((begin, end)) = file.next_data(at)? {
                self.verify_range(other, begin, end)?;
                at = end;
            }
        }
        Ok(())
    }

    fn verify_range(&self, other: &NamedFile, begin: u64, end: u64) -> Result<()> {
        let (mut own, mut its) = (Vec::new(), Vec::new());
        let mut at = begin;
        while at < end {
            let piece = (end - at).min(PIECE as u64) as usize;
            own.resize(piece, 0);
            its.resize(piece, 0);
            self.file.read_at(&mut own, at)?;
            other.read_at(&mut its, at)?;
            if let Some(place) = own.iter().zip(&its).position(|(a, b)| a != b) {
                return Err(RecorderError::Differs { at: at + place as u64 });
            }
            at += piece as u64;
        }
        Ok(())
    }
}

fn replay(file: &NamedFile, log: &RecordedLog, entry: &Entry, buffer: &mut Vec<u8>) -> Result<()> {
    match entry.kind {
        Kind::Write => file.copy_from(log.data(), entry.data, entry.offset, entry.length, buffer),
        Kind::Zeros => file.zero(entry.offset, entry.length),
        Kind::Flush { .. } | Kind::Mark => Ok(()),
    }
}
