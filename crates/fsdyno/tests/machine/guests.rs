//! Guests: kernels other than the machine's own, in virtual machines that fsdyno creates.
//!
//! Downloads are kept next to the build, so that they happen only once.

use crate::support::{NOBODY, PATIENCE, Requirement, Sandbox, describe, wait_until};
use fsdyno_core::{GuestShape, KernelSpec};
use fsdyno_guest::Qemu;
use fsdyno_host::guest::{Guest, GuestProgram, GuestRequest, Guests};
use fsdyno_host::{Command, Grant, HostError};
use rustix::fs::FallocateFlags;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

pub const GUEST: &[Requirement] = &[
    Requirement::Program("qemu-system-x86_64"),
    Requirement::Program("apt-get"),
    Requirement::Program("mkfs.ext4"),
    Requirement::Root,
];

/// For trials on this machine as well.
pub const GUEST_AND_MACHINE: &[Requirement] = &[Requirement::All(GUEST), Requirement::Loop];

/// A small load of readers and writers in guests.
const PLAN: &str = r#"
name = "guests"
watchdog = "5s"
memory = "64M"
[device]
image = "IMAGE"
size = "512M"
[axes]
filesystem = "ext4"
kernel = "debian:6.1"
[[workloads]]
kind = "fileserver"
tree_size = "8M"
readers = 1
writers = 1
ramp = 0
window = "500ms"
"#;

tests! {
    a_guest_answers_shows_its_disks_and_when_it_panics_leaves_its_last_words: GUEST;
    qemu_has_descriptors_and_no_rights: GUEST;
    two_kernels_and_the_machine_share_one_table:
        &[Requirement::All(GUEST_AND_MACHINE), Requirement::Soak];
    without_root_a_lost_and_a_hung_guest_fail_their_trials_only:
        &[Requirement::All(GUEST), Requirement::Soak];
    a_guest_is_stopped_before_its_disk_fills_the_host: GUEST_AND_MACHINE;
    a_killed_sweep_takes_its_guest_along: GUEST;
}

/// Where the kernels for these tests are kept.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

pub fn qemu() -> Qemu {
    Qemu::new(env!("CARGO_BIN_EXE_fsdyno").into(), cache().join("fsdyno"))
}

pub fn request(version: &str, disks: Vec<PathBuf>) -> GuestRequest {
    GuestRequest {
        kernel: KernelSpec::Debian { version: version.to_string() },
        shape: GuestShape::default(),
        modules: vec!["ext4".into()],
        programs: vec![GuestProgram { name: "mkfs.ext4".to_string(), package: "e2fsprogs".to_string() }],
        disks,
    }
}

pub fn started(request: &GuestRequest) -> Box<dyn Guest> {
    qemu()
        .start(request, &opened(&request.disks), &AtomicBool::new(false))
        .unwrap_or_else(|not| panic!("{}\n{}", not.error, not.last_words))
}

/// Files as the host that created them passes them to a guest.
pub fn opened(disks: &[PathBuf]) -> Vec<OwnedFd> {
    let open = |disk: &PathBuf| fs::File::options().read(true).write(true).open(disk).expect("a disk").into();
    disks.iter().map(open).collect()
}

/// The fields of `/proc/PID/status` that show what a process may do.
fn rights(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_string(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect()
}

/// The files below this directory that a process has open.
fn open_below(pid: u32, directory: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").flatten();
    let mut open: Vec<PathBuf> = all
        .filter_map(|one| fs::read_link(one.path()).ok())
        .filter(|path| path.starts_with(directory) && !path.ends_with("(deleted)"))
        .collect();
    open.dedup();
    open
}

/// Started by root, QEMU runs as another user without any privileges, and its system calls are filtered. Its
/// disk is the file that was created, even if another file has taken its name.
fn qemu_has_descriptors_and_no_rights() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, moved) = (directory.path().join("disk"), directory.path().join("moved"));
    fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a sparse file");
    fs::set_permissions(&disk, fs::Permissions::from_mode(0o600)).expect("root only");
    let request = request("6.1", vec![disk.clone()]);
    let disks = opened(&request.disks);
    fs::rename(&disk, &moved).expect("another name");
    let decoy = vec![7; 64 << 10];
    fs::write(&disk, &decoy).expect("a decoy");
    let mut guest = qemu()
        .start(&request, &disks, &AtomicBool::new(false))
        .unwrap_or_else(|not| panic!("{}\n{}", not.error, not.last_words));
    let pid = qemu_of(&disk).expect("a process");
    let rights = rights(pid);
    let user = format!("{0} {0} {0} {0}", 0x7000_0000 + std::process::id());
    assert_eq!((&rights["Uid"], &rights["Gid"]), (&user, &user), "{rights:?}");
    assert_eq!(
        (rights["CapPrm"].as_str(), rights["CapEff"].as_str()),
        ("0000000000000000", "0000000000000000")
    );
    assert_eq!((rights["NoNewPrivs"].as_str(), rights["Seccomp"].as_str()), ("1", "2"));
    let kvm = fs::metadata("/dev/kvm").map(|node| node.gid().to_string()).unwrap_or_default();
    assert!(["", kvm.as_str()].contains(&rights["Groups"].as_str()), "{rights:?}");
    assert_eq!(open_below(pid, directory.path()), std::slice::from_ref(&moved));
    let mkfs = Command::new("mkfs.ext4").args(["-q", "/dev/vda"]);
    let made = guest.run(&mkfs.may_change([Grant::File("/dev/vda".into())])).expect("mkfs runs");
    assert_eq!(made.status, 0, "{made:?}");
    guest.end_now();
    assert!(fs::read(&disk).expect("the decoy") == decoy);
    let superblock = fs::read(&moved).expect("the disk");
    assert_eq!(superblock[1080..1082], [0x53, 0xef], "ext4's magic number");
}

fn a_guest_answers_shows_its_disks_and_when_it_panics_leaves_its_last_words() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = directory.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a sparse file");
    let shell = GuestProgram { name: "sh".to_string(), package: "dash".to_string() };
    let mut asked = request("6.1", vec![disk]);
    asked.programs.push(shell);
    let mut guest = started(&asked);
    let release = guest.read_text(Path::new("/proc/sys/kernel/osrelease")).expect("a release");
    assert_eq!(release.trim(), guest.facts().release);
    assert!(release.starts_with("6.1."), "{release}");
    let node = guest.disks().remove(0);
    let probe = guest.probe_device(&node).expect("a probe");
    assert_eq!((probe.size().0, probe.uses.len(), probe.unknown), (64 << 20, 0, Vec::<String>::new()));
    let made = guest
        .run(&Command::new("mkfs.ext4").args(["-q", "/dev/vda"]).may_change([Grant::File(node.clone())]))
        .expect("mkfs runs");
    assert_eq!(made.status, 0, "{made:?}");
    assert_eq!(guest.probe_device(&node).expect("a probe").signatures[0].kind, "ext4");

    guest.limit_steps(Some(PATIENCE));
    let panic = Command::new("sh").args(["-c", "echo c > /proc/sysrq-trigger"]);
    let panic = panic.may_change([Grant::File("/proc/sysrq-trigger".into())]);
    let error = guest.run(&panic).expect_err("a panic");
    assert!(matches!(error, HostError::Lost { .. }), "{error}");
    let last = guest.last_words();
    assert!(last.contains("Kernel panic - not syncing: sysrq triggered crash"), "{last}");
    let error = guest.mounts().expect_err("the guest is gone");
    assert!(matches!(error, HostError::Lost { .. }), "{error}");
}

/// The plan of these tests, with its image in the sandbox.
fn plan(sandbox: &Sandbox) -> (String, PathBuf) {
    let image = sandbox.path("disk.img");
    let text = PLAN.replace("IMAGE", &image.display().to_string());
    (sandbox.write("plan.toml", &text).display().to_string(), image)
}

/// The binary with the kernels of these tests in its cache.
pub fn fsdyno(sandbox: &Sandbox, arguments: &[&str]) -> std::process::Command {
    let mut command = sandbox.fsdyno(arguments);
    // XDG_CACHE_HOME contains a directory for each program.
    command.env("XDG_CACHE_HOME", cache()).env("APT_CONFIG", apt_config()).stdin(Stdio::null());
    command
}

/// A configuration of apt in which it keeps what it has read of its lists: where it does not, as in
/// containers, each of dozens of guests would wait for a second or two.
fn apt_config() -> PathBuf {
    let (directory, file) = (cache(), cache().join("apt.conf"));
    fs::create_dir_all(&directory).expect("the directory of the build");
    let text = format!("Dir::Cache::pkgcache \"{}\";\n", directory.join("pkgcache.bin").display());
    // Others may read it meanwhile.
    let new = tempfile::NamedTempFile::new_in(&directory).expect("a file beside it");
    fs::write(new.path(), text).expect("the new file");
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o644)).expect("its mode");
    new.persist(&file).expect("its name");
    file
}

pub fn trials(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.stored()["trials"].as_array().expect("trials").clone()
}

fn shown_trials(shown: &Output) -> Vec<Value> {
    assert!(shown.status.success(), "{}", describe(shown));
    let document: Value = serde_json::from_slice(&shown.stdout).expect("a document");
    document["trials"].as_array().expect("trials").clone()
}

fn two_kernels_and_the_machine_share_one_table() {
    let sandbox = Sandbox::new();
    let (plan, image) = plan(&sandbox);
    // The first of them is also the sentinel, and does not boot.
    let kernels = ["--kernel", "host", "--kernel", "debian:6.1", "--kernel", "debian:6.12"];
    let swept = fsdyno(&sandbox, &[&["sweep", &plan][..], &kernels].concat()).output().expect("run fsdyno");
    assert!(swept.status.success(), "{}", describe(&swept));
    assert!(!image.exists());
    let own = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let trials = trials(&sandbox);
    assert_eq!(trials.len(), 4, "three kernels, and the sentinel");
    for trial in &trials {
        let kernel = trial["configuration"]["settings"]["kernel"].as_str().expect("a kernel");
        let guest = kernel.strip_prefix("debian:");
        let release = trial["environment"]["kernel"].as_str().expect("a release");
        assert_eq!(trial["outcome"], "measured", "{kernel}: {trial}");
        assert!(release.starts_with(guest.unwrap_or(own.trim())), "{kernel}: {release}");
        let warnings = trial["warnings"].as_array().expect("warnings");
        let emulated = warnings.iter().any(|warning| warning["kind"] == "emulation");
        assert!(guest.is_some() || !emulated, "{kernel}: {warnings:?}");
        assert_eq!(trial["lifecycle_ns"]["boot"].is_u64(), guest.is_some(), "{kernel}: {trial}");
        if guest.is_some() {
            let environment = &trial["environment"];
            let machine = environment["virtualisation"].as_str().unwrap_or_default();
            assert!(machine.contains("QEMU") && machine.contains("disks with cache=none"), "{machine}");
            let tools = &environment["tools"];
            assert!(tools["mkfs.ext4"].is_string() && tools["e2fsck"].is_string(), "{kernel}: {tools}");
            // By a cgroup of version 2.
            assert_eq!(trial["phases"][0]["memory"]["limit"], 64 << 20, "{kernel}: {trial}");
        }
    }
}

/// Kills the virtual machine of the first trial, and stops that of the second for good; the third is
/// measured. All of this as a user without privileges.
fn without_root_a_lost_and_a_hung_guest_fail_their_trials_only() {
    let sandbox = Sandbox::new();
    let (plan, image) = plan(&sandbox);
    let set = ["repetitions=3", "workloads.tree_size=32M", "workloads.writer_space=8M"];
    let set = set.iter().flat_map(|change| ["--set", change]).collect::<Vec<_>>();
    let mut sweep = by_nobody(&sandbox, &[&["sweep", &plan][..], &set].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("run fsdyno");
    let first = qemu_under_load(&mut sweep, &image, UNDER_LOAD, None);
    signal(first, "KILL");
    let second = qemu_under_load(&mut sweep, &image, UNDER_LOAD, Some(first));
    signal(second, "STOP");
    let status = sweep.wait().expect("its end");
    assert_eq!(status.code(), Some(1), "a trial failed");
    // Root ignores the state directories of other users.
    let shown = by_nobody(&sandbox, &["show", "--format", "json"]).output().expect("run fsdyno");
    let trials = shown_trials(&shown);
    let outcomes: Vec<&str> = trials.iter().filter_map(|trial| trial["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["failed", "failed", "measured"], "{trials:#?}");
    let said = |index: usize| trials[index]["error"].to_string();
    assert!(said(0).contains("signal: 9"), "{}", said(0));
    assert!(said(1).contains("made no progress"), "{}", said(1));
    assert!(!image.exists() && qemu_of(&image).is_none());
}

/// If the machine runs out of space, writes of its guest would fail.
fn a_guest_is_stopped_before_its_disk_fills_the_host() {
    /// Less than the reserve of 5 %.
    const LEFT: u64 = 16 << 20;
    let sandbox = Sandbox::new();
    let small = sandbox.path("small");
    fs::create_dir(&small).expect("a directory");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=640m", "tmpfs"])
        .arg(&small)
        .status()
        .expect("mount runs");
    assert!(mounted.success());
    let (plan, _) = plan(&sandbox);
    let image = small.join("disk.img");
    let device = format!("device.image={}", image.display());
    let set = ["--set", &device, "--set", "workloads.writers=2", "--set", "workloads.window=20s"];
    let mut sweep = fsdyno(&sandbox, &[&["sweep", &plan][..], &set].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run fsdyno");
    wait_for(&mut sweep, || qemu_of(&image));
    // There was enough space when the guards checked.
    let room = rustix::fs::statvfs(&small).map(|found| found.f_bavail * found.f_frsize).expect("its room");
    fs::File::create(small.join("somebody-else's"))
        .and_then(|file| Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, room - LEFT)?))
        .expect("fill the space");
    let swept = sweep.wait_with_output().expect("its end");
    let unmounted = std::process::Command::new("umount").arg(&small).status().expect("umount runs");
    assert!(unmounted.success());
    assert_eq!(swept.status.code(), Some(1), "{}", describe(&swept));
    let said = describe(&swept);
    assert!(said.contains("less than the reserve of 32M"), "{said}");
    assert!(trials(&sandbox).is_empty(), "--resume runs it again");
}

fn a_killed_sweep_takes_its_guest_along() {
    let sandbox = Sandbox::new();
    let (plan, image) = plan(&sandbox);
    let mut sweep = fsdyno(&sandbox, &["sweep", &plan])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("run fsdyno");
    wait_for(&mut sweep, || qemu_of(&image));
    sweep.kill().expect("kill it");
    sweep.wait().expect("its end");
    wait_until("the virtual machine ends", || qemu_of(&image).is_none());
    assert!(image.exists(), "it has not been removed yet");
    let restored = sandbox.run(&["restore"]);
    assert!(restored.status.success(), "{}", describe(&restored));
    assert!(!image.exists(), "{}", describe(&restored));
}

/// The binary as started by a user without privileges, with a cache that contains what these tests have
/// downloaded so far. The cache is bind-mounted into the sandbox, because that user may not be able to read
/// its original place; the mount ends with the process. The new mount namespace would keep what other tests
/// have mounted.
fn by_nobody(sandbox: &Sandbox, arguments: &[&str]) -> std::process::Command {
    let binary = sandbox.give_away(&["", "cache", "cache/fsdyno", "cache/fsdyno/packages"]);
    let bind_and_become = "awk '$2 ~ \"^/run/fsdyno-\" {print $2}' /proc/mounts | xargs -r umount -l; { [ ! \
         -d \"$1\" ] || mount --bind \"$1\" \"$2\"; } && shift 2 && exec setpriv --reuid \"$NOBODY\" --regid \
         \"$NOBODY\" --clear-groups \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", bind_and_become, "sh"]);
    command.arg(cache().join("fsdyno/packages")).arg(sandbox.path("cache/fsdyno/packages"));
    command.arg(binary).args(arguments).current_dir(sandbox.path(""));
    command.env("XDG_STATE_HOME", sandbox.path("state")).env("XDG_CACHE_HOME", sandbox.path("cache"));
    command.env("HOME", sandbox.path("")).env("NOBODY", NOBODY.to_string()).stdin(Stdio::null());
    command
}

/// The amount that mkfs.ext4 writes to the image of these tests, about 25 MiB, and part of a tree of 32 MiB.
const UNDER_LOAD: u64 = 32 << 20;

/// The virtual machine, once its guest has written so much, but not that of the previous trial.
pub fn qemu_under_load(sweep: &mut Child, image: &Path, written: u64, before: Option<u32>) -> u32 {
    wait_for(sweep, || {
        let so_far = fs::metadata(image).map(|found| found.blocks() * 512).unwrap_or(0);
        qemu_of(image).filter(|pid| Some(*pid) != before && so_far > written)
    })
}

fn wait_for(sweep: &mut Child, mut look: impl FnMut() -> Option<u32>) -> u32 {
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert_eq!(sweep.try_wait().expect("a look"), None, "the sweep has ended");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The process of QEMU that has this image as its disk.
fn qemu_of(image: &Path) -> Option<u32> {
    let image = image.display().to_string();
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&words);
        line.starts_with("qemu-system") && line.contains(&image)
    })
}

pub fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}
