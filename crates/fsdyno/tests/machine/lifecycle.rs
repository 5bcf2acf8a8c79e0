//! The steps around the load on real filesystems: the layout of its files, and filling before it.

use crate::support::disk::Disk;
use crate::support::{MAKING_FILESYSTEMS, MAKING_ON_IMAGES, Requirement, Sandbox, describe, wait_until};
use fsdyno_core::Bytes;
use fsdyno_testkit::in_memory;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PLAN: &str = r#"
name = "lifecycle"
repetitions = 1
seed = 11

[device]
image = "IMAGE"
size = "320M"

[axes]
filesystem = ["ext4", "xfs", "btrfs"]
AXES

[[workloads]]
kind = "null"
window = "20ms"
ramp = 0
"#;

/// Files that grow alternately, one block at a time, each block synced before the next.
const PIECES: &str = "\
[pieces]
rw=randwrite
bs=16k
size=1m
numjobs=4
fallocate=none
fsync=1
";

/// One file at a time, preallocated as a whole.
const WHOLE: &str = "\
[whole]
rw=write
bs=1m
size=8m
fallocate=posix
end_fsync=1
";

tests! {
    a_fill_reaches_its_level_with_the_same_files: MAKING_ON_IMAGES;
    a_fill_that_leaves_no_room_is_refused: MAKING_ON_IMAGES;
    filling_a_block_device_is_in_the_estimate: &[
        Requirement::Root,
        Requirement::Loop,
        Requirement::Program("losetup"),
    ];
    a_filesystem_mounted_in_another_namespace_is_not_called_damaged: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::Program("unshare"),
    ];
    files_written_in_pieces_are_fragmented: &[
        Requirement::All(MAKING_ON_IMAGES),
        Requirement::Program("fio"),
    ];
}

/// A plan with its image in this directory.
fn plan(place: &Path, axes: &str) -> String {
    PLAN.replace("IMAGE", &place.join("data.img").display().to_string()).replace("AXES", axes)
}

fn sweep(sandbox: &Sandbox, plan: &str) -> Vec<Value> {
    sandbox.sweep(plan);
    let mut trials = sandbox.stored()["trials"].as_array().expect("trials").clone();
    // In the order of the plan, each once.
    trials.retain(|trial| trial["sentinel"] == false);
    trials.sort_by_key(|trial| trial["case"].as_u64());
    trials
}

fn a_fill_reaches_its_level_with_the_same_files() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox.path(""), "fill = [\"50%\"]\nage = [1]");
    let [first, again] = [sweep(&sandbox, &plan), sweep(&sandbox, &plan)];
    assert_eq!(first.len(), 3);
    for (one, other) in first.iter().zip(&again) {
        let (filled, filesystem) = (&one["filled"], &one["configuration"]["filesystem"]);
        let share = filled["used_bytes"].as_f64().expect("a number")
            / filled["size_bytes"].as_f64().expect("a number");
        assert!((share - 0.5).abs() < 0.02, "{filesystem}: {share} {filled}");
        assert_eq!(filled["rounds"], 1);
        assert!(filled["removed"].as_u64() > Some(10), "{filesystem}: {filled}");
        let made = |trial: &Value| {
            ["files", "bytes", "removed"].map(|key| trial["filled"][key].as_u64().expect("a number"))
        };
        assert_eq!(made(one), made(other), "{filesystem}");
        // The null workload leaves no files.
        assert_eq!(one["layout"]["files"], 0, "{filesystem}");
    }
    let shown = sandbox.run(&["show", "--full"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("filled to "), "{}", describe(&shown));
}

fn a_fill_that_leaves_no_room_is_refused() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox.path(""), "fill = [\"90%\"]").replace(
        "kind = \"null\"\nwindow = \"20ms\"\nramp = 0",
        "kind = \"fileserver\"\ntree_size = \"64M\"\nwindow = \"20ms\"",
    );
    let path = sandbox.write("plan.toml", &plan).display().to_string();
    let shown = sandbox.run(&["plan", &path, "--format", "json"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.status.code(), Some(3), "{}", describe(&shown));
    assert!(text.contains("which does not fit: filled to 90 %"), "{}", describe(&shown));
}

fn filling_a_block_device_is_in_the_estimate() {
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox.path("disk.img"), Bytes(8 * Bytes::GIB));
    let at = |node: &str| PLAN.replace("image = \"IMAGE\"\nsize = \"320M\"", &format!("block = \"{node}\""));
    let planned = |plan: &str| {
        let path = sandbox.write("plan.toml", plan).display().to_string();
        let output = sandbox.run(&["plan", &path, "--format", "json"]);
        let run: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
        let case = &run["cases"][0];
        (case["time_ns"].as_f64().expect("a time") / 1e9, case["notes"].to_string())
    };
    let (plain, _) = planned(&at(disk.node()).replace("AXES", ""));
    let (filled, notes) = planned(&at(disk.node()).replace("AXES", "fill = \"50%\""));
    // 4 GiB at 200 MB/s.
    assert!((21.0..22.0).contains(&(filled - plain)), "{plain} {filled}");
    assert_eq!(notes, "[]");
    let (unknown, notes) = planned(&at("/dev/no-such-disk").replace("AXES", "fill = \"50%\""));
    assert_eq!(unknown, plain);
    assert!(notes.contains("unknown and not included") && notes.contains("/dev/no-such-disk"), "{notes}");
}

fn files_written_in_pieces_are_fragmented() {
    let extents = |job: &str| -> Vec<f64> {
        // The files are synced after each block, which a disk takes much longer for.
        let (sandbox, memory) = (Sandbox::new(), in_memory());
        sandbox.write("job.fio", job);
        let plan = plan(memory.path(), "").replace(
            "kind = \"null\"\nwindow = \"20ms\"\nramp = 0",
            "kind = \"external\"\nprogram = \"fio\"\njob = \"job.fio\"",
        );
        let trials = sweep(&sandbox, &plan);
        let shown = String::from_utf8_lossy(&sandbox.run(&["show", "--full"]).stdout).into_owned();
        for word in ["extents per file", "mkfs ", "check ", "clean"] {
            assert!(shown.contains(word), "no '{word}' in {shown}");
        }
        trials
            .iter()
            .map(|trial| {
                let layout = &trial["layout"];
                assert!(trial["lifecycle_ns"]["check"].as_u64() > Some(0), "{trial}");
                assert!(trial["check"]["output"].is_string(), "{trial}");
                layout["extents"].as_f64().expect("a number") / layout["sampled"].as_f64().expect("a number")
            })
            .collect()
    };
    let (pieces, whole) = (extents(PIECES), extents(WHOLE));
    // In the order of the plan. ext4 reserves space for a growing file, so that it may still be contiguous.
    assert!(pieces.iter().zip(&whole).all(|(pieces, whole)| pieces >= whole), "{pieces:?} {whole:?}");
    assert!(pieces[1..].iter().all(|extents| *extents > 10.0), "{pieces:?}");
    assert!(whole.iter().all(|extents| *extents <= 4.0), "{whole:?}");
}

/// A process with its own mount namespace, started during the load, keeps the filesystem mounted.
fn a_filesystem_mounted_in_another_namespace_is_not_called_damaged() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox.path(""), "").replace("[\"ext4\", \"xfs\", \"btrfs\"]", "\"xfs\"");
    sandbox.write("plan.toml", &plan);
    let mut sweep =
        sandbox.fsdyno(&["sweep", "plan.toml", "--set", "workloads.window=1s"]).spawn().expect("run it");
    let is_mounted = || {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
        mounts.lines().any(|line| line.contains(" /run/fsdyno-") && line.contains(" xfs "))
    };
    while !is_mounted() {
        assert!(sweep.try_wait().expect("wait").is_none(), "it mounts");
        std::thread::sleep(Duration::from_millis(5));
    }
    // It unmounts nothing while it is stopped.
    let pid = Pid::from_child(&sweep);
    kill_process(pid, Signal::STOP).expect("it runs");
    let mut holder = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sleep", "1000"])
        .spawn()
        .expect("run");
    let its_name = PathBuf::from(format!("/proc/{}/comm", holder.id()));
    wait_until("the holder has its namespace", || {
        std::fs::read_to_string(&its_name).is_ok_and(|name| name == "sleep\n")
    });
    kill_process(pid, Signal::CONT).expect("it runs");
    let status = sweep.wait().expect("wait");
    holder.kill().and_then(|()| holder.wait()).expect("end it");
    assert!(status.success(), "{status}");
    let trials = sandbox.stored()["trials"].as_array().expect("trials").clone();
    let kinds = |trial: &Value| -> Vec<String> {
        let warnings = trial["warnings"].as_array().expect("warnings").iter();
        warnings.map(|warning| warning["kind"].as_str().unwrap_or_default().to_string()).collect()
    };
    let first = &trials[0];
    assert!(kinds(first).contains(&"still-mounted".to_string()), "{:?}", kinds(first));
    assert!(first["check"].is_null() && first["lifecycle_ns"]["umount"].is_null(), "{first}");
    assert!(trials.iter().all(|trial| !kinds(trial).contains(&"check-failed".to_string())));
}
