//! The engine on filesystems that hang, fail, or have a known delay.

use crate::support::sick::{Behaviour, Kind, Treatment, mount};
use crate::support::{Requirement, Sandbox};
use fsdyno_core::result::{OperationResult, PhaseResult, RoleResult};
use fsdyno_core::workload::{Fileserver, Ramp};
use fsdyno_core::{
    Bytes, EngineEvent, EngineRequest, Failure, Nanos, Operation, Role, TrialStep, WarningKind, Workload,
};
use fsdyno_stats::Distribution;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

const FUSE: &[Requirement] = &[Requirement::Root, Requirement::Fuse];

tests! {
    a_write_over_both_edges_is_at_least_the_window: FUSE;
    a_write_that_ends_in_the_drain_still_covered_the_window: FUSE;
    a_write_that_never_ends_is_censored: FUSE;
    cleaning_up_gives_up_where_a_worker_hangs: FUSE;
    an_error_names_operation_path_and_errno: FUSE;
    delays_are_measured_correctly: &[Requirement::All(FUSE), Requirement::Quiet];
}

fn request(directory: &Path, workload: Fileserver) -> EngineRequest {
    EngineRequest::new(directory, Workload::Fileserver(workload), 1)
}

fn workload() -> Fileserver {
    Fileserver {
        tree_size: Bytes(Bytes::MIB),
        readers: 1,
        writers: 1,
        ramp: Ramp::For(Nanos::from_secs(1)),
        window: Nanos::from_millis(1500),
        drain_limit: Nanos::from_secs(1),
        writer_space: Some(Bytes(64 * Bytes::MIB)),
        ..Fileserver::default()
    }
}

/// Runs the engine as a process on a filesystem with this behaviour, and shows each event to the test.
/// Requests that are held are answered only when the engine has closed its output, so the engine must end
/// without them.
pub fn run(
    behaviour: &Arc<Behaviour>,
    change: impl FnOnce(&mut EngineRequest),
    mut look: impl FnMut(&EngineEvent),
) -> Vec<EngineEvent> {
    let sandbox = Sandbox::new();
    let mountpoint = sandbox.path("mnt");
    let _sick = mount(&mountpoint, behaviour);
    let mut request = request(&mountpoint, workload());
    change(&mut request);

    let mut engine = sandbox.fsdyno(&["engine"]);
    let mut engine = engine.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the engine");
    let mut stdin = engine.stdin.take().expect("stdin is piped");
    serde_json::to_writer(&mut stdin, &request).expect("send the request");
    stdin.write_all(b"\n").expect("send the request");
    let stdout = BufReader::new(engine.stdout.take().expect("stdout is piped"));
    let events: Vec<EngineEvent> = stdout
        .lines()
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("an event"))
        .inspect(|event| look(event))
        .collect();

    behaviour.release();
    engine.wait().expect("the engine is gone");
    events
}

fn with_writers(events: &[EngineEvent]) -> &PhaseResult {
    let phase = events.iter().find_map(|event| match event {
        EngineEvent::Phase(phase) if phase.name.contains("writer") => Some(&**phase),
        _ => None,
    });
    phase.unwrap_or_else(|| panic!("no phase with writers: {events:?}"))
}

pub fn role(phase: &PhaseResult, role: Role) -> &RoleResult {
    phase.roles.iter().find(|result| result.role == role).expect("the role took part")
}

pub fn row(role: &RoleResult, operation: Operation) -> &OperationResult {
    role.operations.iter().find(|row| row.operation == operation).expect("the role performs the operation")
}

fn begins(event: &EngineEvent, wanted: TrialStep) -> bool {
    matches!(event, EngineEvent::Progress(now) if now.step == wanted && now.phase.contains("writer"))
}

fn warned(events: &[EngineEvent], wanted: WarningKind) -> bool {
    events.iter().any(|event| matches!(event, EngineEvent::Warning(warning) if warning.kind == wanted))
}

fn a_write_over_both_edges_is_at_least_the_window() {
    let behaviour = Behaviour::healthy();
    let events = run(
        &behaviour,
        |_| (),
        |event| {
            if begins(event, TrialStep::Ramp) {
                behaviour.treat_one_after(0, Kind::Write, Treatment::Held);
            }
        },
    );
    assert_eq!(events.last(), Some(&EngineEvent::Done));
    assert!(warned(&events, WarningKind::Censored));
    let phase = with_writers(&events);
    let writer = role(phase, Role::Writer);
    let worker = &writer.worker_results[0];
    assert_eq!((worker.completed, worker.spanning), (0, 1), "{worker:?}");
    assert!(worker.longest_stall_at_least && writer.longest_stall_at_least, "{worker:?}");
    assert!((worker.time_over_1s - 1.0).abs() < 1e-9, "{worker:?}");
    let unfinished = worker.unfinished.as_ref().expect("the write has not ended");
    assert!(unfinished.at_least && unfinished.start_ns < 0, "{unfinished:?}");
    assert!(worker.longest_stall_ns >= unfinished.duration_ns, "the whole time without a completion");
    assert_eq!(writer.blocked_at_start, std::slice::from_ref(unfinished));
    let lat = &row(writer, unfinished.operation).lat_ns;
    assert_eq!((lat.count, lat.max), (0, phase.window_ns.0), "{lat:?}");
    assert!(lat.is_bound(lat.max), "the maximum is printed with >=");
    let limit = workload().drain_limit;
    // Whoever waits for the drain may wake late on a machine that others use.
    let until = limit..Nanos(limit.0 * 3 / 2);
    assert!(until.contains(&phase.drain_ns), "the drain lasts until its limit: {}", phase.drain_ns.0);
    assert!(role(phase, Role::Reader).worker_results[0].completed > 0, "the reader is not affected");
}

fn a_write_that_ends_in_the_drain_still_covered_the_window() {
    let behaviour = Behaviour::healthy();
    let change = |request: &mut EngineRequest| {
        request.workload =
            Workload::Fileserver(Fileserver { drain_limit: Nanos::from_secs(60), ..workload() });
    };
    let events = run(&behaviour, change, |event| {
        if begins(event, TrialStep::Ramp) {
            behaviour.treat_one_after(0, Kind::Write, Treatment::Held);
        }
        if begins(event, TrialStep::Drain) {
            assert_eq!(behaviour.release(), 1);
        }
    });
    let phase = with_writers(&events);
    let writer = role(phase, Role::Writer);
    let worker = &writer.worker_results[0];
    assert_eq!((worker.completed, worker.spanning), (0, 1), "{worker:?}");
    assert_eq!((worker.longest_stall_at_least, worker.unfinished.as_ref()), (false, None));
    let [blocked] = &writer.blocked_at_start[..] else { panic!("{:?}", writer.blocked_at_start) };
    assert!(!blocked.at_least && blocked.duration_ns > phase.window_ns, "{blocked:?}");
    assert!(worker.longest_stall_ns >= blocked.duration_ns, "{worker:?}");
    assert!(phase.drain_ns < Nanos::from_secs(60));
    assert!(!warned(&events, WarningKind::Censored));
}

fn a_write_that_never_ends_is_censored() {
    let behaviour = Behaviour::healthy();
    let events = run(
        &behaviour,
        |_| (),
        |event| {
            if begins(event, TrialStep::Measure) {
                behaviour.treat_one_after(10, Kind::Write, Treatment::Held);
            }
        },
    );
    assert_eq!(events.last(), Some(&EngineEvent::Done));
    assert!(warned(&events, WarningKind::Censored));
    let phase = with_writers(&events);
    let writer = role(phase, Role::Writer);
    let worker = &writer.worker_results[0];
    assert_eq!(worker.spanning, 0);
    assert!(worker.completed > 0 && worker.longest_stall_at_least, "{worker:?}");
    let unfinished = worker.unfinished.as_ref().expect("the write has not ended");
    assert!(unfinished.at_least && unfinished.start_ns >= 0, "{unfinished:?}");
    assert!(unfinished.duration_ns > workload().drain_limit);
    assert!(worker.longest_stall_ns >= unfinished.duration_ns, "{worker:?}");
    let row = row(writer, unfinished.operation);
    assert_eq!((row.censored, row.lat_ns.max), (1, unfinished.duration_ns.0));
    assert_eq!(row.lat_ns.at_least_from, Some(unfinished.duration_ns.0));
    assert!(
        row.lat_ns.is_bound(row.lat_ns.max) && !row.lat_ns.is_bound(row.lat_ns.median()),
        "{:?}",
        row.lat_ns
    );
    assert!(row.slowest[0].path.starts_with("new-0/round-"), "{:?}", row.slowest[0]);
    assert_eq!(row.timeline.count.iter().sum::<u64>(), row.lat_ns.count);
}

fn cleaning_up_gives_up_where_a_worker_hangs() {
    let behaviour = Behaviour::healthy();
    let events = run(
        &behaviour,
        |request| request.clean_up = true,
        |event| {
            if begins(event, TrialStep::Measure) {
                behaviour.treat_one_after(0, Kind::Write, Treatment::Held);
            }
        },
    );
    assert_eq!(events.last(), Some(&EngineEvent::Done));
    assert!(warned(&events, WarningKind::LeftBehind), "{events:?}");
}

fn an_error_names_operation_path_and_errno() {
    let behaviour = Behaviour::healthy();
    let events = run(
        &behaviour,
        |request| request.clean_up = true,
        |event| {
            if begins(event, TrialStep::Measure) {
                behaviour.treat_one_after(0, Kind::Write, Treatment::Fails(fuser::Errno::EIO));
            }
        },
    );
    let Some(EngineEvent::Failed(Failure { step, operation, path, errno, hint, .. })) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert_eq!((step.as_str(), *errno), ("1 reader, 1 writer", Some(5)));
    assert!(matches!(operation, Some(Operation::Write | Operation::WriteFirstByte)), "{operation:?}");
    assert!(path.as_ref().is_some_and(|path| path.starts_with("new-0/round-")), "{path:?}");
    assert!(hint.is_some());
}

/// The requests that are delayed, and the role and the operations that must show it.
const DELAYS: &[(&[Kind], Role, &[Operation])] = &[
    (&[Kind::Readdir], Role::Reader, &[Operation::Readdir]),
    (&[Kind::Lookup], Role::Reader, &[Operation::Statx]),
    (&[Kind::Open], Role::Reader, &[Operation::Openat]),
    (&[Kind::Read], Role::Reader, &[Operation::ReadFirstByte, Operation::Read]),
    (&[Kind::Flush], Role::Reader, &[Operation::Close]),
    // The reader is delayed as well, and leaves the processors to the writer.
    (&[Kind::Create, Kind::Readdir], Role::Writer, &[Operation::Openat]),
    (&[Kind::Write, Kind::Readdir], Role::Writer, &[Operation::WriteFirstByte, Operation::Write]),
    (&[Kind::Flush, Kind::Readdir], Role::Writer, &[Operation::Close]),
    (&[Kind::Mkdir, Kind::Readdir], Role::Writer, &[Operation::Mkdirat]),
    (&[Kind::Unlink, Kind::Readdir], Role::Writer, &[Operation::Unlinkat, Operation::Rmdir]),
];

/// Never less than the delay. Whoever waits for a processor only makes it longer, so that the shortest shows
/// what measuring adds: at most 5 % and 100 us. On a busy machine it takes more operations to find one that
/// nobody kept waiting.
fn delays_are_measured_correctly() {
    let delay = Duration::from_millis(3);
    let least = delay.as_nanos() as u64;
    let most = least * 105 / 100 + 100_000;
    for (kinds, role, operations) in DELAYS {
        let mut shortest: BTreeMap<Operation, u64> =
            operations.iter().map(|operation| (*operation, u64::MAX)).collect();
        for _ in 0..RUNS_MAX {
            for found in measured(kinds, delay, *role, operations) {
                let (operation, median) = (found.operation, found.lat_ns.median());
                assert!(median >= least, "{role} {operation}: {median} ns, but {least} ns were injected");
                let so_far = shortest.get_mut(&operation).expect("one of them");
                *so_far = shortest_from(&found, least).min(*so_far);
            }
            if shortest.values().all(|shortest| *shortest <= most) {
                break;
            }
        }
        assert!(shortest.values().all(|shortest| *shortest <= most), "{kinds:?}, {most} ns: {shortest:?}");
    }
}

/// So many runs are enough if one operation of a few hundred is not kept waiting.
pub const RUNS_MAX: u32 = 40;

/// The shortest of the measured latencies that are not less than this.
fn shortest_from(found: &OperationResult, least_ns: u64) -> u64 {
    let distribution = Distribution::decode(&found.histogram).expect("a histogram");
    let latencies = distribution.curve().into_iter().map(|point| point.value_ns);
    latencies.filter(|latency_ns| *latency_ns >= least_ns).min().expect("the median is one")
}

fn measured(kinds: &[Kind], delay: Duration, role: Role, operations: &[Operation]) -> Vec<OperationResult> {
    let behaviour = Behaviour::slow(kinds, delay);
    let change = |request: &mut EngineRequest| {
        request.workload = Workload::Fileserver(Fileserver {
            tree_size: Bytes(512 << 10),
            writers: u32::from(role == Role::Writer),
            ramp: Ramp::For(Nanos::from_millis(50)),
            window: Nanos::from_millis(700),
            writer_space: Some(Bytes(256 << 10)),
            ..workload()
        });
    };
    let events = run(&behaviour, change, |_| ());
    assert_eq!(events.last(), Some(&EngineEvent::Done));
    let last = events.iter().rev().find_map(|event| match event {
        EngineEvent::Phase(phase) => Some(&**phase),
        _ => None,
    });
    let result = self::role(last.expect("a phase"), role);
    let rows = operations.iter().map(|operation| row(result, *operation).clone());
    rows.inspect(|row| assert!(row.lat_ns.count > 5, "{row:?}")).collect()
}
