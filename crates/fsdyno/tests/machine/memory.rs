//! The limit on the memory of a load: what does not fit is read from the device, and nothing is left of it.

use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, json};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

tests! {
    a_load_with_little_memory_reads_from_the_device: GROUPS_AND_FILESYSTEMS;
    a_killed_sweep_leaves_no_group_after_restore: GROUPS_AND_FILESYSTEMS;
    a_load_that_does_not_fit_says_so: GROUPS;
    what_is_itself_in_memory_is_not_limited: GROUPS;
}

const GROUPS: &[Requirement] = &[Requirement::Root, Requirement::MemoryGroups];
const GROUPS_AND_FILESYSTEMS: &[Requirement] =
    &[Requirement::All(MAKING_FILESYSTEMS), Requirement::MemoryGroups];
const LIMIT: u64 = 48 << 20;

fn on_disk() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory on a disk")
}

/// The image is on a disk: what is in memory itself is not limited.
fn plan(sandbox: &Sandbox, place: &TempDir, levels: &str, window: &str) {
    let plan = format!(
        "[device]\nimage = \"{}\"\nsize = \"1G\"\n[axes]\nfilesystem = \"ext4\"\nmemory = {levels}\n\
         [[workloads]]\nkind = \"fileserver\"\ntree_size = \"320M\"\nreaders = 1\nwriters = 1\nwriter_space = \"64M\"\n\
         ramp = \"200ms\"\nwindow = \"{window}\"\n",
        place.path().join("disk.img").display()
    );
    sandbox.write("plan.toml", &plan);
}

fn a_load_with_little_memory_reads_from_the_device() {
    let sandbox = Sandbox::new();
    let place = on_disk();
    plan(&sandbox, &place, "[\"48M\", \"default\"]", "1500ms");
    let trials = json(&sandbox.run(&["sweep", "plan.toml", "--format", "json"]));
    let trial = |level: &str| {
        let trials = trials["trials"].as_array().expect("trials");
        let found = trials.iter().find(|trial| trial["configuration"]["settings"]["memory"] == level);
        found.unwrap_or_else(|| panic!("no trial with {level}: {trials:?}"))
    };
    let (limited, free) = (trial("48M"), trial("default"));
    for phase in limited["phases"].as_array().expect("phases") {
        let memory = &phase["memory"];
        assert_eq!(memory["limit"], LIMIT, "{memory}");
        // The kernel lets a group exceed its limit by the pages of one batch per processor.
        let peak = memory["peak"].as_u64().expect("the kernel keeps the peak");
        assert!(peak > LIMIT / 2 && peak <= LIMIT + (4 << 20), "{memory}");
        assert!(memory["reclaims"].as_u64() > Some(0), "{memory}");
    }
    assert!(free["phases"][0]["memory"].is_null(), "{}", free["phases"][0]["memory"]);
    let warned = |trial: &Value| {
        let warnings = trial["warnings"].as_array().expect("warnings");
        warnings.iter().any(|warning| warning["kind"] == "tree-smaller-than-memory")
    };
    assert!(!warned(limited) && warned(free), "{} {}", limited["warnings"], free["warnings"]);
    // Both read the same tree again and again: one from the device, the other from memory.
    let from_device = |trial: &Value| {
        let phase = &trial["phases"][0];
        let seen = &phase["telemetry"]["window"]["devices"][0]["read_bytes"];
        let read = &phase["roles"][0]["rates"]["bytes"];
        seen.as_f64().expect("bytes of the device") / read.as_f64().expect("bytes of the reader")
    };
    let shares = [from_device(limited), from_device(free)];
    assert!(shares[0] > 0.8, "{shares:?} of the bytes came from the device");
    assert_eq!(groups(Path::new("/sys/fs/cgroup")), Vec::<String>::new());
}

fn a_killed_sweep_leaves_no_group_after_restore() {
    let sandbox = Sandbox::new();
    let place = on_disk();
    plan(&sandbox, &place, "\"48M\"", "30s");
    let mut sweep = sandbox
        .fsdyno(&["sweep", "plan.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a sweep");
    let appeared = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        !groups(Path::new("/sys/fs/cgroup")).is_empty()
    });
    sweep.kill().and_then(|()| sweep.wait()).expect("kill it");
    let restored = sandbox.run(&["restore"]);
    assert!(appeared && restored.status.success(), "{restored:?}");
    assert_eq!(groups(Path::new("/sys/fs/cgroup")), Vec::<String>::new());
}

/// The only trial of a workload in a directory.
fn in_directory(sandbox: &Sandbox, directory: &Path, limit: &str, parameters: &str) -> Value {
    let plan = format!(
        "memory = \"{limit}\"\n[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"commit-log\"\nramp = 0\nwindow = \"1s\"\n{parameters}\n",
        directory.display()
    );
    sandbox.write("plan.toml", &plan);
    let output = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["trials"][0].clone()
}

fn a_load_that_does_not_fit_says_so() {
    let sandbox = Sandbox::new();
    let directory = on_disk();
    let trial = in_directory(&sandbox, directory.path(), "32M", "writers = 8\nrecord = \"3M\"");
    let error = &trial["error"];
    let says = |key: &str, words: &str| error[key].as_str().is_some_and(|text| text.contains(words));
    assert!(says("message", "reached its memory limit of 32M") && says("hint", "raise `memory`"), "{trial}");
    assert_eq!(groups(Path::new("/sys/fs/cgroup")), Vec::<String>::new());
    // A log that the filesystem has no room for is refused before it is written.
    let huge = "segments = \"overwrite\"\nsegment = \"1E\"";
    let trial = in_directory(&sandbox, directory.path(), "64M", huge);
    assert_eq!(
        (trial["outcome"].as_str(), trial["error"]["errno"].as_i64()),
        (Some("failed"), Some(28)),
        "{trial}"
    );
}

fn what_is_itself_in_memory_is_not_limited() {
    let sandbox = Sandbox::new();
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let trial = in_directory(&sandbox, directory.path(), "64M", "");
    assert_eq!(trial["outcome"], "measured", "{trial}");
    let warnings = trial["warnings"].as_array().expect("warnings");
    for kind in ["memory-not-limited", "host-cache"] {
        assert!(warnings.iter().any(|warning| warning["kind"] == kind), "{kind}: {warnings:?}");
    }
}

/// Every cgroup of fsdyno's.
fn groups(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .flat_map(|entry| {
            let own = entry.file_name().to_string_lossy().starts_with("fsdyno-");
            let below = groups(&entry.path());
            own.then(|| entry.path().display().to_string()).into_iter().chain(below).collect::<Vec<_>>()
        })
        .collect()
}
