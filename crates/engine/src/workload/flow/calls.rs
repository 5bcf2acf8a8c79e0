//! Steps that take more than one descriptor, or a name, or several system calls.

use super::knowledge::{FileKnowledge, Knowledge, SetName};
use super::worker::{Ended, Worker, nothing, object};
use crate::meter::{Halt, Meter, timed};
use crate::plant::DIRECTORY;
use fsdyno_core::workload::{Choice, StepIndex};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, RawDir};
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
        self.two_names(
            meter,
            [set, to],
            [name, target],
            step,
            |from, old, to, new| rustix::fs::renameat(from, old, to, new),
            Knowledge::renamed,
        )?;
        self.pools[set].remove(name);
        if over {
            self.pools[to].replace(target);
        }
        self.last[to] = target;
        Ok(Ended::Whole)
    }

    /// A system call with two names, and what a verified flow notes afterwards.
    #[inline]
    pub(super) fn two_names(
        &mut self,
        meter: &mut Meter,
        [set, to]: [usize; 2],
        [name, target]: [u32; 2],
        step: StepIndex,
        call: impl FnOnce(&OwnedFd, &CStr, &OwnedFd, &CStr) -> Result<(), Errno>,
        note: impl FnOnce(&mut Knowledge, SetName, SetName),
    ) -> Result<(), Halt> {
        let Worker { sets, number, path, other, directories, known, .. } = self;
        sets[set].path(*number, name, path);
        sets[to].path(*number, target, other);
        let (from, object) = (&directories[set], object(&sets[set], path));
        let (into, other) = (&directories[to], other.as_c_str());
        let done = |(): &()| {
            if let Some(known) = known {
                note(known, [set, name as usize], [to, target as usize]);
            }
            0
        };
        timed(meter, step, object, done, || call(from, object.name, into, other))
    }

    /// A system call with a name, and what a verified flow notes afterwards.
    #[inline]
    pub(super) fn on_name(
        &mut self,
        meter: &mut Meter,
        [set, name]: [usize; 2],
        step: StepIndex,
        call: impl FnOnce(&OwnedFd, &CStr) -> Result<(), Errno>,
        note: impl FnOnce(&mut Knowledge, SetName),
    ) -> Result<(), Halt> {
        let Worker { sets, number, path, directories, known, .. } = self;
        sets[set].path(*number, name as u32, path);
        let (directory, object) = (&directories[set], object(&sets[set], path));
        let done = |(): &()| {
            if let Some(known) = known {
                note(known, [set, name]);
            }
            0
        };
        timed(meter, step, object, done, || call(directory, object.name))
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
        self.on_noted_file(meter, handle, step, call, |_, _| ())
    }

    /// The same, and what a verified flow notes afterwards.
    #[inline]
    pub(super) fn on_noted_file(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        step: StepIndex,
        call: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
        note: impl FnOnce(&mut Knowledge, FileKnowledge),
    ) -> Result<(), Halt> {
        let Worker { handles, sets, known, .. } = self;
        let (kept, (file, object)) = (handles[handle].kept, handles[handle].object(sets)?);
        let done = |(): &()| {
            if let Some(known) = known {
                note(known, kept);
            }
            0
        };
        timed(meter, step, object, done, || call(file))
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
}
