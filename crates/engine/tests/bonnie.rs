//! The bonnie workload as a library, end to end in memory: every byte, file and call that its parameters
//! determine.

use fsdyno_core::result::{PhaseResult, RoleResult};
use fsdyno_core::workload::{Bonnie, PhaseSpec, bonnie};
use fsdyno_core::{Bytes, EngineEvent, EngineRequest, Nanos, Operation, WarningKind, Workload};
use fsdyno_testkit::in_memory;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;

const MIB: u64 = Bytes::MIB;
const CHUNK: u64 = 8192;

fn small() -> Bonnie {
    Bonnie {
        size: Some(Bytes(2 * MIB)),
        char_size: Bytes(64 << 10),
        seekers: 3,
        seeks: 500,
        files: 1024,
        min_size: Bytes(16),
        max_size: Bytes(20_000),
        directories: 4,
        ..Bonnie::default()
    }
}

struct Run {
    phases: Vec<PhaseResult>,
    warnings: Vec<WarningKind>,
    /// The number of entries left in the engine's directory.
    left: usize,
}

fn run(workload: Bonnie, seed: u64) -> Run {
    let directory = in_memory();
    let request = EngineRequest::new(directory.path(), Workload::Bonnie(workload), seed);
    let (mut phases, mut warnings) = (Vec::new(), Vec::new());
    fsdyno_engine::run(&request, &AtomicBool::new(false), &mut |event| match event {
        EngineEvent::Phase(phase) => phases.push(*phase),
        EngineEvent::Warning(warning) => warnings.push(warning.kind),
        _ => {}
    })
    .expect("the engine runs");
    let base = directory.path().join(format!("fsdyno-{seed:016x}"));
    Run { phases, warnings, left: fs::read_dir(base).expect("readable").count() }
}

impl Run {
    fn role(&self, test: PhaseSpec) -> &RoleResult {
        let phase = self.phases.iter().find(|phase| phase.name == test.name).expect("a phase");
        let [role] = &phase.roles[..] else { panic!("{phase:?}") };
        assert_eq!(role.role, test.role);
        role
    }

    fn counts(&self, test: PhaseSpec) -> BTreeMap<Operation, u64> {
        self.role(test).operations.iter().map(|row| (row.operation, row.lat_ns.count)).collect()
    }
}

fn expected(counts: &[(Operation, u64)]) -> BTreeMap<Operation, u64> {
    counts.iter().copied().collect()
}

#[test]
fn every_phase_has_its_name_role_and_longest_item() {
    let run = run(small(), 1);
    let names: Vec<&str> = run.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, bonnie::TESTS.map(|test| test.name));
    for test in bonnie::TESTS {
        let role = run.role(test);
        // Looking into a directory before its files are removed is part of none of them, nor is opening and
        // closing the large file.
        let of_items = |operation: Operation| match operation {
            Operation::Fsync | Operation::Syncfs | Operation::Rmdir | Operation::Readdir => false,
            Operation::Openat | Operation::Close => test.name.starts_with("create"),
            _ => true,
        };
        let longest_operation =
            role.operations.iter().filter(|row| of_items(row.operation)).map(|row| row.lat_ns.max).max();
        let longest_item = role.longest_item_ns.unwrap();
        assert!(longest_item > Nanos(0), "{}", test.name);
        assert!(Some(longest_item.0) >= longest_operation, "{}: an item has operations", test.name);
        assert!(role.rates.items_per_s > 0.0);
    }
    assert!(run.warnings.contains(&WarningKind::TreeSmallerThanMemory));
    assert_eq!(run.left, 0, "the files are gone, even without cleaning up");
}

#[test]
fn the_bytes_moved_follow_from_the_size_of_the_large_file() {
    let run = run(small(), 2);
    let (size, characters, chunks) = (2 * MIB, 64 << 10, 2 * MIB / CHUNK);
    let closed = [(Operation::Fsync, 1), (Operation::Close, 1)];
    let with = |counts: &[(Operation, u64)]| expected(&[counts, &closed[..]].concat());
    for (test, bytes, items, counts) in [
        (bonnie::WRITE_CHAR, characters, characters / CHUNK, with(&[(Operation::Write, characters)])),
        (bonnie::WRITE_BLOCK, size, chunks, with(&[(Operation::Write, chunks)])),
        (
            bonnie::REWRITE,
            size,
            chunks,
            with(&[(Operation::Read, chunks), (Operation::Lseek, chunks), (Operation::Write, chunks)]),
        ),
        (bonnie::READ_CHAR, characters, characters / CHUNK, with(&[(Operation::Read, characters)])),
        (bonnie::READ_BLOCK, size, chunks, with(&[(Operation::Read, chunks)])),
    ] {
        let role = run.role(test);
        assert_eq!((role.rates.bytes, role.rates.items), (bytes, items), "{}", test.name);
        assert_eq!(run.counts(test), counts, "{}", test.name);
    }
    let seeks = run.counts(bonnie::SEEKS);
    let rewrites = seeks[&Operation::Write];
    assert!((30..80).contains(&rewrites), "a tenth of 500: {rewrites}");
    assert_eq!((seeks[&Operation::Read], seeks[&Operation::Lseek]), (500, 500 + rewrites));
    assert_eq!((seeks[&Operation::Fsync], seeks[&Operation::Close]), (3, 3));
    assert_eq!(run.role(bonnie::SEEKS).rates.items, 500);
}

#[test]
fn the_small_files_are_created_examined_and_removed() {
    let run = run(small(), 3);
    for (create, stat, delete) in [
        (bonnie::SEQ_CREATE, bonnie::SEQ_STAT, bonnie::SEQ_DELETE),
        (bonnie::RANDOM_CREATE, bonnie::RANDOM_STAT, bonnie::RANDOM_DELETE),
    ] {
        for test in [create, stat, delete] {
            assert_eq!(run.role(test).rates.items, 1024, "{}", test.name);
        }
        let written = run.role(create).rates.bytes;
        assert_eq!(written, run.role(stat).rates.bytes, "everything that was written is read");
        assert!((written as f64 / (1024.0 * 10_008.0) - 1.0).abs() < 0.06, "{written} bytes");
        let (made, seen) = (run.counts(create), run.counts(stat));
        assert_eq!(made[&Operation::Write], seen[&Operation::Read], "in chunks both times");
        assert_eq!((made[&Operation::Create], made[&Operation::Close]), (1024, 1024));
        assert_eq!(made[&Operation::Syncfs], 1);
        assert!(!made.contains_key(&Operation::Fsync));
    }
    // Sequentially, each of the four directories is opened, listed with its two dots, read to the end, and
    // closed.
    let seen = run.counts(bonnie::SEQ_STAT);
    assert_eq!((seen[&Operation::Readdir], seen[&Operation::Statx]), (1024 + 3 * 4, 1024));
    assert_eq!((seen[&Operation::Openat], seen[&Operation::Close]), (1024 + 4, 1024 + 4));
    let common = [(Operation::Unlinkat, 1024), (Operation::Rmdir, 5), (Operation::Syncfs, 1)];
    let listed = [(Operation::Readdir, 1024 + 3 * 4), (Operation::Openat, 4), (Operation::Close, 4)];
    assert_eq!(run.counts(bonnie::SEQ_DELETE), expected(&[&common[..], &listed].concat()));
    assert_eq!(run.counts(bonnie::RANDOM_DELETE), expected(&common));
    assert_ne!(run.role(bonnie::SEQ_CREATE).rates.bytes, run.role(bonnie::RANDOM_CREATE).rates.bytes);
}

#[test]
fn without_write_buffering_each_file_and_its_directory_are_synced() {
    let run = run(Bonnie { fsync: true, ..small() }, 4);
    assert_eq!(run.counts(bonnie::SEQ_CREATE)[&Operation::Fsync], 2 * 1024);
    assert_eq!(run.counts(bonnie::SEQ_DELETE)[&Operation::Fsync], 1024);
    assert_eq!(run.counts(bonnie::RANDOM_DELETE)[&Operation::Fsync], 1024);
    assert!(!run.counts(bonnie::SEQ_STAT).contains_key(&Operation::Fsync));
    let seeks = run.counts(bonnie::SEEKS);
    assert_eq!(seeks[&Operation::Fsync], seeks[&Operation::Write] + 3);
    assert_eq!(
        run.counts(bonnie::WRITE_BLOCK)[&Operation::Fsync],
        1,
        "as in the original, only before closing"
    );
}

#[test]
fn either_part_can_be_left_out() {
    let names = |workload| -> Vec<String> { run(workload, 5).phases.into_iter().map(|p| p.name).collect() };
    let large = Bonnie { files: 0, char_size: Bytes(0), ..small() };
    assert_eq!(names(large), ["write block", "rewrite", "read block", "random seeks"]);
    let files = Bonnie { size: Some(Bytes(0)), max_size: Bytes(0), min_size: Bytes(0), ..small() };
    let run = run(Bonnie { directories: 1, ..files }, 6);
    assert_eq!(run.phases.len(), 6);
    // Empty files are neither opened nor read; only the directory is opened.
    assert_eq!(run.counts(bonnie::SEQ_STAT)[&Operation::Openat], 1);
    assert!(!run.counts(bonnie::RANDOM_STAT).contains_key(&Operation::Openat));
    assert_eq!(run.counts(bonnie::RANDOM_DELETE)[&Operation::Rmdir], 1);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let totals = |seed| -> Vec<(u64, u64)> {
        let sums = |phase: &PhaseResult| (phase.roles[0].rates.bytes, phase.roles[0].rates.items);
        run(small(), seed).phases.iter().map(sums).collect()
    };
    assert_eq!(totals(7), totals(7));
    assert_ne!(totals(7), totals(8));
}
