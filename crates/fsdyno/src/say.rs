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

/// The amount of output on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loudness {
    /// Results, errors and what is left on the machine.
    Quiet,
    /// Notes and progress as well.
    Usual,
    /// Everything that is done to the machine as well.
    Verbose,
}

static LOUDNESS: OnceLock<Loudness> = OnceLock::new();

/// Sets the amount of output from now on, as the command line asks.
pub fn be(loudness: Loudness) {
    // The command line is read once.
    let _ = LOUDNESS.set(loudness);
}

/// Returns whether the user wants results and errors only.
pub fn is_quiet() -> bool {
    LOUDNESS.get() == Some(&Loudness::Quiet)
}

/// Returns whether the user wants to see what is done to the machine.
pub fn is_verbose() -> bool {
    LOUDNESS.get() == Some(&Loudness::Verbose)
}

/// Writes a line that the user can do without.
pub fn remark(line: &str) {
    if !is_quiet() {
        note(line);
    }
}

/// The lines that are kept while something else has the terminal.
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
    let text = visible(&shortened(line)).into_owned();
    let size = if stderr().is_terminal() { terminal_size::terminal_size_of(stderr()) } else { None };
    let text = match size {
        Some((width, _)) => wrapped(&text, width.0.into()),
        None => text,
    };
    write_out(&format!("{text}\n"));
}

/// The time to wait for a reader that has stopped reading.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// The number of bytes that a pipe takes at once if it is writable at all (PIPE_BUF in pipe(7)).
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

/// Returns whether stderr can be written to without blocking, now or in this time.
fn takes(stderr: &impl AsFd, patience: Timespec) -> bool {
    let mut polled = [PollFd::new(stderr, PollFlags::OUT)];
    // An error is what writing will find.
    !matches!(poll(&mut polled, Some(&patience)), Ok(0))
}

/// The longest word, and the longest value within single quotes, in characters.
const LONGEST: usize = 500;
/// The longest message.
const LONGEST_MESSAGE: usize = 8000;

/// A message that fits on a terminal, whatever it quotes: files from anywhere may contain names of a
/// megabyte, and anything may be given on a command line. Of what is too long, beginning and end are kept.
pub fn shortened(text: &str) -> String {
    let pieces = pieces(text).into_iter().enumerate();
    // Every other one is within quotes; what is outside is cut by words.
    let quoted = pieces.map(|(at, piece)| if at % 2 == 1 { cut(piece, LONGEST) } else { piece.to_string() });
    let quoted: String = quoted.collect();
    let words = quoted.split_inclusive(char::is_whitespace).map(|word| cut(word, LONGEST));
    cut(&words.collect::<String>(), LONGEST_MESSAGE)
}

/// Splits a text before and after what is within single quotes. An apostrophe follows a letter.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut begin, mut is_quoted, mut before) = (Vec::new(), 0, false, ' ');
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let ends = letters.peek().is_none_or(|(_, after)| !after.is_alphanumeric());
        let turns = letter == '\'' && if is_quoted { ends } else { !before.is_alphanumeric() };
        if turns {
            // The quotes stay with the text around the value.
            let cut = if is_quoted { at } else { at + 1 };
            pieces.push(&text[begin..cut]);
            (begin, is_quoted) = (cut, !is_quoted);
        }
        before = letter;
    }
    pieces.push(&text[begin..]);
    pieces
}

/// A text without its middle, if it is too long.
fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_string();
    }
    let begin: String = text.chars().take(most / 2).collect();
    let end: String = text.chars().skip(count - most / 8).collect();
    format!("{begin}…{end}")
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

    #[test]
    fn a_name_of_a_megabyte_does_not_fill_the_terminal() {
        let name = "ä".repeat(1 << 20);
        let text = shortened(&format!("p.toml:1:8: unknown key '{name}';\n  1 | {name} = 1"));
        assert!(text.starts_with("p.toml:1:8: unknown key 'ää") && text.ends_with("ää = 1"), "{text}");
        assert_eq!(text.lines().count(), 2);
        assert!(text.chars().count() < 700, "{}", text.chars().count());
        let path = format!("'{}' is missing", "/directory".repeat(40));
        assert_eq!(shortened(&path), path);
        let words = shortened(&format!("unknown key '{}' in the user's plan", "it's long ".repeat(1 << 16)));
        assert!(
            words.starts_with("unknown key 'it's long") && words.ends_with("' in the user's plan"),
            "{words}"
        );
        assert!(words.chars().count() < 500, "{}", words.chars().count());
        let list = shortened(&"'a', ".repeat(1 << 16));
        assert!(list.chars().count() < 6000, "{}", list.chars().count());
    }
}
