//! Whole runs of the built binary on devices and filesystems that fail, hang, or block one worker: the error
//! is reported, the rest of a sweep continues, and the machine can be restored.

use crate::support::sick::{Asked, Behaviour, Kind, Treatment, mount};
use crate::support::{PATIENCE, Requirement, Sandbox, describe, json};
use fuser::Errno;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

const FUSE: &[Requirement] = &[Requirement::Root, Requirement::Fuse];
const FUSE_AND_LOOP: &[Requirement] = &[Requirement::Root, Requirement::Fuse, Requirement::Loop];
const FUSE_LOOP_AND_XFS: &[Requirement] = &[
    Requirement::Root,
    Requirement::Fuse,
    Requirement::Loop,
    Requirement::Program("mkfs.xfs"),
    Requirement::Filesystem("xfs"),
];

tests! {
    an_error_of_a_filesystem_fails_the_bench_with_its_errno: FUSE;
    errors_of_a_device_fail_their_trial_only: FUSE_AND_LOOP;
    a_device_that_hangs_costs_its_trial_only: &[Requirement::All(FUSE_LOOP_AND_XFS), Requirement::Soak];
    a_write_over_both_edges_of_the_window_is_reported: FUSE;
}

const BENCH: &[&str] =
    &["--tree-size", "8M", "--set", "writer_space=32M", "--ramp", "50ms", "--window", "200ms"];

fn an_error_of_a_filesystem_fails_the_bench_with_its_errno() {
    // Phases that are not affected are kept: 1 reader in tree 0; 3 readers in trees 1 to 3; then the writers.
    let cases: &[(Kind, &str, &[&str], usize)] = &[
        (Kind::Read, "tree-0", &["read first byte", "read"], 0),
        (Kind::Read, "tree-2", &["read first byte", "read"], 1),
        (Kind::Write, "new-1", &["write first byte", "write"], 2),
        (Kind::Create, "new-0", &["openat"], 2),
    ];
    for (kind, directory, operations, phases) in cases {
        let sandbox = Sandbox::new();
        let behaviour = Behaviour::healthy();
        let _sick = mount(&sandbox.path("sick"), &behaviour);
        fs::create_dir(sandbox.path("sick/work")).expect("a directory");
        behaviour.treat(|asked| {
            match asked.kind == *kind && asked.path.iter().any(|name| name == *directory) {
                true => Treatment::Fails(Errno::EIO),
                false => Treatment::Healthy,
            }
        });
        let output = sandbox.run(&[&["bench", "sick/work", "--format", "json"], BENCH].concat());
        assert_eq!(output.status.code(), Some(1), "{kind:?} {directory}: {}", describe(&output));
        let trial = &json(&output)["trials"][0];
        assert_eq!(trial["outcome"], "failed", "{}", describe(&output));
        let error = &trial["error"];
        assert_eq!(error["errno"], 5, "{kind:?} {directory}: {error}");
        assert!(
            operations.iter().any(|operation| error["operation"] == *operation),
            "{kind:?} {directory}: {error}"
        );
        assert!(error["path"].as_str().is_some_and(|path| path.starts_with(directory)), "{error}");
        assert_eq!(trial["phases"].as_array().map(Vec::len), Some(*phases), "{}", describe(&output));
        assert_eq!(fs::read_dir(sandbox.path("sick/work")).expect("the directory").count(), 0);
    }
}

/// A plan of three quick trials, the sentinel and one of each scheduler, on an image in the sick filesystem.
fn plan(sandbox: &Sandbox, filesystem: &str, size: &str) -> String {
    format!(
        r#"name = "sick"
repetitions = 1
seed = 5
watchdog = "3s"
[device]
image = "{}"
size = "{size}"
[axes]
filesystem = ["{filesystem}"]
scheduler = ["mq-deadline", "bfq"]
[[workloads]]
kind = "fileserver"
tree_size = "8M"
readers = 1
writers = 1
writer_space = "8M"
ramp = "50ms"
window = "200ms"
"#,
        image(sandbox).display()
    )
}

fn image(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("sick/scratch.img")
}

/// Returns whether a request changes the image once its filesystem is mounted.
fn changes(asked: &Asked<'_>, image: &Path) -> bool {
    matches!(asked.kind, Kind::Write | Kind::Fsync | Kind::Fallocate)
        && image.file_name().is_some_and(|name| asked.path == Path::new(name))
        && is_mounted(image)
}

fn is_mounted(image: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let attached = blocks.filter(|block| {
        let file = fs::read_to_string(block.path().join("loop/backing_file"));
        file.is_ok_and(|path| Path::new(path.trim_end()) == image)
    });
    let names: Vec<String> =
        attached.map(|block| format!(" /dev/{} ", block.file_name().to_string_lossy())).collect();
    names.iter().any(|name| mounts.contains(name))
}

fn errors_of_a_device_fail_their_trial_only() {
    for (filesystem, size) in [("ext4", "128M"), ("ext2", "128M")] {
        let sandbox = Sandbox::new();
        let behaviour = Behaviour::healthy();
        let _sick = mount(&sandbox.path("sick"), &behaviour);
        let plan = sandbox.write("plan.toml", &plan(&sandbox, filesystem, size)).display().to_string();
        let image = image(&sandbox);
        behaviour.treat(move |asked| match asked.predecessors == 1 && changes(asked, &image) {
            true => Treatment::Fails(Errno::EIO),
            false => Treatment::Healthy,
        });
        let output = sandbox.run(&["sweep", &plan, "--format", "json"]);
        assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
        let document = json(&output);
        let trials = document["trials"].as_array().expect("trials");
        let outcomes: Vec<&Value> = trials.iter().map(|trial| &trial["outcome"]).collect();
        assert_eq!(outcomes, ["measured", "failed", "measured"], "{}", describe(&output));
        let error = &trials[1]["error"];
        assert_eq!(error["errno"], 5, "{error}");
        assert!(error["step"].as_str().is_some_and(|step| !step.is_empty()), "{error}");
    }
}

/// Long enough for everything that has a limit, but shorter than the kernel's limit for hung tasks (120 s).
const ON_TIME: Duration = Duration::from_secs(100);

fn a_device_that_hangs_costs_its_trial_only() {
    let sandbox = Sandbox::new();
    let behaviour = Behaviour::healthy();
    let sick = mount(&sandbox.path("sick"), &behaviour);
    let _aftercare = Aftercare { sandbox: &sandbox, behaviour: &behaviour };
    let plan = sandbox.write("plan.toml", &plan(&sandbox, "xfs", "320M")).display().to_string();
    let path = image(&sandbox);
    // The first trial of the block, not the sentinel, so that the next trial has the same seed.
    behaviour.treat(move |asked| match asked.predecessors == 1 && changes(asked, &path) {
        true => Treatment::Held,
        false => Treatment::Healthy,
    });

    let output = thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        let behaviour = &behaviour;
        scope.spawn(move || {
            if end.recv_timeout(ON_TIME) == Err(RecvTimeoutError::Timeout) {
                behaviour.release();
            }
        });
        let output = sandbox.run(&["sweep", &plan, "--format", "json"]);
        drop(ended);
        output
    });
    assert!(
        behaviour.held() > 0,
        "the sweep ended only after its device had recovered: {}",
        describe(&output)
    );
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let document = json(&output);
    let trials = document["trials"].as_array().expect("trials");
    let outcomes: Vec<&Value> = trials.iter().map(|trial| &trial["outcome"]).collect();
    assert_eq!(outcomes, ["measured", "failed", "measured"], "{}", describe(&output));
    let said = trials[1]["error"]["details"].as_str().unwrap_or_default();
    for left in ["engine process ", "mount '", "loop device on '", "file '"] {
        assert!(said.contains(left), "expected {left} in {said}");
    }
    assert!(
        trials[1]["error"]["message"].as_str().is_some_and(|text| text.contains("no progress")),
        "{}",
        trials[1]["error"]
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("left behind: engine process ") && said.contains("left behind: mount '"), "{said}");
    let device = |trial: &Value| trial["configuration"]["device"]["image"]["path"].clone();
    let beside = format!("{}.1", image(&sandbox).display());
    assert_eq!(
        (device(&trials[1]), device(&trials[2])),
        (image(&sandbox).display().to_string().into(), beside.into())
    );
    let stuck = sandbox.run(&["list"]);
    assert!(stuck.status.success(), "the store is usable while the device hangs: {}", describe(&stuck));

    behaviour.release();
    let restored = restore(&sandbox);
    assert!(restored.status.success(), "{}", describe(&restored));
    assert_eq!(fs::read_dir(sandbox.path("sick")).expect("the sick filesystem").count(), 0);
    drop(sick);
}

/// Processes that hung may take a moment to end once they are released.
fn restore(sandbox: &Sandbox) -> Output {
    const ATTEMPTS: u32 = 10;
    let mut output = sandbox.run(&["restore"]);
    for _ in 1..ATTEMPTS {
        if output.status.success() {
            break;
        }
        thread::sleep(Duration::from_secs(1));
        output = sandbox.run(&["restore"]);
    }
    output
}

/// Restores the machine even if the test fails.
struct Aftercare<'a> {
    sandbox: &'a Sandbox,
    behaviour: &'a Arc<Behaviour>,
}

impl Drop for Aftercare<'_> {
    fn drop(&mut self) {
        self.behaviour.release();
        restore(self.sandbox);
    }
}

fn a_write_over_both_edges_of_the_window_is_reported() {
    const RAMP: Duration = Duration::from_millis(1000);
    const WINDOW: Duration = Duration::from_millis(1500);
    const DRAIN: Duration = Duration::from_millis(500);
    let millis = |duration: Duration| format!("{}ms", duration.as_millis());
    let sandbox = Sandbox::new();
    let behaviour = Behaviour::healthy();
    let _sick = mount(&sandbox.path("sick"), &behaviour);
    fs::create_dir(sandbox.path("sick/work")).expect("a directory");
    let (holds, held) = channel();
    let over = holds.clone();
    behaviour.treat(move |asked| {
        match asked.kind == Kind::Write && asked.path.iter().any(|name| name == "new-1") {
            true => {
                let _ = holds.send(());
                Treatment::Held
            }
            false => Treatment::Healthy,
        }
    });
    let drain = format!("drain_limit={}", millis(DRAIN));
    let (output, released) = thread::scope(|scope| {
        let behaviour = &behaviour;
        let releases = scope.spawn(move || {
            let _ = held.recv_timeout(PATIENCE);
            // Twice as long as all that it must cover, which began before. What cleans up meanwhile waits.
            let _ = held.recv_timeout(2 * (RAMP + WINDOW + DRAIN));
            behaviour.release()
        });
        let (ramp, window) = (millis(RAMP), millis(WINDOW));
        let arguments = ["bench", "sick/work", "--tree-size", "8M", "--ramp", &ramp, "--window", &window];
        let output = sandbox.run(&[&arguments[..], &["--set", "writer_space=32M", "--set", &drain]].concat());
        // A run that fails before need not be waited for.
        let _ = over.send(());
        (output, releases.join().expect("no panic"))
    });
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    assert_eq!(released, 1, "one write hangs, and its worker has no other request: {}", describe(&output));
    assert_eq!(fs::read_dir(sandbox.path("sick/work")).expect("the directory").count(), 0);

    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("\ndoubt: censored in 1 of 1 trial: "), "{text}");
    let text = String::from_utf8_lossy(&sandbox.run(&["show", "--full"]).stdout).into_owned();
    assert!(text.contains("writer 1: 0 completed, 1 operation >= 1.5 s (write first byte, >= "), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("write first byte") && line.ends_with(">=1.50s")),
        "{text}"
    );

    let document = json(&sandbox.run(&["show", "--format", "json"]));
    let phase = &document["trials"][0]["phases"][2];
    let roles = phase["roles"].as_array().expect("roles");
    let writer = roles.iter().find(|role| role["role"] == "writer").expect("writers");
    let worker = &writer["worker_results"][1];
    assert_eq!((&worker["completed"], &worker["spanning"]), (&Value::from(0), &Value::from(1)), "{worker}");
    let stall_ns = writer["longest_stall_ns"].as_u64().expect("a stall");
    assert_eq!(worker["longest_stall_ns"], stall_ns, "{worker}");
    let drain_ns = phase["drain_ns"].as_u64().expect("a drain");
    assert!(u128::from(drain_ns) >= DRAIN.as_nanos(), "{drain_ns}");
    let known = WINDOW + DRAIN..=RAMP + WINDOW + Duration::from_nanos(drain_ns);
    assert!(known.contains(&Duration::from_nanos(stall_ns)), "all of it that is known: {worker}");
    assert!(text.contains("3 writers: longest stall >= "), "{text}");
    assert_eq!(worker["unfinished"]["at_least"], true, "{worker}");
    assert!(
        writer["worker_results"][0]["completed"].as_u64() > Some(0),
        "the other writers are not affected: {writer}"
    );
}
