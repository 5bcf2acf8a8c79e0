//! postmark: ours and the original on the same filesystems, with the same parameters.

use crate::support::{MAKING_ON_IMAGES, Requirement, Sandbox, describe, unmount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const ORIGINAL: &[Requirement] = &[Requirement::All(MAKING_ON_IMAGES), Requirement::Program("postmark")];

tests! {
    counts_are_those_of_the_original: ORIGINAL;
    a_pool_that_runs_out_of_files_is_refused: &[];
}

const FILESYSTEMS: &[&str] = &["ext4", "xfs", "btrfs"];
const COMMANDS: &[&str] = &[
    "set size 500 20000\nset number 400\nset transactions 900",
    "set size 100 9000\nset number 300\nset transactions 1000\nset subdirectories 7\nset seed 11\n\
     set bias read 7\nset bias create 6\nset buffering false\nset read 700\nset write 900",
];

/// Both run on each filesystem, on images of the same size. The numbers of files agree exactly, and amounts
/// of data to the two decimals that the original prints of its floating-point sums.
fn counts_are_those_of_the_original() {
    for commands in COMMANDS {
        let sandbox = Sandbox::new();
        let sweep = sweep(&sandbox, FILESYSTEMS, commands);
        for (filesystem, ours) in FILESYSTEMS.iter().zip(sweep.lines_by_case) {
            let theirs = original(&sandbox, filesystem, commands);
            let (ours, theirs) = (Report::read(&ours), Report::read(&theirs));
            assert_eq!(ours.files, theirs.files, "{filesystem}, {commands}");
            for (what, bytes) in &ours.bytes {
                let of = theirs.bytes[what];
                assert!((bytes / of - 1.0).abs() < 0.002, "{filesystem}: {what} {bytes}, original {of}");
            }
            eprintln!("{filesystem}: rates of ours {:?}, of the original {:?}", ours.rates, theirs.rates);
        }
        // What is shown matches what is stored.
        for trial in sweep.json["trials"].as_array().expect("trials") {
            let counts = |phase: usize| &trial["phases"][phase]["roles"][0];
            let operations = |role: &Value, name: &str| -> u64 {
                let all = role["operations"].as_array().expect("operations");
                let found = all.iter().find(|result| result["operation"] == name);
                found.map_or(0, |result| result["lat_ns"]["N"].as_u64().expect("a count"))
            };
            let (create, transactions) = (counts(0), counts(1));
            assert_eq!(create["counts"]["created"], operations(create, "openat create"));
            for (count, operation) in [
                ("created", "openat create"),
                ("read", "openat"),
                ("appended", "openat append"),
                ("deleted", "unlinkat"),
            ] {
                assert_eq!(transactions["counts"][count], operations(transactions, operation), "{count}");
            }
            assert_eq!(counts(2)["counts"]["deleted"], operations(counts(2), "unlinkat"));
        }
    }
}

/// The printed reports, case by case, and the sweep as JSON.
struct Sweep {
    lines_by_case: Vec<String>,
    json: Value,
}

fn sweep(sandbox: &Sandbox, filesystems: &[&str], commands: &str) -> Sweep {
    let plan = format!(
        "name = \"postmark\"\nrepetitions = 1\nmeasure = \"postmark-tps\"\n[device]\nimage = \"{}\"\n\
         size = \"512M\"\n[axes]\nfilesystem = {filesystems:?}\n[[workloads]]\nkind = \"postmark\"\n\
         commands = {:?}\n",
        sandbox.path("ours.img").display(),
        format!("{commands}\nrun"),
    );
    sandbox.sweep(&plan);
    let output = sandbox.run(&["show", "--tables"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines_by_case: Vec<String> = text.split("Time:\n").skip(1).map(str::to_string).collect();
    assert_eq!(lines_by_case.len(), filesystems.len(), "{}", describe(&output));
    Sweep { lines_by_case, json: sandbox.stored() }
}

/// The report of the original, run in a separate filesystem.
fn original(sandbox: &Sandbox, filesystem: &str, commands: &str) -> String {
    let (image, mountpoint) = (sandbox.path("original.img"), sandbox.path("mnt"));
    fs::create_dir_all(&mountpoint).expect("a mountpoint");
    fs::File::create(&image).and_then(|file| file.set_len(512 << 20)).expect("an image");
    succeed(Command::new(format!("mkfs.{filesystem}")).arg("-q").arg(&image));
    succeed(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mountpoint));
    let report = run_original(sandbox, &mountpoint, commands);
    unmount(&mountpoint);
    fs::remove_file(&image).expect("remove the image");
    report
}

fn run_original(sandbox: &Sandbox, directory: &Path, commands: &str) -> String {
    let file = format!("{commands}\nset location {}\nrun\nquit\n", directory.display());
    let file = sandbox.write("commands", &file);
    let output = Command::new("postmark").arg(file).output().expect("run postmark");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The parts of a report, ours or theirs, that can be parsed.
#[derive(Debug)]
struct Report {
    files: Vec<(String, u64)>,
    bytes: BTreeMap<String, f64>,
    rates: Vec<String>,
}

impl Report {
    fn read(text: &str) -> Self {
        let mut report = Report { files: Vec::new(), bytes: BTreeMap::new(), rates: Vec::new() };
        let lines = text.lines().skip_while(|line| *line != "Files:").skip(1);
        for line in lines.take_while(|line| line.is_empty() || line.starts_with('\t') || *line == "Data:") {
            let Some((what, rate)) = line.trim().split_once(" (") else { continue };
            let words: Vec<&str> = what.split_whitespace().collect();
            match words[..] {
                [number, unit @ ("kilobytes" | "megabytes"), direction] => {
                    let unit = if unit == "kilobytes" { 1024.0 } else { 1_048_576.0 };
                    let number: f64 = number.parse().expect("a number");
                    report.bytes.insert(direction.to_string(), number * unit);
                }
                [number, what] => report.files.push((what.to_string(), number.parse().expect("a number"))),
                [.., number, "files"] => {
                    let what = what.split(':').next().unwrap_or_default();
                    report.files.push((what.to_string(), number.parse().expect("a number")));
                }
                _ => panic!("unknown line: {line}"),
            }
            report.rates.push(rate.trim_end_matches(" per second)").to_string());
        }
        assert_eq!((report.files.len(), report.bytes.len()), (8, 2), "{text}");
        report
    }
}

fn a_pool_that_runs_out_of_files_is_refused() {
    let sandbox = Sandbox::new();
    let directory = sandbox.path("here");
    fs::create_dir(&directory).expect("a directory");
    let request = serde_json::json!({
        "version": fsdyno_core::protocol::PROTOCOL_VERSION,
        "directory": directory,
        "workload": { "kind": "postmark", "parameters": { "number": 20, "bias_create": 0 } },
        "seed": 1, "drop_caches": false, "clean_up": true,
    });
    let mut command = sandbox.fsdyno(&["engine"]);
    let mut engine = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the engine");
    // The engine stops when its stdin ends, so stdin stays open until the engine has reported everything.
    let mut stdin = engine.stdin.take().expect("stdin is piped");
    writeln!(stdin, "{request}").expect("send the request");
    let mut text = String::new();
    engine.stdout.take().expect("stdout is piped").read_to_string(&mut text).expect("events");
    engine.wait().expect("the engine ends");
    assert!(text.contains("workload parameter 'transactions' must be at most 20"), "{text}");
    assert_eq!(fs::read_dir(&directory).expect("readable").count(), 0);
}
