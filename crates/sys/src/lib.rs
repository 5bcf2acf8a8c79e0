//! The only crate with `unsafe`: the timer, ioctls of loop devices, files and random numbers, io_uring, files
//! in memory, the allocator, SQLite's system calls and thread set-up that rustix does not cover.
#![allow(unsafe_code)]

#[cfg(feature = "bare")]
pub mod bare;
pub mod block;
pub mod child;
pub mod code;
pub mod confine;
pub mod extents;
pub mod inherited;
pub mod loopdev;
pub mod mapping;
pub mod memory;
pub mod random;
pub mod ring;
pub mod sqlite;
pub mod thread;
pub mod timer;
pub mod tracefs;
pub mod view;
