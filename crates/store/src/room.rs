//! The free space that the store leaves where it is.

use crate::error::{Result, StoreError};
use fsdyno_core::Bytes;
use fsdyno_core::reserve::reserve;
use std::path::Path;

/// Checks that `more` bytes fit into the filesystem of a directory and leave its reserve free.
pub(crate) fn check(path: &Path, more: u64) -> Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    // A filesystem that does not say how much is free reports the error itself when it is full.
    let Ok(found) = rustix::fs::statvfs(directory.unwrap_or(Path::new("."))) else { return Ok(()) };
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(found.f_frsize));
    let (free, size) = (bytes(found.f_bavail), bytes(found.f_blocks));
    match more.saturating_add(reserve(size).0) <= free.0 {
        true => Ok(()),
        false => Err(StoreError::NoRoom {
            path: path.to_path_buf(),
            more: Bytes(more),
            free: whole(free),
            reserve: whole(reserve(size)),
        }),
    }
}

/// Whole mebibytes, for a person.
fn whole(size: Bytes) -> Bytes {
    Bytes(size.0 / Bytes::MIB * Bytes::MIB)
}
