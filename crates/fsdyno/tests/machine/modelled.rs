//! Sweeps on modelled disks: their times, their queues, and what is left of one that is killed.

use crate::guests::GUEST;
use crate::support::{Requirement, Sandbox, describe, json, wait_until};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

tests! {
    requests_take_what_the_model_says: NEEDED;
    every_model_can_be_swept: NEEDED;
    a_modelled_disk_that_is_killed_leaves_nothing: NEEDED;
    the_disks_of_an_array_in_a_guest_have_the_times_of_the_model: &[Requirement::All(GUEST), Requirement::Root, Requirement::Fuse];
    a_model_of_ones_own_is_a_file: &[Requirement::Root];
}

const NEEDED: &[Requirement] = &[
    Requirement::Root,
    Requirement::Recorder,
    Requirement::Program("mkfs.ext4"),
    Requirement::Filesystem("ext4"),
];

/// Random reads one at a time, past the page cache: nothing but the disk decides how many there are.
const PLAN: &str = r#"
name = "modelled"
repetitions = 1
seed = 5

[device]
image = "IMAGE"
size = "512M"
model = "sata-7200-2009"

[axes]
filesystem = ["ext4"]
scheduler = ["mq-deadline"]

[[workloads]]
kind = "streaming"
file_size = "128M"
stages = ["random-read"]
direct = true
ramp = "200ms"
window = "WINDOW"
"#;

fn plan(sandbox: &Sandbox, window: &str) -> String {
    let image = sandbox.path("data.img").display().to_string();
    PLAN.replace("IMAGE", &image).replace("WINDOW", window)
}

/// A disk cannot be faster than its model, and says where this machine made it slower.
fn requests_take_what_the_model_says() {
    let sandbox = Sandbox::new();
    sandbox.sweep(&plan(&sandbox, "3s"));
    let trial = &sandbox.stored()["trials"][0];
    verify(trial);
    let device = trial["configuration"]["device"]["image"]["path"].as_str();
    assert_eq!(device, Some(&*sandbox.path("data.img").display().to_string()));
    sandbox.shows(&["show"], &["modelled: sata-7200-2009"]);
}

/// Also those whose queues are shorter than the kernel's may be.
fn every_model_can_be_swept() {
    let sandbox = Sandbox::new();
    let names: Vec<&str> = fsdyno_disk::DiskModel::own_names().collect();
    let plan = plan(&sandbox, "50ms").replace("\"sata-7200-2009\"", &format!("{names:?}"));
    sandbox.sweep(&plan.replace("128M", "8M").replace("200ms", "0"));
    let stored = sandbox.stored();
    let trials = stored["trials"].as_array().expect("trials");
    let of = |name: &&str| {
        let is_own = |trial: &&Value| trial["configuration"]["device"]["image"]["model"]["name"] == **name;
        trials.iter().any(|trial| is_own(&trial) && trial["outcome"] == "measured")
    };
    assert!(names.iter().all(of), "{names:?}: {trials:?}");
}

/// Emulation is slow, and the disks are not: they are on this machine.
fn the_disks_of_an_array_in_a_guest_have_the_times_of_the_model() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, "3s").replace("[axes]", "[axes]\nkernel = [\"debian:6.1\"]");
    let (before, after) = plan.split_once("[device]").expect("a device");
    let (disk, after) = after.split_once("[axes]").expect("axes");
    let disk = disk.trim().replace("512M", "256M").replace('\n', ", ");
    sandbox.sweep(&format!(
        "{before}[device.md]\nlevel = \"raid0\"\ndisks = {{ {disk}, count = 2 }}\n\n[axes]{after}"
    ));
    let trial = &sandbox.stored()["trials"][0];
    verify(trial);
    assert_eq!(trial["configuration"]["device"]["md"]["disks"].as_array().map(Vec::len), Some(2), "{trial}");
    sandbox.shows(&["show"], &["modelled: sata-7200-2009"]);
}

fn verify(trial: &Value) {
    let phases = trial["phases"].as_array().expect("phases");
    let random =
        phases.iter().find(|phase| phase["name"].as_str().is_some_and(|name| name.contains("random")));
    let rate =
        random.expect("random reads")["roles"][0]["rates"]["operations_per_s"].as_f64().expect("a rate");
    // 73.8 per second over the whole disk, and more on the part of it that the file has.
    assert!((10.0..150.0).contains(&rate), "{rate} reads per second");
    let pace = &trial["pace"];
    let ns = |name: &str| pace[name].as_u64().unwrap_or_else(|| panic!("no {name} in {pace}"));
    assert!(pace["requests"].as_u64() > Some(50), "{pace}");
    assert!(ns("service_mean_ns") > 1_000_000, "{pace}");
    let is_late = ns("late_p99_ns") as f64 > 0.02 * ns("service_mean_ns") as f64;
    let warnings = trial["warnings"].as_array().expect("warnings");
    let says_so = warnings.iter().any(|warning| warning["kind"] == "model-late");
    assert_eq!(is_late, says_so, "{pace} {warnings:?}");
}

fn a_modelled_disk_that_is_killed_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("plan.toml", &plan(&sandbox, "600s"));
    let mut sweep = sandbox.fsdyno(&["sweep", "plan.toml"]);
    let mut sweep = sweep.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start a sweep");
    // The queue is the model's while the load runs.
    wait_until("the queue has the depth of the model", || {
        let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        blocks.map(|block| block.path()).any(|block| {
            let read = |name: &str| fs::read_to_string(block.join(name)).unwrap_or_default();
            read("loop/backing_file").starts_with("/run/fsdyno-")
                && read("queue/rotational").trim() == "1"
                && read("queue/scheduler").contains("[mq-deadline]")
        })
    });
    sweep.kill().expect("kill the sweep");
    sweep.wait().expect("reap the sweep");
    let restored = sandbox.run(&["restore"]);
    assert_eq!(restored.status.code(), Some(0), "{}", describe(&restored));
}

fn a_model_of_ones_own_is_a_file() {
    let sandbox = Sandbox::new();
    let saved = sandbox.run(&["disks", "ebs-gp3", "--save=mine.toml"]);
    assert_eq!(saved.status.code(), Some(0), "{}", describe(&saved));
    let again = sandbox.run(&["disks", "ebs-gp3", "--save=mine.toml"]);
    assert_eq!(again.status.code(), Some(2), "{}", describe(&again));
    let mine = sandbox.path("mine.toml").display().to_string();
    let changed = plan(&sandbox, "1s").replace("sata-7200-2009", &mine);
    sandbox.write("plan.toml", &changed);
    let planned = sandbox.run(&["plan", "plan.toml"]);
    assert_eq!(planned.status.code(), Some(0), "{}", describe(&planned));
    assert!(describe(&planned).contains(&format!("with the times of '{mine}'")), "{}", describe(&planned));
    let text = fs::read_to_string(sandbox.path("mine.toml")).expect("the model");
    fs::write(sandbox.path("mine.toml"), text.replace("value = 3000", "value = -1")).expect("another model");
    let refused = sandbox.run(&["plan", "plan.toml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    assert!(describe(&refused).contains("'operations' is -1"), "{}", describe(&refused));
    let listed = json(&sandbox.run(&["disks", "--format", "json"]));
    assert!(listed.as_array().is_some_and(|models| models.len() >= 4), "{listed}");
}
