//! Messages for a person on stderr.
//!
//! Whoever was reading may be gone: a `tee` that died, a terminal that was closed. That is no reason to stop,
//! least of all in the middle of a sweep, so nothing here fails, whereas `eprintln!` would panic. Control
//! characters in names are shown instead of being sent to the terminal.

use fsdyno_report::visible;
use std::io::Write;

/// Writes a line to stderr, if anybody is reading.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(line));
}
