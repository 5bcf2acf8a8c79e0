//! The interface between fsdyno and a machine: everything that the testbed does to a host, and nothing else.
//!
//! A [`Host`] is where commands and the engine run: this machine, or a guest. The testbed decides what to do
//! and in what order, keeps the undo journal and applies the guards; a host only carries out single steps and
//! reports what it sees. Every step can be undone idempotently, is small enough to fail as a whole, and
//! blocks no longer than its caller allows: a filesystem under test may hang any syscall that touches it, so
//! the implementation for real machines carries out steps in a separate process that can be abandoned
//! ([`HostError::Hung`]).

pub mod agent;
mod engine;
pub mod export;
pub mod guardian;
pub mod guest;
pub mod lines;
pub mod local;
pub mod log;
pub mod mountinfo;
pub mod noise;
mod plight;
pub mod probe;
pub mod recorder;
pub mod remote;
pub mod setting;
mod steps;
pub mod wire;

pub use engine::{EngineOutput, EngineProcess};
pub use plight::Plight;
pub use steps::{Channel, Limit, Limits, Request, Steps};

use fsdyno_core::environment::ClientFacts;
use fsdyno_core::result::LogEntry;
use fsdyno_core::{EngineRequest, Nanos};
use guardian::{Guardian, NoGuardian};
use probe::{DeviceIdentity, FileIdentity};
use recorder::Recorder;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Result of a step on a host.
pub type Result<T> = std::result::Result<T, HostError>;

/// Why a step on a host failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum HostError {
    /// The kernel refused a syscall or a file operation.
    #[error("cannot {action} '{object}': {reason}")]
    System {
        /// The attempted action, as an infinitive: `open`, `attach a loop device to`.
        action: String,
        /// The object of the action.
        object: String,
        /// The kernel's error number, or 0 if the error did not come from the kernel.
        errno: i32,
        /// The error as text.
        reason: String,
    },
    /// A mount failed; the kernel's own log of the mount says why.
    #[error("cannot mount '{source_path}' as {filesystem}: {reason}")]
    Mount {
        /// Device node.
        source_path: String,
        /// Filesystem type.
        filesystem: String,
        /// The option that was rejected, if it was one.
        option: Option<String>,
        /// The kernel's error number.
        errno: i32,
        /// The error, with the messages of the mount's own log.
        reason: String,
    },
    /// A program is missing.
    #[error("program '{program}' is not installed")]
    NoProgram {
        /// Its name.
        program: String,
    },
    /// The device on the open descriptor is not the one that was verified before.
    #[error("'{path}' is no longer the device that was verified: {difference}")]
    IdentityChanged {
        /// Device node.
        path: String,
        /// The properties that differ, before and now.
        difference: String,
    },
    /// Something else has replaced a file or a loop device of fsdyno's; it was left alone.
    #[error("'{path}' no longer belongs to fsdyno: {difference}")]
    Replaced {
        /// File or node.
        path: String,
        /// The difference from the original.
        difference: String,
    },
    /// The step did not return within its time limit; the process that carries it out was abandoned.
    #[error("{action} did not return within {seconds} s")]
    Hung {
        /// The attempted action.
        action: String,
        /// The time it was given.
        seconds: u64,
    },
    /// One of several machines that do a load together is lost.
    #[error("client '{client}' was lost: {reason}")]
    ClientLost {
        /// Name of the machine.
        client: String,
        /// Why.
        reason: String,
    },
    /// The connection to the process or machine that carries out the steps is lost.
    #[error("lost the connection to host '{host}': {reason}")]
    Lost {
        /// Name of the host.
        host: String,
        /// Why.
        reason: String,
    },
}

impl HostError {
    /// A system call or file operation that was refused. `action` is an infinitive: `open`.
    pub fn system(action: &str, object: &Path, error: impl Into<std::io::Error>) -> Self {
        let error = error.into();
        HostError::System {
            action: action.to_string(),
            object: object.display().to_string(),
            errno: error.raw_os_error().unwrap_or(0),
            reason: reason(error),
        }
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            HostError::System { errno, .. } | HostError::Mount { errno, .. } if *errno != 0 => Some(*errno),
            _ => None,
        }
    }
}

/// The kernel's text for an error, without the error number, which is reported separately.
fn reason(error: std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_string()
}

/// An open, locked and verified device on a host. Stays open until [`Steps::close_device`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceHandle(pub u64);

/// An image that a host has made and holds open, from [`Steps::create_image`] to [`Steps::close_image`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageHandle(pub u64);

/// An image that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewImage {
    /// The handle by which further steps name the image.
    pub handle: ImageHandle,
    /// Which file it is.
    pub identity: FileIdentity,
}

/// A loop device that was just attached, as reported by the descriptor that attached it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedLoop {
    /// Its node.
    pub node: PathBuf,
    /// Which device, and which attachment of it.
    pub identity: DeviceIdentity,
    /// `true` if somebody has set it read-only, which outlives an attachment (blockdev(8), `--setro`).
    pub read_only: bool,
}

/// One word of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// The text, or the part before the device: `device=` in `-J device=/dev/loop1`.
    pub text: String,
    /// An open device whose `/proc/self/fd/N` is appended to the text, and its node for display.
    pub device: Option<(DeviceHandle, PathBuf)>,
}

/// Something that a program may change in addition to the devices that its arguments name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// An existing file or device node.
    File(PathBuf),
    /// The ioctls of an existing device node, but not writing to it.
    Control(PathBuf),
    /// Everything below a directory; device nodes can be neither made nor controlled there.
    Tree(PathBuf),
    /// The device nodes, links and directories below a directory: they can be made, removed and controlled by
    /// ioctls, but not written to.
    Nodes(PathBuf),
}

/// A program to run. It starts in `/` with no stdin, with `PATH`, the C locale and the devices that its
/// arguments name, and inherits no other variables.
///
/// The kernel lets it change only these devices and what is granted, as far as it can enforce that
/// ([`Steps::confinement`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Its name, searched in `PATH` and in the sbin directories.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// The time that the program may take.
    pub limit: Duration,
    /// Further environment variables.
    pub environment: Vec<(String, String)>,
    /// The paths that the program may change in addition to the devices that its arguments name.
    pub grants: Vec<Grant>,
    /// `true` if the program may not even change those devices.
    pub reads_only: bool,
}

impl Command {
    /// A command with an hour to finish, which may change nothing but the devices that its arguments name.
    pub fn new(program: impl Into<String>) -> Self {
        Command {
            program: program.into(),
            arguments: Vec::new(),
            limit: Duration::from_secs(3600),
            environment: Vec::new(),
            grants: Vec::new(),
            reads_only: false,
        }
    }

    /// Lets it change more.
    #[must_use]
    pub fn may_change(mut self, grants: impl IntoIterator<Item = Grant>) -> Self {
        self.grants.extend(grants);
        self
    }

    /// Lets it only read the devices that its arguments name.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Command { reads_only: true, ..self }
    }

    /// Appends words.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(words.into_iter().map(|word| Argument { text: word.into(), device: None }));
        self
    }

    /// Appends one word that ends in the path of an open device.
    #[must_use]
    pub fn device(mut self, prefix: impl Into<String>, handle: DeviceHandle, node: &Path) -> Self {
        self.arguments.push(Argument { text: prefix.into(), device: Some((handle, node.to_path_buf())) });
        self
    }

    /// The command line as a user would type it, with device nodes in place of descriptors.
    pub fn line(&self) -> String {
        let mut line = self.program.clone();
        for argument in &self.arguments {
            line.push(' ');
            match &argument.device {
                Some((_, node)) => line.push_str(&quoted(&format!("{}{}", argument.text, node.display()))),
                None => line.push_str(&quoted(&argument.text)),
            }
        }
        line
    }
}

/// A word quoted for a shell. If it contains a `$(command)`, as recipes for people may, the command is run;
/// nothing else has a meaning to the shell.
///
/// Existing quoting crates put `'` around every `--option=value`, which nobody would type.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_=/.,:+@%^".contains(c);
    match word {
        _ if !word.is_empty() && word.chars().all(plain) => Cow::Borrowed(word),
        _ if word.contains("$(") => Cow::Owned(format!("\"{word}\"")),
        _ => Cow::Owned(format!("'{}'", word.replace('\'', "'\\''"))),
    }
}

/// The outcome of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its exit status, or 128 + the signal that ended it.
    pub status: i32,
    /// Its standard output, invalid UTF-8 replaced; of a long one, 64 KiB: the beginning and the end.
    pub stdout: String,
    /// Its standard error, likewise.
    pub stderr: String,
    /// From start to end.
    pub duration: Nanos,
}

impl Output {
    /// The status of a program that did not succeed, in words.
    pub fn failure(&self) -> Option<String> {
        (self.status != 0).then(|| format!("status {}", self.status))
    }
}

/// The options with which a loop device is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopOptions {
    /// `true` if the device bypasses the page cache of the filesystem that holds its file.
    pub direct_io: bool,
    /// Its logical block size in bytes.
    pub block_size: u32,
}

/// A mount to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRequest {
    /// Filesystem type as the kernel knows it.
    pub filesystem: String,
    /// Device node.
    pub source: PathBuf,
    /// The open device that the node must lead to.
    pub device: Option<DeviceHandle>,
    /// Options, `key` or `key=value`, in the words of mount(8); atime options included.
    pub options: Vec<String>,
    /// An existing directory.
    pub target: PathBuf,
}

impl MountRequest {
    /// The equivalent mount(8) command line.
    pub fn line(&self) -> String {
        let options = match self.options.join(",") {
            none if none.is_empty() => none,
            options => format!(" -o {}", quoted(&options)),
        };
        let [source, target] = [&self.source, &self.target].map(|path| path.to_string_lossy());
        format!("mount -t {}{options} {} {}", self.filesystem, quoted(&source), quoted(&target))
    }
}

/// A machine on which configurations are built and engines run.
///
/// Methods take `&mut self`: a host does one thing at a time, so that its timings are meaningful.
pub trait Host: Steps {
    /// `this machine`, or the name of a guest.
    fn name(&self) -> String;

    /// A descriptor of this process for an image, for reading and writing; it is verified to be this file.
    /// Only a process on the same machine can pass on descriptors.
    fn image_descriptor(&mut self, _image: ImageHandle, _expected: &FileIdentity) -> Result<OwnedFd> {
        Err(HostError::System {
            action: "pass on".to_string(),
            object: "the descriptor of an image".to_string(),
            errno: 0,
            reason: "only an agent on the same machine can do this".to_string(),
        })
    }

    /// Returns whether the host has ended on its own, without asking it anything.
    fn has_ended(&mut self) -> bool {
        false
    }

    /// Limits every step to this time instead of its usual limit; `None` restores the usual limits. A host
    /// that cannot abandon a step waits for its end in any case.
    fn limit_steps(&mut self, _limit: Option<Duration>) {}

    /// Returns the log entries since the last call: changes and programs, in order. A host that keeps no log
    /// returns none.
    fn take_log(&mut self) -> Vec<LogEntry> {
        Vec::new()
    }

    /// From now on, every process that carries out steps or is an engine keeps this descriptor open until it
    /// is gone, and with it the lock on its file. A host without processes of its own does nothing here.
    fn hold(&mut self, _lock: Arc<OwnedFd>) {}

    /// Who starts commands of a user on this host, independently of the steps above.
    fn guardian(&self) -> Box<dyn Guardian> {
        Box::new(NoGuardian(self.name()))
    }

    /// The same host for another thread, which takes steps at the same time. `None` if it takes one step at a
    /// time.
    fn another(&self) -> Option<Box<dyn Host + Send>> {
        None
    }

    /// The fsdyno binary there, for steps that need a process of their own.
    fn own_binary(&self) -> std::io::Result<PathBuf> {
        std::env::current_exe()
    }

    /// Starts the process that records a disk.
    fn start_recorder(&mut self) -> Result<Box<dyn Recorder>> {
        Err(recorder::not_here(&self.name()))
    }

    /// The machines that engines run on, if they are others: clients of a filesystem that they share.
    fn clients(&self) -> Vec<ClientFacts> {
        Vec::new()
    }

    /// Why one of these is lost, with its name, if one is.
    fn lost_client(&self) -> Option<String> {
        None
    }

    /// Starts an engine, which begins its work at once; if there are clients, one on each, which work as one.
    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_given_to_a_shell() {
        for (word, line) in [
            ("--uuid=1:2,x@y", "--uuid=1:2,x@y"),
            ("", "''"),
            ("/srv/my data.img", "'/srv/my data.img'"),
            ("a;b", "'a;b'"),
            ("it's", r"'it'\''s'"),
            ("0 $(blockdev --getsz /dev/sdb) delay", "\"0 $(blockdev --getsz /dev/sdb) delay\""),
        ] {
            assert_eq!(quoted(word), line);
        }
        let request = MountRequest {
            filesystem: "ext4".to_string(),
            source: "/dev/loop1".into(),
            device: None,
            options: vec!["noatime".to_string(), "data=(x)".to_string()],
            target: "/mnt/a b".into(),
        };
        assert_eq!(request.line(), "mount -t ext4 -o 'noatime,data=(x)' /dev/loop1 '/mnt/a b'");
    }
}
