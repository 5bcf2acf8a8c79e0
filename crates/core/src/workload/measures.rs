//! The measures that a workload declares: names for single figures of what it does.

use super::PhaseSpec;
use super::fault::Harm;
use crate::operation::{Operation, Role};
use crate::quantile::Quantile;
use std::borrow::Cow;

/// A measure with a short name that only one workload has.
#[derive(Debug)]
pub struct OwnMeasure {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// The name in a sentence; absent if its own name says enough.
    pub(crate) words: Option<&'static str>,
    pub(crate) source: OwnFigure,
}

/// The figure that such a measure is.
#[derive(Debug)]
pub(crate) enum OwnFigure {
    /// A figure of a role as a whole.
    Role(PhaseSelector, Role, Figure),
    /// A quantile of one operation of a role.
    Operation(PhaseSelector, Role, Operation, Quantile),
    /// The count that it keeps under a name, per second of all its phases together.
    CountRate(&'static str),
    /// A figure of a flow as a whole.
    Flow(FlowFigure),
    /// The losses from power cuts.
    Durability(LossFigure),
    /// The share of faults that did this to the application.
    Faults(Harm),
}

impl OwnMeasure {
    pub(crate) const fn new(name: &'static str, help: &'static str, source: OwnFigure) -> Self {
        OwnMeasure { name, help, words: None, source }
    }

    /// A figure of a phase of one role.
    pub(crate) const fn of_phase(
        name: &'static str,
        help: &'static str,
        phase: PhaseSpec,
        figure: Figure,
    ) -> Self {
        OwnMeasure::new(name, help, OwnFigure::Role(PhaseSelector::named(phase.name), phase.role, figure))
    }

    /// Sets the name in a sentence.
    pub(crate) fn in_words(self, words: &'static str) -> Self {
        OwnMeasure { words: Some(words), ..self }
    }
}

/// The way to find a phase in a trial.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PhaseSelector {
    /// The first in which one reader works alone.
    OneReader,
    /// The first in which several readers work alone.
    ManyReaders,
    /// The first with both readers and writers.
    ReadersAndWriters,
    /// The first with exactly these workers.
    Workers(Vec<(Role, u32)>),
    /// The first of this name.
    Named(Cow<'static, str>),
}

impl PhaseSelector {
    /// The first phase of this name.
    pub const fn named(name: &'static str) -> Self {
        PhaseSelector::Named(Cow::Borrowed(name))
    }
}

/// A figure of a role, as `phase/role/figure` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Figure {
    Rate,
    /// Over the time in which the role does not remove what it has written.
    RateWithoutRemoval,
    /// Over the time from the ramp until everything is on the device.
    DurableRate,
    DataRate,
    OverheadRate,
    OperationRate,
    ItemRate,
    CpuShare,
    LongestStall,
    TimeOver100Ms,
    TimeOver1S,
    CpuPerOperation,
}

/// A figure of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FlowFigure {
    /// Iterations that its roles finished, per second.
    Iterations,
    /// The highest rate at which a role meets its target.
    Capacity,
    /// A quantile of the response time of its roles with a rate: of the slowest of them.
    Response(Quantile),
}

/// A figure of what power cuts have lost, under the cache model in which it is worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LossFigure {
    /// The share of acknowledged promises.
    Acknowledged,
    /// The age of the oldest lost work that nothing synced: the median over the states.
    Unsynced,
    /// The median time to mount.
    Recovery,
}
