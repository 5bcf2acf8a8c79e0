//! The small files: created, examined and read, and removed; once in the order of names and directory, once
//! at random.
//!
//! The item is a file, from the first system call about it to the last.

use super::names::{Files, Name, NameOrder, Shuffle};
use super::{close, failure, job, open_base, phase, read_all, write_all};
use crate::compare::Comparer;
use crate::content::{AlignedBuffer, Content, FileIdentity};
use crate::error::OperationFailure;
use crate::meter::{Halt, Meter, Object, timed};
use crate::phase::{Job, PhaseLoad};
use crate::plant::{CREATE as CREATE_FLAGS, DIRECTORY, DIRECTORY_MODE, FILE_MODE};
use crate::removal::ENTRIES;
use crate::tree::derive_seed;
use crate::wrong::Problem;
use fsdyno_core::workload::bonnie::small::{
    CLOSE, CREATE, FSYNC, OPENAT, READ, READDIR, RMDIR, STATX, SYNCFS, UNLINKAT, WRITE,
};
use fsdyno_core::workload::bonnie::{
    RANDOM_CREATE, RANDOM_DELETE, RANDOM_STAT, SEQ_CREATE, SEQ_DELETE, SEQ_STAT,
};
use fsdyno_core::workload::{self, Bonnie};
use fsdyno_core::{Operation, Role};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The directory that holds them, or their directories.
const TOP: &CStr = c"small";
pub(super) const TOP_OBJECT: Object<'_> = Object { directory: b"", name: TOP };

/// The words that seeds are derived from, in addition to the seed of the trial.
const STAT_ORDER: u64 = 30;
const DELETE_ORDER: u64 = 31;

/// The small files and what is done to them.
#[derive(Debug, Clone)]
pub(super) struct Small {
    base: PathBuf,
    seed: u64,
    sequential: Files,
    random: Files,
    directories: u32,
    chunk: usize,
    fsync: bool,
    content: workload::Content,
    verify: bool,
}

/// The expected files of a pass, for comparison when they are read.
struct Checker {
    comparer: Comparer,
    files: Files,
}

impl Checker {
    /// Returns the identity and size with which a file of this name was written.
    fn expected(&self, object: Object<'_>) -> Result<Expected, Halt> {
        let number = self.files.number(object.name).ok_or_else(|| object.wrong(Problem::Present))?;
        Ok(Expected { identity: self.files.identity(number), size: self.files.size(number) })
    }
}

/// The identity and size with which a file was written.
struct Expected {
    identity: FileIdentity,
    size: u64,
}

impl Small {
    pub(super) fn new(parameters: &Bonnie, base: &Path, seed: u64) -> Self {
        Small {
            base: base.to_path_buf(),
            seed,
            sequential: Files::new(parameters, NameOrder::Sequential, seed),
            random: Files::new(parameters, NameOrder::Random, seed),
            directories: parameters.directories,
            chunk: parameters.file_chunk.0 as usize,
            fsync: parameters.fsync,
            content: parameters.content,
            verify: parameters.verify,
        }
    }

    fn checker(&self, files: &Files) -> Option<Checker> {
        let comparer = || Comparer::new(self.content, self.seed, self.chunk);
        self.verify.then(|| Checker { comparer: comparer(), files: files.clone() })
    }

    /// The phases in their order.
    pub(super) fn phases(&self) -> Vec<PhaseLoad> {
        let count = self.sequential.count;
        let alone = |test, calls_per_file: u64, job: Job| phase(test, calls_per_file * count, vec![job]);
        vec![
            alone(SEQ_CREATE, 3, self.create(self.sequential.clone())),
            alone(SEQ_STAT, 5, self.in_directory_order(Role::Examiner)),
            alone(SEQ_DELETE, 2, self.in_directory_order(Role::Deleter)),
            alone(RANDOM_CREATE, 3, self.create(self.random.clone())),
            alone(RANDOM_STAT, 4, self.stat_at_random()),
            alone(RANDOM_DELETE, 1, self.delete_at_random()),
        ]
    }

    /// Creates the files one after the other, even if their names are in random order, and writes everything
    /// back.
    fn create(&self, files: Files) -> Job {
        let small = self.clone();
        let mut content = Content::new(self.content, self.seed, self.chunk);
        let (base, directories, fsync) = (self.base.clone(), self.directories, self.fsync);
        job(
            move || {
                Tree::make(&base, directories)?;
                Tree::open(&base, directories, fsync)
            },
            move |meter, tree| {
                for number in 0..files.count {
                    let begin = meter.begin_item();
                    small.create_one(meter, tree, &files, number, &mut content)?;
                    meter.item_since(begin);
                }
                sync(meter, &tree.top)
            },
        )
    }

    fn create_one(
        &self,
        meter: &mut Meter,
        tree: &Tree,
        files: &Files,
        number: u64,
        content: &mut Content,
    ) -> Result<(), Halt> {
        let (name, size) = (files.name(number), files.size(number));
        let object = Object { directory: TOP.to_bytes(), name: name.as_c_str() };
        let open = || rustix::fs::openat(&tree.top, name.as_c_str(), CREATE_FLAGS, FILE_MODE);
        let file = timed(meter, CREATE, object, |_| 0, open)?;
        let identity = files.identity(number);
        let mut position = 0;
        while position < size {
            let length = (size - position).min(self.chunk as u64) as usize;
            write_all(meter, WRITE, object, &file, content.bytes(identity, position, length))?;
            position += length as u64;
        }
        if self.fsync {
            timed(meter, FSYNC, object, |()| 0, || rustix::fs::fsync(&file))?;
            tree.sync_directory(meter, object, files.directory(number))?;
        }
        close(meter, CLOSE, object, file)
    }

    /// Goes through the directories in the order in which they list their files, and examines or removes each
    /// file.
    fn in_directory_order(&self, role: Role) -> Job {
        let (small, examining) = (self.clone(), self.clone());
        let (base, directories, fsync) = (self.base.clone(), self.directories, self.fsync);
        let mut entries = vec![MaybeUninit::uninit(); ENTRIES].into_boxed_slice();
        let mut data = AlignedBuffer::new(self.chunk);
        job(
            move || {
                let tree = Tree::open(&base, directories, fsync && role == Role::Deleter)?;
                Ok((tree, examining.checker(&examining.sequential)))
            },
            move |meter, (tree, checker)| {
                let mut seen = 0;
                for number in 0..small.directories {
                    let name = Name::of_directory(number);
                    let name = if small.directories > 1 { name.as_c_str() } else { c"." };
                    let object = Object { directory: TOP.to_bytes(), name };
                    let open = || rustix::fs::openat(&tree.top, name, DIRECTORY, Mode::empty());
                    let directory = timed(meter, OPENAT, object, |_| 0, open)?;
                    let mut list = RawDir::new(&directory, &mut entries);
                    loop {
                        let begin = meter.begin_item();
                        let Some(entry) = timed(meter, READDIR, object, |_| 0, || list.next().transpose())?
                        else {
                            break;
                        };
                        let file = entry.file_name();
                        // No name of fsdyno begins with a dot.
                        if file.to_bytes().starts_with(b".") {
                            continue;
                        }
                        let object = Object { directory: TOP.to_bytes(), name: file };
                        match role {
                            Role::Deleter => {
                                unlink(meter, &directory, object)?;
                                if small.fsync {
                                    tree.sync_directory(meter, object, number)?;
                                }
                            }
                            _ => look_at(meter, &directory, object, data.as_mut_slice(), checker)?,
                        }
                        meter.item_since(begin);
                        seen += 1;
                    }
                    close(meter, CLOSE, object, directory)?;
                    if role == Role::Deleter && small.directories > 1 {
                        remove_directory(meter, &tree.top, name)?;
                    }
                }
                if seen != small.sequential.count {
                    return Err(Halt::Failed(failure(Operation::Readdir, TOP_OBJECT)(Errno::NOENT)));
                }
                if role == Role::Deleter { tree.remove_top(meter) } else { Ok(()) }
            },
        )
    }

    fn stat_at_random(&self) -> Job {
        let files = self.random.clone();
        let order = Shuffle::new(files.count, derive_seed(self.seed, &[STAT_ORDER]));
        let (base, directories) = (self.base.clone(), self.directories);
        let mut data = AlignedBuffer::new(self.chunk);
        let small = self.clone();
        job(
            move || Ok((Tree::open(&base, directories, false)?, small.checker(&small.random))),
            move |meter, (tree, checker)| {
                for number in (0..files.count).map(|place| order.at(place)) {
                    let name = files.name(number);
                    let object = Object { directory: TOP.to_bytes(), name: name.as_c_str() };
                    let begin = meter.begin_item();
                    look_at(meter, &tree.top, object, data.as_mut_slice(), checker)?;
                    meter.item_since(begin);
                }
                Ok(())
            },
        )
    }

    fn delete_at_random(&self) -> Job {
        let (files, fsync) = (self.random.clone(), self.fsync);
        let order = Shuffle::new(files.count, derive_seed(self.seed, &[DELETE_ORDER]));
        let (base, directories) = (self.base.clone(), self.directories);
        job(
            move || Tree::open(&base, directories, fsync),
            move |meter, tree| {
                for number in (0..files.count).map(|place| order.at(place)) {
                    let name = files.name(number);
                    let object = Object { directory: TOP.to_bytes(), name: name.as_c_str() };
                    let begin = meter.begin_item();
                    unlink(meter, &tree.top, object)?;
                    if fsync {
                        tree.sync_directory(meter, object, files.directory(number))?;
                    }
                    meter.item_since(begin);
                }
                if directories > 1 {
                    for number in 0..directories {
                        remove_directory(meter, &tree.top, Name::of_directory(number).as_c_str())?;
                    }
                }
                tree.remove_top(meter)
            },
        )
    }
}

/// The directories that a worker works in.
struct Tree {
    base: OwnedFd,
    top: OwnedFd,
    /// Each of the directories, if they are to be synced.
    directories: Vec<OwnedFd>,
}

impl Tree {
    /// Creates the directories.
    fn make(base: &Path, directories: u32) -> Result<(), OperationFailure> {
        let fail = |errno| failure(Operation::Mkdirat, TOP_OBJECT)(errno);
        let base = open_base(base).map_err(fail)?;
        let top = crate::plant::make_directory(&base, TOP).map_err(fail)?;
        if directories > 1 {
            for number in 0..directories {
                let name = Name::of_directory(number);
                let object = Object { directory: TOP.to_bytes(), name: name.as_c_str() };
                rustix::fs::mkdirat(&top, name.as_c_str(), DIRECTORY_MODE)
                    .map_err(failure(Operation::Mkdirat, object))?;
            }
        }
        Ok(())
    }

    /// Opens them; each one separately if they are to be synced.
    fn open(base: &Path, directories: u32, each: bool) -> Result<Self, OperationFailure> {
        let fail = |errno| failure(Operation::Openat, TOP_OBJECT)(errno);
        let base = open_base(base).map_err(fail)?;
        let top = rustix::fs::openat(&base, TOP, DIRECTORY, Mode::empty()).map_err(fail)?;
        let open = |number: u32| {
            let name = Name::of_directory(number);
            let name = if directories > 1 { name.as_c_str() } else { c"." };
            rustix::fs::openat(&top, name, DIRECTORY, Mode::empty()).map_err(fail)
        };
        let numbers = if each { 0..directories } else { 0..0 };
        Ok(Tree { directories: numbers.map(open).collect::<Result<_, _>>()?, base, top })
    }

    fn sync_directory(&self, meter: &mut Meter, object: Object<'_>, number: u32) -> Result<(), Halt> {
        let directory = &self.directories[number as usize];
        timed(meter, FSYNC, object, |()| 0, || rustix::fs::fsync(directory))
    }

    /// Removes the directory of all the files, which are already gone, and writes everything back.
    fn remove_top(&self, meter: &mut Meter) -> Result<(), Halt> {
        timed(
            meter,
            RMDIR,
            TOP_OBJECT,
            |()| 0,
            || rustix::fs::unlinkat(&self.base, TOP, AtFlags::REMOVEDIR),
        )?;
        sync(meter, &self.base)
    }
}

/// Attributes of a file and, if it is not empty, its whole content.
fn look_at(
    meter: &mut Meter,
    directory: &OwnedFd,
    object: Object<'_>,
    buffer: &mut [u8],
    checker: &mut Option<Checker>,
) -> Result<(), Halt> {
    let stat =
        || rustix::fs::statx(directory, object.name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
    let size = timed(meter, STATX, object, |_| 0, stat)?.stx_size;
    let mut expected = None;
    if let Some(checker) = checker {
        let file = checker.expected(object)?;
        if file.size != size {
            return Err(object.wrong(Problem::Size { expected: file.size, found: size }));
        }
        expected = Some((&mut checker.comparer, file.identity));
    }
    if size == 0 {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(directory, object.name, flags, Mode::empty());
    let file = timed(meter, OPENAT, object, |_| 0, open)?;
    let mut position = 0;
    while position < size {
        let length = (size - position).min(buffer.len() as u64) as usize;
        let verified = expected.is_some().then_some(size);
        read_all(meter, READ, object, &file, &mut buffer[..length], |read| *read as u64, verified)?;
        if let Some((comparer, identity)) = &mut expected {
            let checked = comparer.check(*identity, 0, position, &buffer[..length]);
            checked.map_err(|problem| object.wrong(problem))?;
        }
        position += length as u64;
    }
    close(meter, CLOSE, object, file)
}

fn unlink(meter: &mut Meter, directory: &OwnedFd, object: Object<'_>) -> Result<(), Halt> {
    timed(meter, UNLINKAT, object, |()| 0, || rustix::fs::unlinkat(directory, object.name, AtFlags::empty()))
}

fn remove_directory(meter: &mut Meter, top: &OwnedFd, name: &CStr) -> Result<(), Halt> {
    let object = Object { directory: TOP.to_bytes(), name };
    timed(meter, RMDIR, object, |()| 0, || rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR))
}

/// Writes the filesystem back.
fn sync(meter: &mut Meter, directory: &OwnedFd) -> Result<(), Halt> {
    timed(meter, SYNCFS, TOP_OBJECT, |()| 0, || rustix::fs::syncfs(directory))
}
