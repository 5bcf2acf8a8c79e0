//! Flows as a library, end to end in memory: every kind of step, the edges of a window, and determinism of
//! what chance decides.

use fsdyno_core::protocol::EnginePart;
use fsdyno_core::result::PhaseResult;
use fsdyno_core::workload::{
    Act, Arrivals, Choice, FileSet, FileSize, Flags, Flow, FlowRole, FlowStep, Load, Pace, Ramp, Rate,
    SizeRange, flow,
};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Nanos, Operation, Role, WarningKind, Workload};
use fsdyno_engine::{ReadyFlow, run};
use fsdyno_testkit::in_memory;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn set(name: &str, count: u64, size: u64, prefill: f64) -> FileSet {
    FileSet {
        name: name.to_string(),
        count,
        size: FileSize::exactly(Bytes(size)),
        per_directory: Some(4),
        prefill,
        private: false,
        limit: Bytes(64 * Bytes::KIB),
    }
}

fn step(act: Act) -> FlowStep {
    FlowStep { act, probability: 1.0 }
}

fn role(role: Role, workers: u32, acts: Vec<Act>) -> FlowRole {
    FlowRole { workers, steps: acts.into_iter().map(step).collect(), ..FlowRole::of(role) }
}

fn small(sets: Vec<FileSet>, roles: Vec<FlowRole>) -> Flow {
    Flow {
        files: flow::FileSets(sets),
        roles: flow::FlowRoles(roles),
        ramp: Ramp::For(Nanos::from_millis(20)),
        window: Nanos::from_millis(200),
        ..Flow::default()
    }
}

fn handle() -> String {
    "file".to_string()
}

fn open(set: &str) -> Act {
    Act::Open { set: set.to_string(), choose: Choice::Uniform, handle: handle(), flags: Flags::default() }
}

fn create(set: &str) -> Act {
    Act::Create { set: set.to_string(), in_order: false, handle: handle(), flags: Flags::default() }
}

fn unlink(set: &str) -> Act {
    Act::Unlink { set: set.to_string(), choose: Choice::Uniform }
}

fn close() -> Act {
    Act::Close { handle: handle() }
}

fn events(flow: &Flow) -> Vec<EngineEvent> {
    let directory = in_memory();
    let request = EngineRequest::new(directory.path(), Workload::Flow(flow.clone()), 42);
    let mut events = Vec::new();
    run(&request, &AtomicBool::new(false), &mut |event| events.push(event)).expect("it runs");
    events
}

fn phase(events: Vec<EngineEvent>) -> PhaseResult {
    let phases = events.into_iter().find_map(|event| match event {
        EngineEvent::Phase(phase) => Some(*phase),
        _ => None,
    });
    phases.expect("a phase")
}

/// Each number of workers has a phase of its own on new file sets, in one engine and in one for each part.
#[test]
fn several_numbers_of_workers_are_measured_one_after_the_other() {
    // Each worker removes what it finds and makes as many: the names are divided among the workers.
    let acts = vec![
        unlink("some"),
        create("some"),
        Act::WriteWhole { handle: handle(), buffer: Bytes(4096) },
        close(),
        open("some"),
        Act::ReadWhole { handle: handle(), buffer: Bytes(4096) },
        close(),
    ];
    let client = FlowRole { counts: vec![1, 3, 4], ..role(Role::Client, 4, acts) };
    let flow = small(vec![set("some", 24, 4096, 0.5)], vec![client]);
    flow.check().unwrap();
    let whole = events(&flow);
    let directory = in_memory();
    let mut in_parts = Vec::new();
    for part in EnginePart::all(flow.parts()) {
        let request =
            EngineRequest { part, ..EngineRequest::new(directory.path(), Workload::Flow(flow.clone()), 42) };
        run(&request, &AtomicBool::new(false), &mut |event| in_parts.push(event)).expect("it runs");
    }
    for events in [whole, in_parts] {
        let prepared = events.iter().filter(|event| matches!(event, EngineEvent::Prepared { .. })).count();
        assert_eq!(prepared, 1, "the sets of the first phase are those of the trial");
        let phases = events.into_iter().filter_map(|event| match event {
            EngineEvent::Phase(phase) => Some(*phase),
            _ => None,
        });
        let found: Vec<(String, u32)> = phases
            .map(|phase| {
                let role = &phase.roles[0];
                assert!(role.rates.items_per_s > 0.0, "{}", phase.name);
                assert_eq!(role.worker_results.len(), role.workers as usize);
                (phase.name.clone(), role.workers)
            })
            .collect();
        let expected = [("flow, 1 client", 1), ("flow, 3 clients", 3), ("flow", 4)];
        assert_eq!(found, expected.map(|(name, workers)| (name.to_string(), workers)));
    }
    // The last phase leaves the files of four workers, each of which may have removed one without making
    // another.
    let own = std::fs::read_dir(directory.path()).expect("it is there").flatten();
    let left: usize = own.map(|entry| files_below(&entry.path().join("some"))).sum();
    assert!((8..=12).contains(&left), "{left}");
}

fn files_below(directory: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

/// Every step once, with what it does to the files.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn every_step_does_what_it_says() {
    const BLOCK: u64 = 4096;
    const SIZE: u64 = 4 * BLOCK;
    let (size, block) = (Bytes(BLOCK), Bytes(2 * BLOCK));
    let range = SizeRange { low: size, high: size };
    let other = || "other".to_string();
    let acts = vec![
        create("made"),
        Act::WriteWhole { handle: handle(), buffer: block },
        Act::Fsync { handle: handle() },
        Act::FsyncDirectory { set: "made".to_string() },
        Act::ReadWhole { handle: handle(), buffer: block },
        close(),
        Act::Open {
            set: "kept".to_string(),
            choose: Choice::Next,
            handle: other(),
            flags: Flags { append: true, ..Flags::default() },
        },
        Act::Append { handle: other(), size: range },
        Act::Fdatasync { handle: other() },
        Act::Setxattr { handle: other(), size: Bytes(16) },
        Act::Fallocate { handle: other(), size: block },
        Act::Close { handle: other() },
        open("kept"),
        Act::Append { handle: handle(), size: range },
        Act::Truncate { handle: handle(), size: Bytes(SIZE) },
        close(),
        open("fixed"),
        Act::ReadRandom { handle: handle(), size },
        Act::ReadNext { handle: handle(), size: block },
        Act::Overwrite { handle: handle(), size, in_order: false },
        Act::Overwrite { handle: handle(), size, in_order: true },
        Act::MmapRead { handle: handle(), size },
        Act::MmapWrite { handle: handle(), size, sync: true },
        Act::Open {
            set: "copies".to_string(),
            choose: Choice::Oldest,
            handle: other(),
            flags: Flags::default(),
        },
        Act::CopyFileRange { from: handle(), to: other() },
        close(),
        Act::Close { handle: other() },
        Act::Stat { set: "made".to_string(), choose: Choice::Newest },
        Act::Readdir { set: "made".to_string(), choose: Choice::Newest },
        Act::Rename { set: "made".to_string(), choose: Choice::Newest, to: "made".to_string(), over: false },
        Act::Link { set: "made".to_string(), choose: Choice::Newest, to: "links".to_string() },
        unlink("links"),
        create("made"),
        Act::WriteWhole { handle: handle(), buffer: block },
        close(),
        Act::Rename { set: "made".to_string(), choose: Choice::Oldest, to: "made".to_string(), over: true },
        unlink("made"),
        Act::Think { time: Nanos::from_millis(1) },
        Act::Repeat {
            times: 3,
            steps: vec![step(Act::Stat { set: "kept".to_string(), choose: Choice::Zipf(1.0) })],
        },
    ];
    let sets = vec![
        set("copies", 3, 0, 1.0),
        set("fixed", 5, SIZE, 1.0),
        set("kept", 6, BLOCK, 1.0),
        set("links", 4, 0, 0.0),
        set("made", 20, SIZE, 0.5),
    ];
    let flow = small(sets, vec![role(Role::Client, 2, acts)]);
    Workload::Flow(flow.clone()).check().expect("a possible flow");
    let directory = in_memory();
    let ready = ReadyFlow::prepare(&flow, directory.path(), 42).expect("its files");
    let rounds = 5;
    let (performed, _) = ready.perform(&|_| rounds).expect("its iterations");
    let counts: BTreeMap<Operation, u64> =
        performed.into_iter().next().expect("a role").1.into_iter().collect();
    let each = |operation: Operation| counts[&operation] as f64 / (2 * rounds) as f64;
    for (operation, count) in [
        (Operation::Create, 2.0),
        (Operation::Openat, 6.0),
        (Operation::Close, 8.0),
        // Twice four blocks, two at a time, and two appends.
        (Operation::Write, 6.0),
        (Operation::Fsync, 1.0),
        (Operation::FsyncDirectory, 1.0),
        (Operation::Fdatasync, 1.0),
        (Operation::Fsetxattr, 1.0),
        (Operation::Fallocate, 1.0),
        (Operation::Pread, 1.0),
        // Two of a whole file, and one that finds its end; then one block.
        (Operation::Read, 4.0),
        (Operation::Pwrite, 2.0),
        (Operation::Mmap, 2.0),
        (Operation::MappedRead, 1.0),
        (Operation::MappedWrite, 1.0),
        (Operation::Msync, 1.0),
        (Operation::Munmap, 2.0),
        // The second one finds that nothing is left.
        (Operation::CopyFileRange, 2.0),
        (Operation::Statx, 4.0),
        (Operation::Renameat, 2.0),
        (Operation::Linkat, 1.0),
        (Operation::Unlinkat, 2.0),
        // To the beginning before the file is read again, and to the end before the append.
        (Operation::Lseek, 2.0),
    ] {
        assert!((each(operation) - count).abs() < 1e-9, "{operation}: {}, not {count}", each(operation));
    }
    assert!(each(Operation::Readdir) >= 2.0 && counts[&Operation::Ftruncate] >= 2 * rounds);
    let sizes = |set: &str| -> Vec<u64> {
        let mut pending = vec![directory.path().join(set)];
        let mut sizes = Vec::new();
        while let Some(place) = pending.pop() {
            for entry in std::fs::read_dir(place).expect("a directory").flatten() {
                match entry.path() {
                    path if path.is_dir() => pending.push(path),
                    path => sizes.push(std::fs::metadata(path).expect("a file").len()),
                }
            }
        }
        sizes
    };
    assert_eq!(sizes("made"), vec![SIZE; 10]);
    assert_eq!(sizes("fixed"), vec![SIZE; 5]);
    let copies = sizes("copies");
    assert_eq!(copies.iter().sum::<u64>(), SIZE, "only the oldest is copied to: {copies:?}");
}

#[test]
fn a_window_counts_iterations_and_a_pause_is_no_stall() {
    // So long that a busy machine keeps nobody waiting for as long.
    let acts = vec![create("some"), close(), unlink("some"), Act::Think { time: Nanos::from_millis(300) }];
    let flow = small(vec![set("some", 10, 0, 0.0)], vec![role(Role::Client, 1, acts)]);
    let result = phase(events(&Flow { window: Nanos::from_secs(2), ..flow }));
    assert_eq!((result.name.as_str(), result.roles.len()), ("flow", 1));
    let role = &result.roles[0];
    assert!((2..=8).contains(&role.rates.items), "{} iterations", role.rates.items);
    let counts: BTreeMap<Operation, u64> =
        role.operations.iter().map(|row| (row.operation, row.lat_ns.count)).collect();
    for operation in [Operation::Create, Operation::Close, Operation::Unlinkat] {
        assert!(counts[&operation].abs_diff(role.rates.items) <= 1, "{counts:?}");
    }
    assert!(
        role.longest_stall_ns < Some(Nanos::from_millis(250)),
        "{:?} of a pause of 300ms",
        role.longest_stall_ns
    );
    // A worker that waits at the end of the window does not keep others waiting.
    assert!(result.drain_ns < Nanos::from_millis(250), "{}", result.drain_ns);
}

#[test]
fn a_worker_that_waits_for_long_ends_in_time() {
    let acts = vec![
        Act::Stat { set: "some".to_string(), choose: Choice::Uniform },
        Act::Think { time: Nanos::from_secs(600) },
    ];
    let flow = Flow {
        drain_limit: Nanos::from_millis(100),
        ..small(vec![set("some", 3, 0, 1.0)], vec![role(Role::Client, 2, acts)])
    };
    let begin = std::time::Instant::now();
    let result = phase(events(&flow));
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    assert!(
        result.roles[0].longest_stall_ns < Some(Nanos::from_millis(150)),
        "{:?}",
        result.roles[0].longest_stall_ns
    );
}

#[test]
fn one_role_works_for_what_another_posts() {
    let signal = || "work".to_string();
    let client = vec![
        Act::Stat { set: "some".to_string(), choose: Choice::Uniform },
        Act::Post { signal: signal(), limit: 40 },
    ];
    let logger = vec![Act::Await { signal: signal(), count: 10 }, create("log"), close(), unlink("log")];
    let background = FlowRole { background: true, ..role(Role::Logger, 1, logger) };
    let sets = vec![set("log", 2, 0, 0.0), set("some", 3, 0, 1.0)];
    let result = phase(events(&small(sets, vec![role(Role::Client, 3, client), background])));
    let of = |role: Role| result.roles.iter().find(|one| one.role == role).expect("a role");
    let count = |role: Role, operation: Operation| {
        of(role).operations.iter().find(|row| row.operation == operation).map_or(0, |row| row.lat_ns.count)
    };
    let (stats, logs) = (count(Role::Client, Operation::Statx), count(Role::Logger, Operation::Create));
    assert!(logs > 3 && stats.abs_diff(10 * logs) <= 60, "{stats} requests, {logs} logs");
    // Iterations of background roles do not count.
    assert!(of(Role::Client).rates.items > 0);
    assert_eq!(of(Role::Logger).rates.items, 0);
}

#[test]
fn steps_are_performed_with_their_probability() {
    const ROUNDS: u64 = 20_000;
    let likely =
        FlowStep { probability: 0.25, act: Act::Stat { set: "some".to_string(), choose: Choice::Uniform } };
    let mut client = role(Role::Client, 1, vec![open("some"), close()]);
    client.steps.push(likely);
    let flow = small(vec![set("some", 3, 0, 1.0)], vec![client]);
    let directory = in_memory();
    let ready = ReadyFlow::prepare(&flow, directory.path(), 42).expect("its files");
    let (performed, _) = ready.perform(&|_| ROUNDS).expect("its iterations");
    let counts: BTreeMap<Operation, u64> = performed[0].1.iter().copied().collect();
    assert_eq!(counts[&Operation::Openat], ROUNDS);
    // Five standard deviations of a binomial distribution.
    let (mean, deviation) = (ROUNDS as f64 * 0.25, (ROUNDS as f64 * 0.25 * 0.75).sqrt());
    assert!((counts[&Operation::Statx] as f64 - mean).abs() < 5.0 * deviation, "{counts:?}");
}

/// A random walk finds the ends of its set: then an iteration ends early, and a warning says so.
#[test]
fn an_iteration_that_finds_no_file_ends_early_and_that_is_said() {
    let maybe = |steps| FlowStep { probability: 0.5, act: Act::Repeat { times: 1, steps } };
    let mut client = role(Role::Client, 1, Vec::new());
    client.steps = vec![maybe(vec![step(create("some")), step(close())]), maybe(vec![step(unlink("some"))])];
    let events = events(&small(vec![set("some", 3, 0, 0.5)], vec![client]));
    let warned = events.iter().any(|event| {
        matches!(event, EngineEvent::Warning(warning) if warning.kind == WarningKind::ShortIterations)
    });
    assert!(warned);
    let result = phase(events);
    assert!(result.roles[0].rates.items > 10, "{}", result.roles[0].rates.items);
}

/// A rate of 0 is told: the role waits for longer than the window.
#[test]
fn a_role_without_an_iteration_in_the_window_is_told() {
    let warned = |pause_ms, background| {
        let pause = FlowStep { probability: 1.0, act: Act::Think { time: Nanos::from_millis(pause_ms) } };
        let mut client =
            role(Role::Client, 1, vec![Act::Stat { set: "some".to_string(), choose: Choice::Uniform }]);
        client.steps.push(pause);
        client.background = background;
        let flow = small(vec![set("some", 3, 0, 1.0)], vec![client]);
        let flow = Flow { window: Nanos::from_millis(100), ..flow };
        events(&flow).iter().any(|event| {
            matches!(event, EngineEvent::Warning(warning) if warning.kind == WarningKind::NoIterations)
        })
    };
    assert!(warned(1000, false));
    assert!(!warned(1, false) && !warned(1000, true));
}

/// Iterations that are due in the window are counted exactly, and follow from the seed.
#[test]
fn a_role_with_a_rate_performs_what_is_due() {
    let stat = || vec![Act::Stat { set: "some".to_string(), choose: Choice::Uniform }];
    let of = |arrivals| {
        let rate = Some(Pace::At(Rate { per_second: 200.0, arrivals }));
        let client = FlowRole { rate, ..role(Role::Client, 2, stat()) };
        let background = FlowRole { background: true, ..role(Role::Logger, 1, vec![think()]) };
        let background = FlowRole { steps: [background.steps, client.steps.clone()].concat(), ..background };
        let flow = Flow {
            window: Nanos::from_millis(400),
            ..small(vec![set("some", 5, 0, 1.0)], vec![client, background])
        };
        phase(events(&flow))
    };
    let constant = of(Arrivals::Constant);
    let [client, logger] = &constant.roles[..] else { panic!("{constant:?}") };
    let kept_up = client.open_loop.as_ref().expect("a rate");
    // A ramp of 20 ms, and one every 5 ms from the beginning of the load.
    assert_eq!((kept_up.due, kept_up.never_begun), (80, 0));
    for operation in [Operation::ResponseTime, Operation::ServiceTime, Operation::Statx] {
        let row = client.operations.iter().find(|row| row.operation == operation).expect("a row");
        assert!(row.lat_ns.count.abs_diff(80) <= u64::from(operation == Operation::Statx) * 2, "{row:?}");
        assert_eq!(row.censored, 0);
    }
    assert!(logger.open_loop.is_none() && logger.operations.len() == 1, "{logger:?}");
    let due = || of(Arrivals::Poisson).roles[0].open_loop.as_ref().map(|kept_up| kept_up.due);
    let first = due().expect("a rate");
    assert!(first.abs_diff(80) < 45, "{first} is five standard deviations off");
    assert_eq!(due(), Some(first));
}

/// Requests that come faster than they are served wait, and the engine says so.
#[test]
fn a_rate_that_is_too_high_is_reported() {
    let acts = vec![Act::Stat { set: "some".to_string(), choose: Choice::Uniform }, think()];
    let rate = Some(Pace::At(Rate { per_second: 500.0, arrivals: Arrivals::Constant }));
    let client = FlowRole { rate, ..role(Role::Client, 1, acts) };
    let flow =
        Flow { drain_limit: Nanos::from_millis(50), ..small(vec![set("some", 5, 0, 1.0)], vec![client]) };
    let events = events(&flow);
    let warning = |kind: WarningKind| {
        let mut found = events.iter().filter_map(|event| match event {
            EngineEvent::Warning(warning) if warning.kind == kind => Some(&warning.text),
            _ => None,
        });
        found.next().expect("a warning")
    };
    // Most waited for a worker until the drain limit, and no worker was in an operation.
    let text = warning(WarningKind::Censored);
    assert!(text.ends_with(" of 100 iterations of clients had not ended at the drain limit"), "{text}");
    let text = warning(WarningKind::Saturated);
    assert!(text.starts_with("of 500 iterations per second, clients completed "), "{text}");
    let left_behind = |event: &EngineEvent| matches!(event, EngineEvent::Warning(warning) if warning.kind == WarningKind::LeftBehind);
    assert!(!events.iter().any(left_behind), "a worker that is late does not hang");
}

fn think() -> Act {
    Act::Think { time: Nanos::from_millis(10) }
}
