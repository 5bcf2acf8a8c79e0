//! Recommendations of real sweeps: the recommended commands are executed on other devices.

use crate::support::{MAKING_ON_IMAGES, Requirement, Sandbox, describe, json, unmount};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

tests! {
    recipes_build_what_was_measured: MAKING_ON_IMAGES;
    a_case_that_cannot_settle_is_given_up:
        &[Requirement::Root, Requirement::Loop, Requirement::OwnImages];
}

const PLAN: &str = r#"
name = "recipes"
seed = 5
measure = "longest-stall"

[device]
image = "IMAGE"
size = "320M"
[device.journals]
disk = { image = "JOURNAL", size = "64M" }

[[configurations]]
name = "ext4 plain"
filesystem = "ext4"

[[configurations]]
name = "ext4 set"
filesystem = "ext4"
journal = "external"
data = "journal"
atime = "noatime"
inode_size = "512"
mkfs = "-E stride=4 -m 1"
scheduler = "bfq"
readahead = "1M"

[[configurations]]
name = "xfs set"
filesystem = "xfs"
logbsize = "256k"
agcount = 2
atime = "nodiratime"

[[configurations]]
name = "btrfs set"
filesystem = "btrfs"
compress = "zstd"
profile = "single"
commit = 60

[[workloads]]
kind = "fileserver"
tree_size = "4M"
readers = 1
writers = 1
writer_space = "8M"
ramp = "20ms"
window = "50ms"
"#;

fn recipes_build_what_was_measured() {
    let sandbox = Sandbox::new();
    let text = PLAN.replace("IMAGE", &sandbox.path("recipes.img").display().to_string());
    let text = text.replace("JOURNAL", &sandbox.path("journal.img").display().to_string());
    sandbox.write("plan.toml", &text);
    let swept = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    let swept = json(&swept);
    for name in ["ext4 plain", "ext4 set", "xfs set", "btrfs set"] {
        let output = sandbox.run(&["recommend", "--case", name, "--format", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        let answer = json(&output);
        let answer = &answer["answers"][0];
        assert_eq!(answer["standings"][0]["name"], name, "{answer:#}");
        let lines = |title: &str| -> Vec<String> {
            let steps = answer["recipe"]["steps"].as_array().expect("steps");
            let step =
                steps.iter().find(|step| step["title"].as_str().is_some_and(|text| text.starts_with(title)));
            let lines = step.and_then(|step| step["lines"].as_array()).expect("lines");
            lines.iter().map(|line| line.as_str().expect("a line").to_string()).collect()
        };
        let trials = swept["trials"].as_array().expect("trials");
        let trial = trials.iter().find(|trial| trial["configuration"]["name"] == name).expect("its trial");
        let in_force = trial["configuration"]["mount_options_in_force"].as_str().expect("options");
        let others = OtherDevices::new(&sandbox);
        for line in lines("make the filesystem") {
            others.shell(&line);
        }
        others.shell(&lines("mount it")[0]);
        assert_eq!(others.options(), others.without_journal(in_force), "{name}");
        others.shell("umount MOUNTPOINT");
        let fstab =
            sandbox.write("fstab", &format!("{}\n", others.named(&lines("mount it at every boot")[0])));
        others.shell(&format!("mount -T {} MOUNTPOINT", fstab.display()));
        assert_eq!(others.options(), others.without_journal(in_force), "{name} by fstab");
        others.shell("umount MOUNTPOINT");
    }
    let text = sandbox.run(&["recommend", "--for", "stalls", "--recipe", "xfs set"]);
    assert_eq!(text.status.code(), Some(0), "{}", describe(&text));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("How to build 'xfs set'") && text.contains("  mkfs.xfs "), "{text}");
    let refused = sandbox.run(&["recommend", "--for", "latencies"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("did you mean 'latency'?") && error.contains("hint: --for accepts"), "{error}");
}

/// Two new devices and a directory, removed at the end.
struct OtherDevices {
    device: String,
    journal: String,
    mountpoint: PathBuf,
}

impl OtherDevices {
    fn new(sandbox: &Sandbox) -> Self {
        let attach = |name: &str, size: u64| {
            let path = sandbox.path(name);
            std::fs::File::create(&path).and_then(|file| file.set_len(size)).expect("an image");
            run(Command::new("losetup").args(["--find", "--show"]).arg(&path)).trim().to_string()
        };
        let mountpoint = sandbox.path("mountpoint");
        std::fs::create_dir_all(&mountpoint).expect("a directory");
        let (device, journal) = (attach("other.img", 320 << 20), attach("other-journal.img", 64 << 20));
        OtherDevices { device, journal, mountpoint }
    }

    /// A line of a recipe with its placeholders replaced.
    fn named(&self, line: &str) -> String {
        let mountpoint = self.mountpoint.display().to_string();
        line.replace("DEVICE", &self.device)
            .replace("JOURNAL", &self.journal)
            .replace("MOUNTPOINT", &mountpoint)
    }

    fn shell(&self, line: &str) {
        run(Command::new("sh").args(["-e", "-c", &self.named(line)]));
    }

    /// The options of the mount as the kernel shows them, without the node of a journal.
    fn options(&self) -> Vec<String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let mountpoint = self.mountpoint.display().to_string();
        let line = mounts
            .lines()
            .rfind(|line| line.split(' ').nth(4) == Some(mountpoint.as_str()))
            .expect("a mount");
        let fields: Vec<&str> = line.split(' ').collect();
        self.without_journal(&format!("{},{}", fields[5], fields[fields.len() - 1]))
    }

    fn without_journal(&self, options: &str) -> Vec<String> {
        let mut words: Vec<String> = options.split(',').map(str::to_string).collect();
        words.retain(|word| !word.starts_with("journal_path") && !word.starts_with("logdev"));
        words.sort();
        words.dedup();
        words
    }
}

impl Drop for OtherDevices {
    fn drop(&mut self) {
        unmount(&self.mountpoint);
        for device in [&self.device, &self.journal] {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("a command");
    assert!(output.status.success(), "{command:?}: {}", describe(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// In windows this short, no interval is within 0.001 %: the sweep runs the maximum number of blocks
/// and says so.
fn a_case_that_cannot_settle_is_given_up() {
    let sandbox = Sandbox::new();
    let text = PLAN[..PLAN.find("[device.journals]").expect("journals")]
        .replace("IMAGE", &sandbox.path("restless.img").display().to_string());
    let workload = &PLAN[PLAN.find("[[workloads]]").expect("a workload")..];
    let text = format!(
        "repetitions = {{ min = 2, max = 3, until = \"0.001%\" }}\n{text}\n[axes]\nfilesystem = \"ext4\"\n\
         {workload}"
    );
    sandbox.write("plan.toml", &text.replace("longest-stall", "read-under-write"));
    let output = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("block 3: intervals still too wide: ext4 (fileserver)"), "{said}");
    let swept = json(&output);
    let trials = swept["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 3);
    let kinds = |trial: &Value| trial["warnings"].to_string();
    assert!(kinds(&trials[2]).contains("still-wide") && !kinds(&trials[1]).contains("still-wide"));
}
