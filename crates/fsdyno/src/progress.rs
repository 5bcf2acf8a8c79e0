//! The signs that a long command is alive: a bar with the remaining time on a terminal, plain lines
//! elsewhere.

use crate::say;
use fsdyno_report::visible;
pub use fsdyno_verdict::text::human;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

/// Shows the progress of a sweep on stderr.
pub struct Display {
    /// Hidden where stderr is no terminal, and if the user wants quiet.
    bar: ProgressBar,
    terminal: bool,
    /// `true` if lines are shown.
    lines: bool,
    /// `true` while something else has the terminal.
    covered: Cell<bool>,
}

impl Display {
    /// For this number of trials.
    pub fn new(trials: u64) -> Self {
        let terminal = std::io::stderr().is_terminal() && !say::is_quiet();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(trials * 1000), target);
        let style = ProgressStyle::with_template("{bar:20} {prefix} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Display { bar, terminal, lines: !say::is_quiet(), covered: Cell::new(false) }
    }

    /// For one of many short sweeps, of which only the bar is shown.
    pub fn without_lines(trials: u64) -> Self {
        Display { lines: false, ..Display::new(trials) }
    }

    /// Where the sweep is: `position` in thousandths of trials.
    pub fn update(&self, position: u64, what: &str, left: String) {
        self.bar.set_position(position);
        self.bar.set_prefix(left);
        self.bar.set_message(visible(what).into_owned());
    }

    /// Adds trials to the total.
    pub fn extend(&self, trials: u64) {
        self.bar.set_length(trials * 1000);
    }

    /// One line that stays.
    pub fn line(&self, text: &str) {
        if !self.lines {
            return;
        }
        if self.terminal && !self.covered.get() {
            self.bar.println(visible(text));
        } else {
            say::note(text);
        }
    }

    /// Something else has the terminal: no bar, and lines go where [`say`] keeps them.
    pub fn cover(&self) {
        self.covered.set(true);
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// The terminal is back.
    pub fn uncover(&self) {
        self.covered.set(false);
        if self.terminal {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
