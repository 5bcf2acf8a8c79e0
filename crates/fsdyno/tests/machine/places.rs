//! Places that are not the whole machine: a changed root, and containers that hide parts of it. A sweep runs
//! there, or says what is in the way and changes nothing.

use crate::support::guarded::{Loop, Mount, NAMESPACE, ext4};
use crate::support::{Sandbox, describe};
use std::fs;
use std::process::{Command, Output};

tests! {
    a_sweep_runs_in_a_changed_root: NAMESPACE;
    what_is_mounted_outside_of_a_changed_root_is_named: NAMESPACE;
    a_place_that_hides_what_a_sweep_needs_is_named_and_nothing_is_changed: NAMESPACE;
}

/// The directories that a program needs below a root of its own.
const BELOW: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/sys"];

/// The plan of a sweep on one image, or on a disk.
fn plan(device: &str) -> String {
    format!(
        "repetitions = 1\n[device]\n{device}[axes]\nfilesystem = \"ext4\"\n\"sysctl.vm.dirty_ratio\" = 20\n\
         [[workloads]]\nkind = \"null\"\nramp = 0\nwindow = \"100ms\"\n"
    )
}

const IMAGE: &str = "image = \"/scratch.img\"\nsize = \"64M\"\n";

/// Runs fsdyno in a mount namespace of its own, after these lines of a shell.
fn after(sandbox: &Sandbox, lines: &str, arguments: &[&str]) -> Output {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("set -e\n{lines}\nexec \"$@\""));
    let fsdyno = sandbox.fsdyno(arguments);
    unshare.arg("sh").arg(fsdyno.get_program()).args(fsdyno.get_args());
    unshare.env("XDG_STATE_HOME", sandbox.path("state")).current_dir(sandbox.path(""));
    unshare.output().expect("run unshare")
}

/// The same with a directory of the sandbox as root, which is no mount point, and a plan in it.
fn in_a_changed_root(sandbox: &Sandbox, plan: &str, arguments: &[&str]) -> Output {
    let root = sandbox.path("root");
    let mut lines = String::new();
    for path in BELOW {
        fs::create_dir_all(root.join(&path[1..])).expect("a directory");
        if fs::metadata(path).is_ok() {
            lines.push_str(&format!("mount --rbind {path} {}{path}\n", root.display()));
        }
    }
    for path in ["proc", "run", "tmp"] {
        fs::create_dir_all(root.join(path)).expect("a directory");
    }
    fs::write(root.join("fsdyno"), "").expect("a place for the binary");
    fs::write(root.join("plan.toml"), plan).expect("a plan");
    let binary = env!("CARGO_BIN_EXE_fsdyno");
    let shown = root.display();
    lines.push_str(&format!("mount -t proc proc {shown}/proc\nmount --bind {binary} {shown}/fsdyno\n"));
    lines.push_str(&format!("shift\nexec chroot {shown} /fsdyno --state /state \"$@\"\n"));
    after(sandbox, &lines, arguments)
}

fn a_sweep_runs_in_a_changed_root() {
    let sandbox = Sandbox::new();
    let swept = in_a_changed_root(&sandbox, &plan(IMAGE), &["sweep", "/plan.toml"]);
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    assert!(!sandbox.path("root/scratch.img").exists());
}

fn what_is_mounted_outside_of_a_changed_root_is_named() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let _mount = Mount::new(&sandbox, &device.node);
    let node = device.node.display().to_string();
    let plan = plan(&format!("block = \"{node}\"\n"));
    let confirmed = ["sweep", "/plan.toml", "--destroy", &node, "--overwrite", &format!("{node}=ext4")];
    let swept = in_a_changed_root(&sandbox, &plan, &confirmed);
    assert_eq!(swept.status.code(), Some(3), "{}", describe(&swept));
    let heard = String::from_utf8_lossy(&swept.stderr).into_owned();
    assert!(heard.contains("is mounted on '"), "{heard}");
}

fn a_place_that_hides_what_a_sweep_needs_is_named_and_nothing_is_changed() {
    let sandbox = Sandbox::new();
    let image = sandbox.path("scratch.img");
    sandbox.write("plan.toml", &plan(&format!("image = {image:?}\nsize = \"64M\"\n")));
    let empty = |path: &str| format!("mount -t tmpfs empty {path}");
    for (place, code, heard) in [
        (empty("/proc"), 3, "cannot read in '/proc/self/fd'"),
        (empty("/sys"), 1, "loop devices, which images need, are not visible here (is /sys mounted?)"),
        (empty("/dev"), 1, "'/dev/loop-control' does not exist here"),
        (empty("/proc/sys"), 1, "the kernel has no sysctl vm.dirty_ratio"),
        (
            "mount --bind /proc/sys /proc/sys\nmount -o remount,bind,ro /proc/sys".into(),
            1,
            "Read-only file system",
        ),
        ("mount -t tmpfs -o ro empty /run".into(), 1, "Read-only file system"),
    ] {
        let swept = after(&sandbox, &place, &["sweep", "plan.toml"]);
        assert_eq!(swept.status.code(), Some(code), "{place}: {}", describe(&swept));
        let said = [&swept.stdout[..], &swept.stderr].concat();
        let said = String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(heard), "{place}: {said}");
        assert!(!image.exists(), "{place}");
    }
    let (swept, own) =
        (after(&sandbox, "mount -o remount,bind,ro /sys", &["sweep", "plan.toml"]), "read-only /sys");
    assert_eq!(swept.status.code(), Some(0), "{own}: {}", describe(&swept));
    assert!(!image.exists(), "{own}");
}
