//! Many reads and writes of one file at once: io_uring(7) with registered buffers and a registered file.
//!
//! A [`Ring`] has a fixed number of slots. Each holds at most one request, and has a buffer of its own, on a
//! page boundary, that the ring owns. A slot is free, queued or in flight; its buffer can be accessed only
//! while it is free, and that is what makes the interface safe. [`Ring::submit_and_wait`] is one system call,
//! however many requests are queued, and [`Ring::reap`] none at all, so that a caller can read the clock
//! around a submission and after the completions that it brought.
//!
//! It neither repeats a short read nor splits a long one, and it never waits when it is dropped. A request
//! that the kernel does not complete would make it wait for ever: then ring and buffers are leaked.

use io_uring::{IoUring, Submitter, opcode, squeue, types};
use rustix::io::{Errno, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Buffers begin on multiples of this, which suits direct I/O on every filesystem.
pub const ALIGNMENT: usize = 4096;

/// The maximum number of slots: what every kernel accepts as registered buffers (`UIO_MAXIOV`).
pub(crate) const DEPTH_MAX: u32 = 1024;

/// The registered file.
const FILE: types::Fixed = types::Fixed(0);

/// A request that the kernel has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Its slot, free again.
    pub slot: usize,
    /// The number of bytes moved; 0 at the end of the file.
    pub result: Result<usize>,
}

/// Requests in flight on one file.
pub struct Ring {
    /// Freed by hand: before the buffers, and only when nothing is in flight.
    ring: ManuallyDrop<IoUring>,
    buffers: Buffers,
    /// `true` if the kernel has pinned the buffers permanently.
    registered: bool,
    has_file: bool,
    /// By slot: queued or in flight.
    busy: Box<[bool]>,
    /// Queued since the last submission.
    queued: usize,
    /// Queued or in flight.
    occupied: usize,
}

impl Ring {
    /// A ring with this many slots, and a buffer of this length for each. Only the thread that creates it may
    /// use it.
    ///
    /// # Errors
    /// `ENOSYS` if the kernel has no io_uring, `EPERM` if it is forbidden (`kernel.io_uring_disabled`, a
    /// seccomp filter), `EINVAL` if the depth is 0 or above [`DEPTH_MAX`] or a buffer is longer than the
    /// kernel moves at once, `ENOMEM`.
    pub fn new(depth: u32, buffer_bytes: usize) -> Result<Self> {
        // MAX_RW_COUNT of the kernel, the longest read or write (read(2), NOTES).
        const LONGEST: usize = 0x7fff_f000;
        if depth == 0 || depth > DEPTH_MAX || buffer_bytes == 0 || buffer_bytes > LONGEST {
            return Err(Errno::INVAL);
        }
        let ring = set_up(depth)?;
        let buffers = Buffers::new(depth as usize, buffer_bytes)?;
        let mut ring = Ring {
            ring: ManuallyDrop::new(ring),
            buffers,
            registered: false,
            has_file: false,
            busy: vec![false; depth as usize].into_boxed_slice(),
            queued: 0,
            occupied: 0,
        };
        ring.registered = ring.buffers.register(&ring.ring.submitter())?;
        Ok(ring)
    }

    /// Returns the number of requests that can be in flight.
    pub fn depth(&self) -> usize {
        self.busy.len()
    }

    /// Returns whether the buffers are registered; they are not if the limit of locked memory
    /// (`RLIMIT_MEMLOCK`) forbids it, and each request then pins its own.
    pub fn registered(&self) -> bool {
        self.registered
    }

    /// Returns the number of requests that are queued or in flight.
    #[inline]
    pub fn occupied(&self) -> usize {
        self.occupied
    }

    /// Sets the file for all requests. The kernel keeps it open until the next one, or the end of the ring.
    ///
    /// # Errors
    /// `EBUSY` while requests are queued or in flight, else the kernel's error number.
    pub fn use_file(&mut self, file: BorrowedFd<'_>) -> Result<()> {
        if self.occupied > 0 {
            return Err(Errno::BUSY);
        }
        if self.has_file {
            self.ring.submitter().unregister_files().map_err(errno)?;
            self.has_file = false;
        }
        self.ring.submitter().register_files(&[file.as_raw_fd()]).map_err(errno)?;
        self.has_file = true;
        Ok(())
    }

    /// The buffer of a free slot.
    ///
    /// # Panics
    /// When the slot is not free.
    #[inline]
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.busy[slot], "the buffer of a request belongs to the kernel");
        // SAFETY: the memory is ours, initialised, and lives as long as the ring, which is borrowed for as
        // long as the slice lives. No request is under way in this slot, so the kernel neither reads nor
        // writes it.
        unsafe { std::slice::from_raw_parts_mut(self.buffers.of(slot), self.buffers.length) }
    }

    /// Queues a read of `length` bytes from `position` on into the buffer of a free slot.
    ///
    /// # Panics
    /// When the slot is not free, its buffer is shorter, or no file was given.
    #[inline]
    pub fn read(&mut self, slot: usize, position: u64, length: usize) {
        let (address, bytes) = (self.occupy(slot, length), length as u32);
        let entry = if self.registered {
            opcode::ReadFixed::new(FILE, address, bytes, slot as u16).offset(position).build()
        } else {
            opcode::Read::new(FILE, address, bytes).offset(position).build()
        };
        self.queue(slot, &entry);
    }

    /// Queues a write of the first `length` bytes of the buffer of a free slot, to `position`.
    ///
    /// # Panics
    /// When the slot is not free, its buffer is shorter, or no file was given.
    #[inline]
    pub fn write(&mut self, slot: usize, position: u64, length: usize) {
        let (address, bytes) = (self.occupy(slot, length), length as u32);
        let entry = if self.registered {
            opcode::WriteFixed::new(FILE, address, bytes, slot as u16).offset(position).build()
        } else {
            opcode::Write::new(FILE, address, bytes).offset(position).build()
        };
        self.queue(slot, &entry);
    }

    /// Submits everything that is queued, and waits until `want` requests have completed, or as many as are
    /// in flight. One system call, unless the kernel accepts only part of the queue; none if nothing is
    /// queued and enough have completed already.
    ///
    /// # Errors
    /// The kernel's error number for the submission as a whole; errors of requests come with their
    /// completions.
    #[inline]
    pub fn submit_and_wait(&mut self, want: usize) -> Result<()> {
        let want = want.min(self.occupied);
        while self.queued > 0 || self.ended() < want {
            match self.ring.submit_and_wait(want) {
                Ok(taken) => self.queued = self.queued.saturating_sub(taken),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(())
    }

    /// Returns the number of completed requests that wait for [`Ring::reap`]. Makes no system call.
    #[inline]
    pub fn ended(&mut self) -> usize {
        self.ring.completion().len()
    }

    /// The next completed request. No system call.
    #[inline]
    pub fn reap(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let slot = entry.user_data() as usize;
        self.busy[slot] = false;
        self.occupied -= 1;
        let result = match entry.result() {
            moved @ 0.. => Ok(moved as usize),
            error => Err(Errno::from_raw_os_error(-error)),
        };
        Some(Completion { slot, result })
    }

    #[inline]
    fn occupy(&mut self, slot: usize, length: usize) -> *mut u8 {
        assert!(!self.busy[slot], "a slot holds one request");
        assert!(length <= self.buffers.length && self.has_file, "a request that fits, for a file");
        self.busy[slot] = true;
        self.occupied += 1;
        self.buffers.of(slot)
    }

    #[inline]
    fn queue(&mut self, slot: usize, entry: &squeue::Entry) {
        let entry = entry.clone().user_data(slot as u64);
        // SAFETY: the buffer belongs to the ring and is as long as the request asks for. The slot is marked
        // as busy, so that nobody gets a reference to the buffer before the request is reaped; and the
        // buffers are freed only when nothing is queued or in flight (`drop`).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "there are as many entries as slots");
        self.queued += 1;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.occupied > 0 {
            // The kernel may still write into the buffers. Closing the ring would not stop that, and waiting
            // may take for ever: all of it stays until the process exits.
            return;
        }
        // SAFETY: the ring is dropped here and nowhere else, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
        self.buffers.free();
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("depth", &self.depth())
            .field("buffer_bytes", &self.buffers.length)
            .field("registered", &self.registered)
            .field("occupied", &self.occupied)
            .finish_non_exhaustive()
    }
}

/// A ring with the cheapest flags on this kernel: completions are delivered when the single thread that uses
/// the ring asks for them (Linux 6.1), or at least without an interrupt to it (5.19); io_uring_setup(2).
pub(crate) fn set_up(depth: u32) -> Result<IoUring> {
    let deferred = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(depth);
    let cooperative = || IoUring::builder().setup_coop_taskrun().build(depth);
    let unknown = |error: &std::io::Error| error.raw_os_error() == Some(libc::EINVAL);
    let ring = match deferred {
        Err(error) if unknown(&error) => match cooperative() {
            Err(error) if unknown(&error) => IoUring::new(depth),
            ring => ring,
        },
        ring => ring,
    };
    ring.map_err(errno)
}

pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// One buffer per slot, in one piece of memory. A raw pointer, because the kernel writes there while nobody
/// borrows the owner. Freed by hand.
struct Buffers {
    memory: NonNull<u8>,
    layout: Layout,
    count: usize,
    length: usize,
    stride: usize,
}

// SAFETY: the memory has one owner, which moves with this value.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(count: usize, length: usize) -> Result<Self> {
        let stride = length.next_multiple_of(ALIGNMENT);
        let bytes = stride.checked_mul(count).ok_or(Errno::NOMEM)?;
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| Errno::NOMEM)?;
        // SAFETY: the layout has a size above 0: `count` and `length` are at least 1.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        Ok(Buffers { memory, layout, count, length, stride })
    }

    #[inline]
    fn of(&self, slot: usize) -> *mut u8 {
        debug_assert!(slot < self.count);
        self.memory.as_ptr().wrapping_add(slot * self.stride)
    }

    /// Makes the kernel pin them. `false`: it may not lock that much memory.
    fn register(&self, submitter: &Submitter<'_>) -> Result<bool> {
        let each = |slot| libc::iovec { iov_base: self.of(slot).cast(), iov_len: self.length };
        let vectors: Vec<libc::iovec> = (0..self.count).map(each).collect();
        // SAFETY: the memory is ours and outlives the ring: it is freed after the ring, or never.
        match unsafe { submitter.register_buffers(&vectors) }.map_err(errno) {
            Ok(()) => Ok(true),
            Err(Errno::NOMEM | Errno::PERM) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn free(&mut self) {
        // SAFETY: the memory came from the allocator with this layout, and the one owner frees it as its last
        // act.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use std::fs::File;
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::Path;

    const BLOCK: usize = 4096;

    fn content(block: usize) -> Vec<u8> {
        (0..BLOCK).map(|byte| (byte * 31 + block * 7919) as u8).collect()
    }

    fn open(path: &Path, flags: OFlags) -> OwnedFd {
        rustix::fs::open(path, flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR).unwrap()
    }

    /// Writes and reads blocks in an unusual order, as many at once as there are slots.
    fn there_and_back(path: &Path, flags: OFlags) {
        const BLOCKS: usize = 50;
        let mut ring = Ring::new(8, BLOCK).unwrap();
        ring.use_file(open(path, OFlags::RDWR | flags).as_fd()).unwrap();
        for writing in [true, false] {
            let mut of_slot = [0; 8];
            let (mut started, mut ended) = (0, 0);
            let mut free: Vec<usize> = (0..8).collect();
            while ended < BLOCKS {
                while let Some(slot) = free.pop_if(|_| started < BLOCKS) {
                    let block = started * 37 % BLOCKS;
                    of_slot[slot] = block;
                    if writing {
                        ring.buffer(slot).copy_from_slice(&content(block));
                        ring.write(slot, (block * BLOCK) as u64, BLOCK);
                    } else {
                        ring.read(slot, (block * BLOCK) as u64, BLOCK);
                    }
                    started += 1;
                }
                ring.submit_and_wait(1).unwrap();
                while let Some(Completion { slot, result }) = ring.reap() {
                    assert_eq!(result, Ok(BLOCK));
                    if !writing {
                        assert!(ring.buffer(slot) == content(of_slot[slot]), "block {}", of_slot[slot]);
                    }
                    free.push(slot);
                    ended += 1;
                }
            }
            assert_eq!(ring.occupied(), 0);
        }
        let whole: Vec<u8> = (0..BLOCKS).flat_map(content).collect();
        assert!(std::fs::read(path).unwrap() == whole);
    }

    #[test]
    fn blocks_come_back_as_they_went() {
        let directory = tempfile::tempdir().unwrap();
        there_and_back(&directory.path().join("file"), OFlags::empty());
    }

    #[test]
    fn blocks_come_back_past_the_page_cache() {
        let directory = tempfile::tempdir().unwrap();
        there_and_back(&directory.path().join("file"), OFlags::DIRECT);
    }

    #[test]
    fn requests_end_one_by_one_and_errors_are_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; BLOCK + 100]).unwrap();
        let mut ring = Ring::new(4, BLOCK).unwrap();
        assert!(ring.reap().is_none());
        // Nothing in flight, nothing to wait for.
        ring.submit_and_wait(4).unwrap();
        // A file for reading only, and a block that is only begun, and one after the end.
        ring.use_file(open(&path, OFlags::RDONLY).as_fd()).unwrap();
        ring.read(0, BLOCK as u64, BLOCK);
        ring.read(1, 2 * BLOCK as u64, BLOCK);
        ring.write(2, 0, BLOCK);
        ring.submit_and_wait(3).unwrap();
        assert_eq!(ring.ended(), 3);
        let mut ended: Vec<_> = std::iter::from_fn(|| ring.reap()).collect();
        ended.sort_by_key(|completion| completion.slot);
        let results: Vec<_> = ended.iter().map(|completion| completion.result).collect();
        assert_eq!(results, [Ok(100), Ok(0), Err(Errno::BADF)]);
    }

    #[test]
    fn what_the_kernel_holds_stays_in_memory() {
        // So large that freeing it would unmap it, whatever the allocator has done before (mallopt(3)).
        const LENGTH: usize = 33 << 20;
        // A read from an empty pipe does not complete.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut ring = Ring::new(1, LENGTH).unwrap();
        ring.use_file(reader.as_fd()).unwrap();
        ring.read(0, u64::MAX, LENGTH);
        ring.submit_and_wait(0).unwrap();
        assert_eq!(ring.occupied(), 1);
        assert_eq!(ring.use_file(reader.as_fd()), Err(Errno::BUSY));
        let address = ring.buffers.of(0).cast_const();
        drop(ring);
        let mapped = |address: *const u8| {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(|line| {
                let (from, rest) = line.split_once('-').unwrap();
                let to = rest.split_once(' ').unwrap().0;
                let range = usize::from_str_radix(from, 16).unwrap()..usize::from_str_radix(to, 16).unwrap();
                range.contains(&address.addr())
            })
        };
        assert!(mapped(address));
        drop(writer);
    }

    #[test]
    #[should_panic(expected = "belongs to the kernel")]
    fn a_buffer_in_flight_is_out_of_reach() {
        let mut ring = Ring::new(1, BLOCK).unwrap();
        ring.use_file(File::open("/dev/zero").unwrap().as_fd()).unwrap();
        ring.read(0, 0, BLOCK);
        ring.buffer(0)[0] = 1;
    }

    #[test]
    fn the_time_of_whoever_does_the_requests_is_the_askers() {
        // Threads of the kernel write files in memory: they cannot be written without possibly waiting.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = open(&directory.path().join("file"), OFlags::RDWR);
        const LENGTH: usize = 16 << 20;
        let mut ring = Ring::new(1, LENGTH).unwrap();
        ring.use_file(file.as_fd()).unwrap();
        let asker = crate::thread::id();
        let own = || {
            let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            stat.split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        let time = || crate::thread::cpu_time(asker, &crate::thread::Helpers::look()).unwrap();
        let (mut before, mut alone) = (time(), own());
        for round in 0..10 {
            if round == 1 {
                // By now the thread exists.
                (before, alone) = (time(), own());
            }
            ring.write(0, 0, LENGTH);
            ring.submit_and_wait(1).unwrap();
            assert_eq!(ring.reap().map(|completion| completion.result), Some(Ok(LENGTH)));
        }
        let (after, alone) = (time(), own() - alone);
        let all = after.0 + after.1 - before.0 - before.1;
        // Nobody copies 144 MiB in 2 ms.
        assert!(all > alone + 2_000_000, "{all} ns in all, {alone} ns of the asker");
    }

    #[test]
    fn impossible_rings_are_refused() {
        for (depth, length) in [(0, BLOCK), (DEPTH_MAX + 1, BLOCK), (1, 0), (1, 1 << 31)] {
            assert!(matches!(Ring::new(depth, length), Err(Errno::INVAL)), "{depth} {length}");
        }
        assert_eq!(Ring::new(DEPTH_MAX, 512).unwrap().depth(), DEPTH_MAX as usize);
    }
}
