//! The log: what was done to a disk, in the order in which it was completed.
//!
//! Two files in a directory. `entries` has 40 bytes per entry: kind, offset, length, place in `data` (of a
//! flush: how many entries it covers), and time, as little-endian words. `data` has what was written, and the
//! marks.
//!
//! The disk may consist of several parts of one size, each of which is a disk of its own to whoever uses it,
//! with a cache of its own: a flush covers its own part alone ([`Covered`]).

use crate::error::RecorderError;
use crate::files::NamedFile;
use crate::{Result, WRITE_MAX};
use fsdyno_core::{Bytes, Nanos};
use std::path::Path;

const ENTRY: u64 = 40;
/// Entries that are read at a time.
const BATCH: u64 = 4096;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Data was written.
    Write,
    /// A range was discarded or zeroed; it reads as zeros.
    Zeros,
    /// All entries of its part before this number had been completed when the flush arrived.
    Flush {
        /// The number below which all entries of the part are covered.
        covers: u64,
    },
    /// A worker noted something.
    Mark,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The kind.
    pub kind: Kind,
    /// To which bytes of the disk: of a flush, those of its part; 0 of a mark.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// Where its data is in the data of the log.
    pub data: u64,
    /// When it was completed, by `CLOCK_MONOTONIC`.
    pub time: Nanos,
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY as usize] {
        let (kind, place) = match self.kind {
            Kind::Write => (0u64, self.data),
            Kind::Zeros => (1, self.data),
            Kind::Flush { covers } => (2, covers),
            Kind::Mark => (3, self.data),
        };
        let mut bytes = [0; ENTRY as usize];
        for (place, word) in [kind, self.offset, self.length, place, self.time.0].into_iter().enumerate() {
            bytes[place * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Entry> {
        let word = |place: usize| bytes.get(place * 8..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
        let (offset, length, place, time) = (word(1)?, word(2)?, word(3)?, Nanos(word(4)?));
        let (kind, data) = match word(0)? {
            0 => (Kind::Write, place),
            1 => (Kind::Zeros, place),
            2 => (Kind::Flush { covers: place }, 0),
            3 => (Kind::Mark, place),
            _ => return None,
        };
        Some(Entry { kind, offset, length, data, time })
    }

    /// The bytes of the disk that it changes.
    pub fn changes(&self) -> std::ops::Range<u64> {
        match self.kind {
            Kind::Write | Kind::Zeros => self.offset..self.offset.saturating_add(self.length),
            Kind::Flush { .. } | Kind::Mark => 0..0,
        }
    }
}

/// Which entries the flushes before a place have covered: these survive in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// Bytes of each part.
    part: u64,
    /// Of each part: all of its entries before this number.
    upto: Vec<u64>,
}

impl Covered {
    /// All entries before this number are covered.
    pub fn least(&self) -> u64 {
        self.upto.iter().copied().min().unwrap_or(0)
    }

    /// No entry from this number on is covered.
    pub(crate) fn most(&self) -> u64 {
        self.upto.iter().copied().max().unwrap_or(0)
    }

    /// Returns whether an entry of this number is covered.
    pub(crate) fn has(&self, number: u64, entry: &Entry) -> bool {
        self.upto.get(self.part_of(entry)).is_some_and(|upto| number < *upto)
    }

    /// Returns whether this covers everything that another one does.
    pub(crate) fn includes(&self, other: &Covered) -> bool {
        self.part == other.part && self.upto.iter().zip(&other.upto).all(|(own, its)| own >= its)
    }

    fn part_of(&self, entry: &Entry) -> usize {
        (entry.offset / self.part) as usize
    }

    fn add(&mut self, flush: &Entry, covers: u64) {
        let part = self.part_of(flush);
        if let Some(upto) = self.upto.get_mut(part) {
            *upto = covers.max(*upto);
        }
    }
}

/// A log, being recorded or complete.
#[derive(Debug)]
pub struct RecordedLog {
    entries: NamedFile,
    data: NamedFile,
    count: u64,
    bytes: u64,
    /// The size of the disk.
    size: Bytes,
    /// The number of parts of the disk.
    parts: u32,
}

impl RecordedLog {
    /// A new log in an existing directory.
    ///
    /// # Errors
    /// [`RecorderError::File`], also if there is one already.
    pub fn create(directory: &Path) -> Result<RecordedLog> {
        let entries = NamedFile::create(&directory.join("entries"))?;
        let data = NamedFile::create(&directory.join("data"))?;
        Ok(RecordedLog { entries, data, count: 0, bytes: 0, size: Bytes(0), parts: 1 })
    }

    /// Sets the size of the disk, beyond which there can be no entry, and the number of its parts.
    pub(crate) fn set_size(&mut self, size: Bytes, parts: u32) {
        self.size = size;
        self.parts = parts;
    }

    /// A complete log, of a disk of one part of this size.
    ///
    /// # Errors
    /// [`RecorderError::File`]; [`RecorderError::Damaged`] if it ends within an entry.
    pub fn open(directory: &Path, size: Bytes) -> Result<RecordedLog> {
        let entries = NamedFile::read(&directory.join("entries"))?;
        let data = NamedFile::read(&directory.join("data"))?;
        let (length, bytes) = (entries.len()?, data.len()?);
        if !length.is_multiple_of(ENTRY) {
            return Err(RecorderError::Damaged { entry: length / ENTRY, problem: "it is not whole" });
        }
        Ok(RecordedLog { entries, data, count: length / ENTRY, bytes, size, parts: 1 })
    }

    /// Returns the number of entries.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds an entry with its data; returns its number.
    ///
    /// # Errors
    /// [`RecorderError::File`]; the log is then as it was before.
    pub fn append(&mut self, kind: Kind, offset: u64, length: u64, data: &[u8], time: Nanos) -> Result<u64> {
        if !data.is_empty() {
            self.data.write_at(data, self.bytes)?;
        }
        let entry = Entry { kind, offset, length, data: self.bytes, time };
        self.entries.write_at(&entry.to_bytes(), self.count * ENTRY)?;
        self.bytes += data.len() as u64;
        self.count += 1;
        Ok(self.count - 1)
    }

    /// Calls `each` with every entry of a range, in order. Memory does not grow with the range.
    ///
    /// # Errors
    /// [`RecorderError::NoSuchCut`] if it ends beyond the log; [`RecorderError::Damaged`]; those of `each`.
    pub fn for_each(
        &self,
        range: std::ops::Range<u64>,
        mut each: impl FnMut(u64, Entry) -> Result<()>,
    ) -> Result<()> {
        if range.end > self.count {
            return Err(RecorderError::NoSuchCut { at: range.end, entries: self.count });
        }
        let mut at = range.start;
        let mut bytes = Vec::new();
        while at < range.end {
            let batch = (range.end - at).min(BATCH);
            bytes.resize((batch * ENTRY) as usize, 0);
            self.entries.read_at(&mut bytes, at * ENTRY)?;
            for (number, bytes) in (at..).zip(bytes.chunks_exact(ENTRY as usize)) {
                each(number, self.checked(number, bytes)?)?;
            }
            at += batch;
        }
        Ok(())
    }

    fn checked(&self, number: u64, bytes: &[u8]) -> Result<Entry> {
        let damaged = |problem| RecorderError::Damaged { entry: number, problem };
        let entry = Entry::from_bytes(bytes).ok_or(damaged("its kind is unknown"))?;
        if entry.offset.checked_add(entry.length).is_none_or(|end| end > self.size.0) {
            return Err(damaged("it is beyond the disk"));
        }
        if entry.length > WRITE_MAX.into() && matches!(entry.kind, Kind::Write | Kind::Mark) {
            return Err(damaged("it is longer than a request"));
        }
        let has_data = matches!(entry.kind, Kind::Write | Kind::Mark);
        if has_data && entry.data.saturating_add(entry.length) > self.bytes {
            return Err(damaged("its data is missing"));
        }
        match entry.kind {
            Kind::Flush { covers } if covers > number => Err(damaged("it covers later entries")),
            _ => Ok(entry),
        }
    }

    /// The bytes of each part.
    pub(crate) fn part_bytes(&self) -> u64 {
        (self.size.0 / u64::from(self.parts)).max(1)
    }

    /// The same entries of every part: all before this number.
    pub(crate) fn all_before(&self, upto: u64) -> Covered {
        Covered { part: self.part_bytes(), upto: vec![upto; self.parts as usize] }
    }

    /// Which entries the flushes before a place have covered.
    ///
    /// # Errors
    /// Those of [`RecordedLog::for_each`].
    pub fn flushed_at(&self, at: u64) -> Result<Covered> {
        let mut flushed = self.all_before(0);
        // A later flush covers at least as much as an earlier one, so the last one of each part decides.
        let mut end = at;
        if at > self.count {
            return Err(RecorderError::NoSuchCut { at, entries: self.count });
        }
        while end > 0 && flushed.least() == 0 {
            let begin = end.saturating_sub(BATCH);
            self.for_each(begin..end, |_, entry| {
                if let Kind::Flush { covers } = entry.kind {
                    flushed.add(&entry, covers);
                }
                Ok(())
            })?;
            end = begin;
        }
        Ok(flushed)
    }

    pub(crate) fn data(&self) -> &NamedFile {
        &self.data
    }

    /// The data of an entry.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>> {
        let mut bytes = vec![0; entry.length as usize];
        self.data.read_at(&mut bytes, entry.data)?;
        Ok(bytes)
    }
}
