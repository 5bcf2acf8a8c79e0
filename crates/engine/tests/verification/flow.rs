//! Verified flows: whatever steps write passes, in whatever order workers come, and what was changed
//! afterwards does not.

use super::{after, again, base, events, failure, files, in_parts, read_again};
use fsdyno_core::protocol::EnginePart;
use fsdyno_core::workload::flow::{FileSets, FlowRoles};
use fsdyno_core::workload::{
    Act, Choice, Content, FileSet, Flags, Flow, FlowRole, FlowStep, Ramp, SizeRange,
};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Nanos, Reached, Reread, Role, Workload};
use fsdyno_testkit::{file_set, flow_role, in_memory};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const SEED: u64 = super::SEED;
const CHOOSE: Choice = Choice::Uniform;

/// Files that are emptied soon.
fn set(name: &str, count: u64, size: u64, prefill: f64) -> FileSet {
    FileSet { limit: Bytes(64 * Bytes::KIB), ..file_set(name, count, size, prefill) }
}

fn name(text: &str) -> String {
    text.to_string()
}

fn open_with(set: &str, handle: &str, flags: Flags) -> Act {
    Act::Open { set: name(set), choose: CHOOSE, handle: name(handle), flags }
}

fn open(set: &str, handle: &str) -> Act {
    open_with(set, handle, Flags::default())
}

fn create(set: &str, handle: &str) -> Act {
    Act::Create { set: name(set), in_order: false, handle: name(handle), flags: Flags::default() }
}

fn read(handle: &str) -> Act {
    Act::ReadWhole { handle: name(handle), buffer: Bytes(3000) }
}

fn write(handle: &str) -> Act {
    Act::WriteWhole { handle: name(handle), buffer: Bytes(4096) }
}

fn append(handle: &str, most: u64) -> Act {
    Act::Append { handle: name(handle), size: SizeRange { low: Bytes(1), high: Bytes(most) } }
}

fn overwrite(handle: &str, size: u64) -> Act {
    Act::Overwrite { handle: name(handle), size: Bytes(size), in_order: false }
}

fn read_random(handle: &str, size: u64) -> Act {
    Act::ReadRandom { handle: name(handle), size: Bytes(size) }
}

fn close(handle: &str) -> Act {
    Act::Close { handle: name(handle) }
}

fn unlink(set: &str) -> Act {
    Act::Unlink { set: name(set), choose: CHOOSE }
}

fn rename(set: &str, to: &str, over: bool) -> Act {
    Act::Rename { set: name(set), choose: CHOOSE, to: name(to), over }
}

fn role(role: Role, workers: u32, begin: Vec<Act>, steps: Vec<Act>) -> FlowRole {
    let list = |acts: Vec<Act>| acts.into_iter().map(|act| FlowStep { act, probability: 1.0 }).collect();
    FlowRole { begin: list(begin), ..flow_role(role, workers, steps) }
}

fn flow(sets: Vec<FileSet>, roles: Vec<FlowRole>) -> Flow {
    let mut sets = sets;
    sets.sort_by(|one, other| one.name.cmp(&other.name));
    Flow {
        files: FileSets(sets),
        roles: FlowRoles(roles),
        ramp: Ramp::For(Nanos::from_millis(20)),
        window: Nanos::from_millis(250),
        drain_limit: Nanos::from_secs(5),
        verify: true,
        ..Flow::default()
    }
}

/// Files that come and go, and are written in every way that there is.
fn changing() -> Flow {
    let steps = vec![
        create("new", "new"),
        write("new"),
        append("new", 5000),
        read("new"),
        overwrite("new", 700),
        overwrite("new", 1024),
        read("new"),
        Act::Fallocate { handle: name("new"), size: Bytes(20_000) },
        append("new", 300),
        Act::MmapWrite { handle: name("new"), size: Bytes(513), sync: false },
        read("new"),
        write("new"),
        read_random("new", 3000),
        // An open file goes on after its name is gone.
        rename("new", "moved", true),
        append("new", 2000),
        read("new"),
        close("new"),
        create("cut", "cut"),
        append("cut", 9000),
        Act::Truncate { handle: name("cut"), size: Bytes(5000) },
        append("cut", 3000),
        read("cut"),
        Act::Truncate { handle: name("cut"), size: Bytes(30_001) },
        append("cut", 3000),
        read("cut"),
        open("kept", "kept"),
        read("kept"),
        Act::CopyFileRange { from: name("kept"), to: name("cut") },
        append("cut", 513),
        read("cut"),
        close("kept"),
        Act::Truncate { handle: name("cut"), size: Bytes(0) },
        Act::CopyFileRange { from: name("moved"), to: name("cut") },
        read("cut"),
        close("cut"),
        unlink("cut"),
        close("moved"),
        open("moved", "moved"),
        read("moved"),
        append("moved", 9000),
        close("moved"),
        rename("moved", "moved", true),
        create("moved", "again"),
        append("again", 700),
        close("again"),
        Act::Link { set: name("moved"), choose: CHOOSE, to: name("links") },
        open("links", "link"),
        append("link", 3000),
        read("link"),
        close("link"),
        unlink("links"),
    ];
    let at = steps.iter().position(|act| matches!(act, Act::Truncate { .. })).expect("a step");
    let steps = [&steps[..at], &[open("moved", "moved")], &steps[at..]].concat();
    let cut = set("cut", 20, 4000, 0.5);
    let new = set("new", 40, 9000, 0.5);
    let sets =
        vec![cut, new, set("moved", 30, 6000, 0.5), set("kept", 5, 7000, 1.0), set("links", 30, 0, 0.0)];
    flow(sets, vec![role(Role::Client, 2, Vec::new(), steps)])
}

/// Files that many write over and read at once, files that many append to, and some that stay as they are.
fn shared(direct: bool) -> Flow {
    let flags = Flags { direct, ..Flags::default() };
    let map = |act| if direct { read_random("data", 4096) } else { act };
    let writer = role(
        Role::Writer,
        3,
        vec![open_with("data", "data", flags), open("log", "log")],
        vec![
            overwrite("data", 4096),
            map(Act::MmapWrite { handle: name("data"), size: Bytes(4096), sync: false }),
            overwrite("data", 8192),
            Act::Overwrite { handle: name("data"), size: Bytes(4096), in_order: true },
            append("log", 3000),
        ],
    );
    let reader = role(
        Role::Reader,
        3,
        vec![open_with("data", "data", flags)],
        vec![
            read_random("data", 12_288),
            map(Act::MmapRead { handle: name("data"), size: Bytes(5000) }),
            Act::ReadNext { handle: name("data"), size: Bytes(4096) },
            Act::ReadWhole { handle: name("data"), buffer: Bytes(8192) },
            open("log", "log"),
            read("log"),
            close("log"),
            open("still", "still"),
            read("still"),
            read_random("still", 100),
            close("still"),
        ],
    );
    let data = set("data", 2, 24 * 1024, 1.0);
    flow(vec![data, set("log", 1, 3000, 1.0), set("still", 4, 10_000, 1.0)], vec![reader, writer])
}

/// Each worker has files of its own, which stay.
fn private() -> Flow {
    let steps = vec![
        open("own", "own"),
        overwrite("own", 2048),
        read("own"),
        read_random("own", 1000),
        Act::MmapWrite { handle: name("own"), size: Bytes(2048), sync: true },
        Act::MmapRead { handle: name("own"), size: Bytes(2048) },
        close("own"),
        open_with("log", "log", Flags { append: true, ..Flags::default() }),
        append("log", 7000),
        read("log"),
        close("log"),
    ];
    let own = FileSet { private: true, per_directory: Some(2), ..set("own", 6, 20_000, 1.0) };
    let log = FileSet { private: true, ..set("log", 4, 100, 1.0) };
    flow(vec![own, log], vec![role(Role::Client, 2, Vec::new(), steps)])
}

fn passes(flow: Flow) -> Vec<Reached> {
    assert_eq!(
        flow.files.0.len(),
        flow.files.0.iter().map(|set| &set.name).collect::<std::collections::BTreeSet<_>>().len()
    );
    let directory = in_memory();
    let workload = Workload::Flow(flow);
    assert_eq!(workload.check(), Ok(()));
    let reached = in_parts(directory.path(), &workload);
    let read = read_again(&again(directory.path(), &workload, &reached));
    let there: Vec<PathBuf> = files(&base(directory.path()));
    let bytes: u64 = there.iter().map(|path| path.metadata().expect("a file").len()).sum();
    assert_eq!((read.files, read.bytes, read.left_out), (there.len() as u64, bytes, 0));
    reached
}

#[test]
fn whatever_steps_write_passes() {
    for content in [Content::Random, Content::Compressible(0.5)] {
        passes(Flow { content, ..changing() });
        passes(Flow { content, ..private() });
    }
}

#[test]
fn files_that_many_write_and_read_at_once_pass() {
    for direct in [false, true] {
        let reached = passes(shared(direct));
        let Some(Reached::Blocks { versions, .. }) =
            reached.iter().find(|one| matches!(one, Reached::Blocks { .. }))
        else {
            panic!("{reached:?}")
        };
        assert!(versions.iter().any(|(_, _, last)| *last > 10), "{versions:?}");
    }
}

/// In a directory, the engine that ran the load reads again, and removes everything.
#[test]
fn the_same_engine_can_read_again() {
    for load in [changing(), shared(false), private()] {
        let directory = in_memory();
        let request = EngineRequest::new(directory.path(), Workload::Flow(load), SEED);
        let events = events(&EngineRequest { reread: Reread::AtEnd, clean_up: true, ..request });
        assert_eq!(failure(&events), None);
        assert!(read_again(&events).files > 6);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

/// Runs a load; returns what it has left, with one of these files that is longer than this. A log is emptied
/// at its limit, and the moment at which the load ends may be just after that: then it runs once more.
fn ran_with(workload: &Workload, part: &str, length: u64) -> (tempfile::TempDir, Vec<Reached>, PathBuf) {
    let run = |_| {
        let directory = in_memory();
        let reached = in_parts(directory.path(), workload);
        let mut of_part = files(&base(directory.path())).into_iter();
        let large = |path: &PathBuf| path.metadata().expect("a file").len() > length;
        let path = of_part.find(|path| path.to_string_lossy().contains(part) && large(path))?;
        Some((directory, reached, path))
    };
    (0..5).find_map(run).unwrap_or_else(|| panic!("five loads left no file of {part} with {length} bytes"))
}

/// Changes a sector of a file; returns what is found.
fn changed(load: &Flow, part: &str, at: u64, to: &[u8]) -> String {
    let workload = Workload::Flow(load.clone());
    let (directory, reached, path) = ran_with(&workload, part, at + 512);
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("a file");
    let mut before = vec![0; to.len()];
    file.read_exact_at(&mut before, at).expect("a file");
    assert!(before != to, "nothing changes");
    file.write_all_at(to, at).expect("a file");
    let message = after(directory.path(), &workload, &reached, &path);
    file.write_all_at(&before, at).expect("a file");
    read_again(&again(directory.path(), &workload, &reached));
    message
}

#[test]
fn what_is_changed_after_a_flow_is_found_and_named() {
    let hole = [0; 512];
    let expected = "at offset 1024: expected sector 2 of this file, found zeros";
    for (load, part) in [
        (shared(false), "/data/"),
        (shared(false), "/still/"),
        (private(), "/own/w1/"),
        (private(), "/own/w0/"),
        (changing(), "/kept/"),
    ] {
        assert_eq!(changed(&load, part, 1024, &hole), expected, "{part}");
    }
    let flipped = changed(&private(), "/log/", 100, &[0x5a; 3]);
    assert!(flipped.contains("garbage"), "{flipped}");
    // Other bytes of a log that was emptied are only what they are or zeros.
    let once = Flow { files: FileSets(vec![file_set("log", 1, 3000, 1.0)]), ..logs() };
    assert_eq!(changed(&once, "/log/", 1024, &hole), expected);
    assert!(changed(&logs(), "/log/", 1024, &[1; 512]).contains("garbage"));
}

/// Several workers append to one file.
fn logs() -> Flow {
    let steps = vec![append("log", 3000)];
    flow(vec![set("log", 1, 3000, 1.0)], vec![role(Role::Client, 3, vec![open("log", "log")], steps)])
}

#[test]
fn a_lost_write_a_short_file_and_names_that_come_and_go_are_found() {
    let directory = in_memory();
    let workload = Workload::Flow(changing());
    let reached = in_parts(directory.path(), &workload);
    let check = |path: &PathBuf| after(directory.path(), &workload, &reached, path);
    let all = files(&base(directory.path()));
    // A link to it would be read first.
    let has_one_name = |path: &PathBuf| fs::metadata(path).unwrap().nlink() == 1;
    let moved = all.iter().find(|path| path.to_string_lossy().contains("/moved/") && has_one_name(path));
    let moved = moved.expect("a file with one name");
    let bytes = fs::read(moved).unwrap();
    OpenOptions::new().write(true).open(moved).unwrap().set_len(bytes.len() as u64 - 1).unwrap();
    let short = format!("too short: expected {} bytes, found {}", bytes.len(), bytes.len() - 1);
    assert_eq!(check(moved), short);
    fs::remove_file(moved).unwrap();
    assert_eq!(check(moved), "expected the file, found nothing");
    fs::write(moved, &bytes).unwrap();
    // A load may end while a link exists, whichever it is.
    let mut links = (0..30).map(|number| base(directory.path()).join(format!("links/f{number}")));
    let removed = links.find(|path| !path.exists()).expect("a link that was removed");
    fs::write(&removed, b"").unwrap();
    assert_eq!(check(&removed), "expected nothing, found a file that was removed");
    fs::remove_file(&removed).unwrap();
    assert!(failure(&again(directory.path(), &workload, &reached)).is_none());

    // A block as it was before it was written over.
    let workload = Workload::Flow(private());
    let [directory, other] = [in_memory(), in_memory()];
    let reached = in_parts(directory.path(), &workload);
    let Some(Reached::Blocks { versions, .. }) =
        reached.iter().find(|one| matches!(one, Reached::Blocks { .. }))
    else {
        panic!("{reached:?}")
    };
    assert!(!versions.is_empty());
    let first = EngineRequest {
        part: EnginePart { number: 0, of: 2 },
        ..EngineRequest::new(other.path(), workload.clone(), SEED)
    };
    assert_eq!(failure(&events(&first)), None);
    let path = |of: &std::path::Path| base(of).join("own/w0/d0/f0");
    fs::copy(path(other.path()), path(directory.path())).unwrap();
    let message = after(directory.path(), &workload, &reached, &path(directory.path()));
    assert!(message.contains("found old data: version 0 instead of"), "{message}");
}

/// A phase that reads finds it before the end, whichever way it reads.
#[test]
fn a_flow_that_reads_a_changed_file_fails() {
    let ways = [
        read("file"),
        read_random("file", 8192),
        Act::ReadNext { handle: name("file"), size: Bytes(4096) },
        Act::MmapRead { handle: name("file"), size: Bytes(8192) },
    ];
    for way in ways {
        let steps = vec![open("some", "file"), way.clone(), close("file")];
        let load = flow(vec![set("some", 1, 8192, 1.0)], vec![role(Role::Reader, 1, Vec::new(), steps)]);
        let directory = in_memory();
        let new = EngineRequest::new(directory.path(), Workload::Flow(load), SEED);
        let part = |number| EngineRequest { part: EnginePart { number, of: 2 }, ..new.clone() };
        assert_eq!(failure(&events(&part(0))), None);
        let path = base(directory.path()).join("some/f0");
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[0; 512], 1024).unwrap();
        let events = events(&part(1));
        let failure = failure(&events).unwrap_or_else(|| panic!("{way:?}"));
        assert_eq!((failure.step.as_str(), failure.path.as_deref()), ("verification", Some("some/f0")));
        let expected = "at offset 1024: expected sector 2 of this file, found zeros";
        assert_eq!((failure.message.as_str(), failure.details.as_str()), (expected, "read in step 'flow'"));
        assert!(!events.iter().any(|event| matches!(event, EngineEvent::Phase(_))), "no figure is reported");
    }
}
