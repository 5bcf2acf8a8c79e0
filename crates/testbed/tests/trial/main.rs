//! Whole trials on a fake machine.

mod conditioning;
mod guarded;
mod lab;
mod stacks;
mod undo;
