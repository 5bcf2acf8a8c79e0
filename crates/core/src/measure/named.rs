//! The table of measures with a short name.

use super::{Figure, FlowFigure, FlushFigure, LossFigure, MeasureSource, PhaseSelector, Statistic};
use crate::operation::{Operation, Role};
use crate::result::{Harm, LifecycleStep, Quantile};
use crate::workload::{PhaseSpec, Stage, bonnie, collection, commit_log, device_read, postmark};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A measure with a short name.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) help: Cow<'static, str>,
    /// The name in a sentence; absent if its own name says enough.
    pub(super) words: Option<&'static str>,
    pub(super) source: MeasureSource,
    /// The kind of the only workload that it is for, if its name does not begin with it.
    pub(super) only_for: Option<&'static str>,
}

impl Named {
    fn only_for(self, kind: &'static str) -> Self {
        Named { only_for: Some(kind), ..self }
    }

    fn in_words(self, words: &'static str) -> Self {
        Named { words: Some(words), ..self }
    }
}

const fn named(name: &'static str, help: &'static str, source: MeasureSource) -> Named {
    Named { name, help: Cow::Borrowed(help), words: None, source, only_for: None }
}

/// A figure of a role.
const fn role(
    name: &'static str,
    help: &'static str,
    phase: PhaseSelector,
    role: Role,
    figure: Figure,
) -> Named {
    named(name, help, MeasureSource::Role(phase, role, figure))
}

/// The rate of a stage of `streaming`.
const fn streaming(name: &'static str, help: &'static str, stage: Stage, of: Role) -> Named {
    role(name, help, PhaseSelector::Named(Cow::Borrowed(stage.name())), of, Figure::Rate)
}

/// The rate of a stage of `streaming` that writes until its window ends, and then leaves its data in memory.
const fn durable_streaming(name: &'static str, help: &'static str, stage: Stage) -> Named {
    role(name, help, PhaseSelector::Named(Cow::Borrowed(stage.name())), Role::Writer, Figure::DurableRate)
}

/// A figure of a phase of one role.
const fn of_phase(name: &'static str, help: &'static str, phase: PhaseSpec, figure: Figure) -> Named {
    role(name, help, PhaseSelector::Named(Cow::Borrowed(phase.name)), phase.role, figure)
}

/// A quantile of the response time of a flow.
const fn flow_response(name: &'static str, help: &'static str, quantile: Quantile) -> Named {
    named(name, help, MeasureSource::Flow(FlowFigure::Response(quantile)))
}

/// Every measure with a short name.
pub(super) static NAMED: LazyLock<Vec<Named>> = LazyLock::new(|| {
    of_load().into_iter().chain(of_lifecycle()).chain([EXTENTS_PER_FILE]).chain(of_device()).collect()
});

/// The durations of steps. Steps that share a measure are described together.
fn of_lifecycle() -> Vec<Named> {
    let mut names: Vec<&'static str> = LifecycleStep::ALL.iter().filter_map(|step| step.measure()).collect();
    names.dedup();
    let named = |name: &'static str| {
        let steps = LifecycleStep::ALL.iter().filter(|step| step.measure() == Some(name));
        let help = steps.map(|step| step.help()).collect::<Vec<_>>().join(", and ");
        Named { name, help: help.into(), words: None, source: MeasureSource::Lifecycle(name), only_for: None }
    };
    names.into_iter().map(named).collect()
}

const EXTENTS_PER_FILE: Named = named(
    "extents-per-file",
    "mean number of extents of the files that the load left behind; adjacent ones count as one",
    MeasureSource::ExtentsPerFile,
);

/// Returns the measures of the device's activity and of its possible losses.
fn of_device() -> [Named; 7] {
    [
        named(
            "flushes",
            "flushes of the device per second, over all phases: how often its cache had to be emptied",
            MeasureSource::Flushes(FlushFigure::Rate),
        ),
        named(
            "flush-time",
            "mean time of the flushes of the device that ended in a window",
            MeasureSource::Flushes(FlushFigure::Time),
        ),
        named(
            "acknowledged-lost",
            "share of acknowledged promises that a power cut loses, of those that the standard makes, under \
             the cache model that loses the most",
            MeasureSource::Durability(LossFigure::Acknowledged),
        )
        .in_words("acknowledged promises lost"),
        named(
            "unsynced-lost",
            "how far back a power cut loses work that nothing has synced, median over the states of the \
             cache model that loses the most",
            MeasureSource::Durability(LossFigure::Unsynced),
        )
        .in_words("unsynced work lost"),
        named(
            "recovery-time",
            "time to mount after a power cut, median over the states of the slowest cache model",
            MeasureSource::Durability(LossFigure::Recovery),
        )
        .in_words("time to mount after a power cut"),
        named(
            "silent-losses",
            "share of the faults of a disk after which data is lost or wrong although every call succeeded",
            MeasureSource::Faults(Harm::Silent),
        )
        .in_words("silent losses"),
        named(
            "retried-losses",
            "share of the faults after which fsync, called again, succeeds although the data is lost",
            MeasureSource::Faults(Harm::ToldOnce),
        )
        .in_words("losses that a second fsync hides"),
    ]
}

fn of_load() -> Vec<Named> {
    vec![
        role(
            "read",
            "bytes per second of a single reader",
            PhaseSelector::OneReader,
            Role::Reader,
            Figure::Rate,
        ).in_words("reads of one reader"),
        role(
            "read-many",
            "bytes per second of several readers together",
            PhaseSelector::ManyReaders,
            Role::Reader,
            Figure::Rate,
        ).in_words("reads of several readers"),
        role(
            "read-under-write",
            "bytes per second of the readers while writers write",
            PhaseSelector::ReadersAndWriters,
            Role::Reader,
            Figure::Rate,
        ).in_words("reads while others write"),
        role(
            "write",
            "bytes per second of the writers while readers read",
            PhaseSelector::ReadersAndWriters,
            Role::Writer,
            Figure::Rate,
        ).in_words("writes while others read"),
        named(
            "first-byte-p999",
            "p99.9 of reading a file's first byte while writers write",
            MeasureSource::Operation(
                PhaseSelector::ReadersAndWriters,
                Role::Reader,
                Operation::ReadFirstByte,
                Statistic::Quantile(Quantile::P999),
            ),
        ).in_words("slowest 1 in 1,000 first bytes"),
        streaming(
            "streaming-write",
            "bytes per second of all streams writing sequentially",
            Stage::Write,
            Role::Writer,
        ),
        streaming(
            "streaming-read",
            "bytes per second of all streams reading sequentially",
            Stage::Read,
            Role::Reader,
        ),
        durable_streaming(
            "streaming-random-write",
            "bytes per second of all streams writing at random positions, until everything is on the device",
            Stage::RandomWrite,
        ),
        streaming(
            "streaming-random-read",
            "bytes per second of all streams reading at random positions",
            Stage::RandomRead,
            Role::Reader,
        ),
        durable_streaming(
            "streaming-mixed-write",
            "bytes per second of the streams that write while others read, until everything is on the device",
            Stage::Mixed,
        ),
        streaming(
            "streaming-mixed-read",
            "bytes per second of the streams that read while others write",
            Stage::Mixed,
            Role::Reader,
        ),
        named(
            "flow-iterations",
            "iterations per second of all workers of a flow, except those of background roles",
            MeasureSource::Flow(FlowFigure::Iterations),
        ).in_words("iterations"),
        named(
            "flow-capacity",
            "the highest rate of iterations at which a flow meets the latency target of its plan, such as \
             `p99 <= 20ms`",
            MeasureSource::Flow(FlowFigure::Capacity),
        ).in_words("highest rate that meets the target"),
        flow_response(
            "flow-response-p99",
            "p99 of the time from when an iteration of a flow is due to when it ends; of roles with a `rate` \
             that are not in the background, and of the slowest one if there are several",
            Quantile::P99,
        ).in_words("slowest 1 in 100 responses"),
        flow_response("flow-response-p999", "p99.9 of the same", Quantile::P999)
            .in_words("slowest 1 in 1,000 responses"),
        named(
            "throughput",
            "bytes per second that all workers read and write, over all phases that move data",
            MeasureSource::Throughput,
        ),
        named(
            "longest-stall",
            "longest time in which a worker, of any role in any phase, completed nothing",
            MeasureSource::LongestStall,
        ).in_words("longest stall"),
        named(
            "write-durable",
            "bytes per second that workers write, in all phases that write, over the time from the first \
               operation of the ramp until everything is on the device",
            MeasureSource::Durable,
        ).in_words("writes until they are on the device"),
        named(
            "cpu-per-mb",
            "user and system time for each MB moved, total over total of all phases of a trial: that of the \
             workers, and of the kernel threads that worked for them (writeback, journal, filesystem, reclaim, \
             loop, block)",
            MeasureSource::CpuPerMegabyte,
        ).in_words("processor time for each MB"),
        named(
            "postmark-read",
            "bytes that postmark read per second of the whole run",
            MeasureSource::CountRate("bytes read"),
        ),
        named(
            "postmark-write",
            "bytes that postmark wrote per second of the whole run",
            MeasureSource::CountRate("bytes written"),
        ),
        of_phase(
            "bonnie-write-char",
            "bytes per second written one at a time",
            bonnie::WRITE_CHAR,
            Figure::Rate,
        ),
        of_phase(
            "bonnie-write-block",
            "bytes per second written in chunks",
            bonnie::WRITE_BLOCK,
            Figure::Rate,
        ),
        of_phase(
            "bonnie-rewrite",
            "bytes per second read, changed and written back",
            bonnie::REWRITE,
            Figure::Rate,
        ),
        of_phase(
            "commits",
            "records that all writers together wrote and synced per second",
            commit_log::ALL,
            Figure::ItemRate,
        )
        .only_for("commit-log"),
        named(
            "sync-p99",
            "p99 of syncing one record while all writers write",
            MeasureSource::Operation(
                PhaseSelector::Named(Cow::Borrowed(commit_log::ALL.name)),
                commit_log::ALL.role,
                Operation::Fdatasync,
                Statistic::Quantile(Quantile::P99),
            ),
        ).in_words("slowest 1 in 100 syncs")
        .only_for("commit-log"),
        of_phase(
            "device-read-cached",
            "bytes per second when reading the device's first block from memory",
            device_read::CACHED,
            Figure::Rate,
        ),
        of_phase(
            "device-read-buffered",
            "bytes per second when reading the device sequentially",
            device_read::BUFFERED,
            Figure::Rate,
        ),
        of_phase("bonnie-read-char", "bytes per second read one at a time", bonnie::READ_CHAR, Figure::Rate),
        of_phase("bonnie-read-block", "bytes per second read in chunks", bonnie::READ_BLOCK, Figure::Rate),
        of_phase("bonnie-seeks", "random seeks per second", bonnie::SEEKS, Figure::ItemRate),
        of_phase(
            "bonnie-seq-create",
            "files per second created in order of their names",
            bonnie::SEQ_CREATE,
            Figure::ItemRate,
        ),
        of_phase(
            "bonnie-seq-stat",
            "files per second examined and read in directory order",
            bonnie::SEQ_STAT,
            Figure::ItemRate,
        ),
        of_phase(
            "bonnie-seq-delete",
            "files per second removed in directory order",
            bonnie::SEQ_DELETE,
            Figure::ItemRate,
        ),
        of_phase(
            "bonnie-random-create",
            "files per second created in random order",
            bonnie::RANDOM_CREATE,
            Figure::ItemRate,
        ),
        of_phase(
            "bonnie-random-stat",
            "files per second examined and read in random order",
            bonnie::RANDOM_STAT,
            Figure::ItemRate,
        ),
        of_phase(
            "bonnie-random-delete",
            "files per second removed in random order",
            bonnie::RANDOM_DELETE,
            Figure::ItemRate,
        ),
        of_phase(
            "collection-write",
            "bytes per second when writing a collection of files",
            collection::WRITE,
            Figure::Rate,
        ),
        of_phase(
            "collection-read",
            "bytes per second when reading a collection of files",
            collection::READ,
            Figure::Rate,
        ),
        of_phase(
            "collection-copy",
            "bytes per second when copying a collection within the filesystem",
            collection::COPY,
            Figure::Rate,
        ),
        of_phase(
            "collection-delete",
            "files per second when deleting a collection",
            collection::DELETE,
            Figure::ItemRate,
        ),
        of_phase(
            "postmark-tps",
            "postmark transactions per second of the transaction phase",
            postmark::TRANSACTIONS,
            Figure::ItemRate,
        ),
        of_phase(
            "postmark-create",
            "files per second that postmark creates before the transactions",
            postmark::CREATE,
            Figure::ItemRate,
        ),
        of_phase(
            "postmark-delete",
            "files per second that postmark deletes after the transactions",
            postmark::DELETE,
            Figure::ItemRate,
        ),
    ]
}
