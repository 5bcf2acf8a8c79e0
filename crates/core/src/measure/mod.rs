//! Measures: the single numbers by which plans, summaries and comparisons rank configurations.
//!
//! A measure is a pure function of one [`TrialRecord`]. It has a name that a plan can use, a unit, a
//! direction, and a way in which it is averaged over trials. The short names (`read-under-write`) find their
//! phase by its workers, not by its name; any single figure of a result can be named in full as
//! `phase/role/operation/statistic` or `phase/role/figure`. A trial that was not measured completely has no
//! measures, because half a trial is not a replication.

mod column;
mod error;
mod flow;
mod flush;
mod goal;
mod name;
mod named;
mod phase;
mod unit;

pub use column::Column;
pub use error::MeasureError;
pub use goal::Goal;

pub use unit::{Direction, PrintedUnit, Unit};

use crate::figures::{Quotient, total};
use crate::operation::{Moves, Operation, Role};
use crate::outcome::Outcome;
use crate::result::{
    Durability, FaultResult, Harm, Latency, Layout, LifecycleStep, ModelResult, PhaseResult, Quantile, Rates,
    RoleResult, TrialRecord, Watched,
};
use crate::units::Nanos;
use crate::workload::Workload;
use crate::workload::measures::{Figure, FlowFigure, LossFigure, PhaseSelector};
use flush::FlushFigure;
use name::FIGURES;
use named::NAMED;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// One number of a trial, and everything needed to average, compare and print it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Measure {
    name: String,
    source: MeasureSource,
}

/// Where the number comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum MeasureSource {
    /// A figure of a role as a whole.
    Role(PhaseSelector, Role, Figure),
    /// A statistic of one operation of a role.
    Operation(PhaseSelector, Role, Operation, Statistic),
    /// The count that a workload keeps under a name, per second of all its phases together.
    CountRate(&'static str),
    /// A figure of a flow as a whole.
    Flow(FlowFigure),
    /// Bytes of all roles over the windows of the phases that moved data.
    Throughput,
    /// Bytes written in all phases, over the time until they were on the device.
    Durable,
    /// The longest stall of any role in any phase.
    LongestStall,
    /// Flushes of the device with the filesystem, or how long each took, over all phases.
    Flushes(FlushFigure),
    /// Processor time of workers and kernel threads over the bytes moved, in all phases together.
    CpuPerMegabyte,
    /// The duration of the steps outside the phases that belong to this measure.
    Lifecycle(&'static str),
    /// Mean number of extents per file after the load.
    ExtentsPerFile,
    /// The losses from power cuts.
    Durability(LossFigure),
    /// The share of faults that did this to the application.
    Faults(Harm),
    /// A column of an imported table.
    Column(Unit, Direction),
}

/// A value of a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// In the base unit: bytes per second, nanoseconds, a count, a share from 0 to 1.
    pub value: f64,
    /// `true` if it is only a lower bound, because it depends on operations whose end was not seen. Printed
    /// with `>=`.
    pub at_least: bool,
}

impl Value {
    /// An exact value.
    fn exact(value: f64) -> Value {
        Value { value, at_least: false }
    }

    /// A value that may be only a lower bound.
    fn bound(value: f64, at_least: bool) -> Value {
        Value { at_least, ..Value::exact(value) }
    }
}

impl From<Quotient> for Value {
    fn from(quotient: Quotient) -> Value {
        Value::exact(quotient.value)
    }
}

/// A statistic of an operation, as `phase/role/operation/statistic` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Statistic {
    Count,
    Min,
    Max,
    Mean,
    StdDev,
    Quantile(Quantile),
}

impl Measure {
    /// The short names, each with one line for the reference. In addition, every
    /// `phase/role/operation/statistic` and `phase/role/figure` is a measure.
    pub fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMED.iter().map(|named| (named.name, &*named.help))
    }

    /// The measures that have a short name.
    pub fn all_named() -> impl Iterator<Item = Measure> {
        Measure::named().filter_map(|(name, _)| name.parse().ok())
    }

    /// The measure that decides under the workload of these trials: this one if any of the trials has a value
    /// for it, else the workload's own, else the last available rate. Which figures the user's own jobs have
    /// is known only after they have run.
    pub fn deciding<'a>(
        &self,
        workload: &Workload,
        trials: impl Iterator<Item = &'a TrialRecord> + Clone,
    ) -> Measure {
        let some_has = |measure: &Measure| trials.clone().any(|trial| measure.value(trial).is_some());
        if some_has(self) {
            return self.clone();
        }
        let own = workload.load().default_measure().parse().ok().filter(some_has);
        own.or_else(|| Measure::last_rate(trials.clone())).unwrap_or_else(|| self.clone())
    }

    /// The rate of the last role that has one, in the last phase that has one.
    pub fn last_rate<'a>(trials: impl Iterator<Item = &'a TrialRecord>) -> Option<Measure> {
        let phases = trials.flat_map(|trial| trial.phases.iter().rev().map(move |phase| (trial, phase)));
        let roles =
            phases.flat_map(|(trial, phase)| phase.roles.iter().rev().map(move |role| (trial, phase, role)));
        roles
            .flat_map(|(trial, phase, role)| {
                let name = move |figure| format!("{}/{}/{figure}", phase.name, role.role);
                ["rate", "data-rate", "item-rate"].map(name).map(|name| (trial, name))
            })
            .filter_map(|(trial, name)| Some((trial, name.parse::<Measure>().ok()?)))
            .find(|(trial, measure)| measure.value(trial).is_some())
            .map(|(_, measure)| measure)
    }

    /// Returns whether the measure describes the whole trial rather than its phases, and so exists for every
    /// workload.
    pub fn is_of_lifecycle(&self) -> bool {
        matches!(self.source, MeasureSource::Lifecycle(_) | MeasureSource::ExtentsPerFile)
    }

    /// The last part that a `phase/role/figure` may have.
    pub fn figures() -> impl Iterator<Item = &'static str> {
        FIGURES.iter().map(|(name, _)| *name)
    }

    /// The last part that a `phase/role/operation/statistic` may have.
    pub fn statistics() -> impl Iterator<Item = &'static str> {
        name::statistics().map(|(name, _)| name)
    }

    /// As written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the meaning of the measure, in a line; `None` if it has no short name.
    pub fn meaning(&self) -> Option<&'static str> {
        Measure::named().find(|(name, _)| *name == self.name).map(|(_, meaning)| meaning)
    }

    /// Returns the name of the measure in a sentence: in the words of the trade, or else its own.
    pub fn in_words(&self) -> Cow<'_, str> {
        let words = NAMED.iter().find(|named| named.name == self.name).and_then(|named| named.words);
        match (words, &self.source) {
            (Some(words), _) => Cow::Borrowed(words),
            (None, MeasureSource::Operation(_, _, operation, Statistic::Quantile(quantile))) => {
                Cow::Owned(match Latency::least(*quantile) {
                    0 => format!("median {operation}"),
                    one_of @ ..1_000 => format!("slowest 1 in {one_of} {operation}"),
                    one_of => format!("slowest 1 in {},{:03} {operation}", one_of / 1_000, one_of % 1_000),
                })
            }
            _ => Cow::Borrowed(Column::name_of(&self.name)),
        }
    }

    /// Returns the unit of its values.
    pub fn unit(&self) -> Unit {
        match self.source {
            MeasureSource::Role(_, _, figure) => figure.unit(),
            MeasureSource::CountRate(_) | MeasureSource::Throughput | MeasureSource::Durable => {
                Unit::BytesPerSecond
            }
            MeasureSource::Flow(figure) => figure.unit(),
            MeasureSource::Operation(_, _, _, Statistic::Count) => Unit::Operations,
            MeasureSource::Operation(..)
            | MeasureSource::LongestStall
            | MeasureSource::CpuPerMegabyte
            | MeasureSource::Flushes(FlushFigure::Time)
            | MeasureSource::Lifecycle(_) => Unit::Nanoseconds,
            MeasureSource::Flushes(FlushFigure::Rate) => Unit::FlushesPerSecond,
            MeasureSource::Column(unit, _) => unit,
            MeasureSource::ExtentsPerFile => Unit::Extents,
            MeasureSource::Durability(LossFigure::Acknowledged) | MeasureSource::Faults(_) => Unit::Share,
            MeasureSource::Durability(LossFigure::Unsynced | LossFigure::Recovery) => Unit::Nanoseconds,
        }
    }

    /// Which way is better.
    pub fn direction(&self) -> Direction {
        if let MeasureSource::Column(_, better) = self.source {
            return better;
        }
        match self.unit() {
            Unit::BytesPerSecond
            | Unit::OperationsPerSecond
            | Unit::ItemsPerSecond
            | Unit::Operations
            | Unit::Number => Direction::HigherIsBetter,
            Unit::Nanoseconds | Unit::FlushesPerSecond | Unit::Extents | Unit::Share => {
                Direction::LowerIsBetter
            }
        }
    }

    /// Returns whether its values are often 0, which has no ratio: then separate tests compare it.
    pub fn is_often_zero(&self) -> bool {
        matches!(self.source, MeasureSource::Durability(LossFigure::Acknowledged))
    }

    /// True for the measures of the `io-errors` workload, which count faults.
    pub fn is_of_faults(&self) -> bool {
        matches!(self.source, MeasureSource::Faults(_))
    }

    /// The measure that orders configurations with the same value of this one, if there is one.
    pub fn tie_breaker(&self) -> Option<Measure> {
        let MeasureSource::Faults(harm) = self.source else { return None };
        let other = if harm == Harm::Silent { "retried-losses" } else { "silent-losses" };
        other.parse().ok()
    }

    /// The role whose work it describes; `None` if it is about several, or about the whole trial.
    pub fn role(&self) -> Option<Role> {
        match self.source {
            MeasureSource::Role(_, role, _) | MeasureSource::Operation(_, role, _, _) => Some(role),
            _ => None,
        }
    }

    /// Returns how many operations a trial has, and how many a value of this measure needs, if those are too
    /// few.
    pub fn too_few(&self, trial: &TrialRecord) -> Option<(u64, u64)> {
        let MeasureSource::Operation(phase, role, operation, Statistic::Quantile(quantile)) = &self.source
        else {
            return None;
        };
        let role = role_in(phase.find(trial)?, *role)?;
        let found = role.operations.iter().find(|result| result.operation == *operation)?;
        let needed = Latency::least(*quantile);
        (found.lat_ns.count < needed).then_some((found.lat_ns.count, needed))
    }

    /// Returns whether the measure waits until the written data is on the device.
    pub fn is_durable(&self) -> bool {
        matches!(self.source, MeasureSource::Durable | MeasureSource::Role(_, _, Figure::DurableRate))
    }

    /// Returns whether the slowest operations decide it: a short disturbance can delay those by any factor.
    pub fn is_of_the_slowest(&self) -> bool {
        match &self.source {
            MeasureSource::LongestStall => true,
            MeasureSource::Flow(figure) => figure.unit() == Unit::Nanoseconds,
            MeasureSource::Role(_, _, figure) => {
                matches!(figure, Figure::LongestStall | Figure::TimeOver100Ms | Figure::TimeOver1S)
            }
            MeasureSource::Operation(_, _, _, statistic) => match statistic {
                Statistic::Max | Statistic::StdDev => true,
                Statistic::Quantile(quantile) => *quantile != Quantile::P50,
                Statistic::Count | Statistic::Min | Statistic::Mean => false,
            },
            _ => false,
        }
    }

    /// Returns whether tables show the measure next to the one that ranks, if it has a value: it is about the
    /// load, and does not only sum up or explain what others show.
    pub fn is_shown_beside(&self) -> bool {
        !self.is_of_lifecycle()
            && !matches!(
                self.source,
                MeasureSource::Throughput
                    | MeasureSource::Flushes(_)
                    | MeasureSource::Role(PhaseSelector::ReadersAndWriters, _, Figure::ItemRate)
            )
    }

    /// The measures that have a short name, and the columns that these trials have from imported tables.
    pub fn all_of<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Vec<Measure> {
        Measure::all_named().chain(Measure::columns_of(trials)).collect()
    }

    /// The columns that these trials have from imported tables.
    pub fn columns_of<'a>(trials: impl IntoIterator<Item = &'a TrialRecord>) -> Vec<Measure> {
        let columns: BTreeSet<&String> = trials.into_iter().flat_map(|trial| trial.columns.keys()).collect();
        columns.into_iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// Returns whether this workload can have the measure: that of a workload is also one of the program that
    /// it is modelled on. Phases with the same name mean different things elsewhere.
    pub fn is_for(&self, workload: &Workload) -> bool {
        let named = NAMED.iter().find(|named| named.name == self.name);
        named.and_then(|named| named.workload).is_none_or(|own| own == workload.model())
    }

    /// The value in one trial; `None` if the trial was not measured or has no such phase, role or sample.
    pub fn value(&self, trial: &TrialRecord) -> Option<Value> {
        if trial.outcome != Outcome::Measured || !self.is_for(&trial.workload) {
            return None;
        }
        match &self.source {
            MeasureSource::Column(..) => trial.columns.get(&self.name).copied().map(Value::exact),
            MeasureSource::Throughput => throughput(&trial.phases),
            MeasureSource::Flow(figure) => figure.of(trial),
            MeasureSource::Durable => durable(&trial.phases),
            MeasureSource::LongestStall => longest_stall(&trial.phases),
            MeasureSource::Lifecycle(measure) => {
                let steps = LifecycleStep::ALL.iter().filter(|step| step.measure() == Some(*measure));
                let took: Option<Vec<u64>> =
                    steps.map(|step| Some(step.of(&trial.lifecycle_ns)?.0)).collect();
                took.map(|took| Value::exact(total(took) as f64))
            }
            MeasureSource::ExtentsPerFile => {
                trial.layout.as_ref().and_then(Layout::extents_per_file).map(Value::exact)
            }
            MeasureSource::Durability(figure) => trial.durability.as_ref().and_then(|found| figure.of(found)),
            MeasureSource::Faults(harm) => share_of_faults(*harm, &trial.io_errors),
            MeasureSource::CountRate(name) => count_rate(name, &trial.phases),
            MeasureSource::Flushes(figure) => figure.of(trial),
            MeasureSource::CpuPerMegabyte => cpu_per_megabyte(&trial.phases),
            MeasureSource::Role(phase, role, figure) => {
                let phase = phase.find(trial)?;
                figure.of(role_in(phase, *role)?, phase)
            }
            MeasureSource::Operation(phase, role, operation, statistic) => {
                let role = role_in(phase.find(trial)?, *role)?;
                let result = role.operations.iter().find(|result| result.operation == *operation)?;
                statistic.of(&result.lat_ns, result.censored)
            }
        }
    }
}

fn role_in(phase: &PhaseResult, role: Role) -> Option<&RoleResult> {
    phase.roles.iter().find(|result| result.role == role)
}

fn longest_stall(phases: &[PhaseResult]) -> Option<Value> {
    let stalls =
        phases.iter().flat_map(|phase| phase.roles.iter().filter_map(move |role| stall(role, phase)));
    // What had not ended anywhere may have become the longest.
    stalls.reduce(|a, b| Value::bound(a.value.max(b.value), a.at_least || b.at_least))
}

fn throughput(phases: &[PhaseResult]) -> Option<Value> {
    // A program may report how much it moved but not how fast. What was watched and moved nothing has
    // stalled, and its time counts.
    let could = |role: &RoleResult| {
        role.is_watched() && role.operations.iter().any(|result| result.operation.moves() != Moves::Nothing)
    };
    let moves =
        |role: &RoleResult| (role.rates.bytes > 0 && role.rates.aggregate_bytes_per_s > 0.0) || could(role);
    let moving = || phases.iter().filter(|phase| phase.window_ns > Nanos(0) && phase.roles.iter().any(moves));
    let seconds: f64 = moving().map(|phase| phase.window_ns.as_secs_f64()).sum();
    let bytes: f64 = moving().map(|phase| phase.bytes() as f64).sum();
    (seconds > 0.0).then(|| Quotient::over(bytes / seconds, seconds).into())
}

/// Bytes per second written in these phases until everything was on the device; `None` if nothing was
/// written.
pub fn durable<'p>(phases: impl IntoIterator<Item = &'p PhaseResult> + Clone) -> Option<Value> {
    let written = || phases.clone().into_iter().filter_map(|phase| phase.durable);
    let seconds: f64 = written().map(|durable| durable.duration_ns.as_secs_f64()).sum();
    let bytes: f64 = written().map(|durable| durable.bytes as f64).sum();
    let given_up = written().any(|durable| durable.bytes == 0);
    let value: Value = Quotient::over(bytes / seconds, seconds).into();
    (seconds > 0.0).then_some(Value { at_least: given_up, ..value })
}

/// Returns the sum of the counts that the roles of all phases have under a name, over the time of all phases.
fn count_rate(name: &str, phases: &[PhaseResult]) -> Option<Value> {
    let roles = phases.iter().flat_map(|phase| &phase.roles);
    let counts: Vec<u64> = roles.filter_map(|role| role.counts.get(name).copied()).collect();
    let seconds: f64 = phases.iter().map(|phase| phase.window_ns.as_secs_f64()).sum();
    let value = counts.iter().map(|count| *count as f64).sum::<f64>() / seconds;
    (!counts.is_empty() && seconds > 0.0).then(|| Quotient::over(value, seconds).into())
}

/// The share of the faults that did this harm, of all: those that never come about do none, and whoever
/// has fewer of them must not look better for that. `None` if there is none.
fn share_of_faults(harm: Harm, results: &[FaultResult]) -> Option<Value> {
    let all = results.len() as f64;
    let such = results.iter().filter(|result| result.harm() == harm).count() as f64;
    (all > 0.0).then(|| Quotient::over(such / all, all).into())
}

/// Nanoseconds per 10^6 bytes. Without telemetry the time of kernel threads is unknown, so there is no value.
/// Phases of which a program reports only the longest operation are ignored.
fn cpu_per_megabyte(phases: &[PhaseResult]) -> Option<Value> {
    let is_told = |phase: &PhaseResult| phase.window_ns > Nanos(0);
    let mut watched = Watched::of(phases);
    watched.retain(|one| one.window_ns > Nanos(0));
    let roles: usize = watched.iter().map(|one| one.roles.len()).sum();
    let all: usize = phases.iter().filter(|phase| is_told(phase)).map(|phase| phase.roles.len()).sum();
    if roles < all {
        return None;
    }
    let cpu_ns: Option<Vec<u64>> = watched.iter().map(|one| Some(one.cpu_with_threads()?.0)).collect();
    let cpu_ns: f64 = cpu_ns?.iter().map(|ns| *ns as f64).sum();
    let bytes: f64 = watched.iter().map(|one| one.bytes() as f64).sum();
    let megabytes = bytes / 1e6;
    (bytes > 0.0).then(|| Quotient::over(cpu_ns / megabytes, megabytes).into())
}

/// The longest stall of a role.
fn stall(role: &RoleResult, phase: &PhaseResult) -> Option<Value> {
    let stall = role.longest_stall_ns?;
    Some(Value::bound(stall.0 as f64, role.stall_is_bound(phase.window_ns)))
}

impl LossFigure {
    /// The figure under the model that lost the most.
    fn of(self, found: &Durability) -> Option<Value> {
        let worst = found.models.iter().filter_map(|model| self.of_model(model));
        worst.reduce(|a, b| if b.value > a.value { b } else { a })
    }

    fn of_model(self, model: &ModelResult) -> Option<Value> {
        match self {
            LossFigure::Acknowledged => {
                let (made, lost) = model.acknowledged();
                (made > 0).then(|| Quotient::over(lost as f64 / made as f64, made as f64).into())
            }
            LossFigure::Unsynced => {
                let parts = [&model.unsynced_files, &model.unsynced_names];
                let some = parts.into_iter().filter(|part| part.states > 0);
                some.map(|part| part.lost_ns.p50).max().map(|ns| Value::exact(ns as f64))
            }
            LossFigure::Recovery => (model.mounted > 0).then(|| Value::exact(model.recovery_ns.p50 as f64)),
        }
    }
}

impl Figure {
    fn unit(self) -> Unit {
        match self {
            Figure::Rate
            | Figure::RateWithoutRemoval
            | Figure::DurableRate
            | Figure::DataRate
            | Figure::OverheadRate => Unit::BytesPerSecond,
            Figure::OperationRate => Unit::OperationsPerSecond,
            Figure::ItemRate => Unit::ItemsPerSecond,
            Figure::LongestStall | Figure::CpuPerOperation => Unit::Nanoseconds,
            Figure::CpuShare | Figure::TimeOver100Ms | Figure::TimeOver1S => Unit::Share,
        }
    }

    fn of(self, role: &RoleResult, phase: &PhaseResult) -> Option<Value> {
        let exact = Value::exact;
        let window = phase.window_ns;
        let of_window = |rate: fn(&Rates) -> f64| role.window_rate(rate, window).map(Value::from);
        match self {
            Figure::Rate => of_window(|rates| rates.aggregate_bytes_per_s),
            Figure::RateWithoutRemoval => role.rate_without_removal(window).map(Value::from),
            Figure::DurableRate if role.role == Role::Reader => None,
            Figure::DurableRate => durable([phase]),
            Figure::DataRate => role.data_rate(window).map(Value::from),
            Figure::OverheadRate => role.overhead_rate(window).map(Value::from),
            Figure::OperationRate => of_window(|rates| rates.operations_per_s),
            Figure::ItemRate => of_window(|rates| rates.items_per_s),
            Figure::CpuShare if window.0 == 0 => role.cpu_share(window).map(exact),
            Figure::CpuShare => {
                role.cpu_share(window).map(|share| Quotient::over(share, window.as_secs_f64()).into())
            }
            Figure::LongestStall => stall(role, phase),
            Figure::TimeOver100Ms => role.time_over_100ms.map(exact),
            Figure::TimeOver1S => role.time_over_1s.map(exact),
            Figure::CpuPerOperation => {
                let completed = total(role.worker_results.iter().map(|worker| worker.completed));
                let completed = completed as f64;
                let each = role.cpu.total().0 as f64 / completed;
                (completed > 0.0 && each > 0.0).then(|| Quotient::over(each, completed).into())
            }
        }
    }
}

impl Statistic {
    /// The statistic of a latency distribution in which `censored` operations are known only to take at least
    /// that long.
    ///
    /// Even without a sample there may be an operation that covered the whole window. Then nothing else is
    /// known, and it is a lower bound of the maximum and of every quantile.
    fn of(self, latency: &Latency, censored: u64) -> Option<Value> {
        let value_ns = match self {
            Statistic::Count => return Some(Value::exact(latency.count as f64)),
            Statistic::Mean | Statistic::StdDev if latency.count == 0 => return None,
            Statistic::Mean => return Some(Value::bound(latency.mean, censored > 0)),
            Statistic::StdDev => return Some(Value::bound(latency.stddev, censored > 0)),
            Statistic::Min if latency.count == 0 => return None,
            Statistic::Min => latency.min,
            _ if latency.count == 0 && latency.max == 0 => return None,
            _ if latency.count == 0 => return Some(Value::bound(latency.max as f64, true)),
            Statistic::Max => latency.max,
            // A sample that is too small to show a quantile because an operation is stuck has at least one
            // beyond it.
            Statistic::Quantile(quantile) => {
                let stuck = latency.known(quantile).filter(|value_ns| latency.is_bound(*value_ns));
                latency.shown(quantile).or(stuck)?
            }
        };
        Some(Value::bound(value_ns as f64, latency.is_bound(value_ns)))
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl TryFrom<String> for Measure {
    type Error = MeasureError;

    fn try_from(text: String) -> Result<Self, MeasureError> {
        text.parse()
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        measure.name
    }
}
