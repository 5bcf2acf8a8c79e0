//! Where the writers of a phase note how far they came, once each, when they are done.

use fsdyno_core::Reached;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by the writers of a phase and whoever reads it afterwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Reached>>>);

impl Ledger {
    /// Notes how far a writer came.
    pub(crate) fn note(&self, reached: Reached) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(reached);
    }

    /// Takes everything that was noted. Writers that have not finished are missing.
    pub(crate) fn take(&self) -> Vec<Reached> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
