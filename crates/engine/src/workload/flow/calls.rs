//! Steps that take more than one descriptor, or a name, or several system calls.

use super::worker::{Ended, Worker, nothing, object};
use crate::meter::{Halt, Meter, timed};
use crate::plant::DIRECTORY;
use fsdyno_core::workload::{Choice, StepIndex};
use fsdyno_sys::mapping::Mapping;
use rand::RngExt;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::CStr;

impl Worker {
    pub(super) fn rename(
        &mut self,
        meter: &mut Meter,
        [set, to]: [usize; 2],
        choose: Choice,
        over: bool,
        step: StepIndex,
    ) -> Result<Ended, Halt> {
        let least = if over && set == to { 2 } else { 1 };
        if self.pools[to].existing() < least && over {
            return Ok(Ended::Short);
        }
        let Some(name) = self.choose(set, choose) else { return Ok(Ended::Short) };
        let target = loop {
            let target = match over {
                true => self.pools[to].choose(Choice::Uniform, &mut self.random),
                false => self.pools[to].add(false, &mut self.random),
            };
            match target {
                Some(target) if set == to && target == name => {}
                Some(target) => break target,
                None => return Ok(Ended::Short),
            }
        };
        self.two_names(meter, [set, to], [name, target], step, |from, old, to, new| {
            rustix::fs::renameat(from, old, to, new)
        })?;
        self.pools[set].remove(name);
        if over {
            self.pools[to].replace(target);
        }
        self.last[to] = target;
        Ok(Ended::Whole)
    }

    /// A system call with two names.
    #[inline]
    pub(super) fn two_names(
        &mut self,
        meter: &mut Meter,
        [set, to]: [usize; 2],
        [name, target]: [u32; 2],
        step: StepIndex,
        call: impl FnOnce(&OwnedFd, &CStr, &OwnedFd, &CStr) -> Result<(), Errno>,
    ) -> Result<(), Halt> {
        self.sets[set].path(self.number, name, &mut self.path);
        self.sets[to].path(self.number, target, &mut self.other);
        let (from, object) = (&self.directories[set], object(&self.sets[set], &self.path));
        let (into, other) = (&self.directories[to], self.other.as_c_str());
        timed(meter, step, object, nothing, || call(from, object.name, into, other))
    }

    /// A system call with a name.
    #[inline]
    pub(super) fn on_name(
        &mut self,
        meter: &mut Meter,
        set: usize,
        name: u32,
        step: StepIndex,
        call: impl FnOnce(&OwnedFd, &CStr) -> Result<(), Errno>,
    ) -> Result<(), Halt> {
        self.sets[set].path(self.number, name, &mut self.path);
        let (directory, object) = (&self.directories[set], object(&self.sets[set], &self.path));
        timed(meter, step, object, nothing, || call(directory, object.name))
    }

    /// A system call with an open file.
    #[inline]
    pub(super) fn on_file(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        step: StepIndex,
        call: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<(), Halt> {
        let (file, object) = self.handles[handle].object(&self.sets)?;
        timed(meter, step, object, nothing, || call(file))
    }

    /// Opens the directory of a file, reads all of its entries and closes it.
    pub(super) fn list(
        &mut self,
        meter: &mut Meter,
        set: usize,
        name: u32,
        [open, read, close]: [StepIndex; 3],
    ) -> Result<(), Halt> {
        self.sets[set].path(self.number, name, &mut self.path);
        self.path.leave();
        let (directory, object) = (&self.directories[set], object(&self.sets[set], &self.path));
        let opened = timed(meter, open, object, nothing, || {
            rustix::fs::openat(directory, object.name, DIRECTORY, Mode::empty())
        })?;
        let mut entries = RawDir::new(&opened, &mut self.entries);
        // Only the first entry of each buffer takes a system call.
        while let Some(()) =
            timed(meter, read, object, nothing, || Ok(entries.next().transpose()?.map(drop)))?
        {
            while !entries.is_buffer_empty() {
                entries.next();
            }
        }
        timed(meter, close, object, nothing, || fsdyno_sys::thread::close(opened))
    }

    pub(super) fn map(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        writes: bool,
        map: StepIndex,
    ) -> Result<Mapping, Halt> {
        let length = self.handles[handle].size as usize;
        let source = self.source.clone();
        let (file, object) = self.handles[handle].object(&self.sets)?;
        timed(meter, map, object, nothing, || {
            Mapping::with(file, length, writes, source.ok_or(Errno::INVAL)?)
        })
    }

    /// Copies all of a file to the beginning of another one.
    pub(super) fn copy(
        &mut self,
        meter: &mut Meter,
        from: usize,
        to: usize,
        step: StepIndex,
    ) -> Result<(), Halt> {
        let ((source, _), (target, object)) =
            (self.handles[from].object(&self.sets)?, self.handles[to].object(&self.sets)?);
        let (mut read, mut written) = (0, 0);
        let bytes = |copied: &usize| *copied as u64;
        const ALL: usize = 1 << 30;
        while timed(meter, step, object, bytes, || {
            rustix::fs::copy_file_range(source, Some(&mut read), target, Some(&mut written), ALL)
        })? > 0
        {}
        Ok(())
    }

    /// Finds the end, unless the descriptor writes there anyway, and writes. A file that has reached the
    /// limit of its set is emptied before, as a log that is rotated.
    pub(super) fn append(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        [low, high]: [usize; 2],
        [seek, write, truncate]: [StepIndex; 3],
    ) -> Result<(), Halt> {
        let length = if low == high { high } else { self.random.random_range(low..=high) };
        let limit = self.sets[self.handles[handle].set].files.limit.0;
        let appends = self.handles[handle].flags.contains(OFlags::APPEND);
        let mut end = self.handles[handle].next;
        if !appends {
            let (file, object) = self.handles[handle].object(&self.sets)?;
            end = timed(meter, seek, object, nothing, || rustix::fs::seek(file, SeekFrom::End(0)))?;
        }
        if end >= limit {
            self.on_file(meter, handle, truncate, |file| rustix::fs::ftruncate(file, 0))?;
            end = 0;
            if !appends {
                self.on_file(meter, handle, seek, |file| {
                    rustix::fs::seek(file, SeekFrom::Start(0)).map(drop)
                })?;
            }
        }
        let identity = self.fresh();
        let mut done = 0;
        while done < length as u64 {
            done += self.write(meter, handle, (identity, done), length - done as usize, write)?;
        }
        self.handles[handle].next = end + done;
        Ok(())
    }
}
