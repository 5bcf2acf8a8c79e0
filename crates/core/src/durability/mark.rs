//! The marks that workers leave in the log of the device.

use super::Promise;
use crate::units::Nanos;

/// Size of a mark: a sector, like everything else in the log.
pub const MARK_BYTES: usize = 512;

const MAGIC: [u8; 8] = *b"fsdyMARK";
/// Number of work that nothing syncs, in place of a promise.
const UNSYNCED: u8 = 255;
/// Magic, promise, moment, two bytes of padding, number and time; a CRC-32 of all of them follows.
const CHECKED: usize = 28;
const CONTENT: usize = CHECKED + 4;

/// Something that a worker noted at a place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The promise that it was about; `None` for work that nothing syncs.
    pub promise: Option<Promise>,
    /// Its number, counted from 0 for each promise.
    pub number: u64,
    /// The moment that is noted: the promise begins, or has been acknowledged.
    pub moment: Moment,
    /// When, by `CLOCK_MONOTONIC`: of the worker's kernel when it notes it, and of the recorder's in the log.
    pub time_ns: Nanos,
}

/// A place in the life of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Its first system call follows.
    Begun,
    /// Its last system call has returned.
    Acknowledged,
}

/// A sector that is no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a mark of fsdyno")]
pub struct MarkError;

impl Mark {
    /// The sector.
    pub fn to_bytes(self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = self.promise.map_or(UNSYNCED, Promise::number);
        bytes[9] = u8::from(self.moment == Moment::Acknowledged);
        bytes[12..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.time_ns.0.to_le_bytes());
        let check = crc32fast::hash(&bytes[..CHECKED]);
        bytes[CHECKED..CONTENT].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads a sector.
    ///
    /// # Errors
    /// [`MarkError`] if it was not made by [`Mark::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Mark, MarkError> {
        let bytes = bytes.get(..CONTENT).ok_or(MarkError)?;
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let promise = Promise::of_number(bytes[8]);
        let check = crc32fast::hash(&bytes[..CHECKED]);
        if bytes[..8] != MAGIC
            || bytes[CHECKED..] != check.to_le_bytes()
            || (promise.is_none() && bytes[8] != UNSYNCED)
        {
            return Err(MarkError);
        }
        let moment = if bytes[9] == 0 { Moment::Begun } else { Moment::Acknowledged };
        Ok(Mark { promise, number: word(12), moment, time_ns: Nanos(word(20)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_as_a_sector_and_nothing_else_is_one() {
        for promise in [None, Some(Promise::Create), Some(Promise::Unlink)] {
            for moment in [Moment::Begun, Moment::Acknowledged] {
                let mark = Mark { promise, number: 77, moment, time_ns: Nanos(123_456_789_012) };
                let bytes = mark.to_bytes();
                assert_eq!(Mark::from_bytes(&bytes), Ok(mark));
                for at in 0..CONTENT {
                    let mut other = bytes;
                    other[at] ^= 4;
                    assert_eq!(Mark::from_bytes(&other), Err(MarkError), "byte {at}");
                }
                assert_eq!(Mark::from_bytes(&bytes[..20]), Err(MarkError));
            }
        }
        assert_eq!(Mark::from_bytes(&[0; MARK_BYTES]), Err(MarkError));
    }
}
