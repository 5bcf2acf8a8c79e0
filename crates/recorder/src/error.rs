//! The errors of a recorded disk.

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// Why a recorded disk cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// A file of the recorder could not be used.
    #[error("cannot {action} '{}'", path.display())]
    File {
        /// The action that was tried, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error that the kernel returned.
        #[source]
        source: io::Error,
    },
    /// The log ends in the middle of an entry, or an entry contradicts others.
    #[error("the log is damaged at entry {entry}: {problem}")]
    Damaged {
        /// Number of the entry.
        entry: u64,
        /// The problem with the entry.
        problem: &'static str,
    },
    /// There is no such place in the log.
    #[error("the log has {entries} entries; it cannot be cut after {at}")]
    NoSuchCut {
        /// Where it was to be cut.
        at: u64,
        /// The number of entries.
        entries: u64,
    },
    /// The log, replayed, is not the disk.
    #[error("the recorded log does not give the disk: they differ at byte {at}")]
    Differs {
        /// The first difference.
        at: u64,
    },
    /// A request that the plan lets fail.
    #[error("injected fault")]
    Fault,
    /// A model of a disk that could not be read.
    #[error("the model of the disk is not valid")]
    Model(#[source] fsdyno_disk::ModelError),
    /// A request that is not possible now.
    #[error("{0}")]
    Refused(&'static str),
    /// The parent sent what is no request, or is gone.
    #[error("lost the connection to the parent: {0}")]
    Connection(String),
}

impl RecorderError {
    /// An error of a file. `action` is an infinitive.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl Fn(io::Error) -> RecorderError + use<> {
        let path = path.to_path_buf();
        move |source| RecorderError::File { action, path: path.clone(), source }
    }

    /// The number for the kernel, which asked for something through FUSE.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            RecorderError::File { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::IO),
            RecorderError::Refused(_) => Errno::INVAL,
            _ => Errno::IO,
        }
    }
}
