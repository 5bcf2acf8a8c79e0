//! Flows as users run them: the calls of `varmail` as strace sees them, and each flow as a plan.

use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe, json};
use serde_json::Value;
use std::fs;

tests! {
    varmail_makes_the_calls_of_its_definition: &[Requirement::Program("strace")];
    every_flow_is_a_plan_that_can_be_dry_run: &[];
    a_flow_is_measured_in_a_directory_and_shown_everywhere: &[];
    several_numbers_of_workers_are_swept_and_shown: MAKING_FILESYSTEMS;
}

const WORKERS: u64 = 2;

/// What filebench's definition does in one iteration: what the line that strace prints for it contains, and
/// what it does not. One read gets a file and one finds its end.
const CALLS: &[(&str, &str, u64)] = &[
    ("unlinkat(", "AT_REMOVEDIR", 1),
    ("O_RDWR|O_CREAT|O_EXCL", "O_DIRECTORY", 1),
    ("O_RDWR|", "O_CREAT", 2),
    ("lseek(", "SEEK_SET", 2),
    ("read(", "pread", 4),
    ("write(", "pwrite", 2),
    ("fsync(", "O_", 2),
    ("close(", "O_", 3),
];

fn varmail_makes_the_calls_of_its_definition() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "telemetry = false\n[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"flow\"\n\
         flow = \"varmail\"\nramp = 0\nwindow = \"500ms\"\n[workloads.files.mail]\ncount = 40\n\
         [workloads.roles.client]\nworkers = {WORKERS}\n",
        place.path().display(),
    );
    sandbox.write("plan.toml", &plan);
    let (output, trace) = sandbox.traced(
        &["-y", "-e", "trace=unlinkat,openat,lseek,read,write,fsync,close"],
        &["sweep", "plan.toml", "--format", "json"],
    );
    let trial = json(&output)["trials"][0].clone();
    assert_eq!(trial["outcome"], "measured", "{trial}");
    // Files are created before the load, and removed after it: it begins and ends with the syncs of workers.
    let lines: Vec<&str> = trace.lines().filter(|line| line.contains("/mail")).collect();
    let first = lines.iter().position(|line| line.contains("fsync(")).expect("a sync");
    let last = lines.iter().rposition(|line| line.contains("fsync(")).expect("a sync");
    let load = &lines[first..=last];
    // A call that another thread interrupts has a second line, without its name.
    let count = |part: &str, but: &str| {
        load.iter().filter(|line| line.contains(part) && !line.contains(but)).count() as u64
    };
    let iterations = count("fsync(", "O_") / 2;
    assert!(iterations > 10, "only {iterations} iterations");
    for (part, but, each) in CALLS {
        // Each worker may be anywhere in its first and in its last iteration.
        let (seen, expected, edges) = (count(part, but), iterations * each, 2 * WORKERS * each);
        assert!(
            seen.abs_diff(expected) <= edges,
            "{part}: {seen}, expected {expected} of {iterations} iterations"
        );
    }
    assert_eq!(fs::read_dir(place.path()).expect("the directory").count(), 0, "it is left as it was");
}

fn every_flow_is_a_plan_that_can_be_dry_run() {
    let sandbox = Sandbox::new();
    let plans = json(&sandbox.run(&["plans", "--format", "json"]));
    let flows = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/flows");
    for file in fs::read_dir(flows).expect("the flows").flatten() {
        let path = file.path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let is_listed =
            plans.as_array().is_some_and(|plans| plans.iter().any(|plan| plan["name"] == name.as_str()));
        assert!(is_listed, "{name} is not listed");
        let output = sandbox.run(&["plan", &name]);
        // Not every machine has room for its image.
        assert!([Some(0), Some(3)].contains(&output.status.code()), "{}", describe(&output));
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains("case 2: btrfs / flow") && shown.contains("    files "), "{shown}");
        let once = shown.matches("over and over").count();
        assert!((1..=3).contains(&once), "{name} is told {once} times");
    }
}

/// A flow of the user's own, in every command that shows results.
fn a_flow_is_measured_in_a_directory_and_shown_everywhere() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "repetitions = 2\n[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"flow\"\nramp = 0\n\
         window = \"300ms\"\n[workloads.files.note]\ncount = 30\nsize = \"4k\"\nprefill = \"50%\"\n\
         [workloads.roles.client]\nworkers = 2\n\
         steps = [{{ create = \"note\" }}, {{ write = \"whole\" }}, \"fsync\", \"close\", {{ stat = \"note\" \
         }}, {{ unlink = \"note\", choose = \"oldest\" }}]\n",
        place.path().display(),
    );
    sandbox.sweep(&plan);
    sandbox.sweep(&plan);
    sandbox.shows(&["show", "latest"], &["flow-iterations", "flow, 2 clients"]);
    sandbox.shows(&["show", "latest", "--full"], &["openat create", "unlinkat", "fsync", "statx", "client"]);
    sandbox.shows(&["show", "latest", "--measure", "flow/client/fsync/p99"], &["flow/client/fsync/p99"]);
    sandbox.shows(&["recommend", "latest", "--for", "latency"], &["flow"]);
    sandbox.shows(&["compare", "1", "2"], &["flow-iterations"]);
    let report = sandbox.path("report.html").display().to_string();
    sandbox.shows(&["report", "latest", "-o", &report], &[]);
    assert!(fs::read_to_string(&report).expect("the report").contains("flow-iterations"));
    let stored = sandbox.stored();
    let role = &stored["trials"][0]["phases"][0]["roles"][0];
    let count = |name: &str| {
        let operations = role["operations"].as_array().expect("operations").iter();
        operations
            .filter(|row| row["operation"] == name)
            .filter_map(|row| row["lat_ns"]["N"].as_u64())
            .sum::<u64>()
    };
    let items = role["rates"]["items"].as_u64().expect("items");
    for name in ["openat create", "write", "fsync", "close", "statx", "unlinkat"] {
        assert!(items > 0 && count(name).abs_diff(items) <= 2, "{name}: {} of {items}", count(name));
    }
    assert_eq!(stored["trials"][0]["workload"]["kind"], "flow", "{}", describe_value(&stored));
    // A directory as it is, with a flow that comes with fsdyno.
    let directory = place.path().display().to_string();
    let bench = [
        "bench",
        &directory,
        "--flow",
        "maildir",
        "--ramp",
        "0",
        "--window",
        "300ms",
        "--set",
        "files.cur.count=200",
        "--set",
        "roles.client.workers=2",
    ];
    sandbox.shows(&bench, &["flow-iterations"]);
    assert_eq!(fs::read_dir(place.path()).expect("the directory").count(), 0, "it is left as it was");
    // With all of its workers, whose memory only the flow knows.
    let place = place.path().display().to_string();
    sandbox
        .shows(&["bench", &place, "--flow", "varmail", "--ramp", "0", "--window", "200ms"], &["16 clients"]);
}

fn describe_value(value: &Value) -> String {
    value["trials"][0]["workload"].to_string()
}

fn several_numbers_of_workers_are_swept_and_shown() {
    let sandbox = Sandbox::new();
    let plan = format!(
        "[device]\nimage = \"{}\"\nsize = \"512M\"\n[axes]\nfilesystem = [\"xfs\"]\n[[workloads]]\n\
         kind = \"flow\"\nflow = \"varmail\"\nramp = 0\nwindow = \"300ms\"\n\
         [workloads.roles.client]\nworkers = [1, 2, 4]\n",
        sandbox.path("own.img").display()
    );
    sandbox.write("plan.toml", &plan);
    sandbox.shows(
        &["plan", "plan.toml"],
        &["each of 1, 2 and 4 clients, over and over", "divided among the workers"],
    );
    let swept = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    let trial = &json(&swept)["trials"][0];
    let phases = trial["phases"].as_array().expect("phases");
    let of_each = |what: fn(&Value) -> Value| phases.iter().map(what).collect::<Vec<_>>();
    assert_eq!(of_each(|phase| phase["name"].clone()), ["flow, 1 client", "flow, 2 clients", "flow"]);
    assert_eq!(of_each(|phase| phase["roles"][0]["workers"].clone()), [1, 2, 4]);
    assert_eq!(of_each(|phase| phase["cache"]["remounted"].clone()), [true; 3], "each begins cold");
    sandbox.shows(&["show", "--tables"], &["rate of the clients by their number", "an iteration takes"]);
    let written = sandbox.run(&["report", "-o", "report.html"]);
    assert!(written.status.success(), "{}", describe(&written));
    let report = fs::read_to_string(sandbox.path("report.html")).expect("a report");
    assert!(report.contains("Rate by number of workers"));
}
