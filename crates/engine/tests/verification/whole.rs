//! Loads that end when their work is done: `collection` and `postmark`.

use super::{after, again, base, events, failure, files, in_parts, read_again};
use fsdyno_core::protocol::EnginePart;
use fsdyno_core::workload::{Collection, CollectionSize, Content, Postmark, SizeRange};
use fsdyno_core::{Bytes, EngineRequest, Reread, Workload};
use fsdyno_testkit::in_memory;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

fn collection(size: CollectionSize, scale: f64) -> Workload {
    let content = Content::Compressible(0.3);
    Workload::Collection(Collection {
        collection: size,
        scale,
        content,
        verify: true,
        ..Collection::default()
    })
}

fn postmark(buffering: bool) -> Workload {
    Workload::Postmark(Postmark {
        number: 60,
        transactions: 300,
        size: SizeRange { low: Bytes(500), high: Bytes(30_000) },
        subdirectories: 3,
        buffering,
        verify: true,
        ..Postmark::default()
    })
}

#[test]
fn what_they_write_passes() {
    for workload in [
        collection(CollectionSize::Small, 0.03),
        collection(CollectionSize::Large, 0.000_1),
        postmark(true),
        postmark(false),
    ] {
        let directory = in_memory();
        let reached = in_parts(directory.path(), &workload);
        let read = read_again(&again(directory.path(), &workload, &reached));
        let there = files(&base(directory.path()));
        let bytes: u64 = there.iter().map(|path| path.metadata().unwrap().len()).sum();
        assert_eq!((read.files, read.bytes), (there.len() as u64, bytes));
        let directory = in_memory();
        let request = EngineRequest::new(directory.path(), workload.clone(), super::SEED);
        let at_end = EngineRequest { reread: Reread::AtEnd, clean_up: true, ..request };
        assert_eq!(failure(&events(&at_end)), None);
    }
}

#[test]
fn a_changed_copy_and_a_file_that_came_back_are_found() {
    let (directory, workload) = (in_memory(), collection(CollectionSize::Large, 0.000_01));
    in_parts(directory.path(), &workload);
    let path = base(directory.path()).join("copy/d0/f2");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0; 512], 1024).unwrap();
    let message = after(directory.path(), &workload, &[], &path);
    assert_eq!(message, "at offset 1024: expected sector 2 of this file, found zeros");
    let back = base(directory.path()).join("collection");
    fs::create_dir(&back).unwrap();
    assert_eq!(
        after(directory.path(), &workload, &[], &back),
        "expected nothing, found a file that was removed"
    );

    let (directory, workload) = (in_memory(), postmark(true));
    in_parts(directory.path(), &workload);
    let read = read_again(&again(directory.path(), &workload, &[]));
    let Workload::Postmark(postmark) = &workload else { unreachable!() };
    assert!(read.files == 0 && read.gone > postmark.number.into(), "{read:?}");
    let first = (0..3).map(|number| base(directory.path()).join(format!("s{number}/1")));
    let found = first.filter(|path| {
        fs::write(path, b"").unwrap();
        let ended = again(directory.path(), &workload, &[]);
        fs::remove_file(path).unwrap();
        failure(&ended).is_some_and(|failure| failure.message.contains("that was removed"))
    });
    assert_eq!(found.count(), 1, "the first file was in one of the directories");
}

#[test]
fn a_reader_finds_a_changed_file_of_a_collection() {
    let (directory, workload) = (in_memory(), collection(CollectionSize::Large, 0.000_01));
    let of = workload.load().parts();
    let new = EngineRequest::new(directory.path(), workload, super::SEED);
    let part = |number| EngineRequest { part: EnginePart { number, of }, ..new.clone() };
    assert_eq!(failure(&events(&part(0))), None);
    let path = base(directory.path()).join("collection/d0/f1");
    let bytes = fs::read(&path).unwrap();
    let found = |number, expected: &str| {
        let events = events(&part(number));
        let failure = failure(&events).expect("it is found");
        assert_eq!((failure.step.as_str(), failure.path.as_deref()), ("verification", Some(expected)));
        failure.message.clone()
    };
    OpenOptions::new().write(true).open(&path).unwrap().set_len(9000).unwrap();
    let short = format!("too short: expected {} bytes, found 9000", bytes.len());
    assert_eq!(found(1, "collection/d0/f1"), short);
    fs::write(&path, fs::read(path.with_file_name("f0")).unwrap()).unwrap();
    let foreign = "at offset 0: expected sector 0 of this file, found foreign data: sector 0 of another file";
    assert_eq!(found(2, "copy/d0/f1"), foreign);
}
