//! The published studies: their figures compared with a run, and a run in their layout.

use crate::support::{Requirement, Sandbox, describe, json};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ON_IMAGES: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::OwnImages];

tests! {
    a_run_is_compared_with_the_published_figures: ON_IMAGES;
    every_ready_plan_has_the_cases_of_its_study: &[
        Requirement::Root,
        Requirement::Loop,
        Requirement::Program("qemu-system-x86_64"),
        Requirement::Program("apt-get"),
        Requirement::OnlyLooks,
    ];
    every_ready_plan_can_be_scaled_down_as_it_says:
        &[Requirement::Root, Requirement::Loop, Requirement::OnlyLooks];
    every_ready_plan_runs_scaled_and_prints_as_published: ON_IMAGES;
    a_wrong_reference_gets_one_clear_error: &[];
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", describe(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A ready plan: its contents, how to scale it down for a test, and what it prints.
struct Ready {
    plan: &'static str,
    /// Cases, and how many of them are skipped everywhere; those of a filesystem that only this machine lacks
    /// do not count.
    cases: (usize, usize),
    /// Arguments that reduce it to seconds; empty if it has no study or other tests run it.
    scaled: &'static [&'static str],
    /// The texts that its study's layout must show.
    shows: &'static [&'static str],
}

const READY: &[Ready] = &[
    Ready { plan: "demo", cases: (6, 0), scaled: &[], shows: &[] },
    Ready { plan: "durability", cases: (12, 0), scaled: &[], shows: &[] },
    Ready { plan: "durability-guests", cases: (5, 0), scaled: &[], shows: &[] },
    Ready { plan: "fsync-costs", cases: (24, 8), scaled: &[], shows: &[] },
    Ready { plan: "io-errors", cases: (7, 0), scaled: &[], shows: &[] },
    Ready { plan: "kernels", cases: (4, 0), scaled: &[], shows: &[] },
    Ready { plan: "nfs-durability", cases: (4, 0), scaled: &[], shows: &[] },
    Ready { plan: "nfs-server", cases: (8, 0), scaled: &[], shows: &[] },
    Ready {
        plan: "oetiker-2009",
        cases: (72, 0),
        scaled: &[
            "device.size=256M",
            "device.journals.disk.size=16M",
            "device.journals.memory.size=16M",
            "workloads.tree_size=4M",
            "workloads.writer_space=8M",
            "workloads.ramp=0",
            "workloads.window=20ms",
            "axes.data=[\"ordered\"]",
            "axes.journal=[\"internal\"]",
            "axes.atime=[\"relatime\"]",
        ],
        shows: &["barrier=0 fs=ext4", "scheduler=bfq", "J write rate"],
    },
    Ready {
        plan: "raid1-2008",
        cases: (21, 0),
        scaled: &["repetitions=1", "axes.kernel=host", "device.size=512M", "workloads.scale=0.001"],
        shows: &["small write", "medium read", "large copy", "large delete", "xfs block_size=1k", "skipped"],
    },
    Ready { plan: "raid5-durability", cases: (4, 0), scaled: &[], shows: &[] },
    Ready {
        plan: "schedulers-2009",
        cases: (22, 0),
        scaled: &[
            "device.size=512M",
            "workloads.1.options=\"-s 2m -r 0 -n 0\"",
            "workloads.1.char_size=64k",
            "workloads.number=20",
            "workloads.transactions=50",
        ],
        shows: &["\npostmark ", "\nbonnie ", "\nXFS Tuned ", "cfq -> bfq"],
    },
    Ready { plan: "shared-directory", cases: (1, 0), scaled: &[], shows: &[] },
    Ready {
        plan: "streaming-ext4-2008",
        cases: (5, 0),
        scaled: &["device.size=256M", "workloads.file_size=32M"],
        shows: &["Mount options", "delalloc,journal_async_commit", "65536       read"],
    },
    Ready {
        plan: "which-filesystem",
        cases: (3, 0),
        scaled: &[
            "repetitions=1",
            "device.size=512M",
            "workloads.tree_size=8M",
            "workloads.writer_space=16M",
            "workloads.ramp=0",
            "workloads.window=50ms",
        ],
        shows: &[],
    },
    Ready {
        plan: "xfs-tweaks-2003",
        cases: (15, 4),
        scaled: &[
            "device.size=16G",
            "workloads.options=\"-s 2m -r 0 -n 1:1000:16:2\"",
            "workloads.char_size=64k",
        ],
        shows: &["\nallocation-groups\n45 ", "Random Create", "a log of 32M is too small for mkfs.xfs"],
    },
];

fn ready(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans").join(format!("{name}.toml"))
}

fn every_ready_plan_has_the_cases_of_its_study() {
    let sandbox = Sandbox::new();
    let plans = std::fs::read_dir(ready("x").parent().expect("plans/")).expect("plans/").flatten();
    let plans = plans.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "toml"));
    let mut names: Vec<String> = plans
        .filter_map(|entry| entry.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let known: Vec<&str> = READY.iter().map(|ready| ready.plan).collect();
    assert_eq!(names, known, "a plan that no test covers");
    for Ready { plan, cases, .. } in READY {
        let path = ready(plan).display().to_string();
        // It needs LVM, which this machine's own kernel may lack.
        let kernel: &[&str] = if *plan == "streaming-ext4-2008" { &["--kernel", "debian:6.1"] } else { &[] };
        let output = sandbox.run(&[&["plan", &path, "--format", "json"], kernel].concat());
        // Not every machine has room for its images.
        assert!([Some(0), Some(3)].contains(&output.status.code()), "{}", describe(&output));
        let document = json(&output);
        let all = document["cases"].as_array().expect("cases");
        let skipped = all
            .iter()
            .filter(|case| !is_lost(case) && case["unmet"].as_array().is_some_and(|unmet| !unmet.is_empty()));
        assert_eq!((all.len(), skipped.count()), *cases, "{plan}");
    }
}

/// The command that a comment of a plan gives for a quick look at it is not refused.
fn every_ready_plan_can_be_scaled_down_as_it_says() {
    let sandbox = Sandbox::new();
    let mut scaled = 0;
    for Ready { plan, .. } in READY {
        let text = std::fs::read_to_string(ready(plan)).expect("a plan");
        let comment = text.lines().map_while(|line| line.strip_prefix('#')).collect::<Vec<_>>().join("\n");
        let Some((_, said)) = comment.split_once("Scaled down") else { continue };
        let (_, command) = said.split_once("fsdyno sweep ").expect("a command");
        let command = command.replace("\\\n", " ");
        // The first word is the plan itself; a shell knows what quotes mean.
        let (_, options) = command.lines().next().and_then(|line| line.split_once(' ')).expect("options");
        let image = match text.contains("\nimage = ") {
            true => format!("--set 'device.image={}'", sandbox.path("disk.img").display()),
            false => String::new(),
        };
        let planned = sandbox.fsdyno(&["plan"]);
        let line = format!("exec \"$@\" '{}' {options} {image}", ready(plan).display());
        let output = Command::new("sh")
            .args(["-c", &line, "sh"])
            .arg(planned.get_program())
            .args(planned.get_args())
            .envs(planned.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .output()
            .expect("run sh");
        assert_eq!(output.status.code(), Some(0), "{plan}: {}", describe(&output));
        scaled += 1;
    }
    assert!(scaled >= 6, "{scaled}");
}

/// Returns whether a case or a trial uses a filesystem that this machine does not support.
fn is_lost(of: &Value) -> bool {
    let lost = |name| match name {
        "reiserfs" => [Requirement::Filesystem("reiserfs"), Requirement::Program("mkfs.reiserfs")],
        _ => [Requirement::Filesystem("jfs"), Requirement::Program("mkfs.jfs")],
    };
    let name = of["configuration"]["filesystem"].as_str().expect("a filesystem");
    ["reiserfs", "jfs"].contains(&name) && lost(name).iter().any(|needed| needed.unmet().is_some())
}

/// Every case of every study is actually run, on images in memory if there is room.
fn every_ready_plan_runs_scaled_and_prints_as_published() {
    for Ready { plan, cases, scaled, shows } in READY.iter().filter(|ready| !ready.scaled.is_empty()) {
        let sandbox = Sandbox::new();
        let images = fsdyno_testkit::in_memory();
        let image =
            |key: &str, name: &str| format!("{key}={:?}", images.path().join(name).display().to_string());
        let path = ready(plan).display().to_string();
        let mut arguments = vec!["sweep".to_string(), path.clone(), "--format=json".to_string()];
        let mut set = |change: String| arguments.extend(["--set".to_string(), change]);
        let text = std::fs::read_to_string(&path).expect("the plan");
        if text.contains("[device.md]") || text.contains("[device.lvm]") {
            // This machine's kernel may support neither; other tests run stacks in guests.
            let data = images.path().join("data").display().to_string();
            set(format!("device={{ image = {data:?}, size = \"1M\" }}"));
        } else {
            set(image("device.image", "data"));
        }
        if text.contains("[device.journals]") {
            set(image("device.journals.disk.image", "disk"));
            set(image("device.journals.memory.image", "memory"));
        }
        scaled.iter().for_each(|change| set((*change).to_string()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = sandbox.run(&arguments);
        let document: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        let trials =
            document["trials"].as_array().expect("trials").iter().filter(|trial| trial["sentinel"] == false);
        let (skipped, measured): (Vec<_>, Vec<_>) = trials.partition(|trial| trial["outcome"] == "skipped");
        let everywhere: Vec<_> = skipped.iter().filter(|trial| !is_lost(trial)).collect();
        assert_eq!(everywhere.len(), cases.1, "{plan}: {everywhere:?}");
        assert!(
            !measured.is_empty() && measured.iter().all(|trial| trial["outcome"] == "measured"),
            "{plan}"
        );
        if !shows.is_empty() {
            let shown = stdout(&sandbox.run(&["show", "--as", "published"]));
            shows
                .iter()
                .for_each(|text| assert!(shown.contains(text), "{plan}: expected '{text}' in:\n{shown}"));
        }
    }
}

/// One of the published configurations, and one that was not published, on an image in the sandbox.
fn a_run_is_compared_with_the_published_figures() {
    let sandbox = Sandbox::new();
    let plan = format!(
        r#"study = "fsopbench-2009"
[device]
image = "{}"
size = "512M"
[axes]
filesystem = ["ext3"]
scheduler = ["bfq"]
atime = ["relatime"]
barrier = [0]
data = ["ordered", "writeback"]
journal = ["internal"]
[[workloads]]
kind = "fileserver"
tree_size = "8M"
writer_space = "16M"
ramp = "20ms"
window = "200ms"
"#,
        sandbox.path("studies.img").display()
    );
    sandbox.sweep(&plan);

    let compare =
        |format| stdout(&sandbox.run(&["compare", "--with", "published:fsopbench-2009", "--format", format]));
    let document: Value = serde_json::from_str(&compare("json")).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    let missing = document["missing"].as_array().expect("rows without a counterpart");
    // data=writeback was published for another disk; for data=ordered both journals are inside the
    // filesystem.
    assert_eq!((rows.len(), missing.len()), (3, 3));
    let first = &rows[0]["figures"][0];
    let (published, ours) = (first["published"].as_f64(), first["ours"]["value"].as_f64());
    let ratio = ours.zip(published).map(|(ours, published)| ours / published);
    assert!(ratio.is_some() && first["ratio"].as_f64() == ratio, "{first}");
    assert!(missing.iter().all(|row| row["reason"] == "the sweep has no such configuration"));

    let text = compare("text");
    assert!(text.contains("published but not measured") && text.contains("ratio"), "{text}");
    assert_eq!(compare("csv").lines().count(), 1 + 6 * 104);

    let shown = stdout(&sandbox.run(&["show", "--as", "published"]));
    assert_eq!(shown.matches("J write rate").count(), 2, "{shown}");
    // The latest sweep belongs to the plan; a bench is not a study.
    let bench = ["bench", ".", "--tree-size", "8M", "--ramp", "20ms", "--window", "100ms"];
    stdout(&sandbox.run(&bench));
    let refused = sandbox.run(&["show", "--as", "published"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        error.contains("does not repeat a published study") && error.contains("xfs-tweaks-2003"),
        "{error}"
    );
}

fn a_wrong_reference_gets_one_clear_error() {
    let sandbox = Sandbox::new();
    for (reference, expected) in [
        ("published:fsopbench-2008", "did you mean 'fsopbench-2009'"),
        ("published:raid1-2008", "no published figures of 'raid1-2008'"),
        ("published:schedulers-2009", "postmark-schedulers-2009 and bonnie-schedulers-2009"),
    ] {
        let output = sandbox.run(&["compare", "latest", reference]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{}", describe(&output));
        assert!(error.contains(expected) && error.contains("streaming-ext4-2008"), "{error}");
    }
    sandbox.write("plan.toml", "study = \"fsopbench\"\n[device]\nimage = \"/none\"\nsize = \"1G\"\n");
    let output = sandbox.run(&["plan", "plan.toml"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("plan.toml:1:9") && error.contains("did you mean 'fsopbench-2009'"), "{error}");
}
