//! Arrays, volumes and slow disks in guests, because this machine's own kernel may support none of them.

use crate::guests::{GUEST, fsdyno, trials};
use crate::support::{Requirement, Sandbox, describe};
use fsdyno_core::device::{Bitmap, Delay, Delayed, Lvm, Md, RaidLevel};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, GuestShape, KernelSpec, Nanos};
use fsdyno_host::guest::{Guest, GuestProgram, GuestRequest};
use fsdyno_host::probe::{SCRATCH_MARK, Signature, UNKNOWN_DATA};
use fsdyno_host::{Command, Grant, Host};
use fsdyno_testbed::{Confirmation, Stack, Testbed, UndoJournal, build, guest};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const NEEDED: &[Requirement] = &[
    Requirement::All(GUEST),
    Requirement::Program("mdadm"),
    Requirement::Program("lvm"),
    Requirement::Program("dmsetup"),
];

tests! {
    a_mirror_with_a_slow_half_is_swept: NEEDED;
    no_write_of_a_guest_fails: NEEDED;
    a_striped_volume_is_swept: NEEDED;
    a_delay_is_in_the_latencies: NEEDED;
    nothing_is_left_of_a_stack: &[Requirement::All(NEEDED), Requirement::Soak];
}

/// Sweeps a single trial on this device; returns the trial and what is shown of it in full.
fn swept(device: &str, workload: &str, axes: &str) -> (Value, String) {
    let sandbox = Sandbox::new();
    let image = sandbox.path("disk.img").display().to_string();
    let plan = format!(
        "{}\n[axes]\nfilesystem = \"ext4\"\nkernel = \"debian:6.1\"\n{axes}\n[[workloads]]\n{workload}\n",
        device.replace("IMAGE", &image)
    );
    let plan = sandbox.write("plan.toml", &plan).display().to_string();
    let output = fsdyno(&sandbox, &["sweep", &plan]).output().expect("run fsdyno");
    assert!(output.status.success(), "{}", describe(&output));
    let left: Vec<_> = fs::read_dir(sandbox.path("")).expect("the sandbox").flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().contains(".img")), "{left:?}");
    let mut trials = trials(&sandbox);
    assert_eq!(trials.len(), 1);
    assert_eq!(trials[0]["outcome"], "measured", "{}", trials[0]);
    let shown = fsdyno(&sandbox, &["show", "--full"]).output().expect("run fsdyno");
    (trials.remove(0), String::from_utf8_lossy(&shown.stdout).into_owned())
}

const FILESERVER: &str = "kind = \"fileserver\"\ntree_size = \"4M\"\nreaders = 1\nwriters = 1\nramp = 0\n\
                          window = \"300ms\"";
const STREAMING: &str = "kind = \"streaming\"\nfile_size = \"1M\"\nbs = \"64k\"\ndirect = true\n\
                         stages = [\"write\", \"read\"]";

/// The layers of a trial as read back, outermost first.
fn in_force(trial: &Value) -> Vec<&str> {
    let layers = trial["environment"]["layers"].as_array().expect("layers");
    layers.iter().map(|layer| layer["in_force"].as_str().expect("words")).collect()
}

/// The kernel's names of all devices of a trial, and the schedulers of their queues.
fn schedulers(trial: &Value) -> Vec<(&str, &str)> {
    let devices = trial["environment"]["devices"].as_array().expect("devices");
    devices
        .iter()
        .map(|device| {
            let path = device["path"].as_str().expect("a path");
            (path, device["queue"]["scheduler"].as_str().unwrap_or("none"))
        })
        .collect()
}

fn a_mirror_with_a_slow_half_is_swept() {
    let device = "[device.md]\nlevel = \"raid1\"\nbitmap = \"internal\"\n\
                  disks = [{ image = \"IMAGE\", size = \"192M\" }, { image = \"IMAGE.slow\", size = \
                  \"192M\", write_delay = \"2ms\" }]";
    let (trial, shown) = swept(device, FILESERVER, "scheduler = \"mq-deadline\"\nreadahead = \"1M\"");
    assert_eq!(
        in_force(&trial),
        [
            "md raid1 of 2 disks, metadata 1.2, internal bitmap; resync not needed (assume-clean)",
            "delayed by read 0ms, write 2ms, flush 0ms"
        ]
    );
    let confined = &trial["environment"]["confinement"]["landlock_abi"];
    assert!(confined.as_u64() >= Some(1), "a kernel of Debian's has Landlock: {}", trial["environment"]);
    assert!(shown.contains("md raid1 of 2 disks") && shown.contains("(assume-clean)"), "{shown}");
    assert_eq!(trial["configuration"]["scheduler_in_force"], "mq-deadline");
    let active: Vec<&str> = schedulers(&trial)
        .into_iter()
        .filter(|(_, scheduler)| scheduler.contains("[mq-deadline]"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(active, ["/dev/vda", "/dev/vdb"], "the disks have the scheduler");
    let top = &trial["environment"]["devices"][0];
    assert_eq!(top["queue"]["read_ahead_kb"], "1024", "{top}");
    let watched = trial["phases"][0]["telemetry"]["devices"].as_array().expect("devices");
    let names: Vec<&str> = watched.iter().filter_map(Value::as_str).collect();
    assert!(names[0].starts_with("md") && names.contains(&"vda") && names.contains(&"vdb"), "{names:?}");
}

/// Writes zeros from the second kilobyte on, in as many large requests at once as the kernel submits. A
/// mirror whose write failed writes the data again sector by sector, and records that.
fn no_write_of_a_guest_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = files(directory.path(), 2, Bytes(96 << 20));
    let configuration =
        Configuration { name: String::new(), filesystem: "ext4".to_string(), settings: Default::default() };
    let disks = ["/dev/vda", "/dev/vdb"].map(|node| block(Path::new(node)));
    let data = md(RaidLevel::Raid1, Bitmap::Internal, &disks);
    let devices = Devices { data, journals: Default::default() };
    let mut guest = started(&configuration, std::slice::from_ref(&devices), files);
    let (_stack, _journal) = built(&mut *guest, &devices, &configuration);
    let host: &mut dyn Host = &mut *guest;
    let blocks = host.list_directory(Path::new("/sys/block")).expect("devices");
    let array = blocks.iter().find(|name| name.starts_with("md")).expect("the array");
    let range = ["--zeroout", "--offset", "1024", "--length", "64MiB"];
    for _ in 0..4 {
        let node = format!("/dev/{array}");
        let zero =
            Command::new("blkdiscard").args(range).args([&*node]).may_change([Grant::File(node.into())]);
        let zeroed = host.run(&zero);
        let zeroed = zeroed.expect("blkdiscard");
        assert_eq!(zeroed.status, 0, "{}", zeroed.stderr);
    }
    for disk in ["vda", "vdb"] {
        let state = host.read_text(Path::new(&format!("/sys/block/{array}/md/dev-{disk}/state")));
        assert_eq!(state.expect("a state").trim(), "in_sync", "{disk}");
    }
}

fn a_striped_volume_is_swept() {
    let device = "[device.lvm]\nstripes = 3\nstripe_size = \"128k\"\n\
                  disks = { image = \"IMAGE\", size = \"96M\", count = 3 }";
    let (trial, _) = swept(device, FILESERVER, "");
    assert_eq!(in_force(&trial), ["lvm volume in 3 stripes of 128k on 3 disks"]);
    let sizes: Vec<u64> = trial["environment"]["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .filter_map(|device| device["size_bytes"].as_u64())
        .collect();
    assert_eq!(sizes[1..], [96 << 20; 3]);
    assert!(sizes[0] > 250 << 20, "{sizes:?}");
}

fn a_delay_is_in_the_latencies() {
    let device = "[device]\nimage = \"IMAGE\"\nsize = \"128M\"\nread_delay = \"40ms\"";
    let (trial, _) = swept(device, STREAMING, "");
    let median = |phase: &str, operation: &str| {
        let phases = trial["phases"].as_array().expect("phases");
        let phase = phases.iter().find(|found| found["name"] == phase).expect(phase);
        let operations = phase["roles"][0]["operations"].as_array().expect("operations");
        let found = operations.iter().find(|found| found["operation"] == operation).expect(operation);
        found["lat_ns"]["median"].as_f64().expect("a median") / 1e6
    };
    let (read, write) = (median("read", "read"), median("write", "write"));
    assert!(read >= 40.0, "the kernel delayed each read by 40 ms, but half of them took at most {read} ms");
    assert!(write < 40.0, "writes were not delayed: {write} ms");
}

fn block(node: &Path) -> DeviceSpec {
    DeviceSpec::block(node)
}

fn slow(disk: DeviceSpec) -> DeviceSpec {
    let delay = Delay { read: Nanos::from_millis(1), ..Delay::default() };
    DeviceSpec::Delayed(Delayed { delay, disk: Box::new(disk) })
}

fn md(level: RaidLevel, bitmap: Bitmap, disks: &[DeviceSpec]) -> DeviceSpec {
    let chunk = level.has_chunks().then_some(Bytes(65536));
    DeviceSpec::Md(Md { level, chunk, bitmap, disks: disks.to_vec() })
}

/// Sparse files of this size.
fn files(directory: &Path, count: u32, size: Bytes) -> Vec<PathBuf> {
    let made = |index| {
        let path = directory.join(format!("disk{index}"));
        fs::File::create(&path).and_then(|file| file.set_len(size.0)).expect("a sparse file");
        path
    };
    (0..count).map(made).collect()
}

/// Builds a stack of all disks of a guest.
fn built(guest: &mut dyn Guest, devices: &Devices, configuration: &Configuration) -> (Stack, UndoJournal) {
    let confirmation = Confirmation { destroy: guest.disks(), ..Confirmation::default() };
    let host: &mut dyn Host = guest;
    let testbed =
        Testbed::verify(host, devices, std::slice::from_ref(configuration), Bytes(0), &confirmation)
            .unwrap_or_else(|error| panic!("{}: {error}", devices.data));
    let mut journal = UndoJournal::in_memory();
    let stack = build(host, &mut journal, &testbed, configuration, 42, &AtomicBool::default())
        .unwrap_or_else(|error| {
            let failure = error.failure();
            panic!("{}: {}\n{}", devices.data, failure.message, failure.details)
        });
    (stack, journal)
}

/// Every kind of stack on these disks.
fn stacks(disks: &[PathBuf]) -> Vec<DeviceSpec> {
    let all: Vec<DeviceSpec> = disks.iter().map(|node| block(node)).collect();
    let mut with_slow = all.clone();
    with_slow[1] = slow(all[1].clone());
    vec![
        md(RaidLevel::Raid1, Bitmap::None, &all[..2]),
        // It is not declared that the disks contain zeros, so the parity is computed, and the build waits for
        // that.
        md(RaidLevel::Raid5, Bitmap::Internal, &all),
        md(RaidLevel::Raid10, Bitmap::None, &all),
        md(RaidLevel::Raid0, Bitmap::None, &with_slow),
        DeviceSpec::Lvm(Lvm { stripes: 1, stripe_size: None, disks: with_slow }),
        slow(all[0].clone()),
    ]
}

/// Builds each stack in one guest and takes it down, as a sweep does on the machine itself: no array and no
/// mapping is left, nor anything on the disks from which one could be assembled again.
fn nothing_is_left_of_a_stack() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = files(directory.path(), 3, Bytes(48 << 20));
    let configuration =
        Configuration { name: String::new(), filesystem: "ext4".to_string(), settings: Default::default() };
    let nodes = ["/dev/vda", "/dev/vdb", "/dev/vdc"].map(PathBuf::from);
    let all: Vec<Devices> =
        stacks(&nodes).into_iter().map(|data| Devices { data, journals: Default::default() }).collect();
    let mut guest = started(&configuration, &all, files);
    assert_eq!(guest.disks(), nodes);
    for devices in all {
        let (_, mut journal) = built(&mut *guest, &devices, &configuration);
        let host: &mut dyn Host = &mut *guest;
        assert_ne!(standing(host), [""; 0], "{}", devices.data);
        let report = journal.undo_all(host);
        assert_eq!(report.left, [""; 0], "{}", devices.data);
        assert_eq!(standing(host), [""; 0], "{}", devices.data);
        for node in &nodes {
            let probe = host.probe_device(node).expect("a probe");
            assert_eq!(probe.uses, [], "{}", devices.data);
            // Labels of arrays and groups are gone, and the contents are known to be ours.
            let foreign =
                |signature: &&Signature| ![SCRATCH_MARK, UNKNOWN_DATA].contains(&signature.kind.as_str());
            assert_eq!(probe.signatures.iter().find(foreign), None, "{}", devices.data);
        }
        assert_eq!(journal.undo_all(host), Default::default(), "after one undo there is nothing left");
    }
}

fn started(configuration: &Configuration, all: &[Devices], disks: Vec<PathBuf>) -> Box<dyn Guest> {
    let tools = all.iter().flat_map(|devices| guest::programs(configuration, devices));
    let mut programs: Vec<GuestProgram> = tools
        .map(|tool| GuestProgram { name: tool.program.to_string(), package: tool.package.to_string() })
        .collect();
    programs.push(GuestProgram { name: "blkdiscard".to_string(), package: "util-linux".to_string() });
    programs.sort();
    programs.dedup();
    let request = GuestRequest {
        kernel: KernelSpec::Debian { version: "6.1".to_string() },
        shape: GuestShape::default(),
        modules: all.iter().flat_map(|devices| guest::modules(configuration, devices)).collect(),
        programs,
        disks,
    };
    crate::guests::started(&request)
}

/// The arrays and mappings that exist. A stopped array may still have a number, but nothing else.
fn standing(host: &mut dyn Host) -> Vec<String> {
    let arrays = host.read_text(Path::new("/proc/mdstat")).expect("the arrays");
    let arrays = arrays.lines().filter(|line| line.starts_with("md")).map(str::to_string);
    let blocks = host.list_directory(Path::new("/sys/block")).expect("devices");
    arrays.chain(blocks.into_iter().filter(|name| name.starts_with("dm-"))).collect()
}
