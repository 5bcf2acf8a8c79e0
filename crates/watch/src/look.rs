//! The look of the screen on this terminal: with or without colour, with or without Unicode; and text that
//! fits.

use fsdyno_core::Nanos;
use fsdyno_report::visible;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The abilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// `true` if colours are used.
    pub colour: bool,
    /// `true` if its locale has Unicode's block elements.
    pub unicode: bool,
}

/// The meaning that colour and weight convey in addition to the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Faint,
    Heading,
    Good,
    /// Text that a reader must not miss.
    Alert,
    Bad,
    /// The row that keys act on.
    Chosen,
}

impl Look {
    pub(crate) fn style(self, paint: Paint) -> Style {
        let style = Style::new();
        let coloured = |style: Style, colour| if self.colour { style.fg(colour) } else { style };
        match paint {
            Paint::Plain => style,
            Paint::Faint if self.colour => style.fg(Color::DarkGray),
            Paint::Faint => style.add_modifier(Modifier::DIM),
            Paint::Heading => style.add_modifier(Modifier::BOLD),
            Paint::Good => coloured(style, Color::Green),
            Paint::Alert => coloured(style, Color::Yellow).add_modifier(Modifier::BOLD),
            Paint::Bad => coloured(style, Color::Red).add_modifier(Modifier::BOLD),
            Paint::Chosen => style.add_modifier(Modifier::REVERSED),
        }
    }

    /// Text from anywhere: what would control the terminal is shown instead, and line ends as well.
    pub(crate) fn span(self, paint: Paint, text: impl AsRef<str>) -> Span<'static> {
        Span::styled(one_line(text.as_ref()).into_owned(), self.style(paint))
    }

    /// The text in at most so many columns, shortened in the middle: names of configurations often begin
    /// alike, and end differently.
    pub(crate) fn fit(self, text: &str, columns: usize) -> String {
        let text = one_line(text);
        if text.width() <= columns {
            return text.into_owned();
        }
        let gap = if self.unicode { "…" } else { "~" };
        let room = columns.saturating_sub(1);
        let (head, tail) = (room.div_ceil(2), room / 2);
        let start = within(text.chars(), head);
        let end: String = within(text.chars().rev(), tail).chars().rev().collect();
        if columns == 0 { String::new() } else { format!("{start}{gap}{end}") }
    }

    /// The same, filled up to exactly so many columns.
    pub(crate) fn pad(self, text: &str, columns: usize) -> String {
        let text = self.fit(text, columns);
        let missing = columns.saturating_sub(text.width());
        text + &" ".repeat(missing)
    }

    /// A share of 1 as a bar of so many columns.
    pub(crate) fn bar(self, share: f64, columns: usize) -> String {
        let full = ((share.clamp(0.0, 1.0) * columns as f64).floor() as usize).min(columns);
        let (full_sign, rest) = if self.unicode { ("█", "░") } else { ("#", ".") };
        full_sign.repeat(full) + &rest.repeat(columns - full)
    }

    /// A time as one sign, by its power of ten: up to 100 us, 1 ms, 10 ms, 100 ms, 1 s, 10 s, and more.
    pub(crate) fn heat(self, time: Nanos) -> (char, Paint) {
        const SIGNS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '█'];
        const PLAIN: [char; 7] = ['_', '.', ':', '-', '=', '+', '#'];
        let power = [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000_u64];
        let step = power.iter().filter(|limit| time.0 > **limit).count();
        let paint = match step {
            ..4 => Paint::Plain,
            4 => Paint::Alert,
            _ => Paint::Bad,
        };
        (if self.unicode { SIGNS[step] } else { PLAIN[step] }, paint)
    }
}

/// Text without anything that controls a terminal, line ends included.
fn one_line(text: &str) -> Cow<'_, str> {
    let text = visible(text);
    if text.contains('\n') { Cow::Owned(text.replace('\n', "\\n")) } else { text }
}

fn within(letters: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    letters
        .take_while(|letter| {
            used += letter.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

/// Returns the number of columns that a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look { colour: false, unicode: false };
    const RICH: Look = Look { colour: true, unicode: true };

    #[test]
    fn what_does_not_fit_is_cut_in_the_middle_and_never_too_wide() {
        assert_eq!(RICH.fit("ext4 mq-deadline noatime", 12), "ext4 m…atime");
        assert_eq!(PLAIN.fit("ext4 mq-deadline noatime", 12), "ext4 m~atime");
        assert_eq!(PLAIN.pad("xfs", 5), "xfs  ");
        for columns in 0..30 {
            let fitted = RICH.fit("日本語の名前 with ascii", columns);
            assert!(fitted.width() <= columns, "'{fitted}' in {columns}");
            assert_eq!(RICH.pad("日本語の名前", columns).width(), columns);
        }
    }

    #[test]
    fn nothing_controls_the_terminal() {
        let evil = "a\x1b[31mb\nc\u{202e}\u{9b}d";
        for text in [RICH.fit(evil, 80), RICH.span(Paint::Plain, evil).content.into_owned()] {
            assert!(!text.contains(|letter: char| letter.is_control() || letter == '\u{202e}'), "{text:?}");
            assert!(text.contains("\\x1b") && text.contains("\\n"), "{text}");
        }
    }

    #[test]
    fn a_slower_operation_is_never_a_lower_sign() {
        let steps = [1, 100_001, 1_000_001, 10_000_001, 100_000_001, 1_000_000_001, 10_000_000_001_u64];
        let signs: Vec<char> = steps.iter().map(|time| RICH.heat(Nanos(*time)).0).collect();
        assert!(signs.is_sorted() && signs.iter().collect::<std::collections::BTreeSet<_>>().len() == 7);
        assert_eq!(RICH.heat(Nanos(2_000_000_000)).1, Paint::Bad);
    }

    #[test]
    fn without_colour_nothing_is_coloured() {
        for paint in [Paint::Plain, Paint::Faint, Paint::Heading, Paint::Good, Paint::Alert, Paint::Bad] {
            let style = PLAIN.style(paint);
            assert_eq!((style.fg, style.bg), (None, None), "{paint:?}");
        }
    }
}
