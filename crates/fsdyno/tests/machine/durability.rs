//! Power cuts: what defaults keep, what is lost without flushes, without a journal and with late commits, and
//! that nothing is left of a recorder, however it ends.

use crate::support::guarded::{hash, succeed};
use crate::support::{MAKING_FILESYSTEMS, NOBODY, Requirement, Sandbox, describe, json};
use rustix::fs::{Mode, OFlags, open};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const RECORDING: &[Requirement] = &[Requirement::Recorder, Requirement::All(MAKING_FILESYSTEMS)];

tests! {
    defaults_keep_what_they_acknowledge: RECORDING;
    a_disk_that_is_not_flushed_loses_it: RECORDING;
    without_a_journal_the_check_finds_damage: RECORDING;
    later_commits_lose_more_of_what_nothing_syncs: RECORDING;
    // It has a loop device of its own beside the recorded one.
    a_named_disk_is_not_touched: &[Requirement::DyingRecorder, Requirement::All(MAKING_FILESYSTEMS)];
    a_state_can_be_looked_at: RECORDING;
    nothing_is_left_of_a_killed_trial_or_recorder: &[
        Requirement::DyingRecorder,
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::Soak,
    ];
    a_recorder_that_is_stopped_fails_its_trial_with_that_cause: &[
        Requirement::DyingRecorder,
        Requirement::All(MAKING_FILESYSTEMS),
    ];
    what_one_recorder_lost_is_looked_at_by_the_other: &[
        Requirement::DyingRecorder,
        Requirement::All(MAKING_FILESYSTEMS),
    ];
    what_cannot_be_recorded_is_skipped_with_the_reason: RECORDING;
}

/// A plan with these configurations and parameters of the load.
fn plan(sandbox: &Sandbox, configurations: &[&str], parameters: &str) -> String {
    let configurations = configurations.iter().map(|lines| format!("[[configurations]]\n{lines}\n"));
    format!(
        "name = \"cuts\"\nrepetitions = 1\nseed = 5\nmeasure = \"acknowledged-lost\"\n[device]\n\
         image = \"{}\"\nsize = \"1G\"\n{}[[workloads]]\nkind = \"durability\"\nsize = \"320M\"\n\
         {parameters}\n",
        sandbox.path("disk.img").display(),
        configurations.collect::<String>()
    )
}

/// Runs it; every trial must be measured. Returns the trials that are not the sentinel.
fn trials(sandbox: &Sandbox, plan: &str) -> Vec<Value> {
    sandbox.write("plan.toml", plan);
    let ran = sandbox.run(&["durability", "plan.toml"]);
    assert_eq!(ran.status.code(), Some(0), "{}", describe(&ran));
    let stored = sandbox.stored();
    let trials = stored["trials"].as_array().expect("trials");
    trials.iter().filter(|trial| trial["sentinel"] == false).cloned().collect()
}

fn name(trial: &Value) -> &str {
    trial["configuration"]["name"].as_str().expect("a name")
}

/// The result of a trial under a cache model.
fn model<'a>(trial: &'a Value, name: &str) -> &'a Value {
    let models = trial["durability"]["models"].as_array().expect("models");
    models.iter().find(|one| one["model"] == name).unwrap_or_else(|| panic!("{name}: {models:?}"))
}

/// Acknowledged promises and how many of them were lost, without those that nobody makes.
fn acknowledged(model: &Value) -> (u64, u64) {
    let promises = model["promises"].as_array().expect("promises");
    let made = promises.iter().filter(|one| one["promise"] != "replace-unsynced");
    made.fold((0, 0), |(made, lost), one| {
        (made + one["made"].as_u64().expect("a count"), lost + one["lost"].as_u64().expect("a count"))
    })
}

fn defaults_keep_what_they_acknowledge() {
    let sandbox = Sandbox::new();
    let parameters = "cuts = 6\nsubsets = 2\npromises = 40\nduration = \"1s\"\nunsynced = \"300ms\"";
    for filesystem in ["ext4", "xfs", "btrfs"] {
        let configuration = format!("name = \"{filesystem}\"\nfilesystem = \"{filesystem}\"");
        let trial = &trials(&sandbox, &plan(&sandbox, &[&configuration], parameters))[0];
        let log = &trial["durability"]["log"];
        assert_eq!(log["promises"].as_array().map(Vec::len), Some(12), "{log}");
        for (model_name, states) in [("completed", 6), ("flushed", 6), ("subset", 12), ("window", 12)] {
            let found = model(trial, model_name);
            assert_eq!((&found["states"], &found["mounted"]), (&states.into(), &states.into()), "{found}");
            assert_eq!(found["damaged"], 0, "{filesystem} {found}");
            let (made, lost) = acknowledged(found);
            assert!(made > 50 && lost == 0, "{filesystem} under {model_name}: {lost} of {made}");
        }
    }
}

fn a_disk_that_is_not_flushed_loses_it() {
    let sandbox = Sandbox::new();
    let configurations = [
        "name = \"ext4\"\nfilesystem = \"ext4\"\nbarrier = 0",
        "name = \"xfs\"\nfilesystem = \"xfs\"\nwrite_cache = \"write-through\"",
        "name = \"btrfs\"\nfilesystem = \"btrfs\"\nbarrier = 0",
    ];
    let parameters = "models = [\"completed\", \"flushed\"]\ncuts = 6\npromises = 20\nduration = \"500ms\"\n\
                      unsynced = \"100ms\"";
    for trial in trials(&sandbox, &plan(&sandbox, &configurations, parameters)) {
        let (made, lost) = acknowledged(model(&trial, "completed"));
        assert!(made > 100 && lost == 0, "{}: {lost} of {made}", name(&trial));
        let (made, lost) = acknowledged(model(&trial, "flushed"));
        assert!(lost * 2 > made, "{}: {lost} of {made}", name(&trial));
        let losing = trial["durability"]["losing"].as_array().expect("losing states");
        assert!(losing.iter().any(|state| state["model"] == "flushed"), "{losing:?}");
        let warned = trial["warnings"].to_string();
        assert!(warned.contains("durability"), "{}: {warned}", name(&trial));
    }
    // The rule of the recommendation sees it, and so does the table.
    let shown = sandbox.run(&["show"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("! ext4") && text.contains("100"), "{text}");
}

fn without_a_journal_the_check_finds_damage() {
    let sandbox = Sandbox::new();
    let parameters = "models = [\"completed\", \"flushed\"]\ncuts = 18\npromises = 60\nduration = \"1s\"\n\
        unsynced = \"1s\"";
    let ext2 = ["name = \"ext2\"\nfilesystem = \"ext2\""];
    let trials = trials(&sandbox, &plan(&sandbox, &ext2, parameters));
    let damaged = model(&trials[0], "completed")["damaged"].as_u64().expect("a count");
    assert!(damaged > 0, "{}", trials[0]["durability"]);
}

fn later_commits_lose_more_of_what_nothing_syncs() {
    let sandbox = Sandbox::new();
    let parameters =
        "models = [\"completed\"]\ncuts = 60\npromises = 2\nduration = \"100ms\"\nunsynced = \"6s\"";
    // Names alone: when data is written back is up to the kernel, not to the commit.
    let longest = |commit: u32| {
        let ext4 = format!("name = \"ext4\"\nfilesystem = \"ext4\"\ncommit = {commit}");
        let trial = &trials(&sandbox, &plan(&sandbox, &[&ext4], parameters))[0];
        let seconds = model(trial, "completed")["unsynced_names"]["lost_ns"]["max"].as_f64();
        seconds.expect("a time") / 1e9
    };
    let short = longest(1);
    assert!(short > 0.3 && short < 2.5, "commit = 1 lost {short} s");
    // A `sync` of any other program commits this filesystem too, so that a trial may lose less than its
    // commit allows, never more.
    let mut lost = Vec::new();
    while lost.len() < 4 && lost.iter().all(|long| *long <= 2.5) {
        lost.push(longest(4));
    }
    assert!(lost.iter().all(|long| *long < 5.5), "commit = 4 lost {lost:?} s");
    assert!(lost.iter().any(|long| *long > 2.5), "commit = 4 lost {lost:?} s");
}

fn a_named_disk_is_not_touched() {
    let sandbox = Sandbox::new();
    let image = sandbox.path("named.img");
    fs::write(&image, vec![7; 64 << 20]).expect("an image");
    let before = hash(&image);
    let node = Command::new("losetup").args(["--show", "-f"]).arg(&image).output().expect("losetup");
    let node = String::from_utf8(node.stdout).expect("a node").trim().to_string();
    let text = format!(
        "name = \"named\"\nrepetitions = 1\n[device]\nblock = \"{node}\"\n[axes]\nfilesystem = [\"ext4\"]\n\
         [[workloads]]\nkind = \"commit-log\"\n"
    );
    sandbox.write("plan.toml", &text);
    let set = ["cuts=2", "promises=3", "duration=100ms", "unsynced=0", "size=320M"];
    let set: Vec<String> = set.iter().map(|set| format!("workloads.{set}")).collect();
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    // The plan's own load would destroy it, and that is said beforehand.
    let lost = format!("everything on {node} will be lost: a sweep asks for --destroy {node}");
    let planned = sandbox.run(&["plan", "plan.toml"]);
    assert!(describe(&planned).contains(&lost), "{}", describe(&planned));
    // Nothing is destroyed, so nothing has to be confirmed.
    let ran = sandbox.run(&[&["durability", "plan.toml"], &set[..]].concat());
    Command::new("losetup").args(["-d", &node]).status().expect("losetup");
    assert_eq!(ran.status.code(), Some(0), "{}", describe(&ran));
    assert_eq!(hash(&image), before);
}

fn a_state_can_be_looked_at() {
    let sandbox = Sandbox::new();
    let parameters = "cuts = 3\npromises = 10\nduration = \"200ms\"\nunsynced = \"100ms\"\nkeep_log = true";
    let xfs = ["name = \"xfs\"\nfilesystem = \"xfs\""];
    let trials = trials(&sandbox, &plan(&sandbox, &xfs, parameters));
    // Programs count from 0.
    let number = trials[0]["trial"].as_u64().expect("a number") + 1;
    let state = format!("latest/{number}/2/flushed");
    for by_signal in [false, true] {
        let mut shown = sandbox.fsdyno(&["durability", "--show", &state]);
        let mut shown = shown.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run fsdyno");
        let stderr = BufReader::new(shown.stderr.take().expect("its stderr"));
        let mut said = stderr.lines().map_while(Result::ok);
        let directory = said.find_map(|line| Some(line.split_once(" is mounted at ")?.1.to_string()));
        let directory = directory.expect("where it is mounted");
        let names = fs::read_dir(&directory).expect("the state").flatten().count();
        assert!(names > 0, "'{directory}' is empty");
        match by_signal {
            true => succeed(Command::new("kill").arg(shown.id().to_string())),
            false => {
                shown.stdin.as_mut().expect("its stdin").write_all(b"\n").expect("Enter");
                String::new()
            }
        };
        let ended = shown.wait().expect("it ends");
        assert!(ended.success(), "{ended}");
        assert!(!Path::new(&directory).exists());
    }
    for (wrong, reason) in
        [("latest/1/99", "cuts 0 to 2"), ("latest/77/0", "no trial 77"), ("latest/1/0/x", "cache models")]
    {
        let refused = sandbox.run(&["durability", "--show", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(reason), "{}", describe(&refused));
    }
    // A log is a disk that root mounts.
    let logs =
        Command::new("find").arg(sandbox.path("")).args(["-path", "*/log/entries"]).output().expect("find");
    let log = String::from_utf8_lossy(&logs.stdout).trim().to_string();
    chown(&log, Some(NOBODY), None).expect("give it away");
    let refused = sandbox.run(&["durability", "--show", &state]);
    assert_ne!(refused.status.code(), Some(0), "{}", describe(&refused));
    assert!(describe(&refused).contains("cannot be trusted"), "{}", describe(&refused));
}

fn nothing_is_left_of_a_killed_trial_or_recorder() {
    let sandbox = Sandbox::new();
    let ext4 = ["name = \"ext4\"\nfilesystem = \"ext4\""];
    let parameters = "cuts = 60\npromises = 20\nduration = \"700ms\"\nunsynced = \"100ms\"";
    sandbox.write("plan.toml", &plan(&sandbox, &ext4, parameters));
    for (victim, millis) in
        [("all", 500), ("all", 1100), ("all", 2200), ("recorder", 1000), ("recorder", 2300)]
    {
        let mut running = sandbox.fsdyno(&["durability", "plan.toml"]);
        running.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut running = running.spawn().expect("run fsdyno");
        sleep(Duration::from_millis(millis));
        if victim == "recorder" {
            // The trial fails with the reason, and takes down what it can.
            let parent = running.id().to_string();
            Command::new("pkill")
                .args(["-9", "-P", &parent, "-f", "fsdyno recorder"])
                .status()
                .expect("pkill");
            sleep(Duration::from_millis(1500));
        }
        forget_attributes();
        running.kill().expect("kill it");
        running.wait().expect("it is gone");
        let restored = sandbox.run(&["restore"]);
        assert!(restored.status.success(), "{victim} after {millis} ms: {}", describe(&restored));
        assert_not_shown(&describe(&restored).to_string());
        let left: Vec<_> = fs::read_dir(sandbox.path("")).expect("the sandbox").flatten().collect();
        let logs = left.iter().filter(|entry| entry.file_name().to_string_lossy().starts_with("fsdyno-"));
        assert_eq!(logs.count(), 0, "{victim} after {millis} ms: {left:?}");
    }
}

/// Without an end, what waits for it would wait until somebody lets it continue.
fn a_recorder_that_is_stopped_fails_its_trial_with_that_cause() {
    let sandbox = Sandbox::new();
    let ext4 = ["name = \"ext4\"\nfilesystem = \"ext4\""];
    let parameters = "cuts = 60\npromises = 20\nduration = \"700ms\"\nunsynced = \"100ms\"";
    sandbox.write("plan.toml", &plan(&sandbox, &ext4, parameters));
    let mut running = sandbox.fsdyno(&["durability", "plan.toml"]);
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run fsdyno");
    let parent = running.id().to_string();
    let stop = || {
        let stopped = Command::new("pkill").args(["-STOP", "-P", &parent, "-f", "fsdyno recorder"]).status();
        stopped.expect("pkill").success()
    };
    // As soon as its disk is used.
    let is_mounted = || {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        mounts.lines().any(|line| line.contains(" /run/fsdyno-") && line.contains(" ext4 "))
    };
    while !(is_mounted() && stop()) {
        assert!(running.try_wait().expect("a look").is_none(), "it ended by itself");
        sleep(Duration::from_millis(5));
    }
    assert_eq!(running.wait().expect("its end").code(), Some(1));
    let trial = &sandbox.stored()["trials"][0];
    let error = trial["error"].to_string();
    assert!(error.contains("it was stopped by a signal for 5 s"), "{error}");
    let restored = sandbox.run(&["restore"]);
    assert!(restored.status.success(), "{}", describe(&restored));
    assert_not_shown(&describe(&restored).to_string());
    let left: Vec<_> = fs::read_dir(sandbox.path("")).expect("the sandbox").flatten().collect();
    let logs = left.iter().filter(|entry| entry.file_name().to_string_lossy().starts_with("fsdyno-"));
    assert_eq!(logs.count(), 0, "{left:?}");
}

/// Two recorders show disks of one log. If the second one dies, the first one shows the rest.
fn what_one_recorder_lost_is_looked_at_by_the_other() {
    let sandbox = Sandbox::new();
    let ext4 = ["name = \"ext4\"\nfilesystem = \"ext4\""];
    let parameters = "cuts = 12\npromises = 20\nduration = \"200ms\"\nunsynced = \"100ms\"";
    sandbox.write("plan.toml", &plan(&sandbox, &ext4, parameters));
    let mut running = sandbox.fsdyno(&["durability", "plan.toml"]);
    let errors = fs::File::create(sandbox.path("errors")).expect("a file");
    let mut running = running.stdout(Stdio::null()).stderr(errors).spawn().expect("run fsdyno");
    let parent = running.id().to_string();
    let mut killed = false;
    let ended = loop {
        if let Some(ended) = running.try_wait().expect("its status") {
            break ended;
        }
        let found = Command::new("pgrep").args(["-P", &parent, "-f", "fsdyno recorder"]).output();
        let found = String::from_utf8(found.expect("pgrep").stdout).expect("numbers");
        if let (Some(last), 2, false) = (found.lines().last(), found.lines().count(), killed) {
            // It has begun to show disks.
            sleep(Duration::from_millis(150));
            killed = Command::new("kill").args(["-9", last]).status().expect("kill").success();
        }
        sleep(Duration::from_millis(5));
    };
    let errors = fs::read_to_string(sandbox.path("errors")).expect("what it said");
    assert!(ended.success() && !errors.contains("left behind"), "{ended}: {errors}");
    let processors = std::thread::available_parallelism().expect("their number").get();
    assert_eq!(killed, processors > 1);
    let trial = &sandbox.stored()["trials"][0];
    for found in trial["durability"]["models"].as_array().expect("models") {
        assert_eq!((&found["states"], &found["mounted"]), (&12.into(), &12.into()), "{found}");
        assert_eq!(acknowledged(found).1, 0, "{found}");
    }
    // The trial says why it took longer.
    assert_eq!(trial.to_string().contains("look at states in a second thread"), killed, "{trial}");
    let restored = sandbox.run(&["restore"]);
    assert!(restored.status.success(), "{}", describe(&restored));
    assert_not_shown(&describe(&restored).to_string());
}

/// Looks every disk up that a recorder shows, which ends the time for which the kernel knows what the file
/// is: it asks for that again, and once the recorder is killed, nobody answers.
fn forget_attributes() {
    for shown in fs::read_dir("/run").expect("/run").flatten() {
        let _ = open(shown.path().join("disk"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    }
}

/// Nothing is mounted where `restore` says that something was. Other tests show their own disks meanwhile.
pub fn assert_not_shown(restored: &str) {
    let mounts = fs::read_to_string("/proc/mounts").expect("the mounts");
    for shown in restored.split('\'').filter(|word| word.starts_with("/run/fsdyno-")) {
        assert!(!mounts.contains(shown), "{restored}\n{mounts}");
    }
}

fn what_cannot_be_recorded_is_skipped_with_the_reason() {
    let sandbox = Sandbox::new();
    let external = ["name = \"a\"\nfilesystem = \"ext4\"\njournal = \"external\""];
    let text = plan(&sandbox, &external, "cuts = 1").replace(
        "[[configurations]]",
        &format!(
            "[device.journals]\nside = {{ image = \"{}\", size = \"64M\" }}\n[[configurations]]",
            sandbox.path("journal.img").display()
        ),
    );
    sandbox.write("plan.toml", &text);
    let planned = json(&sandbox.run(&["plan", "plan.toml", "--format", "json"]));
    let unmet = planned["cases"][0]["unmet"].to_string();
    assert!(unmet.contains("disks of its own, so the journal cannot be on another one"), "{unmet}");
    // Whoever owns a directory can replace what is in it.
    let theirs = sandbox.path("theirs");
    fs::create_dir(&theirs).and_then(|()| chown(&theirs, Some(NOBODY), None)).expect("a directory");
    let image = format!("device.image={}", theirs.join("disk.img").display());
    sandbox.write("ext4.toml", &plan(&sandbox, &["name = \"a\"\nfilesystem = \"ext4\""], "cuts = 1"));
    for command in ["plan", "durability"] {
        let refused = sandbox.run(&[command, "ext4.toml", "--set", &image]);
        assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
        assert!(describe(&refused).contains("is no place for the logs"), "{}", describe(&refused));
    }
    assert_eq!(fs::read_dir(&theirs).expect("it").count(), 0);
    let mixed = format!("{}[[workloads]]\nkind = \"commit-log\"\n", plan(&sandbox, &external, "cuts = 1"));
    sandbox.write("mixed.toml", &mixed.replace("journal = \"external\"", ""));
    let refused = sandbox.run(&["durability", "mixed.toml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("fsdyno sweep"), "{}", describe(&refused));
}
