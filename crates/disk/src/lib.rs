//! Disks as models: when a disk of a given kind would have ended each request.
//!
//! A model ([`DiskModel`]) is data: a file with a value and a source for each parameter. A [`Simulation`] is
//! a disk of that model at work. It has no clock: whoever uses it says when requests arrive, and asks what
//! has ended by some moment. So the same code serves a real filesystem in real time, and can be held against
//! theory without any.

mod array;
mod channels;
mod due;
mod geometry;
mod interface;
mod model;
mod moving;
mod quantity;
mod segments;
mod simulation;
mod spindle;

pub use model::{
    DiskArray, DiskModel, Flash, HardDisk, Measured, Mechanism, ModelError, PublishedFigure, Volume,
};
pub use quantity::{ModelParameter, Provenance};
pub use simulation::Simulation;

/// The number by which a request is known.
pub type RequestId = u64;

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOperation {
    /// Data from the disk.
    Read,
    /// Data for the disk.
    Write,
    /// Everything that was written has to be on stable storage.
    Flush,
    /// A range is needed no more.
    Discard,
}

/// A request to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRequest {
    /// Its number.
    pub id: RequestId,
    /// Its purpose.
    pub kind: DiskOperation,
    /// In bytes.
    pub offset: u64,
    /// In bytes; 0 for a flush.
    pub length: u64,
}

impl DiskRequest {
    /// The byte behind its last one.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskCompletion {
    /// Its number.
    pub id: RequestId,
    /// When, in nanoseconds since the disk was switched on.
    pub at_ns: f64,
}
