//! Messages for a person on stderr.
//!
//! Whoever was reading may be gone: a `tee` that died, a terminal that was closed. That is no reason to stop,
//! least of all in the middle of a sweep, so nothing here fails, whereas `eprintln!` would panic. Control
//! characters in names are shown instead of being sent to the terminal.

use fsdyno_report::visible;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::sync::OnceLock;

/// How much to say on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loudness {
    /// Results, errors and what is left on the machine.
    Quiet,
    /// Notes and progress as well.
    Usual,
    /// What is done to the machine as well.
    Verbose,
}

static LOUDNESS: OnceLock<Loudness> = OnceLock::new();

/// How much to say from now on, as the command line asks.
pub fn be(loudness: Loudness) {
    // The command line is read once.
    let _ = LOUDNESS.set(loudness);
}

/// Whether the user wants results and errors only.
pub fn is_quiet() -> bool {
    LOUDNESS.get() == Some(&Loudness::Quiet)
}

/// Whether the user wants to see what is done to the machine.
pub fn is_verbose() -> bool {
    LOUDNESS.get() == Some(&Loudness::Verbose)
}

/// Writes a line that the user can do without.
pub fn remark(line: &str) {
    if !is_quiet() {
        note(line);
    }
}

/// Writes a line to stderr, if anybody is reading.
pub fn note(line: &str) {
    let _ = writeln!(stderr().lock(), "{}", visible(line));
}

/// Asks a question, if there is somebody to ask; without an answer it is a no.
pub fn confirmed(question: &str) -> bool {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return false;
    }
    note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
