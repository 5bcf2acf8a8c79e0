//! The only crate with `unsafe`: the timer, loop ioctls and thread set-up that rustix does not cover.
#![allow(unsafe_code)]

pub mod block;
pub mod child;
pub mod loopdev;
pub mod thread;
pub mod timer;
