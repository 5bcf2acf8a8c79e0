//! Parameters of `commit-log`, what databases do to make a transaction durable.

use super::measures::{Figure, OwnFigure, OwnMeasure, PhaseSelector};
use super::parameter::{Refusal, parameters, words};
use super::steps::{PhaseSpec, steps};
use super::{Content, Load, Ramp, Timing};
use crate::operation::{Operation, Role};
use crate::quantile::Quantile;
use crate::units::{Bytes, Nanos};

words! {
    /// The data that a record is written over.
    Segments, "kind of segments" {
        /// Nothing: each record makes its file longer, as in SQLite's WAL and RocksDB.
        Append = "append",
        /// Blocks that the file already has, as in PostgreSQL and InnoDB.
        Overwrite = "overwrite",
    }
}

parameters! {
    /// Records written to log files and synced one by one. Sizes in bytes, times in nanoseconds.
    CommitLog {
        writers: u32 = 4, "number of writers in the last phase, each with a log of its own; the first phase \
            has one";
        record: Bytes = Bytes(8 * Bytes::KIB), "size of each record";
        segment: Bytes = Bytes(16 * Bytes::MIB), "size of a log file; when it is full, its writer continues \
            in the next one";
        segments: Segments = Segments::Append, "`append`: each record makes its file longer, and a full file \
            is removed; `overwrite`: each writer uses two existing files in turn";
        ramp: Ramp = Ramp::secs(5), "duration of the load before each window, or `until-throttled`: until \
            the device keeps up with the writers; `steady` takes its place";
        window: Nanos = Nanos::from_secs(30), "length of the measured part of each phase";
        drain_limit: Nanos = Nanos::from_secs(30), "how long to wait for operations in flight at the end of \
            the window";
        content: Content = Content::Random, "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`";
        verify: bool = false, "`true`: at the end, after unmounting and mounting, read the logs and compare \
            them with what was written; a wrong byte fails the trial";
    }
}

steps! {
    /// The operations of a writer.
    writer {
        OPENAT = Openat,
        FSYNC = Fsync,
        PWRITE = Pwrite,
        FDATASYNC = Fdatasync,
        CLOSE = Close,
        UNLINKAT = Unlinkat,
    }
}

/// One writer works alone.
pub const ONE: PhaseSpec = PhaseSpec { name: "one writer", role: Role::Writer, steps: writer::STEPS };
/// All writers work at once.
pub const ALL: PhaseSpec = PhaseSpec { name: "all writers", role: Role::Writer, steps: writer::STEPS };

impl CommitLog {
    /// The phases, each with the numbers of its logs, which no other phase uses.
    pub fn phases(&self) -> Vec<(PhaseSpec, std::ops::Range<u32>)> {
        let all = (ALL, 1..self.writers + 1);
        // A single writer is all there are.
        if self.writers > 1 { vec![(ONE, 0..1), all] } else { vec![all] }
    }

    /// The space of all logs: at most two segments each.
    fn all_bytes(&self) -> Bytes {
        let logs = self.phases().iter().map(|(_, logs)| logs.len() as u64).sum::<u64>();
        Bytes(self.segment.0.saturating_mul(2 * logs))
    }
}

impl Load for CommitLog {
    fn check(&self) -> Result<(), Refusal> {
        super::check_workers("writers", self.writers)?;
        super::check_io_size("record", self.record, false)?;
        Refusal::unless(self.segment >= self.record, "segment", "at least one record (`record`)")?;
        Refusal::unless(self.window > Nanos(0), "window", "greater than zero")?;
        super::check_content(&self.content)?;
        super::check_verify(self.verify, &self.content)
    }

    fn verifies(&self) -> bool {
        self.verify
    }

    fn follows(&self) -> Nanos {
        if self.verify { super::reread_time(self.all_bytes()) } else { Nanos(0) }
    }

    fn in_words(&self) -> Vec<String> {
        let words = "verify: at the end, after unmounting and mounting, every log is read and compared with \
                     what was written; a wrong byte fails the trial";
        if self.verify { vec![words.to_string()] } else { Vec::new() }
    }

    fn prepares(&self) -> Bytes {
        if self.segments == Segments::Overwrite { self.all_bytes() } else { Bytes(0) }
    }

    fn writes(&self) -> Bytes {
        if self.segments == Segments::Append { self.all_bytes() } else { Bytes(0) }
    }

    fn timing(&self) -> Timing {
        let CommitLog { ramp, window, drain_limit, .. } = *self;
        Timing { windows: self.phases().len() as u32, ramp, window, drain_limit }
    }

    fn title(&self) -> String {
        let writers = super::plural(self.writers, "writer");
        format!("commit-log, {writers}, records of {}, window {}", self.record, self.window)
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &["writers = 2\nramp = '200ms'\nwindow = '600ms'"]
    }

    fn default_measure(&self) -> &'static str {
        "commits"
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::of_phase(
                "commits",
                "records that all writers together wrote and synced per second",
                ALL,
                Figure::ItemRate,
            ),
            OwnMeasure::new(
                "sync-p99",
                "p99 of syncing one record while all writers write",
                OwnFigure::Operation(
                    PhaseSelector::named(ALL.name),
                    ALL.role,
                    Operation::Fdatasync,
                    Quantile::P99,
                ),
            )
            .in_words("slowest 1 in 100 syncs"),
        ]
    }

    fn throughput(&self) -> &'static str {
        "commits"
    }

    fn latency(&self) -> Option<String> {
        Some(ALL.p999(Operation::Fdatasync))
    }

    fn memory(&self) -> Bytes {
        Bytes(self.record.0.saturating_mul(self.writers.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_writer_has_one_phase_and_its_logs_the_space_of_two_segments() {
        let phases = |writers| CommitLog { writers, ..CommitLog::default() }.phases();
        assert_eq!(phases(1), [(ALL, 1..2)]);
        assert_eq!(phases(3), [(ONE, 0..1), (ALL, 1..4)]);
        let log = CommitLog { writers: 3, segment: Bytes(100), record: Bytes(10), ..CommitLog::default() };
        assert_eq!((log.prepares(), log.writes()), (Bytes(0), Bytes(800)));
        let log = CommitLog { segments: Segments::Overwrite, ..log };
        assert_eq!((log.prepares(), log.writes()), (Bytes(800), Bytes(0)));
    }

    #[test]
    fn a_record_fits_into_its_segment() {
        let small = CommitLog { segment: Bytes(10), record: Bytes(11), ..CommitLog::default() };
        assert_eq!(small.check().unwrap_err().parameter, "segment");
    }
}
