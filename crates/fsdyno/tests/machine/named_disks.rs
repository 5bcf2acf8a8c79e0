//! The main job on disks that the user names: whole disks and partitions, with sectors of 512 and 4096 bytes,
//! and the filesystems in every order.

use crate::support::disk::{Disk, run};
use crate::support::{MAKING_FILESYSTEMS, Requirement, Sandbox, describe, unmount};
use fsdyno_core::device::Block;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::Steps;
use fsdyno_host::local::LocalHost;
use fsdyno_host::probe::SCRATCH_MARK;
use fsdyno_testbed::guard::identity_text;
use fsdyno_testbed::{Confirmation, Testbed, UndoJournal, build};
use fsdyno_testkit::in_memory;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

const NEEDED: &[Requirement] = &[
    Requirement::All(MAKING_FILESYSTEMS),
    Requirement::Program("losetup"),
    Requirement::Program("addpart"),
    Requirement::Program("wipefs"),
    Requirement::Program("blkid"),
];

const FILESYSTEMS: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Sizes that mkfs.xfs and mkfs.btrfs accept.
const SIZE: Bytes = Bytes(320 * Bytes::MIB);
const JOURNAL: Bytes = Bytes(96 * Bytes::MIB);
const SECTORS: [u32; 2] = [512, 4096];

tests! {
    a_disk_is_swept_and_swept_again: NEEDED;
    each_filesystem_follows_each_other_one: NEEDED;
    journals_are_on_a_second_disk: NEEDED;
    sectors_of_4096_bytes: NEEDED;
    partitions_are_swept_and_others_left_alone: NEEDED;
    a_partition_that_moved_is_refused: NEEDED;
    a_disk_is_filled_or_discarded_before_each_trial: NEEDED;
}

fn mib(count: u64) -> Bytes {
    Bytes(count * Bytes::MIB)
}

// A sweep by the binary.

/// Sweeps these filesystems on named devices, two trials each, all of which must be measured and pass the
/// check.
fn sweep(
    sandbox: &Sandbox,
    filesystems: &[&str],
    data: &Path,
    journal: Option<&Path>,
    axes: &str,
) -> Vec<Value> {
    sweep_with(sandbox, filesystems, data, journal, axes, "")
}

/// The same with more keys of the table `[device]`.
fn sweep_with(
    sandbox: &Sandbox,
    filesystems: &[&str],
    data: &Path,
    journal: Option<&Path>,
    axes: &str,
    device: &str,
) -> Vec<Value> {
    let log = journal.map(|path| format!("[device.journals]\nlog = {{ block = \"{}\" }}\n", path.display()));
    let plan = format!(
        "name = \"named\"\nrepetitions = 2\n[device]\nblock = \"{}\"\n{device}\n{}[axes]\n\
         filesystem = {filesystems:?}\n{axes}\n[[workloads]]\nkind = \"fileserver\"\ntree_size = \"1M\"\n\
         write_rate = \"closed\"\n\
         writer_space = \"4M\"\nreaders = 1\nwriters = 1\nramp = 0\nwindow = \"50ms\"\n",
        data.display(),
        log.unwrap_or_default()
    );
    let plan = sandbox.write("plan.toml", &plan).display().to_string();
    let mut arguments = vec!["sweep".to_string(), plan];
    for path in std::iter::once(data).chain(journal) {
        arguments.extend(["--destroy".to_string(), path.display().to_string()]);
    }
    let swept = sandbox.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
    let trials = sandbox.stored()["trials"].as_array().expect("trials").clone();
    assert!(trials.len() >= 2 * filesystems.len(), "{} trials", trials.len());
    for trial in &trials {
        assert_eq!(trial["outcome"], "measured", "{trial}");
        assert_eq!(trial["check"]["clean"], true, "{trial}");
    }
    for path in std::iter::once(data).chain(journal) {
        assert_eq!(signatures(path), "", "'{}' has no signature afterwards", path.display());
    }
    let restored = sandbox.run(&["restore"]);
    assert_eq!(String::from_utf8_lossy(&restored.stdout), "nothing to restore\n", "{}", describe(&restored));
    trials
}

fn signatures(device: &Path) -> String {
    run(Command::new("wipefs").args(["--no-act", "--noheadings"]).arg(device))
}

fn a_disk_is_swept_and_swept_again() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let disk = Disk::new(&memory.path().join("disk.img"), SIZE);
    let by_id = sandbox.path("ata-FAKE_S3R1AL");
    std::os::unix::fs::symlink(disk.node(), &by_id).expect("a link");
    sweep(&sandbox, &FILESYSTEMS, &by_id, None, "scheduler = \"bfq\"");
    // The same disk under another name and with another store: what the first sweep created there is no
    // obstacle.
    let other = Sandbox::new();
    sweep(&other, &["btrfs", "xfs"], Path::new(disk.node()), None, "");
}

/// The file of a disk has allocated the data that was written to the disk and not discarded.
fn a_disk_is_filled_or_discarded_before_each_trial() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let image = memory.path().join("disk.img");
    let disk = Disk::new(&image, SIZE);
    let after = |precondition: &str| {
        let device = format!("precondition = \"{precondition}\"");
        let trials =
            sweep_with(&sandbox, &["ext4", "xfs", "btrfs"], Path::new(disk.node()), None, "", &device);
        for trial in trials {
            assert!(trial["lifecycle_ns"]["precondition"].as_u64() > Some(0), "{trial}");
        }
        let allocated = fs::metadata(&image).expect("its file").blocks() * 512;
        allocated as f64 / SIZE.0 as f64
    };
    // btrfs discards by itself, while it is mounted, what it has freed.
    let filled = after("fill-once");
    assert!(filled > 0.9, "{filled}");
    let discarded = after("discard");
    assert!(discarded < 0.5, "{discarded}");
}

fn journals_are_on_a_second_disk() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let disk = Disk::new(&memory.path().join("disk.img"), SIZE);
    let log = Disk::new(&memory.path().join("log.img"), JOURNAL).without_discard();
    let filesystems = ["ext3", "ext4", "xfs"];
    let nodes = [&disk, &log].map(|disk| Path::new(disk.node()));
    let trials = sweep(&sandbox, &filesystems, nodes[0], Some(nodes[1]), "journal = \"external\"");
    for trial in &trials {
        let command = trial["configuration"]["mkfs_command"].as_str().expect("a command");
        assert!(command.contains(log.node()), "{command}");
    }
}

/// The first of three partitions belongs to somebody else, and is mounted. Sectors are larger than the blocks
/// that mkfs chooses by default for devices of this size.
fn partitions_are_swept_and_others_left_alone() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let image = memory.path().join("disk.img");
    let mut disk = Disk::with_sectors(&image, mib(504), 4096);
    let [theirs, data, log] =
        [(1, 16), (32, 352), (400, 96)].map(|(start, size)| disk.add_partition(mib(start), mib(size)));
    run(Command::new("mkfs.ext4").arg("-q").arg(&theirs));
    let directory = sandbox.path("theirs");
    fs::create_dir(&directory).expect("a directory");
    run(Command::new("mount").args(["-o", "ro"]).arg(&theirs).arg(&directory));
    let mounted = Mounted(directory);
    let around = [(0, 32), (384, 16), (496, 8)].map(|(start, size)| (mib(start), mib(size)));
    let before = bytes_of(&image, &around);

    let trials =
        sweep(&sandbox, &["ext4", "xfs"], &data, Some(&log), "journal = \"external\"\nscheduler = \"bfq\"");
    for trial in &trials {
        assert_eq!(trial["configuration"]["scheduler_in_force"], "bfq", "{trial}");
        let warnings = trial["warnings"].as_array().expect("warnings");
        let shared = warnings.iter().find(|warning| warning["kind"] == "shared-disk").expect("a warning");
        let text = shared["text"].as_str().expect("a text");
        let name = theirs.file_name().expect("a name").to_string_lossy();
        assert!(
            text.contains(&format!("'{name}', which is mounted"))
                && text.contains("the trial's scheduler also applied"),
            "{text}"
        );
        let queue = &trial["environment"]["devices"][0]["queue"];
        assert_eq!(queue["logical_block_size"], "4096", "{queue}");
        let watched = trial["phases"][0]["telemetry"]["devices"].to_string();
        let disk = Path::new(disk.node()).file_name().expect("a name").to_string_lossy();
        assert!(
            watched.contains(&format!("\"{disk}\"")),
            "the disk of {} must be in {watched}",
            data.display()
        );
    }
    // In every order: on a whole disk, below.
    run_in_turn(&sandbox, &data, None, &[FILESYSTEMS, FILESYSTEMS].concat(), |_| ());
    assert!(bytes_of(&image, &around) == before, "a byte outside both partitions has changed");
    drop(mounted);
}

/// Somebody repartitions a disk while a sweep runs: number and size stay the same.
fn a_partition_that_moved_is_refused() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let mut disk = Disk::new(&memory.path().join("disk.img"), mib(128));
    let data = disk.add_partition(mib(1), mib(48));
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());
    let pin = identity_text(&host.probe_device(&data).expect("a probe").identity);
    let mut verify = |identity: Option<String>| {
        let devices = Devices {
            data: DeviceSpec::Block(Block { identity, ..Block::new(&data) }),
            journals: BTreeMap::new(),
        };
        let confirmation = Confirmation { destroy: vec![data.clone()], ..Confirmation::default() };
        Testbed::verify(&mut host, &devices, &[configuration("ext4", None)], Bytes(0), &confirmation)
    };
    verify(Some(pin.clone())).expect("it is where the plan expects it");
    let testbed = verify(None).expect("verified");
    disk.move_first_partition(mib(64), mib(48));
    let refused = verify(Some(pin)).expect_err("it is somewhere else").to_string();
    assert!(refused.contains("start is 67108864, but the plan says 1048576"), "{refused}");
    let mut journal = UndoJournal::create(&mut host, &sandbox.path("undo")).expect("a journal");
    let error =
        build(&mut host, &mut journal, &testbed, &configuration("ext4", None), 1, &AtomicBool::default())
            .expect_err("it has moved");
    assert!(error.failure().message.contains("its place on a disk was byte 1048576"), "{error:?}");
    assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
}

/// Somebody else's filesystem, mounted as long as its test lasts.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

/// The content of these ranges of an image: start and size.
fn bytes_of(image: &Path, places: &[(Bytes, Bytes)]) -> Vec<Vec<u8>> {
    rustix::fs::sync();
    let mut file = File::open(image).expect("the image");
    let mut read = |(start, size): &(Bytes, Bytes)| {
        let mut bytes = vec![0; size.0 as usize];
        file.seek(SeekFrom::Start(start.0)).and_then(|_| file.read_exact(&mut bytes)).expect("read it");
        bytes
    };
    places.iter().map(&mut read).collect()
}

// Trials in this process, one after the other on one device.

/// Every possible pair of neighbours, each exactly once: a de Bruijn sequence, with its first item repeated
/// at the end.
fn each_after_each<'a>(items: &[&'a str]) -> Vec<&'a str> {
    let mut all = Vec::new();
    for (index, item) in items.iter().enumerate() {
        all.push(*item);
        all.extend(items[index + 1..].iter().flat_map(|later| [*item, *later]));
    }
    all.push(items[0]);
    all
}

fn configuration(filesystem: &str, journal: Option<&Path>) -> Configuration {
    let external = journal.map(|_| ("journal".to_string(), "external".to_string()));
    let settings = external.into_iter().collect();
    Configuration { name: filesystem.into(), filesystem: filesystem.into(), settings }
}

/// One trial of each, from guards to check, all with one seed, like the trials of a block.
fn run_in_turn(
    sandbox: &Sandbox,
    device: &Path,
    journal: Option<&Path>,
    filesystems: &[&str],
    before: impl Fn(usize),
) {
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());
    let block = |path: &Path| DeviceSpec::block(path);
    let journals = journal.map(|path| ("log".to_string(), block(path))).into_iter().collect();
    let devices = Devices { data: block(device), journals };
    let all: Vec<&Path> = std::iter::once(device).chain(journal).collect();
    let mut testbed = None;
    for (index, filesystem) in filesystems.iter().enumerate() {
        before(index);
        let what = format!("{filesystem} as number {index} of {filesystems:?}");
        let configuration = configuration(filesystem, journal);
        let confirmation = Confirmation {
            destroy: all.iter().map(|path| path.to_path_buf()).collect(),
            overwrite: FILESYSTEMS
                .map(|kind| format!("{}={kind}", device.display()).parse().expect("a device and a kind"))
                .to_vec(),
            ..Confirmation::default()
        };
        let testbed = testbed.get_or_insert_with(|| {
            let configurations: Vec<Configuration> =
                filesystems.iter().map(|name| self::configuration(name, journal)).collect();
            Testbed::verify(&mut host, &devices, &configurations, Bytes(0), &confirmation)
                .unwrap_or_else(|error| panic!("{what}: {error}"))
        });
        let mut undo = UndoJournal::create(&mut host, &sandbox.path("undo")).expect("a journal");
        let clean = build(&mut host, &mut undo, testbed, &configuration, 42, &AtomicBool::default())
            .and_then(|stack| stack.format(&mut host)?.mount(&mut host, &mut undo))
            .and_then(|mounted| mounted.unmount(&mut host, &mut undo)?.check(&mut host, &mut undo))
            .unwrap_or_else(|error| panic!("{what}: {error}: {}", error.failure().details));
        let check = clean.expect("a check").0;
        assert!(check.clean, "{what}: {check:?}");
        let report = undo.undo_all(&mut host);
        assert_eq!((report.left, report.foreign), (Vec::new(), Vec::new()), "{what}");
        for path in &all {
            let left = host.probe_device(path).expect("a probe").signatures;
            assert!(left.iter().all(|signature| signature.kind == SCRATCH_MARK), "{what}: {left:?}");
            assert_eq!(left.len(), 1, "'{}' is marked as scratch: {what}", path.display());
        }
        undo.close().expect("nothing is left in it");
    }
}

/// The initial content belongs to somebody else, who has agreed to lose it. Each filesystem also follows
/// itself.
fn each_filesystem_follows_each_other_one() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let disk = Disk::new(&memory.path().join("disk.img"), SIZE).without_discard();
    let node = Path::new(disk.node());
    let all = each_after_each(&FILESYSTEMS);
    assert_eq!(all.len(), FILESYSTEMS.len() * FILESYSTEMS.len() + 1);
    run_in_turn(&sandbox, node, None, &all, |index| {
        let Some(index) = index.checked_sub(1) else { return };
        let force = if all[index].starts_with("ext") { "-F" } else { "-f" };
        let mkfs = format!("mkfs.{}", all[index]);
        run(Command::new(mkfs).args(["-q", force]).arg(node));
    });
}

/// On whole disks with sectors of 4096 bytes instead of 512.
fn sectors_of_4096_bytes() {
    let (sandbox, memory) = (Sandbox::new(), in_memory());
    let disk = |name: &str, size, sector| Disk::with_sectors(&memory.path().join(name), size, sector);
    let data = SECTORS.map(|sector| disk(&format!("data-{sector}"), SIZE, sector));
    let logs = SECTORS.map(|sector| disk(&format!("log-{sector}"), JOURNAL, sector));
    let [_, data_4096] = &data;
    run_in_turn(&sandbox, Path::new(data_4096.node()), None, &FILESYSTEMS, |_| ());
    for (data, log) in [(&data[1], &logs[1]), (&data[0], &logs[1]), (&data[1], &logs[0])] {
        let [data, log] = [data, log].map(|disk| Path::new(disk.node()));
        run_in_turn(&sandbox, data, Some(log), &["ext4", "xfs"], |_| ());
    }
}
