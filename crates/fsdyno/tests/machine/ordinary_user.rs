//! The view of a user without root: sweeps that need root, and the results that root has measured.

use crate::support::guarded::Loop;
use crate::support::{NOBODY, Requirement, Sandbox, describe, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const IN_A_NAMESPACE: &[Requirement] = &[Requirement::Root, Requirement::Program("unshare")];

tests! {
    a_sweep_needs_root_and_says_so: &[Requirement::Root];
    what_root_swept_is_found_without_sudo: IN_A_NAMESPACE;
    a_store_on_read_only_media_is_shown: IN_A_NAMESPACE;
    a_store_of_somebody_else_is_shown_and_not_changed: &[Requirement::Root];
}

/// A user with a home of their own in a sandbox.
struct User {
    sandbox: Sandbox,
    binary: PathBuf,
}

impl User {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).expect("ours");
        let binary = sandbox.give_away(&["state"]);
        User { sandbox, binary }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(&self.binary).args(arguments).uid(NOBODY).gid(NOBODY).output().expect("run fsdyno")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_STATE_HOME", self.sandbox.path("state")).current_dir(self.sandbox.path("state"));
        command
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn a_sweep_needs_root_and_says_so() {
    let user = User::new();
    // Which only root may open, as on any machine with packages that are images.
    let _attached = Loop::new(&user.sandbox, "attached", 1);
    let plan = user.sandbox.write(
        "plan.toml",
        "name = \"mine\"\n[device]\nimage = \"/var/tmp/fsdyno-nobody.img\"\nsize = \"64M\"\n[axes]\n\
         filesystem = [\"ext4\", \"ext2\"]\n[[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"1s\"\n",
    );
    let plan = plan.display().to_string();
    let swept = user.run(&["sweep", &plan]);
    assert_eq!((swept.status.code(), text(&swept.stdout)), (Some(3), String::new()), "{}", describe(&swept));
    assert!(text(&swept.stderr).contains("needs root: run it with sudo"), "{}", describe(&swept));
    assert!(!user.sandbox.path("state/fsdyno").exists(), "something was stored");
    // What root has swept on this machine is listed as well.
    let list = json(&user.run(&["list", "--format", "json"]));
    let mut selectors =
        list.as_array().expect("a list").iter().filter_map(|sweep| sweep["selector"].as_str());
    assert!(selectors.all(|selector| selector.starts_with("root:")), "{list}");

    // The same estimates as root gets, and one line more.
    let planned = user.run(&["plan", &plan]);
    let roots = user.sandbox.path("roots").display().to_string();
    let by_root = user.command(&user.binary).args(["plan", &plan, "--state", &roots]).output();
    let by_root = by_root.expect("run fsdyno");
    assert_eq!((planned.status.code(), by_root.status.code()), (Some(0), Some(0)), "{}", describe(&planned));
    let more = "the sweep needs root: run it with sudo\n";
    assert_eq!(text(&planned.stdout), text(&by_root.stdout) + more, "{}", describe(&by_root));
    assert!(text(&planned.stdout).contains("2 cases (0 skipped on this machine)"), "{}", describe(&planned));
    assert_eq!(json(&user.run(&["plan", &plan, "--format", "json"]))["needs_root"], true);
    // A guest is the user's own, but its disk is recorded by whoever may mount.
    let recorded = user.sandbox.write(
        "recorded.toml",
        "name = \"mine\"\n[device]\nimage = \"/var/tmp/fsdyno-nobody.img\"\nsize = \"1G\"\n[axes]\n\
         filesystem = [\"ext4\"]\nkernel = [\"debian:6.1\"]\n[[workloads]]\nkind = \"durability\"\n",
    );
    let refused = user.run(&["durability", &recorded.display().to_string()]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    assert!(text(&refused.stderr).contains("needs root: run it with sudo"), "{}", describe(&refused));
}

/// A directory of root's results, mounted where they belong in a mount namespace, so that those of this
/// machine stay as they are.
fn what_root_swept_is_found_without_sudo() {
    let user = User::new();
    let roots = user.sandbox.path("roots");
    fs::create_dir(&roots).expect("a directory");
    let table = |number: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/published/fsopbench-2009");
        let copy = user.sandbox.path(number);
        fs::copy(path.join(number), &copy).expect("a table");
        copy.display().to_string()
    };
    let (first, second) = (table("00.txt"), table("01.txt"));
    let state = format!("{}/fsdyno", roots.display());
    let by_root = |arguments: &[&str]| {
        let mut command = user.command(&user.binary);
        let output = command.args(arguments).args(["--state", &state]).output().expect("run fsdyno");
        assert!(output.status.success(), "{}", describe(&output));
    };
    let name = ["--name", "by-user"];
    let imported = user.run(&[&["import", "fsopbench", &first][..], &name].concat());
    assert!(imported.status.success(), "{}", describe(&imported));
    by_root(&["import", "fsopbench", &first, &second, "--name", "by-root"]);
    by_root(&["import", "fsopbench", &second, "--name", "another"]);

    let script = "mkdir -p /var/lib/fsdyno && mount --bind \"$0\" /var/lib/fsdyno && exec setpriv \
                  --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let run = |arguments: &[&str]| {
        let mut command = user.command(Path::new("unshare"));
        command.args(["-m", "--propagation", "private", "sh", "-c", script, &state]);
        command.arg(&user.binary).args(arguments).output().expect("run fsdyno")
    };
    let list = json(&run(&["list", "--format", "json"]));
    let selectors: Vec<&str> =
        list.as_array().expect("sweeps").iter().filter_map(|sweep| sweep["selector"].as_str()).collect();
    assert_eq!(selectors, ["1", "root:1", "root:2"], "{list}");
    let id_of = |arguments: &[&str]| {
        let shown = run(arguments);
        assert!(shown.status.success(), "{}", describe(&shown));
        json(&shown)["sweep"]["id"].as_str().expect("an id").to_string()
    };
    assert_eq!(id_of(&["show", "--format", "json"]), "root:2", "the latest of all");
    assert_eq!(id_of(&["show", "by-root", "--format", "json"]), "root:1");
    assert_eq!(id_of(&["show", "1", "--format", "json"]), "1", "one's own comes first");
    assert_eq!(id_of(&["show", "2", "--format", "json"]), "root:2", "no other has this number");
    for arguments in [
        &["recommend", "root:1"][..],
        &["report", "root:1", "-o", "-"],
        &["export", "root:1", "--kind", "trials"],
        &["compare", "1", "root:1"],
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", describe(&output));
    }
    let refused = run(&["delete", "root:1", "--yes"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    let names: Vec<_> =
        fs::read_dir(&state).expect("root's").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["results.db"], "a reader left something");
    // A report that cannot be written names the path and the cause.
    let report = run(&["report", "root:1", "-o", "/var/lib/fsdyno/report.html"]);
    let expected =
        "error: cannot write '/var/lib/fsdyno/report.html': Permission denied (os error 13)\nhint: ";
    assert!(text(&report.stderr).contains(expected), "{}", describe(&report));
}

/// The store of a sandbox with an import in it.
fn imported(user: &User) -> String {
    let fio = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/captured/fio-3.33.json");
    let fio = user.sandbox.write("fio.json", &fs::read_to_string(fio).expect("a file")).display().to_string();
    let state = user.sandbox.path("given").display().to_string();
    let mut command = user.command(&user.binary);
    let output = command.args(["import", "fio", &fio, "--state", &state]).output().expect("run fsdyno");
    assert!(output.status.success(), "{}", describe(&output));
    format!("{state}/results.db")
}

fn a_store_on_read_only_media_is_shown() {
    let user = User::new();
    imported(&user);
    let given = user.sandbox.path("given").display().to_string();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let run = |arguments: &[&str]| {
        let mut command = user.command(Path::new("unshare"));
        command.args(["-m", "--propagation", "private", "sh", "-c", script, &given]).arg(&user.binary);
        command.args(arguments).args(["--state", &given]).output().expect("run fsdyno")
    };
    for arguments in [&["list"][..], &["show"], &["recommend"], &["report", "-o", "-"], &["pack", "1", "-"]] {
        let output = run(arguments);
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}: {}", describe(&output));
    }
    let refused = run(&["note", "1", "a note"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    let said = text(&refused.stderr);
    assert!(said.contains("can be read but not changed: Read-only file system"), "{said}");
}

fn a_store_of_somebody_else_is_shown_and_not_changed() {
    let user = User::new();
    let store = imported(&user);
    let before = fs::read(&store).expect("the store");
    for arguments in [&["list"][..], &["show"], &["pack", "1", "-"]] {
        let output = user.run(&[arguments, &["--store", &store]].concat());
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}: {}", describe(&output));
    }
    for arguments in [&["note", "1", "mine now"][..], &["delete", "1", "--yes"], &["bench", "."]] {
        let output = user.run(&[arguments, &["--store", &store]].concat());
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", describe(&output));
        let said = text(&output.stderr);
        assert!(said.contains("belong to user 0, so they can be read but not changed"), "{said}");
    }
    assert!(fs::read(&store).expect("the store") == before, "it was changed");
    let given = fs::read_dir(user.sandbox.path("given")).expect("the directory");
    assert_eq!(given.count(), 1, "a reader left something");
}
