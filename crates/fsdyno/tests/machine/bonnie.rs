//! The native bonnie compared with the real bonnie++ on the same kind of image: the same work, and rates side
//! by side.
//!
//! One sweep runs both. The original's work is counted by strace on another image of the same kind, the
//! native one's by its own results. What the parameters determine agrees exactly; the calls of the whole run,
//! some of which depend on random choices, agree within 2 %. The phases that move single bytes are left out
//! of the traced run (`-f`), because tracing a million calls takes longer than the rest of the suite.
//!
//! The test also keeps what the original prints within the sweep, and compares the stored results with it.
//! The original prints no rate for parts that take less than half a second, so it writes and reads three
//! million bytes one at a time: one call for each, and no call takes less than 0.17 us.

use crate::support::{Requirement, Sandbox, describe, install, unmount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SIZE: u64 = 32 << 20;
const CHUNK: u64 = 8192;
const CHARACTERS: u64 = 3 << 20;
const FILES: u64 = 1024;
const SEEKS: u64 = 8192;
const SEEKERS: u64 = 5;
const OPTIONS: &str = "-s 32m -r 16 -n 1:2000:16:4 -f3";

const PLAN: &str = r#"
name = "bonnie"

[device]
image = "IMAGE"
size = "512M"

[axes]
filesystem = "ext4"

[[workloads]]
kind = "bonnie"
options = "OPTIONS"

[[workloads]]
kind = "external"
program = "bonnie++"
arguments = "OPTIONS"
"#;

tests! {
    native_and_original_do_the_same_work: &[
        Requirement::Root,
        Requirement::Loop,
        Requirement::Filesystem("ext4"),
        Requirement::Program("mkfs.ext4"),
        Requirement::Program("bonnie++"),
        Requirement::Program("bon_csv2html"),
        Requirement::Program("strace"),
        Requirement::Program("unshare"),
        Requirement::Soak,
    ];
}

fn native_and_original_do_the_same_work() {
    let sandbox = Sandbox::new();
    let image = sandbox.path("data.img").display().to_string();
    let plan = sandbox.write("plan.toml", &PLAN.replace("IMAGE", &image).replace("OPTIONS", OPTIONS));
    let printed = recorded_sweep(&sandbox, &plan);
    let document = sandbox.stored();

    let original = original(&sandbox);
    let trials = document["trials"].as_array().expect("trials");
    let of = |kind: &str| -> Vec<Stored<'_>> {
        let wanted = |trial: &&Value| trial["workload"]["kind"] == kind && trial["sentinel"] == false;
        trials.iter().filter(wanted).map(Stored).collect()
    };
    let (native, real) = (of("bonnie"), of("external"));
    assert_eq!((native.len(), real.len(), printed.len()), (1, 1, 1));
    // Both lists are in the order in which they ran.
    real.iter().zip(&printed).for_each(|(real, line)| real.matches_what_was_printed(line));
    for native in native {
        native.has_the_determined_amounts();
        native.agrees_with(&original.calls);
        let real = real.iter().find(|real| real.configuration() == native.configuration());
        native.compares_with(real.expect("a trial of the original"));
    }
    tables_and_fields(&sandbox, &original);
}

/// Runs a plan with a wrapper in place of the original, which starts it and keeps what it prints. Returns the
/// printed lines of figures, one for each run.
fn recorded_sweep(sandbox: &Sandbox, plan: &Path) -> Vec<String> {
    let place = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"]
        .map(|path| Path::new(path).join("bonnie++"));
    let place = place.iter().find(|place| place.exists()).expect("bonnie++");
    let (original, heard) = (sandbox.path("original"), sandbox.path("heard-").display().to_string());
    install(place, &original);
    // A process that the engine starts can write to no file outside the trial's directory, and inherits none.
    // So the wrapper waits, with the output as its last argument, until the listener has read that and
    // creates a file. Its PID is the same in each trial.
    let script = format!(
        "#!/bin/sh\nsaid=$({} \"$@\") || exit\nprintf '%s\\n' \"$said\"\n\
         read -r unique < /proc/sys/kernel/random/uuid\n\
         exec sh -c 'until [ -e \"$0\" ]; do sleep 0.05; done' \"{heard}$unique\" \"$said\"\n",
        original.display()
    );
    let in_its_place = sandbox.path("in-its-place");
    install(&sandbox.write("script", &script), &in_its_place);
    // The mount is not visible elsewhere, and ends with the sweep.
    let mut sweep = Command::new("unshare");
    sweep
        .args(["--mount", "sh", "-c"])
        .args(["mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"", "sh"])
        .args([&in_its_place, place])
        .args([env!("CARGO_BIN_EXE_fsdyno"), "sweep"])
        .arg(plan)
        .env("XDG_STATE_HOME", sandbox.path("state"));
    let over = AtomicBool::new(false);
    let (swept, said) = std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(&heard, &over));
        let swept = sweep.output();
        over.store(true, Ordering::Relaxed);
        (swept.expect("unshare runs"), listener.join().expect("the listener"))
    });
    assert!(swept.status.success(), "{}", describe(&swept));
    said.lines().filter(|line| line.starts_with("1.98,")).map(str::to_string).collect()
}

/// Collects the last arguments of the processes that wait for a file with this prefix, until the sweep is
/// over.
fn listen(heard: &str, over: &AtomicBool) -> String {
    let mut said = String::new();
    while !over.load(Ordering::Relaxed) {
        for process in fs::read_dir("/proc").expect("processes").flatten() {
            let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            let words: Vec<&str> = words.split('\0').collect();
            if let ["sh", "-c", _, file, text, ""] = words[..]
                && file.starts_with(heard)
                && !Path::new(file).exists()
            {
                said.push_str(text);
                said.push('\n');
                fs::write(file, "").expect("a file");
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    said
}

/// The field with the rate of each part in the original's line.
const RATES: [(&str, usize); 12] = [
    ("write per character", 9),
    ("write block", 11),
    ("rewrite", 13),
    ("read per character", 15),
    ("read block", 17),
    ("random seeks", 19),
    ("create sequential", 26),
    ("stat sequential", 28),
    ("delete sequential", 30),
    ("create random", 32),
    ("stat random", 34),
    ("delete random", 36),
];

/// A stored trial.
struct Stored<'a>(&'a Value);

impl Stored<'_> {
    fn configuration(&self) -> &str {
        self.0["configuration"]["name"].as_str().expect("a name")
    }

    /// The stored rates of the original are those that it printed; there is none if it printed `+++++` for a
    /// part that took less than half a second. Moving single bytes always takes longer.
    fn matches_what_was_printed(&self, line: &str) {
        let fields: Vec<&str> = line.split(',').collect();
        for (phase, field) in RATES {
            let printed = fields[field];
            let rates = &self.role(phase)["rates"];
            let of = |unit: &str| rates[unit].as_f64().expect(unit);
            let rate = of("aggregate_bytes_per_s") / 1024.0 + of("items_per_s");
            let has_window = self.phase(phase)["window_ns"].as_u64().is_some_and(|window| window > 0);
            match printed.parse::<f64>() {
                Ok(figure) => {
                    assert!((rate - figure).abs() < 1e-3 && has_window, "{phase}: {rate} in {line}")
                }
                Err(_) => assert_eq!((printed, rate, has_window), ("+++++", 0.0, false), "{phase} in {line}"),
            }
            assert!(!phase.ends_with("character") || rate > 0.0, "{phase} in {line}");
        }
    }

    /// Compares the amounts, and prints the rates in KiB, seeks or files per second.
    fn compares_with(&self, real: &Stored<'_>) {
        for phase in real.0["phases"].as_array().expect("phases") {
            let name = phase["name"].as_str().expect("a name");
            let figure =
                |trial: &Stored<'_>, unit: &str| trial.role(name)["rates"][unit].as_f64().expect(unit);
            let of_file = figure(real, "items") == 0.0;
            // Only the native one reports how many bytes are in files of random size.
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

    fn phase(&self, phase: &str) -> &Value {
        let phases = self.0["phases"].as_array().expect("phases");
        let found = phases.iter().find(|found| found["name"] == phase);
        found.unwrap_or_else(|| panic!("no phase '{phase}' in {}", self.configuration()))
    }

    fn role(&self, phase: &str) -> &Value {
        &self.phase(phase)["roles"][0]
    }

    fn figure(&self, phase: &str, figure: &str) -> u64 {
        self.role(phase)["rates"][figure].as_u64().expect("a number")
    }

    /// Returns the number of these operations in all phases except those that move single bytes.
    fn calls(&self, operations: &[&str]) -> u64 {
        let phases = self.0["phases"].as_array().expect("phases").iter();
        let phases =
            phases.filter(|phase| !phase["name"].as_str().is_some_and(|name| name.ends_with("character")));
        let rows = phases.flat_map(|phase| phase["roles"][0]["operations"].as_array().expect("operations"));
        let rows = rows.filter(|row| operations.contains(&row["operation"].as_str().expect("a name")));
        rows.map(|row| row["lat_ns"]["N"].as_u64().expect("a count")).sum()
    }

    fn has_the_determined_amounts(&self) {
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
            assert_eq!(
                self.figure(&made, "bytes"),
                self.figure(&read, "bytes"),
                "everything written is read"
            );
        }
        assert!(self.role("random seeks")["longest_item_ns"].as_u64().is_some_and(|longest| longest > 0));
    }

    /// Compares the calls of the whole run with those that strace counted.
    fn agrees_with(&self, original: &BTreeMap<String, u64>) {
        let configuration = &self.0["configuration"]["name"];
        let of =
            |names: &[&str]| names.iter().map(|name| original.get(*name).copied().unwrap_or(0)).sum::<u64>();
        // Each file is removed once; the large file is removed outside of the phases, by the original several
        // times.
        let files = 2 * FILES;
        assert_eq!(self.calls(&["unlinkat"]), files, "{configuration}");
        assert!(of(&["unlink"]).abs_diff(files) <= 8, "{}", of(&["unlink"]));
        assert_eq!(self.calls(&["unlinkat dir"]), of(&["rmdir"]), "{configuration}: directories");
        assert_eq!(self.calls(&["syncfs"]), of(&["sync"]), "{configuration}: writing back");
        assert_eq!(self.calls(&["openat create"]), files, "{configuration}: files created");
        // The original syncs the large file at every close, ours at the end of each phase: 5 phases and 5
        // seekers, and the original once more after it has sent the seekers their work.
        assert!(of(&["fsync"]).abs_diff(self.calls(&["fsync"])) <= 2, "{} fsyncs", of(&["fsync"]));
        // The original's seekers read a ticket from a pipe for each seek, and one more each to end. Some of
        // its writes are its messages to the user.
        let tickets = SEEKS + SEEKERS;
        for (call, beside) in [("read", tickets), ("write", 0), ("lseek", 0)] {
            let (ours, theirs) = (self.calls(&[call]) as f64, of(&[call]).saturating_sub(beside) as f64);
            eprintln!("{configuration}: {call}: {ours} of ours, {theirs} of the original");
            assert!((ours / theirs - 1.0).abs() < 0.02, "{configuration}: {call}: {ours} and {theirs}");
        }
    }
}

struct Original {
    /// Calls of the whole run, by name.
    calls: BTreeMap<String, u64>,
    /// The output of the program.
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
    let arguments = OPTIONS.replace("-f3", "-f");
    let traced = Command::new("strace")
        .args(["--seccomp-bpf", "-f", "-c", "-U", "calls,name"])
        .args(["-e", "trace=read,write,lseek,unlink,rmdir,sync,fsync", "-o"])
        .arg(&counts)
        .arg("bonnie++")
        .args(arguments.split(' '))
        .args(["-u", "root", "-z", "42", "-m", "ext4", "-d"])
        .arg(&mountpoint)
        .output();
    unmount(&mountpoint);
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

/// Both print the same lines except for the figures, and the original's own parser accepts our line.
fn tables_and_fields(sandbox: &Sandbox, original: &Original) {
    let shown = sandbox.run(&["show", "--full"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let words: Vec<&str> =
        original.printed.lines().filter(|line| line.contains("-----") || line.contains("%CP")).collect();
    assert!(words.len() >= 4, "{}", original.printed);
    for line in words {
        assert!(text.contains(line), "ours lacks '{line}':\n{text}");
    }
    let lines = sandbox.run(&["show", "--as", "bonnie-csv"]);
    let fields = String::from_utf8_lossy(&lines.stdout).into_owned();
    assert_eq!(fields.lines().count(), 2, "{}", describe(&lines));
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
