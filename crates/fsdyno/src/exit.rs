//! The end of fsdyno: an exit code that scripts can rely on, and at most one error for a person.

use crate::say;
use fsdyno_path::LinkOfOthers;
use fsdyno_store::StoreError;
use std::process::ExitCode;

/// The meaning of an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Well,
    /// Some trial failed or could not be stored, or none was measured.
    TrialFailed,
    /// A comparison found something that got worse.
    Regression,
    /// A usage or plan error: nothing was done.
    Usage,
    /// A guard refused: nothing was written.
    Refused,
    /// The machine is not fully as it was.
    NotRestored,
    /// Interrupted: everything undone, finished trials kept.
    Interrupted,
}

/// Every exit code with its meaning, for the reference and the man page.
pub const CODES: &[(Status, &str)] = &[
    (Status::Well, "success"),
    (
        Status::TrialFailed,
        "a trial failed or could not be stored, none was measured, or `compare` found something slower",
    ),
    (Status::Usage, "a mistake on the command line or in a plan, or a file that cannot be used"),
    (Status::Refused, "refused by a guard, or not confirmed; nothing was written"),
    (Status::NotRestored, "the machine is not fully restored; stderr lists what is left"),
    (Status::Interrupted, "interrupted; everything was undone, and finished trials are kept"),
];

impl Status {
    /// The exit code.
    pub const fn code(self) -> u8 {
        match self {
            Status::Well => 0,
            Status::TrialFailed | Status::Regression => 1,
            Status::Usage => 2,
            Status::Refused => 3,
            Status::NotRestored => 4,
            Status::Interrupted => 130,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        ExitCode::from(status.code())
    }
}

/// Why a command ended without its result.
#[derive(Debug)]
pub struct Trouble {
    status: Status,
    error: anyhow::Error,
    hint: Option<String>,
}

impl Trouble {
    /// An error that ends the command with this status.
    pub fn new(status: Status, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        let hint = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>()?.hint());
        if error.chain().filter_map(|cause| cause.downcast_ref()).any(LinkOfOthers::is_cause_of) {
            let hint = "name the file or directory itself, not by a link".to_string();
            return Trouble { status: Status::Refused, error, hint: Some(hint) };
        }
        let is_open = |cause: &StoreError| matches!(cause, StoreError::OpenToOthers { .. });
        let refused = error.chain().filter_map(|cause| cause.downcast_ref()).any(is_open);
        Trouble { status: if refused { Status::Refused } else { status }, error, hint }
    }

    /// Returns whether nobody reads the output any more, having seen enough (`fsdyno show | head`).
    pub fn is_about_a_lost_reader(&self) -> bool {
        is_broken_pipe(&self.error)
    }

    /// The error alone, for somebody who reports it.
    pub fn into_error(self) -> anyhow::Error {
        self.error
    }

    /// The error and the next step, for somebody on another machine.
    pub fn text(&self) -> String {
        let mut text = causes(&self.error);
        let hint = match self.status {
            Status::Usage if is_nowhere() => Some(NOWHERE),
            _ => self.hint.as_deref(),
        };
        if let Some(hint) = hint {
            text.push_str(&format!("\nhint: {hint}"));
        }
        say::shortened(&text)
    }

    /// Prints the error and the next step, unless the error is that nobody reads the output.
    pub fn tell(&self) {
        if self.is_about_a_lost_reader() {
            return;
        }
        say::note(&format!("error: {}", self.text()));
    }

    /// Adds the next step for the user.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl<E: Into<anyhow::Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Trouble::new(Status::Usage, error)
    }
}

/// The next step wherever a path is relative to a directory that is gone.
const NOWHERE: &str = "the current directory has been removed, so no relative path leads anywhere; change to \
                       another one";

fn is_nowhere() -> bool {
    std::env::current_dir().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// An error and its causes. Some libraries repeat the text of a cause in their own, or the other way round.
fn causes(error: &anyhow::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in error.chain().map(in_words) {
        let is_told =
            texts.last().is_some_and(|last| last.ends_with(&cause) || cause.ends_with(last.as_str()));
        if !is_told {
            texts.push(cause);
        }
    }
    texts.join(": ")
}

/// A cause. The system's words for the limit on the size of files name no limit.
fn in_words(cause: &(dyn std::error::Error + 'static)) -> String {
    let system = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    match system.map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::FBIG) => {
            let limit = fsdyno_sys::inherited::limit_of_file_size();
            let limit = limit.map_or(String::new(), |bytes| format!(", {} KiB", bytes >> 10));
            format!("it would be larger than files may be (ulimit -f{limit})")
        }
        _ => cause.to_string(),
    }
}

/// The exit code of a command, its error printed to stderr.
pub fn code(result: Result<Status, Trouble>) -> ExitCode {
    match result {
        Ok(status) => status.into(),
        Err(trouble) if trouble.is_about_a_lost_reader() => Status::Well.into(),
        Err(trouble) => {
            trouble.tell();
            trouble.status.into()
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = std::io::Error::other("failed to fill whole buffer");
        let error = anyhow::Error::from(error).context("an operation: failed to fill whole buffer");
        assert_eq!(
            causes(&error.context("cannot read it")),
            "cannot read it: an operation: failed to fill whole buffer"
        );
        let error =
            anyhow::anyhow!("Error code 11: malformed").context("malformed").context("cannot list sweeps");
        assert_eq!(causes(&error), "cannot list sweeps: malformed");
    }
}
