//! Lines from an untrusted source: a guest, or an engine on a filesystem that may corrupt what it says.
//!
//! A line has a maximum length, a stream a maximum total, and only a limited amount of it may wait to be
//! read: a source that sends more has to wait. So memory stays bounded, whatever the other end does. A stream
//! that exceeds one of the first two limits is invalid, and nothing more is read from it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest line. The result of a phase with its histograms takes a few MiB, and no answer of an agent is
/// longer than a text file of [`TEXT_MAX`] with every byte escaped.
pub const LINE_MAX: usize = 32 << 20;
/// Maximum total of a stream. One line of progress per second adds up to 75 MiB in a week.
pub const STREAM_MAX: usize = 256 << 20;
/// The longest text file that a host reads: files in sysfs and procfs are far shorter.
pub const TEXT_MAX: usize = 4 << 20;

/// The number of bytes of an invalid line to report, and of each end of the error.
const EXCERPT: usize = 200;

/// The limits on the data that waits to be read: bytes, and lines.
const WAITING_BYTES: usize = 2 * LINE_MAX;
const WAITING_LINES: usize = 1024;

/// A limit that a stream has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// [`LINE_MAX`].
    Line,
    /// [`STREAM_MAX`].
    Stream,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Line => write!(f, "it sent a line of more than {} MiB", LINE_MAX >> 20),
            Excess::Stream => write!(f, "it sent more than {} MiB", STREAM_MAX >> 20),
        }
    }
}

/// The input that arrived within the time limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A line, including its end; the last line of a stream may have none.
    Line(Vec<u8>),
    /// Nothing yet.
    Silence,
    /// The stream has exceeded a limit and is not read any further.
    TooMuch(Excess),
    /// The stream has ended.
    End,
}

/// Reads one line into `line`, including its end; leaves it empty at the end of the input.
///
/// # Errors
/// Those of the input, and [`Excess::Line`] as an error of the kind `FileTooLarge`.
pub fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    input.take(LINE_MAX as u64 + 1).read_until(b'\n', line)?;
    match line.len() > LINE_MAX {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, Excess::Line.to_string())),
        false => Ok(()),
    }
}

/// The report of an invalid line: how it begins, and what is wrong with it.
pub fn excerpt(line: &[u8], problem: &str) -> String {
    let start = String::from_utf8_lossy(&line[..line.len().min(EXCERPT)]);
    format!("{} ({})", start.trim_end(), shortened(problem))
}

/// Shortens the description of what is wrong with a line: parsers quote what they do not know, at any length.
pub fn shortened(problem: &str) -> Cow<'_, str> {
    let at = |place: usize| (0..=place).rev().find(|at| problem.is_char_boundary(*at)).unwrap_or(0);
    match problem.len() > 2 * EXCERPT {
        true => format!("{} ... {}", &problem[..at(EXCERPT)], &problem[at(problem.len() - EXCERPT)..]).into(),
        false => problem.into(),
    }
}

/// The lines of a stream, read by a separate thread.
#[derive(Debug)]
pub struct Lines(Arc<SharedLines>);

#[derive(Debug, Default)]
struct SharedLines {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Why no more lines will come.
    over: Option<Heard>,
    /// `true` if nobody is listening any more.
    abandoned: bool,
}

impl Lines {
    /// Reads a stream until it ends, exceeds a limit or nobody is listening any more.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn listen(stream: impl Read + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(SharedLines::default());
        let lines = Lines(Arc::clone(&shared));
        std::thread::Builder::new().spawn(move || {
            let over = shared.fill(&mut BufReader::with_capacity(1 << 16, stream));
            shared.lock().over = Some(over);
            shared.changed.notify_all();
        })?;
        Ok(lines)
    }

    /// The next line, waiting this long for it.
    pub fn next(&self, timeout: Duration) -> Heard {
        let deadline = Instant::now() + timeout;
        let mut waiting = self.0.lock();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.bytes -= line.len();
                self.0.changed.notify_all();
                return Heard::Line(line);
            }
            if let Some(over) = &waiting.over {
                return over.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Heard::Silence;
            }
            let woken = self.0.changed.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.lock().abandoned = true;
        self.0.changed.notify_all();
    }
}

impl SharedLines {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads lines until there are no more, and returns why.
    fn fill(&self, input: &mut impl BufRead) -> Heard {
        let mut whole = 0;
        loop {
            let mut line = Vec::new();
            match read_line(input, &mut line) {
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    return Heard::TooMuch(Excess::Line);
                }
                Err(_) => return Heard::End,
                Ok(()) if line.is_empty() => return Heard::End,
                Ok(()) => {}
            }
            whole += line.len();
            if whole > STREAM_MAX {
                return Heard::TooMuch(Excess::Stream);
            }
            if !self.put(line) {
                return Heard::End;
            }
        }
    }

    /// Waits until there is room; returns whether anybody is still listening.
    fn put(&self, line: Vec<u8>) -> bool {
        let full = |waiting: &mut Waiting| {
            let is_full = waiting.lines.len() >= WAITING_LINES || waiting.bytes + line.len() > WAITING_BYTES;
            is_full && !waiting.lines.is_empty() && !waiting.abandoned
        };
        let room = self.changed.wait_while(self.lock(), full);
        let mut waiting = room.unwrap_or_else(PoisonError::into_inner);
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        self.changed.notify_all();
        !waiting.abandoned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LONG: Duration = Duration::from_secs(600);

    /// Gives the same bytes for ever, and counts how many were taken.
    struct Endless(&'static [u8], Arc<AtomicUsize>);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let pattern = self.0;
            let whole = buffer.len().max(pattern.len()) / pattern.len() * pattern.len();
            let length = whole.min(buffer.len() / pattern.len() * pattern.len());
            for chunk in buffer[..length].chunks_exact_mut(pattern.len()) {
                chunk.copy_from_slice(pattern);
            }
            self.1.fetch_add(length, Ordering::Relaxed);
            Ok(length)
        }
    }

    fn endless(pattern: &'static [u8]) -> (Endless, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        (Endless(pattern, Arc::clone(&taken)), taken)
    }

    #[test]
    fn what_is_told_of_a_line_has_both_ends_of_the_problem_and_whole_characters() {
        assert_eq!(excerpt(b"some text\n", "no event"), "some text (no event)");
        let problem = format!("unknown {}, at the end", "\u{e9}".repeat(1000));
        let short = shortened(&problem);
        assert!(short.starts_with("unknown \u{e9}") && short.ends_with("\u{e9}, at the end"), "{short}");
        assert!(short.len() < 2 * EXCERPT + 10, "{} bytes", short.len());
    }

    #[test]
    fn lines_come_in_their_order_and_then_the_end() {
        let lines = Lines::listen(Cursor::new("one\ntwo\n\u{ff}")).unwrap();
        assert_eq!(lines.next(LONG), Heard::Line(b"one\n".to_vec()));
        assert_eq!(lines.next(LONG), Heard::Line(b"two\n".to_vec()));
        assert_eq!(lines.next(LONG), Heard::Line("\u{ff}".as_bytes().to_vec()));
        assert_eq!(lines.next(LONG), Heard::End);
        assert_eq!(lines.next(LONG), Heard::End);
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let (stream, taken) = endless(b"aaaaaaaa");
        let lines = Lines::listen(stream).unwrap();
        assert_eq!(lines.next(LONG), Heard::TooMuch(Excess::Line));
        assert_eq!(lines.next(LONG), Heard::TooMuch(Excess::Line));
        assert!(taken.load(Ordering::Relaxed) <= LINE_MAX + (1 << 17));
        let mut line = Vec::new();
        let error = read_line(&mut BufReader::new(endless(b"a").0), &mut line).unwrap_err();
        assert_eq!(error.to_string(), "it sent a line of more than 32 MiB");
    }

    #[test]
    fn who_floods_is_not_listened_to_until_somebody_reads() {
        let (stream, taken) = endless(b"aaaaaaa\n");
        let lines = Lines::listen(stream).unwrap();
        for _ in 0..2 * WAITING_LINES {
            assert_eq!(lines.next(LONG), Heard::Line(b"aaaaaaa\n".to_vec()));
        }
        let waiting = lines.0.lock();
        assert!(waiting.lines.len() <= WAITING_LINES);
        assert!(taken.load(Ordering::Relaxed) <= (3 * WAITING_LINES + 1) * 8 + (1 << 16));
    }

    #[test]
    fn a_stream_has_a_largest_sum() {
        const LINE: [u8; 4096] = {
            let mut line = [b'a'; 4096];
            line[4095] = b'\n';
            line
        };
        static PATTERN: [u8; 4096] = LINE;
        let lines = Lines::listen(endless(&PATTERN).0).unwrap();
        let mut read = 0;
        loop {
            match lines.next(LONG) {
                Heard::Line(line) => read += line.len(),
                other => break assert_eq!(other, Heard::TooMuch(Excess::Stream)),
            }
        }
        assert_eq!(read, STREAM_MAX);
    }

    #[test]
    fn a_listener_that_nobody_wants_ends() {
        let (stream, taken) = endless(b"aaaaaaa\n");
        let lines = Lines::listen(stream).unwrap();
        let shared = Arc::clone(&lines.0);
        drop(lines);
        let over = shared.changed.wait_while(shared.lock(), |waiting| waiting.over.is_none()).unwrap();
        assert!(over.abandoned);
        assert!(taken.load(Ordering::Relaxed) <= (WAITING_LINES + 2) * 8 + (1 << 16));
    }
}
