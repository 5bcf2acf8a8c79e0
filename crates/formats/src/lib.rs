//! The formats of other programs: what they print read as phases and figures, and our figures written as they print them.
//!
//! One module per format, its reader beside its writer: [`fsopbench`], [`bonnie`], [`postmark`], and [`fio`], which is only
//! read. A reader believes what a text says and completes nothing: a figure that is not there is absent. A writer takes plain
//! figures, so it knows nothing of trials, of what they are merged from, or of where the text goes.

pub mod bonnie;
pub mod fio;
pub mod fsopbench;
pub mod postmark;

use fsdyno_core::units::Nanos;
use fsdyno_core::{PhaseResult, Warning, WarningKind};

/// What a program says that it measured.
#[derive(Debug, Default, PartialEq)]
pub struct Results {
    /// Its phases.
    pub phases: Vec<PhaseResult>,
    /// What a reader must know of them.
    pub warnings: Vec<Warning>,
}

impl Results {
    fn warn(&mut self, kind: WarningKind, text: impl Into<String>) {
        self.warnings.push(Warning::new(kind, text));
    }
}

/// Seconds as nanoseconds, rounded.
fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}
