//! Hand-made trials and their sweep.

pub use fsdyno_testkit::*;

use fsdyno_core::TrialRecord;
use fsdyno_verdict::View;
use fsdyno_verdict::comparison::{ComparisonQuestion, Side};
use std::io;

/// The view of some trials, ranked by a measure.
pub fn view(measure: &str, trials: &[TrialRecord]) -> View {
    View::new(&header(measure), trials).unwrap()
}

/// A pipe whose reader has gone.
pub struct Closed;

impl io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Text without its colours.
pub fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

/// A question about two sides.
pub fn question(measures: &[&str]) -> ComparisonQuestion {
    let measures = measures.iter().map(|name| name.parse().unwrap()).collect();
    ComparisonQuestion { measures, threshold: 0.05, seed: 42 }
}

/// One of two sides.
pub fn side<'a>(name: &'a str, sweep: i64, trials: &'a [TrialRecord]) -> Side<'a> {
    Side {
        name,
        sweep,
        store: std::path::Path::new(""),
        sweep_name: "nightly",
        trials,
        whole: trials,
        repeated_looks: false,
    }
}
