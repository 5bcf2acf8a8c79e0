//! Sweeps over a fleet: network namespaces as machines, each with a name, a device and a state of its own.

use crate::support::disk::Disk;
use crate::support::hosts::Hosts;
use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe, json, wait_until};
use fsdyno_core::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};

const NEEDED: &[Requirement] = &[
    Requirement::All(MAKING_FILESYSTEMS),
    Requirement::Program("losetup"),
    Requirement::Program("ip"),
    Requirement::Program("nsenter"),
    Requirement::Program("mpirun"),
    Requirement::Program("pdsh"),
];

tests! {
    blocks_run_on_one_machine_each: NEEDED;
    a_lost_machine_loses_one_trial: &[Requirement::All(NEEDED), Requirement::Soak];
    a_killed_coordinator_leaves_nothing_and_is_resumed: &[Requirement::All(NEEDED), Requirement::OwnImages];
    an_interrupted_fleet_is_undone: &[Requirement::All(NEEDED), Requirement::OwnImages];
    a_second_signal_ends_the_wait_for_a_machine_that_hangs: NEEDED;
    a_race_on_a_fleet_goes_on_with_the_same_blocks: &[Requirement::All(NEEDED), Requirement::OwnImages];
    devices_are_confirmed_for_each_machine: NEEDED;
    what_a_fleet_cannot_do_is_refused: &[];
}

/// Two filesystems in so many blocks, on an image of each machine.
fn plan(sandbox: &Sandbox, count: u32, repetitions: u32, transactions: u32) -> String {
    let path = |name: &str| sandbox.path(name).display().to_string();
    let disks: String = (1..=count)
        .map(|number| {
            let (image, own) = (path("image"), path(&format!("image-x{number}")));
            format!("[fleet.disks.x{number}]\n\"{image}\" = {{ image = \"{own}\", size = \"320M\" }}\n")
        })
        .collect();
    format!(
        "name = \"fleet\"\nrepetitions = {repetitions}\n[device]\nimage = \"{}\"\nsize = \"320M\"\n[fleet]\n\
         count = {count}\n{disks}[axes]\nfilesystem = [\"ext4\", \"xfs\"]\n[[workloads]]\n\
         kind = \"postmark\"\nnumber = 1000\ntransactions = {transactions}\n",
        path("image")
    )
}

fn fleet<'a>(launch: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["sweep", "plan.toml", "--format", "json", "--fleet", "--launch", launch], more].concat()
}

fn trials(document: &Value) -> &Vec<Value> {
    document["trials"].as_array().expect("trials")
}

/// The machines of each block.
fn machines(document: &Value) -> BTreeMap<u64, BTreeSet<String>> {
    let mut blocks: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for trial in trials(document) {
        assert_eq!(trial["outcome"], "measured", "{}", trial["error"]);
        let machine = trial["machine"].as_str().expect("a machine").to_string();
        assert_eq!(trial["environment"]["hostname"], machine.as_str());
        blocks.entry(trial["block"].as_u64().expect("a block")).or_default().insert(machine);
    }
    blocks
}

/// Nothing of a trial is left: no agent, no image, no journal.
fn assert_nothing_is_left(sandbox: &Sandbox, hosts: &Hosts, count: usize) {
    assert!((0..count).all(|host| hosts.processes(host, "fsdyno").is_empty()), "an agent is left");
    for number in 1..=count {
        assert!(!sandbox.path(&format!("image-x{number}")).exists(), "the image of x{number} is left");
        let journals = sandbox.path(&format!("state-x{number}/fsdyno/undo"));
        let left = fs::read_dir(journals).into_iter().flatten().count();
        assert_eq!(left, 0, "journals of x{number}");
    }
}

/// Starts it, and waits until this holds.
fn started(sandbox: &Sandbox, arguments: &[&str], until: impl FnMut() -> bool) -> Child {
    let child = sandbox.fsdyno(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("run fsdyno");
    wait_until("it begins", until);
    child
}

/// Restores what is left on x2.
fn restore_second(sandbox: &Sandbox) {
    let restore = sandbox.fsdyno(&["restore"]).env("XDG_STATE_HOME", sandbox.path("state-x2")).output();
    let restore = restore.expect("run fsdyno");
    assert_eq!(restore.status.code(), Some(0), "{}", describe(&restore));
}

/// Waits until both hosts have nothing of fsdyno any more.
fn await_members_end(hosts: &Hosts) {
    wait_until("the members end", || (0..2).all(|host| hosts.processes(host, "fsdyno").is_empty()));
}

/// Returns the number of mounted filesystems on images of this test.
fn mounted(sandbox: &Sandbox) -> usize {
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    let loops = mounts.lines().filter_map(|line| line.split(' ').next()?.strip_prefix("/dev/"));
    let backing = |name: &str| fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok();
    let own = sandbox.path("");
    loops.filter_map(backing).filter(|file| Path::new(file).starts_with(&own)).count()
}

fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

fn ended(child: Child) -> Output {
    child.wait_with_output().expect("fsdyno ends")
}

fn blocks_run_on_one_machine_each() {
    let sandbox = Sandbox::new();
    let hosts = Hosts::with_own_states(&sandbox, 3);
    let disk = Disk::new(&sandbox.path("disk"), Bytes(320 * Bytes::MIB));
    let text = plan(&sandbox, 3, 4, 100);
    let image = format!("{{ image = \"{}\", size = \"320M\" }}", sandbox.path("image-x2").display());
    assert!(text.contains(&image));
    // One has a disk in place of an image.
    sandbox.write("plan.toml", &text.replace(&image, &format!("{{ block = \"{}\" }}", disk.node())));
    let destroy = format!("x2:{}", disk.node());
    for (launch, more) in [
        (hosts.mpirun(3), &["--destroy", &destroy][..]),
        (hosts.pdsh(3), &["--destroy", &destroy, "--token-file", "token"]),
    ] {
        let output = sandbox.run(&fleet(&launch, more));
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        let document = json(&output);
        let numbers: Vec<u64> =
            trials(&document).iter().filter_map(|trial| trial["trial"].as_u64()).collect();
        assert_eq!(numbers, (0..12).collect::<Vec<u64>>());
        let blocks = machines(&document);
        assert!(blocks.values().all(|machines| machines.len() == 1), "{blocks:?}");
        let all: BTreeSet<&String> = blocks.values().flatten().collect();
        assert_eq!(all.len(), 3, "{blocks:?}");
        for trial in trials(&document) {
            let device = &trial["configuration"]["device"];
            let own = if trial["machine"] == "x2" { &device["block"] } else { &device["image"] };
            assert!(own.is_object(), "{device}");
            assert!(trial["timer"]["overhead_ns_per_op"].as_f64() > Some(0.0), "{}", trial["timer"]);
        }
        assert_nothing_is_left(&sandbox, &hosts, 3);
    }
    sandbox
        .shows(&["recommend", "--notes"], &["the trials ran on 3 machines", "x1 (", "Ratios within blocks"]);
    sandbox.shows(&["plan", "plan.toml"], &["3 machines share 4 blocks", "on x1, ", "in place of"]);
    // A limit of time, as soon as it is known what trials take, is one for all machines.
    let limited = ["--set", "time_limit=10s", "--set", "repetitions=200", "--destroy", &destroy];
    let output = sandbox.run(&fleet(&hosts.mpirun(3), &limited));
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let document = json(&output);
    let blocks = machines(&document);
    let all: BTreeSet<&String> = blocks.values().flatten().collect();
    assert!(all.len() == 3 && blocks.len() < 200, "{blocks:?}");
}

/// Its finished trials stay, the one in progress runs elsewhere, and restore there mends what the kill left.
fn a_lost_machine_loses_one_trial() {
    let sandbox = Sandbox::new();
    let hosts = Hosts::with_own_states(&sandbox, 2);
    sandbox.write("plan.toml", &plan(&sandbox, 2, 3, 20_000));
    let launch = hosts.mpirun(2);
    let running = started(&sandbox, &fleet(&launch, &[]), || mounted(&sandbox) == 2);
    kill(hosts.processes(1, "--supervised")[0], Signal::KILL);
    let output = ended(running);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    assert!(said.contains("x2: runs no further trials: it was lost"), "{said}");
    assert!(said.contains("is queued again") && said.contains("fsdyno restore"), "{said}");
    let document = json(&output);
    assert_eq!(trials(&document).len(), 9, "{said}");
    let warnings = trials(&document).iter().filter_map(|trial| trial["warnings"].as_array()).flatten();
    let lost: Vec<&Value> = warnings.filter(|warning| warning["kind"] == "machine-lost").collect();
    assert!(matches!(&lost[..], [one] if one.to_string().contains("x2 left the fleet")), "{lost:?}");
    let by_machine = machines(&document);
    assert!(by_machine.values().all(|machines| machines.contains("x1")), "{by_machine:?}");
    restore_second(&sandbox);
    assert_nothing_is_left(&sandbox, &hosts, 2);
}

fn a_killed_coordinator_leaves_nothing_and_is_resumed() {
    let sandbox = Sandbox::new();
    let hosts = Hosts::with_own_states(&sandbox, 2);
    sandbox.write("plan.toml", &plan(&sandbox, 2, 3, 8_000));
    let launch = hosts.mpirun(2);
    let store = sandbox.path("state/fsdyno/results.db");
    let has_stored = || {
        store.exists() && {
            let list = json(&sandbox.run(&["list", "--format", "json"]));
            list[0]["measured"].as_u64() >= Some(2)
        }
    };
    let running = started(&sandbox, &fleet(&launch, &[]), has_stored);
    kill(running.id(), Signal::KILL);
    ended(running);
    // Members notice, undo their trials, and end themselves.
    await_members_end(&hosts);
    assert_nothing_is_left(&sandbox, &hosts, 2);
    let before = sandbox.stored();
    let kept: Vec<(u64, String)> = trials(&before).iter().map(identity).collect();
    assert!((2..9).contains(&kept.len()), "{kept:?}");
    let output = sandbox.run(&fleet(&launch, &["--resume"]));
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let document = json(&output);
    let all: Vec<(u64, String)> = trials(&document).iter().map(identity).collect();
    assert_eq!(all.len(), 9);
    assert!(kept.iter().all(|one| all.contains(one)), "a stored trial was run again");
    let blocks = machines(&document);
    assert!(blocks.values().all(|machines| machines.len() == 1), "{blocks:?}");
}

/// A trial's number, and when it began.
fn identity(trial: &Value) -> (u64, String) {
    let began = trial["started"].as_str().unwrap_or_default().to_string();
    (trial["trial"].as_u64().unwrap_or(u64::MAX), began)
}

fn an_interrupted_fleet_is_undone() {
    let sandbox = Sandbox::new();
    let hosts = Hosts::with_own_states(&sandbox, 2);
    sandbox.write("plan.toml", &plan(&sandbox, 2, 3, 8_000));
    let launch = hosts.mpirun(2);
    let running = started(&sandbox, &fleet(&launch, &[]), || mounted(&sandbox) == 2);
    kill(running.id(), Signal::INT);
    let output = ended(running);
    assert_eq!(output.status.code(), Some(130), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("hint: to continue, run fsdyno sweep plan.toml --resume --fleet --launch"),
        "{said}"
    );
    assert_nothing_is_left(&sandbox, &hosts, 2);
    // One of them can do the rest alone.
    let alone = hosts.mpirun(1);
    let rest = ["sweep", "plan.toml", "--format", "json", "--resume", "--fleet=1", "--launch", &alone];
    let output = sandbox.run(&rest);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let document = json(&output);
    assert_eq!(trials(&document).len(), 9);
    // Every trial was measured.
    machines(&document);
    assert_nothing_is_left(&sandbox, &hosts, 2);
}

/// The processes that carry out steps on x2 are stopped, so that the trial cannot be undone until it is
/// abandoned.
fn a_second_signal_ends_the_wait_for_a_machine_that_hangs() {
    let sandbox = Sandbox::new();
    let hosts = Hosts::with_own_states(&sandbox, 2);
    sandbox.write("plan.toml", &plan(&sandbox, 2, 3, 60_000));
    let launch = hosts.mpirun(2);
    let running = started(&sandbox, &fleet(&launch, &[]), || mounted(&sandbox) == 2);
    let [joined, all] = ["--join", "fsdyno agent"].map(|text| hosts.processes(1, text));
    let steps: Vec<u32> = all.into_iter().filter(|pid| !joined.contains(pid)).collect();
    assert!(!steps.is_empty(), "x2 has nobody to carry out steps");
    steps.iter().for_each(|pid| kill(*pid, Signal::STOP));
    kill(running.id(), Signal::INT);
    // The first one has arrived: x1 has undone its trial. Its journal is removed last.
    let journals = sandbox.path("state-x1/fsdyno/undo");
    wait_until("x1 undoes its trial", || fs::read_dir(&journals).is_ok_and(|mut left| left.next().is_none()));
    kill(running.id(), Signal::INT);
    let output = ended(running);
    assert!([Some(4), Some(130)].contains(&output.status.code()), "{}", describe(&output));
    // Abandoned, it was killed.
    let is_left = |pid: &&u32| hosts.processes(1, "fsdyno agent").contains(pid);
    assert_eq!(steps.iter().filter(is_left).count(), 0, "{}", describe(&output));
    await_members_end(&hosts);
    restore_second(&sandbox);
    assert_nothing_is_left(&sandbox, &hosts, 2);
}

/// Rounds of several blocks run at once; after a kill, what is planned is what would have been.
fn a_race_on_a_fleet_goes_on_with_the_same_blocks() {
    let sandbox = Sandbox::new();
    let hosts = Hosts::with_own_states(&sandbox, 2);
    let axes = "filesystem = [\"ext4\", \"xfs\"]";
    let more =
        format!("{axes}\nscheduler = [\"none\", \"mq-deadline\"]\natime = [\"relatime\", \"noatime\"]");
    let text =
        plan(&sandbox, 2, 1, 2_000).replace(axes, &more).replace("repetitions = 1", "protocol = \"race\"");
    sandbox.write("plan.toml", &text);
    let launch = hosts.mpirun(2);
    let has_stored = || {
        let list = json(&sandbox.run(&["list", "--format", "json"]));
        list[0]["measured"].as_u64() >= Some(11)
    };
    let running = started(&sandbox, &fleet(&launch, &[]), has_stored);
    kill(running.id(), Signal::KILL);
    ended(running);
    await_members_end(&hosts);
    let output = sandbox.run(&fleet(&launch, &["--resume"]));
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let document = json(&output);
    let mut blocks: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for trial in trials(&document).iter().filter(|trial| trial["sentinel"] == false) {
        let [block, case] = ["block", "case"].map(|key| trial[key].as_u64().expect("a number"));
        assert!(blocks.entry(block).or_default().insert(case), "case {case} twice in block {block}");
    }
    assert_eq!(blocks[&0].len(), 8);
    let numbers: Vec<u64> = blocks.keys().copied().collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<u64>>(), "a block is missing");
    assert!(numbers.len() >= 3, "{blocks:?}");
    // Each block has only what the block before has, and the last round has some at once.
    assert!(numbers.windows(2).all(|pair| blocks[&pair[1]].is_subset(&blocks[&pair[0]])), "{blocks:?}");
    let machines = machines(&document);
    let all: BTreeSet<&String> = machines.values().flatten().collect();
    assert_eq!(all.len(), 2, "{machines:?}");
    let race = json(&sandbox.run(&["race", "--format", "json"]));
    assert_eq!(race["trials"].as_u64(), Some(trials(&document).len() as u64), "{}", race["state"]);
    assert_nothing_is_left(&sandbox, &hosts, 2);
}

fn devices_are_confirmed_for_each_machine() {
    let sandbox = Sandbox::new();
    let hosts = Hosts::with_own_states(&sandbox, 2);
    let disks = ["disk1", "disk2"].map(|name| Disk::new(&sandbox.path(name), Bytes(320 * Bytes::MIB)));
    let text = plan(&sandbox, 2, 1, 50);
    let text = disks.iter().zip(1..).fold(text, |text, (disk, number)| {
        let image = sandbox.path(&format!("image-x{number}")).display().to_string();
        let own = format!("{{ image = \"{image}\", size = \"320M\" }}");
        text.replace(&own, &format!("{{ block = \"{}\" }}", disk.node()))
    });
    sandbox.write("plan.toml", &text);
    let launch = hosts.mpirun(2);
    let [first, second] = [disks[0].node(), disks[1].node()];
    let refused = |more: &[&str], code: i32, texts: &[&str]| {
        let output = sandbox.run(&fleet(&launch, more));
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(texts.iter().all(|text| said.contains(text)), "{said}");
        for name in ["disk1", "disk2"] {
            let allocated = fs::metadata(sandbox.path(name)).expect("the disk").blocks();
            assert_eq!(allocated, 0, "{name} was written");
        }
        assert_nothing_is_left(&sandbox, &hosts, 2);
    };
    let [of_first, of_second] = [format!("x1:{first}"), format!("x2:{second}")];
    let said = ["names no machine of the fleet; it has x1, x2", &format!("--destroy {of_first}")];
    refused(&["--destroy", first], 2, &said);
    refused(&["--destroy", &format!("x3:{first}")], 2, &["names no machine of the fleet"]);
    // What is confirmed for one machine is not for another.
    refused(
        &["--destroy", &of_first, "--destroy", &format!("x1:{second}")],
        3,
        &["refused, nothing was written", "on x2: ", second, &format!("--destroy x2:{second}")],
    );
    let output = sandbox.run(&fleet(&launch, &["--destroy", &of_first, "--destroy", &of_second]));
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
}

fn what_a_fleet_cannot_do_is_refused() {
    let sandbox = Sandbox::new();
    let usual = "[device]\nimage = \"/var/tmp/none\"\nsize = \"320M\"\n[fleet]\ncount = 2\n[axes]\n\
                 filesystem = [\"ext4\", \"xfs\"]\n[[workloads]]\nkind = \"postmark\"\n";
    let refused = |plan: &str, text: &str| {
        sandbox.write("plan.toml", plan);
        let output = sandbox.run(&fleet("false", &[]));
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(text), "{said}");
    };
    refused(&usual.replace("[fleet]\ncount = 2\n", ""), "say how many: [fleet] with `count`");
    refused(&usual.replace("count = 2\n", ""), "'count'");
    refused(&format!("monitor = \"vmstat 1\"\n{usual}"), "hooks and monitors");
    refused(&format!("{usual}[durability]\n"), "keeps its logs beside the store");
    let elsewhere = "[fleet.disks.n1]\n\"/dev/sdb\" = { block = \"/dev/sdc\" }\n";
    refused(&format!("{usual}{elsewhere}"), "[device] has no disk '/dev/sdb' to replace");
    refused(usual, "0 of 2 machines joined: the launcher ended");
}
