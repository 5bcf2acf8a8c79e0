//! The first hour of a new user: ready plans, wrong words, the results of a fio job.

use crate::support::{Requirement, Sandbox, describe, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

const FIO: &[Requirement] = &[Requirement::Program("fio")];

tests! {
    ready_plans_are_listed_saved_and_found_by_name: &[];
    a_plan_can_come_from_standard_input: &[];
    wrong_words_are_answered_with_the_right_ones: &[];
    a_plan_that_would_measure_nothing_says_so: &[];
    quiet_prints_results_only: &[];
    the_version_names_the_build: &[];
    completions_are_scripts: &[];
    jobs_of_fio_that_differ_are_told_apart: FIO;
    jobs_of_fio_that_were_added_up_are_refused: FIO;
    files_of_fio_with_different_jobs_are_not_averaged: FIO;
    a_fio_job_is_named_in_its_errors: FIO;
    a_profile_says_how_well_files_compress: &[];
    the_log_has_everything_that_was_done_to_the_machine: &[
        Requirement::Root,
        Requirement::Loop,
        Requirement::Program("strace"),
    ];
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", describe(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The error of a command that must fail as a usage error.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", describe(output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with("error: ") && output.stdout.is_empty(), "{}", describe(output));
    text
}

fn a_plan_that_would_measure_nothing_says_so() {
    let sandbox = Sandbox::new();
    // No kernel since 4.19 mounts xfs without barriers.
    let text = "[device]\nimage = \"/var/tmp/fsdyno-nothing.img\"\nsize = \"1G\"\n[axes]\n\
                filesystem = \"xfs\"\nbarrier = 0\n[[workloads]]\nkind = \"null\"\n";
    sandbox.write("plan.toml", text);
    let planned = stdout(&sandbox.run(&["plan", "plan.toml"]));
    assert!(planned.contains("a sweep would measure nothing"), "{planned}");
}

fn ready_plans_are_listed_saved_and_found_by_name() {
    let sandbox = Sandbox::new();
    let listed = stdout(&sandbox.run(&["plans"]));
    for name in ["demo", "which-filesystem", "oetiker-2009"] {
        assert!(listed.lines().any(|line| line == name), "{listed}");
    }
    assert!(listed.contains("for each of 4 to 20 blocks"), "{listed}");
    let printed = stdout(&sandbox.run(&["plans", "demo"]));
    stdout(&sandbox.run(&["plans", "demo", "--save"]));
    assert_eq!(fs::read_to_string(sandbox.path("demo.toml")).expect("the file"), printed);
    let error = refused(&sandbox.run(&["plans", "demo", "--save"]));
    assert!(error.contains("'demo.toml' exists already") && error.contains("--save=FILE"), "{error}");
    stdout(&sandbox.run(&["plans", "demo", "--save=mine.toml"]));
    // By name, and as a file that has been edited and has precedence over the name.
    let shown = stdout(&sandbox.run(&[
        "plan",
        "which-filesystem",
        "--set",
        "device.size=4G",
        "--set",
        "workloads.tree_size=1G",
    ]));
    assert!(shown.contains("which-filesystem: 3 cases"), "{shown}");
    sandbox.write("demo", &printed.replace("name = \"demo\"", "name = \"edited\""));
    let image = format!("device.image={}", sandbox.path("own.img").display());
    let shown = stdout(&sandbox.run(&["plan", "demo", "--set", &image]));
    assert!(shown.contains("edited: 6 cases"), "{shown}");
}

fn a_plan_can_come_from_standard_input() {
    let sandbox = Sandbox::new();
    let image = format!("device.image={}", sandbox.path("own.img").display());
    let piped = |text: &str| {
        let mut child = sandbox
            .fsdyno(&["plan", "-", "--set", &image])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("run fsdyno");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("write to it");
        child.wait_with_output().expect("its output")
    };
    let demo = stdout(&sandbox.run(&["plans", "demo"]));
    assert!(stdout(&piped(&demo)).contains("demo: 6 cases"));
    let error = refused(&piped("nonsense = 1\n"));
    assert!(error.contains("stdin:1:1: unknown key 'nonsense'"), "{error}");
}

fn wrong_words_are_answered_with_the_right_ones() {
    let sandbox = Sandbox::new();
    let error = refused(&sandbox.run(&["plan", "which-filesytem"]));
    assert!(error.contains("did you mean 'which-filesystem'?"), "{error}");
    let error = refused(&sandbox.run(&["plan", "qqq"]));
    assert!(error.contains("hint: fsdyno plans lists "), "{error}");
    assert!(stdout(&sandbox.run(&["plans"])).contains("which-filesystem"));
    let error = refused(&sandbox.run(&["plan", "demo", "--set", "measure=iops"]));
    assert!(error.contains("unknown measure 'iops'; did you mean 'PHASE/ROLE/operation-rate'?"), "{error}");
    let error = refused(&sandbox.run(&["plan", "demo", "--set", "measure=qqq"]));
    assert!(error.contains("expected one of read, read-many, "), "{error}");
    let error = refused(&sandbox.run(&["plan", "demo", "--set", "axes.qqq=1"]));
    assert!(error.contains("unknown axis 'qqq'; expected one of filesystem, kernel, "), "{error}");
}

fn quiet_prints_results_only() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let bench =
        ["bench", "work", "--tree-size", "8M", "--ramp", "50ms", "--window", "200ms", "--format", "json"];
    let loud = sandbox.run(&bench);
    assert!(stdout(&loud).starts_with('{') && !loud.stderr.is_empty());
    let quiet = sandbox.run(&[&bench[..], &["--quiet"]].concat());
    assert!(stdout(&quiet).starts_with('{') && quiet.stderr.is_empty(), "{}", describe(&quiet));
    // Errors are no progress.
    let error = refused(&sandbox.run(&["-q", "bench", "absent"]));
    assert!(error.contains("'absent'"), "{error}");
}

fn the_version_names_the_build() {
    let heard = stdout(&Sandbox::new().run(&["--version"]));
    let version = concat!("fsdyno ", env!("CARGO_PKG_VERSION"), " (");
    let build = heard.trim_end().strip_prefix(version).and_then(|rest| rest.strip_suffix(')'));
    let build = build.unwrap_or_else(|| panic!("{heard}"));
    assert!(build == "debug build" || build.starts_with("commit "), "{heard}");
}

fn completions_are_scripts() {
    let sandbox = Sandbox::new();
    let script = sandbox.write("fsdyno.bash", &stdout(&sandbox.run(&["completions", "bash"])));
    // What bash offers after `fsdyno sw`.
    let ask = "source \"$1\"; COMP_WORDS=(fsdyno sw); COMP_CWORD=1; _fsdyno fsdyno sw fsdyno; echo \
        \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", ask, "bash"]).arg(script).output().expect("run bash");
    assert_eq!(stdout(&output).trim(), "sweep", "{}", describe(&output));
}

/// A database: reads of the data beside a log that is written and synced.
fn database(global: &str) -> String {
    format!(
        "[global]\nsize=1m\nioengine=psync\n{global}\n[data]\nrw=randread\nbs=16k\n[wal]\nrw=write\nbs=4k\nfdatasync=1\n"
    )
}

/// Runs fio on a job and keeps its JSON in the sandbox.
fn fio(sandbox: &Sandbox, job: &str, result: &str) {
    sandbox.write("job.fio", job);
    let output = Command::new("fio")
        .args(["--output-format=json+", "job.fio"])
        .current_dir(sandbox.path(""))
        .output()
        .expect("run fio");
    sandbox.write(result, &stdout(&output));
}

fn jobs_of_fio_that_differ_are_told_apart() {
    let sandbox = Sandbox::new();
    fio(&sandbox, &database(""), "database.json");
    stdout(&sandbox.run(&["import", "fio", "database.json"]));
    let stored = sandbox.stored();
    let phases = stored["trials"][0]["phases"].as_array().expect("phases").clone();
    let roles = |phase: &serde_json::Value| {
        let roles = phase["roles"].as_array().expect("roles").iter();
        roles.map(|role| role["role"].as_str().unwrap_or_default().to_string()).collect::<Vec<_>>()
    };
    let found: Vec<(&str, Vec<String>)> =
        phases.iter().map(|phase| (phase["name"].as_str().unwrap_or_default(), roles(phase))).collect();
    assert_eq!(found, [("data", vec!["reader".to_string()]), ("wal", vec!["writer".to_string()])]);
}

fn jobs_of_fio_that_were_added_up_are_refused() {
    let sandbox = Sandbox::new();
    fio(&sandbox, &database("group_reporting"), "database.json");
    let error = refused(&sandbox.run(&["import", "fio", "database.json"]));
    // fio does not print that option.
    assert!(error.contains("may be those of other jobs") && error.contains("'database.json'"), "{error}");
    // The same job in a plan is refused before it runs, because there it can be seen.
    sandbox.write("job.fio", &database("group_reporting"));
    sandbox.write("plan.toml", &external("job.fio"));
    let error = refused(&sandbox.run(&["plan", "plan.toml"]));
    assert!(error.contains("job.fio") && error.contains("jobs 'data' and 'wal' differ"), "{error}");
    sandbox.write("job.fio", &database(""));
    stdout(&sandbox.run(&["plan", "plan.toml"]));
}

fn external(job: &str) -> String {
    format!(
        "[device]\nimage = \"/var/tmp/fsdyno-first-hour.img\"\nsize = \"256M\"\n[axes]\n\
         filesystem = \"ext4\"\n[[workloads]]\nkind = \"external\"\nprogram = \"fio\"\njob = \"{job}\"\n"
    )
}

fn files_of_fio_with_different_jobs_are_not_averaged() {
    let sandbox = Sandbox::new();
    for (name, bs) in [("a.json", "4k"), ("b.json", "16k"), ("c.json", "4k")] {
        fio(&sandbox, &format!("[write]\nrw=write\nsize=1m\nbs={bs}\n"), name);
    }
    let import = |second| sandbox.run(&["import", "fio", "a.json", second, "--configuration", "ext4"]);
    assert!(stdout(&import("b.json")).contains("2 trials of 2 cases"));
    assert!(stdout(&import("c.json")).contains("2 trials of 1 case"));
}

fn a_fio_job_is_named_in_its_errors() {
    let sandbox = Sandbox::new();
    sandbox.write("mine.fio", "[a]\nrw=read\nsize=1m\nexec_prerun=date\n");
    sandbox.write("plan.toml", &external("mine.fio"));
    let error = refused(&sandbox.run(&["plan", "plan.toml"]));
    assert!(
        error.contains("'mine.fio'") && error.contains("exec_prerun") && error.contains("line 4"),
        "{error}"
    );
    // What only fio itself knows to be wrong.
    sandbox.write("mine.fio", "[a]\nrw=read\nsize=1m\nnonsense=1\n");
    fs::create_dir(sandbox.path("work")).expect("a directory");
    let plan = "[device]\ndirectory = \"work\"\n[[workloads]]\nkind = \"external\"\nprogram = \"fio\"\n\
        job = \"mine.fio\"\n";
    sandbox.write("plan.toml", plan);
    let output = sandbox.run(&["sweep", "plan.toml", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let error = json(&output)["trials"][0]["error"].to_string();
    assert!(error.contains("job file 'mine.fio': it ended with exit code"), "{error}");
}

fn a_profile_says_how_well_files_compress() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("text")).expect("a directory");
    sandbox.write("text/log", &"a line of a log that is like all the others\n".repeat(40_000));
    let output = sandbox.run(&["profile", "text", "-o", "text.json"]);
    stdout(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("content = { compressible = 0.9") || said.contains("compressible = 1.00"),
        "{said}"
    );
    // A model with an estimate is still a model.
    sandbox.write(
        "plan.toml",
        "[device]\nimage = \"/var/tmp/fsdyno-first-hour.img\"\nsize = \"256M\"\n[axes]\n\
         filesystem = \"ext4\"\n[[workloads]]\nkind = \"fileserver\"\ntree_size = \"8M\"\n\
         tree = \"profile:text.json\"\n",
    );
    stdout(&sandbox.run(&["plan", "plan.toml"]));
}

/// The log is compared with what strace saw: every program that ran, every mount and unmount.
fn the_log_has_everything_that_was_done_to_the_machine() {
    let sandbox = Sandbox::new();
    let plan = format!(
        "name = \"logged\"\n[device]\nimage = \"{}\"\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n\
         scheduler = \"bfq\"\n[[workloads]]\nkind = \"fileserver\"\ntree_size = \"2M\"\nreaders = 1\n\
         writers = 1\nwriter_space = \"4M\"\nramp = \"0\"\nwindow = \"20ms\"\n",
        sandbox.path("logged.img").display()
    );
    sandbox.write("plan.toml", &plan);
    let (swept, trace) = sandbox
        .traced(&["-e", "trace=execve,umount2"], &["sweep", "plan.toml", "--verbose", "--format", "json"]);
    assert!(swept.status.success(), "{}", describe(&swept));
    let log = stdout(&sandbox.run(&["show", "--log"]));
    let trials = log.matches("trial ").count();
    for step in
        ["mkfs.ext4 ", "mount -t ext4 ", "echo bfq > /sys/", "umount ", "losetup --detach /dev/loop", "rm "]
    {
        assert!(log.contains(step), "no '{step}' in\n{log}");
    }
    assert!(!log.contains("(failed: "), "{log}");
    // Engines leave the machine's mounts in namespaces of their own, and versions are asked for before the
    // sweep.
    let process = |line: &str| line.split(' ').next().unwrap_or_default().to_string();
    let engines: Vec<String> =
        trace.lines().filter(|line| line.contains("\"engine\"], ")).map(process).collect();
    let is_a_step = |line: &&str| !line.contains("\"-V\"]") && !engines.contains(&process(line));
    let made = |call: &str| trace.lines().filter(is_a_step).filter(|line| line.contains(call)).count();
    for (step, call) in
        [("mkfs.ext4 ", "/mkfs.ext4\", ["), ("e2fsck ", "/e2fsck\", ["), ("umount /", "umount2(\"")]
    {
        assert_eq!(log.matches(step).count(), made(call), "{step}\n{log}\n{trace}");
    }
    assert_eq!(made("/mkfs.ext4\", ["), trials, "{trace}");
    // What --verbose said is what was stored.
    let said = String::from_utf8_lossy(&swept.stderr).into_owned();
    for line in log.lines().filter(|line| line.contains(" ms  ")) {
        assert!(said.contains(line), "'{line}' is not in\n{said}");
    }
}
