//! Shows trials in every way, and checks what must hold for the output.

use fsdyno_core::SweepHeader;
use fsdyno_core::{Study, TrialRecord};
use fsdyno_report::comparison as written;
use fsdyno_report::export::{ExportFormat, ExportKind, ExportTable};
use fsdyno_report::html::{Sources, page};
use fsdyno_report::published;
use fsdyno_report::terminal::layout;
use fsdyno_report::{
    Spelling, Style, Visible, json,
    terminal::{self, Extent},
};
use fsdyno_verdict::comparison::{self, Comparison, Side};
use fsdyno_verdict::{Question, Recommendation, View};
use std::io::{self, Write};
use std::path::Path;

/// The number of inputs for each HTML page, and for each side-by-side table among those shown in the layout
/// of a study. These two cost more than everything else.
const PAGES: u64 = 2048;
const BESIDE: u64 = 16;

/// Shows trials in one of the ways that fsdyno has, chosen by `lot`, so that many inputs cover all of them.
/// An inconsistent record may be rejected with an error, but nothing may panic.
pub fn some(trials: &[TrialRecord], lot: u64) {
    with_header(trials, &header("read"), lot);
}

/// The same with a given header.
pub fn with_header(trials: &[TrialRecord], header: &SweepHeader, lot: u64) {
    let wide = Style { width: 132, colour: true, blocks: true };
    match lot % 8 {
        0 | 1 => printed(Style::default(), |out, style| tables(out, header, trials, style)),
        2 => printed(wide, |out, style| tables(out, header, trials, style)),
        3 => exports(header, trials),
        4 => printed(wide, |out, style| terminal::telemetry(out, trials, true, style)),
        5 => printed(Style::default(), |out, style| {
            let recommendation = Recommendation::new(header, trials, &Question::default());
            serde_json::to_string(&recommendation).expect("a recommendation is JSON");
            terminal::recommendation(out, &recommendation, Extent::Page("fsdyno recommend"), style)
        }),
        6 => compared(header, trials),
        _ => as_published(header, trials, lot / 8),
    }
    if (lot / 64).is_multiple_of(PAGES) {
        let details = |case| Ok(trials.iter().filter(|trial| trial.case == case).cloned().collect());
        let _ = page(&Sources { header: header.clone(), trials, details: &details });
    }
}

/// A header for trials that belong to no sweep.
pub fn header(measure: &str) -> SweepHeader {
    SweepHeader {
        id: "1".to_string(),
        name: "fuzz".to_string(),
        plan_toml: String::new(),
        overrides: Vec::new(),
        started: String::new(),
        finished: None,
        seed: 1,
        measure: measure.parse().expect("a measure"),
        race: None,
        looks: Default::default(),
        selected: None,
    }
}

/// Prints as fsdyno prints to a terminal, and checks that the text contains no control sequences. Printing
/// may fail with an error.
fn printed(style: Style, print: impl FnOnce(&mut dyn Write, &Style) -> io::Result<()>) {
    let mut text = Vec::new();
    let spelling = if style.colour { Spelling::Coloured } else { Spelling::Plain };
    let mut out = Visible::new(&mut text, spelling);
    let _ = print(&mut out, &style);
    out.flush().expect("memory");
    drop(out);
    let text = String::from_utf8(text).expect("what is printed is UTF-8");
    let commands = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t' | '\x1b');
    assert!(!text.contains(commands), "a control character is printed: {text:?}");
    assert!(style.colour || !text.contains('\x1b'), "an escape sequence is printed: {text:?}");
}

fn tables(
    out: &mut dyn Write,
    header: &SweepHeader,
    trials: &[TrialRecord],
    style: &Style,
) -> io::Result<()> {
    let view = View::new(header, trials).map_err(io::Error::other)?;
    for case in &view.cases {
        terminal::classic(out, case, style)?;
        terminal::full(out, case, style)?;
    }
    terminal::summary(out, &view, Extent::Full, style)?;
    terminal::summary(out, &view, Extent::Page("fsdyno show"), style)
}

fn exports(header: &SweepHeader, trials: &[TrialRecord]) {
    let mut out = Vec::new();
    for kind in ExportKind::ALL {
        for format in [ExportFormat::Csv, ExportFormat::Json] {
            ExportTable::new(*kind, header, trials).write(&mut out, format).expect("memory");
        }
    }
    terminal::bonnie_csv(&mut out, trials).expect("memory");
    serde_json::to_writer(&mut out, &json::sweep(header, trials)).expect("memory");
}

fn compared(header: &SweepHeader, trials: &[TrialRecord]) {
    let side = |name| Side {
        name,
        sweep: 1,
        store: Path::new(""),
        sweep_name: &header.name,
        trials,
        whole: trials,
        repeated_looks: false,
    };
    let question = comparison::ComparisonQuestion { measures: Vec::new(), threshold: 0.05, seed: 1 };
    let comparison = Comparison::new(side("first"), side("second"), &question);
    printed(Style::default(), |out, style| terminal::comparison(out, &comparison, Extent::Notes, style));
    serde_json::to_string(&written::document(&comparison)).expect("a comparison is JSON");
    written::csv(&mut Vec::new(), &comparison).expect("memory");
}

fn as_published(header: &SweepHeader, trials: &[TrialRecord], lot: u64) {
    let study = Study::ALL[lot as usize % Study::ALL.len()];
    printed(Style::default(), |out, style| {
        layout(out, study, header, trials, style).map_err(io::Error::other)
    });
    if lot.is_multiple_of(BESIDE) {
        let names: Vec<&str> = published::names().collect();
        let name = names[(lot / BESIDE) as usize % names.len()];
        let figures = published::find(name).expect("it is one of them");
        let beside = published::side_by_side(header, trials, figures).expect("figures of our own");
        printed(Style::default(), |out, style| terminal::side_by_side(out, &beside, style));
        published::side_by_side_csv(&mut Vec::new(), &beside).expect("memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::Value;

    /// Every way of [`with_header`], and the page.
    const LOTS: std::ops::Range<u64> = 0..8 * BESIDE * 8;

    /// Replaces each number below `at` by the largest that is still valid in a record.
    fn enlarge(record: &mut Value, at: &str) {
        let children: Vec<String> = match record.pointer(at) {
            Some(Value::Object(members)) => members.keys().map(|key| format!("{at}/{key}")).collect(),
            Some(Value::Array(values)) => (0..values.len()).map(|index| format!("{at}/{index}")).collect(),
            Some(Value::Number(_)) => {
                for largest in [u64::MAX, i64::MAX as u64, u32::MAX.into()] {
                    *record.pointer_mut(at).expect("it is there") = largest.into();
                    if serde_json::from_value::<TrialRecord>(record.clone()).is_ok() {
                        return;
                    }
                }
                panic!("no large number is accepted at {at}");
            }
            _ => return,
        };
        children.iter().for_each(|child| enlarge(record, child));
    }

    /// Sums saturate at the largest number. Only a store that somebody has modified has such figures.
    #[test]
    fn the_largest_figures_are_shown_in_every_way() {
        let mut record = serde_json::to_value(&sample::repeated()[0]).expect("a record is JSON");
        for part in ["/phases", "/lifecycle_ns", "/trees", "/filled", "/layout", "/timer", "/durability"] {
            enlarge(&mut record, part);
        }
        let record: TrialRecord = serde_json::from_value(record).expect("a record");
        let trials: Vec<TrialRecord> =
            (0..3).map(|block| TrialRecord { trial: block, block, ..record.clone() }).collect();
        LOTS.for_each(|lot| with_header(&trials, &header("read"), lot));
        LOTS.for_each(|lot| with_header(&trials[..1], &header("write"), lot));
    }
}
