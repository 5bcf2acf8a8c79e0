//! The engine as a library, end to end in memory.

use fsdyno_core::result::{PhaseResult, Quantile, RoleResult};
use fsdyno_core::workload::{Arrivals, Fileserver, Null, Ramp, Rate};
use fsdyno_core::{
    Bytes, EngineEvent, EngineRequest, Nanos, Operation, Role, TrialStep, WarningKind, Workload,
};
use fsdyno_engine::{EngineError, reader_pass, run, serve};
use fsdyno_testkit::in_memory;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn small() -> Fileserver {
    Fileserver {
        tree_size: Bytes(8 * Bytes::MIB),
        readers: 2,
        writers: 1,
        ramp: Ramp::For(Nanos::from_millis(50)),
        window: Nanos::from_millis(250),
        writer_space: Some(Bytes(2 * Bytes::MIB)),
        ..Fileserver::default()
    }
}

fn request(directory: &Path, workload: Workload) -> EngineRequest {
    EngineRequest::new(directory, workload, 42)
}

fn events(request: &EngineRequest) -> (Result<(), EngineError>, Vec<EngineEvent>) {
    let mut events = Vec::new();
    let result = run(request, &AtomicBool::new(false), &mut |event| events.push(event));
    (result, events)
}

fn phases(events: &[EngineEvent]) -> Vec<&PhaseResult> {
    events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::Phase(phase) => Some(&**phase),
            _ => None,
        })
        .collect()
}

fn count(role: &RoleResult, operation: Operation) -> u64 {
    role.operations.iter().find(|row| row.operation == operation).map_or(0, |row| row.lat_ns.count)
}

/// Every path below a directory with a digest of what is there.
fn contents(top: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![top.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(top).expect("a path below the top").to_string_lossy().into_owned();
            if path.is_dir() {
                found.insert(name, Vec::new());
                directories.push(path);
            } else {
                found.insert(name, Sha256::digest(fs::read(&path).expect("a readable file")).to_vec());
            }
        }
    }
    found
}

#[test]
fn the_fileserver_runs_through_its_phases() {
    let directory = in_memory();
    let (result, events) = events(&request(directory.path(), Workload::Fileserver(small())));
    result.unwrap();
    assert!(matches!(events.first(), Some(EngineEvent::Hello { .. })));
    assert_eq!(events.last(), Some(&EngineEvent::Done));
    let trees = events.iter().find_map(|event| match event {
        EngineEvent::Prepared { trees, .. } => Some(*trees),
        _ => None,
    });
    assert_eq!(trees.unwrap().bytes, small().tree_size.0 / 3 * 3);

    let phases = phases(&events);
    let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["1 reader", "2 readers", "2 readers, 1 writer"]);
    for phase in &phases {
        assert_eq!(phase.window_ns, small().window);
        for role in &phase.roles {
            assert_eq!(role.worker_results.len(), role.workers as usize);
            let mut samples = 0;
            for row in &role.operations {
                let lat = &row.lat_ns;
                samples += lat.count;
                assert_eq!(row.timeline.count.iter().sum::<u64>(), lat.count, "{}", row.operation);
                assert!(row.slowest.len() as u64 == lat.count.min(64), "{}", row.operation);
                if lat.count > 0 {
                    assert!(
                        lat.min <= lat.median()
                            && lat.median() <= lat.quantiles[Quantile::P99]
                            && lat.quantiles[Quantile::P99] <= lat.max,
                        "{lat:?}"
                    );
                    assert!(lat.min as f64 <= lat.mean && lat.mean <= lat.max as f64, "{lat:?}");
                    assert_eq!(row.slowest[0].duration_ns, lat.max);
                    assert!(!row.histogram.is_empty());
                }
            }
            let completed: u64 = role.worker_results.iter().map(|worker| worker.completed).sum();
            assert!(samples - completed <= u64::from(role.workers));
            assert!(role.longest_stall_ns > Some(Nanos(0)) && role.longest_stall_ns < Some(phase.window_ns));
            assert!(role.rates.bytes > 0 && role.rates.operations_per_s > 0.0);
        }
    }
    let [writer, reader] = &phases[2].roles[..] else { panic!("{:?}", phases[2].roles) };
    assert_eq!((writer.role, reader.role), (Role::Writer, Role::Reader));
    let opened = count(writer, Operation::Openat);
    assert!(opened > 0 && opened.abs_diff(count(writer, Operation::Close)) <= 1);
    assert!(count(writer, Operation::Mkdirat) > 0);
    assert!(count(reader, Operation::Statx) > count(reader, Operation::Openat));

    let warned = |kind| events.iter().any(|event| matches!(event, EngineEvent::Warning(w) if w.kind == kind));
    for kind in [WarningKind::CachesNotDropped, WarningKind::ReaderPasses, WarningKind::WriterRounds] {
        assert!(warned(kind), "{kind}");
    }
    assert!(!warned(WarningKind::Censored));
}

/// Writers with a rate begin as many files as are due, on any filesystem, and nothing else is paced.
#[test]
fn writers_with_a_rate_begin_what_is_due() {
    let directory = in_memory();
    let rate = Rate { per_second: 200.0, arrivals: Arrivals::Constant };
    let parameters = Fileserver { write_rate: Some(rate), writers: 2, ..small() };
    let (result, events) = events(&request(directory.path(), Workload::Fileserver(parameters)));
    result.unwrap();
    let phases = phases(&events);
    let paced: Vec<bool> =
        phases.iter().flat_map(|phase| &phase.roles).map(|role| role.open_loop.is_some()).collect();
    assert_eq!(paced, [false, false, true, false], "only the writers");
    let writer = &phases[2].roles[0];
    let kept_up = writer.open_loop.as_ref().unwrap();
    // One every 5 ms, for 250 ms.
    assert_eq!((kept_up.due, kept_up.intended_per_s), (50, 200.0));
    let done = count(writer, Operation::ResponseTime);
    assert_eq!(done + kept_up.never_begun, 50, "{kept_up:?}");
    assert!(count(writer, Operation::Openat) <= done + kept_up.backlog_max + 2, "{writer:?}");
}

#[test]
fn a_full_pass_has_the_counts_of_the_published_tables() {
    let directory = in_memory();
    let workload = Fileserver {
        tree_size: Bytes(32 * Bytes::MIB),
        ramp: Ramp::For(Nanos(0)),
        window: Nanos(1),
        ..small()
    };
    let (result, events) = events(&request(directory.path(), Workload::Fileserver(workload)));
    result.unwrap();
    let base = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let (mut files, mut directories) = (0, 0);
    for tree in ["tree-0", "tree-1", "tree-2"] {
        let found = contents(&base.join(tree));
        let below = found.values().filter(|digest| digest.is_empty()).count() as u64;
        (files, directories) = (files + found.len() as u64 - below, directories + below + 1);
        for _ in 0..2 {
            let counts: BTreeMap<_, _> =
                reader_pass(&base.join(tree), 65536, false).unwrap().into_iter().collect();
            let [steps, lstats, opens] =
                [Operation::Readdir, Operation::Statx, Operation::Openat].map(|operation| counts[&operation]);
            assert_eq!(opens, found.len() as u64 - below);
            assert_eq!(steps, lstats + below + 1, "{tree}: steps = lstats + directories");
            assert_eq!(lstats, opens + 3 * (below + 1), "{tree}: lstats = opens + 3 x directories");
            assert_eq!(counts[&Operation::Close], opens);
        }
    }
    let prepared = events.iter().find_map(|event| match event {
        EngineEvent::Prepared { trees, .. } => Some((trees.files, trees.directories)),
        _ => None,
    });
    assert_eq!(prepared, Some((files, directories)));
}

#[test]
fn the_same_seed_creates_the_same_files() {
    let trees = |seed| {
        let directory = in_memory();
        let workload = Fileserver { writers: 0, ramp: Ramp::For(Nanos(0)), window: Nanos(1), ..small() };
        let request = EngineRequest { seed, ..request(directory.path(), Workload::Fileserver(workload)) };
        events(&request).0.unwrap();
        contents(&directory.path().join(format!("fsdyno-{seed:016x}")))
    };
    let once = trees(1);
    assert!(once.len() > 100);
    assert!(once == trees(1));
    assert!(once != trees(2));
}

#[test]
fn cleaning_up_leaves_nothing() {
    let directory = in_memory();
    let request =
        EngineRequest { clean_up: true, ..request(directory.path(), Workload::Fileserver(small())) };
    events(&request).0.unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_engine_stops_at_once_and_cleans_up() {
    for step in [TrialStep::Prepare, TrialStep::Measure] {
        let directory = in_memory();
        let workload =
            Fileserver { tree_size: Bytes(64 * Bytes::MIB), window: Nanos::from_secs(600), ..small() };
        let request =
            EngineRequest { clean_up: true, ..request(directory.path(), Workload::Fileserver(workload)) };
        let (stop, mut asked) = (AtomicBool::new(false), None);
        let result = run(&request, &stop, &mut |event| {
            let is_there = matches!(&event, EngineEvent::Progress(progress) if progress.step == step);
            if is_there && asked.is_none() {
                stop.store(true, Ordering::Relaxed);
                asked = Some(Instant::now());
            }
        });
        assert!(matches!(result, Err(EngineError::Stopped)), "{result:?}");
        assert!(asked.unwrap().elapsed() < Duration::from_secs(60), "the window is ten minutes long");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn progress_never_goes_back() {
    let directory = in_memory();
    let workload = Fileserver { window: Nanos::from_millis(2500), writers: 0, readers: 1, ..small() };
    let (result, events) = events(&request(directory.path(), Workload::Fileserver(workload)));
    result.unwrap();
    let said: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::Progress(now) if !now.phase.is_empty() => Some((now.step, now.done, now.left_ns)),
            _ => None,
        })
        .collect();
    assert!(said.len() >= 4, "{said:?}");
    for pair in said.windows(2) {
        assert!(pair[1].2 <= pair[0].2, "{said:?}");
        assert!(pair[0].0 != pair[1].0 || pair[1].1 >= pair[0].1, "{said:?}");
    }
}

#[test]
fn an_error_names_operation_path_and_errno() {
    let directory = in_memory();
    let first = request(directory.path(), Workload::Fileserver(small()));
    events(&first).0.unwrap();
    let (result, events) = events(&first);
    assert!(matches!(result, Err(EngineError::System { .. })), "the directory of this seed already exists");
    let Some(EngineEvent::Failed(failure)) = events.last() else { panic!("{events:?}") };
    assert_eq!(failure.errno, Some(17));
    assert!(failure.path.as_ref().unwrap().ends_with("fsdyno-000000000000002a"), "{failure:?}");
}

#[test]
fn the_null_workload_shows_the_cost_of_the_tool() {
    let directory = in_memory();
    let null = Null { workers: 2, ..Null::default() };
    let (result, events) = events(&request(directory.path(), Workload::Null(null)));
    result.unwrap();
    let phases = phases(&events);
    let [role] = &phases[0].roles[..] else { panic!("{phases:?}") };
    assert_eq!((role.role, role.workers), (Role::Null, 2));
    assert!(count(role, Operation::Null) > 100_000, "{}", count(role, Operation::Null));
    assert_eq!(role.rates.with_overhead_bytes_per_s, None);
    let cost = fsdyno_engine::null_overhead_ns(fsdyno_sys::timer::Timer::calibrate(), 1).unwrap();
    assert!(cost > 1.0 && cost < 10_000.0, "{cost} ns");
}

#[test]
fn another_version_of_the_protocol_is_refused() {
    let directory = in_memory();
    let request =
        EngineRequest { version: 999, ..request(directory.path(), Workload::Null(Null::default())) };
    assert!(matches!(events(&request).0, Err(EngineError::Version { got: 999, .. })));
}

#[test]
fn an_invalid_request_is_answered_with_a_failure() {
    for (input, message) in
        [("", "received no request"), ("{\"version\": 1}\n", "the request is not valid: ")]
    {
        let mut output = Vec::new();
        assert_eq!(serve(&mut input.as_bytes(), &mut output, &|_| Box::new(())), 1);
        let text = String::from_utf8(output).unwrap();
        let [line] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let EngineEvent::Failed(failure) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        assert!(failure.message.starts_with(message), "{failure:?}");
    }
}
