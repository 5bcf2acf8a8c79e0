//! Messages for a person on stderr.
//!
//! Whoever was reading may be gone: a `tee` that died, a terminal that was closed. That is no reason to stop,
//! least of all in the middle of a sweep, so nothing here fails, whereas `eprintln!` would panic. Control
//! characters in names are shown instead of being sent to the terminal.

use fsdyno_report::visible;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{IsTerminal, Write, stderr, stdin};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

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

/// What is kept while something else has the terminal.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// From now on, keeps what would be written.
pub fn hold() {
    held().get_or_insert_default();
}

/// Writes what was kept, and everything else at once again.
pub fn release() {
    let lines = held().take();
    lines.into_iter().flatten().for_each(|line| note(&line));
}

fn held() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a line to stderr, if anybody is reading. What is longer than the line of a terminal is wrapped.
pub fn note(line: &str) {
    if let Some(lines) = held().as_mut() {
        lines.push(line.to_string());
        return;
    }
    let text = visible(line);
    let size = if stderr().is_terminal() { terminal_size::terminal_size_of(stderr()) } else { None };
    let text = match size {
        Some((width, _)) => wrapped(&text, width.0.into()),
        None => text.into(),
    };
    write_out(&format!("{text}\n"));
}

/// How long to wait for a reader that has stopped reading.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// What a pipe takes at once if it is writable at all (PIPE_BUF in pipe(7)).
const PIECE: usize = 4096;
/// Lines that were left out since the reader has stopped reading.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Writes to stderr, unless that is a pipe that is full and stays so: a sweep goes on, and obeys signals,
/// whoever has stopped reading what it says. Whoever stops a terminal (Ctrl-S) wants it to wait.
fn write_out(text: &str) {
    let mut stderr = stderr().lock();
    if !stderr.is_terminal() {
        let left_out = LEFT_OUT.load(Ordering::Relaxed);
        let patience = if left_out == 0 { PATIENCE } else { Timespec::default() };
        if !takes(&stderr, patience) {
            LEFT_OUT.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if left_out > 0 {
            LEFT_OUT.store(0, Ordering::Relaxed);
            let _ = writeln!(stderr, "note: {left_out} lines were left out, because nobody read them");
        }
    }
    for piece in text.as_bytes().chunks(PIECE) {
        if stderr.is_terminal() || takes(&stderr, PATIENCE) {
            let _ = stderr.write_all(piece);
        }
    }
}

/// Whether it can be written to without blocking, now or in this time.
fn takes(stderr: &impl AsFd, patience: Timespec) -> bool {
    let mut polled = [PollFd::new(stderr, PollFlags::OUT)];
    // An error is what writing will find.
    !matches!(poll(&mut polled, Some(&patience)), Ok(0))
}

/// Long lines in several, broken between words. Hints stay whole, because they contain commands to copy.
fn wrapped(text: &str, width: usize) -> String {
    let options = textwrap::Options::new(width).subsequent_indent("  ");
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
    let lines = text.lines().map(|line| match line.starts_with("hint: ") {
        true => line.to_string(),
        false => textwrap::fill(line, &options),
    });
    lines.collect::<Vec<_>>().join("\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_and_hints_are_not() {
        let text = "error: one two three four\n  12 | x = 1\nhint: fsdyno restore --state /somewhere/else";
        let expected =
            "error: one two three\n  four\n  12 | x = 1\nhint: fsdyno restore --state /somewhere/else";
        assert_eq!(wrapped(text, 20), expected);
    }
}
