//! The end of a process that gets no more memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;

/// The allocator of the system, which ends a process that asked for it as any error does: with a message and
/// an exit code. Without that, the standard library aborts it.
#[derive(Debug)]
pub struct Allocator;

/// The message to print, and the exit code.
static LAST_WORDS: OnceLock<(&str, i32)> = OnceLock::new();

/// Has this process end so when there is no memory left. It must have nothing to undo: no destructor runs.
pub fn end_when_exhausted(message: &'static str, code: i32) {
    // The command line is read once.
    let _ = LAST_WORDS.set((message, code));
}

fn unless_null(memory: *mut u8) -> *mut u8 {
    if memory.is_null()
        && let Some((message, code)) = LAST_WORDS.get()
    {
        // SAFETY: the pointer and the length are those of a string that lives as long as the process.
        unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
        // SAFETY: it ends the process and touches no memory of it.
        unsafe { libc::_exit(*code) };
    }
    memory
}

// SAFETY: every method has the system's allocator do what it is asked for, and returns what that returns.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unless_null(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unless_null(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unless_null(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unsafe { System.dealloc(memory, layout) }
    }
}
