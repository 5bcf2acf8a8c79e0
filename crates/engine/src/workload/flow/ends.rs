//! The lengths of files that several workers append to.
//!
//! The bytes at a position follow from the position alone, so workers that write to the same place write
//! the same. Only the length depends on all of them. Once a file has been emptied, a worker that had looked
//! for its end before may leave a hole.

use crate::compare::Comparer;
use crate::content::FileIdentity;
use crate::wrong::Problem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A file.
#[derive(Debug, Default)]
struct End {
    /// Where the farthest write ended, and the farthest that has begun.
    done: AtomicU64,
    begun: AtomicU64,
    emptied: AtomicBool,
}

/// The lengths that a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// Unless it was emptied.
    pub(super) least: u64,
    most: u64,
    pub(super) emptied: bool,
}

/// The files of a set.
#[derive(Debug)]
pub(super) struct Ends(Box<[End]>);

impl Ends {
    /// Files of these sizes in bytes.
    pub(super) fn new(sizes: impl Iterator<Item = u64>) -> Self {
        let end = |size| End { done: AtomicU64::new(size), begun: AtomicU64::new(size), ..End::default() };
        Ends(sizes.map(end).collect())
    }

    /// A write up to this position begins.
    pub(super) fn begin(&self, file: u64, end: u64) {
        self.0[file as usize].begun.fetch_max(end, Ordering::AcqRel);
    }

    /// It has ended.
    pub(super) fn end(&self, file: u64, end: u64) {
        self.0[file as usize].done.fetch_max(end, Ordering::AcqRel);
    }

    /// A file is about to be emptied.
    pub(super) fn empty(&self, file: u64) {
        self.0[file as usize].emptied.store(true, Ordering::Release);
    }

    /// Returns the lengths that a file may have now.
    pub(super) fn reach(&self, file: u64) -> Reach {
        let End { done, begun, emptied } = &self.0[file as usize];
        Reach {
            least: done.load(Ordering::Acquire),
            most: begun.load(Ordering::Acquire),
            emptied: emptied.load(Ordering::Acquire),
        }
    }

    /// The size of every file for another process, and whether it may have another one: it was emptied, or a
    /// write has not ended.
    pub(super) fn summary(&self) -> Vec<(u64, u64, bool)> {
        let one = |file: usize| {
            let Reach { least, most, emptied } = self.reach(file as u64);
            (file as u64, least, emptied || most > least)
        };
        (0..self.0.len()).map(one).collect()
    }
}

impl Reach {
    /// Compares what a read of this length returned from a position on. `before` is how long the file could
    /// be before that, `self` afterwards.
    ///
    /// # Errors
    /// The problem with the data read.
    pub(super) fn check(
        self,
        before: Reach,
        comparer: &mut Comparer,
        file: FileIdentity,
        (position, length): (u64, usize),
        found: &[u8],
    ) -> Result<(), Problem> {
        let end = position + found.len() as u64;
        let wanted = before.least.saturating_sub(position).min(length as u64);
        if !self.emptied && (found.len() as u64) < wanted {
            return Err(Problem::Size { expected: before.least, found: end });
        }
        if end > self.most && !found.is_empty() {
            return Err(Problem::Size { expected: self.most, found: end });
        }
        match self.emptied {
            true => comparer.check_or_zeros(file, position, found),
            false => comparer.check(file, 0, position, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use fsdyno_core::workload;

    #[test]
    fn a_reader_may_find_any_end_between_what_was_done_and_what_was_begun() {
        let kind = workload::Content::Random;
        let (file, mut comparer) = (FileIdentity::new(1, 1), Comparer::new(kind, 1, 4096));
        let bytes = Content::new(kind, 1, 4096).bytes(file, 0, 4096).to_vec();
        let ends = Ends::new([1000].into_iter());
        let before = ends.reach(0);
        ends.begin(0, 1500);
        let mut check = |found: &[u8]| ends.reach(0).check(before, &mut comparer, file, (0, 4096), found);
        assert_eq!(check(&bytes[..1000]), Ok(()));
        assert_eq!(check(&bytes[..1500]), Ok(()));
        assert_eq!(check(&bytes[..999]), Err(Problem::Size { expected: 1000, found: 999 }));
        assert_eq!(check(&bytes[..1501]), Err(Problem::Size { expected: 1500, found: 1501 }));
        let hole = [&[0; 700], &bytes[700..1500]].concat();
        assert!(check(&hole).is_err());
        ends.end(0, 1500);
        assert_eq!(ends.summary(), [(0, 1500, false)]);
        ends.empty(0);
        let mut check = |found: &[u8]| ends.reach(0).check(before, &mut comparer, file, (0, 4096), found);
        assert_eq!(check(&hole), Ok(()));
        assert_eq!(check(&[]), Ok(()));
        let mut wrong = hole.clone();
        wrong[3] = 1;
        assert!(check(&wrong).is_err());
    }
}
