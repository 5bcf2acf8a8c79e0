//! commit-log: every record is written and synced once, as strace sees it.

use crate::support::{Requirement, Sandbox, json};
use serde_json::Value;
use std::fs;

tests! {
    every_record_is_written_and_synced: &[Requirement::Program("strace")];
}

const WRITERS: u64 = 2;
const RECORD: u64 = 4096;
const SEGMENT_RECORDS: u64 = 5;

/// The longest time that workers went on after a window, as a share of it: the drain, and until they were
/// told that it was over.
fn longest_drain(trial: &Value) -> f64 {
    const TOLD_WITHIN_NS: f64 = 100e6;
    let share =
        |phase: &Value| Some((phase["drain_ns"].as_f64()? + TOLD_WITHIN_NS) / phase["window_ns"].as_f64()?);
    phases(trial).iter().map(|phase| share(phase).expect("lengths")).fold(0.0, f64::max)
}

fn every_record_is_written_and_synced() {
    for segments in ["append", "overwrite"] {
        let sandbox = Sandbox::new();
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
        let plan = format!(
            "[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"commit-log\"\nwriters = {WRITERS}\n\
             record = {RECORD}\nsegment = {}\nsegments = \"{segments}\"\nramp = 0\nwindow = \"400ms\"\n",
            place.path().display(),
            RECORD * SEGMENT_RECORDS + 1
        );
        sandbox.write("plan.toml", &plan);
        let (trial, calls) = traced(&sandbox);
        assert_eq!(trial["outcome"], "measured", "{trial}");
        let names: Vec<&str> = phases(&trial).iter().filter_map(|phase| phase["name"].as_str()).collect();
        assert_eq!(names, ["one writer", "all writers"], "{trial}");

        // Of the records that a writer prepares, all are counted by strace and none by fsdyno, which also
        // leaves out those of the drain; each worker may have one operation on the edge of its window.
        let prepared = if segments == "overwrite" { (WRITERS + 1) * 2 * SEGMENT_RECORDS } else { 0 };
        let edges = WRITERS + 1;
        for (operation, untimed) in [("pwrite64", prepared), ("fdatasync", 0)] {
            let call = format!("{operation}(");
            let seen = calls.iter().filter(|line| line.contains(&call)).count() as u64;
            let said = performed(&trial, operation) + untimed;
            let drained = (performed(&trial, operation) as f64 * longest_drain(&trial)) as u64;
            let most = said + edges + drained;
            assert!((said..=most).contains(&seen), "{segments} {operation}: {said} of {seen}");
        }
        let syncs = performed(&trial, "fdatasync");
        let items: u64 = roles(&trial).filter_map(|role| role["rates"]["items"].as_u64()).sum();
        assert!(
            syncs > 2 * SEGMENT_RECORDS && items.abs_diff(syncs) <= edges,
            "{items} items, {syncs} syncs"
        );
        for role in roles(&trial) {
            let bytes = role["rates"]["bytes"].as_u64().expect("bytes");
            assert!(bytes > 0 && bytes.is_multiple_of(RECORD), "{role}");
        }
        // A segment has whole records only; a new one is a name that is synced, an old one is removed.
        let opened = performed(&trial, "openat");
        assert!(opened.abs_diff(syncs / SEGMENT_RECORDS) <= 2 * edges, "{opened} files, {syncs} syncs");
        let (named, removed) = (performed(&trial, "fsync"), performed(&trial, "unlinkat"));
        match segments {
            "append" => assert!(named.abs_diff(opened) <= edges && removed.abs_diff(opened) <= 2 * edges),
            _ => assert_eq!((named, removed), (0, 0)),
        }
        assert_eq!(fs::read_dir(place.path()).expect("the directory").count(), 0, "it is left as it was");
    }
}

/// The only trial of the plan, and every call on a segment.
fn traced(sandbox: &Sandbox) -> (Value, Vec<String>) {
    let (output, calls) = sandbox.traced(
        &["--seccomp-bpf", "-y", "-e", "trace=pwrite64,fdatasync"],
        &["sweep", "plan.toml", "--format", "json"],
    );
    let sweep = json(&output);
    // A call that another thread interrupts has a second line, which does not name the file.
    let calls = calls.lines().filter(|line| line.contains("/segment-")).map(str::to_string);
    (sweep["trials"][0].clone(), calls.collect())
}

fn phases(trial: &Value) -> &[Value] {
    trial["phases"].as_array().map_or(&[], |phases| phases.as_slice())
}

fn roles(trial: &Value) -> impl Iterator<Item = &Value> {
    phases(trial).iter().flat_map(|phase| phase["roles"].as_array().expect("roles"))
}

/// Returns the number of times that an operation was performed in the windows, according to fsdyno.
fn performed(trial: &Value, operation: &str) -> u64 {
    roles(trial)
        .flat_map(|role| role["operations"].as_array().expect("operations"))
        .filter(|row| row["operation"] == operation)
        .filter_map(|row| row["lat_ns"]["N"].as_u64())
        .sum()
}
