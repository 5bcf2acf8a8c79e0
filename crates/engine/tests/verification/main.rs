//! Verified loads: what was written passes, in every way of reading and writing, and what was changed
//! afterwards does not.

mod flow;
mod logs;
mod whole;

use fsdyno_core::protocol::EnginePart;
use fsdyno_core::workload::{Content, Fileserver, IoEngine, Ramp, Stage, Streaming};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Failure, Nanos, Reached, ReadAgain, Reread, Workload};
use fsdyno_engine::run;
use fsdyno_testkit::{STREAMED_BLOCK as BLOCK, in_memory, small_streaming};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const SEED: u64 = 42;

fn streaming(io: IoEngine, stages: &[Stage]) -> Streaming {
    Streaming { verify: true, ..small_streaming(io, stages) }
}

fn fileserver() -> Fileserver {
    Fileserver {
        tree_size: Bytes(8 * Bytes::MIB),
        readers: 2,
        writers: 2,
        ramp: Ramp::For(Nanos::from_millis(20)),
        window: Nanos::from_millis(200),
        writer_space: Some(Bytes(4 * Bytes::MIB)),
        verify: true,
        ..Fileserver::default()
    }
}

/// Runs a request; returns its events.
fn events(request: &EngineRequest) -> Vec<EngineEvent> {
    let mut events = Vec::new();
    let _ = run(request, &AtomicBool::new(false), &mut |event| events.push(event));
    events
}

fn failure(events: &[EngineEvent]) -> Option<&Failure> {
    events.iter().find_map(|event| match event {
        EngineEvent::Failed(failure) => Some(failure),
        _ => None,
    })
}

fn read_again(events: &[EngineEvent]) -> ReadAgain {
    let found = events.iter().find_map(|event| match event {
        EngineEvent::ReadAgain { read_again, .. } => Some(*read_again),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("nothing was read again: {:?}", failure(events)))
}

/// All parts of a workload, each by an engine of its own, as in a sweep; returns how far the writers came.
fn in_parts(directory: &Path, workload: &Workload) -> Vec<Reached> {
    let mut all = Vec::new();
    for part in EnginePart::all(workload.load().parts()) {
        let reached = all.clone();
        let new = EngineRequest::new(directory, workload.clone(), SEED);
        let events = events(&EngineRequest { part, reached, ..new });
        assert_eq!(events.last(), Some(&EngineEvent::Done), "{:?}", failure(&events));
        for event in events {
            if let EngineEvent::Reached { writers } = event {
                all.extend(writers);
            }
        }
    }
    all
}

/// Reads everything again, as a later engine does.
fn again(directory: &Path, workload: &Workload, reached: &[Reached]) -> Vec<EngineEvent> {
    let of = workload.load().parts();
    let part = EnginePart { number: of - 1, of };
    let (reread, reached) = (Reread::Only, reached.to_vec());
    events(&EngineRequest {
        part,
        reread,
        reached,
        remounted: true,
        ..EngineRequest::new(directory, workload.clone(), SEED)
    })
}

fn base(directory: &Path) -> PathBuf {
    directory.join(format!("fsdyno-{SEED:016x}"))
}

/// The message of what is found after a change to a file.
fn after(directory: &Path, workload: &Workload, reached: &[Reached], file: &Path) -> String {
    let events = again(directory, workload, reached);
    let failure = failure(&events).unwrap_or_else(|| panic!("nothing is wrong with '{}'", file.display()));
    assert_eq!(failure.step, "verification", "{failure:?}");
    let relative = file.strip_prefix(base(directory)).expect("below the directory");
    assert_eq!(failure.path.as_deref(), relative.to_str(), "{failure:?}");
    assert!(failure.hint.is_some());
    failure.message.clone()
}

#[test]
fn every_stage_passes_with_every_engine_and_content() {
    let stages = [Stage::Write, Stage::Read, Stage::RandomWrite, Stage::RandomRead, Stage::Mixed];
    for io in [IoEngine::Sync, IoEngine::IoUring] {
        for content in [Content::Random, Content::Compressible(0.5)] {
            let directory = in_memory();
            let load = Streaming { content, ..streaming(io, &stages) };
            let (files, bytes) = (4, 2 * load.file_bytes());
            let workload = Workload::Streaming(load);
            let request = EngineRequest::new(directory.path(), workload, SEED);
            let events = events(&EngineRequest { reread: Reread::AtEnd, clean_up: true, ..request });
            assert_eq!(failure(&events), None);
            let read = read_again(&events);
            assert_eq!((read.files, read.remounted), (files, false));
            assert!(read.bytes > bytes, "the writers of `mixed` have left something: {read:?}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
        }
    }
}

/// Blocks that are hit by many writes at once: either may come last.
#[test]
fn writes_of_one_block_in_flight_together_are_no_error() {
    let directory = in_memory();
    let load = Streaming {
        file_size: Bytes(BLOCK),
        random_bs: Bytes(16 * Bytes::KIB),
        iodepth: 32,
        ..streaming(IoEngine::IoUring, &[Stage::Write, Stage::RandomWrite, Stage::Mixed])
    };
    let workload = Workload::Streaming(load);
    let reached = in_parts(directory.path(), &workload);
    assert!(reached.iter().any(|one| matches!(one, Reached::File { blocks: 32.., .. })), "{reached:?}");
    read_again(&again(directory.path(), &workload, &reached));
}

/// Stages in an order in which each overwrites what the one before has left.
#[test]
fn a_later_write_is_another_version() {
    let stages = [Stage::Read, Stage::RandomWrite, Stage::Write, Stage::RandomRead];
    let directory = in_memory();
    let workload = Workload::Streaming(streaming(IoEngine::Sync, &stages));
    let reached = in_parts(directory.path(), &workload);
    assert_eq!(read_again(&again(directory.path(), &workload, &reached)).files, 2);
    // As if `write` had never reached the device.
    let file = base(directory.path()).join("stream-1");
    let other = in_memory();
    let without = Workload::Streaming(streaming(IoEngine::Sync, &stages[..1]));
    in_parts(other.path(), &without);
    fs::copy(base(other.path()).join("stream-1"), &file).unwrap();
    let message = after(directory.path(), &workload, &reached, &file);
    assert!(message.starts_with("at offset 0: expected sector 0 of this file, found old data"), "{message}");
}

#[test]
fn what_is_changed_after_the_load_is_found_and_named() {
    let directory = in_memory();
    let workload = Workload::Streaming(streaming(IoEngine::Sync, &[Stage::Write, Stage::RandomWrite]));
    let reached = in_parts(directory.path(), &workload);
    assert_eq!(read_again(&again(directory.path(), &workload, &reached)).files, 2);
    let path = base(directory.path()).join("stream-0");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let sector = |at: u64| {
        let mut sector = [0; 512];
        file.read_exact_at(&mut sector, at).unwrap();
        sector
    };
    let change = |at: u64, to: &[u8]| {
        let before = sector(at / 512 * 512);
        file.write_all_at(to, at).unwrap();
        let message = after(directory.path(), &workload, &reached, &path);
        file.write_all_at(&before, at / 512 * 512).unwrap();
        message
    };
    let (there, elsewhere) = (sector(8192), sector(40 * 512));
    let foreign = fs::read(base(directory.path()).join("stream-1")).unwrap();
    let expected = "at offset 8192: expected sector 16 of this file, found";
    assert_eq!(change(8192, &[0; 512]), format!("{expected} zeros"));
    assert_eq!(change(8192, &elsewhere), format!("{expected} sector 40 of this file"));
    assert_eq!(
        change(8192, &foreign[1024..1536]),
        format!("{expected} foreign data: sector 2 of another file")
    );
    let flipped = change(8192 + 300, &[there[300] ^ 4]);
    assert_eq!(flipped, "at offset 8492: expected sector 16 of this file, found garbage: 1 bit differs");
    assert_eq!(read_again(&again(directory.path(), &workload, &reached)).files, 2, "it is as it was");

    file.set_len(5000).unwrap();
    let bytes = 33 * BLOCK - 4096;
    let message = after(directory.path(), &workload, &reached, &path);
    assert_eq!(message, format!("too short: expected {bytes} bytes, found 5000"));
    fs::remove_file(&path).unwrap();
    assert_eq!(after(directory.path(), &workload, &reached, &path), "expected the file, found nothing");
}

/// A phase that reads finds it before the end, whichever way it reads.
#[test]
fn a_phase_that_reads_a_changed_file_fails() {
    for (io, stage) in [
        (IoEngine::Sync, Stage::Read),
        (IoEngine::Sync, Stage::RandomRead),
        (IoEngine::IoUring, Stage::Read),
        (IoEngine::IoUring, Stage::RandomRead),
        (IoEngine::Sync, Stage::Mixed),
    ] {
        let directory = in_memory();
        let load = Streaming { file_size: Bytes(2 * BLOCK), ..streaming(io, &[Stage::Write, stage]) };
        let workload = Workload::Streaming(load);
        let new = EngineRequest::new(directory.path(), workload.clone(), SEED);
        let first = EngineRequest { part: EnginePart { number: 0, of: 2 }, ..new.clone() };
        assert_eq!(failure(&events(&first)), None);
        let path = base(directory.path()).join("stream-1");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0; 4096], 4096).unwrap();
        let events = events(&EngineRequest { part: EnginePart { number: 1, of: 2 }, ..new });
        let failure = failure(&events).unwrap_or_else(|| panic!("{io:?}, {stage:?}"));
        assert_eq!(failure.step, "verification");
        assert_eq!(failure.message, "at offset 4096: expected sector 8 of this file, found zeros");
        assert_eq!(failure.details, format!("read in step '{}'", stage.name()));
        assert!(!events.iter().any(|event| matches!(event, EngineEvent::Phase(_))), "no figure is reported");
    }
}

/// All regular files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

#[test]
fn trees_pass_with_and_without_direct_io_and_every_file_is_read_again() {
    for content in [Content::Random, Content::Compressible(0.3)] {
        let directory = in_memory();
        let workload = Workload::Fileserver(Fileserver { content, ..fileserver() });
        let reached = in_parts(directory.path(), &workload);
        assert_eq!(reached.len(), 2, "{reached:?}");
        let read = read_again(&again(directory.path(), &workload, &reached));
        let trees = files(&base(directory.path()));
        let old = trees.iter().filter(|path| !path.to_string_lossy().contains("/new-")).count() as u64;
        assert!(read.remounted && read.files >= old, "{read:?}, {old} files of trees");
        // What a writer was about to write need not be complete, and is not read.
        assert!(read.files + 2 >= trees.len() as u64, "{read:?} of {}", trees.len());
    }
}

#[test]
fn a_changed_file_of_a_tree_is_found_by_readers_and_at_the_end() {
    let directory = in_memory();
    let workload = Workload::Fileserver(fileserver());
    let reached = in_parts(directory.path(), &workload);
    let trees = files(&base(directory.path()));
    let of = |path: &PathBuf| path.metadata().unwrap().len();
    let large = |part: &str| {
        let found = trees.iter().filter(|path| path.to_string_lossy().contains(part));
        found.filter(|path| of(path) > 8192).cloned().collect::<Vec<_>>()
    };
    let read = |parts: u32| {
        let new = EngineRequest::new(directory.path(), workload.clone(), SEED);
        let part = EnginePart { number: parts, of: 4 };
        events(&EngineRequest { part, reread: Reread::Never, ..new })
    };
    // Two files change places: every sector is a good one.
    let [one, other] = &large("/tree-0/")[..2] else { panic!("too few files") };
    let (first, second) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    let exchanged = second.iter().copied().cycle().take(first.len()).collect::<Vec<u8>>();
    fs::write(one, exchanged).unwrap();
    let message = after(directory.path(), &workload, &reached, one);
    assert!(message.contains("found foreign data: sector 0 of another file"), "{message}");
    let by_reader = read(1);
    let found = failure(&by_reader).expect("the reader of the first tree finds it");
    assert_eq!(found.step, "verification");
    assert!(found.message.contains("foreign data"), "{found:?}");
    fs::write(one, &first).unwrap();

    // A reader knows from what is left how long it was.
    OpenOptions::new().write(true).open(one).unwrap().set_len(4096).unwrap();
    let short = format!("too short: expected {} bytes, found 4096", first.len());
    assert_eq!(after(directory.path(), &workload, &reached, one), short);
    assert_eq!(failure(&read(1)).expect("the reader finds it").message, short);
    fs::write(one, &first).unwrap();

    // A name that is missing is only missed by who knows the tree.
    fs::remove_file(one).unwrap();
    assert_eq!(after(directory.path(), &workload, &reached, one), "expected the file, found nothing");
    fs::write(one, &first).unwrap();
    assert!(failure(&again(directory.path(), &workload, &reached)).is_none(), "all is as it was");
}

#[test]
fn what_writers_have_left_is_read_again() {
    let directory = in_memory();
    // Nobody removes anything.
    let load = Fileserver { writer_space: Some(Bytes(4 * Bytes::GIB)), ..fileserver() };
    let workload = Workload::Fileserver(load);
    let reached = in_parts(directory.path(), &workload);
    let grown = reached.iter().find_map(|one| match one {
        Reached::Tree { worker: 1, files, removing: false, .. } => Some(*files),
        _ => None,
    });
    assert!(grown > Some(0), "{reached:?}");
    let new = files(&base(directory.path()).join("new-1"));
    // The last one may not be complete.
    let written = |path: &&PathBuf| path.metadata().unwrap().modified().unwrap();
    let last = new.iter().max_by_key(written).unwrap();
    let complete = new.iter().filter(|path| *path != last);
    let path = complete.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; 512], 512).unwrap();
    let message = after(directory.path(), &workload, &reached, path);
    assert_eq!(message, "at offset 512: expected sector 1 of this file, found zeros");
}

#[test]
fn an_unverified_load_writes_the_same_and_reads_nothing_again() {
    let (verified, plain) = (in_memory(), in_memory());
    let load = streaming(IoEngine::Sync, &[Stage::Write]);
    in_parts(verified.path(), &Workload::Streaming(load.clone()));
    let workload = Workload::Streaming(Streaming { verify: false, ..load });
    in_parts(plain.path(), &workload);
    let bytes = |directory: &Path| fs::read(base(directory).join("stream-1")).unwrap();
    assert!(bytes(verified.path()) == bytes(plain.path()));
    assert!(!workload.load().verifies());
}
