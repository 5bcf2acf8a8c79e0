//! What a person is told on stderr.
//!
//! Whoever read it may be gone: a `tee` that died, a terminal that was closed. That is no reason to end, least of all in the
//! middle of a sweep, so that nothing here fails; `eprintln!` would panic. What names hold that
//! would command the terminal is shown instead.

use fsdyno_report::visible;
use std::io::Write;

/// Writes a line to stderr, if anybody is there.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(line));
}
