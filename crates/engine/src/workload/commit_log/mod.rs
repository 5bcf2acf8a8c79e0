//! `commit-log`: what databases do to make a transaction durable.
//!
//! Each writer has a log of its own, a directory of segments. It writes a record with `pwrite64` and syncs it
//! with `fdatasync`; both together are an item, a commit. `append` begins each segment with a new file, syncs
//! the directory that names it, and removes the segment before. `overwrite` uses two files that were written
//! and synced before the phases. First one writer works alone, then all of them at once.

mod reread;

use crate::background;
use crate::content::{Content, FileIdentity};
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter, Object, timed};
use crate::phase::{Job, PhaseLoad};
use crate::plant::{CREATE, DIRECTORY, DIRECTORY_MODE, FILE_MODE, verify_room};
use crate::session::{Ledger, Session};
use crate::tree::derive_seed;
use crate::workload::Work;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::workload::commit_log::Segments;
use fsdyno_core::workload::commit_log::writer::{CLOSE, FDATASYNC, FSYNC, OPENAT, PWRITE, UNLINKAT};
use fsdyno_core::workload::{self, CommitLog, Load};
use fsdyno_core::{Operation, Reached, TrialStep};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The word that identities of files derive from.
const LOGS: u64 = 5;
/// The number of files that a writer uses in turn if they are overwritten.
const IN_TURN: u64 = 2;
const OVERWRITE: OFlags = OFlags::WRONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Work for CommitLog {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let base = session.make_base()?;
        let phases = self.phases();
        let phase_ns = self.timing().each().0;
        let mut left_ns = phase_ns * phases.len() as u64;
        session.reporter.expect(left_ns);
        let seed = session.request.seed;
        let numbers = phases.iter().flat_map(|(_, logs)| logs.clone());
        let logs = numbers.map(|number| Log::new(self, &base, seed, number)).collect();
        prepare(self, &base, logs, session)?;
        for (spec, logs) in phases {
            left_ns -= phase_ns;
            session.reporter.expect(left_ns);
            session.settle(spec.name, phase_ns)?;
            let ledger = Ledger::default();
            let notes = self.verify.then_some(&ledger);
            let jobs =
                logs.map(|number| job(Log::new(self, &base, seed, number), self.content, notes.cloned()));
            session.phase(PhaseLoad::of(spec, self.timing().into(), jobs.collect()))?;
            session.reach(ledger.take());
        }
        Ok(())
    }

    fn read_again(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        reread::read_again(self, session)
    }
}

/// Creates the directories of the logs, and the files that will be overwritten.
fn prepare(
    parameters: &CommitLog,
    base: &Path,
    logs: Vec<Log>,
    session: &mut Session<'_, '_>,
) -> Result<(), EngineError> {
    let begin = Instant::now();
    let whole = parameters.prepares().0;
    verify_room(base, whole, "log-0")?;
    let in_turn = if parameters.segments == Segments::Overwrite { IN_TURN } else { 0 };
    let trees =
        TreeSummary { files: logs.len() as u64 * in_turn, directories: logs.len() as u64, bytes: whole };
    let (content, seed) = (parameters.content, session.request.seed);
    let record = parameters.record.0 as usize;
    let work = move |gauge: &background::Gauge| -> Result<(), EngineError> {
        let mut content = Content::new(content, seed, record);
        logs.iter().try_for_each(|log| {
            let made = log.make(in_turn, &mut content, gauge);
            made.map_err(|failure| EngineError::operation("prepare", failure))
        })
    };
    let reporter = &mut *session.reporter;
    background::run("prepare", session.bounds, work, |gauge| {
        reporter.tell(TrialStep::Prepare, "", gauge.done() as f64 / whole.max(1) as f64, 0);
        true
    })??;
    session.prepared(begin.elapsed().into(), trees);
    Ok(())
}

/// One writer.
fn job(log: Log, content: workload::Content, ledger: Option<Ledger>) -> Job {
    Box::new(move |lineup| {
        let directory = match log.open() {
            Ok(directory) => directory,
            Err(errno) => return Halt::Failed(log.failure(Operation::Openat, c"", errno)),
        };
        let mut content = Content::new(content, log.pool, log.record);
        let mut meter = lineup.start();
        meter.work_in(log.name.as_bytes());
        for segment in 0.. {
            let mut headway = Headway { segment, bytes: None, removed: false };
            if let Err(halt) = log.fill(&mut meter, &mut content, &directory, &mut headway) {
                // Nobody knows what a failed call did.
                if let (Halt::Over, Some(ledger)) = (&halt, ledger) {
                    let Headway { segment, bytes, removed } = headway;
                    ledger.note(Reached::Log { log: log.number, segment, bytes, removed });
                }
                return halt;
            }
        }
        Halt::Over
    })
}

/// The progress of a writer.
struct Headway {
    segment: u64,
    /// In it, if it is open.
    bytes: Option<u64>,
    /// The segment before is gone.
    removed: bool,
}

/// The log of one writer.
struct Log {
    number: u32,
    path: PathBuf,
    name: String,
    /// The seed that identities of its files derive from, and the seed of the bytes of all logs.
    seed: u64,
    pool: u64,
    record: usize,
    segment_bytes: u64,
    segments: Segments,
}

impl Log {
    fn new(parameters: &CommitLog, base: &Path, seed: u64, number: u32) -> Self {
        let name = format!("log-{number}");
        Log {
            number,
            path: base.join(&name),
            name,
            seed: derive_seed(seed, &[LOGS, number.into()]),
            pool: seed,
            record: parameters.record.0 as usize,
            // Whole records only.
            segment_bytes: parameters.segment.0 / parameters.record.0 * parameters.record.0,
            segments: parameters.segments,
        }
    }

    fn open(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::open(&self.path, DIRECTORY, Mode::empty())
    }

    fn failure(&self, operation: Operation, name: &CStr, errno: Errno) -> OperationFailure {
        let path = Object { directory: self.name.as_bytes(), name }.path();
        OperationFailure { operation: Some(operation), path, errno }
    }

    /// Creates the directory and `files` segments, without timing, and syncs both.
    fn make(
        &self,
        files: u64,
        content: &mut Content,
        gauge: &background::Gauge,
    ) -> Result<(), OperationFailure> {
        rustix::fs::mkdirat(CWD, &self.path, DIRECTORY_MODE)
            .map_err(|errno| self.failure(Operation::Mkdirat, c"", errno))?;
        let directory = self.open().map_err(|errno| self.failure(Operation::Openat, c"", errno))?;
        for number in 0..files {
            let name = segment_name(number);
            let file = rustix::fs::openat(&directory, &name, CREATE, FILE_MODE)
                .map_err(|errno| self.failure(Operation::Openat, &name, errno))?;
            let identity = self.file(number);
            let mut position = 0;
            while position < self.segment_bytes && !gauge.cancelled() {
                let bytes = content.bytes(identity, position, self.left_of_record(position));
                let written = write(&file, bytes, position)
                    .map_err(|errno| self.failure(Operation::Pwrite, &name, errno))?;
                position += written;
                gauge.advance(written);
            }
            rustix::fs::fsync(&file).map_err(|errno| self.failure(Operation::Fsync, &name, errno))?;
        }
        rustix::fs::fsync(&directory).map_err(|errno| self.failure(Operation::Fsync, c"", errno))
    }

    /// Returns the identity that contents of a file follow from, before any version.
    fn file(&self, number: u64) -> FileIdentity {
        FileIdentity::new(self.seed, number)
    }

    /// The number of the file that has a segment, and which version of it the segment is.
    fn place(&self, segment: u64) -> (u64, u32) {
        match self.segments {
            Segments::Append => (segment, 0),
            // What is overwritten was different, so that nothing can skip the write.
            Segments::Overwrite => (segment % IN_TURN, (segment / IN_TURN) as u32 + 1),
        }
    }

    /// Bytes from a position to the end of its record.
    #[inline]
    fn left_of_record(&self, position: u64) -> usize {
        self.record - (position % self.record as u64) as usize
    }

    /// Fills one segment, record by record.
    fn fill(
        &self,
        meter: &mut Meter,
        content: &mut Content,
        directory: &OwnedFd,
        headway: &mut Headway,
    ) -> Result<(), Halt> {
        let segment = headway.segment;
        let appends = self.segments == Segments::Append;
        let (number, version) = self.place(segment);
        let (name, flags) = (segment_name(number), if appends { CREATE } else { OVERWRITE });
        let object = Object { directory: self.name.as_bytes(), name: &name };
        let open = || rustix::fs::openat(directory, &name, flags, FILE_MODE);
        let opened = |_: &OwnedFd| {
            headway.bytes = Some(0);
            0
        };
        let file = timed(meter, OPENAT, object, opened, open)?;
        if appends {
            timed(meter, FSYNC, Object { name: c"", ..object }, |()| 0, || rustix::fs::fsync(directory))?;
        }
        if appends && let Some(before) = segment.checked_sub(1) {
            let before = segment_name(before);
            let unlink = || rustix::fs::unlinkat(directory, &before, AtFlags::empty());
            let unlinked = |(): &()| {
                headway.removed = true;
                0
            };
            timed(meter, UNLINKAT, Object { name: &before, ..object }, unlinked, unlink)?;
        }
        let identity = self.file(number).version(version);
        let mut position = 0;
        while position < self.segment_bytes {
            let begin = meter.begin_item();
            let end = position + self.record as u64;
            while position < end {
                let bytes = content.bytes(identity, position, self.left_of_record(position));
                let wrote = |bytes: &u64| {
                    headway.bytes = Some(position + bytes);
                    *bytes
                };
                position += timed(meter, PWRITE, object, wrote, || write(&file, bytes, position))?;
            }
            timed(meter, FDATASYNC, object, |()| 0, || rustix::fs::fdatasync(&file))?;
            meter.item_since(begin);
        }
        timed(meter, CLOSE, object, |()| 0, || fsdyno_sys::thread::close(file))
    }
}

/// Writes at a position; returns how many bytes, at least one.
#[inline]
fn write(file: &OwnedFd, bytes: &[u8], position: u64) -> Result<u64, Errno> {
    match rustix::io::pwrite(file, bytes, position) {
        // No progress without an error would loop forever.
        Ok(0) => Err(Errno::IO),
        written => written.map(|written| written as u64),
    }
}

fn segment_name(number: u64) -> CString {
    CString::new(format!("segment-{number}")).unwrap_or_default()
}
