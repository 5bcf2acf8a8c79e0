//! Keys, read from the terminal itself.
//!
//! ratatui's backend has a reader of events, but that never returns once the terminal is gone: it reads the
//! end of the file over and over, and occupies a processor beside the sweep (seen with crossterm 0.29, when
//! tmux was killed). What a screen needs of keys is little.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use std::time::Duration;

/// The time that the rest of the sequence of a key may take, over a slow connection.
const REST: Duration = Duration::from_millis(50);

/// A key that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C, which is a key like any other in raw mode.
    Interrupt,
}

/// The result of waiting for keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// These, possibly none.
    Keys(Vec<Key>),
    /// The terminal is gone.
    Gone,
}

/// Waits for keys on stdin, which is in raw mode, for at most so long. A signal ends the wait.
pub(crate) fn wait(patience: Duration) -> Input {
    let mut bytes = match read(patience) {
        Ok(bytes) => bytes,
        Err(gone) => return gone,
    };
    // The key Escape, or the beginning of a sequence.
    if bytes.ends_with(b"\x1b") {
        match read(REST) {
            Ok(rest) => bytes.extend(rest),
            Err(gone) => return gone,
        }
    }
    Input::Keys(keys(&bytes))
}

/// Reads the bytes that stdin has within this time.
fn read(patience: Duration) -> Result<Vec<u8>, Input> {
    let terminal = stdin();
    let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
    let time = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    match poll(&mut ready, Some(&time)) {
        Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(_) => return Err(Input::Gone),
    }
    let mut buffer = [0; 256];
    match rustix::io::read(terminal, &mut buffer) {
        Ok(0) => Err(Input::Gone),
        Ok(length) => Ok(buffer[..length].to_vec()),
        Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
        Err(_) => Err(Input::Gone),
    }
}

/// The keys in what a terminal sends (console_codes(4), xterm's control sequences); others are left out.
fn keys(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: &[(&str, Key)] = &[
        ("\x1b[A", Key::Up),
        ("\x1bOA", Key::Up),
        ("\x1b[B", Key::Down),
        ("\x1bOB", Key::Down),
        ("\x1b[5~", Key::PageUp),
        ("\x1b[6~", Key::PageDown),
        ("\x1b[H", Key::Home),
        ("\x1bOH", Key::Home),
        ("\x1b[1~", Key::Home),
        ("\x1b[F", Key::End),
        ("\x1bOF", Key::End),
        ("\x1b[4~", Key::End),
    ];
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut found) = (text.as_ref(), Vec::new());
    while let Some(first) = rest.chars().next() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            found.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        let key = match first {
            '\x1b' => match unknown(rest) {
                0 => Some(Key::Escape),
                length => {
                    rest = &rest[length..];
                    continue;
                }
            },
            '\r' | '\n' => Some(Key::Enter),
            '\x03' => Some(Key::Interrupt),
            letter => (!letter.is_control()).then_some(Key::Char(letter)),
        };
        found.extend(key);
        rest = &rest[first.len_utf8()..];
    }
    found
}

/// The length of a sequence without a meaning here: `ESC [`, parameters, a final letter; or `ESC` and a
/// letter (a key with Alt). 0 for the key Escape.
fn unknown(text: &str) -> usize {
    let after = &text[1..];
    match after.chars().next() {
        Some('[') => {
            let last = after[1..].find(|letter: char| ('@'..='~').contains(&letter));
            last.map_or(text.len(), |last| last + 3)
        }
        Some('O') => 2 + after[1..].chars().next().map_or(0, char::len_utf8),
        Some('\x1b') | None => 0,
        Some(letter) => 1 + letter.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_and_what_has_no_meaning_is_left_out() {
        assert_eq!(keys(b"qp"), [Key::Char('q'), Key::Char('p')]);
        assert_eq!(
            keys(b"\x1b[A\x1b[B\x1bOA\x1b[5~\x1b[6~"),
            [Key::Up, Key::Down, Key::Up, Key::PageUp, Key::PageDown]
        );
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
        assert_eq!(keys(b"\r\n\x03"), [Key::Enter, Key::Enter, Key::Interrupt]);
        // F5, Alt-q, a report of the terminal, half a sequence.
        assert_eq!(keys(b"\x1b[15~s"), [Key::Char('s')]);
        assert_eq!(keys(b"\x1bqs"), [Key::Char('s')]);
        assert_eq!(keys(b"\x1b[?1;2cs"), [Key::Char('s')]);
        assert_eq!(keys(b"\x1b[1;"), []);
        assert_eq!(keys(b"\x1bO"), []);
        assert_eq!(keys(b"\x01\x02\xff\xfe\t"), [Key::Char('\u{fffd}'), Key::Char('\u{fffd}')]);
    }

    #[test]
    fn no_input_is_a_problem() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                keys(&[first, second]);
                keys(&[0x1b, first, second]);
                keys(&[0x1b, b'[', first, second]);
            }
        }
    }
}
