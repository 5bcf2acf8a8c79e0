//! Telemetry on the real machine: our columns compared with those of iostat, and what a sweep stores and
//! shows.

use crate::support::{Requirement, Sandbox, describe, unmount, wait_until};
use fsdyno_core::Nanos;
use fsdyno_core::telemetry::{Column, CpuSplit};
use fsdyno_telemetry::Sampler;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const IOSTAT: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("mkfs.ext4"),
    Requirement::Filesystem("ext4"),
    Requirement::Program("iostat"),
    Requirement::Program("unshare"),
];

const SWEEP: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("mkfs.ext4"),
    Requirement::Filesystem("ext4"),
];

tests! {
    our_columns_are_those_of_iostat: IOSTAT;
    a_sweep_shows_what_the_machine_did: SWEEP => sweep;
}

/// The files that iostat reads.
const FOR_IOSTAT: [&str; 3] = ["device", "stat", "uptime"];

/// The texts that the kernel reported at one moment.
#[derive(Debug)]
struct Moment {
    diskstats: String,
    device: String,
    stat: String,
    uptime: String,
}

impl Moment {
    fn now(device: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).expect(path);
        let diskstats = read("/proc/diskstats");
        // The same counters in sysfs, where iostat reads them; copied from the same line, because they change
        // all the time.
        let line = diskstats.lines().find(|line| line.split_whitespace().nth(2) == Some(device));
        let counters = line.expect("a line of the device").split_whitespace().skip(3);
        Moment {
            device: counters.collect::<Vec<_>>().join(" ") + "\n",
            stat: read("/proc/stat"),
            uptime: read("/proc/uptime"),
            diskstats,
        }
    }

    fn uptime_ns(&self) -> u64 {
        let seconds: f64 =
            self.uptime.split_whitespace().next().expect("a number").parse().expect("a number");
        // It has two digits, of which a double may fall short.
        (seconds * 1e9).round() as u64
    }

    fn write_for_iostat(&self, directory: &Path) {
        for (name, text) in FOR_IOSTAT.into_iter().zip([&self.device, &self.stat, &self.uptime]) {
            fs::write(directory.join(name), text).expect("a file");
        }
    }

    /// The files that the sampler reads, below a separate root.
    fn write_for_sampler(&self, root: &Path) {
        let proc = root.join("proc");
        fs::create_dir_all(&proc).expect("a directory");
        fs::write(proc.join("diskstats"), &self.diskstats).expect("a file");
        fs::write(proc.join("stat"), &self.stat).expect("a file");
    }
}

/// The real iostat and the sampler get the same two moments of a loop device under load, and must agree in
/// both digits that iostat prints.
fn our_columns_are_those_of_iostat() {
    let sandbox = Sandbox::new();
    let mut scratch = Scratch::new(&sandbox);
    let before = Moment::now(&scratch.device);
    load(&scratch.mountpoint);
    let after = Moment::now(&scratch.device);
    scratch.umount();

    let (columns, cpu) = ours(&sandbox.path("root"), &scratch.device, &before, &after);
    assert!(columns.iter().filter(|(_, value)| *value > 0.0).count() >= 12, "too little load: {columns:?}");
    let (device, processors) = iostat(&sandbox, &scratch.device, &before, &after);
    let differences: Vec<String> = columns
        .iter()
        .chain(&cpu)
        .filter_map(|(name, ours)| {
            let theirs = device.get(json_name(name)).or(processors.get(name));
            let theirs = theirs.and_then(Value::as_f64).unwrap_or_else(|| panic!("no {name} in {device}"));
            // Half of the last digit, and the precision of a double.
            let differs = (ours - theirs).abs() > 0.005 + theirs * 1e-9;
            differs.then(|| format!("{name}: ours {ours}, theirs {theirs}"))
        })
        .collect();
    assert!(differences.is_empty(), "iostat disagrees: {differences:#?}\n{before:?}\n{after:?}");
}

/// `%util` and similar columns have no percent sign in iostat's JSON.
fn json_name(column: &str) -> &str {
    column.trim_start_matches('%')
}

/// Figures by their names.
type Columns = Vec<(&'static str, f64)>;

/// Returns the figures of the sampler from two moments: the columns of the device, and the shares of the
/// processors.
fn ours(root: &Path, device: &str, before: &Moment, after: &Moment) -> (Columns, Columns) {
    let mut sampler = Sampler::below(root, Nanos::from_secs(1), vec![device.to_string()]);
    before.write_for_sampler(root);
    sampler.begin();
    after.write_for_sampler(root);
    let telemetry = sampler.end();
    assert_eq!(telemetry.unparsed_lines, 0);
    let activity = telemetry.filesystem_device(1).expect("the device exists");
    // The time between the moments, not between the times of reading their texts.
    let length = Nanos(after.uptime_ns() - before.uptime_ns());
    let columns = Column::ALL.iter().map(|column| (column.name(), activity.value(*column, length)));
    let cpu = telemetry.window.cpu.expect("a first line of /proc/stat");
    let share = |of: fn(&CpuSplit) -> u64| 100.0 * cpu.share(of(&cpu));
    let shares = vec![
        ("user", share(|cpu| cpu.user_ns)),
        ("nice", share(|cpu| cpu.nice_ns)),
        // iostat counts interrupts as system time.
        ("system", share(|cpu| cpu.system_ns + cpu.irq_ns + cpu.softirq_ns)),
        ("iowait", share(|cpu| cpu.iowait_ns)),
        ("steal", share(|cpu| cpu.steal_ns)),
        ("idle", share(|cpu| cpu.idle_ns)),
    ];
    (columns.collect(), shares)
}

/// Returns the figures of iostat from them. It reads the kernel's files twice, a second apart: in a private
/// mount namespace, our files are mounted over them, and change in between, while it is stopped.
fn iostat(sandbox: &Sandbox, device: &str, before: &Moment, after: &Moment) -> (Value, Value) {
    let directory = sandbox.path("iostat");
    fs::create_dir_all(&directory).expect("a directory");
    before.write_for_iostat(&directory);
    let script = "set -e; mount --bind device /sys/block/$1/stat; mount --bind stat /proc/stat; \
                  mount --bind uptime /proc/uptime; echo ready >&2; read -r _; \
                  exec iostat -x -y -o JSON 1 1";
    let mut child = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script, "sh", device])
        .current_dir(&directory)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare runs");
    let mut ready = [0; 6];
    let said = std::io::Read::read_exact(child.stderr.as_mut().expect("a pipe"), &mut ready);
    if said.is_ok() {
        let mut reads = Reads::of(FOR_IOSTAT.map(|name| directory.join(name)));
        child.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("it listens");
        wait_until("iostat has read its files", || reads.all_are_read());
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).expect("it runs");
        after.write_for_iostat(&directory);
        kill_process(pid, Signal::CONT).expect("it runs");
    }
    let output = child.wait_with_output().expect("iostat ends");
    assert!(said.is_ok() && output.status.success(), "{}", describe(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("iostat's JSON");
    let statistics = &document["sysstat"]["hosts"][0]["statistics"][0];
    let disks = statistics["disk"].as_array().expect("disks");
    let disk = disks.iter().find(|disk| disk["disk_device"] == device).expect("the device");
    (disk.clone(), statistics["avg-cpu"].clone())
}

/// Files that somebody else reads (inotify(7)).
struct Reads {
    watch: OwnedFd,
    /// The watches of those that have not been read.
    left: BTreeSet<i32>,
}

impl Reads {
    fn of(files: [PathBuf; 3]) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
        let added = files.map(|file| inotify::add_watch(&watch, file, WatchFlags::CLOSE_NOWRITE));
        Reads { watch, left: added.map(|watch| watch.expect("a watch")).into() }
    }

    fn all_are_read(&mut self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        while let Ok(event) = events.next() {
            self.left.remove(&event.wd());
        }
        self.left.is_empty()
    }
}

/// Writes with flushes, then reads data that is no longer in memory.
fn load(directory: &Path) {
    let data = vec![7; 256 << 10];
    for number in 0..24 {
        let mut file = fs::File::create(directory.join(number.to_string())).expect("a file");
        file.write_all(&data).and_then(|()| file.sync_all()).expect("written");
    }
    succeed(Command::new("sh").args(["-c", "echo 3 > /proc/sys/vm/drop_caches"]));
    for number in 0..24 {
        assert_eq!(fs::read(directory.join(number.to_string())).expect("read").len(), data.len());
    }
}

/// A mounted filesystem on an image; the loop device disappears with the mount.
struct Scratch {
    mountpoint: PathBuf,
    device: String,
    mounted: bool,
}

impl Scratch {
    fn new(sandbox: &Sandbox) -> Self {
        let (image, mountpoint) = (sandbox.path("image"), sandbox.path("mnt"));
        fs::File::create(&image).and_then(|file| file.set_len(128 << 20)).expect("an image");
        fs::create_dir(&mountpoint).expect("a mountpoint");
        succeed(Command::new("mkfs.ext4").arg("-q").arg(&image));
        succeed(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mountpoint));
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let line =
            mounts.lines().find(|line| line.contains(&*mountpoint.to_string_lossy())).expect("a mount");
        let device = line.split_whitespace().next().and_then(|node| node.strip_prefix("/dev/"));
        Scratch { device: device.expect("a device").to_string(), mountpoint, mounted: true }
    }

    fn umount(&mut self) {
        if std::mem::take(&mut self.mounted) {
            unmount(&self.mountpoint);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.umount();
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn sweep() {
    let sandbox = Sandbox::new();
    let plan = format!(
        "telemetry = \"200ms\"\nmemory = \"32M\"\n[device]\nimage = \"{}\"\nsize = \"512M\"\n[axes]\nfilesystem = [\"ext4\"]\n\
         [[workloads]]\nkind = \"fileserver\"\ntree_size = \"128M\"\nreaders = 1\nwriters = 1\n\
         ramp = \"0s\"\nwindow = \"1s\"\nwriter_space = \"64M\"\n",
        sandbox.path("sweep.img").display()
    );
    let plan = sandbox.write("plan.toml", &plan);
    let swept = sandbox.run(&["sweep", &plan.to_string_lossy()]);
    assert!(swept.status.success(), "{}", describe(&swept));

    let output = sandbox.run(&["show", "--format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trial = &document["trials"][0];
    let timer = &trial["timer"];
    for cost in ["overhead_ns_per_op", "overhead_with_telemetry_ns_per_op"] {
        assert!(timer[cost].as_f64().expect(cost) > 0.0, "{timer}");
    }
    let phases = trial["phases"].as_array().expect("phases");
    for phase in phases {
        let telemetry = &phase["telemetry"];
        let device = telemetry["devices"][0].as_str().expect("a device");
        assert!(device.starts_with("loop"), "{telemetry}");
        let samples = telemetry["samples"].as_array().expect("samples");
        assert!((2..=7).contains(&samples.len()), "{} samples", samples.len());
        let length = |sample: &Value| sample["length_ns"].as_u64().expect("a length");
        let window = length(&telemetry["window"]);
        assert_eq!(samples.iter().map(length).sum::<u64>(), window);
        assert!((900_000_000..3_000_000_000).contains(&window), "{window}");
        assert!(telemetry["window"]["task_ns"]["own"].as_u64().expect("our own time") > 0, "{telemetry}");
        assert_eq!(telemetry["window"]["journals"][0]["kind"], "jbd2", "{telemetry}");
        assert_eq!(telemetry["unparsed_lines"], 0, "{telemetry}");
    }
    // The first reader found the caches empty.
    let read = &phases[0]["telemetry"]["window"]["devices"][0]["read_bytes"];
    assert!(read.as_u64().expect("bytes") > 1 << 20, "{read}");

    for (arguments, line) in [
        (&["show", "--telemetry"][..], "device "),
        (&["show", "--telemetry=samples"], "1 reader, trial 1: "),
        (&["show", "--full"], "kernel threads: "),
        (&["show", "--summary", "--measure", "cpu-per-mb"], "(processor time for each MB)"),
        (&["show", "--telemetry", "--format", "csv"], "sweep,sweep_name,trial,"),
    ] {
        let output = sandbox.run(arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        // The words of a heading may be on two lines.
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            output.status.success() && joined.contains(line.trim()),
            "{arguments:?}: {}",
            describe(&output)
        );
        // The published table and CSV have a fixed width.
        let narrow = arguments[1..].iter().all(|word| word.starts_with("--telemetry")) && arguments.len() > 1;
        let wide = text.lines().find(|line| narrow && line.chars().count() > 100);
        assert_eq!(wide, None, "{arguments:?}");
    }
}
