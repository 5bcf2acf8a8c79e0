//! Results from elsewhere, from the files of other programs to a comparison and to tables for further ones.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A store of its own.
struct Store(tempfile::TempDir);

impl Store {
    fn new() -> Self {
        Store(tempfile::tempdir().expect("a directory"))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.args(arguments).env("XDG_STATE_HOME", self.0.path()).output().expect("run fsdyno")
    }

    /// What goes to stdout when all is well.
    fn told(&self, arguments: &[&str]) -> String {
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

fn kept(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The kept table of 2009 of this number.
fn table(number: &str) -> String {
    kept("report/published/fsopbench-2009").join(number).display().to_string()
}

/// The rows of a table by column.
fn rows(csv: &str) -> Vec<HashMap<String, String>> {
    csv::Reader::from_reader(csv.as_bytes()).deserialize().collect::<Result<_, _>>().expect("rows")
}

#[test]
fn tables_of_2009_are_compared_and_exported() {
    let store = Store::new();
    store.told(&[
        "import",
        "fsopbench",
        &table("00.txt"),
        &table("01.txt"),
        &table("02.txt"),
        "--name",
        "old",
    ]);
    let directory = store.0.path().join("tables/of 2009");
    store.told(&["export", "old", "--directory", &directory.display().to_string()]);
    assert_eq!(std::fs::read_dir(&directory).expect("it is made").count(), 4);
    let trials = store.told(&["export", "old", "--kind", "trials"]);
    assert_eq!(trials.lines().count(), 4, "{trials}");

    let operations = rows(&store.told(&["export", "old", "--kind", "operations"]));
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

/// Every figure, the title among them: what is printed of an imported table is that table, but for the lengths of its rules.
#[test]
fn a_published_table_comes_out_as_it_went_in() {
    let lines = |text: &str| -> Vec<String> {
        let of_rule = |line: &str| line.chars().all(|letter| "*-".contains(letter));
        text.lines().map(str::trim_end).filter(|line| !of_rule(line)).map(str::to_string).collect()
    };
    for number in ["00", "01", "02", "04", "06", "09"] {
        let path = table(&format!("{number}.txt"));
        let text = std::fs::read_to_string(&path).expect("the table");
        let file = fsdyno_import::File { path, text: text.clone() };
        let imported =
            fsdyno_import::trials(fsdyno_import::Format::FsOpBench, &[file], None).expect("trials");
        let cases = fsdyno_verdict::view::cases(&imported).expect("cases");
        let mut out = Vec::new();
        fsdyno_report::terminal::classic(&mut out, &cases[0], &fsdyno_report::Style::default())
            .expect("a table");
        assert_eq!(lines(std::str::from_utf8(&out).expect("text")), lines(&text));
    }
}

#[test]
fn nothing_of_files_is_imported_of_which_one_is_broken() {
    let store = Store::new();
    let broken = std::fs::read_to_string(table("00.txt")).expect("the table").replacen("cnt ", "cnt x", 1);
    let broken = store.file("broken.txt", &broken);
    let output = store.run(&["import", "fsopbench", &table("01.txt"), &broken]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("broken.txt") && told.contains("line ") && told.contains("column "), "{told}");
    assert_eq!(store.told(&["list", "--format", "json"]).trim(), "[]");
}

#[test]
fn runs_of_fio_are_trials_of_one_case() {
    let store = Store::new();
    let captured = kept("formats/captured/fio-3.33.json").display().to_string();
    store.told(&["import", "fio", &captured, &captured, "--configuration", "mine", "--name", "fio"]);
    let trials = rows(&store.told(&["export", "fio", "--kind", "trials"]));
    let cases: Vec<(&str, &str)> =
        trials.iter().map(|row| (row["case"].as_str(), row["configuration"].as_str())).collect();
    assert_eq!(cases, [("0", "mine"), ("0", "mine")]);
    assert!(store.told(&["show", "fio"]).contains("mine"));
}

/// What would command a terminal: the title of its window, a screen cleared, text turned around, a line overwritten.
const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}b\u{9b}31mc\rd\u{200b}";

/// No control character but the end of a line, and nothing that turns text around.
fn assert_harmless(what: &str, text: &[u8]) {
    let text = String::from_utf8(text.to_vec()).expect("text");
    let found = text
        .chars()
        .find(|letter| letter.is_control() && *letter != '\n' || ['\u{202e}', '\u{200b}'].contains(letter));
    assert_eq!(found, None, "{what}: {text:?}");
}

#[test]
fn a_hostile_import_commands_no_terminal() {
    let store = Store::new();
    let fio = std::fs::read_to_string(kept("formats/captured/fio-3.33.json"));
    let escaped = serde_json::to_string(HOSTILE).expect("JSON");
    let fio = fio.expect("a file").replace("\"writers\"", &escaped).replace("\"fio-3.33\"", &escaped);
    let file = store.file("fio.json", &fio);
    let imported = store.run(&["import", "fio", &file, "--name", HOSTILE, "--configuration", HOSTILE]);
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
    let shown = store.told(&["show"]);
    assert!(shown.contains("\\x1b]0;owned\\x07"), "{shown}");
    // As JSON it is what it was.
    let json: serde_json::Value =
        serde_json::from_str(&store.told(&["show", "--format", "json"])).expect("JSON");
    assert_eq!(json["sweep"]["name"], HOSTILE);
}

#[test]
fn a_hostile_plan_commands_no_terminal() {
    let store = Store::new();
    let name = toml_string(HOSTILE);
    let rest = "filesystem = \"ext4\"\n[[workloads]]\nkind = \"null\"\n[device]\nimage = \"/tmp/a.img\"\nsize = \"1G\"\n";
    let good = format!("name = {name}\n[[configurations]]\nname = {name}\n{rest}");
    let bad = format!("name = {name}\nmeasure = {name}\n[[configurations]]\n{rest}");
    let raw = "# \u{202e}\nname = \"\u{202e}\u{200b}\nx".to_string();
    for (text, status) in [(good, 0), (bad, 2), (raw, 2)] {
        let output = store.run(&["plan", &store.file("plan.toml", &text)]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_harmless("stdout", &output.stdout);
        assert_harmless("stderr", &output.stderr);
    }
}

/// A basic string of TOML.
fn toml_string(text: &str) -> String {
    let letters = text.chars().map(|letter| format!("\\U{:08x}", u32::from(letter)));
    format!("\"{}\"", letters.collect::<String>())
}
