//! The progress of the workers, by their marks.

use super::VerifyError;
use fsdyno_core::durability::{MARK_BYTES, Mark, Moment, Promise};
use fsdyno_core::units::Nanos;
use std::io::Read;

/// The amount of work of one kind that was done. Numbers are counted from 0, and each worker finishes one
/// piece before it begins the next: so at most one has begun without being acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) begun: u64,
    pub(super) acknowledged: u64,
}

/// All that the marks say.
#[derive(Debug, Default)]
pub(super) struct Record {
    promises: [Counts; Promise::ALL.len()],
    unsynced: Counts,
    /// When each piece of work was done that nothing syncs.
    pub(super) done_ns: Vec<Nanos>,
}

impl Record {
    /// Reads `count` marks of workers that make at most `most` promises of each kind.
    pub(super) fn read(marks: &mut dyn Read, count: u64, most: u64) -> Result<Record, VerifyError> {
        let mut record = Record::default();
        let mut sector = [0; MARK_BYTES];
        for number in 0..count {
            marks.read_exact(&mut sector).map_err(|source| VerifyError::Marks { number, source })?;
            let mark = Mark::from_bytes(&sector).map_err(|_| VerifyError::NoMark { number })?;
            let limit = if mark.promise.is_some() { most } else { u64::MAX };
            let follows = record.note(mark) && mark.number < limit;
            follows.then_some(()).ok_or(VerifyError::NoMark { number })?;
        }
        Ok(record)
    }

    /// Of a promise, or of the work that nothing syncs.
    pub(super) fn counts(&self, promise: Option<Promise>) -> Counts {
        promise.map_or(self.unsynced, |promise| self.promises[usize::from(promise.number())])
    }

    /// Adds a mark; `false` if it does not follow those before it.
    fn note(&mut self, mark: Mark) -> bool {
        let counts = match mark.promise {
            Some(promise) => &mut self.promises[usize::from(promise.number())],
            None => &mut self.unsynced,
        };
        let is_open = counts.begun > counts.acknowledged;
        match mark.moment {
            Moment::Begun if !is_open && mark.number == counts.begun => counts.begun += 1,
            Moment::Acknowledged if is_open && mark.number == counts.acknowledged => {
                counts.acknowledged += 1;
                if mark.promise.is_none() {
                    self.done_ns.push(mark.time_ns);
                }
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(promise: Option<Promise>, number: u64, moment: Moment) -> [u8; MARK_BYTES] {
        Mark { promise, number, moment, time_ns: Nanos(number) }.to_bytes()
    }

    #[test]
    fn marks_say_what_has_begun_and_what_was_acknowledged() {
        let (append, begun, acknowledged) = (Some(Promise::Append), Moment::Begun, Moment::Acknowledged);
        let marks = [
            mark(append, 0, begun),
            mark(None, 0, begun),
            mark(append, 0, acknowledged),
            mark(append, 1, begun),
            mark(None, 0, acknowledged),
        ];
        let record = Record::read(&mut marks.as_flattened(), 5, 2).unwrap();
        assert_eq!(record.counts(append), Counts { begun: 2, acknowledged: 1 });
        assert_eq!(record.counts(None), Counts { begun: 1, acknowledged: 1 });
        assert_eq!(record.counts(Some(Promise::Link)), Counts::default());
        assert_eq!(record.done_ns, [Nanos(0)]);
        let refused = |marks: &[[u8; MARK_BYTES]], count| {
            Record::read(&mut marks.as_flattened(), count, 2).unwrap_err().to_string()
        };
        assert_eq!(refused(&marks, 6), "cannot read mark 5");
        let no_mark = "mark 0 is not one that a worker writes there";
        assert_eq!(refused(&[mark(append, 1, begun)], 1), no_mark);
        assert_eq!(refused(&[mark(append, 0, acknowledged)], 1), no_mark);
        assert_eq!(refused(&[[0; MARK_BYTES]], 1), no_mark);
        assert_eq!(Record::read(&mut marks.as_flattened(), 5, 1).unwrap_err().to_string()[..6], *"mark 3");
    }
}
