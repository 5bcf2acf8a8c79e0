//! Power cuts on arrays in guests: each disk has a cache of its own, and one of them may be lost along with
//! power.

use crate::guests::{GUEST, fsdyno, trials};
use crate::support::{Requirement, Sandbox, describe};
use serde_json::Value;
use std::fs;

const NEEDED: &[Requirement] =
    &[Requirement::All(GUEST), Requirement::Fuse, Requirement::Program("mdadm"), Requirement::Program("lvm")];

tests! {
    a_mirror_keeps_its_promises_also_without_a_disk: NEEDED;
    what_cannot_be_cut_is_skipped_with_the_reason: NEEDED;
    an_array_of_named_disks_becomes_one_of_images: NEEDED;
}

/// A plan that cuts power on this device.
fn plan(sandbox: &Sandbox, device: &str, axes: &str, load: &str) -> String {
    let text = format!(
        "name = \"cuts\"\nrepetitions = 1\nseed = 5\n{}\n[axes]\nfilesystem = \"ext4\"\n{axes}\n\
         [[workloads]]\nkind = \"durability\"\nsize = \"320M\"\n{load}\n",
        device.replace("IMAGE", &sandbox.path("disk.img").display().to_string())
    );
    sandbox.write("plan.toml", &text).display().to_string()
}

/// A single trial.
fn swept(device: &str, load: &str) -> Value {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, device, "kernel = \"debian:6.1\"", load);
    let output = fsdyno(&sandbox, &["sweep", &plan]).output().expect("run fsdyno");
    assert!(output.status.success(), "{}", describe(&output));
    let left: Vec<_> = fs::read_dir(sandbox.path("")).expect("the sandbox").flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().contains("fsdyno-")), "{left:?}");
    let trial = trials(&sandbox).pop().expect("a trial");
    assert_eq!(trial["outcome"], "measured", "{}", trial["error"]);
    let shown = fsdyno(&sandbox, &["durability", "--show", "latest/1/0"]).output().expect("run fsdyno");
    assert_eq!(shown.status.code(), Some(2), "{}", describe(&shown));
    assert!(describe(&shown).contains("only single ones can be shown"), "{}", describe(&shown));
    trial
}

/// Returns the numbers of promises made, of promises lost, of files that had something wrong in them, and of
/// states, over all models.
fn heard(trial: &Value) -> [u64; 4] {
    let models = trial["durability"]["models"].as_array().expect("models");
    let states = models.iter().map(|model| model["states"].as_u64().expect("a count")).sum();
    let promises = || models.iter().flat_map(|model| model["promises"].as_array().expect("promises"));
    let sum = |what: &str| promises().map(|one| one[what].as_u64().expect("a count")).sum::<u64>();
    let wrong = promises().flat_map(|one| one["wrong"].as_object().expect("kinds").values());
    [sum("made"), sum("lost"), wrong.filter_map(Value::as_u64).sum(), states]
}

const MIRROR: &str =
    "[device.md]\nlevel = \"raid1\"\ndisks = { image = \"IMAGE\", size = \"512M\", count = 2 }";

fn a_mirror_keeps_its_promises_also_without_a_disk() {
    let load = "models = [\"completed\", \"flushed\"]\ncuts = 2\npromises = 20\nduration = \"1s\"\n\
                unsynced = \"200ms\"\ndegraded = true";
    let trial = swept(MIRROR, load);
    let [made, lost, wrong, states] = heard(&trial);
    assert_eq!((lost, wrong, states), (0, 0, 4), "{}", trial["durability"]["models"]);
    assert!(made > 0, "{made}");
}

fn what_cannot_be_cut_is_skipped_with_the_reason() {
    let sandbox = Sandbox::new();
    for (device, axes, load, reason) in [
        (MIRROR, "", "", "durability of an array, a volume or a pool needs a guest"),
        (
            MIRROR,
            "kernel = \"debian:6.1\"",
            "keep_log = true",
            "durability with `keep_log` needs a single disk",
        ),
        (
            "[device.lvm]\ndisks = { image = \"IMAGE\", size = \"512M\", count = 2 }",
            "kernel = \"debian:6.1\"",
            "degraded = true",
            "durability with `degraded` needs an array that can lose a disk",
        ),
    ] {
        let plan = plan(&sandbox, device, axes, load);
        let planned = describe(&fsdyno(&sandbox, &["plan", &plan]).output().expect("run fsdyno"));
        let words: Vec<&str> = planned.split_whitespace().collect();
        assert!(words.join(" ").contains(reason), "{planned}");
    }
}

/// The disks that a plan names are not touched, and need not even exist.
fn an_array_of_named_disks_becomes_one_of_images() {
    let sandbox = Sandbox::new();
    let device = "[device.md]\nlevel = \"raid1\"\n\
                  disks = [{ block = \"/dev/fsdyno-none\" }, { image = \"IMAGE\", size = \"512M\" }]";
    let plan = plan(&sandbox, device, "", "");
    let swept = fsdyno(&sandbox, &["durability", &plan]).output().expect("run fsdyno");
    let said = describe(&swept);
    let words: Vec<&str> = said.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("device.md.disks={ image = ") && words.contains("count = 2 }"), "{words}");
    assert!(words.contains("durability of an array, a volume or a pool needs a guest"), "{words}");
}
