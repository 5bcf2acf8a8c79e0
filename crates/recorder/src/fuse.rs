//! The files that a recorder shows: one that takes marks, and the parts of the disk.
//!
//! Requests that reach the disk while it is recorded are carried out one after the other by a thread of
//! their own, so that the thread that takes them from the kernel notices at once when a flush arrives: what
//! had been completed by then is what it covers.

use crate::pace::Pace;
use crate::recorded::{MARKS, Recorded, Stage, errno_of};
use crate::{Result, WRITE_MAX};
use fsdyno_core::durability::MARKS_FILE;
use fsdyno_disk::{DiskOperation, DiskRequest};
use fsdyno_sys::timer::monotonic_ns;
use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The largest number of requests that wait.
const WAITING: usize = 8;
/// The time for which the kernel may keep attributes: nothing changes behind its back.
const LASTING: Duration = Duration::from_secs(3600);

type Work = Box<dyn FnOnce(&mut Recorded) + Send>;

/// The filesystem.
pub(crate) struct Files {
    recorded: Arc<Mutex<Recorded>>,
    /// Entries of the log that are complete.
    completed: Arc<AtomicU64>,
    work: SyncSender<Work>,
    pace: Pace,
}

pub(crate) fn lock(recorded: &Mutex<Recorded>) -> MutexGuard<'_, Recorded> {
    recorded.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Shows a disk.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(recorded: &Arc<Mutex<Recorded>>, pace: &Pace) -> io::Result<Files> {
        let (work, waiting) = sync_channel::<Work>(WAITING);
        let completed = Arc::new(AtomicU64::new(0));
        let its_disk = Arc::clone(recorded);
        std::thread::Builder::new().name("disk".to_string()).spawn(move || {
            for work in waiting {
                work(&mut lock(&its_disk));
            }
        })?;
        Ok(Files { recorded: Arc::clone(recorded), completed, work, pace: pace.clone() })
    }

    /// Notes when a request has arrived.
    fn in_time(&self, kind: DiskOperation) -> InTime {
        InTime { pace: self.pace.clone(), kind, arrived_ns: monotonic_ns() }
    }

    /// Carries out a request: in its turn while the disk is recorded, and otherwise at once if nobody else is
    /// at it. A mount makes thousands of small requests, one after the other, and handing each on would take
    /// longer than carrying it out.
    fn carry_out(&self, work: impl FnOnce(&mut Recorded) + Send + 'static) {
        if let Ok(mut recorded) = self.recorded.try_lock()
            && !matches!(recorded.stage, Stage::Recording)
        {
            return work(&mut recorded);
        }
        // The thread ends only with this sender.
        let _ = self.work.send(Box::new(work));
    }
}

/// A request that has arrived, and is to end when a modelled disk would have ended it.
struct InTime {
    pace: Pace,
    kind: DiskOperation,
    arrived_ns: u64,
}

impl InTime {
    /// Gives the answer of a request to this range of a part of the disk.
    fn answer(self, part: u32, offset: u64, length: u64, answer: Box<dyn FnOnce() + Send>) {
        let request = DiskRequest { id: 0, kind: self.kind, offset, length };
        self.pace.answer(part, request, self.arrived_ns, answer);
    }
}

fn answer(reply: ReplyEmpty, result: Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno_of(error)),
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.set_max_background(64);
        // Recovery writes the same blocks again and again; the kernel collects them, where it may keep them.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_WRITEBACK_CACHE);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match lock(&self.recorded).find(name) {
            Ok(attributes) => reply.entry(&Duration::ZERO, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match lock(&self.recorded).attributes(number.0) {
            Ok(attributes) => reply.attr(&LASTING, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut recorded = lock(&self.recorded);
        let resized = match size {
            Some(size) if recorded.is_current(number.0) => {
                recorded.set_size(number.0, size).map_err(errno_of)
            }
            _ => Ok(()),
        };
        match resized.and_then(|()| recorded.attributes(number.0)) {
            Ok(attributes) => reply.attr(&LASTING, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(&self, _: &Request, _: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut recorded = lock(&self.recorded);
        let created = recorded.create(name).and_then(|number| recorded.attributes(number));
        match created {
            Ok(attributes) => {
                let flags = flags(&recorded);
                reply.created(&Duration::ZERO, &attributes, Generation(0), FileHandle(0), flags);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = match number.0 {
            MARKS => FopenFlags::FOPEN_DIRECT_IO,
            _ => flags(&lock(&self.recorded)),
        };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let is_marks = number.0 == MARKS;
        let in_time = self.in_time(DiskOperation::Read);
        self.carry_out(move |recorded| {
            let read = match is_marks {
                true => recorded.read_marks(offset, size.into()),
                false => recorded.read(recorded.part(number.0), offset, size.into()),
            };
            match read {
                Ok(bytes) if is_marks => reply.data(&bytes),
                Ok(bytes) => {
                    let (part, length) = (recorded.part(number.0), bytes.len() as u64);
                    in_time.answer(part, offset, length, Box::new(move || reply.data(&bytes)));
                }
                Err(error) => reply.error(errno_of(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        let in_time = self.in_time(DiskOperation::Write);
        let completed = Arc::clone(&self.completed);
        self.carry_out(move |recorded| {
            let written = match number.0 {
                MARKS => recorded.mark(offset, &data),
                number if recorded.is_current(number) => recorded.write(recorded.part(number), offset, &data),
                // The kernel writes back what it has kept of a disk that is gone.
                _ => Ok(()),
            };
            count(recorded, &completed);
            let length = data.len() as u64;
            match written {
                Ok(()) if number.0 == MARKS => reply.written(length as u32),
                Ok(()) => {
                    let part = recorded.part(number.0);
                    in_time.answer(part, offset, length, Box::new(move || reply.written(length as u32)));
                }
                Err(error) => reply.error(errno_of(error)),
            }
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // Of fallocate(2).
        const KEEP_SIZE: i32 = 1;
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 16;
        let zeroes = mode & (PUNCH_HOLE | ZERO_RANGE) != 0 && number.0 != MARKS;
        if !zeroes || mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let in_time = self.in_time(DiskOperation::Discard);
        let completed = Arc::clone(&self.completed);
        self.carry_out(move |recorded| {
            let done = recorded.zero(recorded.part(number.0), offset, length);
            count(recorded, &completed);
            in_time.answer(recorded.part(number.0), offset, length, Box::new(move || answer(reply, done)));
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if number.0 == MARKS {
            return reply.ok();
        }
        let covers = self.completed.load(Ordering::Acquire);
        let in_time = self.in_time(DiskOperation::Flush);
        let completed = Arc::clone(&self.completed);
        self.carry_out(move |recorded| {
            let done = recorded.flush(recorded.part(number.0), covers);
            count(recorded, &completed);
            in_time.answer(recorded.part(number.0), 0, 0, Box::new(move || answer(reply, done)));
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let recorded = lock(&self.recorded);
        let marks = OsString::from(MARKS_FILE);
        let names = [(MARKS, &marks)].into_iter().chain(recorded.names());
        for (place, (number, name)) in (1..).zip(names).skip(offset as usize) {
            if reply.add(INodeNo(number), place, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match lock(&self.recorded).remove(name) {
            Ok(()) => reply.ok(),
            Err(_) if name == MARKS_FILE => reply.error(Errno::EPERM),
            Err(errno) => reply.error(errno),
        }
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        match lock(&self.recorded).rename(name, new_name) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let recorded = lock(&self.recorded);
        match rustix::fs::statvfs(&recorded.directory) {
            Ok(room) => {
                let blocks = |count: u64| count.saturating_mul(room.f_frsize) / 4096;
                let (all, free, available) = (room.f_blocks, room.f_bfree, room.f_bavail);
                reply.statfs(blocks(all), blocks(free), blocks(available), 0, 0, 4096, 255, 4096);
            }
            Err(errno) => reply.error(Errno::from_i32(errno.raw_os_error())),
        }
    }
}

/// Returns the flags of the opened disk: the disk after a cut may be kept in memory, and read ahead, because
/// a mount makes thousands of small reads. All others get every request as it was made.
fn flags(recorded: &Recorded) -> FopenFlags {
    match recorded.is_after_cut {
        true => FopenFlags::empty(),
        false => FopenFlags::FOPEN_DIRECT_IO,
    }
}

/// Counts what is complete before anybody hears of it.
fn count(recorded: &Recorded, completed: &AtomicU64) {
    let count = recorded.disk.as_ref().map_or(0, |disk| disk.log().count());
    completed.store(count, Ordering::Release);
}
