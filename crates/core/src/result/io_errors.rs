//! The consequences of requests to a disk that failed.

use crate::durability::{Act, Fault};
use crate::workload::fault::Harm;
use crate::workload::parameter::words;
use serde::{Deserialize, Serialize};

words! {
    /// The content of the part of a file that a fault is about.
    Content, "content" {
        /// The data that the application wrote last.
        New = "new",
        /// The data that was there before.
        Old = "old",
        /// Zeros in place of data.
        Zeros = "zeros",
        /// Parts of it are new, others not.
        Mixed = "mixed",
        /// Nothing: the file is too short, or is not there.
        Missing = "missing",
        /// Bytes that nobody wrote there.
        Garbage = "garbage",
        /// It cannot be read.
        Unreadable = "unreadable",
    }
}

words! {
    /// The extent to which a filesystem can still be used.
    Usable, "usability" {
        /// A new file can be created, written and synced.
        Writable = "writable",
        /// It has become read-only.
        ReadOnly = "read-only",
        /// It refuses everything: new files, and reading.
        ShutDown = "shut-down",
        /// It can be read, but a new file cannot be created and synced.
        Failing = "failing",
        /// A step did not return in time.
        Hung = "hung",
    }
}

/// The observations of the application while requests failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witnessed {
    /// The result of the first fsync(2), or of the first read(2): the name of the error, or `None` if it
    /// succeeded. A write(2) or open(2) that failed counts as the first.
    pub first: Option<String>,
    /// The same of the second.
    pub again: Option<String>,
    /// The content that was then read, through the page cache where the kernel still had it.
    pub reads: Content,
    /// The extent to which the filesystem could still be used.
    pub usable: Usable,
}

/// The consequences of one fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultResult {
    /// The kind of fault.
    pub fault: Fault,
    /// The number of requests that failed. With none, nothing was tested: the filesystem made no such
    /// request.
    pub failed: u64,
    /// The observations of the application; absent if a step hung.
    pub witnessed: Option<Witnessed>,
    /// Why the filesystem could not be mounted again once nothing failed any more; absent if it could.
    pub mount_error: Option<String>,
    /// The content that was then read; absent if the filesystem was not mounted.
    pub after: Option<Content>,
    /// `true` if the check then found the filesystem whole; absent if there is no check, or it was not
    /// mounted.
    pub clean: Option<bool>,
}

impl FaultResult {
    /// Of a fault of which nothing is known, as of one after which a step did not return.
    pub const fn unknown(fault: Fault) -> FaultResult {
        FaultResult { fault, failed: 0, witnessed: None, mount_error: None, after: None, clean: None }
    }

    /// Returns the harm that the fault did to the application. The error of a read is reported or it is not:
    /// the data that was on the disk before must be there afterwards.
    pub fn harm(&self) -> Harm {
        // Who never gets an answer has not been told that all is well.
        let Some(witnessed) = &self.witnessed else { return Harm::Told };
        if self.failed == 0 {
            return Harm::Untested;
        }
        let intended = match self.fault.act() {
            Act::Overwrite | Act::Append => Content::New,
            Act::Read => Content::Old,
        };
        let kept = self.after == Some(intended);
        let misread =
            self.fault.act() == Act::Read && witnessed.again.is_none() && witnessed.reads != intended;
        match (kept && !misread, &witnessed.first, &witnessed.again) {
            (true, ..) => Harm::None,
            (false, None, _) => Harm::Silent,
            (false, Some(_), None) => Harm::ToldOnce,
            (false, Some(_), Some(_)) => Harm::Told,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(fault: Fault, calls: [Option<&str>; 2], after: Content) -> FaultResult {
        let [first, again] = calls.map(|call| call.map(str::to_string));
        let witnessed = Witnessed { first, again, reads: Content::New, usable: Usable::Writable };
        FaultResult {
            fault,
            failed: 1,
            witnessed: Some(witnessed),
            mount_error: None,
            after: Some(after),
            clean: Some(true),
        }
    }

    #[test]
    fn whoever_is_told_nothing_has_lost_silently() {
        let fault = Fault::OverwriteData;
        let eio = Some("EIO");
        assert_eq!(result(fault, [None, None], Content::Old).harm(), Harm::Silent);
        assert_eq!(result(fault, [eio, None], Content::Old).harm(), Harm::ToldOnce);
        assert_eq!(result(fault, [eio, eio], Content::Old).harm(), Harm::Told);
        assert_eq!(result(fault, [eio, None], Content::New).harm(), Harm::None);
        assert_eq!(result(fault, [None, eio], Content::Zeros).harm(), Harm::Silent);
        let untested = FaultResult { failed: 0, ..result(fault, [None, None], Content::New) };
        assert_eq!(untested.harm(), Harm::Untested);
        let lost = FaultResult { after: None, ..result(fault, [None, None], Content::New) };
        assert_eq!(lost.harm(), Harm::Silent);
    }

    #[test]
    fn a_read_that_succeeds_must_give_what_was_there() {
        let fault = Fault::ReadData;
        let eio = Some("EIO");
        // It reads what nobody has written.
        assert_eq!(result(fault, [None, None], Content::Old).harm(), Harm::Silent);
        let mut unread = result(fault, [eio, None], Content::Old);
        unread.witnessed.as_mut().unwrap().reads = Content::Old;
        assert_eq!(unread.harm(), Harm::None);
        assert_eq!(result(fault, [eio, eio], Content::Garbage).harm(), Harm::Told);
    }
}
