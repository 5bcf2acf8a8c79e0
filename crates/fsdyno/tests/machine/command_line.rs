//! The built binary as a user runs it: exit codes, errors, interrupting and resuming.

use crate::support::{NOBODY, Requirement, Sandbox, describe, json};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

const ON_IMAGES: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::OwnImages];

tests! {
    bad_plans_get_one_clear_error: &[];
    bench_needs_no_root_and_tidies_up: &[Requirement::Root];
    an_interrupted_bench_tidies_up: &[];
    an_interrupted_sweep_is_undone_and_can_resume: ON_IMAGES;
    a_second_sweep_is_refused_by_the_name_of_the_first: ON_IMAGES;
    a_full_device_fails_its_trial_only: ON_IMAGES;
    a_profile_shapes_the_trees_of_a_plan: &[];
    a_closed_pipe_is_not_an_error: &[];
    a_reader_that_stops_reading_stops_nothing: &[];
}

/// A plan of two quick trials on an image in the sandbox.
fn plan(sandbox: &Sandbox) -> String {
    format!(
        r#"name = "quick"
repetitions = 2
seed = 3
[device]
image = "{}"
size = "256M"
[axes]
filesystem = ["ext4"]
scheduler = ["mq-deadline", "none"]
[[workloads]]
kind = "fileserver"
write_rate = "closed"
tree_size = "8M"
readers = 1
writers = 1
writer_space = "32M"
ramp = "50ms"
window = "200ms"
"#,
        sandbox.path("quick.img").display()
    )
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn bad_plans_get_one_clear_error() {
    let sandbox = Sandbox::new();
    let good = plan(&sandbox);
    // The text to replace, its replacement, and what the error must contain.
    let cases: &[(&str, &str, &[&str])] = &[
        ("scheduler =", "schedular =", &["plan.toml:9:1", "schedular", "did you mean 'scheduler'"]),
        (
            "\"mq-deadline\"",
            "\"mq-dedline\"",
            &["plan.toml:9:14", "mq-dedline", "did you mean 'mq-deadline'"],
        ),
        ("\"ext4\"", "\"ext5\"", &["plan.toml:8:15", "ext5", "ext"]),
        ("\"256M\"", "\"256 potatoes\"", &["plan.toml:6:8", "256 potatoes", "64M"]),
        ("\"200ms\"", "\"3 parsecs\"", &["plan.toml:", "3 parsecs", "500ms"]),
        ("kind = \"fileserver\"", "kind = \"fileserve\"", &["plan.toml:11:8", "did you mean 'fileserver'"]),
        ("readers =", "raeders =", &["plan.toml:14:1", "did you mean 'readers'"]),
        ("[axes]", "[axes]\ndata = [\"journal\"]\ndelalloc = [1]", &["contradicts itself"]),
        ("[axes]", "[axes]\njournal = [\"external\"]", &["plan.toml:", "[device.journals]"]),
        ("name = \"quick\"", "name = \"quick", &["plan.toml:1:"]),
    ];
    for (old, new, expected) in cases {
        let text = good.replacen(old, new, 1);
        assert_ne!(text, good, "{old} is not in the plan");
        sandbox.write("plan.toml", &text);
        refused_as_usage(&sandbox.run(&["sweep", "plan.toml"]), expected);
    }

    sandbox.write("plan.toml", &good[..good.find("[device]").expect("a device")]);
    refused_as_usage(&sandbox.run(&["sweep", "plan.toml"]), &["plan.toml", "device", "hint: "]);

    // Ten million cases are counted, but not created.
    let counts: Vec<String> = (1..=3200).map(|number| number.to_string()).collect();
    let axes = format!("[axes]\nnr_requests = [{0}]\ncommit = [{0}]", counts.join(", "));
    sandbox.write("plan.toml", &good.replacen("[axes]", &axes, 1));
    refused_as_usage(&sandbox.run(&["sweep", "plan.toml"]), &["20480000 cases", "hint: "]);

    sandbox.write("plan.toml", &good);
    refused_as_usage(
        &sandbox.run(&["plan", "plan.toml", "--set", "device.size"]),
        &["--set 'device.size'", "PATH=VALUE"],
    );
    refused_as_usage(&sandbox.run(&["sweep", "absent.toml"]), &["absent.toml"]);
    refused_as_usage(&sandbox.run(&["show"]), &["hint"]);
    refused_as_usage(&sandbox.run(&["bench", "absent"]), &["absent"]);
    assert!(!sandbox.path("quick.img").exists());
}

/// One error, exit code 2, nothing on stdout.
fn refused_as_usage(output: &Output, expected: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{}", describe(output));
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    assert!(output.stdout.is_empty() && !text.contains("panicked"), "{}", describe(output));
    for part in expected {
        assert!(text.contains(part), "'{part}' is not in\n{text}");
    }
}

const QUICK_BENCH: &[&str] =
    &["--tree-size", "8M", "--ramp", "50ms", "--window", "200ms", "--format", "json"];

fn bench_needs_no_root_and_tidies_up() {
    let sandbox = Sandbox::new();
    let binary = sandbox.give_away(&["", "state", "work"]);
    let output = Command::new(&binary)
        .arg("bench")
        .arg(sandbox.path("work"))
        .args(QUICK_BENCH)
        .args(["--set", "writer_space=8M"])
        .env("XDG_STATE_HOME", sandbox.path("state"))
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("run fsdyno");
    assert!(output.status.success(), "{}", describe(&output));
    let document = json(&output);
    let trial = &document["trials"][0];
    assert_eq!(trial["outcome"], "measured", "{}", describe(&output));
    assert_eq!(trial["phases"].as_array().map(Vec::len), Some(3));
    let warnings = trial["warnings"].to_string();
    assert!(warnings.contains("caches-not-dropped"), "{warnings}");
    assert!(trial["lifecycle_ns"]["umount"].is_null(), "a directory stays mounted: {trial}");
    let options = trial["configuration"]["mount_options_in_force"].as_str().expect("options");
    assert_eq!(options.split(',').filter(|option| *option == "rw").count(), 1, "{options}");
    assert_eq!(fs::read_dir(sandbox.path("work")).expect("the directory").count(), 0);
}

fn an_interrupted_bench_tidies_up() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let mut child = sandbox
        .fsdyno(&["bench", "work", "--tree-size", "8M", "--ramp", "0s", "--window", "1h"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start a bench");
    while fs::read_dir(sandbox.path("work")).expect("the directory").count() == 0 {
        assert!(child.try_wait().expect("look at it").is_none(), "the bench ended early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    interrupt(&child);
    assert_eq!(child.wait().expect("its end").code(), Some(130));
    assert_eq!(fs::read_dir(sandbox.path("work")).expect("the directory").count(), 0);
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).expect("send SIGINT");
}

fn an_interrupted_sweep_is_undone_and_can_resume() {
    let sandbox = Sandbox::new();
    sandbox.write("plan.toml", &plan(&sandbox));
    let mut child = sandbox
        .fsdyno(&["sweep", "plan.toml", "--set", "seed=9"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start a sweep");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("readable");
    assert!(first.starts_with("trial 1 of 6: ") && first.contains("measured"), "{first}");
    interrupt(&child);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("its end").code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("--resume")), "{rest:?}");
    assert!(!sandbox.path("quick.img").exists());
    let shown = sandbox.run(&["show", "1", "--format", "json"]);
    let notes = stderr(&shown);
    assert!(notes.contains("was interrupted after") && notes.contains("--resume 1 continues it"), "{notes}");
    let shown = &json(&shown)["sweep"];
    assert!(shown["started"].is_string() && shown["finished"].is_null(), "{shown:#}");

    let stored = sandbox.stored()["trials"].as_array().map_or(0, Vec::len);
    assert!((1..6).contains(&stored), "{stored} trials were stored");
    // It is not what `latest` means.
    let shown = sandbox.run(&["show"]);
    refused_as_usage(
        &shown,
        &["no finished sweep with results", "sweep 1 ('quick') was interrupted after", "show 1"],
    );

    let other = sandbox.run(&["sweep", "plan.toml", "--resume", "--set", "seed=4"]);
    refused_as_usage(&other, &["sweep 1 ('quick') was started with --set 'seed=9'", "omit --set"]);

    // Of another plan, one was interrupted later; and one of this plan without the changes is finished.
    sandbox.write("other.toml", &plan(&sandbox).replace("\"quick\"", "\"other\""));
    let absent = sandbox.run(&["sweep", "other.toml", "--resume"]);
    refused_as_usage(&absent, &["no interrupted sweep of this plan is stored", "fsdyno list"]);

    let resumed = sandbox.run(&["sweep", "plan.toml", "--resume", "--format", "json"]);
    assert!(stderr(&resumed).contains("resuming sweep 1 ('quick', begun 2"), "{}", describe(&resumed));
    assert!(stderr(&resumed).contains("with --set seed=9)"), "{}", describe(&resumed));
    assert!(resumed.status.success(), "{}", describe(&resumed));
    let document = json(&resumed);
    let mut numbers: Vec<u64> = document["trials"]
        .as_array()
        .expect("trials")
        .iter()
        .filter_map(|trial| trial["trial"].as_u64())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    let run_again = stderr(&resumed).matches(": measured").count();
    assert_eq!(run_again, 6 - stored, "{}", describe(&resumed));
    let over = sandbox.run(&["sweep", "plan.toml", "--resume"]);
    refused_as_usage(&over, &["no interrupted sweep of this plan", "sweep 1 ('quick'), is finished"]);
}

fn a_second_sweep_is_refused_by_the_name_of_the_first() {
    let sandbox = Sandbox::new();
    sandbox.write("plan.toml", &plan(&sandbox));
    let mut first = sandbox
        .fsdyno(&["sweep", "plan.toml", "--set", "workloads.window=1h"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start a sweep");
    while !sandbox.path("quick.img").exists() {
        assert!(first.try_wait().expect("look at it").is_none(), "the sweep ended early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let process = "sweep 1 ('quick', since 2";
    let id = format!("in process {}", first.id());
    for arguments in [&["sweep", "plan.toml"][..], &["bench", ".", "--tree-size", "8M"]] {
        let second = sandbox.run(arguments);
        let text = stderr(&second);
        assert_eq!(second.status.code(), Some(3), "{}", describe(&second));
        assert!(text.contains(process) && text.contains(&id) && text.contains("kill -INT"), "{text}");
        assert!(!text.contains("remove the file"), "{text}");
    }
    // From another state directory nothing is known of the first, but its image is in use.
    let apart = sandbox.run(&["sweep", "plan.toml", "--state", &sandbox.path("apart").display().to_string()]);
    let text = stderr(&apart);
    assert_eq!(apart.status.code(), Some(3), "{}", describe(&apart));
    assert!(text.contains("already exists and is in use: '/dev/loop") && !text.contains("remove"), "{text}");
    assert!(sandbox.path("quick.img").exists());
    interrupt(&first);
    assert_eq!(first.wait().expect("its end").code(), Some(130));
}

fn a_full_device_fails_its_trial_only() {
    let sandbox = Sandbox::new();
    let text = plan(&sandbox)
        .replace("repetitions = 2", "repetitions = 1")
        .replace(", \"none\"", "")
        .replace("256M", "48M")
        .replace("writer_space = \"32M\"", "writer_space = \"8M\"")
        // Inode tables leave so little room that the writers need not have used up theirs at the same moment.
        .replace("[axes]", "[axes]\nmkfs = \"-b 1024 -i 1024\"")
        + "[[workloads]]\nkind = \"fileserver\"\ntree_size = \"4M\"\nreaders = 1\nwriters = 2\n\
            writer_space = \"21M\"\nramp = \"0s\"\nwindow = \"1h\"\n";
    sandbox.write("plan.toml", &text);
    let output = sandbox.run(&["sweep", "plan.toml", "--set", "workloads.1.window=4s", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let document = json(&output);
    let trials = document["trials"].as_array().expect("trials");
    let outcomes = |word: &str| trials.iter().filter(|trial| trial["outcome"] == word).count();
    assert_eq!((outcomes("measured"), outcomes("failed")), (trials.len() - 1, 1), "{}", describe(&output));
    let failed = trials.iter().find(|trial| trial["outcome"] == "failed").expect("counted above");
    let error = &failed["error"];
    assert_eq!(error["errno"], 28, "{error}");
    assert!(
        ["openat", "write first byte", "write", "mkdirat"]
            .contains(&error["operation"].as_str().unwrap_or_default())
    );
    assert!(error["path"].as_str().is_some_and(|path| path.contains("new-")), "{error}");
    assert_eq!(failed["phases"].as_array().map(Vec::len), Some(1), "the phase before the failure is kept");
}

fn a_profile_shapes_the_trees_of_a_plan() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("real/sub")).expect("directories");
    for number in 0..40 {
        sandbox.write(&format!("real/sub/file-{number}"), &"x".repeat(1000 + number));
    }
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let profiled = sandbox.run(&["profile", "real", "-o", "real.json"]);
    assert!(profiled.status.success(), "{}", describe(&profiled));
    let profile: Value =
        serde_json::from_slice(&fs::read(sandbox.path("real.json")).expect("a profile")).expect("JSON");
    assert_eq!((profile["files"].as_u64(), profile["directories"].as_u64()), (Some(40), Some(2)));

    let tree = format!("tree=profile:{}", sandbox.path("real.json").display());
    let mut arguments = vec!["bench", "work", "--set", &tree];
    arguments.extend(QUICK_BENCH);
    let output = sandbox.run(&arguments);
    assert!(output.status.success(), "{}", describe(&output));
    let trees = &json(&output)["trials"][0]["trees"];
    let mean = trees["bytes"].as_f64().expect("bytes") / trees["files"].as_f64().expect("files");
    assert!((1000.0..1100.0).contains(&mean), "{trees}");
}

fn a_closed_pipe_is_not_an_error() {
    let mut child = Sandbox::new()
        .fsdyno(&["doctor"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start fsdyno");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", describe(&output));
}

/// As behind `| less` or a supervisor that hangs: the pipe is full.
fn a_reader_that_stops_reading_stops_nothing() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK).expect("a pipe");
    while rustix::io::write(&write, &[b'x'; 4096]).is_ok() {}
    // It is the file that blocks or not, whoever has it open.
    rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::empty()).expect("a blocking pipe");
    let arguments = [&["bench", "work"][..], QUICK_BENCH].concat();
    let status = sandbox.fsdyno(&arguments).stderr(write).stdout(Stdio::null()).status().expect("its end");
    assert_eq!(status.code(), Some(0));
    drop(read);
}
