//! SIGKILL at moments spread over a whole sweep: `fsdyno restore` undoes all changes, and the store
//! contains every trial that was reported as finished.

use crate::support::disk::run;
use crate::support::{MAKING_FILESYSTEMS, Machine, Requirement, Sandbox, describe, unmount, wait_for};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The number of times that the sweep is killed.
const KILLS: u32 = 10;

/// Changes everything that the testbed can change, in about two seconds: scheduler, readahead, a sysctl, two
/// images. Those without an external journal have one image only.
const PLAN: &str = r#"
name = "killed"
repetitions = 1
seed = 7

[device]
image = "IMAGE"
size = "512M"
[device.journals]
side = { image = "JOURNAL", size = "64M" }

[axes]
filesystem = ["ext4", "xfs", "btrfs"]
scheduler = ["bfq"]
readahead = ["256k"]
"sysctl.vm.dirty_ratio" = ["11"]
[axes.ext4]
journal = ["external"]

[[workloads]]
kind = "fileserver"
tree_size = "8M"
readers = 1
writers = 1
writer_space = "16M"
ramp = "20ms"
window = "80ms"
"#;

tests! {
    a_killed_sweep_is_restored_and_keeps_its_finished_trials: &[
        Requirement::All(MAKING_FILESYSTEMS),
        Requirement::NoRecorder,
    ];
    what_is_mounted_over_a_killed_trial_is_left_alone: &[Requirement::All(MAKING_FILESYSTEMS)];
}

fn a_killed_sweep_is_restored_and_keeps_its_finished_trials() {
    let sandbox = Sandbox::new();
    let text = PLAN
        .replace("IMAGE", &sandbox.path("data.img").display().to_string())
        .replace("JOURNAL", &sandbox.path("journal.img").display().to_string());
    let plan = sandbox.write("plan.toml", &text).display().to_string();

    let started = Instant::now();
    let whole = sandbox.run(&["sweep", &plan]);
    assert!(whole.status.success(), "{}", describe(&whole));
    let duration = started.elapsed();

    let untouched = Machine::look();
    let mut interrupted = 0;
    for kill in 0..KILLS {
        // 17 and 10 have no common divisor, so every tenth of the sweep is hit once, in mixed order.
        let share = (f64::from(kill * 17 % KILLS) + 0.5) / f64::from(KILLS);
        let reported = kill_after(&sandbox, &plan, duration.mul_f64(share));
        interrupted += u32::from(reported.killed);

        let restore = sandbox.run(&["restore"]);
        assert!(restore.status.success(), "kill {kill} at {share:.2}: {}", describe(&restore));
        let difference = untouched.difference(&Machine::look());
        assert!(
            difference.is_empty(),
            "kill {kill} at {share:.2} left {difference:?}\n{}",
            describe(&restore)
        );
        let strays = strays(&sandbox);
        assert!(strays.is_empty(), "kill {kill} at {share:.2} left {strays:?}\n{}", describe(&restore));

        if !reported.finished.is_empty() {
            let stored = stored_trials(&sandbox);
            assert!(
                reported.finished.is_subset(&stored),
                "kill {kill}: reported as finished {:?}, stored {stored:?}",
                reported.finished
            );
        }
    }
    assert!(
        interrupted > KILLS / 2,
        "only {interrupted} of {KILLS} sweeps were still running when they were killed"
    );
}

fn what_is_mounted_over_a_killed_trial_is_left_alone() {
    let sandbox = Sandbox::new();
    let plan = PLAN
        .replace("IMAGE", &sandbox.path("data.img").display().to_string())
        .replace("JOURNAL", &sandbox.path("journal.img").display().to_string())
        .replace("80ms", "600s");
    sandbox.write("plan.toml", &plan);
    let mut sweep = sandbox.fsdyno(&["sweep", "plan.toml"]);
    let mut sweep = sweep.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start a sweep");
    let target = wait_for(|| mounted_from(&sandbox), || "nothing was ever mounted".to_string());
    sweep.kill().expect("kill the sweep");
    sweep.wait().expect("reap the sweep");

    run(Command::new("mount").args(["-t", "tmpfs", "theirs", &target]));
    let precious = Path::new(&target).join("precious");
    fs::write(&precious, "theirs").expect("a file of somebody else");
    let refused = sandbox.run(&["restore"]);
    let kept = fs::read_to_string(&precious);
    unmount(Path::new(&target));
    let restored = sandbox.run(&["restore"]);

    assert_eq!(kept.expect("theirs"), "theirs");
    assert_eq!(refused.status.code(), Some(4), "{}", describe(&refused));
    assert!(describe(&refused).contains("tmpfs of 'theirs' was mounted over it"), "{}", describe(&refused));
    assert_eq!(restored.status.code(), Some(0), "{}", describe(&restored));
    assert_eq!(strays(&sandbox), [""; 0]);
}

/// Where a trial of this sandbox is mounted, as its undo journal has it and the kernel shows it.
fn mounted_from(sandbox: &Sandbox) -> Option<String> {
    let undo = sandbox.path("state/fsdyno/undo");
    let journals = fs::read_dir(undo).ok()?.flatten();
    let text: String = journals.filter_map(|journal| fs::read_to_string(journal.path()).ok()).collect();
    let (_, target) = text.split_once(r#"{"undo":"unmount","target":""#)?;
    let (target, _) = target.split_once('"')?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.contains(&format!(" {target} ")).then(|| target.to_string())
}

struct Reported {
    /// Trials that fsdyno had reported as finished.
    finished: BTreeSet<u64>,
    /// `true` if it was still running.
    killed: bool,
}

fn kill_after(sandbox: &Sandbox, plan: &str, delay: Duration) -> Reported {
    let mut child: Child = sandbox
        .fsdyno(&["sweep", plan])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start a sweep");
    let stderr = child.stderr.take().expect("a pipe");
    // "trial 3 of 4: ext4 bfq: measured" is printed only after the trial is in the store.
    let reader = thread::spawn(move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let ends = [": measured", ": failed", ": skipped"];
        lines
            .filter(|line| ends.iter().any(|end| line.contains(end)))
            .filter_map(|line| line.strip_prefix("trial ")?.split(' ').next()?.parse::<u64>().ok())
            .map(|number| number - 1)
            .collect()
    });
    thread::sleep(delay);
    let killed = child.try_wait().expect("look at the sweep").is_none();
    child.kill().expect("kill the sweep");
    child.wait().expect("reap the sweep");
    Reported { finished: reader.join().expect("the reader of stderr"), killed }
}

fn stored_trials(sandbox: &Sandbox) -> BTreeSet<u64> {
    sandbox.stored()["trials"]
        .as_array()
        .expect("trials")
        .iter()
        .filter_map(|trial| trial["trial"].as_u64())
        .collect()
}

/// Files, mount directories and processes that should be gone.
fn strays(sandbox: &Sandbox) -> Vec<String> {
    let mut strays = Vec::new();
    for entry in fs::read_dir(sandbox.path("")).expect("the sandbox").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "plan.toml" && name != "state" {
            strays.push(name);
        }
    }
    for entry in fs::read_dir("/run").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("fsdyno") {
            strays.push(format!("/run/{name}"));
        }
    }
    let undo = sandbox.path("state").join("fsdyno").join("undo");
    for entry in fs::read_dir(undo).into_iter().flatten().flatten() {
        strays.push(entry.path().display().to_string());
    }
    let processes =
        Command::new("pgrep").args(["-a", "-f", &sandbox.path("").display().to_string()]).output();
    strays.extend(
        processes
            .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
            .unwrap_or_default()
            .lines()
            .map(String::from),
    );
    strays
}
