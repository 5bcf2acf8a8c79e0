//! A loop device that represents a user's disk.

use fsdyno_core::Bytes;
use fsdyno_sys::loopdev;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A sector in sysfs and in the arguments of addpart(8), whatever the disk's own sector size.
const SECTOR: u64 = 512;

/// What a removed loop device loses.
const KEPT: [&str; 4] = ["scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb"];

/// A disk that lasts as long as its test.
pub struct Disk {
    node: String,
    partitions: u32,
    has_lost_discards: bool,
}

impl Disk {
    /// Creates its image and attaches it.
    pub fn new(image: &Path, size: Bytes) -> Self {
        Disk::with_sectors(image, size, 512)
    }

    /// The same with logical blocks of this size.
    pub fn with_sectors(image: &Path, size: Bytes, sector: u32) -> Self {
        File::create_new(image).and_then(|file| file.set_len(size.0)).expect("an image");
        let sector = sector.to_string();
        let attach = ["--find", "--show", "--sector-size", &sector];
        let node = run(Command::new("losetup").args(attach).arg(image));
        Disk { node: node.trim().to_string(), partitions: 0, has_lost_discards: false }
    }

    /// Its node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Adds a partition, known to the kernel but not written to the disk, and returns its node.
    pub fn add_partition(&mut self, start: Bytes, size: Bytes) -> PathBuf {
        self.partitions += 1;
        self.tell(self.partitions, start, size);
        PathBuf::from(format!("{}p{}", self.node, self.partitions))
    }

    /// Removes the first partition and adds another one in its place.
    pub fn move_first_partition(&mut self, start: Bytes, size: Bytes) {
        run(Command::new("delpart").args([&self.node, "1"]));
        self.tell(1, start, size);
    }

    fn tell(&self, number: u32, start: Bytes, size: Bytes) {
        let words = [u64::from(number), start.0 / SECTOR, size.0 / SECTOR].map(|word| word.to_string());
        run(Command::new("addpart").arg(&self.node).args(words));
    }

    /// Disables discards.
    pub fn without_discard(mut self) -> Self {
        self.has_lost_discards = true;
        fs::write(self.queue("discard_max_bytes"), "0").expect("set its discards");
        self
    }

    /// Removes the free device and adds it again, with its other settings: without discards the kernel
    /// accepts no other limit any more, and keeps that for the next file.
    fn renew(&self) {
        let Ok(number) = self.node.trim_start_matches("/dev/loop").parse() else { return };
        let before = KEPT.map(|setting| fs::read_to_string(self.queue(setting)).expect("a setting"));
        let control = File::options().read(true).write(true).open("/dev/loop-control").expect("a control");
        // Another test that lists all devices may look at it.
        let is_removed = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            loopdev::remove(control.as_fd(), number).is_ok()
        });
        if is_removed && loopdev::add(control.as_fd(), number).is_ok() {
            for (setting, before) in KEPT.iter().zip(before) {
                let chosen = before.split(['[', ']']).nth(1).unwrap_or(before.trim());
                let _ = fs::write(self.queue(setting), chosen);
            }
        }
    }

    fn queue(&self, file: &str) -> PathBuf {
        let name = Path::new(&self.node).file_name().expect("a name");
        Path::new("/sys/block").join(name).join("queue").join(file)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // If the test has failed, its own message matters more.
        for number in 1..=self.partitions {
            let _ = Command::new("delpart").args([&self.node, &number.to_string()]).status();
        }
        let _ = Command::new("losetup").args(["--detach", &self.node]).status();
        if self.has_lost_discards {
            self.renew();
        }
    }
}

/// Runs a tool that must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
