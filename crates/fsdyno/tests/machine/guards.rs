//! Every guard on real devices: refused with the reason, exit code 3, and not one byte written.
//!
//! Each test creates a device that must not be touched, names it and confirms it. The guards are asked first,
//! so that a broken guard is found before a sweep starts. Then the binary runs a plan that names the device,
//! and the hash of the device is compared with the one from before.

use crate::support::{Requirement, Sandbox, Test, describe};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::Host;
use fsdyno_host::local::LocalHost;
use fsdyno_testbed::guard::{Overwrite, identity_text};
use fsdyno_testbed::{Confirmation, Refusal, Testbed, TestbedError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

pub(crate) const LOOP: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("losetup")];
pub(crate) const BTRFS: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("mkfs.btrfs"),
    Requirement::Filesystem("btrfs"),
];
const SWAP: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("swapon")];
const XFS: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("mkfs.xfs")];
pub(crate) const LVM: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("pvcreate")];
const LUKS: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("cryptsetup")];
pub(crate) const PARTX: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("partx")];
pub(crate) const NAMESPACE: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("unshare")];

pub fn tests() -> Vec<Test> {
    let test = |name, requires, body| Test { name, requires, body };
    vec![
        test("guards::a_device_that_is_not_confirmed", LOOP, unconfirmed),
        test("guards::a_mounted_device", LOOP, mounted),
        test("guards::a_device_mounted_in_another_namespace", NAMESPACE, mounted_elsewhere),
        test("guards::a_device_in_use_as_swap", SWAP, swap),
        test("guards::a_device_held_open_by_another_process", LOOP, held_open),
        test("guards::a_second_loop_device_over_a_mounted_file", LOOP, alias),
        test("guards::a_member_of_a_mounted_btrfs", BTRFS, btrfs_member),
        test("guards::a_signature_of_ext4", LOOP, || {
            signature("ext4", 64, |d| tool("mkfs.ext4", &["-q", "-F"], d))
        }),
        test("guards::a_signature_of_xfs", XFS, || signature("xfs", 300, |d| tool("mkfs.xfs", &["-q"], d))),
        test("guards::a_signature_of_btrfs", BTRFS, || {
            signature("btrfs", 128, |d| tool("mkfs.btrfs", &["-q"], d))
        }),
        test("guards::a_signature_of_swap", LOOP, || signature("swap", 64, |d| tool("mkswap", &[], d))),
        test("guards::a_signature_of_lvm", LVM, || {
            signature("LVM2_member", 64, |d| tool("pvcreate", &["-q", "-y"], d))
        }),
        test("guards::a_signature_of_luks", LUKS, || signature("crypto_LUKS", 64, luks)),
        test("guards::a_signature_of_md", LOOP, || signature("linux_raid_member", 64, md_superblock)),
        test("guards::a_partition_table", LOOP, || signature("dos", 64, partition_table)),
        test("guards::a_disk_with_partitions", PARTX, disk_with_partitions),
        test("guards::a_device_that_is_too_small", LOOP, too_small),
        test("guards::another_device_than_the_plan_pins", LOOP, swapped_before),
        test("guards::another_device_than_the_guards_saw", LOOP, swapped_after),
        test("guards::the_disk_of_the_root_filesystem", LOOP, root_disk),
        test("guards::a_symlink_to_the_disk_of_the_root_filesystem", LOOP, root_disk_by_symlink),
        test("guards::a_device_that_carries_the_store", LOOP, carries_the_store),
        test("guards::an_image_path_that_exists", LOOP, image_exists),
        test("guards::a_path_that_is_not_a_device", LOOP, no_device),
    ]
}

// The plan, and what is expected of it.

pub(crate) fn block(path: &Path) -> DeviceSpec {
    DeviceSpec::Block { path: path.to_path_buf(), identity: None }
}

pub(crate) fn host(sandbox: &Sandbox) -> LocalHost {
    LocalHost::new(
        env!("CARGO_BIN_EXE_fsdyno").into(),
        vec![("the store".to_string(), sandbox.path("state"))],
    )
}

pub(crate) fn confirming(path: &Path) -> Confirmation {
    Confirmation { destroy: vec![path.to_path_buf()], ..Confirmation::default() }
}

pub(crate) fn overwrite(path: &Path, kind: &str) -> Overwrite {
    Overwrite { device: path.to_path_buf(), kind: kind.to_string() }
}

/// Asks the guards, without writing anything.
pub(crate) fn ask(sandbox: &Sandbox, data: &DeviceSpec, confirmation: &Confirmation) -> Vec<Refusal> {
    let devices = Devices { data: data.clone(), journals: BTreeMap::new() };
    let configuration =
        Configuration { name: "ext4".into(), filesystem: "ext4".into(), settings: BTreeMap::new() };
    match Testbed::verify(
        &mut host(sandbox),
        &devices,
        &[configuration],
        Bytes(16 * Bytes::MIB),
        confirmation,
    ) {
        Err(TestbedError::Refused { refusals }) => refusals,
        Err(error) => panic!("{error:?}"),
        Ok(_) => Vec::new(),
    }
}

/// The guards, and then the binary, refuse a device for a reason that contains this text, and write nothing.
pub(crate) fn refused(sandbox: &Sandbox, data: &DeviceSpec, word: &str, bytes: &[&Path]) {
    refused_with(sandbox, data, &confirming(data.path()), word, bytes);
}

fn refused_with(
    sandbox: &Sandbox,
    data: &DeviceSpec,
    confirmation: &Confirmation,
    word: &str,
    bytes: &[&Path],
) {
    let before: Vec<String> = bytes.iter().map(|path| hash(path)).collect();
    let refusals = ask(sandbox, data, confirmation);
    assert!(
        refusals.iter().any(|refusal| refusal.reason.contains(word)),
        "expected '{word}' in {refusals:#?}"
    );
    assert!(refusals.iter().all(|refusal| !refusal.hint.is_empty()), "{refusals:#?}");

    let device = match data {
        DeviceSpec::Block { path, identity } => {
            let pin =
                identity.as_ref().map(|identity| format!("identity = \"{identity}\"\n")).unwrap_or_default();
            format!("block = \"{}\"\n{pin}", path.display())
        }
        DeviceSpec::Image { path, size, .. } => {
            format!("image = \"{}\"\nsize = \"{size}\"\n", path.display())
        }
        other => panic!("{other}"),
    };
    let plan = sandbox.write(
        "plan.toml",
        &format!(
            "name = \"guards\"\nrepetitions = 1\n[device]\n{device}[axes]\nfilesystem = [\"ext4\"]\n[[workloads]]\n\
             kind = \"fileserver\"\ntree_size = \"16M\"\nwriter_space = \"1M\"\nramp = \"0s\"\nwindow = \"1s\"\n"
        ),
    );
    let plan = plan.display().to_string();
    // A dry run treats every device as confirmed.
    let foreseen = sandbox.run(&["plan", &plan]);
    let told = String::from_utf8_lossy(&foreseen.stdout).contains(word);
    assert_eq!(told, !confirmation.destroy.is_empty(), "expected '{word}' in {}", describe(&foreseen));
    let mut arguments = vec!["sweep".to_string(), plan];
    for path in &confirmation.destroy {
        arguments.extend(["--destroy".to_string(), path.display().to_string()]);
    }
    let output = sandbox.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(word),
        "expected '{word}' in {}",
        describe(&output)
    );
    let after: Vec<String> = bytes.iter().map(|path| hash(path)).collect();
    assert_eq!(before, after, "the device was written to");
}

pub(crate) fn hash(path: &Path) -> String {
    rustix::fs::sync();
    let mut file = File::open(path).expect("open what must not change");
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).expect("read it") {
            0 => break,
            length => hasher.update(&buffer[..length]),
        }
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

// Devices that last as long as their test. If one cannot be removed, the harness detects it.

/// A loop device over its own image.
pub(crate) struct Loop {
    pub(crate) image: PathBuf,
    pub(crate) node: PathBuf,
}

impl Loop {
    pub(crate) fn new(sandbox: &Sandbox, name: &str, mib: u64) -> Self {
        let image = sandbox.path(name);
        File::create(&image).and_then(|file| file.set_len(mib * Bytes::MIB)).expect("an image");
        Loop::over(&image)
    }

    pub(crate) fn over(image: &Path) -> Self {
        let node = succeed(Command::new("losetup").args(["-f", "--show"]).arg(image));
        Loop { image: image.to_path_buf(), node: node.trim().into() }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.node).status();
    }
}

/// A filesystem mounted on a directory of the sandbox.
pub(crate) struct Mount(PathBuf);

impl Mount {
    pub(crate) fn new(sandbox: &Sandbox, node: &Path) -> Self {
        let directory = sandbox.path("mounted");
        fs::create_dir(&directory).expect("a directory");
        succeed(Command::new("mount").args(["-o", "noatime"]).arg(node).arg(&directory));
        Mount(directory)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A device in use as swap, with the lowest priority.
struct Swap(PathBuf);

impl Swap {
    fn new(node: &Path) -> Self {
        succeed(Command::new("swapon").args(["-p", "0"]).arg(node));
        Swap(node.to_path_buf())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
    }
}

/// A process that lives as long as its test.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a shell and waits for its first line.
    pub(crate) fn shell(wrapper: &[&str], script: &str) -> Self {
        let words = [wrapper, &["sh", "-c", script]].concat();
        let mut command = Command::new(words[0]);
        let mut child =
            command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("its stdout");
        BufReader::new(stdout).read_line(&mut line).expect("its first line");
        assert_eq!(line.trim(), "ready", "'{script}' failed");
        Process(child)
    }
}

impl Drop for Process {
    /// The shell waits for its stdin to end.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", describe(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn tool(program: &str, arguments: &[&str], device: &Path) {
    succeed(Command::new(program).args(arguments).arg(device).stdin(Stdio::null()));
}

pub(crate) fn ext4(device: &Path) {
    tool("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], device);
}

fn write_at(device: &Path, offset: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(device).expect("open the device");
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes)).expect("write to the device");
    file.sync_all().expect("sync the device");
}

// The guards, one by one.

fn unconfirmed() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let none = Confirmation::default();
    refused_with(&sandbox, &block(&device.node), &none, "not confirmed", &[&device.image]);
    assert!(
        ask(&sandbox, &block(&device.node), &confirming(&device.node)).is_empty(),
        "confirmed, it may be used"
    );
}

fn mounted() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let _mount = Mount::new(&sandbox, &device.node);
    refused(&sandbox, &block(&device.node), "is mounted on", &[&device.image]);
}

fn mounted_elsewhere() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let directory = sandbox.path("hidden");
    fs::create_dir(&directory).expect("a directory");
    let script = format!(
        "mount -o noatime {} {} && echo ready && read nothing; umount {1}",
        device.node.display(),
        directory.display()
    );
    let process = Process::shell(&["unshare", "-m", "--propagation", "private"], &script);
    refused(&sandbox, &block(&device.node), "mount namespace", &[&device.image]);
    drop(process);
}

fn swap() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    tool("mkswap", &["-q"], &device.node);
    let _swap = Swap::new(&device.node);
    // No hash, because the kernel itself may write there.
    refused(&sandbox, &block(&device.node), "is in use as swap", &[]);
}

fn held_open() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let script = format!("exec 9<{}; echo ready; read nothing", device.node.display());
    let process = Process::shell(&[], &script);
    refused(&sandbox, &block(&device.node), "held open by process", &[&device.image]);
    drop(process);
}

fn alias() {
    let sandbox = Sandbox::new();
    let first = Loop::new(&sandbox, "image", 64);
    ext4(&first.node);
    let _mount = Mount::new(&sandbox, &first.node);
    let second = Loop::over(&first.image);
    refused(&sandbox, &block(&second.node), "holds the same bytes as", &[&first.image]);
}

fn btrfs_member() {
    let sandbox = Sandbox::new();
    let first = Loop::new(&sandbox, "first", 128);
    let second = Loop::new(&sandbox, "second", 128);
    let nodes = [&first.node, &second.node];
    succeed(Command::new("mkfs.btrfs").args(["-q", "-f", "-d", "single", "-m", "raid1"]).args(nodes));
    let _mount = Mount::new(&sandbox, &first.node);
    refused(&sandbox, &block(&second.node), "member of the mounted btrfs", &[&second.image]);
}

/// A signature is refused unless its kind is confirmed, and then the device may be used.
fn signature(kind: &'static str, mib: u64, make: fn(&Path)) {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", mib);
    make(&device.node);
    refused(&sandbox, &block(&device.node), &format!("signature of {kind}"), &[&device.image]);
    let confirmed =
        Confirmation { overwrite: vec![overwrite(&device.node, kind)], ..confirming(&device.node) };
    assert_eq!(ask(&sandbox, &block(&device.node), &confirmed), [], "confirmed by its kind");
}

fn luks(device: &Path) {
    let script =
        "echo secret | cryptsetup luksFormat --batch-mode --type luks1 --pbkdf-force-iterations 1000 $0 -";
    succeed(Command::new("sh").args(["-c", script]).arg(device));
}

/// Version 1.2 (md(4)): magic, version, identifier, name, level 1, size, two members, data at sector 2048,
/// superblock at sector 8.
fn md_superblock(device: &Path) {
    let mut superblock = [0_u8; 256];
    for (offset, value) in [
        (0, 0xa92b_4efc_u32),
        (4, 1),
        (72, 1),
        (80, 1000),
        (92, 2),
        (128, 2048),
        (136, 100_000),
        (144, 8),
        (220, 2),
    ] {
        superblock[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    superblock[16..32].copy_from_slice(b"0123456789abcdef");
    superblock[32..36].copy_from_slice(b"host");
    write_at(device, 4096, &superblock);
}

/// A DOS partition table with one Linux partition of 32 MiB at 1 MiB.
fn partition_table(device: &Path) {
    let mut table = [0_u8; 66];
    table[4] = 0x83;
    table[8..12].copy_from_slice(&2048_u32.to_le_bytes());
    table[12..16].copy_from_slice(&65536_u32.to_le_bytes());
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    write_at(device, 446, &table);
}

/// The partitions of a device as the kernel knows them; a loop device keeps them when it is detached.
pub(crate) struct Partitions(PathBuf);

impl Partitions {
    pub(crate) fn new(device: &Path) -> Self {
        partition_table(device);
        tool("partx", &["-a"], device);
        Partitions(device.to_path_buf())
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        let _ = Command::new("partx").arg("-d").arg(&self.0).status();
    }
}

fn disk_with_partitions() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let _partitions = Partitions::new(&device.node);
    let confirmation =
        Confirmation { overwrite: vec![overwrite(&device.node, "dos")], ..confirming(&device.node) };
    let refusals = ask(&sandbox, &block(&device.node), &confirmation);
    assert!(refusals.iter().any(|refusal| refusal.reason.contains("has the partition")), "{refusals:#?}");
    refused(&sandbox, &block(&device.node), "has the partition", &[&device.image]);
}

fn too_small() {
    let sandbox = Sandbox::new();
    // Large enough for ext4, but not for the trees.
    let device = Loop::new(&sandbox, "image", 12);
    refused(&sandbox, &block(&device.node), "the plan's trees need", &[&device.image]);
}

fn swapped_before() {
    let sandbox = Sandbox::new();
    let planned = Loop::new(&sandbox, "planned", 64);
    let probe = host(&sandbox).probe_device(&planned.node).expect("probe");
    let pinned =
        DeviceSpec::Block { path: planned.node.clone(), identity: Some(identity_text(&probe.identity)) };
    assert_eq!(
        ask(&sandbox, &pinned, &confirming(&planned.node)),
        [],
        "the one that was planned may be used"
    );
    let node = planned.node.clone();
    drop(planned);
    let other = sandbox.path("other");
    File::create(&other).and_then(|file| file.set_len(64 * Bytes::MIB)).expect("an image");
    succeed(Command::new("losetup").arg(&node).arg(&other));
    let swapped = Loop { image: other, node };
    refused(&sandbox, &pinned, "not the device that the plan pins", &[&swapped.image]);
}

fn swapped_after() {
    let sandbox = Sandbox::new();
    let first = Loop::new(&sandbox, "first", 64);
    let spec = block(&first.node);
    let devices = Devices { data: spec.clone(), journals: BTreeMap::new() };
    let configuration =
        Configuration { name: "ext4".into(), filesystem: "ext4".into(), settings: BTreeMap::new() };
    let mut host = host(&sandbox);
    let configurations = std::slice::from_ref(&configuration);
    let testbed = Testbed::verify(&mut host, &devices, configurations, Bytes(0), &confirming(&first.node))
        .expect("verified");
    let node = first.node.clone();
    drop(first);
    let other = sandbox.path("other");
    File::create(&other).and_then(|file| file.set_len(64 * Bytes::MIB)).expect("an image");
    succeed(Command::new("losetup").arg(&node).arg(&other));
    let swapped = Loop { image: other, node };
    let before = hash(&swapped.image);
    let mut journal =
        fsdyno_testbed::UndoJournal::create(&mut host, &sandbox.path("undo")).expect("a journal");
    let error =
        fsdyno_testbed::build(&mut host, &mut journal, &testbed, &configuration, 1, &AtomicBool::default())
            .expect_err("swapped");
    assert!(error.failure().message.contains("no longer the device"), "{error:?}");
    assert_eq!(hash(&swapped.image), before);
    assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
}

/// The node of the disk under `/`, if there is one.
fn disk_under_root() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let line = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/")).expect("a root");
    let fields: Vec<&str> = line.split(' ').collect();
    let source = fields.iter().skip_while(|field| **field != "-").nth(2).expect("a source");
    let link = fs::read_link(format!("/sys/dev/block/{}", fields[2])).unwrap_or_default();
    let name = link.file_name().map(|name| Path::new("/dev").join(name));
    name.unwrap_or_else(|| PathBuf::from(source))
}

/// Only asked, never run: if this guard failed, the sweep would destroy the machine.
fn asked_to_destroy_root(sandbox: &Sandbox, path: &Path) {
    let refusals = ask(sandbox, &block(path), &confirming(path));
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.starts_with("carries /,")), "{reasons:#?}");
    assert!(reasons.iter().any(|reason| reason.contains("mounted on '/'")), "{reasons:#?}");
}

fn root_disk() {
    asked_to_destroy_root(&Sandbox::new(), &disk_under_root());
}

fn root_disk_by_symlink() {
    let sandbox = Sandbox::new();
    let link = sandbox.path("harmless");
    std::os::unix::fs::symlink(disk_under_root(), &link).expect("a link");
    asked_to_destroy_root(&sandbox, &link);
}

fn carries_the_store() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let mount = Mount::new(&sandbox, &device.node);
    std::os::unix::fs::symlink(&mount.0, sandbox.path("state")).expect("a link");
    let refusals = ask(&sandbox, &block(&device.node), &confirming(&device.node));
    assert!(refusals.iter().any(|refusal| refusal.reason == "carries the store"), "{refusals:#?}");
}

fn image_exists() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("precious", "a file of the user");
    let image = DeviceSpec::Image { path: path.clone(), size: Bytes(64 * Bytes::MIB), direct_io: false };
    refused(&sandbox, &image, "already exists", &[&path]);
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(sandbox.path("nowhere"), &link).expect("a link");
    let image = DeviceSpec::Image { path: link, size: Bytes(64 * Bytes::MIB), direct_io: false };
    refused(&sandbox, &image, "already exists", &[]);
    assert!(!sandbox.path("nowhere").exists(), "nothing was created through the link");
}

fn no_device() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("file", "a file of the user");
    refused(&sandbox, &block(&file), "not a block device", &[&file]);
    refused(&sandbox, &block(Path::new("/dev/null")), "not a block device", &[]);
    refused(&sandbox, &block(&sandbox.path("nothing")), "could not be examined", &[]);
}
