//! The free space that fsdyno leaves on every filesystem that it writes to and does not own.
//!
//! A filesystem that is completely full breaks everything on it, results included. Whoever writes an image, a
//! tree in a directory or a store checks that this much stays free, before and while writing.

use crate::units::Bytes;

/// 5 % of the filesystem.
const SHARE: u64 = 20;
/// The largest reserve.
const MOST: Bytes = Bytes(Bytes::GIB);

/// The reserve of a filesystem of this size: 5 % of it or 1 GiB, whichever is less.
pub fn reserve(filesystem: Bytes) -> Bytes {
    Bytes(filesystem.0 / SHARE).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_share_of_a_small_filesystem_and_bounded_on_a_large_one() {
        assert_eq!(reserve(Bytes(100 * Bytes::MIB)), Bytes(5 * Bytes::MIB));
        assert_eq!(reserve(Bytes(100 * Bytes::GIB)), Bytes(Bytes::GIB));
        assert_eq!(reserve(Bytes(0)), Bytes(0));
    }
}
