//! The examples of the documentation, as a reader would try them: every plan is dry-run, and every command
//! that needs no scratch device and ends at once is run. The rest is listed here, with the reason; that it is
//! a valid command line is checked in `src/cli/examples.rs`.

#[expect(dead_code, reason = "the other user of the module reads running text")]
mod pages;

use fsdyno_core::TrialRecord;
use fsdyno_store::{NewSweep, Store};
use fsdyno_testkit as testkit;
use pages::{Block, Page, pages, simple_commands};
use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Commands of fsdyno that are not run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("bench", "it takes a minute; `bench` of the machine suite runs it"),
    ("sweep", "it formats a device or needs hours"),
    ("quick", "it formats a device or needs a quarter of an hour; the machine suite runs it"),
    (
        "durability-guests",
        "it boots a kernel for each configuration; `durability_guests` of the machine suite does",
    ),
    (
        "raid5-durability",
        "it boots a kernel for each trial; `durability_stacks` of the machine suite cuts power on arrays",
    ),
    ("nfs-durability", "it boots two kernels for each trial; `serve` of the machine suite does"),
    (
        "io-errors",
        "no other test may make a mount namespace meanwhile; `io_errors` of the machine suite runs it",
    ),
    ("selfcheck", "it needs root and half a minute; the machine suite runs it"),
    ("watch", "it needs a sweep that is running; `watch` of the machine suite has one"),
    ("restore", "it would restore what other tests are in the middle of"),
];
/// Pages whose results come from a sweep that is shown there.
const NEED_THEIR_SWEEP: &[(&str, &str)] =
    &[("docs/guide/studies.md", "`studies` of the machine suite runs the ready plans and shows them")];
/// Other programs, replaced by one that reads its input, prints nothing and succeeds.
const STAND_INS: &[&str] = &["sqlite3", "ssh"];

/// A directory with a store, and with the files that the pages name.
struct Reader {
    directory: tempfile::TempDir,
}

impl Reader {
    fn new() -> Self {
        let reader = Reader { directory: tempfile::tempdir().expect("a directory") };
        let program = |name: &str, text: &str| {
            let path = reader.path("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a program");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
        };
        fs::create_dir_all(reader.path("bin")).expect("a directory");
        program("fsdyno", &format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_fsdyno")));
        program("sudo", "exec \"$@\"");
        STAND_INS.iter().for_each(|name| program(name, "cat >/dev/null"));
        reader
    }

    fn prepared() -> Self {
        let reader = Reader::new();
        reader.prepare();
        reader
    }

    /// With all that this one has.
    fn copied(&self) -> Self {
        let reader = Reader { directory: tempfile::tempdir().expect("a directory") };
        let from = self.path(".");
        let copied = Command::new("cp").arg("-a").args([&from, reader.directory.path()]).status();
        assert!(copied.is_ok_and(|status| status.success()));
        reader
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// Creates what the examples refer to: sweeps by number and by name, results of other programs, a fio
    /// job.
    fn prepare(&self) {
        let captured = pages::root().join("crates/formats/captured");
        let copy = |from: &str, to: &str| {
            self.write(
                to,
                &fs::read_to_string(captured.join(from)).unwrap_or_else(|error| panic!("{from}: {error}")),
            );
        };
        for run in 1..=3 {
            copy("fio-3.33.json", &format!("run{run}.json"));
        }
        for (name, rate) in [("old-server.csv", 200), ("new-server.csv", 300)] {
            self.write(name, &format!("server,300M,{rate},10,{rate},20,,,,,,,,,,,,,,,,,,,,,\n"));
        }
        copy("fsopbench-2009.txt", "tables/first.txt");
        copy("mdtest/3.3.0.txt", "ext4.txt");
        copy("mdtest/3.3.0.txt", "xfs.txt");
        let table = pages::root().join("docs/guide/simulated.csv");
        self.write("simulated.csv", &fs::read_to_string(table).expect("the example of a table"));
        self.write("mixed.fio", "[mixed]\nrw=randrw\nsize=16m\n");
        self.write("plans/.keep", "");
        let plans = fs::read_dir(pages::root().join("plans")).expect("plans/").flatten();
        for plan in plans.filter(|plan| plan.path().is_file()) {
            fs::copy(plan.path(), self.path("plans").join(plan.file_name())).expect("a copy");
        }
        let store = self.path("state/fsdyno/results.db");
        fs::create_dir_all(store.parent().expect("a parent")).expect("a directory");
        let mut store = Store::open(&store).expect("a store");
        for number in 1..=12 {
            let name = if number == 11 { "main" } else { "nightly" };
            let trials = two_kernels();
            let sweep = NewSweep {
                name: name.to_string(),
                plan_toml: String::new(),
                overrides: Vec::new(),
                seed: 42,
                measure: "read-under-write".to_string(),
                environment: None,
                cases: 5,
                trials: trials.len() as u32,
            };
            assert_eq!(store.import_sweep(&sweep, &trials).expect("a sweep").0, number);
        }
    }

    /// Runs a line of shell, as a user of this machine whose state is in the directory.
    fn run(&self, line: &str) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        Command::new("sh")
            .args(["-c", line])
            .env("PATH", path)
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .current_dir(self.directory.path())
            .output()
            .expect("run a shell")
    }
}

/// Six blocks of two filesystems, on one kernel by name and on two by level.
fn two_kernels() -> Vec<TrialRecord> {
    let mut trials: Vec<TrialRecord> = Vec::new();
    for block in 0..6 {
        for (case, (filesystem, kernel, rate)) in (0..).zip([
            ("ext4", "", 200.0),
            ("xfs", "", 180.0),
            ("ext4", "6.1", 150.0),
            ("ext4", "6.12", 160.0),
        ]) {
            let mut configuration = testkit::configuration(filesystem, "bfq");
            if !kernel.is_empty() {
                configuration.name = format!("{filesystem} {kernel}");
                configuration.settings.insert("kernel".to_string(), kernel.to_string());
            }
            let rate = rate + f64::from(block);
            trials.push(testkit::trial(trials.len() as u32, block, case, configuration, rate));
        }
    }
    trials
}

/// A fragment of a plan with what it lacks: a device, a filesystem, a load.
fn completed(block: &Block) -> String {
    let mut plan: toml::Table =
        block.text.parse().unwrap_or_else(|error| panic!("{}: {error}\n{}", block.at, block.text));
    let default = |text: &str| text.parse::<toml::Table>().expect("TOML");
    let image = default("[device]\nimage = \"/var/tmp/fsdyno-example.img\"\nsize = \"64G\"\n");
    let load = default("[[workloads]]\nkind = \"null\"\n");
    for (key, value) in image.into_iter().chain(load) {
        plan.entry(key).or_insert(value);
    }
    if plan["device"].get("directory").is_some() {
        // It is used as it is.
        return toml::to_string(&plan).expect("TOML");
    }
    let axes = plan.entry("axes").or_insert(toml::Table::new().into());
    let axes = axes.as_table_mut().expect("[axes] is a table");
    axes.entry("filesystem").or_insert("ext4".into());
    toml::to_string(&plan).expect("TOML")
}

fn text(output: &Output) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{}\n{stdout}\n{stderr}", output.status)
}

#[test]
fn every_plan_can_be_dry_run() {
    let reader = Reader::prepared();
    let blocks: Vec<Block> = pages().iter().flat_map(Page::blocks).collect();
    let plans: Vec<&Block> = blocks.iter().filter(|block| block.language == "toml").collect();
    assert!(plans.len() >= 20, "only {} plans", plans.len());
    for block in plans {
        reader.write("example.toml", &completed(block));
        let output = reader.run("fsdyno plan example.toml --allow-hooks");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let fine = output.status.success() || is_refused_only_here(&shown);
        assert!(fine, "{}: {}\n{}", block.at, text(&output), completed(block));
        assert!(shown.contains("case 0: "), "{}: {shown}", block.at);
    }
}

/// Returns whether a sweep of the plan would be refused only because this machine lacks something: space, or
/// a disk or a directory that the example names.
fn is_refused_only_here(shown: &str) -> bool {
    let Some((_, refusals)) = shown.split_once("a sweep would be refused:\n") else { return false };
    let mut reasons = refusals.lines().filter(|line| line.starts_with('\''));
    let here = ["free there", "could not be examined: cannot find", "cannot list the directory"];
    reasons.all(|line| here.iter().any(|reason| line.contains(reason)))
}

/// Why a line is not run, if it is not.
fn exempt(page: &str, line: &str) -> Option<&'static str> {
    let reason = |list: &[(&str, &'static str)], key: &str| {
        list.iter().find(|(name, _)| *name == key).map(|(_, reason)| *reason)
    };
    let commands = simple_commands(line).expect("words");
    commands
        .iter()
        .find_map(|command| match command.first()?.as_str() {
            "fsdyno" => command[1..].iter().find_map(|word| reason(NOT_RUN, word)),
            "make" | "cargo" | "apt-get" | "install" | "systemctl" | "git" => {
                Some("it builds, or changes the machine")
            }
            _ => None,
        })
        .or_else(|| reason(NEED_THEIR_SWEEP, page))
}

#[test]
fn every_command_that_may_run_runs() {
    let (mut ran, mut exempted) = (0, Vec::new());
    let prepared = Reader::prepared();
    for page in pages() {
        // Each page is read by somebody with a machine of their own.
        let reader: OnceCell<Reader> = OnceCell::new();
        let mut latest: Option<String> = None;
        for block in page.blocks() {
            match block.language.as_str() {
                "toml" => latest = Some(completed(&block)),
                "console" => {
                    for line in block.commands() {
                        if let Some(reason) = exempt(&page.path, &line) {
                            exempted.push(format!("{}: not run: {line} ({reason})", block.at));
                            continue;
                        }
                        let reader = reader.get_or_init(|| prepared.copied());
                        save_what_it_names(reader, &line, latest.as_deref());
                        let output = reader.run(&answered(&line));
                        // `compare` may have found something slower.
                        let shown = String::from_utf8_lossy(&output.stdout);
                        let fine = output.status.success()
                            || (line.contains("fsdyno compare") && output.status.code() == Some(1))
                            || (line.contains("fsdyno plan") && is_refused_only_here(&shown));
                        assert!(fine, "{}: {line}\n{}", block.at, text(&output));
                        ran += 1;
                    }
                }
                _ => {}
            }
        }
    }
    exempted.iter().for_each(|line| eprintln!("{line}"));
    assert!(ran >= 25, "only {ran} commands ran");
}

/// A command that asks, with the answer: there is nobody to ask.
fn answered(line: &str) -> String {
    match line.split_once("fsdyno delete ") {
        Some((before, rest)) => format!("{before}fsdyno delete --yes {rest}"),
        None => line.to_string(),
    }
}

/// A plan that a command names is the last one that the page has shown.
fn save_what_it_names(reader: &Reader, line: &str, plan: Option<&str>) {
    for word in simple_commands(line).expect("words").iter().flatten() {
        if word.ends_with(".toml") && !Path::new(&reader.path(word)).exists() {
            reader.write(word, plan.unwrap_or_else(|| panic!("no plan is shown before '{line}'")));
        }
    }
}

/// The site that `make book` builds contains exactly the pages of `docs/`, and their links lead somewhere.
#[test]
fn every_page_is_in_the_book_and_its_links_lead_somewhere() {
    let docs = pages::root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the summary");
    for page in pages() {
        if let Some(path) = page.path.strip_prefix("docs/").filter(|path| *path != "SUMMARY.md") {
            assert!(summary.contains(&format!("({path})")), "{path} is not in docs/SUMMARY.md");
        }
        let base = pages::root().join(&page.path);
        let links = page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = base.parent().expect("a directory").join(link.split('#').next().unwrap_or_default());
            assert!(file.exists(), "{}: nothing is at '{link}'", page.path);
        }
    }
}
