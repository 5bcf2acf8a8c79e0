//! A loop device that represents a user's disk.

use fsdyno_core::Bytes;
use fsdyno_host::Steps;
use fsdyno_host::local::LocalHost;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A sector in sysfs and in the arguments of addpart(8), whatever the disk's own sector size.
const SECTOR: u64 = 512;

/// The time in which whoever looks at a device lets go of it.
const LET_GO: Duration = Duration::from_secs(10);

/// A disk that lasts as long as its test.
pub struct Disk {
    node: String,
    partitions: u32,
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
        Disk { node: node.trim().to_string(), partitions: 0 }
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
    pub fn without_discard(self) -> Self {
        fs::write(self.queue("discard_max_bytes"), "0").expect("set its discards");
        self
    }

    fn queue(&self, file: &str) -> PathBuf {
        let name = Path::new(&self.node).file_name().expect("a name");
        Path::new("/sys/block").join(name).join("queue").join(file)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // If the test has failed, its own message matters more. Whoever lists the machine's devices may have
        // one open for a moment, and what stays would be in the way of the next disk of this number.
        for number in 1..=self.partitions {
            let node = format!("{}p{number}", self.node);
            let begin = Instant::now();
            while Path::new(&node).exists() && begin.elapsed() < LET_GO {
                let removal = Command::new("delpart").args([&self.node, &number.to_string()]).output();
                if !removal.is_ok_and(|output| output.status.success()) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        // As fsdyno detaches its own, which also gives back discards that were switched off.
        let mut host = LocalHost::new(PathBuf::new(), Vec::new());
        let attached = host.loops().unwrap_or_default();
        if let Some(own) = attached.iter().find(|info| info.device == Path::new(&self.node)) {
            let _ = host.detach_loop(own);
        }
    }
}

/// Runs a tool that must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
