//! The changes that users make to stored sweeps: delete, rename, note, pack and unpack.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A separate store with two imported sweeps, `old` and `new`.
struct Store(tempfile::TempDir);

impl Store {
    fn new() -> Self {
        let store = Store(tempfile::tempdir().expect("a directory"));
        for (number, name) in [("00.txt", "old"), ("01.txt", "new")] {
            let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/published/fsopbench-2009");
            store.succeeds(&[
                "import",
                "fsopbench",
                &table.join(number).display().to_string(),
                "--name",
                name,
            ]);
        }
        store
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.args(arguments).args(["--state", &self.path("state").display().to_string()]);
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("run fsdyno")
    }

    /// The stdout of a command that succeeds.
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Exit code and stderr of a command that is refused.
    fn refuses(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
        (output.status.code().expect("a code"), String::from_utf8(output.stderr).expect("text"))
    }

    fn list(&self) -> Vec<(i64, String)> {
        let list: Value = serde_json::from_str(&self.succeeds(&["list", "--format", "json"])).expect("JSON");
        let row = |sweep: &Value| {
            (sweep["id"].as_i64().expect("an id"), sweep["name"].as_str().expect("a name").to_string())
        };
        list.as_array().expect("sweeps").iter().map(row).collect()
    }
}

#[test]
fn a_sweep_is_deleted_only_once_that_is_confirmed() {
    let store = Store::new();
    let (code, said) = store.refuses(&["delete", "1"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("not confirmed: sweep 1 ('old', begun 2") && said.contains("--yes"), "{said}");
    assert_eq!(store.list().len(), 2);
    // All of them or none.
    let (code, said) = store.refuses(&["delete", "1", "7", "--yes"]);
    assert_eq!((code, store.list().len()), (2, 2), "{said}");
    let (code, said) = store.refuses(&["delete", "latest", "--yes"]);
    assert_eq!((code, store.list().len()), (2, 2), "{said}");
    store.succeeds(&["rename", "2", "old"]);
    let (code, said) = store.refuses(&["delete", "old", "--yes"]);
    assert!(code == 2 && said.contains("2 sweeps are named 'old': 1, 2"), "{said}");
    let heard = store.succeeds(&["delete", "2", "--yes"]);
    assert!(
        heard.starts_with("deleted sweep 2 ('old', begun 2") && heard.ends_with(", 1 trial)\n"),
        "{heard}"
    );
    assert_eq!(store.list(), [(1, "old".to_string())]);
}

#[test]
fn what_a_disk_has_damaged_is_found_and_only_that_is_deleted() {
    let store = Store::new();
    let heard = store.run(&["list", "--check"]);
    assert!(
        heard.status.success() && heard.stderr == b"checked 2 trials: every one can be read\n",
        "{heard:?}"
    );
    // A wrong bit in the trial that was stored last, at the end of its zstd frame.
    let database = store.path("state/results.db");
    let mut bytes = std::fs::read(&database).expect("the store");
    let (before, after) =
        (store.succeeds(&["show", "1", "--full"]), store.succeeds(&["show", "2", "--full"]));
    assert_ne!(before, after);
    let frame = bytes.windows(4).rposition(|four| four == b"\x28\xb5\x2f\xfd").expect("a frame");
    bytes[frame + 12] ^= 4;
    std::fs::write(&database, bytes).expect("the store");
    let checked = store.run(&["list", "--check"]);
    let said =
        format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert_eq!(checked.status.code(), Some(2), "{said}");
    let (_, damaged) = said.split_once("damaged in ").expect("what is damaged");
    let (sweep, damaged) = damaged.split_once(": trial 1: it cannot be decompressed").expect("which trial");
    assert!(
        damaged.ends_with(&format!("delete what is damaged: fsdyno delete {sweep} --damaged\n")),
        "{said}"
    );
    let other = if sweep == "1" { "2" } else { "1" };
    let listed: Value =
        serde_json::from_slice(&store.run(&["list", "--check", "--format", "json"]).stdout).expect("JSON");
    let row = |id: &str| {
        listed.as_array().expect("sweeps").iter().find(|one| one["selector"] == id).expect("it").clone()
    };
    assert_eq!(
        (&row(sweep)["damaged"][0]["trial"], &row(other)["damaged"]),
        (&0.into(), &serde_json::json!([]))
    );
    let (_, said) = store.refuses(&["show", sweep, "--full"]);
    let command = format!(
        "fsdyno delete {sweep} --damaged --store '{}'",
        database.canonicalize().expect("it").display()
    );
    assert!(said.contains("is damaged: it cannot be decompressed") && said.contains(&command), "{said}");
    let (code, said) = store.refuses(&["delete", sweep, "--damaged"]);
    assert!(code == 3 && said.contains("not confirmed: 1 damaged trial of sweep"), "{said}");
    let heard = store.succeeds(&["delete", other, "--damaged"]);
    assert!(heard.starts_with(&format!("nothing to delete: every trial of sweep {other} ")), "{heard}");
    let heard = store.succeeds(&["delete", sweep, "--damaged", "--yes"]);
    assert!(heard.starts_with(&format!("deleted 1 damaged trial of sweep {sweep} ")), "{heard}");
    assert!(store.run(&["list", "--check"]).status.success());
    let said = String::from_utf8(store.run(&["show", sweep]).stderr).expect("text");
    assert!(said.contains("has only 0 of 1 trials"), "{said}");
    assert_eq!(store.list().len(), 2);
    let kept = if other == "1" { before } else { after };
    assert_eq!(store.succeeds(&["show", other, "--full"]), kept);
}

#[test]
fn a_sweep_is_renamed_and_noted() {
    let store = Store::new();
    store.succeeds(&["rename", "1", "before"]);
    assert!(store.succeeds(&["show", "before"]).contains("before"));
    for name in ["", "3", "latest", "root:3", "published:x", &"x".repeat(300)] {
        let (code, said) = store.refuses(&["rename", "1", name]);
        assert!(code == 2 && said.contains("choose another name"), "{said}");
    }
    assert_eq!(store.succeeds(&["note", "before"]), "");
    store.succeeds(&["note", "before", "with the \u{1b}[31mold firmware"]);
    assert_eq!(store.succeeds(&["note", "1"]), "with the \\x1b[31mold firmware\n");
    assert!(store.succeeds(&["list"]).contains("note on 1: with the \\x1b[31mold firmware"));
    store.succeeds(&["note", "1", "--remove"]);
    assert!(!store.succeeds(&["list"]).contains("note on"));
    let (code, said) = store.refuses(&["note", "1", &"x".repeat(5000)]);
    assert!(code == 2 && said.contains("too long"), "{said}");
}

#[test]
fn a_packed_sweep_is_the_same_on_another_machine() {
    let store = Store::new();
    store.succeeds(&["note", "1", "a note"]);
    store.succeeds(&["pack", "1", "-o", "old.fsdyno"]);
    let elsewhere = Store::new();
    std::fs::rename(store.path("old.fsdyno"), elsewhere.path("old.fsdyno")).expect("the file");
    let heard = elsewhere.succeeds(&["unpack", "old.fsdyno"]);
    assert_eq!(heard, "sweep 3 'old': 1 trial from 'old.fsdyno'; fsdyno show 3\n");
    let shown = |store: &Store, sweep: &str| {
        let mut document: Value =
            serde_json::from_str(&store.succeeds(&["show", sweep, "--format", "json"])).expect("JSON");
        document["sweep"]["id"].take();
        document
    };
    assert_eq!(shown(&elsewhere, "3"), shown(&store, "1"));
    assert_eq!(elsewhere.succeeds(&["note", "3"]), "a note\n");
    // Once more, by a pipe and under another name.
    let mut packed = store.command(&["pack", "2", "-"]).stdout(Stdio::piped()).spawn().expect("run fsdyno");
    let mut unpack = elsewhere.command(&["unpack", "-", "--name", "again"]);
    let unpacked = unpack.stdin(packed.stdout.take().expect("a pipe")).output().expect("run fsdyno");
    assert!(packed.wait().expect("its end").success() && unpacked.status.success(), "{unpacked:?}");
    assert!(elsewhere.list().contains(&(4, "again".to_string())));
}

#[test]
fn a_packed_sweep_is_not_overwritten() {
    let store = Store::new();
    let packed = store.path("sweep.fsdyno");
    std::fs::write(&packed, "").expect("a file");
    store.succeeds(&["pack", "1", "sweep.fsdyno"]);
    let first = std::fs::read(&packed).expect("it");
    let (code, said) = store.refuses(&["pack", "2", "sweep.fsdyno"]);
    assert!(code == 3 && said.contains("'sweep.fsdyno' exists already"), "{said}");
    assert_eq!(std::fs::read(&packed).expect("it"), first);
    store.succeeds(&["pack", "2", "/dev/null"]);
}

#[test]
fn what_is_not_a_packed_sweep_is_refused_and_a_file_that_cannot_be_written_is_named() {
    let store = Store::new();
    std::fs::write(store.path("letter"), "Dear Sir or Madam").expect("a file");
    let (code, said) = store.refuses(&["unpack", "letter"]);
    assert!(code == 2 && said.contains("cannot unpack 'letter': not a packed sweep: "), "{said}");
    assert!(said.ends_with("hint: nothing was stored\n"), "{said}");
    assert_eq!(store.list().len(), 2);
    let path = store.path("none/old.fsdyno").display().to_string();
    let (_, said) = store.refuses(&["pack", "1", &path]);
    assert!(said.contains(&format!("cannot write '{path}': No such file or directory")), "{said}");
    let (_, said) = store.refuses(&["report", "1", "-o", &path]);
    assert!(said.contains(&format!("cannot write '{path}': No such file or directory")), "{said}");
    let full = store.command(&["report", "1", "-o", "-"]).stdout(full()).output().expect("run fsdyno");
    let said = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(said.contains("error: cannot write to stdout: No space left on device"), "{said}");
}

fn full() -> Stdio {
    std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}
