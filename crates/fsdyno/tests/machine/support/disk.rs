//! A loop device that stands for a disk of the user's.

use fsdyno_core::Bytes;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// A disk that lasts as long as its test.
pub struct Disk {
    node: String,
}

impl Disk {
    /// Makes its image and attaches it.
    pub fn new(image: &Path, size: Bytes) -> Self {
        File::create_new(image).and_then(|file| file.set_len(size.0)).expect("an image");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(image).output().expect("losetup");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Disk { node: String::from_utf8_lossy(&output.stdout).trim().to_string() }
    }

    /// Its node.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A test that fails has more to say than this.
        let _ = Command::new("losetup").args(["--detach", &self.node]).status();
    }
}
