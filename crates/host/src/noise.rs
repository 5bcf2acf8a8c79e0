//! Data that no device can store in less space: every block is random, and none comes again.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::Advice;
use std::num::NonZeroU64;
use std::os::fd::AsFd;

/// Bytes that are written at a time.
const BLOCK: usize = 1 << 20;

/// Writes a range of a file or a device in order, waits until it is on the disk, and drops it from memory.
///
/// # Errors
/// The first that the kernel reports.
pub fn write(file: impl AsFd, from: u64, length: u64) -> rustix::io::Result<()> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(rand::random());
    let mut block = vec![0; BLOCK];
    let end = from.saturating_add(length);
    let mut at = from;
    while at < end {
        random.fill_bytes(&mut block);
        let most = block.len().min((end - at) as usize);
        at += rustix::io::pwrite(&file, &block[..most], at)? as u64;
    }
    rustix::fs::fdatasync(&file)?;
    rustix::fs::fadvise(&file, from, NonZeroU64::new(length), Advice::DontNeed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const SECTOR: usize = 512;

    #[test]
    fn a_range_is_written_with_sectors_that_differ() {
        let file = tempfile::tempfile().unwrap();
        let length = BLOCK as u64 + 4096;
        write(&file, 4096, length).unwrap();
        let mut bytes = vec![0; 4096 + length as usize];
        assert_eq!(rustix::io::pread(&file, &mut bytes, 0).unwrap(), bytes.len());
        assert!(bytes[..4096].iter().all(|byte| *byte == 0));
        let sectors: HashSet<&[u8]> = bytes[4096..].chunks(SECTOR).collect();
        assert_eq!(sectors.len() as u64, length / SECTOR as u64);
        // The ends of sectors differ as well: nothing is written again with another beginning.
        let ends: HashSet<&[u8]> = bytes[4096..].chunks(16).collect();
        assert_eq!(ends.len() as u64, length / 16);
    }
}
