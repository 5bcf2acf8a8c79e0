//! `fsdyno verify`, which other programs run: what it prints, and what it refuses.

use fsdyno_core::Nanos;
use fsdyno_core::durability::{Mark, Moment, Promise};
use fsdyno_core::result::Verified;
use fsdyno_core::workload::Durability;
use std::path::Path;
use std::process::{Command, Output};

fn verify(directory: &Path, marks: &Path, rest: [&str; 4]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
    command.arg("verify").args([directory, marks]).args(rest).output().expect("run fsdyno")
}

fn mark(promise: Option<Promise>, moment: Moment, time_ns: u64) -> Vec<u8> {
    Mark { promise, number: 0, moment, time_ns: Nanos(time_ns) }.to_bytes().into()
}

#[test]
fn what_is_missing_is_one_line_of_json() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (directory, marks) = (scratch.path().join("mounted"), scratch.path().join("marks"));
    std::fs::create_dir(&directory).expect("a directory");
    let sectors = [
        mark(Some(Promise::Create), Moment::Begun, 1_000),
        mark(Some(Promise::Create), Moment::Acknowledged, 2_000),
        mark(None, Moment::Begun, 2_000),
        mark(None, Moment::Acknowledged, 3_000),
    ];
    std::fs::write(&marks, sectors.concat()).expect("a file");
    let parameters = serde_json::to_string(&Durability::default()).expect("JSON");
    let output = verify(&directory, &marks, ["4", "10000", "7", &parameters]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 1);
    let verified: Verified = serde_json::from_str(&text).expect("a result");
    assert_eq!(verified.promises.len(), 1);
    assert_eq!((verified.promises[0].promise, &verified.promises[0].lost), (Promise::Create, &vec![0]));
    assert_eq!((verified.names.made, verified.names.lost, verified.names.lost_ns), (1, 1, Nanos(7_000)));
    assert_eq!(verified.found, ["create: the directory is missing"]);
    // Before any of it, nothing is missing.
    let output = verify(&directory, &marks, ["0", "500", "7", &parameters]);
    assert_eq!(serde_json::from_slice::<Verified>(&output.stdout).expect("a result"), Verified::default());
}

#[test]
fn what_cannot_be_judged_is_an_error() {
    let scratch = tempfile::tempdir().expect("a directory");
    let marks = scratch.path().join("marks");
    std::fs::write(&marks, [0; 512]).expect("a file");
    let parameters = serde_json::to_string(&Durability::default()).expect("JSON");
    let said = |rest| {
        let output = verify(scratch.path(), &marks, rest);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(said(["1", "0", "7", &parameters]).contains("mark 0 is not one that a worker writes there"));
    assert!(said(["1", "0", "7", "{}x"]).contains("PARAMETERS"));
    assert!(said(["one", "0", "7", &parameters]).contains("COUNT"));
}
