//! The directories of a recorder.

use crate::recorded::{LOG_HINT, ROOT, check_log_directory};
use crate::trial::report::host_failure;
use fsdyno_core::durability::{CompleteLog, MARK_BYTES, MARKS_FILE, Mark};
use fsdyno_core::{Bytes, Failure};
use fsdyno_host::Host;
use fsdyno_path::trusted;
use fsdyno_testbed::UndoJournal;
use std::path::{Path, PathBuf};

/// The files of a log.
const FILES: [&str; 3] = ["entries", "data", "marks"];

/// Where a log is written and where its disk is shown, and the way back.
pub(super) struct LogPlace {
    log: PathBuf,
    mountpoint: PathBuf,
    journal: UndoJournal,
}

impl LogPlace {
    /// Makes both directories, that of the log in this one.
    pub fn make(host: &mut dyn Host, parent: &Path, state_dir: &Path) -> Result<LogPlace, Box<Failure>> {
        let parent = std::path::absolute(parent);
        let parent = parent.map_err(|error| Failure::new("record", error.to_string()))?;
        check_log_directory(&parent).map_err(|untrusted| {
            let mut failure = Failure::new("record", format!("no log can be written there: {untrusted}"));
            failure.hint = Some(LOG_HINT.to_string());
            failure
        })?;
        let mut journal = UndoJournal::create(host, state_dir).map_err(|error| error.failure())?;
        let (log, mountpoint) = journal.recorder(&parent).map_err(|error| error.failure())?;
        for directory in [&log, &mountpoint] {
            host.create_directory(directory).map_err(|error| host_failure(&error))?;
        }
        Ok(LogPlace { log, mountpoint, journal })
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The log of a disk of this size, once it is complete.
    pub fn complete_log(&self, size: Bytes) -> CompleteLog {
        CompleteLog { directory: self.log.clone(), size }
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Where workers note what they do.
    pub fn marks(&self) -> PathBuf {
        self.mountpoint.join(MARKS_FILE)
    }

    /// Where everything is that workers have noted.
    pub fn marks_so_far(&self) -> PathBuf {
        self.log.join("marks")
    }

    /// Everything that workers have noted.
    pub fn read_marks(&self) -> Result<Vec<Mark>, Box<Failure>> {
        let failed = |reason: String| Failure::new("record", format!("the marks cannot be read: {reason}"));
        let bytes = std::fs::read(self.marks_so_far()).map_err(|error| failed(error.to_string()))?;
        let marks = bytes.chunks(MARK_BYTES).map(Mark::from_bytes).collect::<Result<Vec<_>, _>>();
        marks.map_err(|error| Box::new(failed(error.to_string())))
    }

    /// Takes a log that was kept, without changing it.
    pub fn take_log(&self, kept: &Path) -> Result<(), Box<Failure>> {
        for name in FILES {
            let (from, to) = (kept.join(name), self.log.join(name));
            // A log is a disk: with one that somebody else has made, root would mount what they like.
            trusted::check_file(&from, ROOT).map_err(|untrusted| {
                Failure::new("record", format!("the log cannot be trusted: {untrusted}"))
            })?;
            if !from.symlink_metadata().is_ok_and(|found| found.is_file()) {
                return Err(Failure::new("record", format!("'{}' is not a file", from.display())).into());
            }
            let taken = std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(drop));
            taken.map_err(|error| {
                Failure::new("record", format!("the log '{}' cannot be used: {error}", from.display()))
            })?;
        }
        Ok(())
    }

    /// Removes both directories, or keeps the log; returns what is left. The recorder has ended.
    pub fn leave(mut self, host: &mut dyn Host, keep: Option<&Path>) -> Vec<String> {
        let mut left = Vec::new();
        if let Some(keep) = keep
            && let Err(error) = kept(&self.log, keep)
        {
            left.push(format!("the log could not be moved to '{}': {error}", keep.display()));
        }
        left.extend(self.journal.undo_all(host).left);
        left.extend(self.journal.close().err().map(|error| error.failure().message));
        left
    }
}

/// Moves what is needed of a log, by copying: the results may be on another filesystem.
fn kept(log: &Path, keep: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(keep)?;
    for name in FILES {
        std::fs::copy(log.join(name), keep.join(name))?;
    }
    Ok(())
}
