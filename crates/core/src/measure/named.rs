//! The table of measures with a short name: those that a workload declares, and those of every trial.

use super::{FlushFigure, MeasureSource, Statistic};
use crate::result::LifecycleStep;
use crate::workload::Workload;
use crate::workload::measures::{OwnFigure, OwnMeasure};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A measure with a short name.
pub(super) struct NamedMeasure {
    pub(super) name: &'static str,
    pub(super) help: Cow<'static, str>,
    /// The name in a sentence; absent if its own name says enough.
    pub(super) words: Option<&'static str>,
    pub(super) source: MeasureSource,
    /// The kind of the workload that declares it; absent if every workload has it.
    pub(super) workload: Option<&'static str>,
}

impl NamedMeasure {
    const fn new(name: &'static str, help: &'static str, source: MeasureSource) -> Self {
        NamedMeasure { name, help: Cow::Borrowed(help), words: None, source, workload: None }
    }

    fn in_words(self, words: &'static str) -> Self {
        NamedMeasure { words: Some(words), ..self }
    }

    /// A measure that the workload of this kind declares.
    fn declared(OwnMeasure { name, help, words, source }: OwnMeasure, kind: &'static str) -> Self {
        let source = match source {
            OwnFigure::Role(phase, role, figure) => MeasureSource::Role(phase, role, figure),
            OwnFigure::Operation(phase, role, operation, quantile) => {
                MeasureSource::Operation(phase, role, operation, Statistic::Quantile(quantile))
            }
            OwnFigure::CountRate(count) => MeasureSource::CountRate(count),
            OwnFigure::Flow(figure) => MeasureSource::Flow(figure),
            OwnFigure::Durability(figure) => MeasureSource::Durability(figure),
            OwnFigure::Faults(harm) => MeasureSource::Faults(harm),
        };
        NamedMeasure { words, workload: Some(kind), ..NamedMeasure::new(name, help, source) }
    }
}

/// Every measure with a short name: those of each workload, and those that every trial has.
pub(super) static NAMED: LazyLock<Vec<NamedMeasure>> = LazyLock::new(|| {
    let of_workload = |kind: &&'static str| {
        let declared = Workload::of_kind(kind).map_or(Vec::new(), |workload| workload.load().measures());
        declared.into_iter().map(|measure| NamedMeasure::declared(measure, kind)).collect::<Vec<_>>()
    };
    let of_workloads = Workload::KINDS.iter().flat_map(of_workload);
    of_workloads.chain(of_load()).chain(of_lifecycle()).chain(of_device()).collect()
});

/// Returns the measures of loads as a whole.
fn of_load() -> [NamedMeasure; 4] {
    [
        NamedMeasure::new(
            "throughput",
            "bytes per second that all workers read and write, over all phases that move data",
            MeasureSource::Throughput,
        ),
        NamedMeasure::new(
            "longest-stall",
            "longest time in which a worker, of any role in any phase, completed nothing",
            MeasureSource::LongestStall,
        )
        .in_words("longest stall"),
        NamedMeasure::new(
            "write-durable",
            "bytes per second that workers write, in all phases that write, over the time from the first \
             operation of the ramp until everything is on the device",
            MeasureSource::Durable,
        )
        .in_words("writes until they are on the device"),
        NamedMeasure::new(
            "cpu-per-mb",
            "user and system time for each MB moved, total over total of all phases of a trial: that of \
             the workers, and of the kernel threads that worked for them (writeback, journal, filesystem, \
             reclaim, loop, block)",
            MeasureSource::CpuPerMegabyte,
        )
        .in_words("processor time for each MB"),
    ]
}

/// The durations of steps. Steps that share a measure are described together.
fn of_lifecycle() -> Vec<NamedMeasure> {
    let mut names: Vec<&'static str> = LifecycleStep::ALL.iter().filter_map(|step| step.measure()).collect();
    names.dedup();
    let named = |name: &'static str| {
        let steps = LifecycleStep::ALL.iter().filter(|step| step.measure() == Some(name));
        let help = steps.map(|step| step.help()).collect::<Vec<_>>().join(", and ");
        NamedMeasure { help: help.into(), ..NamedMeasure::new(name, "", MeasureSource::Lifecycle(name)) }
    };
    names.into_iter().map(named).collect()
}

/// Returns the measures of the device's activity, and of what is left on it.
fn of_device() -> [NamedMeasure; 3] {
    [
        NamedMeasure::new(
            "extents-per-file",
            "mean number of extents of the files that the load left behind; adjacent ones count as one",
            MeasureSource::ExtentsPerFile,
        ),
        NamedMeasure::new(
            "flushes",
            "flushes of the device per second, over all phases: how often its cache had to be emptied",
            MeasureSource::Flushes(FlushFigure::Rate),
        ),
        NamedMeasure::new(
            "flush-time",
            "mean time of the flushes of the device that ended in a window",
            MeasureSource::Flushes(FlushFigure::Time),
        ),
    ]
}
