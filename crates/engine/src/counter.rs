//! A number that one thread changes and another may read at any time.
//!
//! The writer loads and stores without any atomic read-modify-write: on every processor that compiles to
//! plain moves, so it costs as much as a plain integer. It does not support two writers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with a single writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) const fn new(value: u64) -> Self {
        Counter(AtomicU64::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds; only the writer may.
    #[inline(always)]
    pub(crate) fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }

    /// Resets it to zero, and returns the old value; only the writer may.
    pub(crate) fn take(&self) -> u64 {
        let value = self.get();
        self.set(0);
        value
    }

    /// Raises it to the other value if that is larger; only the writer may.
    #[inline(always)]
    pub(crate) fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Lowers it to the other value if that is smaller; only the writer may.
    #[inline(always)]
    pub(crate) fn lower(&self, value: u64) {
        if value < self.get() {
            self.set(value);
        }
    }
}
