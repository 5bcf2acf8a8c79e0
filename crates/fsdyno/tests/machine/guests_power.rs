//! Power loss in the middle of a trial: the machine boots again, `fsdyno restore` runs as its unit specifies,
//! and nothing is left. The machine is a guest whose state is on a disk that survives.

use crate::guests::{GUEST, opened, qemu};
use crate::support::Requirement;
use fsdyno_core::{Bytes, GuestShape, KernelSpec};
use fsdyno_host::guest::{Guest, GuestProgram, GuestRequest, Guests};
use fsdyno_host::{Command, MountRequest};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

const NEEDED: &[Requirement] =
    &[Requirement::All(GUEST), Requirement::Program("mdadm"), Requirement::Program("dash")];

/// A mirror of two named disks, an image for the journal, and settings: some of it survives a power cut, some
/// does not.
const PLAN: &str = r#"
name = "cut"
[device.md]
level = "raid1"
disks = [{ block = "/dev/vda" }, { block = "/dev/vdb" }]
[device.journals]
side = { image = "/state/journal.img", size = "64M" }
[axes]
filesystem = "ext4"
journal = "external"
readahead = "1M"
"sysctl.vm.dirty_ratio" = "11"
[[workloads]]
kind = "fileserver"
tree_size = "4M"
readers = 1
writers = 1
ramp = 0
window = "1h"
"#;

tests! {
    nothing_is_left_of_a_trial_that_lost_its_power: NEEDED;
}

fn nothing_is_left_of_a_trial_that_lost_its_power() {
    let directory = tempfile::tempdir().expect("a directory");
    let disks = disks(directory.path());
    let mut machine = switched_on(&disks);
    let made = machine.run(&Command::new("mkfs.ext4").args(["-q", "/dev/vdc"])).expect("mkfs runs");
    assert_eq!(made.status, 0, "{made:?}");
    mount_state(&mut *machine);
    let sweep = "/fsdyno sweep /state/plan.toml --state /state/fsdyno --destroy /dev/vda --destroy /dev/vdb";
    shell(
        &mut *machine,
        &format!("echo '{PLAN}' > /state/plan.toml; {sweep} < /dev/null > /state/log 2>&1 &"),
    );
    wait_for_load(&mut *machine);
    let journals = machine.list_directory(Path::new("/state/fsdyno/undo")).expect("journals");
    assert!(journals.iter().any(|name| name.ends_with(".journal")), "{journals:?}");
    machine.end_now();
    drop(machine);

    let mut machine = switched_on(&disks);
    mount_state(&mut *machine);
    let unit = shell(&mut *machine, "/fsdyno restore --state /state/fsdyno --install-unit 2>&1 || true");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let start = start.unwrap_or_else(|| panic!("{unit} starts nothing"));
    assert_eq!(start, "/fsdyno --state /state/fsdyno restore", "{unit}");
    let said = shell(&mut *machine, start);
    for what in ["'/dev/vda'", "'/dev/vdb'", "'/state/journal.img'"] {
        assert!(said.contains(what), "expected {what} in {said}");
    }
    for node in ["/dev/vda", "/dev/vdb"] {
        let probe = machine.probe_device(Path::new(node)).expect("a probe");
        let kinds: Vec<&str> = probe.signatures.iter().map(|found| &*found.kind).collect();
        assert_eq!((kinds, probe.uses.len()), (vec!["fsdyno-scratch"], 0), "{node}: {said}");
    }
    let left = |machine: &mut dyn Guest, path: &str| machine.list_directory(Path::new(path)).expect("a list");
    assert_eq!(left(&mut *machine, "/state/fsdyno/undo"), [""; 0], "{said}");
    assert!(!left(&mut *machine, "/state").contains(&"journal.img".to_string()));
    assert!(shell(&mut *machine, start).contains("nothing to restore"));
}

/// Two scratch disks, and one that holds the state.
fn disks(directory: &Path) -> Vec<PathBuf> {
    let made = |(name, size): (&str, Bytes)| {
        let path = directory.join(name);
        fs::File::create(&path).and_then(|file| file.set_len(size.0)).expect("a sparse file");
        path
    };
    [("one", Bytes(160 << 20)), ("two", Bytes(160 << 20)), ("state", Bytes(256 << 20))].map(made).to_vec()
}

fn switched_on(disks: &[PathBuf]) -> Box<dyn Guest> {
    let program =
        |(name, package): (&str, &str)| GuestProgram { name: name.to_string(), package: package.to_string() };
    let programs = [
        ("mkfs.ext4", "e2fsprogs"),
        ("mke2fs", "e2fsprogs"),
        ("e2fsck", "e2fsprogs"),
        ("dumpe2fs", "e2fsprogs"),
        ("mdadm", "mdadm"),
        ("dash", "dash"),
    ];
    let request = GuestRequest {
        kernel: KernelSpec::Debian { version: "6.1".to_string() },
        shape: GuestShape::default(),
        modules: ["ext4", "raid1", "loop"].map(Into::into).to_vec(),
        programs: programs.map(program).to_vec(),
        disks: disks.to_vec(),
    };
    // Commands that a host runs are confined, but here fsdyno runs as a whole.
    qemu()
        .with_kernel_words("lsm=yama")
        .start(&request, &opened(&request.disks), &AtomicBool::new(false))
        .unwrap_or_else(|not| panic!("{}\n{}", not.error, not.last_words))
}

fn mount_state(machine: &mut dyn Guest) {
    machine.create_directory(Path::new("/state")).expect("a directory");
    let request = MountRequest {
        filesystem: "ext4".to_string(),
        source: "/dev/vdc".into(),
        device: None,
        options: Vec::new(),
        target: "/state".into(),
    };
    machine.mount(&request).expect("the disk with the state");
}

/// The output of a shell command, which must succeed.
fn shell(machine: &mut dyn Guest, line: &str) -> String {
    let output = machine.run(&Command::new("dash").args(["-c", line])).expect("dash runs");
    assert_eq!(output.status, 0, "{line}: {}{}", output.stdout, output.stderr);
    output.stdout
}

/// Waits until the engine has written something to the filesystem of the trial.
fn wait_for_load(machine: &mut dyn Guest) {
    loop {
        let mounts = machine.mounts().expect("mounts");
        let mounted = mounts.iter().find(|mount| mount.target.to_string_lossy().starts_with("/run/fsdyno-"));
        if let Some(mount) = mounted {
            let names = machine.list_directory(&mount.target).unwrap_or_default();
            if names.iter().any(|name| name != "lost+found") {
                return;
            }
        }
        let log = machine.read_text(Path::new("/state/log")).unwrap_or_default();
        assert!(!log.contains("error: ") && !log.contains("failed"), "{log}");
        thread::sleep(Duration::from_millis(50));
    }
}
