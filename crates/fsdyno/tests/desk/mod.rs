//! A desk at which results are imported and looked at, as a user would.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory with a store.
pub struct Desk(tempfile::TempDir);

impl Desk {
    /// An empty one.
    pub fn new() -> Self {
        Desk(tempfile::tempdir().expect("a directory"))
    }

    /// The path of a file on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("a file");
    }

    /// Runs a command.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let state = self.path("state").display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.env_remove("COLUMNS");
        command.args(arguments).args(["--state", &state]).current_dir(self.0.path()).stdin(Stdio::null());
        command.output().expect("run fsdyno")
    }

    /// Returns the output of a command that must succeed.
    pub fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The same as JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.succeeds(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&text).expect("JSON")
    }

    /// Returns the message of a command that must refuse its input.
    pub fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }
}
