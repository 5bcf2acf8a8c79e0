//! `scan`: what a backup or `du` does when nothing has changed.
//!
//! The preparation makes a tree of directories and empty files. Each worker then walks it again and again,
//! depth first: it opens a directory, lists it with `getdents64` until nothing is left, looks at each name
//! with `statx`, and closes it. `.` and `..` are skipped. An item is a name that was looked at. So of a walk
//!
//! > statx = items = files + directories - 1, and openat = close = directories
//!
//! hold exactly.

use crate::background::{self, Gauge};
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter, Object, timed};
use crate::phase::{Job, PhaseLoad};
use crate::plant::{CREATE, DIRECTORY, FILE_MODE, make_directory, verify_inodes, verify_room};
use crate::session::Session;
use crate::walk::{LevelBuffers, look_at, open_directory};
use crate::workload::Work;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::workload::scan::walk::{CLOSE, GETDENTS, OPENAT, STATX};
use fsdyno_core::workload::scan::{BRANCHES, WALK};
use fsdyno_core::workload::{Load, Scan};
use fsdyno_core::{Operation, TrialStep};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, RawDir};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The number of names after which they are written back: what a filesystem has yet to write, it cannot drop
/// where the memory of the load is limited.
const NAMES_AT_ONCE: u32 = 4096;

/// The top of the tree.
const TOP: &CStr = c"tree";

impl Work for Scan {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let base = session.make_base()?;
        let part = session.request.part;
        let phase_ns = self.timing().each().0;
        session.reporter.expect(phase_ns);
        if part.is_first() {
            prepare(self, &base, session)?;
        }
        for _ in part.phases(&self.cold()) {
            session.reporter.expect(0);
            session.settle(WALK.name, phase_ns)?;
            session.warm_up(WALK.name, phase_ns)?;
            let jobs = (0..self.workers).map(|_| job(base.clone())).collect();
            session.phase(PhaseLoad::of(WALK, self.timing().into(), jobs))?;
        }
        Ok(())
    }
}

/// Makes the tree. It is written back before the phase.
fn prepare(parameters: &Scan, base: &Path, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let begin = Instant::now();
    let directories = u64::from(parameters.directories);
    let files = parameters.files_per_directory;
    let all = parameters.entries() + 1;
    verify_inodes(base, all)?;
    verify_room(base, parameters.prepares().0, "tree")?;
    let trees = TreeSummary { files: parameters.files(), directories, bytes: 0 };
    let base = base.to_path_buf();
    let work = move |gauge: &Gauge| -> Result<(), EngineError> {
        let mut planter = Planter { directories, files, gauge, path: Vec::new(), unwritten: 0 };
        let planted = planter.begin(&base);
        planted.map_err(|failure| EngineError::operation("prepare", failure))
    };
    let reporter = &mut *session.reporter;
    background::run("prepare", session.bounds, work, |gauge| {
        reporter.tell(TrialStep::Prepare, "", gauge.done() as f64 / all as f64, 0);
        true
    })??;
    session.prepared(begin.elapsed().into(), trees);
    Ok(())
}

/// Makes the tree: directory n has the directories 8n + 1 to 8n + 8, as far as there are so many.
struct Planter<'a> {
    directories: u64,
    files: u32,
    gauge: &'a Gauge,
    /// The directory that is filled.
    path: Vec<u8>,
    /// The number of names that have not been written back.
    unwritten: u32,
}

impl Planter<'_> {
    fn begin(&mut self, base: &Path) -> Result<(), OperationFailure> {
        let base = open(base).map_err(|errno| failure(Operation::Openat, b"", errno))?;
        self.plant(&base, TOP, 0)
    }

    fn plant(&mut self, parent: &OwnedFd, name: &CStr, number: u64) -> Result<(), OperationFailure> {
        let length = enter(&mut self.path, name);
        let directory =
            make_directory(parent, name).map_err(|errno| failure(Operation::Mkdirat, &self.path, errno))?;
        self.count(&directory)?;
        for file in 0..self.files {
            if self.gauge.cancelled() {
                return Ok(());
            }
            rustix::fs::openat(&directory, numbered("file", file.into()), CREATE, FILE_MODE)
                .and_then(fsdyno_sys::thread::close)
                .map_err(|errno| failure(Operation::Create, &self.path, errno))?;
            self.count(&directory)?;
        }
        let first = number * BRANCHES + 1;
        for below in first..self.directories.min(first + BRANCHES) {
            if self.gauge.cancelled() {
                return Ok(());
            }
            self.plant(&directory, &numbered("directory", below), below)?;
        }
        self.path.truncate(length);
        Ok(())
    }

    /// Counts a name that was made, and writes all back from time to time.
    fn count(&mut self, directory: &OwnedFd) -> Result<(), OperationFailure> {
        self.gauge.advance(1);
        self.unwritten += 1;
        if self.unwritten < NAMES_AT_ONCE {
            return Ok(());
        }
        self.unwritten = 0;
        rustix::fs::syncfs(directory).map_err(|errno| OperationFailure {
            operation: None,
            path: String::from_utf8_lossy(&self.path).into_owned(),
            errno,
        })
    }
}

/// One worker: walks the tree again and again.
fn job(base: PathBuf) -> Job {
    Box::new(move |lineup| {
        let base = match open(&base) {
            Ok(base) => base,
            Err(errno) => return Halt::Failed(failure(Operation::Openat, b"", errno)),
        };
        let mut walker = Walker::default();
        let mut meter = lineup.start();
        loop {
            if let Err(halt) = walker.walk(&mut meter, &base, TOP) {
                return halt;
            }
            meter.next_round();
        }
    })
}

#[derive(Default)]
struct Walker {
    buffers: LevelBuffers,
    /// The directory that is walked, relative to the engine's directory.
    path: Vec<u8>,
}

impl Walker {
    /// Everything in one directory and below it.
    fn walk(&mut self, meter: &mut Meter, parent: &OwnedFd, name: &CStr) -> Result<(), Halt> {
        let length = enter(&mut self.path, name);
        meter.work_in(&self.path);
        let here = Object { directory: &self.path, name: c"" };
        let directory = timed(meter, OPENAT, here, |_| 0, || open_directory(parent, name))?;
        let mut buffer = self.buffers.take();
        let mut entries = RawDir::new(&directory, &mut buffer);
        loop {
            let here = Object { directory: &self.path, name: c"" };
            // Only the first entry of each buffer takes a system call.
            let entry = match entries.is_buffer_empty() {
                true => timed(meter, GETDENTS, here, |_| 0, || entries.next().transpose())?,
                false => entries
                    .next()
                    .transpose()
                    .map_err(|errno| Halt::Failed(failure(Operation::Getdents, &self.path, errno)))?,
            };
            let Some(entry) = entry else { break };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let object = Object { directory: &self.path, name };
            let attributes = timed(meter, STATX, object, |_| 0, || look_at(&directory, name))?;
            meter.item();
            if FileType::from_raw_mode(attributes.stx_mode.into()) == FileType::Directory {
                self.walk(meter, &directory, name)?;
                meter.work_in(&self.path);
            }
        }
        self.buffers.give_back(buffer);
        let here = Object { directory: &self.path, name: c"" };
        timed(meter, CLOSE, here, |()| 0, || fsdyno_sys::thread::close(directory))?;
        self.path.truncate(length);
        Ok(())
    }
}

/// Adds a name to a path; returns how long it was before.
fn enter(path: &mut Vec<u8>, name: &CStr) -> usize {
    let length = path.len();
    if length > 0 {
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
    length
}

fn numbered(what: &str, number: u64) -> CString {
    CString::new(format!("{what}-{number}")).unwrap_or_default()
}

fn open(directory: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(directory, DIRECTORY, Mode::empty())
}

#[cold]
fn failure(operation: Operation, path: &[u8], errno: Errno) -> OperationFailure {
    OperationFailure { operation: Some(operation), path: String::from_utf8_lossy(path).into_owned(), errno }
}
