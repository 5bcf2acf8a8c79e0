//! The page that answers a sweep, word for word, for situations recorded on real machines.
//!
//! Each directory of `headlines` has `sweep.fsdyno`, a sweep as `fsdyno pack` wrote it, without what no page
//! shows: single slow operations, timelines, samples of telemetry, and distributions of other operations
//! than first bytes and syncs; `headline.txt`, what `fsdyno show` prints of it; `truth.txt`, the class, what
//! the figures say, and what a sensible administrator does; and `readers.md`, the words of three who read the
//! page and knew nothing else.
//!
//! After a change of wording, `FSDYNO_RECORD=1 cargo test --test headlines` writes the pages again. Read what
//! changed: a page that says something else needs new readers.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size of a terminal since the VT100.
const LINES: usize = 24;
const COLUMNS: usize = 80;

/// Every class that a judgement may have.
const CLASSES: [&str; 5] = ["winner", "trade-off", "no-difference", "undecided", "invalid"];

/// The directories of the situations, by name.
fn situations() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/headlines");
    let mut found: Vec<PathBuf> =
        all.read_dir().expect("the situations").map(|entry| entry.expect("a directory").path()).collect();
    found.sort();
    found
}

/// A store with one sweep.
struct Stored {
    state: tempfile::TempDir,
}

impl Stored {
    fn unpacked(sweep: &Path) -> Stored {
        let stored = Stored { state: tempfile::tempdir().expect("a directory") };
        stored.text(&["unpack", sweep.to_str().expect("a name in UTF-8")]);
        stored
    }

    /// Returns the output of a command, which must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_fsdyno"))
            .args(arguments)
            .env("XDG_STATE_HOME", self.state.path())
            .env("COLUMNS", COLUMNS.to_string())
            .env("NO_COLOR", "1")
            .current_dir(self.state.path())
            .output()
            .expect("run fsdyno");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The judgements on its workloads.
    fn judgements(&self) -> Vec<Value> {
        let shown: Value =
            serde_json::from_str(&self.text(&["show", "1", "--format", "json"])).expect("JSON");
        let answers = shown["answers"].as_array().expect("answers");
        answers.iter().map(|answer| answer["judgement"].clone()).collect()
    }
}

/// Compares a page with the recorded one, or records it.
fn compare(page: &str, recorded: &Path) {
    if std::env::var_os("FSDYNO_RECORD").is_some() {
        std::fs::write(recorded, page).expect("write the page");
        return;
    }
    let expected = std::fs::read_to_string(recorded).expect("a recorded page");
    assert_eq!(page, expected, "{}: FSDYNO_RECORD=1 records it", recorded.display());
}

#[test]
fn pages_are_as_they_were_read() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for situation in situations() {
        let name = situation.display();
        let truth = std::fs::read_to_string(situation.join("truth.txt")).expect("the truth");
        let truth = truth.lines().next().and_then(|line| line.strip_prefix("class: ")).expect("a class");
        let stored = Stored::unpacked(&situation.join("sweep.fsdyno"));
        let page = stored.text(&["show", "1"]);
        compare(&page, &situation.join("headline.txt"));

        let too_wide = page.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(too_wide, None, "{name}: more than {COLUMNS} columns");
        assert!(page.lines().count() <= LINES, "{name}: more than {LINES} lines:\n{page}");

        let judgements = stored.judgements();
        let classes: Vec<&str> =
            judgements.iter().map(|one| one["class"].as_str().expect("a class")).collect();
        assert_eq!(classes, [truth], "{name}:\n{page}");
        let is_used = page.lines().any(|line| line.starts_with("Use '"));
        assert_eq!(is_used, classes.contains(&"winner"), "{name}: {classes:?}\n{page}");
        for class in classes {
            *seen.entry(class.to_string()).or_default() += 1;
        }
    }
    for class in CLASSES {
        let times = seen.remove(class).unwrap_or_default();
        assert!(times >= 2, "'{class}' was recorded {times} times");
    }
    assert!(seen.is_empty(), "classes without a name here: {seen:?}");
}

#[test]
fn the_page_in_the_readme_is_one_of_these() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(top.join("../../README.md")).expect("the README");
    let page = std::fs::read_to_string(top.join("tests/headlines/quick/headline.txt")).expect("a page");
    // There it is the latest sweep.
    let page = page.replace("fsdyno show 1 ", "fsdyno show ");
    assert!(readme.contains(&format!("```\n{page}```\n")), "README.md shows another page than\n{page}");
}
