//! The native bonnie beside the real bonnie++, on the same image: equal work, and rates side by side.
//!
//! One sweep runs both on each filesystem. The original's work is counted by strace on one more image of the kind, the
//! native one by its own results: what the parameters fix agrees exactly, the calls of the whole run, some of which hang on
//! what is drawn at random, within 2 %. The characters are left out of that (`-f`): tracing a million calls of a byte each
//! takes longer than all the rest of the suite.

use crate::support::{Requirement, Sandbox, Test, describe};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

const SIZE: u64 = 32 << 20;
const CHUNK: u64 = 8192;
const CHARACTERS: u64 = 1 << 20;
const FILES: u64 = 1024;
const SEEKS: u64 = 8192;
const SEEKERS: u64 = 5;
const OPTIONS: &str = "-s 32m -r 16 -n 1:2000:16:4 -f1";

const PLAN: &str = r#"
name = "bonnie"

[device]
image = "IMAGE"
size = "512M"

[axes]
filesystem = ["ext4", "xfs"]

[[workloads]]
kind = "bonnie"
options = "OPTIONS"

[[workloads]]
kind = "external"
program = "bonnie++"
arguments = "OPTIONS"
"#;

pub fn tests() -> Vec<Test> {
    vec![Test {
        name: "bonnie::native_and_original_do_the_same_work",
        requires: &[
            Requirement::Root,
            Requirement::Loop,
            Requirement::Filesystem("ext4"),
            Requirement::Filesystem("xfs"),
            Requirement::Program("mkfs.ext4"),
            Requirement::Program("mkfs.xfs"),
            Requirement::Program("bonnie++"),
            Requirement::Program("bon_csv2html"),
            Requirement::Program("strace"),
        ],
        body: native_and_original_do_the_same_work,
    }]
}

fn native_and_original_do_the_same_work() {
    let sandbox = Sandbox::new();
    let image = sandbox.path("data.img").display().to_string();
    let plan = sandbox.write("plan.toml", &PLAN.replace("IMAGE", &image).replace("OPTIONS", OPTIONS));
    let swept = sandbox.run(&["sweep", &plan.display().to_string()]);
    assert!(swept.status.success(), "{}", describe(&swept));
    let shown = sandbox.run(&["show", "--format", "json"]);
    let document: Value = serde_json::from_slice(&shown.stdout).expect("JSON");

    let original = original(&sandbox);
    let trials = document["trials"].as_array().expect("trials");
    let of = |kind: &str| -> Vec<Stored<'_>> {
        let wanted = |trial: &&Value| trial["workload"]["kind"] == kind && trial["sentinel"] == false;
        trials.iter().filter(wanted).map(Stored).collect()
    };
    let (native, real) = (of("bonnie"), of("external"));
    assert_eq!((native.len(), real.len()), (2, 2));
    for native in native {
        native.holds_what_the_parameters_fix();
        native.agrees_with(&original.calls);
        let real = real.iter().find(|real| real.configuration() == native.configuration());
        native.stands_beside(real.expect("a trial of the original"));
    }
    tables_and_fields(&sandbox, &original);
}

/// A stored trial.
struct Stored<'a>(&'a Value);

impl Stored<'_> {
    fn configuration(&self) -> &str {
        self.0["configuration"]["name"].as_str().expect("a name")
    }

    /// The same amounts on the same image, and the rates in KiB, seeks or files per second. `+++++` is what bonnie++ prints
    /// for what took it less than half a second.
    fn stands_beside(&self, real: &Stored<'_>) {
        for phase in real.0["phases"].as_array().expect("phases") {
            let name = phase["name"].as_str().expect("a name");
            let figure =
                |trial: &Stored<'_>, unit: &str| trial.role(name)["rates"][unit].as_f64().expect(unit);
            let of_file = figure(real, "items") == 0.0;
            // How much is in files of random size only the native one tells.
            let amount = if of_file { "bytes" } else { "items" };
            assert_eq!(figure(self, amount), figure(real, amount), "{}: {name}", self.configuration());
            let rate = |trial: &Stored<'_>| match of_file {
                true => figure(trial, "aggregate_bytes_per_s") / 1024.0,
                false => figure(trial, "items_per_s"),
            };
            let theirs = match phase["window_ns"].as_u64() {
                Some(0) => "+++++".to_string(),
                _ => format!("{:.0}", rate(real)),
            };
            eprintln!(
                "{}: {name}: {:.0} of ours, {theirs} of the original",
                self.configuration(),
                rate(self)
            );
            assert!(rate(self) > 0.0, "{name}");
        }
    }

    fn role(&self, phase: &str) -> &Value {
        let phases = self.0["phases"].as_array().expect("phases");
        let found = phases.iter().find(|found| found["name"] == phase);
        &found.unwrap_or_else(|| panic!("no phase '{phase}' in {}", self.0["configuration"]["name"]))["roles"]
            [0]
    }

    fn figure(&self, phase: &str, figure: &str) -> u64 {
        self.role(phase)["rates"][figure].as_u64().expect("a number")
    }

    /// How often an operation was performed in all phases but those of characters.
    fn calls(&self, operations: &[&str]) -> u64 {
        let phases = self.0["phases"].as_array().expect("phases").iter();
        let phases =
            phases.filter(|phase| !phase["name"].as_str().is_some_and(|name| name.ends_with("character")));
        let rows = phases.flat_map(|phase| phase["roles"][0]["operations"].as_array().expect("operations"));
        let rows = rows.filter(|row| operations.contains(&row["operation"].as_str().expect("a name")));
        rows.map(|row| row["lat_ns"]["N"].as_u64().expect("a count")).sum()
    }

    fn holds_what_the_parameters_fix(&self) {
        for (phase, bytes, items) in [
            ("write per character", CHARACTERS, CHARACTERS / CHUNK),
            ("read per character", CHARACTERS, CHARACTERS / CHUNK),
            ("write block", SIZE, SIZE / CHUNK),
            ("rewrite", SIZE, SIZE / CHUNK),
            ("read block", SIZE, SIZE / CHUNK),
        ] {
            assert_eq!((self.figure(phase, "bytes"), self.figure(phase, "items")), (bytes, items), "{phase}");
        }
        assert_eq!(self.figure("random seeks", "items"), SEEKS);
        for order in ["sequential", "random"] {
            for what in ["create", "stat", "delete"] {
                assert_eq!(self.figure(&format!("{what} {order}"), "items"), FILES, "{what} {order}");
            }
            let (made, read) = (format!("create {order}"), format!("stat {order}"));
            assert_eq!(self.figure(&made, "bytes"), self.figure(&read, "bytes"), "all that is there is read");
        }
        assert!(self.role("random seeks")["longest_item_ns"].as_u64().is_some_and(|longest| longest > 0));
    }

    /// The calls of the whole run against those that strace saw.
    fn agrees_with(&self, original: &BTreeMap<String, u64>) {
        let configuration = &self.0["configuration"]["name"];
        let of =
            |names: &[&str]| names.iter().map(|name| original.get(*name).copied().unwrap_or(0)).sum::<u64>();
        // Each file is removed once; the large file is removed outside of the phases, by the original several times.
        let files = 2 * FILES;
        assert_eq!(self.calls(&["unlinkat"]), files, "{configuration}");
        assert!(of(&["unlink"]).abs_diff(files) <= 8, "{}", of(&["unlink"]));
        assert_eq!(self.calls(&["unlinkat dir"]), of(&["rmdir"]), "{configuration}: directories");
        assert_eq!(self.calls(&["syncfs"]), of(&["sync"]), "{configuration}: writing back");
        assert_eq!(self.calls(&["openat create"]), files, "{configuration}: files made");
        // The original syncs the large file at every close, ours wherever a phase ends: 5 phases and 5 seekers, and one
        // more when it has told the seekers what to do.
        assert!(of(&["fsync"]).abs_diff(self.calls(&["fsync"])) <= 2, "{} fsyncs", of(&["fsync"]));
        // The seekers of the original read a ticket for each seek from a pipe, and one more each that ends them. What it
        // tells the user is some of its writes.
        let tickets = SEEKS + SEEKERS;
        for (call, beside) in [("read", tickets), ("write", 0), ("lseek", 0)] {
            let (ours, theirs) = (self.calls(&[call]) as f64, of(&[call]).saturating_sub(beside) as f64);
            eprintln!("{configuration}: {call}: {ours} of ours, {theirs} of the original");
            assert!((ours / theirs - 1.0).abs() < 0.02, "{configuration}: {call}: {ours} and {theirs}");
        }
    }
}

struct Original {
    /// Of the whole run, by name.
    calls: BTreeMap<String, u64>,
    /// What it printed.
    printed: String,
}

/// Runs the real program on an image of the same kind, traced for its calls.
fn original(sandbox: &Sandbox) -> Original {
    let (image, mountpoint) = (sandbox.path("original.img"), sandbox.path("mnt"));
    fs::create_dir_all(&mountpoint).expect("a mountpoint");
    fs::File::create(&image).and_then(|file| file.set_len(512 << 20)).expect("an image");
    succeed(Command::new("mkfs.ext4").arg("-q").arg(&image));
    succeed(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mountpoint));
    let counts = sandbox.path("calls");
    let arguments = OPTIONS.replace("-f1", "-f");
    let traced = Command::new("strace")
        .args(["--seccomp-bpf", "-f", "-c", "-U", "calls,name"])
        .args(["-e", "trace=read,write,lseek,unlink,rmdir,sync,fsync", "-o"])
        .arg(&counts)
        .arg("bonnie++")
        .args(arguments.split(' '))
        .args(["-u", "root", "-z", "42", "-m", "ext4", "-d"])
        .arg(&mountpoint)
        .output();
    succeed(Command::new("umount").arg(&mountpoint));
    fs::remove_file(&image).expect("remove the image");
    let traced = traced.expect("it runs");
    assert!(traced.status.success(), "{}", describe(&traced));
    let text = fs::read_to_string(counts).expect("counts");
    let calls = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let count = words.next()?.parse().ok()?;
        Some((words.next()?.to_string(), count))
    });
    Original { calls: calls.collect(), printed: String::from_utf8_lossy(&traced.stdout).into_owned() }
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", describe(&output));
}

/// Both print the same lines but for their figures, and the original's own reader takes ours.
fn tables_and_fields(sandbox: &Sandbox, original: &Original) {
    let shown = sandbox.run(&["show"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let words: Vec<&str> =
        original.printed.lines().filter(|line| line.contains("-----") || line.contains("%CP")).collect();
    assert!(words.len() >= 4, "{}", original.printed);
    for line in words {
        assert!(text.contains(line), "ours lacks '{line}':\n{text}");
    }
    let lines = sandbox.run(&["show", "--as", "bonnie-csv"]);
    let fields = String::from_utf8_lossy(&lines.stdout).into_owned();
    assert_eq!(fields.lines().count(), 4, "{}", describe(&lines));
    assert!(fields.lines().all(|line| line.split(',').count() == 50), "{fields}");
    let file = sandbox.write("lines.csv", &fields);
    let html = Command::new("bon_csv2html").arg(&file).output().expect("bon_csv2html runs");
    let html_text = String::from_utf8_lossy(&html.stdout);
    assert!(html.status.success() && html.stderr.is_empty(), "{}", describe(&html));
    for line in fields.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        for at in [2, 11, 15, 43] {
            assert!(
                html_text.contains(&format!(">{}</td>", fields[at])),
                "field {at} of {line}:\n{html_text}"
            );
        }
    }
    eprintln!("ours and the original, in turn:\n{fields}");
}
