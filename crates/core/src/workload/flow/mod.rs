//! Parameters of `flow`: a load that is data. File sets, and roles of workers that perform a list of steps on
//! them, over and over.
//!
//! The engine compiles a flow once before its phase ([`Act`] is what it compiles from). Everything that can
//! be wrong is found here ([`check`]), with its place in the plan.

mod act;
mod check;
mod files;
mod rate;
mod scaling;
mod step;
mod value;
mod verify;
mod words;

pub use act::{Act, Choice, Flags, FlowStep};
pub use files::{FileSet, FileSets, FileSize};
pub use rate::{Arrivals, LatencyTarget, NoTarget, Pace, Rate, RateSearch};
pub use verify::Written;

use super::fields::Fields;
use super::measures::{FlowFigure, OwnFigure, OwnMeasure};
use super::parameter::{Literal, Parameter, ParameterError, Refusal, Surroundings, parameters};
use super::{Content, Load, Ramp, Timing};
use crate::operation::{Operation, Role};
use crate::quantile::Quantile;
use crate::units::{Bytes, Nanos};
use scaling::WorkerCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use value::amend_by_name;

/// The name of the only phase.
pub const PHASE: &str = "flow";
/// Memory that a worker needs for each name of a set whose files appear and disappear.
pub const BYTES_PER_NAME: u64 = 20;

parameters! {
    /// A load as data. Sizes in bytes, times in nanoseconds.
    Flow {
        flow: String = String::new(), "a flow that comes with fsdyno (`fsdyno plans` lists them), or the \
            path of a plan that has one; `files` and `roles` change it. Without it, they are the whole flow";
        files: FileSets = FileSets::default(), "the file sets, as `[workloads.files.NAME]`: `count`, `size`, \
            `per_directory`, `prefill`, `private`, `limit`; see the guide";
        roles: FlowRoles = FlowRoles::default(), "who works, as `[workloads.roles.ROLE]`: `workers`, \
            `steps`, `begin`, `background`, `rate`; see the guide";
        ramp: Ramp = Ramp::secs(5), "duration of the load before the window, or `until-throttled`: until the \
            device keeps up with the writers; `steady` takes its place";
        window: Nanos = Nanos::from_secs(30), "length of the measured part";
        drain_limit: Nanos = Nanos::from_secs(30), "how long to wait for operations in flight at the end of \
            the window";
        content: Content = Content::Random, "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`";
        verify: bool = false, "`true`: compare every byte that is read with what was written, and at the end, \
            after unmounting and mounting, read everything again; a wrong byte fails the trial";
    }
}

/// Workers that perform the same steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowRole {
    /// The name of the workers in results.
    pub role: Role,
    /// The number of workers; the most, if the trial measures with several numbers of them.
    pub workers: u32,
    /// The numbers of workers to measure with, one after the other and growing; empty if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<u32>,
    /// `true` if its iterations are not counted as work of the flow.
    pub background: bool,
    /// The pace at which the workers together begin iterations; if absent, they begin as soon as they can (a
    /// closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Pace>,
    /// The steps that each worker performs once before its first iteration.
    pub begin: Vec<FlowStep>,
    /// The steps that each worker performs in an iteration.
    pub steps: Vec<FlowStep>,
}

impl FlowRole {
    /// One worker, which does nothing yet.
    pub fn of(role: Role) -> Self {
        let (counts, begin, steps) = (Vec::new(), Vec::new(), Vec::new());
        FlowRole { role, workers: 1, counts, background: false, rate: None, begin, steps }
    }

    fn amend(&mut self, literal: &Literal, surroundings: &dyn Surroundings) -> Result<(), ParameterError> {
        let fields = Fields::of(literal, surroundings)?;
        fields.only(&["workers", "background", "rate", "begin", "steps"])?;
        if let Some(WorkerCounts(counts)) = fields.get("workers")? {
            self.workers = counts.last().copied().unwrap_or(0);
            self.counts = if counts.len() > 1 { counts } else { Vec::new() };
        }
        fields.set("background", &mut self.background)?;
        fields.set("rate", &mut self.rate)?;
        fields.set("begin", &mut self.begin)?;
        fields.set("steps", &mut self.steps)
    }

    /// `4 clients`; with several numbers of them, `1, 2 and 4 clients`.
    pub(super) fn number_in_words(&self) -> String {
        let most = super::plural(self.workers, self.role.name());
        match &self.counts[..] {
            [fewer @ .., _] => {
                let fewer: Vec<String> = fewer.iter().map(u32::to_string).collect();
                format!("{} and {most}", fewer.join(", "))
            }
            [] => most,
        }
    }

    /// Every step of it, those of repeated lists included, each after the lists that it is in.
    pub fn all_steps(&self) -> Vec<&FlowStep> {
        fn add<'a>(steps: &'a [FlowStep], all: &mut Vec<&'a FlowStep>) {
            for step in steps {
                all.push(step);
                if let Act::Repeat { steps, .. } = &step.act {
                    add(steps, all);
                }
            }
        }
        let mut all = Vec::new();
        add(&self.begin, &mut all);
        add(&self.steps, &mut all);
        all
    }

    /// The timed operations that it performs, in the order of [`Operation::ALL`].
    pub fn operations(&self) -> Vec<Operation> {
        let performed: Vec<Operation> =
            self.all_steps().into_iter().flat_map(|step| step.act.operations()).collect();
        Operation::ALL.iter().copied().filter(|operation| performed.contains(operation)).collect()
    }

    /// Returns whether the role posts a signal that another role waits for.
    fn answers(&self, other: &FlowRole) -> bool {
        let posts = |wanted: &str| {
            let mut steps = self.all_steps().into_iter();
            steps.any(|step| matches!(&step.act, Act::Post { signal, .. } if signal == wanted))
        };
        let mut steps = other.all_steps().into_iter();
        steps.any(|step| matches!(&step.act, Act::Await { signal, .. } if posts(signal)))
    }

    /// Returns whether the role names a set.
    pub fn uses(&self, name: &str) -> bool {
        self.all_steps().into_iter().any(|step| step.act.sets().contains(&name))
    }

    /// A step after which nobody knows how large the files of a set are.
    fn spoils_sizes(&self, set: &str) -> Option<&'static str> {
        // Which set an open file is of, and whether it was created but not written yet.
        let mut open: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        let of_set = |open: &BTreeMap<&str, (&str, bool)>, handle: &str| {
            open.get(handle).is_some_and(|(other, _)| *other == set)
        };
        for step in self.all_steps() {
            match &step.act {
                Act::Open { set, handle, .. } => drop(open.insert(handle, (set, false))),
                Act::Create { set, handle, .. } => drop(open.insert(handle, (set, true))),
                Act::WriteWhole { handle, .. } => {
                    if let Some((_, is_unwritten)) = open.get_mut(handle.as_str()) {
                        *is_unwritten = false;
                    }
                }
                Act::Close { handle } => match open.remove(handle.as_str()) {
                    Some((other, true)) if other == set => return Some("create"),
                    _ => {}
                },
                Act::Truncate { handle, .. } if of_set(&open, handle) => return Some("truncate"),
                Act::CopyFileRange { to, .. } if of_set(&open, to) => return Some("copy_file_range"),
                Act::Rename { to, .. } if to == set => return Some("rename"),
                Act::Link { to, .. } if to == set => return Some("link"),
                _ => {}
            }
        }
        None
    }
}

impl Act {
    /// The sets that it names.
    fn sets(&self) -> Vec<&str> {
        match self {
            Act::Open { set, .. }
            | Act::Create { set, .. }
            | Act::FsyncDirectory { set }
            | Act::Unlink { set, .. }
            | Act::Stat { set, .. }
            | Act::Readdir { set, .. } => vec![set],
            Act::Rename { set, to, .. } | Act::Link { set, to, .. } => vec![set, to],
            _ => Vec::new(),
        }
    }

    /// The largest buffer that it reads into, and the largest that it writes from.
    fn buffers(&self) -> (u64, u64) {
        match self {
            Act::ReadWhole { buffer, .. } => (buffer.0, 0),
            Act::ReadNext { size, .. } | Act::ReadRandom { size, .. } | Act::MmapRead { size, .. } => {
                (size.0, 0)
            }
            Act::WriteWhole { buffer, .. } => (0, buffer.0),
            Act::Append { size, .. } => (0, size.high.0),
            Act::Overwrite { size, .. } | Act::MmapWrite { size, .. } | Act::Setxattr { size, .. } => {
                (0, size.0)
            }
            _ => (0, 0),
        }
    }
}

/// The roles of a flow, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlowRoles(pub Vec<FlowRole>);

impl Parameter for FlowRoles {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let mut roles = FlowRoles::default();
        roles.amend(literal, surroundings)?;
        Ok(roles)
    }

    fn amend(&mut self, literal: &Literal, surroundings: &dyn Surroundings) -> Result<(), ParameterError> {
        let names = || Role::ALL.iter().filter(|role| **role != Role::Null).map(|role| role.name());
        let fresh = |name: &str| {
            let role = Role::ALL.iter().copied().find(|role| *role != Role::Null && role.name() == name);
            let unknown = || ParameterError::UnknownWord("role", name.to_string(), names().collect());
            role.map(FlowRole::of).ok_or_else(unknown)
        };
        amend_by_name(
            &mut self.0,
            literal,
            |one| one.role.name(),
            fresh,
            |one, literal| one.amend(literal, surroundings),
        )
    }

    fn written(&self) -> String {
        let each = self.0.iter().map(|role| {
            let workers = role.number_in_words();
            role.rate.map_or(workers.clone(), |rate| format!("{workers} at {}", rate.written()))
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

impl Flow {
    /// Returns whether files of a set appear or disappear.
    pub fn changes(&self, set: &str) -> bool {
        self.roles.0.iter().flat_map(FlowRole::all_steps).any(|step| match &step.act {
            Act::Create { set: name, .. } | Act::Unlink { set: name, .. } => name == set,
            Act::Rename { set: from, to, .. } => from == set || to == set,
            Act::Link { to, .. } => to == set,
            _ => false,
        })
    }

    /// The counters that roles share.
    pub fn signals(&self) -> Vec<String> {
        let steps = self.roles.0.iter().flat_map(FlowRole::all_steps);
        let names = steps.filter_map(|step| match &step.act {
            Act::Post { signal, .. } | Act::Await { signal, .. } => Some(signal.clone()),
            _ => None,
        });
        names.collect::<std::collections::BTreeSet<String>>().into_iter().collect()
    }

    /// Returns whether each worker has names of a set that no other one touches.
    pub fn divides(&self, set: &FileSet) -> bool {
        set.private || self.changes(&set.name)
    }

    /// Returns the number of workers that share the names of a set, if its files appear and disappear; else
    /// the number that use it.
    pub fn sharers(&self, set: &str) -> u32 {
        let workers = self.roles.0.iter().filter(|role| role.uses(set)).map(|role| role.workers);
        workers.fold(0, u32::saturating_add).max(1)
    }

    /// Returns the number of files of a set that exist at the beginning.
    pub fn prefilled(&self, set: &FileSet) -> u64 {
        if !self.divides(set) {
            return set.prefilled(set.count);
        }
        // Each worker's share is rounded by itself.
        let workers = u64::from(self.sharers(&set.name));
        let (each, more) = (set.count / workers, set.count % workers);
        more * set.prefilled(each + 1) + (workers - more) * set.prefilled(each)
    }

    /// The first role that works for the flow itself.
    fn main(&self) -> Option<&FlowRole> {
        self.roles.0.iter().find(|role| !role.background).or(self.roles.0.first())
    }

    /// The rate that a trial has to find.
    pub fn rate_search(&self) -> Option<RateSearch> {
        self.roles.0.iter().find_map(|role| match role.rate {
            Some(Pace::Highest(search)) => Some(search),
            _ => None,
        })
    }

    /// The largest buffers of a worker of a role, for reads and for writes.
    pub fn buffers(&self, role: &FlowRole) -> (u64, u64) {
        let each = role.all_steps().into_iter().map(|step| step.act.buffers());
        each.fold((0, 0), |most, one| (most.0.max(one.0), most.1.max(one.1)))
    }
}

impl Load for Flow {
    fn check(&self) -> Result<(), Refusal> {
        Refusal::unless(self.window > Nanos(0), "window", "greater than zero")?;
        super::check_content(&self.content)?;
        check::check(self)?;
        scaling::check(self)?;
        verify::check(self)
    }

    fn prepares(&self) -> Bytes {
        let bytes = self.files.0.iter().map(|set| self.prefilled(set).saturating_mul(set.size.mean()));
        Bytes(bytes.fold(0, u64::saturating_add))
    }

    /// Appended files grow until they are removed or reach their limit, which the size of the device may
    /// precede.
    fn writes(&self) -> Bytes {
        let steps = || self.roles.0.iter().flat_map(FlowRole::all_steps);
        let grows =
            |act: &Act| matches!(act, Act::Append { .. } | Act::Fallocate { .. } | Act::Truncate { .. });
        if steps().any(|step| grows(&step.act)) {
            return Bytes(u64::MAX);
        }
        let missing = |set: &FileSet| (set.count - self.prefilled(set)).saturating_mul(set.size.mean());
        Bytes(self.files.0.iter().map(missing).fold(0, u64::saturating_add))
    }

    fn timing(&self) -> Timing {
        let Flow { mut ramp, window, drain_limit, .. } = *self;
        // The window begins when the rate is found.
        if let Some(search) = self.rate_search() {
            ramp = Ramp::For(Nanos(ramp.longest().0.saturating_add(search.longest().0)));
        }
        let windows = self.scaled().map_or(1, |role| role.counts.len() as u32);
        Timing { windows, ramp, window, drain_limit }
    }

    fn cold(&self) -> Vec<bool> {
        let reads = |operation: &Operation| operation.moves() == crate::operation::Moves::Reads;
        let any = self.roles.0.iter().any(|role| role.operations().iter().any(reads));
        let each = vec![true; self.timing().windows as usize];
        if any && self.prepares() > Bytes(0) { each } else { Vec::new() }
    }

    /// The file sets are created anew for each further number of workers.
    fn moves(&self) -> Bytes {
        let further = u64::from(self.timing().windows - 1);
        Bytes(self.prepares().0.saturating_mul(further))
    }

    fn title(&self) -> String {
        let name = if self.flow.is_empty() { String::new() } else { format!(" {}", self.flow) };
        format!("flow{name}, {}, window {}", self.roles.written(), self.window)
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &["flow = 'varmail'\nramp = '200ms'\nwindow = '600ms'\nfiles.mail.count = 400\n\
             roles.client.workers = 2"]
    }

    /// The number of iterations that a role with a rate completes says little: as many as are due, if it
    /// keeps up.
    fn default_measure(&self) -> &'static str {
        match self.main().and_then(|role| role.rate) {
            Some(Pace::Highest(_)) => "flow-capacity",
            Some(Pace::At(_)) => "flow-response-p99",
            None => "flow-iterations",
        }
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::new(
                "flow-iterations",
                "iterations per second of all workers of a flow, except those of background roles",
                OwnFigure::Flow(FlowFigure::Iterations),
            )
            .in_words("iterations"),
            OwnMeasure::new(
                "flow-capacity",
                "the highest rate of iterations at which a flow meets the latency target of its plan, such \
                 as `p99 <= 20ms`",
                OwnFigure::Flow(FlowFigure::Capacity),
            )
            .in_words("highest rate that meets the target"),
            OwnMeasure::new(
                "flow-response-p99",
                "p99 of the time from when an iteration of a flow is due to when it ends; of roles with a \
                 `rate` that are not in the background, and of the slowest one if there are several",
                OwnFigure::Flow(FlowFigure::Response(Quantile::P99)),
            )
            .in_words("slowest 1 in 100 responses"),
            OwnMeasure::new(
                "flow-response-p999",
                "p99.9 of the same",
                OwnFigure::Flow(FlowFigure::Response(Quantile::P999)),
            )
            .in_words("slowest 1 in 1,000 responses"),
        ]
    }

    fn throughput(&self) -> &'static str {
        if self.rate_search().is_some() { "flow-capacity" } else { "flow-iterations" }
    }

    /// Users wait longest for a sync: that of the main role, or of a role whose answer it waits for.
    /// Without one they wait for reads, or for the first step of the role. If the role has a rate, they
    /// wait for whole iterations, from when each is due.
    fn latency(&self) -> Option<String> {
        let main = self.main()?;
        if main.rate.is_some() {
            return Some("flow-response-p999".to_string());
        }
        let first_of = |role: &FlowRole, known: [Operation; 2]| {
            let performed = role.operations();
            known.into_iter().find(|one| performed.contains(one)).map(|one| (role.role, one))
        };
        let syncs = [Operation::Fsync, Operation::Fdatasync];
        let answers = self.roles.0.iter().filter(|role| role.answers(main));
        let synced = std::iter::once(main).chain(answers).find_map(|role| first_of(role, syncs));
        let waited = synced.or_else(|| first_of(main, [Operation::Pread, Operation::Read]));
        let (role, operation) = waited.or_else(|| Some((main.role, *main.operations().first()?)))?;
        Some(format!("{PHASE}/{role}/{operation}/p99.9"))
    }

    fn memory(&self) -> Bytes {
        /// The memory of the source of contents besides its longest write.
        const POOL: u64 = Bytes::MIB;
        let of_role = |role: &FlowRole| {
            let (reads, writes) = self.buffers(role);
            let pool = if writes > 0 { POOL + writes } else { 0 };
            u64::from(role.workers).saturating_mul(reads + pool)
        };
        let verified = self.roles.0.iter().map(|role| {
            let compared = POOL + self.buffers(role).0;
            if self.verify { u64::from(role.workers).saturating_mul(compared) } else { 0 }
        });
        let of_set = |set: &FileSet| {
            let names = if self.changes(&set.name) { set.count * BYTES_PER_NAME } else { 0 };
            names.saturating_add(if self.verify { self.known_bytes(set) } else { 0 })
        };
        let roles = self.roles.0.iter().map(of_role).chain(verified);
        Bytes(roles.chain(self.files.0.iter().map(of_set)).fold(0, u64::saturating_add))
    }

    fn in_words(&self) -> Vec<String> {
        let also = super::verified_in_words(self.verify, "every file");
        words::flow(self).into_iter().chain(also).collect()
    }

    fn verifies(&self) -> bool {
        self.verify
    }

    /// Returns the time for the files that were there at the beginning; what the load adds is unknown.
    fn follows(&self) -> Nanos {
        if self.verify { super::reread_time(self.prepares()) } else { Nanos(0) }
    }
}

#[cfg(test)]
mod tests;
