//! The layout of text: width, colour, paragraphs and tables.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table};
use std::io::{self, Write};

/// The layout of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Maximum width of a line in columns.
    pub width: usize,
    /// `true` if text is coloured.
    pub colour: bool,
    /// `true` if the terminal shows Unicode's block elements, of which bars consist.
    pub blocks: bool,
}

impl Default for Style {
    /// 80 columns, no colour, no bars.
    fn default() -> Self {
        Style { width: 80, colour: false, blocks: false }
    }
}

/// A share of 1 as a bar in this many columns, to an eighth of a column.
pub(super) fn bar(share: f64, columns: u32) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * f64::from(columns) * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// The meaning that colour conveys in addition to the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Heading,
    /// Text that a reader must not miss.
    Alert,
    /// Better than the baseline.
    Good,
    /// Worse than the baseline.
    Bad,
}

impl Style {
    pub(super) fn paint(self, paint: Paint, text: &str) -> String {
        let coloured = |colour: anstyle::AnsiColor| anstyle::Style::new().fg_color(Some(colour.into()));
        let style = match paint {
            Paint::Plain => anstyle::Style::new(),
            Paint::Heading => anstyle::Style::new().bold(),
            Paint::Alert => coloured(anstyle::AnsiColor::Yellow),
            Paint::Good => coloured(anstyle::AnsiColor::Green),
            Paint::Bad => coloured(anstyle::AnsiColor::Red),
        };
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// Writes a paragraph, wrapped to the width and indented, further lines by two more columns.
    pub(super) fn paragraph(
        self,
        out: &mut dyn Write,
        paint: Paint,
        indent: usize,
        text: &str,
    ) -> io::Result<()> {
        let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
        self.wrapped(text, &first, &rest)
            .iter()
            .try_for_each(|line| writeln!(out, "{}", self.paint(paint, line)))
    }

    /// A text in lines that fit, the first one after `first`, the others after `rest`. A percent sign stays
    /// with its number.
    pub fn wrapped(self, text: &str, first: &str, rest: &str) -> Vec<String> {
        let options = textwrap::Options::new(self.width)
            .initial_indent(first)
            .subsequent_indent(rest)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        let glued = text.replace(" %", "\u{a0}%");
        textwrap::wrap(&glued, options).iter().map(|line| line.replace('\u{a0}', " ")).collect()
    }

    /// An empty table: no rules, one space between columns, the first column left-aligned, the others
    /// right-aligned.
    pub(super) fn table(self, header: Vec<String>) -> Table {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let columns = header.len();
        table.set_header(header.into_iter().map(|text| Cell::new(text).add_attribute(Attribute::Bold)));
        for index in 0..columns {
            if let Some(column) = table.column_mut(index) {
                column.set_padding(if index == 0 { (0, 0) } else { (1, 0) });
                column.set_cell_alignment(if index == 0 {
                    CellAlignment::Left
                } else {
                    CellAlignment::Right
                });
            }
        }
        table
    }
}

/// A cell, highlighted if it is a lower bound.
pub(super) fn cell(text: String) -> Cell {
    let bound = text.starts_with(">=");
    let cell = Cell::new(text);
    if bound { cell.fg(Color::Yellow) } else { cell }
}

/// The fewest columns in which names are still readable when they are wrapped.
const NAME_MIN: usize = 12;

/// Writes a table, with two blanks between columns if there is room, and without trailing blanks. If there is
/// none, the names wrap, never the figures; if that is not enough, lines are longer than the width: a
/// terminal breaks them, and nothing is lost.
pub(super) fn write_table(out: &mut dyn Write, mut table: Table, style: Style) -> io::Result<()> {
    let widths: Vec<usize> =
        table.column_max_content_widths().iter().map(|width| usize::from(*width)).collect();
    let gaps = widths.len().saturating_sub(1);
    let all = widths.iter().sum::<usize>();
    if all + 2 * gaps <= style.width {
        table.column_iter_mut().skip(1).for_each(|column| {
            column.set_padding((2, 0));
        });
    } else if all + gaps > style.width {
        // A column of marks may be ahead of the names.
        let names = if widths.len() > 1 && widths[1] > widths[0] { 1 } else { 0 };
        let room = style.width.saturating_sub(all + gaps - widths[names]);
        if room < widths[names].min(NAME_MIN) {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        for (_, column) in table.column_iter_mut().enumerate().filter(|(index, _)| *index != names) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}
