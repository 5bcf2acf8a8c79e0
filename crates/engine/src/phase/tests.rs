use super::*;
use crate::meter::{Object, timed};
use fsdyno_core::workload::{Ramp, Steady, StepIndex};
use fsdyno_core::{Operation, Role, TrialStep};
use rustix::io::Errno;
use std::sync::Mutex;

mod paced;
mod search;

const STEPS: &[Operation] = &[Operation::Null];

/// A worker that performs this many operations of this length, and is then done.
fn worker(operations: u64, each: Duration) -> Job {
    Box::new(move |lineup| {
        let mut meter = lineup.start();
        for _ in 0..operations {
            let object = Object { directory: b"", name: c"" };
            let call = || {
                std::thread::sleep(each);
                Ok(())
            };
            if let Err(halt) = timed(&mut meter, StepIndex(0), object, |()| 7, call) {
                return halt;
            }
            meter.item();
        }
        Halt::Over
    })
}

#[test]
fn a_phase_without_a_window_lasts_until_the_work_is_done() {
    let short = worker(3, Duration::from_millis(1));
    let long = worker(5, Duration::from_millis(40));
    let phase = PhaseLoad {
        name: "work".to_string(),
        span: Span::whole(8),
        teams: vec![Team::new(Role::Null, STEPS, vec![short, long])],
    };
    let mut events = Vec::new();
    let mut listen = |event| events.push(event);
    let mut reporter = Reporter::new(&mut listen);
    let Run { result, .. } =
        run(phase, Timer::monotonic(), &AtomicBool::new(false), &mut reporter, &mut (), &mut 0).unwrap();
    assert!(result.window_ns >= Nanos::from_millis(200), "{}", result.window_ns);
    let role = &result.roles[0];
    assert_eq!((role.rates.items, role.rates.bytes, role.operations[0].lat_ns.count), (8, 56, 8));
    assert_eq!(role.operations[0].timeline.count.iter().sum::<u64>(), 8);
    assert_eq!(role.worker_results[0].completed, 3);
    // The worker that finished early has not stalled since.
    assert!(role.worker_results[0].longest_stall_ns < role.worker_results[1].longest_stall_ns);
    assert!(role.longest_stall_ns < Some(result.window_ns));
}

#[test]
fn work_without_progress_is_given_up_and_reported() {
    let (quick, stuck) = (worker(3, Duration::from_millis(1)), worker(2, Duration::from_secs(3)));
    let phase = PhaseLoad {
        name: "work".to_string(),
        span: Span::whole(5).patient(Some(Nanos::from_millis(300))),
        teams: vec![Team::new(Role::Null, STEPS, vec![quick, stuck])],
    };
    let (mut listen, mut left_behind) = (|_| (), 0);
    let mut reporter = Reporter::new(&mut listen);
    let never = AtomicBool::new(false);
    let run = run(phase, Timer::monotonic(), &never, &mut reporter, &mut (), &mut left_behind);
    let Run { result, written, given_up, .. } = run.unwrap();
    assert_eq!(given_up, Some(Nanos::from_millis(300)));
    let role = &result.roles[0];
    let [quick, stuck] = &role.worker_results[..] else { panic!("{role:?}") };
    assert_eq!((quick.completed, quick.unfinished.as_ref(), stuck.completed), (3, None, 0));
    let unfinished = stuck.unfinished.as_ref().expect("it has not ended");
    assert!(unfinished.at_least && unfinished.duration_ns >= Nanos::from_millis(300), "{unfinished:?}");
    assert!(stuck.longest_stall_at_least && role.operations[0].censored == 1, "{role:?}");
    assert_eq!((left_behind, written.bytes), (1, 0), "it is still in its first operation");
}

#[test]
fn what_is_written_counts_from_the_ramp_to_the_drain() {
    const WRITES: &[Operation] = &[Operation::Read, Operation::Write];
    let calls = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let job = {
        let calls = Arc::clone(&calls);
        move |lineup: Lineup| {
            let mut meter = lineup.start();
            let object = Object { directory: b"", name: c"" };
            loop {
                for step in [StepIndex(0), StepIndex(1)] {
                    let call = || {
                        std::thread::sleep(Duration::from_millis(1));
                        calls.fetch_add(u64::from(step == StepIndex(1)), Ordering::Relaxed);
                        Ok(())
                    };
                    if let Err(halt) = timed(&mut meter, step, object, |()| 7, call) {
                        return halt;
                    }
                }
            }
        }
    };
    let (ramp, window, drain_limit) =
        (Nanos::from_millis(50), Nanos::from_millis(20), Nanos::from_millis(500));
    let phase = PhaseLoad {
        name: "write".to_string(),
        span: Span::Timed { ramp: Ramp::For(ramp), window, drain_limit },
        teams: vec![Team::new(Role::Writer, WRITES, vec![Box::new(job)])],
    };
    let (timer, mut listen) = (Timer::monotonic(), |_| ());
    let before_ns = timer.now_ns();
    let mut reporter = Reporter::new(&mut listen);
    let Run { result, written, .. } =
        run(phase, timer, &AtomicBool::new(false), &mut reporter, &mut (), &mut 0).unwrap();
    let calls = calls.load(Ordering::Relaxed);
    // The last one ends after the record was closed.
    assert!((7 * (calls - 1)..=7 * calls).contains(&written.bytes), "{written:?}, {calls} calls");
    assert!(written.bytes > result.roles[0].rates.bytes / 2, "{result:?}");
    assert!((before_ns..timer.now_ns() - ramp.0).contains(&written.since_ns), "{written:?}");
}

#[test]
fn a_ramp_that_has_nothing_to_wait_for_ends_early() {
    let window = Nanos::from_millis(400);
    let span = Span::Timed { ramp: Ramp::UntilThrottled, window, drain_limit: Nanos::from_secs(1) };
    let jobs = (0..2).map(|_| worker(10_000, Duration::from_millis(4))).collect();
    let teams = vec![Team::new(Role::Null, STEPS, jobs)];
    let phase = PhaseLoad { name: "work".to_string(), span, teams };
    let mut ignore = |_| {};
    let mut reporter = Reporter::new(&mut ignore);
    let stop = AtomicBool::new(false);
    let Run { result, is_unthrottled, .. } =
        run(phase, Timer::monotonic(), &stop, &mut reporter, &mut (), &mut 0).unwrap();
    assert!(!is_unthrottled);
    assert!((Ramp::UNWRITTEN..Nanos::from_secs(20)).contains(&result.ramp_ns), "{}", result.ramp_ns);
    assert_eq!(result.window_ns, window);
    // Every operation of the window is a sample of both workers, and lies in it.
    let role = &result.roles[0];
    let operation = &role.operations[0];
    assert!((100..=202).contains(&operation.lat_ns.count), "{operation:?}");
    assert_eq!(operation.timeline.count.iter().sum::<u64>(), operation.lat_ns.count);
    assert!(operation.timeline.count[0] > 0, "{:?}", operation.timeline);
    assert!(operation.slowest.iter().all(|slow| slow.start_ns < window.0), "{operation:?}");
    assert!(!role.blocked_at_start.is_empty(), "{role:?}");
}

#[test]
fn a_ramp_waits_for_a_steady_rate() {
    let steady = Steady { within: 0.5, over: 3, round: Nanos::from_millis(500), limit: Nanos::from_secs(60) };
    // The first second is five times as fast as the rest.
    let job: Job = Box::new(|lineup| {
        let mut meter = lineup.start();
        for operation in 0.. {
            let object = Object { directory: b"", name: c"" };
            let each = Duration::from_millis(if operation < 200 { 4 } else { 20 });
            let call = || {
                std::thread::sleep(each);
                Ok(())
            };
            if let Err(halt) = timed(&mut meter, StepIndex(0), object, |()| 7, call) {
                return halt;
            }
        }
        Halt::Over
    });
    let window = Nanos::from_millis(200);
    let span = Span::Timed { ramp: Ramp::UntilSteady(steady), window, drain_limit: Nanos::from_secs(1) };
    let teams = vec![Team::new(Role::Null, STEPS, vec![job])];
    let phase = PhaseLoad { name: "work".to_string(), span, teams };
    let mut ignore = |_| {};
    let mut reporter = Reporter::new(&mut ignore);
    let stop = AtomicBool::new(false);
    let Run { result, .. } = run(phase, Timer::monotonic(), &stop, &mut reporter, &mut (), &mut 0).unwrap();
    let verdict = result.steady.unwrap();
    assert!(verdict.reached && verdict.rounds >= 4, "{verdict:?}");
    // At least the fast part and three rounds after it.
    assert!((Nanos::from_secs(2)..steady.limit).contains(&result.ramp_ns), "{}", result.ramp_ns);
    assert_eq!(result.window_ns, window);
}

/// Notes when it is called.
#[derive(Default)]
struct Witness {
    calls: Vec<(&'static str, std::time::Instant)>,
}

impl Witness {
    fn note(&mut self, call: &'static str) {
        self.calls.push((call, std::time::Instant::now()));
    }
}

impl Observer for Witness {
    fn begin(&mut self) {
        self.note("begin");
    }

    fn look(&mut self) {
        self.note("look");
    }

    fn end(&mut self) -> Option<Telemetry> {
        self.note("end");
        Some(Telemetry { processors: 7, ..Telemetry::default() })
    }
}

#[test]
fn the_observer_sees_only_the_window() {
    let (ramp, window) = (Nanos::from_millis(150), Nanos::from_millis(350));
    let timed = Span::Timed { ramp: Ramp::For(ramp), window, drain_limit: Nanos::from_secs(1) };
    for (span, operations) in [(timed, 100), (timed, 50), (timed, 2), (Span::whole(50), 50)] {
        let jobs = vec![worker(operations, Duration::from_millis(7))];
        let teams = vec![Team::new(Role::Null, STEPS, jobs)];
        let phase = PhaseLoad { name: "work".to_string(), span, teams };
        let mut witness = Witness::default();
        let mut ignore = |_| {};
        let mut reporter = Reporter::new(&mut ignore);
        let stop = AtomicBool::new(false);
        let begin = std::time::Instant::now();
        let Run { result, .. } =
            run(phase, Timer::monotonic(), &stop, &mut reporter, &mut witness, &mut 0).unwrap();
        assert_eq!(result.telemetry.map(|telemetry| telemetry.processors), Some(7));
        let calls: Vec<&str> = witness.calls.iter().map(|(call, _)| *call).collect();
        let [first, .., last] = calls[..] else { panic!("{calls:?}") };
        assert_eq!((first, last), ("begin", "end"));
        assert!(calls[1..calls.len() - 1].iter().all(|call| *call == "look"), "{calls:?}");
        let (from, to) = (witness.calls[0].1, witness.calls[calls.len() - 1].1);
        if operations == 100 {
            assert!(from - begin >= ramp.into() && to - begin >= Duration::from(Nanos(ramp.0 + window.0)));
        }
    }
}

#[test]
fn a_stopped_phase_has_no_result() {
    let phase = PhaseLoad {
        name: "work".to_string(),
        span: Span::whole(1000),
        teams: vec![Team::new(Role::Null, STEPS, vec![worker(1000, Duration::from_millis(5))])],
    };
    let mut ignore = |_| {};
    let mut reporter = Reporter::new(&mut ignore);
    let mut left_behind = 0;
    let stopped =
        run(phase, Timer::monotonic(), &AtomicBool::new(true), &mut reporter, &mut (), &mut left_behind);
    assert!(matches!(stopped, Err(EngineError::Stopped)));
    assert_eq!(left_behind, 0);
}

/// A worker whose operations take `each`, and a second one whose operation, begun in the window, takes
/// `long`.
fn through_a_drain(
    each: Duration,
    long: Duration,
    drain_limit: Duration,
) -> (PhaseResult, Vec<std::time::Instant>, u32) {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&ends);
    let busy: Job = Box::new(move |lineup| {
        let mut meter = lineup.start();
        loop {
            let call = || {
                std::thread::sleep(each);
                noted.lock().unwrap().push(std::time::Instant::now());
                Ok(())
            };
            if let Err(halt) =
                timed(&mut meter, StepIndex(0), Object { directory: b"", name: c"" }, |()| 7, call)
            {
                return halt;
            }
            meter.item();
        }
    });
    let teams = vec![Team::new(Role::Null, STEPS, vec![busy, worker(u64::MAX, long)])];
    let (ramp, window) = (Nanos::from_millis(150), Nanos::from_millis(200));
    let drain_limit = Nanos(drain_limit.as_nanos() as u64);
    let phase = PhaseLoad {
        name: "work".to_string(),
        span: Span::Timed { ramp: Ramp::For(ramp), window, drain_limit },
        teams,
    };
    let mut ignore = |_| {};
    let (mut left_behind, stop) = (0, AtomicBool::new(false));
    let mut reporter = Reporter::new(&mut ignore);
    let Run { result, .. } =
        run(phase, Timer::monotonic(), &stop, &mut reporter, &mut (), &mut left_behind).unwrap();
    let ends = ends.lock().unwrap().clone();
    (result, ends, left_behind)
}

#[test]
fn the_load_goes_on_until_the_last_operation_of_the_window_has_ended() {
    let (each, long) = (Duration::from_millis(5), Duration::from_millis(600));
    let begin = std::time::Instant::now();
    let (result, ends, left_behind) = through_a_drain(each, long, Duration::from_secs(20));
    let last = ends.last().unwrap().duration_since(begin);
    assert!(last >= long - each, "{last:?}");
    assert_eq!(left_behind, 0);
    // Nothing of that counts.
    let role = &result.roles[0];
    assert!((1..=41).contains(&role.worker_results[0].completed), "{:?}", role.worker_results);
    assert!(role.rates.items <= 42, "{}", role.rates.items);
    assert_eq!(role.operations[0].lat_ns.count, role.operations[0].timeline.count.iter().sum::<u64>());
    assert!(role.operations[0].lat_ns.count <= 42, "{}", role.operations[0].lat_ns.count);
    // It began with the ramp and has its whole length.
    assert!(role.longest_stall_ns >= Some(Nanos::from_millis(600)), "{:?}", role.longest_stall_ns);
    assert!(!role.longest_stall_at_least);
}

#[test]
fn what_fails_after_the_window_costs_nothing_of_it() {
    let begin = std::time::Instant::now();
    let fails_after = |after: Duration| -> Job {
        Box::new(move |lineup| {
            let mut meter = lineup.start();
            loop {
                let call = || {
                    std::thread::sleep(Duration::from_millis(1));
                    if begin.elapsed() > after { Err(Errno::NOSPC) } else { Ok(()) }
                };
                let object = Object { directory: b"", name: c"full" };
                if let Err(halt) = timed(&mut meter, StepIndex(0), object, |()| 7, call) {
                    return halt;
                }
            }
        })
    };
    let through = |jobs| {
        let teams = vec![Team::new(Role::Null, STEPS, jobs)];
        let (ramp, window) = (Nanos::from_millis(10), Nanos::from_millis(100));
        let span = Span::Timed { ramp: Ramp::For(ramp), window, drain_limit: Nanos::from_secs(20) };
        let (mut ignore, stop) = (|_| {}, AtomicBool::new(false));
        let mut reporter = Reporter::new(&mut ignore);
        let phase = PhaseLoad { name: "work".to_string(), span, teams };
        run(phase, Timer::monotonic(), &stop, &mut reporter, &mut (), &mut 0)
    };
    // The load goes on until the long operation has ended.
    let (late, long) =
        (fails_after(Duration::from_millis(400)), worker(u64::MAX, Duration::from_millis(800)));
    let Run { result, late, .. } = through(vec![late, long]).unwrap();
    let failure = late.expect("a failure");
    assert_eq!((failure.errno, failure.path.as_str()), (Errno::NOSPC, "full"));
    assert!(result.roles[0].worker_results[0].completed > 0, "{result:?}");
    // In the window it fails the phase.
    let early = fails_after(Duration::ZERO);
    assert!(matches!(through(vec![early]), Err(EngineError::Operation { .. })));
}

#[test]
fn at_the_drain_limit_all_others_stop() {
    let (each, long) = (Duration::from_millis(5), Duration::from_millis(1500));
    let (result, _, left_behind) = through_a_drain(each, long, Duration::from_millis(100));
    assert_eq!(left_behind, 1);
    let role = &result.roles[0];
    assert!(role.worker_results[0].unfinished.is_none() && role.worker_results[1].unfinished.is_some());
    // The window, the drain, and a third of the ramp: a thread may begin late.
    assert!(role.longest_stall_at_least && role.longest_stall_ns >= Some(Nanos::from_millis(350)));
    assert!(role.longest_stall_ns < Some(Nanos::from_millis(1500)), "{:?}", role.longest_stall_ns);
}

#[test]
fn a_coordinator_that_wakes_late_has_a_window_all_the_same() {
    let jobs = vec![worker(u64::MAX, Duration::from_millis(5))];
    let teams = vec![Team::new(Role::Null, STEPS, jobs)];
    let span = Span::Timed {
        ramp: Ramp::For(Nanos::from_millis(20)),
        window: Nanos::from_millis(200),
        drain_limit: Nanos::from_secs(5),
    };
    let phase = PhaseLoad { name: "work".to_string(), span, teams };
    // The first sign of life in the ramp takes until after the window.
    let mut late = |event| {
        if matches!(
            event,
            fsdyno_core::EngineEvent::Progress(fsdyno_core::Progress { step: TrialStep::Ramp, .. })
        ) {
            std::thread::sleep(Duration::from_millis(400));
        }
    };
    let mut reporter = Reporter::new(&mut late);
    let stop = AtomicBool::new(false);
    let mut witness = Witness::default();
    let Run { result, .. } =
        run(phase, Timer::monotonic(), &stop, &mut reporter, &mut witness, &mut 0).unwrap();
    assert_eq!(result.window_ns, Nanos::from_millis(200));
    assert!(result.roles[0].worker_results[0].completed > 0, "{:?}", result.roles);
    // Nobody watched it.
    assert!(result.telemetry.is_none() && witness.calls.is_empty());
}

#[test]
fn a_sign_of_life_says_what_the_workers_do_and_who_waits() {
    let jobs = vec![worker(u64::MAX, Duration::from_millis(2)), worker(1, Duration::from_millis(2400))];
    let teams = vec![Team { role: Role::Null, steps: STEPS, schedule: None, jobs }];
    let span = Span::Timed {
        ramp: Ramp::For(Nanos(0)),
        window: Nanos::from_millis(2300),
        drain_limit: Nanos::from_secs(5),
    };
    let phase = PhaseLoad { name: "work".to_string(), span, teams };
    let mut glances = Vec::new();
    let mut listen = |event| {
        if let fsdyno_core::EngineEvent::Progress(fsdyno_core::Progress {
            step: TrialStep::Measure,
            glance,
            ..
        }) = event
        {
            glances.extend(glance);
        }
    };
    let mut reporter = Reporter::new(&mut listen);
    let stop = AtomicBool::new(false);
    run(phase, Timer::monotonic(), &stop, &mut reporter, &mut (), &mut 0).unwrap();
    let glance = glances.first().expect("a glance within two seconds");
    let [role] = &glance.roles[..] else { panic!("{glance:?}") };
    assert!(role.workers == 2 && role.operations > 10 && role.bytes >= 7 * role.operations, "{role:?}");
    assert!(role.mean_ns() >= Some(Nanos::from_millis(2)), "{role:?}");
    let waiting = role.waiting.as_ref().expect("a worker that waits");
    assert_eq!((waiting.workers, waiting.operation), (1, Some(Operation::Null)));
    let long = Nanos::from_millis(900);
    assert!(waiting.for_ns >= long && role.slowest_ns >= long, "{role:?}");
}
