//! Measures the overhead of a trial: everything but mkfs, tree, windows and check, on a 4 GiB image.
//!
//! Runs the built binary with the null workload, which has windows but touches no file, and breaks down the
//! recorded durations, once with the scheduler as it is and once switching it, which takes the kernel itself
//! tens of milliseconds. The image is on a disk: in memory, freeing the pages that mkfs.ext4 has zeroed adds
//! about 25 ms to its removal. Needs root, loop devices and the tools of ext4, xfs and btrfs.
//! `cargo bench -p fsdyno --bench trial_cost`.
#![allow(clippy::print_stdout)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Trials of each filesystem.
const TRIALS: usize = 15;
/// The goal for everything but mkfs, tree, windows and check, in milliseconds.
const AIM_MS: f64 = 25.0;

fn main() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "name = \"trial-cost\"\nrepetitions = {TRIALS}\n[device]\nimage = \"{}\"\nsize = \"4G\"\n[axes]\n\
         filesystem = [\"ext4\", \"xfs\", \"btrfs\"]\nscheduler = [\"default\", \"bfq\"]\n[[workloads]]\n\
         kind = \"null\"\nramp = \"1ms\"\nwindow = \"10ms\"\n",
        directory.path().join("cost.img").display()
    );
    let file = directory.path().join("plan.toml");
    std::fs::write(&file, plan).expect("write the plan");
    let output = Command::new(env!("CARGO_BIN_EXE_fsdyno"))
        .arg("sweep")
        .arg(&file)
        .args(["--format", "json"])
        .env("XDG_STATE_HOME", directory.path())
        .output()
        .expect("run fsdyno");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");

    let mut costs: BTreeMap<&str, Vec<Cost>> = BTreeMap::new();
    for trial in document["trials"].as_array().expect("trials") {
        let configuration = trial["configuration"]["name"].as_str().expect("a name");
        costs.entry(configuration).or_default().push(Cost::of(trial));
    }
    println!("milliseconds, median (minimum) of {TRIALS} trials or more; goal: rest below {AIM_MS}");
    println!("{:<14} {:>16} {:>16} {:>16} {:>16}", "", "rest", "incl. mount", "incl. umount", "mkfs");
    for (configuration, costs) in &costs {
        let column = |pick: fn(&Cost) -> f64| {
            let mut values: Vec<f64> = costs.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            format!("{:.1} ({:.1})", values[values.len() / 2], values[0])
        };
        println!(
            "{configuration:<14} {:>16} {:>16} {:>16} {:>16}",
            column(|cost| cost.rest),
            column(|cost| cost.mount),
            column(|cost| cost.umount),
            column(|cost| cost.mkfs),
        );
    }
}

/// Parts of one trial, in milliseconds.
struct Cost {
    rest: f64,
    mount: f64,
    umount: f64,
    mkfs: f64,
}

impl Cost {
    fn of(trial: &Value) -> Self {
        let ms = |value: &Value| value.as_f64().unwrap_or(0.0) / 1e6;
        let step = |name: &str| ms(&trial["lifecycle_ns"][name]);
        let measured: f64 = trial["phases"]
            .as_array()
            .expect("phases")
            .iter()
            .map(|phase| ms(&phase["ramp_ns"]) + ms(&phase["window_ns"]) + ms(&phase["drain_ns"]))
            .sum();
        Cost {
            rest: step("total") - step("mkfs") - step("prepare") - step("check") - measured,
            mount: step("mount"),
            umount: step("umount"),
            mkfs: step("mkfs"),
        }
    }
}
