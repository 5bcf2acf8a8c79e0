//! `sweep --for TIME` and `quick DEVICE`: a user has a quarter of an hour, and perhaps no plan.

use crate::support::disk::Disk;
use crate::support::guarded::{Loop, Mount, ext4};
use crate::support::{MAKING_FILESYSTEMS, MAKING_ON_IMAGES, Requirement, Sandbox, describe};
use fsdyno_core::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

tests! {
    a_sweep_is_fitted_to_a_time_and_says_so: MAKING_ON_IMAGES;
    an_interrupted_sweep_keeps_what_was_chosen: MAKING_ON_IMAGES;
    a_sweep_ends_when_its_time_is_up: MAKING_ON_IMAGES;
    a_disk_is_asked_about_without_a_plan: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::Program("losetup"),
        Requirement::Program("addpart"),
    ];
    a_quick_plan_is_saved: MAKING_ON_IMAGES;
    a_time_that_makes_no_sense_is_refused: &[];
}

fn plan(sandbox: &Sandbox) -> String {
    let text = format!(
        "repetitions = 5\n[device]\nimage = \"{}\"\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n\
         [[workloads]]\nkind = \"fileserver\"\ntree_size = \"1M\"\nwriter_space = \"4M\"\nreaders = 1\n\
         writers = 1\nramp = 0\nwindow = \"100ms\"\n",
        sandbox.path("fsdyno.img").display()
    );
    sandbox.write("plan.toml", &text).display().to_string()
}

fn stderr(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", describe(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Three repetitions of 2.2 s, of which fsdyno takes 2 s for mkfs and the like, fit into 9 s.
const CHOSEN: &str = "--for 9s: 3 repetitions (plan: 5); about 7s";

/// On a machine under load, the time may be up after fewer.
fn assert_trials(stored: &Value) {
    let trials = stored["trials"].as_array().expect("trials").len();
    assert!((1..=3).contains(&trials), "{trials} trials");
}

fn a_sweep_is_fitted_to_a_time_and_says_so() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox);
    let shown = sandbox.run(&["plan", &plan, "--for", "9s"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout).lines().last(), Some(CHOSEN), "{}", describe(&shown));
    let swept = sandbox.run(&["sweep", &plan, "--for", "9s"]);
    assert!(stderr(&swept, 0).contains(CHOSEN), "{}", describe(&swept));
    let stored = sandbox.stored();
    let overrides = ["time_limit=9s", "repetitions=3"];
    assert_eq!(stored["sweep"]["overrides"].as_array().expect("a list"), &overrides.map(Value::from));
    assert_trials(&stored);
    let shown = sandbox.run(&["show", "--notes"]);
    let begun = "note: the sweep was begun with --set 'time_limit=9s' --set 'repetitions=3'";
    assert!(String::from_utf8_lossy(&shown.stdout).contains(begun), "{}", describe(&shown));
}

fn an_interrupted_sweep_keeps_what_was_chosen() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox);
    let mut command = sandbox.fsdyno(&["sweep", &plan, "--for", "9s"]);
    let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("run fsdyno");
    let lines = BufReader::new(sweep.stderr.take().expect("a pipe")).lines();
    for line in lines.map_while(Result::ok) {
        if line.contains("trial 1 of 3: ") {
            kill_process(Pid::from_child(&sweep), Signal::INT).expect("send SIGINT");
        }
    }
    assert_eq!(sweep.wait().expect("its end").code(), Some(130));
    let resumed = sandbox.run(&["sweep", &plan, "--resume"]);
    let said = stderr(&resumed, 0);
    assert!(said.contains("with --set time_limit=9s --set repetitions=3): 1 of 3 trials done"), "{said}");
    assert_trials(&sandbox.stored());
    let both = sandbox.run(&["sweep", &plan, "--resume", "--for", "9s"]);
    assert!(stderr(&both, 2).contains("cannot be used with"), "{}", describe(&both));
}

fn a_sweep_ends_when_its_time_is_up() {
    let sandbox = Sandbox::new();
    let swept = sandbox.run(&["sweep", &plan(&sandbox), "--set", "time_limit=10ms"]);
    let said = stderr(&swept, 0);
    assert!(
        said.contains("the sweep ends after 1 of 5 repetitions: another one would not fit into"),
        "{said}"
    );
    assert!(said.contains("the first block takes about"), "{said}");
    let listed = sandbox.run(&["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("finished") && !listed.contains("interrupted"), "{listed}");
}

fn a_disk_is_asked_about_without_a_plan() {
    let (sandbox, memory) = (Sandbox::new(), tempfile::tempdir_in("/dev/shm").expect("a directory"));
    let mut disk = Disk::new(&memory.path().join("disk.img"), Bytes(2 * Bytes::GIB));
    let node = disk.node().to_string();
    let unconfirmed = sandbox.run(&["quick", &node]);
    let said = stderr(&unconfirmed, 3);
    assert!(
        said.starts_with(&format!(
            "ext4, xfs, btrfs on block {node}, repeated until the answer is decided; about "
        )),
        "{said}"
    );
    assert!(said.contains(&format!("confirm with --destroy {node}")), "{said}");
    let listed = sandbox.run(&["list", "--format", "json"]);
    assert_eq!(
        String::from_utf8_lossy(&listed.stdout).trim(),
        "[]",
        "nothing is stored: {}",
        describe(&listed)
    );
    // As a user does, but shorter.
    let swept = sandbox.run(&[
        "quick",
        &node,
        "--destroy",
        &node,
        "--for",
        "1m",
        "--set",
        "repetitions=1",
        "--set",
        "axes.filesystem=[\"xfs\"]",
        "--set",
        "workloads.tree_size=4M",
        "--set",
        "workloads.writer_space=16M",
        "--set",
        "workloads.ramp=0",
        "--set",
        "workloads.window=100ms",
    ]);
    let said = stderr(&swept, 0);
    assert!(said.starts_with(&format!("xfs on block {node}, 1 repetition; about ")), "{said}");
    assert!(String::from_utf8_lossy(&swept.stdout).contains("quick: fileserver on 4M of trees"), "{swept:?}");
    let stored = sandbox.stored();
    for trial in stored["trials"].as_array().expect("trials") {
        assert_eq!(trial["outcome"], "measured", "{trial}");
    }
    let partition = disk.add_partition(Bytes(Bytes::MIB), Bytes(Bytes::GIB));
    let partitioned = sandbox.run(&["quick", &node, "--destroy", &node]);
    let said = stderr(&partitioned, 3);
    let name = partition.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(said.contains(&name) && said.contains("hint: "), "{said}");
}

fn a_quick_plan_is_saved() {
    let sandbox = Sandbox::new();
    let saved = sandbox.run(&["quick", ".", "--for", "30m", "--save", "mine.toml"]);
    assert!(stderr(&saved, 0).contains("wrote mine.toml"), "{}", describe(&saved));
    let text = fs::read_to_string(sandbox.path("mine.toml")).expect("the plan");
    assert!(text.contains("time_limit = \"30m\"") && text.contains("/fsdyno-quick.img\""), "{text}");
    let planned = sandbox.run(&["plan", "mine.toml"]);
    assert!(String::from_utf8_lossy(&planned.stdout).contains("quick: 3 cases"), "{}", describe(&planned));
    let short = stderr(&sandbox.run(&["quick", ".", "--for", "20s", "--save", "other.toml"]), 2);
    let hint = short.lines().find_map(|line| line.strip_prefix("hint: allow --for "));
    assert!(hint.is_some_and(|time| !time.contains(' ')), "there is no plan to change: {short}");
    let again = sandbox.run(&["quick", ".", "--save", "mine.toml"]);
    assert!(stderr(&again, 2).contains("'mine.toml' exists already"), "{}", describe(&again));
    let refused = |target: &Path, code: i32, why: &str| {
        let target = target.display().to_string();
        let said = stderr(&sandbox.run(&["quick", &target, "--destroy", &target]), code);
        let complete = said.contains(why) && said.contains(&target) && said.contains("hint: ");
        assert!(complete, "{said}");
    };
    refused(&sandbox.path("absent/image"), 2, "No such file or directory");
    refused(&sandbox.path("mine.toml"), 2, "is neither a block device nor a directory");
    refused(Path::new("/dev/absent"), 2, "does not exist");
    refused(Path::new("/dev/null"), 2, "is neither a block device nor a directory");
    refused(&Loop::new(&sandbox, "small.img", 64).node, 2, "has only 64M; quick needs at least 2G");
    let disk = Loop::new(&sandbox, "disk.img", 2048);
    ext4(&disk.node);
    refused(&disk.node, 3, "carries a signature of ext4");
    let _mounted = Mount::new(&sandbox, &disk.node);
    refused(&disk.node, 3, "is mounted on");
}

fn a_time_that_makes_no_sense_is_refused() {
    let sandbox = Sandbox::new();
    let said = |time: &str| stderr(&sandbox.run(&["plan", "demo", "--for", time]), 2);
    assert!(said("0").contains("'0' for '--for <TIME>': no time at all"), "{}", said("0"));
    assert!(said("abc").contains("'abc' is not a valid duration; examples: 15m, 1h"), "{}", said("abc"));
    let short = said("5s");
    assert!(short.starts_with("error: 'demo' does not fit into 5s: 3 repetitions of 6 cases "), "{short}");
    assert!(short.contains("hint: allow --for 2m"), "{short}");
}
