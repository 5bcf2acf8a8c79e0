//! `collection` (RAID 1 study, 2008): files are written, read, copied within the filesystem, and deleted.
//!
//! There are four tests, one worker each; before each but the first the filesystem is mounted again. The
//! collection has to exist before it can be read, so writing comes first, with generated content or from a
//! real directory. The other tests walk the files in the order in which the filesystem lists them, as `cp -r`
//! and `rm -r` do, so no list of files is kept. The collection is deleted; its copy stays.

mod reread;

use crate::background;
use crate::compare::Comparer;
use crate::content::{Content, FileIdentity};
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter, Object, timed, watched};
use crate::phase::{Job, PhaseLoad};
use crate::plant::{CREATE as CREATE_FLAGS, DIRECTORY, DIRECTORY_MODE, FILE_MODE};
use crate::removal::{self, ENTRIES, Remover};
use crate::session::Session;
use crate::span::Span;
use crate::tree::derive_seed;
use crate::workload::Work;
use crate::wrong::Problem;
use fsdyno_core::Operation;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::workload::collection::files::{CLOSE, CREATE, FSYNC, MKDIRAT, OPENAT, READ, READDIR, WRITE};
use fsdyno_core::workload::collection::removal as deleted;
use fsdyno_core::workload::{Collection, Load, collection};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files per directory in a generated collection.
const FILES_PER_DIRECTORY: u64 = 100;

const COLLECTION: &CStr = c"collection";
const COPY: &CStr = c"copy";

#[derive(Debug, Clone, Copy)]
enum Test {
    Write,
    Read,
    Copy,
    Delete,
}

/// In the order of [`collection::PHASES`].
const TESTS: [Test; 4] = [Test::Write, Test::Read, Test::Copy, Test::Delete];

impl Work for Collection {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let base = session.make_base()?;
        let found = prepare(self, session)?;
        let buffers = (found.bytes / self.io_size.0).max(found.files);
        let cold = self.cold();
        let own = session.request.part.phases(&cold);
        for index in own {
            let (test, spec) = (TESTS[index], collection::PHASES[index]);
            session.settle(spec.name, 0)?;
            if cold[index] {
                session.warm_up(spec.name, 0)?;
            }
            let operations = match test {
                Test::Write | Test::Read => 3 * found.files + buffers,
                Test::Copy => 6 * found.files + 2 * buffers,
                Test::Delete => found.files,
            };
            let jobs = vec![job(test, self.clone(), base.clone(), session.request.seed)];
            session.phase(PhaseLoad::of(spec, Span::whole(operations), jobs))?;
        }
        Ok(())
    }

    fn read_again(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        reread::read_again(self, session)
    }
}

/// The size of what is to be written; a real directory is scanned for it.
fn prepare(parameters: &Collection, session: &mut Session<'_, '_>) -> Result<TreeSummary, EngineError> {
    let begin = Instant::now();
    let found = match &parameters.source {
        Some(source) => {
            let source = PathBuf::from(source);
            background::run("prepare", session.bounds, move |gauge| survey(&source, gauge), |_| true)??
        }
        None => {
            let (low, high) = parameters.sizes();
            let (files, directories) = (parameters.files(), parameters.files().div_ceil(FILES_PER_DIRECTORY));
            TreeSummary { files, directories, bytes: files * low.midpoint(high) }
        }
    };
    if session.request.part.is_first() {
        // Nothing has been created yet.
        session.prepared(begin.elapsed().into(), TreeSummary::default());
    }
    Ok(found)
}

fn survey(source: &Path, gauge: &background::Gauge) -> Result<TreeSummary, EngineError> {
    let fail = |path: &Path| {
        let path = path.to_path_buf();
        move |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            EngineError::system("read the source", path)(errno)
        }
    };
    let mut sum = TreeSummary::default();
    let mut open = vec![source.to_path_buf()];
    while let Some(directory) = open.pop() {
        sum.directories += 1;
        for entry in std::fs::read_dir(&directory).map_err(fail(&directory))? {
            let entry = entry.map_err(fail(&directory))?;
            let kind = entry.file_type().map_err(fail(&entry.path()))?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                sum.files += 1;
                sum.bytes += entry.metadata().map_err(fail(&entry.path()))?.len();
            }
            if gauge.cancelled() {
                return Ok(sum);
            }
        }
    }
    Ok(sum)
}

fn job(test: Test, parameters: Collection, base: PathBuf, seed: u64) -> Job {
    Box::new(move |lineup| {
        let open = |path: &Path| {
            rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(|errno| OperationFailure {
                operation: None,
                path: path.display().to_string(),
                errno,
            })
        };
        let source = match (test, &parameters.source) {
            (Test::Write, Some(source)) => open(Path::new(source)).map(Some),
            _ => Ok(None),
        };
        let (directory, source) = match (open(&base), source) {
            (Ok(directory), Ok(source)) => (directory, source),
            (Err(failure), _) | (_, Err(failure)) => return Halt::Failed(failure),
        };
        let made = Made::of(&parameters, seed);
        let longest = parameters.io_size.0 as usize;
        let expected = parameters.verify.then(|| (made, Comparer::new(parameters.content, seed, longest)));
        let mut worker = Worker {
            expected,
            content: Content::new(parameters.content, seed, parameters.io_size.0 as usize),
            data: vec![0; parameters.io_size.0 as usize],
            path: Vec::new(),
        };
        let mut meter = lineup.start();
        let done = worker.perform(test, &mut meter, &parameters, &directory, source, seed);
        done.err().unwrap_or(Halt::Over)
    })
}

/// The files of a generated collection.
#[derive(Debug, Clone, Copy)]
struct Made {
    seed: u64,
    files: u64,
    sizes: (u64, u64),
}

impl Made {
    fn of(parameters: &Collection, seed: u64) -> Self {
        let seed = derive_seed(seed, &[u64::from_le_bytes(*b"collecti")]);
        Made { seed, files: parameters.files(), sizes: parameters.sizes() }
    }

    /// Returns the identity that a file's contents follow from, and its size in bytes.
    fn file(&self, index: u64) -> (FileIdentity, u64) {
        let (low, high) = self.sizes;
        let size = low + derive_seed(self.seed, &[index, 1]) % (high - low + 1);
        (FileIdentity::new(self.seed, index), size)
    }

    /// The file of this name; `None` if there is none.
    fn named(&self, name: &CStr) -> Option<(FileIdentity, u64)> {
        let index = name.to_str().ok()?.strip_prefix('f')?.parse().ok()?;
        (index < self.files).then(|| self.file(index))
    }
}

/// The directory of a file.
fn directory_name(index: u64) -> CString {
    CString::new(format!("d{}", index / FILES_PER_DIRECTORY)).unwrap_or_default()
}

fn file_name(index: u64) -> CString {
    CString::new(format!("f{index}")).unwrap_or_default()
}

struct Worker {
    /// The files as they were made, for comparison with what is read.
    expected: Option<(Made, Comparer)>,
    content: Content,
    data: Vec<u8>,
    /// Where it works, relative to the engine's directory.
    path: Vec<u8>,
}

impl Worker {
    fn perform(
        &mut self,
        test: Test,
        meter: &mut Meter,
        parameters: &Collection,
        base: &OwnedFd,
        source: Option<OwnedFd>,
        seed: u64,
    ) -> Result<(), Halt> {
        match (test, source) {
            (Test::Write, Some(source)) => {
                let to = self.enter(meter, base, COLLECTION)?;
                self.walk(meter, &source, Some(&to))?;
            }
            (Test::Write, None) => self.make(meter, base, Made::of(parameters, seed))?,
            (Test::Read, _) => {
                let from = self.open(meter, base, COLLECTION)?;
                self.walk(meter, &from, None)?;
            }
            (Test::Copy, _) => {
                let from = self.open(meter, base, COLLECTION)?;
                self.path.clear();
                let to = self.enter(meter, base, COPY)?;
                self.walk(meter, &from, Some(&to))?;
            }
            (Test::Delete, _) => removal::remove(&mut Timed { meter }, base, COLLECTION)?,
        }
        let step = match test {
            Test::Read => return Ok(()),
            Test::Write | Test::Copy => FSYNC,
            Test::Delete => deleted::FSYNC,
        };
        if parameters.sync {
            let top = Object { directory: b"", name: c"" };
            timed(meter, step, top, |()| 0, || rustix::fs::syncfs(base))?;
        }
        Ok(())
    }

    /// Writes the collection with generated content.
    fn make(&mut self, meter: &mut Meter, base: &OwnedFd, made: Made) -> Result<(), Halt> {
        let top = self.enter(meter, base, COLLECTION)?;
        let outside = self.path.len();
        let mut directory = None;
        for index in 0..made.files {
            if index % FILES_PER_DIRECTORY == 0 {
                self.path.truncate(outside);
                directory = Some(self.enter(meter, &top, &directory_name(index))?);
            }
            let Some(directory) = &directory else { break };
            let name = file_name(index);
            let (identity, size) = made.file(index);
            let to = self.create(meter, directory, &name)?;
            let mut position = 0;
            while position < size {
                let length = (size - position).min(self.data.len() as u64) as usize;
                let object = Object { directory: &self.path, name: &name };
                let bytes = self.content.bytes(identity, position, length);
                position += put(meter, object, &to, bytes)?;
            }
            self.close(meter, to, &name)?;
            meter.item();
        }
        Ok(())
    }

    /// Reads every file of a directory and of those below it, and writes it elsewhere if there is a
    /// destination. Links and special files are skipped.
    fn walk(&mut self, meter: &mut Meter, from: &OwnedFd, to: Option<&OwnedFd>) -> Result<(), Halt> {
        let mut buffer = vec![MaybeUninit::uninit(); ENTRIES].into_boxed_slice();
        let mut entries = RawDir::new(from, &mut buffer);
        loop {
            let here = Object { directory: &self.path, name: c"" };
            let Some(entry) = timed(meter, READDIR, here, |_| 0, || entries.next().transpose())? else {
                return Ok(());
            };
            let name = entry.file_name();
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let object = Object { directory: &self.path, name };
                let look = || rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW);
                kind = FileType::from_raw_mode(watched(meter, READDIR, object, look)?.st_mode);
            }
            match kind {
                FileType::RegularFile => self.file(meter, from, to, name)?,
                FileType::Directory if name != c"." && name != c".." => {
                    let outside = self.path.len();
                    let below = self.open(meter, from, name)?;
                    self.path.truncate(outside);
                    let elsewhere = to.map(|to| self.enter(meter, to, name)).transpose()?;
                    if elsewhere.is_none() {
                        self.go_into(name);
                    }
                    self.walk(meter, &below, elsewhere.as_ref())?;
                    self.path.truncate(outside);
                    meter.work_in(&self.path);
                }
                _ => {}
            }
        }
    }

    fn file(
        &mut self,
        meter: &mut Meter,
        from: &OwnedFd,
        to: Option<&OwnedFd>,
        name: &CStr,
    ) -> Result<(), Halt> {
        let object = Object { directory: &self.path, name };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(from, name, flags, Mode::empty());
        let source = timed(meter, OPENAT, object, |_| 0, open)?;
        let target = to.map(|to| self.create(meter, to, name)).transpose()?;
        let (mut position, expected) = (0, self.expected.as_ref().and_then(|(made, _)| made.named(name)));
        loop {
            let object = Object { directory: &self.path, name };
            let data = &mut self.data;
            // Copied data counts once: when it is written.
            let bytes = |read: &usize| if target.is_some() { 0 } else { *read as u64 };
            let read = timed(meter, READ, object, bytes, || rustix::io::read(&source, &mut data[..]))?;
            if let (Some((_, comparer)), Some((identity, size))) = (&mut self.expected, expected) {
                let found = position + read as u64;
                let problem = match comparer.check(identity, 0, position, &data[..read]) {
                    Ok(()) if found > size || (read == 0 && found < size) => {
                        Some(Problem::Size { expected: size, found })
                    }
                    checked => checked.err(),
                };
                problem.map_or(Ok(()), |problem| Err(object.wrong(problem)))?;
            }
            position += read as u64;
            if read == 0 {
                break;
            }
            let mut written = 0;
            while let Some(target) = &target
                && written < read
            {
                written += put(meter, object, target, &data[written..read])? as usize;
            }
        }
        self.close(meter, source, name)?;
        if let Some(target) = target {
            self.close(meter, target, name)?;
        }
        meter.item();
        Ok(())
    }

    fn create(&self, meter: &mut Meter, directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Halt> {
        let object = Object { directory: &self.path, name };
        let create = || rustix::fs::openat(directory, name, CREATE_FLAGS, FILE_MODE);
        timed(meter, CREATE, object, |_| 0, create)
    }

    fn close(&self, meter: &mut Meter, file: OwnedFd, name: &CStr) -> Result<(), Halt> {
        let object = Object { directory: &self.path, name };
        timed(meter, CLOSE, object, |()| 0, || fsdyno_sys::thread::close(file))
    }

    /// Opens a directory and goes into it.
    fn open(&mut self, meter: &mut Meter, parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Halt> {
        let object = Object { directory: &self.path, name };
        let open = || rustix::fs::openat(parent, name, DIRECTORY, Mode::empty());
        let directory = watched(meter, OPENAT, object, open)?;
        self.go_into(name);
        meter.work_in(&self.path);
        Ok(directory)
    }

    /// Creates a directory and goes into it.
    fn enter(&mut self, meter: &mut Meter, parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Halt> {
        let object = Object { directory: &self.path, name };
        timed(meter, MKDIRAT, object, |()| 0, || rustix::fs::mkdirat(parent, name, DIRECTORY_MODE))?;
        self.open(meter, parent, name)
    }

    fn go_into(&mut self, name: &CStr) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
    }
}

/// Writes as many of these bytes as one call accepts.
fn put(meter: &mut Meter, object: Object<'_>, to: &OwnedFd, bytes: &[u8]) -> Result<u64, Halt> {
    let write = || match rustix::io::write(to, bytes) {
        // No progress without an error would loop forever.
        Ok(0) => Err(Errno::IO),
        other => other,
    };
    timed(meter, WRITE, object, |written| *written as u64, write).map(|written| written as u64)
}

/// Deletes with timing.
struct Timed<'a> {
    meter: &'a mut Meter,
}

impl Remover for Timed<'_> {
    type Error = Halt;

    fn failed(&mut self, name: &CStr, errno: Errno) -> Halt {
        let path = Object { directory: b"", name }.path();
        Halt::Failed(OperationFailure { operation: Some(Operation::Unlinkat), path, errno })
    }

    fn unlink(&mut self, directory: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Halt> {
        let removes_directory = flags.contains(AtFlags::REMOVEDIR);
        let step = if removes_directory { deleted::RMDIR } else { deleted::UNLINKAT };
        let object = Object { directory: b"", name };
        let unlink = || rustix::fs::unlinkat(directory.as_fd(), name, flags);
        timed(self.meter, step, object, |()| 0, unlink)?;
        if !removes_directory {
            self.meter.item();
        }
        Ok(())
    }
}
