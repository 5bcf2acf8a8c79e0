//! Text for a terminal: the published table, the full table, the summary and the list of sweeps.
//!
//! Nothing here looks at the terminal: width and colour are the caller's to decide. Tables keep to the width given, by
//! leaving columns out and saying so; only the published layout is as wide as it is. Colour adds, it never carries
//! meaning alone.

mod compatible;
mod full;
mod summary;

pub use compatible::compatible;
pub use full::full;
pub use summary::summary;

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use std::io::{self, Write};

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns that lines may take.
    pub width: usize,
    /// Whether to colour.
    pub colour: bool,
}

impl Default for Style {
    /// 80 columns, no colour.
    fn default() -> Self {
        Style { width: 80, colour: false }
    }
}

impl Style {
    /// A heading.
    fn heading(self, text: &str) -> String {
        self.paint(text, anstyle::Style::new().bold())
    }

    /// What a reader must not miss.
    fn alert(self, text: &str) -> String {
        self.paint(text, anstyle::Style::new().fg_color(Some(anstyle::AnsiColor::Yellow.into())))
    }

    fn paint(self, text: &str, style: anstyle::Style) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// A paragraph that a reader must not miss.
    fn painted_paragraph(
        self,
        out: &mut dyn Write,
        indent: usize,
        hang: usize,
        text: &str,
    ) -> io::Result<()> {
        let mut lines = Vec::new();
        self.paragraph(&mut lines, indent, hang, text)?;
        String::from_utf8_lossy(&lines).lines().try_for_each(|line| writeln!(out, "{}", self.alert(line)))
    }

    /// Writes a paragraph wrapped to the width, further lines indented by `hang` more columns than `indent`.
    fn paragraph(self, out: &mut dyn Write, indent: usize, hang: usize, text: &str) -> io::Result<()> {
        let first = " ".repeat(indent);
        let rest = " ".repeat(indent + hang);
        let options = textwrap::Options::new(self.width)
            .initial_indent(&first)
            .subsequent_indent(&rest)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::wrap(text, options).iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// An empty table: no rules, one space between columns, the first column to the left and the others to the right.
    fn table(self, header: Vec<String>) -> Table {
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

/// A cell that stands out where it holds a lower bound.
fn cell(text: String) -> Cell {
    let bound = text.starts_with(">=");
    let cell = Cell::new(text);
    if bound { cell.fg(Color::Yellow) } else { cell }
}

/// Writes a table, its lines indented and free of trailing blanks.
fn write_table(out: &mut dyn Write, table: &Table, indent: usize) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "{:indent$}{}", "", line.trim_end()))
}
