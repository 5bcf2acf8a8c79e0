//! The last sign of life of another machine.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// When something was last heard of a machine, and why nothing more will be.
#[derive(Debug)]
pub struct SignOfLife(Mutex<Sign>);

#[derive(Debug)]
struct Sign {
    heard: Instant,
    over: Option<String>,
}

impl Default for SignOfLife {
    /// It is heard now.
    fn default() -> Self {
        SignOfLife(Mutex::new(Sign { heard: Instant::now(), over: None }))
    }
}

impl SignOfLife {
    /// Something is heard of it now.
    pub fn note(&self) {
        self.lock().heard = Instant::now();
    }

    /// Nothing more will be heard of it. The first reason counts.
    pub fn end(&self, reason: impl Into<String>) {
        self.lock().over.get_or_insert(reason.into());
    }

    /// When something was last heard of it.
    pub fn heard(&self) -> Instant {
        self.lock().heard
    }

    /// Why nothing more will be, if that is known.
    pub fn over(&self) -> Option<String> {
        self.lock().over.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Sign> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
