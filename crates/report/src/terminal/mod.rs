//! Text for a terminal: the published table, the full table, the summary and the list of sweeps.
//!
//! Nothing here looks at the terminal: width and colour are the caller's to decide. Tables keep to the width given, by
//! leaving columns out and saying so; only the published layout is as wide as it is. Colour adds, it never carries
//! meaning alone.

mod bonnie;
mod collection;
mod comparison;
pub(crate) mod compatible;
mod device_read;
mod external;
pub(crate) mod full;
mod lifecycle;
mod list;
mod postmark;
mod recommendation;
mod side_by_side;
mod streaming;
pub(crate) mod summary;
mod telemetry;

pub use bonnie::{bonnie_csv, is_bonnie};
pub use comparison::comparison;
use compatible::compatible;
use external::external;
pub use full::full;
pub use list::{SweepRow, sweep_list};
pub use recommendation::recommendation;
pub use side_by_side::side_by_side;
pub use summary::{drift, summary};
pub use telemetry::telemetry;

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use fsdyno_core::Workload;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns that lines may take.
    pub width: usize,
    /// Whether to colour.
    pub colour: bool,
    /// Whether the terminal shows block elements of Unicode, from which bars are drawn.
    pub blocks: bool,
}

impl Default for Style {
    /// 80 columns, no colour, no bars.
    fn default() -> Self {
        Style { width: 80, colour: false, blocks: false }
    }
}

/// A share of 1 as a bar of so many columns, to an eighth of a column.
fn bar(share: f64, columns: u32) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * f64::from(columns) * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Writes a case in the layout in which its workload's figures have always been published.
///
/// # Errors
/// Those of `out`.
pub fn classic(out: &mut dyn Write, case: &CaseView, style: &Style) -> io::Result<()> {
    match &case.workload {
        Workload::DeviceRead(parameters) => device_read::device_read(out, case, parameters, style),
        Workload::Streaming(_) => streaming::streaming(out, case, style),
        Workload::External(_) => external(out, case, style),
        Workload::Collection(_) => collection::table(out, case, style),
        Workload::Postmark(_) => postmark::report(out, case, style),
        Workload::Bonnie(_) => bonnie::bonnie(out, case, style),
        Workload::Fileserver(_) | Workload::Null(_) => compatible(out, case, style),
    }
}

/// What colour says beside the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paint {
    Plain,
    Heading,
    /// What a reader must not miss.
    Alert,
    /// Better than before.
    Good,
    /// Worse than before.
    Bad,
}

impl Style {
    fn paint(self, paint: Paint, text: &str) -> String {
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

    /// Writes a paragraph wrapped to the width, indented, its further lines two columns more.
    fn paragraph(self, out: &mut dyn Write, paint: Paint, indent: usize, text: &str) -> io::Result<()> {
        let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
        let options = textwrap::Options::new(self.width)
            .initial_indent(&first)
            .subsequent_indent(&rest)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::wrap(text, options).iter().try_for_each(|line| writeln!(out, "{}", self.paint(paint, line)))
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

/// Writes a table, two blanks between columns where there is room; its lines end in no blanks.
fn write_table(out: &mut dyn Write, mut table: Table, style: Style) -> io::Result<()> {
    let widths = table.column_max_content_widths();
    let roomy = widths.iter().map(|width| usize::from(*width)).sum::<usize>() + 2 * (widths.len() - 1);
    if roomy <= style.width {
        table.column_iter_mut().skip(1).for_each(|column| {
            column.set_padding((2, 0));
        });
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::visible::{Spelling, Visible};

    type Printer<'a> = Box<dyn Fn(&mut dyn Write, &Style) -> io::Result<()> + 'a>;

    /// Everything that is printed of a sweep, but the compatible tables, which have their own width.
    fn all(view: &fsdyno_verdict::View) -> Vec<Printer<'_>> {
        let mut printers: Vec<Printer<'_>> = vec![Box::new(move |out, style| summary(out, view, style))];
        for case in &view.cases {
            printers.push(Box::new(move |out, style| full(out, case, style)));
        }
        printers
    }

    fn text(printer: &Printer<'_>, style: Style) -> String {
        let mut out = Vec::new();
        printer(&mut out, &style).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_keep_to_the_width_and_end_in_no_blanks() {
        let view = fixture::view("read-under-write", &fixture::wide_trials());
        for width in [80, 100, 132] {
            for printer in &all(&view) {
                for line in text(printer, Style { width, colour: false, blocks: false }).lines() {
                    assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
                    assert_eq!(line, line.trim_end());
                }
            }
        }
    }

    #[test]
    fn colour_adds_and_changes_nothing() {
        let view = fixture::view("read-under-write", &fixture::trials());
        for printer in &all(&view) {
            let plain = text(printer, Style { width: 80, colour: false, blocks: false });
            let coloured = text(printer, Style { width: 80, colour: true, blocks: false });
            assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
            // The padding of a bold cell is bold, and so stays.
            let stripped = fixture::without_escapes(&coloured);
            assert!(stripped.lines().map(str::trim_end).eq(plain.lines()), "{stripped}");
        }
    }

    /// Through the writer that people read by, with every colour and nothing else.
    #[test]
    fn hostile_names_command_no_terminal() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            trial.configuration.name = "a\x1b]0;x\x07\x1b[31m\u{202e}b\u{9b}c\r".to_string();
            trial.phases.iter_mut().for_each(|phase| phase.name.push_str("\x1b[2J"));
        }
        let view = fixture::view("read-under-write", &trials);
        for colour in [false, true] {
            let style = Style { width: 80, colour, blocks: false };
            let spelling = if colour { Spelling::Coloured } else { Spelling::Plain };
            for printer in &all(&view) {
                let mut out = Vec::new();
                printer(&mut Visible::new(&mut out, spelling), &style).unwrap();
                let text = String::from_utf8(out).unwrap();
                assert!(text.contains("\\x1b]0;x"), "{text}");
                let plain = if colour { fixture::without_escapes(&text) } else { text.clone() };
                assert!(!plain.contains(|letter: char| letter.is_control() && letter != '\n'), "{plain}");
                assert!(!plain.contains('\u{202e}'));
            }
        }
    }

    /// What is printed of harmless names is printed as it is, so that none of our own colours is taken for somebody else's.
    #[test]
    fn our_own_colours_pass() {
        let view = fixture::view("read-under-write", &fixture::trials());
        for printer in &all(&view) {
            let style = Style { width: 80, colour: true, blocks: true };
            let mut out = Vec::new();
            printer(&mut Visible::new(&mut out, Spelling::Coloured), &style).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text(printer, style));
        }
    }

    /// Prints everything for the eye: `cargo test -p fsdyno-report look -- --nocapture`.
    #[test]
    fn look() {
        for trials in [fixture::trials(), fixture::wide_trials()] {
            let view = fixture::view("read-under-write", &trials);
            let mut out = Vec::new();
            compatible(&mut out, &view.cases[0], &Style::default()).unwrap();
            println!("{}", String::from_utf8(out).unwrap());
            for printer in &all(&view) {
                let text = text(printer, Style::default());
                assert!(!text.is_empty());
                println!("{text}");
            }
        }
    }
}
