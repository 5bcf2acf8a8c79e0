//! A reader: walks its tree depth first, looks at every name, and reads every file.
//!
//! Per directory: one readdir step per entry, `.` and `..` included, and one that finds the end; one `statx`
//! per entry. Per regular file: open, read the first byte, read the rest, close. A pass begins where the tree
//! is found, with one step in the directory above and the `statx` of its top directory. So on a full pass
//!
//! > steps = lstats + directories, and lstats = opens + 3 x directories
//!
//! hold exactly, as in the tables published in 2009.

use crate::compare::Comparer;
use crate::content::{self, ALIGNMENT, AlignedBuffer, FileIdentity};
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter, Object, timed, watched};
use crate::phase::Job;
use crate::plant::DIRECTORY;
use crate::removal::ENTRIES;
use crate::walk::{LevelBuffers, look_at, open_directory};
use crate::wrong::{Problem, SectorVerdict};
use fsdyno_core::workload::Content;
use fsdyno_core::workload::fileserver::reader::{self, CLOSE, OPENAT, READ, READ_FIRST_BYTE, READDIR, STATX};
use fsdyno_core::{Operation, Role};
use fsdyno_sys::timer::Timer;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The task of one reader.
pub(super) struct Assignment {
    /// The directory that holds the trees.
    pub(super) base: PathBuf,
    pub(super) tree: String,
    pub(super) io_size: usize,
    pub(super) direct: bool,
    /// The expected files, for comparison with what is read.
    pub(super) expects: Option<Expects>,
}

/// The properties of the files of a tree that follow from the parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expects {
    /// Of the tree.
    pub(super) tree_seed: u64,
    /// Of the whole request.
    pub(super) seed: u64,
    pub(super) content: Content,
}

/// Reads the tree again and again.
pub(super) fn job(assignment: Assignment) -> Job {
    Box::new(move |lineup| {
        let tree = match TreePlace::look_for(&assignment.base, &assignment.tree) {
            Ok(tree) => tree,
            Err(failure) => return Halt::Failed(failure),
        };
        let Assignment { io_size, direct, expects, .. } = assignment;
        let settings = Settings { io_size, direct, expects };
        let mut reader = Reader::new(settings, &tree);
        let mut meter = lineup.start();
        loop {
            if let Err(halt) = reader.pass(&mut meter, &tree) {
                return halt;
            }
            meter.next_round();
        }
    })
}

/// Reads a tree once, without a window, and returns how often each operation was performed.
///
/// # Errors
/// The first system call that failed.
pub fn pass(tree: &Path, io_size: usize, direct: bool) -> Result<Vec<(Operation, u64)>, EngineError> {
    let step = "1 pass";
    let (Some(base), Some(name)) = (tree.parent(), tree.file_name()) else {
        return Err(EngineError::system("find a tree in", tree)(Errno::INVAL));
    };
    let found = TreePlace::look_for(base, &name.to_string_lossy())
        .map_err(|failure| EngineError::operation(step, failure))?;
    let mut meter = Meter::alone(Timer::calibrate(), Role::Reader, reader::STEPS, u64::MAX);
    let settings = Settings { io_size, direct, expects: None };
    match Reader::new(settings, &found).pass(&mut meter, &found) {
        Ok(()) => Ok(meter.counts()),
        Err(halt) => Err(halt.error(step)),
    }
}

/// A tree and its place in the directory above.
struct TreePlace {
    parent: OwnedFd,
    name: CString,
    /// Where a `getdents64` begins with the tree's entry.
    position: u64,
}

impl TreePlace {
    fn look_for(base: &Path, tree: &str) -> Result<Self, OperationFailure> {
        let fail =
            |errno| OperationFailure { operation: Some(Operation::Readdir), path: tree.to_string(), errno };
        let parent = rustix::fs::open(base, DIRECTORY, Mode::empty()).map_err(fail)?;
        let name = CString::new(tree).map_err(|_| fail(Errno::INVAL))?;
        let mut buffer = vec![MaybeUninit::uninit(); ENTRIES];
        let mut position = 0;
        let mut entries = RawDir::new(&parent, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(fail)?;
            if entry.file_name() == name.as_c_str() {
                return Ok(TreePlace { parent, name, position });
            }
            position = entry.next_entry_cookie();
        }
        Err(fail(Errno::NOENT))
    }
}

struct Settings {
    io_size: usize,
    direct: bool,
    expects: Option<Expects>,
}

struct Reader {
    flags: OFlags,
    first_bytes: usize,
    io_size: usize,
    data: AlignedBuffer,
    buffers: LevelBuffers,
    /// The directory that is walked, relative to the engine's directory.
    path: Vec<u8>,
    /// The seed of the top directory, and what compares.
    expected: Option<(u64, Comparer)>,
}

impl Reader {
    fn new(settings: Settings, tree: &TreePlace) -> Self {
        let (direct, first_bytes) =
            if settings.direct { (OFlags::DIRECT, ALIGNMENT) } else { (OFlags::empty(), 1) };
        Reader {
            flags: OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | direct,
            first_bytes,
            io_size: settings.io_size,
            data: AlignedBuffer::new(settings.io_size.max(first_bytes)),
            buffers: LevelBuffers::default(),
            path: tree.name.to_bytes().to_vec(),
            expected: settings.expects.map(|Expects { tree_seed, seed, content }| {
                let longest = settings.io_size + first_bytes;
                (tree_seed, Comparer::new(content, seed, longest))
            }),
        }
    }

    /// One pass through the whole tree.
    fn pass(&mut self, meter: &mut Meter, tree: &TreePlace) -> Result<(), Halt> {
        let top = Object { directory: b"", name: &tree.name };
        watched(meter, READDIR, top, || rustix::fs::seek(&tree.parent, SeekFrom::Start(tree.position)))?;
        let mut buffer = self.buffers.take();
        let mut entries = RawDir::new(&tree.parent, &mut buffer);
        timed(meter, READDIR, top, |_| 0, || entries.next().transpose())?;
        timed(meter, STATX, top, |_| 0, || look_at(&tree.parent, &tree.name))?;
        self.buffers.give_back(buffer);

        self.path.clear();
        self.path.extend_from_slice(tree.name.to_bytes());
        let directory = watched(meter, OPENAT, top, || open_directory(&tree.parent, &tree.name))?;
        let seed = self.expected.as_ref().map(|(seed, _)| *seed);
        self.walk(meter, &directory, seed)
    }

    /// Everything in one directory and below it. The files of a directory with a seed are compared.
    fn walk(&mut self, meter: &mut Meter, directory: &OwnedFd, seed: Option<u64>) -> Result<(), Halt> {
        meter.work_in(&self.path);
        let mut buffer = self.buffers.take();
        let mut entries = RawDir::new(directory, &mut buffer);
        loop {
            let here = Object { directory: &self.path, name: c"" };
            let Some(entry) = timed(meter, READDIR, here, |_| 0, || entries.next().transpose())? else {
                break;
            };
            let name = entry.file_name();
            let object = Object { directory: &self.path, name };
            let attributes = timed(meter, STATX, object, |_| 0, || look_at(directory, name))?;
            match FileType::from_raw_mode(attributes.stx_mode.into()) {
                FileType::RegularFile => {
                    let identity = seed.map(|seed| FileIdentity::named(seed, name));
                    self.read(meter, directory, name, attributes.stx_size, identity)?;
                }
                FileType::Directory if name != c"." && name != c".." => {
                    let below = watched(meter, OPENAT, object, || open_directory(directory, name))?;
                    let length = self.path.len();
                    self.path.push(b'/');
                    self.path.extend_from_slice(name.to_bytes());
                    self.walk(meter, &below, seed.map(|seed| content::path_seed(seed, name)))?;
                    self.path.truncate(length);
                    meter.work_in(&self.path);
                }
                _ => {}
            }
        }
        self.buffers.give_back(buffer);
        Ok(())
    }

    /// One file: as many reads as its size requires.
    fn read(
        &mut self,
        meter: &mut Meter,
        directory: &OwnedFd,
        name: &CStr,
        size_bytes: u64,
        identity: Option<FileIdentity>,
    ) -> Result<(), Halt> {
        let object = Object { directory: &self.path, name };
        let count = |read: &usize| *read as u64;
        let mut expected = self.expected.as_mut().map(|(_, comparer)| comparer).zip(identity);
        let data = self.data.as_mut_slice();
        let file = timed(
            meter,
            OPENAT,
            object,
            |_| 0,
            || rustix::fs::openat(directory, name, self.flags, Mode::empty()),
        )?;
        let first = &mut data[..self.first_bytes];
        let mut read = timed(meter, READ_FIRST_BYTE, object, count, || rustix::io::read(&file, &mut *first))?;
        let mut position = read as u64;
        let version = content::version_of_size(size_bytes);
        let mut check = |position, before: Option<u8>, found: &[u8]| match &mut expected {
            Some((comparer, identity)) => {
                let checked = comparer.check_both(*identity, version, position, before.as_slice(), found);
                checked.map_err(|problem| object.wrong(of_size(problem, size_bytes)))
            }
            None => Ok(()),
        };
        // A single byte does not say where it comes from: it is compared together with what follows.
        let mut alone = (read == 1).then_some(data[0]);
        if alone.is_none() {
            check(0, None, &data[..read])?;
        }
        while position < size_bytes && read > 0 {
            let rest = &mut data[..self.io_size];
            read = timed(meter, READ, object, count, || rustix::io::read(&file, &mut *rest))?;
            check(position, alone.take(), &data[..read])?;
            position += read as u64;
        }
        check(position, alone, &[])?;
        if identity.is_some() && position < size_bytes {
            return Err(object.wrong(Problem::Size { expected: size_bytes, found: position }));
        }
        timed(meter, CLOSE, object, |()| 0, || fsdyno_sys::thread::close(file))?;
        meter.item();
        Ok(())
    }
}

/// Returns the problem with a file of this size. Its sectors say, as their version, with which size it was
/// written.
#[cold]
fn of_size(problem: Problem, found: u64) -> Problem {
    match problem {
        Problem::Sector { found: SectorVerdict::Version { found: written, .. }, .. } => {
            Problem::Size { expected: written.into(), found }
        }
        other => other,
    }
}
