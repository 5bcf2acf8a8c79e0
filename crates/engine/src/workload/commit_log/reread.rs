//! Reads the logs again at the end.
//!
//! The segment that a writer was filling must have every byte that was written to it, synced or not,
//! because the power was not cut. The segment before it must be complete or removed. In files that are
//! overwritten, the bytes of the version before follow.

use super::{IN_TURN, Log, segment_name};
use crate::compare::Comparer;
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Object};
use crate::plant::DIRECTORY;
use crate::reread::{PIECE, Rereader, absent};
use crate::session::Session;
use fsdyno_core::workload::CommitLog;
use fsdyno_core::workload::commit_log::Segments;
use fsdyno_core::{Reached, ReadAgain};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;

/// Reads every log.
pub(crate) fn read_again(parameters: &CommitLog, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let base = session.make_base()?;
    let (seed, reached) = (session.request.seed, session.reached.clone());
    let (content, segments) = (parameters.content, parameters.segments);
    let numbers = parameters.phases().into_iter().flat_map(|(_, logs)| logs);
    let logs: Vec<Log> = numbers.map(|number| Log::new(parameters, &base, seed, number)).collect();
    let about = logs.iter().map(|log| IN_TURN * log.segment_bytes).sum();
    session.read_again(about, move |gauge| {
        let mut reader = Reader {
            comparer: Comparer::new(content, seed, PIECE),
            rereader: Rereader::new(gauge),
            sum: ReadAgain::default(),
        };
        for log in &logs {
            let reported = reached.iter().find_map(|one| match *one {
                Reached::Log { log: number, segment, bytes, removed } if number == log.number => {
                    Some((segment, bytes, removed))
                }
                _ => None,
            });
            let Some(reported) = reported else {
                reader.sum.left_out += IN_TURN;
                continue;
            };
            let failed = |errno| {
                let path = log.name.clone();
                Halt::Failed(OperationFailure { operation: None, path, errno })
            };
            let directory = rustix::fs::openat(rustix::fs::CWD, &log.path, DIRECTORY, Mode::empty());
            let directory = directory.map_err(failed)?;
            match segments {
                Segments::Append => reader.appended(log, &directory, reported)?,
                Segments::Overwrite => reader.overwritten(log, &directory, reported)?,
            }
        }
        Ok(reader.sum)
    })
}

struct Reader<'a> {
    comparer: Comparer,
    rereader: Rereader<'a>,
    sum: ReadAgain,
}

impl Reader<'_> {
    fn appended(
        &mut self,
        log: &Log,
        directory: &OwnedFd,
        (segment, bytes, removed): (u64, Option<u64>, bool),
    ) -> Result<(), Halt> {
        if let Some(before) = segment.checked_sub(1) {
            match removed {
                true => {
                    let name = segment_name(before);
                    absent(directory, Object { directory: log.name.as_bytes(), name: &name })?;
                    self.sum.gone += 1;
                }
                false => self.file(log, directory, before, (log.segment_bytes, 0), log.segment_bytes)?,
            }
        }
        bytes.map_or(Ok(()), |bytes| self.file(log, directory, segment, (bytes, 0), bytes))
    }

    fn overwritten(
        &mut self,
        log: &Log,
        directory: &OwnedFd,
        (segment, bytes, _): (u64, Option<u64>, bool),
    ) -> Result<(), Halt> {
        let (number, version) = log.place(segment);
        self.file(log, directory, number, (bytes.unwrap_or(0), version), log.segment_bytes)?;
        // The other one is complete, unless it was not its turn yet.
        let (other, version) = segment.checked_sub(1).map_or((1 - number, 0), |before| log.place(before));
        self.file(log, directory, other, (log.segment_bytes, version), log.segment_bytes)
    }

    /// Reads a file whose first bytes are of a version, and the others of the one before.
    fn file(
        &mut self,
        log: &Log,
        directory: &OwnedFd,
        number: u64,
        (until, version): (u64, u32),
        size: u64,
    ) -> Result<(), Halt> {
        let (name, file) = (segment_name(number), log.file(number));
        let object = Object { directory: log.name.as_bytes(), name: &name };
        let comparer = &mut self.comparer;
        let check = |position: u64, found: &[u8]| {
            let new = until.saturating_sub(position).min(found.len() as u64) as usize;
            comparer.check(file, version, position, &found[..new])?;
            comparer.check(file, version.saturating_sub(1), position + new as u64, &found[new..])
        };
        self.sum.bytes += self.rereader.read(directory, object, Some(size), check)?;
        self.sum.files += 1;
        Ok(())
    }
}
