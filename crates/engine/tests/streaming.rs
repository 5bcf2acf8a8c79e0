//! The streaming workload as a library, end to end in memory.

use fsdyno_core::protocol::PROTOCOL_VERSION;
use fsdyno_core::result::{PhaseResult, RoleResult};
use fsdyno_core::workload::{IoEngine, Stage, Streaming};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Nanos, Operation, Role, WarningKind, Workload};
use fsdyno_engine::{EngineError, run};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const BLOCK: u64 = 64 * Bytes::KIB;
const BLOCKS: u64 = 33;

/// A directory in memory where there is one: writing back a disk that others use takes its time.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).expect("a temporary directory")
}

fn small(io: IoEngine, stages: &[Stage]) -> Streaming {
    Streaming {
        // The last block is not whole.
        file_size: Bytes(BLOCKS * BLOCK - 4096),
        streams: 2,
        bs: Bytes(BLOCK),
        io,
        iodepth: 8,
        stages: stages.to_vec(),
        readers: 3,
        writers: 2,
        ramp: Nanos::from_millis(20),
        window: Nanos::from_millis(150),
        ..Streaming::default()
    }
}

fn events(directory: &Path, streaming: Streaming) -> (Result<(), EngineError>, Vec<EngineEvent>) {
    let request = EngineRequest {
        version: PROTOCOL_VERSION,
        directory: directory.to_path_buf(),
        workload: Workload::Streaming(streaming),
        seed: 42,
        precondition: None,
        drop_caches: false,
        clean_up: false,
        device: None,
        telemetry: None,
    };
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

/// The files that a run has left, by name.
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
        let directory = scratch();
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
    // Whichever way the blocks went, they are the same and in their places, and no two files are alike.
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
        let directory = scratch();
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
                // Beside those that were finished, at most what was in flight at the end.
                assert!(count - per_worker <= 8 * u64::from(role.workers), "{count} {per_worker}");
            }
        }
        // Files that were made beforehand and written again in parts are what writing them once makes.
        let again = scratch();
        self::phases(again.path(), small(IoEngine::Sync, &[Stage::Write]));
        assert!(files(directory.path())[2..] == files(again.path())[..]);
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_parameter() {
    let directory = scratch();
    let odd = Streaming { bs: Bytes(5000), direct: true, ..small(IoEngine::IoUring, &[Stage::Write]) };
    let (result, _) = events(directory.path(), odd);
    assert_eq!(
        result.unwrap_err().to_string(),
        "parameter 'bs' of the workload takes a multiple of 4k with direct I/O"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn whoever_keeps_the_cache_is_told() {
    let directory = scratch();
    let (_, events) = events(directory.path(), small(IoEngine::Sync, &[Stage::Write]));
    let told = events.iter().any(|event| {
        matches!(event, EngineEvent::Warning(warning) if warning.kind == WarningKind::CachesNotDropped)
    });
    assert!(told);
}
