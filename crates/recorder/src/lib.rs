//! A disk that remembers. It is a file behind FUSE that a loop device can use. Everything that is written to
//! it is kept in order in a log ([`RecordedLog`]), and from the log it shows itself as it would be if power
//! had been lost at some place ([`DiskState`]).
//!
//! Memory does not grow with the log. A state is not a copy: it reads from the disk as it was at the last
//! flush ([`Base`]), from those later writes in the log that survive in it ([`survivors`]), and from an
//! overlay that takes what recovery writes. So a cut costs a mount and a look.
//!
//! Everything that had been completed when a flush arrived counts as flushed, which is all that a drive
//! promises: a write that was still in flight may be lost although it ended before the flush did.
//!
//! Requests to the disk can also be made to fail, with EIO as from a drive that is broken.
//!
//! This crate knows no filesystem and no promise. It is served by a process of its own ([`serve`]), so that
//! the one who mounts what is on it never waits for itself.

mod base;
mod cuts;
mod disk;
mod error;
mod extents;
mod faults;
mod files;
mod fuse;
mod log;
mod pace;
mod recorded;
mod serve;
mod state;
mod survivors;

pub use base::Base;
pub use cuts::cuts;
pub use disk::Disk;
pub use error::RecorderError;
pub use extents::{ByteSource, Extents};
pub use log::{Covered, Entry, Kind, RecordedLog};
pub use serve::serve;
pub use state::DiskState;
pub use survivors::{Survivors, survivors};

/// Result of an operation on a recorded disk.
pub type Result<T> = std::result::Result<T, RecorderError>;

/// The unit of everything that is read and written.
pub const SECTOR: u64 = 512;

/// The longest write that the kernel is allowed to send.
pub(crate) const WRITE_MAX: u32 = 1 << 20;
