//! A directory for one test.

use tempfile::TempDir;

/// A directory in memory if the machine has /dev/shm, else a usual temporary one. It is removed when it is
/// dropped. Tests that write many files do not wait for a disk there.
///
/// # Panics
/// If none can be made.
pub fn in_memory() -> TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.unwrap_or_else(|error| panic!("no temporary directory can be made: {error}"))
}
