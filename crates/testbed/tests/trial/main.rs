//! Whole trials on a fake machine.

mod guarded;
mod lab;
mod stacks;
mod undo;
