//! scan: every name is looked at once in a walk, and every call is timed, as strace sees it; what is in
//! memory is what its cache says.

use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, json};
use serde_json::Value;
use std::collections::BTreeMap;

tests! {
    every_name_is_looked_at_and_every_call_is_timed: &[Requirement::Program("strace")];
    // Caches are the machine's: no other test may drop them meanwhile.
    a_walk_begins_on_the_device_unless_names_are_in_memory: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::Quiet,
    ];
}

const DIRECTORIES: u64 = 12;
const FILES: u64 = 40;

fn every_name_is_looked_at_and_every_call_is_timed() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"scan\"\ndirectories = {DIRECTORIES}\n\
         files_per_directory = {FILES}\nramp = 0\nwindow = \"600ms\"\n",
        place.path().display(),
    );
    sandbox.write("plan.toml", &plan);
    let (output, calls) = sandbox.traced(
        &["--seccomp-bpf", "-y", "-e", "trace=getdents64,statx"],
        &["sweep", "plan.toml", "--format", "json"],
    );
    let trial = &json(&output)["trials"][0];
    assert_eq!(trial["outcome"], "measured", "{trial}");
    let trees = &trial["trees"];
    assert_eq!((trees["files"].as_u64(), trees["directories"].as_u64()), (Some(480), Some(12)), "{trial}");
    let phase = &trial["phases"][0];
    let role = &phase["roles"][0];
    assert_eq!((phase["name"].as_str(), role["role"].as_str()), (Some("walk"), Some("scanner")), "{trial}");

    // Others look at the tree as well, before and after the phase, each name a few times: the worker is the
    // thread with most of the calls.
    let mut threads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in calls.lines().filter(|line| line.contains("/tree")) {
        let (thread, call) = line.split_once(' ').expect("a thread and its call");
        threads.entry(thread).or_default().push(call.trim_start());
    }
    let worker = threads.values().max_by_key(|calls| calls.len()).expect("a worker");
    // Of the walk at the end of the window, strace also sees what the worker does until it stops.
    let drain_ns = phase["drain_ns"].as_f64().expect("a drain") + 100e6;
    let drained = 1.0 + drain_ns / phase["window_ns"].as_f64().expect("a window");
    for operation in ["getdents64", "statx"] {
        let call = format!("{operation}(");
        let seen = worker.iter().filter(|line| line.starts_with(&call)).count() as u64;
        let said = performed(role, operation);
        let most = (said as f64 * drained) as u64 + 2;
        assert!(said > 0 && (said..=most).contains(&seen), "{operation}: {said} of {seen}");
    }

    // An entry is a name that was looked at, and all directories are listed equally often.
    let items = role["rates"]["items"].as_u64().expect("items");
    assert!(items.abs_diff(performed(role, "statx")) <= 1, "{role}");
    let (opened, closed) = (performed(role, "openat"), performed(role, "close"));
    assert!(opened.abs_diff(closed) <= 4, "as many as are open at once: {role}");
    let walks = items / (DIRECTORIES * FILES + DIRECTORIES - 1);
    assert!(walks >= 1 && (walks * DIRECTORIES..=(walks + 1) * DIRECTORIES).contains(&opened), "{role}");
    // One call has room for so few names, and one more finds the end.
    assert!(performed(role, "getdents64").abs_diff(2 * opened) <= 4, "{role}");
    assert_eq!(std::fs::read_dir(place.path()).expect("the directory").count(), 0, "it is left as it was");
}

fn a_walk_begins_on_the_device_unless_names_are_in_memory() {
    let sandbox = Sandbox::new();
    let plan = format!(
        "repetitions = 1\n[device]\nimage = \"{}\"\nsize = \"512M\"\n[axes]\nfilesystem = [\"ext4\", \"xfs\", \"btrfs\"]\n\
         cache = [\"cold\", \"metadata-warm\"]\n[[workloads]]\nkind = \"scan\"\nramp = 0\nwindow = \"300ms\"\n",
        sandbox.path("disk.img").display(),
    );
    sandbox.write("plan.toml", &plan);
    let document = json(&sandbox.run(&["sweep", "plan.toml", "--format", "json"]));
    for trial in document["trials"].as_array().expect("trials") {
        assert_eq!(trial["outcome"], "measured", "{trial}");
        let phase = &trial["phases"][0];
        assert_eq!(phase["cache"]["remounted"], true, "{trial}");
        let read = phase["telemetry"]["window"]["devices"][0]["read_bytes"].as_f64().expect("bytes");
        // Inodes of 10,000 files take 2.5 MB and more.
        match trial["configuration"]["settings"]["cache"] == "cold" {
            true => assert!(read > 1e6, "{read} of {}", trial["configuration"]),
            false => assert!(read < 200e3, "{read} of {}", trial["configuration"]),
        }
    }
}

/// Returns the number of times that an operation was performed in the window, according to fsdyno.
fn performed(role: &Value, operation: &str) -> u64 {
    let rows = role["operations"].as_array().expect("operations").iter();
    rows.filter(|row| row["operation"] == operation).filter_map(|row| row["lat_ns"]["N"].as_u64()).sum()
}
