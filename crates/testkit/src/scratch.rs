//! A directory for one test.

use tempfile::TempDir;

/// A directory in memory if the machine has /dev/shm, else a usual temporary one. It is removed when it is
/// dropped. Tests that write many files do not wait for a disk there.
///
/// # Panics
/// If none can be made.
pub fn in_memory() -> TempDir {
    in_memory_named("fsdyno-test-")
}

/// The same, with a name that begins with this.
///
/// # Panics
/// As for [`in_memory`].
pub fn in_memory_named(prefix: &str) -> TempDir {
    let mut named = tempfile::Builder::new();
    named.prefix(prefix);
    let made = named.tempdir_in("/dev/shm").or_else(|_| named.tempdir());
    made.unwrap_or_else(|error| panic!("no temporary directory can be made: {error}"))
}
