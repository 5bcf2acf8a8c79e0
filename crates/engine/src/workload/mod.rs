//! The workloads, one file each: what the workers do, and in which phases.

pub mod bonnie;
pub mod collection;
pub(crate) mod commit_log;
pub(crate) mod device_read;
pub(crate) mod durability;
pub(crate) mod external;
pub mod fileserver;
pub mod flow;
pub mod null;
pub mod postmark;
pub(crate) mod scan;
pub mod streaming;

use crate::error::EngineError;
use crate::session::Session;
use fsdyno_core::Workload;
use fsdyno_core::workload::{IoErrors, Table};

/// A load as the engine performs it.
pub(crate) trait Work {
    /// Performs the part of it that the request names.
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError>;
    /// Reads everything again that it has left, if it verifies that.
    fn read_again(&self, _session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Returns what the engine does for a workload.
pub(crate) fn work(workload: &Workload) -> &dyn Work {
    match workload {
        Workload::Fileserver(own) => own,
        Workload::Streaming(own) => own,
        Workload::Bonnie(own) => own,
        Workload::Postmark(own) => own,
        Workload::External(own) => own,
        Workload::Collection(own) => own,
        Workload::CommitLog(own) => own,
        Workload::DeviceRead(own) => own,
        Workload::Scan(own) => own,
        Workload::Durability(own) => own,
        Workload::IoErrors(own) => own,
        Workload::Flow(own) => own,
        Workload::Null(own) => own,
        Workload::Table(own) => own,
    }
}

/// On a disk of which requests fail, applications work, and no engine does.
impl Work for IoErrors {
    fn run(&self, _session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        Err(EngineError::NoFaults)
    }
}

impl Work for Table {
    fn run(&self, _session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        Err(EngineError::Imported)
    }
}
