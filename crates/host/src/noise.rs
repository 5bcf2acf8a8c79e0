//! Data that no device can store in less space: random, and no two blocks equal.

use rustix::fs::Advice;
use std::num::NonZeroU64;
use std::os::fd::AsFd;

/// Bytes that are written at a time.
const BLOCK: usize = 1 << 20;
/// What is written starts with its own place this often: equal blocks could be stored once.
const STAMP_EVERY: usize = 512;

/// Random bytes, which nothing compresses.
pub fn block() -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    rand::fill(&mut block[..]);
    block
}

/// Writes a range of a file or a device in order, waits until it is on the disk, and drops it from memory.
/// `block` holds random bytes; each sector of what is written starts with its own offset.
///
/// # Errors
/// The first that the kernel reports.
pub fn write(file: impl AsFd, block: &mut [u8], from: u64, length: u64) -> rustix::io::Result<()> {
    let end = from.saturating_add(length);
    let mut at = from;
    while at < end {
        for (number, sector) in block.chunks_mut(STAMP_EVERY).enumerate() {
            let place = at + (number * STAMP_EVERY) as u64;
            if let Some(stamp) = sector.first_chunk_mut() {
                *stamp = place.to_le_bytes();
            }
        }
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

    #[test]
    fn a_range_is_written_with_sectors_that_differ() {
        let file = tempfile::tempfile().unwrap();
        let length = BLOCK as u64 + 4096;
        write(&file, &mut block(), 4096, length).unwrap();
        let mut bytes = vec![0; 4096 + length as usize];
        assert_eq!(rustix::io::pread(&file, &mut bytes, 0).unwrap(), bytes.len());
        assert!(bytes[..4096].iter().all(|byte| *byte == 0));
        let sectors: HashSet<&[u8]> = bytes[4096..].chunks(STAMP_EVERY).collect();
        assert_eq!(sectors.len() as u64, length / STAMP_EVERY as u64);
        assert_eq!(bytes[BLOCK..BLOCK + 8], (BLOCK as u64).to_le_bytes());
    }
}
