use super::*;
use fsdyno_core::durability::Mark;
use fsdyno_core::{EngineEvent, EngineRequest, Failure, Progress, TrialStep, Workload};

fn request(directory: &Path, marks: Option<PathBuf>) -> EngineRequest {
    let parameters = Durability {
        promises: 3,
        duration: Nanos::from_millis(60),
        unsynced: Nanos::from_millis(60),
        ..Durability::default()
    };
    EngineRequest { marks, ..EngineRequest::new(directory, Workload::Durability(parameters), 5) }
}

fn scratch() -> tempfile::TempDir {
    // Syncing costs nothing in memory.
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Runs it; returns its events, and its error if it failed.
fn events(request: &EngineRequest, stop: &AtomicBool) -> (Vec<EngineEvent>, Option<Failure>) {
    let mut events = Vec::new();
    let result = crate::run(request, stop, &mut |event| events.push(event));
    (events, result.err().map(|error| error.failure()))
}

#[test]
fn a_trial_marks_what_it_does_and_syncs_nothing_at_the_end() {
    let scratch = scratch();
    let (directory, marks) = (scratch.path().join("mounted"), scratch.path().join("marks"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&marks, "").unwrap();
    let (events, failure) = events(&request(&directory, Some(marks.clone())), &AtomicBool::new(false));
    assert_eq!(failure, None);
    assert!(matches!(events.last(), Some(EngineEvent::Done)));
    let prepared = events.iter().find_map(|event| match event {
        EngineEvent::Prepared { trees, .. } => Some(*trees),
        _ => None,
    });
    assert_eq!(prepared.map(|trees| (trees.files, trees.directories)), Some((24, 13)));
    let measured = |event: &&EngineEvent| {
        matches!(event, EngineEvent::Progress(Progress { step: TrialStep::Measure, .. }))
    };
    assert!(events.iter().any(|event| measured(&event)));
    assert!(
        !events.iter().any(|event| matches!(event, EngineEvent::Layout(_) | EngineEvent::Durable { .. }))
    );
    // The last of them, for all are written to the same place.
    let last = Mark::from_bytes(&std::fs::read(&marks).unwrap()).unwrap();
    assert_eq!((last.promise, last.moment), (None, Moment::Acknowledged));
    assert_eq!(std::fs::metadata(&marks).unwrap().len(), 512);
}

#[test]
fn without_marks_the_workload_says_what_it_needs() {
    let scratch = scratch();
    let (_, failure) = events(&request(scratch.path(), None), &AtomicBool::new(false));
    let failure = failure.unwrap();
    assert!(failure.message.contains("needs a device that records"), "{failure:?}");
    assert!(failure.hint.unwrap().contains("fsdyno durability"));
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_failure_names_the_call_and_the_file() {
    let scratch = scratch();
    let script = Script::new(5);
    prepare(scratch.path(), script, &Gauge::default()).unwrap();
    std::fs::write(scratch.path().join("link/0"), "in the way").unwrap();
    let course = StageLengths { promises: 1, promising: Duration::from_secs(60), unsynced: Duration::ZERO };
    let put: Put = Arc::new(|_| Ok(()));
    let begin = Instant::now();
    let failure = work(scratch.path(), course, script, put, &Gauge::default()).unwrap_err().failure();
    assert_eq!(failure.operation, Some(fsdyno_core::Operation::Create));
    assert_eq!(failure.path.as_deref(), Some("link/0"));
    assert_eq!(failure.errno, Some(rustix::io::Errno::EXIST.raw_os_error()));
    assert_eq!(failure.step, "promises");
    assert!(begin.elapsed() < Duration::from_secs(10), "the others end soon");
}

#[test]
fn a_mark_that_cannot_be_written_is_a_failure() {
    let scratch = scratch();
    prepare(scratch.path(), Script::new(5), &Gauge::default()).unwrap();
    let course = StageLengths { promises: 1, promising: Duration::from_secs(60), unsynced: Duration::ZERO };
    // A device that takes nothing.
    let put = marks::open(Path::new("/dev/full")).unwrap();
    let error = work(scratch.path(), course, Script::new(5), put, &Gauge::default()).unwrap_err();
    assert!(error.failure().message.starts_with("cannot write a mark to"), "{error:?}");
}

#[test]
fn it_stops_soon() {
    let scratch = scratch();
    let (directory, marks) = (scratch.path().join("mounted"), scratch.path().join("marks"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&marks, "").unwrap();
    let long = Durability { duration: Nanos::from_secs(600), ..Durability::default() };
    let request = EngineRequest { workload: Workload::Durability(long), ..request(&directory, Some(marks)) };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let engine = scope.spawn(|| events(&request, &stop));
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        let (_, failure) = engine.join().unwrap();
        assert_eq!(failure.unwrap().message, "stopped");
        assert!(begin.elapsed() < Duration::from_secs(60), "it would have taken ten minutes");
    });
}

#[test]
fn a_promise_that_is_never_acknowledged_is_given_up() {
    let scratch = scratch();
    let (directory, marks) = (scratch.path().join("mounted"), scratch.path().join("marks"));
    std::fs::create_dir(&directory).unwrap();
    // Opening it to write waits for a reader.
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &marks, fifo, Mode::RWXU, 0).unwrap();
    let patience = Some(Nanos::from_millis(200));
    let request = EngineRequest { patience, ..request(&directory, Some(marks)) };
    let (_, failure) = events(&request, &AtomicBool::new(false));
    assert_eq!(failure.unwrap().message, "phase 'promises' completed nothing for 200ms");
}
