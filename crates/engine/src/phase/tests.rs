use super::*;
use crate::meter::{Object, timed};
use fsdyno_core::workload::Step;

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
            if let Err(halt) = timed(&mut meter, Step(0), object, |()| 7, call) {
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
    let phase = Phase {
        name: "work".to_string(),
        span: Span::Whole { operations: 8 },
        teams: vec![Team { role: Role::Null, steps: STEPS, jobs: vec![short, long] }],
    };
    let mut events = Vec::new();
    let mut listen = |event| events.push(event);
    let mut progress = Progress::new(&mut listen);
    let result =
        run(phase, Timer::monotonic(), &AtomicBool::new(false), &mut progress, &mut (), &mut 0).unwrap();
    assert!(result.window_ns >= Nanos::from_millis(200), "{}", result.window_ns);
    let role = &result.roles[0];
    assert_eq!((role.rates.items, role.rates.bytes, role.operations[0].lat_ns.count), (8, 56, 8));
    assert_eq!(role.operations[0].timeline.count.iter().sum::<u64>(), 8);
    assert_eq!(role.worker_results[0].completed, 3);
    // The worker that finished early has not stalled since.
    assert!(role.worker_results[0].longest_stall_ns < role.worker_results[1].longest_stall_ns);
    assert!(role.longest_stall_ns < result.window_ns);
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
    let timed = Span::Timed { ramp, window, drain_limit: Nanos::from_secs(1) };
    for (span, operations) in [(timed, 100), (timed, 50), (timed, 2), (Span::Whole { operations: 50 }, 50)] {
        let jobs = vec![worker(operations, Duration::from_millis(7))];
        let teams = vec![Team { role: Role::Null, steps: STEPS, jobs }];
        let phase = Phase { name: "work".to_string(), span, teams };
        let mut witness = Witness::default();
        let mut ignore = |_| {};
        let mut progress = Progress::new(&mut ignore);
        let stop = AtomicBool::new(false);
        let begin = std::time::Instant::now();
        let result = run(phase, Timer::monotonic(), &stop, &mut progress, &mut witness, &mut 0).unwrap();
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
    let phase = Phase {
        name: "work".to_string(),
        span: Span::Whole { operations: 1000 },
        teams: vec![Team {
            role: Role::Null,
            steps: STEPS,
            jobs: vec![worker(1000, Duration::from_millis(5))],
        }],
    };
    let mut ignore = |_| {};
    let mut progress = Progress::new(&mut ignore);
    let mut left_behind = 0;
    let stopped =
        run(phase, Timer::monotonic(), &AtomicBool::new(true), &mut progress, &mut (), &mut left_behind);
    assert!(matches!(stopped, Err(EngineError::Stopped)));
    assert_eq!(left_behind, 0);
}
