//! The commands of a plan around its trials: what they are told, what becomes of those that misbehave, and
//! that nothing of them is left.

use crate::support::{Requirement, Sandbox, describe, json, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};

const ROOT_AND_LOOP: &[Requirement] = &[Requirement::Root, Requirement::Loop];

tests! {
    commands_of_a_plan_need_permission: &[];
    hooks_are_told_their_trial_and_fail_it: &[];
    hooks_that_misbehave_leave_nothing: &[];
    a_killed_sweep_takes_its_commands_along: &[];
    an_interrupted_hook_ends_and_the_last_one_still_runs: &[];
    monitors_run_in_phases_and_their_files_stay: ROOT_AND_LOOP;
    monitors_that_misbehave_spoil_nothing: &[];
}

/// A plan of quick trials in a directory, with these lines at its top and these hooks.
fn plan(sandbox: &Sandbox, repetitions: u32, top: &str, hooks: &str) -> String {
    fs::create_dir_all(sandbox.path("work")).expect("a directory");
    let text = format!(
        r#"name = "hooked"
repetitions = {repetitions}
telemetry = false
{top}
[hooks]
{hooks}
[device]
directory = "{}"
[[workloads]]
kind = "null"
window = "50ms"
"#,
        sandbox.path("work").display()
    );
    sandbox.write("plan.toml", &text).display().to_string()
}

fn sweep(sandbox: &Sandbox, plan: &str) -> Output {
    sandbox.run(&["sweep", plan, "--allow-hooks", "--format", "json"])
}

/// The trials of a sweep, whatever its exit code.
fn trials(output: &Output) -> Vec<Value> {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(output)));
    document["trials"].as_array().expect("trials").clone()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the number of processes that run `sleep` for this long.
fn sleepers(seconds: &str) -> usize {
    let line = format!("sleep\0{seconds}\0");
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|found| found == line.as_bytes()).count()
}

/// A number of seconds that no other test sleeps for.
fn marked(part: u32) -> String {
    format!("{}.{part}", 100_000 + std::process::id())
}

fn commands_of_a_plan_need_permission() {
    let sandbox = Sandbox::new();
    let marker = sandbox.path("ran");
    let plan = plan(
        &sandbox,
        1,
        "monitor = [\"vmstat 1\"]",
        &format!("before_trial = \"touch {}\"", marker.display()),
    );
    let swept = sandbox.run(&["sweep", &plan]);
    let text = stderr(&swept);
    assert_eq!(swept.status.code(), Some(3), "{}", describe(&swept));
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    for part in ["before_trial: touch ", "monitor: vmstat 1", "hint: ", "--allow-hooks"] {
        assert!(text.contains(part), "{text}");
    }
    let previewed = sandbox.run(&["plan", &plan]);
    assert_eq!(previewed.status.code(), Some(3), "{}", describe(&previewed));
    assert!(
        String::from_utf8_lossy(&previewed.stdout).contains("monitor: vmstat 1"),
        "{}",
        describe(&previewed)
    );
    let allowed = sandbox.run(&["plan", &plan, "--allow-hooks", "--format", "json"]);
    assert!(allowed.status.success(), "{}", describe(&allowed));
    assert_eq!(json(&allowed)["hooks"].as_array().map(Vec::len), Some(2));
    assert!(!marker.exists(), "nothing of it has run");
}

fn hooks_are_told_their_trial_and_fail_it() {
    let sandbox = Sandbox::new();
    let plan = plan(
        &sandbox,
        3,
        "",
        r#"before_trial = "sh -c 'echo $FSDYNO_SWEEP.$FSDYNO_TRIAL $FSDYNO_WORKLOAD; test $FSDYNO_TRIAL != 1'"
before_phase = "sh -c 'echo $FSDYNO_PHASE in $FSDYNO_MOUNTPOINT; test $FSDYNO_TRIAL != 2'"
after_trial = "sh -c 'echo $FSDYNO_OUTCOME $FSDYNO_DEVICE; pwd'""#,
    );
    let swept = sweep(&sandbox, &plan);
    assert_eq!(swept.status.code(), Some(1), "{}", describe(&swept));
    let trials = trials(&swept);
    let outcomes: Vec<&str> = trials.iter().filter_map(|trial| trial["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["measured", "failed", "failed"]);
    let outputs = |trial: &Value| -> Vec<String> {
        let runs = trial["commands"].as_array().expect("commands");
        runs.iter().map(|run| run["output"].as_str().expect("output").to_string()).collect()
    };
    let work = sandbox.path("work").display().to_string();
    let [first, second, third] = [0, 1, 2].map(|trial| outputs(&trials[trial]));
    assert_eq!(first[0], "1.0 null\n");
    assert!(first[1].starts_with("null in ") && first[1].contains(&work), "{first:?}");
    assert_eq!(first[2], format!("measured {work}\n/\n"));
    assert_eq!(second, ["1.1 null\n".to_string(), format!("failed {work}\n/\n")]);
    assert_eq!(third.last(), Some(&format!("failed {work}\n/\n")));
    let error = &trials[1]["error"];
    assert_eq!(error["step"], "before_trial", "{error}");
    assert!(error["message"].as_str().expect("a message").contains("ended with status 1"), "{error}");
    assert_eq!(error["details"], "1.1 null");
    assert_eq!(trials[2]["error"]["step"], "before_phase");
    assert_eq!(fs::read_dir(&work).expect("the directory").count(), 0, "the engine has tidied up");
}

fn hooks_that_misbehave_leave_nothing() {
    let sandbox = Sandbox::new();
    let (daemon, child) = (marked(1), marked(2));
    let plan = plan(
        &sandbox,
        1,
        "",
        &format!(
            r#"timeout = "500ms"
before_trial = "sh -c 'setsid setsid sleep {daemon} & (sleep {child} &) ; echo done'"
before_phase = "sh -c 'trap \"\" TERM INT HUP; setsid sleep {daemon} & yes'"
after_trial = "no-such-thing/at-all""#
        ),
    );
    let swept = sweep(&sandbox, &plan);
    assert_eq!(swept.status.code(), Some(1), "{}", describe(&swept));
    let trials_of = trials(&swept);
    assert_eq!(trials_of[0]["outcome"], "skipped", "{}", trials_of[0]);
    assert!(trials_of[0]["unmet"].to_string().contains("after_trial"), "{}", trials_of[0]);

    let text = fs::read_to_string(&plan).expect("the plan").replace("no-such-thing/at-all", "true");
    fs::write(&plan, text).expect("the plan");
    let swept = sweep(&sandbox, &plan);
    let trial = &trials(&swept)[0];
    assert_eq!(trial["error"]["step"], "before_phase", "{trial}");
    assert!(trial["error"]["message"].to_string().contains("did not end within 500ms"), "{trial}");
    let runs = &trial["commands"];
    // Both sleepers, and perhaps the setsid that has not ended yet.
    let killed =
        ["2", "3"].map(|count| format!("done\n[{count} processes that it had left running killed]\n"));
    assert!(killed.iter().any(|text| runs[0]["output"] == **text), "{}", runs[0]["output"]);
    assert!(runs[1]["output"].as_str().is_some_and(|said| said.len() < 66_000), "{}", runs[1]["failure"]);
    assert_eq!((runs[2]["kind"].as_str(), runs[2]["failure"].as_str()), (Some("after_trial"), None));
    assert_eq!(sleepers(&daemon) + sleepers(&child), 0);
}

/// Starts a sweep, and waits until its hook has.
fn started(sandbox: &Sandbox, plan: &str, seconds: &str, count: usize) -> Child {
    let mut sweep = sandbox.fsdyno(&["sweep", plan, "--allow-hooks"]);
    let child = sweep.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start a sweep");
    wait_until("the hook has started", || sleepers(seconds) == count);
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

fn a_killed_sweep_takes_its_commands_along() {
    let sandbox = Sandbox::new();
    let seconds = marked(3);
    let hook = format!("before_trial = \"sh -c 'setsid sleep {seconds} & sleep {seconds}'\"");
    let plan = plan(&sandbox, 1, "", &hook);
    let mut child = started(&sandbox, &plan, &seconds, 2);
    send(&child, Signal::KILL);
    child.wait().expect("its end");
    wait_until("everything is gone", || sleepers(&seconds) == 0);
}

fn an_interrupted_hook_ends_and_the_last_one_still_runs() {
    let sandbox = Sandbox::new();
    let (seconds, marker) = (marked(4), sandbox.path("after"));
    let hooks = format!("before_trial = \"sleep {seconds}\"\nafter_trial = \"touch {}\"", marker.display());
    let plan = plan(&sandbox, 1, "", &hooks);
    let mut child = started(&sandbox, &plan, &seconds, 1);
    send(&child, Signal::INT);
    assert_eq!(child.wait().expect("its end").code(), Some(130));
    assert!(marker.exists());
    assert_eq!(sleepers(&seconds), 0);
}

/// A monitor that writes a word at its start and at its end.
const MONITOR: &str = r#"sh -c 'trap \"echo bye >> {out}; exit\" INT; echo $FSDYNO_PHASE >{out}; echo said; while :; do sleep .01; done'"#;

fn monitors_run_in_phases_and_their_files_stay() {
    let sandbox = Sandbox::new();
    let text = format!(
        r#"name = "watched"
monitor = ["{MONITOR}"]
[hooks]
before_phase = "sh -c 'test -b $FSDYNO_DEVICE && mountpoint -q $FSDYNO_MOUNTPOINT'"
[device]
image = "{}"
size = "64M"
[axes]
filesystem = "ext4"
[[workloads]]
kind = "fileserver"
tree_size = "1M"
readers = 1
writers = 1
writer_space = "8M"
ramp = "20ms"
window = "100ms"
"#,
        sandbox.path("x.img").display()
    );
    let plan = sandbox.write("plan.toml", &text).display().to_string();
    let swept = sweep(&sandbox, &plan);
    assert!(swept.status.success(), "{}", describe(&swept));
    let trial = &trials(&swept)[0];
    let phases = trial["phases"].as_array().expect("phases");
    let runs = trial["commands"].as_array().expect("commands");
    let monitors: Vec<&Value> = runs.iter().filter(|run| run["kind"] == "monitor").collect();
    assert_eq!((monitors.len(), runs.len()), (phases.len(), 2 * phases.len()), "{trial}");
    for (number, (monitor, phase)) in (1..).zip(monitors.iter().zip(phases)) {
        let directory = Path::new(monitor["files"].as_str().expect("a directory"));
        let file = directory.join(format!("phase{number}-monitor1-sh"));
        let name = phase["name"].as_str().expect("a name");
        assert_eq!(fs::read_to_string(&file).expect("its file"), format!("{name}\nbye\n"));
        assert_eq!((&monitor["output"], &monitor["failure"]), (&"said\n".into(), &Value::Null));
        // It runs from before the ramp until after the window.
        let window = phase["ramp_ns"].as_u64().zip(phase["window_ns"].as_u64()).expect("times");
        assert!(monitor["took_ns"].as_u64().is_some_and(|took| took > window.0 + window.1), "{monitor}");
    }
    assert!(trial["warnings"].to_string().contains("\"monitored\""), "{trial}");
    let log = sandbox.run(&["show", "--log"]);
    let files = sandbox.path("state/fsdyno/results.db.files/1/0");
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(log.contains(&format!("files in {}", files.display())) && log.contains("| said"), "{log}");
    let packed = sandbox.run(&["pack", "1", "sweep.fsdyno"]);
    assert!(stderr(&packed).contains("not packed"), "{}", describe(&packed));
    let deleted = sandbox.run(&["delete", "1", "--yes"]);
    assert!(deleted.status.success() && !files.parent().is_some_and(Path::exists), "{}", describe(&deleted));
}

fn monitors_that_misbehave_spoil_nothing() {
    let sandbox = Sandbox::new();
    let decoy = sandbox.write("decoy", "whole");
    let seconds = marked(5);
    let links = format!("sh -c 'ln -s {} {{out}}; sleep {seconds}'", decoy.display());
    let top = format!(
        r#"monitor = ["{links}", "sh -c 'rm -rf $(dirname {{out}}); yes'", "false", "sh -c 'setsid sleep {seconds} & wait'"]"#
    );
    let plan = plan(&sandbox, 1, &top, "");
    let swept = sweep(&sandbox, &plan);
    assert!(swept.status.success(), "{}", describe(&swept));
    let trial = &trials(&swept)[0];
    assert_eq!(trial["outcome"], "measured", "{trial}");
    let warnings = trial["warnings"].to_string();
    assert!(warnings.contains("'false' ended with status 1 before its phase did"), "{warnings}");
    assert_eq!(fs::read_to_string(decoy).expect("the decoy"), "whole");
    assert_eq!(sleepers(&seconds), 0);
}
