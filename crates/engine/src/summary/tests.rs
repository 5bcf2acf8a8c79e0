use super::*;
use crate::meter::{Meter, Object};
use fsdyno_core::result::{OperationResult, Quantile};
use fsdyno_core::workload::Ramp;
use proptest::prelude::*;

const STEPS: &[Operation] = &[Operation::Openat, Operation::Read];
const READ: StepIndex = StepIndex(1);
const MILLISECOND: u64 = 1_000_000;
const SPAN: Span = Span::Timed { ramp: Ramp::For(Nanos(0)), window: Nanos(0), drain_limit: Nanos(0) };

/// A worker that performs reads of one byte at these times and, maybe, hangs in a last one; given up at
/// `now_ns`.
fn role(operations: &[(u64, u64)], hangs: bool, window: Window, timer: Timer, now_ns: u64) -> RoleResult {
    let record = Arc::new(WorkerRecord::new(Role::Reader, STEPS, Some(window.length_ns())));
    record.deadline_ns.set(window.end_ns);
    record.work_in(b"tree-0/somewhere");
    let mut meter = Meter::new(timer, window, Arc::clone(&record), None);
    let object = Object { directory: b"tree-0", name: c"file" };
    let halted = operations.iter().any(|(start, end)| meter.record(READ, *start, *end, 1, object).is_err());
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
    let mut meter = Meter::new(timer, window, Arc::clone(&record), None);
    // It began when the clock did.
    record.tally.begin(0);
    meter.open_slots(slots.len());
    let zero = {
        let now = timer.ticks();
        now - timer.to_ns(now)
    };
    let object = Object { directory: b"tree-0", name: c"file" };
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
                let _ = meter.arrive(slot, end, 1, object);
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
    // The load goes on after the window, and may hang then.
    assert!(result.worker_results[0].unfinished.is_none());
}

#[test]
fn a_hanging_operation_bounds_the_quantiles_that_fall_on_it() {
    let timer = Timer::monotonic();
    // 99 reads of a microsecond, and one that hangs from now on, in the middle of the window.
    let begin = timer.now_ns();
    std::thread::sleep(std::time::Duration::from_millis(2));
    let operations: Vec<(u64, u64)> = (0..99).map(|n| (begin + n * 2000, begin + n * 2000 + 1000)).collect();
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
    let mut meter = Meter::new(timer, window, Arc::clone(&record), None);
    meter.open_slots(4);
    let now = timer.ticks();
    let zero = now - timer.to_ns(now);
    // Four at once, 10 ms each, for all of the window: 400 of 5 bytes.
    for round in 100..200 {
        (0..4).for_each(|slot| meter.depart(slot, StepIndex(0), zero + round * 10 * MILLISECOND));
        for slot in 0..4 {
            let end_ns = (round + 1) * 10 * MILLISECOND - 1;
            meter.arrive(slot, end_ns, 5, Object { directory: b"", name: c"" }).unwrap();
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

/// Returns a strategy for the operations of a worker over the three seconds of ramp, window and drain.
fn operations() -> impl Strategy<Value = Vec<(u64, u64)>> {
    crate::window::tests::operations(0..200 * MILLISECOND, 0..600 * MILLISECOND, 0..30)
}

proptest! {
    #[test]
    fn the_window_rule_holds_from_the_meter_to_the_result(operations in operations()) {
        let window = Window { begin_ns: 1000 * MILLISECOND, end_ns: 2000 * MILLISECOND };
        let inside = |time: u64| time >= window.begin_ns && time < window.end_ns;
        // Nothing counts after the first operation that ends after the window.
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

        let before = performed.iter().map(|read| read.1).filter(|end| *end < window.begin_ns).max();
        let after = performed.iter().filter(|(_, end)| (window.end_ns..=give_up_ns).contains(end));
        let hangs_in_it = performed.iter().filter(hanging).any(|(start, _)| *start < window.end_ns);
        let (last, given_up) = match after.min_by_key(|(_, end)| *end) {
            Some((start, end)) if *start < window.end_ns => (*end, false),
            None if hangs_in_it => (give_up_ns, true),
            _ => (window.end_ns, false),
        };
        let mut moments = completions;
        moments.extend([before.unwrap_or(0), last]);
        moments.sort_unstable();
        let longest = moments.windows(2).map(|pair| pair[1] - pair[0]).max();
        prop_assert_eq!(Some(worker.longest_stall_ns.0), longest);
        prop_assert_eq!(worker.longest_stall_at_least, given_up);
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
        let of_window = |start: &u64| *start < window.end_ns;
        let hangs = performed.iter().filter(hanging).map(|(start, _)| *start).filter(of_window).min();
        let unfinished = worker.unfinished.as_ref();
        prop_assert_eq!(unfinished.map(|flight| flight.start_ns), hangs.map(|start| start as i64 - window.begin_ns as i64));
    }
}

/// A removal that hangs beyond an edge of the window takes only that part of it that is inside; otherwise a
/// device that stalls would make its writers look fast.
#[test]
fn the_time_of_removing_is_inside_the_window() {
    const WRITE_AND_REMOVE: &[Operation] = &[Operation::Write, Operation::Unlinkat];
    let timer = Timer::monotonic();
    let window = Window { begin_ns: 100 * MILLISECOND, end_ns: 200 * MILLISECOND };
    let removing = |removals: &[(u64, u64)], hangs_since: Option<u64>| {
        let record = Arc::new(WorkerRecord::new(Role::Writer, WRITE_AND_REMOVE, Some(window.length_ns())));
        record.deadline_ns.set(window.end_ns);
        let mut meter = Meter::new(timer, window, Arc::clone(&record), None);
        record.tally.begin(0);
        let object = Object { directory: b"new-0", name: c"file" };
        for (start, end) in removals {
            let (start, end) = (start * MILLISECOND, end * MILLISECOND);
            let _ = meter.record(StepIndex(1), start, end, 0, object);
        }
        if let Some(since) = hangs_since {
            let now = timer.ticks();
            record.slot.announce(StepIndex(1));
            record.slot.enter(now - timer.to_ns(now) + since * MILLISECOND);
        }
        let given_up_ns = 900 * MILLISECOND;
        let finished = Finished::read(&record, SPAN, window, timer, given_up_ns, CpuTime::default());
        let role = roles(window, vec![finished]).remove(0);
        let share = role.removing(Nanos(window.length_ns()));
        assert_eq!(role.removing_ns.map_or(0.0, |spent| spent.0 as f64 / 1e8), share);
        (share * 100.0).round()
    };
    assert_eq!(removing(&[], None), 0.0);
    assert_eq!(removing(&[(110, 120), (130, 135)], None), 15.0);
    assert_eq!(removing(&[(50, 110)], None), 10.0, "it began in the ramp");
    assert_eq!(removing(&[(110, 120), (180, 700)], None), 30.0, "it ended in the drain");
    assert_eq!(removing(&[(50, 700)], None), 100.0);
    assert_eq!(removing(&[(110, 120)], Some(170)), 40.0, "it never ended");
    assert_eq!(removing(&[], Some(50)), 100.0, "it began in the ramp and never ended");
    assert_eq!(removing(&[(110, 120), (210, 300)], None), 10.0, "it began after the window");
}
