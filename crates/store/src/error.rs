//! Errors of the store.

use crate::SweepId;
use fsdyno_core::{Bytes, Operation};
use fsdyno_sys::inherited::limit_of_file_size;
use std::path::PathBuf;

/// Why results could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory of the store could not be created.
    #[error("cannot create directory '{path}' for the results")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The path of the store leads through a link of another user.
    #[error("cannot use results '{path}'")]
    Link {
        /// The path.
        path: PathBuf,
        /// Which link.
        source: std::io::Error,
    },
    /// Root would use what others can put next to the store: SQLite obeys its journal, whoever has written
    /// it, and that may name any file to be removed.
    #[error("root cannot keep results in '{path}', because others can write to its directory")]
    OpenToOthers {
        /// The path.
        path: PathBuf,
    },
    /// The path of the store leads to a device, a directory or a pipe.
    #[error("'{path}' is not a regular file, so it cannot be a store of results")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is not a database.
    #[error("'{path}' is not a database")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database belongs to another program.
    #[error("'{path}' is a database, but not one of fsdyno's")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer fsdyno wrote it.
    #[error(
        "'{path}' was written by a newer fsdyno: its schema version is {version}, but this fsdyno supports \
         only up to {known}"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
        /// The latest version that this build knows.
        known: i64,
    },
    /// An fsdyno before 0.2.0 wrote it.
    #[error("'{path}' was written by fsdyno 0.1: its schema version is {version}")]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The file could not be opened.
    #[error("cannot open results '{path}'")]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file could not be read.
    #[error("cannot read results '{path}'")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Results of others are only read.
    #[error("results '{path}' belong to user {owner}, so they can be read but not changed")]
    NotYours {
        /// The file.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
    },
    /// The file is on read-only media, or may not be written.
    #[error("results '{path}' can be read but not changed")]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The filesystem that holds the store is nearly full.
    #[error(
        "no room for results in '{path}': {}{free} free there, and {reserve} is reserved",
        if more.0 == 0 { String::new() } else { format!("{more} needed, ") }
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The size of the data that was to be written.
        more: Bytes,
        /// The space that is free.
        free: Bytes,
        /// The space that stays free.
        reserve: Bytes,
    },
    /// A file is not a packed sweep.
    #[error("not a packed sweep: {problem}")]
    NotPacked {
        /// The problem with the file.
        problem: String,
    },
    /// A sweep is deleted, but not its other files.
    #[error("sweep {sweep} is deleted, but not its files in '{}'", path.display())]
    Files {
        /// The sweep.
        sweep: SweepId,
        /// Their directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A sweep could not be packed.
    #[error("cannot write the packed sweep")]
    Pack {
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is damaged.
    #[error("results '{path}' are damaged: {reason}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The first problem.
        reason: String,
    },
    /// An older file could not be copied, and so it was not upgraded.
    #[error("cannot copy results '{path}' to '{copy}' before upgrading them: {reason}")]
    Copy {
        /// The file.
        path: PathBuf,
        /// Its copy.
        copy: PathBuf,
        /// The reason for the failure.
        reason: String,
    },
    /// The schema could not be upgraded.
    #[error(
        "cannot upgrade results '{path}'{}: {reason}",
        copy.as_ref().map(|copy| format!(" (a copy is '{}')", copy.display())).unwrap_or_default()
    )]
    Migrate {
        /// The file.
        path: PathBuf,
        /// The copy of the original.
        copy: Option<PathBuf>,
        /// The reason for the failure.
        reason: String,
    },
    /// A statement failed.
    #[error("cannot {action}")]
    Sql {
        /// The action that was tried, as an infinitive.
        action: &'static str,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// No sweep has been run yet.
    #[error("no sweep is stored yet")]
    NoSweeps,
    /// `latest` means one that is finished and has results.
    #[error("no finished sweep with results is stored yet; sweep {selector} ('{name}') {end}")]
    NoneFinished {
        /// The selector of the last sweep.
        selector: String,
        /// Its name.
        name: String,
        /// The outcome of the sweep: `was interrupted after 3 of 12 trials`.
        end: String,
    },
    /// No sweep has this number or name.
    #[error(
        "no sweep is named '{selector}'{}",
        nearest.as_ref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
    )]
    UnknownSweep {
        /// As the user wrote it.
        selector: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// A trial is stored only once.
    #[error("trial {} of sweep {sweep} is already stored", trial + 1)]
    TrialExists {
        /// The sweep.
        sweep: SweepId,
        /// The trial.
        trial: u32,
    },
    /// Only one process at a time can run a sweep.
    #[error("sweep {sweep} is still running")]
    Running {
        /// The sweep.
        sweep: SweepId,
    },
    /// A histogram is not base64.
    #[error("histogram of '{operation}' is not valid base64")]
    Histogram {
        /// The operation that it belongs to.
        operation: Operation,
        /// The fault in the histogram.
        source: base64::DecodeError,
    },
    /// A record that could not be stored could not be kept in a file either.
    #[error("cannot keep the record of trial {} in any directory: {}", trial + 1, reasons.join("; "))]
    Keep {
        /// The trial.
        trial: u32,
        /// The error of each directory.
        reasons: Vec<String>,
    },
    /// A store whose file has been removed could not be copied either.
    #[error("cannot copy results '{path}' into any directory: {}", reasons.join("; "))]
    Rescue {
        /// Where the file was.
        path: PathBuf,
        /// The error of each directory.
        reasons: Vec<String>,
    },
    /// A part of a record cannot be written as JSON.
    #[error("cannot encode {what}")]
    Encode {
        /// Which part.
        what: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A stored field is not valid.
    #[error("stored {what} is damaged")]
    Damaged {
        /// Which field.
        what: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// The stored data of a sweep, apart from its trials, cannot be read.
    #[error("sweep {sweep} in '{path}' is damaged: {reason}")]
    DamagedSweep {
        /// The file.
        path: PathBuf,
        /// The sweep.
        sweep: SweepId,
        /// The fault in the data.
        reason: String,
    },
    /// A stored trial cannot be read.
    #[error("trial {} of sweep {sweep} in '{path}' is damaged: {reason}", trial + 1)]
    DamagedTrial {
        /// The file.
        path: PathBuf,
        /// The sweep.
        sweep: SweepId,
        /// The trial.
        trial: u32,
        /// The fault in the trial.
        reason: String,
    },
    /// A trial is too large to store.
    #[error("trial {} has {bytes} bytes of {part}; the limit is {most}", trial + 1)]
    TooLong {
        /// The trial.
        trial: u32,
        /// Which part of it.
        part: &'static str,
        /// Its size in bytes, before compression.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A trial could not be compressed.
    #[error("cannot compress trial {}", trial + 1)]
    Compress {
        /// The trial.
        trial: u32,
        /// Why.
        source: std::io::Error,
    },
    /// A stored number does not fit its type.
    #[error("stored {what} '{text}' is damaged")]
    DamagedNumber {
        /// Which field.
        what: &'static str,
        /// The stored text.
        text: String,
    },
}

impl StoreError {
    /// The next step for the user, if there is an obvious one.
    pub fn hint(&self) -> Option<String> {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            StoreError::DamagedSweep { path, sweep, .. } => Some(format!(
                "put back a copy of the file, or delete this sweep: fsdyno delete {sweep} --store '{}'",
                path.display()
            )),
            // Typed without --store it would be about another sweep.
            StoreError::DamagedTrial { path, sweep, .. } => Some(format!(
                "put back a copy of the file, or delete the damaged trials of this sweep to use the others: \
                 fsdyno delete {sweep} --damaged --store '{}'",
                path.display()
            )),
            StoreError::Corrupt { .. } | StoreError::NotADatabase { .. } => Some(DAMAGED.to_string()),
            StoreError::TooNew { .. } => Some("read it with that fsdyno, or name another file with --store FILE".to_string()),
            StoreError::TooOld { .. } => Some(
                "open it once with fsdyno 0.2.0 (fsdyno list), which converts it, or name another file with --store FILE".to_string(),
            ),
            StoreError::Sql { source, .. } | StoreError::Open { source, .. }
                if matches!(source.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) =>
            {
                Some(format!("the results are damaged, and fsdyno list --check names their file: {DAMAGED}"))
            }
            StoreError::NoRoom { .. } => Some(
                "free some space there, or name another place with --state DIR or --store FILE".to_string(),
            ),
            StoreError::OpenToOthers { .. } => Some(
                "name a store in a directory that only root can write to with --store FILE, or run this without \
                 sudo"
                    .to_string(),
            ),
            StoreError::NotYours { .. } => {
                Some("run this as that user, or name a store of your own with --store FILE".to_string())
            }
            StoreError::NotWritable { .. } => {
                Some("name a place for results that can be written with --state DIR or --store FILE".to_string())
            }
            _ if self.wants_room() || matches!(self, StoreError::Migrate { .. }) => match limit_of_file_size() {
                Some(limit) => Some(format!(
                    "no file may be larger than {} KiB here, which may be too little for the results: \
                     ulimit -f unlimited",
                    limit >> 10
                )),
                None => self.wants_room().then(|| NO_ROOM.to_string()),
            },
            _ => None,
        }
    }

    /// Returns whether SQLite could not write, as on a full filesystem, where it cannot even create the index
    /// of its log that every reader needs (`SQLITE_IOERR_SHMSIZE`).
    pub(crate) fn wants_room(&self) -> bool {
        use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
        let (StoreError::Open { source, .. } | StoreError::Sql { source, .. }) = self else { return false };
        matches!(source.sqlite_error_code(), Some(DiskFull | SystemIoFailure))
    }
}

const NO_ROOM: &str = "the filesystem with the results may be full (`df -h`): free some space there, or name another \
                       place with --state DIR or --store FILE";

const DAMAGED: &str = "put back a copy of the file; or save what can still be read, with fsdyno pack, and move the \
                       file away to begin with none";

/// Result of a step on the store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Adds what was tried when a statement fails.
pub(crate) trait Trying<T> {
    /// `action` is an infinitive: `store a trial`.
    fn trying_to(self, action: &'static str) -> Result<T>;
}

impl<T> Trying<T> for rusqlite::Result<T> {
    fn trying_to(self, action: &'static str) -> Result<T> {
        self.map_err(|source| StoreError::Sql { action, source })
    }
}
