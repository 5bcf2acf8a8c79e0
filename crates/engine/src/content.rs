//! File contents: bytes that depend only on the seed and the file, with no two blocks alike.
//!
//! A pool of random bytes is created once. The content of a file at a position is the pool at that position
//! plus an offset specific to the file, with a stamp over the first bytes of every 512: the identity of the
//! file, how often it was written over, and the number of the sector. So nothing can be deduplicated, and
//! writing needs no copy: the stamps go into the pool in place, at most 16 bytes per 512, outside of any
//! timed interval. Consecutive bytes of a file are consecutive in the pool, so that no compressor finds a
//! repetition within a megabyte.
//!
//! Whoever knows the file, the position and the version knows every byte, and a sector that turns up in the
//! wrong place says itself where it belongs ([`FileIdentity::claimed`]). Verified loads write nothing else.

use crate::tree::derive_seed;
use fsdyno_core::workload;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ffi::CStr;

/// Buffers and lengths of direct I/O are multiples of this.
pub(crate) const ALIGNMENT: usize = 4096;

const POOL: usize = 1 << 20;
const SECTOR: usize = 512;
pub(crate) const SECTOR_BYTES: u64 = SECTOR as u64;
pub(crate) const STAMP: usize = 16;
/// An odd factor makes different numbers differ in all their upper bytes, too; and its inverse modulo 2^64.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const INVERSE: u64 = 0xf1de_83e1_9937_733d;
const _: () = assert!(FACTOR.wrapping_mul(INVERSE) == 1);

/// A buffer of zeros that begins on a page boundary. It is resident before it is used: the kernel allocates
/// pages at the first access, and that would count for the operation that happens to make it.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    bytes: Vec<u8>,
    begin: usize,
    length: usize,
}

impl AlignedBuffer {
    pub(crate) fn new(length: usize) -> Self {
        let mut bytes = vec![0; length + ALIGNMENT];
        // If the compiler recognised this, it would only reserve pages of zeros, without an access.
        std::hint::black_box(&mut bytes).fill(0);
        let begin = bytes.as_ptr().align_offset(ALIGNMENT);
        AlignedBuffer { bytes, begin, length }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.begin..self.begin + self.length]
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.length]
    }
}

/// A file that is about to be written, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    stamp: u64,
    offset: usize,
}

impl FileIdentity {
    /// The file at this position of the tree of this seed.
    pub(crate) fn new(tree_seed: u64, index: u64) -> Self {
        Self::stamped(derive_seed(tree_seed, &[index]))
    }

    /// The file of this name in a directory ([`path_seed`]): who knows where it is knows who it is. What is
    /// written to it is the version of its size ([`version_of_size`]).
    pub(crate) fn named(directory: u64, name: &CStr) -> Self {
        Self::stamped(path_seed(directory, name))
    }

    /// The file after it was written over; version 0 is the first one.
    #[inline(always)]
    pub(crate) fn version(self, version: u32) -> Self {
        // Which part of the pool it is follows from the lower half of the stamp.
        FileIdentity { stamp: self.stamp ^ (u64::from(version) << 32), ..self }
    }

    /// Returns the stamp that distinguishes the file from all others, for [`FileIdentity::stamped`].
    pub(crate) fn stamp(self) -> u64 {
        self.stamp
    }

    /// The file with this stamp.
    pub(crate) fn stamped(stamp: u64) -> Self {
        FileIdentity { stamp, offset: stamp as usize % (POOL / ALIGNMENT) * ALIGNMENT }
    }

    /// Whose sector this claims to be, and the number of the sector; `None` if it has no valid stamp.
    pub(crate) fn claimed(sector: &[u8]) -> Option<(Self, u64)> {
        /// No file has as many sectors.
        const MOST: u64 = 1 << 40;
        let word = |at: usize| Some(u64::from_le_bytes(sector.get(at..at + 8)?.try_into().ok()?));
        let (stamp, number) = (word(0)?, word(STAMP / 2)?);
        let number = (number ^ stamp.rotate_left(32)).wrapping_mul(INVERSE).wrapping_sub(1);
        (number < MOST).then_some((Self::stamped(stamp), number))
    }

    /// Which version of the same file this is, relative to a version 0; `None` if it is another file.
    pub(crate) fn version_of(self, first: FileIdentity) -> Option<u32> {
        let difference = self.stamp ^ first.stamp;
        (difference as u32 == 0).then_some((difference >> 32) as u32)
    }
}

/// The version of a file that is written once, with this size: what is left of it says how long it was.
pub(crate) fn version_of_size(size_bytes: u64) -> u32 {
    size_bytes as u32
}

/// Returns the seed that the identity of a file, and the seeds of a directory's contents, derive from. It
/// depends on the seed of the directory above and on the name.
pub(crate) fn path_seed(above: u64, name: &CStr) -> u64 {
    // FNV-1a, which needs no table; what it leaves alike, the derivation scatters.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    derive_seed(name.to_bytes().iter().fold(above ^ 0xcbf2_9ce4_8422_2325, fold), &[1])
}

/// A worker's source of data.
#[derive(Debug)]
pub(crate) struct Content {
    pool: AlignedBuffer,
    stamped: bool,
}

impl Content {
    /// For writes of up to `longest` bytes.
    pub(crate) fn new(content: workload::Content, seed: u64, longest: usize) -> Self {
        let mut pool = AlignedBuffer::new(POOL + longest.next_multiple_of(SECTOR) + SECTOR);
        let bytes = pool.as_mut_slice();
        let zeros = match content {
            workload::Content::Random => 0,
            workload::Content::Zeros => SECTOR,
            workload::Content::Compressible(share) => (share.clamp(0.0, 1.0) * SECTOR as f64) as usize,
        };
        let mut random =
            Xoshiro256PlusPlus::seed_from_u64(derive_seed(seed, &[u64::from_le_bytes(*b"content\0")]));
        let (head, tail) = bytes.split_at_mut(POOL);
        for sector in head.chunks_exact_mut(SECTOR) {
            random.fill_bytes(&mut sector[..SECTOR - zeros]);
        }
        // The end repeats the beginning, so that a write may run over the end of the pool.
        for part in tail.chunks_mut(POOL) {
            part.copy_from_slice(&head[..part.len()]);
        }
        Content { pool, stamped: content != workload::Content::Zeros }
    }

    /// The bytes of a file from `position` on.
    #[inline]
    pub(crate) fn bytes(&mut self, file: FileIdentity, position: u64, length: usize) -> &[u8] {
        let begin = (file.offset as u64 + position) as usize % POOL;
        if self.stamped && length > 0 {
            self.stamp(file, position, begin, length);
        }
        &self.pool.as_slice()[begin..begin + length]
    }

    /// The bytes of a file from `position` on, a multiple of the block size; each block has a version of its
    /// own.
    #[inline]
    pub(crate) fn blocks(
        &mut self,
        file: FileIdentity,
        position: u64,
        block: usize,
        versions: impl ExactSizeIterator<Item = u32>,
    ) -> &[u8] {
        let length = versions.len() * block;
        let begin = (file.offset as u64 + position) as usize % POOL;
        for (number, version) in versions.enumerate() {
            let into = number * block;
            self.stamp(file.version(version), position + into as u64, begin + into, block);
        }
        &self.pool.as_slice()[begin..begin + length]
    }

    /// Returns whether these are the bytes of a file from `position` on.
    #[inline]
    pub(crate) fn is(&mut self, file: FileIdentity, position: u64, found: &[u8]) -> bool {
        self.bytes(file, position, found.len()) == found
    }

    /// Puts the bytes of a file from `position` on into a caller's buffer. If the buffer still contains the
    /// same part of the pool, as buffers of whole megabytes always do, it is only stamped again.
    #[inline]
    pub(crate) fn fill(&mut self, file: FileIdentity, position: u64, buffer: &mut [u8], held: &mut Held) {
        if !position.is_multiple_of(SECTOR as u64) || !buffer.len().is_multiple_of(SECTOR) {
            buffer.copy_from_slice(self.bytes(file, position, buffer.len()));
            *held = Held::default();
            return;
        }
        let begin = (file.offset as u64 + position) as usize % POOL;
        if held.begin != begin || held.length < buffer.len() {
            buffer.copy_from_slice(&self.pool.as_slice()[begin..begin + buffer.len()]);
            *held = Held { begin, length: buffer.len() };
        }
        if self.stamped {
            stamp(file, position, buffer);
        }
    }

    fn stamp(&mut self, file: FileIdentity, position: u64, begin: usize, length: usize) {
        let into = position as usize % SECTOR;
        let begin = begin - into;
        let pool = &mut self.pool.as_mut_slice()[begin..begin + (into + length).next_multiple_of(SECTOR)];
        stamp(file, position, pool);
    }
}

/// Which part of the pool a caller's buffer contains.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    begin: usize,
    length: usize,
}

/// Stamps whole sectors, the first of which contains `position`.
#[inline]
fn stamp(file: FileIdentity, position: u64, sectors: &mut [u8]) {
    for (sector, number) in sectors.chunks_exact_mut(SECTOR).zip(position / SECTOR as u64..) {
        let number = (number + 1).wrapping_mul(FACTOR) ^ file.stamp.rotate_left(32);
        sector[..STAMP / 2].copy_from_slice(&file.stamp.to_le_bytes());
        sector[STAMP / 2..STAMP].copy_from_slice(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A file as it would appear on disk, written in pieces.
    fn file(content: &mut Content, identity: FileIdentity, size: u64, first: usize, piece: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < size {
            let length = if bytes.is_empty() { first } else { piece };
            let length = length.min((size - bytes.len() as u64) as usize);
            let position = bytes.len() as u64;
            bytes.extend_from_slice(content.bytes(identity, position, length));
        }
        bytes
    }

    #[test]
    fn content_depends_on_seed_and_file_alone() {
        for kind in
            [workload::Content::Random, workload::Content::Zeros, workload::Content::Compressible(0.5)]
        {
            let (mut one, mut other) = (Content::new(kind, 1, 65536), Content::new(kind, 1, 1 << 20));
            for (index, size) in [(0, 1), (1, 4097), (2, 3_000_001), (3, 511), (4, 66_000)] {
                let identity = FileIdentity::new(9, index);
                let in_small_pieces = file(&mut one, identity, size, 1, 65536);
                let in_large_pieces = file(&mut other, identity, size, 1 << 20, 1 << 20);
                assert!(in_small_pieces == in_large_pieces, "file {index} of {kind:?}");
            }
        }
    }

    #[test]
    fn no_two_files_share_a_sector() {
        for kind in [workload::Content::Random, workload::Content::Compressible(0.9)] {
            let mut content = Content::new(kind, 1, 65536);
            let mut seen = HashSet::new();
            for tree in 0..3 {
                for index in 0..40 {
                    let bytes = file(&mut content, FileIdentity::new(tree, index), 70_000, 1, 65536);
                    for sector in bytes.chunks_exact(SECTOR) {
                        assert!(seen.insert(sector.to_vec()), "a sector twice, {kind:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_share_of_zeros_is_as_asked() {
        let zeros = |kind| {
            let mut content = Content::new(kind, 1, 65536);
            let bytes = file(&mut content, FileIdentity::new(1, 1), 1 << 20, 1, 65536);
            bytes.iter().filter(|byte| **byte == 0).count() as f64 / bytes.len() as f64
        };
        assert!(zeros(workload::Content::Random) < 0.01);
        assert!((zeros(workload::Content::Compressible(0.5)) - 0.5).abs() < 0.01);
        assert!((zeros(workload::Content::Zeros) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn blocks_have_versions_of_their_own() {
        let (mut one, mut other) = [(); 2].map(|()| Content::new(workload::Content::Random, 1, 65536)).into();
        let identity = FileIdentity::new(1, 7);
        let versions = [3, 0, 9];
        let bytes = one.blocks(identity, 4096, 1024, versions.into_iter());
        for (number, version) in versions.into_iter().enumerate() {
            let position = 4096 + number as u64 * 1024;
            assert!(
                bytes[number * 1024..][..1024] == *other.bytes(identity.version(version), position, 1024)
            );
        }
        assert_eq!(FileIdentity::stamped(identity.stamp()), identity);
    }

    #[test]
    fn direct_writes_start_on_a_page() {
        let mut content = Content::new(workload::Content::Random, 1, 65536);
        for index in 0..50 {
            let bytes = content.bytes(FileIdentity::new(1, index), 8192, 65536);
            assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0);
        }
    }

    #[test]
    fn a_buffer_of_the_callers_gets_the_same_bytes() {
        for kind in [workload::Content::Random, workload::Content::Zeros] {
            let (mut one, mut other) = (Content::new(kind, 1, 3 << 20), Content::new(kind, 1, 3 << 20));
            let (mut buffer, mut held) = (vec![0; 3 << 20], Held::default());
            let pieces = [
                (0, 0, 1 << 20),
                (0, 1 << 20, 1 << 20),
                (0, 5 << 20, 3 << 20),
                (0, 8 << 20, 4096),
                (0, 9 << 20, 1 << 20),
                (1, 8192, 4096),
                (1, 12_289, 4096),
                (1, 16_384, 4096),
                (1, 512, 777),
                (0, 0, 2 << 20),
            ];
            for (file, position, length) in pieces {
                let identity = FileIdentity::new(9, file);
                one.fill(identity, position, &mut buffer[..length], &mut held);
                let same = &buffer[..length] == other.bytes(identity, position, length);
                assert!(same, "file {file} from {position}, {length} bytes");
            }
        }
    }
}
