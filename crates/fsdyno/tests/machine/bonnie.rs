//! The native bonnie beside the real bonnie++, on the same filesystems: equal work, and rates to compare.
//!
//! The original's work is counted by strace, the native one by its own results: what the parameters fix agrees exactly, the
//! calls of the whole run, some of which hang on what is drawn at random, within 2 %. The characters are left out (`-f`):
//! tracing a million calls of a byte each takes longer than all the rest of the suite.

use crate::support::{Requirement, Sandbox, Test, describe};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const SIZE: u64 = 32 << 20;
const CHUNK: u64 = 8192;
const FILES: u64 = 1024;
const SEEKS: u64 = 8192;
const SEEKERS: u64 = 5;
const OPTIONS: &str = "-s 32m -r 16 -n 1:2000:16:4 -f";

const PLAN: &str = r#"
name = "bonnie"

[device]
image = "IMAGE"
size = "512M"

[axes]
filesystem = ["ext4", "xfs", "btrfs"]

[[workloads]]
kind = "bonnie"
options = "OPTIONS"
"#;

pub fn tests() -> Vec<Test> {
    vec![Test {
        name: "bonnie::native_and_original_do_the_same_work",
        requires: &[
            Requirement::Root,
            Requirement::Loop,
            Requirement::Filesystem("ext4"),
            Requirement::Filesystem("xfs"),
            Requirement::Filesystem("btrfs"),
            Requirement::Program("mkfs.ext4"),
            Requirement::Program("mkfs.xfs"),
            Requirement::Program("mkfs.btrfs"),
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
    for trial in document["trials"].as_array().expect("trials") {
        let native = Native(trial);
        native.holds_what_the_parameters_fix();
        native.agrees_with(&original.calls);
    }
    tables_and_fields(&sandbox, &original);
}

/// A stored trial of ours.
struct Native<'a>(&'a Value);

impl Native<'_> {
    fn role(&self, phase: &str) -> &Value {
        let phases = self.0["phases"].as_array().expect("phases");
        let found = phases.iter().find(|found| found["name"] == phase);
        &found.unwrap_or_else(|| panic!("no phase '{phase}' in {}", self.0["configuration"]["name"]))["roles"]
            [0]
    }

    fn figure(&self, phase: &str, figure: &str) -> u64 {
        self.role(phase)["rates"][figure].as_u64().expect("a number")
    }

    /// How often an operation was performed in all phases.
    fn calls(&self, operations: &[&str]) -> u64 {
        let phases = self.0["phases"].as_array().expect("phases").iter();
        let rows = phases.flat_map(|phase| phase["roles"][0]["operations"].as_array().expect("operations"));
        let rows = rows.filter(|row| operations.contains(&row["operation"].as_str().expect("a name")));
        rows.map(|row| row["lat_ns"]["N"].as_u64().expect("a count")).sum()
    }

    fn holds_what_the_parameters_fix(&self) {
        for (phase, bytes, items) in [
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
    /// What it printed, untraced.
    printed: String,
}

/// Runs the real program twice in memory: traced for its calls, and as it is for what it prints.
fn original(sandbox: &Sandbox) -> Original {
    let place = Path::new("/dev/shm");
    let place = if place.is_dir() { place.to_path_buf() } else { std::env::temp_dir() };
    let directory = tempfile::tempdir_in(place).expect("a directory");
    let arguments: Vec<&str> =
        OPTIONS.split(' ').chain(["-u", "root", "-z", "42", "-m", "ext4", "-d"]).collect();
    let printed = Command::new("bonnie++").args(&arguments).arg(directory.path()).output().expect("it runs");
    assert!(printed.status.success(), "{}", describe(&printed));
    let counts = sandbox.path("calls");
    let traced = Command::new("strace")
        .args(["-f", "-c", "-U", "calls,name", "-o"])
        .arg(&counts)
        .arg("bonnie++")
        .args(&arguments)
        .arg(directory.path())
        .output()
        .expect("it runs");
    assert!(traced.status.success(), "{}", describe(&traced));
    let text = fs::read_to_string(counts).expect("counts");
    let calls = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let count = words.next()?.parse().ok()?;
        Some((words.next()?.to_string(), count))
    });
    Original { calls: calls.collect(), printed: String::from_utf8_lossy(&printed.stdout).into_owned() }
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
    assert_eq!(fields.lines().count(), 3, "{}", describe(&lines));
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
    let theirs = original.printed.lines().last().unwrap_or_default();
    eprintln!("the original, in memory:\n{theirs}\nours:\n{fields}");
}
