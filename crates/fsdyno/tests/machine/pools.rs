//! Filesystems that spread over several disks themselves.

use crate::support::disk::{Disk, run};
use crate::support::{MAKING_FILESYSTEMS, MAKING_ON_IMAGES, Sandbox, describe, wait_until};
use fsdyno_core::Bytes;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

tests! {
    every_data_profile_is_built_and_checked: MAKING_ON_IMAGES;
    named_disks_are_confirmed_one_by_one_and_left_clean: MAKING_FILESYSTEMS;
    what_is_on_one_device_is_not_on_a_pool: &[];
}

const SIZE: Bytes = Bytes(256 * Bytes::MIB);

fn plan(disks: &str, axes: &str, window: &str) -> String {
    let load = "kind = \"fileserver\"\ntree_size = \"4M\"\nwriter_space = \"8M\"\nreaders = 1\nwriters = 1";
    plan_of(disks, axes, load, window)
}

fn plan_of(disks: &str, axes: &str, load: &str, window: &str) -> String {
    format!(
        "repetitions = 1\n[device.pool]\ndisks = {disks}\n[axes]\n{axes}\n[[workloads]]\n{load}\nramp = 0\n\
         window = \"{window}\"\n"
    )
}

/// Bytes written to each of the devices in a phase, and what the writers wrote.
fn written(trial: &Value) -> Vec<u64> {
    let devices = |phase: &Value| -> Vec<u64> {
        let devices = phase["telemetry"]["window"]["devices"].as_array().expect("devices");
        devices[..3].iter().map(|device| device["write_bytes"].as_u64().expect("bytes")).collect()
    };
    let phases = trial["phases"].as_array().expect("phases").iter().map(devices);
    phases.fold(vec![0; 3], |sum, next| sum.iter().zip(next).map(|(sum, next)| sum + next).collect())
}

fn every_data_profile_is_built_and_checked() {
    let sandbox = Sandbox::new();
    // `btrfs check` of a pool also looks at every other btrfs of the machine.
    let bystander = Disk::new(&sandbox.path("bystander.img"), SIZE);
    run(Command::new("mkfs.btrfs").args(["-q", bystander.node()]));
    let image = sandbox.path("pool.img");
    let disks = format!("{{ image = \"{}\", size = {}, count = 3 }}", image.display(), SIZE.0);
    let profiles = ["single", "raid0", "raid1", "raid5"];
    let axes = format!("filesystem = \"btrfs\"\ndata_profile = {profiles:?}\nprofile = \"raid1\"");
    // Whoever syncs writes data and metadata in the window, whenever a transaction ends.
    let load = "kind = \"commit-log\"\nwriters = 1\nrecord = \"256k\"";
    sandbox.write("plan.toml", &plan_of(&disks, &axes, load, "500ms"));
    let swept = sandbox.run(&["sweep", "plan.toml"]);
    assert!(swept.status.success(), "{}", describe(&swept));
    let stored = sandbox.stored();
    for trial in stored["trials"].as_array().expect("trials") {
        assert_eq!(trial["outcome"], "measured", "{trial}");
        assert_eq!(trial["check"]["clean"], true, "{}", trial["check"]);
        let profile = trial["configuration"]["settings"]["data_profile"].as_str().expect("a profile");
        let geometry = trial["environment"]["geometry"].as_str().expect("a geometry").to_lowercase();
        let words: Vec<&str> = geometry.split_whitespace().collect();
        for (blocks, profile) in [("data:", profile), ("metadata:", "raid1")] {
            let at = words.iter().position(|word| *word == blocks).expect("a profile");
            assert_eq!(words[at + 1], profile, "{geometry}");
        }
        let written = written(trial);
        let reached = written.iter().filter(|bytes| **bytes > 0).count();
        let expected = if ["raid0", "raid5"].contains(&profile) { 3 } else { 2 };
        assert!(reached >= expected, "{profile}: {written:?}");
    }
    assert!((1..=3).all(|number| !sandbox.path(&format!("pool.img.{number}")).exists()));
}

/// Until its filesystem is mounted.
fn wait_for_a_mount(node: &str) {
    let is_mounted = || {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
        mounts.lines().any(|line| line.starts_with(&format!("{node} /run/")))
    };
    wait_until(&format!("'{node}' is mounted"), is_mounted);
}

fn named_disks_are_confirmed_one_by_one_and_left_clean() {
    let (sandbox, memory) = (Sandbox::new(), tempfile::tempdir().expect("a directory"));
    let disks = ["a", "b"].map(|name| Disk::new(&memory.path().join(name), SIZE));
    let nodes = [disks[0].node(), disks[1].node()];
    let list = format!("[{{ block = \"{}\" }}, {{ block = \"{}\" }}]", nodes[0], nodes[1]);
    let axes = "filesystem = \"btrfs\"\ndata_profile = \"raid1\"";
    let signatures = || {
        let of = |node: &&str| run(Command::new("wipefs").args(["--no-act", "--noheadings"]).arg(node));
        nodes.iter().map(of).collect::<String>()
    };

    sandbox.write("plan.toml", &plan(&list, axes, "100ms"));
    let half = sandbox.run(&["sweep", "plan.toml", "--destroy", nodes[0]]);
    assert_eq!(half.status.code(), Some(3), "{}", describe(&half));
    assert!(describe(&half).contains(&format!("--destroy {}", nodes[1])), "{}", describe(&half));
    let both = ["--destroy", nodes[0], "--destroy", nodes[1]];
    let swept = sandbox.run(&[&["sweep", "plan.toml"][..], &both].concat());
    assert!(swept.status.success(), "{}", describe(&swept));
    assert_eq!(signatures(), "");

    sandbox.write("long.toml", &plan(&list, axes, "30s"));
    let mut command = sandbox.fsdyno(&[&["sweep", "long.toml"][..], &both].concat());
    let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a sweep");
    wait_for_a_mount(nodes[0]);
    sweep.kill().and_then(|()| sweep.wait()).expect("killed");
    let restored = sandbox.run(&["restore"]);
    assert!(restored.status.success(), "{}", describe(&restored));
    assert_eq!(signatures(), "");
}

fn what_is_on_one_device_is_not_on_a_pool() {
    let sandbox = Sandbox::new();
    let disks = "{ image = \"/var/tmp/never.img\", size = \"1G\", count = 2 }";
    let said = |axes: &str| {
        sandbox.write("plan.toml", &plan(disks, axes, "1s"));
        let output = sandbox.run(&["plan", "plan.toml"]);
        assert!(!output.status.success() && !Path::new("/var/tmp/never.img.1").exists());
        describe(&output)
    };
    let of_ext4 = said("filesystem = \"ext4\"");
    assert!(
        of_ext4.contains("ext4 is created on one device") && of_ext4.contains("[device.md]"),
        "{of_ext4}"
    );
    let of_raid6 = said("filesystem = \"btrfs\"\ndata_profile = \"raid6\"");
    assert!(of_raid6.contains("at least 3 disks") && of_raid6.contains("here it has 2"), "{of_raid6}");
}
