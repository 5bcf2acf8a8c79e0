//! The refusals of the kernel to tools that are asked to change something outside their trial, bypassing all
//! of our own checks.

use crate::guests::{GUEST, opened, qemu, request};
use crate::support::disk::Disk;
use crate::support::{Requirement, Sandbox, describe, json};
use fsdyno_core::Bytes;
use fsdyno_host::guest::Guests;
use fsdyno_host::local::LocalHost;
use fsdyno_host::{Command, DeviceHandle, Grant, Steps};
use rustix::fs::SeekFrom;
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

const TOOLS: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Landlock,
    Requirement::Program("mkfs.ext4"),
    Requirement::Program("mkfs.xfs"),
    Requirement::Program("mkfs.btrfs"),
    Requirement::Program("mdadm"),
    Requirement::Program("lvm"),
    Requirement::Program("fio"),
    Requirement::Program("bonnie++"),
];

tests! {
    no_tool_changes_a_decoy: TOOLS;
    a_check_changes_nothing: TOOLS;
    the_result_says_what_was_refused: TOOLS;
    a_running_engine_can_change_its_directory_only: TOOLS;
    a_kernel_without_landlock_says_so: GUEST;
}

/// A disk and a file that have nothing to do with the sweep.
struct Decoy {
    disk: Disk,
    image: PathBuf,
    file: PathBuf,
    before: Vec<u8>,
}

impl Decoy {
    fn new(sandbox: &Sandbox) -> Self {
        let image = sandbox.path("decoy.img");
        let disk = Disk::new(&image, Bytes(320 << 20));
        let node = OpenOptions::new().write(true).open(disk.node()).expect("the decoy");
        for megabyte in 0..320 {
            node.write_all_at(&[0xA5; 8192], megabyte << 20).expect("write to the decoy");
        }
        node.sync_all().expect("the decoy is written");
        let directory = sandbox.path("home");
        fs::create_dir(&directory).expect("a directory");
        let file = directory.join("letter");
        fs::write(&file, "dear all").expect("a file");
        let mut decoy = Decoy { disk, image, file, before: Vec::new() };
        decoy.before = decoy.hash();
        decoy
    }

    fn hash(&self) -> Vec<u8> {
        // What was written to the node may still be in its page cache.
        std::process::Command::new("blockdev")
            .args(["--flushbufs", self.disk.node()])
            .status()
            .expect("flush");
        // Whatever is written to a hole is no hole afterwards, even if it is zeros.
        let image = fs::File::open(&self.image).expect("the image");
        let mut hash = Sha256::new();
        let mut end = 0;
        let next = |end| match rustix::fs::seek(&image, SeekFrom::Data(end)) {
            Ok(begin) => Some(begin),
            Err(rustix::io::Errno::NXIO) => None,
            Err(error) => panic!("the image: {error}"),
        };
        while let Some(begin) = next(end) {
            end = rustix::fs::seek(&image, SeekFrom::Hole(begin)).expect("the end of the image is a hole");
            let mut data = vec![0; (end - begin) as usize];
            image.read_exact_at(&mut data, begin).expect("the image");
            hash.update(begin.to_le_bytes());
            hash.update(&data);
        }
        assert!(end > 0, "a decoy has something on it");
        hash.update(fs::read(&self.file).unwrap_or_default());
        hash.finalize().to_vec()
    }

    fn is_whole(&self) -> bool {
        self.hash() == self.before
    }
}

fn host() -> LocalHost {
    LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new())
}

fn locked(host: &mut LocalHost, disk: &Disk) -> DeviceHandle {
    let identity = host.probe_device(Path::new(disk.node())).expect("a probe").identity;
    host.open_device(Path::new(disk.node()), &identity).expect("the scratch device")
}

fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    Command::new(words.next().expect("a program")).args(words)
}

/// Every tool that a trial runs, pointed at another disk or file. Each has the permissions that its trial
/// gives it.
fn no_tool_changes_a_decoy() {
    let sandbox = Sandbox::new();
    let decoy = Decoy::new(&sandbox);
    let scratch = Disk::new(&sandbox.path("scratch.img"), Bytes(320 << 20));
    let mut host = host();
    let handle = locked(&mut host, &scratch);
    let work = sandbox.path("work");
    fs::create_dir(&work).expect("a directory");
    let (node, file) = (decoy.disk.node(), decoy.file.display().to_string());
    let home = decoy.file.parent().expect("a directory").display().to_string();
    let nodes = || vec![Grant::Nodes("/dev".into()), Grant::File("/dev/mapper/control".into())];
    let tree = || vec![Grant::Tree(work.clone())];
    let lines = [
        (format!("mkfs.ext4 -F -q {node}"), Vec::new()),
        (format!("mke2fs -F -q -O journal_dev {node}"), Vec::new()),
        (format!("mkfs.xfs -f {node}"), Vec::new()),
        (format!("mkfs.btrfs -f {node}"), vec![Grant::File("/dev/btrfs-control".into())]),
        (format!("mkfs.ext4 -F -q {file} 1024"), Vec::new()),
        (format!("wipefs --all --force {node}"), Vec::new()),
        (format!("e2fsck -f -y {node}"), Vec::new()),
        (format!("tune2fs -L stolen {node}"), Vec::new()),
        (format!("blkdiscard -f {node}"), Vec::new()),
        (format!("blkdiscard -f -z {node}"), nodes()),
        (format!("mdadm --zero-superblock --force {node}"), nodes()),
        (
            format!("mdadm --create /dev/md/x --run --level=1 --raid-devices=2 --force {node} missing"),
            nodes(),
        ),
        (format!("lvm pvcreate --yes --force --force --nolocking {node}"), nodes()),
        (format!("dd if=/dev/zero of={node} bs=4k count=8 conv=notrunc"), nodes()),
        (format!("dd if=/dev/zero of={file} count=1"), tree()),
        (format!("rm -rf -- {home}"), tree()),
        (format!("mv {file} {}", work.display()), tree()),
        (format!("truncate -s 0 {file}"), tree()),
        (format!("fio --name=x --thread --rw=write --size=1m --filename={node}"), tree()),
        (format!("fio --name=x --rw=write --size=4k --filename={file}"), tree()),
        (format!("bonnie++ -q -u 0 -d {home} -s 0 -n 1"), tree()),
        (format!("mknod {}/node b 7 0", work.display()), tree()),
    ];
    for (line, grants) in lines {
        let output = host.run(&command(&line).may_change(grants)).expect("it runs");
        assert_ne!(output.status, 0, "'{line}' was not refused: {output:?}");
        assert!(decoy.is_whole(), "'{line}' changed the decoy: {output:?}");
    }
    // A tool that has its own device, and is also told to use another one.
    let beside = Command::new("mkfs.ext4").args(["-F", "-q", "-J", &format!("device={node}")]);
    let output = host.run(&beside.device("", handle, Path::new(scratch.node()))).expect("it runs");
    assert!(output.status != 0 && decoy.is_whole(), "{output:?}");
    let alone = Command::new("mkfs.ext4").args(["-F", "-q"]).device("", handle, Path::new(scratch.node()));
    assert_eq!(host.run(&alone).expect("it runs").status, 0, "it may use its own device");
    host.close_device(handle).expect("closed");
    // Without confinement, the same command succeeds.
    let free = std::process::Command::new("mkfs.ext4").args(["-F", "-q", node]).status().expect("it runs");
    assert!(free.success() && !decoy.is_whole());
}

/// A tool that only examines a device cannot write even to that device.
fn a_check_changes_nothing() {
    let sandbox = Sandbox::new();
    let decoy = Decoy::new(&sandbox);
    let mut host = host();
    let handle = locked(&mut host, &decoy.disk);
    for line in ["mkfs.ext4 -F -q", "wipefs --all --force", "mkfs.btrfs -f"] {
        let looking = command(line).device("", handle, Path::new(decoy.disk.node())).reading_only();
        let output = host.run(&looking).expect("it runs");
        assert!(output.status != 0 && decoy.is_whole(), "'{line}': {output:?}");
    }
    host.close_device(handle).expect("closed");
}

fn the_result_says_what_was_refused() {
    let sandbox = Sandbox::new();
    let plan = format!(
        "[device]\nimage = \"{}\"\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\n\
         kind = \"fileserver\"\ntree_size = \"1M\"\nreaders = 1\nwriters = 1\nramp = 0\nwindow = \"100ms\"\n",
        sandbox.path("disk.img").display()
    );
    sandbox.sweep(&plan);
    let confinement = sandbox.stored()["trials"][0]["environment"]["confinement"].clone();
    assert!(confinement["landlock_abi"].as_u64() >= Some(1), "{confinement}");
    let doctor = sandbox.run(&["doctor", "--format", "json"]);
    let findings = json(&doctor);
    let findings = findings.as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["subject"] == "confinement");
    let found = found.unwrap_or_else(|| panic!("{}", describe(&doctor)));
    assert_eq!(found["ok"], true);
    assert!(found["found"].as_str().expect("text").starts_with("Landlock ABI"), "{found}");
}

/// The kernel's own list of the mounts of a running engine.
fn a_running_engine_can_change_its_directory_only() {
    let sandbox = Sandbox::new();
    let plan = format!(
        "[device]\nimage = \"{}\"\nsize = \"64M\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\n\
         kind = \"fileserver\"\ntree_size = \"1M\"\nreaders = 1\nwriters = 1\nramp = 0\nwindow = \"20s\"\n",
        sandbox.path("disk.img").display()
    );
    let plan = sandbox.write("plan.toml", &plan).display().to_string();
    let mut sweep = sandbox
        .fsdyno(&["sweep", &plan])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start a sweep");
    let writable = loop {
        assert_eq!(sweep.try_wait().expect("a look"), None, "the sweep has ended");
        // An engine that measures only itself comes first, and it takes a moment until the mounts are set up.
        let mounts = writable_mounts_of_an_engine().unwrap_or_default();
        if mounts.len() <= 2 && mounts.iter().any(|mount| mount.starts_with("/run/fsdyno-")) {
            break mounts;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    kill_process(Pid::from_child(&sweep), Signal::INT).expect("a signal");
    assert_eq!(sweep.wait().expect("its end").code(), Some(130));
    let others = writable.iter().filter(|mount| !mount.starts_with("/run/fsdyno-"));
    assert!(others.into_iter().all(|mount| mount == "/proc/sys/vm/drop_caches"), "{writable:?}");
}

/// The mounts to which the engine of this binary may write (proc(5), `mountinfo`).
fn writable_mounts_of_an_engine() -> Option<Vec<String>> {
    let is_engine = |directory: &Path| {
        let words = fs::read(directory.join("cmdline")).unwrap_or_default();
        let ours = fs::read_link(directory.join("exe"))
            .is_ok_and(|exe| exe == Path::new(env!("CARGO_BIN_EXE_fsdyno")));
        ours && words.ends_with(b"\0engine\0")
    };
    let processes = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
    let engine = processes.into_iter().find(|directory| is_engine(directory))?;
    let mounts = fs::read_to_string(engine.join("mountinfo")).ok()?;
    let writable = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields[5].split(',').all(|option| option != "ro").then(|| fields[4].to_string())
    };
    Some(mounts.lines().filter_map(writable).collect())
}

fn a_kernel_without_landlock_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = directory.path().join("disk");
    fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a sparse file");
    let request = request("6.1", vec![disk]);
    let mut guests = qemu().with_kernel_words("lsm=yama");
    let mut guest = guests
        .start(&request, &opened(&request.disks), &AtomicBool::new(false))
        .unwrap_or_else(|not| panic!("{}\n{}", not.error, not.last_words));
    let confinement = guest.confinement().expect("an answer");
    assert_eq!((confinement.landlock_abi, confinement.refused.len()), (0, 0));
    assert!(
        confinement.to_string().starts_with("none: this kernel does not support Landlock"),
        "{confinement}"
    );
    let made = guest.run(&Command::new("mkfs.ext4").args(["-q", "/dev/vda"])).expect("mkfs runs");
    assert_eq!(made.status, 0, "tools still run: {made:?}");
}
