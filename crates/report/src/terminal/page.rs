//! An answer on one page: 24 lines, the height of a terminal since the VT100.
//!
//! The headline, the table and the next step are always there. What does not fit makes room in this order:
//! rows of the table beyond the first few, what is said after the first paragraph, more rows, that paragraph,
//! which says what the choice costs and how safe it is, and last the reasons for doubt, but for the first.

use super::style::{Paint, Style};
use fsdyno_verdict::recommendation::Answer;
use fsdyno_verdict::text;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Lines of an answer; the last one of a page says what is elsewhere.
const HEIGHT: usize = 24 - 1;

/// A part of a page of which there is more or less.
type Part = fn(&mut Room) -> &mut usize;

/// The parts of a page that make room for the rest, in turn, each down to so many.
const MAKES_ROOM: [(Part, usize); 7] = {
    const ROWS: Part = |room| &mut room.rows;
    const DOUBTS: Part = |room| &mut room.doubts;
    const PARAGRAPHS: Part = |room| &mut room.paragraphs;
    [(ROWS, 6), (DOUBTS, 2), (PARAGRAPHS, 1), (ROWS, 4), (PARAGRAPHS, 0), (DOUBTS, 1), (ROWS, 2)]
};

/// The extent to which an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent<'a> {
    /// A page. What is not on it is printed by this command with `--notes` or `--full`.
    Page(&'a str),
    /// Everything that is known about the answer, without the figures of every operation.
    Notes,
    /// Everything.
    Full,
}

/// A table of which some rows may be left out.
pub(super) struct Rows<'a> {
    /// Their number.
    pub count: usize,
    /// Those that stay, in the order in which they matter.
    pub first: Vec<usize>,
    /// Writes those for which this is true.
    #[expect(clippy::type_complexity, reason = "named, it would say less")]
    pub write: &'a dyn Fn(&mut dyn Write, &dyn Fn(usize) -> bool) -> io::Result<()>,
}

/// The parts of an answer, each ready to be written.
pub(super) struct Page<'a> {
    pub head: Vec<u8>,
    /// The other statements, a paragraph each.
    pub paragraphs: Vec<Vec<u8>>,
    pub rows: Rows<'a>,
    /// The number of reasons for doubt.
    pub doubts: usize,
    /// Writes what is below the table, with the first so many of the reasons.
    pub foot: &'a dyn Fn(&mut dyn Write, usize) -> io::Result<()>,
}

/// The number of its parts for which a page has room.
#[derive(Debug, Clone, Copy)]
struct Room {
    paragraphs: usize,
    rows: usize,
    doubts: usize,
}

impl Page<'_> {
    /// Writes what fits.
    pub fn write(&self, out: &mut dyn Write, extent: Extent<'_>, style: Style) -> io::Result<()> {
        let Page { doubts, .. } = *self;
        let mut room = Room { paragraphs: self.paragraphs.len(), rows: self.rows.count, doubts };
        let Extent::Page(more) = extent else { return self.parts(out, room, "", style) };
        let fits = |room| -> io::Result<bool> {
            let mut text = Vec::new();
            self.parts(&mut text, room, more, style)?;
            Ok(lines(&text) <= HEIGHT)
        };
        room.rows = room.rows.min(HEIGHT);
        for (of, least) in MAKES_ROOM {
            while *of(&mut room) > least && !fits(room)? {
                *of(&mut room) -= 1;
            }
        }
        // What went last may have left room for rows that went before.
        while room.rows < self.rows.count && fits(Room { rows: room.rows + 1, ..room })? {
            room.rows += 1;
        }
        self.parts(out, room, more, style)
    }

    fn parts(&self, out: &mut dyn Write, room: Room, more: &str, style: Style) -> io::Result<()> {
        let Room { paragraphs, rows, doubts } = room;
        out.write_all(&self.head)?;
        self.paragraphs[..paragraphs].iter().try_for_each(|paragraph| out.write_all(paragraph))?;
        writeln!(out)?;
        let first = self.rows.first.iter().copied();
        let mut kept = BTreeSet::new();
        for row in first.chain(0..self.rows.count) {
            if kept.len() < rows {
                kept.insert(row);
            }
        }
        (self.rows.write)(out, &|row| kept.contains(&row))?;
        if rows < self.rows.count {
            let others = text::plural((self.rows.count - rows) as u64, "other");
            let text = format!("(and {others}: {more} --notes)");
            style.paragraph(out, Paint::Plain, 0, &text)?;
        }
        (self.foot)(out, doubts)
    }
}

fn lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// The headline, and each paragraph after it.
pub(super) fn sentences(answer: &Answer, style: Style) -> io::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut head = Vec::new();
    style.paragraph(&mut head, Paint::Heading, 0, &answer.judgement.headline)?;
    let mut paragraphs = Vec::new();
    for sentence in &answer.sentences {
        let mut paragraph = Vec::new();
        style.paragraph(&mut paragraph, Paint::Plain, 0, sentence)?;
        paragraphs.push(paragraph);
    }
    Ok((head, paragraphs))
}

/// The first so many reasons for doubt and the next step, after an empty line; nothing if there are none.
pub(super) fn doubts(
    out: &mut dyn Write,
    answer: &Answer,
    most: usize,
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    if !answer.doubts.is_empty() || answer.judgement.next.is_some() {
        writeln!(out)?;
    }
    for doubt in answer.doubts.iter().take(most) {
        let text = format!("doubt: {doubt}");
        match extent {
            Extent::Page(_) => {
                style.paragraph(out, Paint::Alert, 0, &in_lines(&text, DOUBT_LINES * style.width))?
            }
            _ => style.paragraph(out, Paint::Alert, 0, &text)?,
        }
    }
    if let Some(next) = &answer.judgement.next {
        style.paragraph(out, Paint::Plain, 0, &format!("next: {next}"))?;
    }
    Ok(())
}

/// Lines of a reason on a page.
const DOUBT_LINES: usize = 2;

/// The beginning of a text, in whole clauses or else words, if it is longer than this many columns less what
/// wrapping costs.
fn in_lines(text: &str, columns: usize) -> String {
    let most = columns.saturating_sub(16);
    if text.chars().count() <= most {
        return text.to_string();
    }
    let cut: String = text.chars().take(most).collect();
    let whole = [". ", "; "].into_iter().filter_map(|end| cut.rfind(end)).max();
    if let Some(end) = whole.filter(|end| *end > most / 2) {
        return cut[..end].to_string();
    }
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{} ...", cut[..end].trim_end_matches([',', ';', ':']))
}

/// Says what is not on a page.
pub(super) fn elsewhere(
    out: &mut dyn Write,
    [notes, warnings]: [usize; 2],
    extent: Extent<'_>,
    style: Style,
) -> io::Result<()> {
    let Extent::Page(more) = extent else { return Ok(()) };
    // Not the sum of the column `warn`: several configurations may have one kind.
    let parts = [(notes, "note", ""), (warnings, "kind", " of warnings")];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, noun, rest)| text::plural(count as u64, noun) + rest).collect();
    match &parts[..] {
        [] => Ok(()),
        parts => style.paragraph(out, Paint::Plain, 0, &format!("({}: {more} --notes)", parts.join(" and "))),
    }
}
