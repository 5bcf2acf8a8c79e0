//! Requests that fail: what applications are told by the filesystems of this kernel.

use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe};
use serde_json::Value;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const RECORDING: &[Requirement] = &[Requirement::Recorder, Requirement::All(MAKING_FILESYSTEMS)];

tests! {
    defaults_tell_every_fault: RECORDING;
    what_is_not_requested_is_not_tested: RECORDING;
    a_disk_that_fails_by_itself_fails_its_trial: RECORDING;
}

/// Runs these configurations. Returns the faults of each.
fn faults(sandbox: &Sandbox, configurations: &[&str], faults: &[&str]) -> Vec<Vec<Value>> {
    let configurations: String =
        configurations.iter().map(|lines| format!("[[configurations]]\n{lines}\n")).collect();
    let text = format!(
        "name = \"faults\"\nrepetitions = 1\nseed = 5\nmeasure = \"silent-losses\"\n\
         [device]\nimage = \"{}\"\nsize = \"1G\"\n{configurations}[[workloads]]\nkind = \"io-errors\"\n\
         size = \"320M\"\nfaults = {faults:?}\n",
        sandbox.path("disk.img").display(),
    );
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
            let told = if *name == "read-data" { Value::Null } else { "EIO".into() };
            assert_eq!(result["witnessed"]["first"], told, "{filesystem} {result}");
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

/// The process that shows the disk is killed, again and again.
fn a_disk_that_fails_by_itself_fails_its_trial() {
    let sandbox = Sandbox::new();
    let text = format!(
        "name = \"faults\"\nrepetitions = 1\n[device]\nimage = \"{}\"\nsize = \"1G\"\n[axes]\n\
         filesystem = [\"ext4\"]\n[[workloads]]\nkind = \"io-errors\"\n",
        sandbox.path("disk.img").display()
    );
    sandbox.write("plan.toml", &text);
    let mut running = sandbox.fsdyno(&["sweep", "plan.toml"]).spawn().expect("run fsdyno");
    let parent = running.id().to_string();
    let status = loop {
        let _ = Command::new("pkill").args(["-9", "-P", &parent, "-f", "fsdyno recorder"]).status();
        match running.try_wait().expect("look at it") {
            Some(status) => break status,
            None => sleep(Duration::from_millis(300)),
        }
    };
    assert!(!status.success(), "{status}");
    let restored = sandbox.run(&["restore"]);
    assert!(restored.status.success(), "{}", describe(&restored));
    for trial in sandbox.stored()["trials"].as_array().expect("trials") {
        assert_eq!(trial["outcome"], "failed", "{trial}");
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
