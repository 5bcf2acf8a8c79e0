//! Small loads.

use fsdyno_core::workload::{Act, FileSet, FileSize, FlowRole, FlowStep, IoEngine, Ramp, Stage, Streaming};
use fsdyno_core::{Bytes, Nanos, Role};

/// Bytes of each `read` and `write` of [`small_streaming`].
pub const STREAMED_BLOCK: u64 = 64 * Bytes::KIB;
/// The number of these blocks in a file of [`small_streaming`]; the last one is not complete.
pub const STREAMED_BLOCKS: u64 = 33;

/// Streams of two small files, in memory a matter of milliseconds.
pub fn small_streaming(io: IoEngine, stages: &[Stage]) -> Streaming {
    Streaming {
        file_size: Bytes(STREAMED_BLOCKS * STREAMED_BLOCK - 4096),
        streams: 2,
        bs: Bytes(STREAMED_BLOCK),
        io,
        iodepth: 8,
        stages: stages.to_vec(),
        readers: 3,
        writers: 2,
        ramp: Ramp::For(Nanos::from_millis(20)),
        window: Nanos::from_millis(150),
        ..Streaming::default()
    }
}

/// A file set of a flow, with files of one size in bytes in one directory that all workers share.
pub fn file_set(name: &str, count: u64, size: u64, prefill: f64) -> FileSet {
    FileSet {
        name: name.to_string(),
        count,
        size: FileSize::exactly(Bytes(size)),
        per_directory: None,
        prefill,
        private: false,
        limit: Bytes(Bytes::GIB),
    }
}

/// A role of a flow whose workers perform each of these steps in every iteration.
pub fn flow_role(role: Role, workers: u32, acts: Vec<Act>) -> FlowRole {
    let steps = acts.into_iter().map(|act| FlowStep { act, probability: 1.0 }).collect();
    FlowRole { workers, steps, ..FlowRole::of(role) }
}
