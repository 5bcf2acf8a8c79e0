//! The only crate with `unsafe`: the timer, loop ioctls and thread set-up that rustix does not cover.
#![allow(unsafe_code)]
