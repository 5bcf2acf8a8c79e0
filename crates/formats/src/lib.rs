//! Formats of other programs: reads what they print as phases and figures, and writes our figures as they
//! print theirs.
//!
//! One module per format, with its reader and its writer: [`fsopbench`], [`bonnie`] and [`postmark`];
//! [`fio`], [`dbench`], [`pgbench`] and [`sqlite`] are only read, and so are the reports of programs that
//! only others run ([`run`]). A reader takes a text at its word and fills in nothing: a figure that is not
//! there is absent. A writer takes plain figures and knows nothing about trials, what they are merged from,
//! or where the text goes. [`import`] makes trials of what was read.

pub mod bonnie;
pub mod dbench;
mod elbencho;
pub mod fio;
pub mod fsopbench;
pub mod import;
mod ior;
mod iozone;
mod mdtest;
pub mod pgbench;
pub mod postmark;
pub mod run;
pub mod sqlite;
mod sysbench;

use fsdyno_core::units::Nanos;
use fsdyno_core::{PhaseResult, Warning, WarningKind};

/// The results that a program reports.
#[derive(Debug, Default, PartialEq)]
pub struct Results {
    /// Its phases.
    pub phases: Vec<PhaseResult>,
    /// The facts about the phases that a reader must know.
    pub warnings: Vec<Warning>,
}

impl Results {
    fn warn(&mut self, kind: WarningKind, text: impl Into<String>) {
        self.warnings.push(Warning::new(kind, text));
    }
}

/// Every program whose reports are read.
pub const REPORTS: &[run::Report] =
    &[mdtest::REPORT, ior::REPORT, elbencho::REPORT, iozone::REPORT, sysbench::REPORT];

/// Seconds as nanoseconds, rounded.
fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}
