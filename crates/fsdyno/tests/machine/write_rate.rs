//! `write_rate = "auto"` as users run it: what every filesystem can write is measured before the sweep, also
//! if that is interrupted.

use crate::support::disk::Disk;
use crate::support::{MAKING_FILESYSTEMS, MAKING_ON_IMAGES, Sandbox, describe, json};
use fsdyno_core::Bytes;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;

tests! {
    what_all_can_write_is_measured_before_the_sweep: MAKING_ON_IMAGES;
    an_interrupted_measurement_of_the_rate_is_continued: MAKING_ON_IMAGES;
    a_rate_that_was_measured_before_a_kill_is_used: MAKING_ON_IMAGES;
    both_sweeps_write_to_the_disk_that_was_confirmed: MAKING_FILESYSTEMS;
}

fn plan(sandbox: &Sandbox) -> String {
    let text = format!(
        "name = \"paced\"\nrepetitions = 2\n[device]\nimage = \"{}\"\nsize = \"512M\"\n[axes]\nfilesystem = \
         [\"ext4\", \"xfs\"]\n[[workloads]]\nkind = \"fileserver\"\ntree_size = \"1M\"\nwriter_space = \
         \"8M\"\nreaders = 1\nwriters = 2\nwrite_rate = \"auto\"\nramp = 0\nwindow = \"300ms\"\n",
        sandbox.path("fsdyno.img").display()
    );
    sandbox.write("plan.toml", &text).display().to_string()
}

/// The rate of writers in each trial of a sweep; `None` in a closed loop.
fn rates(document: &Value) -> Vec<Option<f64>> {
    let trials = document["trials"].as_array().expect("trials");
    let rate = |trial: &Value| trial["workload"]["parameters"]["write_rate"]["per_second"].as_f64();
    trials.iter().map(rate).collect()
}

/// Two sweeps are stored, the first in a closed loop and the second at the rate that it showed.
fn verify_both(sandbox: &Sandbox, stderr: &str) {
    let rate = stderr.split_once("writers begin ").and_then(|(_, rest)| rest.split_once(" files a second"));
    let (rate, rest) = rate.unwrap_or_else(|| panic!("no rate in {stderr}"));
    let rate: f64 = rate.parse().expect("a rate");
    let slowest = rest.split_once("70 % of the ").and_then(|(_, rest)| rest.split_once(" of '"));
    let slowest: f64 = slowest.expect("what the slowest does").0.parse().expect("a rate");
    assert!(rate <= 0.7 * slowest + 1.0 && rate > 0.6 * slowest - 1.0, "{stderr}");
    let of = |name: &str| rates(&json(&sandbox.run(&["show", name, "--format", "json"])));
    assert!(of("paced-closed-loop").iter().all(Option::is_none));
    let paced = of("paced");
    assert!(paced.len() >= 4 && paced.iter().all(|one| *one == Some(rate)), "{paced:?} {rate}");
}

fn what_all_can_write_is_measured_before_the_sweep() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox);
    let foreseen = sandbox.run(&["plan", &plan]);
    let foreseen = String::from_utf8_lossy(&foreseen.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        foreseen.contains("before that, one trial of each case with writers in a closed loop"),
        "{foreseen}"
    );
    let swept = sandbox.run(&["sweep", &plan, "--format", "json"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    verify_both(&sandbox, &String::from_utf8_lossy(&swept.stderr));
    let printed = json(&swept);
    assert_eq!(printed["sweep"]["name"], "paced", "only the sweep that was asked for");
}

fn an_interrupted_measurement_of_the_rate_is_continued() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox);
    sandbox.kill_at(&["sweep", &plan], "trial 1 of ");
    let resumed = sandbox.run(&["sweep", &plan, "--resume"]);
    let stderr = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert_eq!(resumed.status.code(), Some(0), "{}", describe(&resumed));
    assert!(stderr.contains("resuming sweep 1 ('paced-closed-loop'"), "{stderr}");
    verify_both(&sandbox, &stderr);
    // What is added to it later has the same rate.
    let more = sandbox.run(&["sweep", "--more", "1", "paced"]);
    assert_eq!(more.status.code(), Some(0), "{}", describe(&more));
    verify_both(&sandbox, &stderr);
}

/// Killed when the rate is known, and before the sweep that was asked for has begun, or soon after that.
fn a_rate_that_was_measured_before_a_kill_is_used() {
    let sandbox = Sandbox::new();
    let text = fs::read_to_string(plan(&sandbox)).expect("the plan");
    // Without a name, both sweeps are named after the file.
    let unnamed = text.replace("name = \"paced\"\n", "");
    let plan = sandbox.write("paced.toml", &unnamed).display().to_string();
    sandbox.kill_at(&["sweep", &plan], "writers begin ");
    let resumed = sandbox.run(&["sweep", &plan, "--resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", describe(&resumed));
    let of = |name: &str| rates(&json(&sandbox.run(&["show", name, "--format", "json"])));
    let paced = of("paced");
    assert!(paced.len() >= 4 && paced[0].is_some() && paced.iter().all(|one| *one == paced[0]), "{paced:?}");
    assert!(of("paced-closed-loop").iter().all(Option::is_none));
}

/// The plan names a disk by a link, which leads to another one after the last trial that measures the rate.
fn both_sweeps_write_to_the_disk_that_was_confirmed() {
    let sandbox = Sandbox::new();
    let disk = |name: &str| Disk::new(&sandbox.path(name), Bytes(320 * Bytes::MIB));
    let (named, decoy) = (disk("named.img"), disk("decoy.img"));
    let (link, other) = (sandbox.path("disk"), sandbox.path("other"));
    symlink(named.node(), &link).expect("a link");
    symlink(decoy.node(), &other).expect("a link");
    let image = format!("image = \"{}\"\nsize = \"512M\"\n", sandbox.path("fsdyno.img").display());
    let block = format!("block = \"{}\"\n", link.display());
    let hooks = format!(
        "[hooks]\nafter_trial = \"sh -c 'test $FSDYNO_SWEEP.$FSDYNO_TRIAL != 1.2 || mv -T {} {}'\"\n[device]\n",
        other.display(),
        link.display()
    );
    let text = fs::read_to_string(plan(&sandbox)).expect("the plan");
    let text = text.replace(&image, &block).replace("[device]\n", &hooks);
    let plan = sandbox.write("plan.toml", &text).display().to_string();
    let confirmed = link.display().to_string();
    let swept = sandbox.run(&["sweep", &plan, "--allow-hooks", "--destroy", &confirmed]);
    let stderr = String::from_utf8_lossy(&swept.stderr).into_owned();
    assert_eq!(fs::read_link(&link).expect("a link").display().to_string(), decoy.node(), "{stderr}");
    assert_eq!(swept.status.code(), Some(3), "{}", describe(&swept));
    assert!(stderr.contains("is another device now (") && stderr.contains("--resume` goes on"), "{stderr}");
    let bytes = fs::read(sandbox.path("decoy.img")).expect("the image");
    assert!(bytes.iter().all(|byte| *byte == 0), "the other disk was written to");
}
