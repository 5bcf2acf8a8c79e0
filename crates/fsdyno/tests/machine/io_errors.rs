//! Requests that fail: what applications are told by the filesystems of this kernel.

use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe, wait_until};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const RECORDING: &[Requirement] = &[Requirement::Recorder, Requirement::All(MAKING_FILESYSTEMS)];

tests! {
    the_plan_that_comes_with_fsdyno_runs: RECORDING;
    defaults_tell_every_fault: RECORDING;
    what_is_not_requested_is_not_tested: RECORDING;
    a_disk_that_fails_by_itself_fails_its_trial: &[
        Requirement::DyingRecorder,
        Requirement::All(MAKING_FILESYSTEMS),
    ];
    a_plan_with_other_loads_runs_what_is_asked_for: RECORDING;
}

/// A plan of these configurations, with these parameters of the load.
fn plan(sandbox: &Sandbox, configurations: &[&str], parameters: &str) -> String {
    let configurations: String =
        configurations.iter().map(|lines| format!("[[configurations]]\n{lines}\n")).collect();
    format!(
        "name = \"faults\"\nrepetitions = 1\nseed = 5\nmeasure = \"silent-losses\"\n\
         [device]\nimage = \"{}\"\nsize = \"1G\"\n{configurations}[[workloads]]\nkind = \"io-errors\"\n\
         size = \"320M\"\n{parameters}\n",
        sandbox.path("disk.img").display(),
    )
}

/// Runs these configurations. Returns the faults of each.
fn faults(sandbox: &Sandbox, configurations: &[&str], faults: &[&str]) -> Vec<Vec<Value>> {
    let text = plan(sandbox, configurations, &format!("faults = {faults:?}"));
    sandbox.write("plan.toml", &text);
    let ran = sandbox.run(&["durability", "plan.toml"]);
    assert_eq!(ran.status.code(), Some(0), "{}", describe(&ran));
    let stored = sandbox.stored();
    let trials = stored["trials"].as_array().expect("trials").iter();
    trials
        .filter(|trial| trial["sentinel"] == false)
        .map(|trial| trial["io_errors"].as_array().expect("faults").clone())
        .collect()
}

/// As in docs/guide/io-errors.md.
fn the_plan_that_comes_with_fsdyno_runs() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["durability", "io-errors"]);
    assert_eq!(ran.status.code(), Some(0), "{}", describe(&ran));
    let stored = sandbox.stored();
    let trials = stored["trials"].as_array().expect("trials");
    assert!(trials.iter().all(|trial| trial["outcome"] == "measured"), "{}", describe(&ran));
}

fn defaults_tell_every_fault() {
    let sandbox = Sandbox::new();
    let names = [
        "overwrite-data",
        "append-data",
        "append-metadata-for-good",
        "overwrite-flush",
        "read-data",
        "read-data-for-good",
    ];
    let filesystems = ["ext4", "xfs", "btrfs"];
    let configurations = filesystems.map(|name| format!("name = \"{name}\"\nfilesystem = \"{name}\""));
    let found = faults(&sandbox, &configurations.each_ref().map(String::as_str), &names);
    for (filesystem, found) in filesystems.iter().zip(&found) {
        for (name, result) in names.iter().zip(found) {
            assert_eq!(result["fault"], *name);
            assert!(result["failed"].as_u64() > Some(0), "{filesystem} {result}");
            // A read that fails once is tried again by the kernel, without its readahead.
            let said = if *name == "read-data" { Value::Null } else { "EIO".into() };
            assert_eq!(result["witnessed"]["first"], said, "{filesystem} {result}");
            assert!(result["mount_error"].is_null(), "{filesystem} {result}");
        }
        let named = |name: &str| found.iter().find(|result| result["fault"] == name).expect("the fault");
        assert_eq!(named("read-data")["witnessed"]["reads"], "old", "{filesystem}");
        // Nothing of an overwrite that failed is on the disk.
        assert_eq!(named("overwrite-data")["after"], "old", "{filesystem}");
        assert_eq!(named("read-data-for-good")["witnessed"]["reads"], "unreadable", "{filesystem}");
        let usable = |name: &str| named(name)["witnessed"]["usable"].clone();
        assert_eq!(usable("overwrite-data"), "writable", "{filesystem}");
        assert_ne!(usable("append-metadata-for-good"), "writable", "{filesystem}");
    }
    let shown = sandbox.run(&["show"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("What failing requests do"), "{text}");
}

/// The process that shows the disk is killed: what came of the faults so far is not about the filesystem.
fn a_disk_that_fails_by_itself_fails_its_trial() {
    let sandbox = Sandbox::new();
    sandbox.write("plan.toml", &plan(&sandbox, &["name = \"ext4\"\nfilesystem = \"ext4\""], ""));
    let mut failed = 0;
    // Whether there is one to look for, or to kill.
    let recorder_of = |sweep: u32, program: &str, option: &str| {
        let mut command = Command::new(program);
        command.args([option, "-P", &sweep.to_string(), "-f", "fsdyno recorder"]).stdout(Stdio::null());
        command.status().expect("it runs").success()
    };
    let runs = |sweep| recorder_of(sweep, "pgrep", "-l");
    let is_mounted = |_| {
        let mounts = fs::read_to_string("/proc/mounts").expect("the mounts");
        mounts.lines().any(|line| line.starts_with("/dev/loop") && line.contains(" /run/fsdyno-"))
    };
    // As soon as that is so, and later.
    let moments: [&dyn Fn(u32) -> bool; 2] = [&runs, &is_mounted];
    for (begins, later_ms) in moments.iter().flat_map(|moment| [(moment, 0), (moment, 200)]) {
        let mut running = sandbox.fsdyno(&["durability", "plan.toml"]).spawn().expect("run fsdyno");
        wait_until("the disk is shown", || begins(running.id()));
        sleep(Duration::from_millis(later_ms));
        let _ = recorder_of(running.id(), "pkill", "-9");
        let status = running.wait().expect("its end");
        let restored = sandbox.run(&["restore"]);
        assert!(restored.status.success(), "{}", describe(&restored));
        let stored = sandbox.stored();
        let trials = stored["trials"].as_array().expect("trials");
        failed += trials.iter().filter(|trial| trial["outcome"] == "failed").count();
        for measured in trials.iter().filter(|trial| trial["outcome"] == "measured") {
            assert_eq!(measured["io_errors"].as_array().map(Vec::len), Some(16), "{measured}");
        }
        assert!(status.success() || trials.iter().any(|trial| trial["outcome"] == "failed"), "{status}");
    }
    assert!(failed > 0, "no recorder was killed in time");
}

/// `[durability]` and other loads of a plan do not run with the faults, nor the others with it.
fn a_plan_with_other_loads_runs_what_is_asked_for() {
    let sandbox = Sandbox::new();
    let mixed = plan(&sandbox, &["name = \"ext4\"\nfilesystem = \"ext4\""], "")
        .replace("kind = \"io-errors\"\nsize = \"320M\"", "kind = \"commit-log\"")
        .replace("measure = \"silent-losses\"\n", "");
    let cuts =
        "[durability]\ncuts = 1\npromises = 2\nduration = \"100ms\"\nunsynced = \"0s\"\nsize = \"320M\"\n";
    sandbox.write("mixed.toml", &(mixed + cuts));
    for (arguments, kind) in [
        (&["durability", "mixed.toml"][..], "durability"),
        (
            &["durability", "mixed.toml", "--io-errors", "--set", "workloads.faults=[\"read-data\"]"],
            "io-errors",
        ),
    ] {
        let ran = sandbox.run(arguments);
        assert_eq!(ran.status.code(), Some(0), "{}", describe(&ran));
        let stored = sandbox.stored();
        let trials = stored["trials"].as_array().expect("trials").iter();
        let kinds: Vec<&Value> = trials.map(|trial| &trial["workload"]["kind"]).collect();
        assert!(!kinds.is_empty() && kinds.iter().all(|found| **found == kind), "{kinds:?}");
    }
}

fn what_is_not_requested_is_not_tested() {
    let sandbox = Sandbox::new();
    let ext4 = ["name = \"ext4\"\nfilesystem = \"ext4\"\nbarrier = 0"];
    let found = faults(&sandbox, &ext4, &["overwrite-flush", "overwrite-data"]);
    assert_eq!(found[0][0]["failed"], 0, "{}", found[0][0]);
    assert_ne!(found[0][1]["failed"], 0, "{}", found[0][1]);
    let shown = sandbox.run(&["show", "--tables"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.lines().any(|line| line.starts_with("overwrite-flush") && line.contains(" - ")), "{text}");
}
