//! From the records of workers to the result of a phase.

mod sample;

use crate::record::{Closing, Crossing, OperationRecord, Slot, WorkerRecord};
use crate::span::Span;
use crate::window::{Stalls, Window};
use fsdyno_core::operation::Moves;
use fsdyno_core::result::{CpuTime, InFlight, Rates, RoleResult, WorkerResult};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::Step;
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
}

/// What was in flight at the edges of the window.
#[derive(Debug, Default)]
struct Edges {
    at_begin: Vec<Flight>,
    at_end: Vec<Flight>,
}

/// An operation that crossed an edge.
#[derive(Debug, Clone, Copy)]
struct Flight {
    step: Step,
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
        let alone = record.slot.look().filter(|_| !closing.over);
        for (step, start) in record.slots().iter().filter_map(Slot::look).chain(alone) {
            let start_ns = timer.to_ns(start);
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
        let stalls = record.tally.verdict(Window { end_ns: until_ns, ..window }, record.depth());
        let active_ns = until_ns - window.begin_ns;
        let whole = matches!(span, Span::Whole { .. });
        Finished { record: Arc::clone(record), edges, stalls, active_ns, cpu, whole }
    }

    /// How long after the window its last operation ended or was given up.
    pub(crate) fn drain_ns(&self, window: Window) -> u64 {
        let last_ns = self.edges.at_end.iter().map(|flight| flight.until_ns).max().unwrap_or(0);
        last_ns.saturating_sub(window.end_ns)
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

    fn result(&self, worker: usize, window: Window) -> WorkerResult {
        let unfinished = self.edges.at_end.iter().filter(|flight| !flight.ended).min_by_key(|f| f.start_ns);
        WorkerResult {
            completed: self.completed(window),
            spanning: self.spanning(window).count() as u64,
            longest_stall_ns: Nanos(self.stalls.longest_ns),
            time_over_100ms: self.stalls.over_100ms,
            time_over_1s: self.stalls.over_1s,
            rounds: self.record.rounds.get(),
            bytes: self.ended_inside(window).1,
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
        worker_results.iter().map(share).sum::<f64>() / worker_results.len().max(1) as f64
    };
    let blocked = workers.iter().enumerate().flat_map(|(index, worker)| {
        let at_begin = worker.edges.at_begin.iter();
        at_begin.map(move |flight| flight.in_flight(index, &worker.record, window))
    });
    let steps = workers.first().map_or(&[][..], |worker| worker.record.steps);
    let whole = workers.iter().any(|worker| worker.whole);
    let samples: Vec<Sample> =
        (0..steps.len() as u32).map(|step| Sample::of(Step(step), workers, window)).collect();
    RoleResult {
        role,
        workers: workers.len() as u32,
        longest_stall_ns: worker_results
            .iter()
            .map(|worker| worker.longest_stall_ns)
            .max()
            .unwrap_or_default(),
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
        cpu: workers.iter().fold(CpuTime::default(), |sum, worker| sum + worker.cpu),
        operations: steps
            .iter()
            .zip(samples)
            // Removing is not part of a writer's purpose; and a worker that has done all its work, never one
            // of these, did not need it.
            .filter(|(step, sample)| {
                let expected = !whole && !matches!(step, Operation::Unlinkat | Operation::Rmdir);
                expected || sample.count > 0 || sample.bound_ns.is_some()
            })
            .map(|(operation, sample)| sample.result(*operation))
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
    let first = |step: Operation| matches!(step, Operation::ReadFirstByte | Operation::WriteFirstByte);
    let data = of(&|step| moves(step) && !first(step));
    // As in the published tables, a reader's time includes finding the file, and a writer's includes closing
    // it. Without a first byte there is no such table, and a worker's time includes everything that it does.
    let reads = steps.contains(&Operation::Read);
    let published = steps.iter().any(|step| first(*step));
    let whole = of(&|step| {
        let overhead = if reads { Operation::Readdir } else { Operation::Close };
        !published || moves(step) || step == Operation::Openat || step == overhead
    });
    let (ended, bytes) = workers.iter().fold((0, 0), |sums, worker| {
        let (count, bytes) = worker.ended_inside(window);
        (sums.0 + count, sums.1 + bytes)
    });
    let items: u64 = workers.iter().map(|worker| worker.record.items.get()).sum();
    let seconds = window.length_ns() as f64 / 1e9;
    Rates {
        data_bytes_per_s: per_second(data),
        with_overhead_bytes_per_s: steps.iter().any(|step| moves(*step)).then(|| per_second(whole)).flatten(),
        aggregate_bytes_per_s: bytes as f64 / seconds,
        operations_per_s: ended as f64 / seconds,
        bytes,
        items_per_s: items as f64 / seconds,
        items,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Meter, Place};
    use fsdyno_core::result::{OperationResult, Quantile};
    use proptest::prelude::*;

    const STEPS: &[Operation] = &[Operation::Openat, Operation::Read];
    const READ: Step = Step(1);
    const MILLISECOND: u64 = 1_000_000;
    const SPAN: Span = Span::Timed { ramp: Nanos(0), window: Nanos(0), drain_limit: Nanos(0) };

    /// A worker that performs reads of one byte at these times and, maybe, hangs in a last one; given up at
    /// `now_ns`.
    fn role(operations: &[(u64, u64)], hangs: bool, window: Window, timer: Timer, now_ns: u64) -> RoleResult {
        let record = Arc::new(WorkerRecord::new(Role::Reader, STEPS, Some(window.length_ns())));
        record.deadline_ns.set(window.end_ns);
        record.work_in(b"tree-0/somewhere");
        let mut meter = Meter::new(timer, window, Arc::clone(&record));
        let place = Place { directory: b"tree-0", name: c"file" };
        let halted =
            operations.iter().any(|(start, end)| meter.record(READ, *start, *end, 1, place).is_err());
        if hangs && !halted {
            record.slot.announce(READ);
            record.slot.enter(timer.ticks());
        }
        let mut roles =
            roles(window, vec![Finished::read(&record, SPAN, window, timer, now_ns, CpuTime::default())]);
        roles.remove(0)
    }

    /// A worker that keeps several reads of one byte in flight, by slot. It is given up at `now_ns`, and what
    /// has not ended by then is still in flight.
    fn queued(slots: &[Vec<(u64, u64)>], window: Window, timer: Timer, now_ns: u64) -> RoleResult {
        let record = Arc::new(WorkerRecord::new(Role::Reader, STEPS, Some(window.length_ns())));
        record.deadline_ns.set(window.end_ns);
        let mut meter = Meter::new(timer, window, Arc::clone(&record));
        meter.open_slots(slots.len());
        let zero = {
            let now = timer.ticks();
            now - timer.to_ns(now)
        };
        let place = Place { directory: b"tree-0", name: c"file" };
        let of_slot = |(slot, reads): (usize, &Vec<(u64, u64)>)| -> Vec<(u64, u64, usize)> {
            reads.iter().map(|(start, end)| (*end, *start, slot)).collect()
        };
        let mut by_end: Vec<_> = slots.iter().enumerate().flat_map(of_slot).collect();
        by_end.sort_unstable();
        for (end, start, slot) in by_end {
            // The next one in a slot starts after the last one there has ended; after one that hangs, nothing
            // follows.
            if record.slots()[slot].look().is_none() && start <= now_ns {
                meter.depart(slot, READ, zero + start);
                if end <= now_ns {
                    let _ = meter.arrive(slot, end, 1, place);
                }
            }
        }
        let mut roles =
            roles(window, vec![Finished::read(&record, SPAN, window, timer, now_ns, CpuTime::default())]);
        roles.remove(0)
    }

    fn read_row(role: &RoleResult) -> &OperationResult {
        role.operations.iter().find(|row| row.operation == Operation::Read).unwrap()
    }

    #[test]
    fn an_operation_that_began_after_the_window_is_not_a_sample() {
        let timer = Timer::monotonic();
        let window = Window { begin_ns: 0, end_ns: 1 };
        std::thread::sleep(std::time::Duration::from_millis(1));
        let result = role(&[], true, window, timer, timer.now_ns() + MILLISECOND);
        let row = read_row(&result);
        assert_eq!((row.lat_ns.count, row.censored), (0, 0));
        assert!(result.worker_results[0].unfinished.is_some());
    }

    #[test]
    fn a_hanging_operation_bounds_the_quantiles_that_fall_on_it() {
        let timer = Timer::monotonic();
        // 99 reads of a microsecond, and one that hangs from now on, in the middle of the window.
        let begin = timer.now_ns();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let operations: Vec<(u64, u64)> =
            (0..99).map(|n| (begin + n * 2000, begin + n * 2000 + 1000)).collect();
        let window = Window { begin_ns: begin, end_ns: begin + 1_000_000 * MILLISECOND };
        let result = role(&operations, true, window, timer, window.end_ns + 5 * MILLISECOND);
        let row = read_row(&result);
        let lat = &row.lat_ns;
        assert_eq!((lat.count, row.censored), (100, 1));
        assert_eq!((lat.min, lat.median()), (1000, 1000));
        assert!(
            !lat.is_bound(lat.median())
                && !lat.is_bound(lat.quantiles[Quantile::P90])
                && !lat.is_bound(lat.quantiles[Quantile::P99])
        );
        assert!(lat.is_bound(lat.quantiles[Quantile::P999]) && lat.is_bound(lat.max), "{lat:?}");
        assert_eq!(row.slowest[0].path, "tree-0/somewhere");
        assert_eq!(row.slowest[1].path, "tree-0/file");
    }

    #[test]
    fn deviations_are_exact() {
        let timer = Timer::monotonic();
        let window = Window { begin_ns: 0, end_ns: 1000 * MILLISECOND };
        let result = role(
            &[(0, 2), (10, 14), (20, 24), (30, 34), (40, 45), (50, 55), (60, 67), (70, 79)],
            false,
            window,
            timer,
            0,
        );
        let lat = &read_row(&result).lat_ns;
        assert_eq!((lat.mean, lat.stddev), (5.0, 2.0));
        assert_eq!((lat.min, lat.max, lat.median()), (2, 9, 4));
    }

    #[test]
    fn rates_of_a_worker_with_many_in_flight_are_right() {
        const STEPS: &[Operation] = &[Operation::UringRead];
        let timer = Timer::monotonic();
        let window = Window { begin_ns: 1000 * MILLISECOND, end_ns: 2000 * MILLISECOND };
        let record = Arc::new(WorkerRecord::new(Role::Reader, STEPS, Some(window.length_ns())));
        let mut meter = Meter::new(timer, window, Arc::clone(&record));
        meter.open_slots(4);
        let now = timer.ticks();
        let zero = now - timer.to_ns(now);
        // Four at once, 10 ms each, for all of the window: 400 of 5 bytes.
        for round in 100..200 {
            (0..4).for_each(|slot| meter.depart(slot, Step(0), zero + round * 10 * MILLISECOND));
            for slot in 0..4 {
                let end_ns = (round + 1) * 10 * MILLISECOND - 1;
                meter.arrive(slot, end_ns, 5, Place { directory: b"", name: c"" }).unwrap();
            }
        }
        let finished = Finished::read(&record, SPAN, window, timer, window.end_ns, CpuTime::default());
        let rates = roles(window, vec![finished]).remove(0).rates;
        assert_eq!(rates.bytes, 2000);
        for rate in [rates.data_bytes_per_s.unwrap(), rates.with_overhead_bytes_per_s.unwrap()] {
            assert!((rate - 2000.0).abs() < 0.01, "{rate}");
        }
    }

    #[test]
    fn with_many_in_flight_only_the_one_that_hangs_is_censored() {
        let timer = Timer::monotonic();
        let window = Window { begin_ns: 1000 * MILLISECOND, end_ns: 2000 * MILLISECOND };
        // 32 slots. Each starts a read every 10 ms from before the window on, but one hangs from the middle
        // on.
        let slots: Vec<Vec<(u64, u64)>> = (0..32)
            .map(|slot| {
                let end = if slot == 7 { 1500 } else { 2000 };
                let mut reads: Vec<(u64, u64)> = (900..end)
                    .step_by(10)
                    .map(|start| (start * MILLISECOND, (start + 10) * MILLISECOND))
                    .collect();
                if slot == 7 {
                    reads.push((end * MILLISECOND, u64::MAX));
                }
                reads
            })
            .collect();
        let result = queued(&slots, window, timer, 5000 * MILLISECOND);
        let (worker, row) = (&result.worker_results[0], read_row(&result));
        assert_eq!((row.lat_ns.count, row.censored), (31 * 100 + 50 + 1, 1));
        assert_eq!(row.lat_ns.max, 3500 * MILLISECOND);
        assert!(
            row.lat_ns.is_bound(row.lat_ns.max) && !row.lat_ns.is_bound(row.lat_ns.quantiles[Quantile::P999])
        );
        assert_eq!(worker.longest_stall_ns, Nanos(10 * MILLISECOND));
        // Half of the window in one slot of 32.
        assert!((worker.time_over_1s - 0.5 / 32.0).abs() < 1e-9);
        let unfinished = worker.unfinished.as_ref().unwrap();
        assert_eq!((unfinished.start_ns, unfinished.at_least), (500 * MILLISECOND as i64, true));
    }

    /// What a worker does over the three seconds of ramp, window and drain.
    fn operations() -> impl Strategy<Value = Vec<(u64, u64)>> {
        crate::window::tests::operations(0..200 * MILLISECOND, 0..600 * MILLISECOND, 0..30)
    }

    proptest! {
        #[test]
        fn the_window_rule_holds_from_the_meter_to_the_result(operations in operations()) {
            let window = Window { begin_ns: 1000 * MILLISECOND, end_ns: 2000 * MILLISECOND };
            let inside = |time: u64| time >= window.begin_ns && time < window.end_ns;
            // A worker does nothing more after the first operation that ends after the window.
            let last = operations.iter().position(|(_, end)| *end >= window.end_ns);
            let performed = &operations[..last.map_or(operations.len(), |last| last + 1)];
            let durations: Vec<u64> =
                performed.iter().filter(|(start, _)| inside(*start)).map(|(start, end)| end - start).collect();
            let spanning = performed.iter().any(|(start, end)| *start < window.begin_ns && *end >= window.end_ns);
            let completions = performed.iter().filter(|(_, end)| inside(*end)).count() as u64;

            let result = role(&operations, false, window, Timer::monotonic(), 3000 * MILLISECOND);
            let (worker, row) = (&result.worker_results[0], read_row(&result));
            prop_assert_eq!(row.lat_ns.count, durations.len() as u64);
            prop_assert_eq!(row.timeline.count.iter().sum::<u64>(), durations.len() as u64);
            prop_assert_eq!(row.timeline.sum_ns.iter().sum::<u64>(), durations.iter().sum::<u64>());
            let both = performed.iter().filter(|(start, end)| inside(*start) && inside(*end)).count() as u64;
            prop_assert_eq!(worker.completed, both);
            prop_assert_eq!(worker.spanning, u64::from(spanning));
            prop_assert_eq!(result.rates.bytes, completions);
            prop_assert!((result.rates.operations_per_s - completions as f64).abs() < 1e-9);
            let longest = durations.iter().copied().max().unwrap_or(0);
            prop_assert_eq!(row.lat_ns.max, if spanning { window.length_ns() } else { longest });
            prop_assert_eq!(row.lat_ns.at_least_from, spanning.then(|| window.length_ns()));
            let blocked = performed.iter().filter(|(start, end)| *start < window.begin_ns && *end >= window.begin_ns);
            prop_assert_eq!(result.blocked_at_start.len(), blocked.count());
        }

        #[test]
        fn the_window_rule_holds_for_many_in_flight(slots in prop::collection::vec(operations(), 1..6)) {
            let window = Window { begin_ns: 1000 * MILLISECOND, end_ns: 2000 * MILLISECOND };
            let give_up_ns = 3000 * MILLISECOND;
            let inside = |time: u64| time >= window.begin_ns && time < window.end_ns;
            let performed: Vec<(u64, u64)> =
                slots.iter().flatten().copied().filter(|(start, _)| *start <= give_up_ns).collect();
            let seen = |(start, end): (u64, u64)| end.min(give_up_ns) - start;
            let sample: Vec<(u64, u64)> =
                performed.iter().copied().filter(|(start, _)| inside(*start)).collect();
            let hanging = |(_, end): &&(u64, u64)| *end > give_up_ns;
            let spanning = |(start, end): &&(u64, u64)| *start < window.begin_ns && *end >= window.end_ns;

            let result = queued(&slots, window, Timer::monotonic(), give_up_ns);
            let (worker, row) = (&result.worker_results[0], read_row(&result));
            prop_assert_eq!(row.lat_ns.count, sample.len() as u64);
            prop_assert_eq!(row.censored, sample.iter().filter(hanging).count() as u64);
            for (index, count) in row.timeline.count.iter().enumerate() {
                let interval = |start: u64| (start - window.begin_ns) / row.timeline.interval_ns.0;
                let of_interval = sample.iter().filter(|(start, _)| interval(*start) == index as u64);
                let expected = of_interval.fold((0, 0, 0), |(count, sum, max), read| {
                    (count + 1, sum + seen(*read), seen(*read).max(max))
                });
                prop_assert_eq!((*count, row.timeline.sum_ns[index], row.timeline.max_ns[index]), expected);
            }
            let both = sample.iter().filter(|(_, end)| inside(*end)).count() as u64;
            prop_assert_eq!(worker.completed, both);
            prop_assert_eq!(worker.spanning, performed.iter().filter(spanning).count() as u64);
            let completions: Vec<u64> = performed.iter().map(|read| read.1).filter(|end| inside(*end)).collect();
            prop_assert_eq!((result.rates.bytes, worker.bytes), (completions.len() as u64, completions.len() as u64));
            prop_assert!((result.rates.operations_per_s - completions.len() as f64).abs() < 1e-9);

            let mut moments = completions;
            moments.extend([window.begin_ns, window.end_ns]);
            moments.sort_unstable();
            let longest = moments.windows(2).map(|pair| pair[1] - pair[0]).max();
            prop_assert_eq!(Some(worker.longest_stall_ns.0), longest);
            let overlap = |limit: u64| -> f64 {
                let long = performed.iter().copied().filter(|read| seen(*read) > limit);
                let overlap: u64 =
                    long.map(|(start, end)| window.overlap_ns(start, end.min(give_up_ns))).sum();
                overlap as f64 / window.length_ns() as f64 / slots.len() as f64
            };
            prop_assert!((worker.time_over_100ms - overlap(crate::window::LONG_NS)).abs() < 1e-9);
            prop_assert!((worker.time_over_1s - overlap(crate::window::VERY_LONG_NS)).abs() < 1e-9);

            let blocked = performed.iter().filter(|(start, end)| *start < window.begin_ns && *end >= window.begin_ns);
            prop_assert_eq!(result.blocked_at_start.len(), blocked.count());
            let hangs = performed.iter().filter(hanging).map(|(start, _)| *start).min();
            let unfinished = worker.unfinished.as_ref();
            prop_assert_eq!(unfinished.map(|flight| flight.start_ns), hangs.map(|start| start as i64 - window.begin_ns as i64));
        }
    }
}
