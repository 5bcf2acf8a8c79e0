//! Results from elsewhere: files of other programs are imported, compared and exported.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A separate store.
struct Store(tempfile::TempDir);

impl Store {
    fn new() -> Self {
        Store(tempfile::tempdir().expect("a directory"))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.args(arguments).env("XDG_STATE_HOME", self.0.path()).output().expect("run fsdyno")
    }

    /// The stdout of a command that succeeds.
    fn stdout_of(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }
}

fn crate_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The path of a table of 2009 by its number.
fn table(number: &str) -> String {
    crate_file("report/published/fsopbench-2009").join(number).display().to_string()
}

/// The rows of a table by column.
fn rows(csv: &str) -> Vec<HashMap<String, String>> {
    csv::Reader::from_reader(csv.as_bytes()).deserialize().collect::<Result<_, _>>().expect("rows")
}

#[test]
fn tables_of_2009_are_compared_and_exported() {
    let store = Store::new();
    store.stdout_of(&[
        "import",
        "fsopbench",
        &table("00.txt"),
        &table("01.txt"),
        &table("02.txt"),
        "--name",
        "old",
    ]);
    let directory = store.0.path().join("tables/of 2009");
    store.stdout_of(&["export", "old", "--directory", &directory.display().to_string()]);
    assert_eq!(std::fs::read_dir(&directory).expect("it is created").count(), 5);
    let trials = store.stdout_of(&["export", "old", "--kind", "trials"]);
    assert_eq!(trials.lines().count(), 4, "{trials}");

    let operations = rows(&store.stdout_of(&["export", "old", "--kind", "operations"]));
    let of_first = operations.iter().find(|row| row["trial"] == "0" && row["operation"] == "openat");
    let text = std::fs::read_to_string(table("00.txt")).expect("the table");
    let count = &of_first.expect("its operations")["count"];
    assert!(text.contains(&format!(" {count} ")), "{count}");

    let cases = rows(&trials);
    let sides: Vec<String> = cases[..2].iter().map(|row| format!("old/{}", row["configuration"])).collect();
    let compared = store.run(&["compare", &sides[0], &sides[1]]);
    let text = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert!(compared.status.success() && text.contains("cannot tell: 1 trial"), "{compared:?}");
}

/// An imported table is printed with every figure and its title, except for the lengths of its rules.
#[test]
fn a_published_table_comes_out_as_it_went_in() {
    let lines = |text: &str| -> Vec<String> {
        let of_rule = |line: &str| line.chars().all(|letter| "*-".contains(letter));
        text.lines().map(str::trim_end).filter(|line| !of_rule(line)).map(str::to_string).collect()
    };
    for number in ["00", "01", "02", "04", "06", "09"] {
        let path = table(&format!("{number}.txt"));
        let text = std::fs::read_to_string(&path).expect("the table");
        let file = fsdyno_formats::import::File { path, text: text.clone() };
        let imported =
            fsdyno_formats::import::trials(fsdyno_formats::import::Format::FsOpBench, &[file], None)
                .expect("trials");
        let cases = fsdyno_verdict::view::cases(&imported).expect("cases");
        let mut out = Vec::new();
        fsdyno_report::terminal::classic(&mut out, &cases[0], &fsdyno_report::Style::default())
            .expect("a table");
        assert_eq!(lines(std::str::from_utf8(&out).expect("text")), lines(&text));
    }
}

#[test]
fn nothing_is_imported_if_one_file_is_broken() {
    let store = Store::new();
    let broken = std::fs::read_to_string(table("00.txt")).expect("the table").replacen("cnt ", "cnt x", 1);
    let broken = store.file("broken.txt", &broken);
    let output = store.run(&["import", "fsopbench", &table("01.txt"), &broken]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("broken.txt") && error.contains("line ") && error.contains("column "), "{error}");
    assert_eq!(store.stdout_of(&["list", "--format", "json"]).trim(), "[]");
}

#[test]
fn runs_of_fio_are_trials_of_one_case() {
    let store = Store::new();
    let captured = crate_file("formats/captured/fio-3.33.json").display().to_string();
    store.stdout_of(&["import", "fio", &captured, &captured, "--configuration", "mine", "--name", "fio"]);
    let trials = rows(&store.stdout_of(&["export", "fio", "--kind", "trials"]));
    let cases: Vec<(&str, &str)> =
        trials.iter().map(|row| (row["case"].as_str(), row["configuration"].as_str())).collect();
    assert_eq!(cases, [("0", "mine"), ("0", "mine")]);
    assert!(store.stdout_of(&["show", "fio"]).contains("mine"));
}

/// Control sequences that set the title of the window, clear the screen, reverse text, and overwrite a line.
const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}b\u{9b}31mc\rd\u{200b}";

/// Asserts that there is no control character except line ends, and nothing that reverses text.
fn assert_harmless(what: &str, text: &[u8]) {
    let text = String::from_utf8(text.to_vec()).expect("text");
    let found = text
        .chars()
        .find(|letter| letter.is_control() && *letter != '\n' || ['\u{202e}', '\u{200b}'].contains(letter));
    assert_eq!(found, None, "{what}: {text:?}");
}

/// A name without control characters that would turn the direction of what follows.
const TURNED: &str = "a\u{202e}b\u{200b}c";

#[test]
fn a_hostile_import_cannot_control_a_terminal() {
    let store = Store::new();
    let fio = std::fs::read_to_string(crate_file("formats/captured/fio-3.33.json"));
    let escaped = serde_json::to_string(HOSTILE).expect("JSON");
    let fio = fio.expect("a file").replace("\"writers\"", &escaped).replace("\"fio-3.33\"", &escaped);
    let file = store.file("fio.json", &fio);
    let imported = store.run(&["import", "fio", &file, "--name", TURNED, "--configuration", HOSTILE]);
    assert!(imported.status.success(), "{imported:?}");
    assert_harmless("import", &imported.stdout);
    for arguments in [
        &["list"][..],
        &["show"],
        &["show", "--telemetry"],
        &["show", "--format", "json"],
        &["show", "--format", "csv"],
        &["list", "--format", "json"],
        &["recommend"],
        &["export", "--kind", "operations", "--format", "json"],
        &["report", "-o", "-"],
    ] {
        let output = store.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert_harmless(&format!("{arguments:?}"), &output.stdout);
    }
    let shown = store.stdout_of(&["show"]);
    assert!(shown.contains("\\x1b]0;owned\\x07"), "{shown}");
    // JSON preserves the text.
    let json: serde_json::Value =
        serde_json::from_str(&store.stdout_of(&["show", "--format", "json"])).expect("JSON");
    assert_eq!(json["sweep"]["name"], TURNED);
}

#[test]
fn a_hostile_plan_cannot_control_a_terminal() {
    let store = Store::new();
    let name = toml_string(HOSTILE);
    let rest = "filesystem = \"ext4\"\n[[workloads]]\nkind = \"null\"\n[device]\nimage = \"/tmp/a.img\"\n\
        size = \"1G\"\n";
    let turned = toml_string(TURNED);
    let good = format!("name = {turned}\n[[configurations]]\nname = {turned}\n{rest}");
    let several_lines = format!("name = {turned}\n[[configurations]]\nname = {name}\n{rest}");
    let bad = format!("name = {name}\nmeasure = {name}\n[[configurations]]\n{rest}");
    let raw = "# \u{202e}\nname = \"\u{202e}\u{200b}\nx".to_string();
    for (text, status) in [(good, 0), (several_lines, 2), (bad, 2), (raw, 2)] {
        let output = store.run(&["plan", &store.file("plan.toml", &text)]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_harmless("stdout", &output.stdout);
        assert_harmless("stderr", &output.stderr);
    }
}

/// A TOML basic string.
fn toml_string(text: &str) -> String {
    let letters = text.chars().map(|letter| format!("\\U{:08x}", u32::from(letter)));
    format!("\"{}\"", letters.collect::<String>())
}

/// The path of what another program printed.
fn captured(path: &str) -> String {
    crate_file("formats/captured").join(path).display().to_string()
}

#[test]
fn reports_of_other_programs_are_imported_and_compared_by_their_work() {
    let store = Store::new();
    for (format, path, trials, measure) in [
        ("mdtest", "mdtest/3.3.0.txt", "1 trial of 1 case", "file stat/examiner/item-rate"),
        ("ior", "ior/4.0.0.json", "2 trials of 1 case", "read/reader/rate"),
        ("elbencho", "elbencho/2-csvfile.csv", "2 trials of 1 case", "write IO latency mean (us)"),
        ("iozone", "iozone/3.489-a.txt", "6 trials of 6 cases", "random write/writer/rate"),
        ("iozone", "iozone/3.489-O.txt", "1 trial of 1 case", "write/writer/operation-rate"),
        ("sysbench", "sysbench/1.0.20-rndrw.txt", "1 trial of 1 case", "request latency p95 (ms)"),
    ] {
        let said = store.stdout_of(&["import", format, &captured(path), "--name", "one"]);
        assert!(said.contains(trials), "{path}: {said}");
        let shown = store.stdout_of(&["show", "one", "--measure", measure]);
        assert!(shown.contains(measure) && !shown.contains("NaN"), "{path}: {shown}");
        store.stdout_of(&["show", "one", "--full"]);
        store.stdout_of(&["delete", "one", "--yes"]);
    }
    for name in ["first", "second"] {
        store.stdout_of(&["import", "ior", &captured("ior/4.0.0.json"), "--name", name]);
    }
    let compared = String::from_utf8(store.run(&["compare", "first", "second"]).stdout).expect("text");
    assert!(compared.contains("write/writer/rate"), "the rates are compared, too: {compared}");
    let other =
        std::fs::read_to_string(captured("mdtest/3.3.0.txt")).expect("a file").replace("'200'", "'400'");
    store.stdout_of(&["import", "mdtest", &captured("mdtest/3.3.0.txt"), "--name", "a"]);
    store.stdout_of(&["import", "mdtest", &store.file("other.txt", &other), "--name", "b"]);
    let compared = String::from_utf8(store.run(&["compare", "a", "b"]).stdout).expect("text");
    assert!(compared.contains("-n") && compared.contains("200") && compared.contains("400"), "{compared}");
}

#[test]
fn a_file_of_another_format_names_the_right_one() {
    let store = Store::new();
    for (format, path, right) in [
        ("fio", "mdtest/4.0.0-Z.txt", "mdtest"),
        ("bonnie-csv", "ior/2.10.3.txt", "ior"),
        ("sysbench", "ior/4.0.0.csv", "ior"),
        ("fsopbench", "elbencho/3-livecsv.csv", "elbencho"),
        ("table", "iozone/3.489-t.txt", "iozone"),
        ("mdtest", "sysbench/0.5-rndrw.txt", "sysbench"),
        ("mdtest", "fio-3.33.json", "fio"),
    ] {
        let refused = store.run(&["import", format, &captured(path)]);
        let said = String::from_utf8(refused.stderr).expect("text");
        assert!(said.contains(&format!("'fsdyno import {right}'")), "{path} as {format}: {said}");
        assert_eq!(refused.status.code(), Some(2), "{said}");
    }
    let plan = "name = \"a\"\n[device]\nimage = \"/var/tmp/x.img\"\nsize = \"1G\"\n[axes]\nfilesystem = \
                \"ext4\"\n[[workloads]]\nkind = \"external\"\nprogram = \"mdtest\"\n";
    let said = String::from_utf8(store.run(&["plan", &store.file("plan.toml", plan)]).stderr).expect("text");
    assert!(said.contains("results of others are only imported"), "{said}");
}

/// A percentage is known without the time that it is of, and one that is unknown is neither 0 nor averaged.
#[test]
fn percentages_of_bonnie_are_shown_as_it_printed_them() {
    let store = Store::new();
    let imported = crate_file("formats/captured/bonnie-1.97-cpu-percent.csv").display().to_string();
    store.stdout_of(&["import", "bonnie-csv", &imported, "--name", "percent"]);
    let table = store.stdout_of(&["show", "percent", "--tables"]);
    let row = table
        .lines()
        .find(|line| line.starts_with("host1 ") && line.contains("80112M"))
        .expect("a row")
        .to_string();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words[2..],
        ["668k", "99", "971m", "96", "541m", "59", "1411k", "99", "1.3g", "79", "8210", "150"]
    );
}
