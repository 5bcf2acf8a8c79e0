//! Untrusted text on a terminal and in a spreadsheet: characters that would control the terminal or hide
//! something are escaped, and [`csv_text`] makes of a formula a text.
//!
//! Names come from plans, imported files, devices, processes and consoles of guests. Any of them may contain
//! an escape sequence, which moves the cursor, changes the title or makes the terminal type. So everything
//! that people read goes through one place, a [`Visible`] writer or [`visible`]: control characters (C0, DEL,
//! C1), overrides of text direction and zero-width characters are written in Rust's notation, `\x1b` and
//! `\u{202e}`. All other Unicode stays.

use std::borrow::Cow;
use std::io::{self, Write};

/// The escape sequences that this program uses itself: starts and ends of colours.
const OWN: &[&str] =
    &["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[38;5;11m", "\x1b[39m", "\x1b[22m"];

/// The kind of text that is written, which decides how dangerous characters are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// Text.
    Plain,
    /// Text in which the colours of this program pass.
    Coloured,
    /// HTML, in which tabs are harmless.
    Page,
    /// JSON, in which such characters only occur in strings and have JSON's own escapes.
    Json,
}

/// Text that does not control a terminal; line ends stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    spelt(text, Spelling::Plain)
}

/// Returns whether a character controls the terminal or is invisible.
fn is_dangerous(letter: char) -> bool {
    match letter {
        // Most text consists of these.
        ' '..='~' | '\n' => false,
        _ if letter.is_control() => true,
        // Text direction and zero width.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// The same for any kind of output.
pub(crate) fn spelt(text: &str, spelling: Spelling) -> Cow<'_, str> {
    if !text.contains(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let own = OWN.iter().find(|own| spelling == Spelling::Coloured && rest.starts_with(**own));
        // postmark's tables are indented by tabs.
        let indents =
            letter == '\t' && (spelling == Spelling::Page || out.is_empty() || out.ends_with(['\n', '\t']));
        let passes = own.map_or(letter.len_utf8(), |own| own.len());
        let (now, later) = rest.split_at(passes);
        match own.is_some() || indents || !is_dangerous(letter) {
            true => out.push_str(now),
            false => spell(&mut out, letter, spelling),
        }
        rest = later;
    }
    Cow::Owned(out)
}

fn spell(out: &mut String, letter: char, spelling: Spelling) {
    match (spelling, letter) {
        (Spelling::Json, _) => {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
        (_, '\t') => out.push_str("\\t"),
        (_, '\r') => out.push_str("\\r"),
        (_, '\0'..='\x7f') => out.push_str(&format!("\\x{:02x}", u32::from(letter))),
        _ => out.push_str(&format!("\\u{{{:x}}}", u32::from(letter))),
    }
}

/// A writer for anything that people may look at: it makes each line [`visible`] and passes it on.
#[derive(Debug)]
pub struct Visible<W: Write> {
    out: W,
    spelling: Spelling,
    /// The line that has not ended yet.
    line: Vec<u8>,
}

impl<W: Write> Visible<W> {
    /// Writes to `out`.
    pub fn new(out: W, spelling: Spelling) -> Self {
        Visible { out, spelling, line: Vec::new() }
    }

    /// Passes on the pending bytes.
    fn pass(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(spelt(&String::from_utf8_lossy(&line), self.spelling).as_bytes())
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            None => self.line.extend_from_slice(bytes),
            Some(end) => {
                self.line.extend_from_slice(&bytes[..=end]);
                self.pass()?;
                self.line.extend_from_slice(&bytes[end + 1..]);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass()?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Visible<W> {
    fn drop(&mut self) {
        // A caller that wants to know about errors flushes first.
        let _ = self.flush();
    }
}

/// Untrusted text as a cell of CSV that neither a spreadsheet nor a terminal obeys.
///
/// A spreadsheet takes a cell that begins with one of `=+-@` for a formula, even if it is quoted, and a
/// formula can start programs and send data away. Such text gets a leading `'`, as OWASP advises
/// (<https://owasp.org/www-community/attacks/CSV_Injection>). Figures are not text: negative numbers stay as
/// they are.
pub(crate) fn csv_text(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    format!("{}{}", if formula { "'" } else { "" }, visible(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("plain, äöü 漢字 \u{1f600}\n", "plain, äöü 漢字 \u{1f600}\n"),
            ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
            ("\x1b[2J\r\x08\x7f\0", "\\x1b[2J\\r\\x08\\x7f\\x00"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{202e}txt.exe\u{2066}", "a\\u{202e}txt.exe\\u{2066}"),
            ("ze\u{200b}ro\u{feff}", "ze\\u{200b}ro\\u{feff}"),
            ("\t\tindented\tby", "\t\tindented\\tby"),
            ("\x1b[31mred", "\\x1b[31mred"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn only_our_own_colours_pass() {
        let coloured = |text| spelt(text, Spelling::Coloured).into_owned();
        assert_eq!(coloured("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m");
        assert_eq!(coloured("\x1b[8mhidden\x1b[31"), "\\x1b[8mhidden\\x1b[31");
    }

    #[test]
    fn escaped_json_is_the_same_document() {
        let text = "\u{9b}\u{202e}\u{e0041}\x7f\x1b";
        let document = serde_json::to_string(text).unwrap();
        let shown = spelt(&document, Spelling::Json).into_owned();
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn text_that_looks_like_a_formula_is_quoted() {
        for (text, cell) in [
            ("ext4 noatime", "ext4 noatime"),
            ("", ""),
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1", "'+1"),
            ("-s 2G", "'-s 2G"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\\r=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("a=1\nb", "a=1\nb"),
            ("\x1b[31m", "\\x1b[31m"),
        ] {
            assert_eq!(csv_text(text), cell);
        }
    }

    #[test]
    fn a_line_written_in_pieces_is_checked_as_a_whole() {
        let mut out = Vec::new();
        let mut writer = Visible::new(&mut out, Spelling::Coloured);
        for byte in "ä\x1b[31m\u{9b}\nrest\u{202e}".as_bytes() {
            writer.write_all(&[*byte]).unwrap();
        }
        drop(writer);
        assert_eq!(String::from_utf8(out).unwrap(), "ä\x1b[31m\\u{9b}\nrest\\u{202e}");
    }

    proptest! {
        #[test]
        fn nothing_dangerous_passes(text in any::<String>()) {
            let shown = visible(&text).into_owned();
            let indents = |line: &str| line.trim_start_matches('\t').chars().any(is_dangerous);
            prop_assert!(!shown.split('\n').any(indents), "{}", shown);
            prop_assert!(visible(&shown) == shown.as_str(), "{}", shown);
        }
    }
}
