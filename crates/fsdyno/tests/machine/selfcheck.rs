//! The figures that fsdyno reports for operations, against the kernel's own tracepoints.

use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe, json, wait_until};
use fsdyno_core::Workload;
use rustix::fs::{Dir, Mode, OFlags};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Stdio;

/// The image is on a disk, as a user would have it.
const NEEDS: &[Requirement] =
    &[Requirement::All(MAKING_FILESYSTEMS), Requirement::Tracing, Requirement::Quiet];

tests! {
    the_kernel_agrees_with_every_count: NEEDS;
    a_killed_selfcheck_leaves_nothing_that_restore_does_not_undo: NEEDS;
}

fn arguments(image: &std::path::Path) -> [String; 5] {
    let words = ["selfcheck", "--format", "json", "--image"].map(str::to_string);
    let [command, format, json, option] = words;
    [command, format, json, option, image.display().to_string()]
}

/// Workloads of whose system calls fsdyno reports nothing: a program makes them, or there are none, or what
/// counts is what is left of them.
const NO_CALLS: [&str; 4] = ["external", "durability", "io-errors", "null"];

/// On a machine that others use, a median may differ; numbers and bytes may not.
fn the_kernel_agrees_with_every_count() {
    let sandbox = Sandbox::new();
    let before = instances();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let words = arguments(&place.path().join("disk.img"));
    let output = sandbox.run(&words.each_ref().map(String::as_str));
    let document = json(&output);
    let (mut compared, mut medians, mut median_differs) = (0, 0, 0);
    let mut workloads = BTreeSet::new();
    for testimony in document["testimonies"].as_array().expect("trials") {
        assert_eq!(testimony["lost"], 0);
        for row in testimony["rows"].as_array().expect("rows") {
            workloads.insert(row["workload"].as_str().expect("a kind").to_string());
            compared += 1;
            holds(&row["count"], row);
            if !row["bytes"].is_null() {
                holds(&row["bytes"], row);
            }
            if !row["median"].is_null() {
                let (reported, kernel) = (&row["median"]["reported_ns"], &row["median"]["kernel_ns"]["most"]);
                // The kernel's clock is inside fsdyno's.
                let (reported, kernel) = (reported.as_f64().expect("ns"), kernel.as_f64().expect("ns"));
                let way = &row["median"]["way"];
                let cold = way["cold_ns"].as_f64().expect("ns");
                let close = (0.0..=cold + 0.02 * kernel + 100.0).contains(&(reported - kernel));
                medians += 1;
                median_differs += u32::from(!close);
            }
        }
        for device in testimony["devices"].as_array().expect("devices") {
            holds(&device["read"], device);
            holds(&device["written"], device);
        }
    }
    let kinds: BTreeSet<&str> = workloads.iter().filter_map(|one| one.split(' ').next()).collect();
    assert_eq!(kinds, Workload::KINDS.iter().copied().filter(|kind| !NO_CALLS.contains(kind)).collect());
    for variant in ["fileserver direct", "streaming io_uring"] {
        assert!(workloads.contains(variant), "{workloads:?}");
    }
    assert!(
        compared > 100 && medians > 30 && median_differs < medians / 5,
        "{median_differs} of {medians} medians in {compared} rows: {}",
        describe(&output)
    );
    assert_eq!(instances(), before);
}

fn holds(agreement: &Value, of: &Value) {
    let [reported, least, most] =
        [&agreement["reported"], &agreement["kernel"]["least"], &agreement["kernel"]["most"]]
            .map(|number| number.as_u64().expect("a number"));
    assert!((least..=most).contains(&reported), "{of}");
}

fn a_killed_selfcheck_leaves_nothing_that_restore_does_not_undo() {
    let sandbox = Sandbox::new();
    let before = instances();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let image = place.path().join("disk.img");
    let words = arguments(&image);
    let mut command = sandbox.fsdyno(&words.each_ref().map(String::as_str));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("fsdyno");
    wait_until("a trial begins", || image.exists());
    assert_eq!(instances().difference(&before).count(), 2, "one for threads, one for devices");
    child.kill().and_then(|()| child.wait()).expect("killed");
    let restored = sandbox.run(&["restore"]);
    assert_eq!(restored.status.code(), Some(0), "{}", describe(&restored));
    assert_eq!(instances(), before);
    assert!(!image.exists());
}

/// The instances of the kernel's tracing.
fn instances() -> BTreeSet<String> {
    let tracefs = fsdyno_sys::tracefs::open().expect("tracefs");
    let directory =
        rustix::fs::openat(tracefs, "instances", OFlags::DIRECTORY, Mode::empty()).expect("instances");
    let names = Dir::new(directory).expect("a directory").map(|entry| entry.expect("an entry"));
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
