//! Why a step of the testbed failed, or a guard refused.

use crate::privilege::MissingPrivilege;
use fsdyno_core::Failure;
use fsdyno_host::HostError;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Why a step of the testbed failed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A guard refused; nothing was written.
    #[error("refused: {}", lines(refusals))]
    Refused {
        /// Every reason, for every device.
        refusals: Vec<GuardRefusal>,
    },
    /// The machine turned out not to support what was requested; the case is skipped.
    #[error("this machine cannot run the configuration: {}", unmet.join("; "))]
    Unmet {
        /// Every requirement that is not met.
        unmet: Vec<String>,
    },
    /// The plan's settings contradict each other.
    #[error("the settings contradict each other: {}", contradictions.join("; "))]
    Contradiction {
        /// One line each.
        contradictions: Vec<String>,
    },
    /// A step on the host failed.
    #[error("{step} failed")]
    Host {
        /// The step of the trial: `attach`, `mkfs`, `mount`.
        step: &'static str,
        /// The error from the host.
        #[source]
        source: HostError,
    },
    /// A tool ended with an error.
    #[error("'{command}' ended with status {status}")]
    Tool {
        /// The step of the trial.
        step: &'static str,
        /// The command line.
        command: String,
        /// Its exit status, or 128 + the signal that ended it.
        status: i32,
        /// The end of what it printed.
        output: String,
    },
    /// mkfs succeeded, but the device does not carry the UUID or serial number that mkfs was to write.
    #[error(
        "mkfs succeeded, but '{node}' does not carry the identifier '{identifier}' that mkfs was told to \
         write"
    )]
    NotMade {
        /// The device node.
        node: PathBuf,
        /// The identifier that mkfs was to write.
        identifier: String,
    },
    /// The mount at the trial's directory is not the filesystem that was created.
    #[error("'{target}' shows {found} instead of the filesystem created on '{node}'")]
    WrongMount {
        /// The trial's mount directory.
        target: PathBuf,
        /// The device node that was to be mounted.
        node: PathBuf,
        /// The mount that mountinfo shows.
        found: String,
    },
    /// A layer was created, but nothing or something else holds the device that should be part of it.
    #[error(
        "'{wanted}' was created, but '{node}' is held by {}",
        if holders.is_empty() { "nothing" } else { holders }
    )]
    WrongStack {
        /// The layer that was to be made.
        wanted: String,
        /// The node of a device that it was made of.
        node: PathBuf,
        /// The holders of that device, by the kernel's names.
        holders: String,
    },
    /// An array takes too long to compute its parity.
    #[error("the array in '{array}' did not finish its resync within {seconds} s")]
    Resync {
        /// Its directory in sysfs.
        array: PathBuf,
        /// The time that it was given.
        seconds: u64,
    },
    /// The user interrupted while waiting for something.
    #[error("interrupted while {what}")]
    Interrupted {
        /// The activity that was waited for: `the array in '/sys/block/md127/md' was computing its parity`.
        what: String,
    },
    /// Whoever looks like root is not, and what its journals list was changed by root.
    #[error("what the undo journals in '{}' list cannot be undone: {lack}", directory.display())]
    Powerless {
        /// Where the journals are.
        directory: PathBuf,
        /// The missing privilege.
        lack: MissingPrivilege,
    },
    /// The undo journal cannot be kept, so nothing may be changed.
    #[error("cannot {action} the undo journal '{path}'")]
    Journal {
        /// The attempted action.
        action: &'static str,
        /// The journal.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

/// Why a guard refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuardRefusal {
    /// The device, or the sysctl, as the plan names it.
    pub device: PathBuf,
    /// The obstacle, as the end of a sentence about the device or sysctl.
    pub reason: String,
    /// The next step.
    pub hint: String,
}

pub(crate) fn refusal(device: &Path, reason: impl Into<String>, hint: impl Into<String>) -> GuardRefusal {
    GuardRefusal { device: device.to_path_buf(), reason: reason.into(), hint: hint.into() }
}

fn lines(refusals: &[GuardRefusal]) -> String {
    refusals
        .iter()
        .map(|refusal| format!("'{}' {}", refusal.device.display(), refusal.reason))
        .collect::<Vec<_>>()
        .join("; ")
}

impl TestbedError {
    /// Converts a host error to a testbed error, with the step of the trial in which it happened.
    pub(crate) fn at(step: &'static str) -> impl FnOnce(HostError) -> TestbedError {
        move |source| TestbedError::Host { step, source }
    }

    /// The step of the trial that failed.
    pub fn step(&self) -> &'static str {
        match self {
            TestbedError::Host { step, .. } | TestbedError::Tool { step, .. } => step,
            TestbedError::NotMade { .. } => "mkfs",
            TestbedError::WrongMount { .. } => "mount",
            TestbedError::WrongStack { .. }
            | TestbedError::Resync { .. }
            | TestbedError::Interrupted { .. } => "device",
            TestbedError::Journal { .. } | TestbedError::Powerless { .. } => "undo journal",
            TestbedError::Refused { .. } => "guard",
            TestbedError::Unmet { .. } | TestbedError::Contradiction { .. } => "build",
        }
    }

    /// The error as it is stored with a trial.
    pub fn failure(&self) -> Failure {
        let mut failure = Failure::new(self.step(), self.to_string());
        match self {
            TestbedError::Host { source, .. } => {
                failure.message = source.to_string();
                failure.errno = source.errno();
                failure.path = object_of(source);
                if let HostError::NoProgram { program } = source {
                    failure.hint = Some(format!("install '{program}'; `fsdyno doctor` names the package"));
                }
            }
            TestbedError::Tool { output, .. } => failure.details = output.clone(),
            TestbedError::Refused { refusals } => {
                failure.hint = refusals.first().map(|refusal| refusal.hint.clone())
            }
            TestbedError::Journal { source, .. } => {
                failure.message = format!("{self}: {source}");
                failure.errno = source.raw_os_error();
                failure.hint = Some(
                    "make sure that the state directory is writable and has free space, or name another one \
                     with --state"
                        .to_string(),
                );
            }
            TestbedError::NotMade { .. } => {
                failure.hint = Some(
                    "remove the mkfs options from the plan, or check that the mkfs in PATH is the usual one"
                        .to_string(),
                );
            }
            TestbedError::Powerless { lack, .. } => failure.hint = Some(lack.hint().to_string()),
            TestbedError::Unmet { .. }
            | TestbedError::Contradiction { .. }
            | TestbedError::WrongMount { .. }
            | TestbedError::WrongStack { .. }
            | TestbedError::Resync { .. }
            | TestbedError::Interrupted { .. } => {}
        }
        failure
    }
}

fn object_of(error: &HostError) -> Option<String> {
    match error {
        HostError::System { object, .. } => Some(object.clone()),
        HostError::Mount { source_path, .. } => Some(source_path.clone()),
        HostError::IdentityChanged { path, .. } | HostError::Replaced { path, .. } => Some(path.clone()),
        HostError::NoProgram { .. }
        | HostError::Hung { .. }
        | HostError::Lost { .. }
        | HostError::ClientLost { .. } => None,
    }
}
