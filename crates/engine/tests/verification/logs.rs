//! The logs of `commit-log`, which nothing but the end of the trial reads.

use super::{after, again, base, events, failure, files, in_parts, read_again};
use fsdyno_core::workload::commit_log::Segments;
use fsdyno_core::workload::{CommitLog, Ramp};
use fsdyno_core::{Bytes, EngineRequest, Nanos, Reached, Reread, Workload};
use fsdyno_testkit::in_memory;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

const SEGMENT: u64 = 24 * Bytes::KIB;

fn log(segments: Segments) -> Workload {
    Workload::CommitLog(CommitLog {
        writers: 2,
        record: Bytes(1000),
        segment: Bytes(SEGMENT),
        segments,
        ramp: Ramp::For(Nanos::from_millis(20)),
        window: Nanos::from_millis(100),
        verify: true,
        ..CommitLog::default()
    })
}

#[test]
fn logs_pass_wherever_their_writers_end() {
    for segments in [Segments::Append, Segments::Overwrite] {
        for _ in 0..4 {
            let (directory, workload) = (in_memory(), log(segments));
            let reached = in_parts(directory.path(), &workload);
            assert_eq!(reached.len(), 3, "{reached:?}");
            assert!(
                reached.iter().all(|one| matches!(one, Reached::Log { segment: 2.., .. })),
                "{reached:?}"
            );
            let read = read_again(&again(directory.path(), &workload, &reached));
            let there = files(&base(directory.path()));
            let bytes: u64 = there.iter().map(|path| path.metadata().unwrap().len()).sum();
            assert_eq!((read.files, read.bytes, read.left_out), (there.len() as u64, bytes, 0));
        }
        let directory = in_memory();
        let request = EngineRequest::new(directory.path(), log(segments), super::SEED);
        let events = events(&EngineRequest { reread: Reread::AtEnd, clean_up: true, ..request });
        assert_eq!(failure(&events), None);
        assert!(read_again(&events).files >= 3);
    }
}

#[test]
fn a_lost_record_and_a_segment_that_came_back_are_found() {
    let (directory, workload) = (in_memory(), log(Segments::Overwrite));
    let reached = in_parts(directory.path(), &workload);
    let path = base(directory.path()).join("log-1/segment-0");
    let whole = fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0; 512], 2048).unwrap();
    let message = after(directory.path(), &workload, &reached, &path);
    assert_eq!(message, "at offset 2048: expected sector 4 of this file, found zeros");
    let other = fs::read(base(directory.path()).join("log-1/segment-1")).unwrap();
    file.write_all_at(&other[2048..2560], 2048).unwrap();
    let message = after(directory.path(), &workload, &reached, &path);
    assert!(message.ends_with("found foreign data: sector 4 of another file"), "{message}");
    fs::write(&path, &whole).unwrap();
    assert_eq!(read_again(&again(directory.path(), &workload, &reached)).files, 6, "it is as it was");

    // Where writers are when their time is up is up to chance: all of them may be between two segments.
    let in_the_middle = |_| {
        let (directory, workload) = (in_memory(), log(Segments::Append));
        let reached = in_parts(directory.path(), &workload);
        let at = reached.iter().find_map(|one| match *one {
            Reached::Log { log, segment, bytes: Some(bytes @ 1..), removed: true } => {
                Some((log, segment, bytes))
            }
            _ => None,
        })?;
        Some((directory, workload, reached, at))
    };
    let ended = (0..20).find_map(in_the_middle);
    let (directory, workload, reached, (log, segment, bytes)) =
        ended.expect("a writer that ended in the middle of a segment");
    let path = base(directory.path()).join(format!("log-{log}/segment-{segment}"));
    OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes - 1).unwrap();
    let message = after(directory.path(), &workload, &reached, &path);
    assert_eq!(message, format!("too short: expected {bytes} bytes, found {}", bytes - 1));
    fs::remove_file(&path).unwrap();
    assert_eq!(after(directory.path(), &workload, &reached, &path), "expected the file, found nothing");
}
