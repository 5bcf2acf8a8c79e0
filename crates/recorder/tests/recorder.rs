//! The recorded disk against oracles of its own: what it is now, what it is after every cut under every cache
//! model, and where it is cut.

#![expect(clippy::unwrap_used, reason = "tests")]

use fsdyno_core::durability::{CacheModel, Mark, Moment, Promise, StateRequest};
use fsdyno_core::{Bytes, Nanos};
use fsdyno_recorder::{
    Base, ByteSource, Disk, DiskState, Extents, Kind, RecordedLog, RecorderError, cuts, survivors,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

const ATOM: usize = 512;
const ATOMS: usize = 8;
/// Files that the disk consists of, each with a cache of its own.
const PARTS: u32 = 2;
const OF_PART: usize = ATOMS / PARTS as usize;
const SIZE: Bytes = Bytes((ATOM * ATOMS) as u64);

/// Something that is done to the disk, in atoms.
#[derive(Debug, Clone)]
enum Step {
    Write {
        at: usize,
        length: usize,
    },
    Zero {
        at: usize,
        length: usize,
    },
    /// Arrives at a part when all but this many of the entries before it were complete.
    Flush {
        part: u32,
        missing: u64,
    },
    Mark,
}

fn step() -> impl Strategy<Value = Step> {
    // What is written is in one part.
    let range = (0..ATOMS, 1..4usize).prop_map(|(at, length)| (at, length.min(OF_PART - at % OF_PART)));
    prop_oneof![
        5 => range.clone().prop_map(|(at, length)| Step::Write { at, length }),
        1 => range.prop_map(|(at, length)| Step::Zero { at, length }),
        2 => (0..PARTS, 0..3u64).prop_map(|(part, missing)| Step::Flush { part, missing }),
        1 => Just(Step::Mark),
    ]
}

fn mark(number: u64, moment: Moment) -> [u8; 512] {
    Mark { promise: Some(Promise::Append), number, moment, time_ns: Nanos(number) }.to_bytes()
}

/// The byte that step `number` fills with; unlike that of every other.
fn filling(number: usize) -> u8 {
    number as u8 + 1
}

fn record(directory: &Path, steps: &[Step]) -> Disk {
    let mut disk = Disk::create(directory).unwrap();
    disk.set_size(SIZE, PARTS).unwrap();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Write { at, length } => {
                disk.write_at(&vec![filling(number); length * ATOM], (at * ATOM) as u64).unwrap();
            }
            Step::Zero { at, length } => disk.zero((at * ATOM) as u64, (length * ATOM) as u64).unwrap(),
            Step::Flush { part, missing } => {
                disk.flush(part, disk.log().count().saturating_sub(missing)).unwrap();
            }
            Step::Mark => disk.mark(&mark(number as u64, Moment::Acknowledged)).unwrap(),
        }
    }
    disk
}

/// The filling of each atom.
type Content = [u8; ATOMS];

/// Applies a step to those of its atoms that survive.
fn apply(content: &mut Content, number: usize, step: &Step, survives: impl Fn(usize) -> bool) {
    let (at, length, filling) = match *step {
        Step::Write { at, length } => (at, length, filling(number)),
        Step::Zero { at, length } => (at, length, 0),
        _ => return,
    };
    (at..at + length).filter(|atom| survives(*atom)).for_each(|atom| content[atom] = filling);
}

/// A flush of the first part that covers everything before it.
const FLUSH: Step = Step::Flush { part: 0, missing: 0 };

/// Returns whether the flushes among these steps cover one of them.
fn is_flushed(steps: &[Step], number: usize) -> bool {
    let of = |at: usize| (at / OF_PART) as u32;
    let own = match steps[number] {
        Step::Write { at, .. } | Step::Zero { at, .. } => of(at),
        _ => return true,
    };
    steps.iter().enumerate().any(|(flush, step)| match step {
        Step::Flush { part, missing } => *part == own && number + (*missing as usize) < flush,
        _ => false,
    })
}

/// Every content that a drive may have after these steps, if each atom of what is volatile survives or not.
fn possible(steps: &[Step], is_volatile: impl Fn(usize) -> bool) -> BTreeSet<Content> {
    let mut all = BTreeSet::from([[0; ATOMS]]);
    for (number, step) in steps.iter().enumerate() {
        let mut next = BTreeSet::new();
        for content in all {
            let subsets = if is_volatile(number) { 0..=255u32 } else { 255..=255 };
            for subset in subsets {
                let mut after = content;
                apply(&mut after, number, step, |atom| subset & (1 << atom) != 0);
                next.insert(after);
            }
        }
        all = next;
    }
    all
}

fn request(at: usize, model: CacheModel, seed: u64) -> StateRequest {
    StateRequest { at: at as u64, model, seed, atom: Bytes(ATOM as u64), volatile: Bytes(2 * ATOM as u64) }
}

fn content_of(bytes: &[u8]) -> Content {
    let mut content = [0; ATOMS];
    for (atom, bytes) in bytes.chunks_exact(ATOM).enumerate() {
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "an atom is torn");
        content[atom] = bytes[0];
    }
    content
}

fn read(state: &DiskState, log: &RecordedLog) -> Content {
    let mut bytes = vec![0; SIZE.0 as usize];
    state.read_at(log, &mut bytes, 0).unwrap();
    content_of(&bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_every_cut_each_model_gives_what_a_drive_may_have(
        steps in prop::collection::vec(step(), 1..14),
        seed: u64,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let disk = record(directory.path(), &steps);
        let mut state = DiskState::create(directory.path(), SIZE).unwrap();
        for at in 0..=steps.len() {
            let before = &steps[..at];
            for model in CacheModel::ALL {
                state.enter(disk.log(), &request(at, model, seed)).unwrap();
                let found = read(&state, disk.log());
                let mut all = [0; ATOMS];
                before.iter().enumerate().for_each(|(number, step)| apply(&mut all, number, step, |_| true));
                let mut least = [0; ATOMS];
                for (number, step) in before.iter().enumerate().filter(|(number, _)| is_flushed(before, *number)) {
                    apply(&mut least, number, step, |_| true);
                }
                match model {
                    CacheModel::Completed => prop_assert_eq!(found, all),
                    CacheModel::Flushed => prop_assert_eq!(found, least),
                    CacheModel::Subset | CacheModel::Window => {
                        // An atom has what was flushed, or a later write to it.
                        for atom in 0..ATOMS {
                            let later = before.iter().enumerate().any(|(number, step)| {
                                let mut content = [255; ATOMS];
                                apply(&mut content, number, step, |_| true);
                                content[atom] == found[atom] && !is_flushed(before, number)
                            });
                            prop_assert!(found[atom] == least[atom] || later, "{:?} at {}", before, atom);
                        }
                    }
                }
            }
        }
        disk.check(&mut state).unwrap();
    }
}

#[test]
fn every_subset_of_a_small_log_is_reached_and_nothing_else() {
    let steps = [
        Step::Write { at: 0, length: 2 },
        Step::Write { at: 4, length: 1 },
        // Of the first part alone.
        FLUSH,
        Step::Write { at: 1, length: 2 },
        Step::Zero { at: 0, length: 1 },
        Step::Write { at: 2, length: 2 },
    ];
    let directory = tempfile::tempdir().unwrap();
    let disk = record(directory.path(), &steps);
    let window = 5;
    for model in [CacheModel::Subset, CacheModel::Window] {
        let is_volatile = |number| match model {
            CacheModel::Subset => !is_flushed(&steps, number),
            _ => number >= window,
        };
        let found: BTreeSet<Content> = (0..20_000)
            .map(|seed| {
                let alive = survivors(disk.log(), &request(steps.len(), model, seed)).unwrap();
                assert_eq!(alive.flushed.least(), 0, "the second part was never flushed");
                content_from(&alive.extents, &steps, disk.log())
            })
            .collect();
        assert_eq!(found, possible(&steps, is_volatile), "{model:?}");
    }
}

/// The content that extents describe, over the first step.
fn content_from(extents: &Extents, steps: &[Step], log: &RecordedLog) -> Content {
    let mut content = [0; ATOMS];
    apply(&mut content, 0, &steps[0], |_| true);
    let mut entries = Vec::new();
    log.for_each(0..log.count(), |_, entry| {
        entries.push(entry);
        Ok(())
    })
    .unwrap();
    for (atom, content) in content.iter_mut().enumerate() {
        let begin = (atom * ATOM) as u64;
        for (_, source) in extents.parts(begin..begin + ATOM as u64) {
            match source {
                None => {}
                Some(ByteSource::Log(place)) => {
                    let of = |entry: &fsdyno_recorder::Entry| {
                        entry.kind == Kind::Write && (entry.data..entry.data + entry.length).contains(&place)
                    };
                    *content = filling(entries.iter().position(of).unwrap());
                }
                Some(_) => *content = 0,
            }
        }
    }
    content
}

#[test]
fn what_recovery_writes_is_seen_and_forgotten_with_the_state() {
    let directory = tempfile::tempdir().unwrap();
    let disk = record(directory.path(), &[Step::Write { at: 0, length: 3 }, FLUSH]);
    let mut state = DiskState::create(directory.path(), SIZE).unwrap();
    let request = request(2, CacheModel::Flushed, 0);
    state.enter(disk.log(), &request).unwrap();
    state.write_at(&[9; ATOM], ATOM as u64).unwrap();
    state.zero(0..ATOM as u64);
    assert_eq!(read(&state, disk.log()), [0, 9, 1, 0, 0, 0, 0, 0]);
    state.enter(disk.log(), &request).unwrap();
    assert_eq!(read(&state, disk.log()), [1, 1, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_log_is_opened_again_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let steps = [Step::Write { at: 2, length: 2 }, Step::Mark, Step::Flush { part: 0, missing: 1 }];
    let disk = record(directory.path(), &steps);
    let again = RecordedLog::open(directory.path(), SIZE).unwrap();
    let entries = |log: &RecordedLog| {
        let mut entries = Vec::new();
        log.for_each(0..log.count(), |number, entry| {
            entries.push((number, entry));
            Ok(())
        })
        .unwrap();
        entries
    };
    assert_eq!(entries(&again), entries(disk.log()));
    let mut base = Base::create(&directory.path().join("again"), SIZE).unwrap();
    base.go_to(&again, &again.flushed_at(3).unwrap()).unwrap();
    assert!(matches!(again.flushed_at(4), Err(RecorderError::NoSuchCut { at: 4, entries: 3 })));
}

#[test]
fn a_damaged_log_is_an_error_and_not_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), &[Step::Write { at: 0, length: 1 }, FLUSH]);
    let path = directory.path().join("entries");
    let good = std::fs::read(&path).unwrap();
    let all = |log: RecordedLog| log.for_each(0..log.count(), |_, _| Ok(()));
    for (place, byte) in [(0, 9), (24, 7), (40, 77), (64, 5), (15, 1), (22, 1)] {
        let mut bad = good.clone();
        bad[place] = byte;
        std::fs::write(&path, &bad).unwrap();
        let found = RecordedLog::open(directory.path(), SIZE).and_then(all);
        assert!(matches!(found, Err(RecorderError::Damaged { .. })), "byte {place}: {found:?}");
    }
    std::fs::write(&path, &good[..50]).unwrap();
    assert!(matches!(
        RecordedLog::open(directory.path(), SIZE),
        Err(RecorderError::Damaged { entry: 1, .. })
    ));
}

#[test]
fn only_marks_are_marks() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Disk::create(directory.path()).unwrap();
    for bytes in [&[0; 512][..], &mark(1, Moment::Begun)[..511]] {
        assert!(matches!(disk.mark(bytes), Err(RecorderError::Refused(_))));
    }
    assert_eq!(disk.log().count(), 0);
}

#[test]
fn cuts_are_as_many_as_asked_for_and_of_every_kind() {
    let directory = tempfile::tempdir().unwrap();
    let mut steps = vec![Step::Write { at: 0, length: 1 }];
    for _ in 0..40 {
        steps.extend([Step::Write { at: 1, length: 1 }, FLUSH, Step::Mark]);
    }
    let disk = record(directory.path(), &steps);
    for count in [1, 7, 60, 300] {
        let chosen = cuts(disk.log(), count, 5).unwrap();
        assert_eq!(chosen.len(), count as usize);
        assert_eq!(chosen, cuts(disk.log(), count, 5).unwrap());
        assert!(chosen.is_sorted_by_key(|cut| cut.at));
        // Everything before the first mark is not yet promised.
        for cut in &chosen {
            assert!((4..=121).contains(&cut.at));
            let marks = steps[..cut.at as usize].iter().filter(|step| matches!(step, Step::Mark)).count();
            assert_eq!(cut.marks, marks as u64);
        }
    }
    let chosen = cuts(disk.log(), 60, 6).unwrap();
    let after =
        |wanted: fn(&Step) -> bool| chosen.iter().filter(|cut| wanted(&steps[cut.at as usize - 1])).count();
    assert!(after(|step| matches!(step, Step::Mark)) >= 20);
    assert!(after(|step| matches!(step, Step::Flush { .. })) >= 5);
    let empty = tempfile::tempdir().unwrap();
    let unmarked = record(empty.path(), &steps[..2]);
    assert!(matches!(cuts(unmarked.log(), 3, 1), Err(RecorderError::Refused(_))));
}
