//! Root writes nothing where a symbolic link of another user leads.
//!
//! The paths are those that the definition of the command line marks as written, which `fsdyno reference`
//! lists. Each is attacked with links that belong to somebody else: as its last component, in the middle, and
//! dangling. Decoys with contents and metadata stay as they were.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const SOMEBODY: u32 = 65_534;
/// Where an attacked path goes in a command line.
const PATH: &str = "PATH";

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A directory with results, decoys, and links of somebody else to them.
struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Scene(tempfile::tempdir_in("/tmp").expect("a directory"));
        fs::set_permissions(scene.0.path(), Permissions::from_mode(0o755)).expect("ours");
        let rows: String = (0..200).map(|row| format!("{},{row}\n", ["ext4", "xfs"][row % 2])).collect();
        scene.write("mine.csv", &format!("filesystem,value\n{rows}"));
        scene.succeeds(&["import", "table", "mine.csv", "--unit", "MB/s"]);
        scene.succeeds(&["pack", "1", "mine.fsdyno"]);
        fs::create_dir_all(scene.path("decoy/below")).expect("directories");
        scene.write("decoy/file", "precious");
        scene.succeeds(&["import", "table", "mine.csv", "--unit", "MB/s", "--store", "decoy/results.db"]);
        fs::create_dir(scene.path("theirs")).expect("a directory");
        for (link, target) in
            [("file", "file"), ("store", "results.db"), ("directory", "."), ("dangling", "new")]
        {
            scene.link(&format!("theirs/{link}"), &format!("../decoy/{target}"));
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// A link of somebody else.
    fn link(&self, name: &str, target: &str) {
        symlink(target, self.path(name)).expect("a link");
        lchown(self.path(name), Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
    }

    fn fsdyno(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        // `--state` has precedence.
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.fsdyno(arguments).output().expect("run fsdyno")
    }

    fn succeeds(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output.stdout
    }

    /// Everything in a directory, with what a write would change.
    fn look(&self, directory: &str) -> Vec<String> {
        let (mut found, mut open) = (Vec::new(), vec![self.path(directory)]);
        while let Some(path) = open.pop() {
            let seen = fs::symlink_metadata(&path).expect("metadata");
            let content = if seen.is_file() { fs::read(&path).expect("its content") } else { Vec::new() };
            found.push(format!(
                "{} {:o} {} {} {} {}.{:09} {}.{:09} {content:x?}",
                path.display(),
                seen.mode(),
                seen.uid(),
                seen.ino(),
                seen.nlink(),
                seen.mtime(),
                seen.mtime_nsec(),
                seen.ctime(),
                seen.ctime_nsec(),
            ));
            if seen.is_dir() {
                open.extend(fs::read_dir(&path).expect("entries").map(|entry| entry.expect("entry").path()));
            }
        }
        found.sort();
        found
    }

    /// The paths that are written, each with its command, by the definition of the command line.
    fn written(&self) -> Vec<(String, String)> {
        fs::create_dir(self.path("reference")).expect("a directory");
        self.succeeds(&["reference", "reference"]);
        let page = fs::read_to_string(self.path("reference/command-line.md")).expect("the page");
        let (_, paths) = page.split_once("\n## Paths that are written\n").expect("the section");
        let (paths, _) = paths.split_once("\n## ").expect("the next section");
        let rows = paths.lines().filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            (cells.get(1)?.starts_with("fsdyno")).then(|| (cells[1].to_string(), cells[2].to_string()))
        });
        rows.collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Command lines in which a path is written.
fn lines(command: &str, path: &str) -> Vec<String> {
    let line = match (command, path) {
        ("fsdyno", "--store") => {
            let all = [
                "import table mine.csv --unit MB/s",
                "delete 1 --yes",
                "rename 1 other",
                "note 1 about",
                "unpack mine.fsdyno",
                "list",
            ];
            return all.iter().map(|line| format!("{line} --store=PATH")).collect();
        }
        ("fsdyno", "--state") => "import table mine.csv --unit MB/s --state=PATH",
        ("fsdyno bench", "--token-file") => {
            "bench . --tree-size 1M --clients 1 --launch true --token-file=PATH"
        }
        ("fsdyno bench", _) => "bench PATH --tree-size 1M",
        ("fsdyno sweep", "--token-file") => "sweep clients.toml --launch true --token-file=PATH",
        ("fsdyno quick", "--save") => "quick /var/tmp --save=PATH",
        ("fsdyno quick", _) => "quick PATH",
        ("fsdyno plans", "--save") => "plans demo --save=PATH",
        ("fsdyno disks", "--save") => "disks ebs-gp3 --save=PATH",
        ("fsdyno report", "--output") => "report --output=PATH",
        ("fsdyno export", "--directory") => "export --directory=PATH",
        ("fsdyno profile", "--output") => "profile decoy --output=PATH",
        ("fsdyno pack", "--output") => "pack 1 --output=PATH",
        ("fsdyno pack", _) => "pack 1 PATH",
        ("fsdyno selfcheck", "--image") => "selfcheck --image=PATH",
        ("fsdyno package", _) => "package PATH",
        ("fsdyno reference", _) => "reference PATH",
        ("fsdyno application", _) => "application prepare PATH overwrite 1",
        _ => panic!("no command line in which '{command}' writes {path}"),
    };
    vec![line.to_string()]
}

#[test]
fn each_path_that_is_written_follows_no_link_of_others() {
    if !is_root() {
        eprintln!("skipped: requires root");
        return;
    }
    let scene = Scene::new();
    scene.write(
        "clients.toml",
        "[device]\ndirectory = \".\"\n[clients]\ncount = 1\n[[workloads]]\nkind = \"fileserver\"\n\
         tree_size = \"1M\"\nwriter_space = \"8M\"\n",
    );
    let written = scene.written();
    assert!(written.len() >= 16, "{written:?}");
    let before = scene.look("decoy");
    for (command, path) in &written {
        for line in lines(command, path) {
            for link in [
                "theirs/file",
                "theirs/store",
                "theirs/directory",
                "theirs/directory/new",
                "theirs/directory/below/new",
                "theirs/directory/results.db",
                "theirs/dangling",
                "theirs/dangling/new",
            ] {
                let target = scene.path(link).display().to_string();
                let line = line.replace(PATH, &target);
                let output = scene.run(&line.split(' ').collect::<Vec<_>>());
                let error = text(&output.stderr);
                assert!(!output.status.success(), "{line}: {}{error}", text(&output.stdout));
                if error.contains("is a symbolic link that another user can change") {
                    assert_eq!(output.status.code(), Some(3), "{line}: {error}");
                }
                assert!(error.contains(&scene.path("theirs").display().to_string()), "{line}: {error}");
                assert!(scene.look("decoy") == before, "{line} changed the decoys: {error}");
            }
        }
    }
}

#[test]
fn links_of_ones_own_are_followed_wherever_they_are() {
    if !is_root() {
        eprintln!("skipped: requires root");
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("real")).expect("a directory");
    symlink("real", scene.path("own")).expect("a link");
    symlink("page.html", scene.path("real/link.html")).expect("a link");
    for line in [
        "report -o own/link.html",
        "export -d own/tables",
        "profile decoy -o own/model.toml",
        "pack 1 own/packed.fsdyno",
        "plans demo --save=own/demo.toml",
        "disks ebs-gp3 --save=own/ebs-gp3.toml",
        "import table mine.csv --unit MB/s --store own/deep/results.db",
        "delete 1 --yes --store own/deep/results.db",
    ] {
        scene.succeeds(&line.split(' ').collect::<Vec<_>>());
    }
    for name in
        ["page.html", "tables/trials.csv", "model.toml", "packed.fsdyno", "demo.toml", "deep/results.db"]
    {
        assert!(scene.path("real").join(name).is_file(), "{name}");
    }
    assert!(fs::symlink_metadata(scene.path("real/link.html")).is_ok_and(|link| link.is_symlink()));
}

/// A file that somebody else has put there beforehand, open to everybody.
#[test]
fn what_is_written_over_a_file_of_others_is_not_theirs() {
    if !is_root() {
        eprintln!("skipped: requires root");
        return;
    }
    let scene = Scene::new();
    let written = [
        ("report -o PATH", "page.html"),
        ("export -d .", "trials.csv"),
        ("profile decoy -o PATH", "model.json"),
        ("pack 1 PATH", "packed.fsdyno"),
        ("reference .", "command-line.md"),
    ];
    for (line, name) in written {
        // What is packed overwrites nothing but an empty file.
        scene.write(name, "");
        fs::set_permissions(scene.path(name), Permissions::from_mode(0o666)).expect("a mode");
        chown(scene.path(name), Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
        scene.succeeds(&line.replace(PATH, name).split(' ').collect::<Vec<_>>());
        let found = fs::metadata(scene.path(name)).expect("a file");
        assert!(found.len() > 0, "{line}");
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o022), (0, 0, 0), "{line}");
    }
}

#[test]
fn output_goes_to_pipes_devices_and_open_files() {
    let scene = Scene(tempfile::tempdir_in("/tmp").expect("a directory"));
    scene.write("mine.csv", "filesystem,value\next4,1\nxfs,2\n");
    scene.succeeds(&["import", "table", "mine.csv", "--unit", "MB/s"]);
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let page = text(&scene.succeeds(&["report", "-o", name]));
        assert!(page.starts_with("<!DOCTYPE html>"), "{name}: {page}");
    }
    scene.succeeds(&["report", "-o", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").expect("the device").is_file());
    let file = File::create(scene.path("page.html")).expect("a file");
    let output = scene.fsdyno(&["report", "-o", "/dev/stdout"]).stdout(file).output().expect("run fsdyno");
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read_to_string(scene.path("page.html")).expect("a page").starts_with("<!DOCTYPE html>"));
    scene.succeeds(&["profile", ".", "-o", "./model.toml"]);
    assert!(scene.path("model.toml").is_file());
}

/// Puts a link of somebody else, to the decoys, in place of a directory.
fn swap(scene: &Scene, directory: &str) {
    fs::rename(scene.path(directory), scene.path("moved")).expect("moved");
    scene.link(directory, "decoy");
}

#[test]
fn tables_go_where_the_first_went_when_the_directory_is_swapped() {
    if !is_root() {
        eprintln!("skipped: requires root");
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("tables")).expect("a directory");
    let first = scene.path("tables/trials.csv");
    mknodat(CWD, &first, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut pipe = OpenOptions::new().read(true).custom_flags(flags).open(&first).expect("its reader");
    rustix::pipe::fcntl_setpipe_size(&pipe, 4096).expect("a size");
    let before = scene.look("decoy");
    let mut export = scene.fsdyno(&["export", "-d", "tables"]).spawn().expect("run fsdyno");
    // Nothing is left to read before all of it has been read: it is larger than the pipe.
    poll(&mut [PollFd::new(&pipe, PollFlags::IN)], None).expect("something to read");
    swap(&scene, "tables");
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty()).expect("a blocking read");
    let mut table = String::new();
    pipe.read_to_string(&mut table).expect("the table");
    assert!(table.len() > 8192 && export.wait().expect("an end").success());
    assert!(scene.look("decoy") == before, "the decoys have changed");
    assert!(scene.path("moved/operations.csv").is_file());
}

/// Links below a directory that is root's own but open to others.
#[test]
fn links_of_others_in_a_directory_are_refused_as_those_on_the_way() {
    if !is_root() {
        eprintln!("skipped: requires root");
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("tables")).expect("a directory");
    scene.link("tables/trials.csv", "../decoy/file");
    fs::create_dir(scene.path("stored")).expect("a directory");
    scene.succeeds(&["import", "table", "mine.csv", "--unit", "MB/s", "--store", "stored/results.db"]);
    scene.link("stored/results.db.files", "../decoy");
    let before = scene.look("decoy");
    for line in ["export -d tables", "delete 1 --yes --store stored/results.db"] {
        let output = scene.run(&line.split(' ').collect::<Vec<_>>());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{line}: {error}");
        assert!(error.contains("is a symbolic link that another user can change"), "{line}: {error}");
        assert!(scene.look("decoy") == before, "{line} changed the decoys: {error}");
    }
    assert!(text(&scene.succeeds(&["list", "--store", "stored/results.db"])).contains("mine"), "it is there");
}

#[test]
fn a_store_stays_where_it_was_opened_when_its_directory_is_swapped() {
    if !is_root() {
        eprintln!("skipped: requires root");
        return;
    }
    let scene = Scene::new();
    let before = scene.look("decoy");
    let mut unpack = scene.fsdyno(&["unpack", "-", "--store", "stored/results.db"]);
    let mut unpack = unpack.stdin(Stdio::piped()).spawn().expect("run fsdyno");
    // It has opened its store before it reads.
    while !scene.path("stored/results.db-wal").exists() {
        assert!(unpack.try_wait().expect("a state").is_none(), "it has ended");
        std::thread::yield_now();
    }
    swap(&scene, "stored");
    let packed = fs::read(scene.path("mine.fsdyno")).expect("a packed sweep");
    unpack.stdin.take().expect("its input").write_all(&packed).expect("written");
    assert!(unpack.wait().expect("an end").success());
    assert!(scene.look("decoy") == before, "the decoys have changed");
    let listed = text(&scene.succeeds(&["list", "--store", "moved/results.db"]));
    assert!(listed.contains("mine"), "{listed}");
    let left: Vec<_> =
        fs::read_dir(scene.path("moved")).expect("entries").map(|one| one.expect("one")).collect();
    assert!(left.iter().all(|entry| entry.file_name() == Path::new("results.db").as_os_str()), "{left:?}");
}
