//! The disk while it is recorded.

use crate::Result;
use crate::error::RecorderError;
use crate::files::NamedFile;
use crate::log::{Kind, RecordedLog};
use crate::state::DiskState;
use fsdyno_core::durability::{MARK_BYTES, Mark, Moment};
use fsdyno_core::result::LogSummary;
use fsdyno_core::{Bytes, Nanos};
use fsdyno_sys::timer::monotonic_ns;
use std::collections::BTreeMap;
use std::path::Path;

/// A disk that keeps what it has now, and everything that was done to it.
#[derive(Debug)]
pub struct Disk {
    now: NamedFile,
    log: RecordedLog,
    /// The marks alone, for whoever verifies promises.
    marks: NamedFile,
    marked: u64,
}

impl Disk {
    /// A new disk without a size, with its files in an existing directory.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn create(directory: &Path) -> Result<Disk> {
        Ok(Disk {
            now: NamedFile::create(&directory.join("disk"))?,
            log: RecordedLog::create(directory)?,
            marks: NamedFile::create(&directory.join("marks"))?,
            marked: 0,
        })
    }

    /// Returns the log of everything that was done.
    pub fn log(&self) -> &RecordedLog {
        &self.log
    }

    /// Sets the size, which is no entry of the log, and how many parts of equal size the disk has.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn set_size(&mut self, size: Bytes, parts: u32) -> Result<()> {
        self.log.set_size(size, parts);
        self.now.set_len(size.0)
    }

    /// Reads what is there now.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.now.read_at(buffer, at)
    }

    /// Writes.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.now.write_at(bytes, at)?;
        self.log.append(Kind::Write, at, bytes.len() as u64, bytes, now())?;
        Ok(())
    }

    /// Makes a range of zeros.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn zero(&mut self, at: u64, length: u64) -> Result<()> {
        self.now.zero(at, length)?;
        self.log.append(Kind::Zeros, at, length, &[], now())?;
        Ok(())
    }

    /// Notes a flush of this part that arrived when this many entries had been completed.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn flush(&mut self, part: u32, covers: u64) -> Result<()> {
        let bytes = self.log.part_bytes();
        self.log.append(Kind::Flush { covers }, u64::from(part) * bytes, bytes, &[], now())?;
        Ok(())
    }

    /// Notes a mark, with the time of this clock.
    ///
    /// # Errors
    /// [`RecorderError::Refused`] for what is no mark; [`RecorderError::File`].
    pub fn mark(&mut self, bytes: &[u8]) -> Result<()> {
        let mark = Mark::from_bytes(bytes).ok().filter(|_| bytes.len() == MARK_BYTES);
        let mark = mark.ok_or(RecorderError::Refused("only marks can be written here"))?;
        // The worker's kernel may be a guest's, with a clock of its own.
        let time = now();
        let bytes = Mark { time_ns: time, ..mark }.to_bytes();
        self.marks.write_at(&bytes, self.marked * MARK_BYTES as u64)?;
        self.log.append(Kind::Mark, 0, bytes.len() as u64, &bytes, time)?;
        self.marked += 1;
        Ok(())
    }

    /// Reads the marks so far, one sector each; what follows them is zeros.
    ///
    /// # Errors
    /// [`RecorderError::File`].
    pub fn read_marks_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.marks.read_at(buffer, at)
    }

    /// Replays the log and compares the result with the disk.
    ///
    /// # Errors
    /// [`RecorderError::Differs`].
    pub fn check(&self, state: &mut DiskState) -> Result<()> {
        state.replayed(&self.log)?.verify_same(&self.now)
    }
}

/// Summarises a log.
///
/// # Errors
/// Those of reading it.
pub(crate) fn summary(log: &RecordedLog) -> Result<LogSummary> {
    let mut summary = LogSummary::default();
    let mut promises = BTreeMap::new();
    let (mut first, mut last) = (None, Nanos(0));
    log.for_each(0..log.count(), |_, entry| {
        first.get_or_insert(entry.time);
        last = entry.time;
        match entry.kind {
            Kind::Write => {
                summary.writes += 1;
                summary.written_bytes += entry.length;
            }
            Kind::Zeros => summary.discards += 1,
            Kind::Flush { .. } => summary.flushes += 1,
            Kind::Mark => {
                if let Ok(Mark { promise: Some(promise), moment: Moment::Acknowledged, .. }) =
                    Mark::from_bytes(&log.read(&entry)?)
                {
                    *promises.entry(promise).or_insert(0) += 1;
                }
            }
        }
        Ok(())
    })?;
    summary.duration_ns = Nanos(last.0.saturating_sub(first.unwrap_or_default().0));
    summary.promises = promises.into_iter().collect();
    Ok(summary)
}

/// The clock of the workers' marks.
fn now() -> Nanos {
    Nanos(monotonic_ns())
}
