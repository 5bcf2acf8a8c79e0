//! The streaming workload as a library, end to end in memory.

use fsdyno_core::protocol::EnginePart;
use fsdyno_core::result::{PhaseResult, RoleResult};
use fsdyno_core::workload::{IoEngine, Stage, Streaming};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Nanos, Operation, Role, WarningKind, Workload};
use fsdyno_engine::{EngineError, run};
use fsdyno_testkit::{
    STREAMED_BLOCK as BLOCK, STREAMED_BLOCKS as BLOCKS, in_memory, small_streaming as small,
};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn events(directory: &Path, streaming: Streaming) -> (Result<(), EngineError>, Vec<EngineEvent>) {
    part(directory, streaming, EnginePart::WHOLE)
}

fn part(
    directory: &Path,
    streaming: Streaming,
    part: EnginePart,
) -> (Result<(), EngineError>, Vec<EngineEvent>) {
    let request = EngineRequest { part, ..EngineRequest::new(directory, Workload::Streaming(streaming), 42) };
    let mut events = Vec::new();
    let result = run(&request, &AtomicBool::new(false), &mut |event| events.push(event));
    (result, events)
}

fn phases(directory: &Path, streaming: Streaming) -> Vec<PhaseResult> {
    let (result, events) = events(directory, streaming);
    result.expect("the workload runs");
    let phases = events.into_iter().filter_map(|event| match event {
        EngineEvent::Phase(phase) => Some(*phase),
        _ => None,
    });
    phases.collect()
}

fn counts(role: &RoleResult) -> Vec<(Operation, u64)> {
    role.operations.iter().map(|row| (row.operation, row.lat_ns.count)).collect()
}

/// The files that a run has left behind, by name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = |directory: &Path| -> Vec<_> {
        let entries = std::fs::read_dir(directory).expect("a readable directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let mut paths = entries(&entries(directory)[0]);
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("a readable file"))
    };
    paths.iter().map(read).collect()
}

#[test]
fn every_block_is_written_and_read_once() {
    use Operation::{Fsync, Read, UringRead, UringWrite, Write};
    let mut contents = Vec::new();
    let ring = IoEngine::IoUring;
    for (io, batch, write, read) in [
        (IoEngine::Sync, 1, Write, Read),
        (ring, 1, UringWrite, UringRead),
        (ring, 5, UringWrite, UringRead),
        // More than there are in flight.
        (ring, 100, UringWrite, UringRead),
    ] {
        let directory = in_memory();
        let streaming = Streaming { batch, ..small(io, &[Stage::Write, Stage::Read]) };
        let all_bytes = 2 * streaming.file_size.0;
        let phases = phases(directory.path(), streaming);
        let [writing, reading] = &phases[..] else { panic!("{phases:?}") };
        assert_eq!((&*writing.name, &*reading.name), ("write", "read"));
        assert_eq!(counts(&writing.roles[0]), [(write, 2 * BLOCKS), (Fsync, 2)]);
        assert_eq!(counts(&reading.roles[0]), [(read, 2 * BLOCKS)]);
        assert_eq!((writing.roles[0].role, reading.roles[0].role), (Role::Writer, Role::Reader));
        for role in [&writing.roles[0], &reading.roles[0]] {
            assert_eq!(role.rates.bytes, all_bytes);
            assert_eq!(role.worker_results.iter().map(|worker| worker.bytes).sum::<u64>(), all_bytes);
            assert_eq!(role.operations[0].timeline.bytes.iter().sum::<u64>(), all_bytes);
        }
        contents.push(files(directory.path()));
    }
    // Whichever way the blocks were written, they are the same and in the right places, and no two files are
    // alike.
    let one = &contents[0];
    assert_eq!(one[0].1.len() as u64, BLOCKS * BLOCK - 4096);
    assert!(contents.iter().all(|other| other == one) && one.len() == 2 && one[0].1 != one[1].1);
}

#[test]
fn stages_with_a_window_work_until_it_ends() {
    use Operation::{Pread, Pwrite, Read, UringRead, UringWrite, Write};
    for (io, [random_write, random_read, write, read]) in [
        (IoEngine::Sync, [Pwrite, Pread, Write, Read]),
        (IoEngine::IoUring, [UringWrite, UringRead, UringWrite, UringRead]),
    ] {
        let directory = in_memory();
        let stages = [Stage::RandomWrite, Stage::RandomRead, Stage::Mixed];
        let phases = phases(directory.path(), small(io, &stages));
        let names: Vec<&str> = phases.iter().map(|phase| &*phase.name).collect();
        assert_eq!(names, ["random-write", "random-read", "mixed"]);
        let workers = |phase: &PhaseResult| -> Vec<(Role, u32)> {
            phase.roles.iter().map(|role| (role.role, role.workers)).collect()
        };
        assert_eq!(workers(&phases[0]), [(Role::Writer, 2)]);
        assert_eq!(workers(&phases[1]), [(Role::Reader, 2)]);
        assert_eq!(workers(&phases[2]), [(Role::Writer, 2), (Role::Reader, 3)]);
        for phase in &phases {
            assert_eq!(phase.window_ns, Nanos::from_millis(150));
            for role in &phase.roles {
                let [(operation, count)] = counts(role)[..] else { panic!("{role:?}") };
                let expected = match (&*phase.name, role.role) {
                    ("random-write", _) => random_write,
                    ("random-read", _) => random_read,
                    (_, Role::Writer) => write,
                    _ => read,
                };
                assert_eq!(operation, expected, "{}", phase.name);
                let per_worker: u64 = role.worker_results.iter().map(|worker| worker.completed).sum();
                assert!(per_worker > 0 && count >= per_worker, "{count} {per_worker}");
                // In addition to those that were finished, at most what was in flight at the end.
                assert!(count - per_worker <= 8 * u64::from(role.workers), "{count} {per_worker}");
            }
        }
        // Files that were created beforehand and partly written again are the same as after writing them
        // once, except for the stamps that say how often.
        let again = in_memory();
        self::phases(again.path(), small(IoEngine::Sync, &[Stage::Write]));
        let (mut over, mut once) = (files(directory.path()).split_off(2), files(again.path()));
        assert!(over != once);
        for (_, bytes) in over.iter_mut().chain(&mut once) {
            bytes.chunks_mut(512).for_each(|sector| sector[..16].fill(0));
        }
        assert!(over == once);
    }
}

#[test]
fn impossible_parameters_are_refused_by_name() {
    let directory = in_memory();
    let odd = Streaming { bs: Bytes(5000), direct: true, ..small(IoEngine::IoUring, &[Stage::Write]) };
    let (result, _) = events(directory.path(), odd);
    assert_eq!(
        result.unwrap_err().to_string(),
        "workload parameter 'bs' must be a multiple of 4k for direct I/O"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn keeping_the_cache_causes_a_warning() {
    let directory = in_memory();
    let (_, events) = events(directory.path(), small(IoEngine::Sync, &[Stage::Write]));
    let described = events.iter().any(|event| {
        matches!(event, EngineEvent::Warning(warning) if warning.kind == WarningKind::CachesNotDropped)
    });
    assert!(described);
}

/// The events of an engine as text, without the signs of life.
fn described(events: &[EngineEvent]) -> Vec<String> {
    let name = |event: &EngineEvent| match event {
        EngineEvent::Hello { .. } => Some("hello".to_string()),
        EngineEvent::Prepared { .. } => Some("prepared".to_string()),
        EngineEvent::Phase(phase) => Some(phase.name.clone()),
        EngineEvent::Durable { .. } => Some("on the device".to_string()),
        EngineEvent::Reached { writers } => Some(format!("{} writers", writers.len())),
        EngineEvent::ReadAgain { read_again, .. } => Some(format!("{} files again", read_again.files)),
        EngineEvent::Layout(layout) => Some(format!("layout of {} files", layout.files)),
        EngineEvent::Done => Some("done".to_string()),
        EngineEvent::Failed(failure) => Some(failure.message.clone()),
        EngineEvent::Progress(_)
        | EngineEvent::Warning(_)
        | EngineEvent::Filled(_)
        | EngineEvent::Observed(_)
        | EngineEvent::Ready { .. } => None,
    };
    events.iter().filter_map(name).collect()
}

const FIRST: EnginePart = EnginePart { number: 0, of: 2 };
const SECOND: EnginePart = EnginePart { number: 1, of: 2 };

#[test]
fn the_parts_of_the_workload_together_do_what_the_whole_does() {
    let streaming = || small(IoEngine::Sync, &[Stage::Write, Stage::Read, Stage::RandomRead]);
    let (parted, whole) = (in_memory(), in_memory());
    let [first, second, third] = [0, 1, 2].map(|number| {
        let (result, events) = part(parted.path(), streaming(), EnginePart { number, of: 3 });
        result.unwrap_or_else(|error| panic!("part {number}: {error}"));
        events
    });
    assert_eq!(described(&first), ["hello", "write", "on the device", "done"]);
    assert_eq!(described(&second), ["hello", "read", "done"]);
    assert_eq!(described(&third), ["hello", "random-read", "layout of 2 files", "done"]);
    phases(whole.path(), streaming());
    assert!(files(parted.path()) == files(whole.path()));
    // The estimate during the first part includes the window of the third.
    let left = first.iter().find_map(|event| match event {
        EngineEvent::Progress(progress) => progress.left_ns,
        _ => None,
    });
    assert!(left >= Some(Nanos::from_millis(170)), "{left:?}");
}

#[test]
fn files_that_are_only_read_are_created_by_the_first_part() {
    let streaming = || small(IoEngine::IoUring, &[Stage::Read]);
    let directory = in_memory();
    let (result, first) = part(directory.path(), streaming(), FIRST);
    result.expect("the first part");
    assert_eq!(described(&first), ["hello", "prepared", "done"]);
    let (result, second) = part(directory.path(), streaming(), SECOND);
    result.expect("the second part");
    assert_eq!(described(&second), ["hello", "read", "layout of 2 files", "done"]);
}

#[test]
fn a_later_part_refuses_files_that_have_changed() {
    let streaming = || small(IoEngine::Sync, &[Stage::Write, Stage::Read]);
    let directory = in_memory();
    let refused = || {
        let (result, events) = part(directory.path(), streaming(), SECOND);
        let Some(EngineEvent::Failed(failure)) = events.last() else { panic!("{events:?}") };
        (result.unwrap_err(), failure.clone())
    };
    let (_, nothing) = refused();
    assert_eq!(
        (nothing.errno, nothing.message.as_str()),
        (Some(2), "cannot find the directory: No such file or directory (os error 2)")
    );
    part(directory.path(), streaming(), FIRST).0.expect("the first part");
    let base = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let file = base.join("stream-1");
    std::fs::File::options().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let (error, short) = refused();
    assert!(matches!(error, EngineError::Changed { found_bytes: 4096, .. }), "{error:?}");
    assert_eq!(short.path.as_deref(), file.to_str());
    assert!(
        short.message.ends_with(&format!("has 4096 bytes, but was written with {}", BLOCKS * BLOCK - 4096))
    );
    assert!(short.hint.is_some());
    std::fs::remove_file(&file).unwrap();
    let (_, missing) = refused();
    assert_eq!((missing.errno, missing.path.as_deref()), (Some(2), file.to_str()));
}

#[test]
fn a_part_that_the_workload_does_not_have_is_refused() {
    let directory = in_memory();
    for (asked, stages) in [
        (SECOND, vec![Stage::Write]),
        (EnginePart { number: 2, of: 2 }, vec![Stage::Write, Stage::Read]),
        (EnginePart { number: 0, of: 3 }, vec![Stage::Write, Stage::Read]),
    ] {
        let (result, _) = part(directory.path(), small(IoEngine::Sync, &stages), asked);
        assert!(matches!(result, Err(EngineError::NoSuchPart { .. })), "{result:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
