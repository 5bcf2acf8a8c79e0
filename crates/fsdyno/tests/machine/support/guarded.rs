//! Devices that must not be touched: how they are made, and that a guard refuses them.

use super::{Requirement, Sandbox, describe, unmount};
use fsdyno_core::device::{Block, Image};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::local::LocalHost;
use fsdyno_testbed::guard::Overwrite;
use fsdyno_testbed::{Confirmation, GuardRefusal, Testbed, TestbedError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub const LOOP: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("losetup")];
pub const BTRFS: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("mkfs.btrfs"),
    Requirement::Filesystem("btrfs"),
];
pub const LVM: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("pvcreate")];
pub const PARTX: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("partx")];
pub const NAMESPACE: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::Program("unshare")];

// The plan, and what is expected of it.

pub fn block(path: &Path) -> DeviceSpec {
    DeviceSpec::block(path)
}

pub fn host(sandbox: &Sandbox) -> LocalHost {
    LocalHost::new(
        env!("CARGO_BIN_EXE_fsdyno").into(),
        vec![("the store".to_string(), sandbox.path("state"))],
    )
}

pub fn confirming(path: &Path) -> Confirmation {
    Confirmation { destroy: vec![path.to_path_buf()], ..Confirmation::default() }
}

pub fn overwrite(path: &Path, kind: &str) -> Overwrite {
    Overwrite { device: path.to_path_buf(), kind: kind.to_string() }
}

/// Asks the guards, without writing anything.
pub fn ask(sandbox: &Sandbox, data: &DeviceSpec, confirmation: &Confirmation) -> Vec<GuardRefusal> {
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
pub fn refused(sandbox: &Sandbox, data: &DeviceSpec, word: &str, bytes: &[&Path]) {
    refused_with(sandbox, data, &confirming(data.path()), word, bytes);
}

pub fn refused_with(
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
        DeviceSpec::Block(Block { path, identity, .. }) => {
            let pin =
                identity.as_ref().map(|identity| format!("identity = \"{identity}\"\n")).unwrap_or_default();
            format!("block = \"{}\"\n{pin}", path.display())
        }
        DeviceSpec::Image(Image { path, size, .. }) => {
            format!("image = \"{}\"\nsize = \"{size}\"\n", path.display())
        }
        other => panic!("{other}"),
    };
    let plan = sandbox.write(
        "plan.toml",
        &format!(
            "name = \"guards\"\nrepetitions = 1\n[device]\n{device}[axes]\nfilesystem = [\"ext4\"]\n\
             [[workloads]]\nkind = \"fileserver\"\ntree_size = \"16M\"\nwriter_space = \"1M\"\n\
             ramp = \"0s\"\nwindow = \"1s\"\n"
        ),
    );
    let plan = plan.display().to_string();
    // A dry run treats every device as confirmed.
    let foreseen = sandbox.run(&["plan", &plan]);
    let said = String::from_utf8_lossy(&foreseen.stdout).contains(word);
    assert_eq!(said, !confirmation.destroy.is_empty(), "expected '{word}' in {}", describe(&foreseen));
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

pub fn hash(path: &Path) -> String {
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
pub struct Loop {
    pub image: PathBuf,
    pub node: PathBuf,
}

impl Loop {
    pub fn new(sandbox: &Sandbox, name: &str, mib: u64) -> Self {
        let image = sandbox.path(name);
        File::create(&image).and_then(|file| file.set_len(mib * Bytes::MIB)).expect("an image");
        Loop::over(&image)
    }

    pub fn over(image: &Path) -> Self {
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
pub struct Mount(pub PathBuf);

impl Mount {
    pub fn new(sandbox: &Sandbox, node: &Path) -> Self {
        Mount::with("noatime", sandbox, node)
    }

    /// With a mount option.
    pub fn with(option: &str, sandbox: &Sandbox, node: &Path) -> Self {
        let directory = sandbox.path("mounted");
        fs::create_dir(&directory).expect("a directory");
        succeed(Command::new("mount").args(["-o", option]).arg(node).arg(&directory));
        Mount(directory)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

/// A device in use as swap, with the lowest priority.
pub struct Swap(PathBuf);

impl Swap {
    pub fn new(node: &Path) -> Self {
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
pub struct Process(Child);

impl Process {
    /// Starts a shell and waits for its first line.
    pub fn shell(wrapper: &[&str], script: &str) -> Self {
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

pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", describe(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn tool(program: &str, arguments: &[&str], device: &Path) {
    succeed(Command::new(program).args(arguments).arg(device).stdin(Stdio::null()));
}

pub fn ext4(device: &Path) {
    tool("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], device);
}

pub fn write_at(device: &Path, offset: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(device).expect("open the device");
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes)).expect("write to the device");
    file.sync_all().expect("sync the device");
}

/// The partitions of a device as the kernel knows them; a loop device keeps them when it is detached.
pub struct Partitions(PathBuf);

impl Partitions {
    pub fn new(device: &Path) -> Self {
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

/// A DOS partition table with one Linux partition of 32 MiB at 1 MiB.
pub fn partition_table(device: &Path) {
    let mut table = [0_u8; 66];
    table[4] = 0x83;
    table[8..12].copy_from_slice(&2048_u32.to_le_bytes());
    table[12..16].copy_from_slice(&65536_u32.to_le_bytes());
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    write_at(device, 446, &table);
}
