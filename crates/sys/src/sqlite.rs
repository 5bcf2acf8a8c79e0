//! SQLite's own resolution of links.
//!
//! Before SQLite opens a database, it resolves every link on the way to it, `/proc/self/fd/N` among them, and
//! opens the text that comes out, again for each of its files beside the database (`unixFullPathname` in
//! os_unix.c). So it could be led elsewhere by whoever swaps a directory on the way, although it was given a
//! path through a directory that is open.

use rusqlite::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// Has SQLite use paths as they are given, in the whole process. Returns whether it does.
pub fn use_paths_as_given() -> bool {
    static DONE: OnceLock<bool> = OnceLock::new();
    *DONE.get_or_init(replace_lstat)
}

/// Replaces the lstat(2) of the VFS for Unix, which has no other use (https://sqlite.org/c3ref/vfs.html).
fn replace_lstat() -> bool {
    // SAFETY: the name is a C string; the VFS that is found is never freed, because nothing unregisters it.
    let vfs = unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) };
    // SAFETY: null, or a VFS that lives as long as the process.
    let Some(set) = unsafe { vfs.as_ref() }.and_then(|found| found.xSetSystemCall) else { return false };
    type Lstat = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
    // SAFETY: SQLite keeps all system calls as this type, and calls each one as what it is.
    let replacement = unsafe { std::mem::transmute::<Lstat, unsafe extern "C" fn()>(nothing_is_a_link) };
    // SAFETY: the function belongs to this VFS; the name is a C string, and the replacement is static.
    unsafe { set(vfs, c"lstat".as_ptr(), Some(replacement)) == ffi::SQLITE_OK }
}

/// Says that nothing is there, whereupon SQLite goes on with the path as it is.
unsafe extern "C" fn nothing_is_a_link(_path: *const c_char, _found: *mut c_void) -> c_int {
    // SAFETY: it points to the error number of this thread.
    unsafe { *libc::__errno_location() = libc::ENOENT };
    -1
}
