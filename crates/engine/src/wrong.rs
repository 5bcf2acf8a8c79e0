//! Data that was read although nobody wrote it there.

use std::fmt;

/// A file that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The file, relative to the engine's directory.
    pub path: String,
    /// The problem with the file.
    pub problem: Problem,
}

/// A problem with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// A sector of it.
    Sector {
        /// Where the first wrong byte is; for whole sectors of something else, where the sector begins.
        offset: u64,
        /// Which sector of 512 bytes belongs there.
        number: u64,
        /// The data found there.
        found: SectorVerdict,
    },
    /// Something in a hole: a part that was never written.
    Hole {
        /// Where the first byte is that is not zero.
        offset: u64,
        /// The data found there.
        found: SectorVerdict,
    },
    /// It does not have the size that it was written with, in bytes.
    Size {
        /// As written.
        expected: u64,
        /// As it is.
        found: u64,
    },
    /// It is gone.
    Missing,
    /// It was removed, and is there.
    Present,
}

/// The verdict on a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectorVerdict {
    /// Only zeros.
    Zeros,
    /// The same sector of the same file as it was before, or will be later.
    Version {
        /// The version that belongs there.
        expected: u32,
        /// The one that is there.
        found: u32,
    },
    /// Another sector of the same file.
    Misplaced(u64),
    /// A sector of another file.
    Foreign(u64),
    /// Nothing that was written anywhere.
    Garbage {
        /// In how many bits of the sector it differs, from the first wrong byte on.
        bits: u32,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Problem::Sector { offset, number, found } => {
                write!(f, "at offset {offset}: expected sector {number} of this file, found {found}")
            }
            Problem::Size { expected, found } => {
                let how = if found < expected { "short" } else { "long" };
                write!(f, "too {how}: expected {expected} bytes, found {found}")
            }
            Problem::Hole { offset, found } => {
                write!(f, "at offset {offset}: expected a hole of zeros, found {found}")
            }
            Problem::Missing => f.write_str("expected the file, found nothing"),
            Problem::Present => f.write_str("expected nothing, found a file that was removed"),
        }
    }
}

impl fmt::Display for SectorVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SectorVerdict::Zeros => f.write_str("zeros"),
            SectorVerdict::Version { expected, found } if found < expected => {
                write!(f, "old data: version {found} instead of {expected}")
            }
            SectorVerdict::Version { expected, found } => write!(f, "version {found} instead of {expected}"),
            SectorVerdict::Misplaced(number) => write!(f, "sector {number} of this file"),
            SectorVerdict::Foreign(number) => write!(f, "foreign data: sector {number} of another file"),
            SectorVerdict::Garbage { bits: 1 } => f.write_str("garbage: 1 bit differs"),
            SectorVerdict::Garbage { bits } => write!(f, "garbage: {bits} bits differ"),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': {}", self.path, self.problem)
    }
}
