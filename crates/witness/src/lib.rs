//! The kernel as a witness of what an engine reports.
//!
//! A [`Listener`] records the kernel's own tracepoints while engines work: the entry and exit of system calls
//! (`raw_syscalls`), submissions to rings (`io_uring`) and completed requests of block devices (`block`). A
//! [`Testimony`] puts them beside a trial's figures. They are read from ftrace's buffers, in instances of our
//! own: what others trace is not touched, and nothing is mounted where they would see it. perf_event_open(2)
//! would be the other way; its tracepoints cost twice as much, and most of that when an operation has just
//! taken the processor's caches, so that it looks like a part of the operation.
//!
//! Both sides use `CLOCK_MONOTONIC`, but the engine's clock is read before the system call is entered and
//! after it has returned. So the kernel cannot tell exactly which operations started inside a window, but it
//! can bound their number: a thread reads the clock after its previous call has returned and before the next
//! one is entered. At most one operation of each thread is in doubt at each edge of a window, or one batch
//! where a ring is used. Within these bounds, counts and bytes must agree exactly.

mod calls;
mod listener;
mod page;
mod testimony;
mod tracepoint;

pub use listener::{Listener, Overheard};
pub use testimony::{Agreement, DeviceRow, Median, Range, Row, Testimony, Way, way_ns};
pub use tracepoint::Unavailable;
