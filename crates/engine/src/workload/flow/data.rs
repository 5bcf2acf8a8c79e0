//! Steps that move data: between memory and files, and from file to file.

use super::worker::{Handle, Worker, nothing};
use crate::content::FileIdentity;
use crate::meter::{Halt, Meter, timed};
use fsdyno_core::workload::StepIndex;
use fsdyno_sys::mapping::Mapping;
use rand::RngExt;
use rustix::fd::BorrowedFd;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

/// Bytes that a step writes.
#[derive(Clone, Copy)]
struct Piece {
    /// Where in the file.
    position: u64,
    length: usize,
    /// Of a verified file.
    version: u32,
    /// The bytes if nothing is verified: those of this file from a position on.
    plain: (FileIdentity, u64),
    /// `true` if bytes written behind the end of the file make it longer.
    extends: bool,
}

impl Worker {
    /// Reads from the beginning to the end.
    pub(super) fn read_whole(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: usize,
        [seek, read]: [StepIndex; 2],
    ) -> Result<(), Halt> {
        self.rewind(meter, handle, seek)?;
        while self.read(meter, handle, size, read)? > 0 {}
        Ok(())
    }

    /// Goes on reading where the descriptor is; at the end of the file, starts again.
    pub(super) fn read_next(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: usize,
        [seek, read]: [StepIndex; 2],
    ) -> Result<(), Halt> {
        if self.read(meter, handle, size, read)? == 0 {
            self.rewind(meter, handle, seek)?;
            self.read(meter, handle, size, read)?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn read_random(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: usize,
        read: StepIndex,
    ) -> Result<(), Halt> {
        let position = self.position(handle, size);
        let pread = |file: BorrowedFd<'_>, buffer: &mut [u8]| rustix::io::pread(file, buffer, position);
        self.get(meter, handle, (position, size), read, pread).map(drop)
    }

    /// Reads from where the descriptor is; returns how many bytes.
    #[inline]
    fn read(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: usize,
        read: StepIndex,
    ) -> Result<usize, Halt> {
        let opened = &mut self.handles[handle];
        opened.is_at_start = false;
        let position = opened.position;
        let done =
            self.get(meter, handle, (position, size), read, |file, buffer| rustix::io::read(file, buffer))?;
        self.handles[handle].position += done as u64;
        Ok(done)
    }

    /// Reads at a position, and compares what was read.
    #[inline]
    fn get(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        (position, size): (u64, usize),
        step: StepIndex,
        call: impl FnOnce(BorrowedFd<'_>, &mut [u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Halt> {
        let Worker { handles, sets, buffer, known, .. } = self;
        let (kept, (file, object)) = (handles[handle].kept, handles[handle].object(sets)?);
        if let Some(known) = known {
            known.look(kept, position, size);
        }
        let buffer = &mut buffer.as_mut_slice()[..size];
        let read = timed(meter, step, object, count, || call(file, &mut *buffer))?;
        if let Some(known) = known {
            known.check(kept, position, size, &buffer[..read]).map_err(|problem| object.wrong(problem))?;
        }
        Ok(read)
    }

    /// Writes as many bytes as the set says, from the beginning.
    pub(super) fn write_whole(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: usize,
        [seek, write]: [StepIndex; 2],
    ) -> Result<(), Halt> {
        self.rewind(meter, handle, seek)?;
        let Handle { set, of, size: whole, .. } = self.handles[handle];
        let identity = self.sets[set].identity(self.number, of);
        let version = self.version(handle);
        let mut done = 0;
        while done < whole {
            let length = (whole - done).min(size as u64) as usize;
            done += self.write(meter, handle, (length, version, (identity, done)), write)?;
        }
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
            self.handles[handle].position = end;
        }
        if end >= limit {
            self.truncate(meter, handle, 0, truncate)?;
            end = 0;
            if !appends {
                self.on_file(meter, handle, seek, |file| {
                    rustix::fs::seek(file, SeekFrom::Start(0)).map(drop)
                })?;
                self.handles[handle].position = 0;
            }
        }
        let identity = self.fresh();
        let version = self.version(handle);
        let mut done = 0;
        while done < length as u64 {
            let rest = length - done as usize;
            done += self.write(meter, handle, (rest, version, (identity, done)), write)?;
        }
        self.handles[handle].next = end + done;
        Ok(())
    }

    /// The version of what is written next from where the descriptor is.
    fn version(&mut self, handle: usize) -> u32 {
        let (kept, position) = (self.handles[handle].kept, self.end_or_position(handle));
        self.known.as_mut().map_or(0, |known| known.version(kept, position))
    }

    /// Where a descriptor writes: at the end if it was opened so, else where it is.
    fn end_or_position(&self, handle: usize) -> u64 {
        let Handle { flags, kept, position, .. } = self.handles[handle];
        let end = || self.known.as_ref().and_then(|known| known.size(kept));
        if flags.contains(OFlags::APPEND) { end().unwrap_or(position) } else { position }
    }

    /// Writes a number of bytes of a version to where the descriptor is; returns how many.
    #[inline]
    fn write(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        (length, version, plain): (usize, u32, (FileIdentity, u64)),
        write: StepIndex,
    ) -> Result<u64, Halt> {
        let position = self.end_or_position(handle);
        self.handles[handle].is_at_start = false;
        let piece = Piece { position, length, version, plain, extends: true };
        let written =
            self.put(meter, handle, piece, write, |file, bytes| some(rustix::io::write(file, bytes)))?;
        self.handles[handle].position = position + written;
        Ok(written)
    }

    /// Writes over a part of a file.
    #[inline]
    pub(super) fn overwrite(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        (size, in_order): (usize, bool),
        write: StepIndex,
    ) -> Result<(), Halt> {
        let position = if in_order { self.next(handle, size) } else { self.position(handle, size) };
        let piece = self.piece_at(handle, position, size);
        self.put(meter, handle, piece, write, |file, bytes| some(rustix::io::pwrite(file, bytes, position)))
            .map(drop)
    }

    fn piece_at(&mut self, handle: usize, position: u64, length: usize) -> Piece {
        let (identity, kept) = (self.fresh(), self.handles[handle].kept);
        let version = self.known.as_mut().map_or(0, |known| known.version(kept, position));
        Piece { position, length, version, plain: (identity, 0), extends: true }
    }

    /// Writes bytes, and notes what was written.
    #[inline]
    fn put(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        piece: Piece,
        step: StepIndex,
        call: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<usize, Errno>,
    ) -> Result<u64, Halt> {
        let Piece { position, length, version, plain: (identity, from), extends } = piece;
        let Worker { handles, sets, content, known, .. } = self;
        let (kept, (file, object)) = (handles[handle].kept, handles[handle].object(sets)?);
        let mut known = known.as_deref_mut();
        let bytes = match (content, &mut known) {
            (None, _) => &[][..],
            (Some(content), None) => content.bytes(identity, from, length),
            (Some(content), Some(known)) => known.begin(kept, content, version, position, length),
        };
        let done = |written: &usize| {
            if let Some(known) = known {
                let room = if extends { u64::MAX } else { known.room(kept, position) };
                known.wrote(kept, version, position, room.min(*written as u64));
            }
            *written as u64
        };
        timed(meter, step, object, done, || call(file, bytes)).map(|written| written as u64)
    }

    pub(super) fn map_and_read(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: usize,
        [map, read, unmap]: [StepIndex; 3],
    ) -> Result<(), Halt> {
        let position = self.position(handle, size);
        let mapping = self.map(meter, handle, false, map)?;
        let Worker { handles, sets, buffer, known, source, .. } = self;
        let (kept, (_, object)) = (handles[handle].kept, handles[handle].object(sets)?);
        if let Some(known) = known {
            known.look(kept, position, size);
        }
        timed(meter, read, object, |()| size as u64, || mapping.load(position as usize, size))?;
        if let (Some(known), Some(source)) = (known, source) {
            let buffer = &mut buffer.as_mut_slice()[..size];
            source.copied(buffer).map_err(|errno| meter.failed(read, object, errno, meter.ticks()))?;
            known.check(kept, position, size, buffer).map_err(|problem| object.wrong(problem))?;
        }
        timed(meter, unmap, object, nothing, || mapping.unmap())
    }

    pub(super) fn map_and_write(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: usize,
        ([map, write, unmap], sync): ([StepIndex; 3], Option<StepIndex>),
    ) -> Result<(), Halt> {
        let position = self.position(handle, size);
        let mut mapping = self.map(meter, handle, true, map)?;
        let piece = Piece { extends: false, ..self.piece_at(handle, position, size) };
        self.put(meter, handle, piece, write, |_, bytes| {
            mapping.store(position as usize, bytes).map(|()| bytes.len())
        })?;
        let (_, object) = self.handles[handle].object(&self.sets)?;
        if let Some(sync) = sync {
            timed(meter, sync, object, nothing, || mapping.sync(position as usize, size))?;
        }
        timed(meter, unmap, object, nothing, || mapping.unmap())
    }

    fn map(
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
        [from, to]: [usize; 2],
        step: StepIndex,
    ) -> Result<(), Halt> {
        let Worker { handles, sets, known, .. } = self;
        let [source, target] = [&handles[from], &handles[to]];
        let kept = [source.kept, target.kept];
        let ((source, _), (target, object)) = (source.object(sets)?, target.object(sets)?);
        let (mut read, mut written) = (0, 0);
        const ALL: usize = 1 << 30;
        loop {
            let position = read;
            let done = |copied: &usize| {
                if let Some(known) = known {
                    known.copied(kept, position, *copied as u64);
                }
                *copied as u64
            };
            let copied = timed(meter, step, object, done, || {
                rustix::fs::copy_file_range(source, Some(&mut read), target, Some(&mut written), ALL)
            })?;
            if copied == 0 {
                return Ok(());
            }
        }
    }

    /// Sets the size.
    pub(super) fn truncate(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: u64,
        step: StepIndex,
    ) -> Result<(), Halt> {
        if let Some(known) = &mut self.known {
            known.empties(self.handles[handle].kept);
        }
        let call = |file: BorrowedFd<'_>| rustix::fs::ftruncate(file, size);
        self.on_noted_file(meter, handle, step, call, |known, kept| known.resized(kept, size))
    }

    /// Allocates bytes from the beginning.
    pub(super) fn allocate(
        &mut self,
        meter: &mut Meter,
        handle: usize,
        size: u64,
        step: StepIndex,
    ) -> Result<(), Halt> {
        let flags = rustix::fs::FallocateFlags::empty();
        let call = |file: BorrowedFd<'_>| rustix::fs::fallocate(file, flags, 0, size);
        self.on_noted_file(meter, handle, step, call, |known, kept| known.extended(kept, size))
    }

    /// A random multiple of a size at which that many bytes are in the file.
    #[inline]
    fn position(&mut self, handle: usize, size: usize) -> u64 {
        let blocks = (self.handles[handle].size / size as u64).max(1);
        self.random.random_range(0..blocks) * size as u64
    }

    /// The position after the last one, or the beginning.
    #[inline]
    fn next(&mut self, handle: usize, size: usize) -> u64 {
        let handle = &mut self.handles[handle];
        let position = if handle.next + size as u64 > handle.size { 0 } else { handle.next };
        handle.next = position + size as u64;
        position
    }

    /// Goes to the beginning of a file if it is not there.
    fn rewind(&mut self, meter: &mut Meter, handle: usize, seek: StepIndex) -> Result<(), Halt> {
        if !self.handles[handle].is_at_start {
            self.on_file(meter, handle, seek, |file| rustix::fs::seek(file, SeekFrom::Start(0)).map(drop))?;
        }
        let handle = &mut self.handles[handle];
        (handle.is_at_start, handle.position) = (false, 0);
        Ok(())
    }
}

fn count(moved: &usize) -> u64 {
    *moved as u64
}

/// No progress without an error would loop forever.
#[inline]
fn some(written: Result<usize, Errno>) -> Result<usize, Errno> {
    if written == Ok(0) { Err(Errno::IO) } else { written }
}
