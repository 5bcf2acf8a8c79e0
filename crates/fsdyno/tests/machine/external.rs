//! The real bonnie++, postmark, fio, dbench, sqlite3 and pgbench on a small image, and what remains of them
//! when a sweep is killed.

use crate::support::{Requirement, Sandbox, describe, wait_until};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const PLAN: &str = r#"
name = "external"

[device]
image = "IMAGE"
size = "512M"

[axes]
filesystem = ["ext4"]

[[workloads]]
kind = "external"
"#;

const JOB: &str = "\
[global]
size=8m
ioengine=psync
bs=64k
end_fsync=1

[lay]
rw=write
numjobs=2
group_reporting

[mix]
stonewall
new_group
rw=randrw
bs=4k
";

const BONNIE: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("bonnie++"),
    Requirement::Program("bon_csv2txt"),
    Requirement::OwnImages,
];
const LOOP: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::OwnImages];
const FIO: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("fio"), Requirement::Program("pgrep")];

tests! {
    bonnie_reports_its_parts: BONNIE;
    postmark_reports_its_counts: &[Requirement::All(LOOP), Requirement::Program("postmark")];
    fio_reports_its_jobs: &[Requirement::All(FIO), Requirement::OwnImages];
    fio_reports_what_its_options_make_of_a_job: &[Requirement::All(FIO), Requirement::OwnImages];
    dbench_reports_its_operations: &[Requirement::All(LOOP), Requirement::Program("dbench")];
    sqlite_reports_its_tests: &[Requirement::All(LOOP), Requirement::Program("sqlite3")];
    pgbench_has_a_server_of_its_own:
        &[Requirement::All(LOOP), Requirement::Program("pgbench"), Requirement::Program("pgrep")];
    the_error_of_a_program_is_kept: BONNIE;
    a_killed_sweep_leaves_no_program: FIO;
}

fn plan(sandbox: &Sandbox, workload: &str) -> String {
    let text = PLAN.replace("IMAGE", &sandbox.path("data.img").display().to_string());
    sandbox.write("plan.toml", &format!("{text}{workload}")).display().to_string()
}

/// Runs a sweep, and returns the stored trial.
fn trial(sandbox: &Sandbox, workload: &str) -> Value {
    let swept = sandbox.run(&["sweep", &plan(sandbox, workload)]);
    assert!(swept.status.success(), "{}", describe(&swept));
    stored(sandbox)
}

fn stored(sandbox: &Sandbox) -> Value {
    sandbox.stored()["trials"][0].clone()
}

/// The names of the phases, each with its first role.
fn parts(trial: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let phases = trial["phases"].as_array().expect("phases");
    phases.iter().map(|phase| (text(&phase["name"]), text(&phase["roles"][0]["role"]))).collect()
}

fn bonnie_reports_its_parts() {
    let sandbox = Sandbox::new();
    let trial = trial(&sandbox, "program = \"bonnie++\"\narguments = \"-s 32m -n 4:2000:10:4 -f3\"\n");
    let parts = parts(&trial);
    assert_eq!(parts.len(), 12, "{parts:?}");
    assert_eq!(parts[0], ("write per character".to_string(), "writer".to_string()));
    // Moving so many single bytes takes long enough for bonnie++, which reports nothing below half a second;
    // the other parts may not, and then a warning says that they have no figure.
    let silent = trial["phases"].as_array().expect("phases").iter().any(|phase| phase["window_ns"] == 0);
    assert_eq!(silent, trial["warnings"].to_string().contains("figure-missing"), "{trial}");
    // It announces its parts, so each is watched separately: the slow one fills its window with its own work.
    assert!(trial["phases"].as_array().expect("phases").iter().all(|phase| phase["telemetry"].is_object()));
    let first = &trial["phases"][0];
    let (watched, said) = (&first["telemetry"]["window"]["length_ns"], &first["window_ns"]);
    let ratio = watched.as_f64().expect("a length") / said.as_f64().expect("a window");
    assert!((0.9..1.1).contains(&ratio), "watched for {watched}, reported {said}");
    assert!(
        first["telemetry"]["window"]["task_ns"]["own"].as_u64().is_some_and(|ns| ns > 100_000_000),
        "{first}"
    );
    let writer = &trial["phases"][0]["roles"][0];
    assert_eq!(writer["rates"]["bytes"], 3 << 20);
    assert!(writer["longest_stall_ns"].as_u64().is_some_and(|stall| stall > 0), "{writer}");
    assert!(writer["time_over_1s"].is_null() && writer["operations"] == Value::Array(Vec::new()), "{writer}");
    tables_equal_those_of_the_program(&sandbox);
}

/// The program's own `bon_csv2txt` turns our line of fields into the tables that we show.
fn tables_equal_those_of_the_program(sandbox: &Sandbox) {
    let line = sandbox.run(&["show", "--as", "bonnie-csv"]);
    let fields = String::from_utf8_lossy(&line.stdout).into_owned();
    assert_eq!(fields.trim_end().split(',').count(), 50, "{}", describe(&line));
    let file = sandbox.write("line.csv", &fields);
    let printed = Command::new("bon_csv2txt").stdin(fs::File::open(file).expect("the line")).output();
    let printed = printed.expect("bon_csv2txt runs");
    // Figures and latencies in the order of the tables. The names and sizes before them have another format,
    // and it prints 0k where bonnie++ itself prints +++++.
    let figures = |line: &str| -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let figures = &words[words.len().saturating_sub(12)..];
        figures.iter().map(|word| if *word == "0k" { "+++++" } else { word }.to_string()).collect()
    };
    let rows = |text: &str| -> Vec<Vec<String>> {
        let wanted = text.lines().filter(|line| line.starts_with("Latency") || line.contains("+++"));
        wanted.map(figures).collect()
    };
    let shown = sandbox.run(&["show", "--full"]);
    let (theirs, ours) = (String::from_utf8_lossy(&printed.stdout), String::from_utf8_lossy(&shown.stdout));
    let (theirs, ours) = (rows(&theirs), rows(&ours));
    assert!(ours.len() == 4 && ours == theirs, "{ours:#?}\n{}", describe(&printed));
}

fn postmark_reports_its_counts() {
    let sandbox = Sandbox::new();
    let commands = "commands = [\"set number 200\", \"set transactions 1000\", \"set size 500 10000\"]\n";
    let trial = trial(&sandbox, &format!("program = \"postmark\"\n{commands}"));
    let names: Vec<String> = parts(&trial).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["create", "transactions", "delete"]);
    let stdout = String::from_utf8_lossy(&sandbox.run(&["show", "--full"]).stdout).into_owned();
    assert!(
        stdout.contains("\nTime:\n\t1 seconds total\n\t1 seconds of transactions (1000.00 per second)\n"),
        "{stdout}"
    );
    assert!(stdout.contains("\t\tCreation alone: 200 files (200.00 per second)\n"), "{stdout}");
    let transactions = &trial["phases"][1];
    assert_eq!(transactions["roles"][0]["rates"]["items"], 1000);
    // It does not report its processor time, so the kernel's figure is stored, and can be shown with that of
    // kernel threads.
    assert!(transactions["roles"][0]["cpu"]["system_ns"].as_u64().is_some_and(|ns| ns > 0), "{transactions}");
    assert!(transactions["telemetry"]["window"]["devices"][0].is_object(), "{transactions}");
    let full = String::from_utf8_lossy(&sandbox.run(&["show", "--full"]).stdout).into_owned();
    assert!(full.contains("CPU with workers"), "{full}");
}

fn fio_reports_its_jobs() {
    let sandbox = Sandbox::new();
    sandbox.write("a.fio", JOB);
    let trial = trial(&sandbox, "program = \"fio\"\njob = \"a.fio\"\n");
    let row = |name: &str, role: &str| (name.to_string(), role.to_string());
    assert_eq!(parts(&trial), [row("lay", "writer"), row("mix", "writer"), row("whole run", "")]);
    assert_eq!(trial["workload"]["parameters"]["job"]["text"], JOB);
    let lay = &trial["phases"][0]["roles"][0];
    assert_eq!((&lay["workers"], &lay["rates"]["bytes"]), (&Value::from(2), &Value::from(16 << 20)));
    assert_eq!(lay["operations"][0]["operation"], "pwrite64");
    assert_eq!(lay["operations"][0]["lat_ns"]["N"], 256);
    assert!(lay["longest_stall_ns"].is_null(), "{lay}");
    let shown = sandbox.run(&["show", "--full"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("IOPS"), "{}", describe(&shown));
    let csv = sandbox.run(&["show", "--format", "csv"]);
    assert!(String::from_utf8_lossy(&csv.stdout).contains("pwrite64"), "{}", describe(&csv));
    // It reports nothing about its groups while it runs, so telemetry covers all of them together.
    let phases = trial["phases"].as_array().expect("phases");
    assert!(phases[0]["telemetry"].is_null() && phases[1]["telemetry"].is_null());
    let whole = &phases[2];
    assert_eq!((&whole["name"], &whole["roles"]), (&Value::from("whole run"), &Value::Array(Vec::new())));
    let written = &whole["telemetry"]["window"]["devices"][0]["write_bytes"];
    assert!(written.as_u64().is_some_and(|bytes| bytes >= 16 << 20), "{written}");
    let shown = sandbox.run(&["show", "--telemetry"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("whole run: averages over") && !text.contains("no telemetry"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// Options under which bytes, operations and directions are not those of `bs` and `rw` alone.
fn fio_reports_what_its_options_make_of_a_job() {
    let sandbox = Sandbox::new();
    let jobs = [
        ("ramp", "rw=randread\nioengine=libaio\niodepth=32\ndirect=1\nramp_time=1\ntime_based\nruntime=1\n"),
        ("verify", "rw=write\nverify=crc32c\n"),
        ("unified", "rw=randrw\nunified_rw_reporting=1\n"),
        ("split", "rw=randwrite\nbssplit=4k/50:64k/50\n"),
    ];
    let workload = |(name, options): (&str, &str)| {
        sandbox.write(&format!("{name}.fio"), &format!("[{name}]\nbs=4k\nsize=8m\n{options}"));
        format!("program = \"fio\"\njob = \"{name}.fio\"\n")
    };
    let workloads = jobs.map(workload).join("[[workloads]]\nkind = \"external\"\n");
    let swept = sandbox.run(&["sweep", &plan(&sandbox, &workloads)]);
    assert!(swept.status.success(), "{}", describe(&swept));
    let stored = sandbox.stored();
    let roles = |name: &str| -> Vec<Value> {
        let phases = stored["trials"].as_array().expect("trials").iter().flat_map(|trial| {
            assert_eq!(
                trial["environment"]["tools"]["fio"].as_str().map(|version| &version[..4]),
                Some("fio-")
            );
            trial["phases"].as_array().expect("phases")
        });
        let phase = phases.into_iter().find(|phase| phase["name"] == name);
        phase.unwrap_or_else(|| panic!("{name}: {stored}"))["roles"].as_array().expect("roles").clone()
    };
    let words = |name: &str| roles(name).iter().map(|role| role["role"].to_string()).collect::<String>();
    assert_eq!(words("ramp"), "\"reader\"");
    assert_eq!(words("verify"), "\"writer\"\"reader\"");
    assert_eq!(words("unified"), "\"reader-writer\"");
    assert_eq!(words("split"), "\"writer\"");
    for role in roles("verify") {
        assert_eq!(role["rates"]["bytes"], 8 << 20, "{role}");
    }
    assert_eq!(roles("unified")[0]["rates"]["bytes"], 8 << 20);
    assert!(roles("ramp")[0]["operations"][0]["lat_ns"]["N"].as_u64().is_some_and(|count| count > 0));
}

fn dbench_reports_its_operations() {
    let sandbox = Sandbox::new();
    let trial = trial(&sandbox, "program = \"dbench\"\narguments = \"-t 2 -x 2\"\n");
    let role = &trial["phases"][0]["roles"][0];
    assert_eq!((role["role"].as_str(), role["workers"].as_u64()), (Some("transactor"), Some(2)));
    let [rate, writes] = [&role["rates"]["aggregate_bytes_per_s"], &role["counts"]["WriteX"]];
    assert!(rate.as_f64().is_some_and(|rate| rate > 0.0), "{role}");
    assert!(writes.as_u64().is_some_and(|count| count > 0), "{role}");
    assert!(role["longest_stall_ns"].as_u64().is_some_and(|stall| stall > 0), "{role}");
    let shown = describe(&sandbox.run(&["show", "--full"]));
    assert!(shown.contains("the real dbench: -t 2 -x 2") && shown.contains("longest"), "{shown}");
}

fn sqlite_reports_its_tests() {
    let sandbox = Sandbox::new();
    let arguments = "rows=2000 journal_mode=wal synchronous=full";
    let trial = trial(&sandbox, &format!("program = \"sqlite3\"\narguments = \"{arguments}\"\n"));
    let parts = parts(&trial);
    assert_eq!(parts[0], ("insert each".to_string(), "transactor".to_string()));
    assert_eq!(parts.iter().filter(|(_, role)| role == "transactor").count(), 7, "{parts:?}");
    let first = &trial["phases"][0];
    assert_eq!(first["roles"][0]["rates"]["items"], 100);
    // Every transaction syncs its log.
    let rate = first["roles"][0]["rates"]["items_per_s"].as_f64().expect("a rate");
    assert!(rate > 1.0 && rate < 100_000.0, "{rate}");
    assert_eq!(
        sandbox
            .run(&["sweep", &plan(&sandbox, "program = \"sqlite3\"\narguments = \".shell\"\n")])
            .status
            .code(),
        Some(2)
    );
}

fn pgbench_has_a_server_of_its_own() {
    let sandbox = Sandbox::new();
    let trial = trial(&sandbox, "program = \"pgbench\"\narguments = \"-s 1 -c 2 -T 2\"\n");
    let names: Vec<String> = parts(&trial).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[..2], ["initialise", "transactions"]);
    let run = &trial["phases"][1];
    assert_eq!(
        (run["roles"][0]["workers"].as_u64(), run["window_ns"].as_u64()),
        (Some(2), Some(2_000_000_000))
    );
    assert!(run["roles"][0]["rates"]["items_per_s"].as_f64().is_some_and(|rate| rate > 1.0), "{run}");
    assert!(run["telemetry"].is_object(), "its parts are watched separately");
    let left = Command::new("pgrep").args(["-f", "postgres -D /run/fsdyno-"]).output().expect("pgrep runs");
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
}

fn the_error_of_a_program_is_kept() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, "program = \"bonnie++\"\narguments = \"-s 2g -n 0 -f\"\n");
    let swept = sandbox.run(&["sweep", &plan]);
    assert_eq!(swept.status.code(), Some(1), "{}", describe(&swept));
    let error = &stored(&sandbox)["error"];
    assert_eq!(error["step"], "bonnie++");
    assert!(error["details"].as_str().is_some_and(|text| text.contains("No space left")), "{error}");
    assert!(error["hint"].as_str().is_some_and(|text| text.contains("smaller")), "{error}");
}

/// The jobs of fio leave its process group, but they must also be gone.
fn a_killed_sweep_leaves_no_program() {
    let sandbox = Sandbox::new();
    let marker = format!("marker{}", std::process::id());
    sandbox.write(
        "long.fio",
        &format!("[{marker}]\nrw=randwrite\nsize=16m\ntime_based\nruntime=120\nnumjobs=3\n"),
    );
    let plan = plan(&sandbox, "program = \"fio\"\njob = \"long.fio\"\n");
    let mut sweep = sandbox
        .fsdyno(&["sweep", &plan])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start a sweep");
    wait_until("fio has started its jobs", || fio_processes() >= 4);
    sweep.kill().expect("kill the sweep");
    sweep.wait().expect("reap the sweep");
    wait_until("no process of fio is left", || fio_processes() == 0);
    let restore = sandbox.run(&["restore"]);
    assert!(restore.status.success(), "{}", describe(&restore));
}

/// Processes of fio that a sweep has started: those that read their jobs from standard input.
fn fio_processes() -> usize {
    let found = Command::new("pgrep").args(["-c", "-f", "^fio --output-format=json\\+ -$"]).output();
    found.ok().and_then(|out| String::from_utf8_lossy(&out.stdout).trim().parse().ok()).unwrap_or(0)
}
