//! The limit on the memory of a load: what does not fit is read from the device, and nothing is left of it.

use crate::support::{
    MAKING_FILESYSTEMS, NOBODY, Requirement, Sandbox, describe, json, wait_for, wait_until,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

tests! {
    a_load_with_little_memory_reads_from_the_device: GROUPS_AND_FILESYSTEMS;
    a_killed_sweep_leaves_no_group_after_restore: GROUPS_AND_FILESYSTEMS;
    a_ramp_lasts_until_the_writers_are_throttled: GROUPS_AND_FILESYSTEMS;
    a_user_limits_memory_in_a_delegated_group: DELEGATING;
    a_load_that_does_not_fit_says_so: GROUPS;
    what_is_itself_in_memory_is_not_limited: GROUPS;
}

const GROUPS: &[Requirement] = &[Requirement::Root, Requirement::MemoryGroups];
const GROUPS_AND_FILESYSTEMS: &[Requirement] =
    &[Requirement::All(MAKING_FILESYSTEMS), Requirement::MemoryGroups];
const DELEGATING: &[Requirement] = &[Requirement::All(GROUPS), Requirement::Program("setpriv")];
const LIMIT: u64 = 48 << 20;

fn on_disk() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory on a disk")
}

/// The image is on a disk: what is in memory itself is not limited.
fn plan(sandbox: &Sandbox, place: &TempDir, levels: &str, window: &str) {
    let plan = format!(
        "[device]\nimage = \"{}\"\nsize = \"1G\"\n[axes]\nfilesystem = \"ext4\"\nmemory = {levels}\n\
         [[workloads]]\nkind = \"fileserver\"\ntree_size = \"320M\"\nreaders = 1\nwriters = 1\n\
         writer_space = \"64M\"\nramp = \"200ms\"\nwindow = \"{window}\"\n",
        place.path().join("disk.img").display()
    );
    sandbox.write("plan.toml", &plan);
}

fn a_load_with_little_memory_reads_from_the_device() {
    let before = groups();
    let sandbox = Sandbox::new();
    let place = on_disk();
    plan(&sandbox, &place, "[\"48M\", \"default\"]", "1s");
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
        // How much is moved in the time depends on the machine; what does not fit displaces something.
        let roles = phase["roles"].as_array().expect("roles").iter();
        let moved: u64 = roles.filter_map(|role| role["rates"]["bytes"].as_u64()).sum();
        assert!(moved <= LIMIT || memory["reclaims"].as_u64() > Some(0), "{memory}, {moved} bytes moved");
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
    assert_no_group_stays(&before);
}

fn a_ramp_lasts_until_the_writers_are_throttled() {
    let sandbox = Sandbox::new();
    let place = on_disk();
    plan(&sandbox, &place, "\"48M\"", "100ms");
    let text = fs::read_to_string(sandbox.path("plan.toml")).expect("the plan");
    let text = text.replace("ramp = \"200ms\"", "ramp = \"until-throttled\"");
    sandbox.write("plan.toml", &text.replace("tree_size = \"320M\"", "tree_size = \"96M\""));
    let planned = json(&sandbox.run(&["plan", "plan.toml", "--format", "json"]));
    assert_eq!(planned["cases"][0]["workload"]["parameters"]["ramp"], "until-throttled");
    let document = json(&sandbox.run(&["sweep", "plan.toml", "--format", "json"]));
    let trial = &document["trials"][0];
    assert_eq!(trial["outcome"], "measured", "{trial}");
    let ramps: Vec<f64> = trial["phases"]
        .as_array()
        .expect("phases")
        .iter()
        .map(|phase| phase["ramp_ns"].as_f64().expect("a ramp") / 1e9)
        .collect();
    let [reading, writing] = ramps[..] else { panic!("{ramps:?}") };
    // Nothing is written in the first phase; in the second, the device must have kept up for 3 s.
    assert!((5.0..20.0).contains(&reading) && writing >= 3.0, "{ramps:?}");
    let warnings = trial["warnings"].as_array().expect("warnings");
    let unthrottled = warnings.iter().any(|warning| warning["kind"] == "not-throttled");
    // Unless something else on this machine writes faster than its disk, the limit was not reached.
    assert_eq!(unthrottled, writing >= 120.0, "{ramps:?}");
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
    let is_own = |group: &PathBuf| processes(group).any(|process| descends(process, sweep.id()));
    let own = wait_for(|| groups().into_iter().find(is_own), || "no group of the sweep".to_string());
    // The load cannot displace the program that measures it.
    let locked_kib = || -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", processes(&own).next()?)).ok()?;
        status.lines().find_map(|line| line.strip_prefix("VmLck:")?.split_whitespace().next()?.parse().ok())
    };
    wait_until("the load locks its memory", || locked_kib() > Some(1024));
    sweep.kill().and_then(|()| sweep.wait()).expect("kill it");
    let restored = sandbox.run(&["restore"]);
    assert!(restored.status.success() && !own.exists(), "{restored:?}");
}

/// The processes in a cgroup.
fn processes(group: &Path) -> impl Iterator<Item = u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>().into_iter()
}

/// Returns whether a process is another one, or was started by it, directly or not.
fn descends(process: u32, from: u32) -> bool {
    let parent_of = |process: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
    };
    std::iter::successors(Some(process), parent_of).any(|one| one == from)
}

/// The only trial of a workload in a directory.
fn in_directory(sandbox: &Sandbox, directory: &Path, limit: &str, parameters: &str) -> Value {
    let plan = format!(
        "memory = \"{limit}\"\n[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"commit-log\"\nramp = 0\n\
         window = \"1s\"\n{parameters}\n",
        directory.display()
    );
    sandbox.write("plan.toml", &plan);
    let output = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["trials"][0].clone()
}

/// A group that belongs to the user, as systemd makes below user@UID.service, and the user's shell in it; in
/// version 2 a group with processes passes no controllers on, so that the shell is in one below it.
const DELEGATE: &str = r#"
set -e
group=$1 unified=$2 user=$3; shift 3
mkdir "$group"
own=$group
if [ "$unified" = yes ]; then own=$group/shell; mkdir "$own"; echo +memory >"$group/cgroup.subtree_control"; fi
chown -R "$user" "$group"
echo $$ >"$own/cgroup.procs"
exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
"#;

fn a_user_limits_memory_in_a_delegated_group() {
    let sandbox = Sandbox::new();
    let binary = sandbox.give_away(&["", "state", "data"]);
    let mounted = Path::new("/sys/fs/cgroup/memory");
    let unified = !mounted.is_dir();
    let all = if unified { Path::new("/sys/fs/cgroup") } else { mounted };
    let group = all.join(format!("delegated-{}", std::process::id()));
    let mut command = Command::new("sh");
    command.args(["-c", DELEGATE, "sh"]).arg(&group).arg(if unified { "yes" } else { "no" });
    command.arg(NOBODY.to_string()).arg(&binary).arg("bench").arg(sandbox.path("data"));
    command.args([
        "--memory",
        "48M",
        "--tree-size",
        "96M",
        "--ramp",
        "100ms",
        "--window",
        "300ms",
        "--format",
        "json",
    ]);
    let output = command.env("XDG_STATE_HOME", sandbox.path("state")).output().expect("a shell");
    fs::remove_dir(group.join("shell")).ok();
    fs::remove_dir(&group).expect("nothing is left in the group");
    let trial = &json(&output)["trials"][0];
    assert_eq!(trial["outcome"], "measured", "{trial}");
    assert_eq!(trial["phases"][0]["memory"]["limit"], LIMIT, "{trial}");
    let warnings = trial["warnings"].as_array().expect("warnings");
    assert!(warnings.iter().all(|warning| warning["kind"] != "memory-not-limited"), "{warnings:?}");
}

fn a_load_that_does_not_fit_says_so() {
    let before = groups();
    let sandbox = Sandbox::new();
    let directory = on_disk();
    let trial = in_directory(&sandbox, directory.path(), "32M", "writers = 8\nrecord = \"3M\"");
    let error = &trial["error"];
    let says = |key: &str, words: &str| error[key].as_str().is_some_and(|text| text.contains(words));
    assert!(says("message", "reached its memory limit of 32M") && says("hint", "raise `memory`"), "{trial}");
    assert_no_group_stays(&before);
    // A log that the filesystem has no room for is refused before it is written.
    let plan = fs::read_to_string(sandbox.path("plan.toml")).expect("the plan");
    sandbox.write("plan.toml", &format!("{plan}segments = \"overwrite\"\nsegment = \"1E\"\n"));
    let refused = sandbox.run(&["sweep", "plan.toml"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    assert!(describe(&refused).contains("has too little room"), "{}", describe(&refused));
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

/// Tests that run in parallel have groups as well, but not for long. Those that were there before the test
/// are of another fsdyno on this machine.
fn assert_no_group_stays(before: &[PathBuf]) {
    let mut seen = groups();
    seen.retain(|group| !before.contains(group));
    wait_until("their groups are removed", || {
        let now = groups();
        seen.retain(|group| now.contains(group));
        seen.is_empty()
    });
}

/// Every cgroup of fsdyno's.
fn groups() -> Vec<PathBuf> {
    fn below(directory: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories
            .flat_map(|entry| {
                let own = entry.file_name().to_string_lossy().starts_with("fsdyno-");
                own.then(|| entry.path()).into_iter().chain(below(&entry.path())).collect::<Vec<_>>()
            })
            .collect()
    }
    below(Path::new("/sys/fs/cgroup"))
}
