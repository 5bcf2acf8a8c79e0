//! Flows as users run them: the calls of `varmail` as strace sees them, and each flow as a plan.

use crate::support::{MAKING_ON_IMAGES, Requirement, Sandbox, describe, json};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

tests! {
    varmail_makes_the_calls_of_its_definition: &[Requirement::Program("strace")];
    sqlite_makes_the_calls_of_the_program:
        &[Requirement::Program("strace"), Requirement::Program("sqlite3")];
    fs_mark_makes_the_calls_of_the_program:
        &[Requirement::Program("strace"), Requirement::Program("fs_mark")];
    dbench_makes_the_calls_of_the_program:
        &[Requirement::Program("strace"), Requirement::Program("dbench")];
    every_flow_is_a_plan_that_can_be_dry_run: &[];
    a_flow_is_measured_in_a_directory_and_shown_everywhere: &[];
    several_numbers_of_workers_are_swept_and_shown: MAKING_ON_IMAGES;
}

/// Returns what `enough` finds in the trace of a plan's load. How far the load comes in its time depends on
/// the machine: the window is longer until there is enough.
fn traced_load<T>(
    sandbox: &Sandbox,
    strace: &[&str],
    plan: &str,
    enough: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    ["300ms", "2s", "10s", "60s", "300s"].iter().find_map(|window| {
        sandbox.write("plan.toml", &plan.replace("WINDOW", window));
        let (output, trace) = sandbox.traced(strace, &["sweep", "plan.toml", "--format", "json"]);
        assert_eq!(json(&output)["trials"][0]["outcome"], "measured", "{}", describe(&output));
        enough(&trace)
    })
}

const WORKERS: u64 = 2;

/// The calls of one iteration of filebench's definition: the text that the line of strace for each contains,
/// the text that it does not contain, and the number of calls. One read gets a file and one finds its end.
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
         flow = \"varmail\"\nramp = 0\nwindow = \"WINDOW\"\n[workloads.files.mail]\ncount = 40\n\
         [workloads.roles.client]\nworkers = {WORKERS}\n",
        place.path().display(),
    );
    let strace = ["-y", "-e", "trace=unlinkat,openat,lseek,read,write,fsync,close"];
    let syncs =
        |trace: &str| trace.lines().filter(|line| line.contains("/mail") && line.contains("fsync(")).count();
    let trace = traced_load(&sandbox, &strace, &plan, |trace| (syncs(trace) > 40).then(|| trace.to_string()));
    let trace = trace.expect("twenty iterations");
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

/// The parts of paths that identify the database, its journal or log, and the directory.
struct Paths<'a> {
    database: &'a str,
    log: &'a str,
    directory: &'a str,
}

/// Returns the change to a database that a line of strace shows, if there is one.
fn change(line: &str, paths: &Paths<'_>) -> Option<String> {
    // Another thread may have interrupted it; its end is then on another line.
    let line = line.split_once(" <unfinished").map_or(line, |(begun, _)| begun);
    let (call, rest) = line.split_once('(')?;
    let (call, mut size) = (call.rsplit(' ').next()?, "");
    let arguments = rest.rsplit_once(") = ").map_or(rest, |(arguments, _)| arguments);
    let kind = match call {
        "write" | "pwrite64" => {
            // The place comes last.
            size = arguments.rsplit(", ").nth(usize::from(call == "pwrite64"))?;
            "write"
        }
        "fsync" | "fdatasync" => "sync",
        "openat" if rest.contains("O_CREAT") => "create",
        "unlink" | "unlinkat" => "remove",
        _ => return None,
    };
    let what = match rest {
        _ if kind == "sync" && rest.contains(paths.directory) => "directory",
        _ if rest.contains(paths.log) => "log",
        _ if rest.contains(paths.database) => "database",
        // Memory that processes share.
        _ => return None,
    };
    Some(format!("{kind} {what} {size}").trim_end().to_string())
}

/// The changes from one commit to the next, if there are enough of them.
fn transaction(trace: &str, place: &str, paths: &Paths<'_>, commit: &str) -> Option<Vec<String>> {
    let changes: Vec<String> =
        trace.lines().filter(|line| line.contains(place)).filter_map(|line| change(line, paths)).collect();
    let ends: Vec<usize> = (0..changes.len()).filter(|at| changes[*at] == commit).collect();
    let of_each: Vec<&[String]> = ends.windows(2).map(|pair| &changes[pair[0] + 1..=pair[1]]).collect();
    if of_each.len() <= 5 {
        return None;
    }
    // The first ones may differ, and a checkpoint may come later.
    assert_eq!(of_each[2], of_each[3]);
    Some(of_each[2].to_vec())
}

/// SQLite itself and the flow that is called after it change the same files in the same order.
fn sqlite_makes_the_calls_of_the_program() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let shown = place.path().display().to_string();
    let strace = ["-f", "-qq", "-y", "-e", "trace=openat,write,pwrite64,fsync,fdatasync,unlink,unlinkat"];
    let create = "pragma page_size=4096; create table t(k integer primary key, v blob); with recursive n(k) as \
                  (values(1) union all select k + 1 from n where k < 400) insert into t select k, \
                  zeroblob(3000) from n;";
    for (mode, flow, log, set, commit) in [
        ("delete", "sqlite", "journal", "journal", "remove log"),
        ("wal", "sqlite-wal", "wal", "log", "sync log"),
    ] {
        let database = place.path().join(format!("{mode}.db"));
        // Each row has a page of its own.
        let updates: String = (1..12)
            .map(|first| {
                let rows = (0..4)
                    .map(|row| format!("update t set v = randomblob(3000) where k = {};", first + 80 * row));
                format!("begin;{}commit;", rows.collect::<String>())
            })
            .collect();
        let sql = format!("{create} pragma journal_mode={mode}; pragma synchronous=full; {updates}");
        let trace = sandbox.path("sqlite.trace");
        let mut program = Command::new("strace");
        program.args(strace).arg("-o").arg(&trace).arg("sqlite3").arg(&database).arg(&sql);
        let output = program.output().expect("run strace");
        assert!(output.status.success(), "{}", describe(&output));
        let trace = fs::read_to_string(trace).expect("the trace");
        let directory = format!("{shown}>");
        let paths = Paths { database: ".db>", log: &format!(".db-{log}"), directory: &directory };
        let mut program = transaction(&trace, &shown, &paths, commit).expect("transactions");
        // The flow names this difference: it cannot write at a certain place of a file that it creates.
        program.retain(|change| change != "write log 12");

        let plan = format!(
            "telemetry = false\n[device]\ndirectory = \"{shown}\"\n[[workloads]]\nkind = \"flow\"\n\
             flow = \"{flow}\"\nramp = 0\nwindow = \"WINDOW\"\n[workloads.files.database]\nsize = \"1M\"\n\
             [workloads.roles.client]\nworkers = 1\n"
        );
        let paths = Paths { database: "/database", log: &format!("/{set}"), directory: "/w0>" };
        let of_flow = |trace: &str| transaction(trace, "/fsdyno-", &paths, commit);
        assert_eq!(traced_load(&sandbox, &strace[2..], &plan, of_flow), Some(program), "{flow}");
    }
}

/// The calls that make each of the first few files that are synced, with the size of each write, from
/// creating it to closing it. `strace -y` shows the path of each. A file of which it shows a call in two
/// pieces, because another thread came between, is left out.
fn files(trace: &str, place: &str) -> Vec<Vec<String>> {
    let mut made: Vec<(&str, Vec<String>)> = Vec::new();
    for (_, call) in trace.lines().filter_map(|line| line.split_once(' ')) {
        let paths: Vec<&str> =
            call.split('<').skip(1).filter_map(|part| Some(part.split_once('>')?.0)).collect();
        let (name, rest) = call.trim_start().split_once('(').unwrap_or((call, ""));
        // The second piece of a creation, perhaps.
        let is_resumed = call.trim_start().starts_with("<... openat resumed>");
        let is_creation = is_resumed || name == "openat" && rest.contains("O_CREAT");
        let path = if is_creation { paths.last() } else { paths.first() };
        let Some(path) = path.filter(|path| path.contains(place)) else { continue };
        let result = rest.rsplit(" = ").next().unwrap_or_default();
        if is_creation {
            made.push((path, vec![if is_resumed { "unfinished openat" } else { "create" }.to_string()]));
        } else if let Some((_, calls)) = made.iter_mut().rfind(|(known, _)| known == path) {
            calls.push(match name {
                "write" if !rest.contains("unfinished") => format!("write {result}"),
                name if rest.contains("unfinished") => format!("unfinished {name}"),
                name => name.to_string(),
            });
        }
    }
    let whole = |calls: &Vec<String>| {
        calls.iter().any(|call| call == "fsync")
            && calls.last().is_some_and(|call| call == "close")
            && !calls.iter().any(|call| call.starts_with("unfinished"))
    };
    made.into_iter().map(|(_, calls)| calls).filter(whole).take(10).collect()
}

fn fs_mark_makes_the_calls_of_the_program() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let shown = place.path().display().to_string();
    let strace = ["-f", "-qq", "-y", "-e", "trace=openat,write,fsync,close"];
    let trace = sandbox.path("fs_mark.trace");
    let mut program = Command::new("strace");
    // It leaves a file for its log where it runs.
    program.args(strace).arg("-o").arg(&trace).current_dir(sandbox.path(""));
    let output = program.args(["fs_mark", "-n", "20", "-d", &shown]).output().expect("run strace");
    assert!(output.status.success(), "{}", describe(&output));
    let program = files(&fs::read_to_string(trace).expect("the trace"), &shown);
    assert_eq!(program.len(), 10);

    let plan = format!(
        "telemetry = false\n[device]\ndirectory = \"{shown}\"\n[[workloads]]\nkind = \"flow\"\n\
         flow = \"fs-mark\"\nramp = 0\nwindow = \"WINDOW\"\n[workloads.files.files]\ncount = 40\n"
    );
    let of_flow = |trace: &str| Some(files(trace, "/files/")).filter(|files| files.len() == program.len());
    assert_eq!(traced_load(&sandbox, &strace[2..], &plan, of_flow), Some(program.clone()));
}

/// Returns the number of calls of each kind that succeed in a part of a trace that begins with the first
/// sync, for every 24 files that are created in it, and the means of what reads and writes return in KiB. The
/// part has as many files as `files` makes of those after the first sync; `None` if there are fewer.
fn office_calls(
    trace: &str,
    place: &str,
    files: impl Fn(usize) -> Option<usize>,
) -> Option<BTreeMap<&'static str, f64>> {
    let lines = trace.lines().filter(|line| line.contains(place));
    let calls = lines.skip_while(|line| !line.contains("fsync(")).filter_map(|line| {
        let (call, rest) = line.split_once('(')?;
        let result = rest.rsplit(" = ").next()?.split('<').next()?;
        let returned: u64 = result.parse().ok()?;
        let kind = match call.rsplit(' ').next()? {
            "openat" if rest.contains("O_DIRECTORY") => "readdir",
            "openat" if rest.contains("O_CREAT") => "create",
            "openat" => "open",
            "pread64" => "read",
            "write" | "pwrite64" => "write",
            "fsync" => "fsync",
            "rename" | "renameat" => "rename",
            "unlink" | "unlinkat" => "unlink",
            // Not that of an open file.
            "newfstatat" | "statx" if !rest.contains(", \"\",") => "stat",
            _ => return None,
        };
        Some((kind, returned))
    });
    let calls: Vec<(&str, u64)> = calls.collect();
    let created = |part: &[(&str, u64)]| part.iter().filter(|(kind, _)| *kind == "create").count();
    let files = files(created(&calls))?;
    let end = (0..calls.len()).filter(|call| calls[*call].0 == "create").nth(files)?;
    let (mut counts, mut bytes) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
    for (kind, returned) in &calls[..end] {
        *counts.entry(*kind).or_default() += 1;
        *bytes.entry(*kind).or_default() += returned;
    }
    let mean = |kind| bytes[kind] as f64 / counts[kind] as f64 / 1024.0;
    let means = [("bytes of a read", mean("read")), ("bytes of a write", mean("write"))];
    let each = counts.iter().map(|(kind, count)| (*kind, 24.0 * *count as f64 / files as f64));
    Some(each.chain(means).collect())
}

fn dbench_makes_the_calls_of_the_program() {
    /// The difference that is allowed, as a share or in calls.
    const TOLERANCE: (f64, f64) = (0.1, 1.5);
    /// The load of dbench repeats itself every 188 files or so, and is the same on every machine.
    const PROGRAM_FILES: usize = 2 * 188;
    /// The flow creates all of the files of an iteration before it opens the first one.
    const ITERATION_FILES: usize = 24;
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let shown = place.path().display().to_string();
    let calls = "trace=openat,newfstatat,statx,pread64,write,pwrite64,fsync,rename,renameat,unlink,unlinkat";
    let strace = ["-f", "-qq", "-y", "-e", calls];
    let trace = sandbox.path("dbench.trace");
    // How far it comes in its time depends on the machine.
    let program = [4, 8, 16, 32, 64].iter().find_map(|seconds| {
        let mut program = Command::new("strace");
        program.args(strace).arg("-o").arg(&trace);
        program.args(["dbench", "-t", &seconds.to_string(), "-D", &shown, "1"]);
        let output = program.output().expect("run strace");
        assert!(output.status.success(), "{}", describe(&output));
        office_calls(&fs::read_to_string(&trace).expect("the trace"), &shown, |_| Some(PROGRAM_FILES))
    });
    let program = program.expect("two turns of its load within a minute");

    let plan = format!(
        "telemetry = false\n[device]\ndirectory = \"{shown}\"\n[[workloads]]\nkind = \"flow\"\n\
         flow = \"dbench\"\nramp = 0\nwindow = \"WINDOW\"\n[workloads.files.documents]\ncount = 40\n\
         [workloads.files.files]\ncount = 60\n[workloads.roles.client]\nworkers = 1\n"
    );
    // The next one has begun when as many files have been created.
    let whole = |created: usize| created.saturating_sub(1) / ITERATION_FILES * ITERATION_FILES;
    let enough = |created| Some(whole(created)).filter(|files| *files >= PROGRAM_FILES);
    let of_flow = traced_load(&sandbox, &strace[2..], &plan, |trace| office_calls(trace, &shown, enough));
    let of_flow = of_flow.expect("as many files");
    let kinds = |calls: &BTreeMap<&'static str, f64>| calls.keys().copied().collect::<Vec<_>>();
    assert_eq!(kinds(&of_flow), kinds(&program));
    for (kind, expected) in &program {
        let (relative, absolute) = TOLERANCE;
        let far = (of_flow[kind] - expected).abs();
        assert!(far <= (relative * expected).max(absolute), "{kind}: {program:?}, not {of_flow:?}");
    }
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
        assert!((1..=3).contains(&once), "{name} is said {once} times");
    }
}

/// A flow of the user's own, in every command that shows results.
fn a_flow_is_measured_in_a_directory_and_shown_everywhere() {
    let sandbox = Sandbox::new();
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let plan = format!(
        "repetitions = 2\n[device]\ndirectory = \"{}\"\n[[workloads]]\nkind = \"flow\"\nramp = 0\n\
         window = \"2s\"\n[workloads.files.note]\ncount = 30\nsize = \"4k\"\nprefill = \"50%\"\n\
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
