//! A plain loop over io_uring, to compare the engine with in benchmarks. Built only for them.
//!
//! Registered buffers and file, and the same flags as [`crate::ring`], directly on the library: no slot is
//! managed, no request is timed, nothing is recorded.

use crate::ring::{ALIGNMENT, errno, set_up};
use io_uring::{IoUring, opcode, types};
use rustix::io::{Errno, Result};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Parameters of one run of the loop.
#[derive(Debug, Clone, Copy)]
pub struct Reads {
    /// Requests in flight.
    pub depth: u32,
    /// Completions to wait for, each time.
    pub want: usize,
    /// When slots that are free again are submitted.
    pub hand_on: HandOn,
    /// Bytes of each.
    pub length: usize,
    /// The total number.
    pub count: u64,
}

/// When slots that are free again are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOn {
    /// All of them together, with the next wait.
    Together,
    /// The first alone, then so many with one system call; the last with the next wait.
    Groups(usize),
    /// Each separately.
    Each,
}

/// Such a loop, ready to start on the thread that created it.
pub struct ReadyLoop {
    reads: Reads,
    ring: IoUring,
    /// Of the first buffer.
    address: *mut u8,
    stride: usize,
}

impl Reads {
    /// Makes ring and buffers, and has the kernel register them and the file.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn ready(self, file: BorrowedFd<'_>) -> Result<ReadyLoop> {
        let Reads { depth, length, .. } = self;
        let stride = length.next_multiple_of(ALIGNMENT);
        // Never freed: nothing here waits for what is in flight when a request fails.
        let memory: &'static mut [u8] = vec![0; stride * depth as usize + ALIGNMENT].leak();
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        let address = memory[begin..].as_mut_ptr();
        let ring = set_up(depth)?;
        let buffer = |slot: usize| address.wrapping_add(slot * stride);
        let vectors: Vec<libc::iovec> = (0..depth as usize)
            .map(|slot| libc::iovec { iov_base: buffer(slot).cast(), iov_len: length })
            .collect();
        // SAFETY: the memory was leaked above, so that it lives on whatever happens.
        unsafe { ring.submitter().register_buffers(&vectors) }.map_err(errno)?;
        ring.submitter().register_files(&[file.as_raw_fd()]).map_err(errno)?;
        Ok(ReadyLoop { reads: self, ring, address, stride })
    }
}

impl ReadyLoop {
    /// Reads at the positions that `next` gives, always `depth` at once.
    ///
    /// # Errors
    /// The kernel's error number; `EIO` for a short read.
    pub fn run(self, mut next: impl FnMut() -> u64) -> Result<()> {
        let ReadyLoop { reads, mut ring, address, stride } = self;
        let Reads { depth, want, hand_on, length, count } = reads;
        let entry = |slot: usize, position: u64| {
            let buffer = address.wrapping_add(slot * stride);
            opcode::ReadFixed::new(types::Fixed(0), buffer, length as u32, slot as u16)
                .offset(position)
                .build()
                .user_data(slot as u64)
        };
        let (mut started, mut ended) = (0, 0);
        while started < count.min(u64::from(depth)) {
            let entry = entry(started as usize, next());
            // SAFETY: the buffer is registered and lives on; each slot has one request at a time.
            unsafe { ring.submission().push(&entry) }.map_err(|_| Errno::BUSY)?;
            started += 1;
        }
        while ended < count {
            let in_flight = (started - ended) as usize;
            ring.submit_and_wait(want.min(in_flight)).map_err(errno)?;
            let mut submit_at = match hand_on {
                HandOn::Together => usize::MAX,
                HandOn::Groups(_) | HandOn::Each => 1,
            };
            loop {
                let Some(completed) = ring.completion().next() else { break };
                if completed.result() as usize != length {
                    return Err(Errno::IO);
                }
                ended += 1;
                if started < count {
                    let entry = entry(completed.user_data() as usize, next());
                    // SAFETY: as above; the request that stood in this slot has ended.
                    unsafe { ring.submission().push(&entry) }.map_err(|_| Errno::BUSY)?;
                    started += 1;
                    if ring.submission().len() >= submit_at {
                        ring.submit().map_err(errno)?;
                        if let HandOn::Groups(size) = hand_on {
                            submit_at = size;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
