use super::*;
use fsdyno_core::result::WorkerResult;
use fsdyno_core::{Operation, Role};

const SECOND: u64 = 1_000_000_000;

/// One operation that took these times, each started at the beginning of an interval of 100 ms.
fn operation(times_ns: &[u64], interval_ns: u64) -> OperationResult {
    let mut distribution = Distribution::empty();
    times_ns.iter().for_each(|ns| distribution.record(*ns));
    let max = times_ns.iter().copied().max().unwrap_or(0);
    let count = times_ns.len() as f64;
    let mean = times_ns.iter().sum::<u64>() as f64 / count;
    let variance = times_ns.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum::<f64>() / count;
    OperationResult {
        operation: Operation::Write,
        censored: 0,
        lat_ns: Latency {
            count: times_ns.len() as u64,
            min: times_ns.iter().copied().min().unwrap_or(0),
            max,
            mean,
            stddev: variance.sqrt(),
            quantiles: Quantiles::of(|each| distribution.quantile(each.fraction()).unwrap_or(0).min(max)),
            at_least_from: None,
        },
        histogram: distribution.encode().unwrap(),
        timeline: Timeline {
            interval_ns: Nanos(interval_ns),
            count: times_ns.iter().map(|_| 1).collect(),
            sum_ns: times_ns.to_vec(),
            max_ns: times_ns.to_vec(),
            bytes: times_ns.iter().map(|_| 10).collect(),
        },
        slowest: times_ns
            .iter()
            .map(|ns| SlowOperation { start_ns: 0, duration_ns: *ns, path: format!("f{ns}") })
            .collect(),
    }
}

fn worker(bytes: u64, stall_ns: u64) -> WorkerResult {
    WorkerResult {
        completed: 5,
        longest_stall_ns: Nanos(stall_ns),
        time_over_100ms: 0.5,
        bytes,
        active_ns: Nanos(SECOND),
        cpu: CpuTime { user_ns: Nanos(1), system_ns: Nanos(2) },
        ..WorkerResult::default()
    }
}

/// Two writers for some seconds that moved so many bytes.
fn phase(seconds: u64, bytes: u64, times_ns: &[u64]) -> PhaseResult {
    let rates = Rates {
        data_bytes_per_s: Some(bytes as f64 / seconds as f64),
        with_overhead_bytes_per_s: None,
        aggregate_bytes_per_s: bytes as f64 / seconds as f64,
        operations_per_s: 10.0,
        bytes,
        items_per_s: 0.0,
        items: 0,
    };
    let role = RoleResult {
        longest_stall_ns: Some(Nanos(bytes)),
        time_over_100ms: Some(0.5),
        rates,
        worker_results: vec![worker(bytes / 2, 3), worker(bytes / 2, bytes)],
        operations: vec![operation(times_ns, SECOND / 10)],
        counts: [("files".to_string(), 7)].into(),
        blocked_at_start: vec![InFlight {
            worker: 1,
            operation: Operation::Write,
            start_ns: -5,
            duration_ns: Nanos(9),
            at_least: false,
        }],
        ..RoleResult::unwatched(Role::Writer, 2)
    };
    PhaseResult {
        ramp_ns: Nanos(SECOND),
        clock: Some(WindowClock { begin_ns: 1_000, end_ns: 1_000 + seconds * SECOND }),
        late_ns: Some(Nanos(seconds)),
        ..PhaseResult::lasting("write", Nanos::from_secs(seconds), vec![role])
    }
}

fn part(client: &str, offset_ns: i64, result: PhaseResult) -> Part {
    let clock = ClockOffset { offset_ns, uncertainty_ns: Nanos(50) };
    Part {
        client: client.to_string(),
        before: Some(clock),
        after: Some(clock),
        result: Some(result),
        lost: None,
        silent_ns: None,
    }
}

#[test]
fn every_operation_of_every_client_is_in_the_sample() {
    let (one, two) = ([100, 200, 300], [400, 50_000, 600]);
    let parts = vec![part("a", 0, phase(2, 100, &one)), part("b", 0, phase(2, 300, &two))];
    let (merged, warnings) = merge(parts).unwrap();
    assert_eq!(warnings, []);
    let all = operation(&[100, 200, 300, 400, 50_000, 600], SECOND / 10);
    let role = &merged.roles[0];
    let Latency { count, min, max, mean, stddev, quantiles, .. } = &role.operations[0].lat_ns;
    assert_eq!((count, min, max, quantiles), (&6, &100, &50_000, &all.lat_ns.quantiles));
    assert!((mean - all.lat_ns.mean).abs() < 1e-6 && (stddev - all.lat_ns.stddev).abs() < 1e-6);
    assert_eq!(role.operations[0].timeline.count, [2, 2, 2]);
    assert_eq!(role.operations[0].timeline.max_ns, [400, 50_000, 600]);
    assert_eq!(role.operations[0].timeline.bytes, [20, 20, 20]);
    assert_eq!(role.operations[0].slowest[0].path, "b:f50000");
    assert_eq!((role.workers, role.worker_results.len(), role.counts["files"]), (4, 4, 14));
    assert_eq!(role.blocked_at_start.iter().map(|one| one.worker).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(role.rates.aggregate_bytes_per_s, 200.0);
    assert_eq!((role.rates.bytes, role.longest_stall_ns), (400, Some(Nanos(300))));
    assert_eq!(role.time_over_100ms, Some(0.5));
    assert_eq!(merged.clients.iter().map(|one| one.work.bytes).collect::<Vec<_>>(), [100, 300]);
    assert_eq!(merged.clients[1].work.longest_stall_ns, Nanos(300));
    let roles = |client: usize| merged.clients[client].roles.iter().map(|role| (role.role, role.work.bytes));
    assert_eq!(roles(1).collect::<Vec<_>>(), [(Role::Writer, 300)]);
}

/// Work that ends when it is done lasts until the last client has done it.
#[test]
fn a_straggler_costs_its_time() {
    let parts = vec![part("a", 0, phase(1, 100, &[1])), part("b", 0, phase(4, 100, &[1]))];
    let (merged, _) = merge(parts).unwrap();
    assert_eq!(merged.window_ns, Nanos::from_secs(4));
    assert_eq!(merged.roles[0].rates.aggregate_bytes_per_s, 50.0);
    // Half of the time of 2 workers for 1 s and of 2 for 4 s, of 4 workers for 4 s.
    assert!((merged.roles[0].time_over_100ms.unwrap() - 5.0 / 16.0).abs() < 1e-9);
    assert_eq!(merged.clients[0].active_ns, Nanos::from_secs(1));
    let clock = merged.clock.unwrap();
    assert_eq!(clock.end_ns - clock.begin_ns, 4 * SECOND);
}

/// The clock of the second is 400 ns ahead, so that its window is 400 ns earlier on that of the coordinator.
#[test]
fn only_what_is_in_all_windows_counts() {
    let parts = vec![part("a", 0, phase(2, 100, &[1])), part("b", 400, phase(2, 100, &[1]))];
    let clock = merge(parts).unwrap().0.clock.unwrap();
    assert_eq!((clock.begin_ns, clock.end_ns), (1_000, 600 + 2 * SECOND));
}

#[test]
fn long_timelines_have_the_longest_intervals() {
    let (short, mut long) = (phase(2, 10, &[1, 2, 3]), phase(2, 10, &[5, 6]));
    long.roles[0].operations[0].timeline.interval_ns = Nanos(SECOND / 5);
    let (merged, _) = merge(vec![part("a", 0, short), part("b", 0, long)]).unwrap();
    let timeline = &merged.roles[0].operations[0].timeline;
    assert_eq!(timeline.interval_ns, Nanos(SECOND / 5));
    assert_eq!((&timeline.count, &timeline.max_ns), (&vec![3, 2], &vec![5, 6]));
    assert_eq!(timeline.sum_ns, [8, 9]);
}

#[test]
fn a_lost_client_stays_in_the_result() {
    let lost = Part {
        client: "b".to_string(),
        before: None,
        after: None,
        result: None,
        lost: Some("it closed the connection".to_string()),
        silent_ns: Some(Nanos(77)),
    };
    let (merged, warnings) = merge(vec![part("a", 0, phase(2, 100, &[1])), lost]).unwrap();
    let client = &merged.clients[1];
    assert_eq!((client.work.longest_stall_ns, client.work.longest_stall_at_least), (Nanos(77), true));
    assert_eq!((client.work.bytes, client.work.workers), (0, 0));
    assert_eq!(client.lost.as_deref(), Some("it closed the connection"));
    // That it is lost says more.
    assert_eq!(warnings, []);
}

#[test]
fn a_client_that_began_late_or_at_an_unknown_time_is_named() {
    let mut late = phase(2, 100, &[1]);
    late.late_ns = Some(Nanos(SECOND + SECOND / 20));
    let unknown = Part { before: None, ..part("c", 0, phase(2, 100, &[1])) };
    let mut uncertain = part("d", 0, phase(2, 100, &[1]));
    uncertain.after = Some(ClockOffset { offset_ns: 50_000_000, uncertainty_ns: Nanos(50) });
    let parts = vec![part("a", 0, phase(2, 100, &[1])), part("b", 0, late), unknown, uncertain];
    let texts: Vec<String> = merge(parts).unwrap().1.into_iter().map(|warning| warning.to_string()).collect();
    assert_eq!(
        texts,
        [
            "phase 'write': client 'b': it began 50ms into the window",
            "phase 'write': client 'c': when it began is unknown: its clock could not be read",
            "phase 'write': client 'd': when it began is known to 50ms only, so uncertain is its clock",
        ]
    );
}
