//! A loop device that stands for a disk of the user's.

use fsdyno_core::Bytes;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A disk that lasts as long as its test.
pub struct Disk {
    node: String,
}

impl Disk {
    /// Makes its image and attaches it.
    pub fn new(image: &Path, size: Bytes) -> Self {
        Disk::with_sectors(image, size, 512)
    }

    /// The same with logical blocks of this size.
    pub fn with_sectors(image: &Path, size: Bytes, sector: u32) -> Self {
        File::create_new(image).and_then(|file| file.set_len(size.0)).expect("an image");
        let sector = sector.to_string();
        let attach = ["--find", "--show", "--sector-size", &sector];
        let node = run(Command::new("losetup").args(attach).arg(image));
        Disk { node: node.trim().to_string() }
    }

    /// Its node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Takes its discards away.
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
        // A test that fails has more to say than this.
        if let Ok(most) = fs::read_to_string(self.queue("discard_max_hw_bytes")) {
            let _ = fs::write(self.queue("discard_max_bytes"), most.trim());
        }
        let _ = Command::new("losetup").args(["--detach", &self.node]).status();
    }
}

/// Runs a tool that must succeed; gives what it said.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
