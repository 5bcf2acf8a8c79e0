//! The interpreter: one worker that performs its program.
//!
//! Between the two timestamps of a step there is its system call. Which file, which position and which bytes
//! is decided before the first, and what has changed is noted after the second.

use super::knowledge::{FileKnowledge, Knowledge, Sample};
use super::pool::Pool;
use super::program::{Code, Program, Task};
use super::set::{File, Path, Set};
use super::signal::Signal;
use crate::content::{AlignedBuffer, Content, FileIdentity};
use crate::error::OperationFailure;
use crate::meter::{Halt, Meter, Object, timed};
use crate::plant::{DIRECTORY, FILE_MODE};
use fsdyno_core::Reached;
use fsdyno_core::workload::{Choice, StepIndex};
use fsdyno_sys::mapping::CopySource;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of directory entries that one `getdents64` may return, as in glibc.
const ENTRIES: usize = 32 << 10;
/// The name of the extended attribute.
const ATTRIBUTE: &std::ffi::CStr = c"user.fsdyno";
/// The time that a worker waits if it found no file for a step.
const WITHOUT_FILE_NS: u64 = 1_000_000;

/// The end of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With its last step.
    Whole,
    /// A step that is performed at random found no file to choose, or no name to create.
    Short,
}

/// An open file.
pub(super) struct Handle {
    pub(super) file: Option<OwnedFd>,
    pub(super) set: usize,
    pub(super) of: File,
    pub(super) path: Path,
    pub(super) flags: OFlags,
    /// The size of a file whose size is known.
    pub(super) size: u64,
    /// Where steps that go on from one to the next are.
    pub(super) next: u64,
    /// Where the descriptor is.
    pub(super) position: u64,
    pub(super) kept: FileKnowledge,
    /// Nothing has moved the position of the descriptor since it was opened.
    pub(super) is_at_start: bool,
}

/// Everything that a worker needs, allocated before the phase.
pub(super) struct Worker {
    pub(super) program: Arc<Program>,
    pub(super) sets: Arc<[Set]>,
    /// Its number among those that share a divided set: those of its role.
    pub(super) number: u64,
    pub(super) random: Xoshiro256PlusPlus,
    pub(super) is_background: bool,
    /// Iterations of the role that ended early.
    pub(super) short: Arc<AtomicU64>,
    pub(super) signals: Arc<[Signal]>,
    pub(super) directories: Vec<OwnedFd>,
    pub(super) pools: Vec<Pool>,
    /// Per set, the file that the worker was last concerned with.
    pub(super) last: Vec<u32>,
    pub(super) handles: Vec<Handle>,
    /// Those that stay open from one iteration to the next.
    held: Vec<bool>,
    counters: Vec<u32>,
    pub(super) content: Option<Content>,
    /// The knowledge about contents, if they are verified.
    pub(super) known: Option<Box<Knowledge>>,
    /// The seed and the count that contents of appended and overwritten bytes follow from: never the same
    /// twice.
    seed: u64,
    writes: u64,
    pub(super) buffer: AlignedBuffer,
    pub(super) entries: Box<[MaybeUninit<u8>]>,
    pub(super) source: Option<CopySource>,
    pub(super) path: Path,
    pub(super) other: Path,
}

impl Worker {
    /// `directories` are those of the sets; `content` is for the writes of the program, which follow from
    /// `seed`.
    pub(super) fn new(
        program: Arc<Program>,
        sets: Arc<[Set]>,
        directories: Vec<OwnedFd>,
        number: u64,
        random: Xoshiro256PlusPlus,
        seed: u64,
        content: Option<Content>,
    ) -> Result<Self, Errno> {
        let pool = |set: &Set| match set.is_changed {
            true => Pool::changing(set.names(number), set.prefilled(number)),
            false => Pool::still(set.prefilled(number)),
        };
        let handle = || Handle {
            file: None,
            set: 0,
            of: File { name: 0, incarnation: 0 },
            path: Path::new(),
            flags: OFlags::empty(),
            size: 0,
            next: 0,
            position: 0,
            kept: FileKnowledge::Unknown,
            is_at_start: true,
        };
        let entries = if program.lists { ENTRIES } else { 0 };
        Ok(Worker {
            number,
            random,
            is_background: false,
            short: Arc::default(),
            signals: Arc::from([]),
            directories,
            pools: sets.iter().map(pool).collect(),
            last: vec![0; sets.len()],
            handles: (0..program.handles).map(|_| handle()).collect(),
            held: vec![false; program.handles],
            counters: vec![0; program.counters],
            content,
            known: None,
            seed,
            writes: 0,
            buffer: AlignedBuffer::new(program.buffers.0),
            entries: vec![MaybeUninit::uninit(); entries].into_boxed_slice(),
            source: if program.maps { Some(CopySource::new()?) } else { None },
            path: Path::new(),
            other: Path::new(),
            program,
            sets,
        })
    }

    /// Works until the phase is over.
    pub(super) fn run(&mut self, meter: Meter) -> Halt {
        match self.iterate(meter, u64::MAX) {
            Ok(_) => Halt::Over,
            Err(halt) => halt,
        }
    }

    /// Returns the final state of the worker's files, if they are verified.
    pub(super) fn summary(&self) -> Vec<Reached> {
        let sample = Sample::of(&self.sets);
        self.known.as_ref().map_or(Vec::new(), |known| known.summary(&self.sets, self.number, sample))
    }

    /// Begins, and performs so many iterations; returns the instruments.
    pub(super) fn iterate(&mut self, mut meter: Meter, iterations: u64) -> Result<Meter, Halt> {
        let program = Arc::clone(&self.program);
        if self.perform(&mut meter, &program.begin)? == Ended::Short {
            let path = "a step of `begin` that is performed at random".to_string();
            return Err(Halt::Failed(OperationFailure { operation: None, path, errno: Errno::NOENT }));
        }
        for (held, handle) in self.held.iter_mut().zip(&self.handles) {
            *held = handle.file.is_some();
        }
        for _ in 0..iterations {
            let begin = meter.begin_iteration()?;
            let ended = self.perform(&mut meter, &program.steps)?;
            meter.end_iteration()?;
            match ended {
                Ended::Whole if self.is_background => {}
                Ended::Whole => meter.item_since(begin),
                Ended::Short => {
                    self.short.fetch_add(1, Ordering::Relaxed);
                    // Whoever never finds one must not keep a processor busy, nor miss the end.
                    if !meter.is_paced() {
                        let until_ns = meter.now_ns() + WITHOUT_FILE_NS;
                        meter.rest_until(until_ns)?;
                    }
                }
            }
        }
        Ok(meter)
    }

    /// Performs a list once.
    fn perform(&mut self, meter: &mut Meter, codes: &[Code]) -> Result<Ended, Halt> {
        let mut at = 0;
        while let Some(code) = codes.get(at) {
            at += 1;
            match *code {
                Code::Do(task) => {
                    if self.task(meter, task)? == Ended::Short {
                        self.drop_files();
                        return Ok(Ended::Short);
                    }
                }
                Code::Maybe { below, otherwise } => {
                    if self.random.next_u64() >= below {
                        at = otherwise;
                    }
                }
                Code::Begin { counter, times } => self.counters[counter] = times,
                Code::Again { counter, to } => {
                    self.counters[counter] -= 1;
                    if self.counters[counter] > 0 {
                        at = to;
                    }
                }
            }
        }
        Ok(Ended::Whole)
    }

    /// Closes what does not stay open, without timing.
    fn drop_files(&mut self) {
        for (handle, _) in self.handles.iter_mut().zip(&self.held).filter(|(_, held)| !**held) {
            if let (Some(_), Some(known)) = (handle.file.take(), &mut self.known) {
                known.closed(handle.kept);
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each task")]
    #[inline]
    fn task(&mut self, meter: &mut Meter, task: Task) -> Result<Ended, Halt> {
        match task {
            Task::Open { set, choose, handle, flags, step } => {
                let Some(name) = self.choose(set, choose) else { return Ok(Ended::Short) };
                self.open(meter, [set, handle], name, flags, step)?;
            }
            Task::Create { set, in_order, handle, flags, step } => {
                let Some(name) = self.pools[set].add(in_order, &mut self.random) else {
                    return Ok(Ended::Short);
                };
                self.open(meter, [set, handle], name, flags, step)?;
            }
            Task::ReadWhole { handle, size, seek, read } => {
                self.read_whole(meter, handle, size, [seek, read])?;
            }
            Task::ReadNext { handle, size, seek, read } => {
                self.read_next(meter, handle, size, [seek, read])?;
            }
            Task::ReadRandom { handle, size, read } => self.read_random(meter, handle, size, read)?,
            Task::WriteWhole { handle, size, seek, write } => {
                self.write_whole(meter, handle, size, [seek, write])?;
            }
            Task::Append { handle, low, high, steps } => self.append(meter, handle, [low, high], steps)?,
            Task::Overwrite { handle, size, in_order, write } => {
                self.overwrite(meter, handle, (size, in_order), write)?;
            }
            Task::Fsync { handle, step } => {
                self.on_file(meter, handle, step, |file| rustix::fs::fsync(file))?
            }
            Task::Fdatasync { handle, step } => {
                self.on_file(meter, handle, step, |file| rustix::fs::fdatasync(file))?;
            }
            Task::Close { handle, step } => {
                let Worker { handles, sets, known, .. } = self;
                let handle = &mut handles[handle];
                let object = object(&sets[handle.set], &handle.path);
                if let Some(file) = handle.file.take() {
                    timed(meter, step, object, nothing, || fsdyno_sys::thread::close(file))?;
                    if let Some(known) = known {
                        known.closed(handle.kept);
                    }
                }
            }
            Task::FsyncDirectory { set, open, sync, close } => {
                self.sets[set].path(self.number, self.last[set], &mut self.path);
                self.path.leave();
                let (directory, object) = (&self.directories[set], object(&self.sets[set], &self.path));
                let opened = timed(meter, open, object, nothing, || {
                    rustix::fs::openat(directory, object.name, DIRECTORY, Mode::empty())
                })?;
                timed(meter, sync, object, nothing, || rustix::fs::fsync(&opened))?;
                timed(meter, close, object, nothing, || fsdyno_sys::thread::close(opened))?;
            }
            Task::Rename { set, choose, to, over, step } => {
                return self.rename(meter, [set, to], choose, over, step);
            }
            Task::Link { set, choose, to, step } => {
                let Some(name) = self.choose(set, choose) else { return Ok(Ended::Short) };
                let Some(target) = self.pools[to].add(false, &mut self.random) else {
                    return Ok(Ended::Short);
                };
                self.two_names(
                    meter,
                    [set, to],
                    [name, target],
                    step,
                    |from, old, to, new| rustix::fs::linkat(from, old, to, new, AtFlags::empty()),
                    Knowledge::linked,
                )?;
                self.last[to] = target;
            }
            Task::Unlink { set, choose, step } => {
                let Some(name) = self.choose(set, choose) else { return Ok(Ended::Short) };
                self.on_name(
                    meter,
                    [set, name as usize],
                    step,
                    |directory, name| rustix::fs::unlinkat(directory, name, AtFlags::empty()),
                    Knowledge::unlinked,
                )?;
                self.pools[set].remove(name);
            }
            Task::Stat { set, choose, step } => {
                let Some(name) = self.choose(set, choose) else { return Ok(Ended::Short) };
                self.on_name(
                    meter,
                    [set, name as usize],
                    step,
                    |directory, name| {
                        let flags = AtFlags::SYMLINK_NOFOLLOW;
                        rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS).map(drop)
                    },
                    |_, _| (),
                )?;
            }
            Task::Readdir { set, choose, open, read, close } => {
                let Some(name) = self.choose(set, choose) else { return Ok(Ended::Short) };
                self.list(meter, set, name, [open, read, close])?;
            }
            Task::Setxattr { handle, size, step } => {
                let identity = self.fresh();
                let Worker { handles, sets, content, .. } = self;
                let (file, object) = handles[handle].object(sets)?;
                let bytes = content.as_mut().map_or(&[][..], |content| content.bytes(identity, 0, size));
                timed(meter, step, object, nothing, || {
                    rustix::fs::fsetxattr(file, ATTRIBUTE, bytes, XattrFlags::empty())
                })?;
            }
            Task::MmapRead { handle, size, steps } => self.map_and_read(meter, handle, size, steps)?,
            Task::MmapWrite { handle, size, steps, sync } => {
                self.map_and_write(meter, handle, size, (steps, sync))?;
            }
            Task::CopyFileRange { from, to, step } => self.copy(meter, [from, to], step)?,
            Task::Fallocate { handle, size, step } => self.allocate(meter, handle, size, step)?,
            Task::Truncate { handle, size, step } => self.truncate(meter, handle, size, step)?,
            Task::Think { time_ns } => {
                let until_ns = meter.now_ns().saturating_add(time_ns);
                meter.rest_until(until_ns)?;
            }
            Task::Post { signal, limit } => self.signals[signal].post(meter, limit)?,
            Task::Await { signal, count } => self.signals[signal].take(meter, count)?,
        }
        Ok(Ended::Whole)
    }

    /// A file that exists.
    #[inline]
    pub(super) fn choose(&mut self, set: usize, choice: Choice) -> Option<u32> {
        let name = self.pools[set].choose(choice, &mut self.random)?;
        self.last[set] = name;
        Some(name)
    }

    /// Returns the identity that the bytes of an append or an overwrite follow from.
    #[inline]
    pub(super) fn fresh(&mut self) -> FileIdentity {
        self.writes += 1;
        FileIdentity::new(self.seed, self.writes)
    }

    #[inline]
    fn open(
        &mut self,
        meter: &mut Meter,
        [set, handle]: [usize; 2],
        name: u32,
        flags: OFlags,
        step: StepIndex,
    ) -> Result<(), Halt> {
        self.last[set] = name;
        let Worker { sets, handles, pools, directories, known, number, .. } = self;
        let (number, files) = (*number, &sets[set]);
        let (of, opened) = (pools[set].file(name), &mut handles[handle]);
        files.path(number, name, &mut opened.path);
        let (directory, object) = (&directories[set], object(files, &opened.path));
        let place = [set, name as usize];
        let mut known = known.as_deref_mut();
        let done = |_: &OwnedFd| {
            if let Some(known) = known.as_deref_mut().filter(|_| flags.contains(OFlags::CREATE)) {
                known.created(place, files.identity(number, of));
            }
            0
        };
        let file = timed(meter, step, object, done, || {
            rustix::fs::openat(directory, object.name, flags, FILE_MODE)
        })?;
        let size = if self.program.is_sized { files.size(number, of) } else { 0 };
        opened.kept = known.map_or(FileKnowledge::Unknown, |known| known.opened(place, files, number, of));
        opened.file = Some(file);
        (opened.set, opened.of, opened.flags, opened.size) = (set, of, flags, size);
        (opened.next, opened.position, opened.is_at_start) = (0, 0, true);
        Ok(())
    }
}

impl Handle {
    /// The descriptor, and what messages call the file. The plan was checked: nothing is done to a file that
    /// is not open.
    #[inline]
    pub(super) fn object<'a>(&'a self, sets: &'a [Set]) -> Result<(BorrowedFd<'a>, Object<'a>), Halt> {
        match &self.file {
            Some(file) => Ok((file.as_fd(), object(&sets[self.set], &self.path))),
            None => Err(Halt::Over),
        }
    }
}

#[inline]
pub(super) fn object<'a>(set: &'a Set, path: &'a Path) -> Object<'a> {
    Object { directory: set.files.name.as_bytes(), name: path.as_c_str() }
}

pub(super) fn nothing<T>(_: &T) -> u64 {
    0
}
