//! From the records of workers to the result of a phase.

mod paced;
mod sample;

use crate::operations::OperationRecord;
use crate::pace::UnderWay;
use crate::record::{Closing, Crossing, Slot, WorkerRecord};
use crate::span::Span;
use crate::window::{Stalls, Window};
use fsdyno_core::operation::Moves;
use fsdyno_core::result::{CpuTime, InFlight, Rates, RoleResult, WorkerResult};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::StepIndex;
use fsdyno_core::{Operation, Role};
use fsdyno_sys::timer::Timer;
use sample::Sample;
use std::sync::Arc;

/// A worker's record after the drain; nothing is added to it any more.
pub(crate) struct Finished {
    record: Arc<WorkerRecord>,
    edges: Edges,
    stalls: Stalls,
    active_ns: u64,
    cpu: CpuTime,
    /// It has finished all its work, however long that took.
    whole: bool,
    /// When the phase was over for it: what had not ended by then is censored.
    given_up_ns: u64,
}

/// The operations in flight at the edges of the window.
#[derive(Debug, Default)]
struct Edges {
    at_begin: Vec<Flight>,
    at_end: Vec<Flight>,
}

/// An operation that crossed an edge.
#[derive(Debug, Clone, Copy)]
struct Flight {
    step: StepIndex,
    start_ns: u64,
    /// Its end, or when it was given up.
    until_ns: u64,
    bytes: u64,
    ended: bool,
}

impl Flight {
    fn duration_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.start_ns)
    }

    /// Returns the time that the operation spent inside the window.
    fn inside_ns(&self, window: Window) -> u64 {
        self.until_ns.min(window.end_ns).saturating_sub(self.start_ns.max(window.begin_ns))
    }

    fn in_flight(&self, worker: usize, record: &WorkerRecord, window: Window) -> InFlight {
        InFlight {
            worker: worker as u32,
            operation: record.operation(self.step),
            start_ns: self.start_ns as i64 - window.begin_ns as i64,
            duration_ns: Nanos(self.duration_ns()),
            at_least: !self.ended,
        }
    }
}

impl Finished {
    /// Closes a worker's record at the end of the drain and reads it.
    pub(crate) fn read(
        record: &Arc<WorkerRecord>,
        span: Span,
        window: Window,
        timer: Timer,
        now_ns: u64,
        cpu: CpuTime,
    ) -> Self {
        let mut closing = record.closing();
        closing.sealed = true;
        let mut edges = Edges::of(&closing);
        let mut given_up_ns = None;
        for (step, start) in record.slots().iter().chain([&record.slot]).filter_map(Slot::look) {
            let start_ns = timer.to_ns(start);
            if start_ns >= window.end_ns {
                continue;
            }
            given_up_ns = Some(now_ns);
            let flight = Flight { step, start_ns, until_ns: now_ns.max(start_ns), bytes: 0, ended: false };
            // From here on the worker writes nothing, so this thread may.
            record.tally.occupied(window, start_ns, flight.until_ns);
            if start_ns < window.begin_ns {
                edges.at_begin.push(flight);
            }
            edges.at_end.push(flight);
        }
        drop(closing);
        // A worker that finishes before the others does not stall.
        let until_ns = match (span, record.finished_ns.get()) {
            (Span::Whole { .. }, finished_ns @ 1..) => finished_ns.max(window.begin_ns + 1),
            _ => window.end_ns,
        };
        let window_of_it = Window { end_ns: until_ns, ..window };
        let stalls = record.tally.verdict(window_of_it, record.depth(), given_up_ns);
        let active_ns = until_ns - window.begin_ns;
        let whole = matches!(span, Span::Whole { .. });
        Finished { record: Arc::clone(record), edges, stalls, active_ns, cpu, whole, given_up_ns: now_ns }
    }

    /// Returns how long after the window the last operation of the worker, or its last iteration if its role
    /// has a rate, ended or was given up.
    pub(crate) fn drain_ns(&self, window: Window) -> u64 {
        let flights = self.edges.at_end.iter().map(|flight| flight.until_ns);
        let iterations = self.record.paced.iter().map(|paced| match paced.under_way() {
            Some(UnderWay { due_ns, .. }) if due_ns < window.end_ns => self.given_up_ns,
            _ => paced.last_ended_ns.get(),
        });
        flights.chain(iterations).max().unwrap_or(0).saturating_sub(window.end_ns)
    }

    /// Returns whether the worker was still in an operation of the window.
    pub(crate) fn hangs(&self) -> bool {
        self.edges.at_end.iter().any(|flight| !flight.ended)
    }

    /// The operations that covered the whole window.
    fn spanning(&self, window: Window) -> impl Iterator<Item = &Flight> {
        self.edges.at_begin.iter().filter(move |flight| flight.until_ns >= window.end_ns)
    }

    /// The operations of the sample that had not ended at the drain limit.
    fn censored(&self, window: Window) -> impl Iterator<Item = &Flight> {
        let inside = window.begin_ns..window.end_ns;
        self.edges.at_end.iter().filter(move |flight| !flight.ended && inside.contains(&flight.start_ns))
    }

    /// The operations of the sample that ended in the drain.
    fn left(&self, window: Window) -> impl Iterator<Item = &Flight> {
        self.edges.at_end.iter().filter(move |flight| flight.ended && flight.start_ns >= window.begin_ns)
    }

    /// The operations that were in flight when the window began, and ended inside.
    fn entered(&self, window: Window) -> impl Iterator<Item = &Flight> {
        self.edges.at_begin.iter().filter(move |flight| flight.until_ns < window.end_ns)
    }

    /// Operations that started and ended inside the window.
    fn completed(&self, window: Window) -> u64 {
        self.record.performed() - self.left(window).count() as u64
    }

    /// Operations that ended inside the window, and their bytes.
    fn ended_inside(&self, window: Window) -> (u64, u64) {
        let bytes: u64 = self.record.operations.iter().map(OperationRecord::bytes).sum();
        let entered: u64 = self.entered(window).map(|flight| flight.bytes).sum();
        let left: u64 = self.left(window).map(|flight| flight.bytes).sum();
        (self.completed(window) + self.entered(window).count() as u64, bytes + entered - left)
    }

    /// Time inside the window that it spent removing names.
    fn removing_ns(&self, window: Window) -> u64 {
        let removes = |step: StepIndex| self.record.operation(step).is_of_removal();
        let records = self.record.steps.iter().zip(&self.record.operations);
        let removals = records.filter(|(step, _)| step.is_of_removal());
        let sample_ns: u64 = removals.map(|(_, record)| record.sum_ns()).sum();
        // The sample has the whole length of those that ended in the drain, and none of the others.
        let left = self.left(window).filter(|flight| removes(flight.step));
        let whole_ns: u64 = left.map(Flight::duration_ns).sum();
        let began_inside = self.edges.at_end.iter().filter(|flight| flight.start_ns >= window.begin_ns);
        let edges = self.edges.at_begin.iter().chain(began_inside).filter(|flight| removes(flight.step));
        let parts_ns: u64 = edges.map(|flight| flight.inside_ns(window)).sum();
        sample_ns.saturating_sub(whole_ns) + parts_ns
    }

    fn result(&self, worker: usize, window: Window) -> WorkerResult {
        let unfinished = self.edges.at_end.iter().filter(|flight| !flight.ended).min_by_key(|f| f.start_ns);
        WorkerResult {
            completed: self.completed(window),
            spanning: self.spanning(window).count() as u64,
            longest_stall_ns: Nanos(self.stalls.longest_ns),
            longest_stall_at_least: self.stalls.at_least,
            time_over_100ms: self.stalls.over_100ms,
            time_over_1s: self.stalls.over_1s,
            rounds: self.record.rounds.get(),
            bytes: self.ended_inside(window).1,
            items: self.record.items.get(),
            active_ns: Nanos(self.active_ns),
            cpu: self.cpu,
            unfinished: unfinished.map(|flight| flight.in_flight(worker, &self.record, window)),
        }
    }
}

impl Edges {
    fn of(closing: &Closing) -> Self {
        let ended = |crossings: &[Crossing]| {
            let ended = crossings.iter().map(|crossing| Flight {
                step: crossing.step,
                start_ns: crossing.start_ns,
                until_ns: crossing.end_ns,
                bytes: crossing.bytes,
                ended: true,
            });
            ended.collect()
        };
        Edges { at_begin: ended(&closing.at_begin), at_end: ended(&closing.at_end) }
    }
}

/// The results of a phase by role, in the order in which the roles first appear.
pub(crate) fn roles(window: Window, finished: Vec<Finished>) -> Vec<RoleResult> {
    let mut roles: Vec<(Role, Vec<Finished>)> = Vec::new();
    for worker in finished {
        match roles.iter_mut().find(|(role, _)| *role == worker.record.role) {
            Some((_, workers)) => workers.push(worker),
            None => roles.push((worker.record.role, vec![worker])),
        }
    }
    roles.into_iter().map(|(role, workers)| role_result(role, &workers, window)).collect()
}

fn role_result(role: Role, workers: &[Finished], window: Window) -> RoleResult {
    let worker_results: Vec<WorkerResult> =
        workers.iter().enumerate().map(|(index, worker)| worker.result(index, window)).collect();
    let mean = |share: fn(&WorkerResult) -> f64| {
        let sum = worker_results.iter().map(share).sum::<f64>();
        (!worker_results.is_empty()).then(|| sum / worker_results.len() as f64)
    };
    let blocked = workers.iter().enumerate().flat_map(|(index, worker)| {
        let at_begin = worker.edges.at_begin.iter();
        at_begin.map(move |flight| flight.in_flight(index, &worker.record, window))
    });
    let steps = workers.first().map_or(&[][..], |worker| worker.record.steps);
    let whole = workers.iter().any(|worker| worker.whole);
    let samples: Vec<Sample> =
        (0..steps.len() as u32).map(|step| Sample::of(StepIndex(step), workers, window)).collect();
    let (open_loop, iterations) = paced::result(workers, window).unzip();
    RoleResult {
        role,
        workers: workers.len() as u32,
        longest_stall_ns: worker_results.iter().map(|worker| worker.longest_stall_ns).max(),
        // Of any: what had not ended may have become the longest.
        longest_stall_at_least: worker_results.iter().any(|worker| worker.longest_stall_at_least),
        time_over_100ms: mean(|worker| worker.time_over_100ms),
        time_over_1s: mean(|worker| worker.time_over_1s),
        blocked_at_start: blocked.collect(),
        rates: rates(steps, &samples, workers, window),
        counts: Default::default(),
        longest_item_ns: workers
            .iter()
            .map(|worker| Nanos(worker.record.longest_item_ns.get()))
            .max()
            .filter(|longest_ns| *longest_ns > Nanos(0)),
        removing_ns: Some(Nanos(workers.iter().map(|worker| worker.removing_ns(window)).sum()))
            .filter(|spent| *spent > Nanos(0)),
        open_loop,
        cpu: workers.iter().fold(CpuTime::default(), |sum, worker| sum + worker.cpu),
        reported_cpu_share: None,
        operations: steps
            .iter()
            .zip(samples)
            // Removing is not part of a writer's purpose, nor is finding or setting the end of a file; and a
            // worker that has done all its work, never one of these, did not need it.
            .filter(|(step, sample)| {
                let seldom = [Operation::Unlinkat, Operation::Rmdir, Operation::Lseek, Operation::Ftruncate];
                let expected = !whole && !seldom.contains(step);
                expected || sample.count > 0 || sample.bound_ns.is_some()
            })
            .map(|(operation, sample)| sample.result(*operation))
            .chain(iterations.into_iter().flatten())
            .collect(),
        worker_results,
    }
}

fn rates(steps: &[Operation], samples: &[Sample], workers: &[Finished], window: Window) -> Rates {
    // For requests in flight together, the time that the worker spends in them is their mean, not their sum.
    let depth = workers.iter().map(|worker| worker.record.depth()).max().unwrap_or(1);
    let time_ns = |step: Operation, sample: &Sample| match step {
        Operation::UringRead | Operation::UringWrite => sample.sum_ns / u128::from(depth),
        _ => sample.sum_ns,
    };
    let of = |wanted: &dyn Fn(Operation) -> bool| {
        steps
            .iter()
            .zip(samples)
            .filter(|(step, _)| wanted(**step))
            .fold((0_u64, 0_u128), |sums, (step, sample)| {
                (sums.0 + sample.bytes, sums.1 + time_ns(*step, sample))
            })
    };
    let per_second =
        |(bytes, time_ns): (u64, u128)| (time_ns > 0).then(|| bytes as f64 * 1e9 / time_ns as f64);
    let moves = |step: Operation| step.moves() != Moves::Nothing;
    let data = of(&Operation::is_of_data);
    let whole = of(&|step| step.is_of_overhead(steps.iter().copied()));
    let moved_any = steps.iter().zip(samples).any(|(step, sample)| moves(*step) && sample.count > 0);
    let (ended, bytes) = workers.iter().fold((0, 0), |sums, worker| {
        let (count, bytes) = worker.ended_inside(window);
        (sums.0 + count, sums.1 + bytes)
    });
    let items: u64 = workers.iter().map(|worker| worker.record.items.get()).sum();
    let seconds = window.length_ns() as f64 / 1e9;
    Rates {
        data_bytes_per_s: per_second(data),
        with_overhead_bytes_per_s: moved_any.then(|| per_second(whole)).flatten(),
        aggregate_bytes_per_s: bytes as f64 / seconds,
        operations_per_s: ended as f64 / seconds,
        bytes,
        items_per_s: items as f64 / seconds,
        items,
    }
}

#[cfg(test)]
mod tests;
