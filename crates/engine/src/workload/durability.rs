//! `durability`: promises that system calls make, and what a cut has left of them.

use crate::error::EngineError;
use crate::session::Session;
use fsdyno_core::workload::Durability;

/// Runs the workload.
pub(crate) fn run(_parameters: &Durability, _session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    Ok(())
}
