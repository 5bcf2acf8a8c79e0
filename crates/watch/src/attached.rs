//! A watcher's side of the page of a sweep: finding it, reading it, and knowing when its process is gone.
//!
//! The page is found through `/proc/PID/fd`, which only the user of that process and root may read
//! (ptrace(2), `PTRACE_MODE_READ_FSCREDS`). A process ID may be reused; its descriptor (pidfd_open(2)) is
//! opened before anything is read, so what was read came from the process that is followed.

use crate::page::{self, NAME, PageError};
use crate::race::RaceCourse;
use crate::status::Status;
use fsdyno_core::{AfterTrial, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a process cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Gone {
    /// It does not exist, or it runs no sweep that says where it is.
    #[error("process {pid} runs no sweep")]
    NoSweep {
        /// The process.
        pid: u32,
    },
    /// It belongs to somebody else.
    #[error("process {pid}, which runs the sweep, belongs to another user")]
    NotYours {
        /// The process.
        pid: u32,
    },
    /// Its page could not be opened.
    #[error("cannot look into process {pid}, which runs the sweep")]
    Unreadable {
        /// The process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

/// After this time without news, a sweep counts as silent. A stopped process publishes nothing.
const SILENT: Duration = Duration::from_secs(5);

/// A sweep that is watched.
#[derive(Debug)]
pub struct Attached {
    page: File,
    process: OwnedFd,
    /// The number of times that the page had been written when it was read last.
    seen: Option<u64>,
    /// The course of the race, and how often that had been published when it was read.
    race: Option<(u32, RaceCourse)>,
}

impl Attached {
    /// Finds the page of a process.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn to(pid: u32) -> Result<Self, Gone> {
        let none = || Gone::NoSweep { pid };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(none)?;
        let process = pidfd_open(number, PidfdFlags::empty()).map_err(|_| none())?;
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => Gone::NotYours { pid },
            io::ErrorKind::NotFound => none(),
            _ => Gone::Unreadable { pid, source },
        };
        let directory = PathBuf::from(format!("/proc/{pid}/fd"));
        let wanted = format!("/memfd:{NAME} (deleted)");
        for entry in fs::read_dir(&directory).map_err(unreadable)?.flatten() {
            // A descriptor may be closed meanwhile.
            if fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str()) {
                let page = OpenOptions::new().read(true).write(true).open(entry.path());
                let attached = Attached { page: page.map_err(unreadable)?, process, seen: None, race: None };
                return if attached.is_alive() { Ok(attached) } else { Err(none()) };
            }
        }
        Err(none())
    }

    /// The status, whether it is new or not.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn status(&mut self) -> Result<Status, PageError> {
        self.seen = page::writes(&self.page);
        let status = page::read(&self.page)?;
        if status.raced > 0 && self.race.as_ref().is_none_or(|(raced, _)| *raced != status.raced) {
            self.race = Some((status.raced, page::read_race(&self.page)?));
        }
        Ok(status)
    }

    /// The course of the race as of the status that was read last, if a block of one is complete.
    pub fn race(&self) -> Option<&RaceCourse> {
        self.race.as_ref().map(|(_, course)| course)
    }

    /// The status if it was written since it was read last.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn news(&mut self) -> Result<Option<Status>, PageError> {
        match page::writes(&self.page) == self.seen {
            true => Ok(None),
            false => self.status().map(Some),
        }
    }

    /// Returns the time since the page was written, if that is long for a sweep that runs.
    pub fn silence(&self) -> Option<Nanos> {
        let written = self.page.metadata().and_then(|found| found.modified()).ok()?;
        written.elapsed().ok().filter(|age| *age >= SILENT).map(Nanos::from)
    }

    /// Returns the action that watchers have asked for.
    pub fn asked(&self) -> AfterTrial {
        page::asked(&self.page)
    }

    /// Asks the sweep for something; it notices within a second, and does it after the trial in progress.
    ///
    /// # Errors
    /// [`PageError::System`].
    pub fn ask(&self, wish: AfterTrial) -> Result<(), PageError> {
        page::ask(&self.page, wish)
    }

    /// Returns whether the process still exists. A zombie does not count.
    pub fn is_alive(&self) -> bool {
        let mut ended = [PollFd::new(&self.process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut ended, Some(&now)), Ok(count) if count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use crate::scene::tests::{race, status};
    use std::process::Command;

    #[test]
    fn the_page_of_a_process_is_found_and_followed() {
        let mut page = Page::create().expect("a page");
        page.write(&status()).expect("written");
        // Other tests of this process have pages, too: any of them may be found.
        let Attached { process, .. } = Attached::to(std::process::id()).expect("this process");
        let mut attached = Attached { page: page.file(), process, seen: None, race: None };
        assert_eq!(attached.news().expect("a status"), Some(status()));
        assert_eq!(attached.news().expect("the same"), None);
        page.write(&status()).expect("written");
        assert!(attached.news().expect("a status").is_some());
        assert_eq!(attached.race(), None);
        let (_, course) = race(1);
        page.write_race(&course).expect("written");
        page.write(&Status { raced: 1, ..status() }).expect("written");
        assert!(attached.news().expect("a status").is_some_and(|status| status.raced == 1));
        assert_eq!(attached.race(), Some(&course));
        attached.ask(AfterTrial::Pause).expect("written");
        assert_eq!((attached.asked(), page.asked()), (AfterTrial::Pause, AfterTrial::Pause));
        assert!(attached.is_alive());
    }

    #[test]
    fn a_process_without_a_page_or_that_is_gone_runs_no_sweep() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        assert!(matches!(Attached::to(child.id()), Err(Gone::NoSweep { .. })));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(matches!(Attached::to(child.id()), Err(Gone::NoSweep { .. })));
        assert!(matches!(Attached::to(0), Err(Gone::NoSweep { .. })));
        assert!(matches!(Attached::to(u32::MAX), Err(Gone::NoSweep { .. })));
    }
}
