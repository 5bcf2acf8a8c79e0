//! Text for a terminal: the published table, the full table, the summary and the list of sweeps.
//!
//! Nothing here looks at the terminal: the caller decides on width and colour. Tables that do not fit the
//! width leave out columns and say so; only the published layouts have a width of their own. Colour never
//! carries meaning alone.

mod bonnie;
pub(crate) mod clients;
mod collection;
pub(crate) mod columns;
pub(crate) mod comparison;
pub(crate) mod compatible;
mod curve;
mod device_read;
mod external;
pub(crate) mod faults;
pub(crate) mod full;
mod lifecycle;
mod list;
pub(crate) mod losses;
mod page;
mod postmark;
mod race;
mod recommendation;
mod scaling;
mod side_by_side;
mod streaming;
mod study;
mod style;
pub(crate) mod summary;
mod telemetry;

pub use bonnie::{bonnie_csv, is_bonnie};
pub use comparison::comparison;
pub use full::full;
pub use list::{SweepRow, sweep_list};
pub use page::Extent;
pub use race::race;
pub use recommendation::recommendation;
pub use side_by_side::side_by_side;
pub use study::{LayoutError, layout};
pub use style::Style;
pub use summary::summary;
pub use telemetry::telemetry;

use compatible::compatible;
use external::external;
use fsdyno_core::Workload;
use fsdyno_verdict::view::CaseView;
use std::io::{self, Write};

/// Writes a case in the traditional layout of its workload.
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
        Workload::Durability(_) => losses::models(out, case, *style),
        Workload::IoErrors(_) => faults::faults(out, case, *style),
        Workload::Flow(_) => {
            curve::curves(out, case, *style)?;
            scaling::scaling(out, case, *style)
        }
        // No study or program has a table of it, and the summary shows everything.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::visible::{Spelling, Visible};

    type Printer<'a> = Box<dyn Fn(&mut dyn Write, &Style) -> io::Result<()> + 'a>;

    /// Everything that is printed of a sweep except the compatible tables, which have their own width.
    fn all(view: &fsdyno_verdict::View) -> Vec<Printer<'_>> {
        let mut printers: Vec<Printer<'_>> =
            vec![Box::new(move |out, style| summary(out, view, Extent::Full, style))];
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
    fn lines_fit_the_width_and_have_no_trailing_blanks() {
        let view = fixture::view("read-under-write", &fixture::wide_trials());
        for width in [60, 80, 100, 132] {
            for printer in &all(&view) {
                for line in text(printer, Style { width, colour: false, blocks: false }).lines() {
                    assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
                    assert_eq!(line, line.trim_end());
                }
            }
        }
    }

    #[test]
    fn colour_does_not_change_the_text() {
        let view = fixture::view("read-under-write", &fixture::trials());
        for printer in &all(&view) {
            let plain = text(printer, Style { width: 80, colour: false, blocks: false });
            let coloured = text(printer, Style { width: 80, colour: true, blocks: false });
            assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
            // The padding of a bold cell is bold, so it is not trimmed.
            let stripped = fixture::without_escapes(&coloured);
            assert!(stripped.lines().map(str::trim_end).eq(plain.lines()), "{stripped}");
        }
    }

    /// Written through [`Visible`], as on a terminal: our colours pass, and nothing else.
    #[test]
    fn hostile_names_cannot_control_the_terminal() {
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

    /// [`Visible`] changes nothing if all names are harmless: it lets all of our own colours pass.
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

    /// Prints everything, to look at: `cargo test -p fsdyno-report look -- --nocapture`.
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
