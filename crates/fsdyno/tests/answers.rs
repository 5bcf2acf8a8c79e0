//! The output that a person reads about stored sweeps: one answer and one value in every command, warnings
//! where they bear on it, and formats to paste. The built binary, on stores of hand-made trials.

use fsdyno_core::workload::{Streaming, Workload};
use fsdyno_core::{Operation, Role, TrialRecord, Warning, WarningKind};
use fsdyno_store::{NewSweep, Store};
use fsdyno_testkit as fixture;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A store of sweeps, and how to run the program on it.
struct Stored {
    directory: tempfile::TempDir,
}

impl Stored {
    fn new(sweeps: &[(&str, Vec<TrialRecord>)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = Store::open(&directory.path().join("results.db")).expect("a store");
        for (name, trials) in sweeps {
            let sweep = NewSweep {
                name: (*name).to_string(),
                plan_toml: format!("name = \"{name}\"\n"),
                overrides: Vec::new(),
                seed: 42,
                measure: "read-under-write".to_string(),
                environment: None,
                cases: trials.iter().map(|trial| trial.case + 1).max().unwrap_or(0),
                trials: trials.len() as u32,
            };
            let id = store.create_sweep(&sweep).expect("a sweep");
            for (number, trial) in (0..).zip(trials) {
                store.add_trial(id, &TrialRecord { trial: number, ..trial.clone() }).expect("a trial");
            }
            store.finish_sweep(id).expect("its end");
        }
        Stored { directory }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[])
    }

    fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fsdyno"))
            .args(arguments)
            .arg("--store")
            .arg(self.path().join("results.db"))
            .env("XDG_STATE_HOME", self.path())
            .env_remove("COLUMNS")
            .envs(variables.iter().copied())
            .current_dir(self.path())
            .output()
            .expect("run fsdyno")
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the output of a command, which must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (code, out, err) = said(&output);
        assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
        out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--format", "json"]].concat();
        serde_json::from_str(&self.text(&arguments)).expect("JSON")
    }
}

/// Code, stdout and stderr.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Text without the line breaks within paragraphs.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn warned(mut trials: Vec<TrialRecord>, kind: WarningKind, text: &str) -> Vec<TrialRecord> {
    trials.iter_mut().for_each(|trial| trial.warnings.push(Warning::new(kind, text)));
    trials
}

#[test]
fn unlike_workloads_have_nothing_to_compare() {
    let mut streams = fixture::blocks(0, "b", 3, 0.5);
    for trial in &mut streams {
        trial.workload = Workload::Streaming(Streaming::default());
    }
    let stored = Stored::new(&[("files", fixture::blocks(0, "a", 3, 1.0)), ("streams", streams)]);
    for arguments in
        [&["compare", "files", "streams"][..], &["compare", "1", "2", "--measure", "longest-stall"]]
    {
        let (code, out, err) = said(&stored.run(arguments));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains("error: nothing to compare: ") && err.contains("the other side ran "), "{err}");
    }
}

#[test]
fn foreign_load_is_shown_and_explains_a_difference() {
    let foreign = "phase '3 readers, 3 writers': other processes used 60 % of 2 processors, 'cc1' the most";
    let slower = warned(fixture::blocks(0, "a", 6, 0.5), WarningKind::ForeignLoad, foreign);
    let stored = Stored::new(&[("quiet", fixture::blocks(0, "a", 6, 1.0)), ("busy", slower)]);
    let text =
        unwrapped(&stored.text(&["compare", "quiet", "busy", "--measure", "read-under-write", "--notes"]));
    assert!(
        text.contains("B compared with A: 0 slower, 0 faster, 0 without material difference, 1 undecided.")
    );
    let why = "cannot tell: foreign-load in 6 of 6 trials of B and 0 of 6 trials of A may explain it";
    assert!(text.contains(why), "{text}");
    let warning = format!("warning: foreign-load (A: 0 of 6 trials, B: 6 of 6): {foreign}");
    assert!(text.contains(&warning), "{text}");
    // The other way round, the load explains nothing: in spite of it, the busy side is not slower.
    let turned = unwrapped(&stored.text(&["compare", "busy", "quiet", "--measure", "read-under-write"]));
    assert!(turned.contains(" 1 undecided."), "{turned}");
}

#[test]
fn recommend_says_that_the_machine_drifted_and_that_load_may_explain_a_loser() {
    let busy = "phase '1 reader': other processes used 60 % of 2 processors";
    let best = fixture::blocks(0, "quick", 6, 1.0);
    let worse = warned(fixture::blocks(1, "slow", 6, 0.6), WarningKind::ForeignLoad, busy);
    let mut trials = [best, worse].concat();
    let sentinels = (0..6).map(|block: u32| {
        let rate = 50.0 * 2.02f64.powf(f64::from(block) / 5.0);
        let mut configuration = fixture::configuration("ext4", "bfq");
        configuration.name = "quick".to_string();
        TrialRecord { sentinel: true, ..fixture::trial(block, block, 0, configuration, rate) }
    });
    trials.extend(sentinels);
    let stored = Stored::new(&[("one", trials)]);
    let text = unwrapped(&stored.text(&["recommend", "--notes"]));
    assert!(text.contains("the 12 trials of quick range from"), "{text}");
    let why = "foreign-load in 6 of 6 trials of slow and 0 of 12 trials of quick may explain it";
    assert!(text.contains(&format!("the difference of slow to the best: {why}")), "{text}");
    assert!(text.contains(&format!("This sweep cannot answer: {why}.")), "{text}");
    assert!(text.contains("cannot tell: see note"), "{text}");
    assert_eq!(stored.json(&["recommend"])["answers"][0]["standings"][1]["verdict"], "cannot_tell");
}

/// Writers that remove for a third of their time.
fn with_removal(mut trials: Vec<TrialRecord>) -> Vec<TrialRecord> {
    for trial in &mut trials {
        let phase = trial.phases.iter_mut().find(|phase| phase.roles.len() == 2).expect("both roles");
        let writers = phase.roles.iter_mut().find(|role| role.role == Role::Writer).expect("writers");
        let each = phase.window_ns.0 * u64::from(writers.workers) / 3 / 100;
        writers.operations.push(fixture::operation(Operation::Unlinkat, &[each; 100]));
    }
    trials
}

#[test]
fn a_configuration_has_one_value_in_every_command() {
    let uneven = |trials: Vec<TrialRecord>, rates: [f64; 3]| {
        let rated = trials.into_iter().zip(rates).map(|(trial, rate)| {
            let configuration = trial.configuration.asked.clone();
            fixture::trial(trial.trial, trial.block, trial.case, configuration, rate)
        });
        with_removal(rated.collect())
    };
    let first = uneven(fixture::blocks(0, "btrfs", 3, 1.0), [20.0, 90.0, 130.0]);
    let second = uneven(fixture::blocks(1, "xfs", 3, 1.0), [70.0, 71.0, 72.0]);
    let stored = Stored::new(&[("one", [first, second].concat())]);
    for measure in ["write", "read-under-write", "longest-stall"] {
        let shown = stored.text(&["show", "--measure", measure, "--format", "markdown"]);
        let row =
            shown.lines().find(|line| line.starts_with('|') && line.contains("btrfs")).expect("its row");
        let figure =
            row.split('|').nth(2).expect("a figure").trim().split(' ').next().expect("a value").to_string();
        let recommended = stored.json(&["recommend", "--for", measure]);
        let standing = recommended["answers"][0]["standings"].as_array().expect("standings");
        let own = standing.iter().find(|one| one["name"] == "btrfs").expect("its standing");
        let compared = stored.json(&["compare", "one/btrfs", "one/xfs", "--measure", measure]);
        let value = &compared["cases"][0]["measures"][0]["values"][0]["value"];
        assert_eq!(*value, own["value"], "{measure}");
        let text = stored.run(&["compare", "one/btrfs", "one/xfs", "--measure", measure]);
        let text = unwrapped(&said(&text).1);
        assert!(text.contains(&figure), "{measure}: {figure} is not in {text}");
        let recommended = unwrapped(&stored.text(&["recommend", "--for", measure]));
        assert!(recommended.contains(&figure), "{measure}: {figure} is not in {recommended}");
        stored.text(&["report", "--measure", measure, "-o", "page.html"]);
        let page = std::fs::read_to_string(stored.path().join("page.html")).expect("the page");
        assert!(page.contains(&figure), "{measure}: {figure} is not in the report");
    }
    // Per operation, where writers' rate counts all of the window, both are there.
    let full = unwrapped(&stored.text(&["show", "--full", "--case", "btrfs"]));
    assert!(full.contains("MB/s without the time of removing)"), "{full}");
    // Ranking by another measure than was asked for would be a wrong answer.
    for command in [&["show", "--measure", "silent-losses"][..], &["report", "--measure", "silent-losses"]] {
        let (code, out, err) = said(&stored.run(command));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains("no trial of sweep 1 has the measure 'silent-losses'"), "{err}");
    }
}

#[test]
fn show_crowns_what_recommend_would_and_marks_what_is_unsafe() {
    let unsafe_one =
        warned(fixture::blocks(1, "writeback", 6, 1.5), WarningKind::Durability, "data = writeback");
    let stored = Stored::new(&[("one", [fixture::blocks(0, "ordered", 6, 1.0), unsafe_one].concat())]);
    let recommended = stored.json(&["recommend"])["answers"][0].clone();
    let sentences = recommended["sentences"].as_array().expect("sentences").iter();
    let sentences = sentences.chain([&recommended["judgement"]["headline"]]).filter_map(Value::as_str);
    let sentences: Vec<&str> = sentences.collect();
    assert!(sentences[sentences.len() - 1].starts_with("Keep 'ordered': "), "{sentences:?}");
    let shown = stored.text(&["show"]);
    for sentence in sentences {
        assert!(unwrapped(&shown).contains(&unwrapped(sentence)), "{sentence} is not in\n{shown}");
    }
    assert!(shown.contains("\n! writeback ") && shown.contains("\n  ordered "), "{shown}");
    assert!(
        unwrapped(&shown).contains("!: weakens what survives a power cut, or may; never wins"),
        "{shown}"
    );
    assert!(stored.text(&["show", "--format", "markdown"]).contains("| writeback ! |"));
    stored.text(&["report", "-o", "page.html"]);
    let page = std::fs::read_to_string(stored.path().join("page.html")).expect("the page");
    assert!(page.contains("<abbr title=\"data = writeback\">!</abbr>"), "the report marks it");
}

/// Stores of all kinds: nothing differs, something does, trials fail, and settings are unsafe.
fn any_store(seed: u32) -> Vec<TrialRecord> {
    let count = 2 + seed % 4;
    let spread = [0.0, 0.03, 0.1, 0.4][(seed / 4 % 4) as usize];
    let blocks = [1, 2, 6][(seed % 3) as usize];
    let of = |case: u32| {
        let factor = 1.0 + spread * f64::from((case * 7 + seed) % count);
        let own = fixture::blocks(case, &format!("c{case}"), blocks, factor);
        match (seed + case) % 7 {
            0 => warned(own, WarningKind::Durability, "data = writeback"),
            1 => warned(own, WarningKind::PageCache, "90 % of what was read came from memory"),
            _ => own,
        }
    };
    (0..count).flat_map(of).collect()
}

/// `compare` of two configurations has the ratio and the interval that `recommend` has of them.
fn have_one_ratio(stored: &Stored, answer: &Value, seed: u32) {
    let standings = answer["standings"].as_array().expect("standings");
    let best = standings.iter().find(|one| one["verdict"] == "best").expect("the best");
    for other in standings.iter().filter(|one| one["to_best"].is_object()) {
        let [from, to] = [best, other].map(|one| format!("any/{}", one["name"].as_str().expect("a name")));
        let measure = answer["measure"].as_str().expect("a measure");
        let arguments = ["compare", &from, &to, "--measure", measure, "--format", "json"];
        let compared: Value = serde_json::from_slice(&stored.run(&arguments).stdout).expect("JSON");
        let found = &compared["cases"][0]["measures"][0]["ratio"];
        let near = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a / b - 1.0).abs() < 1e-9,
            (a, b) => a == b,
        };
        let ratio = &other["to_best"];
        let pairs =
            [("value", &ratio["ratio"]), ("low", &ratio["interval"][0]), ("high", &ratio["interval"][1])];
        for (end, expected) in pairs {
            assert!(near(&found[end], expected), "{seed}: {end} of {to}: {found} and {ratio}");
        }
    }
}

/// The judgement is made once: every command and format says the same of the same trials.
#[test]
fn every_command_and_format_gives_the_same_judgement() {
    let mut classes = std::collections::BTreeSet::new();
    for seed in 0..16 {
        let stored = Stored::new(&[("any", any_store(seed))]);
        let answer = stored.json(&["recommend"])["answers"][0].clone();
        let judgement = &answer["judgement"];
        let headline = judgement["headline"].as_str().expect("a headline");
        classes.insert(judgement["class"].as_str().expect("a class").to_string());
        let is_used = headline.contains("Use '");
        assert_eq!(is_used, judgement["class"] == "winner", "{seed}: {headline}");
        assert_eq!(is_used, answer["winner"].is_string(), "{seed}: {headline}");
        have_one_ratio(&stored, &answer, seed);
        let shown = stored.json(&["show"])["answers"][0].clone();
        assert_eq!(&shown["judgement"], judgement, "{seed}");
        assert_eq!(shown["winner"], answer["winner"], "{seed}");
        for command in [&["show"][..], &["recommend"], &["show", "--notes"], &["recommend", "--full"]] {
            let text = stored.text(command);
            assert!(unwrapped(&text).contains(&unwrapped(headline)), "{seed}: {headline} is not in\n{text}");
            assert!(command.len() > 1 || text.lines().count() <= 24, "{seed}: more than a page:\n{text}");
        }
        let markdown = stored.text(&["show", "--format", "markdown"]).replace('\\', "");
        assert!(markdown.contains(&format!("**{headline}**")), "{seed}: {markdown}");
        stored.text(&["report", "-o", "page.html"]);
        let page = std::fs::read_to_string(stored.path().join("page.html")).expect("the page");
        assert!(page.contains(headline), "{seed}: {headline} is not in the report");
        let junit = stored.text(&["show", "--format", "junit"]);
        let is_decided = ["winner", "no-difference"].contains(&judgement["class"].as_str().unwrap());
        assert_eq!(junit.contains(&format!("<skipped message=\"{headline}\"")), !is_decided, "{junit}");
    }
    assert!(classes.len() >= 4, "{classes:?}");
}

#[test]
fn the_answer_comes_before_the_table_and_details_on_request() {
    let stored = Stored::new(&[("one", fixture::trials())]);
    let summary = stored.text(&["show"]);
    let at = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in\n{text}"));
    assert!(
        at(&summary, "\nThis sweep cannot answer: ") < at(&summary, "\next4 bfq")
            && at(&summary, "\next4 bfq") < at(&summary, "\ndoubt: ")
    );
    assert!(summary.lines().count() <= 24 && !summary.contains("\nwarning: "), "{summary}");
    assert!(!summary.contains("openat") && !summary.contains("F write open"), "{summary}");
    let notes = stored.text(&["show", "--notes"]);
    assert!(at(&notes, "\ndoubt: ") < at(&notes, "\nwarning: ") && !notes.contains("openat"), "{notes}");
    let tables = stored.text(&["show", "--tables"]);
    assert!(tables.starts_with(&summary) && tables.contains("F write open") && !tables.contains("openat"));
    let full = stored.text(&["show", "--full"]);
    assert!(full.starts_with(&notes) && full.contains("F write open") && full.contains("\nopenat"));
    let case = stored.text(&["show", "--case", "xfs bfq"]);
    assert!(case.contains("\nopenat") && !case.contains("ext4 bfq under"), "{case}");
    // Those who wrote it into a script keep it.
    assert_eq!(stored.text(&["show", "--summary"]), summary);
}

#[test]
fn counts_are_means_like_the_rates_beside_them() {
    let trials = fixture::blocks(0, "a", 4, 1.0);
    let counts: Vec<u64> =
        trials.iter().map(|trial| trial.phases[0].roles[0].operations[2].lat_ns.count).collect();
    let mean = (counts.iter().sum::<u64>() as f64 / counts.len() as f64).round();
    let stored = Stored::new(&[("one", trials)]);
    let full = stored.text(&["show", "--full"]);
    let row = full.lines().find(|line| line.starts_with("openat")).expect("a row");
    assert_eq!(row.split_whitespace().nth(1), Some(mean.to_string().as_str()), "{full}");
    assert!(full.contains("\n1 reader (30 s in each of 4 trials)\n"), "{full}");
    let table = full.lines().find(|line| line.starts_with("C open file")).expect("a row");
    assert!(table.contains(&format!("cnt {mean:>6}   min")), "{table}");
}

#[test]
fn the_width_is_that_of_columns_and_nothing_disappears_in_60() {
    let stored = Stored::new(&[("one", fixture::wide_trials()), ("two", fixture::wide_trials())]);
    let wide = stored.run_with(&["show"], &[("COLUMNS", "200")]);
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_string).collect() };
    for arguments in [&["show", "--case", "ext4"][..], &["recommend"], &["compare", "one", "two"], &["list"]]
    {
        let narrow = said(&stored.run_with(arguments, &[("COLUMNS", "60")])).1;
        let figures = narrow.lines().filter(|line| !line.contains("mkfs") && !line.starts_with(['*', '-']));
        for line in figures {
            assert!(line.chars().count() <= 132, "{line}");
        }
        let wide = said(&stored.run_with(arguments, &[("COLUMNS", "250")])).1;
        let narrow: Vec<String> = words(&narrow);
        let left_out = narrow.iter().any(|word| word == "(no");
        // Words may be broken between lines, but no figure of a table is lost without a word.
        let lost =
            words(&wide).into_iter().filter(|word| word.ends_with("ms") && !narrow.contains(word)).count();
        assert!(lost == 0 || left_out, "{arguments:?} loses {lost} figures");
    }
    let longest =
        |output: &Output| said(output).1.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let usual = stored.run(&["show"]);
    assert!((81..=100).contains(&longest(&usual)), "{}", said(&usual).1);
    assert!(longest(&wide) > 100, "{}", said(&wide).1);
}

#[test]
fn comparisons_and_sweeps_can_be_pasted_and_read_by_ci() {
    let stored = Stored::new(&[
        ("old", fixture::blocks(0, "a", 6, 1.0)),
        ("new", fixture::blocks(0, "a", 6, 0.4)),
        ("mixed", fixture::trials()),
    ]);
    let output = stored.run(&["compare", "old", "new", "--measure", "read", "--format", "junit"]);
    let (code, xml, err) = said(&output);
    assert_eq!(code, Some(1), "{xml}{err}");
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "), "{xml}");
    assert!(xml.contains("failures=\"1\"") && xml.contains("<failure message=\"slower: "), "{xml}");
    let markdown =
        said(&stored.run(&["compare", "old", "new", "--measure", "read", "--format", "markdown"])).1;
    assert!(
        markdown.starts_with("**B compared with A: 1 slower") && markdown.contains("| read |"),
        "{markdown}"
    );
    let xml = stored.text(&["show", "mixed", "--format", "junit"]);
    assert!(xml.contains("failures=\"1\" skipped=\"2\""), "{xml}");
    let markdown = stored.text(&["show", "mixed", "--format", "markdown"]);
    assert!(markdown.contains("| configuration | read-under-write MB/s \\[range\\] |"), "{markdown}");
    let (code, out, err) = said(&stored.run(&["show", "mixed", "--telemetry", "--format", "junit"]));
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
}

/// A line of bonnie++ 1.03, as its manual shows it: rates, but neither sizes nor times of some tests.
const OLD_BONNIE: &str = "rimmer,2G,18624,97,71618,31,29391,11,19722,96,85172,14,202.5,0,16,1980,94,+++++,+++,+++++,\
                          +++,2056,94,+++++,+++,5442,92\n";

#[test]
fn imported_phases_with_a_rate_were_not_too_short() {
    let stored = Stored::new(&[]);
    std::fs::write(stored.path().join("old.csv"), OLD_BONNIE).expect("a file");
    stored.text(&["import", "bonnie-csv", "old.csv"]);
    let full = stored.text(&["show", "--full"]);
    assert!(full.contains("\nrandom seeks ("), "{full}");
    let too_short = full.lines().filter(|line| line.contains("too short for the program"));
    let too_short: Vec<&str> = too_short.filter_map(|line| line.split(" (").next()).collect();
    assert_eq!(too_short, ["stat sequential", "delete sequential", "stat random"], "{full}");
    // Those were made by putc.
    assert!(!full.contains("one system call for each byte"), "{full}");
}

#[test]
fn what_power_cuts_lose_is_in_every_command() {
    let whole = fixture::durability_trials(6, true);
    let of = |case: u32| -> Vec<TrialRecord> {
        whole
            .iter()
            .filter(|trial| trial.case == case)
            .map(|trial| TrialRecord { case: 0, ..trial.clone() })
            .collect()
    };
    let stored = Stored::new(&[("whole", whole.clone()), ("safe", of(0)), ("losing", of(1))]);
    let summary = unwrapped(&stored.text(&["show", "whole"]));
    assert!(summary.contains("25,920 of 25,920") && summary.contains("6 of 6 logs"), "{summary}");
    let sentence = "with a volatile cache it loses 25,920 of 25,920 acknowledged promises; with every \
        completed write surviving (model completed) none in 360 states.";
    for arguments in
        [&["show", "whole"][..], &["recommend", "whole"], &["show", "whole", "--format", "markdown"]]
    {
        assert!(unwrapped(&stored.text(arguments)).contains(sentence), "{arguments:?}");
    }
    for arguments in [&["show", "whole", "--full"][..], &["show", "whole", "--case", "ext4 none barrier=0"]] {
        let text = stored.text(arguments);
        assert!(
            text.contains("\ndsync-append ") && text.contains("\nwindow: only the most recent"),
            "{text}"
        );
        assert!(!text.contains("\n\n\n") && !text.contains("NaN"), "{text}");
    }
    let standings = &stored.json(&["recommend", "whole"])["answers"][0]["standings"];
    assert_eq!(standings[1]["losses"]["models"][1]["acknowledged"]["losing_logs"], 6);
    assert_eq!(
        (&standings[0]["durable"]["by"], &standings[0]["risks"]),
        (&"measured".into(), &serde_json::json!([]))
    );
    assert_eq!(stored.json(&["show", "whole"])["trials"][1]["durability"]["models"][1]["model"], "flushed");
    for (sides, code) in [(["safe", "losing"], 1), (["losing", "safe"], 0)] {
        let output = stored.run(&["compare", sides[0], sides[1]]);
        let (found, out, err) = said(&output);
        assert_eq!(found, Some(code), "{out}{err}");
        assert!(out.contains(if code == 1 { "\n  loses more\n" } else { "\n  loses less\n" }), "{out}");
    }
    for format in ["junit", "csv", "json", "markdown"] {
        let text = said(&stored.run(&["compare", "safe", "losing", "--format", format])).1;
        assert!(text.contains("loses more") && !text.contains("NaN"), "{format}: {text}");
    }
    for arguments in [&["list"][..], &["show", "whole", "--format", "junit"], &["show", "whole", "--tables"]]
    {
        stored.text(arguments);
    }
}
